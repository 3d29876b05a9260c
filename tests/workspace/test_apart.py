"""Two sessions of one repository: neither reads nor changes the other's worktree, branch, index or stash.

Every attempt is made bare first, where it must succeed: so the test can fail.
"""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends import on
from tests.workspace.conftest import files, git, session

from ringfence import Enforcement, Flags, SessionError
from ringfence.model.session import Fault
from ringfence.session import Session

AS_ME = "git -c user.name=Agent -c user.email=agent@example.org"

# What one session tries on the other: B is its worktree, G its repository, O its own part of that, C the project's git
# directory, which both use.
READS = {
    "file": "cat $B/secret",
    "names": "ls $B",
    "siblings": "ls $B/.. | grep b",
    "records": "cat $B/../../records/b.json",
    "given refs": "cat $B/../../given/b",
    "head": "cat $O/HEAD",
    "index": "cat $O/index",
    "branch": "cat $G/refs/heads/ringfence/b",
    "branch by git": "git --git-dir=$G rev-parse --verify -q ringfence/b",
    "branch in the project": "cat $C/refs/heads/ringfence/b",
    "branches of the project": "git --git-dir=$C branch -a | grep ringfence/b",
    "log": "cat $G/logs/refs/heads/ringfence/b",
    "objects": "find $G/objects -type f | grep . && cat $G/objects/??/*",
    "objects by git": "git --git-dir=$G cat-file -p $SECRET",
    "objects as alternates": "GIT_ALTERNATE_OBJECT_DIRECTORIES=$G/objects git cat-file -p $SECRET",
    "stash": "cat $G/refs/stash",
    "stash by git": "git --git-dir=$G stash list | grep WIP",
    "stash of the project": "cat $C/refs/stash",
    "worktrees by git": "git --git-dir=$C worktree list | grep /b",
    "kept": "cat $C/refs/ringfence/old/heads/old",
    "lock": "cat $C/ringfence/lock",
}
WRITES = {
    "file": "echo evil > $B/secret",
    "new": "echo evil > $B/new",
    "branch": "git rev-parse HEAD > $G/refs/heads/ringfence/b",
    "branch by git": "git --git-dir=$G update-ref refs/heads/ringfence/b $(git rev-parse HEAD)",
    "branch in the project": "rm $C/refs/heads/ringfence/b",
    "directory of branches": "mv $C/refs/heads/ringfence $C/refs/heads/gone",
    "main": "git --git-dir=$C update-ref refs/heads/main HEAD~0; touch $C/refs/heads/x",
    "head": "git rev-parse HEAD > $O/HEAD",
    "index": "echo evil > $O/index",
    "own part away": "mv $O $O.gone",
    "registration away": "mv $C/worktrees/ringfence@b $C/worktrees/gone",
    "stash": "git rev-parse HEAD > $G/refs/stash",
    "objects": "rm -r $G/objects/??",
    "objects of the project": "rm -r $C/objects/??",
    "new objects of the project": "mkdir -p $C/objects/zz; echo evil > $C/objects/zz/evil",
    "alternates": "echo /evil > $C/objects/info/alternates",
    "config": "git --git-dir=$C config core.fsmonitor ./evil",
    "its config": "git --git-dir=$G config core.fsmonitor ./evil",
    "own config": "git config core.fsmonitor ./evil",
    "hook": "echo evil > $C/hooks/post-checkout",
    "own hook": "echo evil > $(git rev-parse --git-common-dir)/hooks/post-checkout",
    "commondir": "echo ../evil > $C/commondir",
}


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On the disk: without a view /dev/shm is the host's, and that gap is stated elsewhere."""
    return tmp_path_factory.mktemp("apart")


@pytest.fixture(
    params=[
        pytest.param("view", marks=pytest.mark.needs_userns),
        pytest.param("landlock", marks=pytest.mark.needs_landlock(6)),
        pytest.param("bubblewrap", marks=pytest.mark.needs_bwrap),
    ]
)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with on(request.param):
        yield request.param


def two(repo: Path) -> tuple[Session, Session]:
    """Two sessions; the second one has work of every kind, and there is a stash."""
    flags = Flags(enforcement=Enforcement.BEST_EFFORT)
    one, other = session(repo, "a", flags=flags).start(), session(repo, "b", flags=flags).start()
    top = Path(other.path)
    (top / "secret").write_text("secret\n")
    git(top, "add", "secret")
    git(top, "commit", "-qm", "b's")
    for place in (repo, top):
        (place / "a").write_text("stashed\n")
        git(place, "stash")
    git(repo, "update-ref", "refs/ringfence/old/heads/old", "main")
    return one, other


def script(repo: Path, other: Session, attempts: dict[str, str]) -> str:
    """Each attempt by itself, and what came of it."""
    secret = git(other.path, "rev-parse", "HEAD:secret", check=False)
    lines = [f"B={other.path} C={repo}/.git G={other.record.git} O={other.record.own} SECRET={secret or 'none'}"]
    lines += [f"if ({attempt}) >/dev/null 2>&1; then echo '{name}: done'; fi" for name, attempt in attempts.items()]
    return "\n".join(lines)


def state(repo: Path, other: Session) -> object:
    """All that belongs to the other, and to both."""
    mine = Path(other.record.git).parent / "a"
    return files(other.path), files(other.record.git), files(repo), files(mine / "hooks"), files(mine)["config"]


