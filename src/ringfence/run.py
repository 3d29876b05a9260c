"""The one place that joins the rooms: load, probe, survey, plan, launch, wait. `keep` has what stays between calls."""

import errno
import os
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from . import enforce, plan, policy
from .keep import NOWHERE, Prepared, Request, forget, prepare, prepared
from .model import (
    Access,
    Command,
    Decision,
    Denial,
    Enforcement,
    Need,
    Outcome,
    Plan,
    PlanError,
    Policy,
    Refused,
    Stream,
    Unenforceable,
    UsageError,
    Verdict,
)


def find_workspace(cwd: str) -> str:
    """The git top level around a directory, or the directory itself.

    A command could plant a repository below the project to be started there without the project's policy; so the
    outermost directory that has one is taken, where there is any below the home.
    """
    found, home = "", os.path.realpath(os.environ.get("HOME") or NOWHERE)
    path = cwd
    while path not in ("/", home):
        if any(os.path.lexists(f"{path}/.ringfence/policy.{kind}") for kind in ("json", "toml")):
            found = path
        path = os.path.dirname(path)
    path = cwd
    while not found and path != "/":
        if _is_repository(f"{path}/.git"):
            found = path
        path = os.path.dirname(path)
    return found or cwd


def _is_repository(path: str) -> bool:
    """A directory with a HEAD, or the file that a linked worktree has in its place."""
    return os.path.lexists(f"{path}/HEAD") or os.path.isfile(path)


def make_request(
    workspace: str | None = None,
    cwd: str | None = None,
    flags: policy.Flags | None = None,
    as_root: bool = False,
    detached: bool = True,
) -> Request:
    """Find the workspace, and who the command will be."""
    here = enforce.canonical(cwd or workspace or ".")
    root = here if workspace and workspace == (cwd or workspace) else ""
    root = root or (enforce.canonical(workspace) if workspace else find_workspace(here))
    if not os.path.isdir(root):
        raise UsageError(root, "the workspace is not a directory", hint="name one with --workspace")
    ids, home = _owner(root, as_root)
    return Request(root, here, flags or policy.Flags(cwd=here), home, ids, detached)


def _owner(root: str, as_root: bool) -> tuple[tuple[int, int] | None, str]:
    """Started by root, the command is the workspace's owner; a root-owned workspace must be asked for."""
    home = os.environ.get("HOME", "")
    if os.geteuid() != 0:
        return None, home
    found = os.stat(root)
    if found.st_uid == 0:
        if not as_root:
            hint = "run as a plain user, give the workspace to one, or say --as-root"
            raise PlanError(root, "the workspace belongs to root, and so would the command", hint)
        return None, home
    import pwd

    try:
        entry = pwd.getpwuid(found.st_uid)
    except KeyError:
        return (found.st_uid, found.st_gid), NOWHERE
    return (found.st_uid, entry.pw_gid), entry.pw_dir


def _check_words(argv: Sequence[str]) -> None:
    if isinstance(argv, str):
        raise UsageError("command", "is one string, and no shell is asked to split it", hint='["sh", "-c", "…"]')
    if not argv or not argv[0]:
        raise UsageError("command", "there is nothing to run", hint="ringfence run -- npm test")


def make_command(
    made: Prepared, argv: Sequence[str], environ: Mapping[str, str], streams: tuple[Stream, ...] = ()
) -> Command:
    """The command, with its program found on the path it will have."""
    request, environ = made.request, dict(environ)
    if request.ids:
        name = _name(request.ids[0])
        environ |= {"HOME": request.home, "USER": name, "LOGNAME": name}
    program = find_program(argv[0], environ.get("PATH", os.defpath), request.cwd)
    return Command(tuple(argv), request.cwd, environ, program, streams, made.temporary, request.detached, request.ids)


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def find_program(name: str, path: str, cwd: str) -> str:
    """The absolute path a shell would find. A name that is not found is left to exec, which says so."""
    if "/" in name:
        return os.path.join(cwd, name)
    for directory in path.split(os.pathsep):
        candidate = os.path.join(cwd, directory, name)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    return f"{NOWHERE}/{name}"  # exec says that it is not there


def plan_for(request: Request, argv: Sequence[str], environ: Mapping[str, str]) -> Plan:
    """The whole plan, to be looked at."""
    _check_words(argv)
    made = prepare(request)
    return plan.assemble(made.walls, made.policy, make_command(made, argv, environ), made.host)[0]


def check(made: Prepared) -> None:
    """Refuse when something required is missing; an explicit best effort goes on, and the gaps are said."""
    if made.policy.enforcement is not Enforcement.REQUIRED:
        return
    required = [gap for gap in made.walls.gaps if gap.need is Need.REQUIRED]
    if required:
        rest = f" (and {len(required) - 1} more)" if len(required) > 1 else ""
        first = required[0]
        hint = first.way_out or "`ringfence plan` shows all gaps; --best-effort runs without"
        raise Unenforceable(first.origin, f"{first.what}: {first.why}{rest}", hint)


