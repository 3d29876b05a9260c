"""Which program a word calls, its arguments, told apart as its row says, and what each of them means."""

import posixpath
import re

import msgspec

from ..model import Access, Verdict
from .patterns import lazy
from .places import enter
from .programs import HELD, ROWS, Row, row
from .reach import Walk
from .state import Field, Shell
from .syntax import Word
from .touches import LONGEST

MOST_WORDS = 400
_LABELS = frozenset(("bazel",))  # to whom `//` is the worktree
# Files that tell a tool what to run, or where to write.
RULES = lazy(
    r"(?i)/(?:[^/]*makefile[^/]*|[^/]*\.mk|package\.json|pyproject\.toml|setup\.(?:py|cfg)|conftest\.py|tox\.(?:ini|toml)|\.?pytest\.(?:ini|toml)"
    r"|noxfile\.py|cargo\.toml|build\.rs|cmakelists\.txt|[^/]*\.gradle(?:\.kts)?|pom\.xml|rakefile|gemfile|[^/]*\.gemspec"
    r"|[^/]*\.config\.(?:[cm]?[jt]sx?|json|ya?ml|toml)|\.[^/]*rc(?:\.[^/]*)?|[^/]*\.cmake|build\.(?:ninja|xml|sbt|zig)|meson\.build|dune[^/]*"
    r"|test_[^/]*|[^/]*[._](?:test|spec)s?\.[^/]*|\.pre-commit-config\.ya?ml|[^/]*\.exs|__init__\.py|(?:site|user)customize\.py"
    r"|(?:gulp|grunt)file[^/]*|[^/]*\.conf\.[cm]?js|\.pnpmfile\.cjs|(?:turbo|nx|project|lerna|deno|angular|composer|nodemon|workspace|launchsettings)\.jsonc?"
    r"|[^/]*\.(?:cs|fs|vb)proj|directory\.build\.\w+|project\.clj|conf\.py|main\.(?:go|rs|swift|kt|dart)|program\.cs|configure\.(?:ac|in)|[^/]*\.(?:m4|rake)"
    r"|[^/]*\.(?:sbt|targets|props|bzl|cabal|tf(?:\.json)?|csx|rsp|runsettings|wrap|ctest|lds?|mak)|go\.(?:mod|work)|rust-toolchain(?:\.toml)?|\.cargo/config(?:\.toml)?|\.mvn/[^/]*"
    r"|gradle[^/]*\.properties|(?:nuget|rebar)\.config|global\.json|tsconfig[^/]*\.json|(?-i:BUILD|WORKSPACE)|(?:build|module)\.bazel"
    r"|(?:mypy|pylint)\.ini|\.(?:mypy\.ini|flake8|rspec|pdm-python|simplecov|sbtopts|jvmopts|bazelversion)|pylintrc|\.?ruff\.toml|phpunit\.xml[^/]*|(?:mkdocs|hugo|\.rubocop|\.golangci|stack)\.(?:ya?ml|toml|json)|buf\.gen\.yaml"
    r"|cmake\w*presets\.json|compile_commands\.json|cabal\.project[^/]*|(?:uv|poetry|hatch|pdm|bunfig)\.toml|(?:spec|rails)_helper\.rb|mocha\.opts"
    r"|package\.swift|setup\.hs|rebar\.config\.script|pubspec\.yaml|pipfile|kbuild|vitest\.workspace\.\w+|dartconfiguration\.tcl"
    r"|(?:local|build)\.properties|libs\.versions\.toml|buildsrc/.*|project/[^/]*\.scala|tools/bazel)\Z"
    r"|/node_modules/(?:\.bin/|.*\.(?:[cm]?[jt]s|json|node|sh)\Z)|/\.?venv/bin/.|/site-packages/.*\.(?:py|pth|so)\Z"
)
# Options that name a program to run, or are one.
_CODE = lazy(
    r"--?(?:config\.)?(?:python-executable|init-hook|node-(?:options|arg(?:ument)?s?)|lua-filter|fplugin|fmodule-mapper|vettool|eval|script-shell"
    r"|[\w.]*exec-?[aA]rgv)\b"
)
_MODE = lazy(r"[0-7]{1,5}|[ugoa]*[-+=][rwxXstugo]*(?:,?[ugoa]*[-+=][rwxXstugo]*)*")


