"""The addresses of this machine, as the kernel lists them."""

import ipaddress


def own_addresses() -> frozenset[str]:
    """Every address of every interface, canonical. What cannot be read is an error: nothing is guessed."""
    with open("/proc/net/fib_trie") as lines:
        found = _local(lines.read())
    try:
        with open("/proc/net/if_inet6") as lines:
            found |= {str(ipaddress.IPv6Address(int(line.split()[0], 16))) for line in lines}
    except FileNotFoundError:
        pass  # a kernel without IPv6
    return frozenset(found)


def _local(table: str) -> set[str]:
    """The addresses in the routing table that mean this machine."""
    found, last = set(), ""
    for line in table.splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            last = words[1]
        elif "LOCAL" in words:
            found.add(last)
    return found
