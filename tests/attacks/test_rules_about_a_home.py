"""Random grants and denials over a home, with all that is built in: what the judge denies does not happen."""

import os
import random
from pathlib import Path

import pytest
from tests.attacks.conftest import Field, Ground, backend

import ringfence
from ringfence import keep, policy
from ringfence.model import Access, Policy, Verdict
from ringfence.policy.stores import SECRETS
from ringfence.policy.tables import PROTECTED, STARTUP, TOOLS
from ringfence.run import make_request

PROGRAM = """
for path in EXTRA:
    attempt("r" + path, lambda: read(path))
    attempt("w" + path, lambda: write(path, flags=os.O_APPEND))
    attempt("m" + path, lambda: os.chmod(path, 0o640))
    attempt("c" + path, lambda: write(os.path.dirname(path) + "/made", flags=os.O_CREAT | os.O_EXCL))
"""
Flags = dict[str, tuple[str, ...]]


def furnished(ground: Ground, rng: random.Random) -> list[Path]:
    """A home with some of what is closed, protected or read in one, and a workspace with what is protected there."""
    listed = {name for name, _ in (*rng.sample(SECRETS, 12), *STARTUP, *rng.sample(TOOLS, 12))}
    names = [f"home/{name}" for name in sorted(listed)]
    names += [f"ws/{name}" for name, _ in PROTECTED if name[0] == "." and "/" not in name and rng.random() < 0.3]
    files = [ground.outside / "canary", ground.workspace / "README.md"]
    for name in names:
        above = ground.base / name
        taken = any(ground.base in one.parents and one.is_file() for one in (above, *above.parents))
        if not taken and not above.exists() and rng.random() < 0.5:
            files.append(ground.file(name))
        elif not taken and not (above / "inside").exists():
            files.append(ground.file(f"{name}/inside"))
    ground.own()
    return files


def chosen(ground: Ground, rng: random.Random, files: list[Path]) -> Flags:
    home = ground.home
    places = [home, home / ".config", home / ".local", ground.outside, ground.workspace, ground.base]
    pool = sorted({str(path) for path in (*places, *files, *(file.parent for file in files))})
    own = (f"{home}/.config/ringfence", f"{home}/.local/state/ringfence")
    flags = {name: tuple(rng.sample(pool, rng.randint(0, 4))) for name in ("allow_read", "allow_write")}
    flags |= {name: tuple(rng.sample(pool, rng.randint(0, 2))) for name in ("deny_read", "deny_write")}
    return {**flags, "deny_write": flags["deny_write"] + own}


def judged(field: Field, ground: Ground, flags: Flags) -> Policy:
    where = str(ground.workspace)
    given = ringfence.Flags(cwd=where, **flags)  # type: ignore[arg-type]
    with backend(field.walls):
        return keep.prepare(make_request(where, where, given, field.walls.who == "root")).policy


def states(files: list[Path]) -> dict[Path, tuple[int, ...]]:
    """What would show that a file was changed, or another made beside it."""
    found: dict[Path, tuple[int, ...]] = {}
    for path in (*files, *(file.parent / "made" for file in files)):
        facts = os.stat(path) if path.exists() else None
        found[path] = (facts.st_ino, facts.st_size, facts.st_ctime_ns) if facts else ()
    return found


@pytest.mark.parametrize("seed", range(5))
def test_what_the_judge_denies_does_not_happen(field: Field, seed: int) -> None:
    rng, ground = random.Random(seed), field.ground()
    files = furnished(ground, rng)
    flags = chosen(ground, rng, files)
    before = states(files)
    try:
        rules = judged(field, ground, flags)
        seen = field.program(ground, PROGRAM, [str(path) for path in files], readable=False, **flags)
    except ringfence.PolicyError:
        return  # a grant that nobody is given: nothing has run

    def denied(access: Access, path: Path) -> bool:
        return policy.decide(rules, access, str(path)).verdict is not Verdict.ALLOW

    changed = [path for path, state in states(files).items() if state != before[path] and denied(Access.WRITE, path)]
    read = [path for path in files if seen.answers.get(f"r{path}") == "done" and denied(Access.READ, path)]
    assert (changed, read) == ([], []), (flags, seen.said[-2000:])
