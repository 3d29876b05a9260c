"""The table of system calls that are closed, each row with the escape it answers, and the filter made of it.

Pure: from (architecture, sockets, ipc, nesting) to the bytes of a seccomp filter, or to sentences about it.

A row answers some calls when all its tests hold. Rows that name the same call are tried in order and the first that
holds answers; a known call that no row answers is allowed; a number that nobody knows is ENOSYS. Tests read the low
half of an argument wherever the kernel takes an int: it ignores the high half, and so must we (CVE-2019-7303).

What is known and left open on purpose:
- chmod, chown, utime, the xattr calls with setxattrat and removexattrat, file_setattr, and FS_IOC_SETFLAGS and
  FS_IOC_FSSETXATTR of ioctl write metadata. Landlock has no right for them; the read-only mounts of the view judge
  them, and without a view they are a named gap.
- sched_setaffinity, sched_setscheduler, sched_setparam and sched_setattr take a thread id: glibc passes one for every
  thread, and no filter can tell it from a stranger's. A pid namespace is what hides the strangers.
- kill, tgkill, rt_sigqueueinfo, pidfd_send_signal, pidfd_open: Landlock's signal scope judges them by target.
- uretprobe and uprobe come from the kernel's own trampoline in a program traced from outside. An errno there would
  crash the program; called from anywhere else the kernel refuses them itself.
- landlock_*, seccomp without a listener, memfd_secret, mseal, pkey_*: they only narrow what their caller can do.
- What a device offers (/dev/userfaultfd, /dev/kvm) is closed by the private /dev and Landlock's IOCTL_DEV.
"""

import enum
import functools
from collections.abc import Iterator, Sequence

import msgspec

from . import bpf
from .numbers import numbers

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LOW = 0xFFFFFFFF
WHOLE = 0xFFFFFFFFFFFFFFFF


class Answer(enum.IntEnum):
    """What seccomp returns; an errno is SECCOMP_RET_ERRNO and its number, alike on both architectures."""

    ALLOW = 0x7FFF0000
    KILL = 0x80000000  # SECCOMP_RET_KILL_PROCESS
    EPERM = 0x50000 | 1
    ENOTTY = 0x50000 | 25
    ENOSYS = 0x50000 | 38
    ENOPROTOOPT = 0x50000 | 92
    EPROTONOSUPPORT = 0x50000 | 93
    EOPNOTSUPP = 0x50000 | 95
    EAFNOSUPPORT = 0x50000 | 97


class Sockets(enum.Flag):
    """What socket() may make, in any combination; Sockets(0) is nothing. socketpair(AF_UNIX) always works."""

    UNIX = 1
    INET = 2  # TCP and UDP, over IPv4 and IPv6
    NETLINK_ROUTE = 4  # asking for interfaces and routes, as getifaddrs() does


class OneOf(msgspec.Struct, frozen=True):
    """The masked low half of an argument is one of these values."""

    arg: int
    values: tuple[int, ...]
    text: str
    mask: int = LOW


class AnyBit(msgspec.Struct, frozen=True):
    """An argument has any of these bits. Bits of the high half are named only for pointers."""

    arg: int
    bits: int
    text: str


class Row(msgspec.Struct, frozen=True):
    """Some calls, what they are answered when every test holds, and the escape that this closes."""

    names: tuple[str, ...]
    answer: Answer
    escape: str
    when: tuple[OneOf | AnyBit, ...] = ()

    def describe(self) -> str:
        when = f" when {' and '.join(test.text for test in self.when)}" if self.when else ""
        return f"{' '.join(self.names)}: {self.answer.name}{when}: {self.escape}"


def _row(names: str, answer: Answer, escape: str, *when: OneOf | AnyBit) -> Row:
    return Row(tuple(names.split()), answer, escape, when)


# --- closed in every plan --------------------------------------------------------------------------------------------

_ANOTHER = "it names somebody else"
_STARVED = "other processes of the same user could be starved"

