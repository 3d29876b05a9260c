"""What is kept from call to call: everything about a run but the command itself.

An agent runs hundreds of commands in one workspace. What depends on the policy, the machine and the disk alone is
looked at again when a policy file changes, when a protected name that was missing appears, when something covered was
replaced, after some seconds, and when the enactor finds something else than was planned for.
"""

import _thread  # what `threading` adds is not needed here, and costs the command a millisecond
import atexit
import os
import time
from collections.abc import Mapping, Sequence

import msgspec

from . import enforce, plan, policy
from .model import (
    NOTHING_APPROVED,
    Access,
    Command,
    Crowd,
    Disk,
    Enforcement,
    Kind,
    LaunchError,
    Mount,
    Need,
    Network,
    Observe,
    Plan,
    PlanError,
    Policy,
    Screen,
    Shelf,
    Step,
    Verdict,
)
from .where import OWN

FRESH_SECONDS = 5.0
KEPT = 8
MOST_STANDBYS = 4
# What a caller has looked at just now, so that nobody need look again: `environment()`, and perhaps what stands at the
# workspace's path.
AtHand = tuple[Mapping[str, str], os.stat_result | None]


class Request(msgspec.Struct, frozen=True, cache_hash=True):
    """What somebody asks of us: where, under which flags, and as whom."""

    workspace: str
    cwd: str
    flags: policy.Flags
    home: str
    ids: tuple[int, int] | None = None
    screen: Screen = Screen()
    observe: Observe = Observe.NOTHING
    siblings: bool = False  # a ringfence inside may ask for runs beside this one
    given: bytes = b""  # the policy itself, of a run that was asked for so
    lends: bool = False  # as in Command


