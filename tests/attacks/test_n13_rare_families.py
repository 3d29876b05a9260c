"""N13: sockets to the hypervisor, to the kernel's cryptography, to its tables, to other buses."""

import pytest
from tests.attacks.conftest import ROOT, Field

PROGRAM = """
import socket
FAMILIES = {"ax25": 3, "ipx": 4, "appletalk": 5, "netlink of routes": (16, 3, 0), "netlink of sockets": (16, 3, 4),
            "netlink of packets": (16, 3, 12), "netlink of audit": (16, 3, 9), "netlink of devices": (16, 3, 15),
            "rds": 21, "ppp": 24, "can": 29, "tipc": 30, "bluetooth": 31, "cryptography": (38, 5, 0),
            "the hypervisor": (40, 1, 0), "kcm": 41, "shared memory": 43, "express data": 44, "management": 45}
for name, family in FAMILIES.items():
    attempt(name, lambda: socket.socket(*(family if isinstance(family, tuple) else (family, 2, 0))))
"""
OWN = ("netlink of routes",)  # in a network namespace of its own it tells only of that


def test_no_rare_family_is_opened(field: Field) -> None:
    every = (
        "ax25 ipx appletalk rds ppp can tipc bluetooth kcm management|netlink of sockets|netlink of packets|"
        "netlink of audit|netlink of devices|cryptography|the hypervisor|shared memory|express data"
    )
    unknown = [name for part in every.split("|") for name in (part.split() if "ax25" in part else [part])]
    program = PROGRAM.replace('"netlink of routes": (16, 3, 0), ', "")
    field.repels(program, unknown=unknown, bare_as_root=ROOT)


@pytest.mark.needs_userns
def test_interfaces_can_be_listed_where_they_are_the_runs_own(field: Field) -> None:
    if field.walls.kind != "view":
        return  # without a namespace of its own they would be the host's
    program = 'import socket; print("interfaces", *(name for _, name in socket.if_nameindex()))'
    seen = field.program(field.ground(), program)

    assert seen.said.splitlines()[1:] == ["interfaces lo"], seen.said
