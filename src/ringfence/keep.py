"""What is kept from call to call: everything about a run but the command itself.

An agent runs hundreds of commands in one workspace. What depends on the policy, the machine and the disk alone is
looked at again when a policy file changes, when a protected name that was missing appears, when something covered was
replaced, after some seconds, and when the enactor finds something else than was planned for.
"""

import _thread  # what `threading` adds is not needed here, and costs the command a millisecond
import atexit
import contextlib
import errno
import fcntl
import os
import sys
import time
from collections.abc import Iterator

import msgspec

from . import enforce, plan, policy
from .model import Command, Enforcement, Kind, LaunchError, Plan, Policy

FRESH_SECONDS = 5.0
KEPT = 8
NOWHERE = "/nonexistent"
PACKAGE = os.path.dirname(os.path.abspath(__file__))
# Our own code: whoever could write it would be outside at the next run.
OWN = tuple(sorted({PACKAGE, os.path.realpath(sys.prefix)} - {"/usr", "/usr/local", "/"}))


class Request(msgspec.Struct, frozen=True):
    """What somebody asks of us: where, under which flags, and as whom."""

    workspace: str
    cwd: str
    flags: policy.Flags
    home: str
    ids: tuple[int, int] | None = None
    detached: bool = True


class Prepared:
    """Everything about a run but the command itself."""

    def __init__(self, request: Request, found: Policy) -> None:
        self.request = request
        self.loaded = found
        self.policy = found
        self.held: list[int] = []
        self.temporary = ""
        self.users = 0  # runs that rely on it now
        self.runs = 0
        self._standby: tuple[enforce.Standby, tuple[object, ...]] | None = None  # and how we were when it was made
        self.until = time.monotonic() + FRESH_SECONDS
        try:
            self._plan()
        except BaseException:
            self.close()
            raise

    def _plan(self) -> None:
        request = self.request
        worktree = enforce.linked_worktree(request.workspace)
        if worktree is not None:
            self.policy = plan.with_repository(self.policy, *worktree)
        disk = enforce.survey(plan.named_paths(self.policy), self.held, ids=request.ids)
        self.host = enforce.probe(request.ids)
        if self.policy.enforcement is not Enforcement.OFF and not plan.has_view(self.host):
            self.temporary = _new_directory(request.ids, self.held)
            disk = enforce.survey([self.temporary], self.held, disk, request.ids)
        present = {asked: place.path for asked, place in disk.places.items() if place.kind is not Kind.MISSING}
        self.policy = plan.with_aliases(plan.with_git_file(self.policy, disk), present, enforce.mounts())
        disk = enforce.survey(plan.named_paths(self.policy), self.held, disk, request.ids)
        found = plan.lay_out(self.policy, self.host, disk, self.temporary)
        pins, spines = plan.further_paths(found, self.host)
        self.disk = enforce.list_children(enforce.survey(pins, self.held, disk, request.ids), spines)
        empty = Command((), "/", {}, temporary=self.temporary, detached=request.detached, ids=request.ids)
        self.walls = plan.make_walls(self.policy, self.host, self.disk, empty, found)
        self.head = b"".join(map(enforce.encode_step, self.walls.head))
        self.tail = b"".join(map(enforce.encode_step, self.walls.tail))
        self.absent = plan.absent_names(self.policy, self.disk)
        self.covered = plan.covered_places(found, self.host)

    def is_fresh(self, found: Policy) -> bool:
        """Whether what was seen of the disk and the files may still be relied on."""
        return found is self.loaded and time.monotonic() < self.until and not self.appeared()

    def appeared(self) -> tuple[str, ...]:
        """Protected names that did not exist when we looked, and do now."""
        return tuple(path for path in self.absent if os.path.lexists(path))

    def take_standby(self, inherited: tuple[object, ...]) -> enforce.Standby | None:
        """The enactor that waits behind these walls, if one does and has what a child of ours would inherit now; it is
        the taker's."""
        with _lock:
            kept, self._standby = self._standby, None
        if kept is None:
            return None
        standby, then = kept
        if standby.is_ready() and self._is_covered() and then == inherited:
            return standby
        standby.close()
        return None

    def _is_covered(self) -> bool:
        """Whether what a standby's view covers still stands where it stood."""
        try:
            seen = [os.lstat(place.path) for place in self.covered]
        except OSError:
            return False
        pairs = zip(seen, self.covered, strict=True)
        return all((now.st_dev, now.st_ino) == (place.device, place.inode) for now, place in pairs)

    def renew_standby(self, whole: Plan, inherited: tuple[object, ...]) -> None:
        """Have the next one ready while this one runs."""
        with _lock:
            wanted = self._standby is None
        if not wanted:
            return
        try:
            standby = enforce.Standby(whole, self.head + self.tail, len(self.walls.head) + len(self.walls.tail))
        except (OSError, LaunchError):
            return  # the next run starts without one, and says itself what is wrong
        with _lock:
            if self._standby is None:
                self._standby = standby, inherited
                return
        standby.close()

    def close(self) -> None:
        with _lock:
            kept, self._standby = self._standby, None
        if kept is not None:
            kept[0].close()
        for fd in self.held:
            os.close(fd)
        self.held = []
        if self.temporary:
            _remove(self.temporary)


