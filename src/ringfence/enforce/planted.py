"""After a run: repositories in the workspace that would make a later git, outside, run programs.

The names at the top of the workspace are held by the kernel; a repository deeper in it is the command's own to make. It
is reported when something was changed in it during the run that git would execute: a configuration beyond the ordinary,
a hook, a pointer to another git directory. So is, at the top too, a rebase or a sequence of picks that was left with
programs to run; a new link in any git directory, through which git would write; and one that leads into a git
directory, where nobody looks for another repository; and skills of Claude Code, which it takes from anywhere in the
workspace. What was changed is told by its time of change, which no command can set; in memory a file's may stay as it
was, and all count as new. A directory takes its files along as old as they are, so one whose HEAD is new is looked at
whole, and one with a HEAD also when half of a repository is missing.
A look around near the top first, in bounded time of the processor (a busy machine hides nothing) and a bounded wait for
the disk; it reads small regular files, and follows no link.
"""

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

import msgspec

from ..model import BUILT_IN, Gap, Need, Origin, Outcome, PlanError, Refused
from .gitfiles import facts_of, gone_to, is_new, is_pipe, pointed_at, whole
from .links import ABSENT, led_to
from .lookout import TAKEN, Listing, Listings, told_since
from .repository import NOWHERE, directories, linked_worktree, opened, submodule

MOST_ENTRIES, PATIENT = 500_000, 5.0  # seconds, for whoever wants it moved out of the way
WAIT = MORE = 1.0  # seconds at most for a disk or for our turn; of the processor, for a look into what was found
_BARE = frozenset(("HEAD", "objects", "refs"))
_HALVES = (frozenset(("HEAD", "config")), frozenset(("HEAD", "hooks")))  # what is missing can be put there later
_NESTS = ("modules", "worktrees")  # where in a git directory others are, and how many are looked into in any case
_LEAST_INSIDE = 1000
# In what of a git directory nobody has links, where else they are looked for first, how many directories in any case.
_LINKLESS = ("logs", "rebase-apply", "rebase-merge", "rr-cache", "sequencer", "info", "lost-found", "refs")
_FIRST, _STORED, _LEAST = (*_LINKLESS, "objects", *_NESTS), ("info", "pack"), 16
_SHARING = frozenset(("HEAD", "commondir"))  # it has the rest elsewhere
SKILLS = "/.claude/skills"
# What git writes by itself into a new repository, a clone, a branch; keys that name no program and no file.
_ORDINARY = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol",
    "remote": "url fetch pushurl push tagopt mirror prune promisor partialclonefilter",
    "branch": "remote merge rebase pushremote description",
    "user": "name email",
    "submodule": "url active update",
    "extensions": "objectformat refstorage partialclone",
    "pull": "rebase ff",
    "init": "defaultbranch",
}
_OF_TOOLS = ("lazygit.yml", "glab-cli", "glab-cli/config.yml", "sl/config")  # what others that go by the repository run
Paths = tuple[str, ...]
Holds = Callable[[str], bool]
_KEYS = {section: frozenset(keys.split()) for section, keys in _ORDINARY.items()}
CLOCK_TICK = 10_000_000  # ns: files are stamped by a clock that goes in steps


def nothing(_path: str) -> bool:
    """What is held of a run that nobody has planned for."""
    return False


class Until:
    """When a search is over: by our own work, which others cannot make longer, and by the clock."""

    def __init__(self, seconds: float) -> None:
        self._work = time.thread_time() + seconds
        self._latest = time.monotonic() + max(seconds, WAIT)

    def is_to_come(self) -> bool:
        return time.thread_time() < self._work and time.monotonic() < self._latest

    def is_for_more(self) -> bool:
        """Whether there is time for a look into what was found, of which a command may have made thousands."""
        return time.thread_time() < self._work + MORE


EVERY_TIME = Listings()  # with nothing remembered


def searched(
    workspace: str,
    outcome: Outcome,
    begun: int,
    moves: bool,
    listings: Listings = EVERY_TIME,
    seen: os.stat_result | None = None,
    most: float = 0.2,
    holds: Holds = nothing,
) -> Outcome:
    """What the run left behind for a later git, looked for in a small part of the time that the run took. `listings`
    are those of the searches before; `seen` is what stands at the workspace's path since its end, if somebody has
    looked; `holds` knows what was kept from the run."""
    if isinstance(outcome.ending, Refused):
        return outcome
    begun = min(begun, time.time_ns() - int(outcome.seconds * 1e9))  # the clock may have been set back meanwhile
    seconds = PATIENT if moves else min(0.001 + outcome.seconds * 0.03, most)
    found, moved, left = look(workspace, begun, seconds, moves, listings, seen, holds=holds)
    if left:
        outcome = msgspec.structs.replace(outcome, gaps=(*outcome.gaps, _unfinished(left, moves)))
    if not found:
        return outcome
    return msgspec.structs.replace(outcome, planted=outcome.planted + found, quarantined=moved)


