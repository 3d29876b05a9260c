"""Patterns: what they match, how deep, and that no text makes them slow."""

import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.policy.glob import (
    GlobError,
    compile_parts,
    deepest_match,
    escape,
    expand,
    literal_of,
    matches_name,
    parted,
)

NAMES = st.text(st.sampled_from("ab.*?[{},-!]x"), min_size=1, max_size=6).filter(lambda name: name not in (".", ".."))


def depth(pattern: str, path: str) -> int:
    return deepest_match(compile_parts(pattern), [name for name in path.split("/") if name])


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/a/*", "/a/b", 2),
        ("/a/*", "/a/.hidden", 2),
        ("/a/*", "/a/b/c", 2),
        ("/a/*", "/a", -1),
        ("/a/*.env", "/a/x.env", 2),
        ("/a/*.env", "/a/x/y.env", -1),
        ("/a/**/.env", "/a/.env", 2),
        ("/a/**/.env", "/a/b/c/.env", 4),
        ("/a/**/.env", "/a/b/c/.env/d", 4),
        ("/a/**/.env", "/a/.env/b/.env", 4),
        ("/**/k", "/k", 1),
        ("/a**b", "/axyb", 1),
        ("/a**b", "/a/b", -1),
        ("/a?c", "/abc", 1),
        ("/a?c", "/ac", -1),
        ("/r[0-9]", "/r7", 1),
        ("/r[0-9]", "/rx", -1),
        ("/r[!0-9]", "/rx", 1),
        ("/r[^0-9]", "/r7", -1),
        ("/r[]]", "/r]", 1),
        ("/r[a-]", "/r-", 1),
        ("/r[*]", "/r*", 1),
        ("/r[*]", "/rx", -1),
        ("/a/*/**", "/a/b", 2),
        ("/a/**/**/b", "/a/b", 2),
        ("/work*", "/workshop/x", 1),
    ],
)
def test_a_pattern_matches_as_deep_as_its_deepest_place(pattern: str, path: str, expected: int) -> None:
    assert depth(pattern, path) == expected


@pytest.mark.parametrize(
    ("pattern", "fixed", "rest"),
    [
        ("/a/b/*.c/d", "/a/b", "*.c/d"),
        ("/**/a", "/", "**/a"),
        ("/a[*]b/[c]/?", "/a*b/c", "?"),
        ("/a//./b/[cd]", "/a/b", "[cd]"),
    ],
)
def test_a_pattern_begins_with_what_does_not_vary(pattern: str, fixed: str, rest: str) -> None:
    assert parted(pattern) == (fixed, rest)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/a", ("/a",)),
        ("/{a,b}", ("/a", "/b")),
        ("/{a,b}/{c,d}", ("/a/c", "/a/d", "/b/c", "/b/d")),
        ("/{a/b,c}", ("/a/b", "/c")),
        ("/x{a,}y", ("/xay", "/xy")),
        ("/{a,{b,c}d}", ("/a", "/bd", "/cd")),
        ("/[{]a,b}", ("/[{]a,b}",)),
        ("/a,b{c}", ("/a,b[{]c}",)),
        ("/{}/{a,{b}}", ("/[{]}/a", "/[{]}/[{]b}")),
        ("/{x{a,b}}", ("/[{]xa}", "/[{]xb}")),
        ("/{a,a}", ("/a",)),
    ],
)
def test_braces_expand(pattern: str, expected: tuple[str, ...]) -> None:
    assert expand(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("/{a,b", "a { without its }"),
        ("/{" * 9, "more than 8 groups in braces"),
        ("/{a,b,c}{a,b,c}{a,b,c}{a,b,c}", "its braces stand for more than 64 paths"),
        ("/{[a,b}", "a [ without its ]"),
    ],
)
def test_braces_that_cannot_be_read_are_refused(pattern: str, why: str) -> None:
    with pytest.raises(GlobError, match=why.replace("[", r"\[")):
        expand(pattern)


@pytest.mark.parametrize("pattern", ["/[a", "/[a/b]", "/[", "/[!", "/[]"])
def test_a_set_without_its_end_is_refused(pattern: str) -> None:
    with pytest.raises(GlobError):
        compile_parts(pattern)


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_an_escaped_path_is_that_path_alone(names: list[str]) -> None:
    path = "/" + "/".join(names)

    assert (expand(escape(path)), literal_of(escape(path))) == ((escape(path),), path)


@given(st.text("ab*?", min_size=1, max_size=8).filter(lambda text: text != "**"), st.text("ab.", max_size=8))
def test_stars_and_question_marks_match_as_everywhere(pattern: str, name: str) -> None:
    part = compile_parts("/" + pattern)[0]

    assert matches_name(part, name) == fnmatchcase(name, pattern)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/" + "a*" * 2000 + "b", "/" + "a" * 255),
        ("/" + "**/a/" * 800 + "b", "/a" * 2000),
        ("/" + "*/" * 1000 + "b", "/a" * 2000),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    start = time.process_time()  # however busy the machine is

    assert depth(pattern, path) == -1
    assert time.process_time() - start < 20
