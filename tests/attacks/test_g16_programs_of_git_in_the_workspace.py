"""G16: git's configuration, which nobody inside may write, names programs in the workspace that git runs by itself:
when it looks at files, compares or merges them, pages, edits or signs."""

import os
import subprocess
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from tests.attacks.conftest import Field, Ground, with_git

from ringfence.enforce import gitfiles, programs

PROGRAM = """
EVIL = "#!/bin/sh\\n: > ../outside/ran\\n"
def plant(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write(path, EVIL)
    os.chmod(path, 0o755)
attempt("a monitor", lambda: plant("tools/monitor"))
attempt("one that is not there yet", lambda: plant("later/textconv"))
attempt("what is given to an interpreter", lambda: plant("tools/clean.py"))
attempt("by the place of the user's own choice", lambda: plant("tools/pager"))
attempt("the directory anew", lambda: (os.rename("tools", "old"), plant("tools/monitor")))
"""
CONFIG = """
[core]
\tfsmonitor = tools/monitor
[filter "strip"]
\tclean = python3 tools/clean.py %f
[diff "bin"]
\ttextconv = ./later/textconv
"""


def prepare(ground: Ground) -> list[str]:
    with_git(ground)
    with open(ground.workspace / ".git/config", "a") as file:
        file.write(CONFIG)
    (ground.home / ".gitconfig").write_text(f'[core]\n\tpager = "{ground.workspace}/tools/pager" -R\n')
    for name in ("monitor", "clean.py", "pager", "other"):
        ground.file(f"ws/tools/{name}", "#!/bin/sh\n").chmod(0o755)
    return []


def test_programs_that_the_configuration_names_are_not_written(field: Field) -> None:
    field.repels(PROGRAM, prepare)


def test_work_beside_them_goes_on(field: Field) -> None:
    ground = field.ground()
    prepare(ground)
    ground.own()

    done = field.run(
        ground,
        ["sh", "-c", "echo x > tools/other && mkdir later && echo x > later/more && git -c core.fsmonitor= add tools"],
    )

    assert done.exit_code == 0, done


def test_they_are_what_git_runs(field: Field) -> None:
    """So that what is protected is what would run."""
    ground = field.ground()
    prepare(ground)
    (ground.workspace / "tools/monitor").write_text("#!/bin/sh\n: > ran\nexit 1\n")
    (ground.workspace / "tools/clean.py").write_text("open('cleaned', 'w')\n")
    (ground.workspace / ".gitattributes").write_text("README.md filter=strip\n")

    subprocess.run(
        ["git", "-c", "safe.directory=*", "add", "README.md"],
        cwd=ground.workspace, check=True, env={"PATH": os.defpath, "HOME": "/"},
    )  # fmt: skip

    assert (ground.workspace / "ran").exists()
    assert (ground.workspace / "cleaned").exists()


NAMED = {
    '[core]\nfsmonitor = "tools/run"': ["tools/run"],
    "[core]\nfsmonitor = true": [],
    "[core]\nsshCommand = ssh -i tools/run -F tools/other": ["tools/other", "tools/run"],
    "[core]\neditor = FOO=1 exec ./tools/run --wait": ["tools/run"],
    "[pager]\ndiff = tools/run | less": ["tools/run"],
    '[gpg "ssh"]\nprogram = tools/a program': ["tools/a", "tools/a program"],
    "[filter.lfs]\nclean = git-lfs clean -- %f": [],
    '[filter "x"]\nsmudge = sh -c \'tools/run \\"$@\\"\' -': ["tools/run"],
    '[filter "x"]\nprocess = python3 tool.py --all': ["tool.py"],
    '[filter "x"]\nclean = sed s/a/b/g;s/c/d/': [],
    '[filter "x"]\nclean = .venv/bin/python -m nbstripout': [],
    '[diff "x"]\ncommand = new/there': ["new/there"],
    '[merge "x"]\ndriver = tools/new %O %A %B': ["tools/new"],
    '[credential "https://x"]\nhelper = "!f() { tools/run; }; f"': ["tools/run"],
    "[init]\ntemplateDir = ~/ws/templates": ["templates"],
    "[diff]\nexternal = $HOME/ws/tools/run": ["tools/run"],
    "[diff]\nexternal = $PWD/tools/run": ["$PWD/tools/run", "tools/run"],
    "[core]\neditor = sh ${GIT_WORK_TREE}/tools/run": ["tools/run"],
    '[filter "x"]\nclean = \\"$(git rev-parse --show-toplevel)\\"/tools/run %f': ["tools/run"],
    '[filter "x"]\nclean = `pwd`/tools/run': ["tools/run"],
    '[lfs "customtransfer.x"]\npath = tools/run': ["tools/run"],
    "[gc]\nrecentObjectsHook = tools/run": ["tools/run"],
    f"[core]\npager = ./{'a' * 256}": [],
    "[instaweb]\nhttpd = tools/run -f": ["tools/run"],
    '[remote "origin"]\nurl = ext::tools/run %S repo': ["tools/run"],
    '[remote "origin"]\nurl = tools/run': [],
    "[core]\nhooksPath = .": sorted(programs.HOOKS),
    "[core]\nhooksPath = .git": [f".git/{name}" for name in sorted(programs.HOOKS)],
    '[core]\nhooksPath = " hk "': [" hk "],
    '[core]\nhooksPath = "hk " # ours': ["hk "],
    '[core]\nhooksPath = hk" "  ': ["hk "],
    "[core]\nhooksPath = hk\u00a0": ["hk\u00a0"],
    "[core]\nhooksPath =  hk ": ["hk"],
    "[alias]\nx = !tools/run": [],
    "[commit]\ntemplate = tool.py": [],
    "[user]\nname = tools/run": [],
}


