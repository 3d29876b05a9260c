"""What each step of a view leaves behind, as the kernel's own table of mounts tells it. Mounts alone: no Landlock."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from tests.enforce.conftest import STREAMS, bare, execute, shell, step

from ringfence import enforce
from ringfence.enforce import wire
from ringfence.enforce.enactor import Opened
from ringfence.model import Step, StepKind

assert sys.platform == "linux"
pytestmark = pytest.mark.needs_userns

FLAGS = 0x00020000 | 0x08000000 | 0x10000000 | 0x40000000  # mount, ipc, user and network
BIND, TMPFS, MASK_DIRECTORY, MASK_FILE, DEVPTS = 1, 2, 3, 4, 5
READ_ONLY, DEVICES = 1, 2
ATTACH = step(StepKind.ATTACH)
TABLE = execute("/bin/cat", "/proc/self/mountinfo")


@pytest.fixture(params=["native", "sanitized"])
def viewer(request: pytest.FixtureRequest) -> Opened:
    """Each of the enactors that can build a view."""
    found: Opened = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=[pytest.param(0, id="detached"), pytest.param(1, id="attached first")])
def head(request: pytest.FixtureRequest) -> list[Step]:
    """The steps up to the view, both ways where the kernel knows both."""
    uid, gid = os.geteuid(), os.getegid()
    attach_first = request.param if enforce.probe().detached_mounts else 1
    ids = step(StepKind.ID_MAP, uid, uid, gid, gid)
    return [step(StepKind.NAMESPACES, FLAGS), ids, step(StepKind.LOOPBACK), step(StepKind.VIEW, attach_first)]


def mount(operation: int, *strings: str | Path, flags: int = 0, mode: int = 0, size: int = 0) -> Step:
    return step(StepKind.MOUNT, operation, flags, mode, size, 0, 0, strings=strings)


def mounts(viewer: Opened, steps: list[Step]) -> dict[str, set[str]]:
    """The mount points inside, each with its options and its tags; the last of those at one point counts."""
    ran = bare(viewer, wire.encode([*steps, ATTACH, STREAMS, TABLE]))
    assert ran.code == 0, ran
    lines = [line.split(" ") for line in ran.out.decode().splitlines()]
    assert [line[4] for line in lines].count("/") == 1, "the host's tree is still there"
    return {line[4]: {*line[5].split(","), *line[6 : line.index("-")]} for line in lines}


def test_every_mount_of_the_host_is_read_only_and_nosuid(viewer: Opened, head: list[Step]) -> None:
    found = mounts(viewer, head)

    assert [point for point, options in found.items() if not {"ro", "nosuid"} <= options] == []


def test_no_mount_hears_of_the_host_any_more(viewer: Opened, head: list[Step]) -> None:
    class Shared(Opened):
        """Started where every mount is shared, as on a machine with systemd, and where somebody stays to share it."""

        def command(self, *numbers: int, ids: tuple[int, int] | None = None) -> tuple[list[str], str]:
            arguments, executable = viewer.command(*numbers, ids=ids)
            unshare = shutil.which("unshare")
            assert unshare
            options = ["--user", "--map-root-user", "--mount", "--propagation", "shared", "--fork"]
            return ["unshare", *options, executable, *arguments[1:]], unshare

    as_root = [step(StepKind.ID_MAP, 0, 0, 0, 0) if s.kind is StepKind.ID_MAP else s for s in head]
    tags = [tag for options in mounts(Shared(viewer.kind, viewer.fd, viewer.path), as_root).values() for tag in options]

    assert [tag for tag in tags if ":" in tag] == []


@pytest.mark.parametrize(
    ("flags", "there", "not_there"),
    [
        (0, {"rw", "nosuid", "nodev"}, {"ro"}),
        (READ_ONLY, {"ro", "nosuid", "nodev"}, {"rw"}),
        (DEVICES, {"rw", "nosuid"}, {"nodev"}),
    ],
)
def test_a_bind_is_as_open_as_its_flags_say(
    flags: int, there: set[str], not_there: set[str], viewer: Opened, head: list[Step], tmp_path: Path
) -> None:
    found = mounts(viewer, [*head, mount(BIND, tmp_path, tmp_path, flags=flags)])[str(tmp_path)]

    host_has_nodev = os.statvfs(tmp_path).f_flag & os.ST_NODEV
    assert there <= found
    assert not (not_there - ({"nodev"} if host_has_nodev else set())) & found


def test_a_tmpfs_holds_what_it_was_given(viewer: Opened, head: list[Step]) -> None:
    entries = ("dsub", "dsub/deeper", "ffile", "llink", "sub/deeper")
    made = mount(TMPFS, "/var", *entries, flags=READ_ONLY, mode=0o1751, size=1 << 20)
    look = "cd /var; stat -c '%a %F %n' . *; readlink link; stat -fc %T .; touch x 2> /dev/null || echo read-only"

    ran = bare(viewer, wire.encode([*head, made, ATTACH, STREAMS, shell(look)]))

    assert ran.out.decode().splitlines() == [
        "1751 directory .",
        "444 regular empty file file",
        "777 symbolic link link",
        "755 directory sub",
        "sub/deeper",
        "tmpfs",
        "read-only",
    ]


@pytest.mark.parametrize("entries", [("xname",), ("lname",), ("",)], ids=["another letter", "half a link", "nothing"])
def test_a_tmpfs_of_something_unknown_is_refused(entries: tuple[str, ...], viewer: Opened, head: list[Step]) -> None:
    ran = bare(viewer, wire.encode([*head, mount(TMPFS, "/var", *entries), ATTACH, STREAMS, TABLE]))

    assert (ran.code, ran.records) == (125, ((wire.FAILED, 4, StepKind.MOUNT, 71),))


@pytest.mark.parametrize("operation", [0, 6, BIND])
def test_an_operation_that_nobody_knows_or_is_not_whole_is_refused(
    operation: int, viewer: Opened, head: list[Step]
) -> None:
    ran = bare(viewer, wire.encode([*head, mount(operation, "/var"), ATTACH, STREAMS, TABLE]))

    assert (ran.code, ran.records) == (125, ((wire.FAILED, 4, StepKind.MOUNT, 71),))


def test_a_mask_is_empty_closed_and_read_only(viewer: Opened, head: list[Step], tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inside").write_text("secret")
    (tmp_path / "file").write_text("secret")
    (tmp_path / "again").write_text("secret")
    masks = [mount(MASK_FILE, tmp_path / name) for name in ("file", "again")]
    steps = [*head, mount(BIND, tmp_path, tmp_path), mount(MASK_DIRECTORY, tmp_path / "sub"), *masks]
    names = ("sub", "file", "again")

    found = mounts(viewer, steps)

    look = f"cd {tmp_path}; stat -c '%a %s %n' file again; stat -c '%a %n' sub; ls -A sub; rm file sub 2> /dev/null"
    ran = bare(viewer, wire.encode([*steps, ATTACH, STREAMS, shell(look)]))
    assert [found[str(tmp_path / name)] for name in names] == [{"ro", "nosuid", "nodev", "noexec", "relatime"}] * 3
    assert ran.out.splitlines()[:3] == [b"0 0 file", b"0 0 again", b"0 sub"]
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["inside"]


@pytest.mark.needs_strace
def test_where_nothing_can_be_put_into_a_detached_tree_nothing_is_copied_out_of_one(
    native: Opened, tmp_path: Path
) -> None:
    """Before Linux 6.15 a kernel does neither. This one may do both, so it is the calls that are looked at."""
    trace = tmp_path / "trace"

    class Traced(Opened):
        def command(self, *numbers: int, ids: tuple[int, int] | None = None) -> tuple[list[str], str]:
            arguments, executable = native.command(*numbers, ids=ids)
            strace = shutil.which("strace")
            assert strace
            return ["strace", "-o", str(trace), "-e", "open_tree,move_mount", executable, *arguments[1:]], strace

    (tmp_path / "file").touch()
    masks = [mount(MASK_DIRECTORY, "/home"), mount(MASK_FILE, tmp_path / "file")]
    ids = step(StepKind.ID_MAP, os.geteuid(), os.geteuid(), os.getegid(), os.getegid())
    steps = [step(StepKind.NAMESPACES, FLAGS), ids, step(StepKind.VIEW, 1), *masks, ATTACH, STREAMS, TABLE]

    ran = bare(Traced(native.kind, native.fd, native.path), wire.encode(steps))

    assert ran.code == 0, ran
    attached, copied = set[str](), []
    for line in trace.read_text().splitlines():
        if moved := re.match(r'move_mount\((\d+), ""', line):
            attached.add(moved[1])
        elif taken := re.match(r'open_tree\((\d+), "[df]"', line):
            copied.append(taken[1] in attached)
    assert copied == [True, True], trace.read_text()


def test_terminals_are_its_own(viewer: Opened, head: list[Step]) -> None:
    dev = mount(TMPFS, "/dev", "fnull", "dpts", "lptmx", "pts/ptmx", mode=0o755)
    steps = [*head, dev, mount(BIND, "/dev/null", "/dev/null", flags=DEVICES), mount(DEVPTS, "/dev/pts")]

    ran = bare(viewer, wire.encode([*steps, ATTACH, STREAMS, shell("cd /dev/pts; echo *; echo gone > /dev/null")]))

    assert (ran.code, ran.out) == (0, b"ptmx\n")


def test_the_command_keeps_the_umask_it_was_given(viewer: Opened, head: list[Step]) -> None:
    before = os.umask(0o027)
    try:
        ran = bare(viewer, wire.encode([*head, ATTACH, STREAMS, shell("umask")]))
    finally:
        os.umask(before)

    assert ran.out == b"0027\n"


def test_the_loopback_is_up_and_alone(viewer: Opened, head: list[Step]) -> None:
    look = "grep -c 127.0.0.1 /proc/self/net/fib_trie > /dev/null && echo up; tail -n +3 /proc/self/net/dev | wc -l"

    ran = bare(viewer, wire.encode([*head, ATTACH, STREAMS, shell(look)]))

    assert ran.out.split() == [b"up", b"1"]


def test_the_ids_are_the_same_inside(viewer: Opened, head: list[Step]) -> None:
    ran = bare(viewer, wire.encode([*head, ATTACH, STREAMS, shell("id -u; id -g; cat /proc/self/setgroups")]))

    assert ran.out.split() == [str(os.geteuid()).encode(), str(os.getegid()).encode(), b"deny"]


def test_the_directory_is_the_root_of_the_view(viewer: Opened, head: list[Step]) -> None:
    """A directory kept from before would stand on the host's mount, below every mask."""
    ran = bare(
        viewer, wire.encode([*head, mount(MASK_DIRECTORY, "/home"), ATTACH, STREAMS, shell("pwd -P; ls -A home")])
    )

    assert ran.out.splitlines()[0] == b"/"
