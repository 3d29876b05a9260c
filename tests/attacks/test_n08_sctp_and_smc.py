"""N8: SCTP connects by an option, SMC begins as TCP; neither is TCP to Landlock."""

from tests.attacks.conftest import Field

PROGRAM = """
import socket
attempt("a stream of datagrams", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132))
attempt("packets", lambda: socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET, 132))
attempt("a family of shared memory", lambda: socket.socket(43, socket.SOCK_STREAM, 0))
attempt("a protocol of shared memory", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 256))
attempt("light datagrams", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136))
"""


def test_no_other_protocol_is_opened(field: Field) -> None:
    unknown = ("a stream of datagrams", "packets", "a family of shared memory", "a protocol of shared memory")
    field.repels(PROGRAM, unknown=unknown)
