"""The two readers of a plan agree on every input, and what was encoded is what is read.

enact.py is the specification. The check of enact.c runs under sanitizers in a process of its own (tests/fuzz), which is
given thousands of valid, damaged and arbitrary plans. An example of hypothesis is a seed for a batch of them; `make
fuzz` tries some millions.
"""

import contextlib
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
from tests.enforce.conftest import STREAMS, execute, step

from ringfence.enforce import enact, wire
from ringfence.model import Step, StepKind

assert sys.platform == "linux"

BATCH = 200
OWN_MOUNTS = 0x10020000
WELL_FORMED = -1


class Checker:
    """The check of enact.c, asked about one batch after the other."""

    def __init__(self, program: Path, report: Path) -> None:
        self.report = report
        with report.open("wb") as file:
            self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file)

    def faults(self, plans: list[bytes]) -> list[int]:
        process = self.process
        assert process.stdin
        assert process.stdout
        with contextlib.suppress(BrokenPipeError):  # the report says more
            process.stdin.write(b"".join(struct.pack("<I", len(plan)) + plan for plan in plans))
            process.stdin.flush()
        answers = process.stdout.read(8 * len(plans))
        assert len(answers) == 8 * len(plans), self.report.read_text()
        return list(struct.unpack(f"<{len(plans)}q", answers))

    def close(self) -> None:
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0, self.report.read_text()


@pytest.fixture(scope="module")
def checker(harness: Path) -> Iterator[Checker]:
    with tempfile.TemporaryDirectory() as scratch:
        made = Checker(harness, Path(scratch, "report"))
        yield made
        made.close()


# ---- A generator of plans: valid ones, then damaged ones ----

KINDS = sorted(enact.SHAPES)
INNER = [kind for kind in KINDS if kind not in enact.LAST]
FINISHED_BY = dict(enact.HALVES)
EDGES = (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 24, 170, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0xFFFFFFF8, 0xFFFFFFFF)


def random_step(rng: random.Random, kind: int) -> bytes:
    count, least, most, _, _ = enact.SHAPES[kind]
    numbers = [rng.choice((0, 1, 2, rng.getrandbits(64))) for _ in range(count)]
    strings = [rng.randbytes(rng.randrange(20)).replace(b"\0", b"x") for _ in range(rng.randint(least, min(most, 6)))]
    if kind == StepKind.NAMESPACES:
        numbers[0] |= OWN_MOUNTS
    if kind == StepKind.LISTEN:
        numbers = [rng.choice((2, 10)), rng.choice((1, 2)), rng.randint(1, 65535)]
    if kind == StepKind.STREAM:
        numbers[0] %= 3
    if kind == StepKind.SECCOMP:
        numbers, strings = [0], [rng.randbytes(8 * rng.randint(1, 5))]
    if kind == StepKind.WARDEN:
        numbers = [rng.randrange(2)]
    if kind == StepKind.NAME:
        numbers, strings = [rng.randrange(9), rng.randrange(1, 5)], [b"n" * rng.choice((1, 2, 255))]
        strings = [b"/".join(strings * (1 if numbers[1] == 2 else rng.randrange(1, 4)))]
    if kind == StepKind.OBSERVE:
        numbers = [rng.randrange(1, 8)]
    if kind == StepKind.PATTERN:
        numbers, strings = (
            [rng.randrange(2), rng.randrange(3), rng.randrange(256)],
            [b"**", b"[a-z]*"] * rng.randrange(4),
        )
    if kind == StepKind.EXEC:
        numbers[0] = rng.randrange(1, len(strings))
    if kind == StepKind.TERMINAL:
        numbers = [rng.randrange(1, 8)]
    if kind in (StepKind.NURSERY, StepKind.JOIN):
        numbers = [rng.randrange(3, 1 << 24) for _ in numbers]
    if kind == StepKind.AWAIT:
        numbers = [rng.randrange(3, 1 << 24), rng.randrange(1 << 24)]
    return wire.encode_step(Step(StepKind(kind), "", tuple(numbers), tuple(strings)))


