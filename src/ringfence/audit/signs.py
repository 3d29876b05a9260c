"""Whether words can hold a secret at all, by signs that are cheap to look for: most commands have none.

`redact` finds secrets and takes its time to be loaded; what it would change always has one of these signs. To it some
letters beyond ASCII are those of a sign (a Turkish i, the Kelvin), so words with any such letter are left to it.
"""

from collections.abc import Mapping, Sequence

MOST_WORDS = 64
LONGEST = 2048  # characters of one word
SHORTEST = 6  # a value this short would take out half a line
_IN_WORDS = (
    "token secret passw passphrase key credential auth cookie bearer basic :// -u user sshpass mysql mariadb "
    "-----begin ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- sk- _live_ xox npm_ pypi- hf_ dop_v1_ akia asia aiza ya29. "
    "eyj"
).split()
_IN_NAMES = ("TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL", "KEY", "_PAT", "_AUTH", "DSN")


def may_be_secret(name: str) -> bool:
    """Whether a variable's name may say that its value is a secret."""
    upper = name.upper()
    return any(sign in upper for sign in _IN_NAMES) or not name.isascii()


def may_hold_secrets(words: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether somebody has to look at the words of a command more closely."""
    if len(words) > MOST_WORDS:
        return True
    text = "\n".join(words)
    if len(text) > LONGEST:
        return True
    lower = text.lower()
    if any(map(lower.__contains__, _IN_WORDS)) or not text.isascii():  # for every run, so it is not we who loop
        return True
    return any(map(text.__contains__, _suspects(environ)))


_seen: tuple[Mapping[str, str], tuple[str, ...]] = {}, ()  # an environment, and what of it may be a secret


def _suspects(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values that may be secrets; kept, for an environment is the same from run to run."""
    global _seen
    seen = _seen
    if seen[0] != environ:
        found = (value for name, value in environ.items() if len(value) >= SHORTEST and may_be_secret(name))
        _seen = seen = dict(environ), tuple(found)
    return seen[1]
