"""Where the repository of a workspace is, when it is not `.git` itself: of a linked worktree, or of a submodule.

The workspace only says so in a file, which may be hostile. It is believed when the repository says the same of the
workspace, where no command could have written it, and all of it belongs to the workspace's owner.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from ..model import SESSION_PREFIX, PlanError
from .links import ABSENT, is_there, led_to, target

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

NOWHERE = "/nonexistent"
_MOST = 1 << 16
_MOST_SETTINGS = 1 << 22  # of one file, and of all
_MOST_RUN = 1 << 16  # of what names programs and hooks, 16 for each and its bytes
_PATH_MOST, _NAME_MOST = 4096, 255
MOST_LINE = 2 * _PATH_MOST  # that names a path: to follow a longer one, name by name, takes seconds
_HEADER = re.compile(r'\s*\[([^\s\]"]*)(\s+"(?:[^"\\]|\\.)*")?\s*\]')
_ESCAPED = {"n": "\n", "t": "\t", "b": "\b"}
_BLANK = " \t\r"
MOST_MODULES = 64
MOST_WORKTREES = 1000  # each is four names to be held
MOST_INCLUDED = 64
_SHARED = frozenset(
    "objects refs reftable logs worktrees lost-found packed-refs packed-refs.lock packed-refs.new rr-cache".split()
)
_CALLED = re.compile(r"\.git(?:/worktrees/[^/]+)?/modules/|\.git$")
# The settings whose value git runs, by section and key: what a subsection is called does not matter. Not aliases, which
# run a program of the workspace for whoever asks for it, as make does.
_RUN = frozenset(
    """core.fsmonitor core.sshcommand core.pager core.editor core.askpass core.gitproxy core.alternaterefscommand
    sequence.editor gpg.program gpg.defaultkeycommand credential.helper filter.clean filter.smudge filter.process
    diff.external diff.command diff.textconv merge.driver difftool.cmd difftool.path mergetool.cmd mergetool.path
    interactive.difffilter trailer.command trailer.cmd uploadpack.packobjectshook remote.uploadpack remote.receivepack
    submodule.update tar.command hook.command gc.recentobjectshook man.cmd man.path browser.cmd browser.path guitool.cmd
    sendemail.tocmd sendemail.cccmd sendemail.headercmd sendemail.sendmailcmd sendemail.smtpserver imap.tunnel
    svn.authorsprog lfs.path lfs.clean lfs.smudge instaweb.httpd""".split()
)
_REMOTE = frozenset(("remote.url", "remote.pushurl"))  # which git runs where they begin so
_BY_PROGRAM = "ext::"
# What is kept of a git directory in the workspace that is not called .git.
_KEPT = tuple(
    """config hooks config.worktree commondir modules info/attributes objects/info/alternates remotes branches gitweb
    pid""".split()
)
HOOKS = tuple(
    """applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg
    post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update
    post-rewrite reference-transaction push-to-checkout pre-auto-gc sendemail-validate fsmonitor-watchman
    post-index-change p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit""".split()
)
_QUOTED = re.compile(r"""'([^']+)'|"([^"]+)\"""")
_WORD = re.compile(r"""(?:\\.|[^\s;|&()<>="'`\\])+""")
_UNKNOWN = re.compile(r"(?:\$\w+|\$\{\w+\})?/+")  # what the shell puts before a path: of `$PWD/x`, of `$(pwd)/x`
_INSTALLED = frozenset((".venv", "venv", "node_modules"))  # package managers replace them whole
Settings = list[tuple[str, str]]


class Repository(msgspec.Struct, frozen=True):
    """The repository of a workspace."""

    git: str  # the workspace's own git directory
    worktree: tuple[str, str] | None  # of a linked worktree: that directory, and the common one
    submodule: str  # of a submodule: that directory
    is_session: bool
    project: str  # of a session: the git directory of its project
    modules: list[str] | None  # the git directories of its submodules; None where nobody can look


def repository_of(workspace: str) -> Repository:
    """The repository of a workspace as it is now, or as one would be that is made there."""
    worktree = linked_worktree(workspace)
    inside = "" if worktree else submodule(workspace)
    is_session = worktree is not None and os.path.basename(worktree[0]).startswith(SESSION_PREFIX)
    project = project_of(workspace, *worktree) if worktree and is_session else ""
    git = worktree[0] if worktree else inside or f"{workspace}/.git"
    return Repository(git, worktree, inside, is_session, project, modules(git))