def random_kinds(rng: random.Random) -> list[int]:
    """Kinds in order, with what each needs and what finishes it."""
    last = rng.choice((StepKind.EXEC, StepKind.EXEC, StepKind.AWAIT))
    chosen = {*rng.sample(INNER, rng.randrange(8)), StepKind.STREAMS, last}
    for kind in reversed(KINDS):  # what a kind needs comes before it, and may need something itself
        if kind in chosen:
            chosen.add(enact.SHAPES[kind][4] or kind)
    if StepKind.WARDEN in chosen:  # the one whose number may be 1
        chosen.add(StepKind.NAMESPACES)
    if StepKind.BUBBLEWRAP in chosen:  # it makes namespaces and mounts, and then nobody else does
        chosen -= {kind for kind in chosen if StepKind.NAMESPACES <= kind <= StepKind.ATTACH} | {StepKind.LOCK}
        chosen.add(StepKind.WARDEN)
    chosen |= {end for begin, end in FINISHED_BY.items() if begin in chosen}
    return [kind for kind in sorted(chosen) for _ in range(rng.randint(1, 3) if enact.SHAPES[kind][3] else 1)]


def random_steps(rng: random.Random) -> list[bytes]:
    kinds = random_kinds(rng)
    steps = [random_step(rng, kind) for kind in kinds]
    if StepKind.BUBBLEWRAP in kinds:
        steps[kinds.index(StepKind.WARDEN)] = wire.encode_step(step(StepKind.WARDEN, 1))
    return steps


def joined(steps: list[bytes]) -> bytes:
    return wire.whole(len(steps), steps)


def swapped(rng: random.Random, steps: list[bytes]) -> list[bytes]:
    i, j = rng.randrange(len(steps)), rng.randrange(len(steps))
    steps[i], steps[j] = steps[j], steps[i]
    return steps


def repeated(rng: random.Random, steps: list[bytes]) -> list[bytes]:
    at = rng.randrange(len(steps))
    return [*steps[:at], steps[at], *steps[at:]]


def dropped(rng: random.Random, steps: list[bytes]) -> list[bytes]:
    at = rng.randrange(len(steps))
    return steps[:at] + steps[at + 1 :]


def edged(rng: random.Random, data: bytearray) -> bytearray:
    """A 32-bit field somewhere gets a value at the edge of something."""
    at = rng.randrange(0, max(1, len(data) - 4), 4)
    data[at : at + 4] = rng.choice((*EDGES, len(data), len(data) - at)).to_bytes(4, "little")
    return data


def field(rng: random.Random, data: bytearray) -> bytearray:
    """A field of some step's own head is changed by a little."""
    starts, at = [], 24
    while at + 16 <= len(data):
        starts.append(at)
        at += max(16, struct.unpack_from("<I", data, at + 8)[0])
    if starts:
        at = rng.choice(starts) + rng.choice((0, 2, 4, 8, 12, 16, 24))
        if at + 2 <= len(data):
            value = struct.unpack_from("<H", data, at)[0]
            struct.pack_into("<H", data, at, (value + rng.choice((-16, -8, -1, 1, 8, 16))) % 65536)
    return data


def flipped(rng: random.Random, data: bytearray) -> bytearray:
    for _ in range(rng.randint(1, 3)):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def cut(rng: random.Random, data: bytearray) -> bytearray:
    return data[: rng.randrange(len(data) + 1)]


def grown(rng: random.Random, data: bytearray) -> bytearray:
    return data + rng.choice((bytes(8), bytes(16), rng.randbytes(rng.randrange(40)), b"\x01"))


def resized(rng: random.Random, data: bytearray) -> bytearray:
    """Cut or grown, and the header says so."""
    data = rng.choice((cut, grown))(rng, data)
    if len(data) >= 24:
        struct.pack_into("<I", data, 12, len(data))
    return data


def arbitrary(rng: random.Random, _data: bytearray) -> bytearray:
    header = wire.HEADER.pack(wire.MAGIC, wire.VERSION, 24 + (size := rng.randrange(80)), rng.randrange(4), 0)
    return bytearray(rng.choice((b"", header)) + rng.randbytes(size))


OF_STEPS = (swapped, repeated, dropped)
OF_BYTES = (edged, field, flipped, cut, grown, resized, arbitrary)


def random_plan(rng: random.Random) -> bytes:
    steps = random_steps(rng)
    for reorder in rng.sample(OF_STEPS, rng.choice((0, 0, 1, 2))):
        steps = reorder(rng, steps) if steps else steps
    data = bytearray(joined(steps))
    if rng.random() < 0.2:  # the count says another number
        struct.pack_into("<I", data, 16, rng.choice((0, len(steps) - 1 if steps else 5, len(steps) + 1, 65536, 65537)))
    for change in rng.sample(OF_BYTES, rng.choice((0, 0, 1, 1, 2))):
        data = change(rng, data)
    return bytes(data)


