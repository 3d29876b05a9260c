"""The package as it is installed: public names, version, wheel, man page."""

import hashlib
import importlib.metadata
import os
import re
import runpy
import shutil
import stat
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import pytest

import ringfence
from ringfence import _doorstep

ROOT = Path(__file__).parent.parent
BUILD_FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
PROGRAM, DIGEST = "ringfence/enforce/enact", "ringfence/enforce/enact.sha256"
VERBS = {"run", "plan", "doctor", "why", "policy", "trust", "judge", "hook", "mcp", "session"}
VERBS |= {"install", "uninstall", "status", "log", "learn", "profile", "approvals", "tenant", "service", "spawner"}


def test_the_public_names_are_sorted_and_are_what_is_there() -> None:
    module = types.ModuleType
    there = {name for name in dir(ringfence) if name[0] != "_" and not isinstance(getattr(ringfence, name), module)}

    assert ringfence.__all__ == sorted(ringfence.__all__)
    assert set(ringfence.__all__) - {"__version__"} == there


def test_run_is_the_function_not_the_module() -> None:
    assert callable(ringfence.run)


def test_the_version_is_the_one_that_was_installed() -> None:
    assert ringfence.__version__ == importlib.metadata.version("ringfence")


def test_the_package_is_typed() -> None:
    assert (Path(ringfence.__file__).parent / "py.typed").is_file()


def copy_sources(into: Path) -> Path:
    """A copy to build in, so that building does not touch the program that other tests run."""
    made = shutil.ignore_patterns("__pycache__", "enact", "enact.sha256")
    shutil.copytree(ROOT / "src", into / "src", ignore=made)
    shutil.copytree(ROOT / "man", into / "man")
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, into)
    return into


def build(tree: Path, target: str = "wheel", **environ: str) -> tuple[Path, str]:
    """What the hatchling that is installed here makes from `tree`, and what it said."""
    dist = tree / f"dist-{target}"
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(dist)]
    run = subprocess.run(command, cwd=tree, env={**os.environ, **environ}, check=True, capture_output=True, text=True)
    (made,) = dist.glob("*.whl")
    return made, run.stdout + run.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(copy_sources(tmp_path_factory.mktemp("a tree") / "with spaces"))[0]


@pytest.mark.slow
def test_the_wheel_is_for_this_machine_and_any_python(built: Path) -> None:
    assert built.name.endswith(f"-py3-none-linux_{os.uname().machine}.whl")


@pytest.mark.slow
def test_the_wheel_carries_the_program_executable_with_its_digest(built: Path) -> None:
    with zipfile.ZipFile(built) as archive:
        program, digest = archive.read(PROGRAM), archive.read(DIGEST)
        mode = stat.S_IMODE(archive.getinfo(PROGRAM).external_attr >> 16)

    assert digest.decode().strip() == hashlib.sha256(program).hexdigest()
    assert mode == 0o755


@pytest.mark.slow
def test_the_wheel_carries_types_licence_and_man_page_and_nothing_of_ours_is_left_out(built: Path) -> None:
    with zipfile.ZipFile(built) as archive:
        names = set(archive.namelist())
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    version = ringfence.__version__

    assert sources | {"ringfence/py.typed", f"ringfence-{version}.dist-info/licenses/LICENSE"} <= names
    assert f"ringfence-{version}.data/data/share/man/man1/ringfence.1" in names


@pytest.mark.slow
def test_the_same_sources_make_the_same_wheel(built: Path, tmp_path: Path) -> None:
    again, _ = build(copy_sources(tmp_path / "elsewhere"))

    assert again.read_bytes() == built.read_bytes()


