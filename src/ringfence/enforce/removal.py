"""Removing what a command left: trees as deep as it liked, closed to their own user, with links in them.

No recursion and no long path: every directory is moved up to the top and emptied there. All of it by descriptor, for
when root removes it for somebody, who could put a link in the way.
"""

import os

_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Remove a directory with all that is in it."""
    open_up(path, None)
    top = os.open(path, os.O_RDONLY | _FLAGS)
    try:
        count = 0
        waiting = _empty(top)
        while waiting:
            name = waiting.pop()
            open_up(name, top)
            fd = os.open(name, os.O_RDONLY | _FLAGS, dir_fd=top)
            try:
                for inner in _empty(fd):
                    open_up(inner, fd)
                    waiting.append(f"{os.urandom(8).hex()}-{count}")
                    count += 1
                    os.rename(inner, waiting[-1], src_dir_fd=fd, dst_dir_fd=top)
            finally:
                os.close(fd)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path)


def open_up(name: str, above: int | None) -> None:
    """Give a directory back to its owner, whatever its mode; a link is refused, or at least not followed."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, 0o700, dir_fd=above, follow_symlinks=False)
        return
    held = os.open(name, getattr(os, "O_PATH", 0) | _FLAGS, dir_fd=above)
    try:
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
