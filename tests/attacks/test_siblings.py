"""A run inside a run is one beside it, with the narrower of the two policies; and whoever asks may be anybody.

With a view it is asked for at a socket, by Landlock alone through a named pipe. What a hostile command sends there can
only narrow what it has: every attack is made by a request of its own, and shown to reach what it wants without walls.
"""

import _thread
import asyncio
import contextlib
import errno
import fcntl
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.attacks.everybody import BASE, NOBODY, RUN
from tests.attacks.everybody import installed as installed
from tests.attacks.everybody import workspace as workspace
from tests.test_terminal import Person

import ringfence
from ringfence import enforce, siblings
from ringfence.enforce import temporary

pytestmark = pytest.mark.usefixtures("installed")

VIEW = pytest.param("view", marks=pytest.mark.needs_userns)
NEEDED = [pytest.mark.needs_bwrap, pytest.mark.needs_landlock(6), pytest.mark.needs_yama(1)]
LANDLOCK = pytest.param("landlock", marks=NEEDED)
NO_VIEW = ["bwrap", "--unshare-user", "--disable-userns", "--dev-bind", "/", "/"]
SECONDS = 20


class Outer:
    """Runs in a workspace, with one kind of walls."""

    def __init__(self, workspace: Path, walls: str) -> None:
        self.workspace, self.walls = workspace, walls
        self.home = workspace.parent / "home"
        self.environ = {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}

    def words(self, *options: str, script: str) -> list[str]:
        words = [*RUN, *options, "--", "sh", "-c", script]
        if self.walls == "view":
            return words
        who = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
        return [*who, *NO_VIEW, *words]

    def start(self, *options: str, script: str, **given: object) -> "subprocess.Popen[str]":
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | given
        words = self.words(*options, script=script)
        return subprocess.Popen(words, cwd=self.workspace, env=self.environ, text=True, **streams)  # type: ignore[call-overload, no-any-return]

    def run(self, *options: str, script: str, **given: object) -> tuple[int, str]:
        with self.start(*options, script=script, **given) as process:
            try:
                said, _ = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return process.returncode, said


@pytest.fixture(params=[VIEW, LANDLOCK])
def outer(request: pytest.FixtureRequest, workspace: Path) -> Outer:
    secret = workspace.parent / "home" / "x"
    secret.mkdir()
    (secret / "f").write_text("of-the-outer\n")
    (workspace / "sub" / "s").write_text("in-sub\n")
    if os.geteuid() == 0:
        for path in (secret, secret / "f", workspace / "sub" / "s"):
            os.chown(path, NOBODY, NOBODY)
    return Outer(workspace, request.param)


def inner(*options: str, script: str) -> str:
    return shlex.join([*RUN, *options, "--", "sh", "-c", script])


