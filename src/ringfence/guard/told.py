"""Words by which a line tells a project's tool what to run, or to change what lies outside the project.

What the project itself says is the tool's business. What the line says is the line's: an option that is code, a command
behind a word, a setting that names a program. One row a tool: options, words, and a pattern for anything else.
"""

import itertools
import re

from .arguments import Call, apply_role
from .patterns import lazy
from .reach import Walk
from .state import Field
from .variables import LOADS

_JAVA = ("-J", "", r"-(?:script|e|expression|toolcp)\Z")
_MAKE = ("", "install uninstall", "")
_FETCHED = (
    r"--@[^=]*registry|(?:[\w.@/-]+@)?exec:"
    r"|(?:@?[\w.-]+(?:/[\w.-]+)?@)?(?:git\+|git:|https?:|ssh:|git@|(?:github|gitlab|bitbucket|gist):)"
)
_ADDRESSED = r"(?:.*@\s*|-[A-Za-z]=?)?(?:(?:git|hg|bzr|svn)\+|(?:https?|ssh|git|file):|git@)"  # it comes from there
_COMPILER = ("", "", r".*,@|--config(?:=|\Z)")
_ROWS: dict[str, tuple[str, str, str]] = {
    "aclocal": ("--diff", "", ""),
    "ant": ("", "", r"-D(?:build\.compiler|ant\.executor\.class)=|-(?:lib|logger|listener|inputhandler|main|cp)\Z"),
    "ar": ("-M", "", r"-?[a-zA-Z]{0,6}M[a-zA-Z]{0,6}\Z"),
    "bazel": (
        (
            "--run_under --workspace_status_command --shell_executable --host_jvm_args --server_javabase "
            "--credential_helper "
            "--remote_executor --remote_cache --bes_backend --experimental_remote_downloader --python_path "
            "--java_launcher "
            "--plugin --adb --coverage_report_generator --crosstool_top --registry --compiler --bazelrc"
        ),
        "",
        r"--(?:host_)?(?:action|repo|test)_env=(?:PATH|LD_\w+|BASH_ENV|CC|CXX)\b",
    ),
    **dict.fromkeys(("bison", "yacc"), ("-S --skeleton", "", "")),
    "flex": ("-S --skel", "", ""),
    "buf": ("", "push login registry curl", r"(?:--(?:template|config)=)?\s*\{"),
    "cabal": (
        "-w --test-wrapper --extra-prog-path",
        "install exec repl user-config upload",
        r"(?:v[12]|new)-(?:install|exec|repl|upload)\Z|--with-\w+|--(?:\w+-)*options?\b.*-(?:F\b|pgm|fplugin)",
    ),
    "cargo": ("--runtool --test-runtool --test-builder --git", "watch generate binstall script drop", ""),
    "clang-tidy": ("--load", "", r"-load\b"),
    "cmake": (
        "--open",
        "install",
        (
            r"(?:-D\s*)?(?:(?:CMAKE_)?RULE_LAUNCH_\w+(?::\w+)?=|CMAKE_\w*_LAUNCHER(?::\w+)?=(?!(?:ccache|sccache|distcc|icecc)\Z)"
            r"|CMAKE_\w*(?:_COMPILE_OBJECT|_LINK_\w+|_CREATE_\w+|_ARCHIVE_\w+|COMMAND)(?::\w+)?="
            r"|(?:CMAKE_\w*(?:_COMPILER|LINKER|MAKE_PROGRAM|_EMULATOR|_TIDY|_CPPCHECK|_CPPLINT|_WHAT_YOU_USE|AR|RANLIB|STRIP|NM|OBJCOPY)"
            r"|\w+_EXECUTABLE)(?::\w+)?=(?![\w+.-]+\Z))|-t\s*install\b|--target=install\b"
        ),
    ),
    "composer": ("--repository", "create-project", ""),
    "cppcheck": (
        "",
        "",
        r"--addon(?:=(?!(?:misra|cert|y2038|threadsafety|naming|findcasts)\Z)|-python|\Z)|--clang(?:-tidy)?=",
    ),
    "ctest": (
        "-S --script --test-command --build-and-test --build-makeprogram --overwrite --launch",
        "Submit Nightly Experimental Continuous NightlySubmit ExperimentalSubmit ContinuousSubmit",
        "",
    ),
    "cypress": ("", "install cache open", r"(?:--config=)?\s*\{"),
    "dotnet": (
        "-i --install",
        "exec fsi msbuild tool nuget workload install uninstall dev-certs user-secrets script vstest dnx drop",
        (
            r"(?i)[-/]{1,2}(?:r(?:estore)?)?p(?:roperty)?(?:[:=]|\Z)(?!(?:Configuration|Platform|\w*Version\w*|TargetFrameworks?|Nullable"
            r"|RuntimeIdentifiers?|Publish(?:SingleFile|Trimmed|ReadyToRun|Aot|Profile)|SelfContained|UseAppHost|NoWarn"
            r"|CollectCoverage|CoverletOutputFormat|Threshold\w*|TreatWarningsAsErrors|WarningLevel|Debug(?:Type|Symbols)"
            r"|Optimize|ContinuousIntegrationBuild|Deterministic|RestoreLockedMode|IsPackable)=[^;$]*\Z)|.*\.(?:dll|csx|rsp)\b"
            r"|(?:-e|--environment=)?(?:DOTNET_STARTUP\w+|COR\w*_PROFILER\w*|LD_\w+|PATH)=|.*TestAdaptersPaths"
        ),
    ),
    "dune": ("", "exec install uninstall utop top cache tools", ""),
    "eslint": ("--init", "", ""),
    "flutter": (
        "--git-url",
        "config upgrade downgrade channel global publish cache precache custom-devices",
        r".*\bgit\b.*:",
    ),
    "go": ("", "bug", r"(?:.*\s|-?-ldflags=.*)-?-extld|-?-?extld|-?-(?:http|tools)\b"),
    "gradle": (
        "-I --init-script",
        "publishToMavenLocal publish release closeAndReleaseRepository jib",
        (
            r"(?:[\w.-]*:)*(?:publish|upload)|\w*(?:Publish|Upload|dockerPush|DockerPush)|(?:-D|--system-prop=)?org\.gradle\.(?:java|jvm)|-Dorg\.gradle\."
            r"|--gradle-distribution"
        ),
    ),
    "hugo": ("--editor", "deploy", ""),
    "jar": (*_JAVA[:2], r"-?[a-zA-Z0]{0,8}(?:x[a-zA-Z0]{0,8}P|P[a-zA-Z0]{0,8}x)[a-zA-Z0]{0,8}\Z|-P\Z"),
    "jest": ("--init", "", r"(?:--(?:config|transform|globals)=)?\s*\{"),
    **dict.fromkeys("javac kotlinc scalac".split(), _JAVA),
    "rustc": ("--sysroot", "", r"(?:-C|--codegen=)?(?:ar|dlltool)=.*/"),
    "lcov": (
        "--gcov-tool --version-script --criteria-script --annotate-script --simplify-script --callback",
        "",
        r"(?:--rc=)?\w+_(?:tool|script|command|callback)\w*\s*=",
    ),
    "lein": (
        "-e --eval",
        "update-in exec eval repl deploy install clojure.main new upgrade self-install plugin release vcs change",
        r"clojure\.[\w.-]+/",
    ),
    "lerna": ("--npm-client --npmClient", "exec watch create publish version import add", ""),
    "make": _MAKE,
    "gmake": _MAKE,
    "meson": (
        "--wrapper --gdb --gdb-path --ninja-args --vs-args --xcode-args --internal",
        "install devenv runpython foreach wrap",
        "",
    ),
    "mix": (
        "-e --eval",
        "cmd eval archive.install escript.install local.hex local.rebar hex.publish",
        r".*\bcmd\b|local\.|.*\.install\Z|hex\.(?:user|organization|config|registry|owner|retire|repo)",
    ),
    "mkdocs": ("", "gh-deploy", ""),
    "mocha": ("-n --node-option --eval --print", "", r"--inspect\S*=(?!127\.|localhost)"),
    "mvn": (
        "",
        "deploy site-deploy",
        (
            r".*(?:\bexec:|exec-maven|antrun|groovy|:get\b|:deploy|jib:build|distributionUrl)|(?:-D|--define=)?(?:exec\.|maven\.ext)"
            r"|(?:-D|--define=)?(?:jvm|[\w.]*[eE]xecutable|[\w.-]*\.agents)="
            r"|(?!(?:org\.(?:apache\.maven|codehaus\.mojo|springframework|jacoco|owasp|cyclonedx)[\w.]*"
            r"|com\.(?:diffplug|github\.spotbugs)[\w.]*|dependency|versions|help|compiler|surefire|failsafe|spotless"
            r"|checkstyle|pmd|spotbugs|jacoco|enforcer|clean|resources|jar|war|ear|site|javadoc|source|spring-boot|quarkus"
            r"|fmt|license|wrapper|jetty|test|duplicate-finder|formatter|impsort|jib|assembly|shade|flatten):)"
            r"[A-Za-z][\w.-]*:[\w.-]+"
        ),
    ),
    "mypy": ("--install-types --python-executable", "", ""),
    "next": ("", "telemetry upgrade", ""),
    "ng": ("-g --global", "add update new completion analytics deploy", ""),
    "ninja": ("", "install uninstall msvc browse", ""),
    "npm": (
        "--editor --viewer --git --browser --shell --init-module --onload-script --node-gyp --nodedir",
        "",
        _FETCHED,
    ),
    "nx": ("", "exec watch run-commands add migrate init connect import publish release", ".*run-commands"),
    "pandoc": ("--pdf-engine --pdf-engine-opt --lua-filter --filter -L", "lua server", r".*\.lua\Z"),
    "phpunit": ("", "", r".*(?:auto_(?:prepend|append)_file|extension=)"),
    "playwright": ("--with-deps", "uninstall open codegen run-server launch-server cr ff wk", ""),
    "bun": ("--trust", "trust", _FETCHED),
    "pnpm": ("--pnpmfile --global-pnpmfile --node-gyp", "", rf"--config\.|{_FETCHED}"),
    "pre-commit": ("", "hazmat install uninstall init-templatedir try-repo clean gc", ""),
    "protoc": ("--plugin", "", ""),
    "pylint": ("--init-hook", "", ""),
    "pytest": ("--pdb --pdbcls --pastebin --tx --rsyncdir --trace", "", ""),
    "rake": ("-e -E -p --execute --execute-print --execute-continue -g --system", "install release", ""),
    "rebar3": ("--eval --script --script_file", "shell local hex plugins", ""),
    "rollup": ("-p --plugin --configPlugin", "", r"--watch\.on"),
    "rubocop": ("-r --require --plugin", "", ""),
    "sbt": (
        "",
        "",
        (
            r"(?:.*[\s;:/~+{(-])?(?:eval|set|apply|alias|console\w*|onFailure|publish\w*|iflast|shell|new)(?=[\s});]|\Z)|.*<"
            r"|.*(?:addCommandAlias|addPluginSbtFile|\bscala\.tools\.)|-?-(?:sbt-jar|java-home|J)"
        ),
    ),
    "sphinx-build": (
        "",
        "",
        r"(?:-D\s*|--define=)?(?:extensions|graphviz_dot|plantuml|imgmath_\w+|mscgen\w*|\w+diag\w*|image_converter\w*|latex_engine)=",
    ),
    "swiftc": ("", "", r"-(?:frontend|interpret|repl|load-\w|plugin-path|driver-|Xfrontend|external-plugin)"),
    "terraform": (
        "",
        "apply destroy delete console login logout import taint untaint push rm mv force-unlock refresh",
        r"-{1,2}(?:from-module|plugin-dir)\b",
    ),
    "tox": (
        "--req -x --override --force-dep --runner --discover",
        "exec e devenv d",
        r"(?:--installpkg=)?(?:https?:|git\+)",
    ),
    "turbo": ("--api", "login logout link unlink exec gen generate telemetry", ""),
    "twine": ("", "upload register", ""),
    "uv": ("--keyring-provider", "", _ADDRESSED),
    "poetry": ("", "source", _ADDRESSED),
    **dict.fromkeys("pip pip3 pdm hatch rye pipenv".split(), ("", "", _ADDRESSED)),
    "webpack": ("", "init loader plugin", ""),
    "yarn": ("--require", "plugin", _FETCHED),
    **dict.fromkeys("gcc g++ cc c++ clang clang++ ld".split(), _COMPILER),
}
_COMPILERS = frozenset(
    "gcc g++ cc c++ clang clang++ ld as ar ranlib strip rustc cargo go swiftc javac kotlinc scalac clang-tidy bazel "
    "cabal meson".split()
)
# Whichever tool it is: a module that is its own text, a linker of the line's choice, a variable left to another shell,
# an agent in a virtual machine, code for a compiler, and letters that are spelled by numbers.
_ANYWHERE = lazy(
    r".*data:[a-z]+/|.*-XX:(?:On\w*Error|Flags|VMOptionsFile)=|(?:-C|--codegen=)?linker=|.*\$(?:\w*[A-Za-z_]|\{|\()|.*-(?:javaagent|agentpath|agentlib)\b"
    r"|.*(?:codegen-backend|llvm-plugins|llvm-args=.*-load|link-args?=.*-(?:fuse-ld|B|plugin|wrapper|specs))"
    r"|.*\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8})",
    re.DOTALL,
)
# An option that by its name takes a program, and the place from which others are fetched.
_PROGRAM = lazy(
    r"--?(?:[\w.-]*[._-])?(?:exec|executable|binary|interpreter|pythons?|pythonpath|(?:java|jdk|kotlin|scala|gradle)-?[hH]ome|jvm|npm-?[cC]lient|browser"
    r"|editor|shell|wrapper|launcher|runner|tool|command|cmd|helper|engine|adb|app-name|backend|adapter-path)\Z"
)
_SHORT = {"uv": "-p", "nox": "-P -p -fb", "dotnet": "-a", "pytype": "-V", "cypress": "-b", "pdm": "--with"}
_PLACE = lazy(r"--(?:(?:default-|extra-)?index(?:-url)?|source|repository-url|find-links)\Z")


