"""The policy for the disk as it is: what its patterns match. Imported only where there are any."""

from . import enforce, policy
from .enforce.walker import walk
from .model import Policy
from .policy.search import Search
from .policy.search import with_matches as matched


def with_matches(found: Policy) -> tuple[Policy, tuple[str, ...]]:
    """The policy with what its patterns match, and where nobody has looked."""
    found = policy.with_real_patterns(found, enforce.canonical)
    search = Search(found)
    seen = walk(search.starts(), search.step)
    by_pattern: dict[str, list[str]] = {}
    for path, numbers in seen.paths:
        for number in numbers:
            by_pattern.setdefault(search.patterns[number], []).append(path)
    return matched(found, by_pattern), (*seen.closed, *([seen.unseen] if seen.unseen else []))
