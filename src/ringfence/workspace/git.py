"""Git, as a program that is not trusted: it never sees the repository's own configuration, nor ours, nor a hook.

A repository's configuration names programs in more ways than a list of them could cover (filters, drivers, helpers,
includes of other files), and git has no switch to leave it unread. So git is shown a common directory of ours: links
to the objects, refs and logs, and a configuration written here from an allow-list of keys that are mere settings.
Everything is said to git by its environment; it discovers nothing.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence

from ..model import SessionError
from ..model.session import Fault
from . import narrow, paths

SECONDS = 600.0
LINKED = ("objects", "refs", "logs", "info", "packed-refs", "shallow", "worktrees")

# Settings that change what is stored or checked out, and run nothing.
KEPT = frozenset(
    """
    core.repositoryformatversion core.filemode core.ignorecase core.precomposeunicode core.symlinks core.autocrlf
    core.trustctime core.checkstat core.eol core.bigfilethreshold core.compression core.loosecompression
    core.logallrefupdates core.sparsecheckout core.sparsecheckoutcone
    extensions.objectformat extensions.compatobjectformat extensions.preciousobjects extensions.noop
    user.name user.email i18n.commitencoding
    """.split()
)
KEPT_OF_THE_USER = frozenset("core.autocrlf core.eol core.excludesfile user.name user.email".split())
# What holds in every call of ours.
FIXED = """
[core]
    bare = false
    hooksPath = /dev/null
    fsmonitor = false
    untrackedCache = false
    splitIndex = false
    commitGraph = false
    protectHFS = true
    protectNTFS = true
[checkout]
    workers = 0
[gc]
    auto = 0
[maintenance]
    auto = false
[protocol]
    allow = never
[submodule]
    recurse = false
[commit]
    gpgSign = false
[index]
    skipHash = false
[advice]
    graftFileDeprecated = false
