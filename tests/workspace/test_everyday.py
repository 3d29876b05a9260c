"""The git that an agent uses every day works in a session, on every backend; and what it leaves is kept."""

import functools
import http.server
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.workspace.conftest import files, git, is_sound, session
from tests.workspace.test_apart import backend as backend
from tests.workspace.test_life import AS_ME, refused, shell

from ringfence import Enforcement, Flags
from ringfence.model.session import Fault
from ringfence.session import Session, opened
from ringfence.workspace import life, private, refs


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On the disk: without a view /dev/shm is the host's."""
    return tmp_path_factory.mktemp("everyday")


@pytest.fixture
def remote(repo: Path, tmp_path: Path) -> Path:
    """The project's origin, one commit ahead of it and with a new branch and a tag."""
    place = tmp_path / "origin.git"
    git(tmp_path, "clone", "-q", "--bare", str(repo), "origin.git")
    git(repo, "remote", "add", "origin", str(place))
    git(repo, "fetch", "-q")
    git(repo, "remote", "set-head", "origin", "main")
    git(tmp_path, "clone", "-q", str(place), "elsewhere")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "theirs").write_text("theirs\n")
    git(elsewhere, "add", "-A")
    git(elsewhere, "commit", "-qm", "ahead")
    git(elsewhere, "tag", "-a", "v1", "-m", "v1")
    git(elsewhere, "push", "-q", "origin", "main", "main:new", "v1")
    return place


@pytest.fixture
def web(remote: Path, tmp_path: Path) -> Iterator[str]:
    """The origin by HTTP, on loopback."""
    git(remote, "update-server-info")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_given: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path))
    threading.Thread(target=server.serve_forever).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


ORIGIN = ["origin/HEAD", "origin/main", "origin/new"]


def started(repo: Path, **more: tuple[str, ...]) -> Session:
    return session(repo, flags=Flags(enforcement=Enforcement.BEST_EFFORT, **more)).start()  # type: ignore[arg-type]


def test_stash_branches_and_tags(repo: Path, backend: str) -> None:
    one = started(repo)
    said = shell(
        one,
        f"""
        git status | head -1
        echo stashed >> a; {AS_ME} stash -q; cat a; {AS_ME} stash pop -q; tail -1 a; git stash list
        {AS_ME} commit -qam work; git switch -q -c side; echo side > s; git add s; {AS_ME} commit -qm side
        git switch -q ringfence/x; git branch other side; git branch -q -D side; git tag t
        git branch gone; git branch -q -d gone
        {AS_ME} merge -q --no-edit other; git branch --format='%(refname:short)'; git log --format=%s
        git pack-refs --all; git branch -q -d other; git branch --format='%(refname:short)'
        git fsck --no-dangling
        """,
    )
    assert said.splitlines() == [
        *("On branch ringfence/x", "one", "two", "three", "stashed"),
        *("main", "other", "ringfence/x", "side", "work", "first", "main", "ringfence/x"),
    ]
    one.end()
    assert git(repo, "log", "--format=%s", "ringfence/x").splitlines() == ["side", "work", "first"]
    assert git(repo, "for-each-ref", "--format=%(refname)", "refs/ringfence") == "refs/ringfence/x/tags/t"
    assert is_sound(repo)


def test_notes_and_refs_of_other_kinds_are_kept_and_come_back(repo: Path, backend: str) -> None:
    git(repo, "-c", "user.name=P", "-c", "user.email=p@example.org", "notes", "add", "-m", "the project's", "HEAD")
    one = started(repo)
    said = shell(
        one,
        f"""
        git notes show; echo w > w; git add w; {AS_ME} commit -qm work; {AS_ME} notes add -m "the session's"
        git update-ref refs/original/refs/heads/x HEAD; git update-ref refs/one HEAD; git pack-refs --all
        git update-ref refs/patches/p HEAD; git update-ref refs/remotes/origin/fetched HEAD
        """,
    )
    assert said == "the project's\n"
    one.end()
    kept = git(repo, "for-each-ref", "--format=%(refname)", "refs/ringfence/x").removesuffix("\n").splitlines()
    names = ["notes/commits", "one", "original/refs/heads/x", "patches/p"]
    assert kept == [f"refs/ringfence/x/{name}" for name in names]
    assert git(repo, "notes", "list").count("\n") == 0, "the project's own are as they were"
    assert git(repo, "gc", "-q", "--prune=now") == ""

    again = session(repo, flags=Flags(enforcement=Enforcement.BEST_EFFORT)).resume()
    assert shell(again, "git notes show; git notes show HEAD~1") == "the session's\nthe project's\n"
    again.end()
    assert git(repo, "for-each-ref", "--format=%(refname)", "refs/ringfence/x").splitlines() == kept
    assert is_sound(repo)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_fetch_and_rebase_from_a_path(repo: Path, remote: Path, backend: str, scheme: str) -> None:
    git(repo, "remote", "set-url", "origin", f"{scheme}{remote}")
    one = started(repo, allow_read=(str(remote),))
    before = files(repo)
    said = shell(
        one,
        f"""
        echo mine > mine; git add mine; {AS_ME} commit -qm mine; git symbolic-ref refs/remotes/origin/HEAD
        git fetch -q; {AS_ME} rebase -q origin/main; git log --format=%s; git branch -r --format='%(refname:short)'
        git describe; git status --porcelain; git switch -q new; git switch -q -
        """,
    )
    lines = said.splitlines()
    assert lines[:7] == ["refs/remotes/origin/main", "mine", "ahead", "first", *ORIGIN]
    assert lines[7].startswith("v1-1-g")
    assert files(repo) == before
    one.end()
    assert git(repo, "log", "--format=%s", "ringfence/x").splitlines() == ["mine", "ahead", "first"]
    assert git(repo, "cat-file", "-t", "refs/ringfence/x/tags/v1") == "tag"
    assert is_sound(repo)


