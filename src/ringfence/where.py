"""Which directory is the workspace, seen from a place inside it, and where our own code is. It imports nothing of
ours: hooks have little time."""

import errno
import os
import stat
import sys
from collections.abc import Mapping

NOWHERE = "/nonexistent"
NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG)
# Our own code: whoever could write it would be outside at the next run, and be the next hook. Also the program by the
# name it was called by: a link on the way there may lie in the workspace.
_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_CALLED = {os.path.abspath(name) for name in sys.argv[:1] if os.path.basename(name) in ("ringfence", "ringfence-shell")}
OWN = tuple(sorted({_PACKAGE, os.path.realpath(sys.prefix), *_CALLED} - {"/usr", "/usr/local", "/"}))


def find_workspace(cwd: str) -> str:
    """The git top level around a directory, or the directory itself.

    A command could plant a repository below the project to be started there without the project's policy; so the
    outermost directory that has one is taken, where there is any below the home.
    """
    found, home = "", os.path.realpath(os.environ.get("HOME") or NOWHERE)
    path = cwd
    while path not in ("/", home):
        if any(_is_there(f"{path}/.ringfence/policy.{kind}") for kind in ("json", "toml")):
            found = path
        path = os.path.dirname(path)
    path = cwd
    while not found and path != "/":
        if _is_repository(f"{path}/.git"):
            found = path
        path = os.path.dirname(path)
    return found or cwd


def _is_repository(path: str) -> bool:
    """A directory with a HEAD, or the file that a linked worktree has in its place."""
    return _is_there(f"{path}/HEAD") or stat.S_ISREG(_mode(path, follow_symlinks=True))


def _is_there(path: str) -> bool:
    return _mode(path, follow_symlinks=False) != 0


def _mode(path: str, follow_symlinks: bool) -> int:
    """The mode of what stands there; 0 for nothing. Any error but these is no answer: we would go on to a larger
    workspace, or past a policy."""
    try:
        return os.stat(path, follow_symlinks=follow_symlinks).st_mode
    except OSError as error:
        if error.errno in NOTHING:
            return 0
        raise


def chosen_root(cwd: str, environ: Mapping[str, str]) -> str:
    """The workspace of an agent: WORKTREE_SANDBOX_PATH where it names a directory inside the one that is found.

    A project can set variables of its agent, so the variable may only narrow.
    """
    found = os.path.realpath(find_workspace(cwd))
    named = environ.get("WORKTREE_SANDBOX_PATH", "").strip()
    real = os.path.realpath(named) if os.path.isabs(named) else ""
    inside = real == found or real.startswith(found.rstrip("/") + "/")
    return real if inside and os.path.isdir(real) else found


def find_program(name: str, path: str, cwd: str) -> str:
    """The absolute path a shell would find. A name that is not found is left to exec, which says so."""
    if name.startswith("/"):
        return name
    if "/" in name:
        return os.path.join(cwd, name)
    for directory in path.split(os.pathsep):
        candidate = os.path.join(cwd, directory, name)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    return f"/proc/nowhere/{name}"  # exec says that it is not there; /nonexistent may be somebody's home, and closed
