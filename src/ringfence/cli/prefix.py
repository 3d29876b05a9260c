"""`ringfence-shell LINE`: one shell line inside the sandbox, for agents that let a program stand before their shell.

Claude Code calls what CLAUDE_CODE_SHELL_PREFIX names with one argument, the whole line: it reads a snapshot of the
shell first and writes where it ended to a file in /tmp last. Those two are let through; all else is the policy's.
"""

import os
import re
import sys

# What Claude Code puts around a line. The names are its own, below its own directory and in /tmp.
_SNAPSHOT = re.compile(r"[^\s'\"]*/shell-snapshots/snapshot-bash-[\w-]+\.sh")
_ENDED_IN = re.compile(r"pwd -P >\| ('?)(/tmp/claude-[\w-]+-cwd)\1\s*\Z")


def main() -> int:
    """The program: its one argument is run by bash."""
    from . import call, written

    if len(sys.argv) != 2:
        sys.stderr.write("usage: ringfence-shell LINE\n")
        os._exit(2)
    code = call(words(sys.argv[1], os.environ, os.geteuid() == 0 and os.stat(".").st_uid == 0))
    os._exit(written(code))


def words(line: str, environ: "os._Environ[str] | dict[str, str]", as_root: bool) -> list[str]:
    """The words of `ringfence run` for a line, with what the agent needs around it."""
    more = ["--as-root"] if as_root else []
    home = os.path.join(environ.get("CLAUDE_CONFIG_DIR") or os.path.join(environ.get("HOME", "/"), ".claude"), "")
    for snapshot in dict.fromkeys(_SNAPSHOT.findall(line)):
        if os.path.normpath(snapshot).startswith(home):
            more += ["--allow-read", snapshot]
    ended = _ENDED_IN.search(line)
    if ended is not None and _is_made(ended[2]):
        more += ["--allow-write", ended[2]]
    return ["run", *more, "--quiet", "--", "bash", "-c", line]


def _is_made(path: str) -> bool:
    """Whether the file is there, ours and no link, so that the agent's own /tmp can be shown there; made if missing."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    found = os.fstat(descriptor)
    os.close(descriptor)
    return found.st_uid == os.geteuid() and found.st_nlink == 1
