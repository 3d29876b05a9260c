"""The enactor a second time, in Python: the specification, the tests' oracle, and the fallback without a compiler.

Run as `python -I -S enact.py PLAN STATUS [UID GID]`, or without PLAN to probe. It reads the format of
docs/plan-format.md and does the steps of a plan that needs no view; the steps of a view it refuses, so that a plan is
never half done. It imports nothing of ours, because it runs alone, and nothing late, because the user it becomes may
not be able to read this Python.
"""

import _socket
import ctypes
import errno
import fcntl
import mmap
import os
import platform
import re
import signal
import stat
import struct
import sys
from collections.abc import Callable

MAGIC = b"RFPLAN1\0"
MOST_STEPS, MOST_VECTOR, MOST_FILTER = 65536, 262144, 4096
READY, FAILED, PROBED, LENT = 1, 2, 3, 6

# kind: (numbers, least strings, most strings, may repeat, what must have come before)
# fmt: off
SHAPES = {
    2: (2, 0, 0, False, 0), 5: (1, 0, 0, True, 0), 10: (0, 1, 1, False, 0), 15: (0, 1, 65535, True, 0),
    20: (1, 0, 0, False, 0), 21: (4, 0, 0, False, 20), 30: (0, 0, 0, False, 20), 31: (3, 0, 0, True, 30),
    32: (0, 0, 0, False, 30), 40: (1, 0, 0, False, 20), 41: (6, 1, 65535, True, 40), 50: (0, 0, 0, False, 40),
    60: (1, 0, 0, False, 0), 65: (3, 1, 1, True, 15), 70: (1, 0, 0, False, 60), 75: (4, 0, 0, False, 50),
    80: (0, 0, 0, False, 0), 90: (3, 0, 0, False, 0), 91: (3, 1, 1, True, 90), 92: (2, 0, 0, True, 90),
    93: (2, 0, 0, False, 90), 94: (0, 0, 0, False, 90), 95: (1, 0, 0, False, 60), 96: (2, 1, 1, True, 60),
    97: (2, 1, 1, True, 96), 98: (3, 0, 63, True, 60), 99: (0, 0, 0, False, 60), 100: (0, 0, 0, False, 60),
    110: (0, 0, 0, False, 0), 111: (1, 0, 0, False, 110), 120: (3, 0, 0, True, 0), 130: (5, 1, 1, True, 0),
    131: (0, 0, 0, False, 0), 132: (2, 1, 1, False, 0), 140: (2, 0, 0, False, 100), 150: (0, 0, 0, False, 0),
    160: (1, 1, 1, False, 0), 165: (2, 0, 0, False, 160), 170: (1, 2, MOST_VECTOR, False, 131),
}
# fmt: on
NURSERY, JOIN, BUBBLEWRAP, NAMESPACES, LOOPBACK, LISTEN = 2, 5, 15, 20, 30, 31
STREAM, SECCOMP, AWAIT, EXEC, VIEW, ATTACH, WARDEN, COMMAND, TERMINAL = 130, 160, 165, 170, 40, 50, 60, 100, 111
RULESET, RESTRICT, OBSERVE, NAME, PATTERN = 90, 94, 95, 97, 98
LAST = (EXEC, AWAIT)  # a plan ends by becoming the command, or by waiting for the plan that does
NEEDS = {WARDEN: NAMESPACES, SECCOMP: COMMAND}  # when their number is not 0
HALVES = ((VIEW, ATTACH), (WARDEN, COMMAND), (RULESET, RESTRICT))  # one without the other would hold nobody
OWN_MOUNTS = 0x10000000 | 0x00020000  # CLONE_NEWUSER and CLONE_NEWNS
NAMES = re.compile(rb"[^/]{1,255}(?:/[^/]{1,255})*")
# A part of a pattern: every set is closed, a `]` that comes first in it is a member, and no slash is anywhere.
PART = re.compile(rb"(?:[^\[/]|\[(?:[!^][^/]|[^/!^])[^\]/]*\])+")
Parsed = tuple[int, tuple[int, ...], list[bytes]]


def read_strings(body: bytes, count: int, kind: int) -> list[bytes] | None:
    """The strings of a step, or None when they do not fill its room exactly."""
    strings = []
    at = 0
    for _ in range(count):
        if len(body) - at < 5:
            return None
        length = int.from_bytes(body[at : at + 4], "little")
        text = body[at + 4 : at + 4 + length]
        at += 4 + length + 1
        if at > len(body) or body[at - 1] or (kind != SECCOMP and b"\0" in text):
            return None
        strings.append(text)
    rest = body[at:]
    return None if len(rest) >= 8 or any(rest) else strings


