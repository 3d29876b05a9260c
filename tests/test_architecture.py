"""The rooms and the arrows between them, as docs/architecture.md draws them.

Each rule is a function from one parsed file to its faults, so that the rules themselves are tested on small sources.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "ringfence"

VALUES = {"model"}
PURE = {"policy", "plan", "guard"}
WORLD = {"enforce", "network", "airlock", "audit", "workspace"}
DOORS = {"cli", "service"}
ROOMS = VALUES | PURE | WORLD

# Who may import whom. A room may always import itself; a room that has no row does not exist.
ARROWS = (
    {"model": set[str]()}
    | dict.fromkeys(PURE | WORLD, VALUES)
    | {
        "run": ROOMS
        | {"keep", "where", "gates", "record", "explain", "asking", "command", "job", "siblings", "within"},
        "job": ROOMS | {"keep", "where"},
        "command": ROOMS | {"keep", "where"},
        "keep": ROOMS | {"approvals", "gates", "matches", "where"},
        "matches": ROOMS,
        "gates": ROOMS,
    }
    | {"start": ROOMS | {"run", "keep", "record", "job", "within"}, "record": ROOMS | {"keep", "underway", "recording"}}
    | {"siblings": ROOMS | {"keep", "beside", "taking"}, "beside": ROOMS | {"keep", "job", "run"}, "taking": VALUES}
    | {"within": ROOMS | {"keep", "job", "where", "beside", "siblings", "taking"}}
    | {"recording": ROOMS | {"keep", "record"}}
    | {
        "session": ROOMS | {"run"},
        "explain": ROOMS | {"keep"},
        "learn": ROOMS | {"keep", "record"},
        "why": ROOMS | {"keep", "explain"},
        "where": set(),
        "judging": ROOMS | {"where", "approvals", "keep"},  # what git runs, as a run keeps it
        "approvals": ROOMS,
        "asking": ROOMS | {"keep", "approvals", "record", "inquiry", "onward"},
        "onward": ROOMS | {"keep", "inquiry"},
        "inquiry": ROOMS | {"approvals"},
    }
    | {
        door: ROOMS
        | {
            "run",
            "start",
            "keep",
            "why",
            "judging",
            "where",
            "session",
            "record",
            "explain",
            "learn",
            "approvals",
            "asking",
            "__init__",
        }
        for door in DOORS
    }
    | {"__init__": ROOMS | {"run", "start", "session", "entrances", "_doorstep"}, "__main__": {"cli"}}
    | {"gate": ROOMS}  # a process of its own, which joins the judge to the room that dials
    | {"spawner": ROOMS, "steward": ROOMS | {"carry", "errands"}}  # a tenant's: root's half, its own
    | {"carry": ROOMS | {"start", "session", "steward"}}
    | {"errands": ROOMS | {"session", "record", "approvals"}}
    | {"entrances": VALUES, "_doorstep": {"_finder"}, "_finder": set(), "underway": set()}
)
ARROWS["cli"] |= {"spawner", "service", "_doorstep"}  # it starts two, and a hook steps over it later
ARROWS["cli"] |= {"beside", "siblings", "within"}  # a run inside a run, from both ends

# Modules that reach into the world. Two files of policy read and remember: the disk is open to them alone.
DISK = {"os", "pathlib", "shutil", "tempfile", "glob", "fcntl", "io", "open"}
BEYOND = {"socket", "subprocess", "threading", "time", "ctypes", "multiprocessing", "asyncio", "select", "selectors"}
BEYOND |= {"random", "secrets", "importlib", "platform"}
READERS = {"policy/load.py", "policy/trust.py"}
PLATFORM_FILES = {"enforce/__init__.py", "enforce/unsupported.py"}
PLATFORM_FILES |= {
    "spawner.py",
    "steward.py",
    "carry.py",
    "siblings.py",
    "beside.py",
    "taking.py",
    "within.py",
    "cli/beside.py",
    "workspace/tenants/life.py",
}  # on Linux only, and they say so

# C gets more: the enactor is read from top to bottom, in the order in which it acts.
MOST_LINES = {".py": 500, ".h": 500, ".c": 1000}
MOST_FUNCTION_LINES = 70


def room_of(path: str) -> str:
    return Path(path).parts[0].removesuffix(".py")


def imported(path: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every module named by an import anywhere in the file, in full: `from . import x` gives `ringfence.room.x`."""
    package = ("ringfence", *Path(path).parts[:-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*start, *filter(None, [node.module])))
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def wrong_arrows(path: str, tree: ast.AST) -> Iterator[str]:
    room = room_of(path)
    if room not in ARROWS:
        yield f"{path}: {room} is not a room"
        return
    for line, name in imported(path, tree):
        if name.split(".")[0] == "ringfence":
            second = name.split(".")[1] if "." in name else "__init__"
            target = second if second in ARROWS else "__init__"
            if target not in ARROWS[room] | {room}:
                yield f"{path}:{line}: {room} imports {target}"


