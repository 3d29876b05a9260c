"""Installing: once, beside what others wrote, proved by a canary, and taken out again to the byte."""

import contextlib
import io
import json
import os
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

from ringfence.cli import call, install
from ringfence.guard import jsonc
from ringfence.guard.installing import SITES, has_hook, with_hook, without_hook

IN_JSON = [agent for agent, site in SITES.items() if site.path]
FOREIGN = """// mine
{
    "model": "x", /* keep */
    "hooks": {
        // another's
        "%s": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "/opt/other check"}]}
        ],
        "Stop": []
    }
}
"""


def run(home: Path, *words: str, code: int = 0) -> dict[str, object]:
    """A verb in this process: the canaries start enough others."""
    before, said = os.environ.get("HOME"), io.StringIO()
    os.environ["HOME"] = str(home)
    try:
        with contextlib.redirect_stdout(said):
            assert call([*words, "--json"]) == code, said.getvalue()
    finally:
        os.environ["HOME"] = before or ""
    found: dict[str, object] = json.loads(said.getvalue())
    return found["agents"][0] if "agents" in found else found  # type: ignore[index]


def file_of(agent: str, home: Path) -> Path:
    return home / SITES[agent].user


@pytest.mark.parametrize("agent", SITES)
def test_install_status_uninstall(agent: str, tmp_path: Path) -> None:
    before = run(tmp_path, "status", agent)
    first = run(tmp_path, "install", agent)
    bytes_of_first = file_of(agent, tmp_path).read_bytes()
    second = run(tmp_path, "install", agent)
    bytes_of_second = file_of(agent, tmp_path).read_bytes()
    during = run(tmp_path, "status", agent)
    run(tmp_path, "uninstall", agent)
    again = run(tmp_path, "uninstall", agent)

    assert [before["what"], first["what"], second["what"], during["what"], again["what"]] == [
        "not installed",
        "installed; a deny denies",
        "was installed already; a deny denies",
        "installed; a deny denies",
        "was not installed",
    ]
    assert bytes_of_first == bytes_of_second
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("agent", IN_JSON)
def test_foreign_hooks_and_comments_stay_and_the_bytes_come_back(agent: str, tmp_path: Path) -> None:
    file = file_of(agent, tmp_path)
    file.parent.mkdir(parents=True)
    comments = ("// mine", "/* keep */", "// another's")
    text = FOREIGN % SITES[agent].path[-1]
    for comment in () if SITES[agent].comments else comments:
        text = text.replace(comment, "")
    file.write_text(text)
    file.chmod(0o640)
    before = file.read_bytes()
    run(tmp_path, "install", agent)
    during = file.read_text()
    run(tmp_path, "uninstall", agent)

    kept = comments if SITES[agent].comments else ()
    assert all(word in during for word in (*kept, "/opt/other check", "ringfence"))
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (before, 0o640)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("text", ["// mine\n{}", "{/* mine */}", '{"a": [1,]}', '{"a": 1,}'])
@pytest.mark.parametrize("agent", [agent for agent in IN_JSON if not SITES[agent].comments])
def test_settings_that_their_agent_does_not_read_hold_no_hook(agent: str, text: str, tmp_path: Path) -> None:
    """Claude Code and Codex take a file with a comment for none, and so wrote outside with our hook in it."""
    file = file_of(agent, tmp_path)
    file.parent.mkdir(parents=True)
    file.write_text(text)
    run(tmp_path, "install", agent, code=125)
    assert file.read_text() == text

    file.write_text("{}")
    run(tmp_path, "install", agent)
    file.write_text("// later\n" + file.read_text())
    assert "reads none of it" in str(run(tmp_path, "status", agent, code=1)["what"])
    run(tmp_path, "uninstall", agent)
    assert "ringfence" not in file.read_text()


def test_a_directory_that_holds_something_else_stays_and_so_does_a_link(tmp_path: Path) -> None:
    other = tmp_path / ".config/opencode/other"
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / ".pi").symlink_to("dotfiles")
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    for agent in ("opencode", "pi"):
        run(tmp_path, "install", agent)
        run(tmp_path, "uninstall", agent)

    kept = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert kept == [".config", ".config/opencode", ".config/opencode/other", ".pi", "dotfiles"]


def test_what_was_changed_after_the_install_stays(tmp_path: Path) -> None:
    file = file_of("claude", tmp_path)
    file.parent.mkdir(parents=True)
    file.write_text('{"model": "x"}')
    run(tmp_path, "install", "claude")
    file.write_text(file.read_text().replace('"x"', '"y"'))
    run(tmp_path, "uninstall", "claude")

    empty: dict[str, list[object]] = {"PreToolUse": [], "WorktreeCreate": [], "WorktreeRemove": []}
    assert json.loads(file.read_text()) == {"hooks": empty, "model": "y"}


