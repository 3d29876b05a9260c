"""What `ringfence run` imports: it starts hundreds of times an hour, and every module costs it milliseconds.

Asked of a fresh interpreter through -X importtime, which also sees what a process imports that ends by exec or _exit.
It is given the command's name, as the command itself does without much of what msgspec imports.
"""

import ast
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ringfence import model

RUN = "import sys; sys.argv[0] = 'ringfence'; from ringfence.cli import main; main()"

# Modules that must not be on the way, and why: milliseconds are what importing them after msgspec took (CPython 3.11,
# two cores); the whole budget over a bare process is 50.
FORBIDDEN = {
    "argparse": "1.5 ms, with gettext; the run door reads its few flags by hand",
    "asyncio": "24 ms; nothing here waits for two things at once",
    "bisect": "0.3 ms; only where a file system shows twice",
    "ctypes": "1.8 ms; the enactor makes the system calls",
    "dataclasses": "1.4 ms, and each class is compiled anew; msgspec.Struct does the same",
    "decimal": "2 ms; msgspec takes one word of it, and nothing here is one",
    "difflib": "0.9 ms; only wanted for the hint of an error",
    "email": "comes with importlib.metadata",
    "encodings.ascii": "0.3 ms; UTF-8 is there already",
    "hashlib": "2.5 ms, loads OpenSSL; _sha256 (_sha2 from 3.12 on) is in the interpreter",
    "http": "20 ms; nothing here speaks HTTP",
    "importlib.metadata": "28 ms; the version is a constant under test",
    "json": "1.3 ms; msgspec.json does the same",
    "logging": "3.8 ms; what happened is a value, not a log line",
    "multiprocessing": "6.4 ms",
    "pathlib": "3.7 ms; posixpath is there already",
    "random": "0.8 ms, and hashlib with it",
    "ringfence.approvals": "0.6 ms, with what a grant is; only where somebody approved something",
    "shutil": "2.1 ms, with every archive format",
    "signal": "0.5 ms, an enumeration of them all",
    "sqlite3": "2 ms; only where somebody approved something",
    "ssl": "8 ms; nothing here speaks TLS",
    "tempfile": "3.8 ms, through random and shutil",
    "tomllib": "2.1 ms; only when a policy is TOML",
    "unittest": "8.4 ms",
    "urllib": "2 ms; nothing here reads addresses",
    "uuid": "0.4 ms; as decimal",
}


def imports(code: str, *argv: str, cwd: Path, expect: int = 0, asked: str = "") -> set[str]:
    """The modules that a fresh interpreter imports for `code`."""
    command = [sys.executable, "-I", "-X", "importtime", "-c", code, *argv]
    env = os.environ | {"HOME": str(cwd.parent)}  # in a home that was used there may be caches to sweep
    env.pop("XDG_RUNTIME_DIR", None)  # where a hook that stays would be found
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, input=asked, timeout=30)
    assert done.returncode == expect, done.stderr
    rows = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {row.rpartition("|")[2].strip() for row in rows}


def shows_twice() -> bool:
    """Whether this machine has a file system mounted in two places, as `ip netns add` leaves it."""
    devices = [
        row.split()[2] for row in Path("/proc/self/mountinfo").read_bytes().decode(errors="replace").split("\n") if row
    ]
    return len(set(devices)) < len(devices)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What `run -- true` imports beyond the interpreter itself."""
    workspace = tmp_path_factory.mktemp("workspace")
    as_root = ["--as-root"] if os.geteuid() == 0 else []
    for _ in range(20):
        # The fewest of three: what is on the way only because of somebody beside us is not what is meant.
        taken = min((imports(RUN, "run", *as_root, "--", "true", cwd=workspace) for _ in range(3)), key=len)
        if "ringfence.enforce.removal" not in taken and ("bisect" not in taken or shows_twice()):
            break
        time.sleep(1)  # a test beside us has something mounted twice for a moment, or has left something to sweep
    return taken - imports("pass", cwd=workspace)


def test_the_run_door_needs_nothing_but_the_standard_library_and_msgspec(ours: set[str]) -> None:
    strangers = {name.partition(".")[0] for name in ours} - sys.stdlib_module_names

    assert strangers == {"ringfence", "msgspec", "typing_extensions"}  # msgspec looks for the last, and is told no


def test_the_run_door_imports_nothing_dear(ours: set[str]) -> None:
    dear = ours & FORBIDDEN.keys()

    assert {name: FORBIDDEN[name] for name in dear if name != "bisect" or not shows_twice()} == {}


def test_the_run_door_imports_no_other_verb(ours: set[str]) -> None:
    verbs = {"doctor", "plan", "policy", "session", "trust", "why"}

    assert {name for name in ours if name in {f"ringfence.cli.{verb}" for verb in verbs}} == set()


def test_the_run_door_assembles_no_filter(ours: set[str]) -> None:
    assert ours & {"ringfence.plan.filters", "ringfence.plan.syscalls", "ringfence.plan.bpf"} == set()


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What a hook imports that judges a shell line by itself."""
    work = tmp_path_factory.mktemp("home") / "workspace"
    work.mkdir()
    call = {"cwd": str(work), "hook_event_name": "PreToolUse", "tool_name": "Bash"}
    asked = json.dumps({**call, "tool_input": {"command": "ls -la | grep x > out.txt"}})
    return imports(RUN, "hook", "claude", cwd=work, asked=asked) - imports("pass", cwd=work)


