"""What was asked and cannot be given here, and why. Pure."""

from ..model import BUILT_IN, Access, Disk, Gap, Host, Kind, Need, Policy, Verdict
from .rules import has_view, is_allow_write, is_any_below, swayed


def kernel_gaps(host: Host) -> list[Gap]:
    """What this kernel's Landlock does not know, where nothing else holds it."""
    abi = host.landlock_abi
    if has_view(host):
        rows = [
            (1, "files", Need.WANTED, "; the mounts hold alone"),
            (5, "ioctl on devices", Need.WANTED, "; the private /dev has few"),
            (6, "signals to the caller's own process group", Need.WANTED, "; at a terminal the command is in it"),
        ]
    else:
        rows = [
            (1, "files", Need.REQUIRED, "; nothing holds them"),
            (3, "truncation outside the workspace", Need.REQUIRED, ""),
            (5, "ioctl on devices", Need.WANTED, ""),
            (6, "signals to other processes", Need.REQUIRED, ""),
        ]
    return [
        Gap(what, f"Landlock ABI {abi}, needs {since}{note}", need, BUILT_IN, "a newer kernel")
        for since, what, need, note in rows
        if abi < since
    ]


def glob_gaps(policy: Policy) -> list[Gap]:
    """Patterns are not expanded yet."""
    return [
        Gap(
            f"the pattern {rule.path}",
            "patterns are not carried out yet",
            Need.WANTED if rule.verdict is Verdict.ALLOW else Need.REQUIRED,
            rule.origin,
            "name the paths one by one",
        )
        for rule in policy.rules
        if rule.glob
    ]


def link_gaps(policy: Policy, disk: Disk) -> list[Gap]:
    """Symbolic links in writable places on the way to something denied: the target is held, the link is not."""
    roots = {disk[rule.path].path for rule in policy.rules if is_allow_write(rule)}
    return [
        Gap(
            f"{rule.path} kept through its link",
            "a mount covers what a link points at, and the link can be replaced",
            rule.need,
            rule.origin,
            "name the link's target instead",
        )
        for rule in policy.rules
        if rule.access is Access.WRITE
        and rule.verdict is Verdict.DENY
        and not rule.glob
        and is_any_below(disk[rule.path].links, roots)
    ]


def grant_gaps(policy: Policy, disk: Disk) -> list[Gap]:
    """What somebody asked to be given, and is not."""
    gaps = [
        Gap(
            f"{rule.path} {'readable' if rule.access is Access.READ else 'writable'}",
            "it runs through a symbolic link that the command itself may replace",
            Need.REQUIRED,
            rule.origin,
            "name the link's target instead",
        )
        for rule in swayed(policy, disk)
    ]
    for rule in policy.rules:
        given = rule.verdict is Verdict.ALLOW and rule.origin != BUILT_IN and not rule.glob and not rule.implied
        if given and disk[rule.path].kind is Kind.MISSING:
            why = "nothing is there, and nothing is created on the host"
            way_out = "create it before the run, or name its directory"
            gaps.append(Gap(f"{rule.path} granted", why, Need.WANTED, rule.origin, way_out))
    return gaps
