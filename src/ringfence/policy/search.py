"""Patterns as something to look for on the disk: where to begin, and what to do at each name. Pure.

A pattern stands for every path it matches, as if each had been written out; so what a search finds becomes rules of its
own, beside the pattern's, which goes on speaking for names that come later.
"""

from collections.abc import Callable, Mapping

import msgspec

from ..model import BUILT_IN, Access, Policy, Rule, Verdict
from .defaults import DEVICES, PRIVATE
from .glob import Part, advance, begin, compile_parts, signs_of

State = tuple[tuple[int, frozenset[int]], ...]  # for each pattern that can still match: its number and its states
Answer = tuple[State | None, tuple[int, ...]]
Others = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], Answer]


class Search:
    """All patterns of a policy, looked for in one walk; `resolve` gives the path that the kernel has for another, as
    patterns begin with such a one already."""

    def __init__(self, policy: Policy, resolve: Callable[[str], str]) -> None:
        self.patterns = tuple(dict.fromkeys(rule.path for rule in policy.rules if rule.glob))
        self._parts = tuple(compile_parts(pattern) for pattern in self.patterns)
        self._known: dict[tuple[State, str], Answer] = {}
        self._others: dict[State, Others] = {}
        self._policy = policy
        self._resolve = resolve

    def starts(self) -> list[tuple[str, State]]:
        """Where to look, the places that the command may write first: each with what can match below it."""
        writable = [self._resolve(rule.path) for rule in self._policy.rules if _opens(rule)]
        fixed = [_literal(parts) for parts in self._parts]
        pairs = zip(self.patterns, fixed, strict=True)
        wanted = [self._is_wanted(pattern, place, writable) for pattern, place in pairs]
        places = [*writable, *(place for place, is_wanted in zip(fixed, wanted, strict=True) if is_wanted)]
        found = []
        for place in dict.fromkeys(places):
            names = [name for name in place.split("/") if name]
            state = tuple(
                (number, states)
                for number, parts in enumerate(self._parts)
                if (place == fixed[number] and wanted[number]) or _is_inside(place, fixed[number])
                if (states := _advanced(parts, names))
            )
            if state:
                found.append((place, state))
        return found

    def _is_wanted(self, pattern: str, place: str, writable: list[str]) -> bool:
        """Whether a pattern is looked for from its own beginning on: a denial of writing matters in writable places."""
        denies = all(
            rule.access is Access.WRITE and rule.verdict is not Verdict.ALLOW
            for rule in self._policy.rules
            if rule.glob and rule.path == pattern
        )
        return not denies or any(place == above or _is_inside(place, above) for above in writable)

    def step(self, state: State, name: str) -> Answer:
        """What can still match below a name, and which patterns match it."""
        ends, begins, insides, other = self._others.get(state) or self._look_ahead(state)
        if not name.endswith(ends) and not name.startswith(begins):
            for text in insides:
                if text in name:
                    break
            else:  # most names
                return other
        known = self._known.get((state, name))
        if known is None:
            known = self._known[state, name] = self._moved(state, name)
        return known

    def _moved(self, state: State, name: str) -> Answer:
        moved = tuple((number, advance(self._parts[number], states, name)) for number, states in state)
        below = tuple((number, states) for number, states in moved if states)
        matches = tuple(number for number, states in below if len(self._parts[number]) in states)
        return tuple(filter(self._goes_on, below)) or None, matches

    def _look_ahead(self, state: State) -> Others:
        """What the names end with that a part of a pattern may match here, or begin with, or have inside; and the
        answer for all others."""
        parts = [self._parts[number][at] for number, states in state for at in states if at < len(self._parts[number])]
        signs = [signs_of(part) for part in parts if part is not None]
        ends = tuple({end for end, begin, inside in signs if end or not inside})  # nothing is the end of every name
        begins = tuple({begin for end, begin, _ in signs if begin and not end})
        insides = tuple({inside for end, begin, inside in signs if inside and not begin and not end})
        found = self._others[state] = ends, begins, insides, self._moved(state, "/")  # which is no name
        return found

    def _goes_on(self, one: tuple[int, frozenset[int]]) -> bool:
        number, states = one
        return min(states) < len(self._parts[number])


def _opens(rule: Rule) -> bool:
    """Whether a rule lets what the host has be written."""
    shows = rule.origin != BUILT_IN or rule.path not in (*PRIVATE, *DEVICES)
    return rule.access is Access.WRITE and rule.verdict is Verdict.ALLOW and not rule.glob and shows


def _literal(parts: tuple[Part, ...]) -> str:
    """The directory that a pattern's fixed names lead to."""
    names = []
    for part in parts[:-1]:
        if not isinstance(part, str):
            break
        names.append(part)
    return "/" + "/".join(names)


def _is_inside(path: str, above: str) -> bool:
    return path.startswith(above.rstrip("/") + "/")


def _advanced(parts: tuple[Part, ...], names: list[str]) -> frozenset[int]:
    states = begin(parts)
    for name in names:
        states = advance(parts, states, name)
    return states


def with_matches(policy: Policy, found: Mapping[str, list[str]]) -> Policy:
    """The policy with a rule for each path that a pattern has matched; the pattern stays."""
    added = tuple(
        msgspec.structs.replace(rule, path=path, glob=False, pattern=rule.path)
        for rule in policy.rules
        if rule.glob
        for path in found.get(rule.path, ())
    )
    return msgspec.structs.replace(policy, rules=policy.rules + added) if added else policy
