"""`ringfence profile`: the boundaries that have a name, and what each of them comes to."""

import os

from ..model import UsageError
from ..policy.load import profile_names, read_profile
from ..policy.paths import Base
from ..policy.profiles import ALIASES, layers_of, load_chain, never_of
from ..policy.trust import home_of
from .options import OUTPUT, Values, give, parse_around, render_help

TABLE = OUTPUT
EXAMPLES = ("ringfence profile list", "ringfence profile show claude", "ringfence run --profile ci -- make test")


def main(words: list[str]) -> int:
    """list or show."""
    values, rest = parse_around(words, TABLE)
    if "--help" in values:
        print(render_help("profile list | show NAME [options]", "Lists and shows profiles.", TABLE, EXAMPLES))
        return 0
    if rest[:1] == ["list"] and len(rest) == 1:
        return _list(values)
    if rest[:1] == ["show"] and len(rest) == 2:
        return _show(rest[1], values)
    raise UsageError("profile", "needs one of: list, show NAME", hint="ringfence profile list")


def _base() -> Base:
    return Base(os.getcwd(), home_of(os.environ))


def _list(values: Values) -> int:
    names = profile_names(os.environ)
    rows = [(name, load_chain(name, lambda one: read_profile(one, os.environ), _base())[-1]) for name in names]
    documents = [{"name": name, "about": found.about, "file": found.layer.source} for name, found in rows]
    document = {"schema": "ringfence/profiles@1", "profiles": documents, "aliases": ALIASES}
    give(values, document, *(f"{name:12} {found.about}" for name, found in rows))
    return 0


def _show(name: str, values: Values) -> int:
    chain = load_chain(name, lambda one: read_profile(one, os.environ), _base())
    layers = layers_of(chain, os.getcwd(), (home_of(os.environ),))
    rules = [rule for layer in layers for rule in layer.rules if not rule.implied]
    settings = [setting for layer in layers for setting in layer.settings]
    document = {
        "schema": "ringfence/profile@1",
        "name": chain[-1].name,
        "about": chain[-1].about,
        "inherits": [one.name for one in reversed(chain[:-1])],
        "mode": next((one.mode for one in reversed(chain) if one.mode), "guided"),
        "escape": next((one.escape for one in reversed(chain) if one.escape), "ask"),
        "neverAllow": list(never_of(chain)),
        "files": [one.layer.source for one in chain],
        "rules": [{"verdict": one.verdict.word, "access": one.access.value, "path": one.path} for one in rules],
        "settings": [{"key": one.key, "value": one.value} for one in settings],
        "examples": [{"verdict": verdict.word, "line": line} for verdict, line in chain[-1].examples],
    }
    lines = [f"{key:12} {document[key]}" for key in ("name", "about", "mode", "escape")]
    lines += [f"never        {path}" for path in never_of(chain)]
    lines += [f"{one.verdict.word:6}{one.access.value:7}{one.path}" for one in rules]
    lines += [f"{one.key:12} {_words(one.value)}" for one in settings]
    lines += [f"example      {verdict.word}: {line}" for verdict, line in chain[-1].examples]
    lines += [f"from         {one.layer.source}" for one in chain]
    give(values, document, *lines)
    return 0


def _words(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
