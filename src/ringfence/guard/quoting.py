"""One word for a shell, whatever it holds."""

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-")


def quoted(text: str) -> str:
    """The text in single quotes, with those it holds itself taken out of them; plain words stay bare."""
    return text if text and _PLAIN.issuperset(text) else in_quotes(text)


def in_quotes(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
