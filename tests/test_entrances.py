"""The two older ways in: the builder whose prefix goes before any command, and the command by mode."""

import os
import subprocess
from pathlib import Path

import pytest

from ringfence import Mode, PolicyError, Sandbox, UsageError, sandboxed_command

AS_ROOT = ["--as-root"] if os.geteuid() == 0 else []


def through(words: list[str], cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run, saying as root that it may stay root."""
    at = words.index("run") + 1
    whole = [*words[:at], *AS_ROOT, *words[at:]]
    return subprocess.run(whole, cwd=cwd, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("relative/workspace", "absolute path"),
        ("/tmp/\udcff\udcfe/workspace", "not valid UTF-8"),
        ('/tmp/evil"injection/workspace', "forbidden characters"),
        ('/tmp/evil") (allow file-write* (subpath "/"))', "forbidden characters"),
        ("/tmp/work\\nspace", "forbidden characters"),
        ("/tmp/work\0space", "forbidden characters"),
    ],
)
def test_a_path_that_could_break_a_profile_is_refused_by_every_step(path: str, says: str) -> None:
    good = Sandbox("/work")
    for build in (
        lambda: Sandbox(path),
        lambda: good.with_extra_read(path),
        lambda: good.with_extra_write(path),
        lambda: good.with_hidden(path),
        lambda: good.with_ro_inject(path, "/x"),
        lambda: good.with_ro_inject("/x", path),
        lambda: sandboxed_command("sh", "sandbox", path),
    ):
        with pytest.raises(PolicyError, match=says):
            build()


def test_every_step_gives_a_new_sandbox_and_leaves_the_old_one() -> None:
    first = Sandbox("/my project/src")
    second = first.with_network(True).with_hidden("/my project/src/.env")

    assert first == Sandbox("/my project/src")
    assert "--allow-network" in second.prefix().args
    assert second.with_network(False) == first.with_hidden("/my project/src/.env")
    assert second.prefix().args[-1] == "--"


def test_the_prefix_before_a_command_holds_it(tmp_path: Path) -> None:
    root, other, hidden, shown = (tmp_path / name for name in ("root", "other", "root/hidden", "other/shown"))
    for directory in (root, other, hidden, shown):
        directory.mkdir()
    (hidden / "secret").write_text("SECRET")
    (shown / "data").write_text("DATA")
    (root / "slot").write_text("old")
    (other / "new").write_text("NEW")
    sandbox = (
        Sandbox(str(root))
        .with_hidden(str(hidden))
        .with_extra_read(str(shown))
        .with_extra_write(str(other / "shown"))
        .with_ro_inject(str(other / "new"), str(root / "slot"))
    )
    script = f"""
        echo in > made; cat hidden/secret; cat {shown}/data; echo more > {shown}/more; cat slot
        echo x > slot; echo x > {other}/outside; true"""

    prefix = sandbox.prefix()
    done = through([prefix.program, *prefix.args, "sh", "-c", script], root)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "DATANEW"
    assert (root / "made").read_text() == "in\n"
    assert (shown / "more").read_text() == "more\n"
    assert (root / "slot").read_text() == "old"
    assert not (other / "outside").exists()


def test_a_root_inside_a_hidden_directory_stays_open(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "beside").write_text("SECRET")

    prefix = Sandbox(str(tmp_path / "root")).with_hidden(str(tmp_path)).prefix()
    done = through([prefix.program, *prefix.args, "sh", "-c", "echo in > made; cat ../beside"], tmp_path / "root")

    assert (tmp_path / "root" / "made").exists()
    assert "SECRET" not in done.stdout


def test_the_modes_have_their_names_and_their_words_for_a_model() -> None:
    assert [mode.display_name for mode in Mode] == ["sandbox", "rx", "rwx"]
    sandbox, rx, rwx = (mode.prompt_constraint("/the/workspace") for mode in Mode)
    assert sandbox is not None
    assert "SANDBOX mode" in sandbox
    assert "/the/workspace" in sandbox
    assert rx is not None
    assert "READ-ONLY mode" in rx
    assert rwx is None
    with pytest.raises(UsageError, match="invalid sandbox mode 'none'"):
        sandboxed_command("sh", "none", "/x")


def test_rwx_is_the_bare_program() -> None:
    assert sandboxed_command("claude", Mode.RWX, "/home/user/.omega") == ["claude"]


@pytest.mark.parametrize("mode", ["sandbox", "rx"])
def test_a_mode_lets_the_data_directory_be_written_and_nothing_else(mode: str, tmp_path: Path) -> None:
    data, outside = tmp_path / "data", tmp_path / "outside"
    (data / "workspace").mkdir(parents=True)
    outside.mkdir()
    (outside / "known").write_text("KNOWN")
    script = f"echo in > ../skill; echo out > {outside}/made; cat {outside}/known; true"

    done = through([*sandboxed_command("sh", mode, str(data)), "-c", script], data / "workspace")

    assert done.returncode == 0, done.stderr
    assert (data / "skill").exists()
    assert not (outside / "made").exists()
