"""What is wanted: rules about paths, the network, the environment, and how strictly.

Every rule knows its Origin, so that any answer can name the line of the file it comes from. Nothing here reads a
file or asks the disk; paths are absolute, tilde already expanded, but not yet canonical.
"""

import enum

import msgspec

from .verdict import Verdict


class Origin(msgspec.Struct, frozen=True, order=True):
    """Where a rule was written: a file and its line, a flag, or the built-in policy."""

    source: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


BUILT_IN = Origin("built-in")


class Access(enum.Enum):
    """What is done to a path."""

    READ = "read"
    WRITE = "write"


class Need(enum.Enum):
    """Whether a thing that cannot be had refuses the launch, or is only said."""

    REQUIRED = "required"
    WANTED = "wanted"


class Enforcement(enum.Enum):
    """What happens when something required cannot be enforced here."""

    REQUIRED = "required"
    BEST_EFFORT = "best-effort"
    OFF = "off"


class Rule(msgspec.Struct, frozen=True):
    """One line of somebody's policy about a path and everything below it."""

    access: Access
    verdict: Verdict
    path: str
    origin: Origin
    always: bool = False  # a read denial that no other rule overrides
    glob: bool = False  # the path is a pattern
    need: Need = Need.REQUIRED  # built-in protections that cannot be held are said, not fatal
    implied: bool = False  # a read that comes with allowWrite: it yields to a denial of the same place
    why: str = ""  # what a built-in rule is for, in a few words


class Ask(msgspec.Struct, frozen=True):
    """A known key of somebody's policy that this version does not carry out."""

    key: str
    origin: Origin
    why: str
    need: Need  # REQUIRED when the key narrows, WANTED when it would only widen


class Network(msgspec.Struct, frozen=True):
    """What the command may reach. Names, ports and unix sockets by path are asks until they are enforced."""

    open: bool = False  # allowNetwork: the host's network as it is
    local_binding: bool = False  # allowLocalBinding: listen on the host's loopback
    all_unix_sockets: bool = False  # allowAllUnixSockets


class Environment(msgspec.Struct, frozen=True):
    """Which variables pass: an allow-list of names and `PREFIX_*` patterns, and values set outright."""

    allow: tuple[str, ...] = ()
    set: dict[str, str] = {}


class Injection(msgspec.Struct, frozen=True):
    """A file or directory shown read-only at another place."""

    source: str
    target: str
    origin: Origin


class Policy(msgspec.Struct, frozen=True):
    """What is wanted, merged from all layers."""

    workspace: str
    rules: tuple[Rule, ...]
    network: Network = Network()
    environment: Environment = Environment()
    enforcement: Enforcement = Enforcement.REQUIRED
    injections: tuple[Injection, ...] = ()
    asks: tuple[Ask, ...] = ()
    ignored: tuple[str, ...] = ()  # what an untrusted layer asked for and did not get, as sentences
    sources: tuple[str, ...] = ()  # the files that were read, in order


class Decision(msgspec.Struct, frozen=True):
    """The judge's answer: the verdict, the rule that gave it, and the smallest grant that would change it."""

    verdict: Verdict
    reason: str
    rule: Rule | None = None
    grant: str = ""