# How a step says that the disk is not as it was when we looked.
SWAPPED = (errno.ESTALE, errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def run(
    argv: Sequence[str],
    *,
    workspace: str | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    flags: policy.Flags | None = None,
    capture: bool = False,
    input: bytes | None = None,
    timeout: float | None = None,
    as_root: bool = False,
    detached: bool = True,
    on_start: Callable[[enforce.Launch], None] | None = None,
) -> Outcome:
    """Run a command inside its workspace, and tell what became of it."""
    _check_words(argv)
    enforce.fill_closed()
    request = make_request(workspace, cwd, flags, as_root, detached)
    streams, pumped = _streams(capture, input is not None)
    environ = os.environ if env is None else env
    outcome = execute(request, argv, environ, streams, pumped, capture, input, timeout, on_start)
    ending = outcome.ending
    if isinstance(ending, Refused) and ending.kind != "exec" and ending.errno in SWAPPED and 0 not in pumped:
        # The disk changed between our look at it and the enactor's; nothing ran, so look again, once. Not when we have
        # read our own input for it already: that cannot be given back.
        forget(request)
        outcome = execute(request, argv, environ, streams, pumped, capture, input, timeout, on_start)
    return outcome


def _streams(capture: bool, feed: bool) -> tuple[tuple[Stream, ...], tuple[int, ...]]:
    """Which of those of 0 to 2 that are inherited are opened again inside, and which are fed through a pipe."""
    inherited = (() if feed else (0,)) + (() if capture else (1, 2))
    seen = [(fd, enforce.inspect(fd)) for fd in inherited]
    return (
        tuple(found for _, found in seen if isinstance(found, Stream)),
        tuple(fd for fd, found in seen if found == "pump"),
    )


def execute(
    request: Request,
    argv: Sequence[str],
    environ: Mapping[str, str],
    streams: tuple[Stream, ...],
    pumped: tuple[int, ...],
    capture: bool,
    data: bytes | None,
    timeout: float | None,
    on_start: Callable[[enforce.Launch], None] | None,
) -> Outcome:
    """One launch, from the prepared walls to the outcome."""
    with prepared(request) as made:
        made.runs += 1
        check(made)
        hidden = tuple(stream for stream in streams if not _shows(made, stream))
        if hidden:  # the view does not show the file, so it is fed through a pipe instead
            streams = tuple(stream for stream in streams if stream not in hidden)
            pumped = (*pumped, *(stream.fd for stream in hidden))
        command = make_command(made, argv, environ, streams)
        whole, own, last = plan.assemble(made.walls, made.policy, command, made.host)
        between = b"".join(map(enforce.encode_step, own))
        end = enforce.encode_step(last)
        # A terminal must be known when the walls are built, so it never meets a standby; and what we have read of our
        # own input for one that was gone would be lost.
        alone = any(map(os.isatty, range(3))) or 0 in pumped or made.runs < 3  # most callers run one command
        inherited = () if alone else enforce.inheritance()
        standby = None if alone else made.take_standby(inherited)
        if standby is not None:
            whole = msgspec.structs.replace(whole, steps=(*own, last))
            wire = enforce.whole(len(whole.steps), (between, end))
        else:
            wire = enforce.whole(len(whole.steps), (made.head, between, made.tail, end))
        started = time.monotonic()
        with enforce.start(whole, wire, pumped, capture, data is not None, standby) as launched:
            if on_start:
                on_start(launched)
            if not alone:
                made.renew_standby(whole, inherited)
            ending, out, err = launched.wait(timeout, data or b"")
        return Outcome(
            ending,
            made.walls.in_force,
            made.walls.gaps,
            time.monotonic() - started,
            out,
            err,
            ignored=made.policy.ignored,
            planted=made.appeared(),
        )


def _shows(made: Prepared, stream: Stream) -> bool:
    if made.policy.enforcement is Enforcement.OFF:
        return True
    allowed = policy.decide(judged_policy(made), Access.READ, stream.path).verdict is Verdict.ALLOW
    return allowed and plan.shows(made.policy, stream.path, made.host)


def why(request: Request, access: str, path: str) -> tuple[Decision, str]:
    """The judge's answer for one path, and the path it was asked about."""
    expanded = os.path.join(request.home, path[2:]) if path.startswith("~/") else request.home if path == "~" else path
    real = enforce.canonical(os.path.join(request.cwd, expanded))
    return policy.decide(judged_policy(prepare(request)), Access(access), real), real


def judged_policy(made: Prepared) -> Policy:
    """The policy as the planner carries it out, with the disk's own names for its paths, as the judge wants it."""
    places = made.disk.places

    def resolve(path: str) -> str:
        return places[path].path if path in places else enforce.canonical(path)

    return policy.canonical_policy(plan.without_swayed(made.policy, made.disk), resolve)


def suspected(request: Request, argv: Sequence[str]) -> list[Denial]:
    """What the command's own words ask for and the policy refuses: concluded, not seen."""
    from .policy.suspect import suspects

    judged = judged_policy(prepare(request))
    found = []
    for access, target in suspects(tuple(argv), request.cwd, request.home):
        if access == "connect":
            if not judged.network.open:
                found.append(Denial(access, target, "the network is closed", "--allow-network"))
            continue
        decision = policy.decide(judged, Access(access), enforce.canonical(target))
        if decision.verdict is not Verdict.ALLOW:
            found.append(Denial(access, target, decision.reason, decision.grant))
    return found
