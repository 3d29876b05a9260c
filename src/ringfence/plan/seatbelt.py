"""Lower the same policy to a Seatbelt profile, for `sandbox-exec` on macOS.

Pure; generated and judged on Linux by the tests' own reader of profiles, and not run on a Mac yet. In a profile the
last rule that matches wins, so regions are written parents first, as `regions` gives them. Paths never stand in the
text: they are parameters (`-D`), and are refused before if they could be anything else. A rule of Seatbelt is about a
name, whether or not something stands there, so names that do not exist yet are held too.
"""

import msgspec

from ..model import BUILT_IN, Access, Disk, Gap, Kind, Need, Place, PlanError, Policy, Rule, Verdict
from .regions import Region, State, between, changes, is_below, regions
from .rules import PRIVATE
from .view import pins

PROGRAM = "/usr/bin/sandbox-exec"
FORBIDDEN = '"\\\0'
# Other people's files, what everybody writes, and the second name of everything on the data volume.
CLOSED = (
    "/Users",
    "/Volumes",
    "/private/tmp",
    "/private/var/tmp",
    "/private/var/folders",
    "/private/var/root",
    "/private/var/run",
    "/System/Volumes/Data",
)
READ = "file-read* file-map-executable process-exec*"
RULES = {
    State.HIDDEN: (f"(deny {READ} file-write* file-ioctl ", ""),
    State.READ: (f"(allow {READ} ", "(deny file-write* "),
    State.WRITE: (f"(allow {READ} file-write* ", ""),
}

BASE = """\
(version 1)
(deny default)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.system.notification_center"))
"""
# Without it no program that is linked to anything starts.
ROOT = '(allow file-read* (literal "/"))\n'
# No rule of a policy names these; where /dev is hidden they are too.
TERMINALS = """\
(allow file-ioctl (literal "/dev/null") (literal "/dev/tty") (literal "/dev/ptmx"))
(allow file-read* file-write-data file-ioctl
  (literal "/dev/dtracehelper") (subpath "/dev/fd") (regex #"^/dev/ttys[0-9]+$"))
"""
NETWORK_OPEN = """\
(allow network* system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.trustd.agent"))
"""
NETWORK_LOCAL = '(allow network-bind network-inbound (local ip "localhost:*"))\n'
NETWORK_UNIX = "(allow network* (remote unix-socket))\n(allow network-bind (local unix-socket))\n"


class Profile(msgspec.Struct, frozen=True):
    """A profile, what its parameters stand for, and what it says in words."""

    text: str
    parameters: tuple[tuple[str, str], ...]
    sentences: tuple[str, ...]

    def prefix(self) -> tuple[str, ...]:
        """The words to put before a command."""
        given = [word for name, path in self.parameters for word in ("-D", f"{name}={path}")]
        return (PROGRAM, *given, "-p", self.text)


def checked(path: str, what: str) -> str:
    """A path that may be a parameter, or an error: it is never quoted, so that nothing can be quoted wrongly."""
    if not path.startswith("/"):
        raise PlanError(what, f"must be an absolute path, and is {path!r}")
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise PlanError(what, f"is not valid UTF-8: {path!r}", "rename it") from None
    if any(char in path for char in FORBIDDEN):
        hint = "rename it, or name the directory that holds it"
        raise PlanError(what, f"contains forbidden characters (double quote, backslash or NUL): {path!r}", hint)
    return path


def as_profiled(policy: Policy, disk: Disk, temporary: str) -> Policy:
    """The policy as a profile carries it: no directory is private, so those are closed, and one of our own is given.
    Of what is built in, nothing is granted that is not there: the list of toolchains is long, and a machine has few."""

    def keep(rule: Rule) -> bool:
        if rule.origin != BUILT_IN or rule.glob:
            return True
        granted = rule.verdict is Verdict.ALLOW and disk[rule.path].kind is Kind.MISSING
        return rule.path not in PRIVATE and not granted

    closed = [Rule(Access.READ, Verdict.DENY, path, BUILT_IN) for path in (*CLOSED, *PRIVATE)]
    given = [Rule(access, Verdict.ALLOW, temporary, BUILT_IN) for access in Access] if temporary else []
    return msgspec.structs.replace(policy, rules=(*closed, *filter(keep, policy.rules), *given))