class Call(msgspec.Struct):
    """A program's arguments, sorted: options with their values, and operands."""

    name: str
    row: Row
    options: list[tuple[str, Field | None]]
    operands: list[Field]
    shell: Shell
    stdin: Word | None
    words: list[Field] = []  # all of them, as they came

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[Field]:
        return [value for name, value in self.options if name in names and value is not None]


def sorted_arguments(
    walk: Walk, name: str, found: Row, fields: list[Field], shell: Shell, stdin: Word | None
) -> Call | None:
    """Options and operands told apart as getopt does it; None after a doubt about which is which."""
    call = Call(name, found, [], [], shell, stdin, fields)
    rest = list(fields)
    while rest:
        before = fields[-len(rest) - 1].text if len(rest) < len(fields) else ""
        field = rest.pop(0)
        if field.digits and field.text[:1] == "-" and found.short.get(field.text[1:]) in ("n", "?"):
            call.options.append((field.text, None))
            continue
        bare = walk.bounds.held and (found.tool or found.handler == "sed")  # whatever it turns out to be
        if not field.known and field.may_be_option and not found.harmless and not bare:
            walk.doubt(f"{name} gets {field.shown!r}, which is not known and may be an option")
            return None
        if not field.known or not field.text.startswith("-") or field.text == "-":
            call.operands.append(field)
            if found.stops:
                break
        elif field.text == "--":
            if before.startswith("-") and any(acts(found, word.text) for word in rest):
                walk.doubt(f"{name} may take '--' for the value of {before}, and what follows for options")
            call.operands += rest
            return call
        elif not take_option(walk, call, field, rest):
            return None
    call.operands += rest
    return call


def acts(found: Row, text: str) -> bool:
    """Whether a word would be an option by which a program writes or runs something."""
    option = text.partition("=")[0]
    if option.startswith("--"):
        long = any(name.startswith(option) and role not in _QUIET for name, role in found.long.items())
        return len(option) > 2 and (long or found.short.get(option[2:], "") not in _QUIET)
    word = found.short.get(option[1:], "") not in _QUIET
    return (
        len(text) > 1 and text[0] == "-" and (word or any(found.short.get(one, "") not in _QUIET for one in text[1:]))
    )


_QUIET = frozenset(("", "?", "n", "r"))


def take_value(walk: Walk, call: Call, option: str, rest: list[Field]) -> Field:
    """The next word, as the value of an option. Where not every option is known, the one before may have wanted this
    one, and then the next word is an option itself."""
    taken = rest.pop(0)
    if taken.many and not taken.known and (call.row.stops or not call.row.harmless or call.row.roles.strip("nr")):
        walk.doubt(f"{call.name} gets {taken.shown!r}, which may be more than the value of {option}")
    if call.row.tolerant and acts(call.row, taken.text):
        walk.doubt(f"{call.name} may take {taken.shown!r} for an option, and not for the value of {option}")
    return taken


def take_option(walk: Walk, call: Call, field: Field, rest: list[Field]) -> bool:
    """One word of options, with the value that belongs to it."""
    text, found = field.text, call.row
    if text.startswith("--") or (text[1:].partition("=")[0] in found.short and len(text) > 2):
        option, equals, value = text.partition("=")
        if option[2:] in found.short and len(option) > 3:  # a word with one stroke that may have two, as in Go
            option = option[1:]
        known = found.short.get(option[1:]) if not option.startswith("--") else _long(found, option)
        if known is None:
            if found.tolerant and not any(name.startswith(option) for name in found.long):
                call.options.append((option, Field(value, raw=field.raw) if equals else None))
                return True
            walk.doubt(f"what the option {option} of {call.name} does is not known")
            return False
        role, full = (known, option) if isinstance(known, str) else known
        taken = Field(value, raw=field.raw) if equals else None
        if role not in ("", "?") and not equals:
            if not rest:  # the program will say so, or it takes none; wget takes its first operand
                if role in ("q", "w"):
                    walk.doubt(f"what the option {option} of {call.name} does is not known")
                return True
            taken = take_value(walk, call, option, rest)
        call.options.append((full, taken))
        return True
    for index, letter in enumerate(text[1:], 1):
        role = found.short.get(letter, "")
        if role:
            attached = text[index + 1 :]
            if role == "?":
                call.options.append((f"-{letter}", Field(attached, raw=field.raw) if attached else None))
            elif attached or rest:
                taken = Field(attached, raw=field.raw) if attached else take_value(walk, call, f"-{letter}", rest)
                call.options.append((f"-{letter}", taken))
            elif role in ("q", "w"):
                walk.doubt(f"what the option -{letter} of {call.name} does is not known")
            return True
        if letter not in found.flags and not found.tolerant:
            walk.doubt(f"what the option -{letter} of {call.name} does is not known")
            return False
        call.options.append((f"-{letter}", None))
    return True