def living(mark: str) -> list[int]:
    """The processes that have a word on their command lines."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
            if mark.encode() in words:
                found.append(int(name))
    return found


def until(holds: Callable[[], object], seconds: float = 15.0) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def mark() -> Iterator[str]:
    """How long something sleeps, which nobody else does."""
    found = f"{1000 + int.from_bytes(os.urandom(3), 'big')}.125"
    yield found
    for pid in living(found):
        os.kill(pid, signal.SIGKILL)


def test_what_the_outer_run_reads_and_the_inner_may_not_it_does_not(outer: Outer) -> None:
    place = outer.home / "x"

    narrow = inner(script=f"cat {place}/f; exit 3")
    code, said = outer.run("--allow-read", str(place), script=f"{narrow}; echo $?; cat {place}/f")

    assert said.splitlines()[-2:] == ["3", "of-the-outer"], said
    assert said.count("of-the-outer") == 1
    assert code == 0


def test_what_both_read_both_read(outer: Outer) -> None:
    place = str(outer.home / "x")

    _, said = outer.run("--allow-read", place, script=inner("--allow-read", place, script=f"cat {place}/f"))

    assert "of-the-outer" in said


@pytest.mark.parametrize("flag", ["--deny-read", "--deny-write"])
def test_what_the_inner_run_denies_itself_holds_there_alone(outer: Outer, flag: str) -> None:
    narrow = inner(flag, "sub", script="cat sub/s; echo no > sub/inner; echo ran")

    code, said = outer.run(script=f"{narrow}; cat sub/s; echo yes > sub/outer")

    assert sorted(os.listdir(outer.workspace / "sub")) == ["outer", "s"], said
    assert "ran" in said.split()
    assert said.count("in-sub") == (1 if flag == "--deny-read" else 2)
    assert code == 0


# More than the warden takes: a pattern of too many names, or too many rules. Where it cannot hold all, it must not let
# go of the outer run's. And a denial of everything: who may write nowhere must not be asked about nothing.
ADDED = {
    "all": ["--deny-write", "/"],
    "one that is long": ["--deny-write", "a/" * 70 + "*"],
    "many patterns": [word for number in range(1200) for word in ("--deny-write", f"n{number}*")],
    "many names": [word for number in range(1200) for word in ("--deny-write", f"n{number}")],
    "many open": [
        word
        for number in range(600)
        for word in (
            "--deny-read",
            f"sub/n{number}",
            "--allow-read",
            f"sub/n{number}/n",
            "--allow-write",
            f"sub/n{number}/n",
        )
    ],
}


@pytest.mark.parametrize("how", ["--quiet", "--best-effort"])
@pytest.mark.parametrize("added", ADDED)
def test_what_the_inner_run_adds_costs_the_outer_nothing(outer: Outer, added: str, how: str) -> None:
    hooks = outer.workspace / ".git" / "hooks"
    hooks.mkdir(parents=True)
    for number in range(600 if added == "many open" else 0):
        (outer.workspace / "sub" / f"n{number}" / "n").mkdir(parents=True)
    subprocess.run(["chmod", "-R", "a+rwX", outer.workspace], check=True)
    allowed = ("--allow-write", str(outer.workspace))
    attack = "echo no > sub/made.secret; echo no > .git/hooks/pre-commit; echo no > .mcp.json; chmod 700 ../outside"
    bare = subprocess.run(["sh", "-c", attack], cwd=outer.workspace, check=True)
    assert bare.returncode == 0
    for made in ("sub/made.secret", ".git/hooks/pre-commit", ".mcp.json"):
        (outer.workspace / made).unlink()
    (outer.workspace.parent / "outside").chmod(0o755)

    _, said = outer.run(
        how,
        "--deny-write",
        "**/*.secret",
        *allowed,
        script=f"{inner(how, *ADDED[added], *allowed, script=attack)}; echo over",
    )

    assert said.endswith("over\n")
    assert not (outer.workspace / "sub" / "made.secret").exists(), said
    assert not [*hooks.iterdir()], said
    assert not (outer.workspace / ".mcp.json").exists(), said
    assert (outer.workspace.parent / "outside").stat().st_mode & 0o777 == 0o755, said


def test_a_repository_can_be_made_where_there_is_none(outer: Outer) -> None:
    """As in the run around it: what git would run is protected in a repository that is there."""
    code, said = outer.run(
        script=f"{inner(script='git init -q . && git init -q sub')}; {inner(script='touch .git/hooks/x')}"
    )

    assert (outer.workspace / ".git" / "HEAD").exists(), said
    assert (outer.workspace / "sub" / ".git" / "HEAD").exists(), said
    assert not (outer.workspace / ".git" / "hooks" / "x").exists()
    assert code != 0


def test_what_is_asked_for_beyond_the_outer_run_is_told(outer: Outer) -> None:
    place = outer.home / "x"
    more = inner("--allow-write", str(place), "--allow-network", script=f"echo ran; echo no > {place}/new")

    _, said = outer.run(script=more)

    assert "ran" in said
    assert f"not given: {place} writable: the run around this one does not have it (--allow-write)" in said
    assert "not given: the host's network" in said
    assert not (place / "new").exists()


def test_ten_levels_deep_each_is_as_narrow_as_all_around_it(outer: Outer) -> None:
    """Each closes one file more, and the last reads none of them."""
    names = [f"n{number}" for number in range(10)]
    for name in names:
        (outer.workspace / name).write_text(f"<{name}>\n")
    (outer.workspace / "deeper").write_text(
        f'[ "$1" = 9 ] && {{ cat n9; cat {" ".join(names[:9])}; exit 7; }}\n'
        f"exec {shlex.join(RUN)} --deny-read n$1 -- sh deeper $(($1 + 1))\n"
    )

    code, said = outer.run(script="sh deeper 0")

    assert code == 7, said
    assert re.findall("<n.>", said) == ["<n9>"]


def test_streams_are_handed_over(outer: Outer) -> None:
    (outer.workspace / "in").write_text("from a file\n")
    (outer.workspace / "late").write_text("1\n2\n3\n")
    script = "\n".join(
        (
            f"echo through a pipe | {inner(script='cat')}",
            f"{inner(script='cat')} < in",
            "echo private > $TMPDIR/private",
            f"{inner(script='cat')} < $TMPDIR/private",
            f"{inner(script='echo to a file; echo beside >&2')} > $TMPDIR/out 2> $TMPDIR/err",
            "cat $TMPDIR/out $TMPDIR/err",
            f"{{ read one; {inner(script='cat')}; }} < late",
            f"{inner(script='cat; echo closed')} <&-",
            f"{inner('--json', script='echo captured; exit 4')} | grep -c captured",
            f"{inner(script='head -c 3000000 /dev/zero')} | wc -c",
        )
    )

    code, said = outer.run(script=script)

    wanted = ["through a pipe", "from a file", "private", "to a file", "beside", "2", "3", "closed", "1", "3000000"]
    assert said.split("\n")[:-1] == wanted, said
    assert code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_inner_one_reaches_its_command(outer: Outer, number: int) -> None:
    command = f"trap 'echo heard; exit 9' {number}; echo ready > ready; while :; do sleep 0.1; done"
    (outer.workspace / "press.py").write_text(
        "import os, subprocess, time\n"
        f"p = subprocess.Popen({[*RUN, '--', 'sh', '-c', command]!r})\n"
        "while not os.path.exists('ready'): time.sleep(0.1)\n"
        f"p.send_signal({int(number)})\n"
        "print(p.wait(), flush=True)\n"
    )

    _, said = outer.run(script="/usr/bin/python3 press.py")

    assert said.split()[-2:] == ["heard", "9"], said


def test_limits_of_both_hold(outer: Outer) -> None:
    slow = inner("--timeout", "1s", script="sleep 20; echo no")

    begun = time.monotonic()
    _, said = outer.run(script=f"{slow}; echo $?")

    assert "124" in said.split()
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize("victim", ["asker", "server", "outer", "warden"])
def test_whoever_is_killed_nothing_is_left(outer: Outer, mark: str, victim: str) -> None:
    stubborn = f"trap '' TERM HUP INT; setsid sleep {mark} & sleep {mark}"
    process = outer.start(script=f"{inner(script=stubborn)}; echo code $?; sleep 1")
    assert until(lambda: len(living(mark)) == 2), process.communicate(timeout=5)

    top = process.pid if outer.walls == "view" else _below(process.pid, "run")
    tree = _tree(top)
    servers = [pid for pid in tree if "beside import serve" in _line(pid)]
    askers = [pid for pid in tree if "import main" in _line(pid) and pid not in (top, *servers)]
    wardens = [child for server in servers for child in _children(server)]
    who = {"asker": askers[-1], "server": servers[0], "outer": top, "warden": wardens[0]}[victim]
    os.kill(who, signal.SIGKILL)

    assert until(lambda: not living(mark)), (victim, living(mark))
    said = process.communicate(timeout=SECONDS)[0]
    assert "code" in said or victim == "outer", said
    assert until(lambda: not [pid for pid in servers if _line(pid)])  # one that nobody reaps has no words


def _line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] + [
            int(word)
            for task in os.listdir(f"/proc/{pid}/task")
            if task != str(pid)
            for word in Path(f"/proc/{pid}/task/{task}/children").read_text().split()
        ]
    return []


def _tree(pid: int) -> list[int]:
    return [pid, *(below for child in _children(pid) for below in _tree(child))]


def _below(pid: int, word: str) -> int:
    return next(one for one in _tree(pid) if f" {word} " in _line(one) and "bwrap" not in _line(one))


def test_at_a_terminal_the_inner_one_is_at_it(outer: Outer) -> None:
    """Keys, their meaning, and the size of the window reach the command; and the terminal is given back."""
    ask = "test -t 0 && test -t 1 && stty size; read word; echo got:$word:; trap 'echo pressed; exit 6' INT; "
    person = Person(
        outer.words(script=f"{inner(script=ask + 'echo waits; while :; do sleep 0.1; done')}; echo code:$?; stty -a"),
        outer.workspace,
    )
    try:
        person.sees("24 80")
        person.type("hello\r")
        person.sees("got:hello:")
        person.sees("waits")
        person.type("\x03")
        person.sees("pressed")
        person.sees("code:6")
        person.sees(" icanon ")
        assert person.code() == 0
    finally:
        person.close()


# What may only be read, handed over as what the other writes to: whoever passes that on must not make more of it.
READ_ONLY = """
import os, subprocess, sys
where, run = sys.argv[1], sys.argv[2:]
fd = os.open(where, os.O_RDONLY | os.O_NONBLOCK) if where else 0
if run:
    subprocess.run([*run, "sh", "-c", "echo evil"], stdin=subprocess.DEVNULL, stdout=fd, stderr=subprocess.DEVNULL)