CLOSED = (
    _row(
        "clone",
        Answer.EPERM,
        "a child of whoever started us is not ours to end, and a stranger to him who waits for his own",
        AnyBit(0, 0x8000, "the caller's own parent shall be the parent"),
    ),
    # ENOSYS: libuv and its like take it as an old kernel and use epoll.
    _row(
        "io_uring_setup io_uring_enter io_uring_register",
        Answer.ENOSYS,
        "a ring opens files and sockets without making the calls that are judged here",
    ),
    # ENOSYS: glibc then uses clone(), whose flags are in a register.
    _row("clone3", Answer.ENOSYS, "its flags lie in memory, so a new user namespace could hide there (CVE-2021-41133)"),
    _row(
        "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd",
        Answer.EPERM,
        "another process's memory and descriptors, the supervisor's among them, are as good as its rights",
    ),
    _row("bpf perf_event_open", Answer.EPERM, "they see other processes, and are a rich source of kernel holes"),
    _row("userfaultfd", Answer.EPERM, "it stalls the kernel in the middle of a judgement and widens every race"),
    # ENOSYS, as of a kernel without keys: Kerberos falls back to files, EPERM would be an error to it.
    _row(
        "add_key request_key keyctl", Answer.ENOSYS, "the user's keyring has no namespace of its own and holds secrets"
    ),
    _row(
        "open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr",
        Answer.EPERM,
        "a mount could be uncovered, cloned or made writable behind the view (CVE-2021-41133)",
    ),
    # ENOSYS: libmount and systemd then read /proc/self/mountinfo, and what that shows is the view's to decide.
    _row("statmount listmount", Answer.ENOSYS, "a second way to see mounts, past whatever the view shows of /proc"),
    _row("open_by_handle_at", Answer.EPERM, "a handle opens a file past every path above it (shocker, 2014)"),
    # EOPNOTSUPP is what a file system without handles says, so callers know the way on.
    _row("name_to_handle_at", Answer.EOPNOTSUPP, "it makes the handles that an accomplice could open"),
    _row("fanotify_init fanotify_mark", Answer.EPERM, "it tells who opens what, beyond the workspace too"),
    _row(
        "init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl"
        " quotactl_fd syslog iopl ioperm vhangup sethostname setdomainname",
        Answer.EPERM,
        "they command the machine; should a capability ever be left, this is the second lock",
    ),
    _row("settimeofday clock_settime adjtimex clock_adjtime", Answer.EPERM, "the clock is everybody's on the machine"),
    _row("modify_ldt", Answer.ENOSYS, "only 16-bit code needs it, and it was the way to several kernel escalations"),
    _row(
        "uselib ustat sysfs _sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg afs_syscall"
        " tuxcall security set_thread_area get_thread_area lookup_dcookie epoll_ctl_old epoll_wait_old vserver",
        Answer.ENOSYS,
        "calls of the past: kernels answer this themselves, or should",
    ),
    # ADDR_NO_RANDOMIZE: gdb and ThreadSanitizer restart with it, and it weakens only who asks. PER_LINUX32: uname.
    _row("personality", Answer.ALLOW, "asking changes nothing", OneOf(0, (LOW,), "it only asks")),
    _row(
        "personality",
        Answer.EPERM,
        "READ_IMPLIES_EXEC and MMAP_PAGE_ZERO undo the memory protections that later holes must overcome",
        AnyBit(0, LOW & ~(0x40000 | 0x0008), "it asks for more than ADDR_NO_RANDOMIZE or PER_LINUX32"),
    ),
    # EPERM is what all of PR_SET_MM but PR_SET_MM_MAP answers without CAP_SYS_RESOURCE.
    _row("prctl", Answer.EPERM, "a process could forge what /proc says it is", OneOf(0, (35,), "it is PR_SET_MM")),
    _row(
        "seccomp",
        Answer.EPERM,
        "a listener of its own would answer its children's calls in the supervisor's place",
        AnyBit(1, 8, "it asks for a listener"),
    ),
    _row(
        "ioctl",
        Answer.EPERM,
        "keys pushed into the caller's terminal are typed outside (CVE-2017-5226, CVE-2023-28100); a line discipline"
        " loads kernel modules",
        OneOf(1, (0x5412, 0x541C, 0x5423), "it is TIOCSTI, TIOCLINUX or TIOCSETD"),
    ),
    # ENOTTY is what another file system says: callers fall back to mkdir, which is judged.
    _row(
        "ioctl",
        Answer.ENOTTY,
        "btrfs makes and removes whole trees by it, and Landlock is not asked",
        OneOf(
            1,
            (0x50009401, 0x5000940E, 0x5000940F, 0x50009417, 0x50009418, 0x5000943F),
            "it makes or destroys a btrfs subvolume or snapshot",
        ),
    ),
    _row(
        "prlimit64",
        Answer.EPERM,
        "the limits of another process of the same user could be taken to nothing",
        AnyBit(0, LOW, _ANOTHER),
        AnyBit(2, WHOLE, "it sets"),  # a pointer: NULL only if both halves are
    ),
    # A thread that passes its own id is refused with the strangers; passing 0 does the same and works.
    _row("setpriority ioprio_set", Answer.EPERM, _STARVED, AnyBit(1, LOW, _ANOTHER)),
    _row("setpriority", Answer.EPERM, _STARVED, AnyBit(0, LOW, "it means a group or a user")),
    _row("ioprio_set", Answer.EPERM, _STARVED, OneOf(0, (2, 3), "it means a group or a user")),
    _row("migrate_pages move_pages", Answer.EPERM, "another process's memory could be moved", AnyBit(0, LOW, _ANOTHER)),
)

