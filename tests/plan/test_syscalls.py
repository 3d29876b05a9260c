"""The filter answers as the table says, and the table says what it must."""

import itertools
import platform
import re
import runpy
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from tests.plan.simulator import simulate

from ringfence.plan import ready
from ringfence.plan.filters import filter_for
from ringfence.plan.numbers import ARCHITECTURES, numbers
from ringfence.plan.row import Answer, OneOf, Row
from ringfence.plan.sockets import FAST_OPEN, SOCKETS
from ringfence.plan.sorts import Judged, Sockets
from ringfence.plan.syscalls import AUDIT_ARCH, CLOSED, IPC, LIFTED, NAMESPACES, rows

ARCHES = sorted(ARCHITECTURES)
ALL = Sockets.UNIX | Sockets.INET | Sockets.NETLINK_ROUTE
EVERY_SOCKETS = [Sockets(value) for value in range(8)]
HIGH = 0xDEADBEEF << 32
I386, X32_BIT = 0x40000003, 0x40000000
BTRFS_MAGIC, BTRFS_ARGS = 0x94, 4096


def io_write(kind: int, number: int, size: int) -> int:
    """_IOW of the kernel's ioctl.h."""
    return 1 << 30 | size << 16 | kind << 8 | number


def expected(table: tuple[Row, ...], arch: str, nr: int, audit: int, args: tuple[int, ...]) -> Answer:
    """The table read aloud: the first row about this call whose tests all hold."""
    names = [name for name, number in numbers(arch).items() if number == nr]
    if audit != AUDIT_ARCH[arch]:
        return Answer.KILL
    if not names:
        return Answer.ENOSYS
    for row in table:
        if names[0] in row.names and all(
            args[test.arg] & 0xFFFFFFFF & test.mask in test.values
            if isinstance(test, OneOf)
            else args[test.arg] & test.bits
            for test in row.when
        ):
            return row.answer
    return Answer.ALLOW


def answer(
    name: str, *args: int, arch: str = "x86_64", sockets: Sockets = ALL, ipc: bool = True, nested: bool = False
) -> Answer:
    program = filter_for(arch, sockets, ipc, nested)
    return Answer(simulate(program, numbers(arch)[name], AUDIT_ARCH[arch], args))


def telling_values() -> list[int]:
    """Values at which some row changes its mind, and their neighbours."""
    table = (*CLOSED, *NAMESPACES, *FAST_OPEN, *itertools.chain.from_iterable(SOCKETS.values()))
    said = {0, 1, 0xFFFFFFFF, 1 << 32}
    for test in (test for row in table for test in row.when):
        said |= set(test.values) if isinstance(test, OneOf) else {1 << bit for bit in range(64) if test.bits >> bit & 1}
    near = {value + step for value in said for step in (-1, 0, 1)} | {value | 0x80800 for value in said}
    return sorted(value & 0xFFFFFFFFFFFFFFFF for value in near | {value | HIGH for value in said})


JUDGED = sorted({name for arch in ARCHES for row in rows(arch, ALL, False) if row.when for name in row.names})
ARGUMENT = st.sampled_from(telling_values()) | st.integers(0, 0xFFFFFFFFFFFFFFFF)
AUDITS = st.sampled_from(sorted(AUDIT_ARCH.values())) | st.sampled_from([0, I386, 0xC000003F])
NUMBERS = st.integers(-1, 600) | st.integers(X32_BIT, X32_BIT + 600) | st.integers(0, 0xFFFFFFFF)


@hypothesis.settings(max_examples=2000)
@hypothesis.given(
    st.sampled_from(ARCHES),
    st.sampled_from(EVERY_SOCKETS),
    st.booleans(),
    st.booleans(),
    st.data(),
    st.tuples(*[ARGUMENT] * 6),
)
def test_the_filter_agrees_with_the_table(
    arch: str, sockets: Sockets, private_ipc: bool, nested: bool, data: st.DataObject, args: tuple[int, ...]
) -> None:
    judged = st.sampled_from([numbers(arch)[name] for name in JUDGED if name in numbers(arch)])
    nr = data.draw(judged | NUMBERS)
    audit = data.draw(st.just(AUDIT_ARCH[arch]) | AUDITS)
    table = rows(arch, sockets, private_ipc, nested)

    said = simulate(filter_for(arch, sockets, private_ipc, nested), nr, audit, args)

    assert Answer(said) == expected(table, arch, nr & 0xFFFFFFFF, audit, args)


