"""What the guard is told of the disk: what cannot be looked at may lead anywhere."""

import errno
import itertools
import os
import random
import subprocess
import tempfile
from pathlib import Path

import pytest

from ringfence.guard import ToolCall, judge
from ringfence.judging import bounds_of, follow, follower, leaks
from ringfence.model import Access, Decision, Origin, Policy, PolicyError, Rule, Verdict

PLAIN = 65534 if os.geteuid() == 0 else os.geteuid()


def allowed(_access: Access, _path: str) -> Decision:
    return Decision(Verdict.ALLOW, "all of it")


def test_a_directory_that_nobody_can_look_into_is_taken_to_lead_out(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")  # closed to root too

    assert leaks(str(tmp_path / "loop"), allowed)
    assert not leaks(str(tmp_path / "missing"), allowed)
    assert not leaks(str(tmp_path), allowed)


@pytest.mark.parametrize(
    ("number", "who", "leads"),
    [(errno.EINVAL, 0, "/a/b"), (errno.EACCES, 1, "/a/b"), (errno.EACCES, 0, "/.."), (errno.EIO, 0, "/..")],
)
def test_a_name_of_which_nobody_can_say_whether_it_is_a_link_leads_nowhere_allowed(
    monkeypatch: pytest.MonkeyPatch, number: int, who: int, leads: str
) -> None:
    """What is closed to us in another's directory is so to the command, too; in our own it can open it again."""
    monkeypatch.setattr(os, "geteuid", lambda: who)  # the directory is root's

    def broken(path: str) -> str:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "readlink", broken)  # no file system here fails so when told to

    assert follow("/a/b") == leads


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A directory of every kind of name: there, missing, a link to one of them, a loop, and what is below them."""
    root = Path(os.path.realpath(tmp_path))
    (root / "dir" / "sub").mkdir(parents=True)
    (root / "file").touch()
    for name, target in (("to-dir", "dir"), ("to-file", f"{root}/file"), ("to-none", "none"), ("loop", "loop")):
        (root / name).symlink_to(target)
    (root / "dir" / "up").symlink_to("..")
    (root / "dir" / "sub" / "away").symlink_to("/usr/bin/../lib")
    return root


NAMES = ("dir", "file", "none", "to-dir", "to-file", "to-none", "loop", "sub", "up", "away", "..", ".", "", "n" * 300)


@pytest.mark.parametrize("fails", [False, True], ids=["asked", "where that fails"])
def test_many_paths_are_followed_as_one_is(odd: Path, fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str) -> os.stat_result:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    if fails:  # to say no then would leave a denied link's target open
        monkeypatch.setattr(os, "lstat", broken)
    paths = [f"{odd}/{'/'.join(names)}" for size in (1, 2, 3) for names in itertools.product(NAMES, repeat=size)]
    random.shuffle(paths)  # what is remembered of one must not change another
    paths += ["/", "", "/proc", "/proc/self/exe", "/usr", "/nonexistent/a/b", *paths[:50]]
    look = follower({})

    assert {path: look(path) for path in paths} == {path: follow(path) for path in paths}


@pytest.mark.parametrize("line", ["chmod 700 d; echo x >> d/l", "chmod 700 d; echo x >> d/*"])
@pytest.mark.parametrize("mode", [0o000, 0o444, 0o700])
def test_what_a_line_opens_first_leads_where_it_leads(mode: int, line: str) -> None:
    """An earlier command closed the directory with its link: nobody saw where that leads, and it was taken for none."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="rf-") as place:
        os.makedirs(f"{place}/ws/d")
        os.symlink(f"{place}/outside", f"{place}/ws/d/l")
        os.chmod(f"{place}/ws/d", mode)
        for path in (place, f"{place}/ws", f"{place}/ws/d"):
            os.chown(path, PLAIN, -1)
        before = os.geteuid()
        judge(ToolCall("bash", {"command": line}), bounds_of(place))  # our modules may lie where only root may look
        os.seteuid(PLAIN)  # root may look everywhere
        try:
            found = judge(ToolCall("bash", {"command": line}), bounds_of(f"{place}/ws"))
            subprocess.run(["bash", "-c", line], cwd=f"{place}/ws", user=PLAIN if before == 0 else None, check=True)
        finally:
            os.seteuid(before)
            os.chmod(f"{place}/ws/d", 0o700)
        assert os.path.exists(f"{place}/outside")

    assert found.verdict is not Verdict.ALLOW


@pytest.mark.parametrize("granted", ["ws/data", "ws/data/*", "outer/data"])
def test_a_link_that_a_command_may_turn_grants_nothing(tmp_path: Path, granted: str) -> None:
    """As no run is granted it: the agent's own tools would follow it to wherever an earlier command had it lead."""
    root, secret = tmp_path / "ws", tmp_path / "secret"
    for path in (root, secret):
        path.mkdir()
    (tmp_path / "outer").symlink_to("ws")  # whose link this is, no command turns
    allow, flag = Verdict.ALLOW, Origin("policy.toml", 2)
    rules = [Rule(access, allow, str(root), flag) for access in Access]
    rules += [Rule(access, allow, f"{tmp_path}/{granted}", flag, glob="*" in granted) for access in Access]

    def answers() -> set[Verdict]:
        bounds = bounds_of(str(root), Policy(str(root), tuple(rules)))
        return {
            bounds.decide(access, bounds.resolve(f"{root}/data/key")).verdict for access in (Access.READ, Access.WRITE)
        }

    assert answers() == {allow}
    (root / "data").symlink_to(secret)
    assert answers() == {Verdict.DENY}


def test_a_denial_of_which_nobody_can_say_where_it_leads_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its link not followed, what it leads to would be open."""
    place, real = str(tmp_path.resolve()), os.readlink
    (tmp_path / "secrets").symlink_to("real")
    rule = Rule(Access.READ, Verdict.DENY, f"{place}/secrets", Origin("x"))

    def broken(path: str) -> str:
        if path == f"{place}/secrets":
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path)

    monkeypatch.setattr(os, "readlink", broken)
    with pytest.raises(PolicyError, match="cannot be looked at"):
        bounds_of(place, Policy(place, (rule,)))
