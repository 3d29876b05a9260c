"""What a run leaves behind for a later git: each plant makes git run a program, is found, and can be moved away."""

import asyncio
import hashlib
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.attacks.conftest import Field
from tests.attacks.conftest import field as field
from tests.looking import until

import ringfence
from ringfence.enforce import Listings, lookout
from ringfence.enforce.lookout import is_settled, stamp_of
from ringfence.enforce.planted import look, scan, searched
from ringfence.enforce.quarantine import quarantine
from ringfence.model import Exited, Outcome

GIT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "1"}
GIT |= {"GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
WHO = ["-c", "user.name=n", "-c", "user.email=e@example.org"]


def git(where: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=where, env=GIT, check=True, capture_output=True, timeout=60)


def nested(workspace: Path) -> Path:
    (workspace / "deep" / "sub").mkdir(parents=True)
    git(workspace / "deep" / "sub", "init", "-q")
    return workspace / "deep" / "sub"


def by_configuration(workspace: Path) -> Path:
    where = nested(workspace)
    git(where, "config", "core.fsmonitor", f"touch {workspace.parent}/pwned; false")
    return where


def by_bare_repository(workspace: Path) -> Path:
    where = workspace / "fixtures"
    git(workspace, "init", "-q", "--bare", str(where))
    with open(where / "config", "a") as config:
        config.write(f'[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = "touch {workspace.parent}/pwned; false"\n')
    return where


def by_hook(workspace: Path) -> Path:
    where = nested(workspace)
    hook = where / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {workspace.parent}/pwned\n")
    hook.chmod(0o755)
    (where / "f").write_text("")
    return where


def by_pointer(workspace: Path) -> Path:
    where = by_configuration(workspace)
    (where / ".git").rename(workspace / "elsewhere")
    (where / ".git").write_text(f"gitdir: {workspace}/elsewhere\n")
    return where


def by_link(workspace: Path) -> Path:
    where = by_configuration(workspace)
    (where / ".git").rename(workspace / "elsewhere")
    (where / ".git").symlink_to(workspace / "elsewhere")
    return where


def by_pointer_to_a_part(workspace: Path) -> Path:
    """It looks like a submodule's, of a repository that is none."""
    where = by_configuration(workspace)
    (workspace / "evil/.git/modules").mkdir(parents=True)
    (where / ".git").rename(workspace / "evil/.git/modules/part")
    (where / ".git").write_text(f"gitdir: {workspace}/evil/.git/modules/part\n")
    return where


def by_pointer_to_a_part_that_shares(workspace: Path) -> Path:
    """It looks like a worktree's, and what it shares lies where nobody looks."""
    where = by_configuration(workspace)
    (where / ".git").rename(workspace / ".git/objects/.git")
    part = workspace / ".git/objects/.git/worktrees/part"
    part.mkdir(parents=True)
    (part / "HEAD").write_text("ref: refs/heads/main\n")
    (part / "commondir").write_text("../..\n")
    (where / ".git").write_text(f"gitdir: {part}\n")
    return where


def by_what_is_shared(workspace: Path) -> Path:
    """A repository that has all but its head elsewhere."""
    where, rest = workspace / "docs", workspace / "rest"
    for path in (where, rest / "objects", rest / "refs"):
        path.mkdir(parents=True)
    (rest / "config").write_text("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n")
    (where / "HEAD").write_text("ref: refs/heads/main\n")
    (where / "commondir").write_text("../rest\n")
    command = f'"touch {workspace.parent}/pwned; false"'
    (where / "config.worktree").write_text(f"[core]\n\tbare = false\n\tworktree = {where}\n\tfsmonitor = {command}\n")
    return where


def by_submodule(workspace: Path) -> Path:
    """What `git submodule update` runs instead of a checkout."""
    where = nested(workspace)
    git(where, "-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "--allow-empty", "-m", "x")
    git(where, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(where), "module")
    git(where, "config", "submodule.module.update", f"!touch {workspace.parent}/pwned; false")
    (where / "module" / ".git").unlink()
    return where


def by_quotations(workspace: Path) -> Path:
    """Git takes the quotes away wherever they stand, and blanks before the first letter."""
    where = by_submodule(workspace)
    text = (where / ".git/config").read_text()
    assert text.count('update = "!touch') == 1
    (where / ".git/config").write_text(text.replace('update = "!', 'update = "" "!'))
    return where


def by_a_section_of_another_name(workspace: Path) -> Path:
    """A line that is two to others, and one to git, which takes the second half for a comment."""
    where = nested(workspace)
    with open(where / ".git/config", "a") as config:
        config.write(f'[alias]\n# \v[user]\nname = "!touch {workspace.parent}/pwned"\n')
    return where


def by_a_long_configuration(workspace: Path) -> Path:
    """What counts comes after more than anybody reads."""
    where = by_configuration(workspace)
    text = (where / ".git/config").read_text()
    (where / ".git/config").write_text("# and so on\n" * 10_000 + text)
    return where


def by_a_linked_configuration(workspace: Path) -> Path:
    where = by_configuration(workspace)
    (where / ".git/config").rename(workspace / "settings")
    (where / ".git/config").symlink_to(workspace / "settings")
    return where


def _split(workspace: Path, common: str) -> Path:
    """A repository whose head is in one place and the rest in another."""
    where = by_configuration(workspace)
    rest = where / ".git" / common
    (where / ".git").rename(where / "rest")
    (where / ".git").mkdir()
    (where / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (where / "rest").rename(rest)
    return where


def by_a_linked_pointer_to_what_is_shared(workspace: Path) -> Path:
    where = _split(workspace, "../rest")
    (workspace / "pointer").write_text("../rest\n")
    (where / ".git/commondir").symlink_to(workspace / "pointer")
    return where


def by_a_name_that_ends_with_a_space(workspace: Path) -> Path:
    where = _split(workspace, "../.. ")
    (where / ".git/commondir").write_text("../.. \n")
    return where


def by_a_name_of_two_lines(workspace: Path) -> Path:
    """Its first line leads to a part of a repository that has nothing in it."""
    where = by_configuration(workspace)
    parts = workspace / "other/.git/worktrees"
    (parts / "part").mkdir(parents=True)
    (where / ".git").rename(parts / "part\nother")
    (where / ".git").write_text(f"gitdir: {parts}/part\nother\n")
    return where


def beside_what_is_no_name(workspace: Path) -> Path:
    """Who looks for it must not stumble over what is no path at all."""
    for name in ("a", "z"):
        (workspace / name).mkdir()
        (workspace / name / ".git").write_text("gitdir: \0\n")
    return by_configuration(workspace)


PLANTS = [
    by_configuration,
    by_bare_repository,
    by_hook,
    by_pointer,
    by_link,
    by_pointer_to_a_part,
    by_pointer_to_a_part_that_shares,
    by_what_is_shared,
    by_submodule,
    by_quotations,
    by_a_section_of_another_name,
    by_a_long_configuration,
    by_a_linked_configuration,
    by_a_linked_pointer_to_what_is_shared,
    by_a_name_that_ends_with_a_space,
    by_a_name_of_two_lines,
    beside_what_is_no_name,
]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    git(tmp_path / "ws", "init", "-q")
    return tmp_path / "ws"


def use(where: Path) -> None:
    """What a person or a prompt does in a directory."""
    script = "git status; git add -A; git name; git -c protocol.file.allow=always submodule update --force"
    subprocess.run(script, shell=True, cwd=where, env=GIT, capture_output=True, timeout=60)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_plant_runs_a_program_until_it_is_moved_out_of_the_way(
    workspace: Path, plant: Callable[[Path], Path]
) -> None:
    begun = time.time_ns() - 10_000_000
    where = plant(workspace)
    use(where)
    assert (workspace.parent / "pwned").exists(), "the plant must be able to harm"
    (workspace.parent / "pwned").unlink()

    found = scan(str(workspace), begun, 5)
    moved = quarantine(found)
    use(where)

    assert any(path.startswith(str(where)) for path in found)
    assert len(moved) == len(found)
    assert not (workspace.parent / "pwned").exists()


def by_a_part(workspace: Path, kept: str) -> Iterator[Path]:
    """Below a name at which nobody looks, and then a pointer to it."""
    where = by_configuration(workspace)
    part = workspace / kept / ".git/modules/part"
    part.parent.mkdir(parents=True)
    (where / ".git").rename(part)
    yield where
    (where / ".git").write_text(f"gitdir: {part}\n")


def in_two_by_a_part(workspace: Path) -> Iterator[Path]:
    return by_a_part(workspace, "kept")


def in_two_by_a_part_in_the_git_directory(workspace: Path) -> Iterator[Path]:
    return by_a_part(workspace, ".git/kept")


def in_two_by_a_worktree(workspace: Path) -> Iterator[Path]:
    """As `git worktree add` makes one, but for its configuration, which is older."""
    git(workspace, "config", "extensions.worktreeConfig", "true")
    where, kept = workspace / "docs", workspace / ".git/kept"
    for path in (where, kept):
        path.mkdir()
    (kept / "HEAD").write_text("ref: refs/heads/main\n")
    (kept / "commondir").write_text("../..\n")
    (kept / "config.worktree").write_text(f'[core]\n\tfsmonitor = "touch {workspace.parent}/pwned; false"\n')
    yield where
    (workspace / ".git/worktrees").mkdir()
    kept.rename(workspace / ".git/worktrees/x")
    (where / ".git").write_text(f"gitdir: {workspace}/.git/worktrees/x\n")


def in_two_by_another_name(workspace: Path) -> Iterator[Path]:
    """Not a repository, for something is missing; and then one, whose files are as old as before."""
    where = by_configuration(workspace)
    (where / ".git").rename(where / "kept")
    for name in ("refs", "HEAD"):
        (where / "kept" / name).rename(where / name)
    yield where
    for name in ("refs", "HEAD"):
        (where / name).rename(where / "kept" / name)
    (where / "kept").rename(where / ".git")


def in_two_with_its_head(workspace: Path) -> Iterator[Path]:
    where = by_configuration(workspace)
    (where / ".git").rename(where / "kept")
    (where / "kept/refs").rename(where / "refs")
    yield where
    (where / "refs").rename(where / "kept/refs")
    (where / "kept").rename(where / ".git")


def in_two_by_a_hook(workspace: Path) -> Iterator[Path]:
    where = by_hook(workspace)
    (where / ".git").rename(where / "kept")
    (where / "kept/HEAD").rename(where / "HEAD")
    yield where
    (where / "HEAD").rename(where / "kept/HEAD")
    (where / "kept").rename(where / ".git")


def in_two_by_what_is_shared(workspace: Path) -> Iterator[Path]:
    where = by_configuration(workspace)
    (where / "kept/worktrees").mkdir(parents=True)
    for name in ("config", "objects", "refs"):
        (where / ".git" / name).rename(where / "kept" / name)
    (where / ".git").rename(workspace.parent / "head")
    yield where
    (workspace.parent / "head/commondir").write_text("../..\n")
    (workspace.parent / "head").rename(where / "kept/worktrees/x")
    (where / ".git").write_text(f"gitdir: {where}/kept/worktrees/x\n")


def in_two_by_a_head_that_comes_to_share(workspace: Path) -> Iterator[Path]:
    """A head and what it will share are old; then it is told what to share."""
    where, part = workspace / "docs", workspace / "docs/worktrees/x"
    for path in (where / "objects", where / "refs", part):
        path.mkdir(parents=True)
    (where / "config").write_text("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n")
    (part / "HEAD").write_text("ref: refs/heads/main\n")
    command = f'"touch {workspace.parent}/pwned; false"'
    (part / "config.worktree").write_text(f"[core]\n\tbare = false\n\tworktree = {part}\n\tfsmonitor = {command}\n")
    yield part
    (part / "commondir").write_text("../..\n")


@pytest.mark.parametrize(
    "plant",
    [
        in_two_by_a_head_that_comes_to_share,
        in_two_by_a_part,
        in_two_by_a_part_in_the_git_directory,
        in_two_by_a_worktree,
        in_two_by_another_name,
        in_two_with_its_head,
        in_two_by_a_hook,
        in_two_by_what_is_shared,
    ],
)
def test_what_two_runs_have_made_together_is_reported(workspace: Path, plant: Callable[[Path], Iterator[Path]]) -> None:
    begun = time.time_ns() - 10_000_000
    steps = plant(workspace)
    where = next(steps)
    found = scan(str(workspace), begun, 5)
    time.sleep(0.05)
    begun = time.time_ns() - 10_000_000
    assert list(steps) == []
    use(where)
    assert (workspace.parent / "pwned").exists(), "the plant must be able to harm"

    found = (*found, *scan(str(workspace), begun, 5))

    assert any(path.startswith(str(where)) for path in found), found


@pytest.mark.parametrize("of", [".", "other"])
@pytest.mark.parametrize("place", ["kept", "objects/00", "objects/ff/deep", "kept/hooks/objects", "worktrees/x/kept"])
def test_a_repository_that_is_put_by_in_a_git_directory_is_told_of_before_it_is_renamed(
    workspace: Path, of: str, place: str
) -> None:
    for where in (workspace, workspace / "other"):
        git(workspace, "init", "-q", str(where))
    kept, begun = workspace / of / ".git" / place, time.time_ns() - 10_000_000
    kept.parent.mkdir(parents=True, exist_ok=True)
    (by_configuration(workspace) / ".git").rename(kept)
    found = scan(str(workspace), begun, 5)
    time.sleep(0.05)
    begun = time.time_ns() - 10_000_000
    (workspace / "new").mkdir()
    kept.rename(workspace / "new/.git")
    again = scan(str(workspace), begun, 5)
    use(workspace / "new")

    assert (workspace.parent / "pwned").exists(), "the plant must be able to harm"
    assert (found, again) == ((str(kept),), ())


def by_a_module_of_a_repository(workspace: Path) -> Iterator[Path]:
    where = nested(workspace)
    git(where, "-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "--allow-empty", "-m", "x")
    git(where, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(where), "module")
    yield where / "module"
    with open(where / ".git/modules/module/config", "a") as config:
        config.write(f'[core]\n\tfsmonitor = "touch {workspace.parent}/pwned; false"\n')


def by_a_worktree_of_a_repository(workspace: Path) -> Iterator[Path]:
    where = nested(workspace)
    git(where, "-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "--allow-empty", "-m", "x")
    git(where, "worktree", "add", "-q", "tree")
    yield where / "tree"
    rest = where / ".git/objects/rest"
    for path in (rest / "objects", rest / "refs"):
        path.mkdir(parents=True)
    (rest / "config").write_text(f'[core]\n\tfsmonitor = "touch {workspace.parent}/pwned; false"\n')
    (where / ".git/worktrees/tree/commondir").write_text("../../objects/rest\n")


def by_a_part_in_the_git_directory(workspace: Path) -> Iterator[Path]:
    where, part = nested(workspace), workspace / ".git/kept/.git/modules/part"
    part.parent.mkdir(parents=True)
    (where / ".git").rename(part)
    (where / ".git").write_text(f"gitdir: {part}\n")
    yield where
    with open(part / "config", "a") as config:
        config.write(f'[core]\n\tfsmonitor = "touch {workspace.parent}/pwned; false"\n')


@pytest.mark.parametrize(
    "plant", [by_a_module_of_a_repository, by_a_worktree_of_a_repository, by_a_part_in_the_git_directory]
)
def test_where_a_pointer_leads_is_looked_at_each_time(workspace: Path, plant: Callable[[Path], Iterator[Path]]) -> None:
    """The pointer is as it was, and what it leads to is not."""
    steps = plant(workspace)
    where = next(steps)
    time.sleep(0.05)
    begun = time.time_ns() - 10_000_000
    assert scan(str(workspace), begun, 5) == ()
    assert list(steps) == []
    use(where)
    assert (workspace.parent / "pwned").exists(), "the plant must be able to harm"

    own = os.path.realpath(where / (where / ".git").read_text().removeprefix("gitdir: ").strip())
    assert scan(str(workspace), begun, 5) == (f"{where}/.git", own)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_plant_is_found_where_every_directory_was_searched_before(
    workspace: Path, plant: Callable[[Path], Path]
) -> None:
    (workspace / "deep").mkdir()
    (workspace / "other" / "one").mkdir(parents=True)
    time.sleep(0.06)  # a directory that was changed just now is read anew in any case
    listings = Listings({workspace.stat().st_dev})
    assert scan(str(workspace), 0, 5, listings) == ()
    (workspace / "deep").rmdir()
    begun = time.time_ns() - 10_000_000
    where = plant(workspace)

    found = scan(str(workspace), begun, 5, listings, workspace.stat())

    assert any(path.startswith(str(where)) for path in found)
    assert found == scan(str(workspace), begun, 5)


def test_a_repository_that_was_known_is_looked_into_each_time(workspace: Path) -> None:
    where = nested(workspace)
    time.sleep(0.06)
    listings = Listings({workspace.stat().st_dev})
    begun = time.time_ns()
    assert scan(str(workspace), begun, 5, listings) == ()
    with open(where / ".git" / "config", "a") as config:  # no name comes or goes
        config.write('[core]\n\tfsmonitor = "false"\n')

    assert scan(str(workspace), begun - 10_000_000, 5, listings) == (f"{where}/.git",)


def rebasing(workspace: Path, todo: str) -> Path:
    """A rebase that stopped, with something to do next."""
    commit = ["-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "--allow-empty", "-m"]
    git(workspace, "init", "-q")
    git(workspace, *commit, "one")
    git(workspace, *commit, "two")
    subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", "rebase", "-q", "-x", "false", "HEAD~1"],
        cwd=workspace, env=GIT, capture_output=True, timeout=60,
    )  # fmt: skip
    (workspace / ".git/rebase-merge/git-rebase-todo").write_text(todo)
    return workspace


@pytest.mark.parametrize("todo", ["exec touch PWNED\n", " x\ttouch PWNED\n", "#" * 70_000 + "\nexec touch PWNED\n"])
def test_a_rebase_that_was_left_with_commands_is_reported(workspace: Path, todo: str) -> None:
    since = time.time_ns() - 20_000_000
    rebasing(workspace, todo.replace("PWNED", f"{workspace.parent}/pwned"))
    found = scan(workspace=str(workspace), since=since, seconds=5)
    subprocess.run(["git", "rebase", "--continue"], cwd=workspace, env=GIT, capture_output=True, timeout=60)
    assert (workspace.parent / "pwned").exists()

    assert found == (f"{workspace}/.git/rebase-merge",)


def test_a_rebase_that_was_left_without_commands_is_not(workspace: Path) -> None:
    since = time.time_ns() - 20_000_000
    rebasing(workspace, "pick HEAD\n# x touch\nlabel exec\n")

    assert scan(workspace=str(workspace), since=since, seconds=5) == ()


def test_and_it_can_be_moved_out_of_the_way(workspace: Path) -> None:
    since = time.time_ns() - 20_000_000
    rebasing(workspace, f"exec touch {workspace.parent}/pwned\n")
    quarantine(scan(workspace=str(workspace), since=since, seconds=5))
    subprocess.run(["git", "rebase", "--continue"], cwd=workspace, env=GIT, capture_output=True, timeout=60)

    assert not (workspace.parent / "pwned").exists()


def picking(workspace: Path, where: Path, options: str) -> Path:
    """Picks of which the first waits for somebody to solve a conflict; a program by the name of a strategy."""
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "core.editor=true"]
    for name, text in (("f", "one"), ("f", "two"), ("g", "three")):
        (where / name).write_text(text)
        git(where, "add", name)
        git(where, *who, "commit", "-q", "-m", text)
    git(where, "checkout", "-q", "-b", f"side-{where.name}", "HEAD~2")
    (where / "f").write_text("other")
    git(where, *who, "commit", "-q", "-a", "-m", "other")
    subprocess.run(["git", *who, "cherry-pick", "@{-1}~1", "@{-1}"], cwd=where, env=GIT, capture_output=True)
    (where / "git-merge-x").mkdir()
    (where / "evil").write_text(f"#!/bin/sh\ntouch {workspace.parent}/pwned\n")
    (where / "evil").chmod(0o755)
    own = subprocess.run(["git", "rev-parse", "--absolute-git-dir"], cwd=where, env=GIT, capture_output=True, text=True)
    (Path(own.stdout.strip()) / "sequencer/opts").write_text(options)
    (where / "f").write_text("solved")
    git(where, "add", "f")
    return Path(own.stdout.strip())


def go_on(where: Path) -> None:
    words = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "core.editor=true"]
    subprocess.run([*words, "cherry-pick", "--continue"], cwd=where, env=GIT, capture_output=True, timeout=60)


@pytest.mark.parametrize("is_linked", [False, True])
@pytest.mark.parametrize("options", ["[options]\n\tstrategy = x/../evil\n", '[Options]Strategy="x/../ev"il # ort\n'])
def test_picks_that_were_left_with_a_program_for_a_strategy_are_reported(
    workspace: Path, options: str, is_linked: bool
) -> None:
    since, where = time.time_ns() - 20_000_000, workspace
    if is_linked:
        who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        git(workspace, *who, "commit", "-q", "--allow-empty", "-m", "x")
        where = workspace.parent / "tree"
        git(workspace, "worktree", "add", "-q", str(where))
    own = picking(workspace, where, options)
    found = scan(workspace=str(where), since=since, seconds=5)
    go_on(where)
    assert (workspace.parent / "pwned").exists()

    assert found == (f"{own}/sequencer",)


def test_picks_with_a_strategy_of_git_itself_are_not(workspace: Path) -> None:
    since = time.time_ns() - 20_000_000
    picking(workspace, workspace, "[options]\n\tstrategy = ort\n\tstrategy-option = ours\n\tsignoff = true\n")

    assert scan(workspace=str(workspace), since=since, seconds=5) == ()


def test_and_those_can_be_moved_out_of_the_way_too(workspace: Path) -> None:
    since = time.time_ns() - 20_000_000
    picking(workspace, workspace, "[options]\n\tstrategy = x/../evil\n")
    quarantine(scan(workspace=str(workspace), since=since, seconds=5))
    go_on(workspace)

    assert not (workspace.parent / "pwned").exists()


def by_a_link_into_the_git_directory(workspace: Path) -> Path:
    """Where nobody looks for another repository; and somebody comes there by a link all the same."""
    by_configuration(workspace).rename(workspace / ".git/objects/docs")
    (workspace / "docs").symlink_to(".git/objects/docs")
    return workspace / "docs"


def by_a_link_into_the_git_directory_on_the_way(workspace: Path) -> Path:
    by_a_link_into_the_git_directory(workspace).unlink()
    (workspace / "some/more").mkdir(parents=True)
    (workspace / "some/more/link").symlink_to("../../.git/objects/../objects")
    (workspace / "docs").symlink_to("some/more/link/docs")
    return workspace / "some/more/link"


@pytest.mark.parametrize("plant", [by_a_link_into_the_git_directory, by_a_link_into_the_git_directory_on_the_way])
def test_a_link_into_a_git_directory_is_reported_and_moved(workspace: Path, plant: Callable[[Path], Path]) -> None:
    begun = time.time_ns() - 10_000_000
    link = plant(workspace)
    use(workspace / "docs")
    assert (workspace.parent / "pwned").exists(), "the plant must be able to harm"

    found = scan(str(workspace), begun, 5)
    moved = quarantine(found)

    assert (found, len(moved)) == ((str(link), f"{workspace}/.git/objects/docs/.git"), 2)
    assert not (workspace / "docs").exists()
    assert scan(str(workspace), time.time_ns() + 10_000_000, 5) == (), "one that was there before"


@pytest.mark.parametrize(
    "name", ["logs", "logs/HEAD", "logs/refs/heads/deep/er", "packed-refs", "index", "COMMIT_EDITMSG", "objects/pack"]
)
def test_a_link_in_the_git_directory_is_reported_and_moved(workspace: Path, name: str) -> None:
    """git follows it when it writes: what it leads to may be anybody's."""
    begun = time.time_ns() - 10_000_000
    target, link = workspace.parent / "theirs", workspace / ".git" / name
    if name in ("logs", "objects/pack"):
        target.mkdir()
        link.rename(workspace / ".git/aside") if link.exists() else None
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)

    found = scan(str(workspace), begun, 5)
    work(workspace)
    harmed = target.exists() and (target.is_file() or any(target.iterdir()))
    moved = quarantine(found)

    assert (found, harmed, len(moved)) == ((str(link),), True, 1)
    assert not link.is_symlink()


def by_a_rebase(where: Path) -> Callable[[], object]:
    """What is to be done is written to what was done."""
    git(where, *WHO, "commit", "-q", "--allow-empty", "-m", "one")
    git(where, *WHO, "-c", "sequence.editor=sed -i 1ibreak", "rebase", "-q", "-i", "--root")
    (where / ".git/rebase-merge/done").unlink()
    (where / ".git/rebase-merge/done").symlink_to(where / "theirs")
    return lambda: git(where, *WHO, "rebase", "--continue")


def by_a_conflict(where: Path) -> Callable[[], object]:
    """Of one that was seen before, which the directory makes believe, git writes down how it is this time."""

    def merge() -> object:
        return subprocess.run(["git", *WHO, "merge", "other"], cwd=where, env=GIT, capture_output=True, timeout=60)

    git(where, *WHO, "commit", "-q", "--allow-empty", "-m", "one")
    for name in ("other", "mine"):
        git(where, "checkout", "-q", "-b", name, *(["other~1"] if name == "mine" else []))
        (where / "file").write_text(name)
        git(where, "add", "file")
        git(where, *WHO, "commit", "-q", "-m", name)
    (where / ".git/rr-cache").mkdir()
    merge()
    git(where, "reset", "-q", "--hard")
    (known,) = (where / ".git/rr-cache").iterdir()
    (known / "postimage").write_text((known / "preimage").read_text())
    (known / "thisimage").symlink_to(where / "theirs")
    return merge


def by_a_log(where: Path) -> Callable[[], object]:
    git(where, *WHO, "commit", "-q", "--allow-empty", "-m", "one")
    (where / ".git/logs/HEAD").unlink()
    (where / ".git/logs/HEAD").symlink_to(where / "theirs")
    return lambda: git(where, *WHO, "commit", "-q", "--allow-empty", "-m", "two")


@pytest.mark.parametrize("plant", [by_a_rebase, by_a_conflict, by_a_log])
@pytest.mark.parametrize("place", ["", "deep/sub"])
def test_links_through_which_git_writes_are_reported_wherever_they_are(
    workspace: Path, place: str, plant: Callable[[Path], Callable[[], object]]
) -> None:
    begun = time.time_ns() - 10_000_000
    where = nested(workspace) if place else workspace
    go_on = plant(where)
    (link,) = [path for path in (where / ".git").rglob("*") if path.is_symlink()]
    found = scan(str(workspace), begun, 5)
    later = scan(str(workspace), time.time_ns() + 10_000_000, 5)
    go_on()

    assert (where / "theirs").read_text(), "the plant must be able to harm"
    assert found == later == (str(link),), "a directory takes what is in it along, as old as it is"


@pytest.mark.parametrize("place", ["part", ".git/worktrees/part", ".git/modules/part"])
def test_a_link_that_was_put_by_before_there_was_a_repository_is_reported(workspace: Path, place: str) -> None:
    """It is no newer by the rename of the directory that it is in."""
    (workspace / "aside").mkdir()
    (workspace / "aside/COMMIT_EDITMSG").symlink_to("../theirs" if place == "part" else "../../../theirs")
    git(workspace, *WHO, "commit", "-q", "--allow-empty", "-m", "one")
    time.sleep(0.02)
    begun = time.time_ns() - 10_000_000
    assert scan(str(workspace), 0, 5) == ()
    own, where = workspace / place, workspace / "tree"
    own.parent.mkdir(exist_ok=True)
    (workspace / "aside").rename(own)
    where.mkdir()
    (where / ".git").write_text(f"gitdir: {own}\n")
    if "worktrees" in place:
        (own / "commondir").write_text("../..\n")
        (own / "gitdir").write_text(f"{where}/.git\n")
        (own / "HEAD").write_text("ref: refs/heads/other\n")
    else:
        git(workspace, "init", "-q", "--bare", str(own))
        git(own, "config", "core.bare", "false")
    found = scan(str(workspace), begun, 5)
    git(where, *WHO, "commit", "-q", "--allow-empty", "-m", "$(evil)")

    assert "$(evil)" in (workspace / "theirs").read_text(), "the plant must be able to harm"
    assert set(found) - {f"{where}/.git"} == {f"{own}/COMMIT_EDITMSG"}


def test_links_in_the_git_directory_that_were_there_before_are_not_reported(workspace: Path) -> None:
    """Some tools share what is in several repositories so."""
    (workspace / ".git/objects").rename(workspace.parent / "objects")
    (workspace / ".git/objects").symlink_to(workspace.parent / "objects")
    begun = (workspace / ".git/objects").lstat().st_ctime_ns + 1
    work(workspace)

    assert scan(str(workspace), begun, 5) == ()


def work(where: Path) -> None:
    """What a person does in a repository, every day."""
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    (where / "some").write_text("thing\n")
    git(where, "add", "some")
    git(where, *who, "commit", "-q", "-m", "x")
    git(where, *who, "checkout", "-q", "-b", "deep/er")
    git(where, *who, "commit", "-q", "--allow-empty", "-m", "y")
    git(where, "repack", "-q", "-a")
    git(where, "pack-refs", "--all")


@pytest.mark.parametrize("how", ["made", "changed", "moved"])
def test_a_skill_deeper_in_the_workspace_is_reported_and_moved(workspace: Path, how: str) -> None:
    """Claude Code takes it when it has read a file beside it; no test of ours can make it do so without a model."""
    place = workspace / "deep/.claude/skills"
    (place / "known").mkdir(parents=True)
    (place / "known/SKILL.md").write_text("---\nname: known\n---\n")
    (workspace / "deep/last").write_text("")
    if how == "moved":
        place.parent.rename(workspace / "deep/put-by")
    probe, made = workspace / "probe", (workspace / "deep").stat().st_ctime_ns
    until(lambda: probe.write_text("") or probe.stat().st_ctime_ns > made)  # the clock of files goes in steps
    since = probe.stat().st_ctime_ns
    before = scan(str(workspace), since, 9)
    if how == "moved":
        (workspace / "deep/put-by").rename(place.parent)
    else:
        (place / "known" / ("SKILL.md" if how == "changed" else "more.md")).write_text("!`touch /x`\n")

    found = scan(str(workspace), since, 9)
    quarantine(found)

    assert (before, found) == ((), (str(place),))
    assert not place.exists()
    assert scan(str(workspace), since, 9) == ()


@pytest.mark.parametrize("name", [".claude", ".claude/skills", ".claude/skills/evil"])
def test_a_skill_by_a_link_is_reported_and_moved(workspace: Path, name: str) -> None:
    since, link = time.time_ns() - 20_000_000, workspace / "deep" / name
    (workspace / "aside/skills/evil").mkdir(parents=True)
    (workspace / "aside/skills/evil/SKILL.md").write_text("!`touch /x`\n")
    link.parent.mkdir(parents=True)
    link.symlink_to(workspace / "aside" / name.removeprefix(".claude").strip("/"))
    assert (workspace / "deep/.claude/skills/evil/SKILL.md").exists(), "or nothing is tried"

    found = scan(str(workspace), since, 9)
    quarantine(found)

    assert found == (str(link),)
    assert not (workspace / "deep/.claude/skills/evil").exists()


@pytest.mark.parametrize("name", [".claude", ".claude/skills", ".claude/skills/known"])
def test_and_one_behind_a_link_that_was_there_before(workspace: Path, name: str) -> None:
    link, known = workspace / "deep" / name, workspace / "aside/skills/known"
    known.mkdir(parents=True)
    (known / "SKILL.md").write_text("1")
    link.parent.mkdir(parents=True)
    link.symlink_to(workspace / "aside" / name.removeprefix(".claude").strip("/"))
    time.sleep(0.05)
    since = time.time_ns() - 10_000_000
    before = scan(str(workspace), since, 9)
    (known / "SKILL.md").write_text("!`touch /x`\n")

    assert (before, scan(str(workspace), since, 9)) == ((), (str(link),))


@pytest.mark.parametrize("name", ["deep/skills", "deep/.claude/skills"])
def test_a_repository_by_the_name_of_skills_is_none_any_more_either(workspace: Path, name: str) -> None:
    since, place = time.time_ns() - 20_000_000, workspace / name
    git(workspace, "init", "-q", "--bare", name)
    git(place, "config", "core.fsmonitor", "touch x")

    found = scan(str(workspace), since, 9)
    quarantine(found)

    assert found == (str(place),)
    assert list((workspace / "deep").rglob("HEAD")) == []


@pytest.mark.parametrize(("text", "is_told"), [("[core]\n\tfsmonitor = x\n", True), ("[user]\n\tname = n\n", False)])
def test_a_configuration_that_came_while_it_was_held_is_reported_and_not_moved(
    workspace: Path, text: str, is_told: bool
) -> None:
    """Who writes it outside writes config.lock first, in the place of which the command can put another."""
    since = time.time_ns() - 20_000_000
    git(workspace, "init", "-q")
    lock = workspace / ".git/config.lock"
    lock.write_text(text)
    lock.rename(workspace / ".git/config")

    found = scan(str(workspace), since, 9)

    assert found == ((f"{workspace}/.git/config",) if is_told else ())
    assert quarantine(found) == ()


@pytest.mark.parametrize("name", ["lazygit.yml", "glab-cli/config.yml", "sl/config"])
def test_what_other_tools_run_of_a_repository_is_reported(workspace: Path, name: str) -> None:
    """lazygit shows each difference through the pager that is named there, glab a list."""
    where = nested(workspace) / ".git"
    begun = time.time_ns()
    assert scan(str(workspace), begun, 1) == ()
    (where / name).parent.mkdir(exist_ok=True)
    (where / name).write_text("pager: touch PWNED\n")

    assert scan(str(workspace), begun, 1) == (str(where),)


def test_ordinary_repositories_are_not_reported(workspace: Path) -> None:
    begun = time.time_ns() - 10_000_000
    where = nested(workspace)
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    git(where, *who, "commit", "-q", "--allow-empty", "-m", "x")
    git(workspace, *who, "commit", "-q", "--allow-empty", "-m", "x")
    git(workspace, "clone", "-q", "--no-local", str(where), "clone")
    git(workspace, "worktree", "add", "-q", "tree")

    assert scan(str(workspace), begun, 5) == ()


def test_a_clone_with_its_submodules_is_not_reported_but_one_that_is_about_other_files(workspace: Path) -> None:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "protocol.file.allow=always"]
    for name in ("lib", "top"):
        git(workspace, "init", "-q", name)
        git(workspace / name, *who, "commit", "-q", "--allow-empty", "-m", "x")
    git(workspace / "top", *who, "submodule", "--quiet", "add", str(workspace / "lib"), "lib")
    git(workspace / "top", *who, "commit", "-q", "-m", "with it")
    since = time.time_ns() - 20_000_000
    git(workspace, *who, "clone", "-q", "--recurse-submodules", str(workspace / "top"), "again")
    assert (workspace / "again/lib/.git").is_file()
    assert scan(str(workspace), since, 5) == ()
    git(workspace / "again/lib", "config", "core.worktree", "../../../..")

    told = (f"{workspace}/again/lib/.git", f"{workspace}/again/.git/modules/lib")
    assert scan(str(workspace), since, 5) == told


def test_what_was_there_before_is_not_reported(workspace: Path) -> None:
    by_configuration(workspace)

    assert scan(str(workspace), time.time_ns() + 10_000_000, 5) == ()


def test_the_search_ends_when_its_time_is_over_and_says_so(workspace: Path) -> None:
    by_configuration(workspace)
    left: list[str] = []

    assert scan(str(workspace), 0, 0, left=left) == ()
    assert left == [f"{workspace}/deep"]
    assert scan(str(workspace), 0, 5, left=left) == (f"{workspace}/deep/sub/.git",)
    assert left == [f"{workspace}/deep"]


@pytest.mark.parametrize("is_link", [False, True])
def test_the_repository_of_the_workspace_is_looked_into_whatever_else_there_is(tmp_path: Path, is_link: bool) -> None:
    """Wherever it lies: a command that made it can put thousands of others before it."""
    where = by_configuration(tmp_path)
    if is_link:
        (tmp_path / ".git").symlink_to("deep/sub/.git")
    else:
        (tmp_path / ".git").write_text("gitdir: deep/sub/.git\n")

    assert scan(str(tmp_path), 0, 0, left=[])[:1] == (f"{where}/.git",)


@pytest.mark.parametrize("place", ["{}/.git", ".git/worktrees/{}"])
def test_it_ends_too_where_each_of_many_repositories_takes_long(workspace: Path, place: str) -> None:
    """The time was that for finding them: to look into four thousand, which a command makes in a second, took a
    minute."""
    git(workspace, "init", "-q")
    entry = bytes(24) + struct.pack(">I", 0o100644) + bytes(36)
    (workspace / "index").write_bytes((b"DIRC" + struct.pack(">II", 2, 14_000) + entry * 14_000).ljust(1 << 20, b"\0"))
    for number in range(500):
        own = workspace / place.format(number)
        own.mkdir(parents=True)
        (own / "HEAD").write_text("ref: refs/heads/main\n")
        (own / "commondir").write_text("../..\n")
        os.link(workspace / "index", own / "index")
    left: list[str] = []
    before = time.thread_time()
    scan(str(workspace), 0, 0.1, left=left)

    assert time.thread_time() - before < 2.5
    assert any(str(workspace / place.format("")) in path for path in left)


def test_a_repository_that_goes_while_it_is_looked_at_does_not_end_the_search(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run works there. The command's own exit code was lost, too."""
    git(workspace, "init", "-q", "going")
    by_configuration(workspace)
    listed = os.listdir

    def listdir(path: str) -> list[str]:
        if path == f"{workspace}/going/.git":
            os.rename(path, f"{path}.gone")
        return listed(path)

    monkeypatch.setattr(os, "listdir", listdir)
    ended = searched(str(workspace), Outcome(Exited(3), (), (), 60.0), 0, False)

    assert (ended.exit_code, ended.planted) == (3, (f"{workspace}/deep/sub/.git",))


def test_a_search_that_fails_is_said_to_be_unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> str:
        raise FileNotFoundError

    (tmp_path / ".git").write_text("gitdir: x\n")
    monkeypatch.setattr("ringfence.enforce.planted.submodule", gone)
    ended = searched(str(tmp_path), Outcome(Exited(3), (), (), 60.0), 0, False)

    assert (ended.exit_code, [gap.what for gap in ended.gaps]) == (
        3, ["repositories that were left in the workspace looked for"]
    )  # fmt: skip


def test_nothing_outside_is_renamed_through_a_link(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "victim" / ".git").mkdir(parents=True)
    (workspace / "link").symlink_to(tmp_path / "victim")

    assert quarantine((f"{workspace}/link/.git",)) == ()
    assert (tmp_path / "victim" / ".git").exists()


def _scanned(workspace: Path, since: int) -> list[str]:
    """What somebody finds whom the modes of directories hold, as they hold every plain user."""
    program = "import sys; from ringfence.enforce.planted import scan; print(*scan(sys.argv[1], int(sys.argv[2]), 5))"
    held = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] * (os.geteuid() == 0)
    words = [*held, sys.executable, "-c", program, str(workspace), str(since)]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.split()


@pytest.mark.parametrize("mode", [0o000, 0o444])
@pytest.mark.parametrize("closed", ["a", "a/b", "a/b/.git", "a/b/.git/objects", ".git/worktrees"])
def test_nothing_hides_in_a_directory_that_was_closed(tmp_path: Path, closed: str, mode: int) -> None:
    """The next run would open it, by which nothing in it gets newer: so it is told of the first time. With mode 0444 a
    directory can be listed, and nothing in it be looked at."""
    since = time.time_ns() - 50_000_000
    time.sleep(0.1)
    (tmp_path / "a").mkdir()
    for where in (tmp_path, tmp_path / "a/b"):
        git(tmp_path, "init", "-q", str(where))
    (tmp_path / ".git/worktrees/new").mkdir(parents=True)
    (tmp_path / ".git/worktrees/new/commondir").write_text("/elsewhere\n")
    (tmp_path / "a/b/.git/objects/pack").rmdir()
    (tmp_path / "a/b/.git/objects/pack").symlink_to("/elsewhere")
    if not closed.endswith("objects"):
        git(tmp_path / "a/b", "config", "core.fsmonitor", "./evil")
    (tmp_path / closed).chmod(mode)

    try:
        found = _scanned(tmp_path, since)
    finally:
        (tmp_path / closed).chmod(0o755)

    assert f"{tmp_path}/{closed}" in found


def test_nothing_hides_beside_a_directory_that_was_closed(tmp_path: Path) -> None:
    """However little time there is."""
    git(tmp_path, "init", "-q")
    git(tmp_path, "init", "-q", "--bare", ".git/modules/evil")
    git(tmp_path / ".git/modules/evil", "config", "core.fsmonitor", "./evil")
    for number in range(40):
        (tmp_path / f".git/modules/closed{number}").mkdir(mode=0)
    program = "import sys; from ringfence.enforce.planted import scan; print(*scan(sys.argv[1], 0, 0))"
    held = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] * (os.geteuid() == 0)
    words = [*held, sys.executable, "-c", program, str(tmp_path)]
    try:
        found = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    finally:
        for number in range(40):
            (tmp_path / f".git/modules/closed{number}").rmdir()

    assert f"{tmp_path}/.git/modules/evil" in found


