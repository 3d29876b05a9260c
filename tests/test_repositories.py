"""In a linked worktree and in a submodule git works, and what would run code later stays out of reach."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.test_run import each_backend as each_backend
from tests.test_run import run

from ringfence import enforce, keep, plan
from ringfence.enforce import planted
from ringfence.model import PlanError

GIT = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]


def linked(base: Path) -> tuple[Path, Path]:
    """A repository, and a worktree of it elsewhere."""
    main, tree = base / "main", base / "tree"
    main.mkdir(parents=True)
    for words in (
        ["init", "-q"],
        ["commit", "-q", "--allow-empty", "-m", "first"],
        ["worktree", "add", "-q", str(tree)],
    ):
        subprocess.run([*GIT, *words], cwd=main, check=True, capture_output=True)
    return main, tree


COMMIT = " ".join([*GIT, "commit", "-qm", "second"])


def test_a_linked_worktree_can_commit_and_cannot_touch_what_runs_code(workspace: Path) -> None:
    main, tree = linked(workspace.parent)
    git = main / ".git"
    outcome = run(
        tree,
        f"""echo x > file && git add file && {COMMIT} && echo done
        echo evil > {git}/hooks/post-commit; echo evil >> {git}/config; echo evil > {main}/planted
        echo evil > {git}/worktrees/tree/commondir; echo /evil > {git}/objects/info/alternates""",
    )
    log = subprocess.run([*GIT, "log", "--format=%s", "tree"], cwd=main, capture_output=True, check=True).stdout

    assert outcome.stdout == b"done\n", outcome
    assert log == b"second\nfirst\n"
    assert not (git / "hooks" / "post-commit").exists()
    assert "evil" not in (git / "config").read_text()
    assert not (main / "planted").exists()
    if plan.has_view(enforce.probe()):  # without one these are a stated gap
        assert (git / "worktrees" / "tree" / "commondir").read_text() == "../..\n"


def is_judged() -> bool:
    """Whether somebody judges new names: that takes a look at the command's calls."""
    return plan.is_seen(enforce.probe())


def test_in_a_linked_worktree_refs_are_deleted_commits_rebased_and_worktrees_added(workspace: Path) -> None:
    main, tree = linked(workspace.parent)
    commits = (
        f"echo 1 > f && git add f && {COMMIT} && git checkout -qb side HEAD~1 && echo 2 > g && git add g && {COMMIT}"
    )
    outcome = run(
        tree,
        f"""{commits} && {" ".join(GIT)} rebase -q tree && git status --short --branch --untracked-files=no &&
        git checkout -q tree && git branch -qD side && git worktree add -qb third third &&
        cd third && echo 3 > h && git add h && {COMMIT} &&
        cd .. && git worktree remove third && git pack-refs --all && git show-ref --heads | cut -d' ' -f2""",
    )
    if not is_judged():
        return  # then the directory that all worktrees share stays closed
    master = subprocess.run(["git", "branch", "--show-current"], cwd=main, capture_output=True, check=True).stdout
    heads = sorted([master.decode().strip(), "third", "tree"])

    assert (outcome.stdout or b"").decode().splitlines() == ["## side", *(f"refs/heads/{name}" for name in heads)], (
        outcome
    )
    assert not (main / ".git/worktrees/third").exists()


@pytest.mark.parametrize(
    "attack",
    [
        "echo evil >> config; echo evil > commondir; echo x > config.worktree; echo x > HEAD.lock; mkdir rebase-merge",
        "mv config packed-refs; mv packed-refs.new config; ln packed-refs.new commondir; ln config packed-refs",
        "mv hooks pooks; mv worktrees/beside worktrees/b; rm config index; chmod 777 config",
        "perl -e 'rename q(worktrees), q(wo); rename q(objects), q(ob); rename q(worktrees/tree), q(worktrees/t)'",
        "echo evil > worktrees/beside/commondir; echo x > worktrees/beside/config.worktree; echo x > info/attributes",
    ],
)
def test_what_is_anothers_in_the_repository_of_a_linked_worktree_stays(workspace: Path, attack: str) -> None:
    main, tree = linked(workspace.parent)
    subprocess.run([*GIT, "worktree", "add", "-q", "../beside"], cwd=main, check=True, capture_output=True)
    git = main / ".git"
    before = contents(git)
    run(tree, f"cd {git} && echo evil > packed-refs.new; {attack}; rm -f {git}/packed-refs.new")

    assert contents(git) == before


