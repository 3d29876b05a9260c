"""The policy for the disk as it is: what its patterns match. Imported only where there are any."""

import os
from collections.abc import Iterator

import msgspec

from . import enforce, policy
from .enforce.walker import walk
from .model import Disk, Mount, Place, Policy, Rule, Verdict
from .plan.aliases import Table, shows_once
from .policy.glob import Part, advance, begin, compile_parts, escape, parted
from .policy.search import Search
from .policy.search import with_matches as matched


def with_matches(found: Policy, held: list[int], ids: tuple[int, int] | None) -> tuple[Policy, Disk]:
    """The policy with what its patterns match. And of the disk: for each pattern whose beginning is a link, where that
    leads, and the directories that were not searched. Each beginning is looked at once, and everybody goes by that: who
    can replace a link there could else show us one place and the planner another."""
    begins: dict[str, Place] = {}
    texts: dict[str, str] = {}
    for path in {parted(rule.path)[0]: None for rule in found.rules if rule.glob}:
        own: list[int] = []
        surveyed = enforce.survey([path], own, ids=ids)
        begins[path], texts = surveyed[path], texts | surveyed.texts
        if begins[path].path == path:
            enforce.let_go(own)  # there may be thousands
        else:
            held += own
    found = policy.with_real_patterns(found, lambda path: begins[path].path)
    found = with_other_ways(found, enforce.mounts())
    search = Search(found, enforce.canonical)
    seen = walk(search.starts(), search.step)
    by_pattern: dict[str, list[str]] = {}
    for path, numbers in seen.paths:
        for number in numbers:
            by_pattern.setdefault(search.patterns[number], []).append(path)
    unsearched = (*seen.closed, *([seen.unseen] if seen.unseen else []))
    linked = {path: place for path, place in begins.items() if place.path != path}
    return _with_spelt(matched(found, by_pattern)), Disk(linked, unsearched=unsearched, texts=texts)


def _with_spelt(found: Policy) -> Policy:
    """Who denies `app/[slug]` and has a directory called [slug] means that one, too. A grant means what it matches."""
    known = dict.fromkeys(found.rules)
    denying = [rule for rule in known if rule.glob and rule.verdict is not Verdict.ALLOW and os.path.lexists(rule.path)]
    spelt = [msgspec.structs.replace(rule, glob=False, pattern=rule.path) for rule in denying]
    return msgspec.structs.replace(found, rules=(*found.rules, *(rule for rule in spelt if rule not in known)))


def with_other_ways(found: Policy, mounts: tuple[Mount, ...]) -> Policy:
    """The policy with every denying pattern repeated wherever what it begins with, or a part of that, shows again: a
    name is judged by the path that it is used by."""
    if shows_once(mounts):
        return found
    table = Table(mounts)
    known = dict.fromkeys(found.rules)
    denying = [rule for rule in known if rule.glob and rule.verdict is not Verdict.ALLOW]
    others = dict.fromkeys(other for rule in denying for other in _other_ways(rule, table))
    return msgspec.structs.replace(found, rules=(*found.rules, *(other for other in others if other not in known)))


def _other_ways(rule: Rule, table: Table) -> Iterator[Rule]:
    """The same pattern for the other paths: what of it is left where such a path leads, and was not left anyway."""
    parts, pattern = compile_parts(rule.path), rule.path.split("/")[1:]
    names = [name for at, name in enumerate(pattern) if pattern[at - 1 : at + 1] != ["**", "**"]]
    for other, shown in table.ways(parted(rule.path)[0]):
        states = _behind(parts, shown)
        for state in states - _behind(parts, other):
            if state == len(parts):
                yield msgspec.structs.replace(rule, path=other, glob=False, pattern=rule.path)
            elif state - 1 not in states or parts[state - 1] is not None:  # else a `**` before it says it too
                yield msgspec.structs.replace(rule, path="/".join([escape(other).rstrip("/"), *names[state:]]))


def _behind(parts: tuple[Part, ...], path: str) -> frozenset[int]:
    """How many parts of a pattern are behind one who stands at a path, in each way to read it."""
    states = begin(parts)
    for name in filter(None, path.split("/")):
        if len(parts) in states:  # it speaks for all below
            break
        states = advance(parts, states, name)
    return states