def test_a_hook_of_an_older_place_is_replaced() -> None:
    old = with_hook("{}", "claude", "/old/bin/ringfence", False)
    new = with_hook(old, "claude", "/new/bin/ringfence", False)

    assert ("/old/" in new, new.count("/new/bin/ringfence")) == (False, 3)


# Of a name that is there twice an agent takes the last, and our hook stood in the first: it was called installed.
NO_SETTINGS = [
    b"{broken",
    b'{"hooks": {}, "hooks": {"BeforeTool": []}}',
    b'{"x": "\xff"}',
    b'{"a\\q": 1}',
    b'{"x": 01}',
]


@pytest.mark.parametrize("text", NO_SETTINGS)
@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_settings_that_are_not_json_are_left_alone(text: bytes, verb: str, tmp_path: Path) -> None:
    file = file_of("gemini", tmp_path)
    file.parent.mkdir(parents=True)
    file.write_bytes(text)
    run(tmp_path, verb, "gemini", code=125)

    assert file.read_bytes() == text


@pytest.mark.parametrize("text", NO_SETTINGS)
def test_settings_that_cannot_be_read_keep_no_other_agent_from_being_told_of(text: bytes, tmp_path: Path) -> None:
    file_of("gemini", tmp_path).parent.mkdir(parents=True)
    file_of("gemini", tmp_path).write_bytes(text)
    file_of("cursor", tmp_path).mkdir(parents=True)
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(said):
        patched.setenv("HOME", str(tmp_path))
        code = call(["status"])
    unknown = [line.split(":")[0] for line in said.getvalue().splitlines() if "not known" in line]

    assert (code, unknown, said.getvalue().count("\n")) == (1, ["gemini", "cursor"], len(SITES))


def test_a_link_to_where_no_settings_were_stays_and_where_it_leads_is_as_it_was(tmp_path: Path) -> None:
    file = file_of("claude", tmp_path)
    file.parent.mkdir(parents=True)
    file.symlink_to(tmp_path / "dotfiles.json")
    run(tmp_path, "install", "claude")
    assert (tmp_path / "dotfiles.json").exists()
    run(tmp_path, "uninstall", "claude")

    assert (file.is_symlink(), (tmp_path / "dotfiles.json").exists()) == (True, False)


def test_settings_that_cannot_be_replaced_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = file_of("claude", tmp_path)
    file.parent.mkdir(parents=True)
    file.symlink_to(tmp_path / "gone" / "settings.json")
    run(tmp_path, "install", "claude", code=125)

    assert f"{tmp_path}/gone/settings.json: cannot be replaced" in capsys.readouterr().err


def test_a_link_to_the_settings_stays_a_link(tmp_path: Path) -> None:
    file = file_of("claude", tmp_path)
    file.parent.mkdir(parents=True)
    (tmp_path / "dotfiles.json").write_text("{}")
    file.symlink_to(tmp_path / "dotfiles.json")
    run(tmp_path, "install", "claude")

    assert (file.is_symlink(), has_hook((tmp_path / "dotfiles.json").read_text(), "claude")) == (True, True)


def test_a_project_has_settings_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    run(tmp_path, "install", "codex", "--project", str(tmp_path / "p"))

    assert (tmp_path / "p" / ".codex" / "hooks.json").is_file()
    assert not (tmp_path / ".codex").exists()


def test_what_blocks_on_failure_where_there_is_such_a_thing() -> None:
    texts = {agent: with_hook("", agent, "/x/ringfence", False) for agent in IN_JSON}

    assert '"onFailure": "block"' in texts["claude"]
    assert '"failClosed": true' in json.dumps(json.loads(texts["cursor"]))


@pytest.mark.parametrize(
    ("agent", "code", "stdout", "stderr", "expected"),
    [
        ("claude", 2, b'{"hookSpecificOutput":{"permissionDecision":"deny"}}', b"why", True),
        ("claude", 2, b'{"decision":"deny","permissionDecision":"deny"}', b"why", False),
        ("codex", 2, b'{"hookSpecificOutput":{"permissionDecision":"deny"}}', b"", False),
        ("gemini", 2, b'{"decision":"deny"}', b"why", True),
        ("gemini", 2, b"{}", b"why", False),
        ("copilot", 1, b'{"permissionDecision":"deny"}', b"why", False),
        ("claude", 0, b"", b"", False),
        ("cursor", 0, b'{"permission":"deny"}', b"", True),
        ("cursor", 0, b'{"permission":"allow"}', b"", False),
        ("pi", 0, b'{"verdict":"deny"}', b"", True),
        ("pi", 0, b"text", b"", False),
    ],
)
def test_the_canary_knows_a_no_from_a_yes(agent: str, code: int, stdout: bytes, stderr: bytes, expected: bool) -> None:
    assert install.denies(agent, code, stdout, stderr) is expected


def test_a_canary_that_gets_no_denial_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    liar = tmp_path / "ringfence"
    liar.write_text("#!/bin/sh\nexit 0\n")
    liar.chmod(0o755)
    monkeypatch.setattr(install, "program", lambda: str(liar))

    assert install.canary("claude", False) == "the hook does not deny what it must deny"


