"""A session whose record cannot be read, as a disk may leave it: known again by what else there is of it.

Nothing is removed here. What the record alone knew is the branch that the session began from.
"""

import os

from ..model import SessionError
from ..model.session import Fault, Session, State
from . import paths, private
from .ledger import Ledger
from .slugs import branch_of


def rebuild(ledger: Ledger, name: str, error: SessionError) -> str:
    """Write the record of a session anew, if all of it is there or it had ended; what was done, as a sentence."""
    branch = branch_of(name)
    tip = ledger.git.commit_of(f"refs/heads/{branch}")
    is_in_trash = ledger.has("trash", name)
    has_place = is_in_trash or ledger.has("worktrees", name)
    if not tip or has_place != ledger.has("git", name):
        raise error
    top, common = ledger.repository.top, ledger.repository.common
    state = State.ACTIVE if has_place else State.ENDED
    session = Session(
        name, branch, "", tip, tip, top, common, ledger.worktree(name), state, "", config=private.config_for(ledger)
    )
    if is_in_trash and not ledger.has("worktrees", name):
        ledger.move(name, "trash", "worktrees")
    if has_place:
        private.check_pointers(session)
    _put_aside(ledger, name)
    ledger.write(session)
    return f"{name}: its record was damaged, and is made anew; only `merge --into` knows where it began"


def _put_aside(ledger: Ledger, name: str) -> None:
    fd = paths.open_directory("records", ledger.home)
    try:
        os.rename(f"{name}.json", f"{name}.damaged", src_dir_fd=fd, dst_dir_fd=fd)
    finally:
        os.close(fd)


def is_damaged(error: SessionError) -> bool:
    return error.fault is Fault.UNSAFE and error.what.startswith("is damaged")