def look(
    workspace: str, begun: int, seconds: float, moves: bool = False, *known: Any, holds: Holds = nothing
) -> tuple[Paths, Paths, int]:
    """What was left behind, what of it was renamed, and how many directories were not looked into."""
    left: list[str] = []
    try:
        found = scan(workspace, begun - CLOCK_TICK, seconds, *known, left=left, holds=holds)
    except OSError:  # somebody changes it at this moment; how the run ended is known all the same
        return (), (), 1
    if not found:
        return (), (), len(left)
    from .leftovers import run_by_prompts
    from .quarantine import quarantine

    places = dict.fromkeys(place for path in found for place in (path, gone_to(path)) if place)
    return found, quarantine(found if moves else run_by_prompts(places)), len(left)


def _unfinished(left: int, moves: bool) -> Gap:
    why = f"{left} directories, and what is below them, were not looked into: the time was over, or they cannot be read"
    origin, way_out = (Origin("--quarantine"), "") if moves else (BUILT_IN, "--quarantine looks for up to 5 s")
    return Gap("repositories that were left in the workspace looked for", why, Need.WANTED, origin, way_out)


def scan(
    workspace: str,
    since: int,
    seconds: float,
    listings: Listings = EVERY_TIME,
    seen: os.stat_result | None = None,
    *,
    left: list[str] | None = None,
    holds: Holds = nothing,
) -> tuple[str, ...]:
    """The git directories that a later git would run programs of, changed since a time in nanoseconds; to `left` comes
    what there was no time for, and what could not be read."""
    top: Listing | None = None
    left = [] if left is None else left
    try:
        top = listings.of(workspace, _read, seen)
    except PermissionError:
        pass
    except OSError as error:
        left += [workspace] * (not isinstance(error, ABSENT))
        return ()
    chosen = (top is not None and top.taken) or "MISE_ENV" in os.environ or "MISE_AUTO_ENV" in os.environ
    if top is not None and not (top.below or top.has_git or top.is_repository or top.links or chosen):
        return ()
    until = Until(seconds)
    since, of_files = told_since(workspace, since)
    held, own_skills = f"{workspace}/.git", f"{workspace}{SKILLS}"
    # Where a prompt and the next git go by comes first, however deep it lies.
    first = gone_to(held)
    others = _repositories(workspace, top, listings, until, left)
    repositories = list(dict.fromkeys((*([first] * first.startswith(f"{workspace}/")), *others)))
    found, gits = list[str](), list[str]()
    if chosen:
        from .taken import taken

        found += taken(workspace, top.taken if top else (), of_files, os.environ)
    for count, path in enumerate(repositories):
        if not until.is_for_more():
            left += repositories[count:]
            break
        age = since if path == own_skills or (of_files < since and _is_home(path, held)) else of_files
        if _runs_code(path, age, held) or _has_new_skill(path, age):
            found.append(path)
        elif os.path.isdir(path) and not os.path.islink(path):
            gits.append(path)
    if top is None or top.has_git:
        is_own = os.path.isdir(held)
        linked = None if is_own else linked_worktree(workspace)
        own = held if is_own else linked[0] if linked else _submodule(workspace) or NOWHERE
        common = linked[1] if linked else own
        places = (f"{common}/{name}" for name in _NESTS[bool(linked) :])  # modules of the main worktree are not ours
        found += _prompted(common, since)
        within = Until(seconds)  # what is found elsewhere takes nothing of it
        found = [path for path in found if not _is_known_pointer(path, common)]  # that is held, too
        for path in _inside(places, within, left):
            if not within.is_for_more():
                left.append(path)
                continue
            found += [path] if path != own and (_runs_code(path, since, common) or _left_in(path, of_files)) else []
            found += [f"{path}/gitdir"] if _claims_what_is_outside(path, of_files, workspace) else []
        found += _left_in(first if own == NOWHERE else own, of_files)
        found += [own] if is_new(own, since) and not os.access(own, os.R_OK | os.X_OK) else []
        found += [f"{common}/hooks"] if _has_new_hook(common, since) and not holds(led_to(f"{common}/hooks")) else []
        # Held, but whoever writes it outside meanwhile writes a lock first, which the command can replace.
        files = [f"{git}/{name}" for git in dict.fromkeys((own, common)) for name in ("config", "config.worktree")]
        found += [file for file in files if is_new(file, since) and not _is_ordinary(file)]
        found += _links(dict.fromkeys((own, common)), since, listings, until, left, common)
    found += _links(gits, since, listings, until, left)
    return tuple(dict.fromkeys(found))