def linked_worktree(workspace: str) -> tuple[str, str] | None:
    """Where the repository of a linked worktree is: its own git directory, and the common one."""
    own = _pointed_at(workspace)
    if not own:
        return None
    common = led_to(os.path.join(own, _first_line(f"{own}/commondir") or NOWHERE))
    back = led_to(os.path.join(own, _first_line(f"{own}/gitdir") or NOWHERE))
    inside = workspace.rstrip("/") + "/"
    if (
        back != f"{workspace}/.git"
        or os.path.dirname(own) != f"{common}/worktrees"
        or (common + "/").startswith(inside)
    ):
        return None
    return (own, common) if _is_theirs(workspace, own, common) else None


def project_of(workspace: str, own: str, common: str) -> str:
    """The git directory of the project whose session a workspace is; "" where there is none, or it does not say so too.

    A session has a repository of its own, which takes the project's objects for its own.
    """
    lent = _first_line(f"{common}/objects/info/alternates")
    project = lent.removesuffix("/objects")
    if lent == project or not project.startswith("/") or led_to(project) != project:
        return ""
    known = _first_line(f"{project}/worktrees/{os.path.basename(own)}/gitdir")
    return project if known == f"{workspace}/.git" and _is_theirs(workspace, project) else ""


def submodule(workspace: str) -> str:
    """The git directory of a submodule, in the repository of the project around it, or one that was put elsewhere; ""
    where there is none.

    Its configuration, which no command may write, names the workspace as its work tree. Elsewhere a command may have
    written one: what is not called like a git directory, or holds the workspace, is not believed.
    """
    own = _pointed_at(workspace)
    is_called = _CALLED.search(own) is not None
    if not is_called or f"{own}/".startswith(f"{workspace}/") or f"{workspace}/".startswith(f"{own}/"):
        return ""
    tree = _work_tree(_Read()[f"{own}/config"])
    if not tree or led_to(os.path.join(own, tree)) != workspace or os.path.lexists(f"{own}/commondir"):
        return ""
    return own if _is_theirs(workspace, own) else ""


def worktrees(*gits: str) -> list[str] | None:
    """Where the repositories with these git directories keep their linked worktrees; None when they are too many, for a
    command may add some, or where nobody can look: a command that closed the directory could open it again."""
    found = []
    for git in gits:
        try:
            found += [f"{git}/worktrees/{name}" for name in sorted(os.listdir(f"{git}/worktrees"))]
        except ABSENT:
            pass
        except OSError:
            return None
    return found if len(found) <= MOST_WORKTREES else None


def beside(workspace: str, common: str) -> list[str] | None:
    """What is another's in the git directory that linked worktrees share: their own directories, and what is not git's,
    such as worktrees in a bare repository. None where nobody can look, or the workspace itself is in it."""
    if f"{workspace}/".startswith(f"{common}/"):
        return None
    try:
        with os.scandir(common) as entries:
            odd = sorted(entry.path for entry in entries if entry.name not in _SHARED and not entry.is_symlink())
    except OSError:
        return None
    found = worktrees(common)
    return None if found is None else found + [path for path in odd if path[len(common) + 1] in "loprw"]


def modules(git: str) -> list[str] | None:
    """The git directories of the submodules of a repository, below `modules` in its own; None when they are too many,
    or where nobody can look."""
    found: list[str] = []
    waiting = [f"{git}/modules"]
    try:
        while waiting and len(found) <= MOST_MODULES:
            for path in directories(waiting.pop()):
                is_module = any(is_there(f"{path}/{name}") for name in ("HEAD", "config"))
                found += [path] if is_module else []
                waiting.append(f"{path}/modules" if is_module else path)  # a name may have slashes, a module modules
    except OSError:
        return None
    return sorted(found) if len(found) <= MOST_MODULES else None