def told(walk: Walk, call: Call, fields: list[Field]) -> None:
    """A tool that the line itself tells what to run."""
    options, words, pattern = _ROWS.get(call.name, ("", "", ""))
    codes, others = options.split(), words.split()
    texts = [field.text for field in fields if field.known]
    found = [name for name, _ in call.options if name in codes or (len(name) > 3 and _begins(name, codes))]
    found += [text for text in texts if text.partition("=")[0] in codes]
    found += [
        text for text in texts if text.rstrip(",") in others or (text[:1] == "-" and text.partition("=")[2] in others)
    ]
    runs = pattern is _ADDRESSED and texts[:1] in (["run"], ["exec"]) and texts[1:2] and texts[1][:1] != "-"
    own = texts[:2] if runs else texts  # what follows the program is for the program, which is judged by itself
    found += [text for text in own if pattern and re.match(pattern, text, re.DOTALL)]
    found += [text for text in texts if _ANYWHERE.match(text)]
    if call.name in _COMPILERS:
        found += [text for text in texts if LOADS.match(text)]
    found += [text for text, next_one in itertools.pairwise((*texts, "")) if _names_program(call, text, next_one)]
    if call.name in ("sbt", "kotlinc") and not call.operands:
        found.append("nothing, and so reads it")
    if found:
        walk.doubt(f"{call.name} is told {found[0]!r}: it may run that, or change what is not the project's")