@pytest.mark.needs_userns
def test_fetch_over_the_network(repo: Path, web: str) -> None:
    git(repo, "remote", "set-url", "origin", f"http://{web}/origin.git")
    one = started(repo, allow_host=(web,))
    assert shell(one, "git fetch -q; git log -1 --format=%s origin/main") == "ahead\n"
    two = session(repo, "closed").start()
    assert two.run(["git", "fetch", "-q"], capture=True).exit_code != 0
    assert shell(two, "git log -1 --format=%s origin/main") == "first\n"


def test_what_else_a_session_leaves_is_kept_and_comes_back(repo: Path) -> None:
    """A branch of its own, a detached HEAD, and a stash of two entries."""
    one = started(repo)
    shell(
        one,
        f"""
        git switch -q -c side; echo side > s; git add s; {AS_ME} commit -qm side; git switch -q ringfence/x
        echo 1 >> a; {AS_ME} stash -q; echo 2 >> a; {AS_ME} stash -q -m second; {AS_ME} tag -a t -m t side
        git checkout -q --detach; echo d > d; git add d; {AS_ME} commit -qm detached
        """,
    )
    assert one.end().saved is False
    kept = git(repo, "for-each-ref", "--format=%(refname) %(contents:subject)", "refs/ringfence/x").splitlines()
    assert kept[0] == "refs/ringfence/x/heads/side side"
    assert kept[1].startswith("refs/ringfence/x/stash/0000 WIP on ringfence/x")
    assert kept[2:] == ["refs/ringfence/x/stash/0001 On ringfence/x: second", "refs/ringfence/x/tags/t t"]
    assert git(repo, "log", "-1", "--format=%s", "ringfence/x") == "detached"
    assert git(repo, "gc", "-q", "--prune=now") == ""
    refused(Fault.EXISTS, session(repo).start)

    again = session(repo).resume()
    said = shell(
        again,
        f"git stash list --format=%s; git log -1 --format=%s side; {AS_ME} stash pop -q; tail -1 a; git describe side",
    )
    assert said.splitlines() == ["On ringfence/x: second", kept[1].partition(" ")[2], "side", "2", "t"]
    shell(again, f"{AS_ME} commit -qam popped; git branch -q -D side; git tag -d t")
    again.end()
    kept = git(repo, "for-each-ref", "--format=%(refname)", "refs/ringfence/x").splitlines()
    assert kept == ["refs/ringfence/x/stash/0000"]
    assert is_sound(repo)
    one.end(delete_branch=True)
    assert git(repo, "for-each-ref", "refs/ringfence", "refs/heads/ringfence") == ""


def test_what_is_on_its_branch_is_kept_when_a_session_ends_on_another(repo: Path) -> None:
    one = started(repo)
    shell(
        one,
        f"""
        echo 1 > mine; git add mine; {AS_ME} commit -qm mine
        git switch -q -c side HEAD~1; echo 2 > s; git add s; {AS_ME} commit -qm side
        """,
    )
    one.end()
    assert git(repo, "gc", "-q", "--prune=now") == ""
    kept = git(repo, "for-each-ref", "--format=%(contents:subject)", "refs/ringfence/x", "refs/heads/ringfence")
    assert sorted(set(kept.splitlines())) == ["mine", "side"]
    assert is_sound(repo)


