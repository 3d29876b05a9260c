"""The judge says what the kernel does: random policies over random trees, every access tried for real.

Each example is one tree and one policy. A program tries every access bare, and on each backend inside; the answers are
held against `policy.decide`. A difference must be one that the plan states as a gap, as `oracle` reads it.
"""

import contextlib
import functools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Set
from pathlib import Path
from typing import NamedTuple

import hypothesis
import pytest
from tests.attacks.conftest import PATH, PYTHON, ROOT, WALLS, Walls, as_user, backend
from tests.judge.accesses import Answer, Question, is_done
from tests.judge.oracle import Oracle
from tests.judge.trees import PRIVATE, UNIVERSE, Node, World, grown, worlds

import ringfence
from ringfence import keep
from ringfence.model import Access, Refused
from ringfence.plan import crowds
from ringfence.run import make_request

INSIDE = Path(__file__).with_name("inside.py").read_text()
PLACES = tuple(place for place in ("/var/tmp", "/opt") if os.access(place, os.W_OK))
EXAMPLES = 6  # of some 600 accesses each; `scripts/judge-kernel` tries as many as it is told
LEAST = 2000
Answers = dict[str, Answer]


def words(world: World, base: Path) -> list[str]:
    paths = {path: world.placed(str(base), path) for path in (*UNIVERSE, "ws", "out", *PRIVATE)}
    told = {"paths": paths, "pairs": world.pairs, "way": world.way}
    return [PYTHON, "-I", "-S", "-c", INSIDE, str(base), json.dumps(told)]


@functools.lru_cache(256)
def bare(world: World, uid: int) -> Answers:
    """What is done without a sandbox, by the same user: on every backend the same."""
    with grown(world, (uid, uid) if ROOT else None) as base:
        user = as_user(uid) or ["setpriv", "--bounding-set=-all", "--"] * ROOT  # root inside has no capabilities either
        done = subprocess.run(
            [*user, *words(world, base)], cwd=world.start(base), capture_output=True, check=True, timeout=60
        )
        found: Answers = json.loads(done.stdout)
        return found


class Held(NamedTuple):
    """How many accesses were tried on a backend, what was wrong, and what was excused, of which access."""

    tried: int
    faults: list[str]
    excused: Set[tuple[str, str]]


def held(world: World, walls: Walls) -> Held:
    """Try every access of a world on a backend."""
    owner = (walls.uid, walls.uid) if ROOT else None
    outside = bare(world, walls.uid)
    with (
        pytest.MonkeyPatch.context() as patch,
        grown(world, owner) as base,
        policy_file(world, base) as file,
        backend(walls),
    ):
        patch.setattr(crowds, "LEAST", world.least)
        patch.setattr(crowds, "MANY", world.many)
        workspace, start = str(base / "ws"), world.start(base)
        flags = ringfence.Flags(policy_files=(file,), cwd=start)
        as_root = walls.who == "root"
        oracle = Oracle(keep.prepare(make_request(workspace, start, flags, as_root)), world, str(base))
        before = seen(base)
        outcome = ringfence.run(
            words(world, base), workspace=workspace, cwd=start, env={"PATH": PATH}, flags=flags, capture=True,
            input=b"", timeout=60, as_root=as_root,
        )  # fmt: skip
        if isinstance(outcome.ending, Refused) and outcome.ending.kind == "directory":
            assert not oracle.may(Access.READ, start), outcome.ending
            return Held(0, [], frozenset())  # behind bubblewrap nobody starts in what is hidden
        assert outcome.exit_code == 0, (outcome.ending, outcome.stderr)
        inside: Answers = json.loads(outcome.stdout or b"")
        faults = [*differences(oracle, world, base, outside, inside), *changed(oracle, before, seen(base))]
        return Held(len(inside), faults, oracle.excused)


