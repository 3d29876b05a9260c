"""The table of system calls that are closed, each row with the escape it answers. `filters` makes a filter of it. Pure.

A row answers some calls when all its tests hold. Rows that name the same call are tried in order and the first that
holds answers; a known call that no row answers is allowed; a number that nobody knows is ENOSYS. Tests read the low
half of an argument wherever the kernel takes an int: it ignores the high half, and so must we (CVE-2019-7303).

What is known and left open on purpose:
- chmod, chown, utime, the xattr calls with setxattrat and removexattrat, file_setattr, and what ioctl sets of a file
  (FS_IOC_SETFLAGS and its kin) write metadata. Landlock has no right for them; the read-only mounts of the view judge
  them, without a view the warden, and where it cannot they are a named gap.
- sched_setaffinity, sched_setscheduler, sched_setparam and sched_setattr take a thread id: glibc passes one for every
  thread, and no filter can tell it from a stranger's. A pid namespace hides the strangers, or the warden asks.
- kill, tgkill, rt_sigqueueinfo, pidfd_send_signal, pidfd_open: Landlock's signal scope judges them by target.
- uretprobe and uprobe come from the kernel's own trampoline in a program traced from outside. An errno there would
  crash the program; called from anywhere else the kernel refuses them itself.
- landlock_*, seccomp without a listener, memfd_secret, mseal, pkey_*: they only narrow what their caller can do.
- What a device offers (/dev/userfaultfd, /dev/kvm) is closed by the private /dev and Landlock's IOCTL_DEV.
"""

import enum
from collections.abc import Iterator

import msgspec

from .numbers import numbers
from .sorts import Judged, Sockets

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LOW = 0xFFFFFFFF
WHOLE = 0xFFFFFFFFFFFFFFFF


class Answer(enum.IntEnum):
    """What seccomp returns; an errno is SECCOMP_RET_ERRNO and its number, alike on both architectures."""

    ALLOW = 0x7FFF0000
    KILL = 0x80000000  # SECCOMP_RET_KILL_PROCESS
    NOTIFY = 0x7FC00000  # SECCOMP_RET_USER_NOTIF: the warden answers
    DONE = 0x50000  # as if it were: no error, and nothing was done
    EPERM = 0x50000 | 1
    EINVAL = 0x50000 | 22
    ENOTTY = 0x50000 | 25
    ENOSYS = 0x50000 | 38
    ENOPROTOOPT = 0x50000 | 92
    EPROTONOSUPPORT = 0x50000 | 93
    EOPNOTSUPP = 0x50000 | 95
    EAFNOSUPPORT = 0x50000 | 97


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
_CRASH = "at a crash the kernel would start the host's program for that, as root, if the limit were not one byte"
_RLIMIT_CORE, _CORE = 4, "it is about core files"
_CORE_SET = (OneOf(1, (_RLIMIT_CORE,), _CORE), AnyBit(2, WHOLE, "it sets"))
_LENT = (
    "whoever starts such a program, outside, is the command's user while it runs: another account, or root's by anybody"
)
_SETUID, _LENDS = 0o4000, "it makes a program that runs as its owner"

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
    _row("add_key request_key keyctl", Answer.ENOSYS, "the user's keyring holds secrets, and has no namespace"),
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
    # The key is the user's and not the mount's, which may be read-only.
    _row(
        "ioctl",
        Answer.ENOTTY,
        "who can read a directory takes the user's key off its file system: all that is encrypted there is locked",
        OneOf(1, (0xC0506617, 0xC0406618, 0xC0406619), "it gives or takes a key of an encrypted file system"),
    ),
    _row(
        "prlimit64",
        Answer.EPERM,
        "the limits of another process of the same user could be taken to nothing",
        AnyBit(0, LOW, _ANOTHER),
        AnyBit(2, WHOLE, "it sets"),  # a pointer: NULL only if both halves are
    ),
    # DONE: whoever forbids its own core files (gpg-agent does) would give up at an error, and there are none anyway.
    _row("prlimit64", Answer.EPERM, _CRASH, *_CORE_SET, AnyBit(3, WHOLE, "it asks for the old limit too")),
    _row("prlimit64", Answer.DONE, _CRASH, *_CORE_SET),
    _row("setrlimit", Answer.DONE, _CRASH, OneOf(0, (_RLIMIT_CORE,), _CORE)),
    # EINVAL is what a file system without leases says.
    _row(
        "fcntl",
        Answer.EINVAL,
        "whoever opens the file outside, of which a read is permitted here, waits until the lease is given up",
        OneOf(1, (1024, 1040), "it is F_SETLEASE or F_SETDELEG"),
    ),
    # A thread that passes its own id is refused with the strangers; passing 0 does the same and works.
    _row("setpriority ioprio_set", Answer.EPERM, _STARVED, AnyBit(1, LOW, _ANOTHER)),
    _row("setpriority", Answer.EPERM, _STARVED, AnyBit(0, LOW, "it means a group or a user")),
    _row("ioprio_set", Answer.EPERM, _STARVED, OneOf(0, (2, 3), "it means a group or a user")),
    _row("chmod fchmod creat mknod", Answer.EPERM, _LENT, AnyBit(1, _SETUID, _LENDS)),
    _row("fchmodat fchmodat2 mknodat", Answer.EPERM, _LENT, AnyBit(2, _SETUID, _LENDS)),
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
_UNIX_DATAGRAMS = (_UNIX, _type(_DGRAM, _RAW, text="it is datagrams"))  # AF_UNIX takes one for the other
_OVER_UDP = (_INET, _type(_DGRAM, text="it is datagrams"), _protocol(0, _UDP, text="over UDP"))
_OVER_TCP = (_INET, _type(_STREAM, text="it is a stream"), _protocol(0, _TCP, text="over TCP"))

