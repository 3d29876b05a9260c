"""Why something failed: by a rule of the policy, or not by us at all.

What was seen (by the warden, by the gate) is a denial. What a failed command says of its failure is judged here: by the
policy, and by what the host itself would have said. It is ours when the policy refuses what the host would have
allowed, and then the grant is the one that makes it pass. Where the host refuses too (no such file, a file's mode),
it is not ours, and no grant would help. Where neither refuses, nothing is said.
"""

import errno
import os
from collections.abc import Callable, Mapping, Sequence

import msgspec

from . import enforce, plan, policy
from .enforce import links, modes
from .keep import Prepared, Request, environment, prepare
from .model import Access, Cause, Decision, Denial, Exited, Observed, Outcome, Refused, Verdict
from .model.standins import is_stand_in, stood_for
from .policy.clues import ANYWHERE, MOST_TEXT, Clue, clues, urls_of, wants_root
from .policy.defaults import PRIVATE, is_inside
from .policy.learnt import is_wide
from .policy.trust import at_home, home_of

Found = Denial | Cause | None
BUILT_IN = "built-in"
OPEN = "--allow-network"
HIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.EBUSY)  # how a wall of ours answers
LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def denial_of(decision: Decision, access: str, target: str, observed: bool = False) -> Denial:
    """A decision as what was refused."""
    spoken = decision.rule or decision.host
    origin = str(spoken.origin) if spoken else ""
    return Denial(access, target, decision.reason, decision.grant, observed, origin)


def told(made: Prepared, watched: Sequence[str], seen: Sequence[Observed]) -> list[Denial]:
    """What the warden refused, as the judge explains it: names that were asked for, and what it told of."""
    found = [_told(made, path, Access.WRITE) for path in watched]
    for one in seen:
        if one.verdict == "refused":
            denial = _told(made, os.fsdecode(one.path), Access.READ if one.access == "read" else Access.WRITE)
            found.append(msgspec.structs.replace(denial, pid=one.pid, exe=os.fsdecode(one.exe)))
    return found


def _told(made: Prepared, path: str, access: Access) -> Denial:
    decision = policy.decide(made.judged(), access, path)
    if decision.verdict is Verdict.ALLOW:
        return Denial(access.value, path, f"{path} stays where it is: what it leads to is denied", observed=True)
    return denial_of(decision, access.value, path, observed=True)


def explained(
    made: Prepared,
    argv: Sequence[str],
    environ: Mapping[str, str],
    outcome: Outcome,
    heard: bytes,
    logged: Sequence[Observed],
) -> Outcome:
    """The outcome of a command that failed, with what it says of it and its own words explained. `heard` is what of
    its output passed us, where it was not captured; `logged` what Landlock refused, where that can be read."""
    said = (outcome.stderr or b"")[-MOST_TEXT:] + b"\n" + (outcome.stdout or b"")[-MOST_TEXT:] + heard[-MOST_TEXT:]
    asked = _Asked(made, tuple(argv), environ)
    if isinstance(outcome.ending, Refused):
        failed = {"exec": ("run", argv[0]), "directory": ("read", made.request.cwd)}.get(outcome.ending.kind)
        return _with(outcome, [asked.cause(Clue(*failed, outcome.ending.errno))] if failed else [])
    found = [asked.seen(one) for one in outcome.accesses if one.verdict == "failed"]
    found += [asked.logged(one) for one in logged]
    text = said.decode("utf-8", "replace")
    found += [asked.cause(clue) for clue in clues(text, asked.argv)]
    has_ended = isinstance(outcome.ending, Exited) and not wants_root(text)
    if has_ended and not any(isinstance(one, Denial) for one in (*found, *outcome.denials)):
        known = tuple(one.target for one in found if isinstance(one, Cause))
        words = (clue for clue in asked.words() if not _leads_to(clue.target, known))
        found += [one for clue in words if isinstance(one := asked.cause(clue), Denial)]
    return _with(outcome, found)


def _leads_to(path: str, known: Sequence[str]) -> bool:
    """Whether something in a directory is known to have failed, and why."""
    inside = f"{enforce.canonical(path).rstrip('/')}/" if path.startswith("/") else "\0"
    return any(one.startswith(inside) for one in known)


