"""Directories that a shell or a program enters."""

import posixpath

from ..model import Access, Verdict
from .bounds import Bounds
from .reach import Walk
from .state import Field, Shell


def enter(walk: Walk, field: Field, shell: Shell, how: str, physical: bool = False) -> frozenset[str]:
    """The places that a shell may stand in after entering a directory; nothing when it may not."""
    if not field.known or not field.plain:
        walk.refuse(f"{how} {field.shown!r}: a target that expands is refused")
        return frozenset()
    if not shell.places and not field.text.startswith("/"):
        walk.doubt(f"{how} {field.shown!r}, and from where cannot be known")
        return frozenset()
    found = set()
    for place in shell.places or {"/"}:
        logical = posixpath.normpath("/" + posixpath.join(place, field.text).lstrip("/"))
        direct = posixpath.join(walk.stand(place), field.text)
        if walk.links and ".." in field.text:
            walk.doubt(f"{how} {field.shown!r}: '..' may lead through a link that this line makes")
        for path in (direct, logical):
            real = walk.stand(path)
            if not inside(walk.bounds, real):
                walk.find(
                    Verdict.DENY,
                    f"{how} {field.shown!r}, which is outside the worktree "
                    f"({walk.bounds.root}); a command may not leave it",
                    "enter",
                    real,
                )
            elif walk.is_loose(real):
                walk.doubt(f"{how} {field.shown!r}, where this line may have put a link")
        found.add(walk.stand(direct) if physical else logical)
    return frozenset(found)


def inside(bounds: Bounds, real: str) -> bool:
    """Whether a directory may be stood in: the worktree, and what may be written as a whole."""
    if real == bounds.root or real.startswith(bounds.root.rstrip("/") + "/"):
        return True
    return bounds.decide(Access.WRITE, real).verdict is Verdict.ALLOW


def moved(shell: Shell, places: frozenset[str], walk: Walk | None = None) -> tuple[Shell, Shell]:
    """The shell that has moved, and the one that could not; there is no such one where the directory surely stands."""
    entered = shell.copy()
    entered.places = places
    if walk is not None and places and all(walk.surely_stands(walk.stand(place)) for place in places):
        stayed = shell.copy()
        stayed.dead = True
        return entered, stayed
    return entered, shell
