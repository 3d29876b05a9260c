"""Lower regions to a view: a copy of the mount tree in which each region is what the policy says.

Pure. The tree starts read-only as a whole; writable regions are bound into it from the host, hidden ones are covered,
private ones are fresh. Sources are always paths of the host, because the view is built detached from it; so parents
can simply come first. What stands inside a hidden directory and is shown all the same gets a place to be mounted on in
the file system that hides it.
"""

from collections.abc import Iterable

from ..model import Disk, Gap, Kind, Need, Origin, Place, Step, StepKind
from .regions import Region, State, between, changes, enclosed, is_below, parts

BIND, TMPFS, MASK_DIRECTORY, MASK_FILE, DEVPTS, OVERLAY, MASK_EACH, BIND_EACH = 1, 2, 3, 4, 5, 6, 7, 8  # view.h
READ_ONLY, DEVICES, DIRECTORIES = 1, 2, 4  # view.h

# What programs expect of /dev. The nodes are the host's own, bound one by one: nobody can make nodes in a namespace.
NODES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"), ("ptmx", "pts/ptmx"))
DEV = "/dev"
SHM = "/dev/shm"
OWN_DEVICES = (*(f"{DEV}/{name}" for name in NODES), f"{DEV}/ptmx", f"{DEV}/pts")


def mount(
    operation: int,
    text: str,
    target: str,
    *strings: str,
    flags: int = 0,
    mode: int = 0,
    size: int = 0,
    place: Place | None = None,
) -> Step:
    identity = (place.device, place.inode) if place else (0, 0)
    return Step(StepKind.MOUNT, text, (operation, flags, mode, size, *identity), encoded((target, *strings)))


def encoded(texts: Iterable[str]) -> tuple[bytes, ...]:
    """Paths and names as the kernel has them."""
    return tuple([text.encode("utf-8", "surrogateescape") for text in texts])


def bind(place: Place, read_only: bool, text: str) -> Step:
    flags = (READ_ONLY if read_only else 0) | (DEVICES if is_device(place.path) else 0)
    return mount(BIND, text, place.path, place.path, flags=flags, place=place)


def dev(disk: Disk, shown: list[Region]) -> list[Step]:
    """A private /dev: the few nodes, its own terminals, room for its own shared memory, and for what somebody named."""
    present = [disk[f"{DEV}/{name}"] for name in NODES]
    names = [place.asked.removeprefix(f"{DEV}/") for place in present if place.kind is not Kind.MISSING]
    entries = [f"f{name}" for name in names] + ["dpts", "dshm", *skeleton(DEV, shown, {})]
    for name, target in LINKS:
        entries += [f"l{name}", target]
    steps = [
        mount(
            TMPFS,
            f"{DEV} private, with {', '.join(names)}, pts, shm",
            DEV,
            *entries,
            flags=READ_ONLY,
            mode=0o755,
            place=disk[DEV],
        )
    ]
    steps += [
        mount(BIND, f"{place.path} as on the host", place.asked, place.path, flags=READ_ONLY | DEVICES, place=place)
        for place in present
        if place.kind is not Kind.MISSING
    ]  # fmt: skip
    steps.append(mount(DEVPTS, f"{DEV}/pts private", f"{DEV}/pts"))
    return steps


def is_device(path: str) -> bool:
    """Whether a path lies in what `dev` makes."""
    return path == DEV or (is_below(path, DEV) and path != SHM and not is_below(path, SHM))


def is_own_device(path: str) -> bool:
    """Whether it is one that `dev` makes itself, whatever the rules say; the rest of /dev is what somebody named."""
    return path in (DEV, *OWN_DEVICES) or is_below(path, f"{DEV}/pts")


Links = dict[str, str]  # what each says, by where it stands