@hypothesis.given(st.integers(0, 2**64 - 1))
def test_both_enactors_find_the_same_first_fault_in_any_plan(checker: Checker, seed: int) -> None:
    rng = random.Random(seed)
    plans = [random_plan(rng) for _ in range(BATCH)]

    ours = [enact.read_plan(plan)[0] for plan in plans]

    theirs = checker.faults(plans)
    assert [(plan.hex(), a, b) for plan, a, b in zip(plans, ours, theirs, strict=True) if a != b] == []


def test_the_generator_makes_plans_that_are_accepted_and_plans_that_are_refused_at_many_steps() -> None:
    rng = random.Random(1)

    faults = [enact.read_plan(random_plan(rng))[0] for _ in range(5_000)]

    assert faults.count(WELL_FORMED) > 500
    assert {*range(8)} <= {*faults}


@hypothesis.given(st.randoms(use_true_random=False))
def test_every_plan_that_was_not_damaged_is_accepted(checker: Checker, rng: random.Random) -> None:
    plan = joined(random_steps(rng))

    assert [enact.read_plan(plan)[0], *checker.faults([plan])] == [WELL_FORMED, WELL_FORMED]


NUMBERS = st.integers(0, 2**64 - 1)
TEXTS = st.binary(max_size=40).map(lambda text: text.replace(b"\0", b""))


@st.composite
def valid_steps(draw: st.DrawFn) -> tuple[Step, ...]:
    """Steps of every kind that Python's types allow and the format accepts."""
    steps: list[Step] = []
    for kind in map(StepKind, random_kinds(draw(st.randoms(use_true_random=False)))):
        count, least, most, _, _ = enact.SHAPES[kind]
        numbers = draw(st.tuples(*[NUMBERS] * count))
        strings = tuple(draw(st.lists(TEXTS, min_size=least, max_size=min(most, 8))))
        if kind is StepKind.NAMESPACES:
            numbers = (numbers[0] | OWN_MOUNTS,)
        elif kind is StepKind.LISTEN:
            numbers = (draw(st.sampled_from((2, 10))), draw(st.sampled_from((1, 2))), draw(st.integers(1, 65535)))
        elif kind is StepKind.STREAM:
            numbers = (numbers[0] % 3, *numbers[1:])
        elif kind is StepKind.WARDEN:
            numbers = (1 if any(one.kind is StepKind.BUBBLEWRAP for one in steps) else numbers[0] % 2,)
        elif kind is StepKind.NAME:
            numbers, strings = (
                (numbers[0], 1 + numbers[1] % 4),
                (b"/".join(filter(None, strings[0].split(b"/"))) or b"n",),
            )
            strings = (strings[0].replace(b"/", b"n"),) if numbers[1] == 2 else strings
        elif kind is StepKind.OBSERVE:
            numbers = (draw(st.integers(1, 7)),)
        elif kind is StepKind.PATTERN:
            numbers = (numbers[0] % 2, numbers[1] % 3, numbers[2] % 256)
            strings = tuple(text.replace(b"[", b"").replace(b"/", b"") or b"*" for text in strings)
        elif kind is StepKind.SECCOMP:
            numbers = (0,)
            strings = (draw(st.binary(min_size=1, max_size=8)) * 8,)
        elif kind is StepKind.EXEC:
            numbers = (draw(st.integers(1, len(strings) - 1)),)
        elif kind is StepKind.TERMINAL:
            numbers = (draw(st.integers(1, 7)),)
        elif kind in (StepKind.NURSERY, StepKind.JOIN):
            numbers = tuple(draw(st.integers(3, (1 << 24) - 1)) for _ in numbers)
        elif kind is StepKind.AWAIT:
            numbers = (draw(st.integers(3, (1 << 24) - 1)), draw(st.integers(0, (1 << 24) - 1)))
        steps.append(Step(kind, "", numbers, strings))
    return tuple(steps)


@hypothesis.given(valid_steps())
def test_what_is_encoded_is_what_is_read(steps: tuple[Step, ...]) -> None:
    fault, parsed = enact.read_plan(wire.encode(steps))

    assert fault == WELL_FORMED
    assert [(kind, numbers, tuple(strings)) for kind, numbers, strings in parsed] == [
        (step.kind, step.numbers, step.strings) for step in steps
    ]


