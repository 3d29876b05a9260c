"""HTML as values: what is not markup already is escaped, and letters that cannot be seen are shown as numbers."""

import html

VOID = frozenset({"input", "link", "meta"})


class Markup(str):
    """Text that is HTML."""


def plain(text: object) -> str:
    """A text in which nothing hides: a name that turns its letters around would show another rule than is stored."""
    whole = str(text)
    hidden = [letter for letter in {*whole} if not letter.isprintable() and letter not in "\n\t"]
    return whole.translate({ord(letter): f"\\u{{{ord(letter):x}}}" for letter in hidden}) if hidden else whole


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """An element. `class_` is class and `aria_label` aria-label; an attribute that is None or False is left out."""
    given = [(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()]
    words = [key if value is True else f'{key}="{html.escape(plain(value))}"' for key, value in given if _is_set(value)]
    start = Markup("<" + " ".join([name, *words]) + ">")
    return start if name in VOID else Markup(f"{start}{joined(*inside)}</{name}>")


def _is_set(value: object) -> bool:
    return value is not None and value is not False


def joined(*inside: object) -> Markup:
    """One after the other; lists are gone through, and None is nothing."""
    parts = []
    for one in inside:
        if isinstance(one, Markup):
            parts.append(one)
        elif isinstance(one, list | tuple):
            parts.append(joined(*one))
        elif one is not None:
            parts.append(Markup(html.escape(plain(one))))
    return Markup("".join(parts))


def document(title: str, *inside: object) -> bytes:
    """A page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("link", rel="stylesheet", href="/page.css"),
        tag("script", src="/page.js", defer=True),
    )
    return f"<!doctype html>{tag('html', head, tag('body', *inside), lang='en')}\n".encode("utf-8", "replace")
