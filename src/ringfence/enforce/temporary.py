"""Directories in /tmp for runs that cannot have a /tmp of their own."""

import contextlib
import errno
import fcntl
import os
import time


def new_directory(ids: tuple[int, int] | None, held: list[int]) -> str:
    """A directory of our own in /tmp, for a plan that cannot have a private /tmp. It is locked while we use it."""
    _sweep()
    path = f"/tmp/ringfence-{os.geteuid()}-{os.urandom(8).hex()}"
    os.mkdir(path, 0o700)
    held.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
    fcntl.flock(held[-1], fcntl.LOCK_SH)
    if ids:
        os.chown(path, *ids)
    return path


def write_new(path: str, text: str) -> None:
    """A file that everybody may read: the command's user is another when root starts it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.fchmod(fd, 0o644)
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _sweep() -> None:
    """Remove such directories of processes that were killed before they could: nobody has them locked."""
    mine = f"ringfence-{os.geteuid()}-"
    for name in os.listdir("/tmp"):
        if not name.startswith(mine):
            continue
        try:
            fd = os.open(f"/tmp/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # gone meanwhile, or not ours at all
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_old = time.time() - os.fstat(fd).st_mtime > 10  # not one that is just about to be locked
        except BlockingIOError:
            is_old = False
        finally:
            os.close(fd)
        if is_old:
            remove(f"/tmp/{name}")


def remove(path: str) -> None:
    """Remove such a directory, with all that is left in it."""
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno != errno.ENOENT:
            from .removal import remove_tree  # only for what a command left behind

            with contextlib.suppress(OSError):
                remove_tree(path)
