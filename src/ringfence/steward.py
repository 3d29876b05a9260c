"""The steward: our own process as a tenant, who plans, runs, reads and writes on the tenant's behalf.

Started by the spawner with the tenant's ids, in its workspace. Lines of JSON come on 0 and go out on 1, one request at
a time; when 0 or the lifeline on 3 ends, or SIGTERM comes, so does the run, and so do we. What the service believes of
a path does not matter here: the kernel knows this process as the tenant, and paths are opened without links.
"""

import asyncio
import base64
import contextlib
import errno
import os
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import msgspec

from .model import Asking, RingfenceError, UsageError, WorkspaceError
from .policy import Flags
from .start import start
from .workspace.paths import DIRECTORY, canonical, is_inside, open_beneath, open_directory, read_beneath

if sys.platform != "linux":
    raise UsageError("tenants", "are kept apart on Linux only")

LIFELINE = 3
MOST_LINE = 32 << 20  # a file of MOST_FILE bytes, in base64 and quoted
MOST_FILE = 16 << 20
MOST_ENTRIES = 10_000
MOST_QUESTION = 1 << 17


class Kind(msgspec.Struct):
    """The first look at a request."""

    do: str


class Answered(msgspec.Struct, forbid_unknown_fields=True):
    """What a person said to a question of the run that goes on; docs/asking.md has the line."""

    do: Literal["answer"]
    said: dict[str, object]


class Ask(msgspec.Struct, forbid_unknown_fields=True):
    """What may be asked of us; `errands` has the rest."""

    do: Literal["run", "read", "write", "list"]
    argv: tuple[str, ...] = ()
    cwd: str = ""
    worktree: str = ""  # run: in this one instead of the workspace itself
    env: dict[str, str] = {}
    timeout: float | None = None
    ask: bool = False  # run: what a person may grant is asked, on our line out, while the command waits
    input: bytes = b""  # base64 in JSON, as all bytes
    path: str = ""
    data: bytes = b""


class Wrong(Exception):
    """A request that is refused, with its stable code."""

    def __init__(self, code: str, what: str) -> None:
        super().__init__(what)
        self.code = code


def say(**document: object) -> None:
    """One line."""
    data = memoryview(msgspec.json.encode(document) + b"\n")
    while data:
        data = data[os.write(1, data) :]


# ---- Files ----


def below(root: str, path: str) -> str:
    """Where a path of the workspace leads, from its root; one that leads out of it is refused by name."""
    outside = Wrong("path_outside_workspace", "the path leads out of the workspace")
    if path.startswith("/") or os.path.normpath(path).split("/")[0] == "..":
        raise outside
    try:
        real = canonical(path or ".", root)
    except WorkspaceError as error:
        raise Wrong("path_invalid", error.what) from None
    if not is_inside(real, root):
        raise outside
    return os.path.relpath(real, root)


def _why(error: WorkspaceError) -> Wrong:
    cause = error.__cause__
    if isinstance(cause, FileNotFoundError):
        return Wrong("path_not_found", "there is nothing at this path")
    if isinstance(cause, OSError) and cause.errno in (errno.EDQUOT, errno.ENOSPC, errno.EFBIG):
        return Wrong("no_space", "there is no room for it")
    return Wrong("path_invalid", error.what)


def read(root: str, path: str) -> bytes:
    """A regular file, whole."""
    held = _opened(root)
    try:
        return read_beneath(held, below(root, path), MOST_FILE)
    except WorkspaceError as error:
        raise _why(error) from None
    finally:
        os.close(held)


def _opened(root: str) -> int:
    """The workspace. Above it are directories that a tenant may go through and not read, so it is opened whole."""
    return os.open(root, DIRECTORY)


def write(root: str, path: str, data: bytes) -> None:
    """A regular file, new or in the place of what it had; its directory is there already. It appears whole."""
    where = below(root, path)
    if len(data) > MOST_FILE:
        raise Wrong("too_large", f"has more than {MOST_FILE} bytes")
    directory, name = os.path.split(where)
    held = _opened(root)
    try:
        parent = open_directory(directory, held) if directory else os.dup(held)
    except WorkspaceError as error:
        raise Wrong("path_not_found", error.what) from None
    finally:
        os.close(held)
    new = f".{os.urandom(6).hex()}.new"
    try:
        _check_place(parent, name)
        fd = open_beneath(parent, new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fchmod(fd, _mode(parent, name))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)
    except WorkspaceError as error:
        raise _why(error) from None
    except OSError as error:
        _remove(parent, new)
        raise Wrong(
            "no_space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "failed", str(error.strerror)
        ) from None
    finally:
        os.close(parent)


def _check_place(parent: int, name: str) -> None:
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise Wrong("path_invalid", "something that is no regular file stands there")


def _mode(parent: int, name: str) -> int:
    try:
        return stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode) & 0o777
    except FileNotFoundError:
        return 0o644


