"""Where else a path shows, from the table of mounts alone."""

import hypothesis
import hypothesis.strategies as st
import pytest

from ringfence.model import BUILT_IN, Access, Disk, Kind, Mount, Origin, Place, Policy, Rule, Verdict
from ringfence.plan.aliases import (
    Table,
    mounted,
    shown_twice,
    with_aliases,
    with_all_names,
    with_one_way,
    without_machine,
)
from ringfence.plan.rules import swayed

ROOT = Mount("/", "8:1", "/")
PROC = Mount("/proc", "0:5", "/")
HERE = Origin("p", 1)


@pytest.mark.parametrize(
    ("path", "others", "found"),
    [
        ("/home/u/.ssh", (), []),
        ("/home/u/.ssh", (Mount("/mnt/again", "8:1", "/"),), ["/mnt/again/home/u/.ssh"]),
        ("/home/u/.ssh", (Mount("/opt/al", "8:1", "/home/u/.ssh"),), ["/opt/al"]),
        ("/home/u/.ssh", (Mount("/opt/al", "8:1", "/home/u/.ssh/keys"),), ["/opt/al"]),
        ("/home/u/.ssh", (Mount("/opt/al", "8:1", "/home/u"),), ["/opt/al/.ssh"]),
        ("/home/u/.ssh", (Mount("/opt/al", "8:1", "/home/u/.sshfoo"),), []),
        ("/home/u/.ssh", (Mount("/opt/al", "8:2", "/home/u/.ssh"),), []),
        ("/home/u/.ssh", (Mount("/opt/al", "8:1", "/home/u"), Mount("/opt/al", "0:9", "/")), []),  # covered again
        ("/home/u/.ssh", (Mount("/home", "8:3", "/"), Mount("/old", "8:3", "/u")), ["/old/.ssh"]),
        ("/", (Mount("/mnt/again", "8:1", "/"),), ["/mnt/again"]),
    ],
)
def test_a_path_is_found_wherever_its_file_system_shows_it(
    path: str, others: tuple[Mount, ...], found: list[str]
) -> None:
    assert Table((ROOT, PROC, *others)).elsewhere(path) == found


def test_of_several_paths_those_are_told_apart_that_show_elsewhere_too() -> None:
    mounts = (ROOT, PROC, Mount("/opt/al", "8:1", "/home/u"))

    assert shown_twice(["/home/u/.ssh", "/home", "/etc"], mounts) == {"/home/u/.ssh", "/home"}
    assert shown_twice(["/home/u/.ssh"], (ROOT, PROC)) == set()


def standing(*there: str, missing: str = "") -> Disk:
    places = {path: Place(path, path, Kind.DIRECTORY) for path in there}
    return Disk(places | ({missing: Place(missing, missing, Kind.MISSING)} if missing else {}))


@pytest.mark.parametrize(
    ("aliases", "added"),
    [(("/ws/al",), ["/ws/al/d/late"]), (("/elsewhere",), []), (("/ws/al", "/elsewhere"), ["/ws/al/d/late"])],
)
def test_a_denial_of_what_is_not_there_is_repeated_where_it_could_be_made(
    aliases: tuple[str, ...], added: list[str]
) -> None:
    deny = Rule(Access.WRITE, Verdict.DENY, "/real/d/late", HERE)
    allow = Rule(Access.WRITE, Verdict.ALLOW, "/ws", BUILT_IN)

    mounts = (ROOT, *(Mount(alias, "8:1", "/real") for alias in aliases))
    policy = with_aliases(Policy("/ws", (allow, deny)), standing("/ws", missing="/real/d/late"), mounts)

    assert [rule.path for rule in policy.rules[2:]] == added


def test_denials_are_repeated_there_and_grants_are_not() -> None:
    deny = Rule(Access.WRITE, Verdict.DENY, "/ws/.git", BUILT_IN)
    allow = Rule(Access.WRITE, Verdict.ALLOW, "/ws", BUILT_IN)
    again = Rule(Access.WRITE, Verdict.DENY, "/ws/al", BUILT_IN)
    mounts = (ROOT, Mount("/ws/al", "8:1", "/ws/.git"), Mount("/x", "8:1", "/ws"))

    policy = with_aliases(Policy("/ws", (allow, deny)), standing("/ws", "/ws/.git"), mounts)

    assert policy.rules == (allow, deny, again, Rule(Access.WRITE, Verdict.DENY, "/x/.git", BUILT_IN))


WRITTEN = Policy(
    "/home/u/ws",
    (
        *(Rule(Access.WRITE, Verdict.ALLOW, path, BUILT_IN) for path in ("/home/u/ws", "/tmp")),
        *(Rule(Access.WRITE, Verdict.ALLOW, path, HERE) for path in ("/data", "/not/there")),
        Rule(Access.READ, Verdict.ALLOW, "/opt", HERE),
    ),
)
THERE = {path: path for path in ("/home/u/ws", "/tmp", "/data", "/opt")}