def _names_program(call: Call, text: str, next_one: str) -> bool:
    """Whether an option has a program for its value, or a place on the network that others are fetched from."""
    option, equals, value = text.partition("=")
    value = value if equals else next_one
    if _PLACE.match(option) or option in ("-s", "-i", "-f"):
        return value.startswith(("http:", "https:", "git+"))
    return "/" in value and bool(_PROGRAM.match(option) or option in _SHORT.get(call.name, "").split())


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


def bundled(walk: Walk, call: Call) -> None:
    """tree: letters of one word take the next words as their values, one after the other."""
    words = [field.text for field in call.words if field.text[:1] == "-" and field.text[:2] != "--"]
    if any(len(word) > 2 and set("oR") & set(word) for word in words):
        walk.doubt("which of its words tree takes for the file that it writes is not known")


def device(walk: Walk, call: Call) -> None:
    """mknod: all but a pipe is a way to what lies below the files."""
    if [field.text for field in call.operands[1:2]] != ["p"]:
        walk.doubt("mknod makes a device")


_OURS = "ringfence systemd init sshd bash sh dash zsh claude codex gemini copilot cursor opencode".split()


def ends(walk: Walk, call: Call) -> None:
    """pkill and killall: by name what a project runs, and neither whole users nor who watches over this line."""
    letters = "".join(name[1:] for name, _ in call.options if len(name) == 2)
    words = {name for name, _ in call.options if name.startswith("--")}
    signal = len([letter for letter in letters if letter.isupper()]) > 1  # -HUP, and so on
    odd = "ugtvrs" if call.name == "pkill" else "ugtvr"
    if set(odd) & set(letters) or (not signal and set("PUGFZ") & set(letters)) or words - _PLAIN_ENDS:
        walk.doubt(f"{call.name} is told whom to end in another way than by name")
    for field in call.operands:
        if not field.known or _is_ours(call, field.text):
            walk.doubt(f"{call.name} {field.shown} may end what this line has not started")


