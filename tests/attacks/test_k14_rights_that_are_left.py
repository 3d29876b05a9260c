"""K14, K15, K16: no_new_privs, no capabilities, a filter: in every mode."""

import pytest
from tests.attacks.conftest import EVERY_WALL, Field

PROGRAM = """
with open("/proc/self/status") as file:
    status = dict(line.split(":", 1) for line in file.read().splitlines())
def unless(held):
    if held:
        raise OSError(errno.EPERM, "held")
attempt("new privileges", lambda: unless(int(status["NoNewPrivs"]) == 1))
attempt("every call", lambda: unless(int(status["Seccomp"]) == 2))
for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
    attempt(name, lambda: unless(int(status[name], 16) == 0))
"""


@pytest.mark.needs_root
@EVERY_WALL
def test_no_rights_are_left(field: Field) -> None:
    field.repels(PROGRAM, bare_as_root=True, unknown=("CapInh", "CapAmb"))


@EVERY_WALL
def test_no_way_back_to_rights_is_left(field: Field) -> None:
    program = 'attempt("every call", lambda: checked(libc.unshare(0x10000000)))'
    field.repels(program)


@EVERY_WALL
def test_root_can_be_given_no_capability_at_exec(field: Field) -> None:
    seen = field.program(field.ground(), "print(*[line for line in open('/proc/self/status') if line[:6] == 'CapBnd'])")

    bounding = seen.said.split()[-1]  # to others no_new_privs gives none, whatever the set holds
    assert field.walls.uid != 0 or bounding == "0" * 16, seen.said


@EVERY_WALL
def test_a_setuid_program_gives_nothing(field: Field) -> None:
    outcome = field.run(field.ground(), ["sh", "-c", "for p in su sudo mount newuidmap; do command -v $p; done; id -u"])

    assert (outcome.stdout or b"").split()[-1] == str(field.walls.uid).encode(), outcome
