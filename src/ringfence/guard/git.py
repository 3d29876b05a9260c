"""git: its own directories, its subcommands, and the many ways in which it runs other programs."""

import posixpath
import re
from collections.abc import Callable

from .arguments import Call, apply_options, links_in, sorted_arguments, worked_in
from .bounds import runs_later
from .patterns import lazy
from .programs import marked
from .reach import Walk
from .state import Field

_GLOBAL = marked(
    "^ -pPhv -C:d -c:n --git-dir=d --work-tree=d --namespace=n --exec-path=q --config-env=q --no-pager --paginate "
    "--bare --no-optional-locks --literal-pathspecs --no-replace-objects --version --help --html-path --man-path "
    "--attr-source=n"
)
_PLACED = ("--git-dir", "--work-tree")
_SAFE_KEYS = lazy(
    r"(?:user\.(?:name|email)|color\.\w+|core\.(?:quotepath|abbrev|autocrlf|filemode|longpaths)|advice\.\w+|log\.\w+"
    r"|commit\.gpgsign|tag\.gpgsign|init\.defaultbranch|merge\.conflictstyle|pull\.(?:rebase|ff)|diff\.\w+tool\.none"
    r"|safe\.directory|gc\.auto|push\.default|rebase\.autosquash)=.*\Z",
    re.IGNORECASE | re.DOTALL,
)
_NO_PROGRAM = ("core.pager=cat", "core.editor=true", "core.editor=:", "sequence.editor=true", "sequence.editor=:")
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
    "merge-tree init clone worktree archive format-patch bundle config lfs".split()
)
_LINKS = frozenset(
    "checkout switch restore reset stash pull merge rebase cherry-pick revert apply am read-tree bisect".split()
)
# Long options that run something, or lead git elsewhere; any beginning of one may stand for it.
_RUNS = tuple(
    "--exec --upload-pack --receive-pack --ext-diff --textconv --open-files-in-pager --tool --extcmd --template "
    "--unsafe-paths --config --build-fake-ancestor --expire-to --filter-to --directory --repo".split()
)
_OUTPUT = tuple(
    "--output --output-directory --separate-git-dir --index-output --object-directory --reference "
    "--reference-if-able".split()
)
_OTHERS = frozenset("--expire --filter --re --reference".split())  # beginnings that are options of their own
# Letters that run something or write, by subcommand, and those whose value is the rest of the word.
_REMOVES = frozenset("clean sparse-checkout worktree submodule".split())
_LETTERS = {
    "rebase": ("x", "CSsX"),
    "grep": ("O", "efABCm"),
    "clone": ("uc", "bjo"),
    "archive": ("o", ""),
    "format-patch": ("o", "USGMCBOv"),
}
_REVISIONS = frozenset(
    "shortlog blame annotate log show whatchanged reflog stash format-patch cherry-pick revert".split()
)
_SETS_UP = frozenset(("config", "config.worktree", "HEAD", "commondir", "gitdir"))