# ---- The edges, one by one ----


def whole(*steps: Step) -> bytes:
    return wire.encode((*steps, STREAMS, execute("/bin/true")))


def in_order(*steps: Step) -> bytes:
    return wire.encode(steps)


def counted(count: int) -> bytes:
    limits = [wire.encode_step(step(StepKind.LIMIT, 4, 0, 0))] * (count - 2)
    return joined([*limits, *map(wire.encode_step, (STREAMS, execute("/bin/true")))])


def words(count: int) -> bytes:
    """An exec with so many strings: the path is one of them."""
    return in_order(STREAMS, step(StepKind.EXEC, 1, strings=(b"/bin/true",) * count))


def filtered(size: int) -> bytes:
    return in_order(STREAMS, step(StepKind.SECCOMP, 0, strings=(bytes(size),)), execute("/bin/true"))


def trailing() -> bytes:
    data = bytearray(whole() + bytes(8))
    struct.pack_into("<I", data, 12, len(data))
    return bytes(data)


def padded() -> bytes:
    """A step with eight bytes more than it needs."""
    data = bytearray(wire.encode_step(TRUE) + bytes(8))
    struct.pack_into("<I", data, 8, len(data))
    return joined([wire.encode_step(STREAMS), bytes(data)])


def patched(at: int, value: int, size: int = 4) -> Callable[[], bytes]:
    """A good plan of two steps with one field changed."""

    def plan() -> bytes:
        data = bytearray(whole())
        data[at : at + size] = value.to_bytes(size, "little")
        return bytes(data)

    return plan


NAMESPACES = step(StepKind.NAMESPACES, OWN_MOUNTS)
VIEW, ATTACH = step(StepKind.VIEW, 0), step(StepKind.ATTACH)
WARDEN, PROC, COMMAND = step(StepKind.WARDEN, 1), step(StepKind.PROC, 1), step(StepKind.COMMAND)
LOCK = step(StepKind.LOCK, 0, 0, 0, 0)
PARENT, NAME = step(StepKind.PARENT, 1, 2, strings=(b"/",)), step(StepKind.NAME, 0, 1, strings=(b"n",))
LISTENING = step(StepKind.SECCOMP, 1, strings=(bytes(8),))
RULESET, RESTRICT = step(StepKind.RULESET, 1, 0, 0), step(StepKind.RESTRICT)
MOUNT = step(StepKind.MOUNT, 3, 0, 0, 0, 0, 0, strings=(b"/x",))
BENEATH = step(StepKind.BENEATH, 1, 0, 0, strings=(b"/x",))
PORT, ID_MAP = step(StepKind.PORT, 1, 80), step(StepKind.ID_MAP, 0, 0, 0, 0)
BUBBLEWRAP, VERIFY = step(StepKind.BUBBLEWRAP, strings=(b"/x",)), step(StepKind.VERIFY, 0, 0, 0, strings=(b"/x",))
TRUE = execute("/bin/true")