# --- sockets ---------------------------------------------------------------------------------------------------------

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_STREAM, _DGRAM, _RAW, _SEQPACKET = 1, 2, 3, 5
_TCP, _UDP, _ROUTE = 6, 17, 0


def _family(*families: int, text: str) -> OneOf:
    return OneOf(0, families, f"the family is {text}")


def _type(*types: int, text: str) -> OneOf:
    return OneOf(1, types, text, LOW & ~0x80800)  # without SOCK_CLOEXEC and SOCK_NONBLOCK


def _protocol(*protocols: int, text: str) -> OneOf:
    return OneOf(2, protocols, text)


_INET = _family(_AF_INET, _AF_INET6, text="AF_INET or AF_INET6")
_NETLINK = _family(_AF_NETLINK, text="AF_NETLINK")
_UNIX = _family(_AF_UNIX, text="AF_UNIX")

# Fast open connects without connect(). EOPNOTSUPP and ENOPROTOOPT are what a kernel answers that has it switched off.
_FAST_OPEN = "fast open sends to an address that no connect() was judged for"
_FAST_OPEN_FLAG = 0x20000000
FAST_OPEN = (
    _row("sendmsg", Answer.EOPNOTSUPP, _FAST_OPEN, AnyBit(2, _FAST_OPEN_FLAG, "it has MSG_FASTOPEN")),
    _row("sendto sendmmsg", Answer.EOPNOTSUPP, _FAST_OPEN, AnyBit(3, _FAST_OPEN_FLAG, "it has MSG_FASTOPEN")),
    _row(
        "setsockopt",
        Answer.ENOPROTOOPT,
        "fast open needs no connect(), and TCP_ULP turns a TCP socket into SMC, which Landlock's port rules do not see",
        OneOf(1, (_TCP,), "the level is TCP"),
        OneOf(2, (23, 30, 31), "it is TCP_FASTOPEN, TCP_FASTOPEN_CONNECT or TCP_ULP"),
    ),
)

SOCKETS = {
    Sockets.UNIX: (
        _row(
            "socket",
            Answer.ALLOW,
            "which socket may be reached is judged by path",
            _UNIX,
            _type(_STREAM, _DGRAM, _SEQPACKET, text="it is a stream, datagrams or packets"),
        ),
        _row("socket", Answer.EPERM, "no other type is needed", _UNIX),
    ),
    Sockets.INET: (
        _row(
            "socket",
            Answer.ALLOW,
            "TCP is judged by port and by namespace",
            _INET,
            _type(_STREAM, text="it is a stream"),
            _protocol(0, _TCP, text="over TCP"),
        ),
        _row(
            "socket",
            Answer.ALLOW,
            "UDP is judged by namespace",
            _INET,
            _type(_DGRAM, text="it is datagrams"),
            _protocol(0, _UDP, text="over UDP"),
        ),
        _row(
            "socket",
            Answer.EPROTONOSUPPORT,
            "MPTCP, SCTP, SMC and UDP-Lite are not TCP to Landlock, whose port rules they pass",
            _INET,
            _type(_STREAM, _DGRAM, text="it is a stream or datagrams"),
        ),
        _row("socket", Answer.EPERM, "raw packets carry any address and any protocol", _INET),
    ),
    Sockets.NETLINK_ROUTE: (
        _row(
            "socket",
            Answer.ALLOW,
            "asking for interfaces; changing them needs a capability",
            _NETLINK,
            _type(_DGRAM, _RAW, text="it is datagrams or raw"),
            _protocol(_ROUTE, text="the protocol is NETLINK_ROUTE"),
        ),
        _row(
            "socket", Answer.EPROTONOSUPPORT, "audit, netfilter, sock_diag and kin tell of the whole machine", _NETLINK
        ),
    ),
}

