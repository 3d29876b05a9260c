"""Tools of a project whose words need more than a row."""

import re

from .arguments import Call, is_own, links_in, nothing_elsewhere, runs_own
from .others import MODULES, child, is_here, outside
from .patterns import lazy
from .programs import ROWS
from .reach import Walk
from .state import Field
from .variables import LOADS, concern, handed_on


def make(walk: Walk, call: Call) -> None:
    if walk.handed:
        walk.doubt(f"make gets {walk.handed}, and what that holds may be a command in its rules")
    rules_told(walk, call, call.operands)
    rules = call.values("-f", "--file", "--makefile")
    if call.stdin is not None or any(re.match(r"-|/dev/|/proc/", field.text) for field in rules):
        walk.doubt("make takes its rules from its input")


def rules_told(walk: Walk, call: Call, fields: list[Field]) -> None:
    """Words of make: its variables are what its rules run, and a rule may be called install."""
    for field in fields:
        name, equals, value = field.text.partition("=")
        name = name.strip()
        odd = re.match(r"\.?SHELL|MAKE", name) or name.endswith("!") or (name == ".DEFAULT_GOAL" and "install" in value)
        if not equals:
            continue
        if not field.known:
            concern(walk, name.rstrip(":+?"), None, call.shell)
            if not walk.runs_seen:
                walk.doubt(f"make is told {field.shown!r}, and what that may run is not known")
            continue
        if odd or re.search(r"[$`;|&<>\n]", value) or LOADS.match(value):
            walk.doubt(f"make is told {field.shown!r}, which may run a command")
        elif len(value.split()) > 1 and value.split()[0] in ROWS:
            walk.line(value, child(call.shell))  # in place of a program of its rules
        concern(walk, name.rstrip(":+?"), value, call.shell)  # its rules have it in their environment


_OF_COMMANDS = re.compile(r"FLAGS|STANDARD_LIBRARIES|_ARG1|_INIT\b|OPTIONS|DEFINITIONS|COMMAND")


def cmake(walk: Walk, call: Call) -> None:
    if call.has("-E", "--install"):
        walk.doubt("cmake acts on files, or installs")
    for name, _, value in (field.text.partition("=") for field in call.words if field.known):
        ends = "`" in value or (_OF_COMMANDS.search(name) and re.search(r"[;|&<>\n]", value))
        if LOADS.match(value) or ends:
            walk.doubt("cmake is told options by which a compiler runs or loads something, or others in its place")
    texts = [field.text for field in call.words]
    if "--" in texts:  # what follows is for make, or ninja
        rules_told(walk, call, call.words[texts.index("--") + 1 :])
    walk.generated.update(field.text for field in call.values("-B") if field.known)


# Words of npm that do no more than the project says. Any beginning of a word stands for it, so the others are asked.
_NPM = frozenset(
    "run run-script rum urn test t tst start stop restart install i in ins inst insta instal isntall add ci "
    "clean-install ic install-test it install-ci-test cit ls list ll la outdated audit view info show v explain why "
    "fund doctor ping root prefix bin version pack prune dedupe ddp rebuild rb search s se find help help-search "
    "query diff shrinkwrap update up upgrade udpate uninstall un remove rm r sbom whoami stars pkg".split()
)
_NPM_OUTSIDE = frozenset(
    "config c ln setup env login adduser logout link unlink publish unpublish deprecate npm policies store server "
    "dist-tag access team token owner set completion global self-update".split()
)
_COMPOSER_OUTSIDE = (
    "exec",
    "global",
    "config",
    "create-project",
    "self-update",
    "selfupdate",
    "init",
    "home",
    "browse",
)
_NPM_PLAIN = re.compile(r"init (?:-y|--yes)|config (?:get [\w:-]+|ls|list)")
_RUNS = frozenset("exec x dlx node create init explore".split())
# Programs in node_modules that run what they are told.
_RUNNERS = frozenset(
    "tsx ts-node zx concurrently nodemon shx cross-env env-cmd dotenv babel-node vite-node esno jiti electron degit "
    "onchange chokidar npm-run-all wsrun tsc-watch node sh bash bun deno python python3 perl ruby php ts-node-dev "
    "ts-node-esm ts-node-script esr esbuild-runner swc-node".split()
)
# And programs of the system that have others act, which pnpm and bun find as well.
_OUTWARD = frozenset("crontab at batch systemctl systemd-run su pkexec screen tmux script scp sftp socat mail".split())
_MANY = frozenset("workspace workspaces recursive multi m foreach".split())


