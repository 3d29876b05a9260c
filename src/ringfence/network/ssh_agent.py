"""An ssh agent that lists keys and signs, and no more: adding, removing, locking and extensions are refused.

A signature is what the agent is for, and it cannot be told here what is signed for whom; so each is told of.
"""

import base64
import hashlib
import socket

from ..model import Decision, Verdict
from .link import Link
from .run import IDLE_SECONDS, Run

_FAILURE = b"\x00\x00\x00\x01\x05"
_LIST, _SIGN = 11, 13
_MOST = 256 * 1024
_MOST_AT_ONCE = 64  # connections of one run: an agent takes about a thousand, and they are its owner's too


class Session:
    """One connection of the command's to the agent."""

    def __init__(self, run: Run, client: Link, path: str) -> None:
        self.run = run
        self.client = client
        self._kept = bytearray()
        self.agent: Link | None = None
        client.on_end = self.close
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)  # an agent that accepts nobody would keep every run waiting
        try:
            if len(run.at_agent) >= _MOST_AT_ONCE:
                raise BlockingIOError
            sock.connect(path)
        except OSError:
            sock.close()
            run.drop(client)
            return
        run.at_agent.add(client)
        self.agent = run.keep(sock, IDLE_SECONDS)
        run.links[client] = IDLE_SECONDS
        run.heard(client)
        self.agent.on_data = self._answer
        self.agent.on_end = self.close
        self.agent.on_drain = client.on_drain = self._go_on
        client.on_data = self._data
        client.read()
        self.agent.read()

    def close(self) -> None:
        """End both sides."""
        self.run.at_agent.discard(self.client)
        for link in (self.client, self.agent):
            if link is not None:
                self.run.drop(link)

    def _answer(self, view: memoryview) -> None:
        self._write(self.client, view)

    def _write(self, link: Link | None, data: bytes | memoryview) -> None:
        """While somebody does not take what it is sent, no more is heard of what it would be sent: nothing piles up."""
        if link is not None and self.agent is not None and not link.write(data):
            self.client.pause()
            if link is self.client:
                self.agent.pause()

    def _go_on(self) -> None:
        if self.agent is not None and not self.client.is_full:
            self.agent.read()
            if not self.agent.is_full:
                self.client.read()

    def _data(self, view: memoryview) -> None:
        self._kept += view
        while len(self._kept) >= 5:
            length = int.from_bytes(self._kept[:4], "big")
            if not 0 < length <= _MOST:
                self.close()
                return
            if len(self._kept) < 4 + length:
                return
            message = bytes(self._kept[: 4 + length])
            del self._kept[: 4 + length]
            self._message(message)

    def _message(self, message: bytes) -> None:
        kind = message[4]
        if kind == _SIGN:
            self.run.signatures += 1
            said = f"signature {self.run.signatures} by the ssh agent, with {fingerprint(message)}"
            self.run.denied("ssh-agent", Decision(Verdict.ALLOW, said))
        if kind in (_LIST, _SIGN) and self.agent is not None:
            self._write(self.agent, message)
        else:
            reason = f"the ssh agent lists and signs alone; it was asked for message {kind}"
            self.run.denied("ssh-agent", Decision(Verdict.DENY, reason))
            self._write(self.client, _FAILURE)


def fingerprint(message: bytes) -> str:
    """The key that is to sign, as ssh-keygen shows it."""
    end = 9 + int.from_bytes(message[5:9], "big")
    return f"SHA256:{base64.b64encode(hashlib.sha256(message[9:end]).digest()).decode().rstrip('=')}"
