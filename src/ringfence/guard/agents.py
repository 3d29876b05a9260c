"""How each agent asks before a tool call, and which answer it really honours.

Pure: a payload comes in, an `Answer` goes out. Every hook system lets calls through somewhere, each in another place;
docs/hooks.md has the table. So a denial is the agent's own JSON, exit code 2 and a text on standard error at once, and
it always has a reason. No JSON serves two agents: Claude Code 2.1.197 runs the call when it finds Gemini's word on
standard output, exit code 2 or not. Cursor and our extensions obey JSON alone.
"""

import posixpath

import msgspec

from ..model import Verdict
from .judge import LISTS, READS, SHELLS, Judgement, ToolCall, is_patch
from .patterns import lazy

AGENTS = ("claude", "codex", "gemini", "copilot", "cursor", "opencode", "pi")
CAN_ASK = frozenset(("claude", "copilot", "cursor"))
# With these the model asks its agent to leave a sandbox, or to give more than was configured.
ESCAPES = (
    "dangerouslyDisableSandbox",
    "dangerously_disable_sandbox",
    "sandbox_permissions",
    "with_escalated_permissions",
    "escalated_permissions",
    "required_permissions",
    "requestUnsandboxed",
    "justification",
)


class Asked(msgspec.Struct, frozen=True):
    """What an agent asks: the call, where it stands, and in which of its dialects."""

    call: ToolCall
    cwd: str
    event: str
    root: str = ""  # where the agent itself says which directories are its workspaces, the one that it stands in
    camel: bool = False  # Copilot's own event, and not the one in Claude's shape


class Answer(msgspec.Struct, frozen=True):
    """What the agent is told."""

    code: int = 0
    stdout: dict[str, object] = {}
    stderr: str = ""


class Payload(ValueError):
    """What came is not what the agent sends before a call."""


EVENTS = {
    "claude": ("PreToolUse",),
    "codex": ("PreToolUse",),
    "gemini": ("BeforeTool",),
    "copilot": ("PreToolUse", "preToolUse"),
    "cursor": ("preToolUse", "beforeShellExecution", "beforeReadFile", "beforeTabFileRead"),
    "opencode": ("tool.execute.before",),
    "pi": ("tool_call",),
}
# What only a call has; and how the events are called that tell of one which was made, or which the agent asks about.
_OF_A_CALL = ("tool_name", "tool_input", "toolName", "toolArgs", "command")
_TOLD_AFTERWARDS = lazy(r"(?i)(?:post|after|permission)")


def read(agent: str, payload: object) -> Asked | None:
    """The question in a payload; None for an event that is no question. Anything odd is an error, and so a denial."""
    if not isinstance(payload, dict):
        raise Payload("the payload is not an object")
    if agent == "copilot" and "toolName" in payload and "hook_event_name" not in payload:
        camel = True
        name, given, event = payload["toolName"], payload.get("toolArgs"), "preToolUse"
    else:
        camel = False
        name, given, event = payload.get("tool_name"), payload.get("tool_input"), payload.get("hook_event_name", "")
    if not isinstance(event, str) or not event:
        raise Payload("the payload does not say which event it is")
    if event not in EVENTS[agent]:
        if any(key in payload for key in _OF_A_CALL) and not _TOLD_AFTERWARDS.match(event):
            raise Payload(f"the event {event!r} is not one of those that are judged")
        return None
    if event == "beforeShellExecution":
        name, given = "Shell", {"command": payload.get("command")}
    elif event in ("beforeReadFile", "beforeTabFileRead"):
        name, given = "Read", {"file_path": payload.get("file_path")}
    if isinstance(given, str) and agent == "copilot":  # JSON, but for a patch, which comes as it is
        bare = name == "apply_patch" and not given.lstrip().startswith("{")
        given = {"patch": given} if bare else msgspec.json.decode(given)
    if not isinstance(name, str) or not isinstance(given, dict):
        raise Payload("the payload has no tool_name and tool_input")
    cwd, root = _standing(payload)
    return Asked(ToolCall(name, given), cwd, event, root, camel)


def _standing(payload: dict[str, object]) -> tuple[str, str]:
    """Where the agent stands, and in which of its workspaces. Never where the call itself says it stands: that is the
    model's word, and would choose the workspace. Cursor's `cwd` is the model's word too, so it must be in one of them.
    """
    roots = payload.get("workspace_roots") or []
    if not isinstance(roots, list) or not all(isinstance(root, str) and root.startswith("/") for root in roots):
        raise Payload("the payload's workspace_roots are not directories")
    cwd = payload.get("cwd") or (roots[0] if roots else None)
    if not isinstance(cwd, str) or not cwd.startswith("/"):
        raise Payload("the payload does not say where the agent stands")
    around = [root for root in roots if _is_below(cwd, root)]
    if roots and not around:
        raise Payload(f"the call stands in {cwd!r}, outside the agent's workspaces")
    return cwd, max(around, key=len, default="")


