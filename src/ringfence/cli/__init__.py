"""The command: a door. It parses a request, calls a room, shows a value; only here is anything printed.

Each verb is a module of its own, imported when it is called, so that `run` pays for nothing else.
"""

import os
import sys

from ..model import RingfenceError
from .options import say

VERBS = {
    "run": "run a command inside its workspace",
    "plan": "show every step and every gap before anything runs",
    "doctor": "say what this machine can enforce, and how to get more",
    "why": "say why a path may be read or written, or not",
    "policy": "check, show, or describe the policy",
    "trust": "let this project's policy widen what is allowed",
}


def usage() -> str:
    """The help of the whole command."""
    lines = ["usage: ringfence VERB [options]", "", "Keeps what an agent runs inside its workspace.", "", "verbs:"]
    lines += [f"  {verb:8} {about}" for verb, about in VERBS.items()]
    lines += ["", "examples: ringfence run -- npm test; ringfence plan -- make; ringfence VERB --help"]
    lines += ["", "exit codes: the command's own, 128+n for a signal, 124 timeout, 125 refused by us, 126/127, 2 usage"]
    return "\n".join(lines)


def main() -> int:
    """The program: call one verb, and leave without taking the interpreter apart, which costs seven milliseconds."""
    code = call(sys.argv[1:])
    keep = sys.modules.get("ringfence.keep")
    if keep is not None:
        keep.forget_all()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # it was closed before we began
                stream.flush()
    except OSError:
        code = code or 125
    os._exit(code)


def call(words: list[str]) -> int:
    """Call one verb; every error of ours ends here, as one or two lines on standard error."""
    try:
        return _dispatch(words)
    except RingfenceError as error:
        if "--json" in words[: words.index("--") if "--" in words else None]:
            from .render import error_document

            print(error_document(error))
        say(error.render())
        return error.exit_code
    except BrokenPipeError:
        return 125
    except OSError as error:  # no descriptors left, no current directory, a full disk: ours, and not the command's
        say(f"ringfence: {error.filename or 'system'}: {error.strerror}")
        return 125
    except KeyboardInterrupt:
        return 130


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        print(usage())
        return 0 if words else 2
    if words[0] == "--version":
        from .. import __version__

        print(f"ringfence {__version__}")
        return 0
    verb, rest = words[0], words[1:]
    if verb == "run":
        from .run import main as act
    elif verb == "plan":
        from .plan import main as act
    elif verb == "doctor":
        from .doctor import main as act
    elif verb == "why":
        from .why import main as act
    elif verb == "policy":
        from .policy import main as act
    elif verb == "trust":
        from .trust import main as act
    else:
        from ..model import UsageError

        raise UsageError(verb, "there is no such verb", hint=f"one of: {', '.join(VERBS)}")
    return act(rest)