@pytest.mark.parametrize(
    ("mount", "denied"),
    [
        (Mount("/mnt/again", "8:1", "/home/u"), ["/mnt/again/ws"]),
        (Mount("/mnt/again", "8:1", "/data"), ["/mnt/again"]),
        (Mount("/data/again", "8:1", "/home/u/ws"), []),  # which may be written itself
        (Mount("/mnt/again", "8:1", "/tmp"), []),  # the run has one of its own
        (Mount("/mnt/again", "8:1", "/opt"), []),
        (Mount("/mnt/again", "8:2", "/data"), []),
    ],
)
def test_without_a_view_what_may_be_written_is_written_by_its_own_path_alone(mount: Mount, denied: list[str]) -> None:
    rules = with_one_way(WRITTEN, THERE, (ROOT, PROC, mount)).rules[len(WRITTEN.rules) :]

    assert [(rule.access, rule.verdict, rule.path) for rule in rules] == [
        (Access.WRITE, Verdict.DENY, path) for path in denied
    ]


def test_what_is_mounted_inside_what_may_be_written_is_known() -> None:
    points = ("/data", "/data/m", "/home/u/ws/deep/m", "/tmp/m", "/opt/m", "/database")

    assert mounted(WRITTEN, THERE, (ROOT, *(Mount(point, "8:2", "/") for point in points))) == [
        "/data/m", "/home/u/ws/deep/m",
    ]  # fmt: skip


# ---- The same question, answered by looking at every mount ----

NAMES = st.lists(st.sampled_from("abc"), max_size=3).map(lambda names: "/" + "/".join(names))
MOUNTS = st.lists(st.builds(Mount, NAMES, st.sampled_from(["8:1", "8:2"]), NAMES), max_size=6)


def inside(path: str, above: str) -> str | None:
    if path == above:
        return ""
    stem = above.rstrip("/") + "/"
    return path[len(stem) - 1 :] if path.startswith(stem) else None


def holder(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    found = None
    for mount in mounts:
        if inside(path, mount.point) is not None and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def naively(path: str, mounts: tuple[Mount, ...]) -> set[str]:
    here = holder(path, mounts)
    if here is None:
        return set()
    within = (here.root.rstrip("/") + (inside(path, here.point) or "")) or "/"
    found = set()
    for mount in mounts:
        rest = inside(within, mount.root)
        other = mount.point if rest is None else mount.point.rstrip("/") + rest or "/"
        shows = rest is not None or inside(mount.root, within) is not None
        if mount is not here and mount.device == here.device and shows and other != path:
            found |= {other} if holder(other, mounts) is mount else set()
    return found


@hypothesis.settings(max_examples=1000)
@hypothesis.given(NAMES, MOUNTS)
def test_the_index_finds_what_looking_at_every_mount_finds(path: str, others: list[Mount]) -> None:
    mounts = (ROOT, *others)

    found = Table(mounts).elsewhere(path)

    assert set(found) == naively(path, mounts)
    assert len(found) == len(set(found))


def test_a_link_that_the_command_may_turn_by_another_path_grants_nothing() -> None:
    """Of `/home/u/ws`, which shows at `/mnt/ws` too: who names a path there may have named the command's own link."""
    flag = Origin("--allow-read")
    named = Rule(Access.READ, Verdict.ALLOW, "/mnt/ws/data", flag)
    policy = Policy("/home/u/ws", (Rule(Access.WRITE, Verdict.ALLOW, "/home/u/ws", BUILT_IN), named))
    disk = Disk(
        {
            "/home/u/ws": Place("/home/u/ws", "/home/u/ws", Kind.DIRECTORY),
            "/mnt/ws/data": Place("/mnt/ws/data", "/home/u/.ssh", Kind.DIRECTORY, links=("/mnt/ws/data",)),
        }
    )

    assert swayed(policy, with_all_names(policy, disk, (ROOT, PROC))) == ()
    assert swayed(policy, with_all_names(policy, disk, (ROOT, Mount("/mnt/ws", "8:1", "/home/u/ws")))) == (named,)


@pytest.mark.parametrize(
    ("mount", "closed"),
    [
        (Mount("/srv/jail/proc", "0:5", "/", "proc"), True),
        (Mount("/srv/jail/dev", "0:6", "/", "devtmpfs"), True),
        (Mount("/srv/jail/dev/pts", "0:7", "/", "devpts"), True),
        (Mount("/srv/jail/disk", "0:6", "/sda", "devtmpfs"), True),
        (Mount("/srv/jail/sys", "0:8", "/", "sysfs"), False),
        (Mount("/srv/masked", "0:6", "/null", "devtmpfs"), False),
        (Mount("/dev/pts", "0:7", "/", "devpts"), False),
        (Mount("/device", "0:6", "/", "devtmpfs"), True),
        (Mount("/srv/named/proc", "0:5", "/", "proc"), False),
    ],
)
def test_other_mounts_of_processes_and_devices_are_closed_but_for_those_that_a_rule_names(
    mount: Mount, closed: bool
) -> None:
    named = Rule(Access.READ, Verdict.ALLOW, "/srv/named/proc", Origin("user"))

    policy = without_machine(Policy("/ws", (named,)), (ROOT, PROC, mount))

    assert [(rule.path, rule.verdict) for rule in policy.rules[1:]] == [(mount.point, Verdict.DENY)] * closed
