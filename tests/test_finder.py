"""How the program finds its own modules: what Python would have read, and nothing else."""

import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ringfence

PACKAGE = Path(ringfence.__file__).parent
WHO = "import sys; sys.argv = ['ringfence', 'hook']; import {0}; print(type({0}.__loader__).__name__, {0}.__file__)"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Our package with a module more, which says a word when it is imported."""
    made = shutil.copytree(PACKAGE, tmp_path / "ringfence", ignore=shutil.ignore_patterns("__pycache__", "enact"))
    (made / "policy" / "said.py").write_text("print('one')\n")
    (made / "word").mkdir()
    (made / "word" / "__init__.py").write_text("print('package')\n")
    return made


def said(copy: Path, code: str, *options: str, **variables: str) -> str:
    command = [sys.executable, "-s", *options, "-c", code]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(copy.parent), **variables}
    return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=True, timeout=30).stdout


def compiled(source: Path) -> Path:
    mode = py_compile.PycInvalidationMode.TIMESTAMP
    return Path(py_compile.compile(str(source), doraise=True, invalidation_mode=mode) or "")


@pytest.mark.parametrize(
    ("name", "file", "word"), [("policy.said", "policy/said.py", "one"), ("word", "word/__init__.py", "package")]
)
def test_a_module_is_found_compiled_or_not(copy: Path, name: str, file: str, word: str) -> None:
    full = f"ringfence.{name}"
    expected = f"{word}\nLoader {copy / file}\n"

    assert said(copy, WHO.format(full), "-B") == expected
    compiled(copy / file)
    assert said(copy, WHO.format(full), "-B") == expected


def test_what_is_compiled_is_what_is_read(copy: Path) -> None:
    """Else the tests below would show nothing."""
    source = copy / "policy/said.py"
    compiled(source)
    facts = source.stat()
    source.write_text("print('two')\n")
    os.utime(source, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # of the same size and time

    assert said(copy, "import sys; sys.argv = ['ringfence', 'hook']; import ringfence.policy.said") == "one\n"


@pytest.mark.parametrize("change", ["size", "time"])
def test_what_was_compiled_of_another_source_is_not_read(copy: Path, change: str) -> None:
    source = copy / "policy/said.py"
    compiled(source)
    facts = source.stat()
    source.write_text("print('two')\n" if change == "time" else "print('three')\n")
    later = facts.st_mtime_ns + (2_000_000_000 if change == "time" else 0)
    os.utime(source, ns=(facts.st_atime_ns, later))

    taken = said(copy, "import sys; sys.argv = ['ringfence', 'hook']; import ringfence.policy.said")

    assert taken == ("two\n" if change == "time" else "three\n")


def test_what_was_compiled_by_another_python_is_compiled_anew(copy: Path) -> None:
    file = compiled(copy / "policy/said.py")
    file.write_bytes(b"\x00\x00\r\n" + file.read_bytes()[4:])

    assert said(copy, WHO.format("ringfence.policy.said")).startswith("one\nLoader")


@pytest.mark.parametrize("options", [("-O",), ("-X", "pycache_prefix=/nonexistent")])
def test_another_way_of_compiling_is_left_to_python(copy: Path, options: tuple[str, ...]) -> None:
    assert said(copy, WHO.format("ringfence.policy.said"), "-B", *options).startswith("one\nSourceFileLoader")


def test_who_imports_us_finds_us_in_the_usual_way(copy: Path) -> None:
    code = WHO.format("ringfence.policy.said").replace("['ringfence', 'hook']", "['agent']")

    assert said(copy, code, "-B").startswith("one\nSourceFileLoader")


def test_an_error_names_the_file_where_it_stands(copy: Path) -> None:
    (copy / "policy/said.py").write_text("def fail():\n    raise ValueError\n")
    command = [sys.executable, "-m", "compileall", "-q", "policy/said.py"]
    subprocess.run(command, cwd=copy, check=True, timeout=30)  # by a name that leads nowhere from elsewhere

    code = "import sys; sys.argv = ['ringfence', 'hook']; from ringfence.policy.said import fail"

    assert said(copy, f"{code}; print(fail.__code__.co_filename)", "-B") == f"{copy}/policy/said.py\n"


def test_what_is_not_there_is_said_as_ever(copy: Path) -> None:
    lines = ("import ringfence", "try: import ringfence.policy.nothing", "except ImportError as error: print(error)")
    code = "\n".join(("import sys; sys.argv = ['ringfence', 'hook']", *lines))

    assert said(copy, code, "-B") == "No module named 'ringfence.policy.nothing'\n"
