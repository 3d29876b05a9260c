"""Classic BPF as seccomp takes it: an assembler with labels.

Pure, and without an opinion about system calls. The assembler knows only the few instructions whose result the kernel
can foresee (seccomp_is_const_allow in kernel/seccomp.c), so that calls allowed whatever their arguments never run the
program at all. What it made is checked as the kernel does at installation (bpf_check_classic and seccomp_check_filter).
"""

import enum
import functools
import struct
from collections.abc import Iterator, Sequence

import msgspec

LONGEST = 4096  # BPF_MAXINSNS
FARTHEST = 255  # a conditional jump counts in one byte; an unconditional one in four

# struct seccomp_data: int nr; u32 arch; u64 instruction_pointer; u64 args[6]
NUMBER = 0
ARCH = 4
ARGUMENTS = 16
DATA_SIZE = 64

LOAD_WORD = 0x20  # BPF_LD | BPF_W | BPF_ABS
AND_VALUE = 0x54  # BPF_ALU | BPF_AND | BPF_K
GO_TO = 0x05  # BPF_JMP | BPF_JA
RETURN = 0x06  # BPF_RET | BPF_K

_INSTRUCTION = struct.Struct("<HBBI")  # struct sock_filter: code, jt, jf, k


class Malformed(ValueError):
    """A program that the kernel would refuse, or that cannot be written in its instructions."""


class Compare(enum.IntEnum):
    """How a conditional jump compares the accumulator with its value (BPF_JMP | BPF_K)."""

    EQUAL = 0x15
    AT_LEAST = 0x35
    ANY_BIT = 0x45


class Load(msgspec.Struct, frozen=True):
    """Put the word at this offset of struct seccomp_data into the accumulator."""

    offset: int


class And(msgspec.Struct, frozen=True):
    """Keep these bits of the accumulator."""

    value: int


class Jump(msgspec.Struct, frozen=True):
    """Go to one of two labels; the empty label is the next instruction."""

    compare: Compare
    value: int
    true: str = ""
    false: str = ""


class Goto(msgspec.Struct, frozen=True):
    """Go to a label, however far ahead."""

    label: str


class Label(msgspec.Struct, frozen=True):
    """A place to jump to."""

    name: str


class Return(msgspec.Struct, frozen=True):
    """End with this answer."""

    value: int


Item = Load | And | Jump | Goto | Label | Return
_Far = set[tuple[int, bool]]  # (index of a Jump, which side): sides that reach their label over a Goto of their own


def argument(index: int, high: bool = False) -> int:
    """The offset of one half of an argument; both architectures are little endian."""
    return ARGUMENTS + 8 * index + (4 if high else 0)


def assemble(items: Sequence[Item]) -> bytes:
    """The program as an array of struct sock_filter. Jumps too far for their byte are lengthened."""
    far: _Far = set()
    while True:
        places, labels = _lay_out(items, far)
        more = far | set(_too_far(items, places, labels))
        if more == far:  # lengthening one jump can push another beyond its byte, but each only once
            break
        far = more
    program = b"".join(_encode(item, index, places[index], labels, far) for index, item in enumerate(items))
    check(program)
    return program


def _lay_out(items: Sequence[Item], far: _Far) -> tuple[list[int], dict[str, int]]:
    """Where each item starts, and where each label points."""
    places: list[int] = []
    labels: dict[str, int] = {}
    place = 0
    for index, item in enumerate(items):
        places.append(place)
        if type(item) is Label:
            if item.name in labels:
                raise Malformed(f"label {item.name!r} stands twice")
            labels[item.name] = place
        else:
            place += 1 + ((index, True) in far) + ((index, False) in far)
    return places, labels


def _too_far(items: Sequence[Item], places: list[int], labels: dict[str, int]) -> Iterator[tuple[int, bool]]:
    """The sides of jumps that one byte cannot reach."""
    for index, item in enumerate(items):
        if type(item) is Jump:
            if item.true and _ahead(labels, item.true, places[index]) > FARTHEST:
                yield index, True
            if item.false and _ahead(labels, item.false, places[index]) > FARTHEST:
                yield index, False