def test_a_worktree_beside_a_linked_one_that_leads_elsewhere_now_is_reported(workspace: Path) -> None:
    """One that the command has added itself, or somebody else during the run, is not held."""
    main, tree = linked(workspace.parent)
    evil = main / ".git/worktrees/evil"
    subprocess.run(["git", "config", "core.hooksPath", ".husky"], cwd=main, check=True)  # which is held, and old
    time.sleep(0.1)
    made = run(tree, f"git worktree add -q fine; mkdir {evil} && echo {tree}/evil > {evil}/commondir && echo done")
    if is_judged():
        assert (made.stdout, made.planted) == (b"done\n", (str(evil),)), made


@pytest.mark.parametrize("place", ["bare/main", "main"])
def test_worktrees_in_a_bare_repository_are_kept_from_one_another(workspace: Path, place: str) -> None:
    """Their names may begin as those of what git shares do."""
    base = workspace.parent
    main, _ = linked(base / "first")
    subprocess.run([*GIT, "clone", "-q", "--bare", str(main), str(base / "bare")], check=True, capture_output=True)
    for name in (place, "bare/login", "bare/refactor", "bare/other"):
        words = ["worktree", "add", "-q", "-b", f"on-{name}", str(base / name)]
        subprocess.run([*GIT, *words], cwd=base / "bare", check=True, capture_output=True)
    subprocess.run([*GIT, "commit", "-q", "--allow-empty", "-m", "first of all"], cwd=base / place, check=True)
    names = ["login/evil", "refactor/.git", "other/evil"]
    evil = "; ".join(f"echo evil > {base}/bare/{name}" for name in names)
    outcome = run(base / place, f"echo x > file && git add file && {COMMIT} && echo done; {evil}")

    assert outcome.stdout == b"done\n", outcome
    assert not any((base / "bare" / name).is_file() and "evil" in (base / "bare" / name).read_text() for name in names)


@pytest.mark.parametrize("where", ["main", "tree"])
def test_a_worktree_that_leads_elsewhere_is_told_of_however_old_that_is(workspace: Path, where: str) -> None:
    """It may have been made a run earlier under another name. One that names its repository in full does not."""
    main, _ = linked(workspace.parent)
    for name, common in (("evil", f"{workspace.parent}/evil"), ("fine", f"{main}/.git/")):
        (main / ".git/worktrees" / name).mkdir()
        (main / ".git/worktrees" / name / "commondir").write_text(f"{common}\n")
    time.sleep(0.1)

    assert run(workspace.parent / where, "true").planted == (f"{main}/.git/worktrees/evil",)


def test_a_pointer_into_the_repository_of_another_project_is_reported(workspace: Path) -> None:
    """Through which a later git would bring its files here, although nothing in it runs a program."""
    main, tree = linked(workspace.parent / "theirs")
    (main / "secret").write_text("secret\n")
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*GIT, *words], cwd=workspace, check=True, capture_output=True)
    subprocess.run([*GIT, "add", "secret"], cwd=main, check=True)
    subprocess.run([*GIT, "commit", "-q", "-m", "secret"], cwd=main, check=True)
    subprocess.run(
        [
            *GIT,
            "reset",
            "-q",
            "--hard",
            subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=main).decode().strip(),
        ],
        cwd=tree,
        check=True,
    )
    outcome = run(
        workspace, f"git worktree add -q own; mkdir sub; echo 'gitdir: {main}/.git/worktrees/tree' > sub/.git"
    )
    subprocess.run([*GIT, "checkout", "-q", "."], cwd=workspace / "sub", check=True)

    assert (workspace / "sub/secret").exists(), "the plant must be able to harm"
    assert outcome.planted == (f"{workspace}/sub/.git",)