def links_inside(changed: list[tuple[Region, Region | None]], disk: Disk) -> dict[str, Links]:
    """The symbolic links in each hidden region that are on the way to something shown: `~/.gitconfig` is often one, and
    a home on a larger disk."""
    known = {region.path: region.state is State.HIDDEN for region, _ in changed}

    def shows(path: str) -> bool:
        """Whether a path is shown, or something in it."""
        return not hides(path) or any(is_below(other, path) for other, is_hidden in known.items() if not is_hidden)

    def hides(path: str) -> str:
        """The hidden region that a path lies in, or nothing."""
        while path not in known and path != "/":
            path = path.rpartition("/")[0] or "/"
        return path if known.get(path) else ""

    found: dict[str, Links] = {}
    for place in disk.places.values():
        if place.links and place.kind is not Kind.MISSING and shows(place.path):
            for link in place.links:
                if (home := hides(link)) and home != link and link in disk.texts:
                    found.setdefault(home, {})[link] = disk.texts[link]
    return found


def skeleton(above: str, shown: list[Region], links: Links) -> list[str]:
    """The entries that a covering file system needs, so that what is shown inside it has something to stand on, and
    the links that lead to what is shown."""
    entries: dict[str, None] = {}
    depth = len(parts(above))
    for region in shown:
        for step in between(region.path, above):
            entries["d" + "/".join(parts(step)[depth:])] = None
        kind = "d" if region.place.kind is Kind.DIRECTORY else "f"
        entries[kind + "/".join(parts(region.path)[depth:])] = None
    for link in links:
        for step in between(link, above):
            entries["d" + "/".join(parts(step)[depth:])] = None
    led = [("l" + "/".join(parts(link)[depth:]), text) for link, text in links.items()]
    return [*entries, *(word for pair in led for word in pair)]


def cover(region: Region, shown: list[Region], links: Links, size: int, home: str) -> Step:
    """Hide a region, or make it private and of a size, leaving a place for what is shown inside it all the same. In the
    home names are not there, rather than closed: programs do without settings that they do not find."""
    path, rule = region.path, region.rule
    entries = skeleton(path, shown, links)
    if region.state is State.PRIVATE:
        text = f"{path} private" + (f", at most {size} bytes" if size else "")
        return mount(TMPFS, text, path, *entries, mode=0o1777, size=size, place=region.place)
    if region.place.kind is not Kind.DIRECTORY:
        return mount(MASK_FILE, f"{path} hidden ({rule.origin})", path, place=region.place)
    if not entries and f"{home}/".startswith(f"{path}/"):
        return mount(TMPFS, f"{path} hidden ({rule.origin})", path, flags=READ_ONLY, mode=0o111, place=region.place)
    if not entries:
        return mount(MASK_DIRECTORY, f"{path} hidden ({rule.origin})", path, place=region.place)
    text = f"{path} hidden ({rule.origin}) but for {len(shown) + len(links)} inside"
    return mount(TMPFS, text, path, *entries, flags=READ_ONLY, mode=0o755, place=region.place)


def lower(
    changed: list[tuple[Region, Region | None]],
    disk: Disk,
    size: int,
    more_pins: Iterable[str],
    home: str,
) -> tuple[list[Step], list[Gap]]:
    """The mounts that make the regions true, parents first, and what they cannot make true. `size` is the most that a
    private directory may hold; `more_pins` are what to pin besides; `home` is the command's."""
    gaps: list[Gap] = []
    shown: dict[str, list[Region]] = {}
    present = [pair for pair in with_private_pins(changed) if is_present(*pair)]
    for region, above in present:
        if above is not None and above.state in (State.HIDDEN, State.PRIVATE):
            shown.setdefault(above.path, []).append(region)
    made: dict[str, Step] = {}
    links = links_inside(present, disk)
    for region, above in present:
        gaps += unfit(region)
        if above is None or is_own_device(region.path):
            continue  # the root is the tree itself; /dev is made already
        for path in pins(region, above):
            made[path] = pin(disk[path])
        if region.state in (State.HIDDEN, State.PRIVATE):
            made[region.path] = cover(region, shown.get(region.path, []), links.get(region.path, {}), size, home)
        else:
            text = f"{region.path} {region.state.value} ({region.rule.origin})"
            made[region.path] = bind(region.place, region.state is State.READ, text)
    for path in more_pins:
        made[path] = pin(disk[path])
    # A pin comes before all that stands in it, whatever made it needed: it would cover that.
    named = [region for region in shown.get(DEV, []) if is_device(region.path) and not is_own_device(region.path)]
    return [*dev(disk, named), *(made[path] for path in sorted(made, key=parts))], gaps


