"""ringfence keeps what an AI coding agent runs inside its workspace.

>>> import ringfence
>>> ringfence.run(["npm", "test"], workspace=".").exit_code  # doctest: +SKIP
0
"""

from . import _doorstep as _doorstep  # first, before a hostile directory can offer a module of its own

if not _doorstep.IS_PROGRAM:  # the command imports what its verb needs, and these are for other programs
    from .entrances import Mode, Prefix, Sandbox, sandboxed_command
    from .model import (
        Broken,
        Cause,
        Denial,
        Enforcement,
        Exceeded,
        Exited,
        Explain,
        Gap,
        LaunchError,
        Outcome,
        Plan,
        PlanError,
        Policy,
        PolicyError,
        Refused,
        RingfenceError,
        SessionError,
        Signalled,
        TimedOut,
        Unenforceable,
        UsageError,
        Verdict,
        WorkspaceError,
    )
    from .policy import Flags, Reach
    from .run import run
    from .start import Chunk, Input, Running, start

TYPE_CHECKING = False  # not typing's: nothing is imported before it must be
if TYPE_CHECKING:
    from .session import Session as Session
del TYPE_CHECKING


def __getattr__(name: str) -> object:
    """Sessions are loaded when somebody asks for one."""
    if name == "Session":
        from .session import Session

        return Session
    raise AttributeError(name)


def __dir__() -> list[str]:
    return sorted({*globals(), "Session"})


__version__ = "0.1.0"
__all__ = [
    "Broken",
    "Cause",
    "Chunk",
    "Denial",
    "Enforcement",
    "Exceeded",
    "Exited",
    "Explain",
    "Flags",
    "Gap",
    "Input",
    "LaunchError",
    "Mode",
    "Outcome",
    "Plan",
    "PlanError",
    "Policy",
    "PolicyError",
    "Prefix",
    "Reach",
    "Refused",
    "RingfenceError",
    "Running",
    "Sandbox",
    "Session",
    "SessionError",
    "Signalled",
    "TimedOut",
    "Unenforceable",
    "UsageError",
    "Verdict",
    "WorkspaceError",
    "run",
    "sandboxed_command",
    "start",
]
