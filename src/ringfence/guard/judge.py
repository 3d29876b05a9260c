"""The judge of one tool call: allow, ask or deny, why, and the call as it should be made instead.

File tools are judged by their path, which becomes absolute. A shell line is judged by everything it reaches; an
allowed one is rewritten to begin in the worktree. What cannot be known is ASK and never ALLOW.
"""

import posixpath
import re

import msgspec

from ..model import BUILT_IN, Access, Verdict
from .bounds import Bounds, Finding, runs_later
from .patterns import lazy
from .rewrite import in_quotes

# What a tool's name means, over all agents; the name is compared without case.
SHELLS = frozenset("bash shell run_shell_command exec_command local_shell run_terminal_cmd monitor".split())
READS = frozenset("read read_file cat open_file view_image sendfile senduserfile lsp".split())
WRITES = frozenset(
    "write edit create multiedit notebookedit write_file replace str_replace "
    "str_replace_editor strreplace editnotebook apply_diff delete".split()
)
LISTS = frozenset(
    "view ls list glob grep rg find list_directory grep_search search_file_content search read_many_files".split()
)
# Those that look at whole trees, and in which files' contents come along; by the agent itself, and not in the sandbox.
TREES = frozenset("glob find list grep rg grep_search search_file_content search read_many_files".split())
CONTENTS = TREES - {"glob", "find", "list"}
PUBLISHES = frozenset("artifact artifactdata artifactcheck".split())  # which send a file away, or fetch one
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
MANY = ("paths", "include", "files", "file_paths")  # lists of such
LINES = ("command", "cmd")
BLANKS = " \t\n"  # of which no shell makes a command; other characters that look like nothing are names of programs
STEERING = ("shell", "executable", "interpreter", "env", "environment")  # the model's word for what runs the line
PATTERNED = frozenset(("glob", "find"))
LONGEST = 100_000
MOST_PATHS = 1000
# Other words by which a tool may be told a path end so.
_LIKE_PATH = tuple(
    "path paths file files filename filenames dir directory folder uri destination dest target cwd".split()
)
# A line of a patch that names a file, as a reader takes it that forgives spaces and case.
_NAMES_FILE = lazy(r"(?is)\s*\*\*\*\s*(?:(?:add|update|delete)\s+file|move\s+to)\s*:[ \t]?(.*)\Z")


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
    if is_patch(call):
        return patch(call, bounds)
    if name == "enterworktree":
        return entered(call, bounds)
    if name == "skill":
        return skill(call, bounds)
    if name in READS or name in LISTS:
        return file(call, bounds, Access.READ, name in READS)
    if name in WRITES or name in PUBLISHES:
        return file(call, bounds, Access.WRITE, False)
    return Judgement(Verdict.ASK, (f"what the tool {call.tool!r} does is not known",), call.input)


def is_patch(call: ToolCall) -> bool:
    return call.tool.lower() in ("apply_patch", "applypatch")


def entered(call: ToolCall, bounds: Bounds) -> Judgement:
    """Claude Code goes to stand in another worktree, and the workspace is where it stands. It asks git which there are,
    and git believes what any command may have written into the repository. Not a question, which it does not put in
    all of its modes."""
    path = call.input.get("path")
    ways = (path, *readings(path)) if isinstance(path, str) else ("/",)
    real = [bounds.resolve(posixpath.join(bounds.start, way)) for way in ways]
    if not path or all(map(bounds.has, real)):
        return Judgement(Verdict.ALLOW, (), call.input)  # a new one is asked of us by a hook of its own
    why = f"it would move the agent, and its workspace with it, to {path!r}; start the agent there instead"
    return Judgement(Verdict.DENY, (why,), call.input)


def skill(call: ToolCall, bounds: Bounds) -> Judgement:
    """A skill runs programs, and gives leave for them, outside of the sandbox. Those at the top of the workspace no
    command can write; Claude Code also takes those that lie deeper, beside files that it has read."""
    found = bounds.skills()
    if not found:
        return Judgement(Verdict.ALLOW, (), call.input)
    reason = f"skills may come from {found!r}, which commands can write, and what a skill runs no sandbox holds"
    return Judgement(Verdict.ASK, (reason,), call.input)


def line_key(call: ToolCall) -> str:
    """Where a shell tool has its line."""
    return next((name for name in LINES if name in call.input), LINES[0])


