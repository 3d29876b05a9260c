"""What a run left for a later git, renamed so that nobody goes by it. Imported only where there is something."""

import os

from .lookout import TAKEN
from .planted import SKILLS

SUFFIX = ".quarantined"
# Moved whole.
_STATES = ("rebase-merge", "sequencer", "rebase-apply", "index", "MERGE_RR", "BISECT_START", "gitdir", "hooks", "HEAD")


def quarantine(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Rename what was found so that git no longer takes it for a repository, nor Claude Code for skills; the new
    names."""
    renamed: list[str] = []
    for path in paths:
        name = os.path.basename(path)
        is_odd = os.path.islink(path) or not (os.path.isdir(path) or os.path.isfile(path))
        is_whole = name in (".git", *_STATES) or name in TAKEN or name.endswith(".toml") or is_odd
        if not is_whole:
            renamed += _moved(path, "HEAD")
        if is_whole or path.endswith(SKILLS):  # which may be a repository too
            renamed += _moved(*os.path.split(path))
    return tuple(renamed)


def _moved(where: str, name: str) -> list[str]:
    new = f"{name}{SUFFIX}-{os.urandom(4).hex()}"
    try:
        fd = _directory(where)
    except OSError:  # gone, or closed to us: it stays among what is told, and not among what was moved
        return []
    try:
        try:
            os.rename(name, new, src_dir_fd=fd, dst_dir_fd=fd)
        except PermissionError:  # the command has closed the directory to changes
            os.chmod(f"/proc/self/fd/{fd}" if hasattr(os, "O_PATH") else fd, os.fstat(fd).st_mode & 0o777 | 0o300)
            os.rename(name, new, src_dir_fd=fd, dst_dir_fd=fd)
    except OSError:  # somebody was faster, it is no repository, or nobody could move it
        return []
    finally:
        os.close(fd)
    return [f"{where}/{new}"]


def _directory(path: str) -> int:
    """A directory, opened name by name: a link on the way is refused, also above the workspace, where another run may
    write."""
    flags = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open("/", flags)
    for name in filter(None, path.split("/")):
        above = fd
        try:
            fd = os.open(name, flags, dir_fd=above)
        finally:
            os.close(above)
    return fd
