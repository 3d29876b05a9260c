"""The spawner: the one process of a service that is root, and does one thing: it starts stewards as tenants.

From its own service user, and nobody else, it takes a tenant's name, a run's id and three descriptors. Everything that
decides who the new process is comes from the registry, which is root's; nothing in a request is a path, an id or a
program. One thread and no library: what root reads is one small message.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import selectors
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from .model import RingfenceError, TenantError, UsageError
from .model.names import TENANT
from .model.tenant import Tenant, TenantFault, Workspace
from .workspace.tenants import tree
from .workspace.tenants.registry import Registry
from .workspace.tenants.shares import Shares

if sys.platform != "linux":
    raise UsageError("tenants", "are kept apart on Linux only")

MOST_BYTES = 4096
MOST_DESCRIPTORS = 8  # more than we take, so that what is too many is counted and closed
STREAMS = 3
MOST_RUNS, MOST_OF_ONE = 512, 64  # runs at once, of all and of one tenant
MOST_ASKERS = 64
GRACE = 5.0  # seconds from SIGTERM to SIGKILL
PATIENCE = 5.0  # for the child to become somebody else
PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 38, 39
KEYCTL, JOIN_SESSION = {"x86_64": 250, "aarch64": 219}[os.uname().machine], 1
MASK = 0o077
_libc = ctypes.CDLL(None, use_errno=True)
_files = resource.getrlimit(resource.RLIMIT_NOFILE)  # as stewards have it; a run of theirs is two of ours


class Ask(msgspec.Struct, forbid_unknown_fields=True):
    """What may be asked of us."""

    do: Literal["start", "cancel"]
    run: str
    tenant: str = ""


class Run:
    """A steward that lives, and who asked for it."""

    def __init__(self, name: str, tenant: Tenant, pid: int, lifeline: int, asker: socket.socket) -> None:
        self.name, self.tenant, self.user, self.asker = name, tenant.name, tenant.user, asker
        self.pid, self.pidfd, self.lifeline = pid, os.pidfd_open(pid), lifeline
        self.until: float | None = None  # when SIGTERM becomes SIGKILL

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)


class Spawner:
    """Serve one listening socket until told to stop."""

    def __init__(self, listener: socket.socket, registry: Registry, base: str, service: int, steward: Sequence[str]):
        self._listener, self._registry, self._base = listener, registry, base
        self._service, self._steward = service, tuple(steward)
        self._runs: dict[str, Run] = {}
        self._shares = Shares()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._stopped = False
        heard, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)  # a handled signal alone does not end a wait
        self._selector.register(heard, selectors.EVENT_READ, lambda: None)

    def serve(self) -> None:
        """Until `stop`; then every steward's lifeline ends, and with it its run."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (_files[1], _files[1]))
        try:
            while not self._stopped:
                for key, _ in self._selector.select(self._wait()):
                    key.data()
                self._escalate()
        finally:
            for run in list(self._runs.values()):
                os.close(run.lifeline)
                run.send(signal.SIGTERM)

    def stop(self) -> None:
        """Callable from a signal's handler."""
        self._stopped = True
        os.write(self._wake, b"!")

    def _wait(self) -> float | None:
        times = [run.until for run in self._runs.values() if run.until is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _escalate(self) -> None:
        now = time.monotonic()
        for run in self._runs.values():
            if run.until is not None and run.until <= now:
                run.until = None
                run.send(signal.SIGKILL)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # who asked is gone, or we have no descriptors left: the next one is answered
            return
        pid, uid, gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        del pid, gid
        if uid != self._service or len(self._selector.get_map()) > MOST_RUNS + MOST_ASKERS:
            connection.close()
            return
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._hear(connection))

    def _hear(self, asker: socket.socket) -> None:
        held: list[int] = []
        if asker.fileno() < 0:  # hung up by an event before this one
            return
        try:
            data, held, flags, _ = socket.recv_fds(asker, MOST_BYTES, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
            if not data:
                self._hang_up(asker)
                return
            self._say(asker, self._answer(asker, data, held, flags))
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError:
            self._hang_up(asker)
        finally:
            for fd in held:
                os.close(fd)

    def _answer(self, asker: socket.socket, data: bytes, held: list[int], flags: int) -> dict[str, object]:
        name = ""
        try:
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise TenantError(TenantFault.FAILED, "request", "is too long, or has too many descriptors")
            ask = msgspec.json.decode(data, type=Ask)
            name = ask.run
            if not 0 < len(name) <= 64 or not all(letter in "0123456789abcdef-" for letter in name):
                raise TenantError(TenantFault.FAILED, "run", "its id is hexadecimal, with at most 64 digits")
            return self._start(asker, ask, held) if ask.do == "start" else self._cancel(asker, ask)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return {"run": name, "error": "BAD_REQUEST", "what": "is no request that the spawner knows"}
        except RingfenceError as error:
            return {"run": name, "error": error.code, "what": str(error)}
        except OSError as error:
            return {"run": name, "error": "TENANT_FAILED", "what": error.strerror or "failed"}

    def _cancel(self, asker: socket.socket, ask: Ask) -> dict[str, object]:
        run = self._runs.get(ask.run)
        if run is None or run.asker is not asker:
            raise TenantError(TenantFault.NOT_FOUND, ask.run, "no such run is alive")
        self._end(run)
        return {"run": ask.run, "cancelling": True}

    def _end(self, run: Run) -> None:
        if run.until is None:
            run.until = time.monotonic() + GRACE
            run.send(signal.SIGTERM)

    def _start(self, asker: socket.socket, ask: Ask, held: list[int]) -> dict[str, object]:
        check_streams(held)
        if ask.run in self._runs:
            raise TenantError(TenantFault.EXISTS, ask.run, "a run of this id is alive")
        # Whoever suspends a tenant then finds the process that we make. A removal takes as long as its archive, and
        # nobody else may wait for that.
        with self._registry.locked(self._registry.find(ask.tenant).name, waits=False):
            tenant = self._registry.find(ask.tenant)
            same = sum(run.tenant == tenant.name for run in self._runs.values())
            if len(self._runs) >= MOST_RUNS or same >= tenant.limits.get("runs", MOST_OF_ONE):
                raise TenantError(TenantFault.FAILED, tenant.name, "has as many runs as it may, or the host has")
            workspace = tree.resolve(self._base, tenant)
            groups = self._shares.open(tenant.user, tenant.limits, tenant.gid)
            try:
                pid, lifeline = self._spawn(workspace, tenant.user, held, groups)
            finally:
                for fd in groups:
                    os.close(fd)
        run = self._runs[ask.run] = Run(ask.run, tenant, pid, lifeline, asker)
        self._selector.register(run.pidfd, selectors.EVENT_READ, lambda: self._ended(run))
        return {"run": ask.run, "started": True}

    def _spawn(self, workspace: Workspace, user: str, held: list[int], groups: list[int]) -> tuple[int, int]:
        """A steward, which is the tenant when this returns."""
        words = (*self._steward, workspace.root, str(workspace.limits.get("disk", 0)))
        home = os.path.dirname(os.path.dirname(workspace.root))
        environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": home}
        environ |= {"USER": user, "LOGNAME": user, "SHELL": "/bin/sh", TENANT: workspace.tenant}
        with contextlib.ExitStack() as ours:
            told, tell = os.pipe2(os.O_CLOEXEC)
            ours.callback(os.close, told)
            with _closing(tell):
                life, lifeline = os.pipe2(os.O_CLOEXEC)
                with _closing(life):
                    try:
                        pid = os.fork()
                    except OSError:
                        os.close(lifeline)
                        raise
                    if pid == 0:
                        _become_steward((*held, life), tell, workspace, words, environ)
            if _word(told) != b"" or not _is_placed(pid, groups):
                os.close(lifeline)
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise TenantError(TenantFault.FAILED, workspace.tenant, "no process could become this tenant")
        return pid, lifeline

    def _ended(self, run: Run) -> None:
        status = os.waitid(os.P_PIDFD, run.pidfd, os.WEXITED | os.WNOHANG)
        if status is None:
            return
        self._selector.unregister(run.pidfd)
        os.close(run.pidfd)
        os.close(run.lifeline)
        del self._runs[run.name]
        if all(other.user != run.user for other in self._runs.values()):
            self._shares.close(run.user)
        code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
        self._say(run.asker, {"run": run.name, "ended": code})

    def _hang_up(self, asker: socket.socket) -> None:
        """Whoever asked is gone, and nobody hears of its runs any more."""
        self._selector.unregister(asker)
        asker.close()
        for run in self._runs.values():
            if run.asker is asker:
                self._end(run)

    def _say(self, asker: socket.socket, answer: dict[str, object]) -> None:
        if asker.fileno() >= 0:
            try:
                asker.send(msgspec.json.encode(answer), socket.MSG_NOSIGNAL)
            except OSError:  # it does not listen, or is gone: its runs are ended rather than forgotten
                self._hang_up(asker)


def check_streams(held: list[int]) -> None:
    """Exactly three, each a pipe or a connected unix socket: nothing that leads to a file, a device or a listener."""
    if len(held) != STREAMS:
        raise TenantError(TenantFault.FAILED, "descriptors", f"are {len(held)}, and {STREAMS} are wanted")
    for fd in held:
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode) and os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:"):
            continue
        if not stat.S_ISSOCK(mode) or not _is_plain_socket(fd):
            raise TenantError(
                TenantFault.FAILED, "descriptors", "are pipes or connected unix sockets, and nothing else"
            )