def differences(oracle: Oracle, world: World, base: Path, outside: Answers, inside: Answers) -> list[str]:
    """Where the kernel's answer is neither the judge's nor stated by the plan."""
    faults = []
    gone = {
        Question.read(key.removesuffix(" undone"), world, str(base)).path for key in inside if key.endswith("undone")
    }
    for key in sorted(outside.keys() | inside.keys()):
        if key.endswith("undone"):
            path = Question.read(key.removesuffix(" undone"), world, str(base)).path
            way = inside.get(key) == "EXDEV" and bool(oracle.named_below(path))  # nothing is moved on to such a way
            goes = way or path in oracle.loose or bool(oracle.patterned_below(path))  # it may go, not come back
            faults += [f"{key}: {inside[key]}"] if key in inside and not goes else []
            continue
        bare_answer, answer = outside.get(key, "absent"), inside.get(key, "absent")
        question = Question.read(key, world, str(base))
        if gone and not is_done(answer) and (answer in ("ENOENT", "absent") or gone.intersection(question[1:])):
            continue  # a link that could not come back, or what was tried through it afterwards
        fault = oracle.fault(question, bare_answer, answer)
        faults += [f"{key}: {fault}; bare {bare_answer}"] if fault else []
    return faults


Seen = dict[str, tuple[int, ...]]


def seen(base: Path) -> Seen:
    """What there is, and what would show that somebody has changed it."""
    found: Seen = {}
    for above, directories, files in os.walk(base):
        for name in (*directories, *files):
            facts = os.lstat(path := os.path.join(above, name))
            found[path] = (facts.st_ino, facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_nlink)
    return found


def changed(oracle: Oracle, before: Seen, after: Seen) -> list[str]:
    """What is another thing than before, although nobody may write it by any of its names."""
    writable = {facts[0] for path, facts in before.items() if oracle.may(Access.WRITE, path)}
    return [
        f"{path}: was {before.get(path)} and is {after.get(path)}"
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
        and not oracle.may(Access.WRITE, path)
        and path not in oracle.loose | oracle.uncreated
        and before.get(path, (0,))[0] not in writable
    ]


