"""N10: datagrams by connect and send, by sendmsg, by sendmmsg."""

from tests.attacks.conftest import Field
from tests.attacks.test_n09_udp_out import echo

PROGRAM = """
import socket, struct
port = int(EXTRA[0])
def connected():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(0.3)
    s.connect(("127.0.0.1", port))
    s.send(b"x")
    s.recv(9)
def message():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(0.3)
    s.sendmsg([b"x"], [], 0, ("127.0.0.1", port))
    s.recv(9)
def messages():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(0.3)
    name = ctypes.create_string_buffer(struct.pack("=HH4s8x", 2, socket.htons(port), socket.inet_aton("127.0.0.1")))
    data = ctypes.create_string_buffer(b"x")
    vector = ctypes.create_string_buffer(struct.pack("PP", ctypes.addressof(data), 1))
    header = ctypes.create_string_buffer(
        struct.pack("PIxxxxPPPPixxxxIxxxx", ctypes.addressof(name), 16, ctypes.addressof(vector), 1, 0, 0, 0, 0), 64)
    syscall(NR.sendmmsg, s.fileno(), header, 1, 0)
    s.recv(9)
attempt("connect and send", connected)
attempt("sendmsg", message)
attempt("sendmmsg", messages)
"""


def test_no_way_of_sending_datagrams_goes_out(field: Field) -> None:
    field.repels(PROGRAM, echo)
