"""Whatever a payload holds, a shell line never runs as it came, and nothing that fails lets a call through."""

import json
import os
import resource
import tempfile
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
from tests.hooks.test_hook import FIXTURES, denies, moved
from tests.looking import common_place

from ringfence.cli.hook import answer
from ringfence.guard import ToolCall, judge
from ringfence.guard.agents import AGENTS, EVENTS
from ringfence.guard.judge import LINES, SHELLS
from ringfence.judging import bounds_of
from ringfence.model import Verdict

WORDS = (
    "command",
    "cmd",
    "file_path",
    "cwd",
    "shell",
    "env",
    "workspace_roots",
    "tool_name",
    "tool_input",
    "toolName",
    "toolArgs",
)
TEXTS = (
    "",
    "\n",
    "\0",
    "ls",
    "touch ../x",
    "ls; touch /etc/x",
    "/etc/passwd",
    "../x",
    "Bash",
    "exec_command",
    "Write",
    "unknown",
)
values = st.recursive(
    st.sampled_from((*TEXTS, None, True, 0, -1.5, 2**70)) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=5,
)
changes = st.dictionaries(st.sampled_from(WORDS), values, max_size=3)


def line_of(said: dict[str, object]) -> str:
    """The line that an agent would run after this answer."""
    given = moved(said)
    return str(next((given[name] for name in LINES if name in given), ""))


@pytest.mark.parametrize("agent", AGENTS)
@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(outer=changes, inner=changes, cut=st.integers(0, 40), tool=st.sampled_from(sorted(SHELLS)))
def test_a_shell_line_is_denied_or_runs_inside(
    agent: str, outer: dict[str, object], inner: dict[str, object], cut: int, tool: str
) -> None:
    with tempfile.TemporaryDirectory(dir=common_place()) as root:
        found = json.loads((FIXTURES / f"{agent}.json").read_text().replace("/home/dev/proj", root))
        named, given = ("toolName", "toolArgs") if "toolArgs" in found else ("tool_name", "tool_input")
        found[named] = tool
        found[given] |= inner
        found |= outer
        text = json.dumps(found).encode()
        code, out, _ = answer(
            [agent], text[: len(text) - cut if cut < 3 else None], dict(os.environ), "/usr/bin/ringfence"
        )
    said = json.loads(out) if out else {}
    is_call = found[named] == tool and found.get("hook_event_name", "preToolUse") in EVENTS[agent]
    says_nothing = isinstance(found[given], dict) and not str(found[given].get("command") or "").strip()

    assert denies(code, said) or cut not in (1, 2)
    assert denies(code, said) or not is_call or says_nothing or "/usr/bin/ringfence run " in line_of(said)


@pytest.mark.parametrize(
    "line",
    [
        "a=aaaaaaaaaa;" + "a=$a$a$a$a;" * 40 + "touch $a",
        "a=aaaaaaaaaa;" + "a+=$a$a$a$a;" * 40 + "touch $a",
        "set -- aaaaaaaaaa;" + "set -- $1$1$1$1$1$1$1$1;" * 40 + "touch $1",
        f'a="{"a " * 2000}"; touch {"$a" * 40_000}',
        f'a="{"a " * 200}"; for x in {"$a " * 30_000}; do touch $x; done',
        f'a="{"a " * 200}"; b=({"$a " * 30_000}); touch $b',
    ],
)
def test_a_line_that_grows_as_it_is_read_is_asked_about(line: str, tmp_path: Path) -> None:
    """Forty doublings are more than any machine has: whoever followed them would be ended, and the hook with it."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made = judge(ToolCall("bash", {"command": line}), bounds_of(str(tmp_path)))

    assert made.verdict is Verdict.ASK
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_a_call_that_names_more_paths_than_are_looked_at_is_denied(tmp_path: Path) -> None:
    bounds = bounds_of(str(tmp_path))
    many: dict[str, object] = {"file_path": "a", "files": ["b"] * 200_000}
    patch = "".join(f"*** Add File: f{number}\n" for number in range(2000))

    assert judge(ToolCall("write", many), bounds).verdict is Verdict.DENY
    assert judge(ToolCall("apply_patch", {"patch": patch}), bounds).verdict is Verdict.DENY
    assert judge(ToolCall("write", many | {"files": ["b"] * 100}), bounds).verdict is Verdict.ALLOW
