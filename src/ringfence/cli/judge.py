"""`ringfence judge`: what is said of one tool call, or of many, before anything runs."""

import os
import stat
import sys

import msgspec

from ..guard import Bounds, Judgement, ToolCall, judge
from ..judging import bounds_of
from ..model import UsageError, Verdict
from .options import OUTPUT, POLICY, WORKSPACE, Option, Values, flags_of, give, one, parse, render_help

TABLE = (
    Option("--root", "DIR", "judge by the rule of this worktree alone: nothing outside it is written"),
    Option("--jsonl", "", "one call a line on standard input, one judgement a line on standard output"),
    *WORKSPACE,
    *POLICY,
    *OUTPUT,
)
EXAMPLES = (
    "ringfence judge bash 'cp a /etc/b'",
    "ringfence judge --root . write notes/today.md",
    "ringfence judge --jsonl < calls.jsonl",
)
ABOUT = """Says what is to become of a tool call, and why. The exit code is 0 for allow, and 1 for ask and for deny.
With --jsonl it is 0 when every line was judged, 2 when one was no call, and 125 when one could not be judged."""


class Line(msgspec.Struct):
    """One call of a batch."""

    tool: str
    input: dict[str, object]
    cwd: str = ""
    root: str = ""


class Judges:
    """The bounds of each root, made once; or those of the policy that was asked for."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.roots: dict[str, Bounds] = {}

    def __call__(self, root: str, cwd: str) -> Bounds:
        root = root or one(self.values, "--root") or ""
        key = root or f"policy {cwd}"
        if key not in self.roots:
            if len(self.roots) > 64:
                self.roots.clear()
            self.roots[key] = by_root(root) if root else by_policy(self.values, cwd)
        return self.roots[key]


def by_root(root: str) -> Bounds:
    if not os.path.isdir(root):
        raise UsageError(root, "the root is not a directory", hint="name the worktree with --root")
    return bounds_of(os.path.abspath(root), home=os.environ.get("HOME", ""))


def by_policy(values: Values, cwd: str) -> Bounds:
    from ..keep import load_policy
    from ..run import make_request

    here = cwd or os.getcwd()
    request = make_request(one(values, "--workspace"), here, flags_of(values), as_root=True)
    return bounds_of(request.workspace, load_policy(request), home=request.home)


def main(words: list[str]) -> int:
    """Judge; the exit code is as `--help` says."""
    values, rest = parse(words, TABLE)
    values, tail = parse(rest[2:], TABLE, values)  # the two as they are: a line may begin with a dash
    rest = rest[:2] + tail
    if "--help" in values:
        usage = "judge [options] TOOL COMMAND|PATH"
        print(render_help(usage, ABOUT, TABLE, EXAMPLES))
        return 0
    judges = Judges(values)
    if "--jsonl" in values:
        if rest:
            raise UsageError(rest[0], "is one word too many", hint="with --jsonl the calls come on standard input")
        return batch(judges)
    if len(rest) != 2:
        raise UsageError("judge", "needs a tool and a command or path", hint="ringfence judge bash 'cp a /etc/b'")
    key = "command" if rest[0].lower() in ("bash", "shell") else "file_path"
    made = judge(ToolCall(rest[0], {key: rest[1]}), judges("", ""))
    found = {"schema": "ringfence/judgement@1", **document(made)}
    give(values, found, made.verdict.word, *(f"  {reason}" for reason in made.reasons))
    return 0 if made.verdict is Verdict.ALLOW else 1


def document(made: Judgement) -> dict[str, object]:
    return {"verdict": made.verdict.word, "reasons": list(made.reasons), "input": made.input}


def batch(judges: Judges) -> int:
    """Every line of standard input in turn. A line that is no call is denied, and the rest goes on."""
    decode, encode = msgspec.json.Decoder(Line).decode, msgspec.json.Encoder().encode
    code = 0
    out = sys.stdout.buffer
    waits = not stat.S_ISREG(os.fstat(0).st_mode)  # somebody may be waiting for each answer
    for line in sys.stdin.buffer:
        try:
            asked = decode(line)
            made = judge(ToolCall(asked.tool, asked.input), judges(asked.root, asked.cwd))
            out.write(encode(document(made)) + b"\n")
        except (msgspec.MsgspecError, UsageError, UnicodeError) as error:
            code = max(code, 2)
            out.write(encode({"verdict": "deny", "reasons": [f"this is no call: {error}"], "input": {}}) + b"\n")
        except Exception as error:  # noqa: BLE001  # a call that could not be judged is denied, and the rest goes on
            code = 125
            out.write(
                encode({"verdict": "deny", "reasons": [f"it could not be judged: {error!r}"], "input": {}}) + b"\n"
            )
        if waits:
            out.flush()
    return code
