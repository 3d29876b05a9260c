"""Names of workspaces that mean something to a shell, a pattern, a terminal or a decoder."""

import os

import pytest
from tests.attacks.conftest import Field, Said, ringfence_words, said

NAMES = [b"a b", b"w[1]*?", b"{a,b}", b"new\nline", b'quo"te\\', b"-rf", b"~", b"\xff\xfe", "ünï".encode(), b"\x1b[31m"]


@pytest.mark.parametrize("name", NAMES)
def test_a_workspace_of_any_name_works_and_holds(field: Field, name: bytes) -> None:
    ground = field.ground()
    path = os.fsencode(ground.workspace) + b"/" + name
    os.mkdir(path)
    ground.own()
    script = "echo x > made && cat made; (echo y > ../beside) 2>/dev/null; true"

    done = said([*ringfence_words(field.walls), "sh", "-c", script], path)  # type: ignore[arg-type]

    assert done == Said(0, "x\n", ""), done
    assert not (ground.workspace / "beside").exists()


@pytest.mark.parametrize("name", [b"\xff\xfe", b"new\nline"])
def test_a_document_about_a_workspace_of_any_name_can_be_made(field: Field, name: bytes) -> None:
    ground = field.ground()
    path = os.fsencode(ground.workspace) + b"/" + name
    os.mkdir(path)
    ground.own()

    done = said([*ringfence_words(field.walls, "--json"), "true"], path)  # type: ignore[arg-type]

    assert done.code == 0, done.err[-300:]
