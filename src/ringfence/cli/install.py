"""`ringfence install`, `uninstall`, `status`: our hook in an agent's settings, and the proof that its deny denies."""

import contextlib
import os
import subprocess
import tempfile

import msgspec

from ..guard.installing import SITES, command, has_hook, hook_words, unread, with_hook, without_hook
from ..guard.jsonc import NotSettings
from ..guard.switches import FILES, VARIABLES, switched_off
from ..model import PlanError, UsageError
from .hook import program
from .options import OUTPUT, Option, Values, one, parse_around, printable, render_help, say

TABLE = (
    Option("--project", "DIR", "in the settings of this project, and not in the user's"),
    Option("--as-root", "", "install: let the hook's commands stay root in a workspace that belongs to root"),
    *OUTPUT,
)
BACKUP = ".before-ringfence"
EXAMPLES = {
    "install": ("ringfence install claude", "ringfence install codex --project ."),
    "uninstall": ("ringfence uninstall claude", "ringfence uninstall codex --project ."),
    "status": ("ringfence status", "ringfence status --json"),
}
CODES = (
    "The exit code is 1 when a hook is installed and does not deny, is switched off by settings of its agent, or is\n"
    "in settings that cannot be read."
)
ABOUT = {
    "install": f"Puts ringfence's hook into an agent's settings, and proves that it denies.\n{CODES}",
    "uninstall": "Takes ringfence's hook out of an agent's settings again.",
    "status": f"Says which agents have ringfence's hook, and whether it denies.\n{CODES}",
}


def main(verb: str, words: list[str]) -> int:
    """One of the three verbs."""
    values, rest = parse_around(words, TABLE)
    if "--help" in values:
        agent = "[AGENT]" if verb == "status" else "AGENT"
        print(render_help(f"{verb} {agent} [options]", ABOUT[verb], TABLE, EXAMPLES[verb]))
        return 0
    if len(rest) > 1 or any(agent not in SITES for agent in rest) or (not rest and verb != "status"):
        raise UsageError(verb, f"takes one agent: {', '.join(SITES)}", hint=f"ringfence {verb} claude")
    acts = {"install": install, "uninstall": uninstall, "status": status}
    rows = [acts[verb](agent, values) for agent in rest or SITES]
    if "--json" in values:
        from .render import dump

        print(dump({"schema": "ringfence/hooks@1", "agents": rows}))
    else:
        for row in rows:
            print(printable(f"{row['agent']}: {row['what']} ({row['file']})"))
            for note in msgspec.convert(row["notes"], list[str]):
                say(f"  {note}")
    return 0 if all(row["ok"] for row in rows) else 1


def file_of(agent: str, values: Values) -> str:
    project = one(values, "--project")
    if project is not None:
        if not os.path.isdir(project):
            raise UsageError(
                "--project", f"{project} is not a directory", hint="it is the project's own, as in --project ."
            )
        return os.path.join(os.path.realpath(project), SITES[agent].project)
    home = os.environ.get("HOME", "")
    if not os.path.isabs(home):
        raise UsageError("HOME", "is not set", hint="name a project with --project")
    return os.path.join(home, SITES[agent].user)


def row(agent: str, what: str, file: str, ok: bool, *notes: str) -> dict[str, object]:
    return {"agent": agent, "what": what, "file": file, "ok": ok, "notes": [note for note in notes if note]}


def install(agent: str, values: Values) -> dict[str, object]:
    """Write it, once, and try it."""
    file, as_root = file_of(agent, values), "--as-root" in values
    before = read(file)
    after = wanted(agent, file, before or "", as_root)
    if why := unread(after, agent):
        hint = "take out its comments, and commas before a closing bracket; nothing was changed"
        raise PlanError(file, f"is not read by {agent}, which knows plain JSON alone: {why}", hint=hint)
    if after != before:
        if before is not None and not is_there(agent, before):
            write(file + BACKUP, before)
        write(file, after)
    refusal = canary(agent, as_root) or unasked(agent, values)
    if refusal:
        return row(agent, f"installed, but {refusal}", file, False)
    weak = (
        ""
        if SITES[agent].blocks
        else f"{agent} lets a call through when its hook and the shell around it are killed; see docs/hooks.md"
    )
    done = "was installed already" if after == before else "installed"
    return row(agent, f"{done}; a deny denies", file, True, SITES[agent].note, weak)


def wanted(agent: str, file: str, text: str, as_root: bool) -> str:
    """The settings with our hook; for an extension the whole file."""
    if SITES[agent].path:
        try:
            return with_hook(text, agent, program(), as_root)
        except NotSettings as error:
            raise PlanError(file, f"is not JSON: {error}", hint="mend it first; nothing was changed") from None
    kind = "opencode.js" if agent == "opencode" else "pi.ts"
    with open(os.path.join(os.path.dirname(__file__), "extensions", kind), encoding="utf-8") as source:
        made = source.read()
    escaped = msgspec.json.encode(program()).decode()[1:-1]
    return made.replace("@PROGRAM@", escaped).replace(
        "@WORDS@", msgspec.json.encode(hook_words(agent, as_root)).decode()
    )