def test_the_projects_refs_are_shown_as_they_are_and_the_sessions_own_stay(repo: Path) -> None:
    one = started(repo)
    shell(
        one, f"git switch -q -c mine; {AS_ME} commit -q --allow-empty -m mine; git pack-refs --all; git branch -f main"
    )
    git(repo, "commit", "-q", "--allow-empty", "-m", "on main")
    git(repo, "branch", "later")
    assert shell(one, "git log -1 --format=%s later; git log -1 --format=%s main; git log -1 --format=%s mine") == (
        "on main\nmine\nmine\n"
    )
    git(repo, "branch", "-D", "later")
    assert shell(one, "git branch --list later") == ""


def test_hooks_of_the_project_run_inside(repo: Path) -> None:
    hook = repo / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho hooked > hooked\n")
    hook.chmod(0o755)
    one = started(repo)
    shell(one, f"{AS_ME} commit -q --allow-empty -m x")
    assert Path(one.path, "hooked").read_text() == "hooked\n"


NAMES_OF_BRANCHES = ("fix👩\u200d💻", "line\u2028end", "next\x85line", "latin\udce9", "non\xa0breaking")


def test_branches_have_names_of_any_letters(repo: Path) -> None:
    """Of the project's and of a session's: what is committed on them is kept."""
    for name in NAMES_OF_BRANCHES:
        subprocess.run(["git", "branch", name], cwd=repo, check=True)
    one = started(repo)
    subprocess.run(["git", "branch", "later\u2029"], cwd=repo, check=True)
    made = []
    for name in NAMES_OF_BRANCHES:
        words = ["sh", "-c", f'git switch -qc "$0" && echo > "$0" && git add . && {AS_ME} commit -qm "$0"', f"{name}-"]
        assert one.run(words).exit_code == 0
        made.append(git(one.path, "rev-parse", "HEAD"))
    shell(one, "git switch -q ringfence/x")
    one.end()
    kept = git(repo, "for-each-ref", "--format=%(objectname)", "refs/ringfence/x/heads").split("\n")
    assert sorted(kept) == sorted(made)
    one = session(repo).resume()
    assert subprocess.run(["git", "rev-parse", f"{NAMES_OF_BRANCHES[0]}-"], cwd=one.path).returncode == 0
    one.end()
    assert git(repo, "for-each-ref", "--format=%(objectname)", "refs/ringfence/x/heads").split("\n") == kept
    assert is_sound(repo)


def test_a_session_may_stand_on_a_branch_of_any_name(repo: Path) -> None:
    one = started(repo)
    shell(one, f"git switch -qc 'fix👩\u200d💻'; echo p > p; git add p; {AS_ME} commit -qm p")
    one.end()
    assert git(repo, "show", "ringfence/x:p") == "p"


@pytest.mark.parametrize("how", ["rebase --merge", "rebase --apply", "merge"])
def test_what_git_put_aside_for_a_rebase_or_a_merge_is_kept(repo: Path, how: str) -> None:
    one = started(repo)
    shell(
        one,
        f"""
        echo mine > a; {AS_ME} commit -qam mine
        git switch -qc other HEAD~1; echo theirs > a; {AS_ME} commit -qam theirs; git switch -q ringfence/x
        echo precious > new; echo precious >> sub/b; git add new
        {AS_ME} {how} --autostash other && exit 1
        test ! -e new
        """,
    )
    one.end()
    assert git(repo, "show", "refs/ringfence/x/stash/0000:new") == "precious"
    assert git(repo, "show", "refs/ringfence/x/stash/0000:sub/b").endswith("precious")
    one = session(repo).resume()
    assert "stash@{0}" in git(one.path, "stash", "list")
    one.end()
    assert is_sound(repo)


@pytest.mark.parametrize("content", [b"\xff\n", b"1" * 40, b"--all\n", b""])
def test_what_nobody_put_aside_is_not_looked_for(repo: Path, content: bytes) -> None:
    one = started(repo)
    place = Path(one.record.own, "rebase-merge")
    place.mkdir()
    (place / "autostash").write_bytes(content)
    one.end()
    assert git(repo, "for-each-ref", "refs/ringfence") == ""


# ---- A store that somebody spoiled ----


