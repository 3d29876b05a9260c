"""`ringfence trust`: let this project's policy widen what is allowed, as it is now and until it changes."""

import os

from .. import policy, record
from ..model import UsageError
from ..where import find_workspace
from .options import OUTPUT, WORKSPACE, Option, give, one, parse, render_help, say

TABLE = (WORKSPACE[0], Option("--remove", "", "trust it no longer"), *OUTPUT)
EXAMPLES = ("ringfence trust", "ringfence trust --remove")


def main(words: list[str]) -> int:
    """Trust, or no longer."""
    values, rest = parse(words, TABLE)
    if "--help" in values:
        print(render_help("trust [options]", "Trusts the project's policy file as it is now.", TABLE, EXAMPLES))
        return 0
    if rest:
        raise UsageError(rest[0], "is one word too many", hint="ringfence trust --help")
    root = os.path.realpath(one(values, "--workspace") or find_workspace(os.getcwd()))
    act = policy.distrust if "--remove" in values else policy.trust
    path, digest = act(root, os.environ)
    word = "no longer trusted" if "--remove" in values else "trusted"
    why = record.changed(root, word, path, digest)
    if why:
        say(f"ringfence: audit log: not written: {why}")
    document = {"schema": "ringfence/trust@1", "path": path, "sha256": digest, "trusted": "--remove" not in values}
    give(values, document, f"{word}: {path} (sha256 {digest[:16]}…)")
    return 0
