"""The rules as a plan can carry them: without grants that the command could lead elsewhere by a link, and without what
file modes hold already.

Pure. Each function gives a policy that asks for no more than the one it was given.
"""

import msgspec

from ..model import (
    BUILT_IN,
    GRANTED,
    Access,
    Disk,
    Enactor,
    Host,
    Injection,
    Kind,
    Need,
    Place,
    Policy,
    Rule,
    Verdict,
)
from . import landlock, view
from .regions import is_any_above, is_below

LAYERS_KEPT = 10
PRIVATE = ("/tmp", "/var/tmp", view.SHM)
# What makes git run programs, in the directory of a worktree and of a submodule.
_WORKTREE = ("commondir", "config.worktree", "gitdir")
_MODULE = (
    *("config", "config.worktree", "hooks", "commondir", "info/attributes", "objects/info/alternates"),
    *("remotes", "branches", "gitweb", "pid", "lazygit.yml", "glab-cli", "sl/config"),
)
# What all worktrees of a repository share is none of these: objects, refs, rr-cache, logs, packed-refs (and its lock),
# worktrees.
_APART = ("[!loprw]*", "l[!o]*", "o[!b]*", "p[!a]*", "r[!er]*", "re[!f]*", "rr[!-]*", "w[!o]*")
REPOSITORY = "the repository of this worktree"
SYSTEM = ("/etc/", "/var/lib/", "/sys/")
_STREAMS = frozenset((f"{view.DEV}/stdin", f"{view.DEV}/stdout", f"{view.DEV}/stderr"))
_DESCRIPTORS = (f"{view.DEV}/fd/", "/proc/self/fd/", "/proc/thread-self/fd/")
DEVICES = frozenset((*view.OWN_DEVICES, view.SHM))


def has_view(host: Host) -> bool:
    """Whether this machine can give a view: somebody who may make namespaces, and the C program that goes inside."""
    return (host.namespaces or bool(host.bubblewrap)) and host.enactor is Enactor.NATIVE


def has_warden(host: Host) -> bool:
    """Whether somebody stays with the run. Without a pid namespace it takes Landlock's scopes to end the run whole, and
    three domains; deep inside other runs they are left for the ones to come."""
    scoped = host.landlock_abi >= landlock.SCOPES_SINCE and host.layers >= LAYERS_KEPT
    return has_view(host) or (host.enactor is Enactor.NATIVE and scoped)


def is_nesting(policy: Policy, host: Host) -> bool:
    """Whether sandboxes inside the sandbox are asked for and can be given: only the mounts of a view let them in."""
    return policy.nested and has_view(host)


def has_broker(policy: Policy, host: Host) -> bool:
    """Whether the warden answers the command's calls: it must see it in /proc and read its memory, and the kernel
    (5.19, as Landlock's second ABI) must hand descriptors over. Not where sandboxes are made inside: theirs would not
    hold the warden. Inside another run that one's answers, and there is no second."""
    able = not policy.nested and host.seccomp and host.landlock_abi >= landlock.BROKER_SINCE and is_seen(host)
    if has_view(host):
        return able and host.fresh_proc
    return able and has_warden(host) and not host.is_inside


def is_seen(host: Host) -> bool:
    """Whether Yama lets a warden read the command's memory: as its ancestor, and in a view, whose user namespace is its
    own, also by the capability that it keeps there."""
    return host.yama <= (2 if has_view(host) else 1)


def relies(host: Host) -> bool:
    """Whether an outer run is all that can hold files here."""
    return host.is_inside and not has_view(host) and host.landlock_abi < 1


def is_asking(policy: Policy, host: Host) -> bool:
    """Whether what is refused waits for a person."""
    return policy.asking and policy.escape is Verdict.ASK and has_broker(policy, host)


def has_own_network(host: Host) -> bool:
    """Whether the run has a network of its own, in which the enactor can open sockets."""
    return has_view(host)


