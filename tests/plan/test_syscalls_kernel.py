"""The filter on the real kernel: every attack is made without it first, then with it; ordinary programs still run.

Calls are made by a small program, never by the test's own process: each in a fork, in a session with a terminal, under
no_new_privs and, the second time, under the filter. What was refused is compared with what happened without it.
"""

import errno
import functools
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from ringfence.plan.bpf import Compare, Goto, Item, Jump, Label, Load, Return, assemble
from ringfence.plan.filters import filter_for
from ringfence.plan.numbers import numbers
from ringfence.plan.row import Answer
from ringfence.plan.sorts import Sockets

ARCH = platform.machine()
KERNEL = tuple(int(part) for part in platform.release().split(".")[:2])
ALL = Sockets.UNIX | Sockets.INET | Sockets.NETLINK_ROUTE
STRICTEST = filter_for(ARCH, Sockets(0), private_ipc=False)
WIDEST = filter_for(ARCH, ALL, private_ipc=False)
PRIVATE = filter_for(ARCH, ALL, private_ipc=True)
NESTED = filter_for(ARCH, ALL, private_ipc=True, nested=True)

INSTALL = r"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

def install(code, seccomp):
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    program = Program(len(code) // 8, code)
    if code and libc.syscall(ctypes.c_long(seccomp), ctypes.c_long(1), ctypes.c_long(0), ctypes.byref(program)) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")
"""

CALLER = (
    INSTALL
    + r"""
import fcntl, json, os, pty, signal, socket, sys, termios

job = json.load(sys.stdin)
master, tty = pty.openpty()
fcntl.ioctl(tty, termios.TIOCSCTTY, 0)
page = ctypes.create_string_buffer(8192)
path = ctypes.create_string_buffer(b"/dev/shm")  # a tmpfs: not every file system gives handles
allow = b"\x06\0\0\0\0\0\xff\x7f"
listener = Program(1, allow)
words = {
    "page": ctypes.addressof(page),
    "path": ctypes.addressof(path),
    "listener": ctypes.addressof(listener),
    "tty": tty,
    "tcp": socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach(),
    "caller": os.getpid(),
}
install(bytes.fromhex(job["filter"]), job["seccomp"])

def call(number, arguments):
    values = [words.get(value, value) for value in arguments]
    result = libc.syscall(*(ctypes.c_long(value) for value in [number, *values]))
    if result == 0 and os.getpid() != forked:
        os._exit(0)  # clone() worked, and this is its child
    return [result, ctypes.get_errno() if result == -1 else 0]

said = []
for number, arguments in job["calls"]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        forked = os.getpid()
        try:
            os.write(write, json.dumps(call(number, arguments)).encode())
        finally:
            os._exit(0)
    os.close(write)
    said.append(json.loads(os.read(read, 100) or "null"))
    os.close(read)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        said[-1] = ["signal", os.WTERMSIG(status)]
json.dump(said, sys.stdout)
"""
)

LAUNCHER = (
    INSTALL
    + r"""
import os, sys
install(bytes.fromhex(sys.argv[1]), int(sys.argv[2]))
os.execvp(sys.argv[3], sys.argv[3:])
"""
)

Said = tuple[int | str, int]


class Attack(NamedTuple):
    """A call, what the filter answers, and what it takes for the call to be more than refused without the filter."""

    call: str
    args: tuple[int | str, ...]
    refused: Answer
    privileged: bool = False  # without the filter the kernel itself refuses it to a plain user
    since: tuple[int, int] = (0, 0)  # the kernel that has it
    protocol: str = ""  # as /proc/net/protocols calls it: a kernel may be built without

    def __str__(self) -> str:
        return f"{self.call}({', '.join(hex(arg) if isinstance(arg, int) else arg for arg in self.args)})"

    @property
    def shows(self) -> bool:
        """Whether this machine can show what happens without the filter."""
        built = not self.protocol or self.protocol in Path("/proc/net/protocols").read_text().split()
        return built and self.since <= KERNEL and (is_privileged() or not self.privileged)


@functools.cache
def is_privileged() -> bool:
    """Whether we have CAP_SYS_ADMIN and its neighbours."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> 21 & 1)


def perform(code: bytes, calls: list[tuple[str, tuple[int | str, ...]]]) -> list[Said]:
    """What each call gave: its result and errno, or the signal that ended it."""
    known = numbers(ARCH)
    job = {"filter": code.hex(), "seccomp": known["seccomp"], "calls": [(known[name], args) for name, args in calls]}
    done = subprocess.run(
        [sys.executable, "-I", "-c", CALLER],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    return [(result, number) for result, number in json.loads(done.stdout)]


def error(answer: Answer) -> Said:
    return (-1, answer & 0xFFFF)


E, N = Answer.EPERM, Answer.ENOSYS
BAD = -1
USER, TIME, HIGH = 0x10000000, 0x80, 1 << 32

ATTACKS = [
    Attack("io_uring_setup", (2, "page"), N),
    Attack("io_uring_enter", (BAD, 0, 0, 0, 0, 0), N),
    Attack("io_uring_register", (BAD, 0, 0, 0), N),
    Attack("clone3", (0, 0), N, since=(5, 3)),
    Attack("ptrace", (0, 0, 0, 0), E),  # PTRACE_TRACEME
    Attack("process_vm_readv", ("caller", 0, 0, 0, 0, 0), E),
    Attack("process_vm_writev", ("caller", 0, 0, 0, 0, 0), E),
    Attack("process_madvise", (BAD, 0, 0, 0, 0), E),
    Attack("process_mrelease", (BAD, 0), E),
    Attack("kcmp", ("caller", "caller", 0, 0, 0), E),
    Attack("pidfd_getfd", (BAD, 0, 0), E),
    Attack("bpf", (0, "page", 0), E, privileged=True),
    Attack("perf_event_open", (0, 0, 0, 0, 0), E),
    Attack("userfaultfd", (1,), E),
    Attack("add_key", (0, 0, 0, 0, 0), N),
    Attack("request_key", (0, 0, 0, 0), N),
    Attack("keyctl", (0, -2, 1), N),
    Attack("open_tree", (-100, "path", 0), E),
    Attack("open_tree_attr", (-100, "path", 0, 0, 0), E),
    Attack("move_mount", (BAD, "path", BAD, "path", 0), E, privileged=True),
    Attack("fsopen", ("path", 0), E, privileged=True),
    Attack("fsconfig", (BAD, 0, 0, 0, 0), E),
    Attack("fsmount", (BAD, 0, 0), E, privileged=True),
    Attack("fspick", (-100, 0, 0), E, privileged=True),
    Attack("mount_setattr", (-100, "path", 0, 0, 0), E),
    Attack("statmount", ("page", "page", 0, 0), N, since=(6, 8)),
    Attack("listmount", ("page", "page", 0, 0), N, since=(6, 8)),
    Attack("open_by_handle_at", (-100, "page", 0), E, privileged=True),
    Attack("name_to_handle_at", (-100, "path", "page", "page", 0), Answer.EOPNOTSUPP),
    Attack("fanotify_init", (0x200, 0), E),
    Attack("fanotify_mark", (BAD, 0, 0, 0, 0), E),
    Attack("init_module", ("page", 0, "page"), E, privileged=True),
    Attack("finit_module", (BAD, "page", 0), E, privileged=True),
    Attack("delete_module", ("page", 0), E, privileged=True),
    Attack("kexec_load", (0, 0, 0, 0xFFFF0000), E, privileged=True),
    Attack("kexec_file_load", (BAD, BAD, 0, 0, 0xFF000000), E, privileged=True),
    Attack("reboot", (0, 0, 0, 0), E, privileged=True),
    Attack("swapon", ("page", 0), E, privileged=True),
    Attack("swapoff", ("page",), E, privileged=True),
    Attack("acct", (1,), E, privileged=True),
    Attack("quotactl", (0, 0, 0, 0), E),
    Attack("quotactl_fd", (BAD, 0, 0, 0), E),
    Attack("syslog", (99, 0, 0), E, privileged=True),
    Attack("sethostname", (1, 65), E, privileged=True),
    Attack("setdomainname", (1, 65), E, privileged=True),
    Attack("settimeofday", (1, 0), E),
    Attack("clock_settime", (0, 1), E),
    Attack("adjtimex", ("page",), E),
    Attack("clock_adjtime", (0, "page"), E),
    Attack("personality", (0x0400000,), E),
    Attack("personality", (0x0400000 | HIGH,), E),
    Attack("prctl", (35, 15, "page", 0, 0), E),  # PR_SET_MM_MAP_SIZE
    Attack("seccomp", (1, 8, "listener"), E),
    Attack("ioctl", ("tty", 0x5412, "page"), E),
    Attack("ioctl", ("tty", 0x5412 | HIGH, "page"), E),
    Attack("ioctl", ("tty", 0x541C, "page"), E),
    Attack("ioctl", ("tty", 0x5423, "page"), E),
    Attack("prlimit64", ("caller", 4, "page", 0), E),
    Attack("setpriority", (0, "caller", 0), E),
    Attack("setpriority", (1, 0, 0), E),
    Attack("ioprio_set", (1, "caller", 0), E),
    Attack("migrate_pages", ("caller", 0, 0, 0), E),
    Attack("move_pages", ("caller", 0, 0, 0, 0, 0), E),
    Attack("mount", (0, 0, 0, 0, 0), E, privileged=True),
    Attack("umount2", (0, 0), E, privileged=True),
    Attack("pivot_root", (0, 0), E, privileged=True),
    Attack("chroot", ("path",), E, privileged=True),
    Attack("setns", (BAD, 0), E),
    Attack("unshare", (TIME,), E, privileged=True),
    Attack("shmget", (0x52494E47, 0, 0), N),
    Attack("shmat", (BAD, 0, 0), N),
    Attack("shmctl", (BAD, 0, 0), N),
    Attack("shmdt", (1,), N),
    Attack("semget", (0x52494E47, 0, 0), N),
    Attack("semctl", (BAD, 0, 0, 0), N),
    Attack("semop", (BAD, "page", 1), N),
    Attack("semtimedop", (BAD, "page", 1, 0), N),
    Attack("msgget", (0x52494E47, 0), N),
    Attack("msgsnd", (BAD, "page", 1, 0), N),
    Attack("msgrcv", (BAD, "page", 1, 0, 0), N),
    Attack("msgctl", (BAD, 0, 0), N),
    Attack("mq_open", ("page", 0, 0, 0), N),
    Attack("mq_unlink", ("page",), N),
    Attack("mq_getsetattr", (BAD, 0, 0), N),
    Attack("socket", (1, 3, 0), Answer.EPROTONOSUPPORT),
    Attack("socket", (2, 3, 1), E, privileged=True),
    Attack("socket", (2, 1, 262), Answer.EPROTONOSUPPORT, protocol="MPTCP"),  # MPTCP
    Attack("socket", (2, 1 | HIGH, 262 | HIGH), Answer.EPROTONOSUPPORT, protocol="MPTCP"),
    Attack("socket", (10, 2, 136), Answer.EPROTONOSUPPORT, protocol="UDPLITEv6"),  # UDP-Lite
    Attack("socket", (2, 2, 1), Answer.EPROTONOSUPPORT),  # ping
    Attack("socket", (16, 3, 15), Answer.EPROTONOSUPPORT),  # kobject_uevent
    Attack("socket", (16, 3, 4), Answer.EPROTONOSUPPORT),  # sock_diag
    Attack("socket", (40, 1, 0), Answer.EAFNOSUPPORT, protocol="AF_VSOCK"),  # vsock
    Attack("socket", (40 | HIGH, 1, 0), Answer.EAFNOSUPPORT, protocol="AF_VSOCK"),
    Attack("socket", (38, 5, 0), Answer.EAFNOSUPPORT, protocol="ALG"),  # AF_ALG
    Attack("socket", (17, 3, 0), Answer.EAFNOSUPPORT, protocol="PACKET"),  # AF_PACKET
    Attack("socket", (44, 3, 0), Answer.EAFNOSUPPORT, protocol="XDP"),  # XDP
    Attack("socketpair", (2, 1, 0, "page"), Answer.EAFNOSUPPORT),
    Attack("setsockopt", ("tcp", 6, 30, "page", 4), Answer.ENOPROTOOPT),
    Attack("setsockopt", ("tcp", 6, 23, "page", 4), Answer.ENOPROTOOPT),
    Attack("setsockopt", ("tcp", 6 | HIGH, 31 | HIGH, "page", 4), Answer.ENOPROTOOPT),
]
ATTACKS_ON_X86 = [
    Attack("modify_ldt", (0, "page", 0), N),
    Attack("ustat", (0, "page"), N),
    Attack("sysfs", (3,), N),
    Attack("iopl", (4,), E),
    Attack("ioperm", (0x10000, 1, 1), E, privileged=True),
]
ATTACKS += ATTACKS_ON_X86 if ARCH == "x86_64" else []


@pytest.fixture(scope="module")
def without() -> dict[Attack, Said]:
    return dict(zip(ATTACKS, perform(b"", [(attack.call, attack.args) for attack in ATTACKS]), strict=True))


@pytest.fixture(scope="module")
def within() -> dict[Attack, Said]:
    return dict(zip(ATTACKS, perform(WIDEST, [(attack.call, attack.args) for attack in ATTACKS]), strict=True))


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_an_attack_is_refused_by_the_filter_and_not_by_the_kernel_alone(
    attack: Attack, without: dict[Attack, Said], within: dict[Attack, Said]
) -> None:
    assert within[attack] == error(attack.refused)
    assert not attack.shows or without[attack] != error(attack.refused)


@pytest.mark.needs_userns
@pytest.mark.parametrize(("call", "flags"), [("unshare", USER), ("clone", USER | 17)])
@pytest.mark.parametrize("high", [0, HIGH])
def test_a_new_user_namespace_works_without_the_filter_and_where_nesting_is_allowed_only(
    call: str, flags: int, high: int
) -> None:
    made = [perform(code, [(call, (flags, 0, 0, 0, 0))])[0] for code in (b"", WIDEST, NESTED)]
    raised = perform(WIDEST, [(call, (flags | high, 0, 0, 0, 0))])[0]

    assert [result != -1 for result, _ in made] == [True, False, True]
    assert made[1] == raised == error(E)


def test_sysv_memory_and_queues_work_in_a_namespace_of_their_own() -> None:
    assert perform(PRIVATE, [("shmget", (0x52494E47, 0, 0)), ("mq_unlink", ("page",))]) == [
        (-1, errno.ENOENT), (-1, errno.ENOENT),
    ]  # fmt: skip


@pytest.mark.parametrize("nr", [470, 511, 600, 1000, 0x40000000, 0x40000029, 0x7FFFFFFF])
def test_an_unknown_or_x32_number_is_enosys(nr: int) -> None:
    script = f"print(libc.syscall(ctypes.c_long({nr}), 0, 0, 0), ctypes.get_errno())"

    assert python(WIDEST, INSTALL + script) == f"-1 {errno.ENOSYS}\n"


def test_what_a_program_does_to_itself_still_works() -> None:
    calls: list[tuple[str, tuple[int | str, ...]]] = [
        ("prlimit64", (0, 4, "page", 0)),
        ("prlimit64", ("caller", 4, 0, "page")),
        ("setpriority", (0, 0, 19)),  # as low as any is, for the tests may run at a low one themselves
        ("ioprio_set", (1, 0, 0)),
        ("personality", (0xFFFFFFFF,)),
        ("personality", (0x40000,)),
        ("unshare", (0x400,)),
        ("seccomp", (1, 0, "listener")),
        ("ioctl", ("tty", 0x5413, "page")),
        ("sched_setaffinity", ("caller", 0, "page")),
        ("socketpair", (1, 1, 0, "page")),
    ]

    assert [number for _, number in perform(STRICTEST, calls)] == [0] * 9 + [errno.EINVAL, 0]  # an empty set of CPUs


FAST_OPEN = r"""
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.socket()
try:
    print(client.sendto(b"x", 0x20000000, server.getsockname()))
except OSError as failed:
    print(failed.errno)
client.connect(server.getsockname())
print(client.sendmsg([b"y"]))
"""


def test_fast_open_is_refused_and_an_ordinary_connection_is_not() -> None:
    assert python(b"", FAST_OPEN.partition("client.connect")[0]) == "1\n"
    assert python(WIDEST, FAST_OPEN) == f"{errno.EOPNOTSUPP}\n1\n"


INT_80 = r"""
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("53b814000000cd805bc3"))  # push rbx; mov eax, 20 (getpid); int 0x80; pop rbx; ret
print(ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(code)))() > 0)
"""

if ARCH == "x86_64":

    def test_a_32_bit_call_kills_the_process() -> None:
        assert run(b"", sys.executable, "-I", "-c", INT_80).stdout == "True\n"
        assert run(WIDEST, sys.executable, "-I", "-c", INT_80).returncode == -signal.SIGSYS


def test_the_kernel_takes_lengthened_jumps_as_the_simulator_does() -> None:
    """getppid is told apart from the rest over a distance of more than a byte."""
    padding: list[Item] = [Load(0)] * 600
    items = [
        Load(0), Jump(Compare.EQUAL, numbers(ARCH)["getppid"], "far"), Goto("allow"),
        *padding, Label("allow"), Return(Answer.ALLOW), *padding, Label("far"), Return(Answer.ENOTTY),
    ]  # fmt: skip

    assert perform(assemble(items), [("getppid", ()), ("sched_yield", ())]) == [(-1, errno.ENOTTY), (0, 0)]


# --- ordinary programs -----------------------------------------------------------------------------------------------


def run(code: bytes, *argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command under the filter, with a home of its own."""
    launcher = [sys.executable, "-I", "-c", LAUNCHER, code.hex(), str(numbers(ARCH)["seccomp"])]
    environ = os.environ | ({"HOME": str(cwd)} if cwd else {})
    return subprocess.run([*launcher, *argv], cwd=cwd, env=environ, capture_output=True, text=True, timeout=50)


def python(code: bytes, script: str) -> str:
    done = run(code, sys.executable, "-I", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout


GIT = """
set -e
git init -q work && cd work && echo text > file && git add file
git -c user.name=a -c user.email=a@example.org commit -q -m first
git -c gc.auto=0 clone -q . ../copy && git -C ../copy log --format=%s
"""

PYTHON = r"""
import asyncio, concurrent.futures, multiprocessing, os, pty, signal, sqlite3, subprocess, sys, tempfile, threading

def square(number):
    return number * number

def main():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(square, range(100))) == [n * n for n in range(100)]
    assert subprocess.run(["sh", "-c", "echo $((6 * 7)) | cat"], capture_output=True, text=True).stdout == "42\n"
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
    with sqlite3.connect("data.db") as base:
        base.execute("pragma journal_mode = wal")
        base.execute("create table t (x)")
        base.execute("insert into t values (42)")
        assert base.execute("select x from t").fetchone() == (42,)
    async def wait():
        child = await asyncio.create_subprocess_exec("true")
        return await child.wait()
    assert asyncio.run(wait()) == 0
    os.sched_setaffinity(threading.get_native_id(), os.sched_getaffinity(0))
    os.nice(1)
    sys.exit(pty.spawn(["sh", "-c", "stty size > /dev/null; test -t 1 && echo done"]))

if __name__ == "__main__":
    main()
"""

NODE = r"""
const { Worker } = require('worker_threads'), { execFileSync } = require('child_process'), fs = require('fs');
fs.writeFileSync('x', execFileSync('echo', ['from a child']));
fs.promises.readFile('x', 'utf8').then(text => {
  new Worker('process.exit(0)', { eval: true }).on('exit', code => console.log(text.trim(), code));
});
"""

THREADS_IN_C = r"""
#include <pthread.h>
#include <stdio.h>
static void *work(void *box) { *(int *)box = 42; return NULL; }
int main(void) {
    int box = 0;
    pthread_t thread;
    return pthread_create(&thread, NULL, work, &box) || pthread_join(thread, NULL) || printf("%d\n", box) != 3;
}
"""

SERVER = r"""
import http.server, threading, urllib.request
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
server.RequestHandlerClass.log_message = lambda *_: None
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://127.0.0.1:{server.server_port}/").status)
"""

both = pytest.mark.parametrize("code", [STRICTEST, WIDEST], ids=["strictest", "widest"])


@both
def test_git_commits_and_clones(code: bytes, tmp_path: Path) -> None:
    done = run(code, "sh", "-c", GIT, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, "first\n"), done.stderr


@both
def test_python_has_its_threads_children_pools_terminals_and_databases(code: bytes, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PYTHON)
    done = run(code, sys.executable, "program.py", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@both
def test_node_runs_with_workers_and_children(code: bytes, tmp_path: Path) -> None:
    done = run(code, "node", "-e", NODE, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, "from a child 0\n"), done.stderr


@both
def test_gcc_compiles_what_then_runs(code: bytes, tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(THREADS_IN_C)
    done = run(code, "sh", "-c", "gcc -O2 -pthread program.c -o program && ./program", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


if shutil.which("java"):

    @both
    def test_java_starts(code: bytes, tmp_path: Path) -> None:
        done = run(code, "java", "-version", cwd=tmp_path)

        assert (done.returncode, "version" in done.stderr) == (0, True), done.stderr


def test_a_server_on_loopback_answers_and_interfaces_are_listed(tmp_path: Path) -> None:
    assert python(WIDEST, SERVER) == "200\n"
    assert run(WIDEST, "node", "-p", "typeof os.networkInterfaces()", cwd=tmp_path).stdout == "object\n"
