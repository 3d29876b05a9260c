"""At a person's terminal: interactive programs work, keys mean what they mean, and the terminal is given back."""

import contextlib
import fcntl
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.backends import COMMAND_LINE
from tests.looking import until

AS_ROOT = ["--as-root"] * (os.geteuid() == 0)
SECONDS = 60


class Person:
    """Somebody at a terminal: types, and reads what is there."""

    def __init__(self, words: list[str], cwd: Path, **more: object) -> None:
        self.ours, theirs = os.openpty()
        self.resize(24, 80)
        options: dict[str, object] = {"stdin": theirs, "stdout": theirs, "stderr": theirs, **more}
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(cwd.parent / "home"),
            "TERM": "xterm",
            "LANG": "C.UTF-8",
            "PS1": "outer$ ",
            "SHELL": "/bin/sh",
        }
        whole = ["setsid", "--ctty", "--wait", *words] if options["stdin"] == theirs else words
        self.process = subprocess.Popen(whole, cwd=cwd, env=environ, **options)  # type: ignore[call-overload]
        self.theirs = theirs
        self.seen = b""

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def sees(self, pattern: str) -> str:
        """Wait until it is there; what came before it is forgotten."""
        end = time.monotonic() + SECONDS
        while not (found := re.search(pattern.encode(), self.seen)):
            if not select.select([self.ours], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
            more = os.read(self.ours, 1 << 16)
            assert more
            self.seen += more
        self.seen = self.seen[found.end() :]
        return found[0].decode()

    def sees_that(self, is_true: Callable[[], bool]) -> None:
        """Wait for something that shows on no screen."""
        assert until(is_true), self.seen

    def has_left(self, shell: int) -> bool:
        """Whether whoever is in front is no longer the shell, and wants each key as it comes."""
        return os.tcgetpgrp(self.ours) != shell and not termios.tcgetattr(self.theirs)[3] & termios.ICANON

    def settings(self) -> list[object]:
        return termios.tcgetattr(self.theirs)

    def code(self) -> int:
        return int(self.process.wait(SECONDS))

    def rest(self) -> bytes:
        """What is there when it is over."""
        self.code()
        os.write(self.theirs, b"<over>")  # comes last, however long the kernel takes to pass it on
        while not self.seen.endswith(b"<over>"):
            self.seen += os.read(self.ours, 1 << 16)
        return self.seen.removesuffix(b"<over>")

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


class Desk:
    """Where people sit down."""

    def __init__(self, backend: str, workspace: Path) -> None:
        self.backend, self.workspace = backend, workspace
        self.people: list[Person] = []
        self.script = workspace.parent / "as.py"
        self.script.write_text(COMMAND_LINE)

    def words(self, *words: str, options: tuple[str, ...] = ()) -> list[str]:
        return [
            sys.executable,
            str(self.script),
            self.backend,
            "run",
            "--quiet",
            "--best-effort",
            *AS_ROOT,
            *options,
            "--",
            *words,
        ]

    def person(self, *words: str, options: tuple[str, ...] = (), **more: object) -> Person:
        return self.at(self.words(*words, options=options), **more)

    def at(self, words: list[str], **more: object) -> Person:
        self.people.append(Person(words, self.workspace, **more))
        return self.people[-1]


@pytest.fixture(params=["view", "landlock"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    place = tmp_path / "ws"
    place.mkdir()
    made = Desk(request.param, place)
    yield made
    for person in made.people:
        person.close()


def quoted(words: list[str]) -> str:
    import shlex

    return shlex.join(words)


def sleeps_in_front(word: str) -> bool:
    """Whether a `sleep` with this argument is what its terminal's keys are for, and goes on."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == f"sleep\0{word}\0".encode():
                state, _, group, _, _, front = path.with_name("stat").read_text().rpartition(")")[2].split()[:6]
                return state != "T" and group == front
    return False


def test_bash_has_its_jobs_and_every_key_its_meaning(desk: Desk) -> None:
    person = desk.person("bash", "--norc", "--noprofile")
    person.sees(r"bash-[\d.]+[#$] ")

    person.type("tty; stty size\n")
    person.sees(r"[\r\n]/dev/pts/\d+\r\n24 80")
    person.resize(33, 99)
    person.type("until stty size | grep -q '33 9[9]'; do :; done; stty size\n")
    person.sees("33 99")
    word = f"77{os.getpid()}"
    person.type(f"sleep {word}\n")
    person.sees_that(lambda: sleeps_in_front(word))
    person.type("\x1a")
    person.sees("Stopped")
    person.type("fg\n")
    person.sees_that(lambda: sleeps_in_front(word))
    person.type("\x03")
    person.sees(r"\^C")
    person.type("echo $?; exec sh -c 'kill -QUIT $$'\n")
    person.sees("130")

    assert person.code() == 128 + signal.SIGQUIT


def test_the_terminal_of_the_session_is_found_with_every_stream_elsewhere(desk: Desk) -> None:
    person = desk.person("sh", "-c", "exec 9>&1 </dev/null >/dev/null 2>&1; exec 3<>/dev/tty; echo se''en >&3")
    person.sees("seen")

    assert person.code() == 0


@pytest.mark.parametrize(("key", "number"), [("\x03", signal.SIGINT), ("\x1c", signal.SIGQUIT)])
def test_a_key_ends_a_command_that_is_no_shell(desk: Desk, key: str, number: int) -> None:
    person = desk.person("sh", "-c", "echo ready; exec sleep 77")
    person.sees("ready")
    person.sees_that(lambda: person.has_left(0))

    person.type(key)

    assert person.code() == 128 + number


def test_the_key_that_suspends_suspends_ringfence_too_and_fg_goes_on(desk: Desk) -> None:
    person = desk.at(["bash", "--norc", "--noprofile", "-i"])
    person.sees("outer")
    shell = os.tcgetpgrp(person.ours)
    person.type(quoted(desk.words("sh", "-c", "echo rea''dy; read x; echo got-$x")) + "\n")
    person.sees("[\r\n]ready")
    person.sees_that(lambda: person.has_left(shell))

    person.type("\x1a")
    person.sees("Stopped")
    person.sees("outer")
    person.type("stty -a | grep -o -- '[-]*icanon'; jobs\n")
    person.sees("[\r\n]icanon")
    person.sees("Stopped")
    person.type("fg\n")
    person.sees("ringfence|python")
    person.sees_that(lambda: person.has_left(shell))
    person.type("word\n")

    person.sees("got-word")
    person.sees("outer")
    person.type("exit\n")


def test_a_command_that_stops_itself_stops_ringfence_too_and_fg_goes_on(desk: Desk) -> None:
    """It left a terminal that showed nothing and took every key for a command that could not hear it."""
    person = desk.at(["bash", "--norc", "--noprofile", "-i"])
    person.sees("outer")
    shell = os.tcgetpgrp(person.ours)
    person.type(
        quoted(desk.words("sh", "-c", "for i in 1 2; do echo be''fore-$i; kill -STOP $$; done; read x; echo got-$x"))
        + "\n"
    )
    for number in "12":
        person.sees(f"[\r\n]before-{number}")
        person.sees("Stopped")
        person.sees("outer")
        person.type("fg\n")
        person.sees("ringfence|python")
    person.sees_that(lambda: person.has_left(shell))

    person.type("\x1a")
    person.sees("Stopped")
    person.type("fg\n")
    person.sees("ringfence|python")
    person.sees_that(lambda: person.has_left(shell))
    person.type("word\n")

    person.sees("got-word")
    person.sees("outer")
    person.type("exit\n")


def test_in_the_background_it_stops_alone_and_whoever_is_to_end_it_in_time_does(desk: Desk) -> None:
    """`timeout` leads a group of its own, of which the terminal is not, and which was stopped with it for good."""
    words = quoted(desk.words("sh", "-c", "kill -STOP $$; sleep 60"))

    assert desk.at(["sh", "-c", f"timeout 3 {words}"]).code() == 124


def test_keys_that_were_typed_while_it_was_stopped_are_the_command_s(desk: Desk) -> None:
    """Nobody else has had the terminal meanwhile, so there is nothing to set anew; and what is set anew loses them."""
    person = desk.person("sh", "-c", "echo rea''dy; read x; echo got-$x")
    person.sees("ready")
    person.sees_that(lambda: person.has_left(0))
    ringfence = person.process.pid
    os.kill(ringfence, signal.SIGSTOP)
    person.sees_that(lambda: Path(f"/proc/{ringfence}/stat").read_text().rpartition(")")[2].split()[0] == "T")

    person.type("word\n")
    os.kill(ringfence, signal.SIGCONT)

    person.sees("got-word")
    assert person.code() == 0


def test_a_key_for_a_terminal_that_is_no_session_s_is_a_key(desk: Desk) -> None:
    """As it is for a moment when the command ends: one key typed then made of its exit code a 125."""
    leave = "signal.signal(signal.SIGHUP, signal.SIG_IGN); fcntl.ioctl(0, termios.TIOCNOTTY); tty.setcbreak(0)"
    script = f"import fcntl, os, signal, termios, tty; {leave}; print('rea' 'dy', flush=True); print(os.read(0, 1))"
    person = desk.person("/usr/bin/python3", "-c", script)
    person.sees("ready")

    person.type("x")

    person.sees("b'x'")
    assert person.code() == 0


def test_in_the_background_it_takes_no_keys_and_in_the_foreground_it_does(desk: Desk) -> None:
    person = desk.at(["bash", "--norc", "--noprofile", "-i"])
    person.sees("outer")
    shell = os.tcgetpgrp(person.ours)
    person.type(quoted(desk.words("sh", "-c", "echo rea''dy; read x; echo got-$x")) + " &\n")
    person.sees(r"\$ ready")

    person.type("echo still-$((40+2))\n")
    person.sees("still-42")
    person.type("fg\n")
    person.sees("ringfence|python")
    person.sees_that(lambda: person.has_left(shell))
    person.type("word\n")

    person.sees("got-word")
    person.type("exit\n")


def leaves_by_itself(person: Person) -> None:
    person.type("x")


def is_told_to_end(person: Person) -> None:
    os.kill(person.process.pid, signal.SIGTERM)


def runs_out_of_time(_person: Person) -> None:
    """It does so by itself."""


@pytest.mark.parametrize("how", [leaves_by_itself, is_told_to_end, runs_out_of_time])
def test_the_terminal_is_given_back_as_it_was(desk: Desk, how: object) -> None:
    options = ("--timeout", "5s" if how is runs_out_of_time else "100s")
    script = "import os, tty; tty.setraw(0); os.write(1, b'ready'); os.read(0, 1)"
    before = Person(["true"], desk.workspace)
    settings = before.settings()
    before.close()
    person = desk.person("/usr/bin/python3", "-c", script, options=options)
    person.sees("ready")
    assert person.settings() != settings  # raw

    how(person)  # type: ignore[operator]
    person.code()

    assert person.settings() == settings


@pytest.mark.parametrize("ignored", [False, True])
def test_a_terminal_that_is_closed_ends_the_run_and_what_it_left_is_looked_at(desk: Desk, ignored: bool) -> None:
    """It ended by a traceback: nothing was written down but that nobody waited, and nothing was looked for. Also where
    its hang-up is heard by nobody (nohup), and where the command hears neither that nor that it is to end."""
    said = desk.workspace.parent / "said"
    script = "trap '' HUP TERM; git init -q evil; git -C evil config core.fsmonitor evil; echo ready; sleep 50"
    with said.open("wb") as errors:
        words = desk.words("sh", "-c", script)
        words.remove("--quiet")
        whole = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *words] if ignored else words
        person = desk.at(whole, stderr=errors)
    person.sees("ready")
    os.close(person.theirs)
    os.close(person.ours)
    desk.people.remove(person)

    assert person.code() == 128 + signal.SIGKILL
    assert b"evil/.git may have come" in said.read_bytes()
    assert b"Traceback" not in said.read_bytes()


def test_vim_survives_its_own_key_that_suspends(desk: Desk) -> None:
    """In raw mode that key is no signal: vim reads it, gives the screen back, and asks the kernel to stop it, which a
    program that leads its session is not. So it goes on, and nothing is lost."""
    person = desk.person("vim", "-u", "NONE", "-N", "note.txt")
    person.sees("note.txt")
    person.type("ibefore\x1b")
    person.sees("before")

    person.type("\x1a")
    person.sees(r"\x1b\[\?1049l")  # the other screen, and at once
    person.sees(r"\x1b\[\?1049h")
    person.type("a and after\x1b:wq\r")

    assert person.code() == 0
    assert (desk.workspace / "note.txt").read_text() == "before and after\n"


def test_vim_edits_a_file(desk: Desk) -> None:
    person = desk.person("vim", "-u", "NONE", "-N", "note.txt")
    person.sees("note.txt")
    person.type("ihello from vim\x1b")
    person.type(":wq\r")

    assert person.code() == 0
    assert (desk.workspace / "note.txt").read_text() == "hello from vim\n"


def test_python_is_interactive(desk: Desk) -> None:
    person = desk.person("/usr/bin/python3", "-q")
    person.sees(">>> ")
    person.type("40 + 2\n")
    person.sees("42\r\n")
    person.type("import time; time.sleep(50)\n")
    time.sleep(0.5)
    person.type("\x03")
    person.sees("KeyboardInterrupt")
    person.sees(">>> ")
    person.type("\x04")

    assert person.code() in (0, 130)  # Python remembers the interrupt


def test_top_shows_and_quits(desk: Desk) -> None:
    person = desk.person("top")
    person.sees("PID")
    person.type("q")

    assert person.code() == 0


def test_tmux_has_windows(desk: Desk) -> None:
    if desk.backend == "landlock":
        return  # its socket is a unix socket, which Landlock plans refuse: a stated gap
    person = desk.person("tmux", "-f", "/dev/null", "new-session", "sh")
    person.sees(r"[#$] ")
    person.type("echo in-$((40+2))\n")
    person.sees("in-42")
    person.type("exit\n")
    person.sees("exited")

    assert person.code() == 0


STEER = r"printf 'a\033]52;c;eA==\007b\033]0;T\007c\033[31md\033[6ne\n'"


@pytest.mark.parametrize(
    ("options", "stdin", "shown"),
    [
        ((), None, b"abc\x1b[31md\x1b[6ne\r\n"),
        (("--raw-terminal",), None, b"a\x1b]52;c;eA==\x07b\x1b]0;T\x07c\x1b[31md\x1b[6ne\r\n"),
        ((), subprocess.DEVNULL, b"abc\x1b[31mde\r\n"),
        (("--raw-terminal",), subprocess.DEVNULL, b"a\x1b]52;c;eA==\x07b\x1b]0;T\x07c\x1b[31md\x1b[6ne\r\n"),
    ],
)
def test_what_reaches_beyond_the_screen_is_not_passed_on_unless_asked(
    desk: Desk, options: tuple[str, ...], stdin: int | None, shown: bytes
) -> None:
    more = {} if stdin is None else {"stdin": stdin}

    person = desk.person("sh", "-c", STEER, options=options, **more)

    assert person.rest() == shown


def test_output_alone_at_a_terminal_is_a_terminal_and_the_keyboard_is_left_alone(desk: Desk) -> None:
    person = desk.at(["bash", "--norc", "--noprofile", "-i"])
    person.sees("outer")
    script = "test -t 1 && test -t 2 && echo is-terminal; sleep 1"
    person.type(f"echo x | {quoted(desk.words('sh', '-c', script))}; read y; echo got-$y\n")
    person.sees("[\r\n]is-terminal")
    person.type("typed\n")

    person.sees("got-typed")
    person.type("exit\n")


def test_the_person_s_terminal_cannot_be_reached(desk: Desk) -> None:
    """Neither by descriptor nor by name: keys cannot be pushed into it, its settings cannot be changed."""
    person = desk.person("sh", "-c", "stty raw -echo; for n in 0 1 2; do readlink /proc/self/fd/$n; done; tty")
    shown = person.rest().decode().split()

    assert len({*shown}) == 1, shown
    if desk.backend == "view":
        assert shown[0] == "/dev/pts/0"
    else:
        assert shown[0] != os.ttyname(person.theirs)


def test_a_limit_of_output_holds_at_a_terminal_too(desk: Desk) -> None:
    person = desk.person("sh", "-c", "while :; do echo 0123456789; done", options=("--output", "10K"))
    seen = b""
    while select.select([person.ours], [], [], 0.1)[0] or person.process.poll() is None:
        if select.select([person.ours], [], [], 0)[0]:
            seen += os.read(person.ours, 1 << 16)

    assert person.code() == 123
    assert len(seen) < 11_000


def test_the_programs_are_here() -> None:
    assert [name for name in ("vim", "tmux", "top", "bash", "stty") if shutil.which(name) is None] == []