def read_step(plan: bytes, at: int) -> tuple[Parsed, int] | None:
    """One step and where the next begins, or None when it is malformed."""
    if len(plan) - at < 16:
        return None
    kind, numbers, strings, size, zero = struct.unpack_from("<HHIII", plan, at)
    shape = SHAPES.get(kind)
    if zero or size < 16 or size > len(plan) - at or size % 8 or shape is None or numbers != shape[0]:
        return None
    if not shape[1] <= strings <= shape[2] or (size - 16) // 8 < numbers:
        return None
    body = plan[at + 16 : at + size]
    words = struct.unpack_from(f"<{numbers}Q", body)
    texts = read_strings(body[numbers * 8 :], strings, kind)
    if texts is None or not detail_fits(kind, words, texts):
        return None
    return (kind, words, texts), at + size


def detail_fits(kind: int, numbers: tuple[int, ...], strings: list[bytes]) -> bool:
    """What only one kind must keep."""
    if kind == EXEC:
        return 1 <= numbers[0] < len(strings)
    if kind == SECCOMP:
        return numbers[0] <= 1 and 0 < len(strings[0]) <= MOST_FILTER * 8 and len(strings[0]) % 8 == 0
    if kind == WARDEN:
        return numbers[0] <= 1
    if kind == NAME:
        are_names = NAMES.fullmatch(strings[0]) is not None and (numbers[1] != 2 or b"/" not in strings[0])
        return 1 <= numbers[1] <= 4 and are_names
    if kind == PATTERN:
        return numbers[0] <= 1 and numbers[1] <= 2 and numbers[2] <= 255 and all(map(PART.fullmatch, strings))
    if kind == LISTEN:
        return numbers[0] in (2, 10) and numbers[1] in (1, 2) and 0 < numbers[2] < 1 << 16
    if kind == NAMESPACES:
        return numbers[0] & OWN_MOUNTS == OWN_MOUNTS
    if kind in (OBSERVE, TERMINAL):
        return 1 <= numbers[0] <= 7
    if kind in (NURSERY, JOIN, AWAIT):
        others = [number for number in numbers[1:] if number >= 1 << 24 or (kind == NURSERY and number <= 2)]
        return 2 < numbers[0] < 1 << 24 and not others
    return kind != STREAM or numbers[0] <= 2


def step_follows(kind: int, numbers: tuple[int, ...], before: int, seen: set[int]) -> bool:
    """Forwards, once unless it repeats, after what it builds on, and nothing left half done at the end."""
    if kind < before or (kind == before and not SHAPES[kind][3]) or not is_founded(kind, numbers, seen):
        return False
    if kind not in LAST:
        return True
    return (BUBBLEWRAP not in seen or WARDEN in seen) and all((one in seen) == (other in seen) for one, other in HALVES)


def is_founded(kind: int, numbers: tuple[int, ...], seen: set[int]) -> bool:
    """Whether what a step builds on was there. A pid namespace is made in a user namespace of our own, or bubblewrap
    has made both, and then nobody else does; a listener is handed to a warden."""
    after = SHAPES[kind][4]
    if BUBBLEWRAP in seen and kind in (NAMESPACES, LOOPBACK, WARDEN):
        return kind == LOOPBACK or (kind == WARDEN and numbers[0] == 1)
    if kind in NEEDS and numbers[0] and NEEDS[kind] not in seen:
        return False
    return not after or after in seen


def read_plan(plan: bytes) -> tuple[int, list[Parsed]]:
    """The number of the first bad step (0 for a bad header), or -1 and all the steps."""
    if len(plan) < 24 or plan[:8] != MAGIC:
        return 0, []
    version, size, count, zero = struct.unpack_from("<IIII", plan, 8)
    if version != 1 or size != len(plan) or zero or not 0 < count <= MOST_STEPS:
        return 0, []
    steps: list[Parsed] = []
    seen: set[int] = set()
    at, before = 24, 0
    for number in range(count):
        found = read_step(plan, at)
        if found is None:
            return number, []
        step, at = found
        kind = step[0]
        if not step_follows(kind, step[1], before, seen) or (kind in LAST) != (number + 1 == count):
            return number, []
        before = kind
        seen.add(kind)
        steps.append(step)
    return (-1, steps) if at == len(plan) else (count - 1, [])


# ---- Doing it: system calls that Python does not have ----

