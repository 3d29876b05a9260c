"""The gate, seen from whoever starts runs: spawned once, handed each run's sockets, heard at the run's end."""

import _socket
import _thread
import os
import select
import signal
import sys
import time

import msgspec

from ..model import Network
from .control import Refusal, Serve, Stop, send

_PROGRAM = "import sys; sys.path.insert(0, {!r}); from ringfence.gate import main; sys.exit(main(sys.argv[1:]))"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FEW, PATIENCE = 32, 5.0  # words of the gate, and seconds for the rest of them
_NAMES = ("PATH", "LANG", "LC_ALL", "SSL_CERT_FILE")


def listen_at(path: str) -> int:
    """A unix socket that listens at a path."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | getattr(_socket, "SOCK_CLOEXEC", 0))
    try:
        sock.bind(path)
        sock.listen(64)
    except BaseException:
        sock.close()
        raise
    return sock.detach()


def listen_on(port: int) -> int:
    """A TCP socket that listens on a port of the loopback."""
    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | getattr(_socket, "SOCK_CLOEXEC", 0))
    try:
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen(128)
    except BaseException:
        sock.close()
        raise
    return sock.detach()


def port_of(fd: int) -> int:
    """The port that a socket listens on."""
    sock = _socket.socket(fileno=os.dup(fd))
    try:
        port: int = sock.getsockname()[1]
        return port
    finally:
        sock.close()


class Gate:
    """A living gate. It ends when its control socket does, and so with us."""

    def __init__(self, ids: tuple[int, int] | None) -> None:
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        number = theirs.fileno()
        words = [sys.executable, "-I", "-c", _PROGRAM.format(_PACKAGE), str(number), *map(str, ids or ())]
        actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in range(3)] + [(os.POSIX_SPAWN_DUP2, number, number)]
        environ = {name: os.environ[name] for name in _NAMES if name in os.environ}
        try:
            self.pid = os.posix_spawn(sys.executable, words, environ, file_actions=actions, setpgroup=0)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(null)
        self._control = ours
        self._number = 0
        # Runs are started by several threads, and a message may be in several packets.
        self._turn = _thread.allocate_lock()
        self._heard: dict[int, list[Refusal]] = {}
        self._over: set[int] = set()  # runs of which the last word was heard

    def serve(
        self, network: Network, workspace: str, doors: tuple[str, ...], fds: tuple[int, ...], agent: str = ""
    ) -> int:
        """Have a run's sockets served; they are the gate's then. The answer is the run's number."""
        try:
            with self._turn:
                number = self._number = self._number + 1
                send(self._control.fileno(), Serve(number, network, workspace, doors, network.credential, agent), fds)
        finally:
            for fd in fds:
                os.close(fd)
        return number

    def stop(self, number: int) -> list[Refusal]:
        """A run is over: what was refused to it."""
        waits = self._hear() > FEW  # or the gate may have more to say than the socket holds
        try:
            with self._turn:
                send(self._control.fileno(), Stop(number, waits))
            if waits:
                self._hear_all(number)
        except OSError:  # it is gone, and with it everything it served
            why = "the process that dials for the run has ended, and nothing was reached after that"
            self._heard.setdefault(number, []).append(Refusal(number, "*", why))
        return self._heard.pop(number, [])

    def _hear(self) -> int:
        """What the gate has said; how many words."""
        count = 0
        while True:
            try:
                data = self._control.recv(1 << 16, _socket.MSG_DONTWAIT)
            except OSError:
                return count
            if not data:
                return count
            count += 1
            said = msgspec.json.decode(data, type=Refusal)
            if said.target:
                self._heard.setdefault(said.number, []).append(said)
            else:
                self._over.add(said.number)

    def _hear_all(self, number: int) -> None:
        """To the last word of a run, which another thread may hear too."""
        poller, until = select.poll(), time.monotonic() + PATIENCE
        poller.register(self._control, select.POLLIN)
        while number not in self._over and time.monotonic() < until:
            poller.poll(10)
            if not self._hear() and not self.is_alive():
                break
        self._over.discard(number)

    def is_alive(self) -> bool:
        """Whether it still serves."""
        try:
            return os.waitpid(self.pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            return False

    def close(self) -> None:
        """End it."""
        self._control.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # somebody else was told of its end

    def disown(self) -> None:
        """In a fork of our caller's: it is the parent's."""
        self._control.close()