def has_unix_sockets(policy: Policy, host: Host) -> bool:
    """Whether the command may make unix sockets: with a view it is judged what they reach. Without one nobody can, and
    an open network is no leave for the sockets of the user's own services, which start programs outside. Inside another
    run that one judges."""
    inside = host.loopback_only or (host.is_inside and policy.network.open)
    return has_view(host) or policy.network.all_unix_sockets or inside


def swayed(policy: Policy, disk: Disk) -> tuple[Rule, ...]:
    """Grants whose path runs through a symbolic link that a command may replace: it would choose what is granted at the
    next run. The repository of a linked worktree is another workspace's to write, so no link counts there at all; nor
    on the way to what a person approved, who saw another path; nor where all of them were followed before."""
    linked = [rule for rule in policy.rules if rule.verdict is Verdict.ALLOW and links_to(rule, disk)]
    if not linked or policy.is_resolved:
        return tuple(linked)
    roots = _roots(policy, disk)
    return tuple(
        rule for rule in linked if rule.why in (REPOSITORY, GRANTED) or is_any_below(links_to(rule, disk), roots)
    )


def _roots(policy: Policy, disk: Disk) -> set[str]:
    """Where a command may replace links; also what is granted by a link that it may not."""
    given = [(disk[rule.path].path, links_to(rule, disk)) for rule in policy.rules if is_allow_write(rule)]
    roots = {path for path, links in given if not links}
    return {path for path, links in given if not is_any_below(links, roots)}


def is_swayed(one: Injection, policy: Policy, disk: Disk) -> bool:
    """Whether a command could turn what is shown, or where. What is built in is ours, at places of the system."""
    links = disk[one.source].links + disk[one.target].links
    if not links or policy.is_resolved:
        return bool(links)
    return one.origin != BUILT_IN and is_any_below(links, _roots(policy, disk))


def links_to(rule: Rule, disk: Disk) -> tuple[str, ...]:
    """The symbolic links on the way to what a rule names, or to where its pattern begins."""
    own = () if rule.glob else disk.places[rule.path].links
    return disk[rule.through].links + own if rule.through else own


def is_allow_write(rule: Rule) -> bool:
    return rule.access is Access.WRITE and rule.verdict is Verdict.ALLOW and not rule.glob


def is_protecting(rule: Rule) -> bool:
    """Whether it keeps a name as it is that runs code later."""
    return rule.access is Access.WRITE and rule.verdict is Verdict.DENY and rule.need is Need.WANTED and not rule.glob


def is_any_below(paths: tuple[str, ...], roots: set[str]) -> bool:
    return any(is_below(path, root) for path in paths for root in roots)


def without_swayed(policy: Policy, disk: Disk) -> Policy:
    """The policy without grants that the command itself could turn elsewhere."""
    left_out = swayed(policy, disk)
    if not left_out:
        return policy
    return msgspec.structs.replace(policy, rules=tuple(rule for rule in policy.rules if rule not in left_out))


def without_streams(policy: Policy) -> Policy:
    """The policy without leave for the names of 0 to 2, which every run has of its own: here they lead to ours."""
    allowed = (rule for rule in policy.rules if rule.verdict is Verdict.ALLOW)

    def names(rule: Rule) -> bool:
        return rule.path in _STREAMS or f"{rule.through or rule.path}/".startswith(_DESCRIPTORS)

    named = set(filter(names, allowed))
    if not named:
        return policy
    return msgspec.structs.replace(policy, rules=tuple(rule for rule in policy.rules if rule not in named))


