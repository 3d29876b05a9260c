"""The command: a door. It parses a request, calls a room, shows a value; only here is anything printed.

Each verb is a module of its own, imported when it is called, so that `run` pays for nothing else.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..model import RingfenceError

VERBS = {
    "run": "run a command inside its workspace",
    "plan": "show every step and every gap before anything runs",
    "learn": "run a command, and write the policy that it needs",
    "doctor": "say what this machine can enforce, and how to get more",
    "why": "say why a path may be read, written or run, or not",
    "policy": "check, show, or describe the policy",
    "judge": "say what is to become of an agent's tool call",
    "hook": "answer an agent's question before a tool call",
    "install": "put our hook into an agent's settings",
    "uninstall": "take our hook out of an agent's settings",
    "status": "say which agents have our hook",
    "mcp": "serve tools that act inside the workspace, over MCP",
    "trust": "let this project's policy widen what is allowed",
    "profile": "list the boundaries that have a name, or show one",
    "approvals": "say yes to one thing more, for a while; show, take back, export or import what was approved",
    "session": "give an agent a worktree and a branch of its own",
    "tenant": "give each of many people on one host a user and a tree",
    "service": "serve tenants' workspaces over HTTP",
    "spawner": "start what tenants run, as their users (for a service)",
    "log": "show what was run, refused, granted and changed; verify or export it",
}


KEPT = "what is remembered is kept there: set HOME, or XDG_STATE_HOME, to a directory that you may write"
UNREAD = 128 + 13  # SIGPIPE, which Python ignores: nobody reads our output any more


def usage() -> str:
    """The help of the whole command."""
    lines = ["usage: ringfence VERB [options]", "", "Keeps what an agent runs inside its workspace.", "", "verbs:"]
    lines += [f"  {verb:9} {about}" for verb, about in VERBS.items()]
    lines += ["", "examples: ringfence run -- npm test; ringfence plan -- make; ringfence VERB --help"]
    codes = "the command's own, 128+n for a signal, 124 timeout, 123 another limit, 125 refused by us, 126/127, 2 usage"
    lines += ["", f"exit codes: {codes};", "            1 for a no, where VERB --help says so"]
    return "\n".join(lines)


def main() -> int:
    """The program: call one verb, and leave without taking the interpreter apart, which costs seven milliseconds."""
    # An agent waits for a hook before every call, so it goes by nothing else.
    if sys.argv[1:2] == ["hook"] and sys.argv[2:3] != ["--help"]:
        from .hook import main as hook

        os._exit(hook(sys.argv[2:]))
    code = call(sys.argv[1:])
    keep = sys.modules.get("ringfence.keep")
    if keep is not None:
        keep.forget_all()
    os._exit(written(code))


def _fill_closed() -> None:
    """One of 0 to 2 was closed before we began: what we open must not stand there, and it is empty."""
    from ..enforce.streams import fill_closed

    fill_closed()
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def written(code: int) -> int:
    """Our exit code, once what is on its way to standard output has arrived."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return code or UNREAD
    except OSError as error:
        from .options import say

        say(f"ringfence: standard output: {error.strerror}")
        return code or 125
    return code


def call(words: list[str]) -> int:
    """Call one verb."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _fill_closed()
    return guarded(lambda: _dispatch(words), "--json" in words[: words.index("--") if "--" in words else None])


def guarded(verb: "Callable[[], int]", as_json: bool) -> int:
    """The exit code of a verb; every error of ours ends here, as one or two lines on standard error."""
    from ..model import RingfenceError
    from .options import say

    try:
        return verb()
    except RingfenceError as caught:
        error = caught
    except BrokenPipeError:
        return UNREAD
    except OSError as caught:  # no descriptors left, a full disk: ours, and not the command's
        error = _failed(caught)
    except KeyboardInterrupt:
        return 130
    except (ImportError, MemoryError, RuntimeError) as caught:
        error = _short_of(caught)
    if as_json:
        from .render import error_document

        print(error_document(error), flush=True)
    say(*error.lines())
    return error.exit_code


def _failed(error: OSError) -> "RingfenceError":
    """What failed. What is asked without the name of a file, and is missing, is most often the current directory."""
    from ..model import RingfenceError

    if isinstance(error, FileNotFoundError) and not error.filename and _is_nowhere():
        return RingfenceError("the current directory", "is gone", "cd to one that is there")
    hint = KEPT if isinstance(error.filename, str) and _is_remembering(error.filename) else ""
    return RingfenceError(error.filename or "system", error.strerror or str(error), hint)


def _is_remembering(path: str) -> bool:
    """Whether it is where we keep what we remember, or on the way to it."""
    from ..policy.trust import directory_of

    kept = directory_of(os.environ, "XDG_STATE_HOME", ".local/state")
    return f"{path}/".startswith(f"{kept}/") or f"{kept}/".startswith(f"{path}/")


def _short_of(error: Exception) -> "RingfenceError":
    """What there is no more of, or not all of; any other such error is a fault of ours, and is raised again."""
    from ..model import RingfenceError

    if isinstance(error, ImportError):
        return RingfenceError(error.name or "ringfence", f"cannot be loaded: {error}", "install ringfence again")
    if isinstance(error, MemoryError):
        return RingfenceError("system", "there is no memory left", "end some programs")
    if str(error) != "can't start new thread":
        raise error
    return RingfenceError("system", "no thread can be started", "end some processes, or allow more of them (ulimit -u)")


def _is_nowhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["help"] and len(words) > 1:
        words = [words[1], "--help"]
    if not words or words[0] in ("--help", "-h", "help"):
        print(usage())
        return 0 if words else 2
    if words[0] == "--version":
        from .. import __version__

        print(f"ringfence {__version__}")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        from ..model import UsageError
        from ..policy.words import nearest

        if verb == "--":
            raise UsageError(verb, "there is no verb before it", hint="ringfence run -- npm test")
        raise UsageError(verb, "there is no such verb", hint=nearest(verb, (*VERBS, "--version")))
    if verb in ("install", "uninstall", "status"):
        from .install import main as installing

        return installing(verb, rest)
    code: int = __import__(f"{__name__}.{verb}", fromlist=["main"]).main(rest)
    return code
