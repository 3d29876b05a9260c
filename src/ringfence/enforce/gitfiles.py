"""Git's own files, as much of them as we go by: which may be hostile, so a small regular file is read, no link is
followed, and of all no more bytes are looked at than anybody writes there.

What a line of configuration means is known here; what is made of it is not (`repository`, `programs`, `leftovers`).
"""

import errno
import os
import re
import stat
from collections.abc import Iterator

from ..model import PlanError
from .links import led_to

_MOST = 1 << 16
_MOST_SETTINGS = 1 << 22  # of one file, and of all
MOST_INDEX, _LARGE = 1 << 28, 1 << 20
_MOST_POINTER = 1 << 20  # of a `.git` file: git reads no more
_PATH_MOST, _NAME_MOST = 4096, 255
MOST_LINE = 2 * _PATH_MOST  # that names a path: to follow a longer one, name by name, takes seconds
_HEADER = re.compile(r'\s*\[([^\s\]"]*)(\s+"(?:[^"\\]|\\.)*")?\s*\]')
_ESCAPED = {"n": "\n", "t": "\t", "b": "\b"}
_BLANK = " \t\r"
Settings = list[tuple[str, str]]


def content(path: str, most: int = _MOST) -> bytes:
    """The beginning of a regular file that is no link, or nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        check_means(error)
        return b""
    try:
        facts = os.fstat(fd)
        return os.read(fd, min(facts.st_size, most)) if stat.S_ISREG(facts.st_mode) else b""
    finally:
        os.close(fd)


def as_written(path: str) -> bytes:
    """An index. Git leaves no holes in one, and gives it no second name: many such would cost whoever makes them
    nothing, and us hours."""
    size = getattr(facts_of(path), "st_size", 0)
    if size <= _LARGE:
        return content(path, _LARGE)
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:  # before it is read
        facts = os.fstat(fd)
        if facts.st_nlink > 1 or os.lseek(fd, 0, os.SEEK_HOLE) < min(facts.st_size, MOST_INDEX):
            raise ValueError("not git's")
    finally:
        os.close(fd)
    return content(path, MOST_INDEX)


def whole(path: str) -> bytes | None:
    """All that a file says, nothing where there is none; None where git may read what we do not: a link, a long one, or
    one that a command has closed. Another's that is closed to us is to git, too: root's, with an umask of 077."""
    facts = facts_of(path)
    if facts is None or (facts.st_uid != os.geteuid() and stat.S_ISREG(facts.st_mode) and not os.access(path, os.R_OK)):
        return b""
    text = content(path)
    return text if stat.S_ISREG(facts.st_mode) and len(text) == facts.st_size else None


def facts_of(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):  # no path has a null in it
        return None


def is_pipe(entry: "os.DirEntry[str]") -> bool:
    if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False):
        return False
    return stat.S_ISFIFO(getattr(facts_of(entry.path), "st_mode", 0))


def is_new(path: str, since: int) -> bool:
    """Whether something has changed, or what a link leads to has."""
    facts = facts_of(path)
    if facts is not None and stat.S_ISLNK(facts.st_mode) and facts.st_ctime_ns < since:
        try:
            facts = os.stat(path)
        except OSError:
            return False
    return facts is not None and facts.st_ctime_ns >= since


def check_means(error: OSError) -> None:
    """Of what could not be opened for want of means nothing is known, and it is no missing one."""
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        raise error


def first_line(path: str) -> str:
    """The first line of a small regular file, or nothing."""
    text = content(path)
    line = text.partition(b"\n")[0]
    return os.fsdecode(line) if b"\0" not in text and len(line) <= MOST_LINE else ""


def is_possible(path: str) -> bool:
    """Whether anything can stand at a path: no kernel takes a longer one, and looking for it would take minutes."""
    text = os.fsencode(path)
    return len(text) < _PATH_MOST and all(len(name) <= _NAME_MOST for name in text.split(b"/"))


class Read(dict[str, Settings]):
    """Files of configuration of git's, each read once, and no more bytes of all than are looked at."""

    left = _MOST_SETTINGS

    def __missing__(self, path: str) -> Settings:
        data = content(path, self.left + 1)
        if (left := self.left - len(data)) < 0:
            raise PlanError(path, f"git's configuration is larger than {_MOST_SETTINGS >> 20} MiB", "make it smaller")
        self.left = left
        return self.setdefault(path, parsed(data))


