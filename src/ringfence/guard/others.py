"""Programs that run other programs, and the tools of a project."""

import posixpath
import re
import sys

from .arguments import (
    Call,
    apply_options,
    apply_role,
    is_own,
    links_in,
    nothing_elsewhere,
    runs_own,
    sorted_arguments,
    told_by_the_line,
)
from .inline import runs_code
from .patterns import lazy
from .places import SETTINGS
from .programs import ROWS, marked
from .reach import Walk
from .state import Field, Shell
from .variables import concern, emptied, handed_on

_NAME = lazy(r"[A-Za-z_]\w*\Z")
_ASSIGNS = lazy(r"([^=]*)=(.*)\Z", re.DOTALL)  # to env any word is one that has this in it


def after(walk: Walk, call: Call) -> None:
    """What follows the options is a command."""
    if call.name in _PUBLISHED:
        if is_installed(walk, call):
            runs_own(walk, call, call.operands)
            return
        is_here(walk, call, call.operands)
        odd = next((option for option, _ in call.options if option not in _ALONE), "")
        if odd:
            walk.doubt(f"{call.name} gets {odd}, after which the next word is perhaps not what it runs")
    if call.operands:
        walk.call(call.operands, outside(call.shell), call.stdin)
    elif call.name == "npx" and not call.has("-v"):
        walk.doubt("npx without a program runs what it reads from its input")


# Tools that are published by their own names. Who else has a name of the shell's there (`uvx ls`) is not known.
_OF_NODE = """
tsc tsx ts-node eslint prettier jest vitest mocha ava webpack vite rollup esbuild next ng turbo nx lerna playwright
cypress tailwindcss svelte-check biome swc stylelint tap xo standard tslint babel parcel gulp grunt knip depcheck nyc c8
pyright npm yarn pnpm bun node prisma serve http-server vue-tsc tsup storybook expo rimraf nodemon lint-staged madge
concurrently cross-env drizzle-kit
""".split()
_OF_PYTHON = """
ruff black isort flake8 pylint pyright basedpyright bandit autopep8 yapf pyflakes pycodestyle vulture mypy ty pytype
djlint yamllint tox nox pytest coverage pre-commit mkdocs poetry hatch pdm pipenv uv cmake ninja meson python
""".split()
_PUBLISHED = {"npx": _OF_NODE, "bunx": _OF_NODE, "npm": _OF_NODE, "uvx": _OF_PYTHON}


# Their options that take no value.
_ALONE = """
-y --yes --no --no-install -q --quiet --silent -v --verbose --version -V --bun --offline --prefer-offline --isolated
--refresh --no-cache --no-progress --ignore-scripts --directory --project
""".split()


def is_installed(walk: Walk, call: Call) -> bool:
    """Whether npx finds a program among the project's own modules and fetches none, in a sandbox."""
    name = call.operands[0].text if call.operands and call.operands[0].known else "."
    if name in ROWS or not walk.shows_all or call.name == "uvx" or not set(name) <= _OF_NAMES or call.options:
        return False
    places = {walk.bounds.root, *map(walk.stand, call.shell.places)}
    return any(walk.bounds.match(name, f"{place}/node_modules/.bin") for place in places)


_OF_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


def is_here(walk: Walk, call: Call, words: list[Field]) -> None:
    """A package with a stroke in its name (`@scope/name`, `owner/name`, an address) is fetched, and no path; so is a
    tool that the project does not have, by whatever name."""
    name = words[0].text if words else ""
    published = name in _PUBLISHED[call.name] if call.name in _PUBLISHED else "/" not in name
    if name[:1] not in ("/", ".", "") and not published:
        walk.doubt(f"{call.name} may fetch {words[0].shown!r}, and what that does is not known")


def after_one(walk: Walk, call: Call) -> None:
    """One word of its own, then a command."""
    if call.operands and not call.operands[0].known and call.operands[0].many:
        walk.doubt(f"where the command of {call.name} begins is not known")
    if len(call.operands) > 1:
        walk.call(call.operands[1:], outside(call.shell), call.stdin)