def without_absent(policy: Policy, host: Host, disk: Disk) -> Policy:
    """The policy without what is built in about places that are not there, and where nobody could make them: most of
    it is, and a view says nothing of them. What may be asked about is told to the warden all the same."""
    if not has_view(host) or policy.asking:
        return policy
    write, allow, deny, missing = Access.WRITE, Verdict.ALLOW, Verdict.DENY, Kind.MISSING
    places = disk.places
    opened = [rule.path for rule in policy.rules if rule.access is write and rule.verdict is allow and not rule.glob]
    roots = {disk[path].path for path in (*opened, *PRIVATE)}
    opens: dict[str, bool] = {}  # by directory: whether names can be made in it, or below it

    def is_absent(place: Place) -> bool:
        if place.kind is not missing or place.closed or place.links:
            return False
        above = place.path.rpartition("/")[0]
        if above not in opens:
            opens[above] = is_any_above(place.path, roots)
        return not opens[above]

    kept = [
        rule
        for rule in policy.rules
        if rule.verdict is not deny or rule.origin is not BUILT_IN or rule.glob or not is_absent(places[rule.path])
    ]
    return msgspec.structs.replace(policy, rules=tuple(kept))


def is_closed_anyway(rule: Rule, disk: Disk) -> bool:
    """Whether a built-in denial concerns a file whose own mode closes it to the command already."""
    closes = rule.access is Access.READ and rule.verdict is Verdict.DENY and rule.origin == BUILT_IN
    return closes and not disk[rule.path].readable


def as_viewed(policy: Policy, disk: Disk) -> Policy:
    """The policy as a view carries it. The device nodes are the planner's own matter: they work in every plan."""

    def keep(rule: Rule) -> bool:
        devices = rule.origin == BUILT_IN and rule.path in DEVICES
        return not devices and (rule.glob or not is_closed_anyway(rule, disk))

    policy = with_own_dev(policy, is_viewed=True)
    return msgspec.structs.replace(policy, rules=tuple(filter(keep, policy.rules)))


def with_own_dev(policy: Policy, is_viewed: bool) -> Policy:
    """The policy without the host's devices: a run has the few of DEVICES, and what somebody names. In a view they are
    in a /dev of its own, and leave for all of the host's is none."""
    closed = Rule(Access.READ, Verdict.DENY, view.DEV, BUILT_IN, why="the host's devices; a run has a few of its own")
    given = (rule for rule in policy.rules if rule.path != view.DEV or rule.verdict is not Verdict.ALLOW)
    return msgspec.structs.replace(policy, rules=(closed, *(given if is_viewed else policy.rules)))


def narrowed(policy: Policy, disk: Disk, temporary: str, host: Host) -> Policy:
    """The policy as Landlock alone can carry it: /tmp and /dev closed but for what is given one by one, and the
    built-in protections inside what is granted left to the gaps, because holding them would close the directory that
    holds them to every new name; who grants nothing but such a name is not given it. The system's own secrets are left
    to their modes, for a user who is not root. Inside another run /tmp is that one's, and shared with it."""
    closed = (view.DEV,) if host.is_inside else (*PRIVATE, view.DEV)

    def keep(rule: Rule) -> bool:
        if host.uid != 0 and rule.origin == BUILT_IN and rule.path.startswith(SYSTEM):
            return False
        if rule.origin == BUILT_IN and (rule.path in closed or rule.path in DEVICES):
            return False
        return rule.glob or not is_closed_anyway(rule, disk)

    kept = list(filter(keep, policy.rules))
    granted = {disk[rule.path].path for rule in kept if is_allow_write(rule)}

    def is_granted_alone(path: str) -> bool:
        return any(one == path or is_below(one, path) for one in granted) and not is_any_below((path,), granted)

    kept = [rule for rule in kept if not is_protecting(rule) or is_granted_alone(disk[rule.path].path)]
    hidden = [Rule(Access.READ, Verdict.DENY, path, BUILT_IN) for path in closed if path != view.SHM]
    shared = (view.SHM, temporary) if temporary else (view.SHM,)
    given = [Rule(access, Verdict.ALLOW, path, BUILT_IN) for path in shared for access in Access]
    return msgspec.structs.replace(policy, rules=(*kept, *hidden, *given))


