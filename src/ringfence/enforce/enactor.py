"""Finding the enactor, making sure it is ours, and asking it what this machine can do."""

import _thread
import errno
import os
import stat
import struct
import sys
from typing import TYPE_CHECKING

import msgspec

from ..model import Enactor, Host, LaunchError, Plan
from . import wire
from .process import Process, Streams

if TYPE_CHECKING:
    from .cgroup import Group

# The interpreter's own: hashlib, and already its half in OpenSSL, would cost the command some milliseconds.
if sys.version_info >= (3, 12):
    from _sha2 import sha256  # type: ignore[import-not-found]
else:
    from _sha256 import sha256  # type: ignore[import-not-found]

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "enact")
FALLBACK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "enact.py")
FREE_LAYERS = 16
PROBE = struct.Struct("<I13i")
FILTERED = ("x86_64", "aarch64")  # whose system calls the planner knows; a kernel may say that it is another
SHORT = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # of something, now: this says nothing of the machine
_MORE = "end some processes or close some files, or allow more of them (ulimit -u, ulimit -n)"
_PROBE_NAMES = (
    "namespaces",
    "id maps",
    "loopback",
    "mount tree",
    "tmpfs",
    "detached mounts",
    "devpts",
    "pid namespace",
    "proc",
    "namespaces further in",
)


class Opened:
    """An enactor that was looked at and is held open: what was checked is what is executed."""

    def __init__(self, kind: Enactor, fd: int, path: str) -> None:
        self.kind = kind
        self.fd = fd
        self.path = path

    def command(self, *numbers: int, ids: tuple[int, int] | None = None) -> tuple[list[str], str]:
        """Arguments and executable. Through the descriptor, so that no directory on the way can be swapped, or closed
        to the user it becomes: `ids` are taken on by the enactor before it reads anything."""
        words = [str(number) for number in (*numbers, *(ids or ()))]
        if self.kind is Enactor.NATIVE:
            return ["ringfence-enact", *words], f"/proc/self/fd/{self.fd}"
        return [sys.executable, "-I", "-S", f"/proc/self/fd/{self.fd}", *words], sys.executable


_opened: dict[str, tuple[tuple[int, ...], Opened]] = {}


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def open_enactor() -> Opened:
    """The enactor of this installation, checked once and then held."""
    # Where none was built there is no digest either; a program that is merely gone is an error.
    path = PROGRAM if os.path.lexists(PROGRAM) or os.path.lexists(PROGRAM + ".sha256") else FALLBACK
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    except OSError as error:
        hint = "install ringfence again"
        raise LaunchError(path, f"the enactor cannot be opened: {error.strerror}", hint) from None
    kept = _opened.get(path)
    if kept is not None and kept[0] == _identity(found):
        return kept[1]
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        opened = _checked(path, fd)
    except BaseException:
        os.close(fd)
        raise
    if kept is not None:
        os.close(kept[1].fd)
    _opened[path] = (_identity(os.fstat(fd)), opened)
    return opened


def _checked(path: str, fd: int) -> Opened:
    """Refuse a program that others could have written, or that is not the one that was built."""
    hint = "install ringfence again, and find out who changed it"
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o022 or found.st_uid not in (0, os.geteuid(), _owner()):
        raise LaunchError(path, f"the enactor can be changed by others (mode {found.st_mode & 0o7777:o})", hint)
    if path.endswith(".py"):
        return Opened(Enactor.PYTHON, fd, path)
    try:
        with open(path + ".sha256", "rb") as file:
            wanted = file.read(65).strip().decode("ascii", "replace")
    except OSError as error:
        raise LaunchError(path + ".sha256", f"the enactor's digest cannot be read: {error.strerror}", hint) from None
    if digest(os.pread(fd, 1 << 22, 0)) != wanted:
        raise LaunchError(path, "the enactor is not the one that was built", hint)
    return Opened(Enactor.NATIVE, fd, path)


def _owner() -> int:
    """Who owns this installation; its code is running already, so he is trusted."""
    return os.stat(__file__).st_uid


def digest(data: bytes) -> str:
    """SHA-256, in hexadecimal."""
    found: str = sha256(data).hexdigest()
    return found


_hosts: dict[int, Host] = {}
_probing = _thread.RLock()
_asked: dict[int, tuple[Process, int, Opened]] = {}


def disown() -> None:
    """In a fork of our caller's: a question that is open is the parent's, and a lock may have been held."""
    global _probing
    _probing = _thread.RLock()
    for _, read, _ in _asked.values():
        os.close(read)
    _asked.clear()


def ask(ids: tuple[int, int] | None) -> None:
    """Begin to find out what `probe` will say, and go on meanwhile."""
    uid = ids[0] if ids else os.geteuid()
    with _probing:
        if uid not in _hosts and uid not in _asked:
            _asked[uid] = _start_probe(open_enactor(), ids)