def npm(walk: Walk, call: Call) -> None:
    """npm, yarn, pnpm, bun and composer."""
    words = [field.text for field in call.operands if field.known]
    first = words[0] if words else ""
    if call.name == "npm" and _NPM_PLAIN.fullmatch(" ".join(field.text for field in call.words)):
        return
    if call.name == "npm" and walk.bounds.held and words[:2] == ["pkg", "set"]:
        return  # as package.json is written
    if any(re.match(r"-g\Z|--global\Z|--loca", option) for option, _ in call.options) or first in _NPM_OUTSIDE:
        walk.doubt(f"{call.name} changes what lies outside the project")
    if first == "exec" and call.name != "composer" and _names_its_program(call.words):
        rest = call.words[1 + (call.words[1].text == "--") :]  # as npx has it
        is_here(walk, call, rest)
        walk.call([field for index, field in enumerate(rest) if index != 1 or field.text != "--"], outside(call.shell))
        return
    if call.name == "npm" and words and first not in _NPM:
        walk.doubt(f"npm {first} is not known to do only what the project says")
    if call.name == "composer" and words and any(name.startswith(first) for name in _COMPOSER_OUTSIDE):
        walk.doubt(f"composer {first} runs what it is told, or changes what lies outside the project")
    early = bool(call.words) and call.words[0].text.startswith("-")  # whose value may be the first word
    if first in _RUNS or ((first in _MANY or early) and (_RUNS | _RUNNERS).intersection(words)):
        walk.doubt(f"{call.name} {first} runs what it is told")
    if first in _ADDS and any(_SHORTHAND.fullmatch(word) for word in words[1:]):
        walk.doubt(f"{call.name} {first} takes a package from a repository that the line names")
    if first == "pkg" and words[1:2] != ["get"]:
        walk.doubt(f"{call.name} pkg changes what the project runs")
    if call.name in ("yarn", "pnpm", "bun"):
        installed(walk, call)
    if call.name == "bun":
        files(walk, call)


def _names_its_program(words: list[Field]) -> bool:
    names = [field.text for field in words if field.text != "--"][:2]
    return len(names) > 1 and words[0].text == "exec" and words[1].known and names[1][:1] not in ("-", "")


_ADDS = frozenset("install i in ins inst insta instal isntall add update up upgrade".split())
_SHORTHAND = re.compile(r"(?:[\w.@/-]+@)?[\w-][\w.-]*/[\w.-]+(?:#.*)?")  # of a repository on GitHub
# Words of yarn's and pnpm's own that are programs as well.
_OWN = frozenset("install test ls rm link ln env pack why add patch".split())


def installed(walk: Walk, call: Call) -> None:
    """yarn and pnpm take a word that is none of theirs, nor of the project's, for a program of node_modules."""
    values = {id(value) for _, value in call.options}
    for index, field in enumerate(call.words):
        name = field.text
        if id(field) in values:
            continue
        if name in _RUNNERS | _OUTWARD:
            walk.doubt(f"{call.name} {name} runs what it is told")
        elif name[:2] == "./" or (name in ROWS and name not in _MANY | _OWN and name != "npm"):
            walk.call(call.words[index:], outside(call.shell))
        elif name == "run" or name in _MANY or name.startswith("-") or call.words[index - 1].text == "workspace":
            continue
        return


def files(walk: Walk, call: Call) -> None:
    """bun runs a file by its name alone, and what it reads when it is told nothing."""
    words = [field for field in call.operands if field.text != "run"]
    first = words[0] if words else None
    if not call.words or (first is not None and first.text in ("upgrade", "repl", "-")):
        walk.doubt("bun runs what it is told, or changes itself")
    elif first is not None and re.search(r"[./]", first.text):
        if is_own(walk, first, call.shell):
            runs_own(walk, call, words)
        else:
            walk.doubt(f"bun runs {first.shown!r}, and what that does is not known")