def with_pointers(policy: Policy, disk: Disk) -> Policy:
    """In a linked worktree or a submodule `.git` is a file that says where the repository is, and so is `.jj/repo` in
    one of Jujutsu's workspaces: then it is what must not be written, and there is nothing below it. Where there is no
    repository the command may make one of git's; that it did is told after the run. Of Jujutsu's nobody would tell."""
    git, jujutsu = pointers(policy)
    kinds = {path: disk[path].kind for path in (git, jujutsu)}
    files = [path for path, kind in kinds.items() if kind is Kind.FILE or (kind, path) == (Kind.MISSING, jujutsu)]
    gone = tuple(f"{path}/" for path in (files if kinds[git] is not Kind.MISSING else [git, *files]))
    if not gone:
        return policy
    kept = [rule for rule in policy.rules if rule.origin is not BUILT_IN or not rule.path.startswith(gone)]
    why = "it says where the repository is"
    kept += [Rule(Access.WRITE, Verdict.DENY, path, BUILT_IN, need=Need.WANTED, why=why) for path in files]
    return msgspec.structs.replace(policy, rules=tuple(kept))


def pointers(policy: Policy) -> tuple[str, str]:
    """What may be a file that says where a repository is, git's first."""
    return git_path(policy), f"{policy.workspace}/.jj/repo"


def git_path(policy: Policy) -> str:
    return f"{policy.workspace}/.git"


def _of_repository(access: Access, verdict: Verdict, path: str) -> Rule:
    return Rule(access, verdict, path, BUILT_IN, need=Need.WANTED, why=REPOSITORY)


def with_repository(policy: Policy, own: str, common: str, beside: list[str] | None) -> Policy:
    """In a linked worktree: its repository, as far as commits need it. Hooks and configuration stay as they are.

    To delete a ref, as a rebase does, git makes a lock beside what it shares; to add a worktree, a directory. So where
    somebody judges each new name the shared directory is open, but for all that is another's in it: `beside` are the
    worktrees that it has, and strangers. Otherwise (None) it stays closed.
    """
    kept = (*(f"{own}/{name}" for name in _WORKTREE), f"{common}/objects/info/alternates")
    if beside is None or not frozenset("*?[{").isdisjoint(common):  # a pattern would say something else
        written = (own, *(f"{common}/{name}" for name in ("objects", "refs", "logs")))
        return _with_git_directory(policy, common, written, kept)
    others = (path for path in beside if path != own)
    found = _with_git_directory(policy, common, (common,), (*kept, *others))
    apart = [_of_repository(Access.WRITE, Verdict.DENY, f"{common}/{name}") for name in _APART]
    added = tuple(msgspec.structs.replace(rule, glob=True) for rule in apart)
    return msgspec.structs.replace(found, rules=found.rules + added)


def with_session(policy: Policy, own: str, common: str, project: str) -> Policy:
    """In the worktree of a session: a repository of its own, and of the project's what it reads."""
    from .session import session_rows  # few runs are a session's

    added = tuple(_of_repository(*row) for row in session_rows(policy.workspace, own, common, project))
    return msgspec.structs.replace(policy, rules=(*policy.rules, *added))


def with_submodule(policy: Policy, own: str) -> Policy:
    """In a submodule: its git directory, which lies in the repository of the project around it, but for what makes git
    run programs."""
    return _with_git_directory(policy, own, (own,), tuple(f"{own}/{name}" for name in (*_MODULE, "modules")))


def _with_git_directory(policy: Policy, read: str, written: tuple[str, ...], kept: tuple[str, ...]) -> Policy:
    added = (
        _of_repository(Access.READ, Verdict.ALLOW, read),
        *(_of_repository(Access.WRITE, Verdict.ALLOW, path) for path in written),
        *(_of_repository(Access.WRITE, Verdict.DENY, path) for path in kept),
    )
    return msgspec.structs.replace(policy, rules=policy.rules + added)


