"""The command cannot answer its own question: nothing that leads to an answer can be reached from inside."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.airlock.asked import PYTHON, Place
from tests.conftest import needs_bwrap
from tests.looking import common_place, until

from ringfence.airlock import lines
from ringfence.model import PolicyError
from ringfence.policy.trust import asking_of

pytestmark = [pytest.mark.needs_userns, pytest.mark.needs_landlock(6)]
# Answer whatever is asked at a socket; says whether anybody spoke to us.
ANSWER = """
import os, socket, sys
def answered(path):
    try:
        end = socket.socket(socket.AF_UNIX)
        end.settimeout(3)
        end.connect(path)
        heard = end.recv(4096)
        end.sendall(b'{"query_id": "1", "action": "allow"}\\n')
        return bool(heard)
    except OSError as error:
        return False
"""


@pytest.fixture(params=["view", "landlock", "bubblewrap"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    unmet = needs_bwrap() if request.param == "bubblewrap" else None
    if unmet:
        pytest.skip(unmet.reason)
    with tempfile.TemporaryDirectory(dir=common_place(), prefix="rf-ask-") as base:
        yield Place(Path(base), request.param)


def socket_of(place: Place) -> str:
    directory = asking_of(place.environ())
    (run,) = until(lambda: list(lines.runs(directory)))
    return f"{directory}/{run}.sock"


def test_the_socket_of_the_run(place: Place) -> None:
    """Outside it can be answered on; inside it cannot be reached, by any name, and what was asked stays a no."""
    program = (
        ANSWER
        + """
import threading, time
said = []
def ask():
    try:
        said.append(open("../home/data/one").read())
    except OSError as error:
        said.append(error.strerror)
asker = threading.Thread(target=ask)
asker.start()
while not os.path.exists("where"):
    time.sleep(0.01)
path = open("where").read()
ways = [path, "/proc/self/root" + path, os.path.relpath(path)]
print(any([answered(way) for way in ways]))
open("tried", "w").close()
asker.join()
print(said[0])
"""
    )
    with place.python(program) as run:
        query = run.query()
        path = socket_of(place)
        (place.workspace / "where.new").write_text(path)
        os.rename(place.workspace / "where.new", place.workspace / "where")
        found = lines.connect(os.path.dirname(path), os.path.basename(path).removesuffix(".sock"))
        assert found is not None
        assert len(found[1].questions) == 1
        found[0].close()
        assert until((place.workspace / "tried").exists)
        run.deny(query)
        code, out, err = run.end()
    assert (code, out) == (0, "False\nPermission denied\n"), err
    assert not os.path.exists(path)


def test_who_stands_behind_a_filter_is_not_heard(tmp_path: Path) -> None:
    """Whatever leads there: whoever is in a sandbox that we are not in gets no line."""
    directory = str(tmp_path / "asking")
    door = lines.Door(directory, "run")
    filtered = """
import ctypes, struct
libc = ctypes.CDLL(None)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000), 8)
program = struct.pack("HxxxxxxP", 1, ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.c_char_p(program)) == 0
"""
    try:
        for prelude, heard in (("", True), (filtered, False)):
            program = ANSWER + prelude + f"\nprint(answered({door.path!r}))"
            with subprocess.Popen([PYTHON, "-I", "-S", "-c", program], stdout=subprocess.PIPE, text=True) as process:
                client = None
                while client is None and process.poll() is None:
                    client = door.accept()
                    time.sleep(0.01)
                if client is not None:
                    client.send({"state": "hello"})
                assert process.communicate(timeout=60)[0] == f"{heard}\n"
                if client is not None:
                    client.close()
    finally:
        door.close()


def test_a_directory_that_others_can_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "asking").mkdir()
    os.chmod(tmp_path / "asking", 0o755)
    with pytest.raises(PolicyError):
        lines.Door(str(tmp_path / "asking"), "run")


def test_a_descriptor_that_is_no_socket_is_refused(place: Place) -> None:
    read, write = os.pipe()
    words = place.run_words("--ask-fd", str(read), "--", "true")
    done = subprocess.run(words, env=place.environ(), capture_output=True, text=True, pass_fds=[read], timeout=60)
    os.close(read)
    os.close(write)
    assert done.returncode == 2
    assert "no socket" in done.stderr


def test_the_verb_refuses_inside(place: Place) -> None:
    words = place.words("approvals", "watch")
    environ = {**place.environ(), "RINGFENCE": "1"}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode != 0
    assert "inside a sandbox" in done.stderr


def test_what_was_granted_to_be_read_is_only_read(place: Place) -> None:
    """A descriptor from outside stands on the host's own mount, where neither the view nor a mask reaches."""
    program = """
import errno, fcntl, os
fd = os.open("../home/data/one", os.O_RDONLY)
own = f"/proc/self/fd/{fd}"
def attempt(name, call):
    try:
        call()
        print(name, "done")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
attempt("emptied", lambda: os.close(os.open(own, os.O_RDONLY | os.O_TRUNC)))
attempt("emptied by its path", lambda: os.truncate(own, 0))
attempt("opened to be written", lambda: os.close(os.open(own, os.O_WRONLY)))
attempt("opened for both", lambda: os.close(os.open(own, os.O_RDWR)))
attempt("mode", lambda: os.fchmod(fd, 0o600))
attempt("mode by its path", lambda: os.chmod(own, 0o600))
attempt("times", lambda: os.utime(fd, (1, 1)))
attempt("times by its path", lambda: os.utime(own, (1, 1)))
attempt("an attribute", lambda: os.setxattr(fd, "user.a", b"b"))
attempt("an attribute by its path", lambda: os.setxattr(own, "user.a", b"b"))
attempt("owner", lambda: os.fchown(fd, os.getuid(), os.getgid()))
attempt("a second name", lambda: os.link(own, "named", follow_symlinks=True))
attempt("flags", lambda: fcntl.ioctl(fd, 0x40086602, b"\\x40" + bytes(7)))
attempt("flags of another kind", lambda: fcntl.ioctl(fd, 0x401C5820, b"\\x40" + bytes(27)))
print(os.read(fd, 9))
"""
    file = place.home / "data" / "one"
    text = file.read_bytes()
    before = file.stat()
    with place.python(program, "--ask-timeout", "100s") as run:
        run.allow(run.query(), scope="once")
        for said in run.lines:  # whatever else is asked is refused
            line = json.loads(said)
            if line["state"] == "query":
                run.deny(line)
        code, out, err = run.end()
    after = file.stat()
    assert "done" not in out, out
    assert file.read_bytes() == text
    assert (before.st_mode, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_mode,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )
    assert repr(text[:9]) in out, (code, err)
