"""What a session sees and writes of its repository, and of the project's.

Pure. A session is known by the name of its git directory, which no command can change. It has a repository of its own:
refs, stash, index and the objects that it adds. Of the project's git directory it reads the objects, the hooks and the
configuration, and writes nothing: so the branches, the stash, the logs, the worktrees and whatever else appears there
are closed to it, and of other sessions there is nothing to see at all.
"""

from ..model import Access, Verdict

Row = tuple[Access, Verdict, str]

_LENT = ("objects", "hooks", "config", "lfs")
_WRITTEN = ("objects", "refs", "logs", "packed")  # not the configuration and the hooks beside them
_KEPT = ("objects/info",)  # alternates would add the objects of a stranger
_KEPT_OWN = ("commondir", "config.worktree", "gitdir")


def session_rows(workspace: str, own: str, common: str, project: str) -> list[Row]:
    """Rules for the repository of a session, for the project's, and for the directory in which all sessions are."""
    above = workspace.rpartition("/")[0]
    home = above.removesuffix("/worktrees")
    kept = (*(f"{common}/{name}" for name in _KEPT), *(f"{own}/{name}" for name in _KEPT_OWN))
    return [
        *([(Access.READ, Verdict.DENY, home)] if home and home != above else []),
        *([(Access.READ, Verdict.DENY, project)] if project else []),
        *((Access.READ, Verdict.ALLOW, f"{project}/{name}") for name in _LENT if project),
        *((Access.READ, Verdict.ALLOW, path) for path in (workspace, common)),
        *((Access.WRITE, Verdict.ALLOW, path) for path in (own, *(f"{common}/{name}" for name in _WRITTEN))),
        *((Access.WRITE, Verdict.DENY, path) for path in kept),
    ]