# --- what depends on the plan ----------------------------------------------------------------------------------------

_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID and NET
_NEW_TIME = 0x80  # in clone() these bits are the signal sent at the end, so a time namespace is only made by unshare()
_NEW_USER = "a new user namespace has every capability: masks are unmounted, the read-only made writable"

NAMESPACES = (
    _row("mount umount2 pivot_root", Answer.EPERM, "mounts are the view"),
    _row("chroot", Answer.EPERM, "another root is another meaning for every path"),
    _row("setns", Answer.EPERM, "it enters the namespaces of processes outside"),
    _row("unshare", Answer.EPERM, _NEW_USER, AnyBit(0, _NEW_NAMESPACES | _NEW_TIME, "it asks for a new namespace")),
    _row("clone", Answer.EPERM, _NEW_USER, AnyBit(0, _NEW_NAMESPACES, "it asks for a new namespace")),
)

# ENOSYS, as of a kernel without SYSVIPC and POSIX_MQUEUE: programs then use files, EPERM they report as a fault.
IPC = (
    _row(
        "shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl",
        Answer.ENOSYS,
        "memory, semaphores and queues of every process of the same user are found by number",
    ),
    _row(
        "mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
        Answer.ENOSYS,
        "message queues of every process of the same user are found by name",
    ),
)


def rows(arch: str, sockets: Sockets, private_ipc: bool, nested: bool = False) -> tuple[Row, ...]:
    """The rows in force, in the order in which they are tried, with the names that this architecture has.

    `nested` lifts what bubblewrap and Chromium need to make a sandbox of their own: the old mount calls and new
    namespaces. What is locked in the view stays locked in theirs; clone3 and the new mount calls stay closed.
    """
    known = numbers(arch)
    depends = (() if nested else NAMESPACES) + (() if private_ipc else IPC)
    table = (*CLOSED, *depends, *FAST_OPEN, *_socket_rows(sockets))
    present = ((row, tuple(name for name in row.names if name in known)) for row in table)
    return tuple(
        row if names == row.names else msgspec.structs.replace(row, names=names) for row, names in present if names
    )


def _socket_rows(sockets: Sockets) -> Iterator[Row]:
    yield _row("socketpair", Answer.ALLOW, "a pair has no address, and its ends stay with those it is given to", _UNIX)
    for flag, kinds in SOCKETS.items():
        if flag in sockets:
            yield from kinds
    yield _row(
        "socket socketpair",
        Answer.EAFNOSUPPORT,
        "a socket of any other family (vsock, packet, netlink, AF_ALG, XDP …) is a way out that nothing else judges",
    )


def describe(arch: str, sockets: Sockets, private_ipc: bool, nested: bool = False) -> tuple[str, ...]:
    """The whole filter in sentences, for a person."""
    # A 32-bit call in a 64-bit process has no honest use, and a 32-bit program had better die in sight than go on
    # half refused. x32 is ENOSYS because that is what nearly every kernel says: it is built without it.
    general = [f"a call not of {arch}: KILL: the same number means another call there"]
    general += ["a number from 0x40000000 on: ENOSYS: x32 has other numbers for closed calls"] * (arch == "x86_64")
    general += ["a number unknown to ringfence: ENOSYS: what a later kernel adds has not been judged"]
    return (*general, *(row.describe() for row in rows(arch, sockets, private_ipc, nested)))


# --- the filter ------------------------------------------------------------------------------------------------------

_Chain = tuple[int, ...]  # the indices of the rows about one call, up to the first that always answers
_ALLOWED: _Chain = ()
_Run = tuple[int, str]  # the first number, and the label where its search ends


@functools.cache
def filter_for(arch: str, sockets: Sockets, private_ipc: bool, nested: bool = False) -> bytes:
    """The filter as an array of struct sock_filter.

    A binary search over the numbers, so that calls answered whatever their arguments load nothing but the number:
    the kernel then answers them from its bitmap. x32 numbers lie beyond every known one and fall to ENOSYS.
    """
    table = rows(arch, sockets, private_ipc, nested)
    chains = _chains(numbers(arch), table)
    runs = _runs(chains, table)
    conditional = dict.fromkeys(chain for chain in chains.values() if chain and table[chain[0]].when)
    answers = dict.fromkeys(end for _, end in runs if end in Answer.__members__)
    return bpf.assemble(
        [
            bpf.Load(bpf.ARCH),
            bpf.Jump(bpf.Compare.EQUAL, AUDIT_ARCH[arch], "number", "stranger"),
            bpf.Label("stranger"),
            bpf.Return(Answer.KILL),
            bpf.Label("number"),
            bpf.Load(bpf.NUMBER),
            *_search(runs, max(chains) + 2),
            *(item for answer in answers for item in (bpf.Label(answer), bpf.Return(Answer[answer]))),
            *(item for chain in conditional for item in _judgement(chain, table)),
        ]
    )


