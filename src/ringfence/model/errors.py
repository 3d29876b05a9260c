"""What can go wrong, as one tree; a class is a stage, and its `code` is stable.

    RingfenceError
    ├── UsageError        USAGE          the request itself makes no sense                exit 2
    ├── PolicyError       POLICY         a policy cannot be read, understood or trusted   exit 125
    ├── PlanError         PLAN           the command cannot be planned as asked           exit 125
    ├── Unenforceable     UNENFORCEABLE  something required cannot be enforced here       exit 125
    ├── LaunchError       LAUNCH         the enactor is missing, was swapped, or died     exit 125
    ├── WorkspaceError    WORKSPACE      a path leads elsewhere, or is not what it must be exit 125
    ├── SessionError      WORKTREE_*     a session cannot do what was asked; see Fault    exit 125
    └── TenantError       TENANT_*       a tenant cannot be what was asked; see TenantFault exit 125

An error says *place: what*, and a hint gives the way out. Only doors print it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # sessions are one verb of many, and `run` need not load their words
    from .session import Fault
    from .tenant import TenantFault


class RingfenceError(Exception):
    """The base of every error ringfence raises on purpose."""

    code = "ERROR"
    exit_code = 125

    def __init__(self, place: object, what: str, hint: str = "") -> None:
        super().__init__(f"{place}: {what}")
        self.place = str(place)
        self.what = what
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """A process of a pool hands its error to the one that asked: as it is, and not by calling `__init__` again."""
        return _again, (type(self), *self.args), vars(self)

    def lines(self) -> list[str]:
        """The error as a person reads it: one line, and one more for the way out."""
        return [f"ringfence: {self.place}: {self.what}", *([f"  hint: {self.hint}"] if self.hint else [])]


def _again(kind: "type[RingfenceError]", *args: object) -> RingfenceError:
    """An error before it has its attributes."""
    return kind.__new__(kind, *args)


class UsageError(RingfenceError):
    """The request itself makes no sense."""

    code = "USAGE"
    exit_code = 2


class PolicyError(RingfenceError):
    """A policy cannot be read, understood or trusted."""

    code = "POLICY"


class PlanError(RingfenceError):
    """The command cannot be planned as asked."""

    code = "PLAN"


class Unenforceable(RingfenceError):
    """Something required cannot be enforced here, so nothing ran."""

    code = "UNENFORCEABLE"


class LaunchError(RingfenceError):
    """The enactor is missing, was swapped, or died before the command started."""

    code = "LAUNCH"


class WorkspaceError(RingfenceError):
    """A path leads out of where it must stay, or what stands there is not what it must be."""

    code = "WORKSPACE"


class SessionError(RingfenceError):
    """A session cannot do what was asked; `fault` says which of the known reasons it is, and gives the code."""

    def __init__(self, fault: "Fault", place: object, what: str, hint: str = "") -> None:
        super().__init__(place, what, hint)
        self.fault = fault
        self.code = f"WORKTREE_{fault.name}"


class TenantError(RingfenceError):
    """A tenant cannot be made, found or used; `fault` says which of the known reasons it is, and gives the code."""

    def __init__(self, fault: "TenantFault", place: object, what: str, hint: str = "") -> None:
        super().__init__(place, what, hint)
        self.fault = fault
        self.code = f"TENANT_{fault.name}"
