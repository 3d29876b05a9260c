"""The view as bubblewrap's arguments: the same mounts in the same order, and each of them looked at afterwards."""

import msgspec
import pytest
from tests.plan.test_make import POLICY, WS, planned, rule, texts

from ringfence.model import Host, HostRule, Injection, Need, Origin, Plan, PlanError, StepKind, Verdict
from ringfence.plan import bubblewrap, view

OWN = Host.linux()
HOST = msgspec.structs.replace(OWN, namespaces=False, bubblewrap="/usr/bin/bwrap")


def words(plan: Plan) -> list[tuple[str, ...]]:
    asked = [step for step in plan.steps if step.kind is StepKind.BUBBLEWRAP]
    return [tuple(word.decode() for word in step.strings) for step in asked]


def test_the_arguments_are_those_of_the_view() -> None:
    last = ("/dev", "/home", "/proc")
    assert words(planned(HOST)) == [
        ("/usr/bin/bwrap", "--unshare-user", "--unshare-ipc", "--unshare-pid", "--as-pid-1", "--cap-drop", "ALL",
         "--cap-add", "CAP_SYS_PTRACE", "--unshare-net", "--ro-bind", "/", "/"),
        ("--dev", "/dev"),
        ("--perms", "1777", "--tmpfs", "/dev/shm"),
        ("--ro-bind", "/dev/null", "/etc/shadow"),
        ("--perms", "0755", "--tmpfs", "/home"),
        ("--ro-bind", "/home/u/.gitconfig", "/home/u/.gitconfig"),
        ("--bind", WS, WS),
        ("--bind", f"{WS}/.git", f"{WS}/.git"),
        ("--ro-bind", f"{WS}/.git/config", f"{WS}/.git/config"),
        ("--ro-bind", f"{WS}/.git/hooks", f"{WS}/.git/hooks"),
        ("--perms", "1777", "--tmpfs", "/tmp"),
        ("--perms", "1777", "--tmpfs", "/var/tmp"),
        ("--proc", "/proc"),
        tuple(word for path in last for word in ("--remount-ro", path)),
    ]  # fmt: skip


def test_everything_that_was_mounted_is_looked_at() -> None:
    own, other = planned(OWN), planned(HOST)
    mounted = {step.strings[0] for step in own.steps if step.kind is StepKind.MOUNT} - {b"/dev/pts"}
    seen = {step.strings[0] for step in other.steps if step.kind is StepKind.VERIFY}

    assert seen == mounted | {b"/", b"/proc"}


def test_what_comes_after_the_view_is_the_same() -> None:
    def after(plan: Plan) -> list[str]:
        return [step.describe() for step in plan.steps if step.kind > StepKind.LOCK]

    assert after(planned(HOST)) == after(planned(OWN))


def test_an_open_network_is_the_hosts() -> None:
    policy = msgspec.structs.replace(POLICY, network=msgspec.structs.replace(POLICY.network, open=True))

    assert "--unshare-net" not in words(planned(HOST, policy))[0]


def test_hosts_are_reached_by_name_and_the_names_asked_for_at_a_port_that_can_be_opened() -> None:
    network = msgspec.structs.replace(
        POLICY.network, hosts=(HostRule(Verdict.ALLOW, "example.org", 443, Origin("p", 1)),)
    )
    policy = msgspec.structs.replace(POLICY, network=network)

    def ports(plan: Plan) -> list[int]:
        return [step.numbers[2] for step in plan.steps if step.kind is StepKind.LISTEN]

    assert ports(planned(HOST, policy)) == [1053, 1053, 3128, 1080]
    assert ports(planned(OWN, policy)) == [53, 53, 3128, 1080]
    for host in (HOST, OWN):
        assert any("(gate)" in line for line in planned(host, policy).in_force)


def test_an_injection_is_the_last_bind_before_proc() -> None:
    injection = Injection("/home/u/.gitconfig", "/etc/shadow", Origin("policy.json", 1))
    policy = msgspec.structs.replace(POLICY, injections=(injection,))

    assert words(planned(HOST, policy))[-3] == ("--ro-bind", "/home/u/.gitconfig", "/etc/shadow")


def test_without_a_proc_of_its_own_that_is_said() -> None:
    plan = planned(msgspec.structs.replace(HOST, fresh_proc=False))

    assert ("--proc", "/proc") not in words(plan)
    assert "other processes invisible" in [gap.what for gap in plan.gaps]


def test_root_keeps_what_it_needs_to_make_the_nodes_read_only() -> None:
    def kept(**facts: object) -> int:
        return words(planned(msgspec.structs.replace(HOST, **facts)))[0].count("--cap-add")

    assert (kept(uid=0), kept(), kept(bubblewrap_setuid=True)) == (4, 1, 0)


def test_more_than_bubblewrap_takes_is_a_required_gap() -> None:
    hidden = tuple(rule("read", "deny", f"{WS}/{number}") for number in range(1600))
    few = planned(HOST, msgspec.structs.replace(POLICY, rules=POLICY.rules + hidden[:100]))
    many = planned(HOST, msgspec.structs.replace(POLICY, rules=POLICY.rules + hidden))

    assert few.is_sound
    assert [gap.why for gap in many.gaps if gap.need is Need.REQUIRED] == ["bubblewrap takes at most 9000 arguments"]
    assert hidden[0].verdict is Verdict.DENY


def test_a_size_is_given_to_private_directories_and_what_it_cannot_do_is_refused() -> None:
    sized = view.mount(view.TMPFS, "/tmp private", "/tmp", mode=0o1777)
    sized = msgspec.structs.replace(sized, numbers=(*sized.numbers[:3], 4096, *sized.numbers[4:]))

    assert bubblewrap.render(sized).strings == (b"--size", b"4096", b"--perms", b"1777", b"--tmpfs", b"/tmp")
    with pytest.raises(PlanError, match="cannot do this"):
        bubblewrap.render(view.mount(99, "something new", "/x"))


def test_what_holds_names_who_made_it() -> None:
    assert "mounts by /usr/bin/bwrap and Landlock" in planned(HOST).in_force[0]
    assert texts(planned(HOST), StepKind.NAMESPACES) == []
    forbidden = msgspec.structs.replace(HOST, namespaces_why="id maps: Operation not permitted")
    first = texts(planned(forbidden), StepKind.BUBBLEWRAP)[0]
    assert first.startswith(
        "/usr/bin/bwrap builds the view, for the enactor may not (id maps: Operation not permitted)"
    )
