"""The life of a session: nothing is lost, and nothing is left."""

import os
import threading
from pathlib import Path

import pytest
from tests.workspace.conftest import AS_ROOT, files, git, in_commit, is_sound, session

from ringfence import Exited, SessionError, WorkspaceError, keep
from ringfence.model.session import Fault, State
from ringfence.session import Session, merge, opened
from ringfence.workspace import life

AS_ME = "git -c user.name=Agent -c user.email=agent@example.org"


def shell(one: Session, script: str) -> str:
    outcome = one.run(["sh", "-ec", script], capture=True, timeout=60)
    assert outcome.ending == Exited(0), (outcome.stderr or b"").decode()
    return (outcome.stdout or b"").decode()


def refused(fault: Fault, call: object, *given: object, **named: object) -> SessionError:
    with pytest.raises(SessionError) as caught:
        call(*given, **named)  # type: ignore[operator]
    assert caught.value.fault is fault, caught.value
    assert caught.value.code == f"WORKTREE_{fault.name}"
    return caught.value


def worktrees(repo: Path) -> list[str]:
    return [
        line.removeprefix("worktree ")
        for line in git(repo, "worktree", "list", "--porcelain").splitlines()
        if line.startswith("worktree ")
    ][1:]


def test_the_whole_life_by_python(repo: Path, tmp_path: Path) -> None:
    with session(repo, "Feature-X") as one:
        assert (one.name, one.branch) == ("feature-x", "ringfence/feature-x")
        assert worktrees(repo) == [one.path]
        assert files(one.path) == {
            name: content for name, content in files(repo).items() if not name.startswith(".git/")
        }
        assert is_sound(repo)
        shell(
            one, f"echo four >> a && {AS_ME} commit -qam second && echo loose > sub/new && ln -s a link && chmod +x a"
        )
        assert git(one.path, "log", "-1", "--format=%s", "ringfence/feature-x") == "second"
        assert git(repo, "log", "-1", "--format=%s", "ringfence/feature-x") == "first"
        work = files(one.path)
        place = one.path
    assert not os.path.exists(place)
    assert worktrees(repo) == []
    assert in_commit(repo, "ringfence/feature-x", tmp_path / "out") == work
    assert git(repo, "ls-tree", "ringfence/feature-x", "a").startswith("100755")
    assert git(repo, "log", "-1", "--format=%an <%ae> %s", "ringfence/feature-x") == (
        "Some Body <some@body.example> WIP: saved by ringfence at the end of session feature-x"
    )
    assert is_sound(repo)


