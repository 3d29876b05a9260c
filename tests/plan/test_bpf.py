"""The assembler writes what it was told, however far the jumps; the simulator refuses what the kernel would."""

import struct

import hypothesis
import pytest
from hypothesis import strategies as st
from tests.plan.simulator import WORD, simulate

from ringfence.plan.bpf import (
    ARCH,
    NUMBER,
    And,
    Compare,
    Goto,
    Item,
    Jump,
    Label,
    Load,
    Malformed,
    Return,
    argument,
    assemble,
)

RETURN_ZERO = (0x06, 0, 0, 0)


def code(*instructions: tuple[int, int, int, int]) -> bytes:
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)


def padding(size: int) -> list[Item]:
    return [And(WORD)] * size


def interpret(items: list[Item], words: dict[int, int]) -> int:
    """The items read as they stand, without instructions or offsets."""
    labels = {item.name: place for place, item in enumerate(items) if isinstance(item, Label)}
    accumulator = place = 0
    while True:
        item = items[place]
        place += 1
        if isinstance(item, Return):
            return item.value
        if isinstance(item, Load):
            accumulator = words[item.offset]
        elif isinstance(item, And):
            accumulator &= item.value
        elif isinstance(item, Goto):
            place = labels[item.label]
        elif isinstance(item, Jump):
            holds = {
                Compare.EQUAL: accumulator == item.value,
                Compare.AT_LEAST: accumulator >= item.value,
                Compare.ANY_BIT: accumulator & item.value != 0,
            }[item.compare]
            label = item.true if holds else item.false
            place = labels[label] if label else place


def test_a_program_becomes_the_bytes_of_sock_filter() -> None:
    items: list[Item] = [
        Load(ARCH),
        Jump(Compare.EQUAL, 7, "", "other"),
        Load(argument(1, high=True)),
        And(0xFF),
        Goto("end"),
        Label("other"),
        Return(1),
        Label("end"),
        Return(0x7FFF0000),
    ]

    assert assemble(items) == code(
        (0x20, 0, 0, 4), (0x15, 0, 3, 7), (0x20, 0, 0, 28), (0x54, 0, 0, 0xFF), (0x05, 0, 0, 1), (0x06, 0, 0, 1),
        (0x06, 0, 0, 0x7FFF0000),
    )  # fmt: skip


@pytest.mark.parametrize(("distance", "length"), [(255, 258), (256, 260), (3000, 3004)])
@pytest.mark.parametrize("nr", [5, 6])
@pytest.mark.parametrize("side", [True, False])
def test_a_jump_of_more_than_255_is_lengthened(distance: int, length: int, nr: int, side: bool) -> None:
    jump = Jump(Compare.EQUAL, 5, "far", "") if side else Jump(Compare.EQUAL, 5, "", "far")
    items = [Load(NUMBER), jump, *padding(distance - 1), Return(1), Label("far"), Return(2)]

    program = assemble(items)

    assert len(program) == 8 * length
    assert simulate(program, nr, 0) == (2 if (nr == 5) is side else 1)


@pytest.mark.parametrize("nr", [5, 6])
def test_both_sides_of_a_jump_may_be_far(nr: int) -> None:
    items = [
        Load(NUMBER), Jump(Compare.EQUAL, 5, "one", "two"),
        *padding(300), Label("one"), Return(1), *padding(300), Label("two"), Return(2),
    ]  # fmt: skip

    assert simulate(assemble(items), nr, 0) == (1 if nr == 5 else 2)


def test_lengthening_one_jump_may_push_another_over_the_edge() -> None:
    items = [
        Load(NUMBER), Jump(Compare.EQUAL, 1, "near"), Jump(Compare.EQUAL, 2, "far"),
        *padding(253), Return(0), Label("near"), Return(1), *padding(9), Label("far"), Return(2),
    ]  # fmt: skip

    program = assemble(items)

    assert [simulate(program, nr, 0) for nr in (0, 1, 2)] == [0, 1, 2]