def plans() -> Iterator[tuple[str, Sockets, bool, bool]]:
    return itertools.product(ARCHES, EVERY_SOCKETS, (False, True), (False, True))


def test_every_number_is_answered_as_the_table_says_in_every_plan() -> None:
    for arch, sockets, private_ipc, nested in plans():
        program, table = filter_for(arch, sockets, private_ipc, nested), rows(arch, sockets, private_ipc, nested)
        for nr in range(520):
            said = simulate(program, nr, AUDIT_ARCH[arch])
            assert Answer(said) == expected(table, arch, nr, AUDIT_ARCH[arch], (0,) * 6)


def foreseen(program: bytes, nr: int, audit: int) -> int | None:
    """What the kernel's bitmap holds of a number: the answer, if it comes without loading anything but it."""
    instructions = list(struct.iter_unpack("<HBBI", program))
    accumulator = place = 0
    while True:
        code, true, false, value = instructions[place]
        place += 1
        match code:
            case 0x20 if value in (0, 4):
                accumulator = (nr, audit)[value // 4]
            case 0x06:
                return int(value)
            case 0x05:
                place += value
            case 0x15:
                place += true if accumulator == value else false
            case 0x35:
                place += true if accumulator >= value else false
            case _:
                return None


@pytest.mark.parametrize("arch", ARCHES)
def test_calls_allowed_whatever_their_arguments_are_answered_from_the_kernels_bitmap(arch: str) -> None:
    program, table = filter_for(arch, ALL, False), rows(arch, ALL, False)
    named = {name for row in table for name in row.names}
    free = {name: nr for name, nr in numbers(arch).items() if name not in named}

    assert {name for name, nr in free.items() if foreseen(program, nr, AUDIT_ARCH[arch]) != Answer.ALLOW} == set()
    assert {"read", "openat", "futex", "mmap", "execve", "recvmsg", "rseq", "landlock_restrict_self"} <= free.keys()


@pytest.mark.parametrize("arch", ARCHES)
def test_a_call_of_another_architecture_kills(arch: str) -> None:
    others = {*AUDIT_ARCH.values(), I386, 0} - {AUDIT_ARCH[arch]}

    assert {simulate(filter_for(arch, ALL, True), 0, other) for other in others} == {Answer.KILL}


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("nr", [470, 511, 512, 547, 600, X32_BIT, X32_BIT | 41, X32_BIT | 520, 0x7FFFFFFF, -1])
def test_an_unknown_number_and_every_x32_number_is_enosys(arch: str, nr: int) -> None:
    assert simulate(filter_for(arch, ALL, True, nested=True), nr, AUDIT_ARCH[arch]) == Answer.ENOSYS


@pytest.mark.parametrize("call", [filter_for, rows])
@pytest.mark.parametrize("arch", ["i386", "", "X86_64", "riscv64"])
def test_an_architecture_we_do_not_know_is_refused(call: object, arch: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match="unknown architecture"):
        call(arch, ALL, True)


NEW_FLAGS = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
TIOCS = [0x5412, 0x541C, 0x5423]
SUBVOLUMES = [io_write(BTRFS_MAGIC, number, BTRFS_ARGS) for number in (1, 14, 15, 23, 24, 63)]


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("high", [0, 1 << 32, HIGH])
@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        *(("ioctl", (0, request), Answer.EPERM) for request in TIOCS),
        *(("ioctl", (0, request), Answer.ENOTTY) for request in SUBVOLUMES),
        ("ioctl", (0, 0x5401), Answer.ALLOW),  # TCGETS
        ("ioctl", (0, 0x5413), Answer.ALLOW),  # TIOCGWINSZ
        ("ioctl", (0, 0x40049409), Answer.ALLOW),  # FICLONE, of the btrfs family: cp --reflink
        *(("unshare", (flag | 0x400,), Answer.EPERM) for flag in [*NEW_FLAGS, 0x80]),
        ("unshare", (0x400,), Answer.ALLOW),  # CLONE_FILES
        *(("clone", (flag | 17,), Answer.EPERM) for flag in NEW_FLAGS),
        ("clone", (0x003D0F00,), Answer.ALLOW),  # a thread
        ("clone", (0x01200011,), Answer.ALLOW),  # a fork
        ("clone", (0x80 | 17,), Answer.ALLOW),  # part of the signal here, not CLONE_NEWTIME
        ("personality", (0,), Answer.ALLOW),
        ("personality", (0xFFFFFFFF,), Answer.ALLOW),
        ("personality", (0x40000,), Answer.ALLOW),
        ("personality", (0x40008,), Answer.ALLOW),
        ("personality", (0x0400000,), Answer.EPERM),  # READ_IMPLIES_EXEC
        ("personality", (0x0100000,), Answer.EPERM),  # MMAP_PAGE_ZERO
        ("personality", (0xFFFFFFFE,), Answer.EPERM),
        ("seccomp", (1, 8), Answer.EPERM),
        ("seccomp", (1, 0x29), Answer.EPERM),
        ("seccomp", (1, 1), Answer.ALLOW),
        ("prctl", (35, 14), Answer.EPERM),
        ("prctl", (38, 1), Answer.ALLOW),
        ("prlimit64", (1, 7, 0x1000), Answer.EPERM),
        ("prlimit64", (1, 7, 0x7F00_0000_0000), Answer.EPERM),  # its low half alone would be NULL
        ("setpriority", (0, 0, 19), Answer.ALLOW),
        ("setpriority", (0, 77, 19), Answer.EPERM),
        ("setpriority", (1, 0, 19), Answer.EPERM),
        ("setpriority", (2, 0, 19), Answer.EPERM),
        ("ioprio_set", (1, 0, 1), Answer.ALLOW),
        ("ioprio_set", (1, 77, 1), Answer.EPERM),
        ("ioprio_set", (3, 0, 1), Answer.EPERM),
        ("migrate_pages", (0,), Answer.ALLOW),
        ("migrate_pages", (77,), Answer.EPERM),
        ("move_pages", (77,), Answer.EPERM),
        ("sendto", (3, 0, 0, 0x20000000), Answer.EOPNOTSUPP),
        ("sendto", (3, 0, 0, 0x20004040), Answer.EOPNOTSUPP),
        ("sendto", (3, 0, 0, 0x4000), Answer.ALLOW),
        ("sendmsg", (3, 0, 0x20000000), Answer.EOPNOTSUPP),
        ("sendmsg", (3, 0, 0, 0x20000000), Answer.ALLOW),
        ("sendmmsg", (3, 0, 1, 0x20000000), Answer.EOPNOTSUPP),
        ("setsockopt", (3, 6, 30), Answer.ENOPROTOOPT),
        ("setsockopt", (3, 6, 23), Answer.ENOPROTOOPT),
        ("setsockopt", (3, 6, 31), Answer.ENOPROTOOPT),
        ("setsockopt", (3, 6, 1), Answer.ALLOW),  # TCP_NODELAY
        ("setsockopt", (3, 1, 30), Answer.ALLOW),  # SO_ACCEPTCONN
        ("socket", (1, 1, 0), Answer.ALLOW),
        ("socket", (1, 2 | 0x80800, 0), Answer.EPROTONOSUPPORT),
        ("socket", (1, 5, 0), Answer.ALLOW),
        ("socket", (1, 3, 0), Answer.EPROTONOSUPPORT),
        ("socket", (2, 1 | 0x80000, 6), Answer.ALLOW),
        ("socket", (10, 1, 0), Answer.ALLOW),
        ("socket", (2, 2 | 0x800, 17), Answer.ALLOW),
        ("socket", (10, 2, 0), Answer.ALLOW),
        ("socket", (2, 1, 262), Answer.EPROTONOSUPPORT),  # MPTCP
        ("socket", (2, 1, 132), Answer.EPROTONOSUPPORT),  # SCTP
        ("socket", (2, 1, 256), Answer.EPROTONOSUPPORT),  # SMC
        ("socket", (2, 1, 17), Answer.EPROTONOSUPPORT),
        ("socket", (10, 2, 136), Answer.EPROTONOSUPPORT),  # UDP-Lite
        ("socket", (2, 2, 1), Answer.EPROTONOSUPPORT),  # ping
        ("socket", (2, 3, 255), Answer.EPERM),
        ("socket", (10, 10, 0), Answer.EPERM),  # SOCK_PACKET
        ("socket", (2, 5, 132), Answer.EPERM),
        ("socket", (2, 1 | 0x100, 0), Answer.EPERM),
        ("socket", (16, 3, 0), Answer.ALLOW),
        ("socket", (16, 2 | 0x80000, 0), Answer.ALLOW),
        ("socket", (16, 3, 9), Answer.EPROTONOSUPPORT),  # audit
        ("socket", (16, 3, 4), Answer.EPROTONOSUPPORT),  # sock_diag
        *(
            ("socket", (family, 1, 0), Answer.EAFNOSUPPORT)
            for family in (0, 17, 21, 29, 30, 31, 38, 40, 41, 43, 44, 45)
        ),
        ("socketpair", (1, 1, 0), Answer.ALLOW),
        ("socketpair", (30, 1, 0), Answer.EAFNOSUPPORT),
    ],
)
def test_a_call_is_judged_by_what_the_kernel_will_read(
    arch: str, high: int, name: str, args: tuple[int, ...], said: Answer
) -> None:
    raised = [value if (name, place) == ("prlimit64", 2) else value | high for place, value in enumerate(args)]

    assert answer(name, *raised, arch=arch) == said


