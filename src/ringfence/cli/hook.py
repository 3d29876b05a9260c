"""`ringfence hook AGENT`: an agent's question on standard input, our answer in the way that it honours.

Nothing here lets a call through by accident: an error, a payload that is not understood and the end of our time are
each a denial with a text. A shell line that is not denied is rewritten to run inside the sandbox, so that the boundary
holds whatever was missed when it was read. Nothing is imported before it is needed: an agent waits.
"""

import os
import sys

TYPE_CHECKING = False  # typing itself would take three milliseconds
if TYPE_CHECKING:
    from ..guard import Judgement
    from ..guard.agents import Answer, Asked
    from .options import Option

TIME = 8.0  # seconds; less than the time limit that `install` gives each agent's hook
MOST_BYTES = 16_000_000
EXAMPLES = ("ringfence hook claude", "ringfence hook codex --workspace /work/project")
Given = tuple[int, bytes, bytes]  # exit code, standard output, standard error


def table() -> tuple["Option", ...]:
    from .options import OUTPUT, WORKSPACE

    return (*WORKSPACE, OUTPUT[-1])


def main(words: list[str]) -> int:
    """Answer one question."""
    agent = next((word for word in words if not word.startswith("-")), "")
    _end_in_time(agent)
    if "--help" in words or "-h" in words:
        from .options import render_help

        print(render_help("hook AGENT [options]", "Answers an agent's question before a tool call.", table(), EXAMPLES))
        return 0
    try:
        if agent == "codex":
            os.environ["PWD"] = os.getcwd()  # where it stands: it starts us there, and nowhere else says so
        data = _read(0)
        if agent == "claude" and b'"Worktree' in data:  # perhaps
            about = _worktree(words, data)
            if about is not None:
                return _give(about)
        if not os.environ.get("XDG_RUNTIME_DIR"):  # where nothing stays
            return _give(answer(words, data, dict(os.environ), program()))
        from . import warm

        path = warm.place()
        before = warm.stamp(path)
        given = warm.ask(path, words, data, program()) if path else None
        if given is not None:
            return _give(given)
        code = _give(answer(words, data, dict(os.environ), program()))
        if path:
            warm.stay(path, answer, before)
        return code
    except BaseException as error:  # noqa: BLE001  # whatever went wrong, the call must not run because of it
        return _give(no(agent, f"the hook failed, so the call is denied: {type(error).__name__}: {error}"))


def answer(words: list[str], data: bytes, environ: dict[str, str], program: str) -> Given:
    """The answer to one question; whatever goes wrong is a denial."""
    agent = next((word for word in words if not word.startswith("-")), "")
    try:
        return _answer(words, data, environ, program)
    except Exception as error:  # noqa: BLE001
        return no(agent, f"the hook failed, so the call is denied: {type(error).__name__}: {error}")


def _answer(words: list[str], data: bytes, environ: dict[str, str], program: str) -> Given:
    from .. import _doorstep

    _doorstep.before_msgspec()
    import msgspec

    from ..guard import agents
    from .options import one, parse

    values, rest = parse(words, table())
    if rest:
        values, tail = parse(rest[1:], table(), values)
        rest = rest[:1] + tail
    if len(rest) != 1 or rest[0] not in agents.AGENTS:
        return no("", f"hook needs one of: {', '.join(agents.AGENTS)}")
    asked = agents.read(rest[0], msgspec.json.decode(data))
    if asked is None:
        return 0, b"", b""
    if rest[0] == "codex":  # whose `cwd` is where the call is to begin, and that is the model's word
        asked = msgspec.structs.replace(asked, root=environ.get("PWD") or asked.cwd)
    as_root = ["--as-root"] if "--as-root" in values else []
    made = judged(rest[0], asked, one(values, "--workspace") or "", environ, [program, "run", *as_root])
    stderr = made.stderr.encode("utf-8", "replace") + b"\n" if made.stderr else b""
    return made.code, msgspec.json.encode(made.stdout) if made.stdout else b"", stderr


def _worktree(words: list[str], data: bytes) -> Given | None:
    """Claude's own worktrees. It may take a while to make one, and nothing runs meanwhile, so there is no hurry. None
    when it asks something else, in which such a word stands."""
    import _signal  # type: ignore[import-not-found]

    from .worktree import answer as worktree
    from .worktree import is_about

    if not is_about(data):
        return None
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    return worktree(data, "--as-root" in words)