# EOPNOTSUPP and ENOPROTOOPT are what a kernel answers that has it switched off.
_FAST_OPEN = "fast open sends to an address that no connect() was judged for"
_FAST_OPEN_FLAG = 0x20000000
# Tried: without any right, and with a socket that is connected to another.
_ROUTED = "a source route sends what is written to a host that nobody judged, by a socket that is connected to one"
_BY_IP = OneOf(1, (0,), "the level is IP"), OneOf(2, (4,), "it is IP_OPTIONS")
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
    _row("setsockopt", Answer.ENOPROTOOPT, _ROUTED, *_BY_IP),
    _row(
        "setsockopt",
        Answer.ENOPROTOOPT,
        _ROUTED,
        OneOf(1, (41,), "the level is IPv6"),
        OneOf(2, (6, 57), "it is IPV6_2292PKTOPTIONS or IPV6_RTHDR"),
    ),
)

SOCKETS = {
    Sockets.UNIX: (
        _row(
            "socket",
            Answer.ALLOW,
            "which socket may be reached is judged by path",
            _UNIX,
            _type(_STREAM, _SEQPACKET, text="it is a stream or packets"),
        ),
        _row("socket", Answer.EPERM, "no other type is needed", _UNIX),
    ),
    Sockets.INET: (
        _row("socket", Answer.ALLOW, "TCP is judged by port and by namespace", *_OVER_TCP),
        _row("socket", Answer.ALLOW, "UDP is judged by namespace", *_OVER_UDP),
        _row(
            "socket",
            Answer.EPROTONOSUPPORT,
            "MPTCP, SCTP, SMC and UDP-Lite are not TCP to Landlock, whose port rules they pass",
            _INET,
            _type(_STREAM, _DGRAM, text="it is a stream or datagrams"),
        ),
        _row("socket", Answer.EPERM, "raw packets carry any address and any protocol", _INET),
    ),
    Sockets.TCP: (
        _row("socket", Answer.ALLOW, "TCP is judged by port", *_OVER_TCP),
        _row("socket", Answer.EPERM, "no port rule judges anything but TCP", _INET),
        _row("listen", Answer.EPERM, "one that was never bound listens on a port of its choice, that nobody judges"),
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
        _row("socket", Answer.EPROTONOSUPPORT, "audit, netfilter and sock_diag tell of the whole machine", _NETLINK),
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

# What a sandbox inside the sandbox calls. Mounts of the view are locked in a namespace made inside it, and whoever is
# outside the run is out of reach by Landlock's domain and by the pid namespace.
LIFTED = frozenset(
    "open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr seccomp process_vm_readv"
    " pidfd_getfd".split()
)

_NAMED = "a name that the policy denies could appear: the warden makes it, or refuses"
_CREATES = 0o100  # O_CREAT, alike on both architectures

# What makes, moves or removes names, when there is a table of names that must not appear. Plain opens are not among
# them: those only reach what exists, and mounts hold that.
WATCHED = (
    # As of a kernel with Landlock switched off. The warden makes names outside any domain made here, so one would not
    # hold, and whoever made it would believe that it does.
    _row(
        "landlock_restrict_self",
        Answer.ALLOW,
        "nobody inside can have a ruleset; a later command is born with this filter, and goes behind its border then",
        OneOf(1, (0,), "it has no flags"),
    ),
    _row(
        "landlock_create_ruleset landlock_add_rule landlock_restrict_self",
        Answer.EOPNOTSUPP,
        "a sandbox inside the sandbox would be passed by the warden; allowNestedSandbox is the way to have one",
    ),
    # ENOSYS, as before 5.6: its flags lie in memory. Callers fall back to openat.
    _row("openat2", Answer.ENOSYS, "its flags lie in memory, so a creation could hide there"),
    _row("open", Answer.NOTIFY, _NAMED, AnyBit(1, _CREATES, "it may create")),
    _row("openat", Answer.NOTIFY, _NAMED, AnyBit(2, _CREATES, "it may create")),
    _row(
        "creat mkdir mkdirat mknod mknodat symlink symlinkat link linkat rename renameat renameat2 rmdir",
        Answer.NOTIFY,
        _NAMED,
    ),
    _row("unlinkat", Answer.NOTIFY, _NAMED, AnyBit(2, 0x200, "it removes a directory")),
    _row("umask", Answer.NOTIFY, "the warden makes files with the caller's mask, and must hear of a change"),
)

# With a view. Without one there are no sockets by path, or all of them, and the network is the host's.
WATCHED_SOCKETS = (
    _row("bind", Answer.NOTIFY, _NAMED),
    _row(
        "connect listen",
        Answer.NOTIFY,
        "a socket of the host's could be reached by its path, and one that was handed in could be made to listen",
    ),
    _row("epoll_create epoll_create1", Answer.NOTIFY, "what is handed in is waited for as the one before it was"),
)
# Without a view. The warden asks the kernel whether it may signal that thread, and lets the call go on.
WATCHED_THREADS = (
    _row(
        "sched_setaffinity sched_setscheduler sched_setparam sched_setattr",
        Answer.NOTIFY,
        _STARVED,
        AnyBit(0, LOW, _ANOTHER),
    ),
)

# A new file that nobody can execute is handed to the command before the warden has let go of it. What would notice that
# comes to the warden, which has done so by then, and goes on: making it a program that can be executed ("text file
# busy" otherwise), and a lock that lasts as long as what was opened.
_HANDED = "the warden lets go of a new file first"
_EXECUTABLE = "somebody may execute it then"
HANDED = (
    _row("chmod fchmod", Answer.NOTIFY, _HANDED, AnyBit(1, 0o111, _EXECUTABLE)),
    _row("fchmodat fchmodat2", Answer.NOTIFY, _HANDED, AnyBit(2, 0o111, _EXECUTABLE)),
    _row("setxattr lsetxattr fsetxattr setxattrat", Answer.NOTIFY, _HANDED),  # it may be a list of who may execute it
    _row("flock", Answer.NOTIFY, _HANDED),
    _row("fcntl", Answer.NOTIFY, _HANDED, OneOf(1, (37, 38), "it is F_OFD_SETLK or F_OFD_SETLKW")),
)

_OF_A_FILE = (0x40086602, 0x401C5820, 0x40087602, 0x40086604, 0x40806685, 0x800C6613, 0x6609)
_OF_BTRFS = (0x4008941A, 0xC0C89425, 0xC0C09425, 0x50009402, 0x40309410)
_USED = "what is denied by a pattern could have come meanwhile: the warden does it, or refuses"
_READ = "attributes of what a pattern denies would be read by its name"
_PATH, _TEMPORARY, _WRITES = 0o10000000, 0o20000000, 0o1103  # O_PATH, __O_TMPFILE; O_CREAT, O_TRUNC and for writing
_OPENS = (("open", 1), ("openat", 2))  # and which argument has the flags

# What uses names, where something is denied by patterns that may come later; before WATCHED, for these answer first.
JUDGED = {
    Judged.WRITES: (
        *(_row(name, Answer.ALLOW, "it opens nothing yet", AnyBit(at, _PATH, "it is O_PATH")) for name, at in _OPENS),
        *(_row(name, Answer.ALLOW, "no name yet", AnyBit(at, _TEMPORARY, "it is O_TMPFILE")) for name, at in _OPENS),
        *(_row(name, Answer.NOTIFY, _USED, AnyBit(at, _WRITES, "it may write")) for name, at in _OPENS),
        _row(
            "unlink unlinkat truncate chmod fchmod fchmodat chown lchown fchown fchownat utime utimes futimesat"
            " utimensat setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr",
            Answer.NOTIFY,
            _USED,
        ),
        # As of an older kernel: callers fall back to the calls above.
        _row("fchmodat2 setxattrat removexattrat file_setattr", Answer.ENOSYS, _USED),
        _row(
            "ioctl",
            Answer.ENOTTY,
            "attributes of a file are changed by it, and nobody is asked",
            OneOf(
                1,
                _OF_A_FILE + _OF_BTRFS,
                "it sets flags, attributes, a version, verity, encryption or the layout of a file",
            ),
        ),
    ),
    Judged.READS: (_row("open openat", Answer.NOTIFY, _USED),),
    # As of a file system without attributes; those of what was opened are read by its descriptor.
    Judged.ATTRIBUTES: (
        _row("getxattr lgetxattr listxattr llistxattr", Answer.EOPNOTSUPP, _READ),
        _row("getxattrat listxattrat", Answer.ENOSYS, _READ),
    ),
}


# Before JUDGED and WATCHED. Without them opens have no tests at all, and openat2 has its mode in memory.
_NEW = AnyBit(1, _TEMPORARY | _CREATES, "it may create"), AnyBit(2, _TEMPORARY | _CREATES, "it may create")
LENDING = tuple(_row(n, Answer.EPERM, _LENT, _NEW[at - 1], AnyBit(at + 1, _SETUID, _LENDS)) for n, at in _OPENS)


def rows(
    arch: str,
    sockets: Sockets,
    private_ipc: bool,
    nested: bool = False,
    watched: bool = False,
    judged: Judged = Judged.NOTHING,
) -> tuple[Row, ...]:
    """The rows in force, in the order in which they are tried, with the names that this architecture has.

    `watched` sends what makes names to the warden, `judged` also what uses them. `nested` lifts what bubblewrap,
    Chromium and ringfence itself need to make a sandbox of their own. What is locked in the view stays locked.
    """
    known = set(numbers(arch)) - (LIFTED if nested else set())
    depends = (() if nested else NAMESPACES) + (() if private_ipc else IPC)
    table = (*CLOSED, *depends, *FAST_OPEN, *_socket_rows(sockets), *_warden_rows(watched, judged, private_ipc))
    present = ((row, tuple(name for name in row.names if name in known)) for row in table)
    return tuple(
        row if names == row.names else msgspec.structs.replace(row, names=names) for row, names in present if names
    )


def _warden_rows(watched: bool, judged: Judged, viewed: bool) -> Iterator[Row]:
    yield from LENDING if watched or Judged.WRITES in judged else ()
    for flag, kinds in JUDGED.items():
        if flag in judged:
            yield from kinds
    if watched or Judged.WRITES in judged:
        yield from HANDED
    if watched:
        yield from WATCHED
        yield from WATCHED_SOCKETS if viewed else WATCHED_THREADS


def _socket_rows(sockets: Sockets) -> Iterator[Row]:
    if Sockets.UNIX_DATAGRAMS in sockets:
        yield _row("socket", Answer.ALLOW, "where they go nobody judges, and a policy wants them", *_UNIX_DATAGRAMS)
    else:
        why = "each sending call names where it goes, in memory that nobody can judge; an end of a pair does so too"
        yield _row("socket socketpair", Answer.EPROTONOSUPPORT, why, *_UNIX_DATAGRAMS)
    yield _row("socketpair", Answer.ALLOW, "a pair has no address, and its ends stay with those it is given to", _UNIX)
    for flag, kinds in SOCKETS.items():
        if flag in sockets:
            yield from kinds
    yield _row(
        "socket socketpair",
        Answer.EAFNOSUPPORT,
        "a socket of any other family (vsock, packet, netlink, AF_ALG, XDP …) is a way out that nothing else judges",
    )
