"""K11: setns enters the namespaces of a process outside."""

import pytest
from tests.attacks.conftest import EVERY_WALL, Field
from tests.attacks.test_k02_ptrace import prepare

PROGRAM = """
def entered(name, kind):
    checked(libc.setns(os.open("/proc/%s/ns/%s" % (EXTRA[0], name), os.O_RDONLY), kind))
attempt("the network", lambda: entered("net", 0x40000000))
attempt("the mounts", lambda: entered("mnt", 0x20000))
attempt("by a pidfd", lambda: checked(libc.setns(os.pidfd_open(int(EXTRA[0])), 0x40000000)))
reach("the call itself", lambda: checked(libc.setns(-1, 0)))
"""


@pytest.mark.needs_root
@EVERY_WALL
def test_no_namespace_outside_is_entered(field: Field) -> None:
    field.repels(PROGRAM, prepare, bare_as_root=True)
