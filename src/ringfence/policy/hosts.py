"""One canonical form for every host that is written, asked for or dialled; what has none is refused.

Pure. A canonical host is a name in lower case without its last dot, in ASCII (IDNA), or an address as `ipaddress`
writes it, without brackets; an IPv4 address inside an IPv6 one is the IPv4 address. What some resolver would read as
an address although it is not written like one (`2130706433`, `0x7f.1`, `0177.0.0.1`) is refused, and so is whatever
two readers could read differently: userinfo, escapes, white space, control characters.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ipaddress

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address
    Networks = list[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, str]]

IsOwn = Callable[[str, int], bool]  # knows whether an address is this machine's, for who connects to a port

_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")
_DIGITS = frozenset("0123456789")
_LONGEST = 253
_LONGEST_LABEL = 63

# Addresses that a name may not lead to unless they are named themselves. The first that holds gives the words.
SPECIAL = (
    ("0.0.0.0/8", "which means this machine"),
    ("127.0.0.0/8", "a loopback address"),
    ("169.254.0.0/16", "a link-local address, where clouds keep their metadata"),
    ("168.63.129.16/32", "a metadata address"),
    ("100.64.0.0/10", "a shared address"),
    ("10.0.0.0/8", "a private address"),
    ("172.16.0.0/12", "a private address"),
    ("192.168.0.0/16", "a private address"),
    ("192.0.0.0/24", "a reserved address"),
    ("192.0.2.0/24", "a reserved address"),
    ("192.88.99.0/24", "a reserved address"),
    ("198.18.0.0/15", "a reserved address"),
    ("198.51.100.0/24", "a reserved address"),
    ("203.0.113.0/24", "a reserved address"),
    ("224.0.0.0/4", "a multicast address"),
    ("240.0.0.0/4", "a reserved address"),
    ("::1/128", "a loopback address"),
    ("::/128", "which means this machine"),
    ("fc00::/7", "a private address"),
    ("fe80::/10", "a link-local address"),
    ("ff00::/8", "a multicast address"),
    ("2001::/23", "a reserved address"),
    ("2001:db8::/32", "a reserved address"),
    ("2002::/16", "an address that stands for an IPv4 one"),
    ("3fff::/20", "a reserved address"),
)
_PUBLIC_6 = "2000::/3"


class HostError(ValueError):
    """No host, or one that could be read in two ways."""


def canonical_host(text: str) -> str:
    """The one form of a host, or HostError that says why there is none."""
    if text.startswith("[") and text.endswith("]"):
        return canonical_address(text[1:-1], 6)
    if ":" in text:
        return canonical_address(text, 6)
    name = text.lower() if text.isascii() else _to_ascii(text)
    name = name.removesuffix(".")
    if not name or len(name) > _LONGEST:
        raise HostError("it is empty, or longer than a name may be")
    if not _NAME.issuperset(name):
        raise HostError("it has a character that no host has")
    labels = name.split(".")
    if any(not label or len(label) > _LONGEST_LABEL for label in labels):
        raise HostError("a name between its dots is missing, or too long")
    if _is_numeric(labels[-1]):  # some resolver reads it as an address
        return canonical_address(name, 4)
    return name


def canonical_address(text: str, version: int = 0) -> str:
    """An address as everybody writes it. Version 0 takes either kind."""
    import ipaddress

    try:
        if "%" in text or "/" in text:
            raise ValueError
        found = ipaddress.ip_address(text)
    except ValueError:
        raise HostError("it is not an address as everybody writes it") from None
    if version and found.version != version:
        raise HostError(f"it is not an IPv{version} address")
    return str(_unmapped(found))


def is_address(host: str) -> bool:
    """Whether a canonical host is an address."""
    return ":" in host or _DIGITS.issuperset(host.rpartition(".")[2])


def split_port(text: str) -> tuple[str, str]:
    """A host and what stands behind its port's colon; the port is empty where there is none."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.endswith("]")):
        return text, ""
    return host, port or "?"  # a colon without a port is a fault, and no port has that name


def port_number(text: str) -> int:
    """A port that can be dialled, or 0."""
    fits = text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535
    return int(text) if fits else 0


def joined(host: str, port: int) -> str:
    """A canonical host and a port as they are written."""
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port}" if port else shown


def special(address: str) -> str:
    """What is special about a canonical address, in words, or nothing: it is a public one."""
    import ipaddress

    global _special
    if not _special:
        _special = [(ipaddress.ip_network(network), words) for network, words in SPECIAL]
    found = ipaddress.ip_address(address)
    for network, words in _special:
        if found in network:
            return words
    if found.version == 6 and found not in ipaddress.ip_network(_PUBLIC_6):
        return "a reserved address"
    return ""


_special: "Networks" = []


def is_within(address: str, network: str) -> bool:
    """Whether a canonical address lies in an address or network of a policy."""
    import ipaddress

    where = ipaddress.ip_network(network, strict=False)
    if where.prefixlen >= 96 and where.version == 6 and where.network_address.ipv4_mapped:
        where = ipaddress.ip_network((int(where.network_address.ipv4_mapped), where.prefixlen - 96))
    return ipaddress.ip_address(address) in where


def _unmapped(address: "Address") -> "Address":
    mapped = address.ipv4_mapped if address.version == 6 else None
    return mapped or address


def _is_numeric(label: str) -> bool:
    """As every browser decides whether a name ends in a number, and so means an address."""
    if _DIGITS.issuperset(label):
        return True
    return label.startswith("0x") and all(char in "0123456789abcdef" for char in label[2:])


def _to_ascii(text: str) -> str:
    """A name of other scripts as DNS has it. What looks like a dot or a digit becomes one, and is judged as one."""
    import idna

    try:
        return idna.encode(text, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError):
        raise HostError("it is no international name") from None
