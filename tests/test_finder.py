"""How the program finds its own modules: what Python would have read, and nothing else."""

import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ringfence

SOURCE = Path(ringfence.__file__).parent
PROGRAM = "import sys; sys.argv = ['ringfence', 'hook']; import ringfence.word.said"
LOADED = "; found = ringfence.word.said; print(type(found.__loader__).__name__, found.__file__)"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of our name, with a module that says a word when it is imported."""
    made = tmp_path / "ringfence"
    (made / "word").mkdir(parents=True)
    for name in ("_doorstep.py", "_finder.py"):
        shutil.copy(SOURCE / name, made)
    (made / "__init__.py").write_text("from . import _doorstep\n")
    (made / "word" / "__init__.py").write_text("")
    (made / "word" / "said.py").write_text("print('one')\n")
    return made


def said(package: Path, code: str, *options: str) -> str:
    command = [sys.executable, "-s", "-B", *options, "-c", code]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package.parent)}
    return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=True, timeout=30).stdout


def compiled(source: Path) -> Path:
    mode = py_compile.PycInvalidationMode.TIMESTAMP
    return Path(py_compile.compile(str(source), doraise=True, invalidation_mode=mode) or "")


def test_a_module_is_found_compiled_or_not(package: Path) -> None:
    source = package / "word/said.py"
    expected = f"one\nLoader {source}\n"

    assert said(package, PROGRAM + LOADED) == expected
    compiled(source)
    assert said(package, PROGRAM + LOADED) == expected


def test_a_package_is_found_with_what_it_holds(package: Path) -> None:
    code = PROGRAM + "; print(ringfence.word.__path__, ringfence.word.__package__, ringfence.word.said.__package__)"

    assert said(package, code) == f"one\n['{package}/word'] ringfence.word ringfence.word\n"


def test_what_is_compiled_is_what_is_read(package: Path) -> None:
    """Else the tests below would show nothing."""
    source = package / "word/said.py"
    compiled(source)
    facts = source.stat()
    source.write_text("print('two')\n")
    os.utime(source, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # of the same size and time

    assert said(package, PROGRAM) == "one\n"


@pytest.mark.parametrize(("word", "later"), [("two", 2_000_000_000), ("three", 0)], ids=["time", "size"])
def test_what_was_compiled_of_another_source_is_not_read(package: Path, word: str, later: int) -> None:
    source = package / "word/said.py"
    compiled(source)
    facts = source.stat()
    source.write_text(f"print('{word}')\n")
    os.utime(source, ns=(facts.st_atime_ns, facts.st_mtime_ns + later))

    assert said(package, PROGRAM) == f"{word}\n"


def test_what_was_compiled_by_another_python_is_compiled_anew(package: Path) -> None:
    file = compiled(package / "word/said.py")
    file.write_bytes(b"\x00\x00\r\n" + file.read_bytes()[4:])

    assert said(package, PROGRAM + LOADED).startswith("one\nLoader")


def test_what_was_cut_short_is_compiled_anew(package: Path) -> None:
    file = compiled(package / "word/said.py")
    file.write_bytes(file.read_bytes()[:10])

    assert said(package, PROGRAM) == "one\n"


def test_what_is_compared_by_its_content_is_left_to_python(package: Path) -> None:
    source = package / "word/said.py"
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    source.write_text("print('two')\n")

    assert said(package, PROGRAM) == "two\n"


@pytest.mark.parametrize("options", [("-O",), ("-X", "pycache_prefix=/nonexistent")])
def test_another_way_of_compiling_is_left_to_python(package: Path, options: tuple[str, ...]) -> None:
    assert said(package, PROGRAM + LOADED, *options).startswith("one\nSourceFileLoader")


def test_who_imports_us_finds_us_in_the_usual_way(package: Path) -> None:
    code = PROGRAM.replace("'ringfence', 'hook'", "'agent'") + LOADED

    assert said(package, code).startswith("one\nSourceFileLoader")


def test_an_error_names_the_file_where_it_stands(package: Path) -> None:
    (package / "word/said.py").write_text("def fail():\n    raise ValueError\n")
    command = [sys.executable, "-m", "compileall", "-q", "word/said.py"]
    subprocess.run(command, cwd=package, check=True, timeout=30)  # by a name that leads nowhere from elsewhere

    code = PROGRAM + "; print(ringfence.word.said.fail.__code__.co_filename)"

    assert said(package, code) == f"{package}/word/said.py\n"


def test_what_is_not_there_is_said_as_ever(package: Path) -> None:
    lines = (PROGRAM, "try: import ringfence.word.nothing", "except ImportError as error: print(error)")

    assert said(package, "\n".join(lines)) == "one\nNo module named 'ringfence.word.nothing'\n"