else:
    os.write(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK), b"evil")
"""


@pytest.mark.parametrize("inside", [False, True], ids=["bare", "inside"])
def test_a_pipe_that_may_only_be_read_is_not_written_by_the_inner_one(outer: Outer, inside: bool) -> None:
    pipe = outer.workspace.parent / "outside" / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    (outer.workspace / "attack.py").write_text(READ_ONLY)
    words = ["/usr/bin/python3", "-I", "attack.py", str(pipe)]
    allowed = ("--allow-read", str(pipe.parent))
    heard = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        if inside:
            script = shlex.join([*words, *RUN, *allowed, "--"])
            assert outer.run(*allowed, script=f"{script} && echo over")[1].endswith("over\n")
        else:
            subprocess.run(words, cwd=outer.workspace, check=True)
        assert bool(select.select([heard], [], [], 0)[0]) is not inside
    finally:
        os.close(heard)


@pytest.mark.parametrize("inside", [False, True], ids=["bare", "inside"])
def test_a_terminal_that_may_only_be_read_is_not_written_by_the_inner_one(outer: Outer, inside: bool) -> None:
    """Nobody filters what goes to one on standard input alone, and one that is asked something answers by typing."""
    (outer.workspace / "attack.py").write_text(READ_ONLY)
    words = ["/usr/bin/python3", "-I", "attack.py", ""]
    if inside:
        words = outer.words(script=shlex.join([*words, *RUN, "--raw-terminal", "--"]))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as sink:
        person = Person(words, outer.workspace, stdout=sink.stdin, stderr=subprocess.DEVNULL)
        try:
            assert (b"evil" in person.rest()) is not inside
        finally:
            person.close()
            sink.kill()


@pytest.mark.needs_userns
def test_whoever_is_not_around_us_is_not_asked(workspace: Path) -> None:
    """Outside, where the variable would be somebody's trick: our streams, directory and variables are not his."""
    outer, got = Outer(workspace, "view"), []
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(workspace / "door"))
        (workspace / "door").chmod(0o777)
        door.listen()

        def take() -> None:
            with contextlib.suppress(OSError), door.accept()[0] as link:
                link.send(siblings.TAKEN)
                link.settimeout(5)
                got.append(socket.recv_fds(link, 1 << 16, 8))
                link.send(b"\1\0")

        taker = threading.Thread(target=take)
        taker.start()
        outer.environ |= {"RINGFENCE_SIBLINGS": str(workspace / "door"), "TOKEN": "mine"}
        code, said = outer.run(script="echo ran")
        taker.join()

    assert (code, said.split()[-1]) == (0, "ran"), said
    assert not [data for data, fds, *_ in got if data or fds]