@pytest.mark.parametrize("says_so", [False, True])
def test_a_worktree_that_takes_a_directory_outside_for_its_own_is_reported(workspace: Path, says_so: bool) -> None:
    main, _ = linked(workspace.parent)
    theirs, evil = workspace.parent / "theirs", main / ".git/worktrees/evil"
    theirs.mkdir()
    if says_so:
        (theirs / ".git").write_text(f"gitdir: {evil}\n")
    outcome = run(
        main,
        f"""git worktree add -q evil; cd {evil} && echo {theirs}/.git > gitdir && git -C {main} worktree add -q gone &&
        rm -r {main}/gone && mkdir {main}/gone && echo done""",
    )
    subprocess.run([*GIT, "worktree", "repair"], cwd=main, check=True, capture_output=True)

    assert (outcome.stdout, (theirs / ".git").exists()) == (b"done\n", True), "the plant must be able to harm"
    assert outcome.planted == (() if says_so else (f"{evil}/gitdir",))


@pytest.mark.parametrize("file", ["gitdir", "commondir", "HEAD", "config", "config.worktree"])
def test_a_null_in_a_file_of_a_worktree_does_not_end_the_search(workspace: Path, file: str) -> None:
    main, _ = linked(workspace.parent)
    own = main / ".git/worktrees/evil"
    outcome = run(
        main, f"git worktree add -q evil; printf '[core]\\nworktree = a\\0b' > {own}/{file}; git init -q x; echo done"
    )

    assert outcome.stdout == b"done\n", outcome
    assert any(path.startswith(str(own)) for path in outcome.planted) or file == "HEAD"


@pytest.mark.parametrize("place", ["bare", ".bare"])
def test_a_worktree_added_beside_one_of_a_bare_repository_is_no_plant(workspace: Path, place: str) -> None:
    base = workspace.parent
    main, _ = linked(base / "first")
    for words in (["clone", "-q", "--bare", str(main), place], ["-C", place, "worktree", "add", "-q", f"{base}/main"]):
        subprocess.run([*GIT, *words], cwd=base, check=True, capture_output=True)
    outcome = run(base / "main", "git worktree add -q further && echo done")

    if is_judged():
        assert (outcome.stdout, outcome.planted) == (b"done\n", ()), outcome


def test_in_a_linked_worktree_resolutions_are_kept_and_nothing_that_git_only_tries_is_told(workspace: Path) -> None:
    main, tree = linked(workspace.parent)
    subprocess.run(["git", "config", "rerere.enabled", "true"], cwd=main, check=True)
    again = (
        f"echo 1 > f && git add f && {COMMIT} && git checkout -qb side HEAD~1 && echo 2 > f && git add f && {COMMIT}"
    )
    solved = f"git merge -q tree; echo 3 > f && git add f && {COMMIT} && echo x > f && git stash -q && git stash pop -q"
    passing = "git worktree add -q d; git worktree remove d; echo done"
    outcome = run(tree, f"{again}; {solved.replace('merge', ' '.join(GIT[1:]) + ' merge')}; {passing}")

    if is_judged():
        assert outcome.stdout is not None
        assert outcome.stdout.endswith(b"done\n"), outcome
        assert list((main / ".git/rr-cache").glob("*/postimage")), outcome
        assert outcome.denials == ()


def contents(git: Path) -> dict[str, object]:
    """All that there is in a git directory, but for objects, refs, and their logs."""
    paths = [path for path in git.rglob("*") if path.relative_to(git).parts[0] not in ("objects", "refs", "logs")]
    return {str(path): (path.lstat().st_mode, path.is_file() and path.read_bytes()) for path in paths}


@pytest.mark.parametrize("name", ["refs", "objects", "logs"])
def test_a_link_planted_in_the_repository_of_a_worktree_leads_nowhere(workspace: Path, name: str) -> None:
    main, tree = linked(workspace.parent)
    secret = workspace.parent / "secret"
    secret.mkdir()
    (main / ".git" / name).rename(main / ".git" / "aside")
    (main / ".git" / name).symlink_to(secret)  # as a command in the main workspace could

    run(tree, f"echo evil > {secret}/planted; echo evil > {main}/.git/{name}/planted")

    assert list(secret.iterdir()) == []