def test_what_cannot_be_read_is_told_to_be_left(tmp_path: Path) -> None:
    """A command can make a path that is too long to be opened."""
    path, descriptor = str(tmp_path), os.open(tmp_path, os.O_RDONLY)
    while len(path) < 4096:  # and the last alone is too long, wherever it begins
        name = "n" * (min(200, 3900 - len(path)) if len(path) < 3900 else 250)
        os.mkdir(name, dir_fd=descriptor)
        below = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        path, descriptor = f"{path}/{name}", below
    os.close(descriptor)
    left: list[str] = []

    assert scan(str(tmp_path), 0, 5, left=left) == ()
    assert left == [path]


def test_a_run_reports_what_it_left(field: Field) -> None:
    ground = field.ground()
    script = "mkdir -p a/b && cd a/b && git init -q && git config core.fsmonitor ./evil"

    outcome = field.run(ground, ["sh", "-c", script])

    assert f"{ground.workspace}/a/b/.git" in outcome.planted, outcome


UNFINISHED = "repositories that were left in the workspace looked for"


@pytest.mark.needs_userns
def test_a_run_that_leaves_more_than_can_be_searched_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringfence.enforce.planted.MOST_ENTRIES", 5)
    script = "for i in 0 1 2 3 4 5 6 7 8 9; do mkdir -p many/$i/deep; done"
    flags = ringfence.Flags(cwd=str(tmp_path))

    for moves, origin in ((False, "built-in"), (True, "--quarantine")):
        outcome = ringfence.run(
            ["sh", "-c", script], workspace=str(tmp_path), flags=flags, as_root=os.geteuid() == 0, quarantine=moves
        )
        assert [str(gap.origin) for gap in outcome.gaps if gap.what == UNFINISHED] == [origin], outcome.gaps


