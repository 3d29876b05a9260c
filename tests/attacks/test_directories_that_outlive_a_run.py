"""A directory of a run that has ended, in other hands: the mounts that hid things in it still do.

It passes by a unix socket: one that is a stream of the run, or one at a path where a policy lets it be reached. Who
holds it here has no walls at all, and sees at least what another run would. Bare, the same program hands everything
over.
"""

import array
import os
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.attacks.everybody import BASE, NOBODY, RUN
from tests.attacks.everybody import installed as installed
from tests.attacks.everybody import workspace as workspace
from tests.attacks.test_siblings import Outer

pytestmark = [pytest.mark.usefixtures("installed"), pytest.mark.needs_userns]

GIVING = """
import array, os, socket, sys
link, *WHERE = LINK
for flags in (os.O_RDONLY, os.O_PATH):
    for path in ("/", os.getcwd()):
        fd = os.open(path, flags | os.O_DIRECTORY)
        link.sendmsg([os.fsencode(path)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))], 0, *WHERE)
"""
BY_A_STREAM = "socket.socket(fileno=os.dup(0)),"
BY_DATAGRAMS = "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), 'mine'"
TO_WHO_COMES = (
    "None,; door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); door.bind('mine'); door.listen()"
    "; link, _ = door.accept()"
)
BY_A_PATH = "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET),; link.connect('mine')"

# Several runs of one process: from the third on each has a copy of a view that was made before.
BY_A_LIBRARY = f"""
import sys
sys.path.insert(0, {str(BASE / "lib")!r})
import ringfence
flags = ringfence.Flags(deny_read=("hidden",), deny_write=("kept",))
for _ in range(6):
    found = ringfence.run(sys.argv[1:], workspace=".", flags=flags)
    assert found.ok, found
"""


@pytest.fixture
def ground(workspace: Path) -> Iterator[Path]:
    """What is hidden, and what may not be written, in the workspace, in a home and in /tmp."""
    private = Path(f"/tmp/rf-private-{os.getpid()}")
    hidden, kept, home = workspace / "hidden", workspace / "kept", workspace.parent / "home" / "secret"
    kept.mkdir()
    for path in (hidden, home, private):
        path.write_text("the-secret\n")
        path.chmod(0o644)
    (workspace / "plain").write_text("plain\n")
    if os.geteuid() == 0:
        for path in (hidden, kept, home):
            os.chown(path, NOBODY, NOBODY)
    yield workspace
    private.unlink()


def given(link: socket.socket) -> list[tuple[str, int]]:
    """The directories that came, and where they stood."""
    found = list[tuple[str, int]]()
    link.settimeout(1)
    while True:
        try:
            text, rights, _, _ = link.recvmsg(4096, socket.CMSG_SPACE(4))
        except TimeoutError:
            return found
        if not rights:
            return found
        found += [(os.fsdecode(text), fd) for fd in array.array("i", rights[0][2])]


def seen(top: str, directory: int, ground: Path) -> set[str]:
    """What a directory shows of all that should not be seen, and what can be done there; and that it is one at all."""
    private = Path(f"/tmp/rf-private-{os.getpid()}")
    found = set()
    for path in (ground / "plain", ground / "hidden", ground.parent / "home" / "secret", private, Path("/proc/1/comm")):
        if not path.is_relative_to(top):
            continue
        try:
            fd = os.open(path.relative_to(top), os.O_RDONLY, dir_fd=directory)
        except OSError:
            continue
        if os.read(fd, 99):
            found.add(path.name)
        os.close(fd)
    try:
        planted = (ground / "kept" / "planted").relative_to(top)
        os.close(os.open(planted, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=directory))
        os.unlink(planted, dir_fd=directory)
        found.add("planted")
    except OSError:
        pass
    return found


def shown(link: socket.socket, ground: Path) -> set[str]:
    """What all of them show, after the run."""
    came = given(link)
    time.sleep(0.3)
    found = set[str]()
    for top, directory in came:
        assert stat.S_ISDIR(os.fstat(directory).st_mode)
        found |= seen(top, directory, ground)
        os.close(directory)
    return found


EVERYTHING = {"plain", "hidden", "secret", f"rf-private-{os.getpid()}", "comm", "planted"}
DENIED = ("--deny-read", "hidden", "--deny-write", "kept")


