"""What a run leaves in a git directory, beside configuration and hooks, that leads a later git elsewhere: each harms
when a person types an ordinary command, and is told of before."""

import contextlib
import hashlib
import os
import resource
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ringfence.enforce.leftovers import left, run_by_prompts
from ringfence.enforce.planted import scan, searched
from ringfence.enforce.quarantine import quarantine
from ringfence.enforce.repository import repository_of
from ringfence.enforce.taken import says_so
from ringfence.model import Exited, Outcome

GIT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "1"}
GIT |= {"GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
GIT |= {f"GIT_{who}_{what}": "n@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
PROGRAM = b"#!/bin/sh\ntouch ../pwned\n"
LATER = 1 << 62


def git(where: Path, *words: str, data: bytes = b"") -> str:
    done = subprocess.run(["git", *words], cwd=where, env=GIT, input=data, capture_output=True, timeout=60)
    return done.stdout.decode().strip()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    where = tmp_path / "workspace"
    where.mkdir()
    git(where, "init", "-q", "-b", "main")
    (where / "file").write_text("one\n")
    git(where, "add", "file")
    git(where, "commit", "-q", "-m", "one")
    return where


def entry(name: bytes, sha: str, before: bytes | None, length: int | None = None) -> bytes:
    """One of an index: of version 4 where there is a name before it."""
    told = len(name) if length is None else length
    head = struct.pack(">10I", *(0,) * 6, 0o100755, 0, 0, 0) + bytes.fromhex(sha) + struct.pack(">H", min(told, 0xFFF))
    if before is not None:
        same = next((number for number, byte in enumerate(before) if name[number : number + 1] != bytes([byte])), 0)
        return head + bytes([len(before) - same]) + name[same:] + b"\0"
    return head + name + b"\0" * (8 - (len(head) + len(name)) % 8)


def index(workspace: Path, names: list[bytes], version: int = 2) -> None:
    """An index with a program at each of these names."""
    sha = git(workspace, "hash-object", "-w", "--stdin", data=PROGRAM)
    names = sorted([b"file", *names])
    before = [b"", *names] if version == 4 else [None] * len(names)
    body = b"DIRC" + struct.pack(">II", version, len(names))
    body += b"".join(entry(name, sha, last) for name, last in zip(names, before, strict=False))
    (workspace / ".git/index").write_bytes(body + hashlib.new("sha1", body, usedforsecurity=False).digest())


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("command", [("checkout", "."), ("restore", ".")])
def test_an_index_by_which_a_hook_is_restored(workspace: Path, command: tuple[str, ...], version: int) -> None:
    begun = time.time_ns() - 10_000_000
    index(workspace, [b".git/hooks/post-checkout", b".git/hooks/post-index-change"], version)
    found = scan(str(workspace), begun, 5)
    git(workspace, *command)
    git(workspace, "status")

    assert (workspace.parent / "pwned").exists(), "the plant must be able to harm"
    assert found == (f"{workspace}/.git/index",)


@pytest.mark.parametrize("name", [b"../theirs", b"ABSOLUTE", b"deep/../../theirs"])
def test_an_index_by_which_a_file_outside_is_replaced_and_its_quarantine(workspace: Path, name: bytes) -> None:
    theirs = workspace.parent / "theirs"
    theirs.write_text("mine\n")
    (workspace / "deep").mkdir()
    begun = time.time_ns() - 10_000_000
    index(workspace, [name.replace(b"ABSOLUTE", os.fsencode(theirs))])
    found = scan(str(workspace), begun, 5)
    git(workspace, "restore", ".")
    harmed = theirs.read_bytes() == PROGRAM
    index(workspace, [name.replace(b"ABSOLUTE", os.fsencode(theirs))])
    theirs.write_text("mine\n")
    moved = quarantine(found)
    git(workspace, "restore", ".")

    assert harmed, "the plant must be able to harm"
    assert (found, len(moved), theirs.read_text()) == ((f"{workspace}/.git/index",), 1, "mine\n")


def test_an_index_whose_entries_lie_about_their_length_is_read_as_git_reads_it(workspace: Path) -> None:
    """Whoever looks for the end of a name instead finds the next one where git does not."""
    sha = git(workspace, "hash-object", "-w", "--stdin", data=PROGRAM)
    hidden = entry(b"../theirs", sha, None)
    pads = b"a\0" + b"x" * 70  # to git one name, "a"
    body = b"DIRC" + struct.pack(">II", 2, 2) + entry(pads, sha, None, len(pads)) + hidden
    (workspace / ".git/index").write_bytes(body + hashlib.new("sha1", body, usedforsecurity=False).digest())
    found = left(f"{workspace}/.git", 0)
    git(workspace, "restore", ".")

    assert (workspace.parent / "theirs").exists(), "the plant must be able to harm"
    assert found == [f"{workspace}/.git/index"]


def test_an_index_in_two_parts(workspace: Path) -> None:
    index(workspace, [b"../theirs"])
    git(workspace, "update-index", "--split-index", "--force-write-index")
    assert list((workspace / ".git").glob("sharedindex.*")), "or nothing is tried"
    found = left(f"{workspace}/.git", 0)
    git(workspace, "restore", ".")

    assert (workspace.parent / "theirs").exists(), "the plant must be able to harm"
    assert found == [f"{workspace}/.git/index"]


def test_an_index_in_two_parts_whose_last_name_ends_as_what_follows_begins(workspace: Path) -> None:
    """Who looks for the extension from there has gone past where it begins."""
    sha = git(workspace, "hash-object", "-w", "--stdin", data=PROGRAM)
    name, nothing = bytes(range(20)), struct.pack(">IIQI", 0, 1, 0, 0)
    shared = b"DIRC" + struct.pack(">II", 2, 1) + entry(b"../theirs", sha, None) + name
    (workspace / f".git/sharedindex.{name.hex()}").write_bytes(shared)
    body = b"DIRC" + struct.pack(">II", 4, 1) + entry(b"zlink", sha, b"")
    body += b"link" + struct.pack(">I", 60) + name + nothing + nothing
    (workspace / ".git/index").write_bytes(body + hashlib.new("sha1", body, usedforsecurity=False).digest())
    found = left(f"{workspace}/.git", 0)
    git(workspace, "restore", ".")

    assert (workspace.parent / "theirs").exists(), "the plant must be able to harm"
    assert found == [f"{workspace}/.git/index"]


def test_the_shared_part_of_an_index_that_stays_as_it_is(workspace: Path) -> None:
    """A later run replaces that file alone: git looks at the number in its last bytes, and does not count again."""
    sha = git(workspace, "hash-object", "-w", "--stdin", data=PROGRAM)
    git(workspace, "update-index", "--split-index", "--force-write-index")
    assert left(f"{workspace}/.git", 0) == []
    (shared,) = (workspace / ".git").glob("sharedindex.*")
    data = shared.read_bytes()
    time.sleep(0.02)  # by another stamp of the clock
    begun = time.time_ns() - 10_000_000
    shared.unlink()
    shared.write_bytes(data[:8] + struct.pack(">I", 2) + entry(b"../theirs", sha, None) + data[12:])
    found = left(f"{workspace}/.git", begun)
    git(workspace, "restore", ".")

    assert (workspace.parent / "theirs").exists(), "the plant must be able to harm"
    assert found == [f"{workspace}/.git/index"]


def _sparse(path: Path) -> None:
    path.write_bytes(b"DIRC" + struct.pack(">II", 2, 1 << 31))
    os.truncate(path, 1 << 28)


def _second_name(path: Path) -> None:
    path.write_bytes(b"DIRC" + struct.pack(">II", 2, 20_000) + entry(b"a", "00" * 20, None) * 20_000)
    os.link(path, path.with_name("other"))


def _long_names(path: Path) -> None:
    first = entry(b"a" * 1_000_000, "00" * 20, b"")
    path.write_bytes(b"DIRC" + struct.pack(">II", 4, 3_000) + first + (first[:62] + b"\0b\0") * 2_999)


def _fewer_long_names(path: Path) -> None:
    """So many that what they are read into is still of a size that some index has."""
    first = entry(b"a" * 100_000, "00" * 20, b"")
    path.write_bytes(b"DIRC" + struct.pack(">II", 4, 100) + first + (first[:62] + b"\0b\0") * 99)


def _tables(path: Path) -> None:
    head = b"DIRC" + struct.pack(">II", 2, 5_000) + entry(b"a", "00" * 20, None) * 5_000
    path.write_bytes(head + (b"IEOT" + struct.pack(">IIII", 12, 1, 12, 5_000)) * 5_000)


def _empty_table(path: Path) -> None:
    table = b"\0" * (1 << 25)
    path.write_bytes(b"DIRC" + struct.pack(">II", 2, 0) + b"IEOT" + struct.pack(">II", 4 + len(table), 1) + table)


def _one_name_again(path: Path) -> None:
    first = b"DIRC" + struct.pack(">II", 4, 5_000)
    first += (entry(b"a", "00" * 20, b"a")[:62] + b"\1a\0") * 5_000
    table = struct.pack(">II", len(first), 1) * 5_000
    name = entry(b"a" * 300_000, "00" * 20, b"")
    path.write_bytes(first + name + b"IEOT" + struct.pack(">II", 4 + len(table), 1) + table)


def _long_number(path: Path) -> None:
    name = entry(b"a", "00" * 20, b"")[:62]
    path.write_bytes(b"DIRC" + struct.pack(">II", 4, 1) + name + b"\xff" * 900_000 + b"\0b\0")


def _shared_parts(path: Path) -> None:
    part = b"DIRC" + struct.pack(">II", 2, 10_000) + entry(b"a", "00" * 20, None) * 10_000
    names = [number.to_bytes(20, "big") for number in range(300)]
    for name in names:
        path.with_name(f"sharedindex.{name.hex()}").write_bytes(part)
    path.write_bytes(b"DIRC" + struct.pack(">II", 2, 0) + b"".join(b"link\0\0\0\x14" + name for name in names))


@pytest.mark.parametrize(
    "make",
    [
        _sparse,
        _second_name,
        _long_names,
        _fewer_long_names,
        _tables,
        _empty_table,
        _one_name_again,
        _long_number,
        _shared_parts,
    ],
)
def test_an_index_that_would_take_longer_to_read_than_to_write_is_told_of(
    workspace: Path, make: Callable[[Path], None]
) -> None:
    (workspace / ".git/index").unlink()
    make(workspace / ".git/index")
    before = time.thread_time()
    (workspace / ".git/index").read_bytes()
    bare = time.thread_time() - before  # on this machine, at this moment
    limit = resource.getrlimit(resource.RLIMIT_AS)
    used, _ = (int(pages) * resource.getpagesize() for pages in Path("/proc/self/statm").read_text().split()[:2])
    before = time.thread_time()
    try:
        resource.setrlimit(resource.RLIMIT_AS, (used + (700 << 20), limit[1]))
        found = left(f"{workspace}/.git", 0)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    took = time.thread_time() - before

    assert found == [f"{workspace}/.git/index"]
    assert took < 1 + 4 * bare


@pytest.mark.parametrize("name", ["git-rebase-todo", "opts"])
def test_a_file_of_empty_lines_is_read_in_a_moment(workspace: Path, name: str) -> None:
    (workspace / ".git/sequencer").mkdir()
    (workspace / ".git/sequencer" / name).write_text("\n" * 65_000)
    before = time.thread_time()

    assert left(f"{workspace}/.git", 0) == []
    assert time.thread_time() - before < 1


def test_an_index_of_many_files_is_read(workspace: Path) -> None:
    """As git writes it: of version 4, with threads, in two parts."""
    for number in range(30_000):
        index_line = f"100644 {'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'}\tsrc/some/where/file{number}\n"
        with (workspace.parent / "lines").open("a") as lines:
            lines.write(index_line)
    git(workspace, "update-index", "--index-info", data=(workspace.parent / "lines").read_bytes())
    for version, words in (("2", ()), ("4", ()), ("4", ("--split-index",))):
        settings = ("-c", "index.threads=4", "-c", "core.untrackedCache=false")
        git(workspace, *settings, "update-index", "--index-version", version, *words, "--force-write-index")
        assert left(f"{workspace}/.git", 0) == []


def test_a_rebase_that_an_earlier_run_has_put_by(workspace: Path) -> None:
    git(workspace, "commit", "-q", "--allow-empty", "-m", "two")
    git(workspace, "rebase", "-q", "-x", "false", "HEAD~1")
    state = workspace / ".git/rebase-merge"
    (state / "git-rebase-todo").write_text("exec touch ../pwned\n")
    state.rename(workspace / ".git/aside")
    time.sleep(0.02)
    begun = time.time_ns() - 10_000_000
    assert left(f"{workspace}/.git", begun) == []
    (workspace / ".git/aside").rename(state)
    found = left(f"{workspace}/.git", begun)
    git(workspace, "rebase", "--continue")

    assert (workspace.parent / "pwned").exists(), "the plant must be able to harm"
    assert found == [str(state)]


def test_what_was_closed_is_told_for_it_can_be_opened_again() -> None:
    plain = os.geteuid() or 65534  # root reads whatever is closed
    with tempfile.TemporaryDirectory() as place:
        git(Path(place), "init", "-q")
        state = f"{place}/.git/rebase-merge"
        os.mkdir(state)
        for path in (state, f"{place}/.git", place):
            os.chown(path, plain, -1)
        os.setresuid(plain, plain, os.geteuid())
        try:
            for closed in (state, f"{place}/.git"):
                os.chmod(closed, 0)
                found = scan(place, 0, 5)
                os.chmod(closed, 0o700)
                assert found == (closed,)
        finally:
            _, _, saved = os.getresuid()
            os.setresuid(saved, saved, saved)


PROMPT = Path("/usr/lib/git-core/git-sh-prompt")


@pytest.mark.parametrize(
    ("state", "count", "other"), [("rebase-merge", "msgnum", "end"), ("rebase-apply", "last", "next")]
)
def test_a_rebase_by_which_the_next_prompt_runs_a_program_is_moved_unasked(
    workspace: Path, state: str, count: str, other: str
) -> None:
    """Whoever has git's own prompt need not type anything, and so has no time to read what is told."""
    begun = time.time_ns() - 10_000_000
    (workspace / ".git" / state).mkdir()
    (workspace / ".git" / state / other).write_text("2\n")
    assert left(f"{workspace}/.git", begun) == []
    (workspace / ".git" / state / count).write_text("$(touch${IFS}../pwned)\n")
    prompt = ["bash", "-c", f'. {PROMPT}; __git_ps1 "" "$ "; echo "${{PS1@P}}"']
    ended = searched(str(workspace), Outcome(Exited(0), (), (), 1.0), begun, False)
    subprocess.run(prompt, cwd=workspace, env=GIT, capture_output=True, timeout=60)
    assert not (workspace.parent / "pwned").exists()
    os.rename(ended.quarantined[0], workspace / ".git" / state)
    subprocess.run(prompt, cwd=workspace, env=GIT, capture_output=True, timeout=60)

    assert (workspace.parent / "pwned").exists(), "the plant must be able to harm"
    assert ended.planted == (f"{workspace}/.git/{state}",)
    assert len(ended.quarantined) == 1


@pytest.mark.parametrize("common", ["../..", "../other"])
def test_it_is_moved_however_old_it_says_that_it_is(workspace: Path, common: str) -> None:
    """On tmpfs a file can be written by mapped memory, and its times stay."""
    (workspace / "sub/other/refs").mkdir(parents=True)
    own = workspace / "sub/worktrees/x"
    (own / "rebase-merge").mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text(f"{common}\n")
    (own / "rebase-merge/msgnum").write_text("1")
    assert searched(str(workspace), Outcome(Exited(0), (), (), 1.0), LATER, False).quarantined == ()
    (own / "rebase-merge/msgnum").write_text("$(true)")
    ended = searched(str(workspace), Outcome(Exited(0), (), (), 1.0), LATER, False)

    assert [os.path.dirname(path) for path in ended.quarantined] == [str(own)]


def test_it_is_moved_in_a_worktree_that_was_there_before_whatever_takes_the_time(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That somebody else works in, outside: a command can make thousands beside it."""
    own = workspace / ".git/worktrees/known"
    git(workspace, "worktree", "add", "-q", "../known")
    time.sleep(0.03)
    begun = time.time_ns() - 10_000_000
    (own / "rebase-merge").mkdir()
    (own / "rebase-merge/msgnum").write_text("$(true)")
    monkeypatch.setattr("ringfence.enforce.planted.MORE", 0.0)
    ended = searched(str(workspace), Outcome(Exited(0), (), (), 0.0), begun, False, most=0.0)

    assert [os.path.dirname(path) for path in ended.quarantined] == [str(own)]


def nested(workspace: Path) -> tuple[Path, Path]:
    git(workspace, "init", "-q", "sub")
    return workspace / "sub", workspace / "sub/.git"


def bare(workspace: Path) -> tuple[Path, Path]:
    git(workspace, "init", "-q", "--bare", "sub")
    return workspace / "sub", workspace / "sub"


def by_a_file(workspace: Path) -> tuple[Path, Path]:
    git(workspace, "init", "-q", "--separate-git-dir", "aside.git", "sub")
    return workspace / "sub", workspace / "aside.git"


def by_a_link(workspace: Path) -> tuple[Path, Path]:
    git(workspace, "init", "-q", "x")
    (workspace / "sub").mkdir()
    (workspace / "sub/.git").symlink_to("../x/.git")
    return workspace / "sub", workspace / "x/.git"


def of_a_new_worktree(workspace: Path) -> tuple[Path, Path]:
    git(workspace, "worktree", "add", "-q", "sub")
    return workspace / "sub", workspace / ".git/worktrees/sub"


@pytest.mark.parametrize("make", [nested, bare, by_a_file, by_a_link, of_a_new_worktree])
def test_such_a_rebase_is_moved_in_whatever_repository_a_prompt_finds(
    workspace: Path, make: Callable[[Path], tuple[Path, Path]]
) -> None:
    """It was that of the workspace alone, and only where `.git` is no file and no link."""
    begun = time.time_ns() - 10_000_000
    where, own = make(workspace)
    (own / "rebase-merge").mkdir()
    (own / "rebase-merge/end").write_text("2\n")
    (own / "rebase-merge/msgnum").write_text(f"$(touch${{IFS}}{workspace.parent}/pwned)\n")
    prompt = ["bash", "-c", f'. {PROMPT}; __git_ps1 "" "$ "; echo "${{PS1@P}}"']
    ended = searched(str(workspace), Outcome(Exited(0), (), (), 1.0), begun, False)
    subprocess.run(prompt, cwd=where, env=GIT, capture_output=True, timeout=60)
    assert not (workspace.parent / "pwned").exists()
    assert [os.path.dirname(path) for path in ended.quarantined] == [str(own)]
    os.rename(ended.quarantined[0], own / "rebase-merge")
    subprocess.run(prompt, cwd=where, env=GIT, capture_output=True, timeout=60)

    assert (workspace.parent / "pwned").exists(), "the plant must be able to harm"


@pytest.mark.parametrize("odd", ["\x1b]52;c;ZXZpbA==\x07", "\x7f", "\x9b2J", "\r"])
@pytest.mark.parametrize("name", ["HEAD", "rebase-merge/head-name", "rebase-apply/head-name"])
@pytest.mark.parametrize("place", [".", "sub"])
def test_what_a_prompt_shows_and_a_terminal_obeys_is_moved_unasked(
    workspace: Path, place: str, name: str, odd: str
) -> None:
    """A clipboard, say, is set by it: what a command prints itself has such things taken out."""
    git(workspace, "init", "-q", "sub")
    own = workspace / place / ".git"
    (own / name).parent.mkdir(exist_ok=True)
    (own / name).with_name("rebasing").touch()
    (own / name).write_text(f"ref: refs/heads/é{odd}x\n" if name == "HEAD" else f"refs/heads/é{odd}x\n")
    prompt = ["bash", "-c", f'. {PROMPT}; __git_ps1 "" "$ "; echo "${{PS1@P}}"']
    shown = subprocess.run(prompt, cwd=own.parent, env=GIT, capture_output=True, timeout=60).stdout
    ended = searched(str(workspace), Outcome(Exited(0), (), (), 1.0), 0, False)
    later = subprocess.run(prompt, cwd=own.parent, env=GIT, capture_output=True, timeout=60).stdout

    assert (odd.encode() in shown, odd.encode() in later) == (True, False)
    assert [os.path.dirname(path) for path in ended.quarantined] == [str(own)]


def test_a_branch_of_letters_is_left(workspace: Path) -> None:
    git(workspace, "checkout", "-q", "-b", "für/αβ-\u4e2d")
    (workspace / ".git/rebase-apply").mkdir()
    (workspace / ".git/rebase-apply/head-name").write_text("refs/heads/für/αβ-\u4e2d\n")

    assert left(f"{workspace}/.git", 0) == []


def _evil(own: Path, pwned: Path) -> None:
    git(own.parent, "init", "-q", "--bare", str(own))
    git(own, "config", "core.bare", "false")
    (own / "rebase-merge").mkdir()
    (own / "rebase-merge/end").write_text("2\n")
    (own / "rebase-merge/msgnum").write_text(f"$(touch${{IFS}}{pwned})\n")


@pytest.mark.parametrize("name", ["evil", "two\nlines"])
@pytest.mark.parametrize("more", ["\n", "\0\n", "\0" + "x" * 100_000, None])
@pytest.mark.parametrize("place", [".", "sub"])
def test_it_is_moved_however_git_is_led_there_and_however_deep_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, more: str | None, name: str
) -> None:
    """Git takes all of a `.git` file for one name, up to a null. The search does not come so far."""
    where, own = tmp_path / "ws" / place, tmp_path / "ws/a/b/c/d" / name
    where.mkdir(parents=True)
    own.parent.mkdir(parents=True)
    _evil(own, tmp_path / "pwned")
    if more is None:
        (where / ".git").symlink_to(own)
    else:
        (where / ".git").write_text(f"gitdir: {own}{more}")
    prompt = ["bash", "-c", f'. {PROMPT}; __git_ps1 "" "$ "; echo "${{PS1@P}}"']
    monkeypatch.setattr("ringfence.enforce.planted.MOST_ENTRIES", 3)
    ended = searched(str(tmp_path / "ws"), Outcome(Exited(0), (), (), 1.0), 0, False)
    subprocess.run(prompt, cwd=where, env=GIT, capture_output=True, timeout=60)
    assert [os.path.dirname(path) for path in ended.quarantined] == [str(own)]
    assert not (tmp_path / "pwned").exists()
    os.rename(ended.quarantined[0], own / "rebase-merge")
    subprocess.run(prompt, cwd=where, env=GIT, capture_output=True, timeout=60)

    assert (tmp_path / "pwned").exists(), "the plant must be able to harm"


def test_it_is_moved_where_git_is_led_out_of_the_workspace(tmp_path: Path) -> None:
    """Another place that the command may write."""
    (tmp_path / "ws").mkdir()
    _evil(tmp_path / "own.git", tmp_path / "pwned")
    with (tmp_path / "own.git/config").open("ab") as file:
        file.truncate(5 << 20)  # which nobody reads
    (tmp_path / "ws/.git").write_text("gitdir: ../own.git\n")
    ended = searched(str(tmp_path / "ws"), Outcome(Exited(0), (), (), 1.0), 0, False)

    assert ended.planted == (f"{tmp_path}/own.git/rebase-merge",)
    assert [os.path.dirname(path) for path in ended.quarantined] == [f"{tmp_path}/own.git"]


@contextlib.contextmanager
def as_plain_user(*owned: Path) -> Iterator[None]:
    """Root is let through by every mode."""
    plain = os.geteuid() or 65534
    for path in owned:
        os.chown(path, plain, -1)
    os.setresuid(plain, plain, os.geteuid())
    try:
        yield
    finally:
        _, _, saved = os.getresuid()
        os.setresuid(saved, saved, saved)


def test_it_is_moved_out_of_a_directory_that_was_closed_to_changes() -> None:
    """By then there was nothing to be told of: the search had ended with an error."""
    with tempfile.TemporaryDirectory() as place:
        own = Path(place, ".git")
        git(Path(place), "init", "-q")
        (own / "rebase-merge").mkdir()
        (own / "rebase-merge/msgnum").write_text("$(true)\n")
        with as_plain_user(Path(place), own, own / "rebase-merge"):
            own.chmod(0o555)
            ended = searched(place, Outcome(Exited(0), (), (), 1.0), 0, False)

        assert [os.path.dirname(path) for path in ended.quarantined] == [str(own)]
        assert own.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("where", ["", "sub/"])
def test_it_is_moved_when_what_an_earlier_run_closed_is_opened_again(where: str) -> None:
    """By then it was older than the run that opened it, and the one that made it could not look into it."""
    with tempfile.TemporaryDirectory() as place:
        own = Path(place, where, ".git")
        git(Path(place), "init", "-q", f"./{where}")
        (own / "rebase-merge").mkdir()
        with as_plain_user(Path(place), own.parent, own, own / "rebase-merge"):
            (own / "rebase-merge/msgnum").write_text("$(true)\n")
            own.chmod(0)
            first = searched(place, Outcome(Exited(0), (), (), 1.0), 0, False)
            time.sleep(0.03)
            begun = time.time_ns()
            own.chmod(0o755)
            second = searched(place, Outcome(Exited(0), (), (), 1.0), begun, False)

        assert (first.planted, first.quarantined) == ((str(own),), ())
        assert [path.partition(".quarantined")[0] for path in second.quarantined] == [f"{own}/rebase-merge"]


def test_a_pointer_that_nobody_can_follow_does_not_end_the_search() -> None:
    """Not even the link can be read. Nothing was told of, and the next run did not start."""
    with tempfile.TemporaryDirectory() as place:
        git(Path(place), "init", "-q", "evil")
        git(Path(place, "evil"), "config", "core.fsmonitor", "./evil")
        for name in ("sub/.git", ".git"):
            Path(place, name).parent.mkdir(exist_ok=True)
            Path(place, name).write_text("gitdir: /proc/1/root\n")
        with as_plain_user(Path(place)):
            found = scan(place, 0, 5)
            of = repository_of(place)

    assert (set(found), of.worktree) == ({f"{place}/evil/.git", f"{place}/sub/.git"}, None)


def test_nor_does_one_by_thousands_of_links_behind_what_is_not_there(tmp_path: Path) -> None:
    """The kernel follows none of them. Whoever called himself for each was ended by that, and so was the run."""
    for number in range(3000):
        (tmp_path / f"{number}").symlink_to(f"{number + 1}")
    _evil(tmp_path / "evil", tmp_path / "pwned")
    for name in ("sub/.git", ".git"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"gitdir: {tmp_path}/nosuch/../0\n")
    ended = searched(str(tmp_path), Outcome(Exited(0), (), (), 1.0), 0, False)

    assert [os.path.dirname(path) for path in ended.quarantined] == [f"{tmp_path}/evil"]
    assert repository_of(str(tmp_path)).worktree is None


def test_a_configuration_that_is_too_large_to_be_read_does_not_end_the_search(workspace: Path) -> None:
    git(workspace, "init", "-q", "sub")
    with (workspace / "sub/.git/config").open("ab") as file:
        file.truncate(5 << 20)
    time.sleep(0.02)
    begun = time.time_ns() - 10_000_000
    for name in ("index", "MERGE_RR"):
        (workspace / "sub/.git" / name).write_bytes(b"x" * 40 + b"\ty\0")
        assert scan(str(workspace), begun, 5) == (f"{workspace}/sub/.git",)
        (workspace / "sub/.git" / name).unlink()


def by_blocks(workspace: Path, odd: bool) -> None:
    """Many entries, whose table says where each of git's threads begins to read."""
    sha = git(workspace, "hash-object", "-w", "--stdin", data=PROGRAM)
    rows = "".join(f"100644 {sha} 0\td/{number:06}\n" for number in range(30_000))
    git(workspace, "-c", "index.threads=4", "update-index", "--index-info", data=rows.encode())
    data = bytearray((workspace / ".git/index").read_bytes())
    table = data.index(b"IEOT")
    if odd:  # the last block is read elsewhere: behind all extensions, where there is one more entry
        (length,) = struct.unpack_from(">I", data, table + 4)
        last = table + 8 + length - 8
        struct.pack_into(">II", data, last, len(data), 1)
        data += entry(b"../theirs", sha, None) + bytes(20)
        (workspace / ".git/index").write_bytes(data)


@pytest.mark.parametrize("odd", [False, True])
def test_entries_that_only_a_thread_of_git_reads(workspace: Path, odd: bool) -> None:
    by_blocks(workspace, odd)

    assert left(f"{workspace}/.git", 0) == ([f"{workspace}/.git/index"] if odd else [])


@pytest.mark.parametrize("words", [(), ("--object-format=sha256",)])
@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_an_index_that_git_made_is_none(tmp_path: Path, words: tuple[str, ...], version: str) -> None:
    """Names like those that are odd, long ones, some that are no text, and every kind of entry."""
    where = tmp_path / "workspace"
    where.mkdir()
    git(where, "init", "-q", *words)
    names = ["..a", "a..", ".gitignore", "x.git", ".github", "d/link.txt", "d/IEOT", "d/\udcff", "l" * 250, "a/" * 900]
    for name in names:
        path = where / name / "f" if name.endswith("/") else where / name
        os.makedirs(path.parent, exist_ok=True)
        path.write_text(name[:9].encode("utf-8", "replace").decode())
    os.symlink("/etc/passwd", where / "passwd")
    git(where, "add", "-A")
    git(where, "update-index", "--index-version", version)
    if version == "3":
        git(where, "update-index", "--skip-worktree", "x.git")

    assert git(where, "ls-files").count("\n") > 8, "or nothing is tried"
    assert left(f"{where}/.git", 0) == []


def resolution(workspace: Path, name: str) -> Path:
    known = workspace / ".git/rr-cache" / ("a" * 40)
    known.mkdir(parents=True)
    (known / "preimage").write_text("x\n")
    (workspace / ".git/MERGE_RR").write_bytes(f"{'a' * 40}\t{name}\0".encode())
    return known / "postimage"


@pytest.mark.parametrize("name", ["../key", "by-a-link", "d/by-a-link"])
def test_a_resolution_by_which_git_copies_a_secret_into_the_workspace(workspace: Path, name: str) -> None:
    (workspace.parent / "key").write_text("secret\n")
    begun = time.time_ns() - 10_000_000
    (workspace / "d").mkdir()
    if name != "../key":
        (workspace / name).symlink_to(workspace.parent / "key")
    copy = resolution(workspace, name)
    found = scan(str(workspace), begun, 5)
    git(workspace, "commit", "-q", "--allow-empty", "-m", "two")

    assert copy.read_text() == "secret\n", "the plant must be able to harm"
    assert found == (f"{workspace}/.git/MERGE_RR",)
    if name != "../key":  # which may come in a later run
        resolution_again = workspace / ".git/MERGE_RR"
        resolution_again.write_bytes(f"{'a' * 40}\t{name}\0".encode())
        assert left(f"{workspace}/.git", LATER) == [str(resolution_again)]


def test_a_resolution_of_a_file_is_nothing_odd(workspace: Path) -> None:
    resolution(workspace, "file")

    assert left(f"{workspace}/.git", 0) == []


def test_a_rebase_whose_options_write_an_index_elsewhere(workspace: Path) -> None:
    (workspace / "../theirs").write_text("precious\n")
    git(workspace, "checkout", "-q", "-b", "side")
    for name in ("a", "b"):
        (workspace / name).write_text("a\n")
        git(workspace, "add", name)
        git(workspace, "commit", "-q", "-m", name)
    git(workspace, "checkout", "-q", "main")
    git(workspace, "commit", "-q", "--allow-empty", "-m", "m")
    git(workspace, "checkout", "-q", "side")
    todo = ("-c", "sequence.editor=sed -i 1ibreak")
    git(workspace, *todo, "rebase", "-i", "-s", "resolve", "-X", "ours", "-X", "find-renames=50%", "main")
    assert left(f"{workspace}/.git", 0) == [], "a rebase that was only begun"
    (workspace / ".git/rebase-merge/strategy_opts").write_text(" --index-output=../theirs\n")
    found = left(f"{workspace}/.git", 0)
    git(workspace, "rebase", "--continue")

    assert (workspace / "../theirs").read_bytes().startswith(b"DIRC"), "the plant must be able to harm"
    assert found == [f"{workspace}/.git/rebase-merge"]


def test_patches_whose_options_write_elsewhere(workspace: Path) -> None:
    for text in ("two\n", "three\n"):
        (workspace / "file").write_text(text)
        (workspace / text.strip()).write_text(text)
        git(workspace, "add", "-A")
        git(workspace, "commit", "-q", "-m", text.strip())
    git(workspace, "format-patch", "-q", "-1", "-o", "../patches", "HEAD")
    (workspace.parent / "patches/0002.patch").write_text((next((workspace.parent / "patches").iterdir())).read_text())
    git(workspace, "reset", "-q", "--hard", "HEAD~2")
    git(workspace, "am", *(str(path) for path in sorted((workspace.parent / "patches").iterdir())))
    state = workspace / ".git/rebase-apply"
    assert left(f"{workspace}/.git", 0) == [], "patches that were only begun"
    (state / "apply-opt").write_text(" '--build-fake-ancestor=../theirs'\n")
    found = left(f"{workspace}/.git", 0)
    git(workspace, "am", "--skip")

    assert (workspace.parent / "theirs").exists(), "the plant must be able to harm"
    assert found == [str(state)]


def test_a_bisection_whose_end_throws_away_what_is_not_committed(workspace: Path) -> None:
    for text in ("two\n", "three\n"):
        git(workspace, "commit", "-q", "--allow-empty", "-m", text)
    git(workspace, "bisect", "start", "HEAD", "HEAD~2")
    assert left(f"{workspace}/.git", 0) == []
    (workspace / ".git/BISECT_START").write_text("-f\n")
    (workspace / "file").write_text("work\n")
    found = left(f"{workspace}/.git", 0)
    git(workspace, "bisect", "reset")

    assert (workspace / "file").read_text() != "work\n", "the plant must be able to harm"
    assert found == [f"{workspace}/.git/BISECT_START"]


def by_what_was_lost(workspace: Path) -> Callable[[], object]:
    blob = git(workspace, "hash-object", "-w", "--stdin", data=PROGRAM)
    (workspace / ".git/lost-found/other").mkdir(parents=True)
    (workspace / ".git/lost-found/other" / blob).symlink_to(workspace.parent / "theirs")
    return lambda: git(workspace, "fsck", "--lost-found")


def by_refs(workspace: Path) -> Callable[[], object]:
    (workspace / ".git/refs/heads/deep").symlink_to(workspace.parent)
    return lambda: git(workspace, "branch", "deep/theirs")


def by_what_is_sparse(workspace: Path) -> Callable[[], object]:
    (workspace / ".git/info/sparse-checkout").symlink_to(workspace.parent / "theirs")
    return lambda: git(workspace, "sparse-checkout", "set", "d")


@pytest.mark.parametrize("plant", [by_what_was_lost, by_refs, by_what_is_sparse])
def test_links_deep_in_a_git_directory(workspace: Path, plant: Callable[[Path], Callable[[], object]]) -> None:
    begun = time.time_ns() - 10_000_000
    go_on = plant(workspace)
    (link,) = [path for path in (workspace / ".git").rglob("*") if path.is_symlink()]
    found = scan(str(workspace), begun, 5)
    later = scan(str(workspace), LATER, 5)
    go_on()

    assert (workspace.parent / "theirs").exists(), "the plant must be able to harm"
    assert found == later == (str(link),), "a directory takes what is in it along, as old as it is"


@pytest.mark.parametrize("name", ["index", "packed-refs", "HEAD", "refs/heads/x", "logs/HEAD"])
def test_a_pipe_at_which_a_later_git_waits_for_good(workspace: Path, name: str) -> None:
    pipe = workspace / ".git" / name
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    found = searched(str(workspace), Outcome(Exited(0), (), (), 9.0), time.time_ns() - 10**9, moves=False)

    assert found.planted == (str(pipe),)
    assert pipe.exists() == (not name.endswith("HEAD")), "the next prompt would wait"
    quarantine((str(pipe),))
    assert not pipe.exists()


@pytest.mark.needs_root
@pytest.mark.parametrize(("owner", "odd"), [(0, False), (65534, True)])
def test_what_another_user_has_closed_is_left_to_him(owner: int, odd: bool) -> None:
    """Root has switched branches here with an umask of 077, and HEAD was taken away from the repository's owner."""
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        own = f"{base}/.git"
        os.mkdir(own)
        Path(own, "HEAD").write_text("ref: refs/heads/main\n")
        os.chmod(f"{own}/HEAD", 0o200)
        for path, uid in ((base, 65534), (own, 65534), (f"{own}/HEAD", owner)):
            os.chown(path, uid, uid)
        child = os.fork()
        if not child:
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                os._exit(bool(left(own, 0)) + 2 * bool(run_by_prompts([own])))
            finally:
                os._exit(64)

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3 * odd


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (".node-version", "path:./evil\n", True),
        (".nvmrc", "vpath:/ws/evil", True),
        (".python-version", "3.12\n../../../ws/evil\n", True),
        (".python-version", "3.12\n3.11.4/envs/x\n/usr/bin/python3.12\n", False),
        (".nvmrc", "lts/iron\n", False),
        (".env", "A=1\nexport NODE_OPTIONS='--max-old-space-size=4096 --require ./evil.js'\n", True),
        (".env", "LD_PRELOAD=./evil.so", True),
        (".env", "NODE_OPTIONS=--max-old-space-size=4096\nENV=test\nPYTHONPATH=src\nX=NODE_OPTIONS=-r\n", False),
        (".env", "A=1\rLD_PRELOAD=./evil.so", True),
        (".env", "\ufeff\u00a0LD_PRELOAD\n=\n./evil.so", True),
        (".env", "'GIT_SSH'=./evil", True),
        (".env", "NODE_OPTIONS='--title=\nx --import ./evil.js'", True),
        (".env", "NODE_OPTIONS='--title=x \n--import ./evil.js'", True),
        (".env", "NODE_OPTIONS=--openssl-config=evil", True),
        (".env", "# LD_PRELOAD=x\nNODE_OPTIONS='--no-warnings --max-http-header-size=9'\nB=2\n", False),
        (".env", "#" * (1 << 20) + "\nLD_PRELOAD=./evil.so", True),
        ("bunfig.toml", 'preload = ["./evil.ts"]', True),
        ("bunfig.toml", '"pre\\u006coad" = ["./evil.ts"]', True),
        ("bunfig.toml", "[install]\nexact = true\n", False),
        ("package.json", '{"devEngines": {"runtime": {"name": "node", "version": "path:./evil"}}}', True),
        ("package.json", '{"devEngines": {"runtime": {"name": "node", "version": "\\u0070ath:./evil"}}}', True),
        ("package.json", '{"scripts": {"test": "PATH=bin:x jest --path:x"}}', False),
        ("mise.dev.toml", "", True),
        (".config/mise.linux.local.toml", "", True),
        ("mise.other.toml", "", False),
    ],
)
def test_a_line_by_which_a_tool_runs_what_lies_there(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, told: bool
) -> None:
    monkeypatch.setenv("MISE_ENV", "dev,ci")
    monkeypatch.setenv("MISE_AUTO_ENV", "1")
    file = workspace / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    begun = time.time_ns() - 10**9

    assert scan(str(workspace), begun, 5.0) == ((str(file),) if told else ())
    assert scan(str(workspace), LATER, 5.0) == ()
    assert quarantine((str(file),))
    assert not file.exists()


@pytest.mark.parametrize("kind", ["installed", "linked", "other", "none"])
def test_what_pre_commit_runs_is_told_of_where_it_is_a_hook(workspace: Path, tmp_path: Path, kind: str) -> None:
    subprocess.run(["git", "init", "-q", workspace], check=True)
    hook = workspace / ".git/hooks/pre-push"
    hook.parent.mkdir(exist_ok=True)
    if kind in ("installed", "linked"):
        hook.write_text("ARGS=(hook-impl --config=.pre-commit-config.yaml --hook-type=pre-push)\n")
    if kind == "other":
        hook.write_text("make test\n")
    top = workspace
    if kind == "linked":
        who = ("-c", "user.name=n", "-c", "user.email=e", "-C", str(workspace))
        subprocess.run(["git", *who, "commit", "-q", "--no-verify", "--allow-empty", "-m", "m"], check=True)
        top = tmp_path / "linked"
        subprocess.run(["git", "-C", workspace, "worktree", "add", "-q", top], check=True)
    file = top / ".pre-commit-config.yaml"
    file.write_text("repos: []\n")
    begun = file.stat().st_ctime_ns

    told = (str(file),) if kind in ("installed", "linked") else ()
    assert tuple(path for path in scan(str(top), begun, 5.0) if path == str(file)) == told
    assert scan(str(top), LATER, 5.0) == ()


@pytest.mark.parametrize(
    "text",
    [
        "\n",
        "\r",
        "CMD",
        "CMD ",
        "NODE_OPTIONS= ",
        "NODE_OPTIONS=--a",
        "--a",
        "LD_",
        "'",
        "export ",
        "#\n",
        'path:"',
        "../",
    ],
)
@pytest.mark.parametrize("before", ["", "AIDER_", "NODE_OPTIONS="])
def test_no_text_makes_a_look_for_such_lines_long(text: str, before: str) -> None:
    data = (before + text * (1 << 20)).encode()[: 1 << 20]
    begun = time.thread_time()
    for name in (".env", ".nvmrc", "bunfig.toml", "package.json"):
        says_so(name, data)

    assert time.thread_time() - begun < 5


def test_a_version_by_a_path_is_moved_unasked_and_by_a_link_too(workspace: Path) -> None:
    (workspace / "evil").write_text("path:./evil\n")
    (workspace / ".node-version").symlink_to("evil")
    (workspace / ".env").write_text("LD_PRELOAD=./evil.so\n")
    outcome = searched(str(workspace), Outcome(Exited(0), (), (), 9.0), time.time_ns() - 10**9, moves=False)

    assert set(outcome.planted) == {f"{workspace}/.env", f"{workspace}/.node-version"}
    assert [path.partition(".quarantined")[0] for path in outcome.quarantined] == [f"{workspace}/.node-version"]
    assert (workspace / ".env").exists()
