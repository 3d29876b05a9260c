"""What someone asked to run."""

import msgspec


class Stream(msgspec.Struct, frozen=True):
    """A regular file on descriptor 0 to 2: it stands on the host's mounts, so it is opened again inside."""

    fd: int
    path: str
    flags: int
    device: int
    inode: int
    offset: int


class Command(msgspec.Struct, frozen=True):
    """A program with its arguments, the directory it starts in, and the environment it was asked with."""

    argv: tuple[str, ...]
    cwd: str
    environ: dict[str, str]
    program: str = ""  # the absolute path found for argv[0]
    streams: tuple[Stream, ...] = ()  # regular files on 0 to 2, to be opened again inside
    temporary: str = ""  # a private directory for a plan without a view
    detached: bool = False  # its own session: nobody is at its terminal
    ids: tuple[int, int] | None = None  # the workspace's owner, when root started us