def _around(workspace: str) -> list[str]:
    """The directories whose repository a workspace belongs to, itself and above; the workspace where there is none. All
    of them: a command can make another in the workspace, and who works above it later has the one above."""
    found, top = [], workspace
    while top != "/":
        found += [top] if os.path.lexists(f"{top}/.git") else []
        top = os.path.dirname(top)
    return found or [workspace]


def _git_of(top: str) -> tuple[str, str]:
    """Where git finds the configuration of a directory, and the rest, believed or not: what is named there is only kept
    as it is."""
    own = _pointed_at(top) or f"{top}/.git"
    common = _first_line(f"{own}/commondir")
    return (led_to(os.path.join(own, common)) if common else own), own


def all_programs(
    workspace: str,
    worktree: tuple[str, str] | None,
    elsewhere: str,
    modules: list[str] | None,
    home: str,
    environ: Mapping[str, str],
) -> list[str]:
    """What git runs in the workspace: by its own repository, or by the one that it is a part of. `environ` is that of
    whoever runs git there later."""
    found: list[str] = []
    for top in _around(workspace):
        if top != workspace:
            worktree, elsewhere, modules = linked_worktree(top), submodule(top), None
        git, own = worktree[::-1] if worktree else _git_of(top)
        found += programs(workspace, elsewhere or git, home, own, modules, top, environ)
    return sorted(set(found))