def git(walk: Walk, call: Call) -> None:
    found = sorted_arguments(walk, "git", _GLOBAL, call.operands, call.shell.copy(), call.stdin)
    if found is None:
        return
    options, found.options = found.options, [one for one in found.options if one[0] not in _PLACED]
    apply_options(walk, found)
    found.options, shell, trees = options, found.shell, found.shell.places
    for value in found.values(*_PLACED):  # from where every -C together leads, whichever comes first
        worked_in(walk, value, found)
        trees, found.shell = trees | found.shell.places, shell
    if found.has("--bare") or any(
        posixpath.basename(value.text.rstrip("/")) != ".git" for value in found.values("--git-dir")
    ):
        walk.doubt("git is told which repository to go by, and that says what it runs")
    for value in found.values("-c"):
        if not value.known or not (_SAFE_KEYS.match(value.text) or value.text in _NO_PROGRAM):
            walk.doubt(f"git is told {value.shown!r}, which may run a command")
    if not found.operands:
        return
    name, *words = found.operands
    if not name.known or (name.text not in _READS and name.text not in _CHANGES):
        walk.doubt(f"what 'git {name.shown}' does is not known")
        return
    found.name, found.operands = name.text, words
    made = [one.path for one in walk.findings.values() if one.access == "write"]
    if any(posixpath.basename(path) in _SETS_UP for path in made):
        walk.doubt(f"git {name.text} may go by what this line has written itself")
    common(walk, found, words)
    if name.text in ("merge", "pull", "rebase", "cherry-pick", "revert"):
        strategy(walk, found, words)
    if name.text == "help" and any(re.match(r"-\w*w|--w", word.text) for word in words):
        walk.doubt("git help starts a browser")
    if (walk.fed or walk.piped) and not walk.bounds.held and edits(name.text, [word.text for word in words]):
        walk.doubt(f"git {name.text} starts an editor, which may take what it reads for commands")
    named(walk, found, words)
    special = _SPECIAL.get(name.text)
    if special is not None:
        special(walk, found)
    if (name.text in _CHANGES and name.text not in ("init", "clone")) or _changes_too(name.text, words):
        in_repository(walk, found)
    if name.text in ("clone", "pull", "fetch", "submodule", "remote"):
        for word in words:  # what nobody has seen, as what curl fetches
            far = name.text == "clone" and re.match(r"/|[^-/:][^/:]*:", word.text)
            walk.strewn = word.shown if far or _ADDRESS.match(word.text) or word.text[:3] == "../" else walk.strewn
    shows = name.text == "stash" and [word.text for word in words[:1]] in (["list"], ["show"], ["drop"], ["clear"])
    if name.text in (*_LINKS, "submodule", "sparse-checkout") and not shows:
        walk.checked_out += [walk.stand(place) for place in trees]


_EDITED = ("--edit", "--patch", "--interactive", "--continue")
_SAID = lazy(r"-[A-Za-z]*[mFC]|--(?:mes|fil|reuse-m|no-edi|dry|fixup=(?!amend:|reword:)|squash=)")


def edits(name: str, words: list[str]) -> bool:
    """Whether a subcommand asks for a text, or which of several changes to take, and one answer is to edit them."""
    if name in (
        "rebase",
        "merge",
        "pull",
        "cherry-pick",
        "revert",
        "am",
        "stash",
        "checkout",
        "restore",
        "reset",
        "add",
    ):
        said = True
    elif name in ("branch", "replace"):
        said = not any(re.match(r"-e\Z|--e", word) for word in words)
    elif name == "notes":
        said = not {"add", "append", "edit"}.intersection(words) or any(map(_SAID.match, words))
    elif name == "tag":
        said = not any(re.match(r"-[A-Za-z]*[asu]|--(?:a|si|loc)", word) for word in words) or any(
            map(_SAID.match, words)
        )
    elif name == "commit":
        said = any(map(_SAID.match, words))
    else:
        return False
    asks = (len(word) > 3 and any(one.startswith(word) for one in _EDITED) for word in words)
    return not said or any(asks) or any(re.match(r"-[A-Za-z]*[eip]|--edit-", word) for word in words)


def named(walk: Walk, call: Call, words: list[Field]) -> None:
    """Words that become a part of a file's name."""
    for index, word in enumerate(words):
        option, equals, value = word.text.partition("=")
        after = word if equals else words[index + 1] if index + 1 < len(words) else word
        leads = "/" in (value if equals else after.text) or not after.known
        if call.name == "format-patch" and option.startswith("--suf") and leads:
            walk.doubt("git format-patch is told the ending of a name that may lead elsewhere")
    refs = operands(call, ["-m"]) if call.name == "symbolic-ref" else []
    if not all(_REF.match(word.text) and (word.known or walk.bounds.held) for word in refs):
        walk.doubt("git symbolic-ref writes what may be no reference")
    if call.name in ("apply", "am"):
        from .fetching import patched  # few lines need it

        options = [_LEAVES.match(word.text) for word in words if not word.known or word.text[:1] == "-" != word.text]
        trial = all(options) and any(found and not found[1] for found in options)
        patched(walk, call, operands(call, []), call.stdin, trial)