class Prepared:
    """Everything about a run but the command itself."""

    def __init__(self, request: Request, found: Policy) -> None:
        self.request, self.place = request, os.fsencode(request.workspace)
        self.loaded = self.policy = found
        self.held: list[int] = []
        self.temporary = ""
        self.proxies: tuple[int, ...] = ()  # without a network namespace: sockets that listen on the host's loopback
        self.agent: tuple[str, int] | None = None  # the ssh agent outside, and the socket that stands for it inside
        self.door = -1  # where a ringfence inside asks for runs beside this one
        self.users = self.runs = 0  # runs that rely on it now, and all that did
        self.is_forgotten = False  # nobody new will rely on it
        self._judged: Policy | None = None
        self.variables: tuple[Mapping[str, str], tuple[bytes, ...], bytes] | None = None  # what is given of some
        self.between = b""  # the steps that every command has, encoded
        self._outline: Plan | None = None
        self._ground: enforce.Ground | None = None
        self._making = _thread.allocate_lock()
        self._nursery: tuple[enforce.Nursery, tuple[object, ...]] | None = None  # and how we were when it was made
        self.until = time.monotonic() + FRESH_SECONDS
        self._by = os.geteuid(), os.getegid()  # who has looked at the disk
        try:
            self._plan()
        except BaseException:
            self.close()
            raise

    def _plan(self) -> None:
        """The walls, from the policy, the machine and the disk."""
        patterned, shelf = self._complete()
        begun, mounts = time.time_ns(), enforce.mounts()
        few, crowds, disk = self._look(patterned, shelf, mounts)
        few, carried, found, many, disk = self._lay_out(few, crowds, disk)
        pins, spines = plan.further_paths(found, self.host, many)
        pins += plan.link_ways(carried, disk, found, self.host)
        ids, request = self.request.ids, self.request
        disk = enforce.list_children(enforce.survey(pins, self.held, disk, ids), spines, ids)
        self.disk = msgspec.structs.replace(disk, folding=enforce.folding(plan.ways(found, self.host, many), mounts))
        empty = Command(
            (), "/", {}, temporary=self.temporary, screen=request.screen, shelf=shelf,
            ids=ids, observe=request.observe, lends=request.lends,
        )  # fmt: skip
        self.walls = plan.make_walls(carried, self.host, self.disk, empty, found, many)
        self.head = b"".join(map(enforce.encode_step, self.walls.head))
        self.tail = b"".join(map(enforce.encode_step, self.walls.tail))
        self._looked = found, many, mounts, begun
        self.laid, self.policy = few, plan.unfold(few, crowds)
        self._settle()

    def _complete(self) -> tuple[Disk, Shelf]:
        """Add to the policy what the repository, its own patterns, the network and the caches make of it here."""
        request, patterned, shelf = self.request, Disk({}), Shelf()
        self.policy = self.policy if request.given else with_repository(self.policy, request.home, request.ids)
        if [rule for rule in self.policy.rules if rule.glob]:
            from .matches import with_matches

            self.policy, patterned = with_matches(self.policy, self.held, request.ids)
        self.policy = plan.without_streams(self.policy)
        if self.policy.network != Network() or self.policy.asking:
            self._plan_network()
        if request.siblings and plan.has_siblings(self.policy, enforce.probe(request.ids)):
            self._open_door()
        if self.policy.enforcement is not Enforcement.OFF:
            shelf = enforce.make_shelf(request.workspace, request.home, request.ids, plan.PLACES)
            self.policy = plan.with_shelf(self.policy, shelf)
        return patterned, shelf

    def _look(self, patterned: Disk, shelf: Shelf, mounts: tuple[Mount, ...]) -> tuple[Policy, tuple[Crowd, ...], Disk]:
        """The disk, and the policy without its crowds and with what the mounts make of it; and the machine."""
        request = self.request
        few, crowds = self._fold(mounts)
        places = {crowd.directory: crowd.place for crowd in crowds} | patterned.places
        known = msgspec.structs.replace(patterned, places=places)
        denied = plan.denied_paths(few)
        disk = enforce.survey(plan.named_paths(few) + plan.cache_paths(shelf), self.held, known, request.ids, denied)
        if {self.policy.workspace, disk[self.policy.workspace].path} != {request.workspace}:
            hint = "end what puts links there, and start the run again"
            raise PlanError(request.workspace, "leads elsewhere than a moment ago", hint)
        disk = plan.with_all_names(few, disk, mounts)
        host = enforce.probe(request.ids)
        self.host = msgspec.structs.replace(host, overlays=host.overlays and _has_overlays)
        if self.policy.limits:
            cgroups, hides = enforce.controllers(), enforce.hides_processes()
            self.host = msgspec.structs.replace(self.host, cgroups=cgroups, hides_processes=hides)
        if self.policy.nested:
            self.host = msgspec.structs.replace(self.host, owns_group=enforce.owns_group(request.ids))
        if self.policy.enforcement is not Enforcement.OFF and not plan.has_view(self.host):
            try:
                self.temporary = self.temporary or enforce.new_directory(request.ids, self.held)
            except PermissionError as error:
                hint = "the run around this one has no view: `ringfence doctor` outside says how to get one"
                text = f"a directory of the run's own: {error.strerror}"
                raise LaunchError("/tmp", text, hint if self.host.is_inside else "") from None
            disk = enforce.survey([self.temporary], self.held, disk, request.ids)
        present = {asked: place.path for asked, place in disk.places.items() if place.kind is not Kind.MISSING}
        surveyed = plan.with_pointers(few, disk)
        few = plan.with_aliases(surveyed, disk, mounts)
        if plan.has_view(self.host):
            points = plan.mounted(few, present, mounts)
            disk = enforce.survey([*points, os.path.join("/", request.home)], self.held, disk, request.ids)
            few = plan.without_machine(few, mounts)
            few = plan.without_sockets(few, points, disk, f"{self.temporary}/{enforce.DOOR}")
        else:
            few = plan.with_one_way(few, present, mounts)
        if few is not surveyed:
            disk = enforce.survey(plan.named_paths(few), self.held, disk, request.ids, denied)
        if crowds:
            surveyed, (few, crowds) = few, plan.parted(few, crowds, disk)
            disk = disk if few is surveyed else self._survey(few, disk)
        return few, crowds, disk

    def _settle(self) -> None:
        """What every run asks for, and what the policy and the walls say for all of them."""
        limits = {limit.name: limit.amount for limit in self.policy.limits}
        self.timeout, output = limits.get("timeout"), limits.get("output")
        self.output = None if output is None else int(output)
        self.required = [gap for gap in self.walls.gaps if gap.need is Need.REQUIRED]
        is_off = self.policy.enforcement is Enforcement.OFF
        self._holds_names = plan.has_broker(self.policy, self.host) and not (is_off or self.required)
        # A group is made for one run; and of the end of a standby a warden tells us.
        self.can_stand_by = self.walls.has_warden and not (self.walls.controllers or self.walls.asks)
        doors = self.agent or self.proxies or plan.doors(self.policy, self.host)
        self.has_passage = bool(doors) and not is_off

    def _fold(self, mounts: tuple[Mount, ...]) -> tuple[Policy, tuple[Crowd, ...]]:
        """The policy without the rules that are planned as crowds, and those crowds as they are on the disk."""
        policy, ids = self.policy, self.request.ids
        is_off = policy.enforcement is Enforcement.OFF
        if is_off or not (plan.has_many(policy) and plan.can_fold(policy, enforce.probe(ids))):
            return policy, ()
        few, crowds = plan.fold(policy)
        apart = plan.shown_twice([crowd.directory for crowd in crowds], mounts)
        crowds, loose = enforce.look_at(crowds, apart, mounts, self.held, ids)
        return plan.with_rules(few, loose), crowds

    def _lay_out(
        self, few: Policy, crowds: tuple[Crowd, ...], disk: Disk
    ) -> tuple[Policy, Policy, list[plan.Region], plan.Homed, Disk]:
        """The policy with what must be planned one by one, and as it is carried; the regions, the crowds in them."""
        while True:
            carried = plan.without_absent(few, self.host, disk)
            found = plan.lay_out(carried, self.host, disk, self.temporary)
            many = plan.homed(crowds, found)
            private = plan.private(many)
            if not private:
                return few, carried, found, many, disk
            few, crowds = plan.unfold(few, private), tuple(crowd for crowd in crowds if crowd not in private)
            disk = self._survey(few, disk)

    def _survey(self, few: Policy, disk: Disk) -> Disk:
        return enforce.survey(plan.named_paths(few), self.held, disk, self.request.ids, plan.denied_paths(few))

    def _plan_network(self) -> None:
        """What of the network must be on the disk when it is looked at."""
        from . import gates

        host = enforce.probe(self.request.ids)
        path = gates.agent_of(self.policy, host, self.request.ids, environment())
        if path or plan.wants_resolver(self.policy, host):
            self.temporary = enforce.new_directory(self.request.ids, self.held)
        if path:
            self.policy, self.agent = gates.with_agent(self.policy, path, self.temporary, self.held)
        if plan.wants_proxies(self.policy, host):
            self.policy, self.proxies = gates.with_proxies(self.policy, self.held)
        self.policy = gates.with_resolver(plan.with_sockets(self.policy, host), host, self.temporary)

    def _open_door(self) -> None:
        host = enforce.probe(self.request.ids)
        if not plan.has_view(host) and enforce.hides_processes():
            return  # nobody could tell that who asks is of the run
        try:
            self.temporary = self.temporary or enforce.new_directory(self.request.ids, self.held)
            path = f"{self.temporary}/{enforce.DOOR}"
            self.door = enforce.listen_at(path, self.request.ids, plan.has_view(host))
        except OSError:  # /tmp is full, read-only or closed: then nobody listens, and an inner run is within this one
            return
        self.held.append(self.door)
        self.policy = plan.with_door(self.policy, path, host)

    def outline(self, steps: tuple[Step, ...] | None = None, argv: Sequence[str] = ()) -> Plan:
        """A plan with these walls, or with these steps for a command."""
        self._outline = self._outline or plan.outline(self.walls, self.policy, self.request.ids, self.request.screen)
        outline = self._outline
        return outline if steps is None else msgspec.structs.replace(outline, steps=steps, argv=tuple(argv))

    def holds(self, path: str) -> bool:
        """Whether nothing that the command makes can have come to a canonical path. Not where the repository that is
        found at the end is another than the one that was planned for."""
        return self._holds_names and policy.decide(self.judged(), Access.WRITE, path).verdict is not Verdict.ALLOW

    def judged(self) -> Policy:
        """The policy as it is carried out, with the disk's own names for its paths, as the judge wants it: what is
        denied of one process is denied of each."""
        if self._judged is None:

            def resolve(path: str) -> str:
                return self.disk[path].path if path in self.disk.places else enforce.canonical(path)

            carried = plan.without_swayed(self.policy, self.disk)
            if self.policy.enforcement is not Enforcement.OFF and self.host.system == "linux":
                used = plan.by_use(self.laid, self.host, self.disk)
                if used is not self.laid:
                    known = set(self.laid.rules)
                    more = (rule for rule in used.rules if rule not in known)
                    carried = msgspec.structs.replace(carried, rules=(*carried.rules, *more))
                carried = plan.with_own_dev(carried, plan.has_view(self.host))
            self._judged = policy.canonical_policy(plan.as_layered(carried, self.walls.layered), resolve, True)
        return self._judged

    def is_fresh(self, found: Policy, seen: os.stat_result | None) -> bool:
        """Whether what was seen of the disk and the files may still be relied on; `seen` as in AtHand."""
        # A policy is read anew while a file of it has a time that says nothing yet.
        is_other = (found is not self.loaded and found != self.loaded) or (os.geteuid(), os.getegid()) != self._by
        if is_other or time.monotonic() >= self.until:
            return False
        self.loaded = found  # of two threads that load it each has its own, and to compare them takes long
        try:
            return not self.ground().has_appeared(self.request.workspace, seen)
        except OSError:  # nobody can say: look at everything again, and say what is wrong
            return False

    def ground(self) -> enforce.Ground:
        """What must stay as it is on the disk. It is made while the first command begins, which needs none of it."""
        if self._ground is None:
            with self._making:
                self._ground = self._ground or self._make_ground(*self._looked)
        return self._ground

    def _make_ground(
        self, found: list[plan.Region], many: plan.Homed, mounts: tuple[Mount, ...], begun: int
    ) -> enforce.Ground:
        def covered() -> enforce.Identities:
            places, uid = plan.covered_places(found, self.host), self.host.uid
            return enforce.identities(self.walls.head, places, plan.denied_paths(self.laid), uid)

        crowds, of = [(held.crowd, held.missing) for held in many], (self.laid, self.disk)
        return enforce.Ground(plan.absent_names(*of), plan.hidden_names(*of), covered, crowds, mounts, begun)

    def take_standby(self, inherited: tuple[object, ...]) -> "enforce.Standby | None":
        """An enactor that waits behind these walls and has what a child of ours would inherit now, if there is a
        nursery for them; it is the taker's."""
        kept = self._nursery
        if kept is None:
            return None
        if kept[1] != inherited:
            self.drop_nursery()
            return None
        try:
            standby = kept[0].take()
        except OSError:
            self.drop_nursery()
            return None
        if self.ground().is_covered():
            return standby
        standby.close()
        return None

    def renew_standby(self, inherited: tuple[object, ...]) -> None:
        """Have the next one ready, and some more where many run at once."""
        if self.is_forgotten:
            return
        kept = self._nursery
        try:
            if kept is None:
                whole = self.outline()
                kept = enforce.Nursery(whole, self.head + self.tail, len(whole.steps)), inherited
                with _lock:
                    other, self._nursery = self._nursery, kept
                if other is not None:
                    other[0].close()
                self.ground().cover()
            kept[0].ask(min(max(self.users, 1), MOST_STANDBYS))
        except (OSError, LaunchError):
            self.drop_nursery()  # the next run starts without one, and says itself what is wrong

    def disown(self) -> None:
        if self._nursery is not None:  # in a fork of our caller's
            self._nursery[0].disown()

    def drop_nursery(self) -> None:
        """Nobody stands by for it any longer."""
        with _lock:
            nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery[0].close()

    def close(self) -> None:
        self.drop_nursery()
        enforce.let_go(self.held)
        self.held = []
        if self.temporary:
            enforce.remove(self.temporary)


