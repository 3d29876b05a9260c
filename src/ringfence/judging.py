"""Joins the guard with the policy and the disk: who judges here, and with which eyes.

Under a policy `decide` answers with that policy. Without one the rule is that nothing outside the root is written,
/tmp included; it is a policy of three lines, so that one judge answers all the same.
"""

import errno
import os
import re
import time
from collections import deque
from collections.abc import Callable, Mapping

import msgspec

from . import policy
from .guard import Bounds
from .model import (
    BUILT_IN,
    NOTHING_APPROVED,
    Access,
    Decision,
    Enforcement,
    Origin,
    Policy,
    PolicyError,
    Rule,
    UsageError,
    Verdict,
)
from .where import OWN, chosen_root

MOST_NAMES = 256
MOST_ENTRIES = 2000
PLAIN, MISSING, CLOSED, UNKNOWN = "\0", "\0missing", "\0closed", "\0unknown"  # no link leads to such a name
MOST_LINKS = 40  # as many as the kernel follows
LONGEST_PATTERN = 1000  # characters; what is made of a longer one to match it takes too long
SEARCHED = 2.0  # seconds; an agent waits
LONGEST = 12_000  # characters of a path; the kernel takes 4096 at a time, from wherever one stands
NO_LINK = (errno.EINVAL, errno.ENOTDIR, errno.ENAMETOOLONG)  # what a name says that is no link, or cannot be there


def bounds_of(root: str, found: Policy | None = None, start: str = "", home: str = "", held: bool = False) -> Bounds:
    """The bounds of a worktree: under a policy, or by the rule of the worktree alone."""
    root = follow(root)
    judged = plain_policy(root) if found is None else _canonical(found)

    def decide(access: Access, path: str) -> Decision:
        return policy.decide(judged, access, path)

    return Bounds(
        root=root,
        start=start or root,
        home=home,
        decide=decide,
        resolve=follow,
        is_directory=lambda path: os.path.isdir(path) and os.access(path, os.X_OK),
        is_link=os.path.islink,
        match=lambda pattern, directory: names(pattern, directory, root),
        leaks=lambda directory: leaks(directory, decide),
        hides=lambda directory: hides(directory, judged),
        veils=veiling(judged),
        repository=lambda directory: repository(directory, root),
        skills=lambda: skills_below(root),
        reads_free=found is None,
        held=held and found is not None and found.enforcement is Enforcement.REQUIRED,
    )


def _canonical(found: Policy) -> Policy:
    """The policy with its links followed, and without what a run would not be granted by it: who follows a link that
    the command may turn would let the command choose. Raises PolicyError where nobody can say what a rule is about."""
    seen = dict[str, str]()
    resolve = follower(seen)
    found = policy.with_real_patterns(found, resolve)
    granted = [rule for rule in found.rules if rule.verdict is Verdict.ALLOW]
    named = {rule.path for rule in granted if not rule.glob} | {rule.through for rule in granted if rule.through}
    if any(resolve(path) != path for path in named):
        from .enforce import mounts
        from .model import Disk, Kind, Place
        from .plan import with_all_names, without_swayed

        places = {}
        for path in named:
            links: list[str] = []
            places[path] = Place(path, follow(path, seen, links), Kind.DIRECTORY, links=tuple(links))
        found = without_swayed(found, with_all_names(found, Disk(places), mounts()))
    found = policy.canonical_policy(found, resolve, True)
    unknown = next((path for path, target in seen.items() if target == UNKNOWN), "")
    if unknown:  # what is denied there would be open
        raise PolicyError(unknown, "cannot be looked at", "a rule leads there: repair or remove what stands there")
    return found


def bounds_for_agent(
    cwd: str, workspace: str, environ: Mapping[str, str], exact: bool = True, unheld: bool = False, stands: str = ""
) -> Bounds:
    """The bounds of an agent that stands in a directory, under the policy that its commands will run under. Its
    workspace is the one it is told, if `exact`, or the one around that; untold, the one around where it stands. What is
    `unheld` no sandbox keeps from what git runs in the workspace, as its configuration says: so the judge has to. The
    agent `stands` elsewhere than its call begins, or else there."""
    real = os.path.realpath(workspace or cwd)
    root = real if workspace and exact else chosen_root(real, environ)
    if not os.path.isdir(root):
        raise UsageError(root, "the workspace is not a directory")
    here = os.path.realpath(cwd)
    start = here if here == root or here.startswith(root.rstrip("/") + "/") else root
    approved = NOTHING_APPROVED
    if policy.has_approvals(environ):
        from .approvals import standing

        approved = standing(root, environ)
    begun = os.path.realpath(stands or cwd)
    found = policy.load(root, environ=environ, own=OWN, standing=approved, start=begun)
    if unheld:
        from . import enforce  # with the next, ten milliseconds
        from .keep import with_git_programs

        found = with_git_programs(found, enforce.repository_of(root), environ.get("HOME", ""), environ)
    made = bounds_of(root, found, start, environ.get("HOME", ""), held=not unheld)
    return msgspec.structs.replace(made, decide=_outside_of_it(made)) if unheld else made