def test_a_current_directory_that_is_gone_stops_nobody_who_does_not_need_it(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a FileNotFoundError, also for a project that was named from the root on."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for where in (".", "project"):
        with pytest.raises(WorkspaceError, match="the current directory: is gone"):
            Session(where)
    with Session(str(repo), name="here", as_root=AS_ROOT) as session:
        assert session.run(["sh", "-c", "echo x > x && git add x && git commit -qm x"]).ok
        assert b"+x" in session.diff()
        assert session.merge().into == session.record.base
        assert session.resume().name == "here"
    assert (repo / "x").read_text() == "x\n"


def test_a_session_without_new_work_gets_no_commit(repo: Path) -> None:
    with session(repo) as one:
        pass
    assert git(repo, "rev-parse", one.branch) == git(repo, "rev-parse", "main")


def test_an_error_in_the_block_loses_nothing(repo: Path) -> None:
    def broken() -> None:
        with session(repo) as one:
            shell(one, "echo precious > p")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert git(repo, "show", "ringfence/x:p") == "precious"


def test_a_name_is_given_where_none_was(repo: Path) -> None:
    one, other = session(repo, None).start(), session(repo, None).start()
    assert one.name.startswith("wt-2")
    assert other.name in (f"{one.name}-1", other.name)
    assert one.name != other.name


def test_ignored_files_are_kept_by_choice(repo: Path) -> None:
    for name, chosen in (("without", False), ("with", True)):
        one = session(repo, name).start()
        shell(one, "echo x > out.log; echo y > kept")
        ended = one.end(with_ignored=chosen)
        assert ended.ignored == (0 if chosen else 1)
        listed = git(repo, "ls-tree", "--name-only", one.branch).splitlines()
        assert ("out.log" in listed, "kept" in listed) == (chosen, True)


def test_a_branch_without_its_session_is_not_to_be_resumed(repo: Path) -> None:
    git(repo, "branch", "ringfence/left")

    assert refused(Fault.EXISTS, session(repo, "left").start).hint == "git branch -d ringfence/left, or another name"


def test_resume_takes_up_what_has_ended(repo: Path) -> None:
    with session(repo) as one:
        shell(one, "echo kept > k")
    again = session(repo).resume()
    assert Path(again.path, "k").read_text() == "kept\n"
    assert session(repo).resume().path == again.path
    again.end()


def test_a_branch_is_deleted_only_when_asked(repo: Path) -> None:
    with session(repo) as one:
        shell(one, "echo kept > k")
    tip = git(repo, "rev-parse", one.branch)
    ended = session(repo).resume().end(delete_branch=True)
    assert (ended.deleted, ended.commit) == (True, tip)
    assert git(repo, "branch", "--list", "ringfence/*") == ""
    refused(Fault.NOT_FOUND, session(repo).resume)


def test_a_branch_that_is_checked_out_is_not_deleted(repo: Path) -> None:
    one = session(repo).start()
    git(repo, "checkout", "-q", "--ignore-other-worktrees", one.branch)
    refused(Fault.DELETE_BRANCH_BLOCKED, one.end, delete_branch=True)
    one.end()
    git(repo, "checkout", "-q", "main")
    git(repo, "branch", "-D", one.branch)
    refused(Fault.BRANCH_UNKNOWN, one.end, delete_branch=True)


def test_a_branch_that_went_elsewhere_is_left_and_the_work_gets_another(repo: Path) -> None:
    one = session(repo).start()
    shell(one, "echo mine > mine")
    git(repo, "checkout", "-q", "--ignore-other-worktrees", one.branch)
    git(repo, "commit", "-q", "--allow-empty", "-m", "by hand")
    theirs = git(repo, "rev-parse", one.branch)
    git(repo, "checkout", "-q", "main")
    ended = one.end()
    assert git(repo, "rev-parse", "ringfence/x") == theirs
    assert ended.session.branch == "ringfence/x-saved-1"
    assert git(repo, "show", "ringfence/x-saved-1:mine") == "mine"


def test_a_history_that_the_agent_rewrote_is_its_branch_and_the_log_has_the_old_one(repo: Path) -> None:
    git(repo, "branch", "other")
    git(repo, "branch", "third")
    with session(repo) as one:
        shell(one, f"echo 1 > n; git add n; {AS_ME} commit -qm draft")
        one.merge("other")
        draft = git(repo, "rev-parse", one.branch)
        shell(one, f"echo 2 > n; {AS_ME} commit -qa --amend -m final")
        one.merge("third")
        assert git(repo, "log", "-1", "--format=%s", one.branch) == "final"
        assert git(repo, "rev-parse", f"{one.branch}@{{1}}") == draft
        shell(one, "git reset -q --hard HEAD~1; echo 3 > m")
    assert one.branch == "ringfence/x"
    assert git(repo, "ls-tree", "--name-only", one.branch).split() == [".gitignore", "a", "m", "sub"]
    assert git(repo, "branch", "--list", "ringfence/*").split() == ["ringfence/x"]


def test_where_the_agent_left_off_does_not_matter(repo: Path, tmp_path: Path) -> None:
    """In the middle of a rebase with conflicts, with a lock left behind and a file marked as unchanged."""
    with session(repo) as one:
        shell(
            one,
            f"""
            B=$(git rev-parse HEAD); echo 1 > a; {AS_ME} commit -qam one; T=$(git rev-parse HEAD)
            git checkout -q $B; echo 2 > a; {AS_ME} commit -qam two; {AS_ME} rebase $T >/dev/null 2>&1 || true
            git update-index --assume-unchanged sub/b; echo hidden >> sub/b; touch $(git rev-parse --git-dir)/index.lock
            """,
        )
        work = files(one.path)
    assert b"<<<<<<<" in work["a"]
    assert in_commit(repo, "ringfence/x", tmp_path / "out") == work


def test_rebase_and_cherry_pick_leave_nothing_behind(repo: Path) -> None:
    with session(repo) as one:
        said = shell(
            one,
            f"""
            B=$(git rev-parse HEAD); echo 1 > n1; git add n1; {AS_ME} commit -qm one; T=$(git rev-parse HEAD)
            git checkout -q $B; echo 2 > n2; git add n2; {AS_ME} commit -qm two; {AS_ME} rebase -q $T 2>&1
            {AS_ME} cherry-pick --allow-empty $T >/dev/null 2>&1 || {AS_ME} cherry-pick --skip 2>&1
            git tag fetched; git status
            """,
        )
    assert "currently" not in said
    assert "rror" not in said
    assert git(repo, "log", "--format=%s", "ringfence/x").splitlines() == ["two", "one", "first"]
    assert git(repo, "rev-parse", "refs/ringfence/x/tags/fetched") == git(repo, "rev-parse", "ringfence/x")
    assert is_sound(repo)


# ---- What cannot be saved stays ----


def stays(one: Session, repo: Path, work: dict[str, bytes]) -> None:
    assert files(one.path) == work
    with opened(str(repo)) as found:
        assert found.ledger.get(one.name).state is State.ACTIVE
    assert is_sound(repo)


def test_without_an_identity_the_worktree_stays(repo: Path, home: Path) -> None:
    one = session(repo).start()
    shell(one, "echo precious > p")
    (home / ".gitconfig").write_text("")
    error = refused(Fault.UNSAVED, one.end)
    assert one.path in error.hint
    stays(one, repo, files(one.path))
    (home / ".gitconfig").write_text("[user]\n\tname = n\n\temail = e@x\n")
    assert one.end().saved


def test_an_identity_by_variables_is_one(repo: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".gitconfig").write_text("")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "By Variable")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "by@variable.example")
    with session(repo) as one:
        Path(one.path, "n").write_text("n")
    who = git(repo, "log", "-1", "--format=%an %ae %cn %ce", one.branch)
    assert who == "By Variable by@variable.example By Variable by@variable.example"