@pytest.mark.parametrize(("pid", "limit", "said"), [(0, 1, Answer.ALLOW), (77, 0, Answer.ALLOW), (77, 1, Answer.EPERM)])
def test_limits_are_ones_own_to_set_and_anybodys_to_read(pid: int, limit: int, said: Answer) -> None:
    assert answer("prlimit64", pid, 7, limit, 1) == said


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("sockets", EVERY_SOCKETS)
def test_each_kind_of_socket_is_opened_by_its_own_flag_alone(arch: str, sockets: Sockets) -> None:
    asked = {Sockets.UNIX: (1, 1, 0), Sockets.INET: (2, 1, 0), Sockets.NETLINK_ROUTE: (16, 3, 0)}

    said = {kind: answer("socket", *args, arch=arch, sockets=sockets) for kind, args in asked.items()}

    assert said == {kind: Answer.ALLOW if kind in sockets else Answer.EAFNOSUPPORT for kind in asked}
    assert answer("socketpair", 1, 1, 0, arch=arch, sockets=sockets) == Answer.ALLOW
    for kind in (2, 3):  # the kernel makes a raw one a datagram socket
        assert answer("socketpair", 1, kind, 0, arch=arch, sockets=sockets) == Answer.EPROTONOSUPPORT
        assert answer("socket", 1, kind | 0x80000, 0, arch=arch, sockets=sockets) == Answer.EPROTONOSUPPORT
        opened = sockets | Sockets.UNIX_DATAGRAMS
        assert answer("socket", 1, kind, 0, arch=arch, sockets=opened) == Answer.ALLOW


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", [name for row in IPC for name in row.names])
def test_ipc_is_open_only_in_a_namespace_of_its_own(arch: str, name: str) -> None:
    said = {private: answer(name, arch=arch, ipc=private) for private in (True, False)}

    assert said == {True: Answer.ALLOW, False: Answer.ENOSYS}


