"""The server name is found in whatever pieces a ClientHello comes, and hostile bytes are an error or a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.network.conftest import hello_for

from ringfence.network.hello import NotHello, server_name

HELLO = hello_for("good.test")


def test_the_name_is_found() -> None:
    assert [server_name(hello_for(name)) for name in ("good.test", "a.b.c.test", "")] == ["good.test", "a.b.c.test", ""]


def test_until_it_is_whole_more_is_wanted() -> None:
    assert {server_name(HELLO[:length]) for length in range(1, len(HELLO))} == {None}


def test_a_hello_in_several_records_is_one_hello() -> None:
    body = HELLO[5:]
    records = b"".join(
        HELLO[:3] + len(piece).to_bytes(2, "big") + piece
        for piece in (body[at : at + 50] for at in range(0, len(body), 50))
    )

    assert server_name(records) == "good.test"


def test_a_hello_in_a_record_for_each_byte_is_none() -> None:
    with pytest.raises(NotHello):
        server_name(b"".join(HELLO[:3] + b"\0\1" + HELLO[at : at + 1] for at in range(5, 205)))


def hello(rest: bytes) -> bytes:
    """A message without its record: version, random bytes, and what follows."""
    body = b"\3\3" + bytes(32) + rest
    return b"\1" + len(body).to_bytes(3, "big") + body


def record(data: bytes, head: bytes = b"\x16\3\1", length: int = -1) -> bytes:
    return head + (len(data) if length < 0 else length).to_bytes(2, "big") + data


PLAIN = b"\0" + b"\0\2\0\1" + b"\1\0"  # no session, a cipher, a compression
NAME = b"\0\x0e\0\x0c\0\0\x09good.test"  # an extension's length, its list's, and a name in it


def test_a_hello_without_extensions_has_no_name() -> None:
    assert server_name(record(hello(PLAIN))) == ""
    assert server_name(record(hello(PLAIN + b"\0\x12\0\0" + NAME))) == "good.test"


@pytest.mark.parametrize(
    "data",
    [
        record(hello(PLAIN + b"\0\x21\0\0" + b"\0\x1d\0\x18" + b"\0\0\x09good.test" * 2)),
        record(hello(PLAIN + b"\0\x24" + (b"\0\0" + NAME) * 2)),
        record(hello(PLAIN + b"\0\x13\0\0" + NAME)),
        record(hello(PLAIN + b"\0\x12\0\0" + b"\0\x0f" + NAME[2:])),
        record(hello(PLAIN + b"\0\x12\0\0" + NAME[:2] + b"\0\x0d" + NAME[4:])),
        record(hello(PLAIN + b"\0\x12\0\0" + NAME.replace(b"\x09", b"\x0a"))),
        record(hello(PLAIN + b"\0\x12\0\0" + NAME.replace(b"\x09", b"\x08"))),
        record(hello(PLAIN + b"\0\x12\0\0" + NAME.replace(b"\x0c\0", b"\x0c\1"))),
        record(hello(PLAIN + b"\0")),
        record(hello(b"\x20" + PLAIN[1:])),
        record(hello(b"")),
        record(b"\2" + hello(PLAIN)[1:]),
        record(hello(PLAIN)[:9]) + record(b"") + record(hello(PLAIN)[9:]),
        record(hello(PLAIN)[:9]) + record(hello(PLAIN)[9:], b"\x17\3\3"),
        record(hello(PLAIN)[:9]) + record(hello(PLAIN)[9:], b"\x16\2\0"),
        record(hello(PLAIN), length=(1 << 14) + 1) + bytes(1 << 14),
        record(hello(PLAIN)[:1] + b"\0\x40\1" + bytes(1 << 13)),
    ],
)
def test_what_two_readers_could_read_differently_is_no_hello(data: bytes) -> None:
    with pytest.raises(NotHello):
        server_name(data)


@given(st.binary(max_size=200), st.integers(0, len(HELLO) - 1), st.integers(0, 255))
def test_hostile_bytes_are_an_error_or_a_name(data: bytes, at: int, byte: int) -> None:
    for hostile in (data, b"\x16\x03\x01" + data, HELLO[:at] + bytes((byte,)) + HELLO[at + 1 :]):
        try:
            found = server_name(hostile)
        except NotHello:
            continue
        assert found is None or isinstance(found, str)