@st.composite
def programs(draw: st.DrawFn) -> list[Item]:
    """Blocks of compares and padding; every jump goes to a later block, the last block returns."""
    blocks = draw(st.integers(2, 6))
    items: list[Item] = []
    for block in range(blocks):
        items.append(Label(f"{block}"))
        later = st.sampled_from(["", *(f"{number}" for number in range(block + 1, blocks))])
        for _ in range(draw(st.integers(0, 3)) if block < blocks - 1 else 0):
            items.append(Load(4 * draw(st.integers(0, 15))))
            items.append(And(draw(st.sampled_from([WORD, 0xFF, 0x80000001]))))
            value = draw(st.sampled_from([0, 1, 2, 0xFE, WORD]))
            items.append(Jump(draw(st.sampled_from(Compare)), value, draw(later), draw(later)))
            items.extend(padding(draw(st.sampled_from([0, 1, 100, 253, 254, 255, 256]))))
        items.append(Return(block))
    return items


@hypothesis.given(programs(), st.lists(st.sampled_from([0, 1, 2, 3, 0xFE, 0xFF, WORD]), min_size=16, max_size=16))
def test_the_simulator_agrees_with_a_plain_reading_of_the_items(items: list[Item], words: list[int]) -> None:
    wide = [low | high << 32 for low, high in zip(words[2::2], words[3::2], strict=True)]

    answer = simulate(assemble(items), words[0], words[1], wide[1:], wide[0])

    assert answer == interpret(items, {4 * place: word for place, word in enumerate(words)})


@pytest.mark.parametrize(
    ("items", "fault"),
    [
        ([Jump(Compare.EQUAL, 1, "nowhere"), Return(0)], "no label 'nowhere'"),
        ([Goto("nowhere"), Return(0)], "no label 'nowhere'"),
        ([Label("here"), Load(0), Goto("here"), Return(0)], "label 'here' lies behind"),
        ([Label("here"), Label("here"), Return(0)], "label 'here' stands twice"),
        ([Load(0)], "the last instruction does not return"),
        ([Label("end")], "0 instructions"),
        ([*padding(4096), Return(0)], "4097 instructions"),
        ([Load(2), Return(0)], "no word at offset 2"),
    ],
)
def test_a_program_that_cannot_be_written_is_refused(items: list[Item], fault: str) -> None:
    with pytest.raises(Malformed, match=fault):
        assemble(items)


def test_the_longest_program_is_taken() -> None:
    assert simulate(assemble([*padding(4095), Return(9)]), 0, 0) == 9


@pytest.mark.parametrize(
    "program",
    [
        b"",
        b"\x06",
        code(RETURN_ZERO)[:-1],
        code((0x20, 0, 0, 0)),
        code((0x20, 0, 0, 64), RETURN_ZERO),
        code((0x20, 0, 0, 3), RETURN_ZERO),
        code((0x05, 0, 0, 1), RETURN_ZERO),
        code((0x05, 0, 0, 0xFFFFFFFF), RETURN_ZERO),
        code((0x15, 1, 0, 0), RETURN_ZERO),
        code((0x15, 0, 255, 0), RETURN_ZERO),
        code((0x30, 0, 0, 0), RETURN_ZERO),  # a byte instead of a word
        code((0x99, 0, 0, 0), RETURN_ZERO),
        code(*[RETURN_ZERO] * 4097),
    ],
    ids=lambda program: program[:16].hex() or "empty",
)
def test_a_malformed_program_is_refused(program: bytes) -> None:
    with pytest.raises(Malformed):
        simulate(program, 0, 0)


def test_the_simulator_sees_the_data_as_the_kernel_lays_it_out() -> None:
    program = {
        offset: code((0x20, 0, 0, offset), (0x45, 0, 1, WORD), RETURN_ZERO, (0x06, 0, 0, 1))
        for offset in range(0, 64, 4)
    }
    data = [-1, 0, 0, 0x1, 0, 0x1 << 32, 0, 0, 0]  # nr, arch, ip, args

    unset = [offset for offset, each in program.items() if simulate(each, data[0], data[1], data[3:], data[2]) == 1]

    assert sorted(set(range(0, 64, 4)) - set(unset)) == [NUMBER, argument(0), argument(2, high=True)]