def test_nesting_lifts_what_a_sandbox_inside_calls_and_nothing_else() -> None:
    changed = {name for name in numbers("x86_64") if answer(name, nested=True) != answer(name)}

    assert changed <= LIFTED | {name for row in NAMESPACES for name in row.names}
    assert answer("clone", 0x10000000, nested=True) == Answer.ALLOW
    assert answer("seccomp", 1, 8, nested=True) == Answer.ALLOW
    assert {answer(name, nested=True) for name in ("clone3", "statmount", "io_uring_setup")} == {Answer.ENOSYS}
    assert {answer(name, nested=True) for name in ("ptrace", "process_vm_writev", "bpf")} == {Answer.EPERM}


@pytest.mark.parametrize("name", ["unshare", "clone"])
def test_a_sandbox_inside_has_no_control_group_namespace_where_the_group_could_be_written(name: str) -> None:
    def said(flags: int, judged: Judged) -> Answer:
        program = filter_for("x86_64", ALL, True, nested=True, judged=judged)
        return Answer(simulate(program, numbers("x86_64")[name], AUDIT_ARCH["x86_64"], (flags,)))

    groups, others = 0x02000000, 0x7C020000

    assert {said(flags, Judged.NOTHING) for flags in (groups, others, groups | others)} == {Answer.ALLOW}
    assert [said(flags, Judged.GROUPS) for flags in (groups, others, groups | others)] == [
        Answer.EPERM,
        Answer.ALLOW,
        Answer.EPERM,
    ]


