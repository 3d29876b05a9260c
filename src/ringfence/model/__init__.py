"""Frozen values, and the small questions they answer. Imports nothing else of ours.

What every judge needs is imported at once, the rest when somebody first asks for it: a hook plans nothing, and making
these classes would take it two milliseconds.
"""

from .errors import LaunchError as LaunchError
from .errors import PlanError as PlanError
from .errors import PolicyError as PolicyError
from .errors import RingfenceError as RingfenceError
from .errors import SessionError as SessionError
from .errors import TenantError as TenantError
from .errors import Unenforceable as Unenforceable
from .errors import UsageError as UsageError
from .errors import WorkspaceError as WorkspaceError
from .policy import BUILT_IN as BUILT_IN
from .policy import NOTHING_APPROVED as NOTHING_APPROVED
from .policy import Access as Access
from .policy import Ask as Ask
from .policy import Decision as Decision
from .policy import Enforcement as Enforcement
from .policy import Environment as Environment
from .policy import HostRule as HostRule
from .policy import Injection as Injection
from .policy import Limit as Limit
from .policy import Need as Need
from .policy import Network as Network
from .policy import Origin as Origin
from .policy import ParentProxy as ParentProxy
from .policy import Policy as Policy
from .policy import Rule as Rule
from .policy import SocketRule as SocketRule
from .policy import Standing as Standing
from .verdict import Verdict as Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .command import Asking as Asking
    from .command import Command as Command
    from .command import Explain as Explain
    from .command import Observe as Observe
    from .command import Screen as Screen
    from .command import Shelf as Shelf
    from .command import Stream as Stream
    from .host import Crowd as Crowd
    from .host import Disk as Disk
    from .host import Enactor as Enactor
    from .host import Host as Host
    from .host import Kind as Kind
    from .host import Mount as Mount
    from .host import Place as Place
    from .names import BRANCH_PREFIX as BRANCH_PREFIX
    from .names import GRANTED as GRANTED
    from .names import SESSION_PREFIX as SESSION_PREFIX
    from .outcome import Broken as Broken
    from .outcome import Cause as Cause
    from .outcome import Denial as Denial
    from .outcome import Ending as Ending
    from .outcome import Exceeded as Exceeded
    from .outcome import Exited as Exited
    from .outcome import Observed as Observed
    from .outcome import Outcome as Outcome
    from .outcome import Refused as Refused
    from .outcome import Signalled as Signalled
    from .outcome import TimedOut as TimedOut
    from .plan import Gap as Gap
    from .plan import Plan as Plan
    from .plan import Step as Step
    from .plan import StepKind as StepKind

_COMMAND = frozenset(("Asking", "Command", "Explain", "Observe", "Screen", "Shelf", "Stream"))
_HOST = frozenset(("Crowd", "Disk", "Enactor", "Host", "Kind", "Mount", "Place"))
_NAMES = frozenset(("BRANCH_PREFIX", "GRANTED", "SESSION_PREFIX"))
_OUTCOME = frozenset(
    (
        "Broken",
        "Cause",
        "Denial",
        "Ending",
        "Exceeded",
        "Exited",
        "Observed",
        "Outcome",
        "Refused",
        "Signalled",
        "TimedOut",
    )
)
_PLAN = frozenset(("Gap", "Plan", "Step", "StepKind"))


def __getattr__(name: str) -> object:
    if name in _COMMAND:
        from . import command

        return _kept(name, command)
    if name in _HOST:
        from . import host

        return _kept(name, host)
    if name in _NAMES:
        from . import names

        return _kept(name, names)
    if name in _OUTCOME:
        from . import outcome

        return _kept(name, outcome)
    if name in _PLAN:
        from . import plan

        return _kept(name, plan)
    raise AttributeError(name)


def _kept(name: str, module: object) -> object:
    found: object = getattr(module, name)
    globals()[name] = found
    return found
