"""K37, K38: Python takes its modules from the directory it is started in, or from where PYTHONPATH says."""

import os
import sys
from pathlib import Path

import pytest
from tests.attacks.conftest import Field, Ground, said

from ringfence import _doorstep

NAMES = ("json", "msgspec", "signal", "fcntl", "sitecustomize", "usercustomize", "struct", "_hashlib", "atexit", "enum")


def hostile(field: Field) -> Ground:
    """A workspace full of modules that leave a mark outside when they are imported."""
    ground = field.ground()
    for name in NAMES:
        mark = f"open({str(ground.outside / name)!r}, 'w')\n"
        ground.file(f"ws/{name}.py", mark)
        ground.file(f"ws/{name}/__init__.py", mark)
    ground.own()
    return ground


def rooted(field: Field) -> list[str]:
    return ["--as-root"] if field.walls.who == "root" else []


def marks(ground: Ground) -> set[str]:
    return {path.name for path in ground.outside.iterdir()} - {"canary", "other", "dir"}


def test_a_module_beside_the_workspace_is_imported_by_python_itself(field: Field) -> None:
    ground = hostile(field)
    said([sys.executable, "-c", "import msgspec"], ground.workspace)

    assert marks(ground) == {"msgspec"}


@pytest.mark.parametrize(
    "options", [(), ("-P",), ("-I",), ("-E",)], ids=["plain", "safe path", "isolated", "no variables"]
)
def test_a_module_of_the_workspace_is_not_imported(field: Field, options: tuple[str, ...]) -> None:
    ground = hostile(field)
    words = [sys.executable, *options, "-m", "ringfence", "run", *rooted(field), "--", "/bin/true"]

    done = said(words, ground.workspace)

    assert (done.code, marks(ground)) == (0, set()), done


def test_the_command_imports_nothing_of_the_workspace(field: Field) -> None:
    ground = hostile(field)
    script = Path(sys.executable).with_name("ringfence")

    done = said([str(script), "run", *rooted(field), "--", "/bin/true"], ground.workspace)

    assert (done.code, marks(ground)) == (0, set()), done


@pytest.mark.parametrize("value", ["", ":/nonexistent", "."])
def test_a_variable_that_means_the_current_directory_imports_nothing(field: Field, value: str) -> None:
    ground = hostile(field)
    for name in ("sitecustomize", "usercustomize"):  # Python imports these before a line of ours is read
        (ground.workspace / f"{name}.py").unlink()
        (ground.workspace / name / "__init__.py").unlink()
        (ground.workspace / name).rmdir()
    for name in ("enum", "struct", "signal", "atexit"):
        (ground.workspace / f"{name}.py").unlink()
        (ground.workspace / name / "__init__.py").unlink()
        (ground.workspace / name).rmdir()
    script = Path(sys.executable).with_name("ringfence")

    done = said(
        [str(script), "run", *rooted(field), "--", "/bin/true"], ground.workspace, {**os.environ, "PYTHONPATH": value}
    )

    assert (done.code, marks(ground)) == (0, set()), done


def test_a_directory_that_the_command_may_make_later_is_no_place_for_modules(tmp_path: Path) -> None:
    here, later = os.path.realpath(tmp_path), os.path.realpath(tmp_path / "later")
    own = os.path.dirname(os.path.dirname(_doorstep.__file__))

    assert _doorstep.clean([later, "/nonexistent", own], later, here, own) == ["/nonexistent", own]
