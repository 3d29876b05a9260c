"""Each agent's question and our answer, as values: the payloads are in fixtures/, the answers what it honours."""

import json
import shlex
from pathlib import Path

import pytest

from ringfence.guard import Judgement, agents
from ringfence.guard.agents import Answer
from ringfence.guard.rewrite import unwrapped, wrapped
from ringfence.model import Verdict

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))
WHY = "ringfence: because"
NO = {"permissionDecision": "deny", "permissionDecisionReason": WHY}
NATIVE: dict[str, object] = {"hookSpecificOutput": {"hookEventName": "PreToolUse", **NO}}
DENIALS: dict[str, dict[str, object]] = {
    "claude": NATIVE,
    "codex": NATIVE,
    "gemini": {"decision": "deny", "reason": WHY},
    "copilot": {**NO, **NATIVE},
}


def payload(name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((FIXTURES / f"{name}.json").read_text())
    return found


def asked(name: str) -> agents.Asked:
    found = agents.read(name.partition("-")[0], payload(name))
    assert found is not None
    return found


def answered(name: str, verdict: Verdict, given: dict[str, object] | None = None) -> Answer:
    question = asked(name)
    made = Judgement(verdict, ("because",), question.call.input if given is None else given)
    return agents.answer(name.partition("-")[0], question, made)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "claude-after"])
def test_a_question_is_understood(name: str) -> None:
    question = asked(name)

    assert (question.cwd, bool(question.call.tool), bool(question.call.input)) == ("/home/dev/proj", True, True)


@pytest.mark.parametrize("agent", agents.AGENTS)
@pytest.mark.parametrize("event", ["PRETOOLUSE", "pre_tool_use", " PreToolUse", "BeforeToolCall", "beforeMCPExecution"])
def test_an_event_that_sounds_like_a_question_and_is_not_known_is_an_error(agent: str, event: str) -> None:
    payload = {"hook_event_name": event, "tool_name": "Bash", "tool_input": {"command": "ls"}, "cwd": "/home/dev/proj"}

    with pytest.raises(agents.Payload):
        agents.read(agent, payload)


def test_an_event_that_is_no_question_gets_no_answer() -> None:
    assert agents.read("claude", payload("claude-after")) is None


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name.partition("-")[0] in DENIALS and name != "claude-after"]
)
def test_a_denial_is_the_agents_own_json_and_exit_code_two_and_a_text(name: str) -> None:
    assert answered(name, Verdict.DENY) == Answer(2, DENIALS[name.partition("-")[0]], WHY)


@pytest.mark.parametrize("name", ["cursor", "cursor-shell"])
def test_cursor_is_denied_by_json_alone(name: str) -> None:
    expected = Answer(0, {"permission": "deny", "user_message": WHY, "agent_message": WHY})

    assert answered(name, Verdict.DENY) == expected


@pytest.mark.parametrize("name", ["opencode", "pi"])
def test_our_extensions_are_denied_by_a_verdict(name: str) -> None:
    assert answered(name, Verdict.DENY) == Answer(0, {"verdict": "deny", "reason": WHY})


@pytest.mark.parametrize("agent", agents.AGENTS)
def test_a_denial_without_a_reason_gets_one(agent: str) -> None:
    said = agents.denial(agent, " ")

    assert "ringfence: denied" in json.dumps(said.stdout)
    assert said.stderr in ("", "ringfence: denied")


REWRITTEN: dict[str, object] = {"command": "boxed", "description": "greets"}
SPECIFIC = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "permissionDecisionReason": WHY}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude", {"hookSpecificOutput": {**SPECIFIC, "updatedInput": REWRITTEN}}),
        ("codex", {"hookSpecificOutput": {**SPECIFIC, "updatedInput": REWRITTEN}}),
        ("copilot-claude", {"hookSpecificOutput": {**SPECIFIC, "updatedInput": REWRITTEN}}),
        ("copilot", {"permissionDecision": "allow", "permissionDecisionReason": WHY, "modifiedArgs": REWRITTEN}),
        (
            "gemini",
            {
                "decision": "allow",
                "reason": WHY,
                "hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": REWRITTEN},
            },
        ),
        ("cursor", {"permission": "allow", "user_message": WHY, "agent_message": WHY, "updated_input": REWRITTEN}),
        ("opencode", {"verdict": "allow", "reason": WHY, "input": REWRITTEN}),
        ("pi", {"verdict": "allow", "reason": WHY, "input": REWRITTEN}),
    ],
)
def test_a_rewritten_call_is_given_in_the_agents_own_way(name: str, expected: dict[str, object]) -> None:
    assert answered(name, Verdict.ALLOW, REWRITTEN) == Answer(0, expected)


