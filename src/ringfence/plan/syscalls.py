"""The table of system calls that are closed, each row with the escape it answers. `filters` makes a filter of it. Pure.

A row answers some calls when all its tests hold. Rows that name the same call are tried in order and the first that
holds answers; a known call that no row answers is allowed; a number that nobody knows is ENOSYS. Tests read the low
half of an argument wherever the kernel takes an int: it ignores the high half, and so must we (CVE-2019-7303).

What is known and left open on purpose:
- chmod, chown, utime, the xattr calls with setxattrat and removexattrat, file_setattr, and what ioctl sets of a file
  (FS_IOC_FSSETXATTR and its kin) write metadata. Landlock has no right for them; the read-only mounts of the view judge
  them, without a view the warden, and where it cannot they are a named gap.
- sched_setaffinity, sched_setscheduler, sched_setparam and sched_setattr take a thread id: glibc passes one for every
  thread, and no filter can tell it from a stranger's. A pid namespace hides the strangers, or the warden asks.
- kill, tgkill, rt_sigqueueinfo, pidfd_send_signal, pidfd_open: Landlock's signal scope judges them by target.
- uretprobe and uprobe come from the kernel's own trampoline in a program traced from outside. An errno there would
  crash the program; called from anywhere else the kernel refuses them itself.
- landlock_*, seccomp without a listener, memfd_secret, mseal, pkey_*: they only narrow what their caller can do.
- What a device offers (/dev/userfaultfd, /dev/kvm) is closed by the private /dev and Landlock's IOCTL_DEV.
"""

from collections.abc import Iterator

import msgspec

from .numbers import numbers
from .row import LOW, WHOLE, Answer, AnyBit, OneOf, Row, row
from .sockets import FAST_OPEN, socket_rows
from .sorts import Judged, Sockets

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

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
_SETGID, _LENDS_EITHER = 0o2000, "it makes a program that runs as its owner or its group"
_SET_FLAGS = 0x40086602

