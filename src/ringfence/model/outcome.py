"""What happened: how it ended, what was in force, and what was refused."""

import msgspec

from .plan import UNHELD, Gap
from .policy import shown_amount


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """The command ended by itself."""

    code: int

    @property
    def exit_code(self) -> int:
        return self.code

    def __str__(self) -> str:
        return f"exited with {self.code}"


class Signalled(msgspec.Struct, frozen=True, tag="signalled"):
    """A signal ended the command."""

    signal: int

    @property
    def exit_code(self) -> int:
        return 128 + self.signal

    def __str__(self) -> str:
        import signal  # half a millisecond, for a name

        return f"ended by {signal.Signals(self.signal).name}" if self.signal < 32 else f"ended by signal {self.signal}"


class TimedOut(msgspec.Struct, frozen=True, tag="timed-out"):
    """The wall clock ended the command."""

    seconds: float

    @property
    def exit_code(self) -> int:
        return 124

    def __str__(self) -> str:
        return f"timed out after {self.seconds:g} s"


class Exceeded(msgspec.Struct, frozen=True, tag="exceeded"):
    """A limit other than the wall clock ended the command."""

    limit: str
    amount: float

    @property
    def exit_code(self) -> int:
        return 123

    def __str__(self) -> str:
        return f"was ended: beyond its limit of {self.limit}, {shown_amount(self.limit, self.amount)}"


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """A step failed before "ready", or the program could not be executed: the command did not start."""

    step: int
    kind: str
    errno: int
    text: str
    exit_code: int = 125

    def __str__(self) -> str:
        if self.exit_code != 125:  # all was in force, and the program was not there or could not be executed
            return self.text
        return f"refused at step {self.step} ({self.kind}): {self.text}"


class Broken(msgspec.Struct, frozen=True, tag="broken"):
    """Something of ours ended that the run was not to go on without."""

    what: str

    @property
    def exit_code(self) -> int:
        return 123

    def __str__(self) -> str:
        return f"was ended: {self.what}"


Ending = Exited | Signalled | TimedOut | Exceeded | Broken | Refused


class Observed(msgspec.Struct, frozen=True):
    """An access that the warden answered."""

    access: str  # read, write, make, remove, change or connect
    path: bytes  # absolute; of what failed as the command spelled it, behind its directory
    pid: int  # as the run counts
    exe: bytes  # the program, or nothing
    verdict: str  # refused by the table, failed in the kernel, or allowed
    rule: int  # the row of the warden's table, or -1
    errno: int


class Denial(msgspec.Struct, frozen=True):
    """One access that was refused: seen, or concluded afterwards from the command's own words."""

    access: str
    target: str
    reason: str
    grant: str = ""  # the flags that would allow it; "" where none would
    observed: bool = False
    origin: str = ""  # the rule's file and line, the flag, or built-in
    pid: int = 0  # who asked, as the run counts, and by which program; unknown where nobody saw it
    exe: str = ""


class Cause(msgspec.Struct, frozen=True):
    """Something that failed, and not by us: it would have failed without the sandbox too."""

    access: str
    target: str
    reason: str


CAME = "may have come or changed since a command began here, and runs code later"
"""What is said of each path of `Outcome.planted`; that command is this one, or one whose ringfence was killed."""


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended, beside what was asked of it and what held it."""

    ending: Ending
    in_force: tuple[str, ...]
    gaps: tuple[Gap, ...]
    seconds: float
    stdout: bytes | None = None
    stderr: bytes | None = None
    denials: tuple[Denial, ...] = ()
    not_ours: tuple[Cause, ...] = ()  # why else it failed, as far as that is known
    ignored: tuple[str, ...] = ()  # what an untrusted policy asked for and did not get
    # What appeared and runs code later, protected names and repositories; also of a run before whose end nobody saw.
    planted: tuple[str, ...] = ()
    signed: tuple[str, ...] = ()  # signatures that the ssh agent was asked for
    quarantined: tuple[str, ...] = ()  # what of it was renamed, by its new names
    policies: tuple[str, ...] = ()  # the files its policy came from, besides what is built in
    reached: tuple[str, ...] = ()  # the hosts that were dialled for it
    accesses: tuple[Observed, ...] = ()  # what the warden told, where it was asked to
    lost: int = 0  # and how much it could not tell

    @property
    def exit_code(self) -> int:
        """The code a shell would see: the command's own, 128+n, 123 to 127."""
        return self.ending.exit_code

    @property
    def is_truncated(self) -> bool:
        """Whether there was more output than its limit; what is here is the beginning."""
        return isinstance(self.ending, Exceeded) and self.ending.limit == "output"

    @property
    def is_unheld(self) -> bool:
        """Whether nothing held it: enforcement was off."""
        return self.in_force[:1] == (UNHELD,)

    @property
    def ok(self) -> bool:
        return self.ending == Exited(0)
