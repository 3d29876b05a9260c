"""What someone asked to run."""

import enum
from collections.abc import Callable

import msgspec


class Stream(msgspec.Struct, frozen=True):
    """A regular file on descriptor 0 to 2: it stands on the host's mounts, so it is opened again inside."""

    fd: int
    path: str
    flags: int
    device: int
    inode: int
    offset: int


class Screen(msgspec.Struct, frozen=True):
    """Where a person's terminal stands on 0 to 2, and the command is to have one of its own instead."""

    mask: int = 0  # which of 0 to 2, as bits
    unfiltered: bool = False  # also what sets the clipboard or the title is passed on

    @property
    def is_interactive(self) -> bool:
        return bool(self.mask & 1)


class Shelf(msgspec.Struct, frozen=True):
    """Where a workspace's own package caches stand on the host; nowhere when there is no home."""

    home: str = ""
    own: str = ""  # what variables lead to
    layers: str = ""  # what lies above the host's, a directory for each


class Observe(enum.IntFlag):
    """What the warden tells of the accesses that it answers; asking for more has more calls sent to it."""

    NOTHING = 0
    REFUSALS = 1  # what its table refuses
    FAILURES = 3  # and what the kernel refused it
    EVERYTHING = 7  # and what was allowed


class Command(msgspec.Struct, frozen=True):
    """A program with its arguments, the directory it starts in, and the environment it was asked with."""

    argv: tuple[str, ...]
    cwd: str
    environ: dict[str, str]
    program: str = ""  # the absolute path found for argv[0]
    streams: tuple[Stream, ...] = ()  # regular files on 0 to 2, to be opened again inside
    temporary: str = ""  # a private directory for a plan without a view
    screen: Screen = Screen()
    shelf: Shelf = Shelf()
    ids: tuple[int, int] | None = None  # the workspace's owner, when root started us
    observe: Observe = Observe.NOTHING
    lends: bool = False  # one of 0 to 2 is a unix socket, through which descriptors pass


class Asking(msgspec.Struct, frozen=True):
    """That what is refused and may be granted waits for a person: how long, and who is asked beside who watches."""

    seconds: float = 300.0
    fd: int = -1  # a socket of the caller's own: lines of JSON
    prompt: Callable[..., None] | None = None  # called in a thread of its own with a socket of lines, and the launch


class Explain(enum.Enum):
    """How much is done to tell why a command failed."""

    NOTHING = "nothing"  # but what was seen
    FAILURE = "failure"  # what it said, where that passed us, and its own words
    OUTPUT = "output"  # what it says is led past us for that
