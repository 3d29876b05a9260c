"""Claude Code's own worktrees (`claude --worktree NAME`) as sessions: made when it asks for one, ended when it is done.

WorktreeCreate wants the directory on the last line of standard output. WorktreeRemove ends the session, which keeps
what was not committed on its branch. Anything that goes wrong is said, with exit code 2: then Claude has no worktree.
"""

import os

import msgspec

from ..model import RingfenceError
from ..session import Session, opened
from ..workspace import life
from .options import printable

EVENTS = ("WorktreeCreate", "WorktreeRemove")


class Payload(msgspec.Struct):
    """What Claude Code says of the worktree."""

    hook_event_name: str
    cwd: str
    name: str = ""
    worktree_path: str = ""


class _Event(msgspec.Struct):
    hook_event_name: str = ""


def is_about(data: bytes) -> bool:
    """Whether a payload is one of these events. What the model wrote stands deeper in it."""
    return msgspec.json.decode(data, type=_Event).hook_event_name in EVENTS


def answer(data: bytes, as_root: bool) -> tuple[int, bytes, bytes]:
    """Exit code, standard output and standard error."""
    try:
        asked = msgspec.json.decode(data, type=Payload)
        made = _create(asked, as_root) if asked.hook_event_name == "WorktreeCreate" else _remove(asked)
        return 0, os.fsencode(f"{made}\n"), b""
    except (RingfenceError, msgspec.MsgspecError, OSError, ValueError) as error:
        said = error.lines() if isinstance(error, RingfenceError) else [f"ringfence: {error}"]
        return 2, b"", f"{printable(*said)}\n".encode("utf-8", "replace")


def _create(asked: Payload, as_root: bool) -> str:
    return Session(asked.cwd, asked.name or None, as_root=as_root).start().path


def _remove(asked: Payload) -> str:
    place = os.path.realpath(asked.worktree_path)
    with opened(asked.cwd) as found:
        for record in found.ledger.sessions():
            if record.worktree and os.path.realpath(record.worktree) == place:
                ended = life.end(found.ledger, record.name)
                return f"{record.name}: {ended.session.branch} is at {ended.commit[:12]}"
    return f"{asked.worktree_path} is no session of ringfence, and was left alone"
