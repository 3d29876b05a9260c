"""What holds a run, chosen by a test: a view, a view that bubblewrap builds, or Landlock alone."""

import contextlib
import functools
from collections.abc import Iterator

import msgspec

from ringfence import enforce, keep
from ringfence.enforce import bubblewrap, enactor
from ringfence.model import Enactor, Host

# The command line, on the backend that its first word names. In a user namespace of the test's own nobody is root, to
# whom bubblewrap has to belong, so it is not looked for.
COMMAND_LINE = """
import msgspec, os, sys
from ringfence import cli, enforce
from ringfence.enforce import enactor
how, host = sys.argv.pop(1), enforce.probe()
if how != "view":
    host = msgspec.structs.replace(host, namespaces=False, namespaces_why="for the test")
if how == "bubblewrap":
    host = msgspec.structs.replace(host, bubblewrap="/usr/bin/bwrap", fresh_proc=True)
enactor._hosts[os.geteuid()] = host
sys.exit(cli.main())
"""


@functools.cache
def with_bubblewrap(host: Host, ids: tuple[int, int] | None) -> Host:
    """The same machine as one that lets only bubblewrap make user namespaces."""
    found = bubblewrap.found(host, ids)
    assert found.bubblewrap, found.bubblewrap_why
    return found


@contextlib.contextmanager
def on(backend: str, ids: tuple[int, int] | None = None, **facts: bool | int | Enactor) -> Iterator[None]:
    """Every plan for this user is made for this backend, with nothing prepared before or after; `facts` of the machine
    are as they are given."""
    host = enforce.probe(ids)
    chosen = msgspec.structs.replace(host, **facts)
    if backend != "view":
        chosen = msgspec.structs.replace(chosen, namespaces=False, namespaces_why="for the test")
    if backend == "bubblewrap":
        chosen = with_bubblewrap(chosen, ids)
    enactor._hosts[host.uid] = chosen
    keep.forget_all()
    try:
        yield
    finally:
        keep.forget_all()
        enactor._hosts[host.uid] = host
