"""The policy for the disk as it is: what its patterns match. Imported only where there are any."""

import msgspec

from . import enforce, policy
from .enforce.walker import walk
from .model import Disk, Policy, Verdict
from .policy.glob import parted
from .policy.search import Search
from .policy.search import with_matches as matched


def with_matches(found: Policy, held: list[int], ids: tuple[int, int] | None) -> tuple[Policy, Disk]:
    """The policy with what its patterns match; and the disk as far as somebody has looked, or not: where the patterns
    begin must not be looked at a second time, for who could turn a link there would have it seen once alone."""
    begins = [(parted(rule.path)[0], rule.verdict) for rule in found.rules if rule.glob]
    granted = {path for path, verdict in begins if verdict is Verdict.ALLOW}
    paths = dict.fromkeys(path for path, _ in begins)
    places = dict(enforce.survey(paths, held, ids=ids, denied=paths.keys() - granted).places)
    found = policy.with_real_patterns(found, lambda path: places[path].path)
    for place in tuple(places.values()):  # where they begin now
        places.setdefault(place.path, msgspec.structs.replace(place, asked=place.path, links=()))
    search = Search(found)
    seen = walk(search.starts(), search.step)
    by_pattern: dict[str, list[str]] = {}
    for path, numbers in seen.paths:
        for number in numbers:
            by_pattern.setdefault(search.patterns[number], []).append(path)
    unsearched = (*seen.closed, *([seen.unseen] if seen.unseen else []))
    return matched(found, by_pattern), Disk(places, unsearched=unsearched)