def with_git_insides(policy: Policy, git: str, worktrees: list[str] | None, modules: list[str] | None) -> Policy:
    """What the linked worktrees of a repository and of its submodules say of themselves stays as it is, and new ones
    may be added. In the submodules, when there are any, commits can be made: they are protected one by one, and not all
    of them whole; those of another worktree are. What could not be looked at (None) is protected whole. `git` is the
    git directory of the workspace, wherever that is."""
    named = f"{git_path(policy)}/modules"
    kept = [f"{git}/modules"] if modules is None or (not modules and git != git_path(policy)) else []
    kept += [f"{path}/worktrees" for path in (git, *(modules or ()))] if worktrees is None else []
    kept += [f"{path}/{file}" for path in worktrees or () for file in (*_WORKTREE, "modules")]
    kept += [f"{module}/{file}" for module in modules or () for file in _MODULE]
    whole = next((rule for rule in policy.rules if rule.path == named and rule.origin == BUILT_IN), None)
    if not kept or whole is None:  # nothing is there, or path rules are switched off
        return policy
    rules = tuple(rule for rule in policy.rules if rule is not whole or not modules)
    added = tuple(msgspec.structs.replace(whole, path=path, why="git runs what it names") for path in kept)
    return msgspec.structs.replace(policy, rules=rules + added)


def with_git_programs(policy: Policy, paths: list[str]) -> Policy:
    """What git runs because its configuration says so is protected like the hooks."""
    named = f"{git_path(policy)}/hooks"
    hooks = next((rule for rule in policy.rules if rule.path == named and rule.origin == BUILT_IN), None)
    if hooks is None or not paths:  # path rules are switched off; or nothing is named
        return policy
    added = tuple(msgspec.structs.replace(hooks, path=path, why="the configuration of git names it") for path in paths)
    return msgspec.structs.replace(policy, rules=policy.rules + added)


def denied_paths(policy: Policy) -> set[str]:
    """What somebody's rules only deny: of those nothing needs to be known but whether and what they are."""
    rules = [rule for rule in policy.rules if not rule.glob]
    denied = {rule.path for rule in rules if rule.verdict is not Verdict.ALLOW and rule.origin != BUILT_IN}
    if not denied:
        return denied
    return denied.difference(rule.path for rule in rules if rule.verdict is Verdict.ALLOW or rule.origin == BUILT_IN)


def absent_names(policy: Policy, disk: Disk) -> tuple[str, ...]:
    """Protected names in the workspace that do not exist: they are looked for before and after a run, and so is a
    repository."""
    path = git_path(policy)
    repository = (path,) if disk[path].kind is Kind.MISSING else ()
    return repository + tuple(
        dict.fromkeys(
            disk[rule.path].path
            for rule in policy.rules
            if rule.access is Access.WRITE
            and rule.verdict is not Verdict.ALLOW
            and not rule.glob
            and disk[rule.path].kind is Kind.MISSING
            and is_below(disk[rule.path].path, policy.workspace)
        )
    )


def hidden_names(policy: Policy, disk: Disk) -> tuple[str, ...]:
    """The other names that are denied and do not exist, where the command may write what is the host's. Nothing covers
    one that comes, so what was planned without it is not used any more."""
    granted = filter(is_allow_write, policy.rules)
    roots = {disk[rule.path].path for rule in granted if rule.origin != BUILT_IN or rule.path == policy.workspace}
    missing = dict.fromkeys(
        path
        for rule in policy.rules
        if rule.verdict is not Verdict.ALLOW and not rule.glob and disk[rule.path].kind is Kind.MISSING
        for path in (disk[rule.path].path, rule.path)  # another one, as long as a link leads there
    )
    told = set(absent_names(policy, disk))
    return tuple(path for path in missing if path not in told and is_any_above(path, roots))