def teller(
    made: Prepared, argv: Sequence[str], environ: Mapping[str, str], on_denial: Callable[[Denial], None]
) -> Callable[[Observed], None]:
    """Who tells of what the kernel refuses while the command runs; each target once."""
    asked, told = _Asked(made, tuple(argv), environ), set[str]()

    def seen(one: Observed) -> None:
        found = asked.seen(one) if one.verdict == "failed" else None
        if isinstance(found, Denial) and found.target not in told:
            told.add(found.target)
            on_denial(found)

    return seen


def _with(outcome: Outcome, found: list[Found]) -> Outcome:
    """What was seen stays; what is concluded comes after it, each once."""
    outcome = _with_ports(outcome, found)
    seen = {denial.target for denial in outcome.denials}
    denials: list[Denial] = []
    for one in found:
        if isinstance(one, Denial) and one.target not in seen and not _covers(denials, one):
            denials.append(one)
    blamed = seen | {denial.target for denial in denials}
    others = dict.fromkeys(one for one in found if isinstance(one, Cause) and one.target not in blamed)
    return msgspec.structs.replace(outcome, denials=(*outcome.denials, *denials), not_ours=(*outcome.not_ours, *others))


def _with_ports(outcome: Outcome, found: list[Found]) -> Outcome:
    """A name that was refused when it was asked for has no port; the command may have said which it wanted."""
    said = [one for one in reversed(found) if isinstance(one, Denial) and one.access == "connect"]
    wanted = {one.target.rpartition(":")[0]: one for one in said}
    denials = tuple(
        msgspec.structs.replace(wanted[one.target], observed=one.observed, pid=one.pid, exe=one.exe)
        if one.access == "connect" and one.target in wanted
        else one
        for one in outcome.denials
    )
    return msgspec.structs.replace(outcome, denials=denials)


def _covers(known: list[Denial], one: Denial) -> bool:
    """Whether a grant that is named already gives this too."""
    return any((one.access, one.grant or one.target) == (other.access, other.grant or other.target) for other in known)


