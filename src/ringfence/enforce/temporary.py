"""Directories in /tmp for runs that cannot have a /tmp of their own, and for what a run is to find by a path."""

import _socket
import _thread
import contextlib
import errno
import fcntl
import os
import select
import stat
import time
from collections.abc import Callable
from typing import Any

DOOR = "siblings"  # what listens in one of them
MOST_WAITING = 16
_HELD = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC  # Linux alone has doors


def new_directory(ids: tuple[int, int] | None, held: list[int]) -> str:
    """A directory of our own in /tmp, for a plan that cannot have a private /tmp. It is locked while we use it."""
    _sweep()
    path = f"/tmp/ringfence-{os.geteuid()}-{os.urandom(8).hex()}"
    os.mkdir(path, 0o700)
    os.chmod(path, 0o700)  # whatever our umask takes away
    held.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
    fcntl.flock(held[-1], fcntl.LOCK_SH)
    if ids:
        os.chown(path, ids[0], os.getegid())  # our group says that we made it
    return path


def write_new(path: str, text: str) -> None:
    """A file that everybody may read: the command's user is another when root starts it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.fchmod(fd, 0o644)
        os.write(fd, text.encode())
    finally:
        os.close(fd)


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
            remove(f"/tmp/{name}")


def remove(path: str) -> None:
    """Remove such a directory, with all that is left in it. Not another's of that name: anybody may have put it there,
    and have moved into it what he cannot remove."""
    try:
        directory = os.open(path, _HELD | os.O_DIRECTORY)
        try:
            facts = os.fstat(directory)
            if facts.st_uid != os.geteuid() and (os.geteuid() or facts.st_gid != os.getegid()):
                return
            with contextlib.suppress(OSError):  # most often there is none
                os.unlink(DOOR, dir_fd=directory)
        finally:
            os.close(directory)
    except OSError:  # it is gone
        return
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno != errno.ENOENT:
            from .removal import remove_tree  # only for what a command left behind

            with contextlib.suppress(OSError):
                remove_tree(path, facts.st_uid)


def listen_at(path: str, ids: tuple[int, int] | None, connects: bool) -> int:
    """What listens at a path, for one user: a socket, or a named pipe where a command cannot connect. The directory is
    that user's already, who may put something else there: so it is held, and what stands there is looked at."""
    above, name = path.rsplit("/", 1)
    if ids and not os.stat(os.path.dirname(above)).st_mode & stat.S_IXOTH:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    directory = os.open(above, _HELD | os.O_DIRECTORY)
    try:
        if connects:
            sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            sock.setblocking(False)
            os.fchmod(sock.fileno(), 0o600)  # which the name comes to have
            sock.bind(f"/proc/self/fd/{directory}/{name}")
            sock.listen(MOST_WAITING)
            door = sock.detach()
        else:
            os.mkfifo(name, 0o600, dir_fd=directory)
            door = os.open(name, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        if ids:
            _give(name, directory, ids)
    finally:
        os.close(directory)
    return door


def _give(name: str, directory: int, ids: tuple[int, int]) -> None:
    """What we have just made is somebody's; not what stands there instead: a link, or a file that has another name."""
    held = os.open(name, _HELD, dir_fd=directory)
    try:
        facts = os.fstat(held)
        if not (stat.S_ISSOCK(facts.st_mode) or stat.S_ISFIFO(facts.st_mode)) or facts.st_nlink != 1:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), name)
        os.chown(f"/proc/self/fd/{held}", *ids)
    finally:
        os.close(held)


class Doorway:
    """Somebody who waits at what listens, in a thread of its own, and is called when the first one comes."""

    def __init__(self, door: int, launch: Any, serve: Callable[[int], None]) -> None:
        """`launch` is one of Linux's, which alone has doors; `serve` is given what can be read at its end."""
        self._door, self._serve = door, serve
        launch.watched()  # it counts those too: here, and not by two threads
        self._over: tuple[int, ...] = os.pipe()
        self._done = _thread.allocate_lock()
        self._done.acquire()
        try:
            _thread.start_new_thread(self._wait, (self._over[0],))
        except RuntimeError:  # there are too many: then nobody is served
            self._done.release()
        if launch.group is not None:
            launch.group.before_close = self.close  # whoever is in it then is killed

    def _wait(self, over: int) -> None:
        try:
            poller = select.poll()
            for fd in (self._door, over):
                poller.register(fd, select.POLLIN)
            if over not in dict(poller.poll()):
                self._serve(over)
        finally:
            self._done.release()

    def close(self) -> None:
        """It is over: wait until whoever was called has seen to that."""
        over, self._over = self._over, ()
        if over:
            os.write(over[1], b"\0")
            self._done.acquire()
        for fd in over:
            os.close(fd)
