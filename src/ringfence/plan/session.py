"""What a session sees and writes of its repository: what commit, fetch and rebase need, and nothing of other sessions.

Pure. A session is known by the name of its git directory, which no command can change. Its HEAD is no branch, so a
commit writes its own directory and the objects. The git directory that all share is closed, and opened name by name:
so the branches of other sessions, the stash, the logs, the other worktrees and whatever else appears there stay closed.
With a view, room of the run's own stands in its place, for git makes a lock there whenever it forgets a ref.
"""

from ..model import Access, Verdict

Row = tuple[Access, Verdict, str]

_SHOWN = (
    *("HEAD", "config", "hooks", "info", "lfs", "modules", "objects", "packed-refs", "shallow"),
    *("refs/heads", "refs/remotes", "refs/tags", "logs/refs/remotes"),
)
_HIDDEN = ("ringfence", "worktrees", "refs", "logs", "refs/heads/ringfence")
_WRITTEN = ("objects", "refs/remotes", "refs/tags", "logs/refs/remotes")
_KEPT = ("objects/info",)  # alternates would add the objects of a stranger
_KEPT_OWN = ("commondir", "gitdir", "config.worktree")


def session_rows(workspace: str, own: str, common: str) -> list[Row]:
    """Rules for the repository of a session, and for the directory in which the worktrees of all of them are."""

    def rows(access: Access, verdict: Verdict, names: tuple[str, ...], root: str = common) -> list[Row]:
        return [(access, verdict, f"{root}/{name}") for name in names]

    above = workspace.rpartition("/")[0]
    home = above.removesuffix("/worktrees")
    others = (home,) if home and home != above else ()
    return [
        *((Access.READ, Verdict.DENY, path) for path in others),
        *rows(Access.READ, Verdict.DENY, _HIDDEN),
        *rows(Access.READ, Verdict.ALLOW, _SHOWN),
        *((Access.READ, Verdict.ALLOW, path) for path in (workspace, own)),
        (Access.WRITE, Verdict.ALLOW, own),
        *rows(Access.WRITE, Verdict.ALLOW, _WRITTEN),
        *rows(Access.WRITE, Verdict.DENY, _KEPT),
        *rows(Access.WRITE, Verdict.DENY, _KEPT_OWN, own),
    ]
