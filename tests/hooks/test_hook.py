"""The verb itself, as a process: a deny denies, an allowed line runs inside, and nothing of ours fails open."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.looking import common_place

from ringfence.cli import hook as hook_door
from ringfence.guard.agents import AGENTS, denial

FIXTURES = Path(__file__).parent / "fixtures"
PROGRAM = Path(sys.executable).parent / "ringfence"
AS_ROOT = ["--as-root"] if os.geteuid() == 0 else []


@pytest.fixture
def root() -> Iterator[Path]:
    """A repository that does not lie in /tmp, which is the command's own inside the sandbox."""
    with tempfile.TemporaryDirectory(dir=common_place()) as place:
        found = Path(place) / "w"
        for name in ("sub", ".git"):
            (found / name).mkdir(parents=True)
        (found / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (found / "a.txt").write_text("a\n")
        yield found


def payload(name: str, root: Path, **given: object) -> dict[str, object]:
    text = (FIXTURES / f"{name}.json").read_text().replace("/home/dev/proj", str(root))
    found: dict[str, object] = json.loads(text)
    inner = found["toolArgs"] if "toolArgs" in found else found.get("tool_input", found)
    assert isinstance(inner, dict)
    inner.update(given)
    return found


def hook(agent: str, data: object, *words: str, **env: str) -> tuple[int, dict[str, object], str]:
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    stands = str(data.get("cwd", ".")) if agent == "codex" and isinstance(data, dict) else "."  # where it starts us
    done = subprocess.run(
        [PROGRAM, "hook", agent, *AS_ROOT, *words],
        input=text, capture_output=True, timeout=30, env=os.environ | env, cwd=stands if Path(stands).is_dir() else ".",
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr.decode()


def moved(answer: dict[str, object]) -> dict[str, object]:
    """The rewritten input, wherever the agent looks for it."""
    if isinstance(answer.get("hookSpecificOutput"), dict):
        answer = answer["hookSpecificOutput"]  # type: ignore[assignment]
    for name in ("updatedInput", "tool_input", "modifiedArgs", "updated_input", "input"):
        if isinstance(answer.get(name), dict):
            return answer[name]  # type: ignore[return-value]
    raise AssertionError(answer)


def denies(code: int, answer: dict[str, object]) -> bool:
    specific = answer.get("hookSpecificOutput")
    inner = specific.get("permissionDecision") if isinstance(specific, dict) else None
    said = answer.get("decision") or answer.get("permission") or answer.get("verdict") or inner
    return said == "deny" and code == (0 if "permission" in answer or "verdict" in answer else 2)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_line_that_writes_outside_is_denied(agent: str, root: Path) -> None:
    code, answer, stderr = hook(agent, payload(agent, root, command="cp a.txt /etc/evil"))

    assert denies(code, answer)
    assert "/etc/evil" in json.dumps(answer)
    assert "/etc/evil" in stderr or code == 0


@pytest.mark.needs_userns
@pytest.mark.parametrize("agent", AGENTS)
def test_an_allowed_line_runs_inside_the_sandbox(agent: str, root: Path) -> None:
    line = "echo it\\'s > made.txt; ls /proc/[0-9]*/stat | wc -l"
    code, answer, _ = hook(agent, payload(agent, root, command=line))
    done = subprocess.run(
        ["sh", "-c", str(moved(answer)["command"])], capture_output=True, text=True, cwd=root, timeout=60
    )

    assert (code, (root / "made.txt").read_text()) == (0, "it's\n")
    assert int(done.stdout) < 10  # no other process is seen from inside


@pytest.mark.needs_userns
def test_what_the_analysis_missed_is_held_by_the_sandbox(root: Path) -> None:
    outside = root.parent / "outside"
    line = f"python3 -c \"open('{outside}', 'w')\""
    _, answer, _ = hook("codex", payload("codex", root, command=line))
    rewritten = str(moved(answer)["command"])
    inside = subprocess.run(["sh", "-c", rewritten], capture_output=True, cwd=root, timeout=60).returncode
    held = not outside.exists()
    subprocess.run(["sh", "-c", line], check=True, cwd=root, timeout=60)

    assert (inside, held, outside.exists()) == (1, True, True)


@pytest.mark.needs_userns
@pytest.mark.parametrize("line", ["\u00a0", " \u3000\n", "\r", "\x0c"])
def test_a_line_that_looks_like_nothing_is_the_name_of_a_program_and_runs_inside(line: str, root: Path) -> None:
    outside = root.parent / "outside"
    program = root / "bin" / line.strip(" \n")
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {outside}\n")
    program.chmod(0o755)
    where = {"env": os.environ | {"PATH": f"{root}/bin:{os.environ['PATH']}"}, "cwd": root}

    _, answer, _ = hook("codex", payload("codex", root, command=line))
    given = str(moved(answer)["command"]) if answer else line

    subprocess.run(["bash", "-c", line], **where, check=True)  # type: ignore[call-overload]
    assert outside.exists()  # bare, it is run
    outside.unlink()
    subprocess.run(["bash", "-c", given], **where, check=False)  # type: ignore[call-overload]
    assert not outside.exists()


def test_claude_asks_a_person_where_something_is_not_known(root: Path) -> None:
    code, answer, _ = hook("claude", payload("claude", root, command="evil --now"))
    specific = answer["hookSpecificOutput"]

    assert isinstance(specific, dict)
    assert (code, specific["permissionDecision"]) == (0, "ask")
    assert f" --workspace {root} --quiet -- bash -c " in str(moved(answer)["command"])


@pytest.mark.needs_userns
def test_code_in_the_line_runs_unasked_and_the_sandbox_holds_it(root: Path) -> None:
    outside = root.parent / "outside"
    line = "python3 - <<'E'\nimport pathlib\nopen('made', 'w')\n(pathlib.Path.cwd().parent / 'outside').touch()\nE"
    _, answer, _ = hook("claude", payload("claude", root, command=line))
    specific = answer["hookSpecificOutput"]
    assert isinstance(specific, dict)
    subprocess.run(["sh", "-c", str(moved(answer)["command"])], capture_output=True, cwd=root, timeout=60)
    held = (root / "made").exists(), outside.exists()
    subprocess.run(["sh", "-c", line], check=True, cwd=root, timeout=60)

    assert (specific["permissionDecision"], held, outside.exists()) == ("allow", (True, False), True)


@pytest.mark.needs_userns
def test_a_script_of_the_project_runs_unasked_and_the_sandbox_holds_it(root: Path) -> None:
    outside = root.parent / "outside"
    (root / "x.sh").write_text(f"echo x > made; echo x > {outside}\n")
    _, answer, _ = hook("claude", payload("claude", root, command="sh x.sh"))
    specific = answer["hookSpecificOutput"]
    assert isinstance(specific, dict)
    subprocess.run(["sh", "-c", str(moved(answer)["command"])], capture_output=True, cwd=root, timeout=60)
    held = (root / "made").exists(), outside.exists()
    subprocess.run(["sh", "x.sh"], check=True, cwd=root, timeout=60)

    assert (specific["permissionDecision"], held, outside.exists()) == ("allow", (True, False), True)


@pytest.mark.parametrize("how", ["off", "best-effort"])
def test_where_nothing_is_sure_to_hold_a_line_it_is_asked_about_or_denied(how: str, root: Path, tmp_path: Path) -> None:
    (tmp_path / "ringfence").mkdir()
    (tmp_path / "ringfence/policy.toml").write_text(f'enforcement = "{how}"\n')
    place = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_RUNTIME_DIR": ""}
    _, asked, _ = hook("claude", payload("claude", root, command="sh x.sh"), **place)
    code, denied, stderr = hook("codex", payload("codex", root, command="sh x.sh"), **place)

    assert '"ask"' in json.dumps(asked)
    assert denies(code, denied)
    assert "nobody can be asked" in stderr


def test_an_event_that_takes_no_other_line_is_asked_about_what_no_sandbox_will_hold(root: Path) -> None:
    _, answer, _ = hook("cursor", payload("cursor-shell", root, command="sh x.sh"))

    assert answer["permission"] == "ask"


def test_a_line_that_was_rewritten_before_is_not_rewritten_again(root: Path) -> None:
    first = moved(hook("claude", payload("claude", root))[1])
    second = hook("claude", payload("claude", root, command=first["command"]))

    assert second == (0, {}, "")


def test_a_line_that_calls_ringfence_itself_is_no_way_out(root: Path) -> None:
    line = f"{PROGRAM} run --enforcement off -- touch /etc/x"
    _, answer, _ = hook("claude", payload("claude", root, command=line))
    specific = answer["hookSpecificOutput"]

    assert isinstance(specific, dict)
    assert specific["permissionDecision"] == "ask"


def test_other_words_of_the_input_stay(root: Path) -> None:
    given = {"timeout": 5000, "run_in_background": True, "dangerouslyDisableSandbox": True}
    rewritten = moved(hook("claude", payload("claude", root, **given))[1])

    assert {name: value for name, value in rewritten.items() if name != "command"} == {
        "description": "greets",
        "timeout": 5000,
        "run_in_background": True,
    }


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"hook_event_name": 3}', b"\xff\xfe", b"{}" * 3])
def test_a_payload_that_is_not_understood_is_denied_with_a_text(agent: str, data: bytes) -> None:
    code, stdout, stderr = hook_door.answer([agent], data, dict(os.environ), str(PROGRAM))

    assert denies(code, json.loads(stdout))
    assert b"ringfence: " in (stderr or stdout)


def test_a_payload_that_is_cut_off_is_denied_by_the_process_too() -> None:
    code, answer, stderr = hook("claude", b'{"hook_event_name": "PreTool')

    assert denies(code, answer)
    assert stderr.startswith("ringfence: ")


def test_a_workspace_that_is_not_there_is_denied() -> None:
    code, answer, _ = hook("codex", {**payload("codex", Path("/nonexistent/w"))}, "--workspace", "/nonexistent/w")

    assert denies(code, answer)


def test_a_broken_policy_is_denied_and_named(root: Path) -> None:
    (root / ".ringfence").mkdir()
    (root / ".ringfence" / "policy.json").write_text("{")
    code, answer, stderr = hook("claude", payload("claude", root))

    assert denies(code, answer)
    assert "policy.json" in stderr


def test_an_unknown_agent_or_option_is_denied() -> None:
    assert [hook("vim", {})[0], hook("claude", {}, "--nonsense")[0]] == [2, 2]


def test_a_hook_that_takes_too_long_denies(root: Path) -> None:
    lines = (
        "import sys, time",
        "sys.argv[0] = '/x/ringfence'",
        "import ringfence.cli.hook as hook",
        "hook.TIME = 0.3",
        "hook._answer = lambda *given: time.sleep(20)",
        "sys.exit(hook.main(['codex']))",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60)

    assert denies(done.returncode, json.loads(done.stdout))
    assert "seconds" in done.stderr


@pytest.mark.parametrize("agent", AGENTS)
def test_the_last_word_is_that_of_the_contract(agent: str, capfd: pytest.CaptureFixture[str]) -> None:
    reason = 'a "quoted" \\ text\nwith é and \x00'
    code = hook_door._give(hook_door.no(agent, reason))
    said, stderr = capfd.readouterr()
    expected = denial(agent, f"ringfence: {reason}")

    assert (code, json.loads(said), stderr.rstrip("\n")) == (
        expected.code,
        expected.stdout,
        expected.stderr.rstrip("\n"),
    )


def test_an_installation_that_is_broken_denies(root: Path) -> None:
    lines = (
        "import sys",
        "sys.argv[:] = ['/x/ringfence', 'hook', 'codex']",
        "sys.modules['msgspec'] = None",
        "from ringfence.cli import main",
        "main()",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], input=b"{}", capture_output=True, timeout=60)

    assert denies(done.returncode, json.loads(done.stdout))
    assert b"msgspec" in done.stderr


