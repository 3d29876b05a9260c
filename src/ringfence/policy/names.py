"""The forms that hosts, addresses and paths take in a policy file, as kinds.

Pure. Hosts are accepted and refused as srt does it (SRT 0.0.83): strict subdomains for `*.host`, an optional port,
IPv6 in brackets.
"""

from itertools import count, repeat

from .hosts import HostError, canonical_host, port_number, split_port
from .kinds import Kind, Schema, Spot
from .words import named

HOST = "a host like example.com:443 or *.example.com"  # of a flag, or a grant


class Domain(Kind):
    """A host, a `*.host`, each with an optional port; `any_host` also takes `*`, `with_port` demands a port."""

    wants = "a host like example.com, *.example.com or example.com:443"

    def __init__(self, any_host: bool = False, with_port: bool = False) -> None:
        self.any_host, self.with_port = any_host, with_port

    def read(self, value: object, at: Spot) -> object:
        if not isinstance(value, str):
            raise at.wrong(value, self.wants)
        reason = entry_fault(value, self.any_host)
        if not reason and self.with_port and not split_port(value)[1]:
            reason = "it has no port"
        if reason:
            raise at.error(f"{at.name} is {named(value)}: {reason}", f"it takes {self.wants}")
        return value

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1}


def entry_fault(text: str, any_host: bool) -> str:
    """Why a host, with its port or without, may not stand in a policy; or nothing. A star alone is for denials."""
    if "/" in text:
        return "a host is not a URL, and no network"
    host, port = split_port(text)
    if port and not port_number(port):
        return "a port is a number from 1 to 65535"
    if host == "*":
        return "" if any_host else "every host is the open network: --allow-network, or allowNetwork"
    return _host_fault(host)


def _host_fault(host: str) -> str:
    name = host.removeprefix("*.")
    if ":" in name and not (name.startswith("[") and host == name):
        return "an IPv6 address stands in brackets"
    if "*" in name:
        return "a star stands alone before the first dot"
    if name.endswith("."):
        return "a name between its dots is missing, or it is too long"
    try:
        found = canonical_host(name)
    except HostError as error:
        return str(error)
    if host != name and (found == "localhost" or ":" in found or found.replace(".", "").isdigit()):
        return "nothing lies below that"
    if found == "localhost" or "." in found or ":" in found:
        return ""
    if host != name:
        return f"every name that ends in .{found} would match"
    return "it needs a dot, or everything would match"


class Address(Kind):
    """An IP address or network."""

    wants = "an address or network like 10.0.0.0/8 or fd00::/8"

    def read(self, value: object, at: Spot) -> object:
        if not isinstance(value, str) or not _is_address(value):
            raise at.wrong(value, self.wants)
        return value

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1}


def _is_address(text: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


class Paths(Kind):
    """A list of paths, each text or {path, literal: true}; or one text with a path on each line.

    Read as pairs (text, literal), each with its index in the list, so that it keeps its own line; a text has none.
    """

    wants = 'a list of paths, each text or {"path": "…", "literal": true}'

    def read(self, value: object, at: Spot) -> object:
        if isinstance(value, str):
            lines = tuple(line.strip() for line in value.split("\n"))
            kept = [line for line in lines if line]
            if not kept:
                raise at.error(f"{at.name} is an empty path", "name a path, or use an empty list")
            return tuple((line, False, None) for line in kept)
        if not isinstance(value, list):
            raise at.wrong(value, self.wants)
        if set(map(type, value)) == {str}:  # most often, and there may be thousands
            return tuple(zip(value, repeat(False), count()))
        return tuple((*self._entry(entry, at, index), index) for index, entry in enumerate(value))

    def _entry(self, entry: object, at: Spot, index: int) -> tuple[str, bool]:
        if isinstance(entry, str):
            return entry, False
        if isinstance(entry, dict) and set(entry) == {"path", "literal"} and entry["literal"] is True:
            path = entry["path"]
            if isinstance(path, str):
                return path, True
        raise at[index].wrong(entry, 'text or {"path": "…", "literal": true}')

    def schema(self) -> Schema:
        text: Schema = {"type": "string", "minLength": 1}
        exact: Schema = {
            "type": "object",
            "properties": {"path": text, "literal": {"const": True}},
            "required": ["path", "literal"],
            "additionalProperties": False,
        }
        return {"anyOf": [{"type": "array", "items": {"anyOf": [text, exact]}}, text]}
