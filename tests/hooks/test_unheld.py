"""What no sandbox holds, the agent's own tools, is judged by what a run would keep: ourselves, and what git runs."""

import json
import os
import shutil
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
        ("patch -p1 < a.txt", "ask"),
        ("curl -s file:///usr/%2e%2e/etc/shadow", "ask"),
        ("curl -s 'file:///{etc,usr}/shadow' --url='file:///[e-e]tc/shadow'", "ask"),
        ('curl -s "file:///usr/$X/etc/shadow"', "ask"),
        ("curl -s 'http://localhost:3000/x?a[b]=%20' -d '{\"a\": \"b:/\"}'", "allow"),
        ("git hash-object -w --stdin-paths < a.txt", "ask"),
        ("git diff --no-index sub /etc", "ask"),
        ("git diff -- sub a.txt", "allow"),
        ("ps axeww", "ask"),
        ("ps e -o pid", "ask"),
        ("ps -ef; ps aux; ps axo state,pid; ps -o etime= -C node; ps axo etime", "allow"),
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


@pytest.mark.parametrize(
    "line",
    [
        "curl -s file:///usr/%2e%2e{key}",
        "echo {key} | git hash-object -w --stdin-paths | git cat-file --batch",
        "ps axeww",
    ],
)
def test_a_key_is_not_read_by_who_finds_it_in_a_way_of_its_own(line: str, root: Path) -> None:
    home = root.parent / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id_rsa").write_text("very secret\n")
    key = home / ".ssh/id_rsa"
    line = line.format(key=key)
    if not shutil.which(line.split()[0]):
        pytest.skip("not installed")
    shutil.rmtree(root / ".git")
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    other = subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"], "KEY": "very secret"})
    bare = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=root, check=False).stdout
    other.kill()
    other.wait()
    assert "very secret" in bare

    asked = {"hook_event_name": "beforeShellExecution", "cwd": str(root), "workspace_roots": [str(root)]}
    environ = dict(os.environ) | {"HOME": str(home)}
    _, out, _ = answer(["cursor"], json.dumps(asked | {"command": line}).encode(), environ, "/x")
    assert json.loads(out)["permission"] in ("ask", "deny")


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
