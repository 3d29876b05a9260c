"""Words by which a line tells a project's tool what to run, or to change what lies outside the project.

What the project itself says is the tool's business. What the line says is the line's: an option that is code, a command
behind a word, a setting that names a program. One row a tool: options, words, and a pattern for anything else.
"""

import re

from .arguments import Call, apply_role
from .patterns import lazy
from .reach import Walk
from .state import Field

_JAVA = ("-J", "", "")
_MAKE = ("", "install uninstall", "")
_ROWS: dict[str, tuple[str, str, str]] = {
    "ant": ("", "", r"-D(?:build\.compiler|ant\.executor\.class)="),
    "ar": ("-M", "", ""),
    "bazel": ("--run_under --workspace_status_command --shell_executable --host_jvm_args --server_javabase", "", ""),
    "cabal": ("", "install exec repl", ""),
    "cargo": ("", "watch generate binstall script", ""),
    "clang-tidy": ("--load", "", r"-load\b"),
    "cmake": (
        "",
        "install",
        r"(?:-D\s*)?CMAKE_\w*(?:_LAUNCHER|_COMPILER|_LINKER|MAKE_PROGRAM|_EMULATOR)(?::\w+)?=(?![\w+.-]+\Z)",
    ),
    "composer": ("", "create-project", ""),
    "ctest": ("-S --script --test-command --build-and-test --build-makeprogram", "", ""),
    "dotnet": (
        "",
        "exec fsi msbuild tool nuget workload",
        (
            r"(?i)[-/]{1,2}p(?:roperty)?(?:[:=]|\Z)(?!(?:Configuration|Platform|\w*Version\w*|TargetFrameworks?|Nullable"
            r"|RuntimeIdentifiers?|Publish(?:SingleFile|Trimmed|ReadyToRun|Aot|Profile)|SelfContained|UseAppHost|NoWarn"
            r"|CollectCoverage|CoverletOutputFormat|Threshold\w*|TreatWarningsAsErrors|WarningLevel|Debug(?:Type|Symbols)"
            r"|Optimize|ContinuousIntegrationBuild|Deterministic|RestoreLockedMode|IsPackable)=[^;$]*\Z)"
        ),
    ),
    "dune": ("", "exec install uninstall utop", ""),
    "flutter": ("", "config upgrade downgrade channel", ""),
    "go": ("", "", r".*\s-extld|-ldflags=.*-extld|-?-?extld"),
    "gradle": ("", "publishToMavenLocal publish", ""),
    "hatch": ("", "env", ""),
    **dict.fromkeys("javac jar kotlinc scalac".split(), _JAVA),
    "lein": ("-e --eval", "update-in exec repl deploy install clojure.main", ""),
    "lerna": ("", "exec create", ""),
    "make": _MAKE,
    "gmake": _MAKE,
    "meson": ("--wrapper --gdb --gdb-path", "install devenv", ""),
    "mix": ("-e --eval", "cmd eval archive.install escript.install local.hex local.rebar hex.publish", r".*\bcmd\b"),
    "mkdocs": ("", "gh-deploy", ""),
    "mocha": ("-n --node-option --eval --print", "", ""),
    "mvn": ("", "deploy", r".*(?:\bexec:|exec-maven|antrun|groovy|:get\b|-Dexec\.|-Dmaven\.ext)"),
    "mypy": ("--install-types --python-executable", "", ""),
    "ninja": ("", "install uninstall", ""),
    "npm": ("--editor --viewer --git --browser --shell --init-module --onload-script", "", ""),
    "nx": ("", "exec run-commands", ".*run-commands"),
    "pandoc": ("--pdf-engine -L", "", ""),
    "pre-commit": ("", "install uninstall init-templatedir try-repo", ""),
    "pylint": ("--init-hook", "", ""),
    "rake": ("-e -E -p --execute --execute-print --execute-continue", "install release", ""),
    "rebar3": ("--eval", "", ""),
    "rollup": ("-p --plugin --configPlugin", "", ""),
    "sbt": ("", "", r"(?:.*;)?\s*(?:eval|set|apply|alias|console\w*|onFailure|publish\w*|<)(?:\s|\Z)"),
    "tox": ("-x --override", "exec e devenv d", ""),
    "yarn": ("", "plugin", ""),
}
# Whichever tool it is: a module that is its own text, a linker of the line's choice, a variable left to another shell.
_ANYWHERE = lazy(r".*data:[a-z]+/|(?:-C|--codegen=)?linker=|.*\$(?:\w*[A-Za-z_]|\{|\()", re.DOTALL)


