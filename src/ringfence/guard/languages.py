"""Programs with a language of their own among their arguments: sed, awk, find, sqlite3."""

import re
from fnmatch import fnmatchcase

from ..model import Access, Verdict
from .acts import no_directory
from .arguments import Call
from .patterns import lazy
from .reach import Walk
from .state import Field, Shell

LONGEST_NAME = 1000  # characters of a pattern; what is made of a longer one to match it takes too long
# One command of sed that touches no file: addresses, then a letter, or a substitution with plain flags.
# Between brackets the mark D ends a pattern for some readers and not for others, where no backslash stands before it.
_BRACKETS = r"\[\^?\]?(?:[^\]\[D\\\n]|\[(?![:.=])|\[:\w+:\]|\\[^\]\n]|\\(?=\]))*\]"
_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n\[]|\\.|{_BRACKETS.replace('D', '/')})*/I?)"
_ADDRESSES = rf"(?:{_ADDRESS}(?:\s*,\s*(?:[+~]?\d+|{_ADDRESS}))?\s*!?\s*)?"
_PART = rf"(?:[^\\\n\[D]|\\.|\\\n|{_BRACKETS})*"
_SED = lazy(
    rf"\s*{_ADDRESSES}(?:[dpqQ=nNDPgGhHxz{{}}]|(?:[bt][ \t]*\w*|:[ \t]*\w+)(?![ \t]*}}[ \t}}]*[^;\n \t}}])"
    r"|[aic](?:\\\n|\\|[ \t])[^\n]*|l[ \t]*\d*"
    + "".join(
        rf"|s{re.escape(mark)}{_PART.replace('D', re.escape(mark))}{re.escape(mark)}"
        rf"{_PART.replace('D', re.escape(mark)).replace('[', '[', 1)}{re.escape(mark)}[gpiIM0-9]*"
        for mark in "/|#,:@!%_+~"
    )
    + r"|y/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/)\s*(?=[;\n}]|\Z)[;\n]*"
)


_SED_BLOCK = lazy(rf"\s*{_ADDRESSES}\{{")


def sed_is_plain(script: str) -> bool:
    """Whether a script of sed writes no file and runs nothing."""
    at = 0
    if len(script) > 2000:
        return False
    while at < len(script):
        if script[at] in "{} \t\n;":
            at += 1
            continue
        found = _SED_BLOCK.match(script, at) or _SED.match(script, at)
        if found is None or found.end() == at:
            return False
        at = found.end()
    return True


def acts(walk: Walk, call: Call, script: Field, why: str) -> None:
    """A script that does more than print: in the sandbox it is code of this line, as `python -c` is."""
    if not walk.runs_seen:
        walk.doubt(why)
        return
    from .inline import look  # few scripts need it

    look(walk, call.name, script.text, call.shell)


def sed(walk: Walk, call: Call) -> None:
    scripts = call.values("-e", "--expression")
    operands = list(call.operands)
    if not scripts and not call.has("-f", "--file") and operands:
        scripts = [operands.pop(0)]
        if (
            call.has("-i") and scripts[0].known and not scripts[0].text
        ):  # on macOS an ending, and the next is the script
            scripts += operands[:1]
    for script in scripts:
        if not script.known and (script.many or not walk.runs_seen):
            walk.doubt(f"the script of sed, {script.shown!r}, is not known")
        elif script.known and not sed_is_plain(script.text):
            acts(walk, call, script, "the script of sed may write a file or run a command")
    no_directory(walk, call, "-i", "--in-place")
    for operand in operands:
        if call.has("-i", "--in-place") and (operand.known or not walk.bounds.held):
            walk.writes(operand, call.shell, replaces=not call.has("--follow-symlinks"))
        else:
            walk.reads(operand, call.shell)


_AWK_WRITES = lazy(
    r"system|getline|ARG[CV]|close|fflush|@|\bprintf?\b.*>|ENVIRON\s*\[[^]]*\]\s*=|PROCINFO|\bload\b", re.DOTALL
)


