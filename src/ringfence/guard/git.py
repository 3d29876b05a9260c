"""git: its own directories, its subcommands, and the many ways in which it runs other programs."""

import posixpath
import re
from collections.abc import Callable

from .arguments import Call, apply_options, sorted_arguments
from .patterns import lazy
from .programs import Row
from .reach import Walk
from .state import Field

_GLOBAL = Row(
    frozenset("pPhv"),
    {"C": "d", "c": "n"},
    {
        "--git-dir": "d",
        "--work-tree": "d",
        "--namespace": "n",
        "--exec-path": "q",
        "--config-env": "q",
        "--no-pager": "",
        "--paginate": "",
        "--bare": "",
        "--no-optional-locks": "",
        "--literal-pathspecs": "",
        "--no-replace-objects": "",
        "--version": "",
        "--help": "",
        "--html-path": "",
        "--man-path": "",
        "--attr-source": "n",
    },
    "",
    "",
    False,
    True,
    False,
)
_SAFE_KEYS = lazy(
    r"(?:user\.(?:name|email)|color\.\w+|core\.(?:quotepath|abbrev|autocrlf|filemode|longpaths)|advice\.\w+|log\.\w+"
    r"|commit\.gpgsign|tag\.gpgsign|init\.defaultbranch|merge\.conflictstyle|pull\.(?:rebase|ff)|diff\.\w+tool\.none"
    r"|safe\.directory|gc\.auto|push\.default|rebase\.autosquash)=.*\Z",
    re.IGNORECASE | re.DOTALL,
)
_READS = frozenset(
    "log show blame annotate rev-parse rev-list ls-files ls-tree ls-remote cat-file shortlog name-rev "
    "for-each-ref "
    "show-ref merge-base cherry diff-tree var version help count-objects whatchanged check-ignore check-attr grep "
    "reflog "
    "show-branch verify-commit verify-tag fsck range-diff symbolic-ref".split()
)
_CHANGES = frozenset(
    "status describe diff diff-index diff-files add commit checkout switch restore reset stash tag branch fetch pull "
    "push merge rebase "
    "cherry-pick revert rm mv clean remote gc prune notes sparse-checkout apply am update-index write-tree read-tree "
    "commit-tree mktree mktag hash-object update-ref pack-refs repack rerere replace bisect submodule difftool "
    "mergetool "
    "init clone worktree archive format-patch bundle config lfs".split()
)
_LINKS = frozenset(
    "checkout switch restore reset stash pull merge rebase cherry-pick revert apply am read-tree bisect".split()
)
_RUNS = lazy(
    r"(?:--exec|-x|--upload-pack|--receive-pack|--ext-diff|--textconv|--open-files-in-pager|-O.*|--tool.*|--extcmd"
    r"|--ssh-command|--template|--unsafe-paths|--editor|--config|--server-option|--filter-process|-u(?=\S*/))(?:=.*)?\Z",
    re.DOTALL,
)
_OUTPUT = lazy(
    r"(--output|--output-directory|--separate-git-dir|--index-output|--object-directory|--reference|--reference-if-able)(?:=(.*))?\Z"
)


def git(walk: Walk, call: Call) -> None:
    found = sorted_arguments(walk, "git", _GLOBAL, call.operands, call.shell.copy(), call.stdin)
    if found is None:
        return
    apply_options(walk, found)
    for value in found.values("-c"):
        if not value.known or not _SAFE_KEYS.match(value.text):
            walk.doubt(f"git is told {value.shown!r}, which may run a command")
    if not found.operands:
        return
    name, *words = found.operands
    if not name.known or (name.text not in _READS and name.text not in _CHANGES):
        walk.doubt(f"what 'git {name.shown}' does is not known")
        return
    found.name, found.operands = name.text, words
    common(walk, found, words)
    special = _SPECIAL.get(name.text)
    if special is not None:
        special(walk, found)
    if name.text in _CHANGES and name.text not in ("init", "clone"):
        in_repository(walk, found)
    if name.text in _LINKS:
        for place in found.shell.places:
            walk.checked_out.append(walk.stand(place)) if name.text != "stash" else None


def common(walk: Walk, call: Call, words: list[Field]) -> None:
    """Options that write or run, whichever the subcommand."""
    for index, word in enumerate(words):
        if not word.known:
            if (
                word.may_be_option
                and "--" not in [before.text for before in words[:index]]
                and not _is_value(words, index)
            ):
                walk.doubt(f"git {call.name} gets {word.shown!r}, which is not known and may be an option")
            continue
        if word.text == "--":
            break
        if _is_value(words, index):
            continue
        if _RUNS.match(word.text) and not (word.text in ("-x", "-O") and call.name in ("clean", "cherry-pick")):
            walk.doubt(f"git {call.name} {word.text} runs or reads something that is not known")
        elif call.name in _REMOTE and _HELPER.match(word.text):
            walk.doubt(f"git {call.name} {word.text} runs a program that carries it there")
        elif output := _OUTPUT.match(word.text):
            value = Field(output[2], raw=word.raw) if output[2] is not None else next(iter(words[index + 1 :]), None)
            if value is not None:
                walk.writes(value, call.shell)
        elif len(option := word.text.partition("=")[0]) > 2 and any(name.startswith(option) for name in _ABBREVIATED):
            walk.doubt(f"git {call.name} {word.text} may stand for an option that writes or runs")