def test_a_repository_inside_is_not_thrown_away(repo: Path) -> None:
    one = session(repo).start()
    shell(one, f"mkdir in && cd in && git init -q . && echo precious > p && git add p && {AS_ME} commit -qm in")
    error = refused(Fault.UNSAVED, one.end)
    assert error.place == f"{one.path}/in"
    stays(one, repo, files(one.path))


def test_a_repository_inside_an_ignored_directory_does_not_matter(repo: Path) -> None:
    with session(repo) as one:
        shell(one, "mkdir -p node_modules/in && cd node_modules/in && git init -q . && touch f")
    again = session(repo, "again").start()
    shell(again, "mkdir -p node_modules/in && cd node_modules/in && git init -q . && touch f")
    refused(Fault.UNSAVED, again.end, with_ignored=True)


def test_a_fifo_that_git_would_wait_for_is_refused(repo: Path) -> None:
    one = session(repo).start()
    shell(one, "mkfifo sub/.gitignore")
    refused(Fault.UNSAVED, one.end)
    assert os.path.exists(f"{one.path}/sub/.gitignore")


def test_a_file_that_cannot_be_read_stays(repo: Path) -> None:
    one = session(repo).start()
    shell(one, "echo precious > p && chmod 000 p")
    if os.geteuid() == 0:
        assert one.end().saved
        return
    refused(Fault.UNSAVED, one.end)
    assert os.path.exists(f"{one.path}/p")


