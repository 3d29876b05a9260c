"""Where each agent keeps its hooks, and what ours looks like there. Pure: texts in, texts out."""

import msgspec

from . import jsonc
from .rewrite import quoted

PATIENCE = 300  # seconds to make or save a worktree
SECONDS = 15  # the agent's own limit; ours is shorter, because most agents let a call pass when a hook is late
# Codex, Gemini and Copilot take a hook that was killed, is missing or is late for a yes, or one of these. A shell
# around it says no instead: whatever ends it, and when it has not ended by itself one second after it should have.
GUARD = (
    '[ -x /usr/bin/timeout ] && set -- /usr/bin/timeout -s KILL 9 "$@"; "$@" && exit; '
    '[ $? = 2 ] || echo "ringfence: the hook did not answer, so the call is denied" >&2; exit 2'
)


class Site(msgspec.Struct, frozen=True):
    """One agent's settings: the file, for a user and for a project, and the array that holds its hooks."""

    user: str  # below the home
    project: str  # below the project
    path: tuple[str, ...] = ()  # empty: the whole file is ours
    more: tuple[tuple[str, ...], ...] = ()  # where the agent asks for worktrees
    blocks: bool = False  # the agent itself makes no call when a hook fails or is late
    comments: bool = False  # it reads JSON with comments; else a file that has one is none to it, without a word
    note: str = ""


SITES = {
    "claude": Site(
        ".claude/settings.json",
        ".claude/settings.json",
        ("hooks", "PreToolUse"),
        (("hooks", "WorktreeCreate"), ("hooks", "WorktreeRemove")),
        True,
    ),
    "codex": Site(
        ".codex/hooks.json",
        ".codex/hooks.json",
        ("hooks", "PreToolUse"),
        note="Codex runs a hook only after you trust it: start codex, type /hooks, and trust the one of ringfence",
    ),
    "gemini": Site(".gemini/settings.json", ".gemini/settings.json", ("hooks", "BeforeTool"), comments=True),
    "copilot": Site(".copilot/hooks/ringfence.json", ".github/hooks/ringfence.json", ("hooks", "preToolUse")),
    "cursor": Site(".cursor/hooks.json", ".cursor/hooks.json", ("hooks", "preToolUse"), blocks=True),
    "opencode": Site(".config/opencode/plugin/ringfence.js", ".opencode/plugin/ringfence.js", blocks=True),
    "pi": Site(".pi/agent/extensions/ringfence.ts", ".pi/extensions/ringfence.ts", blocks=True),
}

_CLAUDE_TOOLS = (
    "Bash|Read|Write|Edit|MultiEdit|NotebookEdit|Glob|Grep|LSP|Monitor|PowerShell"
    "|SendFile|SendUserFile|Artifact|ArtifactData|ArtifactCheck|EnterWorktree|Skill"
)
_CODEX_TOOLS = "Bash|apply_patch|view_image"
_GEMINI_TOOLS = "run_shell_command|write_file|replace|read_file|read_many_files|list_directory|glob|grep_search"
_GEMINI_TOOLS += "|search_file_content"  # to Gemini the same tool as the last, and its hooks get the name as asked
_CURSOR_TOOLS = "Shell|Read|Write|Edit|Delete|Grep|Glob|LS"
_CURSOR_TOOLS += "|StrReplace|ApplyPatch|EditNotebook|MultiEdit"  # as its model is told; hooks mostly get `Write`
_COPILOT_TOOLS = "^(?:bash|create|edit|view|grep|rg|glob|lsp|apply_patch|str_replace_editor|powershell)$"


def hook_words(agent: str, as_root: bool) -> list[str]:
    return ["hook", agent, *(["--as-root"] if as_root else [])]


def command(agent: str, program: str, as_root: bool) -> list[str]:
    """What an agent is told to run."""
    words = [program, *hook_words(agent, as_root)]
    return ["/bin/sh", "-c", GUARD, "sh", *words] if agent in ("codex", "gemini", "copilot") else words


