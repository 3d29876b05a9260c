"""The SOCKS5 proxy (RFC 1928, 1929): CONNECT to names and addresses. BIND and UDP are refused, SOCKS4 hung up on."""

import errno
import ipaddress

from .judge import Denied, Unreachable
from .link import Link
from .run import LINGER_SECONDS, Run
from .tunnel import open_tunnel

_NO_PASSWORD, _PASSWORD, _NO_METHOD = 0, 2, 0xFF
_DENIED, _NO_NETWORK, _NO_HOST, _REFUSED, _NO_COMMAND, _NO_ADDRESS = 2, 3, 4, 5, 7, 8
_CODES = {errno.ECONNREFUSED: _REFUSED, errno.ENETUNREACH: _NO_NETWORK}


class Session:
    """One connection of the command's: greeting, perhaps a password, request, tunnel."""

    def __init__(self, run: Run, client: Link) -> None:
        self.run = run
        self.client = client
        self._kept = bytearray()
        self._next = self._greeting
        client.on_data = self._data
        client.on_end = lambda: run.drop(client)
        client.read()

    def _data(self, view: memoryview) -> None:
        self._kept += view
        while (used := self._next(self._kept)) > 0:  # 0 where more must come, which is never much; -1 where all is said
            del self._kept[:used]

    def _refuse(self, answer: bytes) -> int:
        self.client.write(answer)
        self.client.finish()
        self.client.on_data = lambda _: None
        self.run.links[self.client] = LINGER_SECONDS
        return -1

    def _greeting(self, data: bytearray) -> int:
        if data[0] != 5:
            self.run.drop(self.client)
            return -1
        if len(data) < 2 or len(data) < 2 + data[1]:
            return 0
        wanted = _PASSWORD if self.run.has_credential else _NO_PASSWORD
        if wanted not in data[2 : 2 + data[1]]:
            return self._refuse(bytes((5, _NO_METHOD)))
        self.client.write(bytes((5, wanted)))
        self._next = self._password if wanted == _PASSWORD else self._request
        return 2 + int(data[1])

    def _password(self, data: bytearray) -> int:
        if len(data) < 2 or len(data) < 3 + data[1] or len(data) < 3 + data[1] + data[2 + data[1]]:
            return 0
        start = 3 + data[1]
        word = bytes(data[start : start + data[2 + data[1]]])
        if data[0] != 1 or not self.run.is_known(word):
            return self._refuse(b"\x01\x01")
        self.client.write(b"\x01\x00")
        self._next = self._request
        return start + len(word)

    def _request(self, data: bytearray) -> int:
        if len(data) < 5:
            return 0
        length = {1: 4, 4: 16, 3: 1 + data[4]}.get(data[3])
        if data[0] != 5 or data[2] != 0 or length is None:
            return self._refuse(_reply(_NO_ADDRESS))
        if len(data) < 6 + length:
            return 0
        if data[1] != 1:
            return self._refuse(_reply(_NO_COMMAND))
        place = bytes(data[4 : 4 + length])
        host = place[1:].decode("latin-1") if data[3] == 3 else str(ipaddress.ip_address(place))
        port = int.from_bytes(data[4 + length : 6 + length], "big")
        self.client.pause()
        self.run.start(self._dial(host, port, bytes(data[6 + length :])))
        return -1

    async def _dial(self, host: str, port: int, first: bytes) -> None:
        try:
            upstream = await self.run.dial(host, port)
            host = self.run.dialler.meant(host)
        except Denied:
            self._refuse(_reply(_DENIED))
            self.client.read()
            return
        except Unreachable as error:
            self._refuse(_reply(_CODES.get(error.errno, _NO_HOST)))
            self.client.read()
            return
        if self.client.closed:
            self.run.drop(upstream)
            return
        self.client.write(_reply(0))
        open_tunnel(self.run, self.client, upstream, host, first)


def _reply(code: int) -> bytes:
    return bytes((5, code, 0, 1)) + bytes(6)