CLOSED_ALWAYS = """
    io_uring_setup io_uring_enter io_uring_register clone3 ptrace process_vm_readv process_vm_writev process_madvise
    process_mrelease kcmp pidfd_getfd bpf perf_event_open userfaultfd add_key request_key keyctl open_tree
    open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr statmount listmount open_by_handle_at
    name_to_handle_at fanotify_init init_module finit_module delete_module kexec_load kexec_file_load reboot swapon
    swapoff acct quotactl quotactl_fd syslog vhangup sethostname setdomainname settimeofday clock_settime adjtimex
    clock_adjtime lookup_dcookie nfsservctl
"""


@pytest.mark.parametrize("arch", ARCHES)
def test_what_must_be_closed_is_closed_in_every_plan(arch: str) -> None:
    names = CLOSED_ALWAYS.split()
    for sockets, private_ipc, nested in itertools.product(EVERY_SOCKETS, (False, True), (False, True)):
        closed = [name for name in names if not (nested and name in LIFTED)]
        said = {answer(name, arch=arch, sockets=sockets, ipc=private_ipc, nested=nested) for name in closed}
        assert said <= {Answer.EPERM, Answer.ENOSYS, Answer.EOPNOTSUPP}


@pytest.mark.parametrize(
    "name", ["iopl", "ioperm", "modify_ldt", "uselib", "ustat", "sysfs", "_sysctl", "create_module"]
)
def test_what_only_x86_has_is_closed_there(name: str) -> None:
    assert answer(name) in {Answer.EPERM, Answer.ENOSYS}


LEFT_OPEN = """
    uretprobe uprobe restart_syscall rt_sigreturn landlock_create_ruleset landlock_add_rule landlock_restrict_self
    pidfd_open pidfd_send_signal memfd_secret mseal map_shadow_stack cachestat membarrier rseq futex futex_wake
    futex_wait futex_requeue futex_waitv setxattrat getxattrat listxattrat removexattrat file_getattr file_setattr
    sched_setaffinity sched_setscheduler openat2 close_range lsm_get_self_attr
"""


@pytest.mark.parametrize("name", LEFT_OPEN.split())
def test_what_is_left_open_on_purpose_is_open_in_the_strictest_plan(name: str) -> None:
    assert answer(name, *[0xFFFFFFFFFFFFFFFF] * 6, sockets=Sockets(0), ipc=False) == Answer.ALLOW