def element(agent: str, program: str, as_root: bool) -> dict[str, object]:
    """Our hook as it stands in an agent's settings."""
    first, *words = command(agent, program, as_root)
    line = " ".join(map(quoted, [first, *words]))
    if agent == "claude":
        made = {"type": "command", "command": first, "args": words, "timeout": SECONDS, "onFailure": "block"}
        return {"matcher": _CLAUDE_TOOLS, "hooks": [made]}
    if agent == "codex":
        return {"matcher": _CODEX_TOOLS, "hooks": [{"type": "command", "command": line, "timeout": SECONDS}]}
    if agent == "gemini":
        made = {"type": "command", "name": "ringfence", "command": line, "timeout": SECONDS * 1000}
        return {"matcher": _GEMINI_TOOLS, "hooks": [made]}
    if agent == "copilot":
        return {"type": "command", "exec": first, "args": words, "timeoutSec": SECONDS, "matcher": _COPILOT_TOOLS}
    return {"command": line, "matcher": _CURSOR_TOOLS, "timeout": SECONDS, "failClosed": True}


def is_ours(text: str, agent: str) -> bool:
    """Whether a hook in somebody's settings is one of ours, whichever program it names."""
    found = msgspec.json.decode(plain(text))
    return isinstance(found, dict) and any(_calls_us(words, agent) for words in _commands(found))


def plain(text: str) -> str:
    """Settings without their comments, as a parser wants them."""
    return _rendered(text, jsonc.scan(text))


def _rendered(text: str, value: jsonc.Value) -> str:
    if value.kind == "{":
        names = (f"{msgspec.json.encode(key).decode()}:{_rendered(text, member)}" for key, _, member in value.members)
        return "{" + ",".join(names) + "}"
    if value.kind == "[":
        return "[" + ",".join(_rendered(text, member) for _, _, member in value.members) + "]"
    return text[value.start : value.end]


def _commands(found: dict[str, object]) -> list[list[str]]:
    """The command lines of a hook: a program with arguments, or one text."""
    inner = found.get("hooks")
    nested = [_commands(hook) for hook in inner if isinstance(hook, dict)] if isinstance(inner, list) else []
    program, arguments = found.get("exec", found.get("command")), found.get("args")
    own = [str(program), *map(str, arguments)] if isinstance(arguments, list) else str(program).split()
    return [words for group in nested for words in group] + [own]


def _calls_us(words: list[str], agent: str) -> bool:
    tail = [word.strip("'\"") for word in words]
    return any(
        one.rpartition("/")[2] == "ringfence" and [two, three] == ["hook", agent]
        for one, two, three in zip(tail, tail[1:], tail[2:], strict=False)
    )


def with_hook(text: str, agent: str, program: str, as_root: bool) -> str:
    """An agent's settings with our hooks in them, each once; other hooks, comments and spacing stay as they are."""
    if not text.strip() and agent in ("copilot", "cursor"):
        text = '{"version": 1}\n'
    text = _with_one(text, agent, SITES[agent].path, element(agent, program, as_root))
    for path in SITES[agent].more:
        made = {"type": "command", "command": program, "args": hook_words(agent, as_root), "timeout": PATIENCE}
        text = _with_one(text, agent, path, {"hooks": [made]})
    return text


def _with_one(text: str, agent: str, path: tuple[str, ...], wanted: dict[str, object]) -> str:
    ours = [(value, found) for value, found in jsonc.elements(text, path) if is_ours(found, agent)]
    if len(ours) == 1 and msgspec.json.decode(plain(ours[0][1])) == wanted:
        return text
    return jsonc.added(_without_one(text, agent, path), path, wanted)


def without_hook(text: str, agent: str) -> str:
    """An agent's settings without our hooks."""
    for path in (SITES[agent].path, *SITES[agent].more):
        text = _without_one(text, agent, path)
    return text


def _without_one(text: str, agent: str, path: tuple[str, ...]) -> str:
    while True:
        ours = [value for value, found in jsonc.elements(text, path) if is_ours(found, agent)]
        if not ours:
            return text
        text = jsonc.cut(text, ours[0])


def unread(text: str, agent: str) -> str:
    """Why an agent cannot read these settings, and so asks no hook that is in them; nothing where it can."""
    if not SITES[agent].path or SITES[agent].comments:
        return ""
    try:
        msgspec.json.decode(text.removeprefix("\ufeff") if agent == "claude" else text)
    except msgspec.DecodeError as error:
        return str(error)
    return ""


def has_hook(text: str, agent: str) -> bool:
    return any(is_ours(found, agent) for _, found in jsonc.elements(text, SITES[agent].path))
