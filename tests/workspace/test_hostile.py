"""Hostile names and hostile repositories."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.workspace.conftest import files, git, is_sound, session
from tests.workspace.test_life import refused

from ringfence import SessionError, WorkspaceError
from ringfence.model.session import Fault, State
from ringfence.session import merge, opened
from ringfence.workspace import git as gits
from ringfence.workspace import life, narrow, repository, slugs, worktrees

# ---- Names ----

HOSTILE = [
    *("--upload-pack=evil", "-rf", "--force", "a\nb", "a\n", "..", ".", ".git", "a/b", "a\\b", "", " ", "\t", "a b"),
    *("x" * 50, "x" * 255, "\u212a", "а", "ｅ", "e\u0301", "a\0b", "a.lock", "a~1", "a^", "a:b", "@{-1}", "user"),
    *("worktrees", "HEAD", "Worktrees", "a::b", "%2e%2e", "\u202ex", "$(id)", "`id`", ";id", "*"),
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_name_that_is_no_slug_is_refused(repo: Path, name: str) -> None:
    before = files(repo)
    refused(Fault.INVALID_SLUG, session(repo, name).start)
    refused(Fault.INVALID_SLUG, session(repo, name).resume)
    made = {"logs", "packed-refs", "ringfence/lock"}
    assert {one for one in files(repo).keys() - before.keys() if one.removeprefix(".git/") not in made} == set()


@given(st.text(max_size=60))
def test_every_slug_is_a_file_a_branch_and_a_word(text: str) -> None:
    try:
        slug = slugs.slug_of(text)
    except SessionError:
        return
    assert slug == slug.lower()
    assert set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert 0 < len(slug) < 50
    assert slug[0] != "-"
    assert slugs.slug_of(slug) == slug


def test_the_default_name_counts_on() -> None:
    taken = frozenset({"wt-20260102-0304", "wt-20260102-0304-1"})

    assert slugs.default_slug("20260102-0304", taken) == "wt-20260102-0304-2"


REVISIONS = [
    "--output=/tmp/x",
    "-h",
    "nowhere",
    "main..main",
    "^main",
    "main\nmain",
    "a b",
    ":/first",
    "main:a",
    "HEAD^{tree}",
    "x" * 300,
]


@pytest.mark.parametrize("revision", REVISIONS, ids=ascii)
def test_a_revision_that_names_no_commit_is_refused(repo: Path, revision: str) -> None:
    refused(Fault.INVALID_FROM, session(repo, revision=revision).start)


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "empty")
    refused(Fault.INVALID_FROM, session(tmp_path / "empty").start)


# ---- Repositories ----


def test_where_there_is_no_repository(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    refused(Fault.NOT_GIT, session(tmp_path / "plain").start)


def test_a_linked_worktree_and_a_submodule_are_no_base(repo: Path) -> None:
    git(repo, "worktree", "add", "-q", "../linked")
    error = refused(Fault.BASE_INVALID, session(repo.parent / "linked").start)
    assert "main working tree" in error.hint
    one = session(repo).start()
    refused(Fault.BASE_INVALID, session(Path(one.path), "y").start)


def test_a_bare_repository_planted_below_is_not_taken(repo: Path) -> None:
    git(repo, "init", "-q", "--bare", "docs")
    assert repository.find(str(repo / "docs")).top == str(repo)


def test_a_git_directory_by_a_link_is_refused(repo: Path) -> None:
    (repo / ".git").rename(repo.parent / "elsewhere")
    (repo / ".git").symlink_to("../elsewhere")
    refused(Fault.UNSAFE, session(repo).start)


LINKS = ("commondir", "worktrees", "refs", "objects", "HEAD", "logs", "refs/heads/ringfence", "info", "packed-refs")
DEEPER = ("logs/refs/heads", "logs/refs/heads/ringfence/x", "objects/pack", "objects/00")  # git writes below them


@pytest.mark.parametrize("name", [*LINKS, *DEEPER])
def test_a_planted_pointer_or_link_is_refused(repo: Path, name: str) -> None:
    evil = repo.parent / "evil"
    shutil.copytree(repo / ".git", evil)
    (evil / "worktrees").mkdir(exist_ok=True)
    place = repo / ".git" / name
    if name == "commondir":
        place.write_text("../../evil\n")
    else:
        if place.exists():
            place.rename(repo.parent / "moved")
        for path in (place, evil / name):
            path.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(evil / name)
    before = files(evil)
    refused(Fault.UNSAFE, session(repo).start)
    assert files(evil) == before


PIPES = ("refs/heads/x", "refs/tags/a/b", "refs/stash", "shallow", "logs/refs/heads/ringfence/x", "objects/pack/a.idx")


@pytest.mark.parametrize("name", PIPES)
def test_a_pipe_that_git_would_wait_at_is_refused(repo: Path, name: str) -> None:
    """Every command of ours would have waited ten minutes, and held the lock."""
    place = repo / ".git" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(place)
    refused(Fault.UNSAFE, session(repo).start)


def test_a_link_is_found_beside_a_name_that_goes(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that makes and removes names without end does not hide the rest of them."""
    heads = repo / ".git/refs/heads"
    (heads / "gone").touch()
    (heads / "link").symlink_to("main")
    listed = os.scandir

    def late(path: int) -> contextlib.nullcontext[list[os.DirEntry[str]]]:
        with listed(path) as found:
            entries = list(found)
        if any(entry.name == "gone" for entry in entries):
            (heads / "gone").unlink()
        return contextlib.nullcontext(entries)

    monkeypatch.setattr(os, "scandir", late)
    with pytest.raises(SessionError) as caught:
        repository.find(str(repo))

    assert (caught.value.fault, caught.value.place) == (Fault.UNSAFE, f"{heads}/link")


