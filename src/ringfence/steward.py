"""The steward: our own process as a tenant, who plans, runs, reads and writes on the tenant's behalf.

Started by the spawner with the tenant's ids, in its workspace. Lines of JSON come on 0 and go out on 1, one request at
a time; when 0 or the lifeline on 3 ends, or SIGTERM comes, so does the run, and so do we. What the service believes of
a path does not matter here: the kernel knows this process as the tenant, and paths are opened without links. Most are
asked about files, and one start of Python is what that costs: so what only runs need is imported by the first run.
"""

import base64
import contextlib
import errno
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Iterator
from typing import Literal

import msgspec

from .model import RingfenceError, UsageError, WorkspaceError
from .model.event import written
from .workspace.paths import DIRECTORY, canonical, is_inside, open_beneath, open_directory, read_beneath

if sys.platform != "linux":
    raise UsageError("tenants", "are kept apart on Linux only")

LIFELINE = 3
MOST_LINE = 32 << 20  # a file of MOST_FILE bytes, in base64 and quoted
MOST_FILE = 16 << 20
MOST_ENTRIES = 10_000
MOST_PIECE = 1 << 18
FRESH = 5.0  # seconds that a measure is good for


class Kind(msgspec.Struct):
    """The first look at a request."""

    do: str


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
    data = memoryview(written(document) + b"\n")
    while data:
        data = data[os.write(1, data) :]


# ---- How much ----

_most, _measured, _when = 0, 0, 0.0  # bytes that the tenant may have, and had when we last looked


def measured() -> int:
    """The bytes that the tenant's tree takes, for those whom no quota of the kernel holds. What has two names counts
    twice; what cannot be measured is too much, or one would hide there what is."""
    total, count, stack = 0, 0, [os.environ["HOME"]]
    while stack:
        if count > max(1024, _most // 4096):  # as the kernel's quota counts files; and whoever swaps them ends here
            return sys.maxsize
        try:
            with os.scandir(_readable(stack.pop())) as found:
                for entry in found:
                    try:
                        facts = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:  # gone meanwhile, and the others are there
                        continue
                    total, count = total + facts.st_blocks * 512, count + 1
                    if stat.S_ISDIR(facts.st_mode):
                        stack.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue  # gone meanwhile
        except OSError:
            return sys.maxsize
    return total


def _readable(path: str) -> str:
    """A directory of ours that is closed to ourselves is opened: by descriptor, never what a link points at."""
    held = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        mode = os.fstat(held).st_mode
        if stat.S_ISDIR(mode) and mode & 0o500 != 0o500:
            os.chmod(f"/proc/self/fd/{held}", stat.S_IMODE(mode) | 0o500)
    finally:
        os.close(held)
    return path


def _is_held(root: str) -> bool:
    from .workspace.tenants import quota

    held = os.open(root, DIRECTORY)
    try:
        return quota.is_held(held, os.getuid(), _most)
    finally:
        os.close(held)


def room() -> int | None:
    """The bytes that the tenant may have more; None: as many as it likes."""
    global _measured, _when
    if not _most:
        return None
    _measured, _when = measured(), time.monotonic()
    return _most - _measured


def take_room(more: int) -> None:
    """So many bytes more, or there is no room for them."""
    global _measured
    if _most and (time.monotonic() - _when > FRESH or _measured + more > _most):
        room()
    if _most and _measured + more > _most:
        raise Wrong("no_space", "the workspace holds as much as it may")
    _measured += more


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
    take_room(len(data))
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
            return [shown for entry in found if (shown := _entry(entry)) is not None]
    finally:
        os.close(fd)


def _entry(entry: os.DirEntry[str]) -> dict[str, object] | None:
    """None where it has gone since it was listed, as files do where something works."""
    try:
        facts = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    name = entry.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {"name": name, "kind": kinds.get(stat.S_IFMT(facts.st_mode), "other"), "size": facts.st_size}


# ---- Requests ----


def act(root: str, line: bytes) -> None:
    """Do one request that is no run."""
    do = msgspec.json.decode(line, type=Kind).do
    if do not in ("read", "write", "list"):
        from .errands import ACTS, Errand

        errand = msgspec.json.decode(line, type=Errand)
        say(**ACTS[errand.do](root, errand))
        return
    ask = msgspec.json.decode(line, type=Ask)
    match ask.do:
        case "read":
            say(data=base64.b64encode(read(root, ask.path)).decode())
        case "write":
            write(root, ask.path, ask.data)
            say(written=len(ask.data))
        case "list":
            say(entries=listed(root, ask.path))


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """Say what is wrong with a request."""
    try:
        yield
    except (msgspec.DecodeError, ValueError) as error:  # a name with a null in it, too
        say(error="bad_request", what=str(error))
    except Wrong as error:
        say(error=error.code, what=str(error))
    except BrokenPipeError:  # nobody hears us
        raise
    except OSError as error:
        say(error="failed", what=error.strerror or "failed")
    except RingfenceError as error:
        code = error.code.lower()  # what git says has paths in it, and is for whoever is at the machine
        say(error=code, what="git could not do it" if code == "worktree_git_failed" else str(error), hint=error.hint)


def is_run(line: bytes) -> bool:
    """Whether a line asks for a run."""
    try:
        return msgspec.json.decode(line, type=Kind).do == "run"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def serve(root: str) -> None:
    """Until there are no more requests, or we are told to end. The first run brings what runs need, and stays."""
    coming = select.poll()
    for fd in (0, LIFELINE):
        coming.register(fd, select.POLLIN)
    data = b""
    while True:
        line, end, rest = data.partition(b"\n")
        if end and is_run(line):
            from .carry import carry

            carry(root, data)
            return
        if end:
            with answering():
                act(root, line)
            data = rest
            continue
        if len(data) > MOST_LINE:
            raise ValueError(data[:1])
        if any(fd == LIFELINE for fd, _ in coming.poll()):
            return
        piece = os.read(0, MOST_PIECE)
        if not piece:
            return
        data += piece


def _leave(*_: object) -> None:
    raise SystemExit(124)


def main() -> int:
    """WORKSPACE, and the most bytes of the tenant or 0: serve it."""
    global _most
    root, _most = sys.argv[1], int(sys.argv[2])
    if os.geteuid() == 0 or 0 in os.getresuid():
        say(error="failed", what="the steward is never root")
        return 125
    if _most and _is_held(root):
        _most = 0  # the kernel does it
    signal.signal(signal.SIGTERM, _leave)
    try:
        serve(root)
    except ValueError:
        say(error="too_large", what=f"a request has at most {MOST_LINE} bytes")
        return 125
    except (SystemExit, BrokenPipeError):
        return 124
    return 0


if __name__ == "__main__":
    os._exit(main())
