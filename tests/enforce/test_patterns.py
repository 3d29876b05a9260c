"""The warden reads patterns as the judge does: the same depth, and the same states, for any pattern and any path."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
from tests.enforce.conftest import ROOT, SANITIZED, Build

from ringfence.model import BUILT_IN, Access, Disk, Kind, Place, Policy, Rule, StepKind, Verdict
from ringfence.plan import patterns
from ringfence.plan.sorts import Judged
from ringfence.policy import glob

assert sys.platform == "linux"

LETTERS = st.sampled_from("abcß€\U0001f600\udcff\udce2-]!^{}, .")
SETS = st.builds(
    lambda negation, members: f"[{negation}{members}]",
    st.sampled_from(("", "!", "^")),
    st.text(LETTERS, min_size=1, max_size=5).map(lambda text: text[:1] + text[1:].replace("]", "")),
)
NAMES = st.lists(st.one_of(LETTERS, st.sampled_from(("*", "?", "**")), SETS), min_size=1, max_size=7).map("".join)
PARTS = st.lists(st.one_of(NAMES, st.just("**"), st.sampled_from(("a", "b", "*"))), max_size=6)
PATHS = st.lists(st.text(LETTERS, min_size=1, max_size=6), max_size=6)


@pytest.fixture(scope="module")
def matcher(build: Build) -> Path:
    return build("match", ROOT / "tests" / "fuzz" / "match.c", (*SANITIZED, "-Wno-unused-function"))


def question(parts: tuple[bytes, ...], path: bytes) -> bytes:
    body = struct.pack("<I", len(parts)) + b"".join(struct.pack("<I", len(part)) + part + b"\0" for part in parts)
    body += path + b"\0"
    return struct.pack("<I", len(body)) + body


def lowered(pattern: str) -> tuple[bytes, ...]:
    rule = Rule(Access.WRITE, Verdict.DENY, pattern, BUILT_IN, glob=True)
    steps, judged = patterns.lower(Policy("/", (rule,)), Disk({}))
    assert judged == (Judged.WRITES if steps else Judged.NOTHING)
    return steps[0].strings if steps else ()


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(st.lists(st.tuples(PARTS, PATHS), min_size=1, max_size=200))
def test_patterns_match_as_the_judge_has_them(matcher: Path, asked: list[tuple[list[str], list[str]]]) -> None:
    questions, expected = [], []
    for parts, names in asked:
        pattern = "/" + "/".join(parts)
        if "{" in pattern or any(name in (".", "..") for name in (*parts, *names)):  # alternatives are no pattern yet
            continue
        try:
            compiled = glob.compile_parts(pattern)
        except glob.GlobError:
            continue
        states = glob.begin(compiled)
        for name in names:
            states = glob.advance(compiled, states, name)
        depth = glob.deepest_match(compiled, names)
        expected.append((depth, states))
        path = "/" + "/".join(names)
        questions.append(question(lowered(pattern), path.encode("utf-8", "surrogateescape")))

    said = subprocess.run([matcher], input=b"".join(questions), capture_output=True, check=True).stdout

    found = [struct.unpack_from("<iQ", said, 12 * number) for number in range(len(expected))]
    assert [(depth, frozenset(bit for bit in range(64) if mask >> bit & 1)) for depth, mask in found] == expected


def test_a_path_is_no_pattern() -> None:
    """What is allowed by its name is matched by that name, whatever is in it."""
    denied = Rule(Access.READ, Verdict.DENY, "/w/**/x", BUILT_IN, glob=True)
    named = Rule(Access.READ, Verdict.ALLOW, "/link/a*[b]{c}?", BUILT_IN)
    disk = Disk({named.path: Place(named.path, "/w/a*[b]{c}?", Kind.FILE)})  # the name that the kernel has
    steps, judged = patterns.lower(Policy("/w", (denied, named)), disk)

    assert steps[1].strings == (b"w", b"a[*][[]b][{]c}[?]")
    assert judged == Judged.READS | Judged.WRITES | Judged.ATTRIBUTES
    assert {step.kind for step in steps} == {StepKind.PATTERN}


def test_more_than_the_warden_takes_is_left_to_the_gaps() -> None:
    many = tuple(Rule(Access.WRITE, Verdict.DENY, f"/w/*{n}", BUILT_IN, glob=True) for n in range(patterns.MOST + 1))
    deep = Rule(Access.WRITE, Verdict.DENY, "/a" * patterns.MOST_PARTS + "/*", BUILT_IN, glob=True)

    assert patterns.lower(Policy("/w", many), Disk({})) == ([], Judged.NOTHING)
    assert patterns.lower(Policy("/w", (deep,)), Disk({})) == ([], Judged.NOTHING)
    assert os.fsdecode(patterns.lower(Policy("/w", many[:1]), Disk({}))[0][0].strings[1]) == "*0"


def test_what_an_allowing_pattern_has_matched_takes_no_room() -> None:
    """It passes that itself, beside a pattern that denies; but for what a link leads to, by the name that has."""
    allow, deny = (Rule(Access.READ, verdict, path, BUILT_IN, glob=True) for verdict, path in PATTERNS)
    found = [
        Rule(Access.READ, Verdict.ALLOW, f"/there/{number}", BUILT_IN, pattern=allow.path) for number in range(2000)
    ]
    places = {rule.path: Place(rule.path, rule.path, Kind.FILE) for rule in found}
    places["/there/7"] = Place("/there/7", "/elsewhere", Kind.FILE, links=("/there/7",))

    steps, judged = patterns.lower(Policy("/ws", (allow, deny, *found)), Disk(places))

    assert judged
    assert [step.strings for step in steps[:3]] == [(b"**", b"*.pem"), (b"there", b"*"), (b"elsewhere",)]


PATTERNS = ((Verdict.ALLOW, "/there/*"), (Verdict.DENY, "/**/*.pem"))
