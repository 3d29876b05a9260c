"""One command to run, as it was asked for: where, as whom, its words and variables, what becomes of its streams."""

import errno
import os
import stat
import time
from collections.abc import Mapping, Sequence

import msgspec

from . import enforce, policy
from .keep import FRESH_SECONDS, KEPT, AtHand, Request, environment, give_up_overlays
from .model import Asking, Ending, Explain, PlanError, Refused, Screen, Stream, UsageError, WorkspaceError
from .where import NOWHERE, find_workspace

AnyPath = str | os.PathLike[str]

STREAM_NAMES = ("stdin", "stdout", "stderr")
# How a step says that the disk is not as it was when we looked.
SWAPPED = (errno.ESTALE, errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def make_request(
    workspace: AnyPath | None = None,
    cwd: AnyPath | None = None,
    flags: policy.Flags | None = None,
    as_root: bool = False,
    screen: Screen = Screen(),  # noqa: B008
) -> Request:
    """Find the workspace, and who the command will be."""
    return look(environment(), workspace, cwd, flags, as_root, screen)[0]


def look(
    own: Mapping[str, str],
    workspace: AnyPath | None,
    cwd: AnyPath | None,
    flags: policy.Flags | None,
    as_root: bool,
    screen: Screen,
) -> tuple[Request, os.stat_result | None]:
    """The request; and, if the workspace was named by its canonical path and we have just looked there, what we saw."""
    workspace, cwd = _text(workspace, "workspace"), _text(cwd, "cwd")
    if not workspace or (cwd or workspace) != workspace:
        return _find_request(workspace, cwd, flags, as_root, screen), None
    # The same as a moment ago, if the same directory stands at the same name: links on the way lead nowhere else.
    here = "" if workspace[0] == "/" else _here()
    asked = (workspace, here, flags, as_root, screen, own.get("HOME"), os.geteuid())
    kept = _requests.get(asked)
    try:
        brief = enforce.brief
        seen = brief.stat(kept[3]) if kept is not None and kept[0][0] in brief.near else os.stat(workspace)
    except OSError:
        return _find_request(workspace, cwd, flags, as_root, screen), None
    stamp = seen.st_dev, seen.st_ino, seen.st_mode, seen.st_uid, seen.st_gid
    if kept is not None and kept[0] == stamp and time.monotonic() < kept[1]:
        return kept[2], seen if kept[2].workspace == workspace else None
    request = _find_request(workspace, cwd, flags, as_root, screen)
    if len(_requests) >= KEPT:
        _requests.clear()
    _requests[asked] = (stamp, time.monotonic() + FRESH_SECONDS, request, os.fsencode(workspace))
    return request, None


_requests: dict[tuple[object, ...], tuple[tuple[int, ...], float, Request, bytes]] = {}


def _text(path: AnyPath | None, name: str) -> str | None:
    """A path as text. An empty one is most often a value that was not set, and means no directory."""
    if path is None:
        return None
    try:
        text = path if type(path) is str else os.fsdecode(path)
    except TypeError:
        text = "\0"
    if "\0" in text:
        raise UsageError(name, f"is {path!r}", hint="a path, as text")
    if not text:
        raise UsageError(name, "is empty", hint="name a directory, or leave it out")
    return text


def _find_request(
    workspace: str | None, cwd: str | None, flags: policy.Flags | None, as_root: bool, screen: Screen
) -> Request:
    try:
        here = enforce.canonical(cwd or workspace or ".")
    except FileNotFoundError:  # a path need not be there, but what it is relative to
        _here()
        raise
    root = here if workspace and workspace == (cwd or workspace) else ""
    root = root or (enforce.canonical(workspace) if workspace else find_workspace(here))
    if not os.path.isdir(root):
        what = "is not a directory" if os.path.lexists(root) else "is not there"
        raise UsageError(root, f"the workspace {what}", hint="name a directory with --workspace")
    if here != root:
        _check_start(here)
    ids, home = _owner(root, as_root)
    return Request(root, here, flags or policy.Flags(cwd=here), home, ids, screen=screen)


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise WorkspaceError("the current directory", "is gone", "cd to one that is there") from None


def _check_start(here: str) -> None:
    """Where nothing is, nothing starts. What we may not look at may be there: we may stand in it."""
    try:
        is_there = stat.S_ISDIR(os.stat(here).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_there = False
    except OSError:
        return
    if not is_there:
        raise UsageError(here, "the command was to start there, and it is no directory", hint="cwd=… names one")


def _owner(root: str, as_root: bool) -> tuple[tuple[int, int] | None, str]:
    """Started by root, the command is the workspace's owner; a root-owned workspace must be asked for."""
    home = environment().get("HOME", "")
    if os.geteuid() != 0:
        return None, home
    found = enforce.standing_at(root)
    if found.st_uid == 0:
        if not as_root:
            policy.check_workspace(root, (home,) if home else ())  # --as-root would not help there
            hint = "run as a plain user, give the workspace to one, or say --as-root"
            raise PlanError(root, "the workspace belongs to root, and so would the command", hint)
        return None, home
    import pwd

    try:
        entry = pwd.getpwuid(found.st_uid)
    except KeyError:
        return (found.st_uid, found.st_gid), NOWHERE
    return (found.st_uid, entry.pw_gid), entry.pw_dir


def check_words(argv: Sequence[str]) -> None:
    """Refuse what is no command, before anything is looked at."""
    if isinstance(argv, str):
        raise UsageError("command", "is one string, and no shell is asked to split it", hint='["sh", "-c", "…"]')
    if argv is not None and not isinstance(argv, Sequence):
        raise UsageError("command", f"is {argv!r}", hint='a list of words: ["npm", "test"]')
    if not argv or not argv[0]:
        raise UsageError("command", "there is nothing to run", hint="ringfence run -- npm test")
    for word in argv:
        if not isinstance(word, str) or "\0" in word:
            raise UsageError("command", f"{word!r} is no word of a command", hint="text without a null; str(path)")


def check_values(
    env: Mapping[str, str] | None, flags: object, given: object, timeout: object, explain: object = Explain.FAILURE
) -> None:
    """Refuse what a program gives by mistake, before anything is begun."""
    if flags is not None and not isinstance(flags, policy.Flags):
        raise UsageError("flags", f"is {flags!r}", hint="ringfence.Flags(allow_read=(…,))")
    if isinstance(given, str):
        raise UsageError("input", "is text, and the command reads bytes", hint="text.encode()")
    if given is not None and not isinstance(given, bytes | bytearray | memoryview):
        raise UsageError("input", f"is {given!r}", hint="bytes; of a file: file.read()")
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):  # what is no number is not
        raise UsageError("timeout", f"is {timeout!r}", hint="a number of seconds above 0")
    if not isinstance(explain, Explain):
        raise UsageError("explain", f"is {explain!r}", hint="ringfence.Explain.OUTPUT and its kin")
    if env is not None and not isinstance(env, Mapping):
        raise UsageError("env", f"is {env!r}", hint='{"NAME": "value"}')
    for name, value in () if env is None else env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise UsageError("env", f"{name!r} is {value!r}", hint="names and values are text")


class Job(msgspec.Struct, frozen=True):
    """One command to run: what is asked of us, its words and variables, and what becomes of its streams."""

    request: Request
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    streams: tuple[Stream, ...]  # of those inherited, which are opened again inside
    pumped: tuple[int, ...]  # and which are fed through a pipe
    capture: bool
    data: bytes | None  # what it reads
    is_at_terminal: bool  # whether any of our own 0 to 2 is one
    explain: Explain = Explain.FAILURE
    at_hand: AtHand | None = None
    asking: Asking | None = None
    program: str = ""  # where the first word was found, if somebody else has looked for it
    is_assumed: bool = False  # nobody has looked at 0 to 2: they are taken for what they were the last time


class Unlooked(Exception):
    """The streams are not what they were assumed to be; nothing was begun."""


def make_job(
    argv: Sequence[str],
    request: Request,
    env: Mapping[str, str] | None,
    capture: bool,
    data: bytes | None,
    explain: Explain = Explain.FAILURE,
    at_hand: AtHand | None = None,
    assumes: bool = False,
) -> Job:
    """Look at those of 0 to 2 that are inherited. Whoever `assumes` is told when they are others than the last time: by
    the standby that is given them, or by Unlooked."""
    environ = environment() if env is None else env
    if assumes and not capture and data is None and explain is not Explain.OUTPUT and enforce.were_plain():
        return Job(request, tuple(argv), environ, (), (), False, None, False, explain, at_hand, is_assumed=True)
    inherited = (() if data is not None else (0,)) + (() if capture else (1, 2))
    streams, pumped, is_at_terminal, lends = enforce.look_over(inherited)
    request = msgspec.structs.replace(request, lends=True) if lends else request
    if explain is Explain.OUTPUT and not capture:  # both, where they are one: their order is kept
        pumped = tuple({*pumped, 2, *((1,) if os.path.sameopenfile(1, 2) else ())})
        streams = tuple(stream for stream in streams if stream.fd not in pumped)
    return Job(request, tuple(argv), environ, streams, pumped, capture, data, is_at_terminal, explain, at_hand)


def looked_over(job: Job) -> Job:
    """The job for another attempt: what was seen before the first is old by now, and nothing is assumed."""
    if not job.is_assumed:
        return msgspec.structs.replace(job, at_hand=None)
    again = make_job(job.argv, job.request, job.environ, False, None, job.explain)
    return msgspec.structs.replace(again, asking=job.asking, program=job.program)


def has_other_streams(job: Job, ending: Ending) -> bool:
    """Whether one that stood by was given other streams than was assumed."""
    return job.is_assumed and isinstance(ending, Refused) and ending.kind == "streams"


def was_swapped(job: Job, ending: Ending) -> bool:
    """Whether the disk changed between our look at it and the enactor's: nothing ran, so look again.

    Not when we have read our own input for it already: that cannot be given back.
    """
    if not isinstance(ending, Refused) or ending.kind == "exec" or 0 in job.pumped:
        return False
    if has_other_streams(job, ending):
        return True
    if ending.text.startswith("cache of "):  # no overlay can be made here
        give_up_overlays()
        return True
    return ending.errno in SWAPPED


def rewind(job: Job) -> None:
    """Before another look: what was read of a file for a command that never began is there to be read again."""
    for stream in job.streams:
        os.lseek(stream.fd, stream.offset, os.SEEK_SET)