def test_a_worktree_that_only_says_so_itself_is_not_believed(tmp_path: Path) -> None:
    main, tree = linked(tmp_path)
    (tmp_path / "hostile").mkdir()
    (tmp_path / "hostile" / ".git").write_text((tree / ".git").read_text())
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ".git").write_text(f"gitdir: {tmp_path}/hostile\n")

    assert enforce.repository_of(str(tree)).worktree == (f"{main}/.git/worktrees/tree", f"{main}/.git")
    assert enforce.repository_of(str(tmp_path / "hostile")).worktree is None
    assert enforce.repository_of(str(tmp_path / "elsewhere")).worktree is None
    assert enforce.repository_of(str(main)).worktree is None


def superproject(base: Path) -> tuple[Path, Path]:
    """A project with a submodule, whose git directory lies in the project's."""
    other, top = base / "other", base / "top"
    for path in (other, top):
        path.mkdir()
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
            subprocess.run([*GIT, *words], cwd=path, check=True, capture_output=True)
    add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "lib/sub"]
    for words in (add, ["commit", "-qm", "with a submodule"]):
        subprocess.run([*GIT, *words], cwd=top, check=True, capture_output=True)
    return top, top / "lib" / "sub"


REBASE = f"""git checkout -qb side && echo y > side && git add side && {COMMIT} && git checkout -q - &&
echo z > more && git add more && {COMMIT} && {" ".join(GIT)} rebase -q side && git log --format=%s | wc -l"""


def test_a_submodule_can_commit_and_rebase_and_cannot_touch_what_runs_code(workspace: Path) -> None:
    top, sub = superproject(workspace.parent)
    git = top / ".git" / "modules" / "lib" / "sub"
    kept = {name: (git / name).read_text() for name in ("config",)}
    outcome = run(
        sub,
        f"""echo x > file && git add file && {COMMIT} && {REBASE} && echo done
        echo evil > {git}/hooks/post-commit; echo evil >> {git}/config; echo evil > {git}/config.worktree
        echo evil > {git}/commondir; echo evil > {top}/planted; echo evil > {top}/.git/HEAD; mkdir {git}/modules""",
    )

    assert (outcome.stdout or b"").endswith(b"done\n"), outcome
    if plan.has_view(enforce.probe()):  # without one these are a stated gap
        assert {name: (git / name).read_text() for name in kept} == kept
        assert not any(os.path.lexists(git / name) for name in ("hooks/post-commit", "config.worktree", "commondir"))
        assert not (git / "modules").exists()
    assert not (top / "planted").exists()
    assert "evil" not in (top / ".git" / "HEAD").read_text()


def test_in_the_project_around_a_submodule_both_can_commit(workspace: Path) -> None:
    top, sub = superproject(workspace.parent)
    git = top / ".git" / "modules" / "lib" / "sub"
    outcome = run(
        top,
        f"""cd lib/sub && echo x > file && git add file && {COMMIT} && cd ../.. && git add lib && {COMMIT} && echo done
        echo evil > {git}/hooks/post-commit; echo evil >> {git}/config""",
    )

    assert outcome.stdout == b"done\n", outcome
    if plan.has_view(enforce.probe()):
        assert not (git / "hooks" / "post-commit").exists()
        assert "evil" not in (git / "config").read_text()
    assert (sub / "file").exists()


def test_a_worktree_is_added_and_the_others_stay_as_they_are(workspace: Path) -> None:
    main, tree = linked(workspace.parent)
    outcome = run(
        main,
        f"""git worktree add -q inside && cd inside && echo x > f && git add f && {COMMIT} && echo done
        cd ..; echo evil > .git/worktrees/tree/config.worktree; echo evil > .git/worktrees/tree/commondir""",
    )

    assert outcome.stdout == b"done\n", outcome
    if plan.has_view(enforce.probe()):
        assert (main / ".git/worktrees/tree/commondir").read_text() == "../..\n"
        assert not (main / ".git/worktrees/tree/config.worktree").exists()
    assert tree.exists()