def bare(repo: Path, one: Session, other: Session, attempts: dict[str, str]) -> list[str]:
    """The attempts that succeed without a sandbox."""
    words = ["sh", "-c", script(repo, other, attempts)]
    said = subprocess.run(words, cwd=one.path, capture_output=True, text=True, timeout=30, env=dict(os.environ)).stdout
    return [line.removesuffix(": done") for line in said.splitlines()]


def test_bare_every_read_succeeds(repo: Path) -> None:
    one, other = two(repo)

    assert bare(repo, one, other, READS) == list(READS)


@pytest.mark.parametrize("name", WRITES)
def test_bare_every_write_succeeds(repo: Path, name: str) -> None:
    one, other = two(repo)
    before = state(repo, other)
    bare(repo, one, other, {name: WRITES[name]})

    assert state(repo, other) != before


def test_inside_nothing_is_read(repo: Path, backend: str) -> None:
    one, other = two(repo)
    outcome = one.run(["sh", "-c", script(repo, other, READS)], capture=True)

    assert (outcome.stdout, outcome.stderr) == (b"", b"")


def test_inside_nothing_is_written(repo: Path, backend: str) -> None:
    one, other = two(repo)
    before = state(repo, other)
    outcome = one.run(["sh", "-c", script(repo, other, WRITES)], capture=True)

    assert (outcome.stdout, outcome.stderr) == (b"", b"")
    assert state(repo, other) == before


def test_a_session_that_starts_later_is_closed_too(repo: Path, backend: str) -> None:
    """What is open to a long command was decided when it began."""
    flags = Flags(enforcement=Enforcement.BEST_EFFORT)
    one = session(repo, "a", flags=flags).start()
    wait = "touch up; while [ ! -e go ]; do sleep 0.02; done; rm -f go;"
    found: list[bytes] = []

    def run() -> None:
        git_ = f"{os.path.dirname(one.record.git)}/b"
        place = f"B={os.path.dirname(one.path)}/b C={repo}/.git G={git_} O={git_}/worktrees/ringfence@b SECRET=none; "
        tries = script(repo, one, READS | {f"write {name}": try_ for name, try_ in WRITES.items()}).splitlines()[1:]
        found.append(one.run(["sh", "-c", wait + place + "\n".join(tries)], capture=True).stdout or b"")

    thread = threading.Thread(target=run)
    thread.start()
    while not os.path.exists(f"{one.path}/up"):
        time.sleep(0.01)
    other = session(repo, "b", flags=flags).start()
    Path(other.path, "secret").write_text("secret\n")
    before = state(repo, other)
    Path(one.path, "go").touch()
    thread.join()

    assert found == [b""]
    assert state(repo, other) == before


def test_no_object_of_another_session_is_there_until_it_has_ended(repo: Path) -> None:
    """Not by listing all there are either: what is committed, what is only looked at, and what is stashed."""
    one, other = two(repo)
    Path(other.path, "loose").write_text("not committed\n")
    other.diff()
    every = "git cat-file --batch-all-objects --batch-check='%(objectname)' --unordered"
    theirs = {git(other.path, "rev-parse", name) for name in ("HEAD", "HEAD:secret", "stash@{0}")}
    theirs.add(git(other.path, "hash-object", "loose"))

    def seen(by: Session) -> set[str]:
        return set((by.run(["sh", "-c", every], capture=True).stdout or b"").decode().split())

    assert seen(other) & theirs == theirs - {git(other.path, "hash-object", "loose")}
    assert seen(one) & theirs == set()
    other.end()
    assert seen(one) & theirs == theirs


def test_turned_pointers_are_refused(repo: Path) -> None:
    """Where there is no view a command can write its own pointers; then nothing more is run, and nothing is lost."""
    for name, text in (
        ("worktrees/ringfence@a/commondir", "../../../evil"),
        ("worktrees/ringfence@a/gitdir", "/etc/.git"),
        ("objects/info/alternates", "/evil"),
        ("config", "[core]\nfsmonitor = evil"),
    ):
        one = session(repo, "a").start()
        path = Path(one.record.git, name)
        Path(one.path, "precious").write_text("x\n")
        kept = path.read_text() if path.exists() else None
        path.write_text(text + "\n")
        with pytest.raises(SessionError) as caught:
            one.run(["true"])
        assert (caught.value.fault, caught.value.place) == (Fault.UNSAFE, str(path))
        path.unlink() if kept is None else path.write_text(kept)
        assert one.end(delete_branch=True).saved


def test_a_git_directory_that_the_command_turned_to_links_is_not_followed(repo: Path, tmp_path: Path) -> None:
    """The index, the lock, HEAD and the logs of a session are the command's: a link there must lead us nowhere."""
    victim = tmp_path / "victim"
    victim.write_text("as it was\n")
    one = session(repo, "a").start()
    Path(one.path, "precious").write_text("x\n")
    own = Path(one.record.own)
    (own / "index").unlink()
    (own / "index").symlink_to(victim)
    (own / "logs").mkdir(exist_ok=True)
    (own / "logs" / "HEAD").unlink(missing_ok=True)
    (own / "logs" / "HEAD").symlink_to(victim)
    (own / "ORIG_HEAD").symlink_to(victim)

    assert one.end().saved
    assert victim.read_text() == "as it was\n"
    assert git(repo, "show", "ringfence/a:precious") == "x"

    two = session(repo, "c").start()
    head = Path(two.record.own, "HEAD")
    head.unlink()
    head.symlink_to(victim)
    with pytest.raises(SessionError) as caught:
        two.end()
    assert caught.value.fault is Fault.UNSAVED
    assert os.path.isdir(two.path)
