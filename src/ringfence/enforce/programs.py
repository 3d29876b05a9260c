"""What git runs in a workspace because its configuration or the user's says so: hooks, and programs by their names."""

import os
import re
from collections.abc import Mapping

from ..model import PlanError
from .gitfiles import Read, check_means, first_line, is_possible, tree_of
from .links import led_to, target
from .repository import linked_worktree, pointed_at, submodule

MOST_INCLUDED = 64
_MOST_RUN = 1 << 16  # of what names programs and hooks, 16 for each and its bytes
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
    pid lazygit.yml glab-cli sl/config""".split()
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
    own = pointed_at(top) or f"{top}/.git"
    common = first_line(f"{own}/commondir")
    return (led_to(os.path.join(own, common)) if common else own), own


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
    users, read = _of_user(home, environ or {}), Read()
    configured = (f"{git}/config", f"{git}/config.worktree", *([f"{own}/config.worktree"] if own else []))
    files: list[tuple[str, tuple[str, ...]]] = [(path, (top or workspace,)) for path in configured]
    for module in modules or ():
        tree = led_to(os.path.join(module, tree_of(read[f"{module}/config"])))
        files += [(f"{module}/{name}", (tree,)) for name in ("config", "config.worktree")]
    trees = tuple(dict.fromkeys(tree for _, bases in files for tree in bases))
    found, hooks, run = _configured([*files, *((path, trees) for path in users)], home, read)
    found += users
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
    both = (path for name in filter(is_possible, found) for path in (name, led_to(name)))
    inside = {os.path.normpath(path.removesuffix("/_").rstrip("/")) for path in both}
    roots = tuple(f"{root}/" for root in (workspace, git, own) if root)
    return sorted(path for path in inside if path.startswith(roots) and not path.endswith("/.git"))


def _configured(files: list[tuple[str, tuple[str, ...]]], home: str, read: Read) -> tuple[list[str], list[str], int]:
    """What files of configuration, each with the directories that it is about, and those that they include name: to be
    run or included; as a directory of hooks; and how much that is."""
    found, hooks, run, first = list[str](), list[str](), 0, len(files)
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
            if not is_possible(place):
                continue
            if key in ("core.hookspath", "init.templatedir"):
                hooks += [os.path.join(base, place) for base in bases]
                continue
            found.append(os.path.join(os.path.dirname(path), place))
            if (found[-1], bases) not in files:
                files.append((found[-1], bases))
        if len(files) > first + MOST_INCLUDED:
            raise PlanError(path, f"git includes more than {MOST_INCLUDED} files of configuration", "include fewer")
    return found, hooks, run


def _check_named(path: str, run: int) -> None:
    if run > _MOST_RUN:
        raise PlanError(path, "git runs more programs than are looked for, by their names", "name fewer")


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
    for word in filter(is_possible, dict.fromkeys((*words, *quoted, line))):
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
        check_means(error)
        return []
