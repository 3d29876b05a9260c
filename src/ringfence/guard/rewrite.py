"""A shell line, moved into the sandbox; and one word for a shell, whatever it holds."""

from collections.abc import Sequence

from .patterns import lazy

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-")


def quoted(text: str) -> str:
    """The text in single quotes, with those it holds itself taken out of them; plain words stay bare."""
    return text if text and _PLAIN.issuperset(text) else in_quotes(text)


# What stands outside of the quotes, each behind a backslash: a quote, and backslashes that would be read there by fish,
# to which `'\\'` and `'\\\\'` are one quote and one backslash.
_OUTSIDE = lazy(r"'|\\{2,}|\\(?='|\Z)")
_TAKEN_OUT = lazy(r"'((?:\\['\\])+)'")


def in_quotes(text: str) -> str:
    return "'" + _OUTSIDE.sub(lambda found: "'" + "".join(f"\\{char}" for char in found[0]) + "'", text) + "'"


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
    inner = _TAKEN_OUT.sub(lambda found: found[1][1::2], line[len(head) : -1])
    return inner if wrapped(inner, prefix) == line else line