def by_a_stream(ground: Path, words: list[str]) -> set[str]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            start(ground, [*words, giving(BY_A_STREAM)], theirs.fileno())
        return shown(ours, ground)


def by_datagrams(ground: Path, words: list[str]) -> set[str]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        bind(door, ground)
        start(ground, [*words, giving(BY_DATAGRAMS)])
        return shown(door, ground)


def by_a_path(ground: Path, words: list[str]) -> set[str]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        bind(door, ground)
        door.listen()
        start(ground, [*words, giving(BY_A_PATH)])
        link, _ = door.accept()
        with link:
            return shown(link, ground)


def to_who_comes(ground: Path, words: list[str]) -> set[str]:
    """As a run whose policy names the socket of another's workspace."""
    environ = Outer(ground, "view").environ
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link,
        subprocess.Popen([*words, giving(TO_WHO_COMES)], cwd=ground, env=environ, stdin=subprocess.DEVNULL) as process,
    ):
        until = time.monotonic() + 30
        while link.connect_ex(str(ground / "mine")) and time.monotonic() < until:
            time.sleep(0.05)
        assert process.wait(30) == 0
        return shown(link, ground)


def giving(link: str) -> str:
    return GIVING.replace("LINK", link)


def bind(door: socket.socket, ground: Path) -> None:
    door.bind(str(ground / "mine"))
    (ground / "mine").chmod(0o777)
    door.settimeout(1)


def start(ground: Path, words: list[str], stdin: int = subprocess.DEVNULL) -> None:
    environ = Outer(ground, "view").environ
    ran = subprocess.run(words, cwd=ground, env=environ, stdin=stdin, capture_output=True, text=True, timeout=60)
    (ground / "mine").unlink(missing_ok=True)
    assert ran.returncode == 0, ran.stderr
    assert "cannot" not in ran.stderr


def plain_user() -> list[str]:
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []


Way = Callable[[Path, list[str]], set[str]]


@pytest.mark.parametrize("way", [by_a_stream, by_datagrams, by_a_path, to_who_comes])
def test_bare_a_directory_shows_everything(ground: Path, way: Way) -> None:
    assert way(ground, ["/usr/bin/python3", "-I", "-c"]) == EVERYTHING


@pytest.mark.parametrize("way", [by_a_stream, by_datagrams, by_a_path, to_who_comes])
def test_a_directory_of_a_run_that_has_ended_shows_what_the_run_saw(ground: Path, way: Way) -> None:
    nested = ground.parent / "nested.json"
    nested.write_text('{"allowNestedSandbox": true}')
    options: list[str] = []
    if way is by_datagrams:
        options = ["--allow-socket", str(ground / "mine")]
    elif way is by_a_path:
        options = ["--policy", str(nested)]

    found = way(ground, [*RUN, *DENIED, *options, "--", "/usr/bin/python3", "-I", "-c"])

    assert found == {"plain"}


@pytest.mark.parametrize("number", [1, 6])
def test_one_of_a_run_by_the_library_too(ground: Path, number: int) -> None:
    program = BY_A_LIBRARY.replace("range(6)", f"range({number})")
    words = ["/usr/bin/python3", "-I", "-c", program, "/usr/bin/python3", "-I", "-c"]

    assert by_a_stream(ground, [*plain_user(), *words]) == {"plain"}


def test_what_becomes_a_socket_after_somebody_looked_is_noticed(ground: Path) -> None:
    """Whoever stands by was made for pipes."""
    program = BY_A_LIBRARY.replace("for _ in", "import os\nlast = int(sys.argv.pop(1))\nfor number in").replace(
        "    found = ringfence.run(sys.argv[1:],",
        '    words = ["true"]\n    if number == 5:\n        os.dup2(last, 0)\n        words = sys.argv[1:]\n'
        "    found = ringfence.run(words,",
    )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [*plain_user(), "/usr/bin/python3", "-I", "-c", program, str(theirs.fileno())]
    words += ["/usr/bin/python3", "-I", "-c", giving(BY_A_STREAM)]
    with ours:
        with theirs:
            environ, pipe = Outer(ground, "view").environ, subprocess.PIPE
            with subprocess.Popen(
                words, cwd=ground, env=environ, pass_fds=[theirs.fileno()], stdin=pipe, stdout=pipe, stderr=pipe
            ) as process:
                _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert shown(ours, ground) == {"plain"}