@pytest.mark.parametrize(("text", "named"), NAMED.items(), ids=NAMED)
def test_a_program_is_found_however_it_is_named(tmp_path: Path, text: str, named: list[str]) -> None:
    workspace = tmp_path / "ws"
    for name in (".git/x", ".venv/bin/python", "tools/run", "tools/other", "tools/a program", "tool.py", "git-lfs"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("")
    (workspace / ".git/config").write_text(f"{text}\n")

    found = programs.programs(str(workspace), f"{workspace}/.git", str(tmp_path))

    assert found == [f"{workspace}/{name}" for name in named]


BARE = st.lists(
    st.sampled_from(["a", "/", " ", "  ", "\\n", "\\t", '\\"', "\\\\", "\\\n", "'", "\u00a0"]), max_size=5
).map("".join)
QUOTED = st.lists(st.sampled_from(["a", " ", "#", ";", "\\t", '\\"', "\\\n"]), max_size=4).map(
    lambda all: f'"{"".join(all)}"'
)
VALUES = st.tuples(st.lists(BARE | QUOTED, max_size=4).map("".join), st.sampled_from(["", "# c", " ; c", "  "]))


@hypothesis.given(st.lists(VALUES.map("".join), min_size=1, max_size=20))
def test_a_value_is_read_as_git_reads_it(values: list[str]) -> None:
    text = "".join(f"[s{number}]\nkey = {value}\n" for number, value in enumerate(values)).encode()
    command = ["git", "config", "--file", "-", "--list", "-z"]
    told = subprocess.run(command, input=text, capture_output=True, check=True, env={"PATH": os.defpath}).stdout

    assert b"".join(f"{key}\n{value}\0".encode() for key, value in gitfiles.parsed(text)) == told


@pytest.mark.parametrize("where", ["ws", "outside"])
@pytest.mark.parametrize(
    ("variable", "place"), [("XDG_CONFIG_HOME", "/git/config"), ("GIT_CONFIG_GLOBAL", ""), ("GIT_CONFIG_SYSTEM", "")]
)
def test_the_configuration_is_read_where_git_reads_it(tmp_path: Path, variable: str, place: str, where: str) -> None:
    """And is kept itself where it lies in the workspace."""
    workspace, config = tmp_path / "ws", Path(f"{tmp_path}/{where}/chosen{place}")
    config.parent.mkdir(parents=True)
    config.write_text("[core]\n\thooksPath = hk\n")
    subprocess.run(["git", "init", "-q", workspace], check=True)
    environ = {"PATH": os.defpath, "HOME": str(tmp_path), variable: str(config).removesuffix(place)}
    told = subprocess.run(["git", "config", "core.hooksPath"], cwd=workspace, env=environ, capture_output=True)

    found = programs.all_programs(str(workspace), None, "", None, str(tmp_path), environ)

    assert told.stdout == b"hk\n"
    assert found == [*([str(config)] if where == "ws" else []), f"{workspace}/hk"]


def test_the_caller_s_own_place_counts(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is nobody else's, where root starts the command of another."""
    ground = field.ground()
    with_git(ground)
    ground.file("outside/git/config", "[core]\n\thooksPath = hk\n")
    ground.own()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(ground.outside))

    done = field.run(ground, ["mkdir", "hk"])

    assert (done.exit_code == 0) == (field.walls.who == "owner"), done