def _is_plain_socket(fd: int) -> bool:
    with socket.socket(fileno=os.dup(fd)) as found:
        if (found.family, found.type) != (socket.AF_UNIX, socket.SOCK_STREAM):
            return False
        try:
            found.getpeername()  # one that listens has none either
        except OSError:
            return False
        return True


@contextlib.contextmanager
def _closing(fd: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(fd)


def _is_placed(pid: int, groups: Sequence[int]) -> bool:
    """Put a steward into its tenant's groups. Not before it is the tenant: we wait for that, and in its group it would
    have its turn among all the tenant's. It is a Python that starts, and has heard nothing yet."""
    try:
        for fd in groups:
            os.write(fd, str(pid).encode())
    except OSError:
        return False
    return True


def _word(told: int) -> bytes:
    """What the child says before it is another program: nothing, when all went well."""
    until = time.monotonic() + PATIENCE
    said = b""
    with selectors.DefaultSelector() as waiting:
        waiting.register(told, selectors.EVENT_READ)
        while waiting.select(max(0.0, until - time.monotonic())):
            piece = os.read(told, 1024)
            if not piece:
                return said
            said += piece
    return said or b"nothing"


def _become_steward(
    held: Sequence[int],
    tell: int,
    workspace: Workspace,
    words: tuple[str, ...],
    environ: dict[str, str],
) -> None:
    """In the child: never returns. Its word is the end of the pipe when exec has closed it."""
    try:
        os.setsid()
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with contextlib.suppress(OSError):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        *streams, tell = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in (*held, tell)]
        for place, fd in enumerate(streams):
            os.dup2(fd, place)
        tell = os.dup2(tell, len(streams), inheritable=False)
        os.closerange(tell + 1, os.sysconf("SC_OPEN_MAX"))
        resource.setrlimit(resource.RLIMIT_NOFILE, _files)
        os.umask(MASK)
        become(workspace.uid, workspace.gid)
        os.chdir(workspace.root)
        os.execve(words[0], words, environ)
    except BaseException as error:  # noqa: BLE001 - nothing of root's half may run on here
        with contextlib.suppress(OSError):
            os.write(tell, str(error).encode(errors="replace")[:1000] or b"failed")
    finally:
        os._exit(125)


def become(uid: int, gid: int) -> None:
    """Become somebody else for good, and see that it is so: all ids, no groups, no capabilities, no way back."""
    if uid <= 0 or gid <= 0:
        raise PermissionError("root is nobody's tenant")
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or _libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
        raise PermissionError("new privileges cannot be given up")
    # Who is started by hand has the keys of that login, and ids alone do not take them away: an empty session instead.
    if _libc.syscall(KEYCTL, JOIN_SESSION, None, 0, 0, 0) < 0 and ctypes.get_errno() != errno.ENOSYS:
        raise PermissionError("the keys of who started us cannot be given up")
    if os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3 or os.getgroups():
        raise PermissionError("the ids are not what they were set to")
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        rows = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    if any(int(rows[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")):
        raise PermissionError("capabilities are left")
    for back, wanted in ((os.setresuid, (0, 0, 0)), (os.setresgid, (0, 0, 0)), (os.setgroups, ([0],))):
        with contextlib.suppress(PermissionError):
            back(*wanted)
            os._exit(125)