def test_submodules_of_a_linked_worktree_can_commit_and_cannot_touch_what_runs_code(workspace: Path) -> None:
    """Their git directories lie in that of the worktree, and git enters them whenever it looks at the worktree."""
    top, _ = superproject(workspace.parent)
    tree = workspace.parent / "tree"
    for where, words in ((top, ["worktree", "add", "-q", str(tree)]), (tree, ["submodule", "-q", "update", "--init"])):
        subprocess.run([*GIT, "-c", "protocol.file.allow=always", *words], cwd=where, check=True, capture_output=True)
    git = top / ".git/worktrees/tree/modules/lib/sub"
    before = (git / "config").read_text()
    evil = f"""echo evil >> {git}/config; echo evil > {git}/hooks/post-commit; echo evil > {git}/commondir
        echo evil > {git}/config.worktree"""
    outcome = run(tree, f"cd lib/sub && echo x > file && git add file && {COMMIT} && echo done; {evil}")
    run(top, evil)  # and from the worktree beside it

    assert outcome.stdout == b"done\n", outcome
    if is_judged():
        assert (git / "config").read_text() == before
        assert not any(os.path.lexists(git / name) for name in ("hooks/post-commit", "commondir", "config.worktree"))


MODULE = (
    "mkdir -p {0} && cp -r {1}/. {0} && git config -f {0}/config core.fsmonitor 'touch {2}/pwned; false' && echo did"
)


@pytest.mark.parametrize("of", ["tree", "new"])
@pytest.mark.parametrize("where", ["top", "tree"])
def test_a_submodule_that_the_command_makes_for_a_worktree_is_refused_or_told(
    workspace: Path, where: str, of: str
) -> None:
    """`git submodule update` takes what stands there, with its configuration. That of a worktree which the command adds
    is told after the run."""
    base = workspace.parent
    top, _ = superproject(base)
    subprocess.run([*GIT, "worktree", "add", "-q", str(base / "tree")], cwd=top, check=True, capture_output=True)
    module = top / f".git/worktrees/{of}/modules/lib/sub"
    made = MODULE.format(module, top / ".git/modules/lib/sub", base)
    outcome = run(base / where, f"{'git worktree add -q new;' if of == 'new' else ''} {made}")
    again = base / where / of if of == "new" else base / "tree"
    update = [*GIT, "-c", "protocol.file.allow=always", "submodule", "-q", "update", "--init"]
    if again.exists():
        subprocess.run(update, cwd=again, check=True, capture_output=True)

    if is_judged():
        assert (outcome.stdout == b"did\n") == (of == "new"), outcome
        assert outcome.planted == ((str(module),) if of == "new" else ())
        assert (base / "pwned").exists() == (of == "new"), "what is told of must be able to harm"


def test_many_submodules_that_the_command_adds_hide_none(workspace: Path) -> None:
    top, _ = superproject(workspace.parent)
    modules = top / ".git/modules"
    many = f"for n in $(seq 80); do mkdir {modules}/n$n && : > {modules}/n$n/HEAD; done"
    evil = modules / "m/evil"
    outcome = run(top, f"{MODULE.format(evil, modules / 'lib/sub', workspace.parent)}; {many}")

    assert outcome.stdout == b"did\n"
    assert outcome.planted == (str(evil),)


def of_a_linked_worktree(base: Path) -> tuple[Path, Path, Path]:
    main, tree = linked(base)
    for where, words in ((main, ["extensions.worktreeConfig", "true"]), (tree, ["--worktree", "core.hooksPath", "hk"])):
        subprocess.run(["git", "config", *words], cwd=where, check=True)
    return tree, tree, tree / "hk"


def of_a_submodule(base: Path) -> tuple[Path, Path, Path]:
    top, sub = superproject(base)
    subprocess.run(["git", "config", "core.hooksPath", "hk"], cwd=sub, check=True)
    return top, sub, sub / "hk"


