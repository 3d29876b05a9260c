"""Where values stand in a file: right on documents of any shape, and bounded on any text."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.model import Origin, PolicyError
from ringfence.policy.lines import json_places, toml_places

Paths = dict[tuple[str | int, ...], int]

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.sampled_from('ab"\\{}[],:\n#=\u00e9 '), max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('ab"\\:é\n', max_size=4), inner, max_size=4),
    max_leaves=25,
)


def lines_of(value: Any, line: int, indent: int, path: tuple[str | int, ...], found: Paths) -> int:
    """The line of every value as json.dumps(indent=...) writes it; returns the line that the value ends on."""
    found.setdefault(path, line)
    if not isinstance(value, dict | list) or not value:
        return line
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for part, entry in entries:
        line = lines_of(entry, line + 1, indent, (*path, part), found)
    return line + 1


def test_an_entry_without_a_place_has_that_of_its_list() -> None:
    places = json_places("p.json", '{"a":\n["x",\n"y"]}')

    assert [place.line for place in places.origins(("a",), 3)] == [2, 3, 1]


@given(st.dictionaries(st.text('ab"\\:', max_size=4), VALUES, max_size=5))
def test_every_value_of_a_written_document_has_its_line(document: dict[str, Any]) -> None:
    expected: Paths = {}
    lines_of(document, 1, 2, (), expected)

    places = json_places("p.json", json.dumps(document, indent=2, ensure_ascii=False))

    assert {path: places.origin(path).line for path in expected} == expected
    assert set(places.offsets) == set(expected)


TOML = '''
# a comment with [brackets] and "quotes"
enforcement = "required"
network.allowNetwork = true

[filesystem]
allowRead = [
  "/a",  # why
  '/b',
  "/c",
]
"denyRead" = ["/d", "/e"]
allowWrite = """
/f
/g
"""
inject = [{ source = "/s", target = "/t" }, {source = "/u",
  target = "/v" }]

[environment.set]
A = "x = [1]"

[[credentials.files]]
path = "/one"

[[credentials.files]]
path = "/two"
'''


def test_every_value_of_a_toml_document_has_its_line() -> None:
    places = toml_places("p.toml", TOML)

    assert {path: places.origin(path).line for path in places.offsets} == {
        (): 1,
        ("enforcement",): 3,
        ("network", "allowNetwork"): 4,
        ("filesystem",): 6,
        ("filesystem", "allowRead"): 7,
        ("filesystem", "allowRead", 0): 8,
        ("filesystem", "allowRead", 1): 9,
        ("filesystem", "allowRead", 2): 10,
        ("filesystem", "denyRead"): 12,
        ("filesystem", "denyRead", 0): 12,
        ("filesystem", "denyRead", 1): 12,
        ("filesystem", "allowWrite"): 13,
        ("filesystem", "inject"): 17,
        ("filesystem", "inject", 0): 17,
        ("filesystem", "inject", 0, "source"): 17,
        ("filesystem", "inject", 0, "target"): 17,
        ("filesystem", "inject", 1): 17,
        ("filesystem", "inject", 1, "source"): 17,
        ("filesystem", "inject", 1, "target"): 18,
        ("environment", "set"): 20,
        ("environment", "set", "A"): 21,
        ("credentials", "files", 0): 23,
        ("credentials", "files", 0, "path"): 24,
        ("credentials", "files", 1): 26,
        ("credentials", "files", 1, "path"): 27,
    }


def test_a_value_without_a_place_has_that_of_what_is_around_it() -> None:
    places = json_places("p.json", '{\n"a": {\n"b": 1}}')

    assert places.origin(("a", "c", 3)) == Origin("p.json", 2)


@pytest.mark.parametrize(
    ("text", "line"),
    [('{"a": 1,\n "a": 2}', 2), ('{"x": {"a": 1,\n\n "\\u0061": 2}}', 3), ('[{"k": 1}, {"k": 1, "k": 1}]', 1)],
)
def test_a_key_that_comes_twice_is_refused_where_it_comes_again(text: str, line: int) -> None:
    with pytest.raises(PolicyError, match="comes twice") as caught:
        json_places("p.json", text)

    assert caught.value.place == f"p.json:{line}"


def test_the_same_key_in_two_objects_is_no_double() -> None:
    assert json_places("p.json", '[{"k": 1}, {"k": 1}]').origin((1, "k")) == Origin("p.json", 1)


@given(st.text(st.sampled_from("ab\"'\\{}[],=.#\n "), max_size=60))
def test_any_text_is_walked_as_toml_or_refused(text: str) -> None:
    try:
        places = toml_places("p.toml", text)
    except PolicyError:
        return
    assert all(0 <= offset < max(len(text), 1) for offset in places.offsets.values())


@pytest.mark.parametrize(
    "text",
    [
        "a." * 500_000 + "a = 1",
        "[" + "a . " * 250_000 + "a]",
        '"' + '\\"' * 500_000,
        '"""' + '\\"""x' * 150_000,
        "'''" + "''x" * 300_000,
        "a = " + "[" * 1_000_000,
        "a = " + "{a = " * 200_000,
        '"a".' * 250_000,
        "k = 1\n" * 170_000,
        "'" * 1_000_001,
    ],
    ids=lambda text: text[:12],
)
def test_no_toml_takes_long_to_walk(text: str) -> None:
    start = time.process_time()  # however busy the machine is
    try:
        toml_places("p.toml", text)
    except PolicyError:
        pass
    assert time.process_time() - start < 20
