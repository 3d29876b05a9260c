"""Whatever is read quickly, h11 reads the same; what it would refuse is never read."""

import random

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.network.heads import Request, Response, read_request, read_response

PLAIN = b"GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\nUser-Agent: curl/8\r\nAccept: */*\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 12\r\nX-Y:z  z\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: now\r\nConnection: keep-alive\r\n"


def test_a_plain_head_is_read() -> None:
    assert read_request(POST) == Request(
        b"POST", b"/", [(b"host", b"a.test"), (b"content-length", b"12"), (b"x-y", b"z  z")]
    )
    assert read_response(ANSWER) == Response(
        b"200", b"OK", [(b"content-length", b"5"), (b"date", b"now"), (b"connection", b"keep-alive")], 5
    )


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.0\r\nHost: a\r\n",
        b"GET / HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\ncontent-length: 5\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: \xb2\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n folded: 1\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n",
        b"GET / HTTP/1.1\nHost: a\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: a\r\n",
        b"GET / x HTTP/1.1\r\nHost: a\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close, content-length\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: \r\n",
        b"GET / HTTP/1.1\r\nHost: a",
    ],
)
def test_what_could_be_read_in_two_ways_is_not_read_here(head: bytes) -> None:
    assert read_request(head) is None


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 204 No\r\nContent-Length: 0\r\n",
        b"HTTP/1.1 304 No\r\nContent-Length: 5\r\n",
        b"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n",
        b"HTTP/1.1 101 Switching\r\nContent-Length: 5\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: content-length\r\n",
    ],
)
def test_a_response_without_a_plain_length_is_not_read_here(head: bytes) -> None:
    assert read_response(head) is None


LINES = [b"Host: b", b"Content-Length: 3", b"Transfer-Encoding: chunked", b"Connection: close"]
PIECES = [line + b"\r\n" for line in LINES] + [b"HTTP/1.0", b"HEAD", b"0", b"%", b"\x0b", b"\xff", b"\0"]
PIECES += [b"", b" ", b"\t", b"\r", b"\n", b"\r\n", b":", b": ", b","]


def changed(rng: random.Random, head: bytes) -> bytes:
    found = bytearray(head)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(found) + 1)
        found[at : at + rng.randrange(3)] = rng.choice(PIECES)
    return bytes(found)


@settings(max_examples=1500)
@given(rng=st.randoms(use_true_random=False), head=st.sampled_from((PLAIN, POST)))
def test_h11_reads_a_request_the_same(rng: random.Random, head: bytes) -> None:
    data = changed(rng, head)
    ours = read_request(data)
    if ours is not None and b"\r\n\r\n" not in data:
        theirs = h11.Connection(h11.SERVER)
        theirs.receive_data(data + b"\r\n")
        event = theirs.next_event()

        assert isinstance(event, h11.Request)
        assert ours == Request(event.method, event.target, list(event.headers), event.http_version)
        assert theirs.trailing_data[0] == b""


@settings(max_examples=1500)
@given(rng=st.randoms(use_true_random=False))
def test_h11_reads_a_response_the_same(rng: random.Random) -> None:
    data = changed(rng, ANSWER)
    ours = read_response(data)
    if ours is not None:
        theirs = h11.Connection(h11.CLIENT)
        theirs.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
        theirs.send(h11.EndOfMessage())
        theirs.receive_data(data + b"\r\n" + b"x" * min(ours.length, 100))
        event = theirs.next_event()

        assert isinstance(event, h11.Response)
        assert (b"%d" % event.status_code, event.reason, list(event.headers)) == (
            ours.status,
            ours.reason,
            ours.headers,
        )
        if 0 < ours.length <= 100:
            assert theirs.next_event() == h11.Data(data=b"x" * ours.length)
            assert isinstance(theirs.next_event(), h11.EndOfMessage)