def impurities(path: str, tree: ast.AST) -> Iterator[str]:
    if room_of(path) not in VALUES | PURE:
        return
    forbidden = BEYOND if path in READERS else BEYOND | DISK
    used = [(line, name.split(".")[0]) for line, name in imported(path, tree)]
    used += [
        (node.lineno, node.func.id)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"open", "__import__"}
    ]
    yield from (f"{path}:{line}: a pure room uses {name}" for line, name in used if name in forbidden | {"__import__"})


def platform_ifs(path: str, tree: ast.AST) -> Iterator[str]:
    if path in PLATFORM_FILES:
        return
    for node in ast.walk(tree):
        asks = isinstance(node, ast.Attribute) and ast.unparse(node) in {"sys.platform", "os.name"}
        if asks or (isinstance(node, ast.ImportFrom) and ast.unparse(node).startswith("from sys import platform")):
            yield f"{path}:{getattr(node, 'lineno', 0)}: asks for the platform"


def long_functions(path: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > MOST_FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {lines} lines"


RULES = (wrong_arrows, impurities, platform_ifs, long_functions)


def faults(path: str, source: str) -> list[str]:
    tree = ast.parse(source)
    return [fault for rule in RULES for fault in rule(path, tree)]


def files(*suffixes: str) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.suffix in suffixes)


def test_the_source_is_found() -> None:
    assert "model/policy.py" in files(".py")


@pytest.mark.parametrize("path", files(".py"))
def test_a_file_keeps_to_its_room(path: str) -> None:
    assert faults(path, (ROOT / path).read_text()) == []


@pytest.mark.parametrize("path", files(*MOST_LINES))
def test_a_file_is_short_enough_to_be_read(path: str) -> None:
    assert len((ROOT / path).read_text().splitlines()) <= MOST_LINES[Path(path).suffix]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("model/x.py", "from ..policy import load"),
        ("model/x.py", "import ringfence.plan"),
        ("policy/x.py", "from ringfence.plan.make import make_plan"),
        ("policy/x.py", "from .. import enforce"),
        ("policy/x.py", "from .. import run"),
        ("policy/x.py", "import ringfence"),
        ("enforce/x.py", "def f():\n    from ..policy import load"),
        ("enforce/x.py", "from ..network import names"),
        ("run.py", "from .cli import main"),
        ("service/x.py", "from ..cli import main"),
        ("__init__.py", "from .cli import main"),
        ("attic/x.py", ""),
        ("helpers.py", ""),
        ("plan/x.py", "import os"),
        ("plan/x.py", "import os.path"),
        ("plan/x.py", "from os import path"),
        ("model/x.py", "import time"),
        ("policy/decide.py", "from pathlib import Path"),
        ("policy/load.py", "import subprocess"),
        ("plan/x.py", "text = open('/etc/passwd').read()"),
        ("plan/x.py", "__import__('os')"),
        ("enforce/linux.py", "import sys\nif sys.platform == 'linux': pass"),
        ("run.py", "from sys import platform"),
        ("run.py", "def f():\n" + "    pass\n" * MOST_FUNCTION_LINES),
    ],
)
def test_the_checker_finds_a_fault(path: str, source: str) -> None:
    assert len(faults(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("model/plan.py", "import enum\nimport msgspec\nfrom .policy import Need"),
        ("policy/__init__.py", "from .decide import decide as decide"),
        ("policy/decide.py", "import posixpath\nfrom ..model import Policy\nfrom . import explain"),
        ("policy/load.py", "import os\nfrom .parse import parse\nopen('x')"),
        ("enforce/linux.py", "import ctypes, os, subprocess\nfrom ..model import Plan\nfrom .wire import encode"),
        ("enforce/__init__.py", "import sys\nif sys.platform == 'linux':\n    from .linux import launch as launch"),
        ("run.py", "from .enforce import launch\nfrom .policy import load\nfrom .plan import make_plan"),
        ("cli/run.py", "from .. import __version__\nfrom ..run import run\nfrom . import render"),
        ("__init__.py", "from .run import run as run"),
        ("__main__.py", "from .cli import main"),
    ],
)
def test_the_checker_lets_good_sources_pass(path: str, source: str) -> None:
    assert faults(path, source) == []


NAMED = re.compile(r"`(\w+)(?:\.py)?`")


def unmapped(document: str, modules: list[str]) -> list[str]:
    """The modules that no row of the document's tables names: a room's in its own row, the others anywhere."""
    rows = [line for line in document.splitlines() if line.startswith("| `")]
    named = {room: {*NAMED.findall(row)} for row in rows for room in NAMED.findall(row)[:1]}
    between = {name for row in rows for name in re.findall(r"`(\w+)\.py`", row)}
    missing = []
    for path in modules:
        *above, name = Path(path).with_suffix("").parts
        if name.startswith("__") or above[:1] in (["model"], ["cli"]):  # each a value or a verb, by its name
            continue
        if name not in (named.get(above[0], set()) if above else between):
            missing.append(path)
    return missing


def test_the_map_of_the_house_has_every_module() -> None:
    document = (ROOT.parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")

    assert unmapped(document, files(".py")) == []
    assert unmapped("| `plan` | `make` |\n| `run.py` | |", ["plan/make.py", "plan/view.py", "run.py", "job.py"]) == [
        "plan/view.py",
        "job.py",
    ]
