"""Tries every access it is told of, takes each back, and prints what came of it as JSON. Runs bare and inside.

argv: the base, then a JSON document {"paths", "pairs"}. An answer is "done", the name of an error, or for a directory
that was listed the names in it; it stands under "access path".
"""

import ctypes
import errno
import json
import os
import stat
import sys
from collections.abc import Callable

BASE, TOLD = sys.argv[1], json.loads(sys.argv[2])
LIBC = ctypes.CDLL(None, use_errno=True)
answers: dict[str, str | list[str]] = {}


def attempt(
    access: str, path: str, do: Callable[[], object], undo: Callable[[], object] | None = None, other: str = ""
) -> None:
    key = f"{access} {path} {other}".strip()
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


def same_times(path: str) -> None:
    facts = os.stat(path)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def exchanged(one: str, two: str) -> None:
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if LIBC.renameat2(here, os.fsencode(one), here, os.fsencode(two), exchange):
        raise OSError(ctypes.get_errno(), "renameat2")


def made_again(path: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755)
    os.write(fd, b"#!/bin/true\n")
    os.close(fd)


def executed(path: str) -> None:
    os.waitpid(os.posix_spawn(path, [path], {}), 0)


def single(path: str) -> None:
    real = os.path.join(BASE, path.replace("@", os.path.basename(BASE)))
    if os.path.isdir(real):
        attempt("list", path, lambda: os.listdir(real))
    else:
        attempt("read", path, lambda: opened(real, os.O_RDONLY))
    attempt("write", path, lambda: opened(real, os.O_WRONLY))
    attempt("truncate", path, lambda: os.truncate(real, 12))
    attempt("chmod", path, lambda: same_mode(real))
    attempt("utime", path, lambda: same_times(real))
    if not os.path.lexists(real):
        create = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        attempt("create", path, lambda: opened(real, create), lambda: os.unlink(real))
        attempt("mkdir", path, lambda: os.mkdir(real), lambda: os.rmdir(real))
        attempt("symlink", path, lambda: os.symlink("a", real), lambda: os.unlink(real))
        attempt("fifo", path, lambda: os.mkfifo(real), lambda: os.unlink(real))
    elif os.path.isfile(real):
        attempt("touch", path, lambda: opened(real, os.O_WRONLY | os.O_CREAT))
        attempt("exec", path, lambda: executed(real))


def pair(path: str, other: str) -> None:
    one, two = f"{BASE}/{path}", f"{BASE}/{other}"
    if not os.path.lexists(one):
        return
    if os.path.lexists(two):
        if one != two:
            attempt("exchange", path, lambda: exchanged(one, two), lambda: exchanged(one, two), other)
        return
    if not os.path.isdir(one) or os.path.islink(one):
        attempt("link", path, lambda: os.link(one, two, follow_symlinks=False), lambda: os.unlink(two), other)
    attempt("rename", path, lambda: os.rename(one, two), lambda: os.rename(two, one), other)


def names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def delete(path: str) -> None:
    real = f"{BASE}/{path}"
    if os.path.realpath(os.path.dirname(real)) != os.path.dirname(real):
        return  # removing a link by its own way cannot be taken back
    if os.path.isdir(real) and not os.path.islink(real):
        if not names(real):
            mode = stat.S_IMODE(os.stat(real).st_mode)
            attempt("delete", path, lambda: os.rmdir(real), lambda: os.mkdir(real, mode))
    elif os.path.islink(real):
        target = os.readlink(real)
        attempt("delete", path, lambda: os.unlink(real), lambda: os.symlink(target, real))
    elif os.path.lexists(real):
        attempt("delete", path, lambda: os.unlink(real), lambda: made_again(real))


for told in TOLD["paths"]:
    single(told)
for told in TOLD["pairs"]:
    pair(*told)
for told in sorted(TOLD["paths"], key=lambda told: -told.count("/")):
    if not told.startswith("/"):
        delete(told)
sys.stdout.write(json.dumps(answers))
