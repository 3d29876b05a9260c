"""The same file system shown twice: where else a path of the host can be reached.

Pure, over the lines of /proc/self/mountinfo. A mount hides or protects a path, not a file; what is bound a second time
elsewhere must be hidden or protected there too. Hosts with thousands of mounts exist, so nothing here looks at all of
them for one path.
"""

from collections.abc import Iterable, Iterator

import msgspec

from ..model import BUILT_IN, Access, Disk, Kind, Mount, Need, Origin, Policy, Rule, Verdict
from .regions import is_any_above, is_below

# Whose processes, terminals and devices these show does not depend on where they are mounted.
MACHINE = frozenset(("proc", "devpts", "devtmpfs"))
SHOWN = "it shows the host's processes or devices"
OWN = frozenset(("/proc", "/dev", "/sys"))  # with a view these are the run's
SECOND_WAY = Origin("built-in, of another mount of what may be written")


def upwards(path: str) -> Iterator[str]:
    """A path, and everything above it."""
    while path != "/":
        yield path
        path = path.rpartition("/")[0] or "/"
    yield "/"


def below(path: str, above: str) -> str:
    """What of a path lies below another that holds it: "" for the same."""
    return path[len(above.rstrip("/")) :] if path != above else ""


class Table:
    """The mounts, arranged for asking about a path."""

    def __init__(self, mounts: tuple[Mount, ...]) -> None:
        self.points = {mount.point: mount for mount in mounts}  # of those on one point the last
        self.roots: dict[str, dict[str, list[Mount]]] = {}  # by file system, and by which part of it is shown
        for mount in mounts:
            self.roots.setdefault(mount.device, {}).setdefault(mount.root, []).append(mount)
        self.sorted = {device: sorted(roots) for device, roots in self.roots.items()}

    def holder(self, path: str) -> Mount | None:
        """The mount a path stands on: the deepest."""
        return next((self.points[above] for above in upwards(path) if above in self.points), None)

    def elsewhere(self, path: str) -> list[str]:
        """The other paths at which what stands here, or a part of it, shows."""
        return [other for other, _ in self.ways(path)]

    def ways(self, path: str) -> list[tuple[str, str]]:
        """Those paths, each with the path here of what shows there."""
        here = self.holder(path)
        if here is None:
            return []
        within = (here.root.rstrip("/") + below(path, here.point)) or "/"  # where it lies in its file system
        found = []
        for mount, other in (*self._whole(here.device, within), *self._parts(here.device, within)):
            if mount is not here and other != path and self.holder(other) is mount:
                is_part = is_below(mount.root, within)
                found.append((other, path.rstrip("/") + below(mount.root, within) if is_part else path))
        return found

    def _whole(self, device: str, within: str) -> Iterator[tuple[Mount, str]]:
        """Mounts that show a directory above it, or itself."""
        for root in upwards(within):
            for mount in self.roots[device].get(root, ()):
                yield mount, mount.point.rstrip("/") + below(within, root) or "/"

    def _parts(self, device: str, within: str) -> Iterator[tuple[Mount, str]]:
        """Mounts that show a part of it."""
        from bisect import bisect_left  # most machines show nothing twice

        stem, roots = within.rstrip("/") + "/", self.sorted[device]
        for root in roots[bisect_left(roots, stem) :]:
            if not root.startswith(stem):
                return
            if root != within:
                yield from ((mount, mount.point) for mount in self.roots[device][root])


def shows_once(mounts: tuple[Mount, ...]) -> bool:
    """Whether no file system is mounted a second time, as on most machines: then nothing shows twice."""
    return len({mount.device for mount in mounts}) == len(mounts)


def shown_twice(paths: Iterable[str], mounts: tuple[Mount, ...]) -> set[str]:
    """Those of the paths of which all or a part shows elsewhere too."""
    if shows_once(mounts):
        return set()
    table = Table(mounts)
    return {path for path in paths if table.elsewhere(path)}


def with_aliases(policy: Policy, disk: Disk, mounts: tuple[Mount, ...]) -> Policy:
    """The policy with every denial repeated wherever what it is about shows again; of what is not there only where it
    could be made by that path."""
    if shows_once(mounts):
        return policy
    table, canonical = Table(mounts), {asked: place.path for asked, place in disk.places.items()}
    written = {*_granted(policy, canonical), *mounted(policy, canonical, mounts)}
    shown = {other for path in written for other in table.elsewhere(path)}
    added: list[Rule] = []
    for rule in policy.rules:
        place = disk.places.get(rule.path)
        if rule.verdict is Verdict.ALLOW or place is None:
            continue
        is_missing = place.kind is Kind.MISSING
        others = table.elsewhere(place.path) if not is_missing or is_any_above(place.path, shown) else ()
        made = (other for other in others if not is_missing or is_any_above(other, written))
        added += [msgspec.structs.replace(rule, path=other) for other in made]
    return msgspec.structs.replace(policy, rules=policy.rules + tuple(added)) if added else policy


