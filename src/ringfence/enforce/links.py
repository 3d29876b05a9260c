"""Where the symbolic links on a path stand. Of the file system alone, on every platform."""

import os


def links_on(path: str) -> tuple[str, ...]:
    """Where the symbolic links on a path stand, following each as it comes."""
    found: list[str] = []
    here, rest = "/", [name for name in path.split("/") if name]
    while rest and len(found) < 40:  # as many as the kernel follows
        name = rest.pop(0)
        if name == "..":
            here = os.path.dirname(here)
            continue
        there = os.path.join(here, name)
        if os.path.islink(there):
            found.append(there)
            target = os.readlink(there)
            here = "/" if target.startswith("/") else here
            rest = [part for part in target.split("/") if part not in ("", ".")] + rest
        else:
            here = there
    return tuple(found)
