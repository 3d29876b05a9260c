"""Denied names of one directory, planned as one: the same mounts and the same rows as if each had been by itself."""

import os
from collections import Counter
from pathlib import Path

import hypothesis
import pytest
from tests.attacks.conftest import ROOT
from tests.judge.test_judge_is_kernel import policy_file
from tests.judge.trees import World, grown, worlds

import ringfence
from ringfence import keep, plan
from ringfence.enforce import walker
from ringfence.model import Access, Command, Disk, Host, Origin, Policy, Rule, Step, StepKind, Verdict
from ringfence.plan import crowds, view
from ringfence.run import make_request

pytestmark = pytest.mark.needs_userns


def held(step: Step) -> list[tuple[str, str]]:
    """What a mount does, a pair for each place."""
    operation, flags = step.numbers[:2]
    target = os.fsdecode(step.strings[0])
    if operation in (view.MASK_EACH, view.BIND_EACH):
        word = "hidden" if operation == view.MASK_EACH else "read-only"
        return [(word, f"{target}/{os.fsdecode(name)}") for name in step.strings[1].split(b"/")]
    if operation in (view.MASK_FILE, view.MASK_DIRECTORY):
        return [("hidden", target)]
    if operation == view.BIND:
        return [("read-only" if flags & view.READ_ONLY else "writable", target)]
    return [(f"{operation} {step.strings[1:]!r}", target)]


def rows(made: keep.Prepared) -> Counter[tuple[str, int]]:
    """What the warden's table says of each path."""
    verdicts = [
        step.numbers[1] if step.kind is StepKind.NAME else 0
        for step in made.walls.head
        if step.kind in (StepKind.PARENT, StepKind.NAME)
        for _ in (step.strings[0].split(b"/") if step.kind is StepKind.NAME else step.strings)
    ]
    return Counter(zip(made.walls.watched, verdicts, strict=False))  # patterns come behind the names


