"""Attacks on the network by name, each shown to succeed without the sandbox: inside one name is allowed, and it leads
to a server that the attacks do not want."""

import subprocess

import pytest
from tests.looking import until
from tests.network.conftest import Echo
from tests.network.test_by_name import PREAMBLE, PYTHON, World
from tests.network.test_by_name import world as world

pytestmark = [pytest.mark.needs_userns, pytest.mark.needs_landlock(6)]

# Each reaches the victim on the host's loopback, whose port is in PORT, or says why it could not.
ATTACKS = {
    "connect": """
socket.create_connection(("127.0.0.1", PORT), 5).sendall(b"x")
""",
    "another address of the loopback": """
socket.create_connection(("127.7.7.7", PORT), 5).sendall(b"x")
""",
    "mapped": """
sock = socket.socket(socket.AF_INET6)
sock.connect(("::ffff:127.0.0.1", PORT))
sock.sendall(b"x")
""",
    "fast open": """
sock = socket.socket()
sock.sendto(b"x", 0x20000000, ("127.0.0.1", PORT))
""",
    "fast open by option": """
sock = socket.socket()
sock.setsockopt(6, 30, 1)
sock.connect(("127.0.0.1", PORT))
sock.sendall(b"x")
""",
    "MPTCP": """
sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
sock.connect(("127.0.0.1", PORT))
sock.sendall(b"x")
""",
    "the address flipped while it is judged": """
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
place = ctypes.create_string_buffer(struct.pack("!2xH4s8x", PORT, bytes((127, 0, 0, 1))))
place[0:2] = struct.pack("H", 2)
stop = False
def flip():
    while not stop:
        place[4:8] = bytes((198, 18, 1, 1))
        place[4:8] = bytes((127, 0, 0, 1))
thread = threading.Thread(target=flip)
thread.start()
reached = 0
for _ in range(300):
    sock = socket.socket()
    sock.settimeout(None)
    reached += libc.connect(sock.fileno(), place, 16) == 0
    sock.close()
    if reached:
        break
stop = True
thread.join()
if not reached:
    raise OSError(errno.EACCES, "never reached")
""",
    "the descriptor swapped while it is judged": """
path = os.environ.get("VICTIM", "")
sock, other = socket.socket(), socket.socket()
stop = False
def swap():
    keep = os.dup(sock.fileno())
    while not stop:
        os.dup2(other.fileno(), sock.fileno())
        os.dup2(keep, sock.fileno())
thread = threading.Thread(target=swap)
thread.start()
reached = False
for _ in range(200):
    try:
        sock.connect(("127.0.0.1", PORT))
        reached = True
        break
    except OSError as error:
        if error.errno in (errno.EISCONN, errno.EALREADY):
            reached = True
            break
stop = True
thread.join()
if not reached:
    raise OSError(errno.EACCES, "never reached")
""",
    "a socket made in a child": """
ours, theirs = socket.socketpair()
if not os.fork():
    sock = socket.socket()
    sock.connect(("127.0.0.1", PORT))
    socket.send_fds(theirs, [b"x"], [sock.fileno()])
    os._exit(0)
theirs.close()
ours.settimeout(5)
_, fds, _, _ = socket.recv_fds(ours, 1, 1)
if not fds:
    raise OSError(errno.EACCES, "nothing came")
""",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_the_victim_is_reached_bare_and_not_inside(world: World, name: str) -> None:
    victim, allowed = Echo(), Echo()
    program = f"{PREAMBLE}\nPORT = {victim.port}\n{ATTACKS[name]}\n"
    if "127.7.7.7" in program:  # bare, all of 127.0.0.0/8 is one machine
        victim.sock.close()
        victim = Echo(address="127.7.7.7")
        program = f"{PREAMBLE}\nPORT = {victim.port}\n{ATTACKS[name]}\n"
    bare = subprocess.run([PYTHON, "-I", "-S", "-c", program], capture_output=True, text=True, timeout=30)
    if name == "MPTCP" and "not supported" in bare.stderr:
        return  # nor would it be inside: this kernel has none
    assert bare.returncode == 0, bare.stderr
    assert until(lambda: victim.count)
    before = victim.count

    outcome = world.run([PYTHON, "-I", "-S", "-c", program], "good.test", f"127.0.0.1:{allowed.port}")

    assert (outcome["exitCode"], victim.count - before) == (1, 0), outcome
    victim.sock.close()
    allowed.sock.close()