def _long(found: Row, option: str) -> tuple[str, str] | None:
    """A long option's role and full name; a beginning that fits one option stands for it."""
    if option in found.long:
        return found.long[option], option
    names = [name for name in found.long if name.startswith(option)]
    return (found.long[names[0]], names[0]) if len(names) == 1 and not found.tolerant else None


def apply_options(walk: Walk, call: Call) -> None:
    for option, value in call.options:
        role = call.row.long.get(option) if option.startswith("--") else call.row.short.get(option[1:])
        if role and role != "?" and value is not None:
            apply_role(walk, role, value, call)


_SHOW_NAMES = frozenset("ls dir vdir stat du df readlink tree eza exa fd lsof file".split())
_RESPONDS = frozenset("nm objdump size strings readelf".split())  # to them @name is a file of arguments


def apply_role(walk: Walk, role: str, field: Field, call: Call) -> None:
    if role == "r":
        if field.text.startswith("@") and call.name in _RESPONDS:
            walk.doubt(f"{call.name} takes its arguments from {field.shown!r}")
        if field.text != "-":
            walk.reads(field, call.shell, call.name in ("curl", "wget"), call.name in _SHOW_NAMES)
    elif role == "w":
        if field.text != "-" or not field.known:
            walk.writes(field, call.shell, mode=call.name == "chmod")
    elif role == "x":
        before = walk.odd_names
        walk.writes(field, call.shell, replaces=True)
        walk.odd_names = before  # it takes a name away
    elif role == "d":
        worked_in(walk, field, call)
    elif role == "m":
        if not field.known or not _MODE.fullmatch(field.text):
            walk.writes(field, call.shell)
    elif role == "W":
        if not field.known or "%output" in field.text or field.text.startswith("@"):
            walk.doubt(f"what {call.name} writes by {field.shown!r} is not known")
    elif role == "q":
        walk.doubt(f"{call.name} runs or reads {field.shown!r}, and what that does is not known")


def links_in(walk: Walk, call: Call, places: list[Field]) -> None:
    """Directories that a program fills, with links perhaps."""
    for field in places:
        paths = walk.absolute(field.text, call.shell, "") if field.known else []
        walk.loose += [walk.bounds.resolve(path) for path in paths]


def worked_in(walk: Walk, field: Field, call: Call) -> None:
    """A directory that a program works in: what it is told from then on is relative to it."""
    entered = call.shell.copy()
    known = Field(field.text, field.known, field.raw, plain=field.known)
    entered.places = enter(walk, known, call.shell, f"{call.name} works in")
    call.shell = entered


_SCOPED = frozenset("npm npx yarn pnpm bun bunx turbo nx lerna".split())  # @scope/name is a package to them
# Tools that run the files they are given.
_EXECUTORS = frozenset(
    "make gmake ninja rake rspec ant gradle mocha jest vitest ava tap phpunit pytest mix sbt lein gulp grunt go "
    "coverage unittest doctest cmake ctest tox nox bazel cypress playwright bison yacc flex".split()
)


# Options whose value, as the next word, is a file that the tool goes by.
_GUIDE = lazy(
    r"--?(?:[\w.-]*-)?(?:config[\w-]*|rcfile|rc|settings|defaults|options|require|import|plugins?|preset|template|init-file|parser"
    r"|reporters?|format(?:ter)?|bootstrap|rulesdir|resolve-plugins-relative-to|custom-syntax|(?:mri-)?script|(?:native|cross)-file|processorpath|processor-path|project-file|workspace|init|loader|include)\Z"
)
_GUIDES = {
    "mvn": "-s -gs -t -f --file",
    "ant": "-f -propertyfile",
    "pandoc": "-d -t -f -w -r -H -A -B",
    "eslint": "-c -f",
    "jest": "-c",
    "webpack": "-c -r",
    "tailwindcss": "-c",
    "vite": "-c",
    "mocha": "-r",
    "rspec": "-O -r",
    "rubocop": "-c -r",
    "phpunit": "-c",
    "sphinx-build": "-c",
    "mkdocs": "-f",
    "pre-commit": "-c",
    "golangci-lint": "-c",
    "pdm": "-c",
    "bandit": "-c",
    "tsc": "-p -b --p --b --project --build -project -build",
    "dotnet": "-s",
    "clang-tidy": "-p",
    "cppcheck": "--project",
    "lcov": "-f",
    "ld": "-T -c -dT",
    "pytest": "-p --pyargs",
}
_CODE_FILE = lazy(r"(?i)([^/]+)\.(?:[cm]?[jt]sx?|py|rb|php|exs?|lua|so)\Z")
# Tools that run what they read from their input, where a word says that they shall.
_READ_INPUT = _EXECUTORS | frozenset("autoconf autoheader aclocal automake autoreconf".split())


