"""One word for a shell, whatever it holds."""

from .patterns import lazy

_PLAIN = lazy(r"[A-Za-z0-9_@%+=:,./-]+\Z")


def quoted(text: str) -> str:
    """The text in single quotes, with those it holds itself taken out of them; plain words stay bare."""
    return text if _PLAIN.match(text) else in_quotes(text)


def in_quotes(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
