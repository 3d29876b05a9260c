"""One command with its arguments: which function, builtin or program it is, and what bash itself does about it."""

import itertools
import re
from collections.abc import Callable

from .arguments import (
    Call,
    activates,
    apply_options,
    apply_role,
    called,
    nothing_elsewhere,
    sorted_arguments,
    told_by_the_line,
)
from .patterns import lazy
from .places import enter, kill, limits, moved, numbered, options, settings, stack
from .programs import ROWS, row
from .reach import Walk
from .state import MISSING, Field, Shell, merged
from .syntax import Sequence, Word
from .variables import concern, counted, emptied, handed_on, listed

States = tuple[Shell, Shell]
_NAME = lazy(r"[A-Za-z_][A-Za-z0-9_]*\Z")
MOST_CALLS = 8


def call(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> States:
    """What bash does with a command, in the order in which it looks for it."""
    name = fields[0]
    if not named(walk, fields):
        return shell, shell
    if name.text in shell.functions:
        ok, bad = function(walk, name.text, fields[1:], shell.copy())
        missing = any(body is MISSING for body in shell.functions[name.text])
        if name.text not in BUILTINS and name.text not in ROWS and not missing:
            return ok, bad
        # It may have been unset meanwhile, or never been defined: then what it hid is called.
        also_ok, also_bad = builtin_or_program(walk, fields, shell, stdin)
        return merged(ok, also_ok), merged(bad, also_bad)
    return builtin_or_program(walk, fields, shell, stdin)


def builtin_or_program(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> States:
    name = fields[0].text
    handler = BUILTINS.get(name)
    if handler is not None:
        counted(walk, name, fields[1:], shell)
        return handler(walk, fields[1:], shell, stdin) or (shell, shell)
    program(walk, fields, shell, stdin)
    return shell, shell


def function(walk: Walk, name: str, arguments: list[Field], shell: Shell) -> States:
    """A function of this line: each body it may have, with its arguments."""
    walk.calls += 1
    if walk.calls > MOST_CALLS:
        walk.doubt(f"the function {name} calls itself, or too many others")
        walk.calls -= 1
        return shell, shell
    end: Shell | None = None
    for body in shell.functions[name]:
        inner = shell.copy()
        inner.positional = None if any(field.many for field in arguments) else tuple(arguments)
        walk.returns.append([])
        walk.locals.append(set())
        inner = walk.after(body, inner)
        for left in walk.returns.pop():
            inner = merged(inner, left)
        for own in walk.locals.pop():  # what it hid comes back
            if inner.variables.get(own) != shell.variables.get(own):
                inner.assign(own, None)
        end = inner if end is None else merged(end, inner)
    walk.calls -= 1
    if end is None:
        return shell, shell
    end = end.copy()
    end.positional = shell.positional
    return end, end


# --- programs ----------------------------------------------------------------------------------------------------


def program(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    """What a program does, as far as its row knows."""
    if walk.path_read and not walk.bounds.held and "/" not in fields[0].text:
        walk.doubt(f"zsh looks for {fields[0].text!r} in what path holds, which is not known")
    name = called(walk, fields, shell)
    if not name or (len(fields) == 2 and fields[1].known and fields[1].text in ("--version", "--help")):
        return
    found = row(name)
    if not walk.bounds.reads_free and name != "ln":  # whose targets are judged from where the link will stand
        walk.told(name, fields[1:], shell)
    raw, handler = handler_of(found.handler)
    if raw:
        handler(walk, Call(name, found, [], fields[1:], shell, stdin))
        return
    call = sorted_arguments(walk, name, found, fields[1:], shell, stdin)
    if call is None:
        return
    if found.tool:
        told_by_the_line(walk, call, fields[1:])
    apply_options(walk, call)
    if found.tool:
        nothing_elsewhere(walk, call, fields[1:])
        walk.notes.append(f"{name} runs what the project tells it to")
    handler(walk, call)
    several = False
    for index, operand in enumerate(call.operands if found.roles else ()):
        several = several or (operand.many and not operand.known)  # which may be the next ones as well
        for role in {found.roles[min(index, len(found.roles) - 1)], *(found.roles[-1] if several else "")}:
            apply_role(walk, role, operand, call)


def handler_of(name: str) -> tuple[bool, Callable[[Walk, Call], None]]:
    """The function that a row names, and whether it sorts the arguments itself. A hook has no time for all of them."""
    if not name:
        return False, lambda walk, call: None
    home = _HOMES.get(name, "")
    if home == "git":
        from . import git as room
    elif home == "languages":
        from . import languages as room  # type: ignore[no-redef]
    elif home == "others":
        from . import others as room  # type: ignore[no-redef]
    elif home == "told":
        from . import told as room  # type: ignore[no-redef]
    elif home == "projects":
        from . import projects as room  # type: ignore[no-redef]
    elif home == "fetching":
        from . import fetching as room  # type: ignore[no-redef]
    else:
        from . import acts as room  # type: ignore[no-redef]
    return name in room.RAW, (room.RAW if name in room.RAW else room.HANDLERS)[name]


_HOMES = {
    "git": "git",
    **dict.fromkeys(("xxd", "cache", "shows", "clock", "ends", "seeks", "device", "bundled", "serves"), "told"),
    **dict.fromkeys(("wget", "curl"), "fetching"),
    **dict.fromkeys(("sed", "awk", "sqlite", "find"), "languages"),
    **dict.fromkeys("env xargs shell python interpreter unknown after after1 lock watch sudo".split(), "others"),
    **dict.fromkeys("rake make cmake npm pip dotnet pytest cargo go uv coverage".split(), "projects"),
}


# --- where the shell stands --------------------------------------------------------------------------------------


def change(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> States:
    physical = odd = False
    while fields and fields[0].known and re.fullmatch(r"-[LPe@]+|--", fields[0].text):
        option = fields.pop(0).text
        physical = physical or "P" in option
        odd = odd or "e" in option or "@" in option  # which other shells do not know
        if option == "--":
            break
    if not fields:
        walk.refuse("it tries to cd to <HOME>: a bare cd leaves the worktree")
    elif fields[0].text == "-" and fields[0].known:
        if walk.bounds.held:
            return pop(walk, fields, shell, stdin)
        walk.refuse("it tries to cd to <previous-dir>: where that is depends on what ran before")
    elif fields[0].text == "" and fields[0].known:
        walk.refuse("it tries to cd to an empty path")
    else:
        if len(fields) > 1:
            walk.doubt("it gives cd more than one target")
        if "CDPATH" in shell.variables:
            walk.doubt("it changes directory by CDPATH")
        target = numbered(walk, fields[0])
        if walk.bounds.held and not target.known:
            return moved(shell, frozenset())  # what is done there the sandbox holds; from here on nobody knows where
        if walk.bounds.held:
            target = Field(target.text, raw=target.raw, plain=True)
        return moved(shell, enter(walk, target, shell, "it tries to cd to", physical), None if odd else walk)
    return moved(shell, frozenset())


def push(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> States:
    if len(fields) != 1 or not fields[0].known or re.match(r"[-+]", fields[0].text) or not fields[0].text:
        walk.refuse("it uses pushd without a plain directory")
        return moved(shell, frozenset())
    return moved(shell, enter(walk, fields[0], shell, "it tries to pushd to"), walk)


def pop(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> States:
    return moved(shell, frozenset(walk.seen_places) if len(walk.seen_places) <= 16 else frozenset())


# --- text that is run --------------------------------------------------------------------------------------------


def evaluate(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> States | None:
    if not all(field.known for field in fields):
        walk.doubt("it evaluates a text that is not known")
        return None
    if fields and fields[0].text == "--":
        fields = fields[1:]
    return walk.line(" ".join(field.text for field in fields), shell)


def source(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    name = fields[0].shown if fields else "nothing"
    if made := activates(walk, fields, shell):
        shell.functions = {**shell.functions, made: (*shell.functions.get(made, ()), Sequence(()))}
        return  # it puts some tools first, and stays where it stands
    walk.doubt(f"it runs the commands of {name}, which are not read here")
    shell.places, shell.variables, shell.odd_words = frozenset(), {}, "another file was run"
    shell.numbers = frozenset()


def execute(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> States | None:
    while fields and fields[0].known and fields[0].text.startswith("-"):
        option = fields.pop(0).text
        if option == "-a" and fields:
            fields.pop(0)
        elif not re.fullmatch(r"-[cl]+|--", option):
            walk.doubt(f"exec has the odd option {option}")
    if fields and fields[0].text in shell.functions and not walk.bounds.held:
        walk.doubt(f"exec runs the function {fields[0].text}, where zsh reads it")
    return builtin_or_program(walk, fields, shell.copy(), stdin) if fields and named(walk, fields) else None


def direct(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> States | None:
    """`command` and `builtin`: functions are passed over."""
    while fields and fields[0].known and fields[0].text in ("-p", "--", "-v", "-V", "-pv"):
        if "v" in fields.pop(0).text.lower():
            return None
    return builtin_or_program(walk, fields, shell, stdin) if fields and named(walk, fields) else None


def past(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> States:
    """`command`: to zsh there are only programs behind it, so that `command cd` stays where it is."""
    before = shell.copy()
    ok, bad = direct(walk, fields, shell, stdin) or (shell, shell)
    return (ok, bad) if walk.bounds.held else (merged(before, ok), merged(before, bad))


def named(walk: Walk, fields: list[Field]) -> bool:
    if not fields[0].known:
        walk.doubt(f"which program {fields[0].shown!r} is cannot be known")
    return fields[0].known


def trap(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    if fields and fields[0].known and fields[0].text == "--":
        fields = fields[1:]
    several = len(fields) == 1 and not fields[0].known and fields[0].many
    if not several and (len(fields) < 2 or (fields[0].known and fields[0].text in ("", "-", "-p", "-l"))):
        return
    if fields[0].known:
        walk.traps.append(fields[0].text)
        conditions = {field.text for field in fields[1:]}
        walk.interrupted = walk.interrupted or not conditions <= {"EXIT", "0"}
        if walk.interrupted and _MOVES.search(fields[0].text):
            walk.doubt("a trap may change what the line has set, at any moment")
    else:
        walk.doubt("a trap runs a text that is not known")


def leave(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> States | None:
    """`break` and `continue`: what follows in the loop may not run, and the loop may end as it stands here."""
    for _, left in walk.leaves:
        left.append(shell.copy())
    if not walk.leaves or walk.leaves[-1][0] != walk.calls:
        return None  # outside a loop they do nothing, and in a function nobody knows whose loop they mean
    dead = shell.copy()
    dead.dead = True
    return dead, dead


def go_back(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> States | None:
    """`return`: what follows in the function may not run."""
    if not walk.returns:
        return None
    walk.returns[-1].append(shell.copy())
    dead = shell.copy()
    dead.dead = True
    return dead, dead


def end(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> States | None:
    if len(fields) > 1 or any(field.many for field in fields):
        return None  # bash says so, and goes on
    dead = shell.copy()
    dead.dead = True
    return dead, dead


# --- names -------------------------------------------------------------------------------------------------------


def declaring(options: str, local: bool = False) -> Callable[[Walk, list[Field], Shell, Word | None], None]:
    """A builtin that declares names; with an option it does not know, or outside a function, it assigns nothing."""

    def handler(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
        declare(walk, fields, shell)
        words = [field.text for field in fields]
        odd = [word for word in words if word.startswith(("-", "+")) and not re.fullmatch(options, word)]
        names = [name for name in (word.partition("=")[0].removesuffix("+") for word in words) if _NAME.match(name)]
        if options == EXPORT or any(re.match(r"-\w*x", word) for word in words):
            for name in names:
                handed_on(walk, name, shell.variables.get(name), shell, lasting=True)
        if walk.locals and (local or "g" in options):  # local, declare and typeset
            odd = odd or [word for word in words if re.match(r"-\w*g", word)]  # what is local hides what is not
            walk.locals[-1].update(names)
            emptied(walk, [bare for bare in names if bare in words])
            for bare in names:
                if bare in words:
                    shell.assign(bare, None)
        if odd or (local and not walk.calls):
            for name in names:
                shell.assign(name, None)
        if any(re.match(r"-\w*[aA]", word) for word in words):
            walk.lists.update(names)
        if any(re.match(r"-\w*r", word) for word in words) or options == READONLY:
            walk.frozen.update(names)

    return handler


EXPORT, READONLY = r"--", r"--|-[aA]"
_MOVES = lazy(r"=|\b(?:cd|pushd|popd|read|eval|unset|set|mapfile|printf|export|declare|let|source)\b|\(\(")


def declare(walk: Walk, fields: list[Field], shell: Shell) -> None:
    for field in fields:
        if not field.known:
            walk.doubt(f"it declares {field.shown!r}, which is not known")
        elif re.match(r"[-+]", field.text):
            if not re.fullmatch(r"--|[-+][gxrtaApF]+", field.text):  # zsh has more than bash
                walk.doubt(f"{field.text} makes names mean other things")
        else:
            name, equals, value = field.text.partition("=")
            shell.exported |= {name}
            if not _NAME.match(name.removesuffix("+")) or value.lstrip().startswith("("):
                walk.doubt(f"it declares {field.shown!r}, an odd name, or a list that is expanded though it is quoted")
            elif equals and field.raw:  # quoted as a whole; an assignment proper was made when it was read
                concern(walk, name.removesuffix("+"), value, shell)
                shell.assign(name.removesuffix("+"), None if "+" in name else value)


def taking(values: str) -> Callable[[Walk, list[Field], Shell, Word | None], None]:
    """A builtin that puts something unknown into names; `values` are its options with a value."""

    def handler(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
        skip = ""
        for field in fields:
            if skip:
                if skip in "tnp" and not field.known and not walk.bounds.held:  # zsh counts it, or takes it for a name
                    walk.evaluated(None, field.shown, shell)
                skip = ""
            elif not field.known:
                walk.doubt(f"it puts something into {field.shown!r}, which is not known")
            elif field.text.startswith("-"):
                skip = field.text[-1] if field.text[-1] in values else ""
                if re.search("[AC]", field.text):
                    walk.doubt("mapfile runs a text for what it reads, and read fills a list in zsh")
            if field.known and "[" in field.text:
                walk.evaluated(field.text.partition("[")[2].removesuffix("]"), field.shown, shell)
            attached = re.match(r"-[ers]*a(.+)", field.text) if "a" in values else None  # read -aNAME
            name = (attached[1] if attached else field.text).split("[")[0]
            if field.known and _NAME.match(name):
                concern(walk, name, None, shell)
                listed(walk, name if "[" in field.text else "")
                shell.assign(name, None)
                walk.lists.add(name)

    return handler


def printf(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    says(walk, fields, shell, stdin)
    if fields and fields[0].known and fields[0].text.startswith("-v"):
        names = [Field(fields[0].text[2:])] if fields[0].text != "-v" else fields[1:2]
        taking("")(walk, names, shell, stdin)
    elif fields and not fields[0].known and fields[0].may_be_option:
        shell.odd_words = shell.odd_words or "printf may have set a variable"
        shell.forget()
        if fields[0].many:
            walk.doubt(f"printf gets {fields[0].shown!r}, which is not known and may be -v and an element to compute")


def unset(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    emptied(walk, [field.text for field in fields])
    for field in fields:
        if not field.known or "[" in field.text:
            walk.doubt(f"it unsets {field.shown!r}, which is not known")
        shell.assign(field.text, None)
        if field.text in shell.functions:
            shell.functions = {**shell.functions, field.text: (*shell.functions[field.text], MISSING)}


def shift(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    if fields and not (len(fields) == 1 and fields[0].known and re.fullmatch(r"[0-9]{1,4}", fields[0].text)):
        shell.positional = None
    if shell.positional is not None:
        count = int(fields[0].text) if fields else 1
        if count <= len(shell.positional):  # else bash shifts nothing
            shell.positional = shell.positional[count:]


def let(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    for field in fields:
        if field.known:
            walk.arithmetic(field.text, (), shell)
            walk.evaluated(field.text, field.shown, shell)
        else:
            walk.doubt(f"{field.shown!r} is evaluated as arithmetic, and its value is not known")


def tests(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    for field, after in itertools.pairwise(fields):
        if field.text in ("-v", "-R") and (not after.known or "[" in after.text):
            walk.doubt(f"{after.shown!r} may compute an element")
        if field.text == "-t" and not walk.bounds.held:  # which zsh counts
            walk.evaluated(after.text if after.known else None, after.shown, shell)
    for field in fields:
        name = re.fullmatch(r"\$\{?(\w+|[#?$!])\}?", field.shown)
        number = field.digits or (name is not None and (name[1] in "#?$!" or shell.is_number(name[1])))
        if not field.known and field.many and not (field.below or number):
            walk.doubt(f"{field.shown!r} is not known, and may be -v and an element to compute")


def wait(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    for field in fields:
        name = re.fullmatch(r'"?\$\{?(!|\w+)\}?"?', field.shown)
        number = name is not None and (name[1] == "!" or shell.is_number(name[1]))
        if re.match(r"-\w*p", field.text) or not (field.known or number):
            walk.doubt("it may put the number of a process into a name")


def jobs(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    if any(not field.known or re.match(r"-\w*x", field.text) for field in fields):
        walk.doubt("jobs -x runs a command")


def says(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    """`echo`: what it prints may be a path for another program."""
    if walk.feeds and not walk.bounds.reads_free:
        walk.told("who reads what it prints", fields, shell)


def nothing(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    """It touches no file, and changes nothing that matters here."""


def hashed(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    if [field.text for field in fields if field.known] != ["-r"] or len(fields) != 1:
        odd(walk, fields, shell, stdin)


def odd(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    walk.doubt("it changes what names of commands mean, or runs a text that is not read here")


Handler = Callable[[Walk, list[Field], Shell, Word | None], States | None]
BUILTINS: dict[str, Handler] = {
    "cd": change,
    "pushd": push,
    "popd": pop,
    "dirs": stack,
    "eval": evaluate,
    "source": source,
    ".": source,
    "exec": execute,
    "command": past,
    "builtin": direct,
    "trap": trap,
    "exit": end,
    "echo": says,
    "printf": printf,
    "unset": unset,
    "set": settings,
    "shopt": options,
    "shift": shift,
    "let": let,
    "test": tests,
    "[": tests,
    "read": taking("adinNptu"),
    **dict.fromkeys(("mapfile", "readarray"), taking("dnOsuCc")),
    "getopts": taking(""),
    "export": declaring(EXPORT),
    "readonly": declaring(READONLY),
    **dict.fromkeys(("declare", "typeset"), declaring(r"--|-[gxrtaA]+")),
    "local": declaring(r"--|-[xrtaA]+", local=True),
    **dict.fromkeys(("break", "continue"), leave),
    "return": go_back,
    "hash": hashed,
    "wait": wait,
    "ulimit": limits,
    "jobs": jobs,
    "kill": kill,
    **dict.fromkeys(("alias", "unalias", "enable", "bind", "complete", "compgen", "compopt", "fc", "history"), odd),
    **dict.fromkeys(": true false pwd type times fg bg disown umask caller suspend logout help".split(), nothing),
}
