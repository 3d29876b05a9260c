"""The same file system shown twice: where else a path of the host can be reached.

Pure, over the lines of /proc/self/mountinfo. A mount hides or protects a path, not a file; what is bound a second time
elsewhere must be hidden or protected there too.
"""

import msgspec

from ..model import Mount, Policy, Rule, Verdict


def _inside(path: str, above: str) -> str | None:
    """What of a path lies below another: "" for the same, None for none of it."""
    if path == above:
        return ""
    stem = above.rstrip("/") + "/"
    return path[len(stem) - 1 :] if path.startswith(stem) else None


def holder(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """The mount a path stands on: the deepest, and of those on one point the last."""
    found = None
    for mount in mounts:
        if _inside(path, mount.point) is not None and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def elsewhere(path: str, mounts: tuple[Mount, ...]) -> list[str]:
    """The other paths at which what stands here, or a part of it, shows."""
    here = holder(path, mounts)
    if here is None:
        return []
    within = (here.root.rstrip("/") + (_inside(path, here.point) or "")) or "/"  # where it lies in its file system
    found = []
    for mount in mounts:
        if mount is here or mount.device != here.device:
            continue
        below = _inside(within, mount.root)
        if below is not None:
            other = mount.point.rstrip("/") + below or "/"
        elif _inside(mount.root, within) is not None:
            other = mount.point  # a part of it is mounted there
        else:
            continue
        if other != path and holder(other, mounts) is mount:
            found.append(other)
    return found


def with_aliases(policy: Policy, canonical: dict[str, str], mounts: tuple[Mount, ...]) -> Policy:
    """The policy with every denial of something that is there repeated wherever it shows again."""
    devices = [mount.device for mount in mounts]
    if len(set(devices)) == len(devices):
        return policy
    added: list[Rule] = []
    for rule in policy.rules:
        if rule.verdict is Verdict.ALLOW or rule.path not in canonical:
            continue
        added += [msgspec.structs.replace(rule, path=other) for other in elsewhere(canonical[rule.path], mounts)]
    return msgspec.structs.replace(policy, rules=policy.rules + tuple(added)) if added else policy