@pytest.mark.needs_landlock(2)
@pytest.mark.parametrize("name", ["logs", "refs/heads", "objects"])
def test_what_becomes_a_link_after_we_looked_leads_git_nowhere(repo: Path, name: str) -> None:
    """A command that runs meanwhile can turn it at any time: git's own word is too late."""
    evil, place = repo.parent / "evil", repo / ".git" / name
    shutil.copytree(place, evil)
    before = files(evil)
    with opened(str(repo)) as found:
        git_ = found.ledger.git
        head = git_.commit_of("main")
        place.rename(repo.parent / "moved")
        place.symlink_to(evil)

        def act() -> None:
            git_.call("hash-object", "-w", "--stdin", data=b"new")
            git_.move_branch("new", head, "", "why")

        refused(Fault.GIT_FAILED, act)
        git_.places = ("/",)
        act()
        assert files(evil) != before, "one that may write everywhere does, so the test can fail"
        shutil.rmtree(evil)
    assert files(repo.parent / "moved") == before


@pytest.mark.needs_landlock(2)
def test_a_program_that_git_starts_writes_nowhere_else(repo: Path, tmp_path: Path) -> None:
    for places, there in (((str(repo),), False), ((str(repo), str(tmp_path)), True)):
        narrow.started(lambda: subprocess.run(["touch", tmp_path / "x", repo / "y"], capture_output=True), places)
        assert ((tmp_path / "x").exists(), (repo / "y").exists()) == (there, True)
    (tmp_path / "ours").touch()  # nothing of it holds for us


def test_our_own_directory_by_a_link_is_refused(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "evil").mkdir()
    (repo / ".git" / "ringfence").symlink_to(tmp_path / "evil")
    with pytest.raises((SessionError, WorkspaceError)):
        session(repo).start()
    assert os.listdir(tmp_path / "evil") == []


@pytest.mark.needs_root
def test_a_repository_of_another_user_is_refused(repo: Path) -> None:
    os.chown(repo / ".git", 65534, 65534)
    refused(Fault.UNSAFE, session(repo).start)


def test_a_home_inside_the_project_is_refused(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(repo / "state"))
    refused(Fault.BASE_INVALID, session(repo).start)


def test_a_state_that_others_can_change_is_refused(repo: Path, home: Path) -> None:
    one = session(repo).start()
    os.chmod(os.path.dirname(os.path.dirname(one.path)), 0o777)
    refused(Fault.UNSAFE, session(repo, "y").start)


def test_a_branch_called_ringfence_is_in_the_way(repo: Path) -> None:
    (repo / ".git" / "refs" / "heads" / "ringfence").rmdir() if (repo / ".git/refs/heads/ringfence").exists() else None
    git(repo, "branch", "ringfence")
    with pytest.raises(SessionError):
        session(repo).start()
    assert git(repo, "worktree", "list").count("\n") == 0


def test_a_branch_of_that_name_is_kept(repo: Path) -> None:
    git(repo, "branch", "ringfence/x")
    refused(Fault.EXISTS, session(repo).start)
    assert git(repo, "branch", "--list", "ringfence/x") == "ringfence/x"
    session(repo, "y").start()
    refused(Fault.EXISTS, session(repo, "y").start)


