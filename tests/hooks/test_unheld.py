"""What no sandbox holds, the agent's own tools, is judged by what a run would keep: ourselves, and what git runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hooks.test_hook import AS_ROOT, denies, payload
from tests.hooks.test_hook import root as root  # the fixture

from ringfence import judging
from ringfence.cli.hook import answer
from ringfence.guard.agents import AGENTS
from ringfence.where import OWN

VENV = Path(sys.executable).parent.parent


def writing(agent: str, root: Path, path: str) -> bool:
    """Whether an agent's own tool is kept from writing a file."""
    asked = payload(agent, root)
    camel = "toolArgs" in asked
    given = {"file_path": path, "content": "x"}
    asked |= {"toolName": "create", "toolArgs": given} if camel else {"tool_name": "Write", "tool_input": given}
    code, out, _ = answer([agent], json.dumps(asked).encode(), os.environ | {"PWD": str(root)}, "/usr/bin/ringfence")
    return denies(code, json.loads(out) if out else {})


@pytest.mark.parametrize("agent", AGENTS)
def test_no_tool_of_an_agent_writes_ringfence_itself(agent: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "OWN", (f"{root}/.venv",))

    assert writing(agent, root, f"{root}/.venv/bin/ringfence")
    assert writing(agent, root, ".venv/lib/python3/site-packages/x.pth")
    assert not writing(agent, root, f"{root}/.venv2/x")


def test_the_hook_and_a_run_ask_one_place_where_we_are() -> None:
    from ringfence import keep

    assert vars(judging)["OWN"] is vars(keep)["OWN"] is OWN != ()


@pytest.mark.parametrize("agent", AGENTS)
def test_no_tool_of_an_agent_writes_the_hooks_that_git_is_told_of(agent: str, root: Path) -> None:
    before = writing(agent, root, ".husky/pre-commit")
    (root / ".git/config").write_text("[core]\n\thooksPath = .husky/_\n")

    assert (before, writing(agent, root, ".husky/pre-commit")) == (False, True)
    assert not writing(agent, root, "husky/pre-commit")


def test_nor_does_a_line_that_cursor_runs_as_it_came(root: Path) -> None:
    (root / ".git/config").write_text("[core]\n\thooksPath = .husky\n")
    asked = {"hook_event_name": "beforeShellExecution", "cwd": str(root), "workspace_roots": [str(root)]}
    told = [
        answer(["cursor"], json.dumps(asked | {"command": line}).encode(), dict(os.environ), "/usr/bin/ringfence")[1]
        for line in ("echo x > .husky/pre-commit", "echo x > husky")
    ]

    assert [json.loads(said)["permission"] for said in told] == ["deny", "allow"]


@pytest.mark.needs_userns
def test_a_link_to_where_we_are_is_not_replaced(root: Path) -> None:
    """The hook in an agent's settings is called by the name that it was installed by."""
    (root / ".venv").symlink_to(VENV)
    line = "mv .venv old; mkdir -p .venv/bin && cp a.txt .venv/bin/ringfence; echo x > made"
    words = [f"{root}/.venv/bin/ringfence", "run", *AS_ROOT, "--workspace", str(root), "--", "sh", "-c", line]
    subprocess.run(words, capture_output=True, cwd=root, timeout=60)
    held = (root / ".venv").is_symlink(), (root / "made").exists()
    subprocess.run(["sh", "-c", line], check=True, cwd=root, timeout=60)

    assert (held, (root / ".venv").is_symlink()) == ((True, True), False)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cat /proc/1/environ", "ask"),
        ("head -c 9 /dev/sda", "ask"),
        ("tar cf x.tar /etc", "ask"),
        ("cp -r / x", "ask"),
        ("grep -r x /etc", "ask"),
        ("grep -r x /proc", "ask"),
        ("git diff --no-index /dev/null /proc/1/environ", "ask"),
        ("tar xf a.tar", "ask"),  # which may hold a hook of git's, as no repository can
        ("unzip -o a.zip", "ask"),
        ("tar xf a.tar -C sub", "allow"),
        ("touch /tmp/x", "ask"),
        ("cat /tmp/x", "ask"),
        ("ls / /etc; find / -name x", "allow"),
        ("cat /proc/cpuinfo < /dev/null", "allow"),
        ("diff <(sort a.txt) a.txt", "allow"),
        ("grep -r x . > sub/x", "allow"),
    ],
)
def test_a_line_that_runs_as_it_came_finds_what_the_sandbox_would_hide(line: str, expected: str, root: Path) -> None:
    asked = {"hook_event_name": "beforeShellExecution", "cwd": str(root), "workspace_roots": [str(root)]}
    _, out, _ = answer(["cursor"], json.dumps(asked | {"command": line}).encode(), dict(os.environ), "/x")
    said = json.loads(out)

    assert said["permission"] == expected
    assert "inside the sandbox" not in said["user_message"]
    _, out, _ = answer(["claude"], json.dumps(payload("claude", root, command=line)).encode(), dict(os.environ), "/x")
    assert json.loads(out)["hookSpecificOutput"]["permissionDecision"] == "allow"  # where it is moved inside


def test_what_is_above_a_link_of_proc_is_not_read(root: Path) -> None:
    """The kernel has /proc/PID there, and by that the home; by its letters it is `/cwd`, which may be read."""
    (root / "key").write_text("secret")
    path = "/proc/thread-self/../../cwd/key"
    assert subprocess.run(["cat", path], capture_output=True, text=True, cwd=root, check=True).stdout == "secret"

    asked: dict[str, object] = {"cwd": str(root), "workspace_roots": [str(root)]}
    reading = asked | {"hook_event_name": "beforeReadFile", "file_path": path}
    running = asked | {"hook_event_name": "beforeShellExecution", "command": f"cat {path}"}
    told = [answer(["cursor"], json.dumps(one).encode(), dict(os.environ), "/x")[1] for one in (reading, running)]

    assert [json.loads(said)["permission"] for said in told] == ["deny", "deny"]
