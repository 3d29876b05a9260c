"""What will be done: ordered steps, each of which can describe itself, and the gaps.

The kinds are numbered in the only safe order; a plan that goes backwards is refused by the enactor. The bytes are
made by `enforce/wire.py`; docs/plan-format.md has the layout and the reason for each neighbour.
"""

import enum

import msgspec

from .command import Observe, Screen
from .policy import Enforcement, Limit, Need, Origin


class StepKind(enum.IntEnum):
    """The kinds of step. The number is the order; gaps between the numbers are room for what is to come."""

    NURSERY = 2
    JOIN = 5
    LOG = 10
    BUBBLEWRAP = 15
    NAMESPACES = 20
    ID_MAP = 21
    LOOPBACK = 30
    LISTEN = 31
    ASK = 32
    VIEW = 40
    MOUNT = 41
    ATTACH = 50
    WARDEN = 60
    VERIFY = 65
    PROC = 70
    LOCK = 75
    NO_NEW_PRIVS = 80
    RULESET = 90
    BENEATH = 91
    PORT = 92
    TERMINALS = 93
    RESTRICT = 94
    OBSERVE = 95
    PARENT = 96
    NAME = 97
    PATTERN = 98
    PAUSE = 99
    COMMAND = 100
    SESSION = 110
    TERMINAL = 111
    LIMIT = 120
    STREAM = 130
    STREAMS = 131
    DIRECTORY = 132
    SCOPE = 140
    CAPABILITIES = 150
    SECCOMP = 160
    AWAIT = 165
    EXEC = 170

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", "-")


class Step(msgspec.Struct, frozen=True, gc=False):
    """One thing the enactor does. `numbers` and `strings` are its whole payload."""

    kind: StepKind
    text: str  # what it does, in words
    numbers: tuple[int, ...] = ()
    strings: tuple[bytes, ...] = ()

    def describe(self) -> str:
        return f"{self.kind.word:14} {self.text}"


class Gap(msgspec.Struct, frozen=True):
    """What was asked and cannot be given here, and why."""

    what: str
    why: str
    need: Need
    origin: Origin
    way_out: str = ""

    def describe(self) -> str:
        out = f"; {self.way_out}" if self.way_out else ""
        return f"{self.need.value}: {self.what}: {self.why}{out} ({self.origin})"


UNHELD = "nothing: enforcement is off"  # the one sentence of what is in force then


class Plan(msgspec.Struct, frozen=True):
    """What will be done, in order, and what cannot be."""

    steps: tuple[Step, ...]
    gaps: tuple[Gap, ...]
    enforcement: Enforcement
    argv: tuple[str, ...]
    workspace: str
    in_force: tuple[str, ...]  # what holds once the steps are done, as sentences
    ids: tuple[int, int] | None = None  # the uid and gid the enactor takes on before it reads the plan
    has_warden: bool = False
    screen: Screen = Screen()
    limits: tuple[Limit, ...] = ()  # those that whoever started the run holds, or looks after
    controllers: tuple[str, ...] = ()  # what a control group of the run's own holds
    observe: Observe = Observe.NOTHING
    asks: bool = False  # what is refused waits for a person

    @property
    def is_detached(self) -> bool:
        """Whether the command leads a session of its own: what is not held stays in ours."""
        return self.enforcement is not Enforcement.OFF

    @property
    def is_sound(self) -> bool:
        """Whether nothing that was required is missing."""
        return all(gap.need is Need.WANTED for gap in self.gaps)

    def lines(self) -> list[str]:
        """Each step and each gap, one by one: a name in them may hold a line's end."""
        lines = [f"{number:3} {step.describe()}" for number, step in enumerate(self.steps)]
        return lines + [f"gap {gap.describe()}" for gap in self.gaps]