def shell(call: ToolCall, bounds: Bounds) -> Judgement:
    """A shell line."""
    key = line_key(call)
    command = call.input.get(key)
    if sum(name in call.input for name in LINES) > 1:
        return Judgement(Verdict.DENY, ("the call has two commands, and which of them runs is not known",), call.input)
    if steered := [name for name in STEERING if call.input.get(name)]:
        return Judgement(Verdict.DENY, (f"the call itself says by its {steered[0]!r} what runs its line",), call.input)
    if not isinstance(command, str):
        return Judgement(Verdict.DENY, ("the call has no command that is a text",), call.input)
    if "\0" in command:
        return Judgement(Verdict.DENY, ("the line holds a NUL character, at which some would end it",), call.input)
    if not command.strip(BLANKS):
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
    rewritten = {**call.input, key: prefixed(command, bounds.start)}
    return Judgement(verdict, tuple(dict.fromkeys(walk.notes)), rewritten, findings)


def prefixed(command: str, directory: str) -> str:
    """The command, begun in a directory; as one group, where a part of it runs beside the rest, and takes the first
    `cd` with it."""
    if re.search(r"(?<![&<>])&(?![&>])", command):
        return f"cd {in_quotes(directory)} && {{\n{command}\n}}"
    return f"cd {in_quotes(directory)} && {command}"


def file(call: ToolCall, bounds: Bounds, access: Access, lists_not: bool) -> Judgement:
    """A tool that reads or writes paths. By which of its words it goes nobody knows here, so all of them are judged."""
    given = {name: call.input[name] for name in PATHS if name in call.input}
    listed = [value for name in MANY if (value := call.input.get(name))]
    many = [one for value in listed for one in (value if isinstance(value, list) else [value])]
    many += [
        name for one in many if isinstance(one, str) and one.lstrip()[:1] in _WRITTEN for name in _written_out(one)
    ]
    if call.tool.lower() in PATTERNED:
        many.append(call.input.get("pattern", ""))
    inner = [one[name] for one in _parts(call.input) for name in one if name.lower().endswith(_LIKE_PATH)]
    inner += [
        value
        for name, value in call.input.items()
        if name not in (*PATHS, *MANY) and name.lower().endswith(_LIKE_PATH) and value
    ]
    if any(isinstance(one, dict) for one in many) and call.tool.lower() in PUBLISHES:
        return Judgement(Verdict.ASK, ("which files it names is not known",), call.input)
    if not all(isinstance(path, str) and "\0" not in path for path in (*given.values(), *many, *inner)):
        return Judgement(Verdict.DENY, ("the path is not a text",), call.input)
    paths = {name: path for name, path in given.items() if isinstance(path, str) and path}
    base = next(iter(paths.values()), "")
    # From which of the other words, or from none of them, it goes on, nobody knows either.
    outward = [
        posixpath.join(start, one)
        for path in many[: MOST_PATHS + 1]
        if isinstance(path, str) and path
        for spelled in _spelled(path)
        for one in {_start(spelled), spelled}
        for start in ("", *paths.values())
    ]
    outward += [path for path in inner if isinstance(path, str) and path]
    if not paths and not outward:
        if _comes_upon_what_is_hidden(call.tool.lower(), bounds.start, bounds):
            return Judgement(Verdict.DENY, (_hidden_below(bounds.start),), call.input)
        if given or many or access is Access.READ or call.tool.lower() in PUBLISHES:
            return Judgement(Verdict.ALLOW, (), call.input)  # the tool will look at the worktree, or say what it misses
        return Judgement(Verdict.ASK, (f"the tool {call.tool!r} names no path that is known",), call.input)
    if len(paths) + len(outward) > MOST_PATHS:
        return Judgement(Verdict.DENY, (f"it names more than {MOST_PATHS} paths, which are not looked at",), call.input)
    found = {name: judged_path(path, bounds, access) for name, path in paths.items()}
    findings = (*found.values(), *(judged_path(path, bounds, access) for path in outward))
    for finding in sorted(findings, key=lambda finding: -finding.verdict):
        if finding.verdict is not Verdict.ALLOW:
            return Judgement(Verdict(finding.verdict), (finding.reason,), call.input, findings)
        if _comes_upon_what_is_hidden(call.tool.lower(), finding.path, bounds):
            return Judgement(Verdict.DENY, (_hidden_below(finding.path),), call.input, findings)
        if lists_not and bounds.is_directory(finding.path):
            reason = f"{base!r} is a directory; list it with ls instead"
            return Judgement(Verdict.DENY, (reason,), call.input, findings)
    rewritten = {**call.input, **{name: finding.path for name, finding in found.items()}}
    return Judgement(Verdict.ALLOW, (), rewritten, findings)