def outside(shell: Shell) -> Shell:
    """A program started from here knows neither the functions nor most builtins of this shell."""
    inner = shell.copy()
    inner.functions = {}
    return inner


def lock(walk: Walk, call: Call) -> None:
    if call.operands:
        if not call.operands[0].text.isdigit():
            walk.writes(call.operands[0], call.shell)
        rest = call.operands[1:]
        if rest and rest[0].text in ("-c", "--command"):
            walk.doubt("flock runs a text")
        elif rest:
            walk.call(rest, outside(call.shell), call.stdin)


def watch(walk: Walk, call: Call) -> None:
    if call.has("-x", "--exec"):
        after(walk, call)
    elif all(field.known for field in call.operands):
        text = " ".join(field.text for field in call.operands)
        plain_shell(walk, "watch", text)
        walk.line(text, child(call.shell))
    else:
        walk.doubt("watch runs a text that is not known")


def sudo(walk: Walk, call: Call) -> None:
    walk.doubt(f"{call.name} runs as somebody else")
    if call.has("-s", "-i", "--login") or not call.operands:
        return
    operands = list(call.operands)
    while operands and operands[0].known and _ASSIGNS.match(operands[0].text):
        operands.pop(0)
    if operands:
        walk.call(operands, outside(call.shell), call.stdin)


_ENV = marked(
    "^ -i0v -u:n -C:d -S:q --unset=n --chdir=d --split-string=q --ignore-environment --null --debug --default-signal? "
    "--ignore-signal? --block-signal?"
)


def env(walk: Walk, call: Call) -> None:
    words = [field for field in call.operands if not (field.known and field.text == "-")]
    found = sorted_arguments(walk, "env", _ENV, words, outside(call.shell), call.stdin)
    if found is None:
        return
    apply_options(walk, found)
    if len(words) < len(call.operands) or found.has("-i", "--ignore-environment"):
        found.shell.exported = frozenset()
    for value in found.values("-u", "--unset"):
        found.shell.exported -= {value.text} if value.known else found.shell.exported
        emptied(walk, [value.text])
    operands = list(found.operands)
    while operands:
        name, equals, _ = operands[0].text.partition("=")
        if equals and not _NAME.match(name):
            walk.doubt(f"env hands on {name!r}, which no shell calls a variable: to bash it may be a function")
        if not operands[0].known and "=" in operands[0].text:
            concern(walk, operands.pop(0).text.partition("=")[0], None, found.shell)
            continue
        assigns = _ASSIGNS.match(operands[0].text) if operands[0].known else None
        if assigns is None:
            break
        concern(walk, assigns[1], assigns[2], found.shell)
        handed_on(walk, assigns[1], assigns[2], found.shell)
        found.shell.assign(assigns[1], assigns[2])
        found.shell.exported |= {assigns[1]}
        operands.pop(0)
    if operands:
        walk.call(operands, found.shell, call.stdin)


_XARGS = marked(
    "^ -0rtpox -a:r -d:n -E:n -I:n -L:n -n:n -P:n -s:n -i? -l? -e? --arg-file=r --delimiter=n --replace? --max-args=n "
    "--max-procs=n --null --no-run-if-empty --verbose --interactive --max-lines? --max-chars=n --eof? --exit "
    "--show-limits --open-tty --process-slot-var=q"
)


def xargs(walk: Walk, call: Call) -> None:
    found = sorted_arguments(walk, "xargs", _XARGS, call.operands, outside(call.shell), None)
    if found is None:
        return
    apply_options(walk, found)
    text = walk.expander(call.shell).text(call.stdin) if call.stdin is not None else None
    if text is not None and not walk.bounds.reads_free:
        walk.told("xargs", [Field(text)], call.shell)
    command = found.operands or [Field("echo")]
    marks = [value for name, value in found.options if name in ("-I", "--replace", "-i")]
    if marks:
        last = marks[-1] or Field("{}")
        if not last.known:
            walk.doubt("what xargs replaces is not known")
        command = [_replaced(field, last.text) for field in command]
    else:
        command = [*command, Field("", False, "what xargs reads", many=True)]
    walk.call(command, found.shell)