def by_a_link_outside(base: Path) -> tuple[Path, Path, Path]:
    main, _ = linked(base)
    (base / "link").symlink_to(main)
    subprocess.run(["git", "config", "core.hooksPath", str(base / "link/hk")], cwd=main, check=True)
    return main, main, main / "hk"


def above_the_workspace(base: Path) -> tuple[Path, Path, Path]:
    main, _ = linked(base)
    subprocess.run(["git", "config", "core.hooksPath", "front/hk"], cwd=main, check=True)
    return main / "front", main, main / "front/hk"


def above_a_repository_that_a_command_made(base: Path) -> tuple[Path, Path, Path]:
    place, main, hooks = above_the_workspace(base)
    place.mkdir()
    assert run(place, "mkdir .git").exit_code == 0
    return place, main, hooks


def in_the_git_directory(base: Path) -> tuple[Path, Path, Path]:
    main, _ = linked(base)
    subprocess.run(["git", "config", "core.hooksPath", ".git/hk"], cwd=main, check=True)
    return main, main, main / ".git/hk"


def of_a_git_directory_elsewhere(base: Path) -> tuple[Path, Path, Path]:
    main, _ = linked(base)
    subprocess.run(["git", "init", "-q", "--separate-git-dir", str(base / "store")], cwd=main, check=True)
    subprocess.run(["git", "config", "core.hooksPath", "hk"], cwd=main, check=True)
    return main, main, main / "hk"


def above_it_of_a_git_directory_elsewhere(base: Path) -> tuple[Path, Path, Path]:
    _, main, _ = of_a_git_directory_elsewhere(base)
    subprocess.run(["git", "config", "core.hooksPath", "front/hk"], cwd=main, check=True)
    return main / "front", main, main / "front/hk"


def of_a_git_directory_by_another_name(base: Path) -> tuple[Path, Path, Path]:
    main, _ = linked(base)
    (main / ".git").rename(main / ".bare")
    (main / ".git").write_text("gitdir: ./.bare\n")
    return main, main, main / ".bare/hooks"


def of_the_user_elsewhere(base: Path) -> tuple[Path, Path, Path]:
    main, _ = linked(base)
    (base / "settings/git").mkdir(parents=True)
    (base / "settings/git/config").write_text("[core]\n\thooksPath = hk\n")
    return main, main, main / "hk"


def by_links_among_them(base: Path) -> tuple[Path, Path, Path]:
    main, _ = linked(base)
    (main / "hooks").mkdir()
    (main / "hooks/pre-commit").symlink_to("../tools/pre-commit")
    subprocess.run(["git", "config", "core.hooksPath", "hooks"], cwd=main, check=True)
    return main, main, main / "tools"


