"""Random trees and policies for the property that the judge and the kernel agree.

Everything happens below a fresh base with two tops: `ws`, the workspace, and `out` beside it. Names are few, so that
rules, links and accesses meet. Nothing here knows what is allowed.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import hypothesis.strategies as st

from ringfence.plan import crowds

TOPS = ("ws", "out")
NAMES = ("a", "A", ".e")  # a name and its other spelling are two names, as the kernel has it
DEPTH = 3
KEYS = ("allowRead", "allowWrite", "denyRead", "denyReadAlways", "denyWrite")


def _below(top: str, depth: int) -> list[str]:
    here = [f"{top}/{name}" for name in NAMES]
    return here + [path for above in here for path in _below(above, depth - 1)] if depth > 1 else here


UNIVERSE = tuple(path for top in TOPS for path in _below(top, DEPTH))


class Node(NamedTuple):
    """One thing to make: a file, a directory, a closed directory, a symbolic link or a hard link to another path."""

    path: str
    kind: str
    target: str = ""


def placed(base: str, path: str) -> str:
    """A path of a world in a base."""
    return os.path.join(base, path.replace("@", os.path.basename(base)))


class World(NamedTuple):
    """A tree and a policy over it, both relative to a base that does not exist yet, and pairs of paths to try."""

    nodes: tuple[Node, ...]
    rules: tuple[tuple[str, str], ...]  # a key of the policy and a path; an absolute one is outside the base
    pairs: tuple[tuple[str, str], ...]
    place: str = "/var/tmp"  # where the base is made
    least: int = crowds.LEAST  # how many denied names of a directory are planned as one
    many: int = crowds.MANY  # from how many on the warden holds those that are there

    def policy(self, base: str) -> dict[str, object]:
        lists: dict[str, list[str]] = {key: [] for key in KEYS}
        for key, path in self.rules:
            lists[key].append(placed(base, path))
        return {"filesystem": lists, "enforcement": "best-effort"}


def _nodes() -> st.SearchStrategy[Node]:
    path = st.sampled_from(UNIVERSE)
    plain = st.builds(Node, path, st.sampled_from(["file", "file", "directory", "directory", "closed"]))
    return plain | st.builds(Node, path, st.sampled_from(["link", "hard"]), path)


PATHS = st.sampled_from((*UNIVERSE, *TOPS, "ws", "out"))
PATTERNS = ("ws/**/a", "ws/*/A", "out/**/.e", "ws/a/*", "out/*", "ws/[a-c]/?", "**/A/A", "ws/{a,A}/.e", "ws/**/a*")
# In private directories; @ becomes the base's own name, so that two tests at once do not meet there.
PRIVATE = ("/tmp/@", "/tmp/@/b", "/tmp", "/var/tmp", "/dev/shm/@")


@st.composite
def worlds(draw: st.DrawFn, places: tuple[str, ...] = ("/var/tmp",)) -> World:
    """A tree of a dozen things, a handful of rules, and pairs to rename and to link."""
    nodes = draw(st.lists(_nodes(), min_size=4, max_size=14, unique_by=lambda node: node.path))
    rules = draw(st.lists(st.tuples(st.sampled_from(KEYS), PATHS), max_size=6))
    denied = st.tuples(st.sampled_from(("denyRead", "denyWrite")), st.sampled_from(PRIVATE))
    rules += draw(st.lists(denied, max_size=1))
    rules += draw(st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(PATTERNS)), max_size=2))
    rules += draw(st.sampled_from(([], [("allowRead", "")])))
    pairs = draw(st.lists(st.tuples(st.sampled_from(UNIVERSE), st.sampled_from(UNIVERSE)), max_size=40))
    least, many = draw(st.sampled_from(((crowds.LEAST, crowds.MANY), (1, crowds.MANY), (1, 0))))
    return World(tuple(nodes), tuple(rules), tuple(pairs), draw(st.sampled_from(places)), least, many)


def build(world: World, base: Path) -> None:
    """Make the tree. Where two nodes do not fit, the one that came first stays."""
    for top in TOPS:
        (base / top).mkdir()
    closed = []
    for node in sorted(world.nodes, key=lambda node: (node.kind == "hard", node.path.count("/"))):
        path = base / node.path
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            if node.kind == "file":
                with open(path, "x") as file:
                    file.write("#!/bin/true\n")
                path.chmod(0o755)
            elif node.kind == "link":
                path.symlink_to(base / node.target)
            elif node.kind == "hard":
                if (base / node.target).is_file() and not (base / node.target).is_symlink():
                    os.link(base / node.target, path)
            else:
                path.mkdir()
                closed += [path] if node.kind == "closed" else []
    for path in reversed(closed):
        path.chmod(0)


@contextlib.contextmanager
def grown(world: World, owner: tuple[int, int] | None) -> Iterator[Path]:
    """The tree of a world in a new base, for as long as it is looked at."""
    base = Path(tempfile.mkdtemp(prefix="rf-judge-", dir=world.place))
    try:
        base.chmod(0o755)
        build(world, base)
        if owner:
            for path, _, names in os.walk(base):
                for name in ("", *names):
                    os.chown(os.path.join(path, name), *owner, follow_symlinks=False)
                for name in os.listdir(path):
                    os.chown(os.path.join(path, name), *owner, follow_symlinks=False)
        yield base
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", "--", base], capture_output=True)
        shutil.rmtree(base)
