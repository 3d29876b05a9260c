"""A shell line, moved into the sandbox; and one word for a shell, whatever it holds."""

from collections.abc import Sequence

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-")


def quoted(text: str) -> str:
    """The text in single quotes, with those it holds itself taken out of them; plain words stay bare."""
    return text if text and _PLAIN.issuperset(text) else in_quotes(text)


def in_quotes(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


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