def _outside_of_it(bounds: Bounds) -> Callable[[Access, str], Decision]:
    """The judge for who is outside of the sandbox: what that has of its own is the host's there, and asked about."""

    def decide(access: Access, path: str) -> Decision:
        made = bounds.decide(access, path)
        private = made.rule is not None and made.rule.origin == BUILT_IN and made.rule.path in policy.PRIVATE
        if made.verdict is not Verdict.ALLOW or not private or bounds.has(path):
            return made
        return Decision(Verdict.ASK, f"{path!r} is the host's here; in the sandbox it is another", made.rule)

    return decide


def plain_policy(root: str) -> Policy:
    """Everything may be read, the root and the null device may be written."""
    origin = Origin("worktree")
    return Policy(
        root,
        (
            Rule(Access.READ, Verdict.ALLOW, "/", origin),
            Rule(Access.WRITE, Verdict.ALLOW, root, origin),
            Rule(Access.WRITE, Verdict.ALLOW, "/dev/null", origin),
        ),
    )


def follow(path: str, seen: dict[str, str] | None = None, links: list[str] | None = None) -> str:
    """An absolute path with its links followed as far as it exists. Below /proc nothing is: there the links are ours,
    and not those of the process that will use them. `seen` remembers what each name is, for a policy's many paths at
    once, which hold for a name as it is written where nobody can look; `links` is given the links that were met."""
    if len(path) > LONGEST:
        return "/.."  # as below; the kernel takes none of this length either
    is_rule, seen = seen is not None, {} if seen is None else seen
    here, count = "", 0
    rest = path.split("/")[::-1]
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        if name == "..":
            here = here.rpartition("/")[0]
            continue
        there = f"{here}/{name}"
        if there == "/proc":
            if ".." in rest:
                return "/.."  # as below: above a link (`thread-self`, `net`) is not what stands before it
            return os.path.normpath("/".join(("/proc", *rest[::-1])))
        if there not in seen:
            seen[there] = MISSING if seen.get(here) == MISSING else link(there)
        target = seen[there]
        if target == UNKNOWN or (target == CLOSED and not is_rule):
            return "/.."
        if target in (PLAIN, MISSING, CLOSED):
            here = there
            continue
        count += 1
        if links is not None:
            links.append(there)
        if count > MOST_LINKS:
            return "/.."  # not a canonical path, so nothing is allowed on it
        if target.startswith("/"):
            here = ""
        rest += target.split("/")[::-1]
    return here or "/"


def follower(seen: dict[str, str]) -> Callable[[str], str]:
    """`follow` for the hundreds of paths of a policy: they have few directories between them, and most are not there,
    which can be asked at less than the price of failing to read a link."""

    def look(path: str) -> str:
        place, _, name = path.rpartition("/")
        known = seen.get(place)  # what is remembered stands where it stands: no link is left on the way there
        if name not in ("", ".", ".."):
            if known == PLAIN and not _may_be_there(path):
                seen[path] = known = MISSING
            if known == MISSING:
                return path
        return follow(path, seen)

    return look


def _may_be_there(path: str) -> bool:
    """Whether a name is there, link or not; also where that cannot be told, which whoever follows it finds as well."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        pass
    return True


def link(path: str) -> str:
    """Where a link leads, or that it is none."""
    try:
        return os.readlink(path)
    except ValueError:  # not a name
        return PLAIN
    except OSError as error:
        if error.errno == errno.ENOENT:
            return MISSING
        if error.errno == errno.EACCES:
            return CLOSED if _can_open(os.path.dirname(path)) else PLAIN
        return PLAIN if error.errno in NO_LINK else UNKNOWN


def _can_open(directory: str) -> bool:
    """Whether who may not look into a directory can change that, and the command with him: it is his own. Behind
    another's nobody comes through, the command no more than we."""
    try:
        return os.stat(directory).st_uid == os.geteuid()
    except OSError:  # it is behind another's that is closed, and of that one we were asked before
        return False


