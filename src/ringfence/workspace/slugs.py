"""The names of sessions: a small grammar, so that a name is a file, a branch and a word of a command line at once.

Pure. What a name may not be: an option, a path, a second spelling of another name.
"""

import re

from ..model import BRANCH_PREFIX, SessionError
from ..model.session import Fault

_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,48}")
RESERVED = frozenset({"user", "worktrees", ".", "..", "head"})
_HINT = "a to z, 0 to 9 and -, at most 49, beginning with a letter or a digit"


def slug_of(text: str) -> str:
    """The name somebody meant: spaces around it do not count, and capitals are small letters."""
    # Before lower(): it makes letters of the alphabet from some that are not, as from the sign for Kelvin.
    slug = text.strip(" ").lower() if text.isascii() else ""
    if not _SLUG.fullmatch(slug):
        raise SessionError(Fault.INVALID_SLUG, "session", f"{text[:60]!r} is not a name for one", _HINT)
    if slug in RESERVED:
        raise SessionError(Fault.INVALID_SLUG, "session", f"{slug!r} is reserved", "another name")
    return slug


def branch_of(slug: str) -> str:
    """The branch of a session."""
    return BRANCH_PREFIX + slug


def default_slug(utc: str, taken: frozenset[str]) -> str:
    """A name from the minute it is given in (YYYYMMDD-HHMM), counted on where that is taken."""
    slug, number = f"wt-{utc}", 0
    while slug in taken:
        number += 1
        slug = f"wt-{utc}-{number}"
    return slug


def check_word(text: str, fault: Fault, what: str) -> str:
    """A revision or branch as somebody wrote it, if it can be nothing else to git."""
    if not text or text[0] in "-^" or not text.isprintable() or " " in text or len(text) > 250:
        raise SessionError(fault, what, f"{text[:60]!r} names none", "a branch, a tag or a commit")
    return text