def _of_user(home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The files of configuration that git reads in every repository."""
    chosen = [environ.get(name, "") for name in ("GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL")]
    further = environ.get("XDG_CONFIG_HOME", "")
    chosen += [f"{further}/git/config"] if further else []
    files = ("/etc/gitconfig", f"{home}/.gitconfig", f"{home}/.config/git/config")
    return tuple(dict.fromkeys((*files, *(os.path.abspath(path) for path in chosen if path))))


def programs(
    workspace: str,
    git: str,
    home: str,
    own: str = "",
    modules: list[str] | None = None,
    top: str = "",
    environ: Mapping[str, str] | None = None,
) -> list[str]:
    """What in the workspace or its git directory git runs, or takes for configuration, because the repository or the
    user says so: the directory of hooks, programs, included files, and what links among the hooks lead to. Also for its
    submodules. `own` is the git directory of a linked worktree, `top` the worktree's directory if the workspace lies
    below it."""
    users = _of_user(home, environ or {})
    found, hooks, read = list(users), list[str](), _Read()
    configured = (f"{git}/config", f"{git}/config.worktree", *([f"{own}/config.worktree"] if own else []))
    files: list[tuple[str, tuple[str, ...]]] = [(path, (top or workspace,)) for path in configured]
    for module in modules or ():
        tree = led_to(os.path.join(module, _work_tree(read[f"{module}/config"])))
        files += [(f"{module}/{name}", (tree,)) for name in ("config", "config.worktree")]
    trees = tuple(dict.fromkeys(tree for _, bases in files for tree in bases))
    files += [(path, trees) for path in users]
    first, run = len(files), 0
    for path, bases in files:  # it grows
        for key, value in read[led_to(path)]:
            section, last = key.partition(".")[0].removesuffix(" *"), key.rpartition(".")[2]
            name = f"{section}.{last}"
            is_run = section == "pager" or name in _RUN or (name in _REMOTE and value.startswith(_BY_PROGRAM))
            run += 16 + len(value) if is_run or last in ("hookspath", "templatedir") else 0
            _check_named(path, run)
            if is_run:
                line = value.removeprefix(_BY_PROGRAM)
                found += [program for base in bases for program in _named(line, base, home)]
            if key not in ("core.hookspath", "init.templatedir", "include.path", "includeif *.path"):
                continue
            place = _expanded(value, home)
            if not _is_possible(place):
                continue
            if key in ("core.hookspath", "init.templatedir"):
                hooks += [os.path.join(base, place) for base in bases]
                continue
            found.append(os.path.join(os.path.dirname(path), place))
            if (found[-1], bases) not in files:
                files.append((found[-1], bases))
        if len(files) > first + MOST_INCLUDED:
            raise PlanError(path, f"git includes more than {MOST_INCLUDED} files of configuration", "include fewer")
    for path in (*(f"{path}/hooks" for path in (git, *(modules or ()))), *hooks):
        found += (linked := _linked_hooks(path))
        _check_named(path, run := run + sum(16 + len(name) for name in linked))
    # Nobody could work, or commit, if these were held whole: where one is the directory of hooks, each of them is.
    whole = (workspace, f"{workspace}/.git", git)
    found += [f"{path}/{name}" for path in hooks if led_to(path) in whole for name in HOOKS]
    found += hooks
    is_bare = all(os.path.lexists(f"{workspace}/{name}") for name in ("HEAD", "objects", "refs"))
    for place in (workspace if is_bare else git, git):  # a git directory in the workspace by another name
        if place != f"{workspace}/.git" and f"{place}/".startswith(f"{workspace}/"):
            found += [f"{place}/{name}" for name in _KEPT]
    # Husky's hooks are in a directory `_`, and run what lies beside it. Links lead here from outside, too.
    both = (path for name in filter(_is_possible, found) for path in (name, led_to(name)))
    inside = {os.path.normpath(path.removesuffix("/_").rstrip("/")) for path in both}
    roots = tuple(f"{root}/" for root in (workspace, git, own) if root)
    return sorted(path for path in inside if path.startswith(roots) and not path.endswith("/.git"))


def _check_named(path: str, run: int) -> None:
    if run > _MOST_RUN:
        raise PlanError(path, "git runs more programs than are looked for, by their names", "name fewer")


def _is_possible(path: str) -> bool:
    """Whether anything can stand at a path: no kernel takes a longer one, and looking for it would take minutes."""
    text = os.fsencode(path)
    return len(text) < _PATH_MOST and all(len(name) <= _NAME_MOST for name in text.split(b"/"))


def _expanded(path: str, home: str) -> str:
    return f"{home}{path[1:]}" if path.startswith("~/") else os.path.expanduser(path)


def _named(line: str, base: str, home: str) -> list[str]:
    """The programs that a line for the shell names by a path, or gives to another program to run: those that are there,
    and those that could be. What package managers install is left out: they replace it, and what belongs to it would
    have to be held, too."""
    line = line.removeprefix("!").replace("${HOME}", home).replace("$HOME", home)
    words = [word.replace("\\", "") for word in _WORD.findall(line)]
    quoted = [first or second for first, second in _QUOTED.findall(line)]
    found = []
    for word in filter(_is_possible, dict.fromkeys((*words, *quoted, line))):
        path = os.path.join(base, _expanded(word, home))
        is_first = [word] == words[:1]
        if "/" not in word:
            is_named = not is_first and os.path.isfile(path)
        elif is_first or (" " not in path.removeprefix(base) and os.path.isdir(os.path.dirname(path))):
            is_named = not os.path.isdir(path)
        else:
            is_named = os.path.isfile(path)
        unknown = _UNKNOWN.match(word)
        there = os.path.join(base, word[unknown.end() :]) if unknown else ""  # perhaps it is this directory
        named = [path] * is_named + [there] * os.path.isfile(there)
        found += [path for path in named if _INSTALLED.isdisjoint(path.removeprefix(base).split("/"))]
    return found


def _linked_hooks(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            links = [entry.path for entry in entries if entry.is_symlink()]
        return [os.path.join(led_to(directory), text) for link in links if (text := target(link))]
    except OSError as error:
        _check_means(error)
        return []


def _check_means(error: OSError) -> None:
    """Of a file that could not be opened for want of means nothing is known, and it is no missing one."""
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        raise error


class _Read(dict[str, Settings]):
    """Files of configuration of git's, each read once, and no more bytes of all than are looked at."""

    left = _MOST_SETTINGS

    def __missing__(self, path: str) -> Settings:
        data = content(path, self.left + 1)
        if (left := self.left - len(data)) < 0:
            raise PlanError(path, f"git's configuration is larger than {_MOST_SETTINGS >> 20} MiB", "make it smaller")
        self.left = left
        return self.setdefault(path, _parsed(data))


def _parsed(data: bytes) -> Settings:
    """Settings, each by its section and key."""
    section, found = "", []
    lines = iter(os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).replace("\r\n", "\n").split("\n"))
    for line in lines:
        place = 0
        while header := _HEADER.match(line, place):
            section, place = header[1].lower() + (" *" if header[2] else ""), header.end()
        key, equals, rest = line[place:].partition("=")
        if not equals or "#" in key or ";" in key:
            continue
        found.append((f"{section}.{key.strip().lower()}", _value(rest, lines)))
    return found