def names(pattern: str, directory: str, root: str) -> list[str] | None:
    """What a pattern of the shell matches, or None when it reaches too far or too much to be looked up."""
    if len(pattern) > LONGEST_PATTERN:
        return None
    parts = pattern.split("/")
    wild = [part for part in parts if any(char in part for char in "*?[")]
    if any(re.fullmatch(r"\.(?:\*+|\?|\[.*\])\**", part) for part in wild):
        return None  # bash before 5.2 finds `..` by it
    if len(wild) > 2 or ".." in parts or any("[:" in part or "[=" in part for part in wild):
        return None
    if pattern.startswith("/") and not os.path.normpath(pattern).startswith(root.rstrip("/") + "/"):
        return None
    import glob

    plain = (
        pattern.replace("\\*", "[*]")
        .replace("\\?", "[?]")
        .replace("\\[", "[[]")
        .replace("[^", "[!")
        .replace("\\\\", "\\")
    )
    found = []
    try:
        for name in glob.iglob(plain, root_dir=None if pattern.startswith("/") else directory):
            found.append(name)
            if len(found) > MOST_NAMES:
                return None
    except (OSError, ValueError):
        return None
    return sorted(found)


def leaks(directory: str, decide: Callable[[Access, str], Decision]) -> bool:
    """Whether a link below a directory leads to where nobody may write; yes, when nobody can look at all of it."""
    seen, waiting = 0, [directory]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return True  # nobody can look: what is there may lead anywhere
        for entry in entries:
            seen += 1
            if seen > MOST_ENTRIES:
                return True
            if entry.is_symlink():
                if decide(Access.WRITE, follow(entry.path)).verdict is not Verdict.ALLOW:
                    return True
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
    return False


def hides(directory: str, found: Policy) -> bool:
    """Whether a policy keeps something below a directory from being read, by its name or perhaps by a pattern."""
    above = directory.rstrip("/") + "/"
    for rule in found.rules:
        if rule.access is Access.READ and rule.verdict is not Verdict.ALLOW:
            fixed = re.split(r"[*?\[{\\]", rule.path)[0] if rule.glob else rule.path
            if fixed.startswith(above) or (rule.glob and above.startswith(fixed.rpartition("/")[0] + "/")):
                return True
    return False


def veiling(found: Policy) -> Callable[[str], bool]:
    """Whether a pattern may stand for a path that a policy keeps from being read: `/etc/shado?`. Up to where it is
    plain others have looked."""
    hidden: list[list[str]] = []

    def veils(pattern: str) -> bool:
        from fnmatch import fnmatchcase

        if len(pattern) > LONGEST_PATTERN:
            return True
        if not hidden:
            denied = (rule for rule in found.rules if rule.access is Access.READ and rule.verdict is not Verdict.ALLOW)
            hidden.extend(rule.path.split("/") for rule in denied if not rule.glob)
        wanted = [re.sub(r"\[.+?\]", "?", name) for name in pattern.split("/")]
        plain = next((at for at, name in enumerate(wanted) if "*" in name or "?" in name), len(wanted))
        first = wanted[:plain]
        return any(
            plain < len(names) <= len(wanted) and names[:plain] == first and all(map(fnmatchcase, names, wanted))
            for names in hidden
        )

    return veils


def skills_below(root: str) -> str:
    """A directory of skills below the top of a worktree; or where nobody has looked, as it cannot be opened or took too
    long."""
    until, waiting = time.monotonic() + SEARCHED, deque([root])
    while waiting:
        path = waiting.popleft()
        if time.monotonic() > until:
            return path
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.name.lower() == ".claude" and path != root and os.path.isdir(f"{entry.path}/skills"):
                        return f"{entry.path}/skills"
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return path
    return ""


def repository(directory: str, root: str) -> str:
    """The git directory that a directory belongs to; nothing for a linked worktree, whose repository is its own."""
    path = directory
    while True:
        place = os.path.join(path, ".git")
        if os.path.isfile(place):
            return "" if path == root else _pointed(place)
        if os.path.isdir(place):
            return place
        if path == "/":
            return ""
        path = os.path.dirname(path)


def _pointed(place: str) -> str:
    """The directory that a .git file names."""
    try:
        with open(place, encoding="utf-8", errors="replace") as file:
            text = file.read(4096).strip()
    except OSError:
        return place
    return follow(os.path.join(os.path.dirname(place), text.removeprefix("gitdir:").strip()))
