"""The search for what patterns match: it goes where they can match, follows no link, and ends in time."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.enforce import walker
from ringfence.enforce.walker import Found
from ringfence.model import Access, Origin, Policy, Rule, Verdict
from ringfence.policy.search import Search, with_matches

HERE = Origin("p", 1)


def search(workspace: Path, *patterns: str, verdict: Verdict = Verdict.DENY, access: Access = Access.READ) -> Search:
    rules = [Rule(access, verdict, f"{workspace}/{pattern}", HERE, glob=True) for pattern in patterns]
    writable = Rule(Access.WRITE, Verdict.ALLOW, str(workspace), HERE)
    return Search(Policy(str(workspace), (writable, *rules)), str)


def found(asked: Search, workspace: Path) -> tuple[list[str], Found]:
    seen = walker.walk(asked.starts(), asked.step)
    return sorted(os.path.relpath(path, workspace) for path, _ in seen.paths), seen


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a/b/c/k.pem", "a/k.pem", "a/x", "d/e/.env", ".env", "d/release7/f"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "loop").symlink_to(".")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("**/*.pem", ["a/b/c/k.pem", "a/k.pem"]),
        ("*/*.pem", ["a/k.pem"]),
        ("**/.env", [".env", "d/e/.env"]),
        ("d/release[0-9]", ["d/release7"]),
        ("?/b", ["a/b"]),
        ("a/**/c", ["a/b/c"]),
        ("**/no", []),
        ("lo*", ["loop"]),
    ],
)
def test_a_pattern_finds_what_it_matches(tree: Path, pattern: str, paths: list[str]) -> None:
    assert found(search(tree, pattern), tree)[0] == paths


def test_one_walk_serves_all_patterns(tree: Path) -> None:
    asked = search(tree, "**/*.pem", "**/.env")

    assert found(asked, tree)[0] == [".env", "a/b/c/k.pem", "a/k.pem", "d/e/.env"]


def test_a_beginning_without_stars_bounds_the_walk(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    scandir = os.scandir

    def watched(path: str) -> "os._ScandirIterator[str]":
        listed.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", watched)

    found(search(tree, "a/*/c"), tree)

    assert listed == [f"{tree}/a", f"{tree}/a/b"]


def test_a_denial_of_writing_is_not_looked_for_where_nothing_is_writable(tree: Path) -> None:
    rule = Rule(Access.WRITE, Verdict.DENY, f"{tree.parent}/**/.env", HERE, glob=True)
    writable = Rule(Access.WRITE, Verdict.ALLOW, f"{tree}/d", HERE)
    asked = Search(Policy(f"{tree}/d", (writable, rule)), str)

    assert [path for path, _ in asked.starts()] == [f"{tree}/d"]


@pytest.mark.parametrize(("bound", "value"), [("MOST_ENTRIES", 3), ("MOST_FOUND", 1), ("MOST_SECONDS", -1.0)])
def test_a_bound_ends_the_walk_and_says_where(
    tree: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: float
) -> None:
    monkeypatch.setattr(walker, bound, value)

    assert found(search(tree, "**/*.pem", "**/*"), tree)[1].unseen.startswith(str(tree))


def test_a_match_becomes_a_rule_of_the_same_origin(tree: Path) -> None:
    asked = search(tree, "*/*.pem")
    policy = with_matches(asked._policy, {asked.patterns[0]: [f"{tree}/a/k.pem"]})

    assert policy.rules[-1] == Rule(Access.READ, Verdict.DENY, f"{tree}/a/k.pem", HERE, pattern=f"{tree}/*/*.pem")


PIECES = st.sampled_from(("a", "b", ".", "*", "?", "[ab]", "[!a]", "[.]", "ab"))
PATTERNS = st.lists(st.lists(PIECES, min_size=1, max_size=4).map("".join) | st.just("**"), min_size=1, max_size=3)


@given(st.lists(PATTERNS, min_size=1, max_size=3), st.lists(st.text("ab.c", min_size=1, max_size=5), max_size=4))
def test_names_that_are_told_at_a_glance_are_told_rightly(patterns: list[list[str]], names: list[str]) -> None:
    """Every other name goes through the patterns part by part."""
    asked = search(Path("/w"), *map("/".join, patterns))
    for _, start in asked.starts():
        state = start
        for name in names:
            below, matches = asked.step(state, name)
            assert (below, matches) == asked._moved(state, name)
            if below is None:
                break
            state = below
