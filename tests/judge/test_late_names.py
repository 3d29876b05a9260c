"""What comes during the run is judged as `decide()` says, by patterns and by what is allowed inside them.

The files are made outside while the command waits, so no mount covers them. What the judge denies is never done; what
it allows is done, unless something was to be granted that was not there when the run began.
"""

import json
import os
import tempfile
import time
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
from tests.attacks.conftest import PLAIN, ROOT, Walls, backend

import ringfence
from ringfence import enforce, keep, policy
from ringfence.model import Access, Verdict
from ringfence.run import make_request

INSIDE = r"""
import json, os, sys, time
open("p-ready", "w").close()
while not os.path.exists("p-go"):
    time.sleep(0.002)

def move(path):
    aside = os.path.join(os.path.dirname(path), "p-moved")
    os.rename(path, aside)
    os.rename(aside, path)

def link(path):
    other = os.path.join(os.path.dirname(path), "p-linked")
    os.link(path, other)
    os.unlink(other)

def through(path):
    fd = os.open(path, os.O_PATH)
    try:
        return os.close(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY))
    finally:
        os.close(fd)

def by_link(path):
    os.symlink(os.path.abspath(path), "p-link")
    try:
        return os.close(os.open("/proc/self/cwd/p-link", os.O_RDONLY))
    finally:
        os.unlink("p-link")

WAYS = {
    "read": lambda path: os.close(os.open(path, os.O_RDONLY)),
    "list": os.listdir,
    "through": through,
    "by link": by_link,
    "write": lambda path: os.close(os.open(path, os.O_RDWR)),
    "make": lambda path: os.close(os.open(path, os.O_RDWR | os.O_CREAT)),
    "truncate on open": lambda path: os.close(os.open(path, os.O_RDONLY | os.O_TRUNC)),
    "truncate": lambda path: os.truncate(path, 0),
    "chmod": lambda path: os.chmod(path, 0o700),
    "fchmod": lambda path: os.fchmod(os.open(path, os.O_RDONLY), 0o700),
    "utime": lambda path: os.utime(path, (1, 1)),
    "attribute": lambda path: os.setxattr(path, "user.a", b"v"),
    "move": move,
    "link": link,
    "remove": lambda path: os.rmdir(path) if os.path.isdir(path) else os.unlink(path),
}

done = []
for path in json.loads(sys.argv[1]):
    for way, act in WAYS.items():
        try:
            act(path)
        except OSError as error:
            continue
        done.append((way, path))
print(json.dumps(done))
"""
READING = ("read", "list", "through", "by link")
FILES = (
    "x.key",
    "a/x.key",
    "a/b/.env",
    "a/b/.env.example",
    "late/k",
    "late/secret/k",
    "secret",
    "a/plain",
    "c/[k]",
    "é",
)
DIRECTORIES = ("late/secret", "late", "a/b/in")
THERE = ("a", "a/b", "c")
PATTERNS = st.sampled_from(
    ("**/*.key", "*.key", "a/**/.env*", "**/secret", "**/secret/**", "a/*", "**/k", "?ate/*", "[ac]/[!p]*", "**/.env",
     "**/[!p]*", "**/b/**/*", "c/[[]*]", "?", "**/*.example")
)  # fmt: skip
ALLOWED = st.one_of(PATTERNS, st.sampled_from(("a/x.key", "late", "secret", "a/b/.env.example", "late/secret/k")))
RULES = st.tuples(
    st.lists(PATTERNS, max_size=3), st.lists(PATTERNS, max_size=2), st.lists(ALLOWED, max_size=2), st.booleans()
)
HERE = [
    pytest.param(Walls("view", "owner" if ROOT else "self"), marks=pytest.mark.needs_userns, id="view"),
    pytest.param(Walls("bubblewrap", "owner" if ROOT else "self"), marks=pytest.mark.needs_bwrap, id="bubblewrap"),
]


def own(path: Path) -> None:
    if ROOT:
        os.chown(path, PLAIN, PLAIN)


def grow(root: Path, launched: enforce.Launch) -> None:
    """What somebody makes outside, while the command waits. What is refused for a change in /etc is begun again."""
    while not (root / "p-ready").exists():
        if launched.process.poll():
            return
        time.sleep(0.002)
    for name in sorted(DIRECTORIES):
        (root / name).mkdir()
        own(root / name)
    for name in FILES:
        (root / name).write_text("text")
        own(root / name)
    (root / "p-go").touch()


@pytest.mark.parametrize("walls", HERE)
@hypothesis.settings(max_examples=12, deadline=None)
@hypothesis.given(RULES)
def test_what_comes_later_is_judged_when_it_is_used(
    walls: Walls, rules: tuple[list[str], list[str], list[str], bool]
) -> None:
    unread, unwritten, allowed, _ = rules
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="rf-late-") as scratch, backend(walls):
        os.chmod(scratch, 0o755)
        root = Path(scratch, "ws")
        for directory in (root, *(root / name for name in THERE)):
            directory.mkdir()
            own(directory)
        flags = ringfence.Flags(
            cwd=str(root), deny_read=tuple(unread), deny_write=tuple(unwritten), allow_read=tuple(allowed)
        )
        judged = keep.prepare(make_request(str(root), str(root), flags)).judged()
        paths = [*FILES, *DIRECTORIES]
        outcome = ringfence.run(
            ["/usr/bin/python3", "-c", INSIDE, json.dumps(paths)], workspace=str(root), cwd=str(root), flags=flags,
            env={"PATH": "/usr/bin:/bin"}, capture=True, timeout=60, on_start=lambda launched: grow(root, launched),
        )  # fmt: skip
        assert outcome.stdout, (outcome.ending, outcome.stderr)
        done = {(way, path) for way, path in json.loads(outcome.stdout)}

    def may(access: Access, path: str) -> bool:
        return policy.decide(judged, access, str(root / path)).verdict is Verdict.ALLOW

    for way, path in done:
        assert may(Access.READ if way in READING else Access.WRITE, path), (way, path, flags)
    if not allowed:
        for name in FILES:
            wanted = ("read",) * may(Access.READ, name) + ("write", "chmod") * may(Access.WRITE, name)
            assert {(way, name) for way in wanted} <= done, (name, flags)