def test_every_name_in_the_table_is_a_system_call_of_some_architecture() -> None:
    known = set().union(*(numbers(arch) for arch in ARCHES))

    assert {name for row in (*CLOSED, *NAMESPACES, *IPC, *FAST_OPEN) for name in row.names} - known == set()


@pytest.mark.parametrize("arch", ARCHES)
def test_rows_name_only_calls_that_the_architecture_has_and_give_their_reason(arch: str) -> None:
    table = rows(arch, ALL, False)

    assert {name for row in table for name in row.names} <= numbers(arch).keys()
    assert [row for row in table if not row.escape or not row.names or not all(test.text for test in row.when)] == []


def test_a_row_describes_itself() -> None:
    first = rows("x86_64", Sockets(0), private_ipc=True)[0]

    assert first.describe().startswith("clone: EPERM when the caller's own parent shall be the parent: ")


def test_every_filter_is_far_from_the_kernels_limit() -> None:
    assert max(len(filter_for(*plan)) // 8 for plan in plans()) < 512


@pytest.mark.parametrize("arch", ARCHES)
def test_numbers_are_told_apart(arch: str) -> None:
    known = numbers(arch)

    assert len(set(known.values())) == len(known)
    assert (known["pidfd_send_signal"], known["set_mempolicy_home_node"], max(known.values())) == (424, 450, 469)


# The kernel's own headers, as far as they are installed: the number of every name they have must be ours.
HEADERS = {
    "x86_64": ("asm/unistd_64.h", []),
    "aarch64": (
        "asm-generic/unistd.h",
        ["__ARCH_WANT_RENAMEAT", "__ARCH_WANT_SET_GET_RLIMIT", "__ARCH_WANT_NEW_STAT", "__ARCH_WANT_TIME32_SYSCALLS"],
    ),
}
NOT_OURS = re.compile(r"syscalls|arch_specific_syscall|.*_time64|(clock|timer|timerfd)_.*64|sync_file_range2")


# Those of aarch64 are the general ones, which every machine has; by its own name another finds its own.
@pytest.mark.parametrize("arch", [arch for arch in ARCHES if arch in ("aarch64", platform.machine())])
def test_the_numbers_are_those_of_the_kernels_headers(arch: str) -> None:
    header, wanted = HEADERS[arch]
    source = "".join(f"#define {word}\n" for word in [*wanted, "__ARCH_WANT_MEMFD_SECRET"]) + f"#include <{header}>\n"
    command = ["gcc", "-E", "-dM", "-D__BITS_PER_LONG=64", "-"]
    defined = subprocess.run(command, input=source, text=True, capture_output=True, check=True).stdout
    said = dict(re.findall(r"#define __NR(\w+) (\w+)", defined))
    found = {}
    for word, value in said.items():
        number = said[value.removeprefix("__NR")] if value.startswith("__NR") else value
        if word.startswith("_") and not NOT_OURS.fullmatch(word[1:]) and int(number) <= max(numbers(arch).values()):
            found[word[1:]] = int(number)

    assert len(found) > 300
    assert found == {name: number for name, number in numbers(arch).items() if name in found}


@pytest.mark.parametrize("arch", ARCHES)
def test_the_numbers_have_no_gap_that_the_kernel_does_not_have(arch: str) -> None:
    gaps = sorted(set(range(470)) - set(numbers(arch).values()))

    assert gaps == {"x86_64": [*range(337, 424)], "aarch64": [*range(244, 260), *range(295, 424)]}[arch]


def test_the_filters_that_are_ready_are_those_of_the_table() -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "filters"))
    source = Path(ready.__file__).read_text()

    assert script["written"](source) == source  # after a change of the table: .venv/bin/python scripts/filters


@pytest.mark.parametrize("kind", sorted(ready.FILTERS))
def test_a_filter_that_is_ready_is_the_one_it_is_called(kind: str) -> None:
    arch, sockets, flags, judged = kind.split()
    asked = (arch, Sockets(int(sockets)), *(flag == "+" for flag in flags), Judged(int(judged)))

    assert ready.filter_of(*asked) == filter_for(*asked)  # type: ignore[arg-type]