_DOTNET = frozenset(
    "build run test restore publish pack clean new add remove list sln solution watch format ef build-server sdk help "
    "store package reference".split()
)


def dotnet(walk: Walk, call: Call) -> None:
    if call.operands and call.operands[0].text not in _DOTNET:
        walk.doubt(f"dotnet {call.operands[0].shown} is a program of its own")


def pytest(walk: Walk, call: Call) -> None:
    for value in call.values("-o", "--override-ini"):
        if not value.known or re.match(r"(?:cache_dir|log_file|junit|tmp)", value.text):
            walk.doubt(f"pytest is told {value.shown!r}")


# Words of cargo's own, and of its kin that only look. A word that is none of these is another program.
_CARGO = frozenset(
    "build b check c clean doc d new init add remove rm run r test t bench update search fix fmt clippy metadata tree "
    "vendor verify-project version rustc rustdoc package read-manifest locate-project pkgid fetch generate-lockfile "
    "report info help config nextest llvm-cov audit deny udeps expand outdated machete hack miri sort tarpaulin insta "
    "criterion bloat msrv semver-checks geiger xtask sqlx mutants public-api readme ndk component llvm-lines asm "
    "set-version upgrade".split()
)


def cargo(walk: Walk, call: Call) -> None:
    words = [field.text for field in call.operands if field.known and not field.text.startswith("+")]
    words = words[1:] if words[:1] == ["hack"] else words  # which starts cargo again, for every feature
    if words and words[0] in ("install", "uninstall", "login", "logout", "publish", "owner", "yank"):
        walk.doubt("cargo changes what lies outside the project")
    elif words and words[0] not in _CARGO:
        walk.doubt(f"cargo {words[0]} is a program of its own")
    if any(field.text.startswith("+") and "/" in field.text for field in call.operands):
        walk.doubt("cargo is told to run by other tools")


def go(walk: Walk, call: Call) -> None:
    words = [field.text for field in call.operands if field.known]
    if words[:1] == ["get"] and walk.bounds.held:
        return  # as go mod tidy
    if words and (words[0] in ("install", "get", "telemetry") or (words[0] in ("env", "clean") and call.options)):
        walk.doubt("go changes what lies outside the project")
    if words[:1] == ["run"] and any("@" in word for word in words[1:]):
        walk.doubt("go runs what it fetches")
    if (
        words[:1] in (["run"], ["generate"])
        and not walk.shows_all
        and any(one.access == "write" and one.path.endswith(".go") for one in walk.findings.values())
    ):
        walk.doubt(f"go {words[0]} runs what this line has written itself")
    tools = (["cover"], ["nm"], ["objdump"], ["vet"], ["test2json"], ["pprof"])
    if words[:1] == ["tool"] and (words[1:2] not in tools or (words[1] == "test2json" and len(call.words) > 2)):
        walk.doubt("what a tool of go does is not known")  # the fifth runs the words that follow


# What changes the account, the interpreters that are there, or what others fetch.
_UV_OUTSIDE = frozenset("tool tools python py self publish cache config plugin open console auth use toolchain".split())
_UV_PLAIN = frozenset("-q --quiet --frozen --locked --no-sync --offline --isolated --all-extras --dev --no-dev".split())
_UV_VALUES = frozenset(("--with", "--extra", "--group", "--package"))  # of which one is fetched, as by pip
_UV_RUNS = frozenset("run exec shell e ex exe".split())