# What awk reads as one thing in which nothing is a command: texts, comments, and patterns where no division can stand.
_AWK_TOKEN = lazy(
    r'(?P<text>"(?:[^"\\\n]|\\[^\n])*")|(?P<comment>#[^\n]*)|(?P<pattern>/(?:[^/\\\[\n]|\\[^\n]|'
    r"\[\^?\]?(?:[^]\[/\\\n]|\[(?![:.=])|\[:\w+:\]|\\[^\n])*\])+/)|(?P<space>\s+)"
    r"|(?P<code>[A-Za-z0-9_.$]+|\|\||&&|.)"
)
_AWK_STREAM = lazy(r'>\s*"/dev/std(?:out|err)"[ \t]*(?=[;}\n]|\Z)')
# Behind a value a stroke divides. Behind these it may: `if (x) /y/`, `x++ / 2`.
_AWK_VALUE = lazy(r"(?!(?:return|printf?|in|do|else|case|exit|length|next|delete|default)\Z)[\w.$]*[\w.]\Z|\]")
_AWK_CONDITIONS = frozenset(("if", "while", "for", "switch", ""))
_AWK_OPERAND = lazy(r'(?:exit|length|next|delete|default)\Z|[)+$-]|""')


def awk_code(script: str) -> str | None:
    """A program of awk without its texts, comments and patterns; None where two readers might differ."""
    out, at, before = "", 0, ""
    opened: list[str] = []  # what stands before each parenthesis
    while at < len(script):
        found = _AWK_TOKEN.match(script, at)
        kind = found.lastgroup if found else None
        if found is None or (kind == "code" and found.group() in '"\\'):
            return None
        stream = _AWK_STREAM.match(script, at)
        if stream is not None:
            found, kind = stream, "space"
        elif script[at] == "/":
            divides = _AWK_VALUE.match(before) is not None
            unsure = not divides and _AWK_OPERAND.match(before) is not None
            if (unsure and "/" in script[at + 1 :].partition("\n")[0]) or (kind == "code" and not (divides or unsure)):
                return None
            kind = "code" if divides else kind
        at = at + 1 if kind == "code" and script[at] == "/" else found.end()
        if kind in ("comment", "space"):
            before = "" if "\n" in found.group() else before
            out += "\n" if "\n" in found.group() else " "
            continue
        last, before = before, '""' if kind in ("text", "pattern") else "/" if script[at - 1] == "/" else found.group()
        out += before
        if before == "(":
            opened.append(last)
        elif before == ")" and opened and opened.pop() not in _AWK_CONDITIONS:
            before = "]"
    return out


def awk(walk: Walk, call: Call) -> None:
    if not call.operands:
        return
    script, *files = call.operands
    if not script.known:
        if script.many or not walk.runs_seen:
            walk.doubt(f"the program of awk, {script.shown!r}, is not known")
    else:
        code = awk_code(script.text)
        if code is None or _AWK_WRITES.search(code) or "|" in code.replace("||", ""):
            acts(walk, call, script, "the program of awk may write a file or run a command")
    for file in files:
        if not file.known or not re.match(r"[A-Za-z_]\w*=", file.text):
            walk.reads(file, call.shell)


_FIND_VALUES = frozenset(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type -xtype -size -mtime -mmin "
    "-atime "
    "-amin -ctime -cmin -newer -anewer -cnewer -perm -user -group -uid -gid -links -inum -samefile -maxdepth -mindepth "
    "-fstype -used -regextype -printf -context -D".split()
)
_FIND_FLAGS = lazy(
    r"-(?:print0?|ls|prune|quit|empty|depth|d|mount|xdev|daystart|follow|noleaf|true|false|not|and|or|a|o|executable"
    r"|readable|writable|nouser|nogroup|ignore_readdir_race|noignore_readdir_race|warn|nowarn|H|L|P|O\d)\Z|[(),!]\Z"
)


# By which git and agents are told what to run, below where a search begins.
_KEPT = {
    ".git": ("config", "hooks/pre-commit", "hooks/post-checkout"),
    ".claude": ("settings.json", "settings.local.json"),
    ".codex": ("config.toml", "hooks.json"),
    ".cursor": ("hooks.json",),
    ".gemini": ("settings.json",),
    ".vscode": ("settings.json", "tasks.json"),
}


