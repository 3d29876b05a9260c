"""G4: the repository's configuration, which nobody inside may write, names hooks and further configuration in the
workspace; a hook is often a link to a script there."""

import contextlib
import errno
import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.attacks.conftest import Field, Ground, with_git

from ringfence.enforce import programs
from ringfence.model import PlanError

PROGRAM = """
EVIL = "#!/bin/sh\\n: > ../outside/ran\\n"
def plant(path):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    write(path, EVIL)
    os.chmod(path, 0o755)
def rebuild(name):
    os.rename(name, name + ".old")
    plant(name + "/pre-commit")
attempt("a hook of husky's", lambda: plant(".husky/pre-commit"))
attempt("what calls it", lambda: plant(".husky/_/pre-commit"))
attempt("the target of a link", lambda: plant("tools/check"))
attempt("an included file", lambda: plant(".gitinclude"))
attempt("the directory anew", lambda: rebuild(".husky"))
attempt("the target's directory anew", lambda: rebuild("tools"))
"""
CONFIG = '\n[core]\n\thooksPath = .husky/_\n[include]\n\tpath = "../.gitinclude"\n'


def prepare(ground: Ground) -> list[str]:
    with_git(ground)
    with open(ground.workspace / ".git/config", "a") as file:
        file.write(CONFIG)
    for name in (".husky/_/pre-commit", ".husky/pre-commit", "tools/check"):
        ground.file(f"ws/{name}", "#!/bin/sh\n").chmod(0o755)
    os.symlink("../../tools/check", ground.workspace / ".git/hooks/pre-push")
    return []


def test_hooks_that_the_configuration_names_are_not_written(field: Field) -> None:
    field.repels(PROGRAM, prepare)


def test_work_beside_them_goes_on(field: Field) -> None:
    ground = field.ground()
    prepare(ground)
    ground.own()

    done = field.run(
        ground, ["sh", "-c", "echo x > tools/other && mkdir .github && git status --short && git add tools"]
    )

    assert done.exit_code == 0, done


def test_the_configuration_of_the_user_counts_too(field: Field) -> None:
    ground = field.ground()
    with_git(ground)
    (ground.home / ".gitconfig").write_text("[core]\n\thooksPath = .githooks\n")
    ground.own()

    done = field.run(ground, ["sh", "-c", "mkdir .githooks"])

    assert done.exit_code != 0, done


def test_a_hook_of_husky_s_is_what_git_runs(field: Field) -> None:
    """So that what is protected is what would run."""
    ground = field.ground()
    prepare(ground)
    evil = ground.workspace / ".husky/_/pre-commit"
    evil.write_text("#!/bin/sh\n: > ran\n")
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "-c",
        "user.name=n",
        "-c",
        "user.email=e",
        "commit",
        "-q",
        "--allow-empty",
    ]

    subprocess.run([*command, "-m", "x"], cwd=ground.workspace, check=True, env={"PATH": os.defpath, "HOME": "/"})

    assert (ground.workspace / "ran").exists()


BRANCHES = "".join(f'[branch "b{number}"]\n\tmerge = refs/heads/b{number}\n' for number in range(3000))
SPELLINGS = {
    "plain": "[core]\n\thooksPath = .hk\n",
    "with a comment": "[core]\n\thooksPath = .hk # ours\n",
    "with the other one": "[core]\n\thooksPath = .hk;ours\n",
    "on two lines": "[core]\n\thooksPath = .h\\\nk\n",
    "in part quoted": '[core]\n\thooksPath = ."h"k # "\n',
    "on its section's line": "[core] HooksPath=.hk\n",
    "behind a comment": "[core] # a = \\\nhooksPath = .hk\n",
    "behind a key without a value": "[core]\nbare\n; b = \\\nhooksPath = .hk\n",
    "behind a quoted value that goes on": '[a]\nb = "c # \\\n[core]"\n[core]\nhooksPath = .hk\n',
    "far behind": f"{BRANCHES}[core]\n\thooksPath = .hk\n",
    "behind a mark": "\ufeff[core]\n\thooksPath = .hk\n",
    "before what ends a text": "[core]\n\thooksPath = .hk\0x\n",
    "as on Windows": "[core]\r\n\thooksPath = .hk\r\n",
    "behind another section": "[a] [core] hooksPath = .hk\n",
    "behind a section's name with a bracket": '[a "]"][core] hooksPath = .hk\n',
    "included on a condition": (
        '[remote "r"]\n\turl = u\n[includeIf\t"hasconfig:remote.*.url:[u]"] path = ../outside/more\n'
    ),
    "included": "[include]\n\tpath = ../outside/more\n",
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_hooks_are_found_however_the_configuration_spells_them(tmp_path: Path, spelling: str) -> None:
    workspace, home = tmp_path / "ws", tmp_path / "home"
    (workspace / ".git").mkdir(parents=True)
    home.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "more").write_text("[include]\n\tpath = further # and there\n")
    (tmp_path / "outside" / "further").write_text("[core]\n\thooksPath = .hk\n")
    text = spelling.replace("../outside", f"{tmp_path}/outside")
    (workspace / ".git" / "config").write_bytes(text.encode())
    told = subprocess.run(
        ["git", "config", "--includes", "-f", workspace / ".git/config", "core.hooksPath"],
        capture_output=True, check=True,
    )  # fmt: skip

    assert told.stdout == b".hk\n", "git itself reads it so"
    assert programs.programs(str(workspace), f"{workspace}/.git", str(home)) == [f"{workspace}/.hk"]


