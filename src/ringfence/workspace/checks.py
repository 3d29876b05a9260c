"""Questions about a path and a workspace, as a service asks them: each a thin caller of `paths`.

Where the older system compared texts, these look where the path leads, so a link out of the workspace is outside.
"""

import os
import posixpath

from ..model import WorkspaceError
from .paths import canonical, is_within


def ensure_path_within_workspace(path: str, root: str) -> str:
    """Where a path leads, if that is strictly below the root."""
    real = canonical(path)
    if real == canonical(root) or not is_within(path, root):
        raise WorkspaceError(real, "Path outside workspace", f"a path below {root}")
    return real


def is_path_within_workspace(path: str, root: str) -> bool:
    """Whether a path leads to the root or below it; what cannot be resolved does not."""
    try:
        return is_within(path, root)
    except WorkspaceError:
        return False


def resolve_and_validate_path(target: str, root: str) -> str:
    """Where a target leads that starts at the root, also when it is written as absolute; the root itself counts."""
    real = canonical(target.lstrip("/") or ".", root)
    if not is_within(real, root):
        raise WorkspaceError(real, "Path outside workspace", f"a path below {root}")
    return real


def resolve_safe_path(target: str, root: str) -> str:
    """Like the last, for a stricter caller: no absolute path, and no .. at all, however it is spelled."""
    if target.startswith(("/", "\\")) or ".." in target.replace("\\", "/").split("/"):
        raise WorkspaceError(target, "is absolute or goes up", "a relative path without ..")
    return resolve_and_validate_path(target, root)


def resolve_for_deletion(target: str, root: str) -> str:
    """Like the last, but never the root itself."""
    real = resolve_safe_path(target or ".", root)
    if real == canonical(root):
        raise WorkspaceError(real, "Cannot delete root directory")
    return real


def has_traversal(path: str) -> bool:
    """Whether a path is written in another way than it would be normalised, or goes up."""
    return posixpath.normpath(path) != path or ".." in path.split("/")


def validate_workspace_path(path: str, bases: tuple[str, ...]) -> str:
    """Where a workspace is, if that is within one of the bases and exists."""
    real = canonical(path)
    if not any(is_within(path, base) for base in bases):
        raise WorkspaceError(real, "lies in none of the places for workspaces")
    if not os.path.isdir(real):
        raise WorkspaceError(real, "there is no such workspace")
    return real
