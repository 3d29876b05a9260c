"""A small repository, a home of its own, and sessions in it."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.looking import remove_tree

from ringfence import keep
from ringfence.session import Session

AS_ROOT = os.geteuid() == 0


def git(where: Path | str, *words: str, check: bool = True, **environ: str) -> str:
    """The git of a person at a terminal: with all of the repository's configuration."""
    told = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LC_ALL": "C", **environ}
    done = subprocess.run(["git", *words], cwd=where, env=told, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout.strip()


def files(top: Path | str) -> dict[str, bytes]:
    """The bytes of every file and link below a directory, but for the pointer to its repository."""
    found = {}
    for path in Path(top).rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(top))] = os.fsencode(os.readlink(path))
        elif path.is_file():
            found[str(path.relative_to(top))] = path.read_bytes()
    return {name: content for name, content in found.items() if name != ".git"}


def in_commit(repo: Path, commit: str, tmp: Path) -> dict[str, bytes]:
    """The bytes of every file that a commit gives when it is checked out."""
    tmp.mkdir()
    subprocess.run(
        f"git archive {commit} | tar -x -C '{tmp}'", shell=True, cwd=repo, check=True, env=dict(os.environ), timeout=60
    )
    return files(tmp)


def is_sound(repo: Path) -> bool:
    """Whether git finds nothing wrong with the repository."""
    done = subprocess.run(["git", "fsck", "--no-dangling"], cwd=repo, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.replace("Checking object directories: 100% (256/256), done.\n", "")) == (0, "")
    return True


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: every step of a session is put on the disk, and a slow one would take minutes for all of them."""
    place = Path(tempfile.mkdtemp(prefix="rf-", dir="/dev/shm"))
    yield place
    remove_tree(place)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with an identity for git, and none of the variables of whoever runs the tests."""
    place = tmp_path / "home"
    place.mkdir()
    (place / ".gitconfig").write_text("[user]\n\tname = Some Body\n\temail = some@body.example\n")
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place))
    keep.forget_all()
    yield place
    keep.forget_all()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a few files and one commit on main."""
    place = tmp_path / "project"
    (place / "sub").mkdir(parents=True)
    git(place, "init", "-q", "-b", "main")
    (place / "a").write_text("one\ntwo\nthree\n")
    (place / "sub" / "b").write_text("b\n")
    (place / ".gitignore").write_text("*.log\nnode_modules/\n")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")
    return place


def session(repo: Path, name: str | None = "x", **options: object) -> Session:
    return Session(str(repo), name, as_root=AS_ROOT, **options)  # type: ignore[arg-type]