# With these alone no file of the worktree is written, or none that was not seen before.
_LEAVES = re.compile(
    r"--(?:check|stat|numstat|summary|cached|abort|quit|skip|continue|resolved|show-current-patch)\Z|(-[vqR]|-p\d+"
    r"|--(?:verbose|quiet|reverse|recount|whitespace=\w+))\Z"
)
_REF = re.compile(r"(?:HEAD|refs/(?!(?:.*/)?\.\.(?:/|\Z)).*)\Z", re.DOTALL)


def _changes_too(name: str, words: list[Field]) -> bool:
    """Subcommands that mostly read."""
    texts = [word.text for word in words]
    return (
        (name == "fsck" and any(text.startswith("--los") for text in texts))
        or (name == "reflog" and bool({"expire", "delete", "drop"}.intersection(texts)))
        or (name == "symbolic-ref" and (len(texts) > 1 or "-d" in texts))
    )


def common(walk: Walk, call: Call, words: list[Field]) -> None:
    """Options that write or run, whichever the subcommand."""
    values = _values(call.name, words)
    for index, word in enumerate(words):
        if not word.known:
            option, equals, _ = word.text.partition("=")
            runs = any(name.startswith(option) for name in (*_RUNS, *_OUTPUT))
            one = not word.many and (index in values or (equals and option[:2] == "--" and not runs))
            held = walk.shows_all and not walk.strewn and not word.text.startswith("-")  # as a word of another tool
            if word.may_be_option and "--" not in [before.text for before in words[:index]] and not one and not held:
                walk.doubt(f"git {call.name} gets {word.shown!r}, which is not known and may be an option")
            continue
        if word.text == "--":
            if call.name in _REMOTE and any(_HELPER.match(after.text) for after in words[index:]):
                walk.doubt(f"git {call.name} runs a program that carries it there")
            if not index or not words[index - 1].text.startswith("-"):
                break
            continue  # perhaps it is the value of that option
        if index in values and not word.text.startswith("-"):  # a value before it may have looked like its option
            continue
        option, equals, value = word.text.partition("=")
        if call.name in _REMOTE and _HELPER.match(word.text):
            walk.doubt(f"git {call.name} {word.text} runs a program that carries it there")
        elif option in _OUTPUT:
            given = Field(value, raw=word.raw) if equals else next(iter(words[index + 1 :]), None)
            if given is not None:
                walk.writes(given, call.shell)
        elif option.startswith("--") and option not in _OTHERS:
            if any(name.startswith(option) for name in (*_RUNS, *_OUTPUT)):
                walk.doubt(f"git {call.name} {word.text} runs something, or leads elsewhere")
        elif word.text.startswith("-"):
            letters(walk, call, word.text)


def letters(walk: Walk, call: Call, text: str) -> None:
    """One word of short options."""
    runs, values = _LETTERS.get(call.name, ("", ""))
    tail = text[text.find("-", 1) - 1 :].partition("=")[0] if "-" in text[1:] else ""
    long = "-" + tail[1:]  # `-n-output=x`, which these take for `-n --output=x`
    if tail and call.name in _REVISIONS and any(name.startswith(long) for name in (*_RUNS, *_OUTPUT)):
        walk.doubt(f"git {call.name} {text} runs something, or leads elsewhere")
    for at, letter in enumerate(text[1:], 1):
        if letter in runs and (letter != "o" or at > 1):  # `-o` alone is looked at by `archive`
            walk.doubt(f"git {call.name} {text} runs or writes something that is not known")
        if letter in values:
            return


_ADDRESS = re.compile(r"[\w+.-]+:/|[^-@/:][^@/:]*@[^/:]+:")  # which `main:main` is not
_REMOTE = frozenset("clone fetch pull push ls-remote remote archive submodule".split())
_HELPER = re.compile(r"(?:--\w+=)?[A-Za-z0-9+.-]+::")


# Options whose value is the next word, by subcommand: to others the same letter is a flag, and the next word counts.
_VALUES = {
    **dict.fromkeys(
        "commit merge tag notes stash".split(), frozenset(("-m", "--message", "-am", "--author", "--date"))
    ),
    **dict.fromkeys(
        "log show whatchanged reflog rev-list".split(), frozenset(("-n", "--grep", "--author", "--date", "-S", "-G"))
    ),
    **dict.fromkeys("diff diff-tree shortlog".split(), frozenset(("-S", "-G"))),
}