def _value(rest: str, lines: Iterator[str]) -> str:
    """A value as git reads it: without quotes, wherever they are, without a comment, and without the blanks around it.
    It may go on in the next line."""
    found, length, is_quoted, is_escaped = list[str](), 0, False, True
    while is_escaped:
        is_escaped = False
        for char in rest:
            if char in _BLANK and not is_quoted and not is_escaped:
                found += [char] if found else []
                continue
            if char in "#;" and not is_quoted and not is_escaped:
                break
            if is_escaped or char not in '\\"':
                found.append(_ESCAPED.get(char, char) if is_escaped else char)
            is_quoted ^= char == '"' and not is_escaped
            is_escaped = char == "\\" and not is_escaped
            length = len(found)  # what is blank before it stays
        rest = next(lines, "") if is_escaped else ""
    return "".join(found[:length]).partition("\0")[0]


def directories(path: str) -> list[str]:
    """The directories in a directory, none where there is none."""
    try:
        with opened(path) as entries:
            return [f"{path}/{entry.name}" for entry in entries if entry.is_dir(follow_symlinks=False)]
    except ABSENT:
        return []


def opened(path: str) -> "AbstractContextManager[Iterator[os.DirEntry[str]]]":
    """What is in a directory. One whose names can be listed but not looked at (mode 0444) is closed, too: `.` is such a
    name."""
    return os.scandir(f"{path}/.")


def _pointed_at(workspace: str) -> str:
    """The git directory that a `.git` file names, canonical."""
    pointer = _first_line(f"{workspace}/.git")
    if not pointer.startswith("gitdir: "):
        return ""
    return led_to(os.path.join(workspace, pointer.removeprefix("gitdir: ")))


def _is_theirs(workspace: str, *paths: str) -> bool:
    owner, found = os.stat(workspace).st_uid, map(facts_of, paths)
    return all(facts is not None and stat.S_ISDIR(facts.st_mode) and facts.st_uid == owner for facts in found)


def _work_tree(settings: Settings) -> str:
    """core.worktree in the simple form in which git writes it."""
    tree = dict(settings).get("core.worktree", "")  # the last one
    return tree if _is_possible(tree) else ""


def setting(git: str, wanted: str) -> str:
    """What the configuration of a git directory says, in the simple form in which git writes it; "" where nothing."""
    path = os.path.join(git, _first_line(f"{git}/commondir"), "config")
    return dict(_Read()[path]).get(wanted, "")


def work_tree(git: str) -> str:
    """The directory whose files a git directory is about: it, or its configuration, says which; or it lies there."""
    back, tree = _first_line(f"{git}/gitdir"), _work_tree(_Read()[f"{git}/config"])
    return os.path.dirname(back) if back else os.path.join(git, tree or "..")


def _first_line(path: str) -> str:
    """The first line of a small regular file, or nothing."""
    text = content(path)
    line = text.partition(b"\n")[0]
    return os.fsdecode(line) if b"\0" not in text and len(line) <= MOST_LINE else ""


def content(path: str, most: int = _MOST) -> bytes:
    """The beginning of a regular file that is no link, or nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        _check_means(error)
        return b""
    try:
        facts = os.fstat(fd)
        return os.read(fd, min(facts.st_size, most)) if stat.S_ISREG(facts.st_mode) else b""
    finally:
        os.close(fd)


def facts_of(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):  # no path has a null in it
        return None


def is_new(path: str, since: int) -> bool:
    """Whether something has changed, or what a link leads to has."""
    facts = facts_of(path)
    if facts is not None and stat.S_ISLNK(facts.st_mode) and facts.st_ctime_ns < since:
        try:
            facts = os.stat(path)
        except OSError:
            return False
    return facts is not None and facts.st_ctime_ns >= since


def whole(path: str) -> bytes | None:
    """All that a file says, nothing where there is none; None where git may read what we do not: a link, or a long
    one."""
    facts = facts_of(path)
    if facts is None:
        return b""
    text = content(path)
    return text if stat.S_ISREG(facts.st_mode) and len(text) == facts.st_size else None
