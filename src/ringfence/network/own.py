"""The addresses of this machine, as the kernel lists them."""

import contextlib
import ipaddress

_RTF_LOCAL = 0x80000000  # a route's flag: what it leads to is this machine's


def own_addresses() -> frozenset[str]:
    """Every address of every interface, and every network that is led to this machine whole (`ip route add local`),
    canonical. What cannot be read is an error: nothing is guessed. Everything there is (`local default`) is none: so a
    table has it by which a transparent proxy gets the packets that are marked for it."""
    with open("/proc/net/fib_trie") as lines:
        found = _local(lines.read())
    with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
        with open("/proc/net/if_inet6") as lines:
            found |= {_six(line.split()[0], 128) for line in lines}
        with open("/proc/net/ipv6_route") as lines:
            for words in map(str.split, lines):
                if int(words[8], 16) & _RTF_LOCAL:
                    found.add(_six(words[0], int(words[1], 16)))
    return frozenset(found - {"0.0.0.0/0", "::/0"})


def _local(table: str) -> set[str]:
    """The addresses and networks in the routing table that mean this machine."""
    found, last = set(), ""
    for line in table.splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            last = words[1]
        elif "LOCAL" in words:
            found.add(f"{last}{words[0]}".removesuffix("/32"))
    return found


def _six(digits: str, length: int) -> str:
    return f"{ipaddress.IPv6Address(int(digits, 16))}/{length}".removesuffix("/128")