def test_an_event_that_is_no_question_passes_in_silence(root: Path) -> None:
    assert hook("claude", payload("claude-after", root)) == (0, {}, "")


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("event", ["ToolUse", "onToolCall", "PRETOOLUSE", "x"])
def test_an_event_that_nobody_knows_lets_no_call_pass(agent: str, event: str, root: Path) -> None:
    """It passed, unless it began as a question does."""
    asked = payload(agent, root) | {"hook_event_name": event}

    code, out, _ = hook_door.answer([agent, *AS_ROOT], json.dumps(asked).encode(), dict(os.environ), str(PROGRAM))

    assert denies(code, json.loads(out or b"{}"))
    assert event in out.decode()


@pytest.mark.parametrize(
    ("variable", "line", "denied"),
    [
        ("sub", "touch ../x", True),
        ("sub", "touch x", False),
        ("/", "touch /etc/x", True),
        ("..", "touch ../../x", True),
    ],
)
def test_the_variable_of_a_supervisor_may_only_narrow(variable: str, line: str, denied: bool, root: Path) -> None:
    named = str((root / variable).resolve())
    data = payload("codex", root, command=line)
    code, answer, _ = hook("codex", data | {"cwd": str(root / "sub")}, WORKTREE_SANDBOX_PATH=named)

    assert denies(code, answer) is denied