def told_by_the_line(walk: Walk, call: Call, fields: list[Field]) -> None:
    """A file that this line has written, and that the tool is told to go by."""
    letters = _GUIDES.get(call.name, "").split()
    written = (one.path.rpartition("/")[2] for one in walk.findings.values() if one.access == "write")
    modules = {found[1] for name in written if (found := _CODE_FILE.match(name))}
    if call.name in _READ_INPUT and any(field.text == "-" for field in fields):
        walk.doubt(f"{call.name} takes its rules from its input")
    for before, field in zip((Field(""), *fields), fields, strict=False):
        option = field.text.startswith("-")
        guides = before.text in letters or _GUIDE.match(before.text) is not None
        glued = "" if field.text.startswith("--") else field.text[2:]
        for text in {field.text.partition("=")[2], glued} if option else {field.text}:
            named = _GUIDE.match(field.text.partition("=")[0]) or field.text[:2] in letters if option else guides
            if named and not walk.shows_all and modules.intersection(re.split(r"[./:,@]+", text)):
                walk.doubt(f"{call.name} is told {field.shown!r}, a module that this line has written itself")
            data = call.name == "go" and field.text.startswith(("-func=", "-html="))  # what its tests have counted
            data = data or (call.name == "cmake" and before.text == "-G")  # whose value is the name of a tool
            if data or (call.name in ("cmake", "ctest") and text in walk.generated):
                continue
            if text and (option or guides or call.name in _EXECUTORS) and walk.has_brought(text, call.shell):
                walk.doubt(f"{call.name} is told {field.shown!r}, which this line has written itself")


def nothing_elsewhere(walk: Walk, call: Call, fields: list[Field]) -> None:
    """A tool of the project is asked about when its arguments point out of the worktree, or its rules are new."""
    from .told import told  # it needs this module in turn

    if len(fields) > MOST_WORDS or any(len(field.text) > LONGEST for field in fields):
        walk.doubt(f"{call.name} gets more words, or longer ones, than are looked at")
        return
    told(walk, call, fields)
    new = [
        finding.path for finding in walk.findings.values() if finding.access == "write" and RULES.search(finding.path)
    ]
    if new and not walk.shows_all:
        walk.doubt(f"{call.name} runs what this line has written itself: {new[0]!r}")
    if walk.strewn:
        walk.doubt(f"{call.name} may run {walk.strewn!r}, which this line has brought here")
    for index, field in enumerate(fields):
        if not field.known and (field.may_be_option or not field.below):
            later = index or "=" in field.text  # to many of them the first word says what they do
            held = walk.bounds.held and (not call.row.handler or (later and call.row.handler != "pip"))
            if not field.digits and not held:
                walk.doubt(f"{call.name} gets {field.shown!r}, which is not known")
            continue
        if _CODE.match(field.text) or (call.name == "pandoc" and field.text.startswith(("-F", "--filter"))):
            walk.doubt(f"{call.name} is told by {field.shown!r} to run something of the line's choice")
        if field.text.startswith("@") and ("/" not in field.text or call.name not in _SCOPED):
            walk.doubt(f"{call.name} takes its arguments from {field.shown!r}")
        label = call.name in _LABELS and field.text.startswith("//")
        if not label and walk.points_elsewhere(field.text, call.shell):
            walk.doubt(f"{call.name} gets {field.shown!r}, which points out of the worktree")
            return


# --- the project's own -----------------------------------------------------------------------------------------------

