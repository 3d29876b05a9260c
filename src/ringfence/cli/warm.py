"""A hook that stays for a while: importing what judging needs takes longer than judging, and agents ask often.

The first hook answers by itself. Then its process, which has everything loaded, leaves a child behind that listens on
a socket in XDG_RUNTIME_DIR, where only this user and no command in the sandbox can reach it; without that directory
nothing stays. The next hooks hand their question over, but to nobody behind walls that they do not stand behind.
Whatever goes wrong there, they answer by themselves. The child ends when it was not asked for five minutes or takes too
long, and nobody asks it any more when the program changes: the name of the socket says which program it is.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Answering = Callable[[list[str], bytes, dict[str, str], str], tuple[int, bytes, bytes]]

IDLE = 300.0
STEP = 2.0  # seconds after which one that stays looks whether it is still the one that is asked
LONGEST = 9.0  # seconds; whoever asks has denied before
PATIENCE = 2.0  # seconds in which an answer is waited for; there is time left then to judge without
MOST_BYTES = 20_000_000
SO_PEERPIDFD, ENOPROTOOPT = 77, 92
# What a question may hang on besides its payload.
NAMES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "WORKTREE_SANDBOX_PATH", "PATH", "PWD")


def place() -> str:
    """Where the socket of this very program is, or nothing when there is no safe directory."""
    above = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.path.isabs(above):
        return ""
    directory = f"{above}/ringfence"
    try:
        if not _is_private(above):
            return ""
        if not os.path.lexists(directory):
            os.mkdir(directory, 0o700)
        if not _is_private(directory):
            return ""
        stamps = [os.stat(f"{package}/__init__.py").st_mtime_ns for package in _PACKAGES]
    except OSError:
        return ""
    return f"{directory}/hook-{os.stat(__file__).st_ino}-{sum(stamps) % 10**12}"


def _is_private(path: str) -> bool:
    """Whether a directory is this user's, and nobody else can enter it."""
    found = os.lstat(path)
    return found.st_uid == os.getuid() and found.st_mode & 0o170077 == 0o040000


_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGES = tuple(os.path.normpath(f"{_HERE}/{name}") for name in (".", "..", "../guard", "../policy", "../model"))


def ask(path: str, words: list[str], data: bytes, program: str) -> tuple[int, bytes, bytes] | None:
    """The answer of the one that stayed, or None when nobody did, or it did not answer whole."""
    import _socket

    question = _packed(
        program.encode(),
        *(os.environ.get(name, "").encode("utf-8", "surrogateescape") for name in NAMES),
        "\0".join(words).encode("utf-8", "surrogateescape"),
        data,
    )
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    link.settimeout(PATIENCE)
    try:
        link.connect(path)
        if not _is_believed(link):
            return None
        link.sendall(question)
        link.shutdown(_socket.SHUT_WR)
        parts = _unpacked(_all(link))
        return int(parts[0]), parts[1], parts[2]
    except (OSError, ValueError, IndexError):
        return None
    finally:
        link.close()


def _is_believed(link: "_socket.socket") -> bool:  # type: ignore[name-defined]  # noqa: F821
    """Whether who listens is in no sandbox but ours: what a command could make of our directory answers nothing."""
    import _socket

    credentials = link.getsockopt(_socket.SOL_SOCKET, getattr(_socket, "SO_PEERCRED", 17), 12)
    is_ours = _walls(str(int.from_bytes(credentials[:4], "little"))) == _walls("self")
    return is_ours and _still_lives(link)


def _still_lives(link: "_socket.socket") -> bool:  # type: ignore[name-defined]  # noqa: F821
    """Whether who listens had its number all the while, and not somebody after it. Before Linux 6.5 nobody can say."""
    import _signal  # type: ignore[import-not-found]
    import _socket

    try:
        held = int.from_bytes(link.getsockopt(_socket.SOL_SOCKET, SO_PEERPIDFD, 4), "little")
    except OSError as error:
        return error.errno == ENOPROTOOPT
    try:
        _signal.pidfd_send_signal(held, 0)
    except ProcessLookupError:
        return False
    finally:
        os.close(held)
    return True


def _walls(process: str) -> tuple[str, list[bytes]]:
    """The users that a process knows, and its filters of system calls."""
    status = os.open(f"/proc/{process}/status", os.O_RDONLY)
    try:
        lines = os.read(status, 1 << 16).split(b"\n")
    finally:
        os.close(status)
    return os.readlink(f"/proc/{process}/ns/user"), [line for line in lines if line.startswith(b"Seccomp")]


def stamp(path: str) -> int:
    """Which socket has the name; nought for none."""
    try:
        return os.lstat(path).st_ino
    except OSError:
        return 0


def stay(path: str, answering: "Answering", before: int) -> None:
    """Leave a child behind that answers, unless another one has come since. The caller ends as if nothing had been."""
    import _socket

    try:
        if stamp(path) not in (before, 0) or os.fork():
            return
    except OSError:  # there may be no more processes: then nobody stays, and the answer that was given holds
        return
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        os.chdir("/")
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        own = f"{path}.{os.getpid()}"
        listener.bind(own)
        listener.listen(16)
        os.rename(own, path)  # complete from its first moment on; the last one who stays is asked
        _serve(listener, path, answering)
    finally:
        os._exit(0)


def _serve(listener: "_socket.socket", path: str, answering: "Answering") -> None:  # type: ignore[name-defined]  # noqa: F821
    import _signal
    import _socket
    import gc

    gc.enable()
    inode, waited = stamp(path), 0.0
    listener.settimeout(STEP)
    while stamp(path) == inode:  # else another one stays in our place
        try:
            descriptor, _ = listener._accept()
        except TimeoutError:
            waited += STEP
            if waited < IDLE:
                continue
            os.unlink(path)
            return
        waited = 0.0
        link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
        link.settimeout(LONGEST)
        _signal.setitimer(_signal.ITIMER_REAL, LONGEST)  # whoever takes too long ends, and the next hooks go without
        try:
            question = _all(link)
            link.send(b"")  # fails when whoever asked has gone: it has judged by itself, and said so in the log
            link.sendall(_reply(question, answering))
        except (OSError, ValueError):
            pass  # whoever asked is gone, or gets no answer and judges by itself
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        link.close()


def _reply(data: bytes, answering: "Answering") -> bytes:
    program, *rest = _unpacked(data)
    for name, value in zip(NAMES, rest, strict=False):
        os.environ[name] = value.decode("utf-8", "surrogateescape")
        if not value:
            del os.environ[name]
    words = rest[len(NAMES)].decode("utf-8", "surrogateescape")
    given = words.split("\0") if words else []
    code, out, err = answering(given, rest[len(NAMES) + 1], dict(os.environ), program.decode())
    return _packed(str(code).encode(), out, err)


def _packed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def _unpacked(data: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        at += 4 + length
        if at > len(data):
            raise ValueError("it ends too soon")
        parts.append(data[at - length : at])
    return parts


def _all(link: "_socket.socket") -> bytes:  # type: ignore[name-defined]  # noqa: F821
    parts, size = [], 0
    while part := link.recv(1 << 16):
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise ValueError("it is too long")
    return b"".join(parts)
