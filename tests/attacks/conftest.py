"""The field on which attacks are tried: the same program bare, where it must succeed, and inside, where it must not.

A ground is a workspace, a directory outside that may be read, and a home that may not, all of one owner. Each try has
its own. The attacking program makes attempts and tells of each what came of it: `done`, or the name of an error. Bare,
every attempt must be done, which proves that the test can fail. Inside, none may be; nothing outside may have changed,
and no witness (a listener, a process) may have been reached. Where a backend has a stated gap instead, the plan must
list it, so that nothing is silent.
"""

import contextlib
import functools
import hashlib
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.backends import on
from tests.looking import remove_tree

import ringfence
from ringfence.plan.numbers import numbers

SECONDS = 60.0  # nothing here takes one; a hang must not take the whole run
PYTHON = "/usr/bin/python3"  # the one every user can reach
PATH = "/usr/local/bin:/usr/bin:/bin"
PLAIN = 65534
ROOT = os.geteuid() == 0
SECRET = "a-secret-that-stays"

PREAMBLE = """
import ctypes, errno, os, sys
WS, OUTSIDE, HOME, *EXTRA = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
class Number:
    def __getattr__(self, name):
        return NUMBERS[name]
NR = Number()
def attempt(name, call):
    try:
        call()
    except OSError as error:
        print(name, errno.errorcode.get(error.errno, "refused"), flush=True)
    else:
        print(name, "done", flush=True)
def reach(name, call):
    try:
        call()
    except OSError as error:
        refused = error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS)
        print(name, errno.errorcode[error.errno] if refused else "done", flush=True)
    else:
        print(name, "done", flush=True)
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def syscall(number, *arguments):
    libc.syscall.restype = ctypes.c_long
    longs = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return checked(libc.syscall(ctypes.c_long(number), *longs))
def read(path, dir_fd=None):
    fd = os.open(path, os.O_RDONLY, dir_fd=dir_fd)
    try:
        os.read(fd, 99)
    finally:
        os.close(fd)
def write(path, text="evil\\n", flags=os.O_CREAT):
    fd = os.open(path, os.O_WRONLY | flags, 0o644)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
def sh(script):
    if os.system("(" + script + ") >/dev/null 2>&1") != 0:
        raise OSError(errno.EREMOTEIO, "the script failed")
"""


class Walls(NamedTuple):
    """A backend, and who the command is: the workspace's owner, root, or whoever runs the tests."""

    backend: str
    who: str

    def __str__(self) -> str:
        return f"{self.backend}-{self.who}"

    @property
    def kind(self) -> str:
        """What holds: both builders of views promise the same."""
        return "landlock" if self.backend in ("landlock", "unasked") else "view"

    @property
    def uid(self) -> int:
        return {"owner": PLAIN, "root": 0, "self": os.geteuid()}[self.who]


def _walls(*chosen: tuple[str, str]) -> tuple[object, ...]:
    marks = {
        "view": pytest.mark.needs_userns,
        "bubblewrap": pytest.mark.needs_bwrap,
        "landlock": pytest.mark.needs_landlock(6),
    }
    return tuple(pytest.param(Walls(*one), id=str(Walls(*one)), marks=marks[one[0]]) for one in chosen)


# Root with Landlock alone is refused by itself (test_root_without_a_view.py).
WALLS = (
    _walls(("view", "owner"), ("landlock", "owner"), ("bubblewrap", "owner"), ("view", "root"))
    if ROOT
    else _walls(("view", "self"), ("landlock", "self"), ("bubblewrap", "self"))
)
MORE_WALLS = _walls(("bubblewrap", "root")) if ROOT else ()  # rare, so the cases and what aims at root do
# What a warden alone holds where there is no view: above 1, Yama lets it read nothing of such a command's.
_YAMA = {True: [pytest.mark.needs_yama(1)], False: []}
ANSWERED = pytest.mark.parametrize(
    "field",
    [pytest.param(*one.values, id=one.id, marks=[*one.marks, *_YAMA["landlock" in one.id]]) for one in WALLS],  # type: ignore[attr-defined]
    indirect=True,
)
EVERY_WALL = pytest.mark.parametrize("field", [*WALLS, *MORE_WALLS], indirect=True)


