"""A shell line, moved into the sandbox."""

from collections.abc import Sequence

from .quoting import in_quotes, quoted


def wrapped(line: str, prefix: Sequence[str]) -> str:
    """A line that runs another one inside the sandbox."""
    return f"{' '.join(map(quoted, prefix))} bash -c {in_quotes(line)}"


def unwrapped(line: str, prefix: Sequence[str]) -> str:
    """The line inside one that we rewrote, where a hook is asked twice; else the line itself.

    Only what `wrapped` would make again, to the letter, is taken for ours: a model can write such a line itself, with
    other words before it.
    """
    head = f"{' '.join(map(quoted, prefix))} bash -c '"
    if not line.startswith(head) or not line.endswith("'"):
        return line
    inner = line[len(head) : -1].replace("'\\''", "'")
    return inner if wrapped(inner, prefix) == line else line
