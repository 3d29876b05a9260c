"""Random trees and policies for the property that the judge and the kernel agree.

Everything happens below a fresh base with two tops: `ws`, the workspace, and `out` beside it. Names are few, so that
rules, links and accesses meet. Nothing here knows what is allowed.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import hypothesis.strategies as st
from tests.looking import remove_tree

from ringfence.plan import crowds
from ringfence.policy.glob import escape, is_pattern

TOPS = ("ws", "out")
ODD = ".e"  # stands for the name that each world chooses
NAMES = ("a", "A", ODD)  # a name and its other spelling are two names, as the kernel has it
# Names that mean something to patterns, to lists of paths, to the table of mounts, or to us.
SPELLINGS = (ODD, ODD, "*", "[a]", "{a,A}", "a\nb", "a b", "\\134", "é", ".mcp.json", ".git", "-x", "a" * 255)
DEPTH = 3
WAYS = ("absolute", "relative", "/proc/self/root", "/proc/self/fd")  # how inside.py says a path
KEYS = ("allowRead", "allowWrite", "denyRead", "denyReadAlways", "denyWrite")


def _below(top: str, depth: int) -> list[str]:
    here = [f"{top}/{name}" for name in NAMES]
    return here + [path for above in here for path in _below(above, depth - 1)] if depth > 1 else here


UNIVERSE = tuple(path for top in TOPS for path in _below(top, DEPTH))


class Node(NamedTuple):
    """One thing to make: a file, one that cannot be read (shut), a directory, one that cannot be entered (closed),
    listed (blind) or written (fixed), a symbolic link, one that says its target from where it stands (near), or a hard
    link to another path."""

    path: str
    kind: str
    target: str = ""


class World(NamedTuple):
    """A tree and a policy over it, both relative to a base that does not exist yet, and pairs of paths to try."""

    nodes: tuple[Node, ...]
    rules: tuple[tuple[str, str], ...]  # a key of the policy and a path; an absolute one is outside the base
    pairs: tuple[tuple[str, str], ...]
    place: str = "/var/tmp"  # where the base is made
    least: int = crowds.LEAST  # how many denied names of a directory are planned as one
    many: int = crowds.MANY  # from how many on the warden holds those that are there
    odd: str = ODD  # how the third name is spelled
    way: str = WAYS[0]
    cwd: str = "ws"

    def placed(self, base: str, path: str) -> str:
        """A path of this world in a base."""
        names = [self.odd if name == ODD else name for name in path.split("/")]
        return os.path.join(base, "/".join(names).replace("@", os.path.basename(base)))

    def names(self) -> tuple[str, ...]:
        return tuple(self.odd if name == ODD else name for name in NAMES)

    def policy(self, base: str) -> dict[str, object]:
        lists: dict[str, list[object]] = {key: [] for key in KEYS}
        for key, path in self.rules:
            lists[key].append(self._entry(base, path))
        return {"filesystem": lists, "enforcement": "best-effort"}

    def _entry(self, base: str, path: str) -> object:
        if is_pattern(path):
            return os.path.join(base, "/".join(escape(self.odd) if name == ODD else name for name in path.split("/")))
        placed = self.placed(base, path)
        return {"path": placed, "literal": True} if is_pattern(placed) else placed

    def start(self, base: Path) -> str:
        """Where a command starts: in the directory that was chosen, or in the workspace, if nobody can stand there."""
        chosen = self.placed(str(base), self.cwd)
        inside = os.path.realpath(chosen) == chosen and os.path.isdir(chosen) and os.access(chosen, os.X_OK)
        return chosen if inside and os.stat(chosen).st_mode & 0o100 else str(base / "ws")


def _nodes() -> st.SearchStrategy[Node]:
    path = st.sampled_from(UNIVERSE)
    usual = ["file", "file", "file", "directory", "directory", "directory"]
    plain = st.builds(Node, path, st.sampled_from([*usual, "closed", "shut", "blind", "fixed"]), st.just(""))
    target = path | st.sampled_from(TOPS) | st.builds("{}/{}".format, path, st.sampled_from(["..", ".", "../a"]))
    return plain | st.builds(Node, path, st.sampled_from(["link", "near"]), target) | st.builds(Node, path, HARD, path)


HARD = st.just("hard")
PATHS = st.sampled_from((*UNIVERSE, *TOPS, "ws", "out"))
PATTERNS = (
    "ws/**/a", "ws/*/A", "out/**/.e", "ws/a/*", "out/*", "ws/[a-c]/?", "**/A/A", "ws/{a,A}/.e", "ws/**/a*",
    "ws/a/**/A", "ws/**/A/*", "ws/*/**/.e", "ws/[!a]*", "ws/**/.e/**/a", "{ws,out}/a/**/a", "ws/.e/?", "out/a/*/A",
)  # fmt: skip
# In private directories; @ becomes the base's own name, so that two tests at once do not meet there.
PRIVATE = ("/tmp/@", "/tmp/@/b", "/tmp", "/var/tmp", "/dev/shm/@")


def _turns() -> st.SearchStrategy[list[tuple[str, str]]]:
    """Denied inside of allowed inside of denied, and the other way round."""
    deep = st.sampled_from([path for path in UNIVERSE if path.count("/") == DEPTH])
    keys = st.lists(st.sampled_from(KEYS), min_size=DEPTH + 1, max_size=DEPTH + 1)
    return st.builds(
        lambda path, keys: [(key, "/".join(path.split("/")[: depth + 1])) for depth, key in enumerate(keys)], deep, keys
    )


@st.composite
def worlds(draw: st.DrawFn, places: tuple[str, ...] = ("/var/tmp",)) -> World:
    """A tree of a dozen things, a handful of rules, and pairs to rename and to link."""
    nodes = draw(st.lists(_nodes(), min_size=4, max_size=14, unique_by=lambda node: node.path))
    rules = draw(st.lists(st.tuples(st.sampled_from(KEYS), PATHS), max_size=6) | _turns())
    denied = st.tuples(st.sampled_from(("denyRead", "denyWrite")), st.sampled_from(PRIVATE))
    rules += draw(st.lists(denied, max_size=1))
    rules += draw(st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(PATTERNS)), max_size=2))
    rules += draw(st.sampled_from(([], [("allowRead", "")])))
    there = st.sampled_from([*dict.fromkeys(node.path for node in nodes), *UNIVERSE])  # rather what is there
    pairs = draw(st.lists(st.tuples(there, there), max_size=40))
    least, many = draw(st.sampled_from(((crowds.LEAST, crowds.MANY), (1, crowds.MANY), (1, 0))))
    place, odd, way = (draw(st.sampled_from(some)) for some in (places, SPELLINGS, WAYS))
    cwd = draw(st.sampled_from(["ws", *(path for path in UNIVERSE if path.startswith("ws/"))]))
    return World(tuple(nodes), tuple(rules), tuple(pairs), place, least, many, odd, way, cwd)


MODES = {"closed": 0, "shut": 0, "blind": 0o300, "fixed": 0o500}


def build(world: World, base: Path) -> None:
    """Make the tree. Where two nodes do not fit, the one that came first stays."""
    for top in TOPS:
        (base / top).mkdir()
    modes: list[tuple[Path, int]] = []
    for node in sorted(world.nodes, key=lambda node: (node.kind == "hard", node.path.count("/"))):
        path, target = (Path(world.placed(str(base), name)) for name in (node.path, node.target))
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            if node.kind in ("file", "shut"):
                with open(path, "x") as file:
                    file.write("#!/bin/true\n")
                path.chmod(0o755)
            elif node.kind == "link":
                path.symlink_to(target)
            elif node.kind == "near":
                path.symlink_to(os.path.relpath(target.parent, path.parent) + "/" + target.name)
            elif node.kind == "hard":
                if target.is_file() and not target.is_symlink():
                    os.link(target, path)
            else:
                path.mkdir()
            modes += [(path, MODES[node.kind])] if node.kind in MODES else []
    for path, mode in reversed(modes):
        path.chmod(mode)


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
        remove_tree(base)
