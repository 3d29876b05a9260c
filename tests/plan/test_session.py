"""What a session may read and write of its repository, by the judge and by the regions."""

import pytest

from ringfence.model import Access, Disk, Kind, Place, Policy, Verdict
from ringfence.plan.regions import State, parts, regions
from ringfence.plan.rules import PRIVATE, with_repository, with_session
from ringfence.policy import decide
from ringfence.policy.defaults import built_in
from ringfence.policy.layer import merge

HOME, PROJECT = "/var/lib/me/sessions/p-1", "/work/p/.git"
WORKSPACE, COMMON = f"{HOME}/worktrees/a", f"{HOME}/git/a"
OWN = f"{COMMON}/worktrees/ringfence@a"
BASE = merge(WORKSPACE, (built_in(WORKSPACE),))
SESSION = with_session(BASE, OWN, COMMON, PROJECT)
ORDINARY = with_repository(BASE, f"{PROJECT}/worktrees/a", PROJECT, None)

ROWS = {  # what stands there: may it be read, may it be written
    f"{WORKSPACE}/f": (True, True),
    f"{HOME}/worktrees/b/f": (False, False),
    f"{HOME}/records/a.json": (False, False),
    f"{HOME}/git/b/refs/stash": (False, False),
    f"{OWN}/HEAD": (True, True),
    f"{OWN}/commondir": (True, False),
    f"{COMMON}/refs/heads/main": (True, True),
    f"{COMMON}/refs/stash": (True, True),
    f"{COMMON}/packed/packed-refs.lock": (True, True),
    f"{COMMON}/config.lock": (True, False),
    f"{COMMON}/objects/aa/bb": (True, True),
    f"{COMMON}/objects/info/alternates": (True, False),
    f"{COMMON}/config": (True, False),
    f"{COMMON}/hooks/pre-commit": (True, False),
    f"{PROJECT}/objects/aa/bb": (True, False),
    f"{PROJECT}/config": (True, False),
    f"{PROJECT}/hooks/pre-commit": (True, False),
    f"{PROJECT}/refs/heads/main": (False, False),
    f"{PROJECT}/refs/heads/ringfence/b": (False, False),
    f"{PROJECT}/logs/refs/heads/main": (False, False),
    f"{PROJECT}/worktrees/ringfence@b/HEAD": (False, False),
    f"{PROJECT}/packed-refs": (False, False),
    f"{PROJECT}/ringfence/lock": (False, False),
}


def allowed(policy: Policy, path: str) -> tuple[bool, bool]:
    read, write = (decide(policy, access, path).verdict is Verdict.ALLOW for access in (Access.READ, Access.WRITE))
    return read, write


@pytest.mark.parametrize("path", ROWS)
def test_the_judge_says(path: str) -> None:
    assert allowed(SESSION, path) == ROWS[path]


def test_an_ordinary_linked_worktree_keeps_what_it_had() -> None:
    assert allowed(ORDINARY, f"{PROJECT}/refs/heads/main") == (True, True)
    assert allowed(ORDINARY, f"{PROJECT}/refs/heads/ringfence/b") == (True, True)


def test_a_session_whose_project_does_not_know_it_is_lent_nothing() -> None:
    lent = {rule.path for rule in with_session(BASE, OWN, COMMON, "").rules} - {rule.path for rule in BASE.rules}

    assert not any(path.startswith(PROJECT) for path in lent)


@pytest.mark.parametrize("path", ROWS)
def test_the_regions_of_a_view_say_the_same(path: str) -> None:
    named = {rule.path for rule in SESSION.rules} | set(PRIVATE)
    disk = Disk({one: Place(one, one, Kind.DIRECTORY) for one in named})
    found = regions(SESSION, disk, PRIVATE)
    above = [region for region in found if parts(path)[: len(parts(region.path))] == parts(region.path)]
    state = max(above, key=lambda region: len(parts(region.path))).state

    assert (state in (State.READ, State.WRITE), state is State.WRITE) == ROWS[path]