def test_in_a_directory_that_only_the_outer_run_sees_the_inner_goes_on_alone(outer: Outer) -> None:
    """As before: it relies on the outer run, or is refused; and where it would be beside it, it does not exist."""
    code, said = outer.run(script=f"mkdir $TMPDIR/own; cd $TMPDIR/own; {inner(script='echo made > made; pwd')}; ls")

    assert ("made" in said.split()) == (outer.walls == "view"), said
    assert code == 0


@pytest.mark.parametrize("options", [(), ("--quiet", "--processes", "200", "--memory", "1G")])
def test_nothing_is_left_on_the_disk(outer: Outer, options: tuple[str, ...]) -> None:
    mine = f"ringfence-{NOBODY if outer.walls == 'landlock' and os.geteuid() == 0 else os.geteuid()}-"

    def left() -> set[str]:
        """What is there and nobody has locked: those of others, who work meanwhile, have."""
        return {name for name in os.listdir("/tmp") if name.startswith(mine) and not is_locked(f"/tmp/{name}")}

    deep = inner(script="exec " + inner(script="echo deep"))
    for _ in range(3):  # another test may kill its ringfence meanwhile, whose directory stays; but not each time
        before = left()
        _, said = outer.run(*options, script=f"{deep}; echo $RINGFENCE_SIBLINGS")
        door = said.split()[-1].split("/")[2]

        assert "deep" in said.split()
        assert not os.path.lexists(f"/tmp/{door}")
        found = left() - before
        time.sleep(0.1 if found else 0)  # one that somebody else has just made is locked by then
        found &= left()
        if not found:
            break
    assert found == set()