_has_overlays = True


def give_up_overlays() -> None:
    """This machine does not make them, or not there: caches are each workspace's own from now on."""
    global _has_overlays
    _has_overlays = False


def with_git_programs(found: Policy, of: enforce.Repository, home: str, environ: Mapping[str, str]) -> Policy:
    """With what git runs there later, in an environment, kept."""
    paths = enforce.all_programs(found.workspace, of.worktree, of.project or of.submodule, of.modules, home, environ)
    return plan.with_git_programs(found, paths)


def with_repository(found: Policy, home: str, ids: tuple[int, int] | None) -> Policy:
    """The policy for the repository as it is: of a worktree or a submodule it lies elsewhere."""
    of = enforce.repository_of(found.workspace)
    found = with_git_programs(found, of, home, {} if ids else environment())
    found = plan.with_git_insides(found, of.git, enforce.worktrees(of.git, *(of.modules or ())), of.modules)
    if of.worktree is None:
        return plan.with_submodule(found, of.submodule) if of.submodule else found
    if of.is_session:
        return plan.with_session(found, *of.worktree, of.project)
    beside = enforce.beside(found.workspace, of.worktree[1]) if plan.has_broker(found, enforce.probe(ids)) else None
    return plan.with_repository(found, *of.worktree, beside)