def parsed(data: bytes) -> Settings:
    """Settings, each by its section and key."""
    section, found = "", []
    lines = iter(os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).replace("\r\n", "\n").split("\n"))
    for line in lines:
        place = 0
        while header := _HEADER.match(line, place):
            section, place = header[1].lower() + (" *" if header[2] else ""), header.end()
        key, equals, rest = line[place:].partition("=")
        if not equals or "#" in key or ";" in key:
            continue
        found.append((f"{section}.{key.strip().lower()}", _value(rest, lines)))
    return found


def _value(rest: str, lines: Iterator[str]) -> str:
    """A value as git reads it: without quotes, wherever they are, without a comment, and without the blanks around it.
    It may go on in the next line."""
    found, length, is_quoted, is_escaped = list[str](), 0, False, True
    while is_escaped:
        is_escaped = False
        for char in rest:
            if char in _BLANK and not is_quoted and not is_escaped:
                found += [char] if found else []
                continue
            if char in "#;" and not is_quoted and not is_escaped:
                break
            if is_escaped or char not in '\\"':
                found.append(_ESCAPED.get(char, char) if is_escaped else char)
            is_quoted ^= char == '"' and not is_escaped
            is_escaped = char == "\\" and not is_escaped
            length = len(found)  # what is blank before it stays
        rest = next(lines, "") if is_escaped else ""
    return "".join(found[:length]).partition("\0")[0]


def object_format(git: str) -> str:
    """What the configuration of a git directory says of it, in the form in which git writes it; "" where nothing."""
    path = os.path.join(git, first_line(f"{git}/commondir"), "config")
    return dict(Read()[path]).get("extensions.objectformat", "")


def tree_of(settings: Settings) -> str:
    """core.worktree in the simple form in which git writes it."""
    tree = dict(settings).get("core.worktree", "")  # the last one
    return tree if is_possible(tree) else ""


def work_tree(git: str) -> str:
    """The directory whose files a git directory is about: it, or its configuration, says which; or it lies there."""
    back, tree = first_line(f"{git}/gitdir"), tree_of(Read()[f"{git}/config"])
    return os.path.dirname(back) if back else os.path.join(git, tree or "..")


def pointed_at(path: str) -> str:
    """The git directory that a `.git` file names; "" where it does not."""
    text = (whole(path) or b"").rstrip(b"\r\n").decode("utf-8", "surrogateescape")
    if not text.startswith("gitdir: ") or {"\n", "\0"} & set(text) or len(text) > MOST_LINE:  # to git all is one path
        return ""
    own = led_to(os.path.join(os.path.dirname(path), text.removeprefix("gitdir: ")))
    return own if os.path.isdir(own) else ""


def gone_to(path: str) -> str:
    """Where git goes by a `.git` that is a link or a file, whatever that says: a line end is a part of a name to it, a
    null the end of one. For root not where it leads to what is another's, who would have that renamed."""
    facts = facts_of(path)
    if facts is None or stat.S_ISDIR(facts.st_mode):
        return ""
    own = led_to(path) if stat.S_ISLNK(facts.st_mode) else path
    text = content(own, _MOST_POINTER).rstrip(b"\r\n").partition(b"\0")[0]
    if text.startswith(b"gitdir: ") and len(text) <= MOST_LINE:
        own = led_to(os.path.join(os.path.dirname(path), os.fsdecode(text.removeprefix(b"gitdir: "))))
    return own if os.path.isdir(own) and (os.geteuid() or os.stat(own).st_uid == facts.st_uid) else ""
