"""What Landlock itself refused, as the kernel's audit tells it: where the host has audit on, and lets us read it.

A record names a domain by its number, and the first one of a domain says what its maker was called. So the enactor is
given a name that nobody else has, and only what such a domain refused is the run's. Nothing is ever switched on here,
and what was lost is not missed: it is concluded as without records.
"""

import _socket
import binascii
import contextlib
import errno
import os
import re
import struct
import time
from collections.abc import Iterable

from ..model import Observed, Step, StepKind

LEAST_ABI = 7  # of Landlock: older ones log nothing, and refuse to be asked
NETLINK, AUDIT, READ_LOG = 16, 9, 1  # the family, the protocol, and the group that may be read
GET, SYSCALL, ACCESS, DOMAIN = 1000, 1300, 1423, 1424
HEAD = struct.Struct("=IHHII")  # size, kind, flags, sequence, port
LONGEST = 16384
HELD = 1 << 23  # bytes of records, kept by the kernel until the end
MOST = 1024  # denials of one run
QUIET, PATIENCE = 0.05, 1.0  # the records come from a thread of the kernel's, a moment after what they tell of
_EVENT = re.compile(rb"audit\((\d+\.\d+:\d+)\): ")
_ACCESSES = {"fs.read": "read", "fs.execute": "read", "fs.write": "write", "fs.truncate": "write"}
_ACCESSES |= dict.fromkeys(("fs.make", "fs.remove", "fs.refer"), "make")  # of the directory
Fields = dict[bytes, bytes]


def listen(abi: int) -> "Log | None":
    """Somebody who hears what is logged from now on; nobody where audit is off, or not for us to read."""
    if abi < LEAST_ABI:
        return None
    channel = None
    try:
        channel = _socket.socket(NETLINK, _socket.SOCK_RAW, AUDIT)
        if _is_on(channel):
            channel.setsockopt(270, 1, READ_LOG)  # SOL_NETLINK, NETLINK_ADD_MEMBERSHIP
            with contextlib.suppress(PermissionError):
                channel.setsockopt(_socket.SOL_SOCKET, 33, HELD)  # SO_RCVBUFFORCE
            return Log(channel)
    except OSError:  # not for us
        pass
    if channel is not None:
        channel.close()
    return None


def _is_on(channel: _socket.socket) -> bool:
    channel.settimeout(PATIENCE)
    channel.send(HEAD.pack(HEAD.size, GET, 1, 1, 0))
    answer = channel.recv(LONGEST)
    kind = HEAD.unpack_from(answer)[1]
    return bool(kind == GET and struct.unpack_from("=II", answer, HEAD.size)[1])


class Log:
    """Our end of the group."""

    def __init__(self, channel: _socket.socket) -> None:
        self._channel = channel
        self.name = b"rf-" + binascii.hexlify(os.urandom(6))  # a process's name has room for fifteen
        self.step = Step(StepKind.LOG, "what Landlock refuses is logged by the host's audit", (), (self.name,))

    def close(self) -> None:
        self._channel.close()

    def finish(self) -> list[Observed]:
        """What was refused, once the run is over."""
        return read(self._records(), self.name)

    def _records(self) -> Iterable[tuple[int, bytes]]:
        until = time.monotonic() + PATIENCE
        self._channel.settimeout(QUIET)
        while time.monotonic() < until:
            try:
                data = self._channel.recv(LONGEST)
            except OSError as error:
                if error.errno == errno.ENOBUFS:  # there were more than the kernel keeps
                    continue
                return
            if len(data) >= HEAD.size:
                yield HEAD.unpack_from(data)[1], data[HEAD.size :]


def read(records: Iterable[tuple[int, bytes]], name: bytes) -> list[Observed]:
    """What the domains of a maker so called refused, each once, and by whom where that is told: pids are the host's.
    What the maker itself was refused is nobody's: its own steps, or a call that it answers and tells of itself."""
    refused: dict[tuple[bytes, bytes, str, bytes], None] = {}
    callers: dict[bytes, Fields] = {}
    domains: set[bytes] = set()
    for kind, text in records:
        found = _EVENT.match(text)
        if found is None or kind not in (SYSCALL, ACCESS, DOMAIN):
            continue
        event, fields = found[1], fields_of(text[found.end() :])
        if kind == SYSCALL:
            callers[event] = fields
        elif kind == DOMAIN and decoded(fields.get(b"comm", b"")) == name:
            domains.add(fields.get(b"domain", b""))
        elif kind == ACCESS and (what := _refused(fields)) is not None:
            refused[event, fields.get(b"domain", b""), *what] = None
    seen: dict[tuple[str, bytes], Observed] = {}
    for event, domain, access, path in refused:
        caller = callers.get(event, {})
        if domain in domains and len(seen) < MOST and decoded(caller.get(b"comm", b"")) != name:
            pid, exe = caller.get(b"pid", b""), decoded(caller.get(b"exe", b""))
            whom = b"the warden" if (access, path) == ("signal", name) else path
            number = int(pid) if pid.isdigit() and len(pid) < 12 else 0
            seen.setdefault((access, path), Observed(access, whom, number, exe, "failed", -1, errno.EACCES))
    return list(seen.values())


def _refused(fields: Fields) -> tuple[str, bytes] | None:
    """What was asked, and of what; nothing where that is no matter of the policy's."""
    blockers = fields.get(b"blockers", b"").decode("ascii", "replace").split(",")
    path = decoded(fields.get(b"path", b""))
    if path.startswith(b"/"):
        asked = [access for start, access in _ACCESSES.items() if any(one.startswith(start) for one in blockers)]
        return (asked[-1], path) if asked else None
    if "net.connect_tcp" in blockers and b"dest" in fields:
        return "connect", fields.get(b"daddr", b"") + b":" + fields[b"dest"]
    if "net.bind_tcp" in blockers and b"src" in fields:
        return "bind", fields[b"src"]
    if "scope.abstract_unix_socket" in blockers and path.startswith(b"\0"):
        return "connect", b"@" + path[1:]
    if "scope.signal" in blockers:
        return "signal", decoded(fields.get(b"ocomm", b""))
    return None


def fields_of(text: bytes) -> Fields:
    """The fields of a record: what could hold a space is written by its bytes' numbers."""
    return dict(word.split(b"=", 1) for word in text.split(b" ") if b"=" in word)


def decoded(value: bytes) -> bytes:
    """A string of somebody else's, as audit writes it: between quotes, or by its bytes' numbers; nothing if neither."""
    if len(value) >= 2 and value[:1] == value[-1:] == b'"':
        return value[1:-1]
    try:
        return binascii.unhexlify(value)
    except ValueError:
        return b""