def _values(name: str, words: list[Field]) -> set[int]:
    """Which words are the message, author or such of the option before them, and no option for the next one."""
    if name == "stash" and {"list", "show"}.intersection(word.text for word in words):
        name = "log"  # to which -m is a flag
    taken, options = set[int](), _VALUES.get(name, ())
    for index, word in enumerate(words[:-1]):
        if word.text in options and index not in taken:
            taken.add(index + 1)
    return taken


_STRATEGIES = frozenset("ort recursive resolve octopus ours subtree".split())


def strategy(walk: Walk, call: Call, words: list[Field]) -> None:
    """A way to merge that git does not know is a program."""
    short = "" if call.name in ("cherry-pick", "revert") else r"-[aefiknpqtuv46]*s|"  # to those it signs
    for index, word in enumerate(words):
        found = re.match(rf"(?:{short}--stra(?:t(?:e(?:g(?:y)?)?)?)?(?:=|\Z))(?!-)(.*)", word.text)
        told = found[1] if found else ""
        if found and not told and index + 1 < len(words):
            told = words[index + 1].text
        if found and told not in _STRATEGIES:
            walk.doubt(f"git {call.name} is told to merge by {told!r}, which may be a program")


def in_repository(walk: Walk, call: Call) -> None:
    """Subcommands that write the repository: it has to lie in the worktree, or to be that of a linked one."""
    for place in sorted(call.shell.places):
        real = walk.stand(place)
        repository = walk.bounds.repository(real)
        if repository:
            walk.written(repository, f"git {call.name} writes the repository {repository!r}", by_git=True)
            if call.name in _LINKS or call.name in _REMOVES:
                walk.written(posixpath.dirname(repository), f"git {call.name} writes its files")


def clone(walk: Walk, call: Call) -> None:
    plain = operands(call, "-b --branch --depth -o --origin -j --jobs --filter --shallow-since".split())
    if len(plain) > 1:
        for field in plain[1:]:
            walk.writes(field, call.shell)
        made = plain[1]
    elif plain and plain[0].known:
        made = Field(re.sub(r"\.git\Z|/\.git\Z", "", plain[0].text.rstrip("/")).rpartition("/")[2].rpartition(":")[2])
        walk.writes(made, call.shell)
    else:
        walk.doubt("what git clone makes is not known")
        return
    links_in(walk, call, [made])


def init(walk: Walk, call: Call) -> None:
    bare = any(field.text.startswith("--bar") for field in call.operands)
    for field in operands(call, "-b --initial-branch --object-format".split()) or [Field(".", raw=".")]:
        walk.writes(field, call.shell)
        if bare and walk.bounds.root in [walk.stand(path) for path in walk.absolute(field.text, call.shell, "")]:
            walk.doubt("git would take the worktree itself for a repository")


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
    words = operands(call, "-b -B --reason".split())
    if words and words[0].text in ("add", "move", "remove", "repair") and words[0].known:
        if words[0].text == "add":  # what follows is a commit
            place_first(walk, call, words[1:])
            links_in(walk, call, words[1:2])
        else:
            for field in words[1:]:
                walk.writes(field, call.shell)


def place_first(walk: Walk, call: Call, words: list[Field]) -> None:
    """The first word is written, and perhaps others."""
    for field in words[:1]:
        walk.writes(Field(field.text.removeprefix("file://"), field.known, field.raw), call.shell)
    paths_among(walk, call, words[1:])


def paths_among(walk: Walk, call: Call, commits: list[Field]) -> None:
    """Commits and references; but one with a stroke may be the path, for an option may have taken the word before."""
    for field in commits:
        path = field.text.removeprefix("file://")
        if field.known and ("/" in path or path == "..") and walk.leads_outside(path, call.shell):
            walk.writes(Field(path, raw=field.raw), call.shell)