def _is_below(path: str, root: str) -> bool:
    names, above = ([name for name in posixpath.normpath(one).split("/") if name] for one in (path, root))
    return names[: len(above)] == above


def is_shell(asked: Asked) -> bool:
    return asked.call.tool.lower() in SHELLS


def told_place(asked: Asked) -> str:
    """Where a shell call says that its line is to begin; nothing where it leaves that to its agent."""
    told = next((found for name in ("workdir", "dir_path") if (found := asked.call.input.get(name))), "")
    if not is_shell(asked):
        return ""
    if not isinstance(told, str) or "\0" in told:
        raise Payload("where the call is to begin is not a text")
    return told


def takes_no_other(asked: Asked) -> bool:
    """Whether the call runs as it came or not at all: these events of Cursor's have no way to change it."""
    return asked.event in ("beforeShellExecution", "beforeReadFile", "beforeTabFileRead")


def must_stand_inside(asked: Asked, told: bool) -> bool:
    """Whether a call that begins outside of the workspace is not to be made: one that runs as it came, or where another
    than the agent chose the place; and a patch, which names its files from there. A line else begins in the workspace
    that somebody was `told`."""
    return takes_no_other(asked) or (bool(asked.root) and not told) or is_patch(asked.call)


def writes_unheld(asked: Asked) -> bool:
    """Whether the call may write what no sandbox keeps: by a tool of the agent's own, or by a line as it came."""
    return takes_no_other(asked) if is_shell(asked) else asked.call.tool.lower() not in READS | LISTS


def without_escapes(given: dict[str, object], merged: bool, shell: bool) -> dict[str, object]:
    """The input without the words that switch a sandbox off; where an agent lays ours over its own, they are false.

    With a shell line goes no object: what it would tell the agent to do beside (Claude Code's `_simulatedSedEdit`
    writes a file in place of running the line) nobody has judged, and no sandbox holds.
    """
    odd = [name for name, value in given.items() if name in ESCAPES or (shell and isinstance(value, dict))]
    kept = {name: value for name, value in given.items() if name not in odd}
    return kept | dict.fromkeys(odd, False) if merged else kept


def answer(agent: str, asked: Asked, made: Judgement) -> Answer:
    """A judgement in the agent's own words."""
    reason = "; ".join(made.reasons)
    if made.verdict is Verdict.DENY or (made.verdict is Verdict.ASK and agent not in CAN_ASK):
        return denial(agent, f"ringfence: {reason}")
    given = without_escapes(made.input, merged=agent == "gemini", shell=is_shell(asked))
    if given == asked.call.input and made.verdict is Verdict.ALLOW:
        # Nothing to add: the agent's own rules go on. Cursor and the extensions want a word all the same.
        return Answer(0, _PASSES.get(agent, {}))
    word = made.verdict.word
    moved = is_shell(asked) and not takes_no_other(asked)
    plain = "it runs inside the sandbox" if moved else "it may run as it is"
    reason = f"ringfence: {reason or plain}"
    if agent in ("opencode", "pi"):
        return Answer(0, {"verdict": word, "reason": reason, "input": given})
    if agent == "gemini":
        return Answer(0, {"decision": word, "reason": reason, "hookSpecificOutput": _gemini(given)})
    if agent == "cursor":
        said: dict[str, object] = {"permission": word, "user_message": reason, "agent_message": reason}
        return Answer(0, said | {"updated_input": given} if asked.event == "preToolUse" else said)
    if asked.camel:
        said = {"permissionDecision": word, "permissionDecisionReason": reason}
        return Answer(0, said if given == asked.call.input else said | {"modifiedArgs": given})
    specific = {"hookEventName": "PreToolUse", "permissionDecision": word, "permissionDecisionReason": reason}
    return Answer(0, {"hookSpecificOutput": {**specific, "updatedInput": given}})


_PASSES: dict[str, dict[str, object]] = {
    "cursor": {"permission": "allow"},
    "opencode": {"verdict": "allow"},
    "pi": {"verdict": "allow"},
}


def _gemini(given: dict[str, object]) -> dict[str, object]:
    return {"hookEventName": "BeforeTool", "tool_input": given}


def denial(agent: str, reason: str) -> Answer:
    """No, in the way that an agent honours. It always has a reason: without one Codex and Gemini run the call."""
    reason = reason.strip() or "ringfence: denied"
    if agent == "cursor":
        return Answer(0, {"permission": "deny", "user_message": reason, "agent_message": reason})
    if agent in ("opencode", "pi"):
        return Answer(0, {"verdict": "deny", "reason": reason})
    if agent == "gemini":
        return Answer(2, {"decision": "deny", "reason": reason}, reason)
    said = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    native: dict[str, object] = {"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}}
    return Answer(2, {**said, **native} if agent == "copilot" else native, reason)
