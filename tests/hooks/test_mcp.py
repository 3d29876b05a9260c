"""`ringfence mcp`, driven by the official client; and `ringfence run -- server`, which lets every byte through."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.looking import common_place

from ringfence.cli import mcp

PROGRAM = str(Path(sys.executable).parent / "ringfence")
AS_ROOT = ["--as-root"] if os.geteuid() == 0 else []
pytestmark = [pytest.mark.needs_userns, pytest.mark.slow]


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=common_place()) as place:
        found = Path(place) / "w"
        found.mkdir()
        (found / "a.txt").write_text("one two\n")
        yield found


def asked(root: Path, *calls: tuple[str, dict[str, object]]) -> list[tuple[bool, str]]:
    """The answers to some calls: whether each is an error, and its text."""
    from mcp import ClientSession, StdioServerParameters  # a second, for every process that collects the tests
    from mcp.client.stdio import stdio_client

    async def session() -> list[tuple[bool, str]]:
        server = StdioServerParameters(command=PROGRAM, args=["mcp", "--workspace", str(root), *AS_ROOT])
        async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as client:
            await client.initialize()
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert names == {"run", "read", "write", "edit", "list"}
            found = []
            for name, given in calls:
                answer = await client.call_tool(name, given)
                text = "".join(getattr(part, "text", "") for part in answer.content)
                found.append((bool(answer.is_error), text))
            return found

    return asyncio.run(session())


def test_the_tools_act_inside_the_workspace(root: Path) -> None:
    answers = asked(
        root,
        ("run", {"command": "pwd; echo out > made.txt; exit 3"}),
        ("write", {"path": "sub/deep/b.txt", "content": "é\n"}),
        ("edit", {"path": "a.txt", "old": "two", "new": "three"}),
        ("read", {"path": "a.txt"}),
        ("list", {}),
    )

    assert [error for error, _ in answers] == [False] * 5
    assert answers[0][1] == f"{root}\n\n[exit code 3]"
    assert answers[3][1] == "one three\n"
    assert "made.txt" in answers[4][1]
    assert (root / "sub" / "deep" / "b.txt").read_text() == "é\n"


def test_the_tools_do_not_act_outside(root: Path) -> None:
    outside = root.parent / "outside"
    (root / "link").symlink_to(root.parent)
    answers = asked(
        root,
        ("write", {"path": str(outside), "content": "x"}),
        ("write", {"path": "link/outside", "content": "x"}),
        ("run", {"command": f"echo x > {outside}"}),
        ("edit", {"path": "a.txt", "old": "o", "new": "x"}),
        ("read", {"path": "missing"}),
    )

    assert [error for error, _ in answers] == [True, True, False, True, True]
    assert not outside.exists()
    assert (root / "a.txt").read_text() == "one two\n"


def test_a_server_inside_the_sandbox_speaks_as_if_it_were_not(root: Path) -> None:
    data = bytes(range(256)) * 4000 + b'{"jsonrpc":"2.0"}\n'
    done = subprocess.run(
        [PROGRAM, "run", *AS_ROOT, "--", "cat"], cwd=root, input=data, capture_output=True, timeout=60
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


def test_what_a_command_says_without_end_is_not_held(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "MOST_HELD", 1000)
    monkeypatch.setattr(mcp, "MOST_BYTES", 100)
    workspace = mcp.Workspace(["--workspace", str(root), *AS_ROOT])
    (root / "large").write_bytes(b"x" * 5000)

    outcome, said = workspace.command("cat", "large")

    assert (outcome.stdout or b"", bytes(said.out), said.lost) == (b"", b"x" * 1000, 4000)
    assert workspace.read("large") == "x" * 100 + "\n[4900 more bytes]"
    with pytest.raises(ValueError, match="more than 1000 bytes"):  # of what is cut nothing is written back
        workspace.edit("large", "x", "y")
