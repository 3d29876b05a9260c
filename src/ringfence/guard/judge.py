"""The judge of one tool call: allow, ask or deny, why, and the call as it should be made instead.

File tools are judged by their path, which becomes absolute. A shell line is judged by everything it reaches; an
allowed one is rewritten to begin in the worktree. What cannot be known is ASK and never ALLOW.
"""

import posixpath

import msgspec

from ..model import Access, Verdict
from .bounds import Bounds, Finding
from .quoting import in_quotes

# What a tool's name means, over all agents; the name is compared without case.
SHELLS = frozenset("bash shell run_shell_command exec_command local_shell run_terminal_cmd monitor".split())
READS = frozenset("read read_file cat open_file".split())
WRITES = frozenset("write edit create multiedit notebookedit write_file replace str_replace apply_diff delete".split())
LISTS = frozenset("view ls list glob grep find list_directory grep_search search read_many_files".split())
PATHS = (
    "file_path",
    "filePath",
    "path",
    "notebook_path",
    "absolute_path",
    "dir_path",
    "target_file",
    "target_directory",
)
LONGEST = 100_000


class ToolCall(msgspec.Struct, frozen=True):
    """What an agent wants to do."""

    tool: str
    input: dict[str, object]


class Judgement(msgspec.Struct, frozen=True):
    """What is said of one call."""

    verdict: Verdict
    reasons: tuple[str, ...]
    input: dict[str, object]  # the call as it should be made; as it came when it should not
    findings: tuple[Finding, ...] = ()


def judge(call: ToolCall, bounds: Bounds) -> Judgement:
    """What is to become of a call."""
    name = call.tool.lower()
    if name in SHELLS:
        return shell(call, bounds)
    if name == "apply_patch":
        return patch(call, bounds)
    if name in READS or name in LISTS:
        return file(call, bounds, Access.READ, name in READS)
    if name in WRITES:
        return file(call, bounds, Access.WRITE, False)
    return Judgement(Verdict.ASK, (f"what the tool {call.tool!r} does is not known",), call.input)


def shell(call: ToolCall, bounds: Bounds) -> Judgement:
    """A shell line."""
    command = call.input.get("command", call.input.get("cmd"))
    if not isinstance(command, str):
        return Judgement(Verdict.DENY, ("the call has no command that is a text",), call.input)
    if not command.strip():
        return Judgement(Verdict.ALLOW, (), call.input)
    if len(command) > LONGEST:
        return Judgement(Verdict.ASK, (f"a line of {len(command)} characters is not read",), call.input)
    from .reach import reach  # file tools do without

    walk = reach(command, bounds)
    findings = tuple(walk.findings.values())
    verdict = Verdict(max((finding.verdict for finding in findings), default=Verdict.ALLOW))
    reasons = tuple(
        finding.reason for finding in findings if finding.verdict == verdict and verdict is not Verdict.ALLOW
    )
    if verdict is not Verdict.ALLOW:
        return Judgement(verdict, reasons, call.input, findings)
    key = "command" if "command" in call.input else "cmd"
    rewritten = {**call.input, key: prefixed(command, bounds.start)}
    return Judgement(verdict, tuple(dict.fromkeys(walk.notes)), rewritten, findings)


def prefixed(command: str, directory: str) -> str:
    """The command, begun in a directory."""
    return f"cd {in_quotes(directory)} && {command}"


def file(call: ToolCall, bounds: Bounds, access: Access, lists_not: bool) -> Judgement:
    """A tool that reads or writes one path."""
    key = next((name for name in PATHS if name in call.input), "")
    path = call.input.get(key, "")
    if not isinstance(path, str) or "\0" in path:
        return Judgement(Verdict.DENY, ("the path is not a text",), call.input)
    if not path:
        if key or access is Access.READ:
            return Judgement(Verdict.ALLOW, (), call.input)  # the tool will look at the worktree, or say what it misses
        return Judgement(Verdict.ASK, (f"the tool {call.tool!r} names no path that is known",), call.input)
    if path.startswith("~"):
        return Judgement(Verdict.DENY, (f"{path!r} begins with a tilde, and tools read that differently",), call.input)
    found = judged_path(path, bounds, access)
    if found.verdict is Verdict.ALLOW and lists_not and bounds.is_directory(found.path):
        reason = f"{path!r} is a directory; list it with ls instead"
        return Judgement(Verdict.DENY, (reason,), call.input, (found,))
    if found.verdict is not Verdict.ALLOW:
        return Judgement(Verdict(found.verdict), (found.reason,), call.input, (found,))
    return Judgement(Verdict.ALLOW, (), {**call.input, key: found.path}, (found,))


def judged_path(path: str, bounds: Bounds, access: Access) -> Finding:
    """One path, made absolute in the worktree and looked at."""
    real = bounds.resolve(posixpath.join(bounds.start, path))
    decision = bounds.decide(access, real)
    inside = real == bounds.root or real.startswith(bounds.root.rstrip("/") + "/")
    if decision.verdict is Verdict.ALLOW and access is Access.READ and not inside and bounds.reads_free:
        # The rule without a policy: tools that open files stay in the worktree, as the shell's writing does.
        return Finding(Verdict.DENY, f"{path!r} is outside the worktree ({bounds.root})", access.value, real)
    if decision.verdict is not Verdict.ALLOW:
        return Finding(decision.verdict, f"{path!r}: {decision.reason}", access.value, real)
    return Finding(Verdict.ALLOW, "", access.value, real)


def patch(call: ToolCall, bounds: Bounds) -> Judgement:
    """A patch as Codex writes it: every file it names is written."""
    text = next((value for key in ("command", "input", "patch") if isinstance(value := call.input.get(key), str)), None)
    if text is None:
        return Judgement(Verdict.DENY, ("the call has no patch that is a text",), call.input)
    marks = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
    paths = [
        line[len(mark) :].strip() for line in text.splitlines() for mark in marks if line.lstrip().startswith(mark)
    ]
    paths = [path for path in paths if path]
    if not paths:
        return Judgement(Verdict.ASK, ("which files the patch changes is not known",), call.input)
    findings = tuple(judged_path(path, bounds, Access.WRITE) for path in paths)
    verdict = Verdict(max(finding.verdict for finding in findings))
    reasons = tuple(finding.reason for finding in findings if finding.reason)
    return Judgement(verdict, reasons, call.input, findings)
