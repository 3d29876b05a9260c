"""ringfence keeps what an AI coding agent runs inside its workspace.

>>> import ringfence
>>> ringfence.run(["npm", "test"], workspace=".").exit_code  # doctest: +SKIP
0
"""

from . import _doorstep as _doorstep  # first, before a hostile directory can offer a module of its own
from .entrances import Mode, Prefix, Sandbox, sandboxed_command
from .model import (
    Denial,
    Enforcement,
    Exited,
    Gap,
    LaunchError,
    Outcome,
    Plan,
    PlanError,
    Policy,
    PolicyError,
    Refused,
    RingfenceError,
    Signalled,
    TimedOut,
    Unenforceable,
    UsageError,
    Verdict,
)
from .policy import Flags
from .run import run

__version__ = "0.1.0"
__all__ = [
    "Denial",
    "Enforcement",
    "Exited",
    "Flags",
    "Gap",
    "LaunchError",
    "Mode",
    "Outcome",
    "Plan",
    "PlanError",
    "Policy",
    "PolicyError",
    "Prefix",
    "Refused",
    "RingfenceError",
    "Sandbox",
    "Signalled",
    "TimedOut",
    "Unenforceable",
    "UsageError",
    "Verdict",
    "run",
    "sandboxed_command",
]
