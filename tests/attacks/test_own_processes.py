"""What is not an attack must work: signals and tracing among one's own, sockets among one's own, shared memory."""

import pytest
from tests.attacks.conftest import Field, bare, nothing

PROGRAM = """
import signal, socket, threading, time
def child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid
def signalled():
    pid = child(lambda: time.sleep(9))
    os.kill(pid, signal.SIGTERM)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != -signal.SIGTERM:
        raise OSError(errno.EPERM, "not ended")
def threads():
    done = []
    workers = [threading.Thread(target=lambda: done.append(1)) for _ in range(8)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    signal.pthread_kill(threading.get_ident(), 0)
    if len(done) != 8:
        raise OSError(errno.EAGAIN, "threads are missing")
def paired():
    one, other = socket.socketpair()
    pid = child(lambda: one.send(b"x"))
    os.waitpid(pid, 0)
    other.recv(1)
def shared():
    import mmap
    page = mmap.mmap(-1, 4096)
    os.waitpid(child(lambda: page.write(b"x")), 0)
    if page[0:1] != b"x":
        raise OSError(errno.EIO, "not shared")
def group():
    pid = child(lambda: time.sleep(9))
    os.setpgid(pid, pid)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
attempt("a signal to a child", signalled)
attempt("threads", threads)
attempt("a pair of sockets", paired)
attempt("shared memory", shared)
attempt("a group", group)
attempt("its own descriptors", lambda: os.listdir("/proc/self/fd"))
attempt("its own environment", lambda: read("/proc/self/environ"))
attempt("its own limits", lambda: __import__("resource").setrlimit(7, (64, 64)))
attempt("its own priority", lambda: os.nice(1))
"""


def test_ones_own_processes_are_ones_own(field: Field) -> None:
    seen = field.program(field.ground(), PROGRAM)

    assert set(seen.answers.values()) == {"done"}, seen.said


def test_sockets_among_ones_own_processes_work_with_a_view(field: Field) -> None:
    if field.walls.backend == "landlock":
        return  # there it is a stated gap
    program = """
import socket
def talked(family, address):
    server = socket.socket(family)
    server.bind(address)
    server.listen()
    if os.fork() == 0:
        client = socket.socket(family)
        client.connect(server.getsockname())
        client.send(b"x")
        os._exit(0)
    server.accept()[0].recv(1)
    os.wait()
attempt("a path in the workspace", lambda: talked(socket.AF_UNIX, WS + "/s"))
attempt("a path in the temporary directory", lambda: talked(socket.AF_UNIX, "/tmp/s"))
attempt("an abstract name", lambda: talked(socket.AF_UNIX, "\\0own"))
attempt("the loopback", lambda: talked(socket.AF_INET, ("127.0.0.1", 0)))
attempt("the loopback of IPv6", lambda: talked(socket.AF_INET6, ("::1", 0)))
"""
    seen = field.program(field.ground(), program)

    assert set(seen.answers.values()) == {"done"}, seen.said


