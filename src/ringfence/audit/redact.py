"""Words without the secrets in them. Pure.

Taken out is what follows a name that says so (`--token X`, `PASSWORD=X`, `Authorization: X`, `curl -u name:X`), what
has the form of a known token, the password of an address, and the value of every variable whose name says so. What
has no such sign is not known to be a secret, and stays.
"""

import re
from collections.abc import Mapping, Sequence

from .signs import LONGEST, MOST_WORDS, SHORTEST

GONE = "[redacted]"

_NAME = (
    r"(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credential|auth(?!ors?\b))"
)
_IS_SECRET = re.compile(
    r"(?i)token|secret|passw(?:or)?d|passphrase|credential|api_?key|access_?key|private_?key|_key$|_pat$|_auth$|dsn$"
)
_NEXT = re.compile(rf"(?i)^--?[\w-]*{_NAME}[\w-]*$")  # the word after it is the secret
_SET = re.compile(rf"(?i)^[\w./:@-]*{_NAME}[\w-]*$")  # so it is after the name of a setting, in `npm config set NAME X`
_PAIR = ("-u", "--user", "--proxy-user", "-U")  # of a name and its password
_PASSWORD_IN_A_WORD = ("mysql", "mysqldump", "mysqladmin", "mariadb", "sshpass")
# Every repetition before the place where a pattern can fail is bounded: the words are not ours.
_RULES = tuple(
    (re.compile(pattern), put)
    for pattern, put in (
        (r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", GONE),
        (rf"""(?i)({_NAME}[\w-]{{0,40}}["']?\s?[=:]\s?["']?)(?:(?:bearer|basic|token)\s+)?[^\s"'&;,]+""", rf"\1{GONE}"),
        (rf"""(?i)((?<![\w-])(?:--[\w-]{{0,40}}|-){_NAME}[\w-]{{0,40}}\s+)(?!-)[^\s"']+""", rf"\1{GONE}"),
        (r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}", rf"\1 {GONE}"),
        # No further than cookies go: what else a line runs is to be read.
        (
            r"""(?i)(\bcookie:\s?|--cookie[\s=]\s?["']?)[^\s"';&|]+(?:;\s?[^\s"';&|=]{1,80}=[^\s"';&|]*)*""",
            rf"\1{GONE}",
        ),
        (r"((?:^|\s)(?:-u|--user|-U|--proxy-user)[\s=]+[^\s:'\"]{1,80}:)[^\s'\"]+", rf"\1{GONE}"),
        (r"(\bsshpass\s+-p\s*)\S+", rf"\1{GONE}"),
        (r"(\b(?:mysql|mysqldump|mariadb)\b[^|;&]{0,200}?\s-p)[^\s|;&]+", rf"\1{GONE}"),
        (r"(?<=://)([^\s/:@]{0,80}):[^\s/]+@", rf"\1:{GONE}@"),  # to the last @, for a password may have one
        (r"(?<=://)[\w-]{16,}@", f"{GONE}@"),
        (r"\b(?:gh[pousr]_|github_pat_|glpat-|sk-|[rs]k_live_|xox[abeprs]-|npm_|pypi-|hf_|dop_v1_)[\w-]{10,}", GONE),
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}", GONE),
        (r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", GONE),
    )
)
_FORMS = _RULES[-5:]  # what is known by itself, and not by the word before it


def secrets_of(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(value, name) of the variables whose names say that they are secret, the longest value first."""
    found = [(value, name) for name, value in environ.items() if len(value) >= SHORTEST and _IS_SECRET.search(name)]
    return tuple(sorted(found, key=lambda one: -len(one[0])))


def redacted(words: Sequence[str], secrets: Sequence[tuple[str, str]] = ()) -> tuple[str, ...]:
    """The words of a command, cut to what is worth keeping."""
    kept: list[str] = []
    for word in words[:MOST_WORDS]:
        before = words[len(kept) - 1] if kept else ""
        is_set = len(kept) > 1 and words[len(kept) - 2] == "set" and _SET.match(before)
        if is_set or (_NEXT.match(before) and not word.startswith("-")):
            kept.append(GONE)
        elif before in _PAIR and ":" in word:
            kept.append(f"{word.partition(':')[0]}:{GONE}")
        elif word.startswith("-p") and words[0].rpartition("/")[2] in _PASSWORD_IN_A_WORD:
            kept.append(f"-p{GONE}")
        else:
            kept.append(clean(word, secrets))
    if len(words) > MOST_WORDS:
        kept.append(f"[{len(words) - MOST_WORDS} more]")
    return tuple(kept)


def plain(text: str, secrets: Sequence[tuple[str, str]]) -> str:
    """A sentence of ours without the secrets that a command put into it: a name is no sign there."""
    text = _without(text, secrets)
    for pattern, put in _FORMS:
        text = pattern.sub(put, text)
    return text


def _without(text: str, secrets: Sequence[tuple[str, str]]) -> str:
    for value, name in secrets:
        if value in text:
            text = text.replace(value, f"[{name}]")
    return text


def clean(text: str, secrets: Sequence[tuple[str, str]]) -> str:
    """One text without its secrets."""
    text = _without(text, secrets)
    cut = len(text) - LONGEST
    text = text[: LONGEST * 2]  # what is cut off below may be half a secret, so it is looked at whole
    for pattern, put in _RULES:
        text = pattern.sub(put, text)
    return f"{text[:LONGEST]}[{cut} more]" if len(text) > LONGEST else text