@pytest.mark.parametrize(
    ("name", "word"), [("claude", "ask"), ("copilot", "ask"), ("cursor", "ask"), ("codex", "deny"), ("gemini", "deny")]
)
def test_a_question_is_put_only_where_somebody_answers(name: str, word: str) -> None:
    assert f'"{word}"' in json.dumps(answered(name, Verdict.ASK).stdout)


@pytest.mark.parametrize("name", ["claude-write", "gemini-write", "copilot-create"])
def test_what_is_allowed_as_it_is_leaves_the_agent_to_its_own_rules(name: str) -> None:
    assert answered(name, Verdict.ALLOW) == Answer()


def test_a_patch_of_copilot_comes_as_it_is_and_is_given_back_by_nobody() -> None:
    """It is no JSON, so every one was denied; and in place of it Copilot takes no object."""
    assert asked("copilot-patch").call.input == {"patch": payload("copilot-patch")["toolArgs"]}
    assert answered("copilot-patch", Verdict.ALLOW) == Answer()
    assert "modifiedArgs" not in answered("copilot-patch", Verdict.ASK).stdout


def test_words_that_switch_a_sandbox_off_are_removed() -> None:
    given = {"command": "boxed", "dangerouslyDisableSandbox": True, "sandbox_permissions": "x"}

    assert answered("claude", Verdict.ALLOW, given).stdout["hookSpecificOutput"] == {
        **SPECIFIC,
        "updatedInput": {"command": "boxed"},
    }
    assert answered("gemini", Verdict.ALLOW, given).stdout["hookSpecificOutput"] == {
        "hookEventName": "BeforeTool",
        "tool_input": {"command": "boxed", "dangerouslyDisableSandbox": False, "sandbox_permissions": False},
    }


def test_no_object_goes_with_a_shell_line() -> None:
    """Claude Code writes the file of `_simulatedSedEdit` itself, in place of running the line, in no sandbox."""
    given: dict[str, object] = {"command": "boxed", "_simulatedSedEdit": {"filePath": "/etc/x", "newContent": "x"}}

    assert answered("claude", Verdict.ALLOW, given).stdout["hookSpecificOutput"] == {
        **SPECIFIC,
        "updatedInput": {"command": "boxed"},
    }
    assert answered("gemini", Verdict.ASK, given).code == 2
    question = agents.read("claude", {**payload("claude"), "tool_input": given})
    assert question is not None
    assert agents.answer("claude", question, Judgement(Verdict.ALLOW, (), given)).stdout != {}  # as it came, with it
    assert answered("gemini", Verdict.ALLOW, given).stdout["hookSpecificOutput"] == {
        "hookEventName": "BeforeTool",
        "tool_input": {"command": "boxed", "_simulatedSedEdit": False},
    }


def test_what_cursor_reads_to_complete_a_line_is_judged_as_a_file_that_is_read() -> None:
    payload = {"hook_event_name": "beforeTabFileRead", "file_path": "/etc/x", "workspace_roots": ["/home/dev/proj"]}

    found = agents.read("cursor", payload)

    assert found is not None
    assert (found.call.tool, found.call.input, agents.takes_no_other(found)) == (
        "Read",
        {"file_path": "/etc/x"},
        True,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        "x",
        3,
        {},
        {"hook_event_name": 3},
        {"hook_event_name": "PreToolUse"},
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": []},
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "cwd": "relative"},
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}},
    ],
)
def test_a_payload_that_is_not_understood_is_an_error(wrong: object) -> None:
    with pytest.raises(agents.Payload):
        agents.read("claude", wrong)


PREFIX = ("/opt/ring fence", "run", "--")


def test_a_line_is_wrapped_and_unwrapped() -> None:
    line = "echo 'it'\\''s' && \"x\""

    assert unwrapped(wrapped(line, PREFIX), PREFIX) == line