def is_locked(path: str) -> bool:
    """Whether somebody uses a directory, or it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def run_with_a_tmp(workspace: Path, options: str) -> subprocess.CompletedProcess[str]:
    """A run that says whether it was offered others beside it, where /tmp is mounted so."""
    outer = Outer(workspace, "view")
    words = outer.words(script="echo ran; echo ${RINGFENCE_SIBLINGS-nobody}")
    shell = f'mount -t tmpfs -o {options} none /tmp && exec "$@"'
    words = ["unshare", "-m", "sh", "-c", shell, "sh", *words]
    return subprocess.run(words, cwd=workspace, env=outer.environ, capture_output=True, text=True)


@pytest.mark.needs_root
@pytest.mark.parametrize("options", ["ro", "nr_inodes=1"])
def test_where_nobody_can_listen_the_command_runs_all_the_same(workspace: Path, options: str) -> None:
    """A /tmp that is read-only, or full."""
    done = run_with_a_tmp(workspace, options)

    assert (done.stdout, done.returncode) == ("ran\nnobody\n", 0), done.stderr


@pytest.mark.needs_bwrap
@pytest.mark.needs_landlock(6)
def test_where_nobody_listens_and_there_is_no_view_the_way_out_is_told(workspace: Path) -> None:
    policy = workspace.parent / "policy.toml"
    policy.write_text("allowNestedSandbox = true\n")

    code, said = Outer(workspace, "landlock").run("--policy", str(policy), script=inner(script="echo ran"))

    assert (code, "ran" in said) == (125, False), said
    assert "/tmp: a directory of the run's own: Permission denied" in said
    assert "has no view: `ringfence doctor` outside" in said


@pytest.mark.needs_root
def test_where_whoever_is_inside_cannot_come_nothing_is_said(workspace: Path) -> None:
    """A /tmp that is root's alone: nobody asks there, so nobody need hear of it."""
    done = run_with_a_tmp(workspace, "mode=700")

    assert (done.stdout, done.stderr) == ("ran\nnobody\n", "")


def test_the_plan_says_that_runs_beside_it_may_be_asked_for(outer: Outer) -> None:
    words = ["plan" if word == "run" else word for word in outer.words(script="true")]
    done = subprocess.run(words, cwd=outer.workspace, env=outer.environ, capture_output=True, text=True)

    assert "a ringfence inside: a run beside this one" in done.stdout, done
    made = re.findall("/tmp/(ringfence-[0-9]+-[0-9a-f]+)", done.stdout)
    assert made
    assert not {*made} & {*os.listdir("/tmp")}