_prepared: dict[Request, Prepared] = {}
_lock = _thread.allocate_lock()


def environment() -> dict[str, str]:
    """Our own, as a plain dict. os.environ decodes every variable whenever it is looked at, so it is compared with what
    was last seen by what it decodes."""
    global _environment
    kept, raw = _environment, getattr(os.environ, "_data", None)
    if raw is None or kept[0] != raw:
        _environment = kept = dict(raw or {}), dict(os.environ)
    return kept[1]


_environment: tuple[dict[bytes, bytes], dict[str, str]] = ({}, {})


def load_policy(request: Request, at_hand: AtHand | None = None) -> Policy:
    """The policy of all layers for a request: the caller's own settings, and the command's home."""
    if request.given:
        return policy.written_down(request.given)
    home = request.home if request.ids else ""
    environ, seen = at_hand or (environment(), None)
    approved = NOTHING_APPROVED
    if not request.ids and policy.has_approvals(environ):  # a person's yes is for their own
        from .approvals import standing

        approved = standing(request.workspace, environ)
    asked, brief = (request.workspace, request.flags, request.cwd), enforce.brief
    return policy.load(*asked, home=home, environ=environ, own=OWN, standing=approved, seen=seen, brief=brief)


def prepare(request: Request) -> Prepared:
    """The walls for a request, to be looked at, or for a run to come: whatever that will ask is there."""
    made = acquire(request)
    made.ground()
    release(made)
    return made


