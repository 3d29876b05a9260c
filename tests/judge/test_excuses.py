"""Each excuse once: a world in which the kernel answers otherwise than the judge, as the plan or the docs state."""

import pytest
from tests.attacks.conftest import ROOT, Walls
from tests.judge.excuses import OVER_HELD, UNHELD
from tests.judge.test_judge_is_kernel import CLOSED, FOUND, held
from tests.judge.trees import Node, World

from ringfence.enforce import walker

WHO = "owner" if ROOT else "self"
LINKED = (Node("ws/A", "directory"), Node("ws/.e/a", "link", "ws/A"))
NOWHERE = (Node("ws/.e", "link", "out/a/a"),)
FILE, DIRECTORY = Node("ws/a", "file"), Node("ws/A", "directory")

# The excuse, where it is needed, a world, and the access that it is needed for.
SHOWN = {
    # Done, although the judge refuses it.
    "without_effect": ("view", World((FILE,), (("allowRead", "out/a"),), ()), "mkdirs"),
    "host_link": ("view", World((Node("out/a/a", "link", "ws/a"),), (("denyWrite", "out/a/a"),), ()), "mkdirs"),
    "loose_link": ("unasked", World(LINKED, (("denyWrite", "ws/.e/a/a"),), (("ws/.e/a", "ws/.e/A"),)), "rename"),
    "program_in_unsearched": ("view", World((Node("ws/A/a", "file"),), (("denyRead", "ws/*/a"),), ()), "exec"),
    "late_pattern": ("unasked", World((FILE,), (("denyRead", "ws/*/A"),), ()), "mkdirs"),
    "not_created": ("unasked view", World((FILE,), (("denyWrite", "ws/A"),), ()), "create"),
    "metadata": ("unasked", World((FILE,), (("denyWrite", "ws/a"),), ()), "chmod"),
    "protected_name": ("unasked", World((FILE,), (), (), odd=".mcp.json"), "create"),
    # Refused, although the judge allows it.
    "closed": ("view", World(CLOSED, (("denyRead", "ws/.e/a"),), ()), "chmod"),
    "own_directory": ("view", World((Node("out/a", "file"),), (), ()), "read"),
    "no_private_directory": ("landlock", World((Node("out/a", "file"),), (), ()), "read"),
    "link_not_shown": ("view", FOUND["a link that a pattern grants in a hidden directory"], "lchown"),
    "way_not_shown": ("view", FOUND["a link that leads through what is hidden"], "list"),
    "moved_whole": ("view", World((Node("ws/a/.e", "file"),), (("denyWrite", "**/A/A"),), ()), "carry"),
    "unix_socket": ("landlock", World((FILE,), (), ()), "bind"),
    "kept_link": ("view", World(LINKED, (("denyRead", "ws/.e/a/a"),), (("ws/.e/a", "ws/.e/A"),)), "rename"),
    "border": ("view", World((FILE, Node("out/a", "file")), (("allowWrite", "out"),), (("ws/a", "out/A"),)), "rename"),
    "way_moved": ("landlock", World(NOWHERE, (("allowWrite", "out"),), (), odd=".mcp.json"), "carry"),
    "child_by_child": ("landlock", World((Node("ws/A/a", "file"),), (("denyRead", "ws/A"),), ()), "list"),
}  # fmt: skip


def test_every_excuse_is_shown() -> None:
    assert SHOWN.keys() == UNHELD.keys() | OVER_HELD.keys()


@pytest.mark.needs_userns
@pytest.mark.needs_landlock(6)
@pytest.mark.parametrize("name", SHOWN)
def test_an_excuse_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, world, access = SHOWN[name]
    if name == "program_in_unsearched":
        monkeypatch.setattr(walker, "MOST_ENTRIES", 0)

    _, faults, excused = held(world, Walls(backend, WHO))

    assert not faults
    assert (name, access) in excused, sorted(excused)