"""
# On the disk before anything is removed.
DURABLE = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.fsync",
    "GIT_CONFIG_VALUE_0": "all",
    "GIT_CONFIG_KEY_1": "core.fsyncMethod",
    "GIT_CONFIG_VALUE_1": "batch",
}
# The same where files are added: a large one would be a pack, and git (2.53 too) loses that beside those that wait.
DURABLE_LOOSE = DURABLE | {
    "GIT_CONFIG_COUNT": "3",
    "GIT_CONFIG_KEY_2": "core.bigFileThreshold",
    "GIT_CONFIG_VALUE_2": "1024g",
}

Settings = list[tuple[str, str]]


def find_git(environ: Mapping[str, str], avoid: tuple[str, ...]) -> str:
    """The git that a shell would find, but never one that a command could have written, nor a relative one."""
    for directory in environ.get("PATH", os.defpath).split(os.pathsep):
        candidate = os.path.join(directory, "git")
        if directory.startswith("/") and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            real = os.path.realpath(candidate)
            if not any(paths.is_inside(real, place) for place in avoid):
                return real
    raise SessionError(Fault.NOT_GIT, "git", "is not installed, or not on the path", "install git 2.38 or later")


def parse_settings(listing: bytes, kept: frozenset[str]) -> Settings:
    """The settings of `git config --list -z` that may stay; a key without a value means true."""
    found = []
    for row in listing.split(b"\0"):
        key, equals, value = row.partition(b"\n")
        name = key.decode("utf-8", "replace").lower()
        if name in kept:
            found.append((name, os.fsdecode(value) if equals else "true"))
    return found


def render_settings(settings: Settings) -> str:
    """Settings as a file: every value quoted, so that it stays one value."""
    lines = []
    for key, value in settings:
        section, _, name = key.partition(".")
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        if "\0" not in quoted:
            lines.append(f'[{section}]\n    {name} = "{quoted}"\n')
    return "".join(lines)


class Git:
    """Git for one repository, through a directory of ours."""

    def __init__(self, program: str, common: str, mirror: str, environ: Mapping[str, str]) -> None:
        self.program = program
        self.common = common
        self.mirror = mirror
        # Git holds it too: who is killed leaves a git that goes on, and nobody is to begin before that ends.
        self.lock = -1
        self.places: tuple[str, ...] = ()  # what it may write; nothing else, whatever a link says
        self.identity: dict[str, str] = {}
        self.settings: Settings = []
        who = {"user.name": "GIT_AUTHOR_NAME", "user.email": "GIT_AUTHOR_EMAIL"}
        self._who = {key: environ[name] for key, name in who.items() if environ.get(name)}
        self._environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": environ.get("HOME", "/nonexistent"),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": "/",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_GRAFT_FILE": "/dev/null",  # the commits themselves say what came before them, and nobody else
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_PAGER": "cat",
            "GIT_ADVICE": "0",
            **dict.fromkeys(("GIT_ASKPASS", "SSH_ASKPASS", "GIT_SSH_COMMAND", "GIT_EDITOR"), "/bin/false"),
            **{name: environ[name] for name in ("XDG_CONFIG_HOME", "TZ") if name in environ},
        }

    def prepare(self, common: int, mirror: int) -> None:
        """Build the directory that git is shown, from the repository as it is now."""
        settings = self._settings_of_the_user()
        for name in ("config", "config.worktree"):
            if paths.exists_beneath(common, name):
                settings += self._settings_in(paths.read_beneath(common, name))
        self.identity = {key: value for key, value in settings if key.startswith("user.")} | self._who
        self.settings = [(key, value) for key, value in settings if not key.startswith("user.")]
        for name in LINKED:
            os.symlink(f"{self.common}/{name}", name, dir_fd=mirror)
        write_new(mirror, "HEAD", paths.read_beneath(common, "HEAD", 4096))
        write_new(mirror, "config", (render_settings(self.settings) + FIXED).encode("utf-8", "surrogateescape"))

    def _settings_in(self, content: bytes) -> Settings:
        """What a configuration file of the repository says, of what may stay; includes are not followed."""
        listing = self._run(["config", "--file", "-", "--no-includes", "--list", "-z"], content, {}).stdout
        return parse_settings(listing, KEPT)

    def _settings_of_the_user(self) -> Settings:
        """What our own user set for all repositories, or for this one by where it is."""
        environ = dict(self._environ, GIT_DIR=self.common)
        del environ["GIT_CONFIG_GLOBAL"]
        done = self._run(["config", "--global", "--includes", "--list", "-z"], b"", environ, (0, 1, 128))
        return parse_settings(done.stdout, KEPT_OF_THE_USER)

    def call(
        self,
        *words: str,
        data: bytes | int = b"",
        worktree: str = "",
        index: str = "",
        own: str = "",
        good: Sequence[int] = (0,),
        environ: Mapping[str, str] | None = None,
    ) -> bytes:
        """What git says. `own` is the git directory of a worktree that nobody has worked in yet."""
        return self.done(*words, data=data, worktree=worktree, index=index, own=own, good=good, environ=environ).stdout

    def done(
        self,
        *words: str,
        data: bytes | int = b"",
        worktree: str = "",
        index: str = "",
        own: str = "",
        good: Sequence[int] = (0,),
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Like `call`, with the exit code."""
        told = dict(self._environ, GIT_DIR=own or self.mirror, GIT_COMMON_DIR=self.mirror, **(environ or {}))
        told["GIT_INDEX_FILE"] = index or f"{self.mirror}/index"
        told["GIT_WORK_TREE"] = worktree or self.mirror
        return self._run(list(words), data, told, good)

    def _run(
        self, words: list[str], data: bytes | int, environ: dict[str, str], good: Sequence[int] = (0,)
    ) -> subprocess.CompletedProcess[bytes]:
        """`data` is what git reads: bytes, or a file that is open."""
        command = [self.program, "--no-pager", *words]

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                command,
                stdin=data if isinstance(data, int) else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=environ.get("GIT_WORK_TREE", "/"),
                env=environ or self._environ,
                start_new_session=True,
                pass_fds=(self.lock,) if self.lock >= 0 else (),
            )

        with narrow.started(start, self.places) as process:
            try:
                out, err = process.communicate(None if isinstance(data, int) else data, SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise SessionError(Fault.GIT_FAILED, f"git {words[0]}", f"took more than {SECONDS:g} s") from None
            except BaseException:
                process.kill()
                raise
        done = subprocess.CompletedProcess(command, process.returncode, out, err)
        if done.returncode not in good:
            said = done.stderr.decode("utf-8", "replace").strip()[-400:]
            raise SessionError(Fault.GIT_FAILED, f"git {words[0]}", said or f"ended with {done.returncode}")
        return done

    # ---- Small questions ----

    def commit_of(self, revision: str, environ: Mapping[str, str] | None = None) -> str:
        """The commit a revision names; empty when it names none."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        done = self.done(*words, good=(0, 1, 128), environ=environ)
        return done.stdout.decode().strip() if done.returncode == 0 else ""

    def tree_of(self, commit: str, environ: Mapping[str, str] | None = None) -> str:
        words = ("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")
        return self.call(*words, environ=environ).decode().strip()

    def is_ancestor(self, older: str, newer: str) -> bool:
        return older == newer or self.done("merge-base", "--is-ancestor", older, newer, good=(0, 1)).returncode == 0

    def move_branch(self, branch: str, new: str, old: str, why: str) -> None:
        """Set a branch that stands at `old` (empty: that does not exist), or fail; an empty `new` removes it."""
        zero = "0" * max(len(new), len(old))
        ref = f"refs/heads/{branch}"
        if new:
            self.call("update-ref", "--no-deref", "--create-reflog", "-m", why, ref, new, old or zero)
        else:
            self.call("update-ref", "--no-deref", "-d", ref, old)


def write_new(directory: int, name: str, content: bytes) -> None:
    """A new file below a directory that is held open, for us alone."""
    fd = paths.open_beneath(directory, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "wb") as file:
        file.write(content)


def put_new(directory: int, name: str, content: bytes) -> None:
    """A new file that a repository needs, on the disk before anybody relies on it."""
    fd = paths.open_beneath(directory, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with open(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(fd)


def check_branch(git: Git, text: str) -> str:
    """A branch name that git takes and that is nothing else."""
    from .slugs import check_word

    check_word(text, Fault.INVALID_BRANCH, "branch")
    done = git.done("check-ref-format", f"refs/heads/{text}", good=(0, 1, 128, 129))
    if done.returncode or text.startswith("refs/") or text == "HEAD":
        raise SessionError(Fault.INVALID_BRANCH, "branch", f"{text[:60]!r} is not a name git takes")
    return text