def _start_probe(enactor: Opened, ids: tuple[int, int] | None) -> tuple[Process, int, Opened]:
    read, write = os.pipe()
    arguments, executable = enactor.command(write, ids=ids)
    try:
        return Process(executable, arguments, (write, enactor.fd), Streams()), read, enactor
    except OSError as error:
        os.close(read)
        hint = "it must stand on a file system that lets programs run (no noexec), and be readable and executable"
        if error.errno in SHORT:
            hint = _MORE
        raise LaunchError(enactor.path, f"the enactor cannot be started: {error.strerror}", hint) from None
    finally:
        os.close(write)


def probe(ids: tuple[int, int] | None = None) -> Host:
    """What this machine can enforce, found by trying, once for each process and each user it is asked for."""
    uid, gid = ids or (os.geteuid(), os.getegid())
    with _probing:
        if uid not in _hosts:
            ask(ids)
            _hosts[uid] = _with_bubblewrap(_answer(ids, *_asked.pop(uid)), ids)
        found = _hosts[uid]
    return found if found.gid == gid else msgspec.structs.replace(found, gid=gid)


def _yama() -> int:
    """Whom Yama lets look into another process; nobody, where it does not say."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="utf-8") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0
    except (OSError, ValueError):
        return 3


def _core_limit() -> int:
    """One byte, unless somebody has taken even that."""
    with open("/proc/self/limits", encoding="utf-8") as file:
        words = next(line for line in file if line.startswith("Max core file size")).split()
    return 0 if words[5] == "0" else 1


def _core_handler() -> str:
    """Who hears of crashes: a program, a socket or nobody."""
    try:
        with open("/proc/sys/kernel/core_pattern", encoding="utf-8", errors="replace") as file:
            first = file.read(1)
    except FileNotFoundError:
        return ""  # a kernel without core files
    return first if first in ("|", "@") else ""


def _is_loopback_only() -> bool:
    """Whether our network has no way out: no interface but a loopback."""
    try:
        with open("/proc/self/net/dev", encoding="utf-8") as file:
            return [line.split(":")[0].strip() for line in file if ":" in line] == ["lo"]
    except OSError:
        return False


def _with_bubblewrap(host: Host, ids: tuple[int, int] | None) -> Host:
    """Where we cannot build a view ourselves, whether bubblewrap can."""
    if host.namespaces or host.enactor is not Enactor.NATIVE:
        return host
    from .bubblewrap import found  # rarely wanted

    return found(host, ids)


def _answer(ids: tuple[int, int] | None, process: Process, read: int, enactor: Opened) -> Host:
    try:
        data = os.read(read, PROBE.size)
        process.wait()
    finally:
        os.close(read)
    if len(data) == wire.RECORD.size and ids:
        text = f"the command cannot become user {ids[0]}: {os.strerror(wire.RECORD.unpack(data)[3])}"
        raise LaunchError("workspace", text, "give it to a user who is known here")
    if len(data) != PROBE.size:
        raise LaunchError("probe", "the enactor did not answer", "install ringfence again")
    tag, abi, seccomp, *tries, layers = PROBE.unpack(data)
    if tag != wire.PROBED:
        raise LaunchError("probe", "the enactor answered nonsense", "install ringfence again")
    named = dict(zip(_PROBE_NAMES, tries, strict=True))
    for name, error in (*named.items(), ("Landlock domains", layers)):
        if -error in SHORT:  # of a machine that can do it: it would get less for as long as we live
            raise LaunchError("probe", f"{name}: {os.strerror(-error)}", _MORE)
    detached, fresh_proc = named.pop("detached mounts"), named.pop("proc")
    failed = [f"{name}: {os.strerror(-error)}" for name, error in named.items() if error]
    machine = os.uname()
    return Host(
        "linux",
        machine.machine,
        landlock_abi=max(abi, 0) if layers else 0,
        layers=layers,
        seccomp=seccomp == 0 and machine.machine in FILTERED,
        namespaces=not failed,
        namespaces_why=failed[0] if failed and enactor.kind is Enactor.NATIVE else "",  # the other cannot try
        detached_mounts=detached == 0,
        fresh_proc=fresh_proc == 0,
        yama=_yama(),
        core_limit=_core_limit(),
        core_handler=_core_handler(),
        loopback_only=layers < FREE_LAYERS and _is_loopback_only(),
        enactor=enactor.kind,
        kernel=machine.release,
        uid=ids[0] if ids else os.geteuid(),
        gid=ids[1] if ids else os.getegid(),
    )


def controllers() -> tuple[str, ...]:
    """What a control group of ours could hold."""
    from .cgroup import controllers as found

    return found()


def hides_processes() -> bool:
    """Whether nobody here could look at what a run uses."""
    from .watch import hides_processes as found

    return found()


def owns_group(ids: tuple[int, int] | None) -> bool:
    """Whether who runs as these could write the control groups that a run of ours is in."""
    from .cgroup import is_written_by as found

    return found(*(ids or (os.geteuid(), os.getegid())), ids is None)


def make_group(plan: Plan) -> "Group | None":
    """A control group for one run, if its plan wants one."""
    if not plan.controllers:
        return None
    from .cgroup import Group

    return Group(plan.controllers, plan.limits)