def named(policy: Policy, disk: Disk) -> Disk:
    """The disk as a profile sees it: a name is held whether or not something stands there."""
    paths = {rule.path for rule in policy.rules if not rule.glob} - disk.places.keys()
    places = {path: msgspec.structs.replace(place, kind=Kind.DIRECTORY) for path, place in disk.places.items()}
    return msgspec.structs.replace(disk, places=places | {path: Place(path, path, Kind.DIRECTORY) for path in paths})


def lay_out(policy: Policy, disk: Disk, temporary: str) -> list[Region]:
    """The rules as regions, parents first."""
    given = as_profiled(policy, disk, temporary)
    return regions(given, named(given, disk))


def profile(policy: Policy, found: list[Region]) -> Profile:
    """The whole profile for these regions."""
    for region in found:
        checked(region.path, str(region.rule.origin))
    writer = Writer()
    for region, above in changes(found):
        writer.region(region, above)
    network = policy.network
    rest = [
        ROOT,
        TERMINALS if state_of("/dev/ttys000", found) is not State.HIDDEN else "",
        NETWORK_OPEN if network.open else "",
        NETWORK_LOCAL if network.local_binding and not network.open else "",
        NETWORK_UNIX if network.all_unix_sockets and not network.open else "",
    ]
    text = BASE + "".join(f"{line}\n" for line in writer.written()) + "".join(rest)
    return Profile(text, tuple((name, path) for path, name in writer.names.items()), tuple(writer.sentences))


def state_of(path: str, found: list[Region]) -> State:
    """What a path is to the command: the deepest region that holds it says so."""
    state = State.HIDDEN
    for region in found:
        if region.path == path or is_below(path, region.path):
            state = region.state
    return state


class Writer:
    """Rules as they are written, and a parameter for every path in them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.passed: dict[str, None] = {}  # hidden directories on the way to what is shown inside them
        self.pinned: dict[str, None] = {}  # writable directories on the way to what is denied inside them
        self.sentences: list[str] = []
        self.names: dict[str, str] = {}

    def parameter(self, path: str, what: str) -> str:
        name = self.names.setdefault(checked(path, what), f"P{len(self.names)}")
        return f'(param "{name}")'

    def region(self, region: Region, above: Region | None) -> None:
        """One region."""
        what = str(region.rule.origin)
        place = f"(subpath {self.parameter(region.path, what)})"
        self.lines += [f"{begin}{place})" for begin in RULES[region.state] if begin]
        self.sentences.append(f"{region.path} {region.state.value} ({region.rule.origin})")
        if above is not None and above.state is State.HIDDEN:
            self.passed |= dict.fromkeys((above.path, *between(region.path, above.path)))
        self.pinned |= dict.fromkeys(pins(region, above))

    def written(self) -> list[str]:
        """All rules. Last, the way to what is shown inside something hidden, and none to carry off what is denied."""
        rows = (("allow file-read-metadata", self.passed), ("deny file-write-unlink", self.pinned))
        for rule, paths in rows:
            places = "".join(f" (literal {self.parameter(path, 'path')})" for path in paths)
            self.lines += [f"({rule}{places})"] if paths else []
        return self.lines


def gaps(policy: Policy) -> list[Gap]:
    """What Seatbelt does not hold."""
    rows = [
        ("a private /tmp: programs that do not ask TMPDIR are refused there", "macOS has no private mounts"),
        ("dangerous system calls closed", "macOS has no filters for them"),
        ("other processes invisible, and none outlives the run", "macOS has no process namespaces"),
        ("a hidden file kept hidden by every other name it has", "Seatbelt judges names, and a hard link is another"),
        ("a profile that was tried", "made by the same rules as on Linux, and not run on macOS by its makers yet"),
    ]
    found = [Gap(what, why, Need.WANTED, BUILT_IN) for what, why in rows]
    why = "limits are not carried out on macOS yet"
    limits = [limit for limit in policy.limits if limit.name != "timeout"]
    found += [Gap(f"the limit {limit.name}", why, Need.REQUIRED, limit.origin) for limit in limits]
    why = "Seatbelt cannot show a file at another place"
    found += [
        Gap(f"{injection.source} shown at {injection.target}", why, Need.REQUIRED, injection.origin)
        for injection in policy.injections
    ]
    return found
