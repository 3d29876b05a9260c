"""Plan to bytes. The layout is in docs/plan-format.md; enact.c and enact.py read it.

A step is its numbers and its strings, nothing else, so one encoder serves every kind.
"""

import struct
from collections.abc import Iterable, Sequence

from ..model import Step, StepKind

MAGIC = b"RFPLAN1\0"
VERSION = 1
HEADER = struct.Struct("<8sIIII")
_NUMBER_AT = HEADER.size - 4
STEP = struct.Struct("<HHIII")
_EXEC = struct.Struct("<HHIIIQ")
RECORD = struct.Struct("<IIII")
GOOD = struct.Struct("<8I")  # the records of a good run: ready, and ended
READY, FAILED, PROBED, ENDED, DENIED, LENT, OPENED, OBSERVED, LOST, PAUSED, STOPPED = range(1, 12)
SEEN = bytes((OBSERVED,))  # how such a record begins
BEGUN = RECORD.pack(READY, 0, 0, 0)  # what is put before the others of a run that says so elsewhere
END, GOES_ON = ENDED.to_bytes(4, "little"), (1).to_bytes(4, "little")  # how such a record begins, and how it may end


def read_records(data: bytes) -> tuple[list[tuple[int, int, int, int]], str]:
    """The records on a status channel, and the words among them: bubblewrap has no other way to say what is wrong."""
    records, at = [], 0
    while len(data) - at >= RECORD.size and READY <= int.from_bytes(data[at : at + 4], "little") <= STOPPED:
        records.append(RECORD.unpack_from(data, at))
        at += RECORD.size
    return records, data[at:].decode("utf-8", "replace").strip()


_NUMBERS = tuple(struct.Struct(f"<{count}Q") for count in range(7))
_SIZES = tuple(size.to_bytes(4, "little") for size in range(256))


def encode_texts(texts: Sequence[bytes]) -> bytes:
    """Strings of a step, as they are in it: each with its size before it, and a NUL after it."""
    if len(texts) == 1:  # as of most steps
        return b"%b%b\0" % (len(texts[0]).to_bytes(4, "little"), texts[0])
    sizes = [len(text) for text in texts]
    pieces = [b"\0"] * (3 * len(texts))
    if max(sizes, default=0) < len(_SIZES):
        pieces[::3] = map(_SIZES.__getitem__, sizes)
    else:
        pieces[::3] = [size.to_bytes(4, "little") for size in sizes]
    pieces[1::3] = texts
    return b"".join(pieces)


def encode_step(step: Step) -> bytes:
    """One step, padded to eight bytes."""
    body = _NUMBERS[len(step.numbers)].pack(*step.numbers) + encode_texts(step.strings)
    padding = -len(body) % 8
    size = STEP.size + len(body) + padding
    return STEP.pack(step.kind, len(step.numbers), len(step.strings), size, 0) + body + bytes(padding)


def encode_exec(words: tuple[bytes, ...], known: int, encoded: bytes) -> bytes:
    """The last step: what is executed, its words, and so many variables, which are encoded already: most of a plan for
    a standby is an environment, and that is the same from run to run."""
    texts = [
        b"%b%b\0" % (_SIZES[len(word)] if len(word) < 256 else len(word).to_bytes(4, "little"), word) for word in words
    ]
    body = b"".join(texts) + encoded
    padding = -len(body) % 8
    size = _EXEC.size + len(body) + padding
    return _EXEC.pack(StepKind.EXEC, 1, len(words) + known, size, 0, len(words) - 1) + body + bytes(padding)


def whole(count: int, pieces: Iterable[bytes]) -> bytes:
    """So many encoded steps, in whatever pieces, as a plan."""
    body = b"".join(pieces)
    return HEADER.pack(MAGIC, VERSION, HEADER.size + len(body), count, 0) + body


def numbered(data: bytes, number: int) -> bytes:
    """A plan for a standby, as the run of this number."""
    return b"%b%b%b" % (data[:_NUMBER_AT], number.to_bytes(4, "little"), data[HEADER.size :])


def encode(steps: Sequence[Step]) -> bytes:
    """A whole plan."""
    return whole(len(steps), map(encode_step, steps))