CLOSED = (
    row(
        "clone",
        Answer.EPERM,
        "a child of whoever started us is not ours to end, and a stranger to him who waits for his own",
        AnyBit(0, 0x8000, "the caller's own parent shall be the parent"),
    ),
    # ENOSYS: libuv and its like take it as an old kernel and use epoll.
    row(
        "io_uring_setup io_uring_enter io_uring_register",
        Answer.ENOSYS,
        "a ring opens files and sockets without making the calls that are judged here",
    ),
    # ENOSYS: glibc then uses clone(), whose flags are in a register.
    row("clone3", Answer.ENOSYS, "its flags lie in memory, so a new user namespace could hide there (CVE-2021-41133)"),
    row(
        "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd",
        Answer.EPERM,
        "another process's memory and descriptors, the supervisor's among them, are as good as its rights",
    ),
    row("bpf perf_event_open", Answer.EPERM, "they see other processes, and are a rich source of kernel holes"),
    row("userfaultfd", Answer.EPERM, "it stalls the kernel in the middle of a judgement and widens every race"),
    # ENOSYS, as of a kernel without keys: Kerberos falls back to files, EPERM would be an error to it.
    row("add_key request_key keyctl", Answer.ENOSYS, "the user's keyring holds secrets, and has no namespace"),
    row(
        "open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr",
        Answer.EPERM,
        "a mount could be uncovered, cloned or made writable behind the view (CVE-2021-41133)",
    ),
    # ENOSYS: libmount and systemd then read /proc/self/mountinfo, and what that shows is the view's to decide.
    row("statmount listmount", Answer.ENOSYS, "a second way to see mounts, past whatever the view shows of /proc"),
    row("open_by_handle_at", Answer.EPERM, "a handle opens a file past every path above it (shocker, 2014)"),
    # EOPNOTSUPP is what a file system without handles says, so callers know the way on.
    row("name_to_handle_at", Answer.EOPNOTSUPP, "it makes the handles that an accomplice could open"),
    row("fanotify_init fanotify_mark", Answer.EPERM, "it tells who opens what, beyond the workspace too"),
    row(
        "init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl"
        " quotactl_fd syslog iopl ioperm vhangup sethostname setdomainname",
        Answer.EPERM,
        "they command the machine; should a capability ever be left, this is the second lock",
    ),
    row("settimeofday clock_settime adjtimex clock_adjtime", Answer.EPERM, "the clock is everybody's on the machine"),
    row("modify_ldt", Answer.ENOSYS, "only 16-bit code needs it, and it was the way to several kernel escalations"),
    row(
        "uselib ustat sysfs _sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg afs_syscall"
        " tuxcall security set_thread_area get_thread_area lookup_dcookie epoll_ctl_old epoll_wait_old vserver",
        Answer.ENOSYS,
        "calls of the past: kernels answer this themselves, or should",
    ),
    # ADDR_NO_RANDOMIZE: gdb and ThreadSanitizer restart with it, and it weakens only who asks. PER_LINUX32: uname.
    row("personality", Answer.ALLOW, "asking changes nothing", OneOf(0, (LOW,), "it only asks")),
    row(
        "personality",
        Answer.EPERM,
        "READ_IMPLIES_EXEC and MMAP_PAGE_ZERO undo the memory protections that later holes must overcome",
        AnyBit(0, LOW & ~(0x40000 | 0x0008), "it asks for more than ADDR_NO_RANDOMIZE or PER_LINUX32"),
    ),
    # EPERM is what all of PR_SET_MM but PR_SET_MM_MAP answers without CAP_SYS_RESOURCE.
    row("prctl", Answer.EPERM, "a process could forge what /proc says it is", OneOf(0, (35,), "it is PR_SET_MM")),
    row(
        "seccomp",
        Answer.EPERM,
        "a listener of its own would answer its children's calls in the supervisor's place",
        AnyBit(1, 8, "it asks for a listener"),
    ),
    row(
        "ioctl",
        Answer.EPERM,
        "keys pushed into the caller's terminal are typed outside (CVE-2017-5226, CVE-2023-28100); a line discipline"
        " loads kernel modules",
        OneOf(1, (0x5412, 0x541C, 0x5423), "it is TIOCSTI, TIOCLINUX or TIOCSETD"),
    ),
    # ENOTTY is what another file system says: callers fall back to mkdir, which is judged.
    row(
        "ioctl",
        Answer.ENOTTY,
        "btrfs makes and removes whole trees by it, and Landlock is not asked",
        OneOf(
            1,
            (0x50009401, 0x5000940E, 0x5000940F, 0x50009417, 0x50009418, 0x5000943F),
            "it makes or destroys a btrfs subvolume or snapshot",
        ),
    ),
    row(
        "ioctl",
        Answer.ENOTTY,
        "a new directory that does not tell upper case from lower would have a denied name by another spelling",
        OneOf(1, (_SET_FLAGS,), "it is FS_IOC_SETFLAGS"),
    ),
    # What defragments: of XFS, ext4 and F2FS.
    row(
        "ioctl",
        Answer.ENOTTY,
        "what two files hold is exchanged and neither gets newer, by which it is told what a run has changed",
        OneOf(1, (0xC0C0586D, 0xC028660F, 0xC020F509), "it moves what is in a file to another"),
    ),
    # The key is the user's and not the mount's, which may be read-only.
    row(
        "ioctl",
        Answer.ENOTTY,
        "who can read a directory takes the user's key off its file system: all that is encrypted there is locked",
        OneOf(1, (0xC0506617, 0xC0406618, 0xC0406619), "it gives or takes a key of an encrypted file system"),
    ),
    row(
        "prlimit64",
        Answer.EPERM,
        "the limits of another process of the same user could be taken to nothing",
        AnyBit(0, LOW, _ANOTHER),
        AnyBit(2, WHOLE, "it sets"),  # a pointer: NULL only if both halves are
    ),
    # DONE: whoever forbids its own core files (gpg-agent does) would give up at an error, and there are none anyway.
    row("prlimit64", Answer.EPERM, _CRASH, *_CORE_SET, AnyBit(3, WHOLE, "it asks for the old limit too")),
    row("prlimit64", Answer.DONE, _CRASH, *_CORE_SET),
    row("setrlimit", Answer.DONE, _CRASH, OneOf(0, (_RLIMIT_CORE,), _CORE)),
    # EINVAL is what a file system without leases says.
    row(
        "fcntl",
        Answer.EINVAL,
        "whoever opens the file outside, of which a read is permitted here, waits until the lease is given up",
        OneOf(1, (1024, 1040), "it is F_SETLEASE or F_SETDELEG"),
    ),
    # EINVAL, as before 4.13: who asks for it goes on without.
    row(
        "fcntl",
        Answer.EINVAL,
        "how long what is in a file will last is set by any descriptor of it, whatever its mount, and stays so",
        OneOf(1, (1036, 1038), "it is F_SET_RW_HINT or F_SET_FILE_RW_HINT"),
    ),
    # A thread that passes its own id is refused with the strangers; passing 0 does the same and works.
    row("setpriority ioprio_set", Answer.EPERM, _STARVED, AnyBit(1, LOW, _ANOTHER)),
    row("setpriority", Answer.EPERM, _STARVED, AnyBit(0, LOW, "it means a group or a user")),
    row("ioprio_set", Answer.EPERM, _STARVED, OneOf(0, (2, 3), "it means a group or a user")),
    row("chmod fchmod", Answer.EPERM, _LENT, AnyBit(1, _SETUID, _LENDS)),
    row("fchmodat fchmodat2", Answer.EPERM, _LENT, AnyBit(2, _SETUID, _LENDS)),
    row("creat mknod", Answer.EPERM, _LENT, AnyBit(1, _SETUID | _SETGID, _LENDS_EITHER)),
    row("mknodat", Answer.EPERM, _LENT, AnyBit(2, _SETUID | _SETGID, _LENDS_EITHER)),
    row("migrate_pages move_pages", Answer.EPERM, "another process's memory could be moved", AnyBit(0, LOW, _ANOTHER)),
)