class Typed:
    """Of which kinds is surely everything that comes to a place in find's expression, and whether by its name it is
    none of those `kept`: what stands behind `-o`, `!` or before a `-type` is not what that says."""

    def __init__(self, kept: list[str]) -> None:
        self.kept = kept
        self.levels = [""]  # by parentheses
        self.plain = [True]  # whether what is said inside them holds behind them, too
        self.named = [not kept]
        self.every = [True]  # whether each way through them has a name

    def take(self, word: str, value: str, negated: bool) -> None:
        if word == "(":
            self.levels.append(self.levels[-1])
            self.plain.append(not negated)
            self.named.append(self.named[-1])
            self.every.append(not negated)
        elif word == ")" and len(self.levels) > 1:
            said, holds = self.levels.pop(), self.plain.pop()
            self.levels[-1] = said if holds else self.levels[-1]
            named, every = self.named.pop(), self.every.pop()
            self.named[-1] = self.named[-1] or (named and every)
        elif word in ("-o", "-or", ","):
            self.levels[-1] = self.levels[-2] if len(self.levels) > 1 else ""
            self.plain[-1] = False
            self.every[-1] = self.every[-1] and self.named[-1]
            self.named[-1] = self.named[-2] if len(self.levels) > 1 else not self.kept
        elif word == "-type" and not negated:
            self.levels[-1] = value
        elif word in ("-name", "-iname") and not negated:
            short = len(value) < LONGEST_NAME
            fits = not short or any(fnmatchcase(name, value.lower()) for name in self.kept)
            self.named[-1] = self.named[-1] or not fits
        elif word in ("-path", "-wholename") and negated and value.strip("*./") == "git":
            self.named[-1] = True

    def kinds(self) -> set[str]:
        return set(self.levels[-1].split(",")) if self.levels[-1] else {"l"}

    def spares(self, walk: Walk, what: str) -> None:
        if not self.named[-1]:
            walk.doubt(f"{what} may come upon what git or an agent runs; -name would say that it does not")


def _kept(walk: Walk, call: Call, starts: list[Field], words: list[str]) -> list[str]:
    """The names there that nobody may write, where no sandbox keeps anybody from it."""
    pruned = words[:3] in (["-path", "./.git", "-prune"], ["-name", ".git", "-prune"]) and words[3:4] in (
        ["-o"],
        ["-or"],
    )
    if walk.bounds.held or pruned:
        return []
    places = {walk.stand(path) for start in starts for path in walk.absolute(start.text, call.shell, "")}
    return [
        name.rpartition("/")[2]
        for place in places
        for directory, names in _KEPT.items()
        if walk.bounds.is_directory(f"{place}/{directory}")
        for name in names
        if walk.bounds.decide(Access.WRITE, f"{place}/{directory}/{name}").verdict is not Verdict.ALLOW
    ]


def find(walk: Walk, call: Call) -> None:
    """find: starting points, then an expression that may remove, write and run."""
    words = list(call.operands)
    starts: list[Field] = []
    follows = False
    while (
        words
        and (not words[0].text.startswith("-") or words[0].text in ("-H", "-L", "-P"))
        and words[0].text not in ("(", "!")
    ):
        if words[0].text in ("-H", "-L", "-P") and words[0].known:
            follows = follows or words.pop(0).text != "-P"
        else:
            starts.append(words.pop(0))
    starts = starts or [Field(".", raw=".")]
    follows = follows or any(word.text in ("-follow", "-L", "-H") for word in words)
    typed, before = Typed(_kept(walk, call, starts, [word.text for word in words])), ""
    for start in starts:
        walk.reads(start, call.shell, names=True)
        if not start.known and start.may_be_option:
            walk.doubt(f"find gets {start.shown!r}, which is not known and may be an expression")
    for word in words:
        if not word.known and word.many and not (word.below or word.digits):  # also where one word would be a value
            walk.doubt(f"find gets {word.shown!r}, which is not known and may be an expression")
            return
    while words:
        word = words.pop(0)
        if not word.known:
            walk.doubt(f"find gets {word.shown!r}, which is not known and may be an expression")
            return
        typed.take(word.text, words[0].text if words else "", before in ("!", "-not"))
        before = word.text
        if word.text in _FIND_VALUES or re.fullmatch(r"-newer[aBcm][aBcmt]", word.text):
            if words:
                words.pop(0)
        elif word.text == "-delete":
            for start in starts:
                walk.writes(start, call.shell)
                if follows:
                    walk.doubt("find removes files behind links")
            if typed.kinds() != {"d"}:  # of which it removes those that are empty
                typed.spares(walk, "find -delete")
        elif word.text in ("-fprint", "-fprint0", "-fls", "-fprintf"):
            if words:
                walk.writes(words.pop(0), call.shell)
            if word.text == "-fprintf" and words:
                words.pop(0)
        elif word.text in ("-exec", "-execdir", "-ok", "-okdir"):
            _executed(walk, call, word.text, words, starts, typed, follows)
        elif not _FIND_FLAGS.match(word.text):
            walk.doubt(f"what {word.shown!r} does in find is not known")
            return