SETTINGS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@hypothesis.given(
    st.dictionaries(st.sampled_from(["hooks", "a", "model"]), SETTINGS, max_size=3), st.sampled_from([None, 1, 4])
)
def test_what_is_put_in_can_be_taken_out(settings: dict[str, object], indent: int | None) -> None:
    text = json.dumps(settings, indent=indent)
    try:
        during = with_hook(text, "claude", "/x/ringfence", False)
    except jsonc.NotSettings:
        hypothesis.reject()
    after = json.loads(without_hook(during, "claude"))
    known = json.loads(during)

    assert known["hooks"]["PreToolUse"][0]["hooks"][0]["command"] == "/x/ringfence"
    assert with_hook(during, "claude", "/x/ringfence", False) == during
    before = settings.get("hooks", {})
    assert isinstance(before, dict)
    left = {name: value for name, value in after["hooks"].items() if name in before or value != []}
    assert left == before
    assert {**after, "hooks": before} == {**settings, "hooks": before}


@pytest.mark.parametrize("text", ["{", "{]", '{"a" 1}', '{"a": 1 "b": 2}', "[1 2]", "{} x", '{"a": }', "nul", "{1: 2}"])
def test_what_is_not_json_is_not_edited(text: str) -> None:
    with pytest.raises(jsonc.NotSettings):
        jsonc.scan(text)


OFF = [  # each was seen to let the real agent write outside, with our hook installed
    ("claude", ".claude/settings.json", '"disableAllHooks": true'),
    ("gemini", ".gemini/settings.json", '"hooksConfig": {"enabled": false}'),
    ("gemini", ".gemini/settings.json", '"hooksConfig": {"disabled": ["ringfence"]}'),
    ("copilot", ".copilot/hooks/ringfence.json", '"disableAllHooks": true'),
    ("codex", ".codex/config.toml", "[features]\nhooks = false\n"),
    ("codex", ".codex/config.toml", "[features]\ncodex_hooks = false\n"),
    ("pi", ".pi/agent/settings.json", '"extensions": ["-extensions/ringfence.ts"]'),
    ("pi", ".pi/agent/settings.json", '"extensions": ["!*"]'),
]


@pytest.mark.parametrize(("agent", "name", "setting"), OFF)
def test_a_hook_that_its_agent_switched_off_is_no_hook(agent: str, name: str, setting: str, tmp_path: Path) -> None:
    run(tmp_path, "install", agent)
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.read_text() if file.exists() else "{}"
    file.write_text(setting if name.endswith("toml") else before.rstrip().removesuffix("}").rstrip() + (
        f", {setting}}}" if len(before) > 2 else f"{setting}}}"
    ))  # fmt: skip
    text = file.read_text()

    said, again = run(tmp_path, "status", agent, code=1), run(tmp_path, "install", agent, code=1)

    assert all("does not ask it" in str(row["what"]) and name in str(row["what"]) for row in (said, again))
    assert file.read_text() == text


def test_a_hook_of_somebody_else_may_be_switched_off(tmp_path: Path) -> None:
    run(tmp_path, "install", "gemini")
    file = tmp_path / ".gemini" / "settings.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "hooksConfig": {"disabled": ["lint"]}}))

    assert run(tmp_path, "status", "gemini")["ok"]


@pytest.mark.parametrize("name", [".claude/settings.json", ".claude/settings.local.json"])
def test_a_project_that_switches_hooks_off_is_told_of(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository may bring such a file, and the user's own hook is not asked there."""
    home, project = tmp_path / "home", tmp_path / "project"
    (project / ".claude").mkdir(parents=True)
    home.mkdir()
    run(home, "install", "claude")
    (project / name).write_text('{/* quiet */ "disableAllHooks": true}')
    elsewhere = run(home, "status", "claude")
    monkeypatch.chdir(project)

    assert elsewhere["ok"]
    assert f"disableAllHooks in {project / name}" in str(run(home, "status", "claude", code=1)["what"])


@pytest.mark.parametrize(("agent", "name"), [("claude", "CLAUDE_CODE_SIMPLE"), ("opencode", "OPENCODE_PURE")])
def test_a_variable_that_switches_hooks_off_is_told_of(
    agent: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, "install", agent)
    monkeypatch.setenv(name, "1")
    off = run(tmp_path, "status", agent, code=1)
    monkeypatch.setenv(name, "0")

    assert name in str(off["what"])
    assert run(tmp_path, "status", agent)["ok"]


def test_settings_of_an_agent_that_cannot_be_read_are_no_yes(tmp_path: Path) -> None:
    run(tmp_path, "install", "codex")
    (tmp_path / ".codex" / "config.toml").write_text("[features\n")

    assert "what cannot be read" in str(run(tmp_path, "status", "codex", code=1)["what"])
