"""A simulator of seccomp's BPF: a program is checked as the kernel does it and then run, so that a filter is tested for
any architecture on any machine."""

import struct
from collections.abc import Sequence

from ringfence.plan.bpf import AND_VALUE, GO_TO, LOAD_WORD, RETURN, Compare, check

WORD = 0xFFFFFFFF
_DATA = struct.Struct("<IIQ6Q")


def simulate(program: bytes, nr: int, arch: int, args: Sequence[int] = (), instruction_pointer: int = 0) -> int:
    """What the kernel would answer to this call: the 32 bits that the program returns."""
    instructions = check(program)
    values = [value & 0xFFFFFFFFFFFFFFFF for value in (*args, 0, 0, 0, 0, 0, 0)[:6]]
    data = _DATA.pack(nr & WORD, arch & WORD, instruction_pointer & 0xFFFFFFFFFFFFFFFF, *values)
    accumulator = place = 0
    while True:
        code, true, false, value = instructions[place]
        place += 1
        if code == RETURN:
            return value
        if code == LOAD_WORD:
            accumulator = int.from_bytes(data[value : value + 4], "little")
        elif code == AND_VALUE:
            accumulator &= value
        elif code == GO_TO:
            place += value
        else:
            place += true if _holds(code, accumulator, value) else false


def _holds(code: int, accumulator: int, value: int) -> bool:
    if code == Compare.EQUAL:
        return accumulator == value
    if code == Compare.AT_LEAST:
        return accumulator >= value
    return bool(accumulator & value)