NEW = {"landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446, "openat2": 437}
OLD = {
    "x86_64": {"seccomp": 317, "capset": 126, "close_range": 436, "prlimit64": 302},
    "aarch64": {"seccomp": 277, "capset": 91, "close_range": 436, "prlimit64": 261},
}
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 23, 24, 47, 4
RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS = 0x04, 0x02
O_PATH, EMEDIUMTYPE, PR_SET_NAME = 0o10000000, 124, 15
F_GET_SEALS, SEALS = 1034, 2 | 4 | 8  # F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE: nobody changes it under us

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


def call(name: str, *arguments: object) -> int:
    """A system call by name; raises OSError."""
    number = (NEW | OLD.get(platform.machine(), {})).get(name)
    if number is None:
        raise OSError(errno.ENOSYS, name)
    answer: int = _libc.syscall(
        ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)
    )
    if answer < 0:
        raise OSError(ctypes.get_errno(), name)
    return answer


def prctl(option: int, second: int) -> int:
    answer: int = _libc.prctl(option, second, 0, 0, 0)
    if answer < 0:
        raise OSError(ctypes.get_errno(), "prctl")
    return answer


def open_planned(path: bytes, flags: int, device: int, inode: int) -> int:
    """Open a canonical path, following no link, and make sure it is what was planned for."""
    how = struct.pack("<QQQ", flags | os.O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
    try:
        fd = call("openat2", -100, ctypes.c_char_p(path), ctypes.c_char_p(how), len(how))
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link was put in its place
            error.errno = errno.ESTALE
        raise
    found = os.fstat(fd)
    if (device or inode) and (found.st_dev, found.st_ino) != (device, inode):
        os.close(fd)
        raise OSError(errno.ESTALE, "swapped")
    return fd


class State:
    """What the steps leave for one another."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.ruleset, self.log = -1, 0
        self.reopened: set[int] = set()


def do_stream(state: State, numbers: tuple[int, ...], strings: list[bytes]) -> None:
    # Without waiting: it is opened before it is compared, and a FIFO put in its place would hold us for ever.
    fd = open_planned(strings[0], numbers[1] | os.O_NONBLOCK, numbers[2], numbers[3])
    fcntl.fcntl(fd, fcntl.F_SETFL, numbers[1] & ~os.O_NONBLOCK)
    os.lseek(fd, numbers[4], os.SEEK_SET)
    if fd == numbers[0]:
        raise OSError(errno.EINVAL, "there was nothing on the descriptor")
    os.dup2(fd, numbers[0])
    os.close(fd)
    state.reopened.add(numbers[0])


DEVICES = {3: "/dev/null", 5: "/dev/zero", 7: "/dev/full", 8: "/dev/random", 9: "/dev/urandom"}


def is_local(fd: int) -> bool:
    """Whether a socket is an end of a unix connection; any other could be connected to whoever listens outside."""
    looked_at = _socket.socket(fileno=os.dup(fd))
    try:
        looked_at.getpeername()
        return looked_at.family == _socket.AF_UNIX and looked_at.type in (_socket.SOCK_STREAM, _socket.SOCK_SEQPACKET)
    except OSError:
        return False
    finally:
        looked_at.close()


def check_stream(fd: int, reopened: bool) -> None:
    """Descriptors 0 to 2 are part of the wall."""
    try:
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    except OSError:
        if os.open("/dev/null", os.O_RDWR) != fd:
            raise OSError(errno.EBADF, "descriptor") from None
        os.set_inheritable(fd, True)
        return
    found = os.fstat(fd)
    kind = 0 if flags & O_PATH else stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFIFO or (kind == stat.S_IFREG and reopened) or (kind == stat.S_IFSOCK and is_local(fd)):
        return
    if kind == stat.S_IFCHR:
        if os.isatty(fd):
            return
        node = DEVICES.get(os.minor(found.st_rdev)) if os.major(found.st_rdev) == 1 else None
        if node:
            again = os.open(node, flags & os.O_ACCMODE)
            os.dup2(again, fd)
            os.close(again)
            return
    raise OSError(EMEDIUMTYPE, "descriptor")


def do_streams(state: State, _numbers: tuple[int, ...], _strings: list[bytes]) -> None:
    for fd in range(3):
        check_stream(fd, fd in state.reopened)
    if state.status > 3:
        call("close_range", 3, state.status - 1, 0)
    call("close_range", state.status + 1, 0xFFFFFFFF, 0)


def do_join(_state: State, numbers: tuple[int, ...], _strings: list[bytes]) -> None:
    os.write(numbers[0], b"0")
    os.close(numbers[0])


def do_terminal(state: State, numbers: tuple[int, ...], _strings: list[bytes]) -> None:
    ours = [fd for fd in range(3) if numbers[0] >> fd & 1]
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    fcntl.ioctl(master, 0x40045431, bytes(4))  # TIOCSPTLCK
    slave = fcntl.ioctl(master, 0x5441, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)  # TIOCGPTPEER
    for get, put, size in ((0x5401, 0x5402, 64), (0x5413, 0x5414, 8)):  # TCGETS, TCSETS; TIOCGWINSZ, TIOCSWINSZ
        fcntl.ioctl(slave, put, fcntl.ioctl(ours[0], get, bytes(size)))
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", master))
    _socket.socket(fileno=os.dup(state.status)).sendmsg([struct.pack("<IIII", LENT, 0, 0, 0)], [rights])
    for fd in ours:  # STREAMS closes the rest
        os.dup2(slave, fd)
    fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY


def do_limit(_state: State, numbers: tuple[int, ...], _strings: list[bytes]) -> None:
    call("prlimit64", 0, numbers[0], ctypes.c_char_p(struct.pack("<QQ", *numbers[1:])), None)


def do_directory(_state: State, numbers: tuple[int, ...], strings: list[bytes]) -> None:
    fd = open_planned(strings[0], O_PATH | os.O_DIRECTORY, numbers[0], numbers[1])
    os.fchdir(fd)
    os.close(fd)


def do_ruleset(state: State, numbers: tuple[int, ...], _strings: list[bytes]) -> None:
    attributes = struct.pack("<QQQ", *numbers)
    state.ruleset = call("landlock_create_ruleset", ctypes.c_char_p(attributes), len(attributes), 0)


def do_beneath(state: State, numbers: tuple[int, ...], strings: list[bytes]) -> None:
    fd = open_planned(strings[0], O_PATH, numbers[1], numbers[2])
    rule = struct.pack("<Qi", numbers[0], fd)
    call("landlock_add_rule", state.ruleset, 1, ctypes.c_char_p(rule), 0)
    os.close(fd)


def do_port(state: State, numbers: tuple[int, ...], _strings: list[bytes]) -> None:
    call("landlock_add_rule", state.ruleset, 2, ctypes.c_char_p(struct.pack("<QQ", *numbers)), 0)


def do_terminals(state: State, numbers: tuple[int, ...], _strings: list[bytes]) -> None:
    for fd in (fd for fd in range(3) if numbers[1] >> fd & 1 and os.isatty(fd)):
        is_written = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
        if rights := numbers[0] & ~(0 if is_written else 0x4002):  # WRITE_FILE and TRUNCATE
            call("landlock_add_rule", state.ruleset, 1, ctypes.c_char_p(struct.pack("<Qi", rights, fd)), 0)


def do_log(state: State, _numbers: tuple[int, ...], strings: list[bytes]) -> None:
    state.log = 2  # LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON
    name = ctypes.create_string_buffer(strings[0])
    prctl(PR_SET_NAME, ctypes.addressof(name))


def do_restrict(state: State, _numbers: tuple[int, ...], _strings: list[bytes]) -> None:
    call("landlock_restrict_self", state.ruleset, state.log)
    os.close(state.ruleset)


def is_held(capability: int) -> bool:
    """Whether it is in the bounding set; root inside another sandbox cannot drop what is not."""
    try:
        return prctl(PR_CAPBSET_READ, capability) == 1
    except OSError:
        return False


def do_capabilities(_state: State, _numbers: tuple[int, ...], _strings: list[bytes]) -> None:
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if (error.errno == errno.EINVAL and capability) or (error.errno == errno.EPERM and os.geteuid() != 0):
                break
            if error.errno != errno.EPERM or is_held(capability):
                raise
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("<Ii", 0x20080522, 0)
    call("capset", ctypes.c_char_p(header), ctypes.c_char_p(bytes(24)))


def do_seccomp(_state: State, _numbers: tuple[int, ...], strings: list[bytes]) -> None:
    program = ctypes.create_string_buffer(strings[0], len(strings[0]))
    fprog = struct.pack("<HxxxxxxQ", len(strings[0]) // 8, ctypes.addressof(program))
    call("seccomp", 1, 0, ctypes.c_char_p(fprog))


def vector(words: list[bytes]) -> "ctypes.Array[ctypes.c_char_p]":
    return (ctypes.c_char_p * (len(words) + 1))(*words, None)


def do_exec(_state: State, numbers: tuple[int, ...], strings: list[bytes]) -> None:
    # Python ignores these two for itself, and what is ignored stays ignored through exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    last = 1 + numbers[0]
    # Not os.execve: it has opinions about empty arguments and odd variables.
    _libc.execve(ctypes.c_char_p(strings[0]), vector(strings[1:last]), vector(strings[last:]))
    raise OSError(ctypes.get_errno(), "execve")


# fmt: off
STEPS: dict[int, Callable[[State, tuple[int, ...], list[bytes]], object]] = {
    5: do_join, 10: do_log, 80: lambda *_: prctl(PR_SET_NO_NEW_PRIVS, 1), 90: do_ruleset, 91: do_beneath, 92: do_port,
    93: do_terminals, 94: do_restrict, 110: lambda *_: os.setsid(), 111: do_terminal, 120: do_limit, 130: do_stream,
    131: do_streams, 132: do_directory, 150: do_capabilities, 160: do_seccomp, 170: do_exec,
}
# fmt: on


def tell(status: int, tag: int, step: int, kind: int, error: int) -> bool:
    """Write a record; whether anybody can read it."""
    try:
        return os.write(status, struct.pack("<IIII", tag, step, kind, error)) == 16
    except OSError:
        return False


def enact(plan: bytes, status: int) -> int:
    """Do the steps in order; stop at the first failure, and say which."""
    fault, steps = read_plan(plan)
    if fault >= 0:
        tell(status, FAILED, fault, 0, errno.EPROTO)
        return 125
    for number, (kind, _, _) in enumerate(steps):
        if kind not in STEPS:  # a view: refuse the plan whole, before anything is done
            tell(status, FAILED, number, kind, errno.ENOSYS)
            return 125
    state = State(status)
    for number, (kind, numbers, strings) in enumerate(steps):
        if kind == EXEC and not tell(status, READY, number, kind, 0):
            return 126  # nobody waits for us any more
        try:
            STEPS[kind](state, numbers, strings)
        except (OSError, ValueError, OverflowError) as error:
            code = getattr(error, "errno", None) or errno.EINVAL
            tell(status, FAILED, number, kind, code)
            return 125 if kind != EXEC else 127 if code == errno.ENOENT else 126
    return 125


def probe(status: int) -> int:
    """Landlock's ABI and seccomp; views are for the C program."""
    try:
        abi = call("landlock_create_ruleset", None, 0, 1)
    except OSError as error:
        abi = -(error.errno or errno.EIO)
    try:
        call("seccomp", 2, 0, ctypes.c_char_p(struct.pack("<I", 0x7FC00000)))
        seccomp = 0
    except OSError as error:
        seccomp = -(error.errno or errno.EIO)
    os.write(status, struct.pack("<I13i", PROBED, abi, seccomp, *[-errno.ENOSYS] * 10, 16))
    return 0


def descriptor(text: str) -> int:
    """A descriptor number: digits and nothing else, above 2."""
    return int(text) if text.isascii() and text.isdigit() and 2 < int(text) < 1 << 24 else -1


def read_sealed(fd: int) -> bytes:
    """The bytes of a plan that nobody can change any more; none when it is not such a one."""
    try:
        if fcntl.fcntl(fd, F_GET_SEALS) & SEALS != SEALS or not os.fstat(fd).st_size:
            return b""
        with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as mapped:
            return mapped[:]
    except OSError:
        return b""


def become(uid: int, gid: int) -> None:
    """Become somebody else for good: no groups, and all three ids, looked at afterwards. Never root."""
    if not 0 < uid < 0xFFFFFFFF or not 0 < gid < 0xFFFFFFFF:
        raise OSError(errno.EINVAL, "ids")
    os.setgroups([])
    os.setgid(gid)  # by root: the real, the effective and the saved one
    os.setuid(uid)
    try:
        os.setuid(0)
    except PermissionError:
        if (os.getuid(), os.geteuid(), os.getgid(), os.getegid()) == (uid, uid, gid, gid):
            return
    raise OSError(errno.EPERM, "ids")


def main(arguments: list[str]) -> int:
    """The same two calls as the C program's, each with ids or without."""
    if not 1 <= len(arguments) <= 4:
        return 125
    numbers, ids = (arguments[:-2], arguments[-2:]) if len(arguments) > 2 else (arguments, [])
    fds = [descriptor(text) for text in numbers]
    if -1 in fds or len(set(fds)) != len(fds):
        return 125
    status = fds[-1]
    try:
        os.set_inheritable(status, False)
    except OSError:
        return 125
    try:
        if ids:
            become(*(int(text) if text.isascii() and text.isdigit() else -1 for text in ids))
    except OSError as error:
        tell(status, FAILED, 0, 0, error.errno or errno.EPERM)
        return 125
    if len(fds) == 1:
        return probe(status)
    data = read_sealed(fds[0])
    if data:
        os.close(fds[0])
    return enact(data, status)  # no bytes are a bad header


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