def planned(world: World, base: Path, file: str, least: int) -> tuple[list[tuple[str, str]], object, set[str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crowds, "LEAST", least)
        patch.setattr(walker, "MOST_SECONDS", 60)  # on a loaded machine one of the two would see less
        keep.forget_all()
        flags = ringfence.Flags(policy_files=(file,), cwd=str(base / "ws"))
        made = keep.prepare(make_request(str(base / "ws"), flags=flags, as_root=ROOT))
        steps = [step for step in made.walls.head if step.kind is StepKind.MOUNT and step.numbers[0] != view.OVERLAY]
        mounts = [pair for step in steps for pair in held(step)]
        assert len({place for _, place in mounts}) == len(mounts), "nothing is mounted twice on one place"
        return mounts, rows(made), {rule.path for rule in made.policy.rules}


@pytest.mark.timeout(120)
@hypothesis.settings(
    max_examples=150, deadline=None, suppress_health_check=list(hypothesis.HealthCheck), database=None,
    phases=[hypothesis.Phase.generate],
)  # fmt: skip
@hypothesis.given(worlds(("/var/tmp", "/opt") if os.access("/opt", os.W_OK) else ("/var/tmp",)))
def test_a_crowd_is_held_as_its_names_would_be(world: World) -> None:
    with grown(world, None) as base, policy_file(world, base) as file:
        before = None
        while before != (before := Path("/proc/self/mountinfo").read_bytes()):  # beside us others mount and unmount
            one_by_one, table, rules = planned(world, base, file, 1 << 30)
            together, same_table, same_rules = planned(world, base, file, 1)

        assert sorted(together) == sorted(one_by_one)
        assert same_table == table
        assert same_rules == rules
        for number, (_, place) in enumerate(together):
            above = [other for _, other in together[number + 1 :] if place.startswith(f"{other}/")]
            assert not above, f"{place} is covered again"


def test_thousands_of_names_are_a_handful_of_steps(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    for name in ("there", "dir"):
        (workspace / name).mkdir() if name == "dir" else (workspace / name).touch()
    (workspace / "link").symlink_to("there")
    names = [f"{workspace}/{name}" for name in ("there", "dir", "link", *map(str, range(2000)))]
    keep.forget_all()
    flags = ringfence.Flags(deny_read=tuple(names))
    made = keep.prepare(make_request(str(workspace), flags=flags, as_root=ROOT))

    assert len(made.walls.head) < 250
    assert f"{workspace}/1999" in made.walls.watched
    places = [
        place
        for step in made.walls.head
        if step.kind is StepKind.MOUNT
        for word, place in held(step)
        if word == "hidden"
    ]
    assert {f"{workspace}/there", f"{workspace}/dir"} <= {*places}
    tries = "; ".join(f"cat {name} 2>&1; echo > {name}; ls {name}" for name in ("there", "dir/x", "1999", "link"))
    outcome = ringfence.run(["sh", "-c", tries], workspace=str(workspace), flags=flags, capture=True, as_root=ROOT)
    assert sorted(os.listdir(workspace)) == ["dir", "link", "there"], outcome
    assert b"ermission denied" in (outcome.stdout or b""), outcome


def test_hundreds_of_unwritable_names_that_exist_are_rows(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    (workspace / "in").mkdir(parents=True)
    names = [f"{workspace}/in/{number}" for number in range(crowds.MANY + 1)]
    for name in names:
        Path(name).touch()
    keep.forget_all()
    made, few = (
        keep.prepare(make_request(str(workspace), flags=ringfence.Flags(deny_write=tuple(some)), as_root=ROOT))
        for some in (names, names[1:])
    )

    kept = [step for step in made.walls.head if step.kind is StepKind.NAME and step.numbers[1] == crowds.KEEP]
    assert [len(step.strings[0].split(b"/")) for step in kept] == [len(names)]
    assert not [step for step in made.walls.head if step.numbers[:1] == (view.BIND_EACH,)]
    assert "what is changed, too" in made.walls.tail[-1].text, "what writes is the warden's then"
    assert [step for step in few.walls.head if step.numbers[:1] == (view.BIND_EACH,)], "fewer are mounts"


def test_a_name_of_which_two_lines_speak_is_planned_by_itself_with_both() -> None:
    plain = [Rule(Access.READ, Verdict.DENY, f"/work/{number}", Origin("--deny-read")) for number in range(20)]
    absolute = Rule(Access.READ, Verdict.DENY, "/work/7", Origin("policy", 3), always=True)

    few, (crowd,) = crowds.fold(Policy("/work", (absolute, *plain, plain[8])))

    assert sorted(few.rules, key=lambda rule: rule.always) == [plain[7], absolute]
    assert set(crowd.rules.values()) == {*plain} - {plain[7]}


@pytest.mark.timeout(120)
@hypothesis.settings(
    max_examples=60, deadline=None, suppress_health_check=list(hypothesis.HealthCheck), database=None,
    phases=[hypothesis.Phase.generate],
)  # fmt: skip
@hypothesis.given(worlds(("/var/tmp", "/opt") if os.access("/opt", os.W_OK) else ("/var/tmp",)))
def test_what_is_not_there_and_cannot_come_changes_no_plan(world: World) -> None:
    seen: list[tuple[Policy, Host, Disk]] = []
    shorten = plan.without_absent

    def watched(policy: Policy, host: Host, disk: Disk) -> Policy:
        seen.append((policy, host, disk))
        return shorten(policy, host, disk)

    with grown(world, None) as base, policy_file(world, base) as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "without_absent", watched)
        keep.forget_all()
        flags = ringfence.Flags(policy_files=(file,), cwd=str(base / "ws"))
        made = keep.prepare(make_request(str(base / "ws"), flags=flags, as_root=ROOT))

    whole, host, disk = seen[-1]  # of one look at the disk: it is everybody's
    short = shorten(whole, host, disk)
    found, same = (plan.lay_out(policy, host, disk, "") for policy in (whole, short))
    assert same == found
    assert plan.link_ways(short, disk, same, host) == plan.link_ways(whole, disk, found, host)
    command = Command((), "/", {})
    assert plan.make_walls(short, host, made.disk, command, same) == plan.make_walls(
        whole, host, made.disk, command, found
    )
