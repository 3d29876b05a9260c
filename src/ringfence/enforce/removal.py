"""Removing what a command left: trees as deep as it liked, closed to their own user, with links in them.

No recursion and no long path: every directory is moved up to the top and emptied there. All of it by descriptor, for
when root removes it for somebody, who could put a link in the way; and nothing of a third one's, which he could have
moved there although he cannot remove it.
"""

import errno
import os

_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str, owner: int = -1) -> None:
    """Remove a directory with all that is in it, which is ours or that owner's."""
    owners = (os.geteuid(), owner)
    open_up(path, None, owners)
    top = os.open(path, os.O_RDONLY | _FLAGS)
    try:
        _check(top, path, owners)
        count = 0
        waiting = _empty(top)
        while waiting:
            name = waiting.pop()
            open_up(name, top, owners)
            fd = os.open(name, os.O_RDONLY | _FLAGS, dir_fd=top)
            try:
                _check(fd, name, owners)
                for inner in _empty(fd):
                    open_up(inner, fd, owners)
                    waiting.append(f"{os.urandom(8).hex()}-{count}")
                    count += 1
                    os.rename(inner, waiting[-1], src_dir_fd=fd, dst_dir_fd=top)
            finally:
                os.close(fd)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path)


def _check(fd: int, name: str, owners: tuple[int, int]) -> None:
    if os.fstat(fd).st_uid not in owners:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), name)


def open_up(name: str, above: int | None, owners: tuple[int, int]) -> None:
    """Give a directory back to its owner, whatever its mode; a link is refused, or at least not followed."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, 0o700, dir_fd=above, follow_symlinks=False)
        return
    held = os.open(name, os.O_PATH | _FLAGS, dir_fd=above)
    try:
        _check(held, name, owners)
        os.chmod(f"/proc/self/fd/{held}", 0o700)
    finally:
        os.close(held)


def _empty(fd: int) -> list[str]:
    """Remove all but the directories in a directory; their names."""
    directories = []
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=fd)
    return directories