def test_a_broken_store_of_objects_stays_where_it_is(repo: Path) -> None:
    one = started(repo)
    shell(one, f"echo precious > p; git add p; {AS_ME} commit -qm p")
    blob = git(one.path, "rev-parse", "HEAD:p")
    place = Path(one.record.git, "objects", blob[:2], blob[2:])
    content = place.read_bytes()
    other = Path(one.record.git, "objects", *(lambda name: (name[:2], name[2:]))(git(one.path, "rev-parse", "HEAD")))
    place.chmod(0o600)
    for bad in (b"", content[:-3], other.read_bytes()):
        place.write_bytes(bad)
        refused(Fault.UNSAVED, one.end)
        assert git(repo, "log", "-1", "--format=%s", "ringfence/x") == "first"
        assert is_sound(repo)
    place.write_bytes(content)
    one.end()
    assert git(repo, "show", "ringfence/x:p") == "precious"
    assert is_sound(repo)


@pytest.mark.parametrize("kind", ["fifo", "link", "refs elsewhere", "ref to nothing", "odd refs", "endless stash"])
def test_hostile_contents_of_its_repository(repo: Path, kind: str) -> None:
    one = started(repo)
    top = Path(one.record.git)
    shell(one, f"echo p > p; git add p; {AS_ME} commit -qm p")
    if kind == "fifo":
        os.mkfifo(top / "objects" / "pack" / "pack-1.idx")
    elif kind == "link":
        (top / "objects" / "pack" / "pack-1.pack").symlink_to("/etc/passwd")
    elif kind == "refs elsewhere":
        (top / "refs" / "more").symlink_to(Path(one.path, "more"))
    elif kind == "ref to nothing":
        (top / "refs" / "heads" / "nothing").write_text("1" * 40 + "\n")
    elif kind == "odd refs":
        for name in ("a..b", "-x", "@{", "x.lock", "new\nline", "sp ace"):
            (top / "refs" / "heads" / name).write_text(git(one.path, "rev-parse", "HEAD") + "\n")
        (top / "refs" / "heads" / "link").symlink_to("/etc/passwd")
    else:
        (top / "logs" / "refs").mkdir(exist_ok=True)
        (top / "logs" / "refs" / "stash").write_text("nonsense\n" * 1000)
    if kind in ("fifo", "link", "refs elsewhere"):
        refused(Fault.UNSAVED if kind == "refs elsewhere" else Fault.UNSAFE, one.end)
        assert Path(one.path, "p").exists()
    else:
        one.end()
        assert git(repo, "show", "ringfence/x:p") == "p"
        kept = git(repo, "for-each-ref", "--format=%(refname)", "refs/ringfence").splitlines()
        assert kept == (["refs/ringfence/x/heads/-x"] if kind == "odd refs" else [])
    assert is_sound(repo)


def test_work_that_was_committed_before_the_worktree_was_removed_by_hand_is_kept(repo: Path) -> None:
    one = started(repo)
    shell(one, f"echo p > p; git add p; {AS_ME} commit -qm p; echo 1 >> a; {AS_ME} stash -q")
    shutil.rmtree(one.path)
    with opened(str(repo)) as found:
        life.prune(found.ledger)
    assert git(repo, "show", "ringfence/x:p") == "p"
    assert git(repo, "show", "refs/ringfence/x/stash/0000:a").endswith("1")


# ---- Refs as text ----

NAMES = st.from_regex(r"\Arefs/heads/[a-c@{}./~^:?*\\ -]{0,8}\Z")


@given(st.lists(NAMES, max_size=40))
def test_a_name_of_a_ref_is_one_where_git_says_so(names: list[str]) -> None:
    for name in names[:3]:
        done = subprocess.run(["git", "check-ref-format", name])
        assert refs.is_name(name) == (done.returncode == 0), name


VALUES = st.sampled_from(["1" * 40, "2" * 40, "3" * 40])
REFS = st.dictionaries(st.sampled_from(["refs/heads/a", "refs/heads/b", "refs/tags/t"]), VALUES)


@given(REFS, REFS, REFS)
def test_a_refresh_keeps_what_the_session_changed(now: refs.Refs, given_: refs.Refs, new: refs.Refs) -> None:
    result = refs.refreshed(now, given_, new)
    for name in {*now, *given_, *new}:
        own = name in now and now[name] != given_.get(name)
        dropped = name in given_ and name not in now
        wanted = now[name] if own else None if dropped else new.get(name)
        assert result.get(name) == wanted
    assert refs.parse(refs.render(now)) == now


def test_a_fingerprint_changes_with_every_ref_of_the_project_but_those_of_sessions(repo: Path) -> None:
    def seen() -> str:
        return private.fingerprint(f"{repo}/.git")

    found = [seen()]
    for words in (("branch", "b"), ("tag", "t"), ("pack-refs", "--all"), ("commit", "-q", "--allow-empty", "-m", "c")):
        git(repo, *words)
        found.append(seen())
    assert len(set(found)) == 5
    session(repo, "first").start()
    before = seen()
    session(repo, "second").start()
    assert seen() == before
