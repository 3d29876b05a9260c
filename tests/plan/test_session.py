"""What a session may read and write of its repository, by the judge and by the regions."""

import msgspec
import pytest

from ringfence.model import Access, Disk, Host, Kind, Place, Policy, Verdict
from ringfence.plan.make import lay_out, named_paths
from ringfence.plan.regions import State, parts, regions
from ringfence.plan.rules import PRIVATE, with_repository
from ringfence.policy import decide
from ringfence.policy.defaults import built_in
from ringfence.policy.layer import merge

HOME, COMMON = "/var/lib/me/sessions/p-1", "/work/p/.git"
WORKSPACE, OWN = f"{HOME}/worktrees/a", f"{COMMON}/worktrees/ringfence@a"
BASE = merge(WORKSPACE, (built_in(WORKSPACE),))
SESSION = with_repository(BASE, OWN, COMMON)
ORDINARY = with_repository(BASE, f"{COMMON}/worktrees/a", COMMON)

ROWS = {  # what stands there: may it be read, may it be written
    f"{WORKSPACE}/f": (True, True),
    f"{HOME}/worktrees/b/f": (False, False),
    f"{HOME}/records/a.json": (False, False),
    f"{OWN}/HEAD": (True, True),
    f"{OWN}/commondir": (True, False),
    f"{COMMON}/worktrees/ringfence@b/HEAD": (False, False),
    f"{COMMON}/refs/heads/main": (True, False),
    f"{COMMON}/refs/heads/ringfence/b": (False, False),
    f"{COMMON}/refs/stash": (False, False),
    f"{COMMON}/refs/tags/v1": (True, True),
    f"{COMMON}/refs/remotes/origin/main": (True, True),
    f"{COMMON}/logs/refs/heads/main": (False, False),
    f"{COMMON}/logs/refs/remotes/origin/main": (True, True),
    f"{COMMON}/objects/aa/bb": (True, True),
    f"{COMMON}/objects/info/alternates": (True, False),
    f"{COMMON}/config": (True, False),
    f"{COMMON}/hooks/pre-commit": (True, False),
    f"{COMMON}/packed-refs": (True, False),
    f"{COMMON}/ringfence/lock": (False, False),
}


def allowed(policy: Policy, path: str) -> tuple[bool, bool]:
    read, write = (decide(policy, access, path).verdict is Verdict.ALLOW for access in (Access.READ, Access.WRITE))
    return read, write


@pytest.mark.parametrize("path", ROWS)
def test_the_judge_says(path: str) -> None:
    assert allowed(SESSION, path) == ROWS[path]


def test_an_ordinary_linked_worktree_keeps_what_it_had() -> None:
    assert allowed(ORDINARY, f"{COMMON}/refs/heads/main") == (True, True)
    assert allowed(ORDINARY, f"{COMMON}/refs/heads/ringfence/b") == (True, True)


@pytest.mark.parametrize("path", ROWS)
def test_the_regions_of_a_view_say_the_same(path: str) -> None:
    named = {rule.path for rule in SESSION.rules} | {COMMON, *PRIVATE}
    disk = Disk({one: Place(one, one, Kind.DIRECTORY) for one in named})
    found = regions(SESSION, disk, (*PRIVATE, COMMON))
    above = [region for region in found if parts(path)[: len(parts(region.path))] == parts(region.path)]
    state = max(above, key=lambda region: len(parts(region.path))).state

    assert (state in (State.READ, State.WRITE), state is State.WRITE) == ROWS[path]


def test_the_git_directory_itself_is_room_of_the_runs_own_where_there_is_a_view() -> None:
    """And closed where there is none, and to the judge: no backend opens it by not knowing of it."""
    assert allowed(SESSION, f"{COMMON}/packed-refs.lock") == (False, False)
    host = Host.linux()
    disk = Disk({one: Place(one, one, Kind.DIRECTORY) for one in named_paths(SESSION)})
    view, without = (
        {region.path: region.state for region in lay_out(SESSION, each, disk, "")}
        for each in (host, msgspec.structs.replace(host, namespaces=False))
    )

    assert (view[COMMON], without[COMMON]) == (State.PRIVATE, State.HIDDEN)
