"""Variables that steer programs: to assign one can be to write, to run, or to lead elsewhere. What the pieces of words
hold. And arithmetic, in which names are texts that are counted in turn: a hostile text runs commands."""

import posixpath
import re

from ..model import Access, Verdict
from .expand import Expander, fixed, is_count
from .patterns import lazy
from .state import LONGEST_VALUE, Field, Shell
from .syntax import Arithmetic, Literal, Node, Piece, Sequence, Simple, Substitution, Variable, Word
from .touches import LONGEST, Touches

# Which program runs, or where it looks, hangs on these.
_STEERS = lazy(
    r"(?:PATH|ENV|CDPATH|SHELL|SHELLOPTS|BASHOPTS|BASH_\w+|PS4|PROMPT_COMMAND|DIRSTACK|GLOBIGNORE|EXECIGNORE|LD_\w+|DYLD_\w+"
    r"|G(?:CONV_PATH|ETCONF_DIR)|CCACHE_\w+|LOCPATH|NLSPATH|HOME|XDG_\w+|EDITOR|VISUAL|PAGER|MANPAGER|BROWSER|LESS\w*"
    r"|GIT_\w+|GREP|GREP_OPTIONS|GZIP|BZIP2?|XZ_\w+|ZIP(?:OPT)?|UNZIP(?:OPT)?|SSLKEYLOGFILE|RIPGREP_\w+|ACK_\w+|ACKRC|BAT_\w+"
    r"|PYTEST_(?:ADDOPTS|PLUGINS)|\w+_OPTS|\w+_OPTIONS|JAVA_HOME|SIMPLE_BACKUP_SUFFIX|LLVM_\w+|GCOV_\w+|GMON_\w+|SCRIPT_\w+|BC_ENV_ARGS|"
    r"TAR_OPTIONS|TAPE|RSYNC_\w+|MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS|MFLAGS|POSIXLY_CORRECT"
    r"|PYTHON(?!PATH|UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|UTF8|IOENCODING|FAULTHANDLER|DEVMODE)\w*"
    r"|NODE_(?!ENV\Z|NO_WARNINGS\Z)\w+|PERL\w*|RUBY\w+|GEM_\w+|BUNDLE_\w+|npm_config_\w+|NPM_CONFIG_\w+|YARN_\w+"
    r"|CARGO_\w+|RUSTUP_\w+|GO(?:PATH|BIN|CACHE|ROOT|FLAGS|TMPDIR|MODCACHE)|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|CLASSPATH"
    r"|PIP_\w+|VIRTUAL_ENV|CONDA_\w+|HISTFILE|INPUTRC|TERMINFO|MAIL|CURL_HOME|(?:SYSTEM_)?WGETRC|SSH_\w+|DOCKER_\w+|KUBECONFIG"
    r"|TERMINFO_DIRS|TERMCAP|DEPENDENCIES_OUTPUT|SUNPRO_DEPENDENCIES|GCC_EXEC_PREFIX|COMPILER_PATH|COLLECT_\w+"
    r"|COVERAGE_(?!FILE\Z)\w+|DOTNET_(?!CLI_\w+OPTOUT\Z|NOLOGO\Z)\w+|COR\w*_PROFILER\w*|MSBUILD\w+|GO(?:ENV|TOOLCHAIN)"
    r"|GO(?:TOOLDIR|CACHEPROG|AUTH)|OCAMLPARAM|OMP_TOOL\w*|CUDA_INJECTION\w*|QT_\w*PLUGIN\w*|GTK_(?:MODULES|PATH)|GIO_\w*MODULE\w*|VK_\w+"
    r"|LIBGL_\w+PATH|MPLBACKEND|ELECTRON_OVERRIDE\w*|CGO_(?!ENABLED\Z)\w+|GCCGO|PKG_CONFIG\w*|(?:UV|TOX|POETRY|PIPENV|PDM|HATCH|NOX|FZF|CTEST|CMAKE|BISON|LUA|JULIA"
    r"|PUPPETEER|PLAYWRIGHT|CYPRESS|TS_NODE|MAVEN|GRADLE|ELIXIR|OPENSSL|R|NYC)_\w+|ERL_\w+|GLIBC_TUNABLES|HOSTALIASES"
    r"|MAKE|M4|AUTO\w+|ACLOCAL\w*|M2_HOME|ANT_ARGS|CHROME_\w+|PROTOC|LIBCLANG_PATH|PHPRC|PHP_INI_SCAN_DIR"
    r"|AWK\w*|GAWK\w+|CC|CXX|LDSHARED|RANLIB|STRIP|AR|AS|LD|CPP|RUST(?:C\w*|DOC|FMT|FLAGS|DOCFLAGS)|PREFIX|DESTDIR"
    r"|(?:CC|CXX|AR|LD|RANLIB)_\w+|\w+_(?:CC|CXX|AR|LD|RANLIB)|HOSTCC|HOSTCXX|CROSS_COMPILE|FC|F77|F90|NM|OBJCOPY|OBJDUMP|RM|SED"
    r"|LEX|YACC|INSTALL|CMAKE|NINJA|NODE|RUBY|CARGO|JAVACMD|MAKESHELL|DISTCC\w*|SCCACHE_\w+|ICECC\w*|CCC_\w+|DEVELOPER_DIR|SDKROOT"
    r"|PS\d|VIM\w*|EXINIT|NVIM_\w+|EMACS\w*|GNUPGHOME|GPG_(?!TTY\Z)\w+|KRB5\w*|SPHINX\w+|PYLINTRC|npm_\w+|HEX_\w+|REBAR_\w+|PUB_\w+"
    r"|TF_(?!VAR_|LOG\Z|IN_AUTOMATION\Z|INPUT\Z)\w+|COMPOSER_(?!NO_\w+\Z|ALLOW_SUPERUSER\Z|MEMORY_LIMIT\Z)\w+"
    r"|MIX_(?!ENV\Z|TARGET\Z)\w+|CAML_\w+|\w*BAZEL\w*|FLUTTER_ROOT|NX_TASKS\w*|GO(?:PROXY|NOSUMDB|SUMDB|INSECURE|WORK)|\w+_HOME"
    r"|ANSIBLE_\w+|CLOUDSDK_\w+|AWS_(?:CONFIG|SHARED_CREDENTIALS)_FILE|\w*ASKPASS|\w+_SYMBOLIZER_PATH|\w+_EXTERNAL_DIFF|SVN_SSH|HG|HGRCPATH"
    r"|FCEDIT|DIFFPROG|ZDOTDIR|FPATH|CONFIG_SITE|GDK_PIXBUF_MODULE\w*|GST_PLUGIN\w*|GUILE_\w+|LIBVA_\w+|QML\w*_PATH|SASL_PATH|SDL_DYNAMIC_API"
    r"|TCL_LIBRARY|TCLLIBPATH|VALGRIND_LIB|TEXMF\w*|(?:NIX|NUGET|PYENV|RBENV|ASDF|NODENV|CABAL|STACK|OPAM|SPARK|PYSPARK|NVCC|GH|GLAB|SYSTEMD)_\w+"
    r"|NIXPKGS_\w+|OPAM\w+|OCAML(?:PATH|FIND_CONF)|GHC(?:_ENVIRONMENT|_PACKAGE_PATH|RTS)|SWIFT_EXEC|TOOLCHAINS|JAVAC?|JAR|M2|CUDA_PATH"
    r"|TRITON_PTXAS_PATH|TEXTDOMAIN\w*|(?:COMPILE|LINK|PREPROCESS|LEX|YACC|LINT)\.\w+|OUTPUT_OPTION|BLDSHARED|LDCXXSHARED|MAILCAPS|PSQLRC|PGSERVICEFILE|PGSYSCONFDIR|GOVCS"
    r"|GCC_(?:ROOT|COMPARE_DEBUG)|BINUTILS_ROOT|PIGZ|PATCH_GET|MORE|\w*MALLOC_CONF|QLOGDIR|HUGO\w+|LEIN_\w+|KUBERC|KUBECTL_\w+"
    r"|PS_(?:FORMAT|PERSONALITY)|CMD_ENV|(?:LOCAL)?APPDATA|(?:USER|ALLUSERS)PROFILE|I_WANT_A_BROKEN_PS|SSLEAY_CONF|(?i:p?npm_config_\w+|yarn_\w+)"
    # To MSBuild every variable is a property, whatever its case.
    r"|(?i:(?:pre|post)(?:build|link|clean)event|custom(?:before|after)\w+|(?:before|after)\w*targets"
    r"|directory(?:build|packages|solution)\w+path|\w+tool(?:path|exe)|(?:csc|vbc|fsc)tool\w+)"
    r"|RAKEOPT|TERRAFORM_CONFIG|GSS_\w+|\w+(?:TOOL|DOC)IZE"
    # To zsh: where it looks, what it calls, and what it takes for its arguments.
    r"|cdpath|dirstack|fpath|module_path|MODULE_PATH|histchars|HISTCHARS|argv|(?:READ)?NULLCMD|TMPPREFIX|(?:chpwd|zshexit|precmd|preexec|periodic|zshaddhistory)_functions"
    # By its name, a program that somebody will start.
    r"|\w+_(?:BIN|BINARY(?:_PATH)?|CMD|COMMAND|EXEC?|EXECUTABLE|EXECPATH|LAUNCHER|WRAPPER|RUNNER|INTERPRETER|COMPILER|LINKER"
    r"|SHELL|EDITOR|PAGER|BROWSER|PRELOAD|HOOK|PLUGINS?))\Z"
)
# Options of a compiler or linker that name a program to run, or code to load.
LOADS = lazy(
    r".*(?:^|[\s=,:;\"'\[({])-{1,2}(?:f(?:pass-)?plugin\b|plug(?:in?)?\b|load(?:-pass-plugin)?\b|wrapper\b|specs?\b|B(?=[\s./\w])|fuse-ld=\.?/|pgm[A-Z]"
    r"|ld-path|use-ld|javaagent|agentpath|agentlib|Xplugin|Xcompiler-plugin|processor-?path|processor-module-path|tools-directory|ccc-install-dir"
    r"|error-handling-script|gcc-toolchain|gcc-install-dir)",
    re.DOTALL,
)
_HARMLESS = lazy(  # what is not known is a null
    r"(?:(?:PAGER|GIT_PAGER|MANPAGER)=(?:cat|less|more)?|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)=.*"
    r"|(?:GIT_EDITOR|GIT_SEQUENCE_EDITOR|EDITOR|VISUAL)=(?:true|:|/bin/true)|GIT_(?:TERMINAL_PROMPT|OPTIONAL_LOCKS)=[01]"
    r"|PYTHONWARNINGS=[\w:,]*|GIT_MERGE_AUTOEDIT=no|CC=(?:gcc|clang|cc)(?:-\d+)?|CXX=(?:g\+\+|clang\+\+|c\+\+)(?:-\d+)?"
    r"|NODE_OPTIONS=--(?:max-old-space-size=\d+|experimental-vm-modules|no-warnings)"
    r"|LESS=-?[A-Za-z]*|CARGO_TERM_\w+=\w+|PIP_(?:NO_INPUT|DISABLE_PIP_VERSION_CHECK|NO_CACHE_DIR|QUIET)=\w*"
    r"|RUSTFLAGS=(?!.*linker)[^@/\0]*|MAVEN_OPTS=-Xmx\w+|\w+_OPTS=|GOFLAGS=-mod=\w+|GOWORK=off|GOPROXY=(?:off|direct)"
    r"|KRB5_TRACE=/dev/std\w+|PS\d=[^$`\0]*|(?:GH_(?:TOKEN|REPO|HOST|PROMPT_DISABLED))=.*|SYSTEMD_COLORS=.*"
    r"|(?:PYENV|RBENV|NODENV)_VERSION=[\w.-]*|(?:GH|SYSTEMD)_PAGER=(?:cat)?)\Z",
    re.DOTALL,
)
_SHOWN_BY = lazy(r"(?:GIT_(?:SEQUENCE_)?)?EDITOR\Z|VISUAL\Z|(?:GIT_|MAN)?PAGER\Z")
# Words and numbers, which name no place outside: the sandbox holds who goes by them. Not what all programs go by.
_WORD = lazy(
    r"(?!(?:PATH|ENV|CDPATH|HOME|SHELL\w*|BASH\w*|\w+IGNORE|LD_\w+|DYLD_\w+|DOCKER_\w+|KUBE\w+|SSH_\w+)=|.*\.\.)"
    r"\w+=[\w.,:+ =-]*\Z"
)
_PLACES = frozenset(
    (
        *("PYTHONPATH", "TMPDIR", "TMP", "TEMP", "COVERAGE_FILE", "MYPY_CACHE_DIR", "RUFF_CACHE_DIR"),
        *("BLACK_CACHE_DIR", "GRADLE_USER_HOME", "PYTEST_DEBUG_TEMPROOT", "MALLOC_TRACE"),
    )
)
# Where programs look for what they read.
_READ = frozenset(
    (
        *("TZ", "MANPATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    )
)


# Functions that zsh calls by itself, and tables by which it finds what a name stands for.
ZSH_CALLS = lazy(r"(?:chpwd|zshexit|precmd|preexec|periodic|zshaddhistory|zsh_directory_name|TRAP[A-Z0-9]+)\Z")
_ZSH_FINDS = lazy(r"(?:path|commands|(?:dis_)?(?:functions|[gs]?aliases))\Z")


def listed(walk: Touches, name: str, settings: bool = True) -> None:
    """Say what a list, or an element of one, may lead to."""
    if _ZSH_FINDS.match(name) or (settings and name == "options"):
        walk.doubt(f"it sets {name}, by which zsh looks for what it runs")


_COUNTED = frozenset("RANDOM SRANDOM SECONDS OPTIND HISTCMD LINENO EPOCHSECONDS BASHPID".split())
_ZSH_COUNTED = frozenset(
    "COLUMNS LINES SHLVL UID EUID GID EGID ERRNO FUNCNEST HISTSIZE SAVEHIST KEYTIMEOUT LISTMAX MAILCHECK "
    "TRY_BLOCK_ERROR TRY_BLOCK_INTERRUPT ZLE_RPROMPT_INDENT".split()
)
# Numbers that cannot be set: zsh counts what it shall add to them, and says so afterwards.
ZSH_ADDS = frozenset("ARGC PPID TTYIDLE ZSH_SUBSHELL status".split())
_COUNTS = frozenset("printf exit logout return break continue shift".split())
_NUMBERS = lazy(r"%[^%a-zA-Z]*[*diouxXeEfFgGaA]")
_RESULT = lazy(r"\"?(?:\$\(\((?:[^()]|\([^()]*\))*\)\)|\$\{#\w+(?:\[[@*]\])?\})\"?\Z")
_COMPUTES = lazy(r"(?s)(?>.*?\w\[).*(?:\$[({]|`)")  # an element of a list, by a command


def counted(walk: Touches, name: str, fields: list[Field], shell: Shell) -> None:
    """What zsh counts, and bash does not: `exit 'path[$(command)]'`."""
    told = fields[0].text if fields and fields[0].known else "-"
    if name not in _COUNTS or walk.bounds.held or (name == "printf" and told[:1] != "-" and not _NUMBERS.search(told)):
        return
    for field in fields:
        found = re.fullmatch(r'"?\$\{?(\w+|[#?$!])(?::?-[0-9]+|(?<=\{PIPESTATUS)\[[0-9]+\])?\}?"?', field.shown)
        number = field.digits or _RESULT.match(field.shown) is not None
        untold = name == "printf" and field is fields[0]  # which says what becomes of the others
        if found is not None and not untold:
            number = number or found[1] in "#?$!" or not _may_be_text(found[1], shell)
        text = shell.variables.get(field.text, "") if field.known else None  # a name is counted as what it holds
        if (text is None and not number) or _COMPUTES.match(field.text):
            walk.doubt(f"zsh counts {field.shown!r}, which {name} is told, and may run commands")


# What zsh fills itself, by a match, a command or this line's own text.
_ZSH_FILLED = lazy(
    r"(?i)(?:match|[mM](?:BEGIN|END)|argv|reply|prompt\d?|r?ps\d?|words|buffer|zsh_\w+|\w*(?:functions|aliases|history|path)"
    r"|\w*(?:job|func|dirs|dirstack)\w*|options|commands|modules|parameters|mapfile|psvar|terminfo|termcap|keymaps|widgets"
    r"|usergroups|builtins|reswords|patchars|histchars|userdirs|nameddirs|\d+)\Z"
)


def _may_be_text(name: str, shell: Shell) -> bool:
    """Whether a name may hold more than a number, also in zsh; what the line has not touched comes from outside."""
    return _is_text(name, shell) or (_ZSH_FILLED.match(name) is not None and not shell.is_number(name))


def computes(walk: Touches, name: str, value: str | None) -> None:
    if value and not walk.bounds.held and _COMPUTES.match(value):
        walk.doubt(f"what {name} holds runs a command, where zsh counts it")


def concern(walk: Touches, name: str, value: str | None, shell: Shell) -> None:
    """Say what an assignment of this variable may lead to."""
    computes(walk, name, value)
    if name in walk.exports:
        handed_on(walk, name, value, shell)
    walk.path_read = walk.path_read or (name == "path" and value is None)
    if name == "path" and value and not walk.bounds.held:  # which is PATH to zsh
        known = [walk.bounds.resolve(path) for path in walk.absolute(value, shell, "")] if shell.places else []
        if any(map(walk.bounds.is_directory, known)) or walk.has_written(value, shell):
            walk.doubt("it sets path, by which zsh looks for what it runs")
    if name in _PLACES:
        for part in (value or "").split(":") if name == "PYTHONPATH" else [value]:
            if part is None:
                walk.doubt(f"{name} is set to something that is not known")
            elif part and not part.startswith("$") and (name != "PYTHONPATH" or walk.leads_outside(part, shell)):
                walk.writes(Field(part, raw=part), shell)
    elif name in (_COUNTED if walk.bounds.held else _COUNTED | _ZSH_COUNTED) and not (value or "?").isdigit():
        walk.doubt(f"what {name} is set to is evaluated as arithmetic, and may run commands")
    elif walk.runs_seen and _SHOWN_BY.match(name) and value and not walk.points_elsewhere(value, shell):
        return  # a command of this line, as good as any other of its words
    elif walk.runs_seen and value is not None and _WORD.match(f"{name}={value}"):
        return
    elif _STEERS.match(name) and not _HARMLESS.match(f"{name}={value if value is not None else chr(0)}"):
        walk.doubt(f"it sets {name}, which steers what other programs do")


_NAME = r"(?!\.\.?(?:/|:|\Z))[\w.+-]+"  # and no `..`, which after a link leads elsewhere than it says
_ENTRY = rf"(?:\$PATH|\$\{{PATH\}}|(?:\$HOME|\$\{{HOME\}}|~)(?:/{_NAME})+|/(?:usr|opt|bin|sbin|snap)(?:/{_NAME})+)"
_ENTRIES = lazy(rf"{_ENTRY}(?::{_ENTRY})*\Z")
_KEEPS = ("$PATH", "${PATH}")
_OWN = lazy(rf"(?:(?:\$PWD|\$\{{PWD\}}|\$\(pwd\)|\.)/)?{_NAME}(?:/{_NAME})*\Z")
_OF_HOME = lazy(r"(?:\$HOME|\$\{HOME\}|~)")


def only_adds(walk: Touches, word: Word | None, shell: Shell) -> bool:
    """Whether PATH keeps what it holds, and gets directories besides into which no line can put a program. The home is
    perhaps not handed on (`env -i`): then the same names are looked for from the root."""
    raw = word.raw if word is not None else ""
    if raw[:1] == raw[-1:] == '"' and "~" not in raw:  # which is no home in quotes
        raw = raw[1:-1]
    home, names = walk.bounds.home, raw.split(":")
    if walk.runs_seen:  # programs of the project are as good as its scripts
        names = [name for name in names if not _OWN.match(name)]
        raw = ":".join(names)
    if not _ENTRIES.match(raw) or not home or {"PATH", "HOME"} & shell.variables.keys():
        return False
    added = [name for name in names if name not in _KEEPS]
    reals = {walk.bounds.resolve(_OF_HOME.sub(place, name)) for name in added for place in (home, "")}
    return len(added) < len(names) and not any(_gets_programs(walk, real) for real in reals)


def _gets_programs(walk: Touches, real: str) -> bool:
    """Whether a line, or whoever wrote the project, can have put a program into a directory."""
    made = walk.bounds.decide(Access.WRITE, real)
    allows = made.verdict is Verdict.ALLOW or (made.rule is not None and made.rule.verdict is Verdict.ALLOW)
    return allows or walk.bounds.has(real)


_OPTIONS = lazy(r"\w*(?:FLAGS|OPTIONS|OPTS|ARGS)\Z")


def added(name: str, word: Word | None, shell: Shell) -> str | None:
    """What is put beside the options that a variable holds from outside: `"$RUSTFLAGS -D warnings"`."""
    raw = word.raw if word is not None and _OPTIONS.match(name) else ""
    words = raw[1:-1].split(" ")
    own = (f"${name}", f"${{{name}}}", f"${{{name}:-}}", f"${{{name}-}}")
    at = 0 if words[0] in own else -1
    if raw[:1] != '"' or len(words) < 2 or words.pop(at) not in own or name in shell.variables:
        return None
    rest = " ".join(words)
    return None if re.search(r"[\"$`\\]", rest) else rest


def emptied(walk: Touches, names: list[str]) -> None:
    """Names that hold nothing from here on. Without PATH bash looks for every program where it stands."""
    if "PATH" in names:
        walk.doubt("it takes PATH away, and then programs are looked for in the current directory")


_EXPANDS = lazy(r"\$[({]|`")
_ENDS_COMMAND = lazy(r"[;|&<>\n]")
_CALLED = {"DIFF": "diff", "CMP": "cmp"}  # as names of the shell they hold what is compared
_OF_RULES = lazy(r"\w*(?:FLAGS|LIBS|LIBES|ARGS|_ARCH|_MACH|DEFS|OPTS?)\Z")


def handed_on(walk: Touches, name: str, value: str | None, shell: Shell, lasting: bool = False) -> None:
    """A program gets this variable: whatever it is called, it may say where something is written. And make puts it into
    its rules, some of them by names that every make knows, and expands what it holds."""
    walk.exports |= {name} if lasting else set()
    long = value is not None and len(value) > LONGEST
    command = value is not None and (long or _ENDS_COMMAND.search(value) or LOADS.match(value))
    walk.handed = name if command else walk.handed
    if name in _CALLED and value != _CALLED[name] and not walk.bounds.held:
        walk.doubt(f"it hands on {name}, which zdiff and zcmp run")
    told = _OF_RULES.match(name) and (command or (value is None and not walk.bounds.held))
    if told or (value and _EXPANDS.search(value)):
        walk.doubt(f"it hands on {name}, and what that holds is a command to who puts it into one")
    if value and name not in _READ | _PLACES and (long or walk.points_elsewhere(value, shell)):
        walk.doubt(f"it hands on {name}, which points out of the worktree")


# --- values ------------------------------------------------------------------------------------------------------

_NAMES = lazy(r"[A-Za-z_][A-Za-z0-9_]*")
# Names that bash fills itself, by a command or a match, with a text of anybody's.
_FILLED = frozenset(
    "_ REPLY MAPFILE BASH_REMATCH OPTARG BASH_COMMAND BASH_EXECUTION_STRING BASH_ARGV BASH_ARGV0".split()
)
_TRIMS = lazy(r"(%%?|##?)(\*?)([A-Za-z0-9_./=,:@-]+)(\*?)\Z")
_TEMPORARY = "/tmp/tmp.0123456789"
_DIGITS = "20260101"  # a name with such digits is as good as another, to who is held
_DATE = lazy(r"date(?: -u)? ['\"]?\+(?:%[sNYmdHMSyjFT]|[-_:TZ])+['\"]?\Z")
_ARGUMENTS = lazy(r"[0-9]+\Z|[@*]\Z")
_JOINED = lazy(r"[A-Za-z_]\w*[$\0]|[}\0]\w")  # `a$i` may be the name `a4`; what is put in stands there as a null


class Values(Touches):
    """What is found out about the values of a line: what the pieces of its words hold, and what is counted."""

    def aside(self, node: Node, shell: Shell) -> None:
        raise NotImplementedError

    def beside(self, node: Node, shell: Shell) -> None:
        raise NotImplementedError

    def expander(self, shell: Shell) -> Expander:
        return Expander(
            shell, self.bounds.home, lambda piece: self.piece(piece, shell), lambda pattern: self.match(pattern, shell)
        )

    def match(self, pattern: str, shell: Shell) -> list[str] | None:
        """The names that a pattern has in every place the shell may stand in, unless the line may have made others."""
        if pattern.startswith("/") or ".." in pattern:  # it reads where it looks
            self.searches(fixed(pattern), pattern, shell)
            for place in ("/",) if pattern.startswith("/") else () if self.bounds.reads_free else shell.places:
                if self.bounds.veils(posixpath.normpath(posixpath.join(self.stand(place), pattern))):
                    self.doubt(f"{pattern!r} may stand for what may not be read")
        if self.odd_names or self.loose or self.interrupted or ("***" in pattern and not self.bounds.held):
            return None  # by three stars zsh goes through links
        if pattern.startswith("/"):
            return self.bounds.match(pattern, "/")
        names: list[str] = []
        for place in shell.places:
            found = self.bounds.match(pattern, self.stand(place))
            if found is None:
                return None
            names += found
        return names if shell.places else None

    def piece(self, piece: Piece, shell: Shell) -> str | None:
        """The value of a piece, after running what it runs."""
        if isinstance(piece, Literal):
            return piece.text
        if isinstance(piece, Substitution):
            if piece.process:
                self.fed = self.fed or piece.process == ">"
                self.beside(piece.script, shell)
                return "/dev/fd/63"
            self.feeds += 1
            self.aside(piece.script, shell)
            self.feeds -= 1
            return self.printed(piece.script, shell)
        if isinstance(piece, Arithmetic):
            self.arithmetic(piece.text, piece.inner, shell)
            return None
        return self.variable(piece, shell)

    def printed(self, script: Sequence, shell: Shell) -> str | None:
        """What a substitution prints, where that is plain: `$(pwd)`, and where a sandbox holds who goes there by it,
        `$(git rev-parse --show-toplevel)`; there a name that mktemp makes is as good as another."""
        command = script.items[0][0] if len(script.items) == 1 else None
        if not isinstance(command, Simple) or command.redirects:
            return None
        words = [word.raw for word in command.words if isinstance(word, Word)]
        if {"pwd", "git", "mktemp", "date"} & shell.functions.keys() or command.assignments:
            return None
        if self.bounds.held and words in (["mktemp"], ["mktemp", "-d"]) and "TMPDIR" not in shell.variables:
            return _TEMPORARY if self.bounds.decide(Access.WRITE, _TEMPORARY).verdict is Verdict.ALLOW else None
        if self.bounds.held and _DATE.match(" ".join(words)):
            return _DIGITS
        if len(shell.places) != 1:
            return None
        place = next(iter(shell.places))
        if words == ["pwd"]:
            return place
        if self.bounds.held and words == ["git", "rev-parse", "--show-toplevel"]:
            around, name = posixpath.split(self.bounds.repository(self.stand(place)))
            return around if name == ".git" else None
        return None

    def variable(self, piece: Variable, shell: Shell) -> str | None:
        name, rest = piece.name, piece.rest
        counts = re.match(r"(\[.*\])?:(?![-=+?])", rest) or re.match(r"[!#]?\[", rest)
        for inner in () if counts else piece.inner:
            self.piece(inner, shell)
        if rest:
            if (rest[0] == "!" and rest not in ("![@]", "![*]")) or "@P" in rest:
                self.doubt(f"${{{rest}}} takes its name or its commands from a value")
            if re.match(r"(\[.*\])?:{0,2}=", rest):  # zsh has one more
                concern(self, name, None, shell)
                listed(self, name if rest.startswith("[") else "")
                shell.assign(name, None)
            if counts:
                self.arithmetic(rest, piece.inner, shell)
                if re.search(r"['\"\\]", rest):  # which hide nothing there: `${x:'$(command)'}` runs it
                    self.doubt(f"${{{rest}}} counts what is quoted")
            return trimmed(self.variable(Variable(name, piece.quoted), shell), rest)
        if piece.open and not self.bounds.held:
            if piece.counts:
                self.doubt(f"${name} has an index that zsh counts, and what it quotes may run commands")
            return None
        if name == "$" and self.bounds.held:
            return _DIGITS
        if name.isdigit() and name != "0" and shell.positional is not None:
            index = int(name) - 1
            if index >= len(shell.positional):
                return ""
            found = shell.positional[index]
            return found.text if found.known and len(found.text) <= LONGEST_VALUE else None
        if name in shell.variables:
            return shell.variables[name]
        if name == "PWD" and len(shell.places) == 1:
            return next(iter(shell.places))
        return None

    # --- arithmetic ----------------------------------------------------------------------------------------------

    def arithmetic(self, text: str, inner: tuple[Piece, ...], shell: Shell) -> None:
        """An expression, with the pieces that are expanded before it is counted."""
        for piece in inner:
            value = self.piece(piece, shell)
            if isinstance(piece, Variable) and _ARGUMENTS.match(piece.name) and piece.rest != "#":
                self.argument(piece, value, shell)
            elif isinstance(piece, Substitution):
                text = text.replace(piece.raw, "\0", 1)
                if not is_count(piece, shell) and not self.runs_seen:
                    self.doubt(f"{piece.raw!r} is evaluated as arithmetic, and what it prints is not known")
            elif isinstance(piece, Arithmetic):
                text = text.replace(f"$(({piece.text}))", "\0", 1)
        if _JOINED.search(text):
            self.doubt("a name that is put together is evaluated as arithmetic")
        text = text.replace("\0", "0")
        self.evaluated(text, text, shell)
        self.altered(text, shell)

    def argument(self, piece: Variable, value: str | None, shell: Shell) -> None:
        """An argument of the shell or of a function, which has no name that could be looked up."""
        texts = [value]
        if piece.name in "@*" and not piece.rest and shell.positional is not None:
            texts = [field.text if field.known else None for field in shell.positional]
        for text in texts:
            if text is not None:
                self.evaluated(text, f"${piece.name}", shell)
            elif not self.runs_seen:
                self.doubt(f"${piece.name} is evaluated as arithmetic, and its value is not known")

    def altered(self, text: str, shell: Shell) -> None:
        """Names that an expression may assign."""
        assigns = re.search(r"=(?!=)|\+\+|--", text)
        for name in dict.fromkeys(_NAMES.findall(text)):
            if assigns and (name == "path" or _STEERS.match(name)):
                concern(self, name, None, shell)
            if name in shell.variables or name == "IFS":
                shell.assign(name, None, shell.is_number(name))

    def evaluated(self, value: str | None, shown: str, shell: Shell, seen: set[str] | None = None) -> None:
        """A text that bash evaluates as arithmetic, where `a[$(command)]` runs a command and names are such texts."""
        if value is None and not re.fullmatch(r"\$\{?[#?]\}?|\$\{#\w+(\[[@*]\])?\}|\$\(\(.*\)\)", shown):
            names = [name for name in _NAMES.findall(shown) if _is_text(name, shell)]
            hidden = names or "`" in shown or "$(" in shown or re.search(r"\$\{?[0-9@*]", shown)
            if hidden and not self.runs_seen:  # where a script may run as much
                self.doubt(f"{shown!r} is evaluated as arithmetic, and its value is not known")
        elif value is not None and re.search(r"[`]|\$\(|\[[^\]]*[^\]\w@*$]", value):
            self.doubt(f"{shown!r} is evaluated as arithmetic, and may run commands")
        seen = set() if seen is None else seen
        for name in _NAMES.findall(value or ""):
            if name in seen or not _is_text(name, shell) or shell.variables.get(name) == "":
                continue
            seen.add(name)  # each once, however often they name one another
            self.evaluated(shell.variables.get(name), name, shell, seen)


def _is_text(name: str, shell: Shell) -> bool:
    """Whether a name may hold more than a number; one that the line has not touched comes from outside."""
    return (name in shell.variables or name in _FILLED) and not shell.is_number(name)


def trimmed(value: str | None, rest: str) -> str | None:
    """A value without an ending or a beginning that is written out, with a star at one end of it or none."""
    found = _TRIMS.match(rest)
    if value is None or found is None:
        return None
    how, (before, text, after) = found[1], found.groups()[1:]
    if not before and not after:
        return value.removesuffix(text) if how[0] == "%" else value.removeprefix(text)
    if bool(before) == (how[0] == "%") or bool(before) == bool(after):
        return None  # the star stands at the inner end, or at both
    at = value.rfind(text) if how in ("%", "##") else value.find(text)
    if at < 0:
        return value
    return value[:at] if how[0] == "%" else value[at + len(text) :]
