"""K24: modules, kexec, swap, accounting, host name, kernel log, clock: the machine's, not the command's."""

import pytest
from tests.attacks.conftest import Field

PROGRAM = """
import socket, struct, time
reach("finit_module", lambda: syscall(NR.finit_module, -1, b"", 0))
reach("init_module", lambda: syscall(NR.init_module, 0, 0, b""))
reach("delete_module", lambda: syscall(NR.delete_module, b"no-such-module", 0))
reach("kexec_load", lambda: syscall(NR.kexec_load, 0, 99, 0, 0))
reach("swapon", lambda: syscall(NR.swapon, b"/nonexistent", 0))
reach("swapoff", lambda: syscall(NR.swapoff, b"/nonexistent"))
reach("acct", lambda: syscall(NR.acct, b"/nonexistent"))
reach("reboot", lambda: syscall(NR.reboot, 0, 0, 0, 0))
attempt("sethostname", lambda: socket.sethostname(socket.gethostname()))
attempt("syslog", lambda: syscall(NR.syslog, 10, 0, 0))
reach("clock_settime", lambda: syscall(NR.clock_settime, 0, 0))
reach("quotactl", lambda: syscall(NR.quotactl, 0x80000600, b"/nonexistent", 0, 0))
"""


@pytest.mark.needs_root
def test_the_machine_takes_no_commands(field: Field) -> None:
    field.repels(
        PROGRAM, bare_as_root=True, unknown=("kexec_load", "quotactl", "finit_module", "init_module", "delete_module")
    )
