"""One command to run, as it was asked for: its words and variables, and what becomes of its streams."""

import errno
import os
from collections.abc import Mapping, Sequence

import msgspec

from . import enforce
from .keep import AtHand, Request, environment, give_up_overlays
from .model import Asking, Ending, Explain, Refused, Stream

STREAM_NAMES = ("stdin", "stdout", "stderr")
# How a step says that the disk is not as it was when we looked.
SWAPPED = (errno.ESTALE, errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class Job(msgspec.Struct, frozen=True):
    """One command to run: what is asked of us, its words and variables, and what becomes of its streams."""

    request: Request
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    streams: tuple[Stream, ...]  # of those inherited, which are opened again inside
    pumped: tuple[int, ...]  # and which are fed through a pipe
    capture: bool
    data: bytes | None  # what it reads
    is_at_terminal: bool  # whether any of our own 0 to 2 is one
    explain: Explain = Explain.FAILURE
    at_hand: AtHand | None = None
    asking: Asking | None = None
    program: str = ""  # where the first word was found, if somebody else has looked for it
    is_assumed: bool = False  # nobody has looked at 0 to 2: they are taken for what they were the last time


class Unlooked(Exception):
    """The streams are others than was assumed, and nothing was begun."""


def make_job(
    argv: Sequence[str],
    request: Request,
    env: Mapping[str, str] | None,
    capture: bool,
    data: bytes | None,
    explain: Explain = Explain.FAILURE,
    at_hand: AtHand | None = None,
    assumes: bool = False,
) -> Job:
    """Look at those of 0 to 2 that are inherited. Whoever `assumes` is told when they are others than the last time: by
    the standby that is given them, or by Unlooked."""
    environ = environment() if env is None else env
    if assumes and not capture and data is None and explain is not Explain.OUTPUT and enforce.were_plain():
        return Job(request, tuple(argv), environ, (), (), False, None, False, explain, at_hand, is_assumed=True)
    inherited = (() if data is not None else (0,)) + (() if capture else (1, 2))
    streams, pumped, is_at_terminal = enforce.look_over(inherited)
    if explain is Explain.OUTPUT and not capture:  # both, where they are one: their order is kept
        pumped = tuple({*pumped, 2, *((1,) if os.path.sameopenfile(1, 2) else ())})
        streams = tuple(stream for stream in streams if stream.fd not in pumped)
    return Job(request, tuple(argv), environ, streams, pumped, capture, data, is_at_terminal, explain, at_hand)


def looked_over(job: Job) -> Job:
    """The same for another attempt: what was seen before the first is old by now, and nothing is assumed."""
    if not job.is_assumed:
        return msgspec.structs.replace(job, at_hand=None)
    streams, pumped, is_at_terminal = enforce.look_over((0, 1, 2))
    return msgspec.structs.replace(
        job, at_hand=None, is_assumed=False, streams=streams, pumped=pumped, is_at_terminal=is_at_terminal
    )


def has_other_streams(job: Job, ending: Ending) -> bool:
    """Whether one that stood by was given other streams than was assumed."""
    return job.is_assumed and isinstance(ending, Refused) and ending.kind == "streams"


def was_swapped(job: Job, ending: Ending) -> bool:
    """Whether the disk changed between our look at it and the enactor's: nothing ran, so look again.

    Not when we have read our own input for it already: that cannot be given back.
    """
    if not isinstance(ending, Refused) or ending.kind == "exec" or 0 in job.pumped:
        return False
    if has_other_streams(job, ending):
        return True
    if ending.text.startswith("cache of "):  # no overlay can be made here
        give_up_overlays()
        return True
    return ending.errno in SWAPPED


def rewind(job: Job) -> None:
    """Before another look: what was read of a file for a command that never began is there to be read again."""
    for stream in job.streams:
        os.lseek(stream.fd, stream.offset, os.SEEK_SET)
