"""Addresses that stand for names: what the resolver of a run answers, and what its connections are judged by.

Pure. The addresses are of 198.18.0.0/15, which nobody routes. Each follows from the workspace and the name, so that
programs that keep what they resolved (Java, Gradle, nginx) find the same host in the next run; within a run none is
ever given to a second name. A `*.x` rule lets a command ask for names without end, so their number is bounded.
"""

import hashlib
import ipaddress

_FIRST = int(ipaddress.IPv4Address("198.18.0.0"))
_ROOM = 1 << 17
_EDGES = (0, _ROOM - 1)
MOST = 4096


class Names:
    """The names of one run, each with the address that stands for it."""

    def __init__(self, workspace: str) -> None:
        self._key = workspace.encode("utf-8", "surrogateescape")
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def address_of(self, name: str) -> str:
        """The address that stands for a canonical name; empty when there are too many names."""
        known = self._addresses.get(name)
        if known is not None:
            return known
        if len(self._names) >= MOST:
            return ""
        digest = hashlib.blake2b(name.encode(), key=hashlib.blake2b(self._key, digest_size=32).digest(), digest_size=8)
        place = int.from_bytes(digest.digest(), "big") % _ROOM
        address = _written(place)
        while place in _EDGES or address in self._names:
            place = (place + 1) % _ROOM
            address = _written(place)
        self._addresses[name] = address
        self._names[address] = name
        return address

    def name_of(self, address: str) -> str:
        """The name that an address stands for; empty when it stands for none."""
        return self._names.get(address, "")


def _written(place: int) -> str:
    return str(ipaddress.IPv4Address(_FIRST + place))


def is_stand_in(address: str) -> bool:
    """Whether a canonical IPv4 address is one that can stand for a name."""
    return address.startswith(("198.18.", "198.19."))