def test_few_modules_are_on_the_way(ours: set[str], hooks: set[str]) -> None:
    """Finding and reading one takes a tenth of a millisecond, whatever is in it: one more is worth a thought."""
    run, hook = (len([name for name in taken if name.startswith("ringfence")]) for taken in (ours, hooks))

    assert run <= 78, sorted(ours)
    assert hook <= 43, sorted(hooks)


def test_a_hook_makes_no_value_of_a_run(hooks: set[str]) -> None:
    unneeded = {f"ringfence.model.{name}" for name in ("command", "event", "host", "names", "outcome", "plan")}

    assert hooks & unneeded == set()
    assert "ringfence.guard.reach" in hooks


def test_a_hook_imports_nothing_dear(hooks: set[str]) -> None:
    dear = {name: FORBIDDEN[name] for name in hooks & FORBIDDEN.keys()}

    assert dear == {}


def test_a_hook_imports_nothing_that_typing_and_msgspec_do_without(hooks: set[str]) -> None:
    assert hooks & {"contextlib", "warnings", "msgspec.structs", "msgspec.inspect", "ringfence.cli.warm"} == set()
    assert {"typing", "msgspec.json"} <= hooks


def test_the_probe_sees_an_import_that_is_there(tmp_path: Path) -> None:
    assert "argparse" in imports("import argparse", cwd=tmp_path)


@pytest.mark.parametrize("verb", ["run", "hook"])
def test_what_was_left_out_of_msgspec_is_there_when_it_is_used(tmp_path: Path, verb: str) -> None:
    """The parts that no short process uses come when somebody does."""
    code = (
        "import ringfence; ringfence._doorstep.before_msgspec();"
        "import msgspec, datetime; assert 'textwrap' not in sys.modules;"
        "assert msgspec.json.schema(int) == {'type': 'integer'};"
        "assert msgspec.inspect.type_info(int) == msgspec.inspect.IntType();"
        "assert msgspec.msgpack.decode(msgspec.msgpack.encode([1, 'a'])) == [1, 'a'];"
        "assert msgspec.toml.decode(b'a = 1') == {'a': 1};"
        "import warnings; warnings.simplefilter('error'); assert warnings.filters[0][0] == 'error';"
        "import contextlib; assert contextlib.nullcontext(1).enter_result == 1;"
        "assert [field.name for field in msgspec.structs.fields(msgspec.defstruct('A', ['a']))] == ['a'];"
        "day = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc);"
        "assert msgspec.convert('2026-01-02T00:00:00Z', datetime.datetime) == day;"
        "import decimal; assert decimal.Decimal('1.5') * 2 == 3"
    )
    command = [sys.executable, "-I", "-c", f"import sys; sys.argv = ['ringfence', '{verb}']; {code}"]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", ["service", "log", "mcp"])
@pytest.mark.parametrize("module", ["ringfence.service.app", "psycopg", "opentelemetry.sdk.trace.export", "mcp.server"])
def test_what_an_extra_brings_can_be_imported_by_the_command(tmp_path: Path, verb: str, module: str) -> None:
    code = f"import sys; sys.argv = ['ringfence', '{verb}']; import ringfence.cli.options, {module}"

    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=30)

    assert (done.returncode, done.stderr) == (0, "")


def test_no_value_of_the_model_has_lost_its_module() -> None:
    """What is imported when it is asked for, is there for whoever asks; a checker of types reads another list."""
    tree = ast.parse(Path(model.__file__).read_text(encoding="utf-8"))
    names = [(node.module, alias.name) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
             for alias in node.names]  # fmt: skip

    assert len(names) > 50
    for module, name in names:
        assert getattr(model, name) is getattr(importlib.import_module(f"ringfence.model.{module}"), name)