def _comes_upon_what_is_hidden(tool: str, path: str, bounds: Bounds) -> bool:
    return tool in (CONTENTS if bounds.has(path) else TREES) and bounds.hides(path)


def _hidden_below(path: str) -> str:
    return f"below {path!r} not everything may be read; search a narrower place, or by a shell line"


def _parts(given: object) -> list[dict[str, object]]:
    """The objects inside a call, such as the edits of one that makes several: each may name a file of its own."""
    inner = given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    found = [one for one in inner if isinstance(one, dict)]
    return found + [part for one in inner for part in _parts(one)]


def _spelled(pattern: str) -> list[str]:
    """What a pattern with braces stands for, `{.,}./x` for `../x`; the root, where that is too much. To some agents
    `[.]` is no more than its letter."""
    if len(pattern) > MOST_PATTERN or pattern.count("{") > MOST_SPELLED:  # each is looked for from the start
        return ["/"]
    waiting, found = [_LETTER.sub(r"\1", pattern)], list[str]()
    while waiting:
        one = waiting.pop()
        inner = _BRACES.search(one)
        if inner is None:
            found.append(one)
            continue
        waiting += [one[: inner.start()] + part + one[inner.end() :] for part in inner[1].split(",")]
        if len(waiting) + len(found) > MOST_SPELLED:
            return ["/"]
    return [pattern, *found]


_LETTER = lazy(r"\[(\\?[^]])(?:-\1)?\]")
_BRACES = lazy(r"\{([^{}]*)\}")
MOST_SPELLED, MOST_PATTERN = 256, 20_000


def _names(pattern: str) -> list[str]:
    return pattern.replace("{", "/").replace(",", "/").replace("}", "/").split("/")


def _start(pattern: str) -> str:
    """The directory that all it matches is below; of one that may lead anywhere, the root."""
    names = pattern.split("/")
    plain = next((at for at, name in enumerate(names) if any(char in name for char in "*?[{")), len(names))
    if (
        pattern.startswith(("{/", "{~"))
        or ",/" in pattern
        or ",~" in pattern
        or ".." in _names("/".join(names[plain:]))
    ):
        return "/"
    return "/".join(names[:plain]) or ("/" if pattern.startswith("/") else ".")


def judged_path(path: str, bounds: Bounds, access: Access) -> Finding:
    """One path, looked at in every way that a tool may read it; what is found is the path as it stands."""
    found = _judged(path, bounds, access)
    others = [_judged(other, bounds, access) for other in readings(path)]
    return max((found, *others), key=lambda finding: finding.verdict)


def readings(path: str) -> set[str]:
    """What else agents take a path for, be it in two of their ways at once (`@file:///x`)."""
    once = _read_otherwise(path)
    return once.union(*map(_read_otherwise, once)) - {path}


_WRITTEN = ("[", "{", '"')  # by which a text begins that holds others


def _written_out(path: str) -> list[str]:
    """The texts of a list that a model has written out as one text: some agents read that as the list."""
    try:
        waiting, found = [msgspec.json.decode(path)], list[str]()
    except (msgspec.MsgspecError, RecursionError):
        return []
    while waiting and len(found) <= MOST_PATHS:
        one = waiting.pop()
        found += [one] if isinstance(one, str) else []
        waiting += one if isinstance(one, list) else one.values() if isinstance(one, dict) else []
    return found if len(found) <= MOST_PATHS else ["/"]


def _read_otherwise(path: str) -> set[str]:
    """What else agents take a path for: some cut blanks off, or make odd ones plain, some decode letters, and to some
    `..` takes away the name before it, to the kernel what that leads to."""
    others = {path.strip(), path.removeprefix("@")}
    if address := _FILE_ADDRESS.match(path):  # whichever machine it names
        others |= {"/" + address[1]}
    if not path.isascii():
        import unicodedata  # few paths need it

        plain = "".join(" " if char.isspace() else char for char in path if char not in _UNSEEN)
        others |= {plain, plain.strip(), *(unicodedata.normalize(form, plain) for form in ("NFC", "NFD", "NFKC"))}
    if "'" in path:
        others |= {path.replace("'", "\u2019")}
    if "\\" in path:
        others |= {re.sub(r"\\(.)", r"\1", path), path.replace("\\", "/")}
    if "%" in path:
        others |= {re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), path)}
    if path.lstrip()[:1] in _WRITTEN:
        others |= set(_written_out(path))
    others |= {posixpath.normpath(other) for other in (path, *others) if ".." in other}
    return {other for other in others if other not in ("", path) and "\0" not in other}