@pytest.mark.needs_userns
def test_one_that_was_started_reports_it_too(tmp_path: Path) -> None:
    words = ["sh", "-c", "mkdir -p a/b && cd a/b && git init -q && git config core.fsmonitor ./evil"]
    flags = ringfence.Flags(cwd=str(tmp_path))

    async def go() -> tuple[ringfence.Outcome, ringfence.Outcome]:
        async with ringfence.start(words, workspace=str(tmp_path), flags=flags, as_root=os.geteuid() == 0) as running:
            return await asyncio.gather(running.wait(), running.wait())

    outcome, same = asyncio.run(go())

    assert f"{tmp_path}/a/b/.git" in outcome.planted, outcome
    assert same is outcome


def test_nor_is_anything_moved_behind_a_link_above_the_workspace(tmp_path: Path) -> None:
    """Another run may write there: it has put a link to somebody's repositories where the workspace was."""
    (tmp_path / "theirs" / "ws" / "nested" / ".git").mkdir(parents=True)
    (tmp_path / "above").symlink_to("theirs")

    assert quarantine((f"{tmp_path}/above/ws/nested/.git",)) == ()
    assert (tmp_path / "theirs/ws/nested/.git").is_dir()


def mapped(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change a file by mapped memory alone, which is read first."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:] = change(memory[:]).ljust(len(memory), b"#")


@pytest.mark.skipif(sys.platform != "linux", reason="a file system in memory that every machine has")
def test_what_is_changed_in_memory_with_no_trace_is_found() -> None:
    """By its time of change nothing had happened there since the run began."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as base:
        workspace = Path(base, "ws")
        workspace.mkdir()
        git(workspace, "init", "-q")
        (workspace / "abcdefghijklmnop").write_text(f"#!/bin/sh\ntouch {base}/pwned\n")
        (workspace / "abcdefghijklmnop").chmod(0o755)
        git(workspace, "add", ".")
        own = nested(workspace) / ".git/config"
        own.write_text(own.read_text() + '[remote "origin"]\n\turl = ' + "long" * 64 + "\n")
        files, since = (own, workspace / ".git/index"), time.time_ns()
        before = [path.stat().st_ctime_ns for path in files]
        assert scan(str(workspace), since, 5) == ()

        def hooked(old: bytes) -> bytes:
            body = old[:-20].replace(b"abcdefghijklmnop", b".git/hooks/p-c".ljust(16, b"x"))
            return body + hashlib.sha1(body, usedforsecurity=False).digest()

        mapped(own, lambda old: old.partition(b"[remote")[0] + f"[core]\nfsmonitor = touch {base}/pwned\n".encode())
        mapped(workspace / ".git/index", hooked)
        found, after = scan(str(workspace), since, 5), [path.stat().st_ctime_ns for path in files]
        git(own.parents[1], "status")
        git(workspace, "restore", ".")

        assert Path(base, "pwned").exists(), "the plant must be able to harm"
        assert (workspace / ".git/hooks/p-cxx").exists()
        assert after == before, "the times must say nothing"
        assert sorted(found) == sorted((str(own.parent), str(workspace / ".git/index")))


def in_whole_seconds(call: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
    """As a file system tells of times that keeps no more."""

    def told(*where: object, **how: object) -> os.stat_result:
        facts = call(*where, **how)
        names = ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")
        return os.stat_result(facts[:10], {name: getattr(facts, name) // 10**9 * 10**9 for name in names})

    return told


def test_what_is_left_where_times_go_in_whole_seconds_is_found(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was as old as the beginning of the second in which the run began. Tried on ext4 with inodes of 128 bytes."""
    since = time.time_ns()
    where = by_configuration(workspace)
    for name in ("stat", "lstat"):
        monkeypatch.setattr(os, name, in_whole_seconds(getattr(os, name)))
    read = time.time_ns()

    assert scan(str(workspace), since, 5) == (str(where / ".git"),)
    assert not is_settled(stamp_of(str(workspace)) or (0, 0, 0, 0), read, frozenset((workspace.stat().st_dev,)))


def test_what_is_left_after_the_clock_was_set_back_is_found(workspace: Path) -> None:
    begun = time.time_ns() + 5 * 10**9
    where = by_configuration(workspace)

    assert searched(str(workspace), Outcome(Exited(0), (), (), 1.0), begun, False).planted == (str(where / ".git"),)


def test_a_server_has_a_clock_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, slack in (("nfs4", 60), ("btrfs", 0)):
        monkeypatch.setattr(lookout, "_kind_of", lambda _device, kind=kind: kind)
        assert lookout.told_since(str(tmp_path), 100 * 10**9) == ((100 - slack) * 10**9,) * 2


def test_a_hook_of_the_workspace_itself_is_told_of_where_nothing_held_it(workspace: Path) -> None:
    """Where no warden judges it can be written: a gap, and nobody spoke of it afterwards either."""
    git(workspace, "init", "-q")
    since = time.time_ns() - 10_000_000
    (workspace / "f").write_text("")
    hook = workspace / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {workspace.parent}/pwned\n")
    hook.chmod(0o755)
    found = scan(str(workspace), since, 5)
    git(workspace, "add", "f")

    assert (workspace.parent / "pwned").exists(), "the plant must be able to harm"
    assert found == (str(hook.parent),)
    assert scan(str(workspace), time.time_ns() + 10**9, 5) == ()


@pytest.mark.skipif(sys.platform != "linux", reason="a file system in memory that every machine has")
def test_skills_that_the_kernel_holds_do_not_count_as_changed_in_memory() -> None:
    """No command can write those at the top: each run told of them, and --quarantine took them away."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as base:
        held, other = (Path(base, place, ".claude/skills") for place in ("ws", "ws/package"))
        for skills in (held, other):
            (skills / "x").mkdir(parents=True)
            (skills / "x/SKILL.md").touch()
        since = time.time_ns() + 10**9

        assert scan(f"{base}/ws", since, 5) == (str(other),)
        assert set(scan(f"{base}/ws", since - 10 * 10**9, 5)) == {str(held), str(other)}


@pytest.mark.skipif(sys.platform != "linux", reason="a file system in memory that every machine has")
def test_nor_do_hooks_of_a_submodule_which_it_holds_too() -> None:
    """Each run told of it, although nothing had changed; by another file of the same name its hooks are told of."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as base:
        source, workspace = Path(base, "source"), Path(base, "ws")
        git(Path(base), "init", "-q", "source")
        git(source, *WHO, "commit", "-q", "--allow-empty", "-m", "one")
        git(Path(base), "init", "-q", "ws")
        git(workspace, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(source), "sub")
        hook = workspace / ".git/modules/sub/hooks/post-checkout"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\n")
        since = time.time_ns() + 10**9

        assert scan(f"{base}/ws", since, 5) == ()
        (workspace / "other").mkdir()
        (workspace / "other/.git").write_text("gitdir: ../.git/modules/sub\n")
        assert scan(f"{base}/ws", since, 5) == (f"{base}/ws/other/.git",)
        (workspace / "other/.git").unlink()
        assert f"{base}/ws/sub/.git" in scan(f"{base}/ws", since - 10 * 10**9, 5)


@pytest.mark.needs_root
@pytest.mark.parametrize("owner", [0, 65534])
def test_root_renames_nothing_of_another_one_by_a_pointer_of_a_command(workspace: Path, owner: int) -> None:
    """What a prompt shows is renamed however git is led there; here a plain user's command led root to its own."""
    outside = workspace.parent / "outside/.git"
    outside.mkdir(parents=True)
    (outside / "HEAD").write_text("ref: refs/heads/\x1b]0;x\x07")
    (workspace / "n").mkdir()
    (workspace / "n/.git").write_text(f"gitdir: {outside}\n")
    os.chown(workspace / "n/.git", 65534, 65534)
    os.chown(outside, owner, owner)
    found, moved, _ = look(str(workspace), time.time_ns() - 10**9, 5)

    assert found == (f"{workspace}/n/.git",)
    assert bool(moved) is (owner == 65534)
    assert (outside / "HEAD").exists() is (owner == 0)


@pytest.mark.parametrize("is_off", [False, True])
def test_a_hook_that_somebody_else_has_made_meanwhile_is_told_of_where_the_run_could_have(
    workspace: Path, is_off: bool
) -> None:
    """`pre-commit install` outside, while a command runs: --quarantine moved all hooks."""
    git(workspace, "init", "-q")
    hooks = workspace / ".git/hooks"
    hooks.mkdir(exist_ok=True)

    def outside(_stream: str, _data: bytes) -> None:
        (hooks / "pre-commit").write_text("#!/bin/sh\n")

    flags = ringfence.Flags(enforcement=ringfence.Enforcement.OFF if is_off else None)
    outcome = ringfence.run(
        ["sh", "-c", "echo; sleep 0.1"], workspace=workspace, flags=flags, on_output=outside, quarantine=True,
        as_root=os.geteuid() == 0,
    )  # fmt: skip

    assert (outcome.planted == (str(hooks),), outcome.planted == ()) == (is_off, not is_off)
    assert (hooks / "pre-commit").exists() is not is_off


def test_a_hook_of_a_repository_that_came_to_be_the_workspaces_own_is_told_of(workspace: Path, tmp_path: Path) -> None:
    """The file .git led nowhere when the run was planned: nothing was held there."""
    granted = tmp_path / "granted"
    granted.mkdir(mode=0o777)
    own = granted / "made/.git/worktrees/moved"
    shutil.rmtree(workspace / ".git")
    (workspace / ".git").write_text(f"gitdir: {own}\n")
    make = f"""git init -q {granted}/made && cd {granted}/made
    git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x
    git worktree add -q {granted}/moved && echo {workspace}/.git >{own}/gitdir
    echo '#!/bin/sh' >.git/hooks/post-checkout && chmod 755 .git/hooks/post-checkout"""

    outcome = ringfence.run(
        ["sh", "-ec", make], workspace=workspace, flags=ringfence.Flags(allow_write=(str(granted),)),
        as_root=os.geteuid() == 0,
    )  # fmt: skip

    assert outcome.planted == (f"{granted}/made/.git/hooks",)


def link_to(where: Path, name: str, version: str = "2") -> None:
    """A repository that runs a program, named by the index of another one as its submodule."""
    (where / name).parent.mkdir(parents=True, exist_ok=True)
    git(where, "init", "-q", name)
    git(where / name, *WHO, "commit", "-q", "--allow-empty", "-m", "x")
    git(where, "add", name)
    git(where, "update-index", "--index-version", version)


@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize("names", [["deep/er/sub"], ["deep/er/sub", "one/two/three"]])
def test_no_number_of_directories_hides_where_git_goes_by_itself(
    workspace: Path, names: list[str], version: str
) -> None:
    where = workspace
    git(where, "init", "-q")
    for name in names:
        (where / "before").write_text("")
        git(where, "add", ".")
        link_to(where, name, version)
        where /= name
    for number in range(300):
        (workspace / f"a{number}").mkdir()
    begun = time.time_ns() - 10**7
    git(where, "config", "core.fsmonitor", f"touch {workspace.parent}/pwned; false")
    left: list[str] = []
    found = scan(str(workspace), begun, 0.0, left=left)
    git(workspace, "status")

    assert (workspace.parent / "pwned").exists(), "the plant must be able to harm"
    assert left != [], "the time must be too short for all"
    assert found == (f"{where}/.git",)


def test_an_index_with_more_repositories_than_anybody_has_is_told_of(workspace: Path) -> None:
    git(workspace, "init", "-q")
    (workspace / "f").write_text("")
    git(workspace, "add", "f")
    begun = time.time_ns() - 10**7
    with open(workspace / ".git/index", "ab") as file:
        file.write((b"x" * 20 + b"\0\0\xe0\0" + b"y" * 40) * 100_000)
    started = time.thread_time()

    assert f"{workspace}/.git/index" in scan(str(workspace), begun, 0.0)
    assert time.thread_time() - started < 2


def many_links(workspace: Path, count: int) -> list[Path]:
    """An index that names many repositories, and their directories."""
    git(workspace, "init", "-q")
    names = [f"d{number:04}" for number in range(count)]
    rows = "".join(f"160000 {'1' * 40}\t{name}\n" for name in names)
    subprocess.run(["git", "update-index", "--index-info"], cwd=workspace, input=rows.encode(), check=True)
    for name in names:
        (workspace / name).mkdir()
    return [workspace / name for name in names]


@pytest.mark.parametrize("kind", ["holes", "one for all", "prefixes"])
def test_indexes_that_cost_nothing_to_make_delay_no_run(workspace: Path, kind: str) -> None:
    """They are looked into after each run, also of a workspace that has them for long."""
    entry = struct.pack(">10I", *(0,) * 6, 0o160000, *(0,) * 3) + b"\1" * 20 + struct.pack(">H", 1) + b"\0x\0"
    (workspace / "big").mkdir(parents=True)
    if kind != "holes":
        data = entry * ((24 << 20) // len(entry)) if kind == "prefixes" else b"x" * (24 << 20)
        count = struct.pack(">II", 4, len(data) // len(entry)) if kind == "prefixes" else struct.pack(">II", 2, 0)
        (workspace / "big/index").write_bytes(b"DIRC" + count + data)
    for place in many_links(workspace, 300):
        if kind == "holes":
            (place / ".git").mkdir()
            with open(place / ".git/index", "wb") as file:
                file.truncate(1 << 28)
        else:
            (place / ".git").write_text("gitdir: ../big\n")
    started = time.thread_time()
    scan(str(workspace), 1 << 62, 0.0)

    assert time.thread_time() - started < 3


@pytest.mark.parametrize("kind", ["split", "replaced", "mode"])
def test_no_form_of_an_index_hides_where_git_goes_by_itself(workspace: Path, kind: str) -> None:
    git(workspace, "init", "-q")
    for number in range(300):
        (workspace / f"a{number}").mkdir()
    if kind == "replaced":  # its name is in the shared part, as a file's
        (workspace / "deep/er").mkdir(parents=True)
        (workspace / "deep/er/sub").write_text("")
        git(workspace, "add", ".")
        git(workspace, "config", "splitIndex.maxPercentChange", "100")
        git(workspace, "update-index", "--split-index")
        (workspace / "deep/er/sub").unlink()
        time.sleep(0.05)
    begun = time.time_ns() - 10**7
    link_to(workspace, "deep/er/sub")
    index = workspace / ".git/index"
    if kind == "split":
        git(workspace, "update-index", "--split-index")
    if kind == "mode":  # git looks at some of its bits alone
        place = index.read_bytes().index(b"deep/er/sub")
        data = index.read_bytes()[: place - 36] + b"\xe1\xa4" + index.read_bytes()[place - 34 : -20]
        index.write_bytes(data + hashlib.sha1(data).digest())
    git(workspace / "deep/er/sub", "config", "core.fsmonitor", f"touch {workspace.parent}/pwned; false")
    found = scan(str(workspace), begun, 0.0)
    git(workspace, "status")

    assert (workspace.parent / "pwned").exists(), "the plant must be able to harm"
    assert found == ((f"{index}",) if kind == "mode" else (f"{workspace}/deep/er/sub/.git",))
