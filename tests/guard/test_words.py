"""Words as our reader takes them, against bash itself: whatever we say we know, bash does."""

import subprocess

import hypothesis
import hypothesis.strategies as st
import pytest

from ringfence.guard.expand import Expander
from ringfence.guard.rewrite import in_quotes, quoted
from ringfence.guard.shell import Unreadable, parse
from ringfence.guard.state import Field, Shell
from ringfence.guard.syntax import Simple, Word

VALUES = {"X": "a b", "Y": "/etc", "Z": "", "W": "-x"}
PIECES = [
    "a",
    "b/",
    "..",
    "/etc",
    "'q r'",
    '"d q"',
    '"$X"',
    "$X",
    "$Y",
    "${Y}",
    "$Z",
    '"$Z"',
    "\\ ",
    "\\$",
    "\\\\",
    "''",
    '""',
]
PIECES += [
    "$'\\x41\\n'",
    "$'\\101'",
    "{a,b}",
    "{1..3}",
    "{a,{b,c}}",
    "{}",
    "{a}",
    "{a",
    ",",
    "}",
    "=",
    "#",
    ":",
    "-",
    "%",
    "é",
]
PIECES += ["\\\n", '"\\$X"', '"\\`"', '"a\\b"', "'\\'", "{a,'b,c'}", "$W", "x=", "$", '"$"', "^", "!", "@", "+"]


def ours(line: str) -> list[str] | None:
    """The arguments as we read them, or None when we do not know all of them."""
    try:
        script = parse(f"printf '%s\\0' {line}")
    except Unreadable:
        return None
    command = script.items[0][0]
    if len(script.items) != 1 or not isinstance(command, Simple) or command.redirects:
        return None
    shell = Shell(frozenset(("/",)), dict(VALUES))
    expander = Expander(
        shell, "/home/x", lambda piece: shell.variables.get(getattr(piece, "name", "?")), lambda _: None
    )
    try:
        fields: list[Field] = [
            field for word in command.words[2:] if isinstance(word, Word) for field in expander.fields(word)
        ]
    except Unreadable:
        return None
    return [field.text for field in fields] if all(field.known for field in fields) else None


def bash(line: str) -> list[str]:
    assigned = "; ".join(f"{name}={in_quotes(value)}" for name, value in VALUES.items())
    script = f'{assigned}; args=(); f() {{ args=("$@"); }}; f {line}\nprintf \'%s\\0\' "${{args[@]}}"; echo -n $#'
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60)
    return done.stdout.decode().split("\0")[:-1]


@hypothesis.settings(max_examples=150)
@hypothesis.given(
    st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join), min_size=1, max_size=3)
)
def test_arguments_are_those_that_bash_gives(words: list[str]) -> None:
    line = " ".join(words)
    known = ours(line)
    hypothesis.assume(known)

    assert known == bash(line)


@pytest.mark.parametrize(
    "word", ["{a},b}", "x{},b}", "{},b}", "{a..},b}", "{a},{b,c}}", "{{a},b}", "{a}{b},c}", "{}x{}"]
)
def test_braces_end_where_they_end_for_bash(word: str) -> None:
    """Behind a comma: `{a},../b}` was one name for us, and two for bash."""
    assert ours(word) == bash(word)


@pytest.mark.parametrize("word", ["x='':~/b", 'x="$X":~/b', "x=$'a':~", "x=~/b", "x=a:~/b"])
def test_a_home_behind_a_name_is_not_taken_for_a_tilde(word: str) -> None:
    assert ours(word) is None
    assert "~" not in bash(word)[0]


@hypothesis.given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30))
def test_a_quoted_text_is_one_word_for_bash(text: str) -> None:
    done = subprocess.run(["bash", "-c", f"printf %s {in_quotes(text)}"], capture_output=True, timeout=60)

    assert done.stdout.decode() == text


@pytest.mark.parametrize(("text", "expected"), [("a/b.c", "a/b.c"), ("", "''"), ("it's", "'it'\\''s'"), ("$x", "'$x'")])
def test_plain_words_stay_bare(text: str, expected: str) -> None:
    assert quoted(text) == expected


@pytest.mark.parametrize(
    "line",
    [
        "echo 'a",
        'echo "a',
        "echo $(",
        "echo `a",
        "(a",
        "a)",
        "{ a",
        "if a",
        "if a; then b",
        "for x in",
        "case a in",
        "a &&",
        "| a",
        "cat <<E\nx",
        "a ;; b",
        "[[ a",
        "((a",
        "$((a)",
        "f() a",
        "a & & b",
        "a >",
        "a > > b",
        "x=(a",
        "${",
        "${x",
        "echo \\",
        "a\rb",
        "a\x00b",
        "a\xa0b",
        "a\x0bb",
        "\ud800",
        "$X\\\na",
        "a @(b|c)",
        "cat <<$X\n$X",
        "a[$(b)]=c",
        "echo $[1]",
        "&\\\n& a",
    ],
)
def test_what_cannot_be_read_in_one_way_only_is_not_read(line: str) -> None:
    with pytest.raises(Unreadable):
        parse(line)
