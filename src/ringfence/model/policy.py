"""What is wanted: rules about paths, the network, the environment, and how strictly.

Every rule knows its Origin, so that any answer can name the line of the file it comes from. Nothing here reads a
file or asks the disk; paths are absolute, tilde already expanded, but not yet canonical.
"""

import enum

import msgspec

from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .grant import Grant


class Origin(msgspec.Struct, frozen=True, order=True, gc=False):
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


class Rule(msgspec.Struct, frozen=True, gc=False):
    """One line of somebody's policy about a path and everything below it."""

    access: Access
    verdict: Verdict
    path: str
    origin: Origin
    always: bool = False  # a read denial that no other rule overrides
    glob: bool = False  # the path is a pattern
    pattern: str = ""  # the pattern that this path was found by
    through: str = ""  # where a pattern began as it was written, if links lead from there to where it begins
    need: Need = Need.REQUIRED  # built-in protections that cannot be held are said, not fatal
    implied: bool = False  # a read that comes with allowWrite: it yields to a denial of the same place
    why: str = ""  # what a built-in rule is for, in a few words
    asks: bool = False  # a denial that is a question where the boundary is one that asks


class Ask(msgspec.Struct, frozen=True):
    """A known key of somebody's policy that this version does not carry out."""

    key: str
    origin: Origin
    why: str
    need: Need  # REQUIRED when the key narrows, WANTED when it would only widen


class HostRule(msgspec.Struct, frozen=True):
    """One line of somebody's policy about a host and a port."""

    verdict: Verdict
    host: str  # canonical: a name, `*.name` for what is strictly below it, `*` for any, or an address or network
    port: int  # 0 is any
    origin: Origin
    text: str = ""  # as it was written
    why: str = ""  # the reason that deniedDomainReasons gives


class SocketRule(msgspec.Struct, frozen=True):
    """A unix socket of the host that may be reached, by its absolute path."""

    path: str
    origin: Origin


class ParentProxy(msgspec.Struct, frozen=True):
    """The proxy that our own dials through: `scheme://host:port`, empty for none."""

    http: str = ""
    https: str = ""
    no_proxy: tuple[str, ...] = ()  # hosts, and domains with a leading dot, that are dialled directly


MOST_KNOWN = 256


class Network(msgspec.Struct, frozen=True):
    """What the command may reach."""

    open: bool = False  # allowNetwork: the host's network as it is
    local_binding: bool = False  # allowLocalBinding: listen on the host's loopback
    all_unix_sockets: bool = False  # allowAllUnixSockets
    ssh_agent: bool = False  # allowSshAgent: an agent that lists and signs
    hosts: tuple[HostRule, ...] = ()  # allowedDomains, deniedDomains, allowTcp
    denied_addresses: tuple[HostRule, ...] = ()  # deniedResolvedAddresses
    sockets: tuple[SocketRule, ...] = ()  # allowUnixSockets
    match_hosts: bool = True  # requireHostMatch: SNI and the Host header must be what the connection was made for
    ends_with_proxy: bool = False  # endWithProxy: a dead gate ends the run
    is_strict: bool = False  # strictAllowlist: nobody is asked about a host
    http_proxy_port: int = 0  # somebody else's filter on loopback, instead of ours
    socks_proxy_port: int = 0
    parent: ParentProxy = ParentProxy()
    forwards: tuple[int, ...] = ()  # --forward: ports of the host's loopback that lead to the run's
    proxies: tuple[int, ...] = ()  # without a network namespace: the ports of our HTTP and SOCKS proxy on the loopback
    credential: str = ""  # the password of those

    @property
    def allows_hosts(self) -> bool:
        """Whether some hosts may be reached by name, so that a resolver and proxies are wanted."""
        return not self.open and any(rule.verdict is Verdict.ALLOW for rule in self.hosts)

    @property
    def known_names(self) -> tuple[str, ...]:
        """The names that are allowed one by one, and by nobody denied: they need not be asked for. Not very many, for
        /etc/hosts is read from the top."""
        if any(rule.verdict is not Verdict.ALLOW for rule in self.hosts):
            return ()
        hosts = dict.fromkeys(rule.host for rule in self.hosts)
        names = [
            host for host in hosts if "." in host and host[0] != "*" and not host[-1].isdigit() and ":" not in host
        ]
        return tuple(names[:MOST_KNOWN])


class Environment(msgspec.Struct, frozen=True):
    """Which variables pass: an allow-list of names and `PREFIX_*` patterns, and values set outright."""

    allow: tuple[str, ...] = ()
    set: dict[str, str] = {}


class Limit(msgspec.Struct, frozen=True):
    """The most of something that a run may use: seconds, bytes, or a count."""

    name: str  # one of LIMITS
    amount: float
    origin: Origin

    def __str__(self) -> str:
        return f"{self.name} {shown_amount(self.name, self.amount)}"


TIMES, SIZES, COUNTS = ("timeout", "cpu"), ("memory", "output", "fileSize", "disk"), ("processes", "files")
LIMITS = (*TIMES, *SIZES, *COUNTS)
UNITS = {"T": 1 << 40, "G": 1 << 30, "M": 1 << 20, "K": 1 << 10}


def shown_amount(name: str, amount: float) -> str:
    """An amount as people write it: 1.5s, 2G, 256."""
    if name in TIMES:
        return f"{amount:g}s"
    if name in SIZES:
        for unit, size in UNITS.items():
            if amount >= size and amount % size == 0:
                return f"{amount / size:.0f}{unit}"
    return f"{amount:.0f}"


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
    limits: tuple[Limit, ...] = ()  # one of a name at most
    asks: tuple[Ask, ...] = ()
    ignored: tuple[str, ...] = ()  # what an untrusted layer asked for and did not get, as sentences
    sources: tuple[str, ...] = ()  # the files that were read, in order
    nested: bool = False  # allowNestedSandbox: programs may make sandboxes of their own
    escape: Verdict = Verdict.DENY  # what is said of a way out that no rule speaks of: ask, or deny
    asking: bool = False  # --ask: and while the command waits
    is_resolved: bool = False  # every path was followed before: a link on the way to a grant is somebody's trick


class Standing(msgspec.Struct, frozen=True):
    """The grants that count now in a workspace, and what of the store does not, as sentences."""

    grants: "tuple[Grant, ...]" = ()
    notes: tuple[str, ...] = ()


NOTHING_APPROVED = Standing()  # mostly: then nobody need know what a grant is


class Decision(msgspec.Struct, frozen=True):
    """The judge's answer: the verdict, the rule that gave it, and the smallest grant that would change it."""

    verdict: Verdict
    reason: str
    rule: Rule | None = None
    grant: str = ""
    host: HostRule | None = None  # the rule, when the judgement was of a host