def test_line_ends_that_would_not_come_back_keep_the_worktree(repo: Path) -> None:
    (repo / ".gitattributes").write_text("*.txt text eol=crlf\n")
    (repo / "t.txt").write_bytes(b"a\r\nb\r\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "text")
    with session(repo) as one:  # converted, and comes back
        assert Path(one.path, "t.txt").read_bytes() == b"a\r\nb\r\n"
        Path(one.path, "t.txt").write_bytes(b"a\r\nb\r\nc\r\n")
    mixed = session(repo, "mixed").start()
    Path(mixed.path, "t.txt").write_bytes(b"a\nb\r\n")
    refused(Fault.UNSAVED, mixed.end)
    assert Path(mixed.path, "t.txt").read_bytes() == b"a\nb\r\n"


def test_a_session_in_use_is_not_ended(repo: Path) -> None:
    one = session(repo).start()
    running = threading.Thread(target=one.run, args=(["sh", "-c", "touch up; while [ ! -e go ]; do sleep 0.02; done"],))
    running.start()
    while not os.path.exists(f"{one.path}/up"):
        pass
    try:
        refused(Fault.LOCKED, session(repo).resume().end)
    finally:
        Path(one.path, "go").touch()
        running.join()
    one.end()


# ---- Merging ----


def test_a_merge_moves_the_base_and_its_files(repo: Path) -> None:
    one = session(repo).start()
    shell(one, f"echo new > n; git add n; {AS_ME} commit -qm ahead")
    (repo / "untouched").write_text("mine\n")
    one.merge()
    assert git(repo, "rev-parse", "main") == git(repo, "rev-parse", one.branch)
    assert (repo / "n").read_text() == "new\n"
    assert git(repo, "status", "--porcelain") == "?? untouched"
    git(repo, "commit", "-q", "--allow-empty", "-m", "on main")
    shell(one, f"echo newer > n2; git add n2; {AS_ME} commit -qm more")
    one.merge()
    assert git(repo, "log", "-1", "--format=%s") == "Merge session x into main"
    assert (repo / "n2").read_text() == "newer\n"
    assert git(repo, "status", "--porcelain") == "?? untouched"
    assert is_sound(repo)
    one.end()
    with opened(str(repo)) as found:
        assert life.prune(found.ledger) == ["x: forgotten; ringfence/x is kept, and merged"]


@pytest.mark.parametrize("kind", ["conflict", "dirty-base", "dirty-session", "locked", "untracked"])
def test_a_merge_that_cannot_be_changes_nothing(repo: Path, kind: str) -> None:
    one = session(repo).start()
    shell(one, f"echo theirs > a; echo n > n; git add -A; {AS_ME} commit -qm theirs")
    if kind == "conflict":
        (repo / "a").write_text("ours\n")
        git(repo, "commit", "-qam", "ours")
    elif kind == "dirty-base":
        (repo / "a").write_text("not committed\n")
    elif kind == "dirty-session":
        shell(one, "echo more > m")
    elif kind == "locked":
        (repo / ".git" / "index.lock").touch()
    else:
        (repo / "n").write_text("somebody's own\n")
    before, tip, staged = files(repo), git(repo, "rev-parse", "main"), git(repo, "diff", "--cached")
    fault = {"conflict": Fault.CONFLICT, "locked": Fault.LOCKED}.get(kind, Fault.DIRTY)
    refused(fault, one.merge)
    now = files(repo)
    names = {name for name in before.keys() | now.keys() if not name.startswith(".git/objects/")}
    own = {".git/refs/heads/ringfence/x", ".git/logs/refs/heads/ringfence/x"}
    assert {name for name in names if before.get(name) != now.get(name)} <= {".git/index", *own}
    assert (git(repo, "rev-parse", "main"), git(repo, "diff", "--cached")) == (tip, staged)


def test_a_change_within_the_second_of_the_index_is_not_overwritten(repo: Path) -> None:
    """Same length, same second: what is left to git is the time of the index, which must not be that of a copy."""
    one = session(repo).start()
    shell(one, f"echo theirs > a; {AS_ME} commit -qam theirs")
    index = repo / ".git" / "index"
    stamp = 1_700_000_000_000_000_000
    os.utime(repo / "a", ns=(stamp, stamp))
    git(repo, "update-index", "--refresh")
    (repo / "a").write_text("One\nTwo\nThree\n")
    os.utime(repo / "a", ns=(stamp, stamp))
    os.utime(index, ns=(stamp, stamp))
    git(repo, "config", "core.trustctime", "false")
    refused(Fault.DIRTY, one.merge)

    assert (repo / "a").read_text() == "One\nTwo\nThree\n"


def test_a_merge_into_a_branch_that_is_not_checked_out(repo: Path) -> None:
    git(repo, "branch", "other")
    one = session(repo).start()
    shell(one, f"echo n > n; git add -A; {AS_ME} commit -qm n")
    one.merge("other")
    assert git(repo, "rev-parse", "other") == git(repo, "rev-parse", one.branch)
    assert not (repo / "n").exists()
    for into, fault in (
        ("nowhere", Fault.BRANCH_UNKNOWN),
        ("--into", Fault.INVALID_BRANCH),
        ("a..b", Fault.INVALID_BRANCH),
    ):
        refused(fault, one.merge, into)
    git(repo, "worktree", "add", "-q", str(repo.parent / "w"), "other")
    refused(Fault.BRANCH_IN_USE, one.merge, "other")


def test_a_diff_shows_what_is_committed_and_what_is_not(repo: Path) -> None:
    one = session(repo).start()
    shell(one, f"echo n > n; git add -A; {AS_ME} commit -qm n; echo loose > l")
    git(repo, "commit", "-q", "--allow-empty", "-m", "on main")
    patch = one.diff().decode()
    assert [line for line in patch.splitlines() if line.startswith("+++")] == ["+++ b/l", "+++ b/n"]
    one.end()
    assert one.diff().decode() == patch


# ---- Kinds of repository ----


def test_a_bare_repository(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    bare = tmp_path / "bare.git"
    one = session(bare).start()
    shell(one, f"echo n > n; git add n; {AS_ME} commit -qm n")
    one.merge()
    one.end()
    assert git(bare, "show", "main:n") == "n"


@pytest.mark.parametrize("name", ["with space", "日本", 'quote"s', "dollar$(id)"])
def test_a_project_of_any_plain_name_and_with_longer_objects(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", name)
    (place / "ä b").write_text("x\n")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")
    with session(place) as one:
        shell(one, f"{AS_ME} commit -q --allow-empty -m inside; echo y > '日 本'; printf z > \"$(printf 'n\\nl')\"")
        work = files(one.path)
    assert len(one.record.tip) == 64
    assert in_commit(place, one.branch, tmp_path / "out") == work
    assert is_sound(place)


@pytest.mark.parametrize("name", ["new\nline", "bytes\udcff"])
def test_a_project_whose_name_is_no_plain_text_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    git(tmp_path / name, "init", "-q")
    refused(Fault.BASE_INVALID, session(tmp_path / name).start)


def test_a_sparse_checkout_stays_sparse_and_whole(repo: Path) -> None:
    git(repo, "sparse-checkout", "set", "--cone", "other")
    assert not (repo / "sub").exists()
    with session(repo) as one:
        assert not os.path.exists(f"{one.path}/sub")
        assert shell(one, "git status --porcelain; echo n > n") == ""
    assert git(repo, "ls-tree", "-r", "--name-only", one.branch).splitlines() == [".gitignore", "a", "n", "sub/b"]


@pytest.mark.parametrize("how", [("--cone", "in"), ("--no-cone", "in", ".gitignore")])
def test_what_is_changed_outside_a_sparse_checkout_is_shown_and_kept(repo: Path, how: tuple[str, ...]) -> None:
    (repo / "sub" / "c").write_text("c\n")
    (repo / "in").mkdir()
    (repo / "in" / "f").write_text("f\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "second")
    git(repo, "sparse-checkout", "set", *how)
    one = session(repo).start()
    shell(one, "mkdir -p sub/new; echo changed > sub/b; echo n > sub/new/n; echo l > sub/x.log; rm in/f; echo i > in/g")
    shown = one.diff().decode()
    assert [line for line in shown.splitlines() if line.startswith("diff")] == [
        f"diff --git a/{path} b/{path}" for path in ("in/f", "in/g", "sub/b", "sub/new/n")
    ]
    with pytest.raises(SessionError) as caught:
        one.merge()
    assert caught.value.fault is Fault.DIRTY
    assert one.end().ignored == 1
    names = git(repo, "ls-tree", "-r", "--name-only", one.branch).splitlines()
    assert names == [".gitignore", "a", "in/g", "sub/b", "sub/c", "sub/new/n"]
    assert git(repo, "show", f"{one.branch}:sub/b") == "changed"


def test_a_submodule_that_nobody_filled_is_kept_as_it_is(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "lib")
    git(tmp_path / "lib", "commit", "-q", "--allow-empty", "-m", "lib")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "lib"), "lib")
    git(repo, "commit", "-qm", "with a submodule")
    with session(repo) as one:
        shell(one, "echo n > n")
    assert git(repo, "ls-tree", one.branch, "lib") == git(repo, "ls-tree", "main", "lib")


def test_a_session_starts_anywhere_in_the_project_and_from_any_commit(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(repo, "tag", "v1", first)
    one = session(repo / "sub", "one", revision="v1").start()
    assert one.record.start == first
    assert session(repo, "two", revision="HEAD~1").start().record.start == first
    assert shell(one, "true") == ""
    assert one.run(["pwd"], below="sub", capture=True).stdout == f"{one.path}/sub\n".encode()


def test_linked_and_copied_directories(repo: Path) -> None:
    for name in ("node_modules", ".venv"):
        (repo / name / "bin").mkdir(parents=True)
        (repo / name / "bin" / "tool").write_text("#!/bin/sh\necho tool\n")
        (repo / name / "bin" / "tool").chmod(0o755)
        (repo / name / "link").symlink_to("bin/tool")
        os.mkfifo(repo / name / "fifo")
    (repo / ".gitignore").write_text("node_modules/\n.venv/\n")
    git(repo, "commit", "-qam", "ignore")
    one = session(repo, link=["node_modules"], copy=[".venv"], setup="cp node_modules/bin/tool made").start()
    assert shell(one, "node_modules/bin/tool; .venv/link; test ! -e .venv/fifo; echo x > .venv/own") == "tool\ntool\n"
    assert one.run(["sh", "-c", "echo x > node_modules/bin/tool"], capture=True).exit_code != 0
    one.end()
    assert git(repo, "ls-tree", "--name-only", one.branch).splitlines() == [".gitignore", "a", "made", "sub"]
    assert not (repo / ".venv" / "own").exists()


@pytest.mark.parametrize("path", ["../outside", "/etc", ".git", "nowhere", "a", "sub/link"])
def test_only_directories_of_the_project_are_brought(repo: Path, path: str) -> None:
    (repo / "sub" / "link").symlink_to("/etc")
    with pytest.raises(Exception) as caught:
        session(repo, link=[path]).start()
    assert type(caught.value).__name__ in ("WorkspaceError", "SessionError")
    assert worktrees(repo) == []


def test_a_set_up_that_fails_leaves_the_session(repo: Path) -> None:
    one = session(repo, setup="echo half > half; exit 3")
    refused(Fault.SETUP_FAILED, one.start)
    assert Path(one.path, "half").exists()
    one.end()


# ---- Many at once ----


def test_thirty_two_at_once_end_consistent(repo: Path) -> None:
    children = []
    for number in range(32):
        child = os.fork()
        if child == 0:
            try:
                one = session(repo, f"s{number}", wait=110).start()
                Path(one.path, one.name).write_text("x")
                if number % 2:
                    one.end()
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 32
    names = {f"s{number}" for number in range(32)}
    assert {Path(path).name for path in worktrees(repo)} == {name for name in names if int(name[1:]) % 2 == 0}
    assert git(repo, "branch", "--list", "ringfence/*", "--format=%(refname:lstrip=3)").split() == sorted(names)
    for name in names:
        if int(name[1:]) % 2:
            assert git(repo, "show", f"ringfence/{name}:{name}") == "x"
    assert is_sound(repo)


def test_the_lock_waits_and_then_says_so(repo: Path) -> None:
    with opened(str(repo)):
        refused(Fault.LOCKED, session(repo, wait=0.05).start)
    session(repo).start()


def test_a_session_is_there_for_the_process_that_comes_next(repo: Path) -> None:
    one = session(repo).start()
    keep.forget_all()
    with opened(str(repo)) as found:
        assert found.ledger.names() == ["x"]
        refused(Fault.DIRTY if Path(one.path, "n").exists() else Fault.NOT_FOUND, merge, found.ledger, "nobody")