@pytest.mark.slow
def test_without_a_compiler_the_wheel_is_pure_has_no_program_and_says_so(tmp_path: Path) -> None:
    tree = copy_sources(tmp_path / "tree")
    (tree / "src" / PROGRAM).write_bytes(b"left over from another time")

    made, said = build(tree, CC="no-such-compiler")

    with zipfile.ZipFile(made) as archive:
        assert {PROGRAM, DIGEST}.isdisjoint(archive.namelist())
    assert made.name.endswith("-py3-none-any.whl")
    assert "WARNING: built without the enactor program: no C compiler ('no-such-compiler' not found)" in said


@pytest.mark.slow
def test_a_program_that_does_not_compile_is_an_error_and_not_a_pure_wheel(tmp_path: Path) -> None:
    tree = copy_sources(tmp_path / "tree")
    (tree / "src/ringfence/enforce/enact.c").write_text("int f(void) { int unused; return 0; }\n")

    with pytest.raises(subprocess.CalledProcessError):
        build(tree)


@pytest.mark.slow
def test_an_editable_install_builds_the_program_in_the_tree(built: Path, tmp_path: Path) -> None:
    tree = copy_sources(tmp_path / "tree")

    build(tree, "wheel:editable")

    with zipfile.ZipFile(built) as archive:
        assert (tree / "src" / PROGRAM).read_bytes() == archive.read(PROGRAM)


def test_the_program_needs_no_loader_and_no_relocations() -> None:
    read = ["readelf", "--wide", "--relocs", "--program-headers", str(ROOT / "src" / PROGRAM)]
    seen = subprocess.run(read, check=True, capture_output=True, text=True).stdout

    assert "There are no relocations in this file." in seen
    assert "INTERP" not in seen
    assert "DYNAMIC" not in seen
    assert not re.search(r"LOAD.* RWE ", seen)


def test_the_man_page_and_the_help_name_the_same_verbs() -> None:
    page = set(re.findall(r"^\.SS ringfence (\w+)", (ROOT / "man/ringfence.1").read_text(), re.MULTILINE))
    command = Path(sys.executable).with_name("ringfence")
    run = subprocess.run([command, "--help"], capture_output=True, text=True, check=True)
    help_ = set(re.findall(r"^ +(?:ringfence )?([a-z]+)\b", run.stdout, re.MULTILINE))

    assert page == VERBS
    assert help_ & VERBS == VERBS
    assert help_ <= VERBS


PACKAGE = str(Path(ringfence.__file__).parent)


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("/venv/bin/ringfence", ["/venv/bin/ringfence", "run"], True),
        ("-m", ["-m", "ringfence", "run", "--", "x"], True),
        ("-m", ["-I", "-X", "importtime", "-Bm", "ringfence"], True),
        ("-m", ["-mringfence"], True),
        (f"{PACKAGE}/__main__.py", ["-m", "ringfence"], True),
        ("-m", ["-m", "agent", "-m", "ringfence"], False),
        ("/agent/__main__.py", ["-m", "agent"], False),
        ("/venv/bin/pytest", ["/venv/bin/pytest"], False),
        ("-c", ["-c", "import ringfence"], False),
        ("", [], False),
    ],
)
def test_we_are_the_program_only_when_we_are(name: str, words: list[str], expected: bool) -> None:
    assert _doorstep.is_program(name, words, PACKAGE) == expected


def test_a_program_started_as_a_module_keeps_its_garbage_collector_and_its_path(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("import gc, sys, ringfence; print(gc.isenabled(), sys.path[0], ringfence.start)")
    command = [sys.executable, "-m", "agent"]

    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=30).stdout

    assert said.startswith(f"True {tmp_path} <function")


@pytest.mark.needs_program("aarch64-linux-gnu-gcc")
def test_the_enactor_is_compiled_for_the_other_machine_too() -> None:
    """Some system calls are there and not here: what only they need must not be in the way."""
    compile_program = runpy.run_path(str(ROOT / "hatch_build.py"))["compile_program"]

    _, machine = compile_program(ROOT / "src/ringfence/enforce/enact.c", "aarch64-linux-gnu-gcc")

    assert machine == "aarch64"