class _Asked:
    """One failed command, its policy, and the host as it is for whoever the command is."""

    def __init__(self, made: Prepared, argv: tuple[str, ...], environ: Mapping[str, str]) -> None:
        self.made, self.argv, self.environ = made, argv, environ
        self.request = made.request
        self.judged = made.judged()
        self.who = modes.person(made.request.ids)

    def words(self) -> list[Clue]:
        """What the command's own words ask for."""
        from .policy.suspect import suspects

        found = []
        for access, target in suspects(self.argv, self.request.cwd, self.request.home):
            if access == "connect" and not any("--unix-socket" in word for word in self.argv):
                found += [Clue("connect", f"{host}:{port}") for host, port in urls_of(target)]
            elif access != "connect":
                found.append(Clue(access, target))
        return found

    def seen(self, one: Observed) -> Found:
        """What the kernel refused, as the warden saw it: ours or nothing, for programs try much that is not there."""
        access = {"read": "read", "write": "write", "change": "write", "make": "make", "remove": "make"}.get(one.access)
        if access is None or one.errno not in HIDDEN or (access == "read" and not os.path.lexists(one.path)):
            return None
        found = self.cause(Clue(access, os.fsdecode(one.path), one.errno))
        if not isinstance(found, Denial):
            return None
        return msgspec.structs.replace(found, observed=True, pid=one.pid, exe=os.fsdecode(one.exe))

    def logged(self, one: Observed) -> Found:
        """What Landlock refused. Of what was to be made or removed it names the directory, and nobody is told to open
        a whole home for that; its pids are the host's."""
        if plan.has_view(self.made.host):
            one = msgspec.structs.replace(one, pid=0)
        target, found = os.fsdecode(one.path), self.seen(one)
        if one.access == "signal":
            found = Denial("signal", target, "a command reaches the processes of its own run alone", origin=BUILT_IN)
        elif one.access == "connect":
            found = self.abstract(target) if target.startswith("@") else self.cause(Clue("connect", target, one.errno))
        elif one.access == "bind":
            found = self.listening(target)
        elif isinstance(found, Denial) and one.access == "make" and is_wide(target, self.request.home):
            found = msgspec.structs.replace(found, grant="")
        if not isinstance(found, Denial):
            return None
        return msgspec.structs.replace(found, observed=True, pid=one.pid, exe=os.fsdecode(one.exe))

    def cause(self, clue: Clue) -> Found:
        """What made something fail, where that can be known; nothing where the path is none, or changes meanwhile."""
        try:
            return self.known(clue)
        except (OSError, ValueError):
            return None

    def known(self, clue: Clue) -> Found:
        if clue.access == "variable":
            return self.variable(clue)
        if clue.access == "trace":
            return Denial("trace", clue.target, "no command may trace another", origin=BUILT_IN)
        if clue.access == "sandbox":
            return self.sandbox(clue.target)
        if clue.access == "socket":
            reason = "of unix sockets for datagrams nobody sees where they send; --allow-socket PATH allows them"
            return None if plan.wants_datagrams(self.judged) else Denial("socket", clue.target, reason, origin=BUILT_IN)
        if clue.access == "bind":
            return self.bind(int(clue.target)) or self.anywhere(clue)
        if clue.access == "connect" and not clue.target.startswith("/"):
            return self.connect(clue)
        if _is_descriptor(clue.target):
            reason = "only descriptors 0 to 2 reach the command; a shell inside makes its own: bash -c '…'"
            return Denial("read", clue.target, reason, origin=BUILT_IN)
        path = os.path.join(self.request.cwd, expanded(self.request, clue.target))
        is_name = "/" not in clue.target and not os.path.lexists(path)
        if is_name and (clue.access == "run" or (clue.access == "use" and clue.error == errno.EACCES)):
            found = self.program(clue.target)
            if clue.access == "run" or isinstance(found, Denial):
                return found  # else a file of that name was to be made
        real = enforce.canonical(path)
        if modes.is_socket(real) or clue.access == "connect":
            return self.socket(real)
        found = self.path(real, clue)
        return self.whole(found or (self.link(path) if clue.error == errno.ENOENT else None), path)

    def decide(self, access: Access, path: str) -> Decision:
        return policy.decide(self.judged, access, path)

    # ---- Files ----

    def path(self, path: str, clue: Clue) -> Found:
        is_there = os.path.lexists(path)
        is_made = not is_there and clue.error in (errno.EACCES, errno.EPERM)
        if clue.access == "read":  # and not only out of sight
            is_made = is_made and os.access(os.path.dirname(path), os.X_OK)
        is_made = is_made or clue.error in (errno.EROFS, errno.EBUSY)
        if clue.access in ("write", "make", "remove") or (clue.access in ("use", "read") and is_made):
            return self.write(path, clue)
        reading = self.decide(Access.READ, path)
        if reading.verdict is not Verdict.ALLOW:
            return self.blame(reading, "read", path, os.R_OK, clue)
        if is_there and self.is_private(path):
            return self.private(path)
        if modes.refusal(self.who, path, os.R_OK):
            return self.host("read", path, os.R_OK) if clue.error else None
        if clue.error == errno.ENOENT:  # it is there, and may be read
            return self.interpreter(path) if clue.access == "run" else None
        written = self.write(path, clue) if clue.access == "use" else None
        return written or self.execute(path, clue)

    def write(self, path: str, clue: Clue) -> Found:
        """To be written; or made or removed, and for that its directory must be."""
        writing = self.decide(Access.WRITE, path)
        if writing.verdict is Verdict.ALLOW and clue.access == "remove":  # what is given stands in what is not
            writing = self.decide(Access.WRITE, os.path.dirname(path))
        if writing.verdict is Verdict.ALLOW and clue.error == errno.EBUSY and os.path.isdir(path):  # for what is in it
            inside = (self.decide(Access.WRITE, f"{path}/{name}") for name in sorted(os.listdir(path)))
            writing = next((one for one in inside if one.verdict is not Verdict.ALLOW), writing)
        if writing.verdict is Verdict.ALLOW and self.is_private(path) and clue.error:
            return self.shared(writing, path)
        if writing.verdict is Verdict.ALLOW:
            refused = not self.is_private(path) and modes.refusal(self.who, path, os.W_OK)
            return self.host("write", path, os.W_OK) if refused and clue.error else None
        is_new = (clue.access == "make" or not os.path.lexists(path)) and not os.path.isdir(path)
        # With its parents: a program names what it wanted at last, and the wall answered for the first of them.
        first = path if clue.error not in (errno.EROFS, errno.EACCES, errno.EPERM) else _first_missing(path)
        if writing.grant and (is_new or clue.access == "remove"):
            parent = os.path.dirname(first)
            around = self.decide(Access.WRITE, parent)
            reason, grant = writing.reason, around.grant
            if is_wide(parent, self.request.home):  # nobody is told to open a whole home
                later = "" if os.path.lexists(path) else f"; it has to be there first, then: {writing.grant}"
                reason, grant = f"{reason}{later}", ""
            writing = msgspec.structs.replace(writing, reason=reason, grant=grant)
        elif writing.grant and os.path.isdir(path) and is_wide(path, self.request.home):
            reason = f"{writing.reason}; what is needed in it has to be there, then: {writing.grant}/NAME"
            writing = msgspec.structs.replace(writing, reason=reason, grant="")
        return self.blame(writing, "write", path, os.W_OK, clue, first)

    def execute(self, path: str, clue: Clue) -> Found:
        if clue.error in (errno.EACCES, errno.EPERM) and os.path.isfile(path):
            return self.host("run", path, os.X_OK) if modes.refusal(self.who, path, os.X_OK) else self.interpreter(path)
        if clue.access == "run" and clue.error == errno.ENOEXEC:
            reason = "it is no program of this machine's, and no #! line says what runs it; a shell script: sh"
            return Cause("run", path, f"{reason} {policy.quoted(clue.target)}")
        return Cause("run", path, "it is a directory") if clue.access == "run" and os.path.isdir(path) else None

    def interpreter(self, path: str) -> Found:
        """A script is there, and what its first line names is not, or is closed."""
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            first = os.read(fd, 256).split(b"\n")[0]
        finally:
            os.close(fd)
        words = first.removeprefix(b"#!").split()
        return self.known(Clue("use", os.fsdecode(words[0]), errno.ENOENT)) if first[:2] == b"#!" and words else None

    def blame(self, decision: Decision, access: str, path: str, wanted: int, clue: Clue, first: str = "") -> Found:
        """The policy refuses: ours, unless the host would have refused all the same (what was made `first`)."""
        if not modes.refusal(self.who, first or path, wanted):
            return denial_of(decision, access, path)
        return self.host(access, path, wanted, "; the policy closes it besides") if clue.error else None

    def host(self, access: str, path: str, wanted: int, more: str = "") -> Found:
        """The host refuses. To root it would not: then it is the capabilities that the command does not have."""
        why = modes.refusal(self.who, path, wanted)
        if self.who.uid == 0 and os.access(path, wanted):
            return Denial(
                access, path, f"{why}, and the command has no capabilities, though it is root", origin=BUILT_IN
            )
        return Cause(access, path, why + more)

    def is_private(self, path: str) -> bool:
        """Whether the command has something of its own at a place where the host may have something else."""
        granted = filter(None, (self.made.policy.workspace, self.made.temporary))
        return any(path.startswith(f"{place}/") for place in PRIVATE) and not is_inside(path, granted)

    def shared(self, decision: Decision, path: str) -> Found:
        """To be written where everybody writes: without a view no flag lets a command, which has a place of its own."""
        if plan.has_view(self.made.host) or decision.rule is None or not self.made.temporary:
            return None
        reason = f"{decision.rule.path} is the host's here; the command's own is {self.made.temporary} (TMPDIR)"
        return Denial("write", path, reason, origin=BUILT_IN)

    def private(self, path: str) -> Found:
        place = next(place for place in PRIVATE if path.startswith(f"{place}/"))
        rule = self.decide(Access.READ, path).rule
        if rule is None or rule.path != place:
            return None  # somebody granted the host's own
        if modes.refusal(self.who, path, os.R_OK):
            return self.host("read", path, os.R_OK)
        reason = f"{path} is the host's, and the command has a {place} of its own"
        return Denial("read", path, reason, f"--allow-read {policy.quoted(path)}", origin=BUILT_IN)

    def link(self, path: str) -> Found:
        if found := unseen(self.made, path):
            return denial_of(found[0], "read", found[1])
        return self.private(path) if self.is_private(path) and os.path.lexists(path) else None

    def whole(self, found: Found, path: str) -> Found:
        """A program of a virtual environment needs the rest of it, and what was found by hidden links those too."""
        if not isinstance(found, Denial) or found.access not in ("read", "run"):
            return found
        grant = found.grant
        place = os.path.dirname(os.path.dirname(path))
        if os.path.isfile(f"{place}/pyvenv.cfg"):
            own = f"--allow-read {policy.quoted(place)}" if self.is_private(place) else grant
            grant = self.decide(Access.READ, place).grant or own
        elif grant and found.target != path and ".." not in path.split("/") and unseen(self.made, path):
            grant = f"--allow-read {policy.quoted(path)}"  # which is leave for where it leads, too
        return msgspec.structs.replace(found, grant=grant)

    def program(self, name: str) -> Found:
        """A program that was not found on the path it has."""
        for directory in self.environ.get("PATH", os.defpath).split(os.pathsep):
            path = enforce.canonical(os.path.join(self.request.cwd, directory, name))
            if os.path.isfile(path) and not modes.refusal(self.who, path, os.X_OK):
                reading = self.decide(Access.READ, path)
                closed = denial_of(reading, "run", path) if reading.verdict is not Verdict.ALLOW else None
                named = os.path.join(self.request.cwd, directory, name)
                return self.whole(closed or self.link(named) or self.interpreter(path), named)
        line = f"; a line for the shell is run by: sh -c {policy.quoted(name)}" if " " in name else ""
        return Cause("run", name, f"no directory of PATH has such a program{line}")

    # ---- Everything else ----

    def socket(self, path: str) -> Found:
        network = self.judged.network
        if not modes.is_socket(path):
            absent = modes.refusal(self.who, path, os.R_OK) if not os.path.lexists(path) else ""
            return Cause("connect", path, absent) if absent else None
        host = modes.refusal(self.who, path, os.W_OK)
        if network.all_unix_sockets or any(rule.path == path for rule in network.sockets):
            return Cause("connect", path, host or "whoever should listen there does not")
        if host:
            return Cause("connect", path, host)
        reason = f"no rule lets anyone reach the socket {path}"
        if not plan.has_view(self.made.host):  # a gap, which is listed
            return Denial("connect", path, f"{reason}, and none can be opened here by name", origin=BUILT_IN)
        return Denial("connect", path, reason, f"--allow-socket {policy.quoted(path)}", origin=BUILT_IN)

    def connect(self, clue: Clue) -> Found:
        if clue.target == ANYWHERE:
            return self.anywhere(clue)
        network, (host, _, port) = self.judged.network, clue.target.rpartition(":")
        number = int(port) if port.isdigit() else 443
        if is_stand_in(host) and network.allows_hosts:
            if not (host := stood_for(self.judged.workspace, network.known_names, host)):
                return None  # for a name that a pattern allows; what the gate refused it has told
            clue = Clue("connect", f"{host}:{number}", clue.error)
        decision = policy.decide_host(network, host, number)
        if host in LOOPBACK and not modes.listens(number):
            return Cause("connect", clue.target, f"nobody listens at port {number} of the host") if clue.error else None
        is_refused = decision.verdict is not Verdict.ALLOW
        if is_refused and decision.host is None and not set(".:") & set(host) and host not in LOOPBACK:  # of no domain
            decision = msgspec.structs.replace(decision, grant=OPEN)
        if not network.open and not plan.has_own_network(self.made.host) and (decision.grant or not is_refused):
            reason = f"{decision.reason}, but no host can be opened here by name"
            return denial_of(msgspec.structs.replace(decision, reason=reason, grant=OPEN), "connect", clue.target)
        if is_refused:
            return denial_of(decision, "connect", clue.target)
        if not clue.error:
            return None
        if clue.error == errno.EADDRNOTAVAIL:
            return Cause("connect", clue.target, "the name is not known")
        return Cause("connect", clue.target, "it may be reached; nobody answers there, or its name is not known")

    def anywhere(self, clue: Clue) -> Found:
        """Nobody said where to. Without a network of its own the command can make no socket at all."""
        if clue.error != errno.EAFNOSUPPORT or self.judged.network.open or plan.has_view(self.made.host):
            return None
        for path in (word.target for word in self.words() if word.access != "connect"):
            if modes.is_socket(path) or "sock" in path:
                return self.socket(enforce.canonical(path))
        if any("AF_UNIX" in word for word in self.argv):
            return Denial("connect", ANYWHERE, "no unix socket can be made here", origin=BUILT_IN)
        return Denial(
            "connect", ANYWHERE, "the network is closed, so the command can make no socket", OPEN, origin=BUILT_IN
        )

    def sandbox(self, target: str) -> Found:
        """Namespaces of its own. Where nobody may make some, we have none either."""
        if self.judged.nested or not plan.has_view(self.made.host):
            return None
        reason = "no command makes a sandbox of its own, but where a policy says allowNestedSandbox"
        return Denial("sandbox", target, reason, origin=BUILT_IN)

    def bind(self, port: int) -> Found:
        if port >= modes.lowest_free_port():
            return None
        if self.who.uid != 0:
            return Cause("bind", str(port), f"only root may listen at ports below {modes.lowest_free_port()}")
        return Denial("bind", str(port), "the command has no capabilities, though it is root", origin=BUILT_IN)

    def abstract(self, target: str) -> Found:
        return Denial("connect", target, "whoever listens there is outside the run", origin=BUILT_IN)

    def listening(self, port: str) -> Found:
        """At a port of the host's, which is Landlock's alone to refuse."""
        if self.judged.network.open or not port.isdigit():
            return None
        return self.bind(int(port)) or Denial(
            "bind", port, "the network is closed, and here it is the host's own", OPEN, origin=BUILT_IN
        )

    def variable(self, clue: Clue) -> Found:
        name = clue.target
        if name not in self.environ:
            return Cause("variable", name, "it is not set") if clue.error else None
        given = self.made.variables[1] if self.made.variables else ()
        if any(one.startswith(f"{name}=".encode()) for one in given):
            return None
        reason = f"{name} is set, and does not reach the command: no rule lets it"
        return Denial("variable", name, reason, f"--allow-env {name}", origin=BUILT_IN)


