"""Tries every access it is told of, takes each back, and prints what came of it as JSON. Runs bare and inside.

argv: the base, then a JSON document {"paths", "pairs", "way"}. A path is known by a key, and said in one of several
ways. An answer is "done", the name of an error, or for a directory that was listed the names in it; it stands under
"access key".
"""

import ctypes
import errno
import functools
import json
import os
import socket
import stat
import sys
from collections.abc import Callable

BASE, TOLD = sys.argv[1], json.loads(sys.argv[2])
PATHS, WAY = TOLD["paths"], TOLD["way"]
LIBC = ctypes.CDLL(None, use_errno=True)
SCRIPT = b"#!/bin/true\n"
answers: dict[str, str | list[str]] = {}


def held() -> str:
    """The base by a descriptor, and where we stand; nothing where they are not to be had."""
    try:
        if WAY == "/proc/self/fd":
            return f"/proc/self/fd/{os.open(BASE, os.O_PATH)}"
        return os.getcwd() if os.access(".", os.X_OK) else ""  # nobody leaves a hidden directory by its own dots
    except OSError:
        return ""


HELD = held()


def said(path: str) -> str:
    """A path in the way that it is to be said."""
    if WAY == "absolute" or not HELD or not path.startswith(BASE + "/"):
        return path
    if WAY == "relative":
        return os.path.relpath(path, HELD)
    return (WAY if WAY == "/proc/self/root" else HELD) + (path if WAY == "/proc/self/root" else path[len(BASE) :])


def attempt(access: str, key: str, do: Callable[[], object], undo: Callable[[], object] | None = None) -> None:
    key = f"{access} {key}"
    try:
        found = do()
    except OSError as error:
        answers[key] = errno.errorcode.get(error.errno or 0, str(error.errno))
        return
    answers[key] = sorted(found) if isinstance(found, list) else "done"
    if undo is not None:
        try:
            undo()
        except OSError as error:
            answers[key + " undone"] = errno.errorcode.get(error.errno or 0, "?")


def opened(path: str, flags: int) -> None:
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, 0o644)
    try:
        if flags == os.O_RDONLY and stat.S_ISREG(os.fstat(fd).st_mode):
            os.read(fd, 1)
    finally:
        os.close(fd)


def same_mode(path: str) -> None:
    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode))


def same_times(path: str, follow: bool = True) -> None:
    facts = os.stat(path, follow_symlinks=follow)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns), follow_symlinks=follow)


def exchanged(one: str, two: str) -> None:
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if LIBC.renameat2(here, os.fsencode(one), here, os.fsencode(two), exchange):
        raise OSError(ctypes.get_errno(), "renameat2")


def written(path: str, flags: int = 0, mode: int = 0o755) -> None:
    fd = os.open(path, os.O_WRONLY | flags, mode)
    os.write(fd, SCRIPT)
    os.close(fd)


def emptied(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY))


def bound(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)


def from_nothing(path: str) -> None:
    """A file without a name, which then is given one."""
    fd = os.open(os.path.dirname(path) or ".", os.O_TMPFILE | os.O_WRONLY, 0o644)
    try:
        os.link(f"/proc/self/fd/{fd}", path, follow_symlinks=True)
    finally:
        os.close(fd)


def missing(path: str) -> list[str]:
    """What of a path is not there, from the top."""
    found = [path]
    while not os.path.lexists(os.path.dirname(found[0])):
        found.insert(0, os.path.dirname(found[0]))
    return found


def made_whole(paths: list[str]) -> None:
    for index, path in enumerate(paths):
        try:
            os.mkdir(said(path))
        except OSError:
            unmade(paths[:index])
            raise


def unmade(paths: list[str]) -> None:
    for path in reversed(paths):
        os.rmdir(said(path))


ASIDE = "x-aside"


def carried(paths: list[str]) -> None:
    """Directories made under another name, and then moved to where they are wanted."""
    aside = os.path.join(os.path.dirname(paths[0]), ASIDE)
    there = [aside + path[len(paths[0]) :] for path in paths]
    made_whole(there)
    try:
        os.rename(said(aside), said(paths[0]))
    except OSError:
        unmade(there)
        raise


def put_back(path: str, facts: os.stat_result, target: str) -> None:
    """What was removed, made again."""
    if stat.S_ISLNK(facts.st_mode):
        os.symlink(target, path)
    elif stat.S_ISDIR(facts.st_mode):
        os.mkdir(path)
        os.chmod(path, stat.S_IMODE(facts.st_mode))
    else:
        written(path, os.O_CREAT | os.O_EXCL)
        os.chmod(path, stat.S_IMODE(facts.st_mode))


def executed(path: str) -> None:
    os.waitpid(os.posix_spawn(path, [path], {}), 0)