def _prompted(common: str, since: int) -> tuple[str, ...]:
    """What a prompt would run in the worktrees that were there before, in which somebody works outside. Of those a plan
    lets a run have few: however many there are now, and however long it takes to look into them."""
    try:
        found = [(place, facts_of(f"{place}/gitdir")) for place in directories(f"{common}/worktrees")]
    except OSError:  # told of as closed
        return ()
    known = [place for place, facts in found if facts is not None and facts.st_ctime_ns < since]
    if not known:
        return ()
    from .leftovers import run_by_prompts

    return run_by_prompts(known)


def _submodule(workspace: str) -> str:
    try:
        return submodule(workspace)
    except PlanError:  # its configuration is larger than we read, and no run will begin here
        return ""


def _inside(places: Iterable[str], until: Until, left: list[str]) -> Iterator[str]:
    """The git directories inside a git directory: of its submodules and worktrees, and of theirs. Those that were there
    are held; the command may add some, and so may somebody else while it runs."""
    queue, count = deque(places), 0
    while queue and (until.is_to_come() or (count < _LEAST_INSIDE and until.is_for_more())):
        path, count = queue.popleft(), count + 1
        try:
            places = directories(path)
        except OSError:
            yield path  # closed to us: what is in it can be opened again
            continue
        for place in places:
            if path.endswith("/worktrees") or any(map(facts_of, (f"{place}/HEAD", f"{place}/config"))):
                yield place
                queue.extend(f"{place}/{name}" for name in _NESTS)
            else:
                queue.append(place)  # a name may have slashes
    left += queue


def _claims_what_is_outside(path: str, since: int, workspace: str) -> bool:
    """Whether a worktree was added whose place is a directory outside that does not say so: `git worktree repair` would
    make it say so, and a later git there would go by this repository."""
    if not is_new(f"{path}/gitdir", since):
        return False
    text = os.fsdecode(whole(f"{path}/gitdir") or b"").rstrip("\r\n")
    if "\0" in text:  # git reads what comes before it
        return True
    back = led_to(os.path.join(path, text))
    is_outside = os.path.isdir(os.path.dirname(back)) and not back.startswith(f"{workspace}/")
    return is_outside and pointed_at(back) != led_to(path)


def _links(
    gits: Iterable[str],
    since: int,
    listings: Listings,
    until: Until,
    left: list[str],
    held: str = NOWHERE,
) -> Iterator[str]:
    """New links in git directories. Git makes none there, but writes through one wherever it leads: reflogs, a commit's
    message, packed refs, the index, the state of a rebase or a conflict; nor named pipes, at which it waits for good.
    In directories where nobody has links, old ones are told of too, for a directory that is moved there brings its own
    along. So are repositories in there: a later run could move one into the workspace, and it would look old."""
    queue, count = deque((path, since) for path in gits), 0
    tops = frozenset(path for path, _ in queue)
    while queue and (count < _LEAST or until.is_to_come()):
        (path, age), count = queue.popleft(), count + 1
        try:
            found = listings.of(f"{path}/", _read_git)  # not what was read of it as of a directory among others
        except ABSENT:
            continue
        except PermissionError:
            yield from [path] * (path not in tops and is_new(path, since))  # what is in it can be opened again
            continue
        except OSError:
            left.append(path)
            continue
        is_top = path in tops
        is_moved = found.is_repository and not (is_top and held != NOWHERE) and _has_become_one(path, age)
        age = 0 if is_moved else age
        below = set(found.below) - ({"hooks"} if is_top else set())  # held, or looked at as such
        within = (*(name for name in _FIRST if name in below), *sorted(below.difference(_FIRST)))
        if path.endswith("/objects"):  # most have as many directories as two digits make
            within = tuple(name for name in within if name in _STORED or is_new(f"{path}/{name}", age))
        if found.is_repository and not is_top and _common(path) != b"../.." and _runs_code(path, since, held):
            yield path
        queue.extend((f"{path}/{name}", 0 if name in _LINKLESS else age) for name in within if name in below)
        for link in (f"{path}/{name}" for name in found.links):
            # Some tools share directories of several repositories so.
            oldest = since if is_moved and os.path.isdir(link) else age
            yield from [link] * ((facts := facts_of(link)) is not None and facts.st_ctime_ns >= oldest)
    left += (path for path, _ in queue)