def acquire(request: Request, once: bool = False, at_hand: AtHand | None = None) -> Prepared:
    """The walls for a request, kept while they are true, or made anew. They are in use until `release`: what is
    forgotten meanwhile is closed by the last who uses it. Whoever can try only `once` has them compared with the disk
    first: if the enactor found it changed, the run would be refused."""
    with _lock:
        kept = _prepared.get(request)
        if kept is not None:
            kept.users += 1
    try:
        if kept is None:
            enforce.ask(request.ids)  # a process of its own, so it goes on beside what follows
        found = load_policy(request, at_hand)
    except BaseException:
        if kept is not None:
            release(kept)
        raise
    if kept is not None:
        if kept.is_fresh(found, at_hand[1] if at_hand else None) and (not once or kept.ground().is_covered()):
            return kept
        forget(kept)
        release(kept)
    with _lock:
        oldest = list(_prepared.values())[: max(0, len(_prepared) - KEPT + 1)]
    for other in oldest:
        forget(other)
    made = Prepared(request, found)
    with _lock:
        first = made if request.siblings else _prepared.setdefault(request, made)  # who comes to a door is of one run
        first.users += 1
    if first is not made:  # another thread was faster
        made.close()
    return first


def release(made: Prepared) -> None:
    with _lock:
        made.users -= 1
        unused = made.users == 0 and _prepared.get(made.request) is not made
    if unused:
        made.close()


def forget(made: Prepared) -> None:
    """Keep it no longer; whoever uses it still closes it. Not what was made for the same request since: of many runs
    behind walls that have become wrong each comes here."""
    with _lock:
        kept = _prepared.get(made.request) is made
        if kept:
            del _prepared[made.request]
        made.is_forgotten = True
        unused = kept and made.users == 0
    if unused:
        made.close()
    elif kept:
        made.drop_nursery()


def _disown() -> None:
    """In a fork of our caller's: what was prepared is the parent's, and so are its directories and processes."""
    global _lock
    _lock = _thread.allocate_lock()  # another thread may have held it
    for made in _prepared.values():
        enforce.let_go(made.held)
        made.disown()
    _prepared.clear()
    enforce.disown()


os.register_at_fork(after_in_child=_disown)


@atexit.register
def forget_all() -> None:
    for made in list(_prepared.values()):
        forget(made)
