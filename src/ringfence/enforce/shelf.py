"""A place for the package caches of each workspace: made once, kept, and swept when the workspace is gone."""

import contextlib
import os

from ..model import Shelf
from .enactor import digest

FOR_OTHERS = "/var/cache/ringfence"  # when root runs something as somebody: nobody else can put a link in the way


def make_shelf(workspace: str, home: str, ids: tuple[int, int] | None, caches: tuple[tuple[str, str], ...]) -> Shelf:
    """Where the caches of a workspace stand. `caches` are the names and places below the home of those that may be the
    host's: where there is none of them, nobody wants one, and nothing is made."""
    home = os.path.realpath(home) if home.startswith("/") else ""
    there = [name for name, path in caches if os.path.isdir(f"{home}/{path}")] if home else []
    if not there:
        return Shelf(home if os.path.isdir(home) else "")
    base = f"{FOR_OTHERS}/{ids[0]}" if ids else f"{_cache_home(home, workspace)}/ringfence"
    path = f"{base}/{_key(workspace)}"
    try:
        if not os.path.isdir(path):
            _sweep(base)
        _make(path, workspace, there, ids)
        for name in there:
            _sweep_work(f"{path}/layers/{name}/work")
    except OSError:  # a home that cannot be written: then in the private /tmp
        return Shelf(home)
    return Shelf(home, f"{path}/own", f"{path}/layers")


def _cache_home(home: str, workspace: str) -> str:
    """Where caches go, but never into the workspace: what lies above the host's is not the command's to change."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    found = os.path.realpath(named) if named.startswith("/") else f"{home}/.cache"
    return f"{home}/.cache" if os.path.commonpath((found, workspace)) == workspace else found


def _key(workspace: str) -> str:
    return digest(workspace.encode("utf-8", "surrogateescape"))[:32]


def _make(path: str, workspace: str, names: list[str], ids: tuple[int, int] | None) -> None:
    parts = [f"layers/{name}/{part}" for name in names for part in ("upper", "work")]
    for part in ("own", *parts):
        if not os.path.isdir(f"{path}/{part}"):
            os.makedirs(f"{path}/{part}", 0o755 if ids else 0o700, exist_ok=True)
            if ids:
                os.chown(f"{path}/{part}", *ids)
    if not os.path.exists(f"{path}/workspace"):
        with open(f"{path}/workspace", "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(workspace)


def _sweep(base: str) -> None:
    """Remove those of workspaces that are gone."""
    with contextlib.suppress(OSError):
        for name in os.listdir(base):
            path = f"{base}/{name}"
            with contextlib.suppress(OSError), open(f"{path}/workspace", errors="surrogateescape") as file:
                if not os.path.isdir(file.read()):
                    from .removal import remove_tree

                    remove_tree(path, os.lstat(f"{path}/own").st_uid)


def _sweep_work(path: str) -> None:
    """What the kernel left of a mount that is gone: closed directories, in one that is named by who made it."""
    for name in os.listdir(path):
        if os.path.exists(f"/proc/{name}"):
            continue
        from .removal import remove_tree  # by descriptor: the place is its owner's, who could put a link there

        with contextlib.suppress(OSError):
            remove_tree(f"{path}/{name}", os.lstat(path).st_uid)
