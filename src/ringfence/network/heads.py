"""Heads of HTTP messages, of the plainest kind, read quickly. Pure.

h11 reads whatever comes. Most of it is a head in which there is nothing to be read in two ways: such a one is read
here, in a quarter of the time. Any other is None, neither good nor bad: it is h11's to read or to refuse.
"""

import re
from typing import NamedTuple

Headers = list[tuple[bytes, bytes]]  # names in lower case

# No possessive quantifiers: Python's up to 3.11.4 read some of them wrongly. Nothing here can be matched in two ways.
_LINES = rb"((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[!-~](?:[ -~]*[!-~])?\r\n)*)"
_REQUEST = re.compile(rb"([A-Z]{1,20}) ([!-~]+) HTTP/1\.1\r\n" + _LINES)
_RESPONSE = re.compile(rb"HTTP/1\.1 ([2-5][0-9][0-9]) ([ -~]*)\r\n" + _LINES)
_LINE = re.compile(rb"([^:\r\n]+): ?([^\r\n]+)\r\n")
# Who has one of these, or one of the others twice, has something to say about how it is to be read.
_RARE = frozenset((b"transfer-encoding", b"upgrade", b"te", b"trailer", b"expect"))
_ONCE = (b"host", b"content-length")
_PLAIN_CONNECTION = (b"keep-alive", b"close")  # anything else names headers that are taken out


class Request(NamedTuple):
    """What a client asks for."""

    method: bytes
    target: bytes
    headers: Headers
    http_version: bytes = b"1.1"


class Response(NamedTuple):
    """What a server answers; its body has this length."""

    status: bytes
    reason: bytes
    headers: Headers
    length: int


def _headers(lines: bytes) -> Headers | None:
    found = [(name.lower(), value) for name, value in _LINE.findall(lines)]
    names = [name for name, _ in found]
    if not _RARE.isdisjoint(names) or any(names.count(name) > 1 for name in _ONCE):
        return None
    for name, value in found:
        if name == b"content-length" and not (value.isdigit() and len(value) <= 18):
            return None
        if name == b"connection" and value.lower() not in _PLAIN_CONNECTION:
            return None
    return found


def read_request(head: bytes) -> Request | None:
    """A request's head, without the empty line that ends it."""
    found = _REQUEST.fullmatch(head)
    headers = None if found is None else _headers(found[3])
    if found is None or headers is None or not any(name == b"host" for name, _ in headers):
        return None
    return Request(found[1], found[2], headers)


def read_response(head: bytes) -> Response | None:
    """A response's head, without the empty line that ends it; only one that says how long its body is."""
    found = _RESPONSE.fullmatch(head)
    headers = None if found is None else _headers(found[3])
    if found is None or headers is None or found[1] in (b"204", b"304"):
        return None
    length = next((int(value) for name, value in headers if name == b"content-length"), -1)
    return None if length < 0 else Response(found[1], found[2], headers, length)
