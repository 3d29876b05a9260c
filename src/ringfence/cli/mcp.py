"""`ringfence mcp`: a server of the Model Context Protocol on standard input and output, whose tools act inside.

Each tool is a command in the sandbox, reading and writing too: so there is one boundary, the kernel's, and no check of
a path that a link could outrun. Speaking the protocol is left to the official `mcp` package, an extra.
"""

import functools
import os
from collections.abc import Callable

from ..model import Outcome, RingfenceError, UsageError
from ..run import run as run_inside
from .options import LIMITS, OUTPUT, POLICY, WORKSPACE, flags_of, one, parse, render_help, with_extra

TABLE = (*WORKSPACE, *POLICY, *LIMITS, OUTPUT[-1])
EXAMPLES = ("ringfence mcp --workspace /work/project", "ringfence mcp --allow-network --timeout 2m")
PATIENCE = 600.0  # seconds that a tool may take, unless --timeout says otherwise
MOST_BYTES = 1_000_000  # of what a tool gives back; the rest is said to be missing
MOST_HELD = 16 << 20  # of what a command says in each of its streams: the rest is counted, and not in our memory


class Said:
    """What a command says, as much as we hold of it: one that never ends says gigabytes."""

    def __init__(self) -> None:
        self.out, self.err, self.lost = bytearray(), bytearray(), 0

    def add(self, stream: str, data: bytes) -> None:
        held = self.out if stream == "stdout" else self.err
        kept = data[: max(0, MOST_HELD - len(held))]
        held += kept
        self.lost += len(data) - len(kept)


class Workspace:
    """The tools, over one workspace and its policy."""

    def __init__(self, words: list[str]) -> None:
        values, rest = parse(words, TABLE)
        if rest:
            raise UsageError(rest[0], "is one word too many", hint="ringfence mcp --help")
        self.root = os.path.realpath(one(values, "--workspace") or os.getcwd())
        self.flags, self.as_root = flags_of(values), "--as-root" in values
        self.timeout = None if "--timeout" in values else PATIENCE

    def command(self, *argv: str, data: bytes = b"") -> tuple[Outcome, Said]:
        said = Said()
        outcome = run_inside(
            argv,
            workspace=self.root,
            cwd=self.root,
            flags=self.flags,
            on_output=said.add,
            input=data,
            timeout=self.timeout,
            as_root=self.as_root,
        )
        return outcome, said

    def done(self, *argv: str, data: bytes = b"") -> Said:
        """The output of a command that has to succeed."""
        outcome, said = self.command(*argv, data=data)
        if not outcome.ok:
            raise ValueError(said.err.decode("utf-8", "replace").strip() or str(outcome.ending))
        return said

    def run(self, command: str) -> str:
        """Run a shell command inside the workspace. It may write there and in /tmp, and reach no network by default."""
        outcome, said = self.command("bash", "-c", command)
        text = _text(said.out + said.err, said.lost)
        return f"{text}\n[exit code {outcome.exit_code}]" if outcome.exit_code else text

    def read(self, path: str) -> str:
        """Read a text file."""
        said = self.done("cat", "--", path)
        return _text(said.out, said.lost)

    def write(self, path: str, content: str) -> str:
        """Write a text file, and the directories it needs."""
        self.done("sh", "-c", 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"', "sh", path, data=content.encode())
        return f"wrote {len(content.encode())} bytes to {path}"

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace a text that occurs exactly once in a file."""
        said = self.done("cat", "--", path)
        if said.lost:
            raise ValueError(f"the file has more than {MOST_HELD} bytes")
        before = said.out.decode()
        if not old or before.count(old) != 1:
            raise ValueError(f"the text occurs {before.count(old) if old else 0} times, and not once")
        self.done("sh", "-c", 'cat > "$1"', "sh", path, data=before.replace(old, new).encode())
        return f"edited {path}"

    def list(self, path: str = ".") -> str:
        """List a directory."""
        said = self.done("ls", "-la", "--", path)
        return _text(said.out, said.lost)


def _text(data: bytes | bytearray, lost: int) -> str:
    text, more = data[:MOST_BYTES].decode("utf-8", "replace"), max(0, len(data) - MOST_BYTES) + lost
    return f"{text}\n[{more} more bytes]" if more else text


def main(words: list[str]) -> int:
    """Serve until the input ends."""
    if "--help" in words or "-h" in words:
        print(render_help("mcp [options]", "Serves tools that act inside the workspace, over MCP.", TABLE, EXAMPLES))
        return 0
    workspace = Workspace(words)
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        raise UsageError("mcp", "the package mcp is not installed", hint=with_extra("mcp")) from None
    workspace.command("true")  # what cannot be enforced here is said now, and not to a model later
    server: MCPServer = MCPServer("ringfence", instructions=f"Everything happens inside {workspace.root}.")
    for tool in (workspace.run, workspace.read, workspace.write, workspace.edit, workspace.list):
        server.tool(name=tool.__name__, description=tool.__doc__, structured_output=False)(_told(tool, ToolError))
    server.run("stdio")
    return 0


def _told(tool: Callable[..., str], error: type[Exception]) -> Callable[..., str]:
    """A tool whose errors of ours reach the model as text."""

    @functools.wraps(tool)
    def told(*args: object, **named: object) -> str:
        try:
            return tool(*args, **named)
        except (RingfenceError, ValueError, OSError) as wrong:
            raise error(str(wrong)) from None

    return told