# ---- Worktrees that are not what they were ----


def test_a_worktree_deleted_by_hand(repo: Path) -> None:
    one = session(repo).start()
    Path(one.path, "n").write_text("n")
    git(Path(one.path), "add", "n")
    git(Path(one.path), "commit", "-qm", "committed")
    shutil.rmtree(one.path)
    refused(Fault.NOT_FOUND, session(repo).resume)
    with opened(str(repo)) as found:
        assert life.prune(found.ledger) == ["x: its worktree was removed by hand; ringfence/x is kept"]
    assert git(repo, "log", "-1", "--format=%s", "ringfence/x") == "committed"
    assert not (repo / ".git" / "worktrees" / "ringfence@x").exists()
    assert is_sound(repo)


def test_a_worktree_that_git_pruned_keeps_its_files(repo: Path, tmp_path: Path) -> None:
    one = session(repo).start()
    Path(one.path, "n").write_text("n")
    shutil.rmtree(repo / ".git" / "worktrees" / "ringfence@x")
    refused(Fault.NOT_FOUND, session(repo).resume)
    git_ = Path(one.record.git)
    git_.rename(tmp_path / "away")
    refused(Fault.UNSAVED, one.end)
    assert Path(one.path, "n").read_text() == "n"
    (tmp_path / "away").rename(git_)
    assert one.end().saved
    assert git(repo, "show", "ringfence/x:n") == "n"


def test_a_phantom_worktree(repo: Path) -> None:
    """A git directory of a session that nobody started, pointing anywhere."""
    phantom = repo / ".git" / "worktrees" / "ringfence@x"
    phantom.mkdir(parents=True)
    (phantom / "gitdir").write_text("/etc/.git\n")
    (phantom / "commondir").write_text("../..\n")
    (phantom / "HEAD").write_text(git(repo, "rev-parse", "HEAD") + "\n")
    refused(Fault.PATH_EXISTS, session(repo).start)
    refused(Fault.NOT_FOUND, session(repo).resume)
    with opened(str(repo)) as found:
        assert life.prune(found.ledger) == ["ringfence@x: a worktree that nobody knows, and that is not there; removed"]
    session(repo).start().end()


def test_a_worktree_that_became_a_link(repo: Path, tmp_path: Path) -> None:
    one = session(repo).start()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kept").write_text("x")
    shutil.rmtree(one.path)
    os.symlink(tmp_path / "other", one.path)
    with pytest.raises((SessionError, WorkspaceError)):
        one.end()
    with pytest.raises((SessionError, WorkspaceError)):
        one.run(["true"])
    assert (tmp_path / "other" / "kept").read_text() == "x"


def test_a_locked_worktree_is_ended_all_the_same_and_git_is_content(repo: Path) -> None:
    one = session(repo).start()
    Path(one.path, "n").write_text("n")
    git(repo, "worktree", "lock", one.path)
    assert one.end().saved
    assert git(repo, "worktree", "list").count("\n") == 0


def test_a_path_with_a_newline_injects_no_worktree(repo: Path) -> None:
    odd = repo.parent / "a\nworktree " / "etc"
    odd.parent.mkdir()
    git(repo, "worktree", "add", "-q", "--detach", str(odd))
    with opened(str(repo)) as found:
        assert [one.path for one in worktrees.listed(found.ledger)] == [str(odd)]


def test_a_damaged_record_is_said_and_nothing_is_touched(repo: Path) -> None:
    one = session(repo).start()
    record = Path(one.path).parent.parent / "records" / "x.json"
    text = record.read_text()
    for damage in (text.replace(one.path, "/etc"), text.replace('"version":2', '"version":9')):
        record.write_text(damage)
        refused(Fault.UNSAFE, session(repo).resume)
        with opened(str(repo)) as found:
            assert [said.partition(":")[0] for said in found.recovered] == ["x"]
            assert found.ledger.sessions() == []
        session(repo, "other").start().end(delete_branch=True)  # the others are not held up
    assert os.path.isdir(one.path)