_OWN = ("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
_TOOLS_OF_THE_PROJECT = lazy(r"(?:^|/)(?:\.?venv|env|node_modules)/\.?bin\Z")
_ACTIVATES = lazy(r"(?:^|/)(?:\.?venv|env)/bin/activate\Z")
_OF_HOME = {".nvm/nvm.sh": "nvm", ".cargo/env": ":"}  # what the user's shell reads, and the function that this makes
_IN_HOME = lazy(r"\A(?:~|\$HOME|\$\{HOME\})/")
_WRAPPERS = {"gradlew": "gradle", "mvnw": "mvn"}


def called(walk: Walk, fields: list[Field], shell: Shell) -> str:
    """The row's name for a program, or nothing when there is no row to go by."""
    field = fields[0]
    name = field.text
    if "/" in name:
        real = posixpath.normpath(name) if name.startswith("/") else name
        head, base = posixpath.split(real)
        versioned = _unversioned(base)
        tool = versioned in ROWS and (row(versioned).tool or row(versioned).handler in ("python", "pip"))
        if head in _OWN:
            name = base
        elif tool and _TOOLS_OF_THE_PROJECT.search(head) and not walk.leads_outside(real, shell):
            if walk.has_brought(real, shell):
                walk.doubt(f"it runs {field.shown!r}, which this line has written itself")
            return versioned
        elif is_own(walk, field, shell):
            wrapped = _WRAPPERS.get(base, versioned)
            if wrapped in ROWS and row(wrapped).tool:
                return wrapped
            runs_own(walk, Call(base, row("ninja"), [], [], shell, None), fields)
            return ""
        else:
            walk.doubt(f"it runs {field.shown!r}, and what that does is not known")
            return ""
    name = _unversioned(name)
    if name not in ROWS and walk.bounds.held and [one.text for one in fields[1:] if one.known] == ["--version"]:
        return ""  # whatever it is, the sandbox holds it, and it was told nothing else
    if name in HELD and walk.shows_all:
        runs_own(walk, Call(name, row("ninja"), [], [], shell, None), fields)
        return ""
    if name not in ROWS:
        walk.doubt(f"what {field.shown!r} does is not known" if name else "it runs a program without a name")
        return ""
    return name


def _unversioned(name: str) -> str:
    if name in ROWS:
        return name
    plain = re.sub(r"(?<=[a-z+])-?\d+(?:\.\d+)*$", "", name)
    return plain if plain in ROWS else name


def activates(walk: Walk, fields: list[Field], shell: Shell) -> str:
    """Whether a file that the shell reads puts a virtual environment of the project first, or tools of the user's home
    that no line can write: then it is looked at, and this is the function that it makes."""
    if not fields or not walk.bounds.held:
        return ""
    path = _IN_HOME.sub("", fields[0].shown.strip('"'))
    if path in _OF_HOME and walk.bounds.home and "HOME" not in shell.variables and len(fields) == 1:
        real = walk.bounds.resolve(posixpath.join(walk.bounds.home, path))
        allowed = [walk.bounds.decide(access, real).verdict is Verdict.ALLOW for access in (Access.READ, Access.WRITE)]
        return _OF_HOME[path] if allowed == [True, False] else ""
    known = _ACTIVATES.search(fields[0].text) is not None and is_own(walk, fields[0], shell)
    made, then = walk.environments  # by venv itself, and nothing was written since
    places = walk.absolute(fields[0].text, shell, "") if known else []
    fresh = then == walk.written_paths and {posixpath.normpath(f"{path}/../..") for path in places} <= made
    if not known or (walk.has_written(fields[0].text, shell) and not fresh):  # it would change how this line goes on
        return ""
    runs_own(walk, Call("activate", row("ninja"), [], [], shell, None), fields)
    return "deactivate"


def is_own(walk: Walk, field: Field, shell: Shell) -> bool:
    """Whether a program or script is the project's own, will be held by the sandbox, and is not new by this line."""
    plain = walk.bounds.held and field.known and field.text[:1] not in ("-", "")
    return plain and not walk.leads_outside(field.text, shell) and not walk.has_brought(field.text, shell)


def runs_own(walk: Walk, call: Call, fields: list[Field]) -> None:
    """A script of the project with its arguments: a tool of the project like any other."""
    told_by_the_line(walk, call, fields)
    nothing_elsewhere(walk, call, fields)
    walk.notes.append(f"{fields[0].shown} is the project's own, and may do what the sandbox lets it")