@contextlib.contextmanager
def policy_file(world: World, base: Path) -> Iterator[str]:
    """The policy of a world, in a file that the command cannot write."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as beside:
        os.chmod(beside, 0o755)
        file = Path(beside) / "policy.json"
        file.write_text(json.dumps(world.policy(str(base))))
        file.chmod(0o644)
        yield str(file)


@pytest.fixture(scope="module", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


def try_examples(walls: Walls, examples: int, known: bool = False) -> int:
    """Hold the judge against the kernel on so many worlds, always the same ones if `known`; how many accesses that
    were."""
    tried = 0

    @hypothesis.settings(
        max_examples=examples, deadline=None, suppress_health_check=list(hypothesis.HealthCheck), database=None,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink], report_multiple_bugs=False, derandomize=known,
    )  # fmt: skip
    @hypothesis.given(worlds(PLACES))
    def agree(world: World) -> None:
        nonlocal tried
        count, faults, _ = held(world, walls)
        tried += count
        assert not faults, "\n".join(faults)

    agree()
    return tried


@pytest.mark.timeout(300)  # seconds at most on a free machine
@pytest.mark.parametrize("walls", WALLS)
def test_the_judge_says_what_the_kernel_does(walls: Walls) -> None:
    """What a change breaks must show at that change: new worlds are for `scripts/judge-kernel`."""
    assert try_examples(walls, EXAMPLES, known=True) >= LEAST


CLOSED = (Node("ws/a", "file"), Node("ws/.e", "closed"), Node("ws/.e/a/a", "file"))
CIRCLE = (Node("ws/a", "file"), Node("out/A/A", "link", "out/A/A/a"))
LINKED = (Node("ws/A/A", "file"), Node("ws/a", "link", "ws/A"))
TWINS = (Node("ws/a", "file"), Node("ws/.e", "file"), Node("ws/A", "hard", "ws/a"))
OPENED = (("denyRead", "ws/A"), ("allowRead", "ws/A/.e"))
NOTHING = (("allowRead", "out/A/a"), ("denyRead", "out/A/a/a"))
FOUND = {
    "another name of what is denied": World(TWINS, (("denyRead", "ws/a"),), ()),
    "a link that is not to be changed itself": World(LINKED, (("denyWrite", "ws/a/.e"),), ()),
    "a hidden directory with something writable in it": World((Node("ws/A/.e", "file"),), OPENED, ()),
    "a program in a directory that cannot be listed": World(
        (Node("ws/A", "blind"), Node("ws/A/A/.e", "file")), (("denyReadAlways", "ws/**/A/*"),), ()
    ),
    "a link that a pattern grants in a hidden directory": World(
        (Node("ws/a/A/a", "link", "ws/.e"),), (("denyRead", "ws/a"), ("allowRead", "ws/**/a")), ()
    ),
    "a link that a pattern grants where nothing else is": World(
        (Node("out/a/A/a", "link", "ws/.e"), Node("ws/.e", "file")),
        (("allowWrite", "out/a/**/a"), ("allowRead", "")),
        (),
    ),
    "a link into what is hidden, with leave for something in it that is not there": World(
        (Node("ws/a/A/A", "link", "ws/a"),), (("allowRead", "ws/a/a"), ("denyRead", "ws/a/**/A")), ()
    ),
    "a link that leads through what is hidden": World(
        (Node("ws/A", "directory"), Node("ws/a", "link", "ws/A/..")), (("denyRead", "ws/A"),), ()
    ),
    "a link that leads through a name that is not there": World(
        (Node("out/.e", "directory"), Node("ws/a/.e", "near", "out/.e/A/..")),
        (("denyRead", "ws/*/**/.e"), ("allowRead", "")),
        (),
    ),
    "a socket made by who stands in a hidden directory": World(
        (Node("ws/A/a/.e", "directory"),), (("denyReadAlways", "ws/**/A/*"),), (), cwd="ws/A/a"
    ),
    "a repository that is not one yet": World((Node("ws/.e", "directory"),), (), (), odd=".git"),
    "denied below what nobody can look into": World(CLOSED, (("denyRead", "ws/.e/a"),), ()),
    "found by a pattern there": World(CLOSED, (("denyWrite", "ws/*/a"),), ()),
    "a link that leads to itself": World(CIRCLE, (("denyRead", "out/A/A"),), ()),
    "a link that leads above itself": World(
        (Node("ws/a", "directory"), Node("ws/a/a", "link", "ws/a/a/..")), (("denyRead", "ws/a/*"),), ()
    ),
    "a pattern that begins with a link to a directory": World(LINKED, (("denyWrite", "ws/a/*"),), ()),
    "a pattern that begins with a link to a file": World(
        (Node("ws/A", "file"), LINKED[1]), (("denyWrite", "ws/a/*"),), ()
    ),
    "a pattern that begins with a link to a link": World(
        (*LINKED, Node("out/a", "link", "ws/a")), (("denyRead", "out/a/[Ae]*"), ("allowRead", "out/a/A")), ()
    ),
    "a link to what is denied in one of many that are hidden": World(
        (Node("ws/A/a/A", "link", "ws/.e"), Node("ws/a", "link", "ws/A/a/A")), (("denyRead", "ws/**/a"),), (), least=1
    ),
    "a file that goes and may not come back, on the way to what is denied": World(
        (Node("ws/.e/A", "file"), Node("ws/a", "file")), (("denyRead", "ws/.e/A/a"),), (("ws/.e/A", "ws/a"),)
    ),
    "a second name for what is granted by itself": World(
        (Node("ws/a", "file"), Node("ws/A", "file"), Node("ws/.e/A", "file")),
        (("denyRead", "ws/A"),),
        (("ws/a", "ws/.e/a"),),
    ),
    "denied below what is granted and not there": World((), NOTHING, ()),
    "many that are denied below what is granted and not there": World((), NOTHING, (), least=1),
    "a link that goes and may not come back": World(
        (Node("ws/a", "link", "out/a"), Node("out/a", "directory")), (("denyWrite", "ws/[a-c]/?"),), ()
    ),
}


@pytest.mark.parametrize("walls", WALLS)
@pytest.mark.parametrize("world", FOUND.values(), ids=FOUND.keys())
def test_worlds_in_which_they_once_differed(walls: Walls, world: World) -> None:
    count, faults, _ = held(world, walls)
    ran = count > 500 or (walls.backend == "bubblewrap" and world.cwd != "ws")  # it starts nobody in a hidden directory
    assert (ran, faults) == (True, [])