def judged(agent: str, asked: "Asked", workspace: str, environ: dict[str, str], run: list[str]) -> "Answer":
    """The judge's answer, with the shell line moved into the sandbox."""
    import msgspec

    from ..guard import ToolCall, agents, judge
    from ..guard.judge import BLANKS, line_key, prefixed
    from ..guard.rewrite import unwrapped, wrapped
    from ..judging import bounds_for_agent
    from ..model import Verdict

    unheld = agents.writes_unheld(asked)
    bounds = bounds_for_agent(asked.cwd, workspace or asked.root, environ, bool(workspace), unheld, asked.root)
    if agents.takes_no_other(asked):
        bounds = msgspec.structs.replace(bounds, held=False)
    if bounds.start != os.path.realpath(asked.cwd) and agents.must_stand_inside(asked, bool(workspace)):
        return agents.denial(
            agent, f"ringfence: the call stands in {asked.cwd!r}, outside the workspace ({bounds.root})"
        )
    told = agents.told_place(asked)
    if told:  # by the model, so it chooses where to begin in the workspace, and not the workspace
        here = os.path.realpath(os.path.join(asked.cwd, told))
        if not bounds.has(here):
            return agents.denial(agent, f"ringfence: the call would begin in {told!r}, outside ({bounds.root})")
        bounds = msgspec.structs.replace(bounds, start=here)
    key = line_key(asked.call)
    line = asked.call.input.get(key)
    if not agents.is_shell(asked) or not isinstance(line, str) or not line.strip(BLANKS):
        made = judge(asked.call, bounds)
        if made.verdict is Verdict.ALLOW and not made.findings and bounds.start != os.path.realpath(asked.cwd):
            why = f"it names no path, and the agent stands in {asked.cwd!r}, outside the workspace ({bounds.root})"
            made = msgspec.structs.replace(made, verdict=Verdict.DENY, reasons=(why,))
        return agents.answer(agent, asked, _recorded(asked, made, bounds.root))
    # What is run begins where the agent stands, wherever the call does: there its settings are, and stay as they are.
    stands = os.path.realpath(asked.root or asked.cwd)
    lead = prefixed("", stands) if stands != bounds.start and bounds.has(stands) else ""
    prefix = [*run, "--workspace", bounds.root, "--quiet", "--"]
    rest = line.removeprefix(lead)
    inner = unwrapped(rest, prefix)
    inner = line if inner == rest else inner
    made = judge(ToolCall(asked.call.tool, {**asked.call.input, key: inner}), bounds)
    if made.verdict is Verdict.ASK and agent not in agents.CAN_ASK:
        if bounds.held:  # inside the sandbox it can do no harm
            made = msgspec.structs.replace(made, verdict=Verdict.ALLOW)
        else:
            why = "nobody can be asked, and without 'enforcement = required' nothing is sure to hold it"
            made = msgspec.structs.replace(made, verdict=Verdict.DENY, reasons=(*made.reasons, why))
    made = _recorded(asked, made, bounds.root)
    if made.verdict is Verdict.DENY or agents.takes_no_other(asked):
        return agents.answer(agent, asked, made)
    begun = prefixed(inner, bounds.start) if inner == line else inner
    moved = {**made.input, key: lead + wrapped(begun, prefix)}
    return agents.answer(agent, asked, msgspec.structs.replace(made, input=moved))


def _recorded(asked: "Asked", made: "Judgement", root: str) -> "Judgement":
    """A denial is in the audit log before anybody hears of it; when that failed, it says so."""
    from ..model import Verdict

    if made.verdict is not Verdict.DENY:
        return made
    import msgspec

    from .. import record

    said = next((text for text in asked.call.input.values() if isinstance(text, str)), "")
    why = record.call_refused(root, asked.call.tool, said, made.reasons)
    extra = (f"this is not in the audit log: {why}",) if why else ()
    return msgspec.structs.replace(made, reasons=(*made.reasons, *extra))


def program() -> str:
    """Ourselves, by one absolute path: the script that was called, beside the interpreter that runs us."""
    name = os.path.abspath(sys.argv[0])
    if os.path.basename(name) == "ringfence" and os.access(name, os.X_OK):
        return name
    return os.path.join(os.path.dirname(sys.executable), "ringfence")


def _read(descriptor: int) -> bytes:
    parts, size = [], 0
    while part := os.read(descriptor, 1 << 16):
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise ValueError("the payload is too long")
    return b"".join(parts)


def _give(given: Given) -> int:
    """Write an answer out whole. What cannot be written is a denial by the exit code, as far as that goes."""
    code, out, err = given
    try:
        for descriptor, data in ((1, out), (2, err)):
            while data:
                data = data[os.write(descriptor, data) :]  # noqa: PLW2901
    except OSError:
        return 2
    return code


def no(agent: str, reason: str) -> Given:
    """A denial without any help, for what failed may be an import. The words are those of `guard.agents.denial`."""
    text = _in_json(f"ringfence: {reason}")
    said = f"ringfence: {reason}\n".encode("utf-8", "replace")
    if agent == "cursor":
        return 0, f'{{"permission":"deny","user_message":{text},"agent_message":{text}}}'.encode(), b""
    if agent in ("opencode", "pi"):
        return 0, f'{{"verdict":"deny","reason":{text}}}'.encode(), b""
    if agent == "gemini":
        return 2, f'{{"decision":"deny","reason":{text}}}'.encode(), said
    both = f'"permissionDecision":"deny","permissionDecisionReason":{text}'
    own = f"{both}," if agent == "copilot" else ""
    return 2, f'{{{own}"hookSpecificOutput":{{"hookEventName":"PreToolUse",{both}}}}}'.encode(), said


def _in_json(text: str) -> str:
    plain = {'"': '\\"', "\\": "\\\\"}
    return f'"{"".join(plain.get(char) or _escaped(char) for char in text)}"'


def _escaped(char: str) -> str:
    return char if 32 <= ord(char) < 127 else f"\\u{min(ord(char), 0xFFFD):04x}"


def _end_in_time(agent: str) -> None:
    """A hook that takes too long is let pass by most agents, so ours says no in time."""
    import _signal  # `signal` makes an enum of them all, in half a millisecond

    def late(*_: object) -> None:
        os._exit(_give(no(agent, f"the hook took more than {TIME:g} seconds, so the call is denied")))

    _signal.signal(_signal.SIGALRM, late)
    _signal.setitimer(_signal.ITIMER_REAL, TIME)