ROWS: list[tuple[str, Callable[[], bytes], int]] = [
    ("two steps", whole, -1),
    ("no bytes", lambda: b"", 0),
    ("a header and no steps", lambda: joined([]), 0),
    ("another magic", patched(6, 0x32, 1), 0),
    ("another version", patched(8, 2), 0),
    ("a size that is too small", patched(12, 24), 0),
    ("a count of none", patched(16, 0), 0),
    ("a count that is too high", patched(16, 3), 1),
    ("a count that is too low", patched(16, 1), 0),
    ("bytes after the last step", trailing, 1),
    ("a header field that must be zero", patched(20, 1), 0),
    ("a step field that must be zero", patched(24 + 12, 1), 0),
    ("a kind nobody knows", patched(24, 133, 2), 0),
    ("a step too small for itself", patched(24 + 8, 8), 0),
    ("a step that is not a multiple of eight", patched(24 + 8, 20), 0),
    ("a step beyond the end", patched(24 + 8, 0xFFFFFFF8), 0),
    ("a number too many", patched(24 + 2, 1, 2), 0),
    ("a string too many", patched(24 + 4, 1), 0),
    ("as many strings as 32 bits hold", patched(40 + 4, 0xFFFFFFFF), 1),
    ("a string length beyond the end", patched(40 + 24, 0xFFFFFFFF), 1),
    ("a string that leaves no room for its end", patched(78, 14), 1),
    ("more padding than is needed", padded, 1),
    ("a mount nowhere", lambda: whole(NAMESPACES, VIEW, step(StepKind.MOUNT, 3, 0, 0, 0, 0, 0), ATTACH), 2),
    ("a rule for no path", lambda: in_order(RULESET, step(StepKind.BENEATH, 1, 0, 0), RESTRICT, STREAMS, TRUE), 1),
    ("no word for the program", patched(40 + 16, 0, 8), 1),
    ("more arguments than strings", patched(40 + 16, 2, 8), 1),
    ("as many steps as allowed", lambda: counted(65536), -1),
    ("one step more than allowed", lambda: counted(65537), 0),
    ("as many words as allowed", lambda: words(262144), -1),
    ("one word more than allowed", lambda: words(262145), 1),
    ("no environment and no arguments", lambda: words(1), 1),
    ("no filter", lambda: filtered(0), 1),
    ("half a filter instruction", lambda: filtered(12), 1),
    ("the longest filter", lambda: filtered(4096 * 8), -1),
    ("a filter that is too long", lambda: filtered(4097 * 8), 1),
    ("a NUL in a string", lambda: in_order(STREAMS, execute("/bin/true", b"a\0b")), 1),
    ("padding that is not zero", lambda: whole()[:-1] + b"\1", 1),
    ("exec twice", lambda: in_order(STREAMS, TRUE, TRUE), 1),
    ("no exec", lambda: in_order(STREAMS), 0),
    ("a step back", lambda: in_order(step(StepKind.SESSION), step(StepKind.NO_NEW_PRIVS), STREAMS, TRUE), 1),
    ("a single step twice", lambda: in_order(STREAMS, STREAMS, TRUE), 1),
    ("a repeating step twice", lambda: in_order(*[step(StepKind.LIMIT, 4, 0, 0)] * 2, STREAMS, TRUE), -1),
    ("streams unchecked", lambda: in_order(TRUE), 0),
    ("stream 3", lambda: whole(step(StepKind.STREAM, 3, 0, 0, 0, 0, strings=(b"/x",))), 0),
    ("namespaces without mounts of its own", lambda: whole(step(StepKind.NAMESPACES, 0x10000000)), 0),
    ("namespaces without a user of its own", lambda: whole(step(StepKind.NAMESPACES, 0x00020000)), 0),
    ("an id map of the host", lambda: whole(ID_MAP), 0),
    ("a loopback of the host", lambda: whole(step(StepKind.LOOPBACK)), 0),
    ("a listener of the host", lambda: whole(NAMESPACES, step(StepKind.LISTEN, 2, 1, 53)), 1),
    ("a listener", lambda: whole(NAMESPACES, step(StepKind.LOOPBACK), step(StepKind.LISTEN, 2, 1, 53)), -1),
    ("a raw listener", lambda: whole(NAMESPACES, step(StepKind.LOOPBACK), step(StepKind.LISTEN, 2, 3, 53)), 2),
    ("a listener at no port", lambda: whole(NAMESPACES, step(StepKind.LOOPBACK), step(StepKind.LISTEN, 2, 1, 0)), 2),
    ("a view of the host's own mounts", lambda: whole(VIEW, ATTACH), 0),
    ("a view", lambda: whole(NAMESPACES, VIEW, MOUNT, ATTACH), -1),
    ("a view that nobody enters", lambda: whole(NAMESPACES, VIEW), 3),
    ("a mount without a view", lambda: whole(NAMESPACES, MOUNT), 1),
    ("entering no view", lambda: whole(NAMESPACES, ATTACH), 1),
    ("a warden", lambda: whole(NAMESPACES, WARDEN, PROC, COMMAND), -1),
    ("a warden with nothing to watch", lambda: whole(NAMESPACES, WARDEN), 3),
    ("a warden among the host's processes", lambda: whole(WARDEN, COMMAND), 0),
    ("a warden without a namespace", lambda: whole(step(StepKind.WARDEN, 0), COMMAND), -1),
    ("a warden of another kind", lambda: whole(step(StepKind.WARDEN, 2), COMMAND), 0),
    ("a table", lambda: whole(step(StepKind.WARDEN, 0), PARENT, NAME, COMMAND), -1),
    ("a table nobody reads", lambda: whole(PARENT, NAME), 0),
    ("a name in no directory", lambda: whole(step(StepKind.WARDEN, 0), NAME, COMMAND), 1),
    (
        "a name of nothing",
        lambda: whole(step(StepKind.WARDEN, 0), PARENT, step(StepKind.NAME, 0, 1, strings=(b"",)), COMMAND),
        2,
    ),
    (
        "a name too long",
        lambda: whole(step(StepKind.WARDEN, 0), PARENT, step(StepKind.NAME, 0, 1, strings=(b"n" * 256,)), COMMAND),
        2,
    ),
    (
        "names",
        lambda: whole(step(StepKind.WARDEN, 0), PARENT, step(StepKind.NAME, 0, 1, strings=(b"n/m",)), COMMAND),
        -1,
    ),
    (
        "no name behind another",
        lambda: whole(step(StepKind.WARDEN, 0), PARENT, step(StepKind.NAME, 0, 1, strings=(b"n/",)), COMMAND),
        2,
    ),
    (
        "two names waited for as one",
        lambda: whole(step(StepKind.WARDEN, 0), PARENT, step(StepKind.NAME, 0, 2, strings=(b"n/m",)), COMMAND),
        2,
    ),
    (
        "a verdict nobody knows",
        lambda: whole(step(StepKind.WARDEN, 0), PARENT, step(StepKind.NAME, 0, 5, strings=(b"n",)), COMMAND),
        2,
    ),
    ("a listener nobody takes", lambda: in_order(STREAMS, LISTENING, TRUE), 1),
    ("a command without its warden", lambda: whole(NAMESPACES, COMMAND), 1),
    ("a /proc without a warden", lambda: whole(NAMESPACES, PROC), 1),
    ("a view that is locked", lambda: whole(NAMESPACES, VIEW, ATTACH, WARDEN, PROC, LOCK, COMMAND), -1),
    ("a lock on no view", lambda: whole(NAMESPACES, WARDEN, PROC, LOCK, COMMAND), 3),
    ("a view by bubblewrap", lambda: whole(BUBBLEWRAP, BUBBLEWRAP, WARDEN, VERIFY, COMMAND), -1),
    ("bubblewrap without a program", lambda: whole(step(StepKind.BUBBLEWRAP), WARDEN, COMMAND), 0),
    ("bubblewrap without a warden", lambda: whole(BUBBLEWRAP), 2),
    ("bubblewrap and a warden without a namespace", lambda: whole(BUBBLEWRAP, step(StepKind.WARDEN, 0), COMMAND), 1),
    ("bubblewrap and namespaces of its own", lambda: whole(BUBBLEWRAP, NAMESPACES, WARDEN, COMMAND), 1),
    ("bubblewrap and a view of its own", lambda: whole(BUBBLEWRAP, VIEW, ATTACH, WARDEN, COMMAND), 1),
    ("a look at what nobody else has built", lambda: whole(NAMESPACES, WARDEN, VERIFY, COMMAND), 2),
    ("a ruleset", lambda: in_order(RULESET, BENEATH, PORT, RESTRICT, STREAMS, TRUE), -1),
    ("a ruleset not in force", lambda: in_order(RULESET, BENEATH, STREAMS, TRUE), 3),
    ("a rule without a ruleset", lambda: in_order(STREAMS, BENEATH, TRUE), 1),
    ("a port without a ruleset", lambda: in_order(STREAMS, PORT, TRUE), 1),
    ("terminals without a ruleset", lambda: in_order(STREAMS, step(StepKind.TERMINALS, 2, 7), TRUE), 1),
    ("no ruleset in force", lambda: in_order(RESTRICT, STREAMS, TRUE), 0),
    *((f"cut to {size} bytes", lambda size=size: whole()[:size], 0) for size in (7, 8, 16, 23, 24, 39)),
]


@pytest.mark.parametrize(("plan", "fault"), [pytest.param(plan, fault, id=name) for name, plan, fault in ROWS])
def test_both_enactors_name_the_first_bad_step(checker: Checker, plan: Callable[[], bytes], fault: int) -> None:
    data = plan()

    assert [enact.read_plan(data)[0], *checker.faults([data])] == [fault, fault]


def test_the_kinds_both_enactors_know_are_kinds_of_the_model() -> None:
    assert {*enact.SHAPES} == {*StepKind}
