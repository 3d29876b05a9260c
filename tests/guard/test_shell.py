"""Every simple command is found wherever it hides; tree-sitter-bash, where it makes no mistake, finds no more."""

import msgspec
import pytest
import tree_sitter_bash
from tests.guard.worktree import corpus
from tree_sitter import Language, Node, Parser

from ringfence.guard.shell import Unreadable, parse
from ringfence.guard.syntax import Simple, Word

PARSER = Parser(Language(tree_sitter_bash.language()))


def ours(value: object) -> list[str]:
    """The first word of every simple command below a value."""
    found = []
    if isinstance(value, Simple) and value.words and isinstance(value.words[0], Word):
        found.append(value.words[0].raw)
    if isinstance(value, msgspec.Struct):
        value = [getattr(value, name) for name in value.__struct_fields__]
    if isinstance(value, tuple | list):
        for item in value:
            found += ours(item)
    return found


def theirs(node: Node) -> list[str]:
    found = []
    if node.type == "command_name" and node.text is not None:
        found.append(node.text.decode())
    for child in node.children:
        found += theirs(child)
    return found


KEYWORDS = {"time", "coproc", "}", "{", "!", "esac"}  # tree-sitter takes these for commands
MISREAD = ("coproc", "time", "c\\\np ")  # what follows is misread, and a word that goes on in the next line is cut


def test_no_command_that_another_reader_finds_is_missed() -> None:
    missed = {}
    read = 0
    for line in corpus("ordinary") + corpus("outside") + corpus("unknown"):
        tree = PARSER.parse(line.encode("utf-8", "surrogatepass")).root_node
        if tree.has_error:
            continue
        try:
            mine = ours(parse(line))
        except Unreadable:
            continue
        read += 1
        names = set(theirs(tree)) - KEYWORDS
        if not names <= set(mine) and not any(word in line for word in MISREAD):
            missed[line] = sorted(names - set(mine))

    assert (missed, read > 500) == ({}, True)


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("a && b | c; d &", ["a", "b", "c", "d"]),
        ("a\nb", ["a", "b"]),
        ("echo $(a | b) `c`", ["echo", "a", "b", "c"]),
        ('echo "x $(a "$(b)") y"', ["echo", "a", "b"]),
        ("cat <<E\n$(a)\nE\nb", ["cat", "a", "b"]),
        ("cat <<'E'\n$(a)\nE", ["cat"]),
        ("cat <<A <<B\n1\nA\n$(id)\nB", ["cat", "id"]),
        ("cat <<E | tee out && b\nx\nE", ["cat", "tee", "b"]),
        ("diff <(a) >(b)", ["diff", "a", "b"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("for x in $(a); do b; done; while c; do d; done; until e; do f; done", ["a", "b", "c", "d", "e", "f"]),
        ("case $(a) in b|c) d;; (e) f;& *) g;; esac", ["a", "d", "f", "g"]),
        ("f() { a; }; function g { b; }; h() ( c )", ["a", "b", "c"]),
        ("x=$(a) y=(b $(c)) d", ["a", "c", "d"]),
        ("[[ -f $(a) && $x =~ ^(b|c)$ ]] && d", ["a", "d"]),
        ("((x = $(a))); for ((i=0; i<$(b); i++)); do c; done", ["a", "b", "c"]),
        ("coproc X { a; }; coproc b c", ["a", "b"]),
        ("! time -p a | b", ["a", "b"]),
        ("echo ${x:-$(a)} $((1 + $(b)))", ["echo", "a", "b"]),
        ("ls >|out 2>&1 </dev/null 3<>rw {fd}>x", ["ls"]),
        ("echo a#b # c\nd", ["echo", "d"]),
        ("(a; { b; }) > c", ["a", "b"]),
        ("select x in a; do b; done", ["b"]),
    ],
)
def test_commands_are_found(line: str, commands: list[str]) -> None:
    assert sorted(ours(parse(line))) == sorted(commands)