_REMOTE = frozenset("clone fetch pull push ls-remote remote archive submodule".split())
_HELPER = re.compile(r"(?:--\w+=)?[A-Za-z0-9+.-]+::")
_ABBREVIATED = tuple(
    "--output --output-directory --separate-git-dir --exec --upload-pack --receive-pack --ext-diff --template "
    "--unsafe-paths".split()
)


def _is_value(words: list[Field], index: int) -> bool:
    """Whether a word is the message, author or such of the option before it."""
    return index > 0 and words[index - 1].text in (
        "-m",
        "--message",
        "-am",
        "--author",
        "--date",
        "-n",
        "--grep",
        "-S",
        "-G",
    )


def in_repository(walk: Walk, call: Call) -> None:
    """Subcommands that write the repository: it has to lie in the worktree, or to be that of a linked one."""
    for place in call.shell.places:
        real = walk.stand(place)
        repository = walk.bounds.repository(real)
        if repository:
            walk.written(repository, f"git {call.name} writes the repository {repository!r}", by_git=True)
            if call.name in _LINKS:
                walk.written(posixpath.dirname(repository), f"git {call.name} writes its files")


def clone(walk: Walk, call: Call) -> None:
    plain = operands(call, "-b --branch --depth -o --origin -j --jobs --filter --shallow-since".split())
    if len(plain) > 1:
        walk.writes(plain[1], call.shell)
        made = plain[1]
    elif plain and plain[0].known:
        made = Field(re.sub(r"\.git\Z|/\.git\Z", "", plain[0].text.rstrip("/")).rpartition("/")[2].rpartition(":")[2])
        walk.writes(made, call.shell)
    else:
        walk.doubt("what git clone makes is not known")
        return
    for path in walk.absolute(made.text, call.shell, "") if made.known else ():
        walk.loose.append(walk.bounds.resolve(path))


def init(walk: Walk, call: Call) -> None:
    for field in operands(call, "-b --initial-branch --object-format --shared".split()) or [Field(".", raw=".")]:
        walk.writes(field, call.shell)


def operands(call: Call, values: list[str]) -> list[Field]:
    """The words of a subcommand that are no options and no values of these options."""
    found, skip = [], False
    for field in call.operands:
        if skip:
            skip = False
        elif field.known and field.text.startswith("-"):
            skip = field.text in values
        else:
            found.append(field)
    return found


def worktree(walk: Walk, call: Call) -> None:
    words = operands(call, "-b -B --reason --orphan".split())
    if words and words[0].text in ("add", "move", "remove") and words[0].known:
        for field in words[1:2] if words[0].text != "move" else words[1:3]:
            walk.writes(field, call.shell)


def config(walk: Walk, call: Call) -> None:
    texts = [field.text for field in call.operands]
    reads = {"--get", "--list", "-l", "--get-all", "--get-regexp", "get", "list", "--get-urlmatch", "--show-origin"}
    values = [text for text in texts if not text.startswith("-")]
    if reads & set(texts) or len(values) == 1:
        return
    if {"--global", "--system"} & set(texts) or any(
        text.startswith(("--gl", "--sy", "-f", "--file", "--bl")) for text in texts
    ):
        walk.doubt("git config writes a file outside the repository")
    elif len(values) < 2 or not _SAFE_KEYS.match(f"{values[0]}=") or not all(field.known for field in call.operands):
        walk.doubt("git config changes what git will run")


def archive(walk: Walk, call: Call) -> None:
    words = call.operands
    for index, field in enumerate(words):
        if field.known and field.text == "-o" and index + 1 < len(words):
            walk.writes(words[index + 1], call.shell)
        elif field.known and re.match(r"-o.", field.text):
            walk.writes(Field(field.text[2:], raw=field.raw), call.shell)


def bundle(walk: Walk, call: Call) -> None:
    words = operands(call, [])
    if len(words) > 1 and words[0].text == "create":
        walk.writes(words[1], call.shell)


def runs(walk: Walk, call: Call) -> None:
    """Subcommands that run a command they are told, or one of the configuration."""
    texts = [field.text for field in call.operands]
    if call.name == "bisect" and "run" in texts:
        rest = call.operands[texts.index("run") + 1 :]
        walk.call(rest, call.shell.copy()) if rest else None
    elif call.name == "difftool" or not set(texts[:1]) & _PLAIN:
        walk.doubt(f"git {call.name} runs what it is told")


_PLAIN = frozenset("status update init ls-files summary start good bad new old skip reset log".split())


def push(walk: Walk, call: Call) -> None:
    """A repository that is named by its path is written there."""
    for field in operands(call, ["-o", "--push-option", "--repo"])[:1]:
        if not field.known or re.match(r"[./~]|file:", field.text):
            walk.writes(Field(field.text.removeprefix("file://"), field.known, field.raw), call.shell)


def moved(walk: Walk, call: Call) -> None:
    """Files named by the subcommand itself."""
    for field in operands(call, []):
        if call.name in ("rm", "mv") and (field.known or "/" in field.text):
            walk.writes(field, call.shell, replaces=True)
    if call.name == "apply":
        for field in call.operands:
            if field.text.startswith("--directory"):
                walk.doubt("git apply is sent to a directory")


_SPECIAL = {
    "clone": clone,
    "init": init,
    "worktree": worktree,
    "config": config,
    "archive": archive,
    "format-patch": archive,
    "bundle": bundle,
    **dict.fromkeys(("bisect", "submodule", "lfs", "difftool", "mergetool"), runs),
    **dict.fromkeys(("rm", "mv", "apply"), moved),
    "push": push,
}
HANDLERS: dict[str, Callable[[Walk, Call], None]] = {}
RAW = {"git": git}
