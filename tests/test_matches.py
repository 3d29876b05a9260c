"""Patterns, where what they begin with shows a second time."""

import pytest

from ringfence.matches import with_other_ways
from ringfence.model import Access, Mount, Origin, Policy, Rule, Verdict

HERE = Origin("p", 1)
ROOT = Mount("/", "8:1", "/")


@pytest.mark.parametrize(
    ("pattern", "other", "added"),
    [
        ("/real/**/*.lock", Mount("/al", "8:1", "/real"), [("/al/**/*.lock", True)]),
        ("/real/**/*.lock", Mount("/al", "8:1", "/"), [("/al/real/**/*.lock", True)]),
        ("/real/**/*.lock", Mount("/al", "8:1", "/real/sub/d"), [("/al/**/*.lock", True)]),
        ("/real/*/d/*.lock", Mount("/al", "8:1", "/real/sub"), [("/al/d/*.lock", True)]),
        ("/real/*/*/*.lock", Mount("/al", "8:1", "/real"), [("/al/*/*/*.lock", True)]),
        ("/real/*/d/*.lock", Mount("/al", "8:1", "/real/sub/other"), []),
        ("/real/d*", Mount("/al", "8:1", "/real/d1"), [("/al", False)]),
        ("/real/d*", Mount("/al", "8:1", "/real/d1/e/f"), [("/al", False)]),
        ("/real/*.lock", Mount("/a[l", "8:1", "/real"), [("/a[[]l/*.lock", True)]),
        ("/real/**/*.lock", Mount("/real/al", "8:1", "/real/sub"), []),  # judged so by that path too
        ("/**/*.lock", Mount("/al", "8:1", "/real"), []),
        ("/real/**/*.lock", Mount("/al", "8:2", "/real"), []),
    ],
)
def test_a_denying_pattern_is_repeated_for_what_is_left_of_it(
    pattern: str, other: Mount, added: list[tuple[str, bool]]
) -> None:
    deny = Rule(Access.WRITE, Verdict.DENY, pattern, HERE, glob=True)
    allow = Rule(Access.WRITE, Verdict.ALLOW, "/real/*", HERE, glob=True)

    found = with_other_ways(Policy("/ws", (allow, deny)), (ROOT, other))

    assert found.rules[:2] == (allow, deny)
    assert [(rule.path, rule.glob) for rule in found.rules[2:]] == added
    again = with_other_ways(found, (ROOT, other))  # as for a run beside this one
    assert with_other_ways(again, (ROOT, other)) == again