_REMOVES = frozenset(("rm", "rmdir", "unlink", "/bin/rm"))
_OF_DIRECTORIES = frozenset(("chmod", "chown", "chgrp", "touch", "setfacl"))  # which write nothing that lies in one


def _executed(
    walk: Walk, call: Call, how: str, words: list[Field], starts: list[Field], typed: Typed, follows: bool
) -> None:
    """A command that find runs for what it found."""
    kinds = {"l"} if follows else typed.kinds()
    command: list[Field] = []
    while words:
        word = words.pop(0)
        if word.text == ";" or (word.text == "+" and command and command[-1].text == "{}"):
            break
        command.append(word)
    if not command:
        return
    links = not kinds <= {"f", "d"} or ("d" in kinds and command[0].text not in _OF_DIRECTORIES)
    shell: Shell = call.shell.copy()
    if how in ("-execdir", "-okdir"):
        if any(not field.text.startswith(("-", "/", "{}")) for field in command[1:]) or command[0].text not in _REMOVES:
            walk.doubt(f"find runs {command[0].shown!r} in directories that are not known")
        shell.places = frozenset()
    for start in starts:
        fields = [_filled(field, start) for field in command]
        before = walk.written_paths
        walk.call(fields, shell.copy())
        if walk.written_paths > before and command[0].text not in _OF_DIRECTORIES:
            typed.spares(walk, repr(command[0].shown))
        if links and not walk.bounds.held and walk.written_paths > before and command[0].text not in _REMOVES:
            walk.doubt(
                f"{command[0].shown!r} may follow a link that find comes upon; -type f would say that it does not"
            )


def _filled(field: Field, start: Field) -> Field:
    if "{}" not in field.text:
        return field
    if field.text == "{}":
        return Field(start.text, False, "{}", below=start.known)
    return Field(field.text.partition("{}")[0], False, field.raw)


LONGEST_STATEMENT = 20_000
_SQL_WRITES = lazy(
    r"attach|into\s*['\"]|vacuum\b.*\binto|writefile|load_extension|\bedit[\"'`\]]?\s*(?:\(|/\*|--)|readfile|fsdir|fts\w*_|^\s*\.|\n\s*\.|zipfile"
    r"|_store_directory",
    re.IGNORECASE,
)


_SQL_LOOKS = lazy(r"\.(?:tables|schema|indexes|databases|dbinfo)(?: \w+)?\Z")


def sqlite(walk: Walk, call: Call) -> None:
    if not call.operands or call.operands[0].text == ":memory:":
        database: list[Field] = []
    else:
        database = call.operands[:1]
        walk.writes(database[0], call.shell)
        if database[0].text.startswith("file:"):
            walk.doubt("sqlite3 is told its file by an address")
    if len(call.operands) < 2 and not walk.runs_seen:
        walk.doubt("sqlite3 takes its commands from its input")
    for statement in call.operands[1:]:
        if statement.known and _SQL_LOOKS.match(statement.text):
            continue
        long = len(statement.text) > LONGEST_STATEMENT
        if not statement.known or long or statement.text.startswith("-") or _SQL_WRITES.search(statement.text):
            walk.doubt("a statement of sqlite3 may write another file or run a command")


HANDLERS = {"sed": sed, "awk": awk, "sqlite": sqlite}
RAW = {"find": find}