def _replaced(field: Field, mark: str) -> Field:
    if not field.known or not mark or mark not in field.text:
        return field
    return Field(field.text.partition(mark)[0], False, field.raw)


# --- interpreters ------------------------------------------------------------------------------------------------


def shell(walk: Walk, call: Call) -> None:
    """A shell of its own: `-c` with a text that is known is read like any other line."""
    words = list(call.operands)
    text = None
    while words and words[0].known and re.match(r"[-+].", words[0].text):
        option = words.pop(0).text
        if option == "--":
            break
        if option in ("--norc", "--noprofile", "--posix"):
            continue
        if option == "-n" and words and words[0].known and not re.match(r"[-+]", words[0].text):
            walk.reads(words[0], call.shell)  # and runs nothing
            return
        if option == "-s":
            script(walk, call, [])
            return
        if option in ("-o", "+o", "-O", "+O") or not re.fullmatch(r"-[ceuxvlil]+|-e?u?x?o", option):
            walk.doubt(f"what the option {option} of {call.name} does is not known")
            return
        if option.endswith("o") and words and words.pop(0).text not in SETTINGS:
            walk.doubt(f"{call.name} is told to read its line in another way")
        if "i" in option or ("l" in option and not walk.bounds.held):
            walk.doubt(f"{call.name} {option} runs the start files first")
        text = option if "c" in option else text
    if text is None:
        script(walk, call, words)
        return
    if not words or not words[0].known:
        walk.doubt(f"{call.name} -c runs a text that is not known")
        return
    inner = child(call.shell)
    inner.positional = None if any(field.many for field in words[1:]) else tuple(words[2:])
    plain_shell(walk, call.name, words[0].text)
    walk.line(words[0].text, inner)


def child(shell: Shell) -> Shell:
    """A shell started from here, which knows what is exported and nothing else."""
    inner = outside(shell)
    inner.numbers = frozenset()
    inner.variables = {name: value if name in inner.exported else None for name, value in inner.variables.items()}
    inner.odd_words = ""
    return inner


_BASH_ONLY = lazy(
    r"\$['\"\[]|\(\(|\[\[|\w\+?=\(|\w\+=|[<>]\(|<<<|&>|>&[^\d&-]|[|;]&|\{[^{}\s,]*(?:,|\.\.)|\$\{!|\$\{\w+[:/^,@\[]"
    r"|\b(?:function|select|coproc|pushd|popd|dirs|declare|typeset|builtin|let|shopt|mapfile|readarray|enable|source"
    r"|disown|compgen|complete|caller|bind|logout|suspend|help|history|time)\b|\bcd\s+-\w*[e@]|\bread\s+-[^r]|\b(?:printf|wait)\s+-|\{\w+\}[<>]"
    r"|\b(?:export|readonly|local)\s+\w+=[^\s\x22\x27;&|]*[$`]"
)


def plain_shell(walk: Walk, name: str, text: str) -> None:
    """What other shells read in another way than bash: `((touch x))` makes a file, and `pushd` is not there."""
    if name != "bash" and (found := _BASH_ONLY.search(text)):
        walk.doubt(f"{name} may read {found.group()!r} in another way than bash does")


def script(walk: Walk, call: Call, words: list[Field]) -> None:
    if words and is_own(walk, words[0], call.shell):
        runs_own(walk, call, words)
        return
    if words:
        walk.doubt(f"{call.name} runs {words[0].shown!r}, which is not read here")
        return
    if call.stdin is None:
        walk.doubt(f"{call.name} runs what it reads from its input")
        return
    inner = outside(call.shell)
    text = walk.expander(inner).text(call.stdin)
    inner.positional = None  # it has arguments of its own
    if text is None:
        walk.doubt(f"{call.name} runs a text that is not known")
    else:
        inner.forget()
        plain_shell(walk, call.name, text)
        walk.line(text, inner)