def test_a_hook_by_a_link_is_found_beside_one_that_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = tmp_path / "ws" / ".git" / "hooks"
    hooks.mkdir(parents=True)
    for name in ("gone", "pre-push"):
        (hooks / name).symlink_to(f"../../tools/{name}")
    listed = os.scandir

    def late(path: str) -> contextlib.nullcontext[list[os.DirEntry[str]]]:
        with listed(path) as found:
            entries = list(found)
        (hooks / "gone").unlink()
        return contextlib.nullcontext(entries)

    monkeypatch.setattr(os, "scandir", late)
    found = programs.programs(f"{tmp_path}/ws", f"{tmp_path}/ws/.git", str(tmp_path))

    assert found == [f"{tmp_path}/ws/tools/pre-push"]


def test_a_long_value_is_read_in_time(tmp_path: Path) -> None:
    """It took a minute, each letter copying all before it; many sections on a line would, too."""
    (tmp_path / ".gitconfig").write_text("[a]\n\tb = " + "\\\\" * 1_000_000 + "\n" + "[a]" * 200_000)
    begun = time.thread_time()
    programs.programs(f"{tmp_path}/ws", f"{tmp_path}/ws/.git", str(tmp_path))

    assert time.thread_time() - begun < 5


def test_a_comment_behind_the_name_of_the_hooks_does_not_open_them(field: Field) -> None:
    def commented(ground: Ground) -> list[str]:
        prepare(ground)
        config = ground.workspace / ".git/config"
        config.write_text(config.read_text().replace("hooksPath = .husky/_", "hooksPath = .husky/_ # husky"))
        return []

    field.repels(PROGRAM, commented)


def test_a_configuration_that_cannot_be_read_for_want_of_means_is_no_missing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", none_left)
    with pytest.raises(OSError, match="Too many open files"):
        programs.programs(str(tmp_path), f"{tmp_path}/.git", str(tmp_path))


def test_too_much_configuration_is_refused(tmp_path: Path) -> None:
    home = str(tmp_path)
    (tmp_path / ".gitconfig").write_text("[include]\n" + "".join(f"path = {number}\n" for number in range(100)))
    with pytest.raises(PlanError, match="more than 64 files"):
        programs.programs(f"{tmp_path}/ws", f"{tmp_path}/ws/.git", home)
    (tmp_path / ".gitconfig").write_text("\n" * (5 << 20))
    with pytest.raises(PlanError, match="larger than 4 MiB"):
        programs.programs(f"{tmp_path}/ws", f"{tmp_path}/ws/.git", home)
    (tmp_path / ".gitconfig").write_text("[include]\npath = b\n[user]\nname = " + "x" * (3 << 20))
    (tmp_path / "b").write_text("[user]\nname = " + "x" * (3 << 20))
    with pytest.raises(PlanError, match="larger than 4 MiB"):
        programs.programs(f"{tmp_path}/ws", f"{tmp_path}/ws/.git", home)


@pytest.mark.parametrize(
    "text",
    [
        "[core]\npager = " + " ".join(f"~user{number}/x" for number in range(20000)),
        "[core]\n" + "".join(f"hooksPath = {number}\n" for number in range(20000)),
        "[pager]\n" + "".join(f"x = ./{number}\n" for number in range(20000)),
    ],
    ids=["users", "hooks", "programs"],
)
def test_more_programs_than_can_be_looked_for_are_refused(tmp_path: Path, text: str) -> None:
    """Each user of another name takes a look at who there is."""
    (tmp_path / ".gitconfig").write_text(text)
    with pytest.raises(PlanError, match="more programs than are looked for"):
        programs.programs(f"{tmp_path}/ws", f"{tmp_path}/ws/.git", str(tmp_path))


@pytest.mark.parametrize("key", ["core.worktree", "include.path"])
def test_a_path_that_nothing_can_stand_at_is_not_looked_for(tmp_path: Path, key: str) -> None:
    """Which would take minutes."""
    git = tmp_path / "ws/.git"
    section, _, name = key.partition(".")
    for place in (git, git / "modules/m"):
        place.mkdir(parents=True)
        (place / "config").write_text(f"[{section}]\n{name} = {'a/' * 450000}b\n")
    before = time.process_time()
    found = programs.programs(f"{tmp_path}/ws", str(git), str(tmp_path), modules=[f"{git}/modules/m"])

    assert found == []
    assert time.process_time() - before < 5