@pytest.mark.parametrize(
    "made",
    [
        by_links_among_them,
        of_a_linked_worktree,
        of_a_submodule,
        by_a_link_outside,
        above_the_workspace,
        above_a_repository_that_a_command_made,
        in_the_git_directory,
        of_a_git_directory_elsewhere,
        above_it_of_a_git_directory_elsewhere,
        of_a_git_directory_by_another_name,
        of_the_user_elsewhere,
    ],
)
def test_hooks_in_the_workspace_are_kept_wherever_they_are_named(
    workspace: Path, made: Callable[[Path], tuple[Path, Path, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(workspace.parent / "settings"))
    place, where, hooks = made(workspace.parent)
    hooks.mkdir(parents=True, exist_ok=True)
    hook = hooks / "pre-commit"
    plant = f"printf '#!/bin/sh\\n: > {workspace.parent}/pwned\\n' > {hook}; chmod +x {hook}"
    outcome = run(place, plant)
    if is_judged():
        assert not hook.exists(), outcome
    subprocess.run(["sh", "-c", plant], check=True)
    subprocess.run([*GIT, "commit", "-q", "--allow-empty", "-m", "later"], cwd=where, check=True)

    assert (workspace.parent / "pwned").exists(), "what is kept must be able to harm"


def test_configuration_in_the_git_directory_that_is_included_is_kept(workspace: Path) -> None:
    """Some tools have theirs there."""
    main, _ = linked(workspace.parent)
    subprocess.run(["git", "config", "include.path", "tool/config"], cwd=main, check=True)
    plant = f"mkdir -p .git/tool; git config -f .git/tool/config core.fsmonitor ': > {workspace.parent}/pwned; false'"
    outcome = run(main, plant)
    if is_judged():
        assert not (main / ".git/tool/config").exists(), outcome
    subprocess.run(["sh", "-c", plant], cwd=main, check=True)
    subprocess.run([*GIT, "status"], cwd=main, check=True, capture_output=True)

    assert (workspace.parent / "pwned").exists(), "what is kept must be able to harm"


@pytest.mark.parametrize("configuration", ["echo '[core]' > {}/config", ":"])
def test_what_an_earlier_run_has_put_by_is_told_of_when_it_comes_to_its_place(
    workspace: Path, configuration: str
) -> None:
    """A link or a hook is then older than the run: the links among logs, through which git writes; and a hook of a
    submodule that was none yet."""
    top, _ = superproject(workspace.parent)
    victim = workspace.parent / "victim"
    new = top / ".git/modules/lib/new"
    hook = f"mkdir -p {new}/hooks && echo '#!/bin/sh' > {new}/hooks/post-checkout && chmod +x {new}/hooks/post-checkout"
    head = (top / ".git/HEAD").read_text().partition("refs/heads/")[2].strip()
    first = run(top, f"mkdir -p .git/x/refs/heads && ln -s {victim} .git/x/refs/heads/{head} && {hook} && echo did")
    time.sleep(0.1)
    second = run(
        top,
        f"""mv .git/logs .git/old && mv .git/x .git/logs && {configuration.format(new)} &&
        cp .git/modules/lib/sub/HEAD {new}/HEAD && mkdir {new}/objects {new}/refs && echo did""",
    )
    subprocess.run([*GIT, "commit", "-q", "--allow-empty", "-m", "later"], cwd=top, check=True)

    assert (first.stdout, second.stdout) == (b"did\n", b"did\n"), (first, second)
    assert "later" in victim.read_text(), "what is told of must be able to harm"
    assert set(second.planted) == {str(new), f"{top}/.git/logs/refs/heads/{head}"}


@pytest.mark.parametrize("where", ["", "lib/sub"])
def test_a_worktree_of_a_submodule_stays_as_it_is(workspace: Path, where: str) -> None:
    top, sub = superproject(workspace.parent)
    tree = workspace.parent / "tree"
    subprocess.run([*GIT, "worktree", "add", "-q", str(tree)], cwd=sub, check=True, capture_output=True)
    git = top / ".git/modules/lib/sub/worktrees/tree"
    run(top / where, f"echo evil > {git}/commondir; echo evil > {git}/config.worktree; echo evil > {git}/gitdir")

    if is_judged():
        assert (git / "commondir").read_text() == "../..\n"
        assert not (git / "config.worktree").exists()
        assert (git / "gitdir").read_text() == f"{tree}/.git\n"


def test_a_repository_elsewhere_is_believed_when_it_names_the_workspace(workspace: Path) -> None:
    git = workspace.parent / "a.git"
    subprocess.run([*GIT, "init", "-q", "--separate-git-dir", str(git)], cwd=workspace, check=True)
    assert enforce.repository_of(str(workspace)).submodule == ""
    subprocess.run(["git", "config", "core.worktree", str(workspace)], cwd=workspace, check=True)
    before = (git / "config").read_text()
    evil = "; ".join(f"echo evil >> {git}/{name}" for name in ("config", "hooks/post-commit", "commondir"))
    outcome = run(workspace, f"echo x > f && git add f && {COMMIT} && echo done; {evil}")

    assert outcome.stdout == b"done\n", outcome
    if plan.has_view(enforce.probe()):
        assert (git / "config").read_text() == before
        assert not any(os.path.lexists(git / name) for name in ("hooks/post-commit", "commondir"))


@pytest.mark.parametrize(
    ("git", "below"), [("data", "sub"), ("top", "top/sub"), ("a.git", "a.git/sub"), ("a.git/data", "sub")]
)
def test_a_directory_that_was_made_to_look_like_a_repository_is_not_believed(
    workspace: Path, git: str, below: str
) -> None:
    """A command that could write there once, or in a wider workspace, had it for ever, with all that is in it."""
    where, own = workspace / below, workspace / git
    where.mkdir(parents=True, exist_ok=True)
    own.mkdir(parents=True, exist_ok=True)
    for name in ("objects", "refs"):
        (own / name).mkdir()
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "config").write_text(f"[core]\n\tworktree = {where}\n")
    (where / ".git").write_text(f"gitdir: {own}\n")

    assert enforce.repository_of(str(where)).submodule == ""
    run(where, f"echo evil > {own}/kept")
    assert not os.path.lexists(own / "kept")


def test_a_submodule_that_only_says_so_itself_is_not_believed(tmp_path: Path) -> None:
    top, sub = superproject(tmp_path)
    (tmp_path / "hostile").mkdir()
    (tmp_path / "hostile" / ".git").write_text(f"gitdir: {top}/.git/modules/lib/sub\n")

    assert enforce.repository_of(str(sub)).submodule == f"{top}/.git/modules/lib/sub"
    for path in (tmp_path / "hostile", top, tmp_path):
        assert enforce.repository_of(str(path)).submodule == ""
    assert enforce.repository_of(str(top)).modules == [f"{top}/.git/modules/lib/sub"]


def test_a_pointer_longer_than_any_path_is_not_followed(tmp_path: Path) -> None:
    """Name by name that took seconds, of the start and the end of each run."""
    (tmp_path / ".git").write_text("gitdir: " + "a/" * 30_000)
    before = time.thread_time()
    found = enforce.repository_of(str(tmp_path)).git
    left = planted.scan(str(tmp_path), 0, 5)

    assert (found, left) == (f"{tmp_path}/.git", ())
    assert time.thread_time() - before < 0.2


def test_the_configurations_of_many_submodules_are_read_once_and_not_without_end(tmp_path: Path) -> None:
    """A command that made the repository itself could have them be large, by 64 names for one: that took minutes, of
    every later plan."""
    modules = [tmp_path / f".git/modules/{number}" for number in range(20)]
    for module in modules:
        module.mkdir(parents=True)
        (module / "HEAD").write_text("ref: refs/heads/main\n")
    (modules[0] / "config").write_bytes(b"[a]\n" + b"b=\n" * 200_000)
    for module in modules[1:]:
        os.link(modules[0] / "config", module / "config")
    of = enforce.repository_of(str(tmp_path))
    before = time.thread_time()
    with pytest.raises(PlanError, match="larger than 4 MiB"):
        enforce.all_programs(str(tmp_path), of.worktree, of.submodule, of.modules, "/nonexistent", {})

    assert time.thread_time() - before < 6


@pytest.mark.parametrize("kind", ["directories", "files"])
def test_more_worktrees_than_can_be_held_one_by_one_are_held_together(workspace: Path, kind: str) -> None:
    """A command may add some, and so many that no later one could start: "no space left on device"."""
    main, _ = linked(workspace.parent)
    make = "mkdir" if kind == "directories" else "touch"
    many = f"cd .git/worktrees && seq 4200 | sed s/^/n/ | xargs {make} && echo done"
    assert run(main, many).stdout == b"done\n"
    keep.forget_all()
    outcome = run(
        main, "echo x > .git/worktrees/tree/commondir; touch .git/worktrees/new; git rev-parse HEAD >&2; echo done"
    )

    assert outcome.stdout == b"done\n", outcome
    assert (main / ".git/worktrees/tree/commondir").read_text() == "../..\n"
    assert not (main / ".git/worktrees/new").exists() or not is_judged()


def test_more_links_among_the_hooks_than_can_be_held_are_said(tmp_path: Path) -> None:
    (tmp_path / ".git/hooks").mkdir(parents=True)
    for number in range(4000):
        (tmp_path / f".git/hooks/{number}").symlink_to(f"../../{number}")

    with pytest.raises(PlanError, match="runs more programs"):
        enforce.all_programs(str(tmp_path), None, "", [], "/nonexistent", {})