def _read_git(path: str) -> Listing:
    with opened(path) as listing:
        entries = list(listing)
    below = tuple(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    links = tuple(entry.name for entry in entries if entry.is_symlink() or is_pipe(entry))
    return Listing(below, False, _is_repository({entry.name for entry in entries}), links, len(entries))


def _is_repository(names: Set[str]) -> bool:
    return any(names >= parts for parts in (_BARE, _SHARING, *_HALVES))


def _common(path: str) -> bytes | None:
    """Where a git directory says that hooks and configuration are; None where that cannot be read."""
    text = whole(f"{path}/commondir")
    above = os.path.dirname(os.path.dirname(path))
    if text is not None and text.rstrip(b"/\r\n") == os.fsencode(above):  # as libgit2 writes it
        return b"../.."
    return None if text is None else text.rstrip(b"\r\n")


def _read(path: str) -> Listing:
    names, below, links = set(), [], []
    with opened(path) as listing:
        for entry in listing:
            names.add(entry.name)
            if entry.name == ".git":
                continue
            if entry.is_dir(follow_symlinks=False):
                below.append(entry.name)
            elif entry.is_symlink() and (_is_for_skills(f"{path}/{entry.name}") or _leads_into_git(entry.path)):
                links.append(entry.name)
    return Listing(tuple(below), ".git" in names, _is_repository(names), tuple(links), len(names), TAKEN & names)


def _is_for_skills(path: str) -> bool:
    """Whether a name is one that Claude Code looks for them by, or one of them: it follows links."""
    return path.endswith(("/.claude", SKILLS)) or os.path.dirname(path).endswith(SKILLS)


def _leads_into_git(link: str) -> bool:
    try:
        return ".git" in os.readlink(link).lower().split("/")
    except OSError:  # somebody took it away
        return False


def _repositories(
    workspace: str, top: Listing | None, listings: Listings, until: Until, left: list[str]
) -> Iterator[str]:
    """Every git directory below the top of the workspace, near the top first, until the time is over: the processor's,
    or everybody's. `top` is None when the workspace itself is closed to us."""
    if top is None or top.has_git:
        from .gitlinks import gitlinks

        yield from gitlinks(workspace, until)
    if top is None or top.is_repository:
        yield workspace
    yield from (f"{workspace}/{name}" for name in (top.links if top else ()))
    queue, entries = deque(f"{workspace}/{name}" for name in (top.below if top else ())), top.entries if top else 0
    while queue and entries < MOST_ENTRIES and until.is_to_come():
        path = queue.popleft()
        try:
            found = listings.of(path, _read)
        except PermissionError:
            yield path  # closed to us: what is in it can be opened again
            continue
        except ABSENT:
            continue
        except OSError:  # no descriptor is left, or its path is too long
            left.append(path)
            continue
        entries += found.entries
        queue.extend(f"{path}/{name}" for name in found.below)
        if found.has_git:
            yield f"{path}/.git"
        if found.is_repository or (path.endswith(SKILLS) and found.below):
            yield path
        yield from (f"{path}/{name}" for name in found.links)
    left += queue


def _has_new_skill(path: str, since: int) -> bool:
    """Whether a skill was made or changed, or was moved there with the directories around it; also behind a link."""
    path += "/skills" if path.endswith("/.claude") else ""
    if os.path.dirname(path).endswith(SKILLS):
        return is_new(path, since) or is_new(f"{path}/SKILL.md", since)
    if not path.endswith(SKILLS):
        return False
    try:
        own = [f"{path}/{name}" for name in os.listdir(path)]
    except OSError:
        own = []
    places = (os.path.dirname(path), path, *own, *(f"{place}/SKILL.md" for place in own))
    return any(is_new(place, since) for place in places)


def _runs_code(path: str, since: int, held: str) -> bool:
    """Whether something that git would execute in a git directory was changed; not in the one that the kernel holds."""
    changed = facts_of(path)
    if changed is None:
        return False
    if not stat.S_ISDIR(changed.st_mode):
        # A file or a link that leads to the git directory: where it leads may be anywhere.
        if changed.st_ctime_ns >= since:
            return not _is_known_pointer(path, held, os.path.dirname(held))
        return _is_changed_beyond(path, since, held)
    if not os.access(path, os.R_OK | os.X_OK):
        return changed.st_ctime_ns >= since
    is_held = path.startswith(f"{held}/")  # then its configuration is, too, unless it is a new one
    lasting = tuple(name for name in ("config", "commondir") if is_held and facts_of(f"{path}/{name}"))
    if _has_become_one(path, since, lasting):
        since = 0
    common = _common(path)
    if common not in (b"", b"../.."):
        return is_held or is_new(f"{path}/commondir", since) or bool(_left_in(path, since))
    above = os.path.dirname(os.path.dirname(path))
    return _is_changed(path, since) or (bool(common) and above != held and _is_changed(above, since))


def _has_become_one(path: str, since: int, lasting: tuple[str, ...] = ()) -> bool:
    """Whether a git directory may have become one just now, by another name, with all that is older in it."""
    return any(is_new(f"{path}/{name}", since) for name in lasting or ("HEAD", "commondir"))


def _left_in(git: str, since: int) -> list[str]:
    """What was left in a git directory that leads a later git elsewhere."""
    if not os.path.isdir(git) or not os.access(git, os.R_OK | os.X_OK):
        return []
    from .leftovers import left  # a module less on the way where there is no repository

    try:
        return left(git, since)
    except OSError:  # somebody changes it at this moment
        return [git] if os.path.isdir(git) else []


def _is_changed(path: str, since: int) -> bool:
    """Whether there is a new configuration beyond the ordinary, also of another tool's, or a new hook."""
    files = (f"{path}/config", f"{path}/config.worktree")
    if any(is_new(file, since) and not _is_ordinary(file) for file in files) or _left_in(path, since):
        return True
    return any(is_new(f"{path}/{name}", since) for name in _OF_TOOLS) or _has_new_hook(path, since)


def _has_new_hook(git: str, since: int) -> bool:
    was_opened = is_new(f"{git}/hooks", since)
    try:
        hooks = [name for name in os.listdir(f"{git}/hooks") if not name.endswith(".sample")]
    except OSError as error:
        return was_opened and (isinstance(error, PermissionError) or os.path.islink(f"{git}/hooks"))
    return any(was_opened or is_new(f"{git}/hooks/{name}", since) for name in hooks)


def _is_known_pointer(path: str, held: str, top: str = NOWHERE) -> bool:
    """Whether a `.git` file leads to a worktree's or submodule's part of the repository that is held, or of one below
    the top, in which nothing would be executed, however old: nobody may have looked at it before. What lies elsewhere
    is another project's, whose files a later git would bring here."""
    own = pointed_at(path)
    is_part = own.startswith(f"{top}/") and ("/.git/worktrees/" in own or "/.git/modules/" in own)
    is_part = is_part or own.startswith((f"{held}/worktrees/", f"{held}/modules/"))
    return is_part and not _runs_code(own, 0, held)


def _is_home(path: str, held: str) -> bool:
    """Whether a `.git` file leads to the submodule that is there, as its configuration says, which the kernel holds."""
    return os.path.isfile(path) and _submodule(os.path.dirname(path)).startswith(f"{held}/modules/")


def _is_changed_beyond(path: str, since: int, held: str) -> bool:
    """Whether a `.git` file that was there before leads to where something was changed: in the workspace, below a git
    directory, where nobody looks otherwise."""
    own = gone_to(path)
    return own.startswith(f"{os.path.dirname(held)}/") and _runs_code(own, since, held)


def _is_ordinary(file: str) -> bool:
    """Whether a configuration says only what git itself writes there."""
    text, own = whole(file), os.path.dirname(file)
    if text is None:
        return False
    keys: frozenset[str] = frozenset()
    for raw in text.decode("utf-8", "replace").split("\n"):  # as git does, for which others are part of a line
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            section, _, rest = line[1:].partition("]")
            keys = _KEYS.get(section.split(" ")[0].split(".")[0].strip('"').lower(), frozenset())
            line = rest.strip()
            if not line:
                continue
        key, _, value = line.partition("=")
        plain = value.replace('"', "").strip()
        if keys is _KEYS["core"] and key.strip().lower() == "worktree":  # of a submodule, which says the same
            if "\\" in plain or pointed_at(os.path.join(own, plain, ".git")) != led_to(own):
                return False
            continue
        if key.strip().lower() not in keys or plain.endswith("\\") or plain.startswith(("ext::", "!")):
            return False
    return True