MODULES = frozenset(
    "pytest unittest mypy ruff black isort flake8 pylint tox nox build coverage doctest compileall pyflakes "
    "pycodestyle "
    "bandit pyright sphinx mkdocs pre_commit behave hypothesis twine poetry hatch pdm tabnanny".split()
)
_OF_VENV = ("pyvenv.cfg", *(f"bin/{name}" for name in ("activate", "activate.csh", "activate.fish", "Activate.ps1")))
_PLAIN_MODULES = frozenset("platform site sysconfig calendar this timeit http.server tokenize ast dis".split())


_SERVES = lazy(r"(?:\d+|--bind|-b|127\.0\.0\.1|localhost)\Z")  # a port, and who may ask


_PYTHON_VALUES = lazy(
    r"(?:dev|utf8|importtime|faulthandler|tracemalloc|showrefcount|error|ignore|always|default)"
    r"(?:=\w+)?(?::[\w ]*(?::\w*(?::[\w.:]*)?)?)?"  # a category with a point in it is imported
)


def python(walk: Walk, call: Call) -> None:
    words = list(call.operands)
    while words and words[0].known and re.fullmatch(r"-[uBEsSOvqIbW]+|-X|-W\w+|-VV?", words[0].text):
        if words.pop(0).text in ("-X", "-W") and words and not _PYTHON_VALUES.fullmatch(words.pop(0).text):
            walk.doubt(f"what {call.name} is told before its program is not known")
    if runs_code(walk, call, words):
        return
    if not words:
        if call.operands and call.operands[-1].text in ("-V", "-VV"):
            return
        walk.doubt(f"{call.name} runs what it reads from its input")
        return
    if words[0].text == "-m" and len(words) > 1 and words[0].known and words[1].known:
        module(walk, call, words[1].text, words[2:])
        return
    if is_own(walk, words[0], call.shell):
        runs_own(walk, call, words)
        return
    what = "a text of its own" if words[0].text.startswith("-c") else repr(words[0].shown)
    walk.doubt(f"{call.name} runs {what}, and what that does is not known")


def module(walk: Walk, call: Call, name: str, words: list[Field]) -> None:
    made = {posixpath.basename(one.path) for one in walk.findings.values() if one.access == "write"}
    first = ("sitecustomize", "usercustomize", name.partition(".")[0])
    modules = () if walk.shows_all else (*sys.stdlib_module_names, *first)
    if any(text.partition(".")[0] in modules for text in made):
        walk.doubt(f"the module {name} may import what this line has written itself")
    if name in ("pip", "uv") or (name in MODULES and name.replace("_", "-") in ROWS):
        walk.call([Field(name.replace("_", "-")), *words], outside(call.shell))
    elif name in ("venv", "virtualenv"):
        plain = [field.text for field in words if field.known]
        plain = [text for text in plain if not walk.has_written(posixpath.join(text, "bin/activate"), call.shell)]
        for field in words:
            if not field.known or not field.text.startswith("-"):
                walk.writes(field, call.shell)
                for name in _OF_VENV if field.known and not walk.bounds.held else ():  # through links that are there
                    walk.writes(Field(posixpath.join(field.text, name), raw=field.raw), call.shell)
                links_in(walk, call, [field])  # to the interpreter
            elif field.text not in (
                "--clear",
                "--without-pip",
                "--upgrade-deps",
                "--upgrade",
                "--system-site-packages",
            ):
                walk.doubt(f"what the option {field.text} of venv does is not known")
        walk.environments = {path for text in plain for path in walk.absolute(text, call.shell, "")}, walk.written_paths
    elif name == "json.tool":
        files = [field for field in words if not field.known or not field.text.startswith("-") or field.text == "-"]
        if any(not field.known for field in words) or any(field.text == "--indent" for field in words):
            files = [field for field in files if not field.text.isdigit()]
        for file in files[1:]:
            apply_role(walk, "w", file, call)
        for file in files[:1]:
            apply_role(walk, "r", file, call)
        if any(field.may_be_option and not field.known for field in words):
            walk.doubt("json.tool gets something that is not known")
    elif name == "py_compile":
        for field in words:
            beside = posixpath.join(posixpath.dirname(field.text), "__pycache__")
            if field.known or not walk.bounds.held:
                walk.writes(Field(beside, field.known, raw=field.raw), call.shell)
    elif name in MODULES:
        call.name = name
        told_by_the_line(walk, call, words)
        nothing_elsewhere(walk, call, words)
        walk.notes.append(f"{name} runs what the project tells it to")
    elif name == "http.server" and all(one.known and _SERVES.match(one.text) for one in words):
        walk.reads(Field("."), call.shell)
    elif walk.shows_all and (words or name not in _PLAIN_MODULES):
        runs_own(walk, call, [Field(name), *words])  # the project's, or Python's
    elif name not in _PLAIN_MODULES or words:
        walk.doubt(f"what the module {name} does is not known")