_LOOKS = frozenset(
    "--get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool --list -l --show-origin --show-scope "
    "--name-only -z --null --local --worktree --global --system --bool --int --path --includes --no-includes "
    "--all".split()
)


def config(walk: Walk, call: Call) -> None:
    texts = [field.text for field in call.operands]
    values = [text for text in texts if not text.startswith("-")]
    asked = [text for text in texts if text.startswith("-") and not text.startswith(("--type=", "--default="))]
    looks = (
        values[:1] in (["get"], ["list"])
        or (len(values) == 1 and values != ["edit"])
        or any(text.startswith(("--get", "--list", "-l")) for text in asked)
    )
    if looks and set(asked) <= _LOOKS and all(field.known for field in call.operands):
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
    words = operands(call, ["--version"])
    if len(words) > 1 and words[0].text == "create":
        place_first(walk, call, words[1:])


def runs(walk: Walk, call: Call) -> None:
    """Subcommands that run a command they are told, or one of the configuration."""
    texts = [field.text for field in call.operands]
    if call.name == "bisect" and "run" in texts:
        rest = call.operands[texts.index("run") + 1 :]
        walk.call(rest, call.shell.copy()) if rest else None
    elif call.name in ("difftool", "mergetool") or not set(texts[:1]) & _PLAIN:
        walk.doubt(f"git {call.name} runs what it is told")


_PLAIN = frozenset("status update init ls-files summary start good bad new old skip reset log".split())


def push(walk: Walk, call: Call) -> None:
    """A repository that is named by its path is written there."""
    words = operands(call, ["-o", "--push-option"])
    if words and words[0].known and not re.match(r"[./~]|file:|[^:]*/", words[0].text):
        paths_among(walk, call, words[1:])
    else:
        place_first(walk, call, words)


def remote(walk: Walk, call: Call) -> None:
    """A repository that is named by its path would be written by the next push."""
    for field in operands(call, "-t -m".split())[2:]:
        path = field.text.removeprefix("file://")
        if not field.known or (re.match(r"[./~]|[^:]*/", path) and walk.leads_outside(path, call.shell)):
            walk.doubt(f"git remote is told {field.shown!r}, which is outside the worktree")


def moved(walk: Walk, call: Call) -> None:
    """Files named by the subcommand itself."""
    words = [field.text for field in call.operands]
    options = words[: words.index("--")] if "--" in words else words
    if call.name == "rm" and "--cached" in options and not any(map(_TAKES_BACK.match, options)):
        return  # they stay where they are
    if call.name == "mv":
        from .acts import stood_in  # few lines need it

        stood_in(walk, call, operands(call, [])[:-1])
    for field in operands(call, []):
        if call.name in ("rm", "mv") and (field.known or "/" in field.text):
            walk.writes(field, call.shell, replaces=True)
    if call.name == "mv":  # a link leads elsewhere from its new place
        walk.checked_out += [walk.stand(place) for place in call.shell.places]


# By these `--cached` behind them is a path or a value, or is taken back; git knows them by their first letters.
_TAKES_BACK = lazy(r"--(?:no-c|e|p)")


def put_back(walk: Walk, call: Call) -> None:
    """Files that are taken from a commit, or taken away, and named: only git knows what will be in them."""
    texts = {field.text for field in call.operands}
    if call.name == "restore" and texts & {"-S", "--staged"} and not texts & {"-W", "--worktree"}:
        return  # the index alone
    for field in call.operands:
        text = _MAGIC.sub("", field.text)
        for path in walk.absolute(text, call.shell, "") if field.known and text and text[0] != "-" else ():
            why = "" if path.endswith("/HEAD") else runs_later(walk.bounds.resolve(path))
            if why:
                walk.doubt(f"git {call.name} writes {field.shown!r}, {why}")


_MAGIC = re.compile(r"--prefix=|:/|:\([\w,]*\)")  # before a path

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
    **dict.fromkeys(("checkout", "restore", "read-tree", "stash", "clean"), put_back),
    "push": push,
    "remote": remote,
}
HANDLERS: dict[str, Callable[[Walk, Call], None]] = {}
RAW = {"git": git}