def told(walk: Walk, call: Call, fields: list[Field]) -> None:
    """A tool that the line itself tells what to run."""
    options, words, pattern = _ROWS.get(call.name, ("", "", ""))
    codes, others = options.split(), words.split()
    texts = [field.text for field in fields if field.known]
    found = [name for name, _ in call.options if name in codes or (len(name) > 3 and _begins(name, codes))]
    found += [text for text in texts if text in others or (text[:1] == "-" and text.partition("=")[2] in others)]
    found += [text for text in texts if _ANYWHERE.match(text) or (pattern and re.match(pattern, text, re.DOTALL))]
    if found:
        walk.doubt(f"{call.name} is told {found[0]!r}: it may run that, or change what is not the project's")


def _begins(option: str, names: list[str]) -> bool:
    """Many tools take the beginning of a long option for all of it."""
    return option.startswith("--") and any(name.startswith(option) for name in names)


def cache(walk: Walk, call: Call) -> None:
    """bat: a word that is no file."""
    if [field.text for field in call.operands[:1]] == ["cache"]:
        walk.doubt("bat changes what it keeps in HOME")


def xxd(walk: Walk, call: Call) -> None:
    """xxd looks at the first letter of a word of options and forgets the rest, so `-ps` takes no value."""
    words = list(call.operands)
    files: list[Field] = []
    while words:
        field = words.pop(0)
        if files or not field.text.startswith("-") or field.text == "-":
            if not field.known and field.may_be_option:
                walk.doubt(f"xxd gets {field.shown!r}, which is not known and may be an option")
                return
            files.append(field)
        elif field.known and re.fullmatch(r"-[abCdeEiprRuv]|-ps", field.text):
            if field.text == "-R" and words:
                words.pop(0)
        elif field.known and re.fullmatch(r"-[cglnos]", field.text):
            words = words[1:]
        elif not (field.known and re.fullmatch(r"-[cglnos][-+]?\w+", field.text)):
            walk.doubt(f"what the option {field.shown!r} of xxd does is not known")
            return
    for index, file in enumerate(files):
        apply_role(walk, "r" if index == 0 else "w", file, call)


def clock(walk: Walk, call: Call) -> None:
    """date: a word that is no format sets the clock."""
    if any(not field.text.startswith("+") for field in call.operands):
        walk.doubt("date is told a time, and sets the clock by it")


def device(walk: Walk, call: Call) -> None:
    """mknod: all but a pipe is a way to what lies below the files."""
    if [field.text for field in call.operands[1:2]] != ["p"]:
        walk.doubt("mknod makes a device")


_OURS = "ringfence systemd init sshd bash sh dash zsh claude codex gemini copilot cursor opencode".split()


def ends(walk: Walk, call: Call) -> None:
    """pkill and killall: by name what a project runs, and neither whole users nor who watches over this line."""
    letters = "".join(name[1:] for name, _ in call.options if len(name) == 2)
    signal = len([letter for letter in letters if letter.isupper()]) > 1  # -HUP, and so on
    if set("ugtvr") & set(letters) or (not signal and set("PUGF") & set(letters)):
        walk.doubt(f"{call.name} is told whom to end in another way than by name")
    for field in call.operands:
        if not field.known or any(_fits(field.text, name, call.name == "killall") for name in _OURS):
            walk.doubt(f"{call.name} {field.shown} may end what this line has not started")


def _fits(pattern: str, name: str, exact: bool) -> bool:
    try:
        return pattern == name if exact else re.search(pattern, name) is not None
    except re.error:
        return True


HANDLERS = {"cache": cache, "clock": clock, "ends": ends, "device": device}
RAW = {"xxd": xxd}