# Interpreters whose first word, where it is no option, is a script; and how some only look at one.
_SCRIPTED = frozenset("node ruby perl php lua luajit Rscript julia tclsh ts-node tsx fish zsh ksh".split())
_CHECKS = {"node": "--check", "ruby": "-c", "php": "-l"}


# Of these, words that only show something, and those that do what the project says.
_SHOWS = {
    "gh": lazy(
        r"(?s)(?:pr|issue|run|repo|release|workflow|label) (?:view|list|status|diff|checks)\b|auth status\Z"
        r"|search (?:code|issues|prs|repos|commits)\b"
        r"|api (?!graphql\b|-|\w+:/)(?!.* -(?!-paginate(?: |\Z)|-jq |q ))"
    ),
    **dict.fromkeys(
        ("docker", "podman"),
        lazy(
            r"(?!.* --(?:runtime|conmon|root|runroot|imagestore|tmpdir|network|hooks|module|url|out|remote|ssh"
            r"|storage)\b)"
            r"(?:(?:ps|images|logs|info|top|port|version|inspect|stats|compose (?:ps|logs|images|ls|version)"
            r"|(?:container|image|volume|network) (?:ls|inspect))(?: |\Z)|compose config(?: --services| -q)?\Z)"
        ),
    ),
    "kubectl": lazy(
        r"(?is)(?:(?:-n|--namespace)[ =][\w-]+ )?(?:(?:get|describe) (?!.*\bsecrets?\b)(?!-\w*[fk])|logs "
        r"|top |explain |version\Z|(?:cluster-info|config current-context)\Z)(?!.* -\w*[fk]|(?:.* )?(?:-[fpAw]*s"
        r"|--(?:filename|kustomize|kubeconfig|kuberc|as|token|server|raw|template|cache[-_]dir|profile"
        r"|log[-_](?:file|dir))\b|(?:-o|--output).*file))"
    ),
    "openssl": lazy(r"rand -(?:hex|base64) \d+\Z"),
    # Whether somebody listens; and what a database of this machine has, by no function that could do more.
    **dict.fromkeys(("nc", "ncat"), lazy(r"-[nv]*z[nv]*(?: -v| -w ?\d+)* \w[\w.-]* \d+\Z")),
    "redis-cli": lazy(r"(?:-[hp] [\w.]+ )*ping\Z"),
    "psql": lazy(
        r"(?is)(?!.*(?<!\bcount)(?<!\bsum)(?<!\bmin)(?<!\bmax)(?<!\bavg)\()(?!.*\b(?:into|copy)\b)(?:-h\0?localhost\0|-[pUd]\0?\w+\0"
        r"|-[tAqXwx]+\0|--csv\0|\w+\0|postgres(?:ql)?://(?:[\w:%]+@)?(?:localhost|127\.0\.0\.1)(?::\d+)?/\w+\0)*"
        r"-[tAqX]*c\0(?:\\(?:dt|d|l|du|dn)\+?(?: \w+)?|(?:select|show)\b[^;\\\0]*;?)(?:\0\w+)?\Z"
    ),
    "rustup": lazy(r"show\Z|(?:toolchain|target|component) list\b"),
}
_DOES = {
    "swift": lazy(r"(?!.* -X)(?:build|test|run)(?: |\Z)"),
    **dict.fromkeys(
        ("node", "tsx"),
        lazy(
            r"--test(?: [^-]\S*| --(?:watch|experimental-test-coverage"
            r"|test-(?:only|name-pattern=\S+|concurrency=\d+)))*\Z"
        ),
    ),
    "deno": lazy(
        r"(?:task|test|fmt|lint|check|bench|run)(?: (?!-|\S*:)\S+| -A| --allow-[\w-]+| --watch| --coverage)*\Z"
    ),
    "java": lazy(r"(?:-ea |-D[\w.]+=\S* |-Xm[sx]\w+ )*(?:(?:-jar|-cp \S+|-classpath \S+) )?[^-@]"),
    "php": lazy(r"-S (?:localhost|127\.0\.0\.1):\d+\Z"),
    "openssl": lazy(
        r"(?:x509|req|genrsa|genpkey|pkey|rsa|ec|ecparam|dgst|verify|pkcs12|asn1parse|passwd) (?!.*-engine)"
    ),
    "helm": lazy(r"(?:template|lint) (?!.*(?:-post-renderer|:/))"),
}
# Options of node that change how it runs a script, and not which.
_NODE_PLAIN = lazy(
    r"--(?:inspect(?:-brk)?|watch|trace-\w+|no-(?:warnings|deprecation)|enable-source-maps|max-old-space-size=\d+|expose-gc"
    r"|experimental-(?:strip-types|vm-modules|json-modules|sqlite)|env-file(?:-if-exists)?=[\w.-]+)\Z"
)


