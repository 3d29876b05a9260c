"""K27, K28, K29: keys are pushed into the terminal of whoever started the command, and are typed there later."""

import platform

import pytest
from tests.attacks.conftest import PYTHON, Field, as_user, at_terminal, ringfence_words

from ringfence.plan.numbers import numbers

PROGRAM = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def pushed(name, request, argument):
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long({ioctl}), ctypes.c_long(0), ctypes.c_ulong(request), argument)
    print("told", name, "done" if done == 0 else ctypes.get_errno())
pushed("keys", 0x5412, b"x")
pushed("keys with high bits", 0x100005412, b"x")
pushed("paste", 0x541C, ctypes.create_string_buffer(b"\\x03", 16))
pushed("paste with high bits", 0x20000541C, ctypes.create_string_buffer(b"\\x03", 16))
"""


@pytest.mark.parametrize("name", ["keys", "keys with high bits"])
def test_no_key_is_pushed_into_the_terminal(field: Field, name: str) -> None:
    ground = field.ground()
    ground.own()
    program = PROGRAM.replace("{ioctl}", str(numbers(platform.machine())["ioctl"]))
    words = [PYTHON, "-I", "-S", "-c", program]

    bare = at_terminal([*as_user(ground.uid), *words], ground.workspace, ground.uid).out
    inside = at_terminal([*ringfence_words(field.walls), *words], ground.workspace, ground.uid).out

    assert f"told {name} done" in bare, bare
    told = [line for line in inside.splitlines() if line.startswith("told")]
    assert told == [f"told {kind} 1" for kind in ("keys", "keys with high bits", "paste", "paste with high bits")], (
        inside
    )