# ---- The ground ----


class Ground:
    """A workspace with an outside around it. What a test starts here ends with it; a witness says whether harm came."""

    def __init__(self, uid: int) -> None:
        self.uid = uid
        self.gid = PLAIN if uid == PLAIN and ROOT else os.getegid()
        self.base = Path(tempfile.mkdtemp(prefix="rf-", dir="/var/tmp"))
        self.workspace, self.outside, self.home = (self.base / name for name in ("ws", "outside", "home"))
        self.stack = contextlib.ExitStack()
        self.harmed: list[Callable[[], bool]] = []
        for name in ("ws/src", "outside/dir", "home/.ssh", "home/.aws", "home/.config"):
            (self.base / name).mkdir(parents=True)
        for name in ("outside/canary", "outside/other", "outside/dir/inner", "home/.bashrc", "home/.gitconfig"):
            (self.base / name).write_text("canary\n" if "git" not in name else "[user]\n\tname = somebody\n")
        for name in ("home/.ssh/id_ed25519", "home/.aws/credentials"):
            (self.base / name).write_text(SECRET + "\n")
        (self.workspace / "README.md").write_text("read me\n")
        self.base.chmod(0o755)
        self.own()

    def own(self) -> None:
        """Everything belongs to the user of the ground."""
        if ROOT:
            for path in (self.base, *self.base.rglob("*")):
                os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def file(self, name: str, text: str = "as it was\n") -> Path:
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def state(self) -> dict[str, object]:
        """All that there is to see of the outside and the home, but for times of reading."""
        found: dict[str, object] = {}
        for path in sorted((self.outside, self.home, *self.outside.rglob("*"), *self.home.rglob("*"))):
            facts = path.lstat()
            content = ""
            if stat.S_ISREG(facts.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            elif stat.S_ISLNK(facts.st_mode):
                content = os.readlink(path)
            names: tuple[str, ...] = ()
            if sys.platform == "linux":
                names = tuple(os.listxattr(path, follow_symlinks=False))
            times = (facts.st_mtime_ns, facts.st_ctime_ns)
            found[str(path)] = (facts.st_mode, facts.st_uid, facts.st_gid, facts.st_nlink, times, names, content)
        return found

    def close(self) -> None:
        self.stack.close()
        remove_tree(self.base)

    # What attacks aim at.

    def victim(self, *, cwd: str = "/", environ: Mapping[str, str] | None = None) -> int:
        """A process of the same user outside; it must live on."""
        command = [*as_user(self.uid), "sleep", "60"]
        process = subprocess.Popen(command, cwd=cwd, env=dict(environ or {"PATH": PATH}), stdin=subprocess.DEVNULL)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        self.harmed.append(lambda: process.poll() is not None)
        _until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        return process.pid

    def listener(self, family: int = socket.AF_INET, address: object = ("127.0.0.1", 0)) -> socket.socket:
        """Somebody who listens outside, and must not be reached."""
        listening = self.stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        listening.bind(address)  # type: ignore[arg-type]  # as the family wants it
        if isinstance(address, str) and not address.startswith("\0"):
            os.chmod(address, 0o777)
        listening.listen()
        listening.setblocking(False)
        self.harmed.append(Reached(listening))
        return listening

    def thread(self, work: Callable[[threading.Event], None]) -> None:
        """Something that goes on outside while the attack runs."""
        stop = threading.Event()
        thread = threading.Thread(target=work, args=(stop,))
        thread.start()
        self.stack.callback(thread.join)
        self.stack.callback(stop.set)


def _until(true: Callable[[], bool]) -> None:
    for _ in range(2000):
        with contextlib.suppress(OSError):
            if true():
                return
        threading.Event().wait(0.01)


class Reached:
    """Whether anybody has connected; once is enough."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._seen = False

    def __call__(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            self._listening.accept()[0].close()
            self._seen = True
        return self._seen


def as_user(uid: int) -> list[str]:
    """What to put before a command so that it runs as this user, without the sandbox."""
    if not ROOT or uid == 0:
        return []
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]


@functools.cache
def git_template() -> Path:
    """A repository with one commit, to be copied."""
    path = Path(tempfile.mkdtemp(prefix="rf-git-", dir="/var/tmp"))
    environ = {"PATH": PATH, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    script = (
        "git init -q -b main . && echo one > one && git add one"
        " && git -c user.name=n -c user.email=e@example.org commit -q -m one"
    )
    subprocess.run(["sh", "-c", script], cwd=path, env=environ, check=True, timeout=SECONDS)
    return path / ".git"


def with_git(ground: Ground) -> list[str]:
    """Make the workspace a repository, with a hook and a submodule's directory in it."""
    shutil.copytree(git_template(), ground.workspace / ".git", symlinks=True)
    ground.file("ws/.git/hooks/pre-commit.sample")
    ground.file("ws/.git/modules/m/config", "[core]\n")
    return []


@pytest.fixture(scope="session", autouse=True)
def _no_template_left() -> Iterator[None]:
    yield
    if git_template.cache_info().currsize:
        shutil.rmtree(git_template().parent)


# ---- The field ----

Prepare = Callable[[Ground], Sequence[str]]
Answers = dict[str, str]


Flags = dict[str, tuple[str, ...]]


def nothing(_ground: Ground) -> list[str]:
    return []


def with_secrets(ground: Ground) -> list[str]:
    """A file of the workspace in a directory of its own, and one alone; `secrets_closed` denies to read them."""
    ground.file("ws/private/secret.txt")
    ground.file("ws/.env")
    return []


def secrets_closed(ground: Ground) -> Flags:
    return {"deny_read": (str(ground.workspace / "private"), str(ground.workspace / ".env"))}


def with_rules(ground: Ground) -> list[str]:
    """A file of the workspace alone, and one in a directory of its own; `rules_closed` denies to write them."""
    ground.file("ws/rules")
    ground.file("ws/private/rules")
    return []


def rules_closed(ground: Ground) -> Flags:
    return {"deny_write": (str(ground.workspace / "rules"), str(ground.workspace / "private"))}


def with_listener(ground: Ground) -> list[str]:
    """The port of somebody on the loopback of the host."""
    return [str(ground.listener().getsockname()[1])]


class Seen(NamedTuple):
    """What came of one try."""

    answers: Answers
    code: int
    said: str
    gaps: tuple[ringfence.Gap, ...] = ()


def source(program: str) -> str:
    known = numbers(os.uname().machine)
    named = {name: known[name] for name in re.findall(r"\bNR\.(\w+)", program)}
    return f"NUMBERS = {named}\n{PREAMBLE}\n{program}"


def answers(output: str) -> Answers:
    return dict(line.rsplit(" ", 1) for line in output.splitlines() if " " in line)


@functools.cache
def bare(program: str, prepare: Prepare, as_root: bool, unknown: tuple[str, ...] = ()) -> tuple[Seen, tuple[bool, ...]]:
    """The attack without a sandbox, once for each attack. A race is not won each time, so it is tried a few times: that
    it can succeed is what is to be seen. Inside there is one try, and none may succeed."""
    for _ in range(5):
        seen, harms = bare_once(program, prepare, as_root)
        if all(harms) and all(answer == "done" or name in unknown for name, answer in seen.answers.items()):
            break
    return seen, harms


def bare_once(program: str, prepare: Prepare, as_root: bool) -> tuple[Seen, tuple[bool, ...]]:
    """By a plain user where there is one."""
    ground = Ground(0 if as_root else PLAIN if ROOT else os.geteuid())
    try:
        extra = prepare(ground)
        ground.own()
        words = [*as_user(ground.uid), PYTHON, "-I", "-S", "-c", source(program), *arguments(ground, extra)]
        done = subprocess.run(
            words, cwd=ground.workspace, env=environment(ground), stdin=subprocess.DEVNULL, capture_output=True,
            timeout=SECONDS, start_new_session=True,
        )  # fmt: skip
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        _until(lambda: all(harmed() for harmed in ground.harmed))  # a process takes a moment to die
        return Seen(answers(done.stdout.decode("utf-8", "replace")), done.returncode, said), _harms(ground)
    finally:
        ground.close()


def _harms(ground: Ground) -> tuple[bool, ...]:
    return tuple(harmed() for harmed in ground.harmed)


def arguments(ground: Ground, extra: Sequence[str]) -> list[str]:
    return [str(ground.workspace), str(ground.outside), str(ground.home), *extra]


def environment(ground: Ground) -> dict[str, str]:
    return {"PATH": PATH, "HOME": str(ground.home), "LANG": "C.UTF-8"}


def backend(walls: Walls) -> contextlib.AbstractContextManager[None]:
    """Every plan for this user is made for this backend."""
    ids = (PLAIN, PLAIN) if walls.who == "owner" else None
    if walls.backend == "unasked view":  # whose warden has no /proc in which it sees the command
        return on("view", ids, fresh_proc=False)
    if walls.backend == "unasked":  # Landlock, and a warden that may not look at the command's calls
        return on("landlock", ids, yama=2)
    return on(walls.backend, ids)


class Field:
    """One backend and one user, and the grounds used on it."""

    def __init__(self, walls: Walls, patch: pytest.MonkeyPatch) -> None:
        self.walls = walls
        self._patch = patch
        self._stack = contextlib.ExitStack()

    def close(self) -> None:
        self._stack.close()

    def ground(self) -> Ground:
        """A new ground, for whom the command is; its home is the user's home."""
        made = Ground(self.walls.uid)
        self._stack.callback(made.close)
        self._patch.setenv("HOME", str(made.home))
        look_up = pwd.getpwuid

        def getpwuid(uid: int) -> object:
            entry = look_up(uid)
            return pwd.struct_passwd((*entry[:5], str(made.home), *entry[6:])) if uid == made.uid else entry

        self._patch.setattr(pwd, "getpwuid", getpwuid)
        return made

    def run(
        self,
        ground: Ground,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        readable: bool = True,
        cwd: Path | None = None,
        **flags: object,
    ) -> ringfence.Outcome:
        """A command inside. All of the ground but the home may be read, unless `readable` says no."""
        given = {"cwd": str(ground.workspace), **flags}
        if readable:
            given["allow_read"] = (str(ground.base), *given.get("allow_read", ()))  # type: ignore[misc]
        with backend(self.walls):
            return ringfence.run(
                list(argv),
                workspace=str(ground.workspace),
                cwd=str(cwd or ground.workspace),
                env=environment(ground) if environ is None else environ,
                flags=ringfence.Flags(**given),  # type: ignore[arg-type]
                capture=True,
                input=b"",
                timeout=SECONDS,
                as_root=self.walls.who == "root",
            )

    def program(self, ground: Ground, program: str, extra: Sequence[str] = (), **flags: object) -> Seen:
        """An attacking program inside."""
        words = [PYTHON, "-I", "-S", "-c", source(program), *arguments(ground, extra)]
        outcome = self.run(ground, words, **flags)  # type: ignore[arg-type]
        out = (outcome.stdout or b"").decode("utf-8", "replace")
        said = f"{outcome.ending}\n{out}{(outcome.stderr or b'').decode('utf-8', 'replace')}"
        return Seen(answers(out), outcome.exit_code, said, outcome.gaps)

    def repels(
        self,
        program: str,
        prepare: Prepare = nothing,
        *,
        denied: Callable[[Ground], Mapping[str, tuple[str, ...]]] | None = None,
        gaps: Mapping[str, Mapping[str, str]] | None = None,
        unknown: Sequence[str] = (),
        bare_as_root: bool = False,
        code: int = 0,
    ) -> None:
        """The attack succeeds bare, and inside it does not.

        `denied` gives flags for the ground; `gaps` maps a backend to attempts that it does not refuse, each with words
        of the gap that says so; `unknown` are attempts that this kernel need not know; `code` is how it ends inside.
        """
        proof, harms = bare(program, prepare, bare_as_root, tuple(unknown))
        failed = {name: answer for name, answer in proof.answers.items() if answer != "done" and name not in unknown}
        assert not failed, f"bare, it must succeed: {proof.said}"
        assert "done" in proof.answers.values(), f"bare, it must succeed: {proof.said}"
        assert all(harms), f"bare, every witness must have seen it: {harms}"

        ground = self.ground()
        extra = prepare(ground)
        ground.own()
        before = ground.state()
        seen = self.program(ground, program, extra, **(dict(denied(ground)) if denied else {}))
        allowed = (gaps or {}).get(self.walls.kind, {})
        for name, words in allowed.items():
            listed = [gap.what for gap in seen.gaps]
            assert any(words in what for what in listed), f"{name}: no gap says {words!r} among {listed}"
        escaped = sorted(name for name, answer in seen.answers.items() if answer == "done" and name not in allowed)
        assert not escaped, f"ESCAPED: {escaped}: {seen.said}"
        if code == 0:
            assert seen.answers.keys() == proof.answers.keys(), f"not every attempt was made: {seen.said}"
        assert seen.code == code, seen.said
        if not allowed:
            threading.Event().wait(0.05 if ground.harmed else 0)  # harm takes a moment
            assert ground.state() == before, f"the outside has changed: {seen.said}"
            assert not any(_harms(ground)), f"a witness was reached: {seen.said}"


@pytest.fixture(params=WALLS)
def field(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Field]:
    """Each backend this machine can have, for each user there can be."""
    made = Field(request.param, monkeypatch)
    yield made
    made.close()


# ---- The command line ----

_AS = """
import sys
import msgspec
from ringfence.enforce import enactor
look = enactor._answer
backend = sys.argv.pop(1)
if backend != "view":
    def probe(*about):
        return msgspec.structs.replace(look(*about), namespaces=False, namespaces_why="the test says so")
    enactor._answer = probe
if backend == "landlock":
    enactor._with_bubblewrap = lambda host, ids: host
from ringfence.cli import main
sys.exit(main())
"""


class Said(NamedTuple):
    """What a command line gave."""

    code: int
    out: str
    err: str


def ringfence_words(walls: Walls, *options: str) -> list[str]:
    """`ringfence run` on a backend, to be followed by a command."""
    rooted = ["--as-root"] if walls.who == "root" else []
    return [sys.executable, "-I", "-c", _AS, walls.backend, "run", *rooted, *options, "--"]


def said(
    words: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    stdin: int = -3,
) -> Said:
    """Run any command line to its end."""
    done = subprocess.run(
        list(words), cwd=cwd, env=dict(os.environ if environ is None else environ), capture_output=True,
        timeout=SECONDS, stdin=stdin, pass_fds=tuple(pass_fds), start_new_session=True,
    )  # fmt: skip
    return Said(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def at_terminal(words: Sequence[str], cwd: Path, uid: int | None = None) -> Said:
    """Run a command line whose controlling terminal is a new one, and read what it prints there."""
    ours, theirs = os.openpty()
    if uid is not None and ROOT:
        os.fchown(theirs, uid, -1)
    try:
        whole = ["setsid", "--ctty", "--wait", *words]
        process = subprocess.Popen(whole, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        watchdog = threading.Timer(SECONDS, os.kill, (process.pid, signal.SIGKILL))
        watchdog.start()
        text = b""
        with contextlib.suppress(OSError):  # EIO: nobody holds the other end any more
            while part := os.read(ours, 1 << 16):
                text += part
        code = process.wait()
        watchdog.cancel()
        watchdog.join()
    finally:
        os.close(ours)
    return Said(code, text.decode("utf-8", "replace").replace("\r\n", "\n"), "")
