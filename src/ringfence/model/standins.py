"""Addresses that stand for names: what a run's resolver answers, and what its connections are judged by.

Pure. They are of 198.18.0.0/15, which nobody routes. Each follows from the workspace and the name, so that programs
that keep what they resolved (Java, Gradle, nginx) find the same host in the next run; within a run none is ever given
to a second name.
"""

from collections.abc import Collection, Iterable

_ROOM = 1 << 17


def stand_in(workspace: str, name: str, taken: Collection[str]) -> str:
    """The address of a canonical name in a workspace, where these are others' already."""
    from _blake2 import blake2b  # hashlib would cost the command some milliseconds

    known = workspace.encode("utf-8", "backslashreplace")  # as `written` has it, for the gate is told so
    key = blake2b(known, digest_size=32).digest()
    place = int.from_bytes(blake2b(name.encode(), key=key, digest_size=8).digest(), "big") % _ROOM
    address = _written(place)
    while place in (0, _ROOM - 1) or address in taken:
        place = (place + 1) % _ROOM
        address = _written(place)
    return address


def stand_ins(workspace: str, names: Iterable[str]) -> dict[str, str]:
    """Names and their addresses, the first come first served."""
    found: dict[str, str] = {}
    for name in names:
        if name not in found:
            found[name] = stand_in(workspace, name, found.values())
    return found


def stood_for(workspace: str, names: Iterable[str], address: str) -> str:
    """The one of these names that an address stands for; empty for none."""
    return next((name for name, known in stand_ins(workspace, names).items() if known == address), "")


def is_stand_in(address: str) -> bool:
    """Whether a canonical IPv4 address is one that can stand for a name."""
    return address.startswith(("198.18.", "198.19."))


def _written(place: int) -> str:
    return f"198.{18 + (place >> 16)}.{place >> 8 & 255}.{place & 255}"
