"""Where the repository of a workspace is, when it is not `.git` itself: of a linked worktree, or of a submodule.

The workspace only says so in a file, which may be hostile. It is believed when the repository says the same of the
workspace, where no command could have written it, and all of it belongs to the workspace's owner.
"""

import os
import re
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from ..model import SESSION_PREFIX
from .gitfiles import Read, facts_of, first_line, tree_of
from .links import ABSENT, is_there, led_to

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

NOWHERE = "/nonexistent"
MOST_MODULES = 64
MOST_WORKTREES = 1000  # each is four names to be held
_SHARED = frozenset(
    "objects refs reftable logs worktrees lost-found packed-refs packed-refs.lock packed-refs.new rr-cache".split()
)
_CALLED = re.compile(r"\.git(?:/worktrees/[^/]+)?/modules/|\.git$")


class Repository(msgspec.Struct, frozen=True):
    """The repository of a workspace."""

    git: str  # the workspace's own git directory
    worktree: tuple[str, str] | None  # of a linked worktree: that directory, and the common one
    submodule: str  # of a submodule: that directory
    is_session: bool
    project: str  # of a session: the git directory of its project
    modules: list[str] | None  # the git directories of its submodules; None where nobody can look


def repository_of(workspace: str) -> Repository:
    """The repository of a workspace as it is now, or as one would be that is made there."""
    worktree = linked_worktree(workspace)
    inside = "" if worktree else submodule(workspace)
    is_session = worktree is not None and os.path.basename(worktree[0]).startswith(SESSION_PREFIX)
    project = project_of(workspace, *worktree) if worktree and is_session else ""
    git = worktree[0] if worktree else inside or f"{workspace}/.git"
    return Repository(git, worktree, inside, is_session, project, modules(git))


def linked_worktree(workspace: str) -> tuple[str, str] | None:
    """Where the repository of a linked worktree is: its own git directory, and the common one."""
    own = pointed_at(workspace)
    if not own:
        return None
    common = led_to(os.path.join(own, first_line(f"{own}/commondir") or NOWHERE))
    back = led_to(os.path.join(own, first_line(f"{own}/gitdir") or NOWHERE))
    inside = workspace.rstrip("/") + "/"
    if (
        back != f"{workspace}/.git"
        or os.path.dirname(own) != f"{common}/worktrees"
        or (common + "/").startswith(inside)
    ):
        return None
    return (own, common) if _is_theirs(workspace, own, common) else None


def project_of(workspace: str, own: str, common: str) -> str:
    """The git directory of the project whose session a workspace is; "" where there is none, or it does not say so too.

    A session has a repository of its own, which takes the project's objects for its own.
    """
    lent = first_line(f"{common}/objects/info/alternates")
    project = lent.removesuffix("/objects")
    if lent == project or not project.startswith("/") or led_to(project) != project:
        return ""
    known = first_line(f"{project}/worktrees/{os.path.basename(own)}/gitdir")
    return project if known == f"{workspace}/.git" and _is_theirs(workspace, project) else ""


def submodule(workspace: str) -> str:
    """The git directory of a submodule, in the repository of the project around it, or one that was put elsewhere; ""
    where there is none.

    Its configuration, which no command may write, names the workspace as its work tree. Elsewhere a command may have
    written one: what is not called like a git directory, or holds the workspace, is not believed.
    """
    own = pointed_at(workspace)
    is_called = _CALLED.search(own) is not None
    if not is_called or f"{own}/".startswith(f"{workspace}/") or f"{workspace}/".startswith(f"{own}/"):
        return ""
    tree = tree_of(Read()[f"{own}/config"])
    if not tree or led_to(os.path.join(own, tree)) != workspace or os.path.lexists(f"{own}/commondir"):
        return ""
    return own if _is_theirs(workspace, own) else ""


def worktrees(*gits: str) -> list[str] | None:
    """Where the repositories with these git directories keep their linked worktrees; None when they are too many, for a
    command may add some, or where nobody can look: a command that closed the directory could open it again."""
    found = []
    for git in gits:
        try:
            found += [f"{git}/worktrees/{name}" for name in sorted(os.listdir(f"{git}/worktrees"))]
        except ABSENT:
            pass
        except OSError:
            return None
    return found if len(found) <= MOST_WORKTREES else None


def beside(workspace: str, common: str) -> list[str] | None:
    """What is another's in the git directory that linked worktrees share: their own directories, and what is not git's,
    such as worktrees in a bare repository. None where nobody can look, or the workspace itself is in it."""
    if f"{workspace}/".startswith(f"{common}/"):
        return None
    try:
        with os.scandir(common) as entries:
            odd = sorted(entry.path for entry in entries if entry.name not in _SHARED and not entry.is_symlink())
    except OSError:
        return None
    found = worktrees(common)
    return None if found is None else found + [path for path in odd if path[len(common) + 1] in "loprw"]


def modules(git: str) -> list[str] | None:
    """The git directories of the submodules of a repository, below `modules` in its own; None when they are too many,
    or where nobody can look."""
    found: list[str] = []
    waiting = [f"{git}/modules"]
    try:
        while waiting and len(found) <= MOST_MODULES:
            for path in directories(waiting.pop()):
                is_module = any(is_there(f"{path}/{name}") for name in ("HEAD", "config"))
                found += [path] if is_module else []
                waiting.append(f"{path}/modules" if is_module else path)  # a name may have slashes, a module modules
    except OSError:
        return None
    return sorted(found) if len(found) <= MOST_MODULES else None


def directories(path: str) -> list[str]:
    """The directories in a directory, none where there is none."""
    try:
        with opened(path) as entries:
            return [f"{path}/{entry.name}" for entry in entries if entry.is_dir(follow_symlinks=False)]
    except ABSENT:
        return []


def opened(path: str) -> "AbstractContextManager[Iterator[os.DirEntry[str]]]":
    """What is in a directory. One whose names can be listed but not looked at (mode 0444) is closed, too: `.` is such a
    name."""
    return os.scandir(f"{path}/.")


def pointed_at(workspace: str) -> str:
    """The git directory that a `.git` file names, canonical."""
    pointer = first_line(f"{workspace}/.git")
    if not pointer.startswith("gitdir: "):
        return ""
    return led_to(os.path.join(workspace, pointer.removeprefix("gitdir: ")))


def _is_theirs(workspace: str, *paths: str) -> bool:
    owner, found = os.stat(workspace).st_uid, map(facts_of, paths)
    return all(facts is not None and stat.S_ISDIR(facts.st_mode) and facts.st_uid == owner for facts in found)
