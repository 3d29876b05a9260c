"""The server name in the first bytes of a TLS connection. Pure; it looks, and changes nothing."""

MOST = 1 << 14
_MOST_RECORDS = 64  # of a byte each they would be read again and again
_RECORDS = range(20, 25)
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME = 22, 1, 0
# A fatal alert, unrecognized_name: what a client expects when its server name is refused.
ALERT = bytes((21, 3, 3, 0, 2, 2, 112))


class NotHello(ValueError):
    """TLS, and not the beginning of a handshake as the standard has it."""


def is_tls(data: bytes | bytearray) -> bool:
    """Whether it is TLS, or may be: some servers pass over an alert before the handshake, and so would we."""
    return bool(data) and (data[0] == _HANDSHAKE or (data[0] in _RECORDS and data[1:2] in (b"", b"\3")))


def server_name(data: bytes) -> str | None:
    """The name, empty when there is none, or None when more bytes are needed. Raises NotHello."""
    message = _handshake(data)
    if message is None:
        return None
    try:
        return _name_in(message)
    except IndexError:
        raise NotHello from None


def _handshake(data: bytes) -> bytes | None:
    """The ClientHello, which may be spread over several records."""
    message = b""
    at = 0
    for _ in range(_MOST_RECORDS):
        if len(data) - at < 5:
            return None
        if data[at] != _HANDSHAKE or data[at + 1] != 3:
            raise NotHello
        length = int.from_bytes(data[at + 3 : at + 5], "big")
        if not 0 < length <= 1 << 14:
            raise NotHello
        message += data[at + 5 : at + 5 + length]
        at += 5 + length
        if len(message) >= 4:
            if message[0] != _CLIENT_HELLO:
                raise NotHello
            wanted = 4 + int.from_bytes(message[1:4], "big")
            if wanted > MOST:
                raise NotHello
            if len(message) >= wanted:
                return message[4:wanted]
        if at > len(data):
            return None
    raise NotHello


def _take(data: bytes, at: int, width: int) -> tuple[bytes, int]:
    """A vector whose length stands in `width` bytes, and where it ends."""
    if at + width > len(data):
        raise IndexError
    end = at + width + int.from_bytes(data[at : at + width], "big")
    if end > len(data):
        raise IndexError
    return data[at + width : end], end


def _name_in(hello: bytes) -> str:
    _, at = _take(hello, 34, 1)  # behind the version and the random bytes: the session
    _, at = _take(hello, at, 2)  # the ciphers
    _, at = _take(hello, at, 1)  # the compressions
    if at == len(hello):
        return ""
    extensions, _ = _take(hello, at, 2)
    at, found = 0, ""
    while at < len(extensions):
        kind = int.from_bytes(extensions[at : at + 2], "big")
        body, at = _take(extensions, at + 2, 2)
        if kind == _SERVER_NAME:
            if found:
                raise NotHello
            names, _ = _take(body, 0, 2)
            if names[0] != 0:
                raise NotHello
            host, end = _take(names, 1, 2)
            if end != len(names) or not host:
                raise NotHello  # a second name would be another reader's first
            found = host.decode("ascii", "replace")
    return found