def uv(walk: Walk, call: Call) -> None:
    """uv and its kin: `run` and `exec` start what follows them, and a shell what it reads."""
    words = [field.text for field in call.operands if field.known]
    first = words[0] if words else ""
    early = bool(call.words) and call.words[0].text.startswith("-")  # whose value may be the first word
    if first in _UV_RUNS:
        rest = call.words[1:]
        while rest and rest[0].text in _UV_PLAIN:
            rest = rest[1:]
        while walk.shows_all and len(rest) > 1 and rest[0].text in _UV_VALUES and rest[1].known:
            rest = rest[2:]
        plain = call.words[:1] == call.operands[:1] and not (rest and rest[0].text.startswith("-"))
        if plain and rest and call.name == "uv" and rest[0].text.endswith(".py"):
            rest = [Field("python"), *rest]
        if len(call.operands) > 1:  # what follows the program is for the program
            walk.call(rest if plain else call.operands[1:], outside(call.shell), call.stdin)
        if first == "shell" or (not plain and call.options):
            walk.doubt(f"{call.name} {first} has options of its own, or runs what it reads")
    elif first == "pip" and any(walk.has_brought(field.text, call.shell) for field in call.words if field.known):
        walk.doubt(f"{call.name} is told what this line has written itself")
    elif early and _UV_RUNS.intersection(words):
        walk.doubt(f"{call.name} runs what it is told")
    elif call.has("--system", "--rm") or first in _UV_OUTSIDE:
        walk.doubt(f"{call.name} changes what lies outside the project")
    elif first == "venv":
        links_in(walk, call, call.operands[1:] or [Field(".venv")])  # to the interpreter
    elif first == "env" and words[1:2] not in (["info"], ["list"]):
        walk.doubt(f"{call.name} env changes which interpreter there is")
    elif call.name == "rye" and first == "install":
        walk.doubt("rye installs for the whole account")


def coverage(walk: Walk, call: Call) -> None:
    """`coverage run`: its options end where the program begins, whatever follows that."""
    name, *words = [field.text for field in call.words] or [""]
    if name != "run":
        return
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word[:2] == "-m":
            module = word[2:] or (words[0] if words else "")
            if module in MODULES:
                return
            break
        if word in _COVERAGE_VALUES and words:
            words.pop(0)
    walk.doubt("coverage runs a file or a module, and what that does is not known")


_COVERAGE_VALUES = frozenset(
    "--source --source-pkg --omit --include --context --concurrency --rcfile --data-file".split()
)


def rake(walk: Walk, call: Call) -> None:
    """Words of rake that are assignments: its tasks, and what they start, have them in their environment."""
    for field in call.operands:
        name, equals, value = field.text.partition("=")
        if equals:
            concern(walk, name, value if field.known else None, call.shell)
            handed_on(walk, name, value, call.shell)


_PIP_TAKES = frozenset("install uninstall download wheel".split())
_PIP_READS = frozenset("list show freeze check help debug index inspect".split())


# Options by which what it installs is the same, and lies where it would without them, or where the sandbox lets it.
_PIP_PLAIN = lazy(
    r"-[qvUeryc]+\Z|-[dw]\Z|--(?:requirement|editable|constraint|upgrade|quiet|verbose|yes|no-deps|no-cache-dir|pre"
    r"|dest|wheel-dir|only-binary|no-binary|no-build-isolation|force-reinstall|dry-run|no-input|disable-pip-version-check|progress-bar|upgrade-strategy|prefer-binary)(?:=|\Z)"
)


def pip(walk: Walk, call: Call) -> None:
    """pip: it installs where its interpreter is, which may be anywhere; in the sandbox only into the project's own."""
    words = [field for field in call.operands if not (field.known and field.text.startswith("-"))]
    told = any(field.text.startswith("--py") for field in call.operands)  # which interpreter to start
    plain = all(_PIP_PLAIN.match(field.text) for field in call.operands if field.text.startswith("-"))
    if walk.bounds.held and plain and call.name != "pipx" and words and words[0].text in _PIP_TAKES:
        walk.notes.append(f"{call.name} takes what it is told, where the sandbox lets it")
        if any(walk.has_brought(field.text, call.shell) for field in words[1:] if field.known):
            walk.doubt(f"{call.name} is told what this line has written itself")
    elif told or not words or not (words[0].known and words[0].text in _PIP_READS):
        walk.doubt(f"{call.name} changes what is installed, and where that lies is not known")
    nothing_elsewhere(walk, call, call.operands)


HANDLERS = {
    "rake": rake,
    "make": make,
    "cmake": cmake,
    "npm": npm,
    "pytest": pytest,
    "cargo": cargo,
    "dotnet": dotnet,
    "go": go,
    "uv": uv,
    "coverage": coverage,
}
RAW = {"pip": pip}
