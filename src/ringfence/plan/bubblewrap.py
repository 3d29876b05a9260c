"""The same view, built by bubblewrap: the mounts of `view` as its arguments, and what to look at afterwards.

Pure. For systems that let no other program make user namespaces. bubblewrap does what it is told in the order it is
told, as `view` has it, and makes what a mount stands on by itself; what is to be read-only it makes so at the end. It
finds paths by name, so our enactor, which it runs as pid 1 of the view, verifies every mount before it goes on.
"""

from collections.abc import Sequence

from ..model import BUILT_IN, Disk, Gap, Host, Need, PlanError, Step, StepKind
from . import landlock, view

MOST_ARGUMENTS = 9000  # bubblewrap's own limit
RESERVED = 100  # for what the enactor adds, and room
IS_READ_ONLY, IS_COVERED, BECOMES_READ_ONLY = 1, 2, 4  # bubblewrap.h, do_verify
PROC = "/proc"
_OWN_DEVICES = view.encoded(view.OWN_DEVICES)
# The warden's, who reads commands that hide their memory; a setuid bubblewrap gives it to root alone. And root's: to
# make the device nodes read-only, to look below closed directories, and to drop all of these.
KEPT = ("CAP_SYS_PTRACE", "CAP_SYS_ADMIN", "CAP_DAC_READ_SEARCH", "CAP_SETPCAP")


def ask(text: str, *words: str | bytes) -> Step:
    """One thing for bubblewrap to do."""
    strings = tuple(word if isinstance(word, bytes) else word.encode() for word in words)
    return Step(StepKind.BUBBLEWRAP, text, (), strings)


def lower(
    host: Host, mounts: list[Step], private_network: bool, doors: list[Step], read_only_proc: bool, gaps: list[Gap]
) -> list[Step]:
    """The steps that take the place of namespaces, mounts and /proc of our own."""
    made = [step for step in mounts if not is_of_dev(step)]
    steps = [begin(host, private_network), *map(render, made)]
    if host.fresh_proc:
        steps.append(ask("a /proc that shows this run and nobody else", "--proc", PROC))
    closed = [step.strings[0] for step in made if is_closed_last(step)]
    closed += [PROC.encode()] * (host.fresh_proc and read_only_proc)
    steps.append(ask("what bubblewrap made, read-only", *(word for path in closed for word in ("--remount-ro", path))))
    if sum(len(step.strings) for step in steps) > MOST_ARGUMENTS - RESERVED:
        why = f"bubblewrap takes at most {MOST_ARGUMENTS} arguments"
        gaps.append(Gap(f"{len(mounts)} mounts", why, Need.REQUIRED, BUILT_IN, "fewer or wider rules"))
    why = "bubblewrap lets mounts of the host through as they come"
    gaps.append(Gap("what the host mounts during the run read-only or hidden", why, Need.WANTED, BUILT_IN))
    if doors or (private_network and host.landlock_abi >= landlock.BROKER_SINCE):  # the warden then goes by it
        steps += [Step(StepKind.LOOPBACK, "the loopback that bubblewrap made is not the host's"), *doors]
    return steps


def begin(host: Host, private_network: bool) -> Step:
    """The program, the namespaces, no capabilities, and the tree as a whole read-only."""
    words = [host.bubblewrap, "--unshare-user", "--unshare-ipc", "--unshare-pid", "--as-pid-1", "--cap-drop", "ALL"]
    kept = KEPT if host.uid == 0 else () if host.bubblewrap_setuid else KEPT[:1]
    words += [word for name in kept for word in ("--cap-add", name)]
    names = "user, mount, ipc, pid" + (", network" if private_network else "")
    words += ["--unshare-net"] * private_network + ["--ro-bind", "/", "/"]
    why = f", for the enactor may not ({host.namespaces_why})" if host.namespaces_why else ""
    return ask(f"{host.bubblewrap} builds the view{why}: namespaces {names}; the mount tree read-only", *words)


def is_of_dev(step: Step) -> bool:
    """Whether bubblewrap makes it by itself as a part of /dev: the nodes, and the terminals."""
    return step.numbers[0] == view.DEVPTS or (step.numbers[0] == view.BIND and step.strings[0] in _OWN_DEVICES)


def is_closed_last(step: Step) -> bool:
    """Whether bubblewrap must be told at the end that what it made is read-only."""
    operation, flags = step.numbers[:2]
    return operation == view.MASK_DIRECTORY or (operation == view.TMPFS and bool(flags & view.READ_ONLY))


def render(step: Step) -> Step:
    """One mount as arguments. A masked file shows /dev/null on a mount where no device works: nobody can open it."""
    operation, flags, mode, size = step.numbers[:4]
    target = step.strings[0]
    if operation == view.BIND:
        how = "--dev-bind" if flags & view.DEVICES else "--ro-bind" if flags & view.READ_ONLY else "--bind"
        return ask(step.text, how, step.strings[1], target)
    if operation == view.MASK_FILE:
        return ask(step.text, "--ro-bind", f"{view.DEV}/null", target)
    if operation == view.MASK_DIRECTORY:
        return ask(step.text, "--perms", "0000", "--tmpfs", target)
    if operation != view.TMPFS:
        raise PlanError("bubblewrap", f"cannot do this: {step.text}")
    if target == view.DEV.encode():
        return ask(step.text, "--dev", target)
    limited = ("--size", str(size)) if size else ()
    return ask(step.text, *limited, "--perms", f"{mode:04o}", "--tmpfs", target, *symlinks(target, step.strings[1:]))


def symlinks(target: bytes, entries: Sequence[bytes]) -> list[str | bytes]:
    """The links that a file system holds at its start; bubblewrap makes the rest of its entries by itself."""
    found: list[str | bytes] = []
    left = iter(entries)
    for entry in left:
        if entry.startswith(b"l"):
            found += ["--symlink", next(left), target + b"/" + entry[1:]]
    return found


def verify(host: Host, mounts: list[Step], disk: Disk, read_only_proc: bool) -> list[Step]:
    """What must be so once bubblewrap has done its part; the last mount on a place is the one that counts."""
    root, last = disk["/"], {step.strings[0]: step for step in mounts}
    found = [Step(StepKind.VERIFY, "/ as planned", (IS_READ_ONLY, root.device, root.inode), (b"/",))]
    for target, step in last.items():
        operation, flags, _, _, device, inode = step.numbers
        if operation == view.DEVPTS or (host.fresh_proc and (target + b"/").startswith(PROC.encode() + b"/")):
            continue  # what no rule speaks of, and what the new /proc lies over
        wanted = 0 if operation == view.BIND else IS_COVERED
        if flags & view.DEVICES:
            wanted |= BECOMES_READ_ONLY if host.uid == 0 and flags & view.READ_ONLY else 0
        elif flags & view.READ_ONLY or operation in (view.MASK_DIRECTORY, view.MASK_FILE):
            wanted |= IS_READ_ONLY
        text = f"{target.decode('utf-8', 'backslashreplace')} as planned"
        found.append(Step(StepKind.VERIFY, text, (wanted, device, inode), (target,)))
    if host.fresh_proc:
        proc = disk[PROC]
        numbers = (IS_COVERED | (IS_READ_ONLY if read_only_proc else 0), proc.device, proc.inode)
        found.append(Step(StepKind.VERIFY, f"{PROC} as planned", numbers, (PROC.encode(),)))
    return found
