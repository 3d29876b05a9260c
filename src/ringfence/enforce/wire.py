"""Plan to bytes. The layout is in docs/plan-format.md; enact.c and enact.py read it.

A step is its numbers and its strings, nothing else, so one encoder serves every kind.
"""

import struct
from collections.abc import Iterable, Sequence

from ..model import Step

MAGIC = b"RFPLAN1\0"
VERSION = 1
HEADER = struct.Struct("<8sIIII")
STEP = struct.Struct("<HHIII")
RECORD = struct.Struct("<IIII")
READY, FAILED, PROBED, ENDED = 1, 2, 3, 4


def encode_step(step: Step) -> bytes:
    """One step, padded to eight bytes."""
    parts = [b"", struct.pack(f"<{len(step.numbers)}Q", *step.numbers)]
    for text in step.strings:
        parts += (len(text).to_bytes(4, "little"), text, b"\0")
    body = b"".join(parts)
    padding = -len(body) % 8
    size = STEP.size + len(body) + padding
    return STEP.pack(step.kind, len(step.numbers), len(step.strings), size, 0) + body + bytes(padding)


def whole(count: int, pieces: Iterable[bytes]) -> bytes:
    """So many encoded steps, in whatever pieces, as a plan."""
    body = b"".join(pieces)
    return HEADER.pack(MAGIC, VERSION, HEADER.size + len(body), count, 0) + body


def join(steps: Sequence[bytes]) -> bytes:
    """Encoded steps as a plan."""
    return whole(len(steps), steps)


def encode(steps: Sequence[Step]) -> bytes:
    """A whole plan."""
    return whole(len(steps), map(encode_step, steps))
