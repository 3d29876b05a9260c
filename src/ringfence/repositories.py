"""The policy with what git has in the workspace, and of it elsewhere."""

from collections.abc import Mapping

from . import enforce, plan
from .model import Policy


def with_git_programs(
    found: Policy, home: str, environ: Mapping[str, str]
) -> tuple[Policy, tuple[str, str] | None, str, str, list[str] | None]:
    """With what git runs by its configuration kept; and the repository of a worktree, submodule or session. `environ`
    is that of whoever runs git there later."""
    workspace = found.workspace
    worktree = enforce.linked_worktree(workspace)
    own = "" if worktree else enforce.submodule(workspace)
    project = enforce.project_of(workspace, *worktree) if worktree and plan.is_session(worktree[0]) else ""
    modules = enforce.modules(worktree[0] if worktree else own or f"{workspace}/.git")
    paths = enforce.all_programs(workspace, worktree, project or own, modules, home, environ)
    return plan.with_git_programs(found, paths), worktree, own, project, modules


def with_repository(found: Policy, home: str, ids: tuple[int, int] | None, environ: Mapping[str, str]) -> Policy:
    """The policy for the repository as it is: of a worktree or a submodule it lies elsewhere. `environ` is that of who
    asks, and another's with `ids` is not known."""
    workspace = found.workspace
    found, worktree, own, project, modules = with_git_programs(found, home, {} if ids else environ)
    git = worktree[0] if worktree else own or f"{workspace}/.git"
    found = plan.with_git_insides(found, git, enforce.worktrees(git, *(modules or ())), modules)
    if worktree and plan.is_session(worktree[0]):
        return plan.with_session(found, *worktree, project)
    if worktree:
        beside = enforce.beside(workspace, worktree[1]) if plan.has_broker(found, enforce.probe(ids)) else None
        return plan.with_repository(found, *worktree, beside)
    return plan.with_submodule(found, own) if own else found