def seeks(walk: Walk, call: Call) -> None:
    """pgrep and pidof: a number by which somebody may be ended."""
    for field in call.operands:
        if field.known and _is_ours(call, field.text):
            walk.sought = field.shown


_PLAIN_ENDS = frozenset(
    "--signal --full --exact --newest --oldest --echo --count --ignore-case --quiet --verbose --wait "
    "--process-group".split()
)
MOST_REPEATS = 4  # in a pattern: with each of them it takes longer to see that it does not fit
# What these programs read in another way than we do.
_OTHERWISE = lazy(r".*(?:\\[\w<>`']|\[[.:=]|\[[^]]*(?:\[|--|&&|~~|\|\|)|\(\?|[*+?}][*+?{])", re.DOTALL)
_IN_OUR_LINES = " -c ", "/bin/bash", "/usr/bin/", "/usr/lib/"  # short: a pattern may take long at each letter


def _is_ours(call: Call, pattern: str) -> bool:
    """Whether a name, or what it may be a pattern for, is one of those whom no line ends; some do not mind the case."""
    if call.name in ("killall", "pidof"):
        return pattern.lower() in _OURS
    if len(pattern) > 200 or sum(map(pattern.count, "*+?{")) > MOST_REPEATS or _OTHERWISE.match(pattern):
        return True
    try:
        found = [re.compile(pattern), re.compile(pattern, re.IGNORECASE)]
    except (re.error, OverflowError, RecursionError):
        return True
    full = call.has("-f", "--full")
    if full and any(len(name) > 5 and name in pattern.lower() for name in _OURS):
        return True  # and more of its line
    names = [*_OURS, *_IN_OUR_LINES] if full else _OURS
    return any(one.search(name) for one in found for name in names)


