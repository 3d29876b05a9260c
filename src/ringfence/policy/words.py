"""How values are written in sentences: nothing a hostile file holds may reach a terminal raw.

Pure. Every sentence of this room that repeats text from a file goes through `shown` or `found`.
"""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:@%,~")
_LONGEST = 200
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # seen as nothing


def shown(text: str) -> str:
    """Text as it may appear in a sentence: itself when printable, escaped when not, cut when endless."""
    cut = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return cut if cut.isprintable() else repr(cut)[1:-1]


def plainly(text: str) -> str:
    """A name that can be told from others: many blanks would pass for the next line, and some letters for none, or for
    a part of the one before."""
    import re

    if not text.isascii():
        import unicodedata  # few names need it

        hidden = {char for char in text if char in _UNSEEN or unicodedata.category(char) in ("Mn", "Me")}
        text = "".join(f"\\u{ord(char):04x}" if char in hidden else char for char in text)
    text = re.sub(" {2,}", lambda blanks: "\\x20" * len(blanks[0]), text)
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def named(text: str) -> str:
    """Text in quotation marks."""
    return f"'{shown(text)}'"


def quoted(text: str) -> str:
    """Text as one word of a shell command."""
    if text and all(character in _PLAIN for character in text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def found(value: object) -> str:
    """What stands in a file where something else was expected."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return named(value) if value else "an empty string"
    if isinstance(value, int | float):
        return f"the number {shown(str(value))}"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return f"a {type(value).__name__}"  # TOML has dates and times


def nearest(word: str, known: tuple[str, ...], otherwise: str = "") -> str:
    """The hint for a word nobody knows: the nearest known one, or all of them, or what is said where those are many."""
    import difflib  # only here, where something is wrong already

    folded = {name.lstrip("-").lower(): name for name in known}  # two dashes make no option like another
    close = difflib.get_close_matches(word[:64].lstrip("-").lower(), folded, n=1, cutoff=0.6)
    return f"did you mean '{folded[close[0]]}'?" if close else otherwise or f"one of: {', '.join(known)}"