def interpreter(walk: Walk, call: Call) -> None:
    while call.name == "node" and len(call.operands) > 1 and call.operands[0].known:
        if not _NODE_PLAIN.match(call.operands[0].text):
            break
        call.operands = call.operands[1:]
    texts = [field.text for field in call.operands if field.known]
    if call.name == "kubectl" and "logs" in texts[:1]:
        texts = [text for text in texts if text != "-f"]  # it follows them
    known = bool(texts) and all(field.known for field in call.operands)
    if known and set(texts) <= {"-v", "-V", "-version", "--version", "version"}:
        return
    line = ("\0" if call.name == "psql" else " ").join(texts)
    opens = any(re.match(r"-w|--w|--config|-H|--host|--context", text) for text in texts)  # a browser, other settings
    if known and call.name in _SHOWS and _SHOWS[call.name].match(line) and not opens:
        return
    new = any(walk.has_brought(text, call.shell) for text in texts[1:])
    if known and call.name in _DOES and walk.bounds.held and _DOES[call.name].match(line) and not new:
        runs_own(walk, call, call.operands)
        return
    checks = texts[:1] == [_CHECKS.get(call.name)] and len(call.operands) == 2
    if checks and len(texts) == 2 and texts[1][:1] not in ("-", ""):
        walk.reads(call.operands[1], call.shell)
        return
    if runs_code(walk, call, call.operands):
        return
    if call.name in _SCRIPTED and call.operands and is_own(walk, call.operands[0], call.shell):
        runs_own(walk, call, call.operands)
        return
    what = repr(call.operands[0].shown) if call.operands else "what it reads from its input"
    walk.doubt(f"{call.name} runs {what}, and what that does is not known")


def unknown(walk: Walk, call: Call) -> None:
    walk.doubt(f"what {call.name} does is not known")


HANDLERS = {
    "after": after,
    "after1": after_one,
    "lock": lock,
    "watch": watch,
    "sudo": sudo,
}
RAW = {
    "env": env,
    "xargs": xargs,
    "shell": shell,
    "python": python,
    "interpreter": interpreter,
    "unknown": unknown,
}
