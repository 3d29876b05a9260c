"""The rules as a plan can carry them: without what the command could turn, and what the disk holds by itself.

Pure. Each function gives a policy that asks for no more than the one it was given.
"""

import msgspec

from ..model import BUILT_IN, Access, Disk, Enactor, Host, Kind, Need, Policy, Rule, Verdict
from . import view
from .regions import is_below

PRIVATE = ("/tmp", "/var/tmp", view.SHM)
REPOSITORY = "the repository of this worktree"
SYSTEM = ("/etc/", "/var/lib/")
DEVICES = frozenset((*(f"{view.DEV}/{name}" for name in view.NODES), view.SHM, "/dev/ptmx", "/dev/pts"))


def has_view(host: Host) -> bool:
    """Whether this machine can give a view: namespaces, and the C program to build it."""
    return host.namespaces and host.enactor is Enactor.NATIVE


def swayed(policy: Policy, disk: Disk) -> tuple[Rule, ...]:
    """Grants whose path runs through a symbolic link that a command may replace: it would choose what is granted at the
    next run. The repository of a linked worktree is another workspace's to write, so no link counts there at all."""
    roots = {disk[rule.path].path for rule in policy.rules if is_allow_write(rule) and not disk[rule.path].links}

    def is_swayed(rule: Rule) -> bool:
        links = disk[rule.path].links
        return bool(links) and (rule.why == REPOSITORY or is_any_below(links, roots))

    return tuple(rule for rule in policy.rules if rule.verdict is Verdict.ALLOW and not rule.glob and is_swayed(rule))


def is_allow_write(rule: Rule) -> bool:
    return rule.access is Access.WRITE and rule.verdict is Verdict.ALLOW and not rule.glob


def is_any_below(paths: tuple[str, ...], roots: set[str]) -> bool:
    return any(is_below(path, root) for path in paths for root in roots)


def without_swayed(policy: Policy, disk: Disk) -> Policy:
    """The policy without grants that the command itself could turn elsewhere."""
    left_out = swayed(policy, disk)
    if not left_out:
        return policy
    return msgspec.structs.replace(policy, rules=tuple(rule for rule in policy.rules if rule not in left_out))


def is_closed_anyway(rule: Rule, disk: Disk) -> bool:
    """Whether a built-in denial concerns a file whose own mode closes it to the command already."""
    closes = rule.access is Access.READ and rule.verdict is Verdict.DENY and rule.origin == BUILT_IN
    return closes and not disk[rule.path].readable


def as_viewed(policy: Policy, disk: Disk) -> Policy:
    """The policy as a view carries it. The device nodes are the planner's own matter: they work in every plan."""

    def keep(rule: Rule) -> bool:
        devices = rule.origin == BUILT_IN and rule.path in DEVICES
        return not devices and (rule.glob or not is_closed_anyway(rule, disk))

    return msgspec.structs.replace(policy, rules=tuple(filter(keep, policy.rules)))


def narrowed(policy: Policy, disk: Disk, temporary: str, uid: int) -> Policy:
    """The policy as Landlock alone can carry it: /tmp and /dev closed but for what is given one by one, and the
    built-in protections inside the workspace left to the gaps, because holding them would close the directory that
    holds them to every new name. The system's own secrets are left to their modes, for a user who is not root."""

    def keep(rule: Rule) -> bool:
        if uid != 0 and rule.origin == BUILT_IN and rule.path.startswith(SYSTEM):
            return False
        if rule.origin == BUILT_IN and (rule.path in PRIVATE or rule.path in DEVICES or rule.path == view.DEV):
            return False
        if rule.access is Access.WRITE and rule.verdict is Verdict.DENY and rule.need is Need.WANTED:
            return False
        return rule.glob or not is_closed_anyway(rule, disk)

    hidden = [Rule(Access.READ, Verdict.DENY, path, BUILT_IN) for path in (*PRIVATE, view.DEV)]
    given = [Rule(access, Verdict.ALLOW, temporary, BUILT_IN) for access in Access] if temporary else []
    return msgspec.structs.replace(policy, rules=(*filter(keep, policy.rules), *hidden, *given))


def with_git_file(policy: Policy, disk: Disk) -> Policy:
    """In a linked worktree or a submodule `.git` is a file that says where the repository is: then it is what must not
    be written, and there is nothing below it."""
    path = git_path(policy)
    if disk[path].kind is not Kind.FILE:
        return policy
    why = "it says where the repository is"
    pointer = Rule(Access.WRITE, Verdict.DENY, path, BUILT_IN, need=Need.WANTED, why=why)
    kept = tuple(rule for rule in policy.rules if not (rule.origin == BUILT_IN and is_below(rule.path, path)))
    return msgspec.structs.replace(policy, rules=(*kept, pointer))


def git_path(policy: Policy) -> str:
    return f"{policy.workspace}/.git"


def with_repository(policy: Policy, own: str, common: str) -> Policy:
    """In a linked worktree: its repository, as far as a commit needs it. Hooks and configuration stay as they are."""

    def rule(access: Access, verdict: Verdict, path: str) -> Rule:
        return Rule(access, verdict, path, BUILT_IN, need=Need.WANTED, why=REPOSITORY)

    written = (own, *(f"{common}/{name}" for name in ("objects", "refs", "logs")))
    kept = (
        *(f"{own}/{name}" for name in ("commondir", "gitdir", "config.worktree")),
        f"{common}/objects/info/alternates",
    )
    added = (
        rule(Access.READ, Verdict.ALLOW, common),
        *(rule(Access.WRITE, Verdict.ALLOW, path) for path in written),
        *(rule(Access.WRITE, Verdict.DENY, path) for path in kept),
    )
    return msgspec.structs.replace(policy, rules=policy.rules + added)
