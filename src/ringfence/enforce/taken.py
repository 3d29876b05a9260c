"""Files at the top of a workspace that are the command's to write, and by some line of which a tool of the user's runs
what lies in the workspace: at the next prompt of a shell, or when an agent starts. A run that wrote one is told of.

The path of a version is what mise puts before PATH, without asking (2026.9, seen). Node's options, the loader's and
git's programs are what an agent hands on that reads `.env` (Qwen Code 0.24, seen), or direnv. A Bun that is a part of a
program loads what `bunfig.toml` names (pi until August 2026, by its makers). What environments mise has its variables
say. What pre-commit runs at the next commit is in a file that is the project's own; where it was installed as a hook, a
change of that file is told of.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from .gitfiles import content, is_new
from .links import led_to
from .repository import linked_worktree, pointed_at

_MOST = 1 << 20
_PATH = r"path:|\.\./"
_COMMENT, _SPELT = re.compile(r"(?m)^[ \t]*#.*"), re.compile(r"\\u(00[2-7][0-9a-fA-F])")
# Whoever reads them goes on over lines, and takes blanks of every kind. That which is harmless says so on one line.
_NAME, _ENDS = r"(?:^|(?<=[\s'\"\ufeff]))", r"['\"]?\s*[=:]"
_ENDED = r"['\"]?[ \t]*$"
_OPTION = r"(?:--(?!require|import|\S*(?:loader|config|snapshot))[\w-]+(?:=[\w-]+)?(?:[ \t]+|(?=" + _ENDED + r")))*"
_PLAIN = r"[ \t]*[=:][ \t]*(?P<quote>['\"]?)" + _OPTION + r"(?P=quote)[ \t]*$"
_SAYS = {
    ".env": r"(?m)" + _NAME + r"(?:(?:LD|DYLD)_\w+|BASH_ENV|PROMPT_COMMAND|PYTHONSTARTUP|PERL5OPT|RUBYOPT|LESSOPEN"
    r"|GIT_(?:SSH|SSH_COMMAND|EXTERNAL_DIFF|PAGER|EDITOR|SEQUENCE_EDITOR|ASKPASS|EXEC_PATH|PROXY_COMMAND|CONFIG\w*)"
    r"|AIDER_(?=\w*CMD)\w+|NODE_OPTIONS(?!" + _PLAIN + r"))" + _ENDS,
    "bunfig.toml": r"\bpreload\b|\\",  # which may spell it
    "package.json": r'"(?:[\w.-]+@)?path:',
}
_BY_HOOKS = b".pre-commit-config.yaml"
_PLATFORMS = "linux unix linux-x64 linux-arm64 macos macos-x64 macos-arm64"
_OF_ENVIRONMENT = ("mise.{}.toml", ".mise.{}.toml", ".config/mise.{}.toml", "mise/config.{}.toml")


def taken(workspace: str, names: Iterable[str], since: int, environ: Mapping[str, str]) -> Iterator[str]:
    """Which of these names say that something is run; and what mise reads in the environments that were chosen."""
    for path in (f"{workspace}/{name}" for name in sorted(names)):
        if not is_new(path, since):
            continue
        name = os.path.basename(path)
        if name == _BY_HOOKS.decode():
            yield from [path] * _has_hook(workspace)
        elif says_so(name, content(led_to(path), _MOST + 1)):
            yield path
    chosen = environ.get("MISE_ENV", "").split(",")
    chosen += _PLATFORMS.split() if environ.get("MISE_AUTO_ENV", "0") not in ("", "0", "false") else []
    for name in (f"{env.strip()}{end}" for env in chosen if env.strip() for end in ("", ".local")):
        paths = (f"{workspace}/{form.format(name)}" for form in _OF_ENVIRONMENT)
        yield from (path for path in paths if is_new(path, since))


def _has_hook(workspace: str) -> bool:
    """Whether a hook of the repository goes by that file, as pre-commit writes it."""
    from .programs import HOOKS

    linked = linked_worktree(workspace)
    git = linked[1] if linked else pointed_at(workspace) or f"{workspace}/.git"
    return any(_BY_HOOKS in content(led_to(f"{git}/hooks/{name}")) for name in HOOKS)


def says_so(name: str, data: bytes) -> bool:
    """Whether a file runs something; also one that is longer than anybody writes."""
    text = "\n".join(data.decode("utf-8", "replace").splitlines())
    if name == ".env":
        text = re.sub(r"[ \t]+", " ", _COMMENT.sub("", text))  # or to go back over many takes hours
    elif name == "package.json":
        text = _SPELT.sub(lambda found: chr(int(found[1], 16)), text)
    return len(data) > _MOST or re.search(_SAYS.get(name, _PATH), text) is not None