def _chains(known: dict[str, int], table: Sequence[Row]) -> dict[int, _Chain]:
    """The rows that each known number meets."""
    chains: dict[int, _Chain] = dict.fromkeys(known.values(), _ALLOWED)
    for index, row in enumerate(table):
        for name in row.names:
            chain = chains[known[name]]
            if not chain or table[chain[-1]].when:
                chains[known[name]] = (*chain, index)
    return chains


def _runs(chains: dict[int, _Chain], table: Sequence[Row]) -> list[_Run]:
    """The numbers as runs that end alike: where each begins, and the label of its end."""
    runs: list[_Run] = []
    for number in range(max(chains) + 2):
        end = _end(chains.get(number), table)
        if not runs or runs[-1][1] != end:
            runs.append((number, end))
    return runs


def _end(chain: _Chain | None, table: Sequence[Row]) -> str:
    """The label where a number's search ends: an answer that all share, or the rows of its call."""
    if chain is None:
        return Answer.ENOSYS.name
    if chain == _ALLOWED:
        return Answer.ALLOW.name
    return _rows_label(chain) if table[chain[0]].when else table[chain[0]].answer.name


def _rows_label(chain: _Chain) -> str:
    return f"rows {chain}"


def _search(runs: Sequence[_Run], after: int) -> Iterator[bpf.Item]:
    """A binary search, halved by how many numbers lie on each side: when a filter is installed the kernel walks it
    once for every number there is, and that is most of what installing costs."""
    widths = [later - first for (first, _), later in zip(runs, [*(first for first, _ in runs[1:]), after], strict=True)]
    half, total, middle = 0, sum(widths) + len(runs), 1
    for index, width in enumerate(widths[:-1]):
        half += width + 1
        middle = index + 1
        if half * 2 >= total:
            break
    begin = runs[middle][0]
    low, high = runs[:middle], runs[middle:]
    low_label = low[0][1] if len(low) == 1 else ""
    high_label = high[0][1] if len(high) == 1 else f"from {begin}"
    yield bpf.Jump(bpf.Compare.AT_LEAST, begin, high_label, low_label)
    if len(low) > 1:
        yield from _search(low, begin)
    if len(high) > 1:
        yield bpf.Label(high_label)
        yield from _search(high, after)


def _judgement(chain: _Chain, table: Sequence[Row]) -> Iterator[bpf.Item]:
    """The rows of one call, one after the other."""
    yield bpf.Label(_rows_label(chain))
    for index in chain:
        after = f"after {index} of {chain}"
        for place, test in enumerate(table[index].when):
            yield from _test(test, f"test {place} of {index} of {chain}", after)
        yield bpf.Return(table[index].answer)
        yield bpf.Label(after)
    if table[chain[-1]].when:
        yield bpf.Return(Answer.ALLOW)


def _test(test: OneOf | AnyBit, held: str, failed: str) -> Iterator[bpf.Item]:
    """Go on behind the test if it holds, to `failed` if not."""
    yield bpf.Load(bpf.argument(test.arg))
    if isinstance(test, OneOf):
        if test.mask != LOW:
            yield bpf.And(test.mask)
        for value in test.values[:-1]:
            yield bpf.Jump(bpf.Compare.EQUAL, value, held)
        yield bpf.Jump(bpf.Compare.EQUAL, test.values[-1], "", failed)
    elif test.bits <= LOW:
        yield bpf.Jump(bpf.Compare.ANY_BIT, test.bits, "", failed)
    else:
        yield bpf.Jump(bpf.Compare.ANY_BIT, test.bits & LOW, held)
        yield bpf.Load(bpf.argument(test.arg, high=True))
        yield bpf.Jump(bpf.Compare.ANY_BIT, test.bits >> 32, "", failed)
    yield bpf.Label(held)