@pytest.mark.parametrize("damage", ["empty", "cut", "zeros"])
def test_a_record_that_a_disk_spoiled_is_made_anew(repo: Path, damage: str) -> None:
    one, ended = session(repo).start(), session(repo, "ended").start()
    Path(one.path, "n").write_text("n")
    ended.end()
    for name in ("x", "ended", "nobody"):
        record = Path(one.path).parent.parent / "records" / f"{name}.json"
        text = record.read_bytes() if name != "nobody" else b"{"
        record.write_bytes({"empty": b"", "cut": text[: len(text) // 2], "zeros": bytes(len(text))}[damage])
    with opened(str(repo)) as found:
        said = [sentence.partition(";")[0] for sentence in found.recovered]
        states = {one.name: one.state for one in found.ledger.sessions()}
    assert said[0] == "ended: its record was damaged, and is made anew"
    assert said[1].startswith("nobody: could not be put right: ")
    assert said[2] == "x: its record was damaged, and is made anew"
    assert states == {"x": State.ACTIVE, "ended": State.ENDED}
    assert session(repo).resume().end().saved
    assert session(repo, "ended").resume().path == ended.path
    assert git(repo, "show", "ringfence/x:n") == "n"


def test_what_cannot_be_put_right_is_said_and_left_alone(repo: Path) -> None:
    one = session(repo).start()
    with opened(str(repo)) as found:
        found.ledger.write(msgspec.structs.replace(one.record, state=State.STARTING, tip=""))
    lock = repo / ".git" / "refs" / "heads" / "ringfence" / "x.lock"
    lock.touch()
    with opened(str(repo)) as found:
        (said,) = found.recovered
    assert said.startswith("x: could not be put right: git update-ref:")
    refused(Fault.LOCKED, session(repo).resume)
    refused(Fault.LOCKED, one.end)
    session(repo, "other").start().end()
    lock.unlink()
    with opened(str(repo)) as found:
        assert found.recovered == ("x: was not fully started, and is taken away",)


# ---- Programs that a repository names ----


def test_no_program_of_the_repository_is_run(repo: Path, tmp_path: Path, home: Path) -> None:
    """Hooks, filters, drivers, helpers and includes: with a person's git they run, with ours they do not."""
    ran = repo / ".git/ran"  # where what git starts may write
    ran.mkdir()
    program = tmp_path / "evil"
    program.write_text(f'#!/bin/sh\ntouch "{ran}/$(basename "$0")-$RANDOM$$"\ncat\n')
    program.chmod(0o755)
    included = tmp_path / "included"
    included.write_text(f'[filter "inc"]\n\tclean = {program}\n\tsmudge = {program}\n\trequired = true\n')
    hooks = repo / ".git" / "hooks"
    for name in (
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "pre-commit",
        "post-commit",
        "prepare-commit-msg",
        "post-merge",
    ):
        shutil.copy(program, hooks / name)
    for key, value in {
        "core.fsmonitor": str(program),
        "core.hooksPath": str(hooks),
        "core.pager": str(program),
        "core.editor": str(program),
        "core.sshCommand": str(program),
        "core.alternateRefsCommand": str(program),
        "core.attributesFile": str(tmp_path / "attributes"),
        "filter.evil.clean": str(program),
        "filter.evil.smudge": str(program),
        "filter.evil.process": str(program),
        "filter.evil.required": "true",
        "diff.external": str(program),
        "diff.evil.textconv": str(program),
        "diff.evil.command": str(program),
        "merge.evil.driver": f"{program} %O %A %B",
        "merge.default": "evil",
        "gpg.program": str(program),
        "commit.gpgSign": "true",
        "credential.helper": f"!{program}",
        "alias.status": f"!{program}",
        "include.path": str(included),
        "uploadpack.packObjectsHook": str(program),
        "protocol.ext.allow": "always",
        "remote.origin.url": f"ext::{program}",
        "extensions.worktreeConfig": "true",
        "core.worktree": "/tmp",
    }.items():
        git(repo, "config", "--file", ".git/config", key, value)
    (repo / ".git" / "config.worktree").write_text(f"[core]\n\tfsmonitor = {program}\n")
    (tmp_path / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("* filter=inc diff=evil merge=evil\n")
    one = session(repo).start()
    top = Path(one.path)
    (top / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    (top / "a").write_text("ours\ntwo\nthree\n")
    one.diff()
    session(repo).resume()
    one.end()
    shutil.move(repo / ".git" / "config", tmp_path / "config")
    (repo / ".git" / "config").write_text("[core]\n\trepositoryformatversion = 0\n")
    shutil.rmtree(repo / ".git" / "hooks")
    (repo / "a").write_text("one\ntwo\ntheirs\n")
    git(repo, "commit", "-qam", "theirs")
    git(repo, "checkout", "-q", "--detach")
    shutil.move(tmp_path / "config", repo / ".git" / "config")
    with opened(str(repo)) as found:
        merge(found.ledger, "x")
    assert os.listdir(ran) == []
    subprocess.run(
        ["git", "status"], cwd=repo, capture_output=True, env={**os.environ, "GIT_WORK_TREE": str(repo)}, timeout=30
    )
    assert os.listdir(ran) != [], "a person's git runs them, so the test can fail"


@pytest.mark.parametrize("by", ["grafts", "graph"])
def test_only_a_commit_says_what_came_before_it(repo: Path, by: str) -> None:
    """Both files lie where a command may write, and a person's git believes them: main would go on to a commit that
    knows nothing of it, as if nothing were lost."""
    main = git(repo, "rev-parse", "main")
    one = session(repo).start()
    lone = git(repo, "commit-tree", "-m", "lone", git(repo, "rev-parse", "main^{tree}"))
    tip = git(repo, "commit-tree", "-m", "tip", "-p", lone, git(repo, "rev-parse", "main^{tree}"))
    git(repo, "update-ref", f"refs/heads/{one.branch}", tip)
    if by == "grafts":
        (repo / ".git" / "info").mkdir(exist_ok=True)
        (repo / ".git" / "info" / "grafts").write_text(f"{lone} {main}\n")
    else:
        forge_graph(repo, lone, main)
    fooled = subprocess.run(["git", "merge-base", "--is-ancestor", main, tip], cwd=repo, capture_output=True)
    with opened(str(repo)) as found:
        assert not found.ledger.git.is_ancestor(main, tip)
    assert fooled.returncode == 0, "a person's git believes it, so the test can fail"


LIES = """
import hashlib, os, sys, zlib
store, true, told = sys.argv[1], b"evil\\n", b"harmless\\n"
name = hashlib.sha1(b"blob %d\\0" % len(true) + true).hexdigest()
os.makedirs(f"{store}/{name[:2]}", exist_ok=True)
with open(f"{store}/{name[:2]}/{name[2:]}", "wb") as file:
    file.write(zlib.compress(b"blob %d\\0" % len(told) + told))
with open("new", "wb") as file:
    file.write(true)
"""


@pytest.mark.parametrize("is_committed", [False, True], ids=["a file", "a commit"])
def test_a_diff_shows_what_would_come_whatever_the_sessions_store_says(repo: Path, is_committed: bool) -> None:
    """An object there has another's name: who looks at the diff would see a harmless file, and end the session."""
    one = session(repo).start()
    lies = one.run(["/usr/bin/python3", "-c", LIES, f"{one.record.git}/objects"], capture=True)
    assert lies.ok, lies.stderr
    name = git(one.path, "hash-object", "new")
    assert git(one.path, "cat-file", "-p", name) == "harmless", "a person's git believes it, so the test can fail"
    if is_committed:
        git(one.path, "add", "new")
        git(one.path, "commit", "-qm", "new")
        with pytest.raises(SessionError, match="objects of its commits are missing"):
            one.diff()
    else:
        assert b"+evil" in one.diff()
        one.end()
        assert git(repo, "show", f"{one.branch}:new") == "evil"


@pytest.mark.parametrize("content", [b"", zlib.compress(b"blob 6\0other\n")], ids=["empty", "another's"])
def test_a_file_is_not_taken_for_saved_by_the_name_of_an_object_alone(repo: Path, content: bytes) -> None:
    """As a loss of power leaves one, or a command in the project: git writes none where one of this name is."""
    one = session(repo).start()
    (Path(one.path) / "new").write_text("work\n")
    name = git(one.path, "hash-object", "new")
    (repo / ".git" / "objects" / name[:2]).mkdir(exist_ok=True)
    (repo / ".git" / "objects" / name[:2] / name[2:]).write_bytes(content)
    with pytest.raises(SessionError) as caught:
        one.end()
    assert (caught.value.fault, name in caught.value.what) == (Fault.UNSAVED, True)
    assert (Path(one.path) / "new").read_text() == "work\n"
    (repo / ".git" / "objects" / name[:2] / name[2:]).unlink()
    one.end()
    assert git(repo, "show", f"{one.branch}:new") == "work"


def test_what_git_could_not_do_is_said_in_its_last_words_alone(repo: Path) -> None:
    """Not in its advice about the file of grafts, which we name ourselves."""
    with opened(str(repo)) as found, pytest.raises(SessionError) as caught:
        found.ledger.git.call("log", "HEAD", "--bad")

    assert caught.value.what == "fatal: unrecognized argument: --bad"


def forge_graph(repo: Path, child: str, parent: str) -> None:
    """A graph of commits in which one has another for its parent."""
    names = "\n".join((child, parent))
    words = ["git", "-c", "commitGraph.generationVersion=1", "commit-graph", "write", "--stdin-commits"]
    subprocess.run(words, cwd=repo, input=names, text=True, check=True, capture_output=True)
    file = repo / ".git" / "objects" / "info" / "commit-graph"
    data = bytearray(file.read_bytes())
    chunks = {
        bytes(data[at : at + 4]): int.from_bytes(data[at + 4 : at + 12], "big") for at in range(8, 8 + 12 * 3, 12)
    }
    known = [data[at : at + 20].hex() for at in range(chunks[b"OIDL"], chunks[b"CDAT"], 20)]
    row = chunks[b"CDAT"] + 36 * known.index(child)
    data[row + 20 : row + 24] = known.index(parent).to_bytes(4, "big")
    data[row + 28 : row + 32] = (2 << 2).to_bytes(4, "big")  # its generation
    data[-20:] = hashlib.sha1(data[:-20], usedforsecurity=False).digest()
    file.chmod(0o644)
    file.write_bytes(data)


@pytest.mark.parametrize(
    "names",
    ["refs/heads", "refs/notes", "refs/heads/ringfence", "refs/heads/ringfence/x/y", "refs/heads/y refs/heads/y/z"],
)
def test_refs_that_git_could_not_have_made_do_not_keep_a_session_from_coming_back(repo: Path, names: str) -> None:
    """One is the directory of another, or of a branch, and was written into the packed file by hand."""
    one = session(repo).start()
    commit = git(one.path, "rev-parse", "HEAD")
    git(one.path, "tag", "mine")
    packed = Path(one.path, git(one.path, "rev-parse", "--git-common-dir"), "packed/packed-refs")
    with packed.open("a") as file:
        file.writelines(f"{commit} {name}\n" for name in names.split())
    one.end()
    one.resume()

    assert git(one.path, "rev-parse", "mine", "HEAD").splitlines() == [commit, commit]
    one.end()
    assert is_sound(repo)


def test_variables_of_git_do_not_reach_it(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "other")
    for name, value in {
        "GIT_DIR": f"{tmp_path}/other/.git",
        "GIT_WORK_TREE": "/etc",
        "GIT_INDEX_FILE": f"{repo}/.git/other",
        "GIT_OBJECT_DIRECTORY": f"{tmp_path}/objects",
        "GIT_EXEC_PATH": str(tmp_path),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": "touch /tmp/evil",
        "GIT_TRACE": f"{repo}/.git/trace",
    }.items():
        monkeypatch.setenv(name, value)
    one = session(repo).start()
    one.end()
    assert git(repo, "branch", "--list", "ringfence/x") == "ringfence/x"
    assert not (repo / ".git/trace").exists()
    assert not (repo / ".git/other").exists()


def test_git_is_not_taken_from_the_project(repo: Path) -> None:
    (repo / "git").write_text("#!/bin/sh\nexit 9\n")
    (repo / "git").chmod(0o755)
    found = gits.find_git({"PATH": f".:{repo}::{os.environ['PATH']}"}, (str(repo),))
    assert found == os.path.realpath(shutil.which("git") or "")
    refused(Fault.NOT_GIT, gits.find_git, {"PATH": f".:{repo}"}, (str(repo),))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(gits.KEPT)),
            st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"])),
        )
    )
)
def test_settings_stay_one_value_each(settings: list[tuple[str, str]]) -> None:
    """What is written into the configuration that git is shown is read back as it was, and brings nothing else."""
    text = gits.render_settings(settings)
    words = ["git", "config", "--file", "-", "--list", "-z"]
    done = subprocess.run(words, input=text.encode(), capture_output=True, timeout=30, check=True)
    assert gits.parse_settings(done.stdout, gits.KEPT) == settings


def test_every_fault_has_a_sentence() -> None:
    assert all(fault.value and not fault.value.endswith(".") for fault in Fault)
    assert {state.value for state in State} == {state.name.lower() for state in State}
