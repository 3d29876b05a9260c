"""Patterns, where what they begin with shows a second time."""

import os
from pathlib import Path

import pytest

import ringfence
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


def test_a_denying_pattern_holds_for_what_is_called_as_it_is_written_too(tmp_path: Path, settled: None) -> None:
    """A route of a web framework is a directory called [slug], or {id}."""
    for name in ("[slug]", "s", "{id}", "other"):
        (tmp_path / "app" / name).mkdir(parents=True)
    flags = ringfence.Flags(deny_write=("app/[slug]/p", "app/{id}/p"), cwd=str(tmp_path))
    for name in ("[slug]", "s", "{id}"):
        (tmp_path / "app" / name / "p").write_text("as it was")
    script = 'for name in "[slug]" s "{id}" other; do echo new > "app/$name/p"; done'

    ringfence.run(["sh", "-c", script], workspace=tmp_path, flags=flags, capture=True, as_root=os.geteuid() == 0)

    found = {path.parent.name: path.read_text() for path in tmp_path.glob("app/*/p")}
    assert found == {"[slug]": "as it was", "s": "as it was", "{id}": "as it was", "other": "new\n"}


def test_a_granting_pattern_grants_what_it_matches_and_no_more(tmp_path: Path, settled: None) -> None:
    for name in ("[slug]", "s"):
        (tmp_path / name).write_text(name)
    (tmp_path / "ws").mkdir()
    text = f"{tmp_path}/[slug]"
    flags = ringfence.Flags(allow_read=(text,), deny_read=(text, str(tmp_path)), cwd=str(tmp_path))
    words = ["sh", "-c", 'cat ../s "../[slug]"']

    seen = ringfence.run(words, workspace=tmp_path / "ws", flags=flags, capture=True, as_root=os.geteuid() == 0)

    assert seen.stdout == b"s"
