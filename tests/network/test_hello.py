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


def test_two_names_are_none() -> None:
    name = b"\x00\x00\x09good.test"
    listed = len(name + name).to_bytes(2, "big") + name + name
    extension = b"\0\0" + len(listed).to_bytes(2, "big") + listed
    hello = b"\3\3" + bytes(32) + b"\0" + b"\0\2\0\1" + b"\1\0" + len(extension).to_bytes(2, "big") + extension
    message = b"\1" + len(hello).to_bytes(3, "big") + hello

    with pytest.raises(NotHello):
        server_name(b"\x16\3\1" + len(message).to_bytes(2, "big") + message)


@given(st.binary(max_size=200), st.integers(0, len(HELLO) - 1), st.integers(0, 255))
def test_hostile_bytes_are_an_error_or_a_name(data: bytes, at: int, byte: int) -> None:
    for hostile in (data, b"\x16\x03\x01" + data, HELLO[:at] + bytes((byte,)) + HELLO[at + 1 :]):
        try:
            found = server_name(hostile)
        except NotHello:
            continue
        assert found is None or isinstance(found, str)
