"""Questions and answers as lines of JSON on sockets: the socket of each run, and whoever connects to it.

docs/asking.md has the lines. A run listens in a directory of ours, which no command can reach; whoever connects must be
the same user, and in no sandbox that we are not in.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` has no pidfd_send_signal on macOS
import contextlib
import errno
import os
import socket
import struct
import time

import msgspec

from ..model import PolicyError
from ..model.event import written

SCHEMA = "ringfence/asking@1"
LONGEST = 1 << 16
_MOST_OWED = 1 << 20  # of lines that a client does not read
_CREDENTIALS = struct.Struct("iII")
_PEERPIDFD = 77
_PATIENCE = 5.0  # seconds in which a run says what became of an answer
_PEERCRED, _PATH = getattr(socket, "SO_PEERCRED", 17), getattr(os, "O_PATH", 0)
Line = dict[str, object]


class Lines:
    """A stream socket that speaks lines; `by` says whose answers they are."""

    def __init__(self, sock: socket.socket, by: str) -> None:
        sock.setblocking(False)
        self.socket, self.by = sock, by
        self._got, self._owed = b"", b""

    def fileno(self) -> int:
        return self.socket.fileno()

    def read(self) -> list[Line] | None:
        """The lines that are there; None: there will be no more. What is no object is left out."""
        try:
            data = self.socket.recv(LONGEST)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data or len(self._got) + len(data) > 2 * LONGEST:
            return None
        *whole, self._got = (self._got + data).split(b"\n")
        return [line for text in whole if (line := _object(text)) is not None]

    def send(self, line: Line) -> None:
        self._owed += written(line) + b"\n"
        self.flush()

    def flush(self) -> None:
        """Say what is owed. Raises OSError when nobody listens, or not for too long."""
        if len(self._owed) > _MOST_OWED:
            raise BrokenPipeError("nobody reads")
        try:
            self._owed = self._owed[self.socket.send(self._owed, socket.MSG_NOSIGNAL) :] if self._owed else b""
        except BlockingIOError:
            return

    def close(self) -> None:
        self.socket.close()


def _object(text: bytes) -> Line | None:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


# ---- The run's side ----


class Door:
    """Where a run listens."""

    def __init__(self, directory: str, run: str) -> None:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        facts = os.lstat(directory)
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o077 or not os.path.isdir(directory):
            raise PolicyError(directory, "others can use it", f"chmod 700 {directory}")
        self.path = f"{directory}/{run}.sock"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _at(self._socket.bind, directory, f"{run}.sock")
            self._socket.listen(16)
        except BaseException:
            self._socket.close()
            raise
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> Lines | None:
        """Who came, if it may be here."""
        try:
            sock, _ = self._socket.accept()
        except OSError:
            return None
        pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, _PEERCRED, _CREDENTIALS.size))
        if uid != os.geteuid() or is_confined(pid) or not _still_lives(sock):
            sock.close()
            return None
        return Lines(sock, "watch")

    def close(self) -> None:
        self._socket.close()
        with contextlib.suppress(OSError):  # somebody was tidier
            os.unlink(self.path)


def _at(call, directory: str, name: str) -> None:  # type: ignore[no-untyped-def]
    """Bind or connect by a path that is never too long for a socket."""
    fd = os.open(directory, _PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        call(f"/proc/self/fd/{fd}/{name}")
    finally:
        os.close(fd)


def is_confined(pid: int) -> bool:
    """Whether a process is in a sandbox that we are not in: a filter of system calls more, or other users."""
    try:
        return _filters(str(pid)) > _filters("self") or os.readlink(f"/proc/{pid}/ns/user") != os.readlink(
            "/proc/self/ns/user"
        )
    except (OSError, ValueError):
        return True  # nobody can say


def _still_lives(sock: socket.socket) -> bool:
    """Whether who came had its number all the while, and not somebody after it. Before Linux 6.5 nobody can say."""
    try:
        held = int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, _PEERPIDFD, 4), "little")
    except OSError as error:
        return error.errno == errno.ENOPROTOOPT
    try:
        signal.pidfd_send_signal(held, 0)
    except ProcessLookupError:
        return False
    finally:
        os.close(held)
    return True


def _filters(process: str) -> int:
    with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("Seccomp_filters:"):
                return int(line.split()[1])
    raise ValueError("an older kernel")


# ---- The person's side ----


class Waiting(msgspec.Struct, frozen=True):
    """A run that asks, and what it asks now."""

    run: str
    workspace: str
    command: tuple[str, ...]
    pid: int
    questions: tuple[Line, ...]


def runs(directory: str) -> list[str]:
    """The runs that may be asking."""
    try:
        return sorted(name.removesuffix(".sock") for name in os.listdir(directory) if name.endswith(".sock"))
    except OSError:
        return []


def connect(directory: str, run: str) -> tuple[Lines, Waiting] | None:
    """The lines of a run, after the questions that are open; None when it is over, and then it is forgotten."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(5.0)
    try:
        _at(sock.connect, directory, f"{run}.sock")
        hello, questions = _begin(sock)
        words = hello["command"]
        assert isinstance(words, list)
        pid = hello["pid"]
        found = Waiting(run, str(hello["workspace"]), tuple(map(str, words)), int(str(pid)), questions)
    except ConnectionRefusedError:
        sock.close()
        os.unlink(f"{directory}/{run}.sock")
        return None
    except (OSError, KeyError, ValueError):
        sock.close()
        return None
    return Lines(sock, ""), found


def _begin(sock: socket.socket) -> tuple[Line, tuple[Line, ...]]:
    """The first lines, to the end of the last one and no further."""
    found: list[Line] = []
    while not found or len(found) <= int(str(found[0]["open"])):
        line = b""
        while not line.endswith(b"\n"):
            more = sock.recv(1)
            if not more or len(line) > LONGEST:
                raise ConnectionResetError("it is over")
            line += more
        one = _object(line)
        if one is None:
            raise ValueError("no line of a run's")
        found.append(one)
    return found[0], tuple(found[1:])


def waiting(directory: str) -> list[Waiting]:
    """The runs that ask or may, with what is open now."""
    found = []
    for run in runs(directory):
        met = connect(directory, run)
        if met is not None:
            met[0].close()
            found.append(met[1])
    return found


def answer(directory: str, run: str, line: Line) -> Line:
    """Answer one question, and hear what became of it; the state is "gone" when there is no such question."""
    number, met = line.get("query_id"), connect(directory, run)
    if met is None:
        return {"state": "gone", "query_id": number}
    lines, found = met
    try:
        if all(question.get("query_id") != number for question in found.questions):
            return {"state": "gone", "query_id": number}
        lines.send(line)
        until = time.monotonic() + _PATIENCE
        lines.socket.settimeout(_PATIENCE)
        while time.monotonic() < until:
            for said in lines.read() or ():
                if said.get("query_id") == number and said.get("state") in ("answered", "refused", "withdrawn"):
                    return said
            time.sleep(0.005)
    except OSError:
        pass
    finally:
        lines.close()
    return {"state": "gone", "query_id": number}