# --- what depends on the plan ----------------------------------------------------------------------------------------

_NEW_GROUPS = 0x02000000  # CLONE_NEWCGROUP
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID and NET
_NEW_TIME = 0x80  # in clone() these bits are the signal sent at the end, so a time namespace is only made by unshare()
_NEW_USER = "a new user namespace has every capability: masks are unmounted, the read-only made writable"

NAMESPACES = (
    row("mount umount2 pivot_root", Answer.EPERM, "mounts are the view"),
    row("chroot", Answer.EPERM, "another root is another meaning for every path"),
    row("setns", Answer.EPERM, "it enters the namespaces of processes outside"),
    row("unshare", Answer.EPERM, _NEW_USER, AnyBit(0, _NEW_NAMESPACES | _NEW_TIME, "it asks for a new namespace")),
    row("clone", Answer.EPERM, _NEW_USER, AnyBit(0, _NEW_NAMESPACES, "it asks for a new namespace")),
)

# ENOSYS, as of a kernel without SYSVIPC and POSIX_MQUEUE: programs then use files, EPERM they report as a fault.
IPC = (
    row(
        "shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl",
        Answer.ENOSYS,
        "memory, semaphores and queues of every process of the same user are found by number",
    ),
    row(
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

_GIVEN = "a pipe that was given as input has no mount that keeps it from being opened for writing"
_USED = "what is denied by a pattern could have come meanwhile: the warden does it, or refuses"
_PATH, _TEMPORARY, _WRITING = 0o10000000, 0o20000000, 0o3  # O_PATH, __O_TMPFILE; for writing
_WRITES = _CREATES | 0o1000 | _WRITING  # O_TRUNC too
_OPENS = (("open", 1), ("openat", 2))  # and which argument has the flags
_LATER = (
    *(row(name, Answer.ALLOW, "it opens nothing yet", AnyBit(at, _PATH, "it is O_PATH")) for name, at in _OPENS),
    *(row(name, Answer.ALLOW, "no name yet", AnyBit(at, _TEMPORARY, "it is O_TMPFILE")) for name, at in _OPENS),
)

# What makes, moves or removes names, when there is a table of names that must not appear. Opens that only read are not
# among them: those reach what exists, and mounts hold that.
WATCHED = (
    # As of a kernel with Landlock switched off. The warden makes names outside any domain made here, so one would not
    # hold, and whoever made it would believe that it does.
    row(
        "landlock_restrict_self",
        Answer.ALLOW,
        "nobody inside can have a ruleset; a later command is born with this filter, and goes behind its border then",
        OneOf(1, (0,), "it has no flags"),
    ),
    row(
        "landlock_create_ruleset landlock_add_rule landlock_restrict_self",
        Answer.EOPNOTSUPP,
        "a sandbox inside the sandbox would be passed by the warden; allowNestedSandbox is the way to have one",
    ),
    # ENOSYS, as before 5.6: its flags lie in memory. Callers fall back to openat.
    row("openat2", Answer.ENOSYS, "its flags lie in memory, so a creation could hide there"),
    *_LATER,
    *(row(name, Answer.NOTIFY, _NAMED, AnyBit(at, _CREATES, "it may create")) for name, at in _OPENS),
    *(row(name, Answer.NOTIFY, _GIVEN, AnyBit(at, _WRITING, "it may write")) for name, at in _OPENS),
    row(
        "creat mkdir mkdirat mknod mknodat symlink symlinkat link linkat rename renameat renameat2 rmdir",
        Answer.NOTIFY,
        _NAMED,
    ),
    row("unlinkat", Answer.NOTIFY, _NAMED, AnyBit(2, 0x200, "it removes a directory")),
    row("umask", Answer.NOTIFY, "the warden makes files with the caller's mask, and must hear of a change"),
)

# With a view. Without one there are no sockets by path, or all of them, and the network is the host's.
WATCHED_SOCKETS = (
    row("bind", Answer.NOTIFY, _NAMED),
    row(
        "connect listen",
        Answer.NOTIFY,
        "a socket of the host's could be reached by its path, and one that was handed in could be made to listen",
    ),
    row("epoll_create epoll_create1", Answer.NOTIFY, "what is handed in is waited for as the one before it was"),
)
# Without a view. The warden asks the kernel whether it may signal that thread, and lets the call go on.
WATCHED_THREADS = (
    row(
        "sched_setaffinity sched_setscheduler sched_setparam sched_setattr",
        Answer.NOTIFY,
        _STARVED,
        AnyBit(0, LOW, _ANOTHER),
    ),
)

BOUND = row(
    "sched_getaffinity sched_setaffinity",
    Answer.NOTIFY,
    "who opens one file after the other is bound to the warden's processor, and first has its own again",
)

# A new file that nobody can execute is handed to the command before the warden has let go of it. What would notice that
# comes to the warden, which has done so by then, and goes on: making it a program that can be executed ("text file
# busy" otherwise), and a lock that lasts as long as what was opened.
_HANDED = "the warden lets go of a new file first"
_EXECUTABLE = "somebody may execute it then, or it lends its group, which only a directory may"
HANDED = (
    row("chmod fchmod", Answer.NOTIFY, _HANDED, AnyBit(1, 0o111 | _SETGID, _EXECUTABLE)),
    row("fchmodat fchmodat2", Answer.NOTIFY, _HANDED, AnyBit(2, 0o111 | _SETGID, _EXECUTABLE)),
    row("setxattr lsetxattr fsetxattr setxattrat", Answer.NOTIFY, _HANDED),  # it may be a list of who may execute it
    row("flock", Answer.NOTIFY, _HANDED),
    row("fcntl", Answer.NOTIFY, _HANDED, OneOf(1, (37, 38), "it is F_OFD_SETLK or F_OFD_SETLKW")),
    BOUND,
)

_OF_A_FILE = (0x401C5820, 0x40087602, 0x40086604, 0x40806685, 0x800C6613, 0x6609, 0x40047211, 0x4004F50D)
_OF_BTRFS = (0x4008941A, 0xC0C89425, 0xC0C09425, 0x50009402, 0x40309410)
_READ = "attributes of what a pattern denies would be read by its name"
_TAKEN = "room that is taken without a write, which is all that counts"

# What uses names, where something is denied by patterns that may come later; before WATCHED, for these answer first.
JUDGED = {
    Judged.WRITES: (
        *_LATER,
        *(row(name, Answer.NOTIFY, _USED, AnyBit(at, _WRITES, "it may write")) for name, at in _OPENS),
        row(
            "unlink unlinkat truncate chmod fchmod fchmodat chown lchown fchown fchownat utime utimes futimesat"
            " utimensat setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr",
            Answer.NOTIFY,
            _USED,
        ),
        # As of an older kernel: callers fall back to the calls above.
        row("fchmodat2 setxattrat removexattrat file_setattr", Answer.ENOSYS, _USED),
        row(
            "ioctl",
            Answer.ENOTTY,
            "attributes of a file are changed by it, and nobody is asked",
            OneOf(
                1,
                _OF_A_FILE + _OF_BTRFS,
                "it sets attributes, a version, verity, encryption or the layout of a file",
            ),
        ),
    ),
    Judged.READS: (
        row("open openat", Answer.NOTIFY, _USED),
        BOUND,
    ),
    # As of a file system without attributes; those of what was opened are read by its descriptor.
    Judged.ATTRIBUTES: (
        row("getxattr lgetxattr listxattr llistxattr", Answer.EOPNOTSUPP, _READ),
        row("getxattrat listxattrat", Answer.ENOSYS, _READ),
    ),
    # As of a file system without it: posix_fallocate() then writes, and that is counted. ioctl has an older way to it.
    Judged.GROUPS: (
        row(
            "unshare clone",
            Answer.EPERM,
            "whoever has one mounts the run's group, and ends whatever else is in it",
            AnyBit(0, _NEW_GROUPS, "it asks for a new control group namespace"),
        ),
    ),
    Judged.ROOM: (
        row("fallocate", Answer.EOPNOTSUPP, _TAKEN),
        row("ioctl", Answer.ENOTTY, _TAKEN, OneOf(1, (0x40305828, 0x4030582A, 0x40305839), "it reserves room")),
    ),
}


# Before JUDGED and WATCHED. Without them opens have no tests at all, and openat2 has its mode in memory.
_NEW = AnyBit(1, _TEMPORARY | _CREATES, "it may create"), AnyBit(2, _TEMPORARY | _CREATES, "it may create")
LENDING = tuple(
    row(n, Answer.EPERM, _LENT, _NEW[at - 1], AnyBit(at + 1, _SETUID | _SETGID, _LENDS_EITHER)) for n, at in _OPENS
)


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
    table = (*CLOSED, *depends, *FAST_OPEN, *socket_rows(sockets), *_warden_rows(watched, judged, private_ipc))
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
