"""The machine's own addresses, as the kernel leads to them: to be reached, one must be named itself."""

import json
import os
import socket
import subprocess
import sys

import pytest

from ringfence.network.own import is_own

UNSHARE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
MACHINE = """
ip link set lo up
ip link add out type veth peer name wire && ip link set wire up && ip link set out up
ip address add 192.0.2.2/24 dev out
ip -6 address add 2600:9::2/64 dev out nodad
ip route add default dev out && ip -6 route add default dev out
ip route add local 198.51.100.0/24 dev lo
ip -6 route add local 2600:1234::/64 dev lo
ip rule add uidrange 0-0 to 5.0.0.0/8 lookup 70 && ip route add local default dev lo table 70
ip rule add ipproto tcp dport 80 to 6.0.0.0/8 lookup 71 && ip route add local 6.6.0.0/16 dev lo table 71
ip -6 rule add uidrange 0-0 to 2605::/32 lookup 72 && ip -6 route add local default dev lo table 72
ip rule add fwmark 1 lookup 73 && ip route add local default dev lo table 73
ip rule add prohibit to 7.0.0.1 && ip route add unreachable 7.0.0.2 && ip route add blackhole 7.0.0.3
"""
ASKED = """
import json, sys
from ringfence.network.own import is_own
print(json.dumps([is_own(address, int(port)) for address, port in json.loads(sys.argv[1])]))
"""
OURS = [
    ("127.0.0.1", 80), ("0.0.0.0", 80), ("::1", 80), ("192.0.2.2", 80), ("2600:9::2", 80), ("192.0.2.255", 80),
    ("198.51.100.7", 80), ("2600:1234::7", 80),  # networks that are led here whole
    ("5.5.5.5", 443), ("6.6.6.6", 80), ("2605::1", 443),  # by a rule, and a table of its own
    ("7.0.0.3", 80),  # dropped, which is not told from a question that is not understood
]  # fmt: skip
ELSEWHERE = [
    ("192.0.2.3", 80), ("2600:9::3", 80), ("8.8.8.8", 80),  # and not for packets that bear a mark
    ("6.6.6.6", 443), ("6.7.7.7", 80), ("7.0.0.1", 80), ("7.0.0.2", 80),
]  # fmt: skip


@pytest.mark.needs_userns
@pytest.mark.needs_program("ip")
def test_what_the_kernel_leads_to_this_machine_is_its_own_by_whatever_rule() -> None:
    asked = [*UNSHARE, "sh", "-ec", f'{MACHINE}exec "$@"', "sh", sys.executable, "-c", ASKED]
    said = subprocess.run([*asked, json.dumps(OURS + ELSEWHERE)], capture_output=True, text=True, timeout=50)

    assert said.returncode == 0, said
    assert json.loads(said.stdout) == [True] * len(OURS) + [False] * len(ELSEWHERE)


def is_ours(address: str) -> bool:
    """Whether a socket can listen there."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as sock:
            sock.bind((address, 0))
    except OSError:
        return False
    return True


def test_the_loopbacks_are_own_where_the_machine_has_them() -> None:
    for address in ("127.0.0.1", "::1"):
        assert is_own(address) is is_ours(address)
