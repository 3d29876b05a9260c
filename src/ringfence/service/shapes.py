"""What a steward says, as what we take it for. A steward is the tenant: its words are checked before they are used, and
odd ones are that tenant's own trouble."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict, TypeVar

import msgspec

from ..model.event import AnyEvent
from .trouble import Trouble

T = TypeVar("T")
# A word in the address of a form: anything else could lead a person's answer to another workspace of theirs.
Name = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")]


class Worktree(TypedDict):
    """One of a list, or one as it stands."""

    slug: Name
    state: str
    branch: str
    base: str
    head: str
    uncommitted: NotRequired[bool]


class Worktrees(TypedDict):
    worktrees: list[Worktree]


class Patch(TypedDict):
    patch: str
    cut: bool


class Approval(TypedDict):
    id: Name
    rule: str
    counts: bool


class Approvals(TypedDict):
    approvals: list[Approval]


class Events(TypedDict):
    events: list[AnyEvent]


class Output(TypedDict):
    """A piece of what a command said."""

    stream: Literal["stdout", "stderr"]
    data: bytes


class Process(TypedDict):
    exe: NotRequired[str]


class Asked(TypedDict):
    """A question, or what became of one."""

    state: str
    query_id: Name
    operation: NotRequired[str]
    path: NotRequired[str]
    target: NotRequired[str]
    choices: NotRequired[list[str]]
    rule: NotRequired[str]
    process: NotRequired[Process]
    why: NotRequired[str]


class Denied(TypedDict):
    access: str
    target: str
    reason: str
    exe: NotRequired[str]
    grant: NotRequired[str]


class Ended(TypedDict):
    """How a run ended."""

    exitCode: int
    denials: list[Denied]
    denied: NotRequired[int]  # how many there were, where not all are here


def shaped(document: object, kind: type[T]) -> T:
    """A document as what it must be; what else is in it is left out."""
    try:
        return msgspec.convert(document, kind)
    except (msgspec.ValidationError, RecursionError):
        raise Trouble("unavailable", "the steward's answer is not understood") from None


def checked(line: dict[str, Any]) -> dict[str, Any]:
    """A line of a run that goes on, with everything that is in it."""
    kinds: dict[str, type] = {"ended": Ended, "asked": Asked, "stream": Output}
    match [name for name in kinds if name in line]:
        case [name]:  # what is two things would be checked as one of them
            shaped(line[name] if name == "asked" else line, kinds[name])
            return line
    raise Trouble("unavailable", "the steward's answer is not understood")
