"""Where `git status` and a prompt go by themselves from a repository: into those that its index names, and theirs. They
are looked at before others, so that no number of directories around one hides it.

The bytes of a mode are looked for in the whole index, and what stands there is taken for an entry: to read all of a
large one would take longer than most runs. What is none names nothing that is there.
"""

import itertools
import os
import struct
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .gitfiles import MOST_INDEX, as_written, facts_of, gone_to
from .leftovers import names_in, shared_part

if TYPE_CHECKING:
    from .planted import Until

_MODE, _AT = b"\0\0\xe0\0", 24  # of a repository, and where in an entry
_MOST, _MOST_NAME = 4096, 4096
_SIZES = (20, 32)  # of an object's name


def gitlinks(workspace: str, until: "Until") -> Iterator[str]:
    """The `.git` of each repository that a later git goes into, near ones first; and an index that names too many, or
    that git did not write. A thousand may go by one, so no more is read than a time and an amount; the search that
    follows says what it did not reach."""
    waiting, seen, tried, left_over = deque([workspace]), {workspace}, 0, MOST_INDEX
    while waiting:
        top = waiting.popleft()
        git = gone_to(f"{top}/.git") or f"{top}/.git"
        index = f"{git}/index"
        try:
            data = as_written(index)
            shared = shared_part(git, data)
        except (OSError, ValueError):
            yield index
            continue
        left_over -= len(data) + len(shared)
        names = list(itertools.islice(_named(data, until), _MOST + 1))
        # One without a name has it in the shared part, where it may have been a file.
        for name in itertools.chain(names, _named(shared, until, b"" if b"" in names else _MODE)):
            tried += 1
            if tried > _MOST:
                yield index
                return
            place = os.path.normpath(f"{top}/{os.fsdecode(name)}")
            if place in seen or not place.startswith(f"{workspace}/") or facts_of(f"{place}/.git") is None:
                continue
            seen.add(place)
            waiting.append(place)
            yield f"{place}/.git"
        if left_over < 0 or not until.is_for_more():
            return


def _named(data: bytes, until: "Until", mode: bytes = _MODE) -> Iterator[bytes]:
    """The names in an index that may be those of repositories."""
    found = data.find(_MODE)
    if not mode or (found >= 0 and data[4:8] == b"\0\0\0\4"):  # each as the one before it, but for its end
        for size in _SIZES:
            try:
                yield from names_in(data, size, mode, until.is_for_more)
            except (IndexError, ValueError, struct.error):  # told of as such where it is new
                continue
        return
    while found >= 0:
        for size in _SIZES:
            flags = found - _AT + 40 + size
            start = flags + (4 if flags < len(data) and data[flags] & 0x40 else 2)
            end = data.find(b"\0", start, start + _MOST_NAME)
            yield data[start : max(start, end)]
        found = data.find(_MODE, found + 1)