# What a policy lets a command read below /proc and /dev is that of the sandbox. A file tool is no command: to the
# agent's own process `root` leads around every rule, `environ` holds its keys, and disks hold everything.
_OF_THE_MACHINE = lazy(r"/proc/(?:cpuinfo|meminfo|version|loadavg|uptime|filesystems)\Z|/dev/null\Z")
_PRIVATE = frozenset(("/tmp", "/var/tmp"))  # which the sandbox has of its own, by the built-in policy
# What agents put there of a line's output that is too long, and tell their model to read.
_OUTPUTS = lazy(r"/tmp/(?:claude-[^/]*/|pi-bash-[^/]*\.log\Z|[^/]*copilot-tool-output[^/]*\Z)")
_FILE_ADDRESS = lazy(r"(?is)\s*file:(?://[^/]*)?/?(.*?)\s*\Z")  # without a stroke, too, it begins at the root
_UNSEEN = "\u200b\u200c\u200d\u2060\ufeff"


def _judged(path: str, bounds: Bounds, access: Access) -> Finding:
    """One path, made absolute in the worktree and looked at."""
    if path.startswith("~"):
        return Finding(
            Verdict.DENY, f"{path!r} begins with a tilde, and tools read that differently", access.value, path
        )
    real = bounds.resolve(posixpath.join(bounds.start, path))
    if (real + "/").startswith(("/proc/", "/dev/")) and not _OF_THE_MACHINE.match(real):
        reason = f"{path!r} is below {real[:5].rstrip('/')}, where a tool of an agent sees what no line does"
        return Finding(Verdict.DENY, reason, access.value, real)
    decision = bounds.decide(access, real)
    is_inside = bounds.has(real)
    if decision.verdict is Verdict.ALLOW and access is Access.READ and not is_inside and bounds.reads_free:
        # The rule without a policy: tools that open files stay in the worktree, as the shell's writing does.
        return Finding(Verdict.DENY, f"{path!r} is outside the worktree ({bounds.root})", access.value, real)
    if decision.verdict is not Verdict.ALLOW:
        return Finding(decision.verdict, f"{path!r}: {decision.reason}", access.value, real)
    rule = decision.rule
    private = rule is not None and rule.origin == BUILT_IN and rule.path in _PRIVATE and not is_inside
    if rule is not None and private and (access is Access.WRITE or not _OUTPUTS.match(real)):
        reason = f"{path!r}: {rule.path} is the host's here; in the sandbox it is another, and no line finds this"
        return Finding(Verdict.ASK, reason, access.value, real)
    if access is Access.WRITE and real == bounds.root:
        return Finding(Verdict.DENY, f"{path!r} is the worktree itself", access.value, real)
    later = access is Access.WRITE and (runs_later(real) or runs_later(posixpath.join(bounds.start, path)))
    if later:
        return Finding(Verdict.ASK, f"{path!r}, {later}", access.value, real)
    return Finding(Verdict.ALLOW, "", access.value, real)


def patch(call: ToolCall, bounds: Bounds) -> Judgement:
    """A patch as Codex writes it: every file it names is written."""
    texts = [value for value in call.input.values() if isinstance(value, str)]
    if not texts or any(isinstance(value, dict | list) for value in call.input.values()):
        return Judgement(Verdict.DENY, ("the call has no patch that is a text",), call.input)
    if placed := [name for name in call.input if name.lower().endswith(_LIKE_PATH) and call.input[name]]:
        return Judgement(
            Verdict.ASK, (f"the call itself says by its {placed[0]!r} where the patch begins",), call.input
        )
    lines = [
        line for text in texts for line in (*text.split("\n"), *text.splitlines())
    ]  # as some end lines elsewhere too
    named = dict.fromkeys(found[1] for line in lines if (found := _NAMES_FILE.match(line)))
    paths = [path for name in named for path in dict.fromkeys((name, name.strip())) if path]
    if not paths:
        return Judgement(Verdict.ASK, ("which files the patch changes is not known",), call.input)
    if len(paths) > MOST_PATHS:
        return Judgement(Verdict.DENY, (f"it names more than {MOST_PATHS} paths, which are not looked at",), call.input)
    findings = tuple(judged_path(path, bounds, Access.WRITE) for path in paths)
    verdict = Verdict(max(finding.verdict for finding in findings))
    reasons = tuple(finding.reason for finding in findings if finding.reason)
    return Judgement(verdict, reasons, call.input, findings)
