"""The policy for the disk as it is: what its patterns match. Imported only where there are any."""

from . import enforce, policy
from .enforce.walker import walk
from .model import Disk, Place, Policy
from .policy.glob import parted
from .policy.search import Search
from .policy.search import with_matches as matched


def with_matches(found: Policy, held: list[int], ids: tuple[int, int] | None) -> tuple[Policy, Disk]:
    """The policy with what its patterns match; and of the disk where those begin that come by a link, and where nobody
    has looked. A beginning is looked at once: whoever could turn a link there would have it seen by one look alone."""
    begins: dict[str, Place] = {}
    for path in {parted(rule.path)[0]: None for rule in found.rules if rule.glob}:
        own: list[int] = []
        begins[path] = enforce.survey([path], own, ids=ids)[path]
        if begins[path].path == path:
            enforce.let_go(own)  # there may be thousands
        else:
            held += own
    found = policy.with_real_patterns(found, lambda path: begins[path].path)
    search = Search(found, enforce.canonical)
    seen = walk(search.starts(), search.step)
    by_pattern: dict[str, list[str]] = {}
    for path, numbers in seen.paths:
        for number in numbers:
            by_pattern.setdefault(search.patterns[number], []).append(path)
    unsearched = (*seen.closed, *([seen.unseen] if seen.unseen else []))
    linked = {path: place for path, place in begins.items() if place.path != path}
    return matched(found, by_pattern), Disk(linked, unsearched=unsearched)