def shows(walk: Walk, call: Call) -> None:
    """ps: by one letter it shows what others were given in their environment, keys among it."""
    words = [field.text for field in call.operands]  # letters without a stroke, as BSD has them, and their values
    letters = [
        word
        for before, word in itertools.pairwise((" ", *filter(None, words)))
        if word.isalpha() and before[-1] not in "oOUptk"
    ]
    listed = any("env" in value.text or not value.known for value in call.values("-o", "-O", "--format"))
    listed = listed or any(not field.known and not field.digits for field in call.operands)
    if not walk.bounds.held and (listed or call.has("-E") or any("e" in word for word in letters)):
        walk.doubt("ps shows what other processes have in their environment")


def serves(walk: Walk, call: Call) -> None:
    """getent: the name of a service is a part of that of a library, which with a stroke in it may lie anywhere."""
    odd = call.has("-s", "--service") or any(not field.known and field.may_be_option for field in call.operands)
    if odd and not walk.bounds.held:
        walk.doubt("getent may be told a service, and loads a library by its name")


HANDLERS = {
    "serves": serves,
    "cache": cache,
    "shows": shows,
    "clock": clock,
    "ends": ends,
    "seeks": seeks,
    "device": device,
    "bundled": bundled,
}
RAW = {"xxd": xxd}