KEPT = """
import select, socket, threading, time
door = socket.socket(socket.AF_UNIX)
door.bind("door")
door.listen(8)
def serve():
    while True:
        link = door.accept()[0]
        said = link.recv(9)
        if said:
            link.send(said + link.getpeername().encode() if isinstance(link.getpeername(), str) else said)
        link.close()
threading.Thread(target=serve, daemon=True).start()
def must(what, wanted):
    if what != wanted:
        raise OSError(errno.EIO, f"{what!r}")
def talk(link, wanted):
    link.send(b"x")
    must(link.recv(9), wanted)
def connected(kind=0):
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | kind)
    link.connect("door")
    return link
def plain():
    with connected() as link:
        must((link.getblocking(), os.get_inheritable(link.fileno())), (True, False))
        talk(link, b"x")
def inherited():
    link = socket.socket(socket.AF_UNIX)
    os.set_inheritable(link.fileno(), True)
    link.connect("door")
    must(os.get_inheritable(link.fileno()), True)
    talk(link, b"x")
def named():
    link = socket.socket(socket.AF_UNIX)
    link.bind("mine")
    link.connect("door")
    must(link.getsockname(), "mine")
    talk(link, b"xmine")
def awaited():
    link, waits = socket.socket(socket.AF_UNIX), select.epoll()
    link.setblocking(False)
    waits.register(link, select.EPOLLIN | select.EPOLLET)
    waits.poll(0)
    link.connect("door")
    must(link.getblocking(), False)
    link.send(b"x")
    must(len(waits.poll(5)), 1)
def twice():
    with connected() as link:
        try:
            link.connect("door")
        except OSError as error:
            must(error.errno, errno.EISCONN)
        else:
            must("twice", "")
def other_kind():
    try:
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect("door")
    except OSError as error:
        must(error.errno, errno.EPROTOTYPE)
    else:
        must("another kind", "")
def told_who():
    link = socket.socket(socket.AF_UNIX)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    link.connect("door")
    must(link.getsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED), 1)
def known_twice():
    link = socket.socket(socket.AF_UNIX)
    other = link.dup()
    link.connect("door")
    talk(other, b"x")
    link = socket.socket(socket.AF_UNIX)
    child = os.fork()
    if not child:
        link.connect("door")
        os._exit(0)
    os.waitpid(child, 0)
    talk(link, b"x")
def as_set():
    link, options = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), (socket.SO_SNDBUF, socket.SO_RCVLOWAT, 29)
    [link.setsockopt(socket.SOL_SOCKET, option, 70000) for option in options]
    before = [link.getsockopt(socket.SOL_SOCKET, option) for option in options]
    packets.bind("packets")
    packets.listen()
    link.connect("packets")
    must([link.getsockopt(socket.SOL_SOCKET, option) for option in options], before)
packets = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
def first_come():
    once, waits = socket.socket(socket.AF_UNIX), select.epoll()
    once.bind("once")
    once.listen(0)
    for name in ("", "first"):
        link = socket.socket(socket.AF_UNIX)
        link.bind(name) if name else waits.register(link, select.EPOLLIN)
        link.connect("once")
        link.send(b"x")
        must(once.accept()[0].recv(9), b"x")
def at_once():
    greeting = socket.socket(socket.AF_UNIX)
    greeting.bind("greeting")
    greeting.listen()
    greet = lambda: [greeting.accept()[0].send(b"x") for _ in range(50)]
    threading.Thread(target=greet, daemon=True).start()
    for _ in range(50):
        link = socket.socket(socket.AF_UNIX)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        link.connect("greeting")
        must(link.recvmsg(9, 99)[1][0][2][:4], os.getpid().to_bytes(4, "little"))
def open_later():
    before = os.umask(0o777)
    late = socket.socket(socket.AF_UNIX)
    late.bind("open")
    os.umask(before)
    late.listen()
    must(os.stat("open").st_mode & 0o777, 0)
    os.chmod("open", 0o600)
    socket.socket(socket.AF_UNIX).connect("open")
def moved():
    late, link = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    late.bind("early")
    try:
        link.connect("early")
    except ConnectionRefusedError:
        pass
    else:
        must("nobody listens", "")
    os.rename("early", "moved")
    late.listen()
    link.connect("moved")
def many():
    for i in range(600):
        some = socket.socket(socket.AF_UNIX)
        some.bind("some")
        some.listen()
        socket.socket(socket.AF_UNIX).connect("some")
        os.unlink("some")
    plain()
def in_turn():
    late = socket.socket(socket.AF_UNIX)
    late.bind("late")
    late.listen(0)
    threading.Thread(target=lambda: (time.sleep(0.3), late.accept(), late.accept()), daemon=True).start()
    links = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    for link in links:
        link.connect("late")
for work in (plain, inherited, named, awaited, twice, other_kind, told_who, in_turn, known_twice, as_set,
             first_come, at_once, open_later, moved, many):
    attempt(work.__name__, work)
"""


@pytest.mark.parametrize("walls", ["bare", "inside"])
def test_a_socket_that_was_connected_is_the_one_it_was(field: Field, walls: str) -> None:
    """Its mode and options, its name, and who waits for it; and what may not be done to it is refused as ever."""
    if field.walls.kind != "view":
        return
    seen = bare(KEPT, nothing, False)[0] if walls == "bare" else field.program(field.ground(), KEPT)

    assert set(seen.answers.values()) == {"done"}, seen.said
    assert len(seen.answers) == 15


def test_files_without_a_name_are_changed_by_whoever_made_them(field: Field) -> None:
    program = """
memory, gone = os.memfd_create("x"), os.open("gone", os.O_CREAT | os.O_RDWR)
unnamed = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
os.unlink("gone")
for name, fd in (("memory", memory), ("gone", gone), ("unnamed", unnamed)):
    own = f"/proc/self/fd/{fd}"
    attempt(f"mode of {name}", lambda: os.fchmod(fd, 0o640))
    attempt(f"owner of {name}", lambda: os.fchown(fd, os.getuid(), os.getgid()))
    attempt(f"times of {name}", lambda: os.utime(fd))
    attempt(f"length of {name}", lambda: os.truncate(own, 3))
    attempt(f"writing {name}", lambda: write(own, flags=0))
attempt("naming it", lambda: checked(libc.linkat(-100, f"/proc/self/fd/{unnamed}".encode(), -100, b"named", 0x400)))
"""
    seen = field.program(field.ground(), program)

    assert set(seen.answers.values()) == {"done"}, seen
    assert len(seen.answers) == 16
