"""K27, K28, K29: keys are pushed into the terminal of whoever started the command, and are typed there later."""

import errno
import platform
from pathlib import Path

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


SETTING = Path("/proc/sys/dev/tty/legacy_tiocsti")  # since Linux 6.2; where it is 0 it takes CAP_SYS_ADMIN


def without_a_sandbox(uid: int) -> str:
    """What is told of keys bare. A kernel that refuses them does so with another error than we do."""
    refused = uid != 0 and SETTING.exists() and SETTING.read_text() == "0\n"
    return str(errno.EIO) if refused else "done"


@pytest.mark.parametrize("name", ["keys", "keys with high bits"])
def test_no_key_is_pushed_into_the_terminal(field: Field, name: str) -> None:
    ground = field.ground()
    ground.own()
    program = PROGRAM.replace("{ioctl}", str(numbers(platform.machine())["ioctl"]))
    words = [PYTHON, "-I", "-S", "-c", program]

    bare = at_terminal([*as_user(ground.uid), *words], ground.workspace, ground.uid).out
    inside = at_terminal([*ringfence_words(field.walls), *words], ground.workspace, ground.uid).out

    assert f"told {name} {without_a_sandbox(ground.uid)}" in bare, bare
    told = [line for line in inside.splitlines() if line.startswith("told")]
    assert told == [f"told {kind} 1" for kind in ("keys", "keys with high bits", "paste", "paste with high bits")], (
        inside
    )
