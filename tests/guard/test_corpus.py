"""Every command of the corpus has the verdict of the file it stands in."""

import ast
import inspect
from pathlib import Path
from types import ModuleType

import pytest
from tests.guard.worktree import KINDS, corpus, make_template

from ringfence.guard import Bounds, ToolCall, judge, programs, told
from ringfence.judging import bounds_of


@pytest.fixture(scope="module")
def bounds(tmp_path_factory: pytest.TempPathFactory) -> Bounds:
    root = tmp_path_factory.mktemp("worktree") / "w"
    make_template(root)
    return bounds_of(str(root), home="/home/nobody")


@pytest.mark.parametrize(("kind", "verdict"), KINDS.items())
def test_the_corpus_is_judged_as_its_files_say(kind: str, verdict: str, bounds: Bounds) -> None:
    judged = {command: judge(ToolCall("bash", {"command": command}), bounds) for command in corpus(kind)}

    assert {command: made.reasons for command, made in judged.items() if made.verdict.word != verdict} == {}


def test_more_than_half_of_the_corpus_is_ordinary_work() -> None:
    sizes = {kind: len(set(corpus(kind))) for kind in KINDS}

    assert sizes["ordinary"] >= 1000
    assert sizes["ordinary"] > sum(sizes.values()) / 2


def test_every_line_stands_in_one_file_only() -> None:
    lines = [line for kind in KINDS for line in corpus(kind)]

    assert len(lines) == len(set(lines))


def test_the_files_of_the_corpus_are_all_read() -> None:
    assert {path.stem for path in (Path(__file__).parent / "corpus").iterdir()} == set(KINDS)


@pytest.mark.parametrize("module", [programs, told])
def test_a_program_has_one_row(module: ModuleType) -> None:
    """Of two the last counts, and what the first says is lost without a word."""
    found = list[str]()
    for table in (node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Dict)):
        for key, value in zip(table.keys, table.values, strict=True):
            given = eval(ast.unparse(key or value), vars(module))
            found += [f"{table.lineno}: {name}" for name in ([given] if key else given)]

    assert len(found) > 50
    assert [name for name in found if found.count(name) > 1] == []