def to_fish(text: str) -> str:
    """One word as fish reads it: in single quotes, too, a backslash takes a quote or a backslash."""
    out, quoted, chars = "", False, iter(text)
    for char in chars:
        if char == "\\":
            following = next(chars)
            out += following if not quoted or following in "'\\" else char + following
        elif char == "'":
            quoted = not quoted
        else:
            assert quoted, f"{text!r} is more than one word"
            out += char
    assert not quoted
    return out


@pytest.mark.parametrize(
    "line",
    [
        "x\\'; touch /etc/x #",
        "a\\\\",
        "\\",
        "'",
        "\\'",
        "'\\",
        "''\\\\''",
        "a\\nb\\\\n\\\\\\c",
        "sed 's/\\//x/' \\\n a",
        "\\\\'\\'\\",
    ],
)
def test_a_line_is_one_word_to_every_shell_that_may_start_it(line: str) -> None:
    made = wrapped(line, PREFIX)

    assert shlex.split(made) == [*PREFIX, "bash", "-c", line]
    assert to_fish(made.partition(" bash -c ")[2]) == line
    assert unwrapped(made, PREFIX) == line


@pytest.mark.parametrize(
    "line",
    [
        "'/opt/ring fence' run -- bash -c 'a'; touch /etc/x'",
        "'/opt/ring fence' run -- bash -c 'a\\'; touch /etc/x'",
        "'/opt/ring fence' run -- bash -c 'a'\\\\'b'; touch /etc/x'",
        "'/opt/ring fence' run -- bash -c 'a' 'b'",
        "'/opt/ring fence' run --enforcement off -- bash -c 'a'",
        "'/opt/ring fence' run -- bash -c ''a''",
        "echo 'x'",
    ],
)
def test_only_what_we_wrapped_ourselves_is_unwrapped(line: str) -> None:
    assert unwrapped(line, PREFIX) == line


def test_a_directory_that_the_model_names_is_not_where_the_agent_stands() -> None:
    """F56: it would choose the workspace."""
    roots = {"hook_event_name": "preToolUse", "tool_name": "Shell", "workspace_roots": ["/home/dev/proj"]}
    given = {"command": "touch x", "cwd": "/home/dev/other", "working_directory": "/home/dev/other"}

    asked = agents.read("cursor", {**roots, "tool_input": given})

    assert asked is not None
    assert asked.cwd == "/home/dev/proj"
    with pytest.raises(agents.Payload):
        agents.read("cursor", {"hook_event_name": "preToolUse", "tool_name": "Shell", "tool_input": given})


@pytest.mark.parametrize(
    "cwd", ["/home/dev/other", "/home/dev/proj-evil", "/home/dev/proj/../other", "//home/dev/other", "/", "relative"]
)
@pytest.mark.parametrize("event", ["preToolUse", "beforeShellExecution"])
def test_a_call_that_stands_outside_the_workspaces_of_cursor_is_denied(event: str, cwd: str) -> None:
    """F56: where a command begins is the model's word, which would choose the workspace."""
    asked = {"hook_event_name": event, "tool_name": "Shell", "command": "touch x", "tool_input": {"command": "touch x"}}

    with pytest.raises(agents.Payload):
        agents.read("cursor", {**asked, "cwd": cwd, "workspace_roots": ["/home/dev/proj"]})


@pytest.mark.parametrize("roots", ["/home/dev/proj", {}, [1], ["proj"], [None]])
def test_workspaces_that_are_none_are_denied(roots: object) -> None:
    asked = {"hook_event_name": "preToolUse", "tool_name": "Shell", "tool_input": {"command": "touch x"}}

    with pytest.raises(agents.Payload):
        agents.read("cursor", {**asked, "workspace_roots": roots})


def test_of_two_workspaces_the_one_around_the_call_is_meant() -> None:
    asked = {"hook_event_name": "preToolUse", "tool_name": "Shell", "tool_input": {"command": "touch x"}}
    roots = ["/w/a", "/w/a/inner/", "/w/b"]

    found = [agents.read("cursor", {**asked, "cwd": cwd, "workspace_roots": roots}) for cwd in ("/w/b/c", "/w/a/inner")]

    assert [one and one.root for one in found] == ["/w/b", "/w/a/inner/"]