def single(key: str, real: str) -> None:
    path = said(real)
    if os.path.isdir(real):
        attempt("list", key, lambda: os.listdir(path))
    else:
        attempt("read", key, lambda: opened(path, os.O_RDONLY))
    attempt("write", key, lambda: opened(path, os.O_WRONLY))
    attempt("truncate", key, lambda: os.truncate(path, 12))
    attempt("chmod", key, lambda: same_mode(path))
    attempt("chown", key, lambda: os.chown(path, os.getuid(), -1))
    attempt("utime", key, lambda: same_times(path))
    attempt("attribute", key, lambda: os.setxattr(path, "user.a", b"a"), lambda: os.removexattr(path, "user.a"))
    if not os.path.lexists(real):
        absent(key, real, path)
    elif os.path.isfile(real):
        attempt("touch", key, lambda: opened(path, os.O_WRONLY | os.O_CREAT))
        attempt("empty", key, lambda: emptied(path), lambda: written(path))
        attempt("exec", key, lambda: executed(path))
    elif not os.path.exists(real):
        create = os.O_WRONLY | os.O_CREAT
        attempt("through", key, lambda: opened(path, create), lambda: os.unlink(os.path.realpath(real)))
    if os.path.islink(real):
        attempt("lchown", key, lambda: os.chown(path, os.getuid(), -1, follow_symlinks=False))
        attempt("lutime", key, lambda: same_times(path, follow=False))


def absent(key: str, real: str, path: str) -> None:
    create = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    attempt("create", key, lambda: opened(path, create), lambda: os.unlink(path))
    attempt("mkdir", key, lambda: os.mkdir(path), lambda: os.rmdir(path))
    attempt("symlink", key, lambda: os.symlink("a", path), lambda: os.unlink(path))
    attempt("fifo", key, lambda: os.mkfifo(path), lambda: os.unlink(path))
    attempt("bind", key, lambda: bound(path), lambda: os.unlink(path))
    attempt("tmpfile", key, lambda: from_nothing(path), lambda: os.unlink(path))
    paths = missing(real)
    if len(paths) > 1:
        attempt("mkdirs", key, lambda: made_whole(paths), lambda: unmade(paths))
        attempt("carry", key, lambda: carried(paths), lambda: unmade(paths))


def settled(path: str) -> str:
    """A name by a way without links, to take back what moved a link on the way."""
    return said(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)))


def pair(key: str, other: str) -> None:
    one, two = PATHS[key], PATHS[other]
    here, there, both = said(one), said(two), f"{key} {other}"
    back = settled(two), settled(one)
    if not os.path.lexists(one):
        return
    if os.path.lexists(two):
        if one != two:
            attempt("exchange", both, lambda: exchanged(here, there), lambda: exchanged(*back))
        return
    if not os.path.isdir(one) or os.path.islink(one):
        attempt("link", both, lambda: os.link(here, there, follow_symlinks=False), lambda: os.unlink(there))
    attempt("rename", both, lambda: os.rename(here, there), lambda: os.rename(*back))


def replace(key: str, other: str) -> None:
    """Move a thing over another that is there. Not where a file has more names: that could not be taken back."""
    one, two = PATHS[key], PATHS[other]
    try:
        facts = [os.lstat(path) for path in (one, two)]
    except OSError:
        return
    if one == two or any(not stat.S_ISDIR(each.st_mode) and each.st_nlink > 1 for each in facts):
        return
    here, there = said(one), said(two)
    back = settled(two), settled(one)
    target = os.readlink(two) if stat.S_ISLNK(facts[1].st_mode) else ""

    def undo() -> None:
        os.rename(*back)
        put_back(back[0], facts[1], target)

    attempt("replace", f"{key} {other}", lambda: os.rename(here, there), undo)


def remake(key: str, real: str) -> None:
    """Remove an empty directory, make it again, and then each name in it."""
    path = said(real)
    if os.path.islink(real) or not os.path.isdir(real) or names(real):
        return
    mode = stat.S_IMODE(os.stat(real).st_mode)
    create = os.O_WRONLY | os.O_CREAT | os.O_EXCL

    def made(child: str) -> None:
        os.rmdir(path)
        os.mkdir(path, mode)
        opened(child, create)

    for other, there in PATHS.items():
        if os.path.dirname(there) == real:
            child = said(there)
            attempt("remake", f"{key} {other}", functools.partial(made, child), functools.partial(os.unlink, child))


def names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def delete(key: str, real: str) -> None:
    path = said(real)
    if os.path.realpath(os.path.dirname(real)) != os.path.dirname(real):
        return  # removing a link by its own way cannot be taken back
    try:
        facts = os.lstat(real)
    except OSError:
        return
    if stat.S_ISDIR(facts.st_mode):
        if not names(real):
            attempt("delete", key, lambda: os.rmdir(path), lambda: put_back(path, facts, ""))
    else:
        target = os.readlink(real) if stat.S_ISLNK(facts.st_mode) else ""
        attempt("delete", key, lambda: os.unlink(path), lambda: put_back(path, facts, target))


for told, at in PATHS.items():
    single(told, at)
for told in TOLD["pairs"]:
    pair(*told)
for told in TOLD["pairs"]:
    replace(*told)
for told in sorted(PATHS, key=lambda told: -told.count("/")):
    if not told.startswith("/"):
        delete(told, PATHS[told])
        remake(told, PATHS[told])
sys.stdout.write(json.dumps(answers))