_prepared: dict[Request, Prepared] = {}
_lock = _thread.allocate_lock()


def _new_directory(ids: tuple[int, int] | None, held: list[int]) -> str:
    """A directory of our own in /tmp, for a plan that cannot have a private /tmp. It is locked while we use it."""
    _sweep()
    path = f"/tmp/ringfence-{os.geteuid()}-{os.urandom(8).hex()}"
    os.mkdir(path, 0o700)
    held.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
    fcntl.flock(held[-1], fcntl.LOCK_SH)
    if ids:
        os.chown(path, *ids)
    return path


def _sweep() -> None:
    """Remove such directories of processes that were killed before they could: nobody has them locked."""
    mine = f"ringfence-{os.geteuid()}-"
    for name in os.listdir("/tmp"):
        if not name.startswith(mine):
            continue
        try:
            fd = os.open(f"/tmp/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # gone meanwhile, or not ours at all
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_old = time.time() - os.fstat(fd).st_mtime > 10  # not one that is just about to be locked
        except BlockingIOError:
            is_old = False
        finally:
            os.close(fd)
        if is_old:
            _remove(f"/tmp/{name}")


def _remove(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno != errno.ENOENT:
            import shutil  # only for what a command left behind; it follows no links

            shutil.rmtree(path, ignore_errors=True)


def load_policy(request: Request) -> Policy:
    """The policy of all layers for a request: the caller's own settings, and the command's home."""
    home = request.home if request.ids else ""
    return policy.load(request.workspace, request.flags, home=home, environ=os.environ, own=OWN)


def prepare(request: Request) -> Prepared:
    """The walls for a request, to be looked at."""
    with prepared(request) as made:
        return made


@contextlib.contextmanager
def prepared(request: Request) -> Iterator[Prepared]:
    """The walls for a request, in use: what is forgotten meanwhile is closed by the last who uses it."""
    made = _acquire(request)
    try:
        yield made
    finally:
        _release(made)


def _acquire(request: Request) -> Prepared:
    """What is kept while it is true, or made anew; counted as used."""
    enforce.ask(request.ids)  # a process of its own, so it goes on beside what follows
    found = load_policy(request)
    with _lock:
        kept = _prepared.get(request)
        if kept is not None:
            kept.users += 1
    if kept is not None:
        if kept.is_fresh(found):
            return kept
        _forget(kept)
        _release(kept)
    with _lock:
        oldest = list(_prepared.values())[: max(0, len(_prepared) - KEPT + 1)]
    for other in oldest:
        _forget(other)
    made = Prepared(request, found)
    with _lock:
        first = _prepared.setdefault(request, made)
        first.users += 1
    if first is not made:  # another thread was faster
        made.close()
    return first


def _release(made: Prepared) -> None:
    with _lock:
        made.users -= 1
        unused = made.users == 0 and _prepared.get(made.request) is not made
    if unused:
        made.close()


def _forget(made: Prepared) -> None:
    """Keep it no longer; whoever uses it still closes it."""
    with _lock:
        kept = _prepared.get(made.request) is made
        if kept:
            del _prepared[made.request]
        unused = kept and made.users == 0
    if unused:
        made.close()


def forget(request: Request) -> None:
    """Drop what was prepared."""
    with _lock:
        kept = _prepared.get(request)
    if kept is not None:
        _forget(kept)


def _disown() -> None:
    """In a fork of our caller's: what was prepared is the parent's, and so are its directories and processes."""
    global _lock
    _lock = _thread.allocate_lock()  # another thread may have held it
    for made in _prepared.values():
        for fd in made.held:
            os.close(fd)
    _prepared.clear()
    enforce.disown()


os.register_at_fork(after_in_child=_disown)


@atexit.register
def forget_all() -> None:
    for request in list(_prepared):
        forget(request)
