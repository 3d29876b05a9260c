"""The machine's own addresses, as the kernel lists them: to be reached, one must be named itself."""

import builtins
import io
import socket
from typing import Any

import pytest

from ringfence.network.own import own_addresses

TABLE = """\
Id 100:
  |-- 0.0.0.0
     /0 host LOCAL
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     |-- 198.51.100.7
        /32 universe UNICAST
     +-- 192.0.2.0/24 2 0 2
        |-- 192.0.2.0
           /24 link UNICAST
        |-- 192.0.2.2
           /32 host LOCAL
        |-- 192.0.2.255
           /32 link BROADCAST
     |-- 198.51.0.0
        /16 host LOCAL
"""
INET6 = """\
00000000000000000000000000000001 01 80 10 80       lo
fd000000000000000000000000000002 04 40 00 82     eth0
"""
NOWHERE = f" {'0' * 32} 00 {'0' * 32} "
ROUTES = f"""\
{"0" * 32} 00{NOWHERE}00000400 00000001 00000000 80000001       lo
{"0" * 32} 00{NOWHERE}ffffffff 00000001 00000000 00200200       lo
fd000000000000000000000000000000 40{NOWHERE}00000100 00000001 00000000 00000001     eth0
fd000000000000000000000000000002 80{NOWHERE}00000000 00000002 00000000 80200001     eth0
26001234000000000000000000000000 40{NOWHERE}00000400 00000001 00000000 80000001       lo
"""


@pytest.mark.parametrize(
    ("inet6", "more"), [(INET6, {"::1", "fd00::2", "2600:1234::/64"}), (None, set())], ids=["both", "no IPv6"]
)
def test_what_the_kernel_lists_as_local_is_own_and_a_route_to_another_is_not(
    monkeypatch: pytest.MonkeyPatch, inet6: str | None, more: set[str]
) -> None:
    """Nor is everything, where a table for marked packets has it: no name led anywhere then."""

    def listed(path: str) -> Any:
        text = {"/proc/net/fib_trie": TABLE, "/proc/net/if_inet6": inet6, "/proc/net/ipv6_route": ROUTES}[path]
        if text is None:
            raise FileNotFoundError(path)
        return io.StringIO(text)

    monkeypatch.setattr(builtins, "open", listed)
    found = own_addresses()
    monkeypatch.undo()

    assert found == {"192.0.2.2", "198.51.0.0/16"} | more


def is_ours(address: str) -> bool:
    """Whether a socket can listen there."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as sock:
            sock.bind((address, 0))
    except OSError:
        return False
    return True


def test_the_loopbacks_are_own_where_the_machine_has_them() -> None:
    found = own_addresses()

    for address in ("127.0.0.1", "::1"):
        assert (address in found) is is_ours(address)