def _remove(parent: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return


def listed(root: str, path: str) -> list[dict[str, object]]:
    """The names in a directory."""
    where = below(root, path)
    held = _opened(root)
    try:
        fd = open_directory(where, held) if where != "." else os.dup(held)
    except WorkspaceError as error:
        raise Wrong("path_not_found", error.what) from None
    finally:
        os.close(held)
    try:
        with os.scandir(fd) as entries:
            found = sorted(entries, key=lambda entry: entry.name)[:MOST_ENTRIES]
            return [_entry(entry) for entry in found]
    finally:
        os.close(fd)


def _entry(entry: os.DirEntry[str]) -> dict[str, object]:
    facts = entry.stat(follow_symlinks=False)
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    name = entry.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {"name": name, "kind": kinds.get(stat.S_IFMT(facts.st_mode), "other"), "size": facts.st_size}


# ---- Runs ----


@contextlib.contextmanager
def placed(root: str, ask: Ask) -> Iterator[tuple[str, str, Flags | None]]:
    """The workspace of a run, where in it the run is, and with which flags."""
    if not ask.worktree:
        yield root, os.path.normpath(os.path.join(root, below(root, ask.cwd))), None
        return
    from .session import Session

    session = Session(root, ask.worktree).resume()
    where = below(session.path, ask.cwd)
    with session.used("" if where == "." else where) as (cwd, flags):
        yield session.path, cwd, flags


_asker: asyncio.StreamWriter | None = None  # to the one who asks for the run that goes on


@contextlib.asynccontextmanager
async def asking(wanted: bool) -> AsyncIterator[dict[str, Any]]:
    """Pass on what a run asks, a line each; what a run is given for that."""
    global _asker
    if not wanted:
        yield {}
        return
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours, limit=MOST_QUESTION)
        _asker = writer
        task = asyncio.ensure_future(_pass_on(reader))
        try:
            yield {"ask": Asking(fd=theirs.fileno())}
        finally:
            _asker = None
            task.cancel()
            writer.close()


async def _pass_on(reader: asyncio.StreamReader) -> None:
    while (line := await reader.readline()).endswith(b"\n"):
        say(asked=msgspec.Raw(line.strip()))


def answered(line: bytes) -> bool:
    """Whether a line was an answer for the run that goes on, which has it then."""
    try:
        said = msgspec.json.decode(line, type=Answered).said
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    if _asker is not None:
        _asker.write(msgspec.json.encode(said) + b"\n")
    return True


async def run(root: str, ask: Ask) -> None:
    """A command inside the workspace: its output as it comes, then how it ended."""
    given: dict[str, Any] = {"env": {**os.environ, **ask.env}, "input": ask.input, "timeout": ask.timeout}
    with placed(root, ask) as (workspace, cwd, flags):
        async with (
            asking(ask.ask) as asked,
            start(ask.argv, workspace=workspace, cwd=cwd, flags=flags, **given, **asked) as running,
        ):
            async for chunk in running:
                say(stream=chunk.stream, data=base64.b64encode(chunk.data).decode())
            outcome = await running.wait()
    gaps = [gap.what for gap in outcome.gaps]
    say(ended=outcome.ending, exitCode=outcome.exit_code, seconds=outcome.seconds, denials=outcome.denials, gaps=gaps)


async def act(root: str, line: bytes) -> None:
    """Do one request."""
    do = msgspec.json.decode(line, type=Kind).do
    if do not in ("run", "read", "write", "list"):
        from .errands import ACTS, Errand

        errand = msgspec.json.decode(line, type=Errand)
        say(**ACTS[errand.do](root, errand))
        return
    ask = msgspec.json.decode(line, type=Ask)
    match ask.do:
        case "run":
            await run(root, ask)
        case "read":
            say(data=base64.b64encode(read(root, ask.path)).decode())
        case "write":
            write(root, ask.path, ask.data)
            say(written=len(ask.data))
        case "list":
            say(entries=listed(root, ask.path))


async def answer(root: str, line: bytes) -> None:
    """One request, and what is wrong with it."""
    try:
        await act(root, line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        say(error="bad_request", what=str(error))
    except Wrong as error:
        say(error=error.code, what=str(error))
    except RingfenceError as error:
        code = error.code.lower()  # what git says has paths in it, and is for whoever is at the machine
        say(error=code, what="git could not do it" if code == "worktree_git_failed" else str(error), hint=error.hint)


async def serve(root: str) -> None:
    """Until there are no more requests, or we are told to end."""
    loop, ours = asyncio.get_running_loop(), asyncio.current_task()
    if ours is None:
        return
    loop.add_signal_handler(signal.SIGTERM, ours.cancel)
    loop.add_reader(LIFELINE, ours.cancel)
    reader = asyncio.StreamReader(limit=MOST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb", buffering=0))
    coming = asyncio.ensure_future(reader.readline())
    while (line := await coming).endswith(b"\n"):
        coming = asyncio.ensure_future(reader.readline())
        task = asyncio.ensure_future(answer(root, line))
        try:
            while not task.done():
                await asyncio.wait((task, coming), return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    continue
                if not coming.result():  # a run ends when nobody is left to hear of it
                    return
                if answered(coming.result()):
                    coming = asyncio.ensure_future(reader.readline())
                else:
                    await task
            await task
        finally:
            task.cancel()
            await asyncio.wait((task,))


def main() -> int:
    """WORKSPACE: serve it."""
    root = sys.argv[1]
    if os.geteuid() == 0 or 0 in os.getresuid():
        say(error="failed", what="the steward is never root")
        return 125
    try:
        asyncio.run(serve(root))
    except ValueError:
        say(error="too_large", what=f"a request has at most {MOST_LINE} bytes")
        return 125
    except (asyncio.CancelledError, BrokenPipeError):
        return 124
    return 0


if __name__ == "__main__":
    os._exit(main())