def uninstall(agent: str, values: Values) -> dict[str, object]:
    """Take it out; where nothing else was changed meanwhile the file gets its bytes back."""
    file = file_of(agent, values)
    now = read(file)
    try:
        if now is None or not is_there(agent, now):
            return row(agent, "was not installed", file, True)
    except NotSettings as error:
        raise PlanError(file, f"is not JSON: {error}", hint="mend it first; nothing was changed") from None
    kept = file + BACKUP
    before = read(kept)
    for as_root in (False, True):
        if now == wanted(agent, file, before or "", as_root):
            if before is None:
                remove(file, agent, values)
            else:
                write(file, before)
            break
    else:
        write(file, without_hook(now, agent)) if SITES[agent].path else remove(file, agent, values)
    if os.path.exists(kept):
        os.unlink(kept)
    return row(agent, "uninstalled", file, True)


def remove(file: str, agent: str, values: Values) -> None:
    """Our file, and the directories on its way that are empty then: `write` makes those that are not there."""
    os.unlink(os.path.realpath(file))  # a link to where nothing was is not ours
    site = SITES[agent].user if one(values, "--project") is None else SITES[agent].project
    with contextlib.suppress(OSError):  # the first that has something else in it, or is a link, stays with all above
        for _ in range(site.count("/")):
            file = os.path.dirname(file)
            os.rmdir(file)


def is_there(agent: str, text: str) -> bool:
    return has_hook(text, agent) if SITES[agent].path else "ringfence" in text


def status(agent: str, values: Values) -> dict[str, object]:
    file = file_of(agent, values)
    try:
        text = read(file)
        if text is None or not is_there(agent, text):
            return row(agent, "not installed", file, True)
    except (OSError, PlanError, NotSettings) as error:  # nor does the agent know, as a rule; the others are told of
        why = error.what if isinstance(error, PlanError) else getattr(error, "strerror", "") or f"is not JSON: {error}"
        return row(agent, f"not known: its settings cannot be read: {why}", file, False)
    why = unread(text, agent)
    refusal = f"{agent} knows plain JSON alone, and reads none of it: {why}" if why else ""
    refusal = refusal or canary(agent, "--as-root" in text) or unasked(agent, values)
    return row(agent, f"installed; {refusal or 'a deny denies'}", file, not refusal)


def unasked(agent: str, values: Values) -> str:
    """By which settings the agent asks no hook: of the user, of the project or of where one stands, of the machine."""
    word = VARIABLES.get(agent, "")
    if os.environ.get(word, "").lower() not in ("", "0", "false"):
        return f"{agent} does not ask it: the variable {word} is set"
    mine, projects, machines = FILES.get(agent, ((), (), ()))
    home, project = os.environ.get("HOME", "/"), os.path.realpath(one(values, "--project") or ".")
    files = [os.path.join(place, name) for place, names in ((home, mine), (project, projects)) for name in names]
    for file in (*files, *machines):
        try:
            found = switched_off(agent, read(file) or "")
        except (OSError, PlanError):
            found = "what cannot be read"
        if found:
            return f"{agent} does not ask it, by {found} in {file}"
    return ""


def canary(agent: str, as_root: bool) -> str:
    """Ask the installed hook about a write outside, in the agent's own words; what is wrong with its answer."""
    with tempfile.TemporaryDirectory() as place:
        line = "echo canary > /ringfence-canary"
        tool = {"gemini": "run_shell_command", "cursor": "Shell"}.get(agent, "Bash")
        event = {"gemini": "BeforeTool", "cursor": "preToolUse", "opencode": "tool.execute.before", "pi": "tool_call"}
        asked: dict[str, object] = {"hook_event_name": event.get(agent, "PreToolUse"), "cwd": place}
        asked |= {"tool_name": tool, "tool_input": {"command": line}}
        if agent == "copilot":
            asked = {"sessionId": "canary", "cwd": place, "toolName": "bash", "toolArgs": {"command": line}}
        for data in (msgspec.json.encode(asked), b"{"):
            try:
                words = command(agent, program(), as_root)
                done = subprocess.run(words, input=data, capture_output=True, timeout=10, cwd=place)
            except (OSError, subprocess.SubprocessError) as error:
                return f"the hook does not run: {error}"
            if not denies(agent, done.returncode, done.stdout, done.stderr):
                return "the hook does not deny what it must deny"
    return ""


def denies(agent: str, code: int, stdout: bytes, stderr: bytes) -> bool:
    """Whether an agent takes an answer for a no; docs/hooks.md has the table this follows."""
    try:
        said = msgspec.json.decode(stdout, type=dict[str, object])
    except msgspec.MsgspecError:
        return False
    if agent in ("cursor", "opencode", "pi"):
        return code == 0 and said.get("permission" if agent == "cursor" else "verdict") == "deny"
    if agent == "gemini":
        word = said.get("decision")
    elif agent == "copilot":
        word = said.get("permissionDecision")
    else:
        specific = said.get("hookSpecificOutput")
        word = specific.get("permissionDecision") if isinstance(specific, dict) and "decision" not in said else ""
    return code == 2 and bool(stderr.strip()) and word == "deny"


def read(file: str) -> str | None:
    try:
        with open(file, encoding="utf-8", newline="") as source:
            return source.read()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise PlanError(file, "is not UTF-8", hint="nothing was changed") from None


def write(file: str, text: str) -> None:
    """A whole file at once, with the mode it had."""
    os.makedirs(os.path.dirname(file), exist_ok=True)
    real = os.path.realpath(file)  # a link to a file of dotfiles stays a link
    mode = os.stat(real).st_mode & 0o777 if os.path.exists(real) else 0o600
    try:
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(real))
    except OSError as error:
        raise PlanError(real, f"cannot be replaced: {error.strerror}", hint="nothing was changed") from None
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as target:
            target.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, real)
    except BaseException:
        os.unlink(temporary)
        raise