# ---- One question ----


def why(request: Request, access: str, path: str) -> tuple[Decision, str]:
    """The judge's answer for one path, and the path it was asked about."""
    real = enforce.canonical(os.path.join(request.cwd, expanded(request, path)))
    wanted = Access.READ if access == "run" else Access(access)  # what may be read may be executed
    made = prepare(request)
    decision = policy.decide(made.judged(), wanted, real)
    hidden = unseen(made, os.path.join(request.cwd, expanded(request, path)))
    return hidden if hidden and decision.verdict is Verdict.ALLOW else (decision, real)


def unseen(made: Prepared, path: str) -> tuple[Decision, str] | None:
    """The first link on the way that the command cannot see, and why: a view does not have it."""
    if not plan.has_view(made.host):
        return None
    shown = {link for place in made.disk.places.values() for link in place.links}
    for link in links.followed(path)[0]:
        reading = policy.decide(made.judged(), Access.READ, link)
        if reading.verdict is not Verdict.ALLOW and link not in shown:
            return reading, link
    return None


def _is_descriptor(target: str) -> bool:
    """Whether it is a name for a descriptor beyond the standard streams, as bash makes for `<(…)`."""
    place, _, number = target.rpartition("/")
    return place in ("/dev/fd", "/proc/self/fd") and number.isdecimal() and int(number) > 2


def _first_missing(path: str) -> str:
    """What a program would make first, of a path and the directories on the way; the path itself when it is there."""
    while not os.path.lexists(parent := os.path.dirname(path)):
        path = parent
    return path


def expanded(request: Request, path: str) -> str:
    """A path with its tilde as the command's home."""
    return at_home(path, request.home if request.home.startswith("/") else home_of(environment()))


def why_connect(request: Request, target: str) -> tuple[Decision, str]:
    """The judge's answer for one host and port."""
    return policy.decide_target(prepare(request).policy, target), target