def pin(place: Place) -> Step:
    return bind(place, False, f"{place.path} pinned, so that it cannot be renamed")


def sockets(found: list[Region]) -> list[Place]:
    """The sockets that a rule names inside what may be written anyway: the warden takes one that is a mount of its own
    for one that may be reached."""
    changed = {region.path for region, _ in changes(found)}
    named = [one for one in found if one.place.kind is Kind.SOCKET and one.state is State.WRITE]
    return [one.place for one in named if one.path not in changed and not one.rule.pattern]


def is_present(region: Region, above: Region | None) -> bool:
    """Whether there is something to mount on: on the host, or in a private directory, where we make it."""
    return region.place.kind is not Kind.MISSING or is_in_private(region, above)


def is_in_private(region: Region, above: Region | None) -> bool:
    """Whether a region is denied in a directory of the run's own, where also names that the host does not have are
    held."""
    return above is not None and above.state is State.PRIVATE and region.state in (State.HIDDEN, State.PRIVATE)


def with_private_pins(changed: list[tuple[Region, Region | None]]) -> list[tuple[Region, Region | None]]:
    """The regions, each with the one it lies in; and between a private directory and something denied in it a private
    one for each on the way, so that none of them can be renamed."""
    made = {
        path: Region(Place(path, path, Kind.DIRECTORY), State.PRIVATE, above.rule)
        for region, above in changed
        if above is not None and is_in_private(region, above)
        for path in between(region.path, above.path)
    }
    if not made:
        return changed
    known = {region.path for region, _ in changed}
    pinned = [region for path, region in made.items() if path not in known]
    return enclosed(sorted([*(region for region, _ in changed), *pinned], key=lambda region: parts(region.path)))


def pins(region: Region, above: Region | None) -> list[str]:
    """The writable directories on the way to something denied: renaming one would carry it away from its cover."""
    if above is None or above.state is not State.WRITE or region.state not in (State.READ, State.HIDDEN):
        return []
    return between(region.path, above.path)


def is_creatable(region: Region, above: Region | None) -> bool:
    """Whether a denied name does not exist yet, inside a tree where the command may create it. Where a tree
    was granted that is not there, or is a file, it cannot: what is around that is not writable."""
    return (
        region.place.kind is Kind.MISSING
        and above is not None
        and above.state is State.WRITE
        and above.place.kind is Kind.DIRECTORY
        and region.state is not State.WRITE
    )


def uncreated(regions: list[Region]) -> list[Gap]:
    """Denied names that the command could still create; those of one origin are said together."""
    together: dict[tuple[Need, Origin], list[str]] = {}
    for region in regions:
        together.setdefault((region.rule.need, region.rule.origin), []).append(region.path)
    return [
        Gap(
            f"not to be created: {', '.join(paths)}",
            "the names do not exist yet, and only what exists can be held here",
            need,
            origin,
            "create them before the run",
        )
        for (need, origin), paths in together.items()
    ]


def unfit(region: Region, need: Need = Need.REQUIRED) -> list[Gap]:
    """A writable region that the host, or the run around this one, mounted read-only."""
    if region.state is not State.WRITE or region.place.writable or region.place.kind is Kind.MISSING:
        return []
    return [Gap(f"{region.path} writable", "its file system is mounted read-only here", need, region.rule.origin)]