def _ahead(labels: dict[str, int], label: str, place: int) -> int:
    """How many instructions lie between the one at this place and the label: only forward, as in the kernel."""
    if label not in labels:
        raise Malformed(f"no label {label!r}")
    if labels[label] <= place:
        raise Malformed(f"label {label!r} lies behind: only forward jumps end")
    return labels[label] - place - 1


def _encode(item: Item, index: int, place: int, labels: dict[str, int], far: _Far) -> bytes:
    if isinstance(item, Jump):
        return _encode_jump(item, place, labels, (index, True) in far, (index, False) in far)
    if isinstance(item, Load):
        return _INSTRUCTION.pack(LOAD_WORD, 0, 0, item.offset)
    if isinstance(item, And):
        return _INSTRUCTION.pack(AND_VALUE, 0, 0, item.value)
    if isinstance(item, Return):
        return _INSTRUCTION.pack(RETURN, 0, 0, item.value)
    if isinstance(item, Goto):
        return _INSTRUCTION.pack(GO_TO, 0, 0, _ahead(labels, item.label, place))
    return b""  # a label


def _encode_jump(jump: Jump, place: int, labels: dict[str, int], true_far: bool, false_far: bool) -> bytes:
    """The jump, and behind it a Goto for each side that is too far; an empty label steps over these."""
    if not true_far and not false_far:
        true = labels[jump.true] - place - 1 if jump.true else 0
        false = labels[jump.false] - place - 1 if jump.false else 0
        return _INSTRUCTION.pack(jump.compare, true, false, jump.value)
    gotos = [jump.true] * true_far + [jump.false] * false_far

    def offset(label: str, goto: int | None) -> int:
        if goto is not None:
            return goto
        return _ahead(labels, label, place) if label else len(gotos)

    true = offset(jump.true, 0 if true_far else None)
    false = offset(jump.false, len(gotos) - 1 if false_far else None)
    encoded = _INSTRUCTION.pack(jump.compare, true, false, jump.value)
    for nth, label in enumerate(gotos, start=1):
        encoded += _INSTRUCTION.pack(GO_TO, 0, 0, _ahead(labels, label, place + nth))
    return encoded


@functools.lru_cache(maxsize=16)
def check(program: bytes) -> tuple[tuple[int, int, int, int], ...]:
    """The instructions, if the kernel would take them. Instructions we never write are refused too."""
    if len(program) % _INSTRUCTION.size:
        raise Malformed(f"{len(program)} bytes are no whole number of instructions")
    instructions = tuple(_INSTRUCTION.iter_unpack(program))
    if not 0 < len(instructions) <= LONGEST:
        raise Malformed(f"{len(instructions)} instructions; the kernel takes 1 to {LONGEST}")
    for place, (code, true, false, value) in enumerate(instructions):
        wrong = _wrong(code, true, false, value, left=len(instructions) - place - 1)
        if wrong:
            raise Malformed(f"instruction {place}: {wrong}")
    if instructions[-1][0] != RETURN:
        raise Malformed("the last instruction does not return")
    return instructions


def _wrong(code: int, true: int, false: int, value: int, left: int) -> str:
    """What the kernel would object to in an instruction with this many behind it."""
    if code == LOAD_WORD:
        return f"no word at offset {value}" if value >= DATA_SIZE or value % 4 else ""
    if code == GO_TO:
        return f"jumps {value} ahead of {left}" if value >= left else ""
    if code in _COMPARES:
        return f"jumps {max(true, false)} ahead of {left}" if max(true, false) >= left else ""
    return "" if code in (AND_VALUE, RETURN) else f"unknown code {code:#x}"


_COMPARES = frozenset(int(compare) for compare in Compare)