def test_a_tool_of_files_keeps_to_the_policy(root: Path) -> None:
    inside = hook("claude", payload("claude-write", root))
    outside = hook("claude", payload("claude-write", root, file_path="/etc/cron.d/x"))
    patch = hook("codex", payload("codex-patch", root))

    assert (inside, outside[0], patch[0]) == ((0, {}, ""), 2, 2)


def test_a_denial_is_in_the_audit_log_and_an_allowance_is_not(root: Path, tmp_path: Path) -> None:
    for command in ("cp a.txt /etc/evil", "ls"):
        hook("claude", payload("claude", root, command=command), XDG_STATE_HOME=str(tmp_path), XDG_RUNTIME_DIR="")
    lines = (tmp_path / "ringfence/audit/000001.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines if '"kind":"denial"' in line]

    assert [event["denial"]["target"] for event in events] == ["Bash cp a.txt /etc/evil"]
    assert events[0]["by"] == "guard"


def test_a_word_of_the_models_does_not_make_it_another_event(root: Path) -> None:
    """It was looked for in the whole payload, and what is no question of ours was let pass."""
    asked = payload("claude", root, command="cp a.txt /etc/evil", hook_event_name="WorktreeRemove")

    code, answer, _ = hook("claude", asked)

    assert denies(code, answer)
    assert "/etc/evil" in json.dumps(answer)


def test_a_line_by_its_short_name_runs_inside_the_sandbox_too(root: Path) -> None:
    asked = payload("codex", root)
    asked["tool_name"], asked["tool_input"] = "exec_command", {"cmd": "ls"}

    _, answer, _ = hook("codex", asked)

    assert " run " in str(moved(answer)["cmd"])


def test_cursors_place_through_a_link_does_not_choose_the_workspace(root: Path) -> None:
    (root.parent / "other").mkdir()
    (root / "link").symlink_to(root.parent / "other")

    code, answer, _ = hook("cursor", payload("cursor-shell", root, command="touch x", cwd=str(root / "link")))
    assert denies(code, answer)

    code, answer, _ = hook("cursor", payload("cursor-shell", root, command="touch x", cwd=str(root / "sub")))
    assert answer["permission"] == "allow"


@pytest.mark.parametrize(("agent", "name"), [("opencode", "workdir"), ("gemini", "dir_path"), ("codex", "workdir")])
def test_where_a_call_says_it_begins_does_not_choose_the_workspace(agent: str, name: str, root: Path) -> None:
    other = root.parent / "other"
    other.mkdir()
    (root / "link").symlink_to(other)
    for place in (str(other), "..", "link", "/", "/etc"):
        code, answer, _ = hook(agent, payload(agent, root, command="touch x", **{name: place}))
        assert denies(code, answer), place
    for odd in (["/"], 1, {"a": 1}, "a\0b"):
        code, answer, _ = hook(agent, payload(agent, root, command="touch x", **{name: odd}))
        assert denies(code, answer), odd

    _, answer, _ = hook(agent, payload(agent, root, command="touch x", **{name: "sub"}))

    assert f"--workspace {root} " in str(moved(answer)["command"])
    assert f"{root}/sub" in str(moved(answer)["command"])


def test_where_a_call_of_codex_begins_does_not_choose_the_workspace(root: Path) -> None:
    """Its hooks are told where the call is to begin as if the agent stood there, and are started where it does."""
    other = root.parent / "other"
    for place in (other, root / "deep"):
        (place / ".git").mkdir(parents=True)
        (place / ".git/HEAD").write_text("ref: refs/heads/main\n")
    asked = payload("codex", root, command="touch x")

    def answered(place: Path, stands: Path, tool: dict[str, object]) -> tuple[int, dict[str, object]]:
        data = json.dumps(asked | {"cwd": str(place)} | tool).encode()
        given = os.environ | {"PWD": str(stands)}
        code, out, _ = hook_door.answer(["codex", *AS_ROOT], data, given, str(PROGRAM))
        return code, json.loads(out)

    patch: dict[str, object] = payload(
        "codex-patch", root, command="*** Begin Patch\n*** Add File: x\n+x\n*** End Patch"
    )
    assert denies(*answered(other, root, {}))
    assert denies(*answered(other, root, patch | {"cwd": str(other)}))
    _, deeper = answered(root / "deep", root, {})

    assert str(moved(deeper)["command"]).startswith(f"cd '{root}' && {PROGRAM} run ")
    assert f"--workspace {root} " in str(moved(deeper)["command"])
    assert denies(*answered(root, root / "deep", {}))


def test_a_patch_is_not_judged_from_another_place_than_it_is_made(root: Path) -> None:
    (root.parent / "other").mkdir()
    asked = payload("codex-patch", root, command="*** Begin Patch\n*** Add File: x\n+x\n*** End Patch")

    assert hook("codex", asked, "--workspace", str(root))[0] == 0
    assert hook("codex", asked | {"cwd": str(root.parent / "other")}, "--workspace", str(root))[0] == 2


def test_claude_is_not_moved_out_of_its_workspace(root: Path) -> None:
    (root.parent / "other").mkdir()
    (root / "a/b").mkdir(parents=True)
    (root / "link").symlink_to("a/b")
    asked = payload("claude", root) | {"tool_name": "EnterWorktree"}

    outside = ("../other", str(root.parent / "other"), "link/../../other")  # the last by its text
    for path, code in (*((path, 2) for path in outside), (str(root / "sub"), 0), ("", 0)):
        assert hook("claude", asked | {"tool_input": {"path": path}})[0] == code, path
    assert hook("claude", asked | {"tool_input": {"name": "new"}})[:2] == (0, {})


def test_claude_takes_no_skill_that_a_command_may_have_written(root: Path) -> None:
    """It finds those that lie beside a file that it reads, and runs what they name outside of any sandbox."""
    asked = payload("claude", root) | {"tool_name": "Skill", "tool_input": {"skill": "evil"}}
    (root / ".claude/skills/good").mkdir(parents=True)  # which no command can write
    assert hook("claude", asked)[:2] == (0, {})

    (root / "sub/deep/.claude/skills").mkdir(parents=True)
    _, answer, _ = hook("claude", asked)

    assert '"ask"' in json.dumps(answer)
    assert "sub/deep/.claude/skills" in json.dumps(answer)


def test_a_search_that_names_no_place_is_denied_where_the_agent_stands_outside(root: Path) -> None:
    asked = payload("claude", root) | {"tool_name": "Grep", "tool_input": {"pattern": "a"}}

    code, answer, _ = hook("claude", asked, WORKTREE_SANDBOX_PATH=str(root / "sub"))

    assert denies(code, answer)
    assert hook("claude", asked | {"cwd": str(root / "sub")}, WORKTREE_SANDBOX_PATH=str(root / "sub"))[:2] == (0, {})


def test_a_search_of_claudes_does_not_look_at_keys(root: Path) -> None:
    (root / "home" / ".ssh").mkdir(parents=True)
    for name in ("Grep", "Glob"):
        asked = payload("claude", root) | {"tool_name": name, "tool_input": {"pattern": "a", "path": "/home/dev/.ssh"}}
        code, answer, _ = hook("claude", asked, HOME="/home/dev")
        assert denies(code, answer)
        asked["tool_input"] = {"pattern": "*.py"}
        assert hook("claude", asked, HOME="/home/dev")[:2] == (0, {})