def with_all_names(policy: Policy, disk: Disk, mounts: tuple[Mount, ...]) -> Disk:
    """The disk with every link on the way to what is granted by all its paths: by any of them a command may turn it."""
    granted = {path for rule in policy.rules if rule.verdict is Verdict.ALLOW for path in (rule.path, rule.through)}
    granted |= {path for injection in policy.injections for path in (injection.source, injection.target)}
    linked = [path for path in granted if path in disk.places and disk[path].links]
    if not linked or shows_once(mounts):
        return disk
    table = Table(mounts)
    places = dict(disk.places)
    for path in linked:
        links = places[path].links
        others = tuple(other for link in links for other in table.elsewhere(link))
        places[path] = msgspec.structs.replace(places[path], links=links + others)
    return msgspec.structs.replace(disk, places=places)


def with_one_way(policy: Policy, canonical: dict[str, str], mounts: tuple[Mount, ...]) -> Policy:
    """Without a view: what may be written, and shows elsewhere too, is written by its own path alone. Landlock knows it
    wherever it shows, and the warden judges names by the path they are used by."""
    if shows_once(mounts):
        return policy
    table = Table(mounts)
    granted = _granted(policy, canonical)
    others = {other for path in granted for other in table.elsewhere(path)}
    added = tuple(
        Rule(Access.WRITE, Verdict.DENY, other, SECOND_WAY, need=Need.WANTED)
        for other in sorted(others)
        if not any(above in granted for above in upwards(other))
    )
    return msgspec.structs.replace(policy, rules=policy.rules + added) if added else policy


def _granted(policy: Policy, canonical: dict[str, str]) -> set[str]:
    """What of the host's may be written. Of what is built in only the workspace: with a view the others are private,
    and without one they are narrowed to what is given one by one."""
    write, allow = Access.WRITE, Verdict.ALLOW  # an enumeration is slow to ask, and there are hundreds of rules
    return {
        canonical[rule.path]
        for rule in policy.rules
        if rule.access is write and rule.verdict is allow and rule.path in canonical
        and (rule.origin != BUILT_IN or rule.path == policy.workspace)
    }  # fmt: skip


def mounted(policy: Policy, canonical: dict[str, str], mounts: tuple[Mount, ...]) -> list[str]:
    """Where somebody has mounted something inside what may be written, but for what a rule names itself."""
    granted = _granted(policy, canonical)
    points = {mount.point for mount in mounts} - granted
    return sorted(point for point in points if any(above in granted for above in upwards(point)))


def without_sockets(policy: Policy, points: Iterable[str], disk: Disk, door: str) -> Policy:
    """With a view: the policy with every socket closed that is mounted inside what may be written, as containers are
    given a daemon's. For the warden a socket that is a mount of its own is one that the plan has put there. So would be
    one that a rule about files names, by which nobody is let speak to a service; of a run beside another it may be that
    one's own: it reaches its `door` alone."""
    named = {door, *(one.path for one in policy.network.sockets)}
    asked = {rule.path for rule in policy.rules if rule.path in disk.places} - named
    closed = {point for point in points if disk[point].kind in (Kind.SOCKET, Kind.OTHER)}
    closed |= {disk[path].path for path in asked if disk[path].kind is Kind.SOCKET}
    closed -= {disk[path].path for path in named if path in disk.places}  # by another of its names
    added = tuple(
        Rule(Access.WRITE, Verdict.DENY, path, BUILT_IN, why="it is a socket of the host's") for path in sorted(closed)
    )
    return msgspec.structs.replace(policy, rules=policy.rules + added) if added else policy


def without_machine(policy: Policy, mounts: tuple[Mount, ...]) -> Policy:
    """With a view, whose /proc and /dev are the run's own: the policy with every other one closed, as they are mounted
    for a chroot, but for those that a rule names itself. A mount that is read-only does not keep a device from being
    opened, and Landlock has no say in what is only read there. /dev/null, with which things are hidden, may show."""
    found = {
        mount.point
        for mount in mounts
        if mount.kind in MACHINE and mount.root != "/null" and not OWN.intersection(upwards(mount.point))
    }
    if not found:
        return policy
    points = sorted(found - {rule.path for rule in policy.rules if rule.verdict is Verdict.ALLOW})
    added = tuple(Rule(Access.READ, Verdict.DENY, point, BUILT_IN, need=Need.WANTED, why=SHOWN) for point in points)
    return msgspec.structs.replace(policy, rules=policy.rules + added)