# Whoever asks waits until it is told no, or until the run's end is its own.
ASK = """
import os, socket
link = socket.socket(socket.AF_UNIX)
link.connect(os.environ["RINGFENCE_SIBLINGS"])
link.settimeout(2)
try:
    link.recv(1)
except OSError:
    pass
print("ran", flush=True)
"""


@pytest.mark.needs_userns
@pytest.mark.parametrize("missing", ["a thread", "a descriptor", "the run"])
def test_where_nobody_can_serve_the_command_runs_all_the_same(
    workspace: Path, missing: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    def no_descriptor(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def no_run(*_: object) -> None:
        raise ProcessLookupError

    if missing == "a thread":
        threads = types.SimpleNamespace(start_new_thread=no_thread, allocate_lock=_thread.allocate_lock)
        monkeypatch.setattr(temporary, "_thread", threads)
    elif missing == "a descriptor":
        monkeypatch.setattr(enforce, "Doorway", no_descriptor)
    else:
        monkeypatch.setattr(siblings, "Siblings", no_run)

    ran = ringfence.run(["/usr/bin/python3", "-c", ASK], workspace=str(workspace), siblings=True, capture=True)

    assert (ran.exit_code, ran.stdout) == (0, b"ran\n"), ran
    assert capfd.readouterr().err == ""


@pytest.mark.needs_userns
@pytest.mark.parametrize("how", ["run", "start"])
def test_of_many_runs_of_a_program_each_has_its_own(workspace: Path, mark: str, how: str) -> None:
    """What is asked for in one ends with that one, and not with another."""
    flags = ringfence.Flags(allow_read=(str(BASE / "lib"),))
    scripts = [inner(script=f"sleep {mark}"), f"sleep 2; {inner(script='echo beside')}", "echo $RINGFENCE_SIBLINGS"]
    given: dict[str, Any] = {"workspace": str(workspace), "flags": flags, "siblings": True, "capture": True}

    async def one(script: str, timeout: float) -> ringfence.Outcome:
        words = ["sh", "-c", script]
        if how == "run":
            return await asyncio.to_thread(ringfence.run, words, timeout=timeout, **given)
        async with ringfence.start(words, timeout=timeout, **given) as running:
            return await running.wait()

    async def main() -> list[ringfence.Outcome]:
        return await asyncio.gather(one(scripts[0], 1.5), one(scripts[1], 30), *(one(scripts[2], 30) for _ in range(3)))

    slow, beside, *doors = asyncio.run(main())

    assert isinstance(slow.ending, ringfence.TimedOut)
    assert (beside.exit_code, beside.stdout) == (0, b"beside\n"), beside
    assert len({door.stdout for door in doors}) == 3
    assert not any(os.path.exists((door.stdout or b"").strip()) for door in doors)
    assert until(lambda: not living(mark))


# A program that is killed after one has been served, and of which a fork is left.
FORKED = f"""
import os, signal, sys, threading, time
sys.path.insert(0, {str(BASE / "lib")!r})
import ringfence

def fork():
    while not os.path.exists("served"):
        time.sleep(0.05)
    if os.fork() == 0:
        time.sleep(60)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=fork).start()
flags = ringfence.Flags(allow_read=({str(BASE / "lib")!r},), cwd=os.getcwd())
ringfence.run(["sh", "-c", sys.argv[1] + " && touch served; sleep 60"], siblings=True, flags=flags)
"""


def _serving() -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path("/proc", name, "cmdline").read_bytes()
            if b"cli.beside" in words and str(BASE).encode() in words:
                found.append(int(name))
    return found


@pytest.mark.needs_userns
def test_a_forked_bystander_does_not_keep_those_who_serve(workspace: Path, mark: str) -> None:
    words = ["/usr/bin/python3", "-I", "-c", FORKED, inner(script="true"), mark]

    ran = subprocess.run(words, cwd=workspace, timeout=SECONDS)

    assert ran.returncode == -signal.SIGKILL
    assert until(lambda: not _serving(), 5)
    assert living(mark), "the fork is gone"
