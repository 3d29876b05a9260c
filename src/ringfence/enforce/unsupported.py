"""A platform without a sandbox yet: the policy can be read and judged, a plan has one required gap, nothing runs."""

import os
import sys
from types import TracebackType
from typing import NoReturn

from ..model import Disk, Host, Kind, LaunchError, Mount, Place, Plan, Refused, Stream


class Launch:
    """Never made here."""

    def __enter__(self) -> "Launch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        raise NotImplementedError

    def forward(self, number: int) -> NoReturn:
        raise NotImplementedError

    def wait(self, timeout: float | None = None, data: bytes = b"") -> tuple[Refused, bytes | None, bytes | None]:
        raise NotImplementedError


def _refuse() -> NoReturn:
    raise LaunchError(sys.platform, "ringfence cannot enforce anything here yet", "use Linux")


def canonical(path: str) -> str:
    return os.path.realpath(path)


def survey(paths: list[str], held: list[int], known: Disk = Disk({}), ids: tuple[int, int] | None = None) -> Disk:  # noqa: B008
    return Disk({path: Place(path, os.path.realpath(path), Kind.MISSING) for path in paths} | known.places)


def linked_worktree(workspace: str) -> tuple[str, str] | None:
    return None


def list_children(disk: Disk, paths: list[str]) -> Disk:
    return disk


def mounts() -> tuple[Mount, ...]:
    return ()


def inheritance() -> tuple[object, ...]:
    """Nothing is inherited by nobody."""
    return ()


def disown() -> None:
    """Nothing runs."""


def ask(ids: tuple[int, int] | None = None) -> None:
    """There is nothing to find out."""


def probe(ids: tuple[int, int] | None = None) -> Host:
    return Host(sys.platform, os.uname().machine)


class Opened:
    """Never made here."""

    path = ""


def open_enactor(path: str = "") -> Opened:
    _refuse()


class Standby:
    """Never made here."""

    def __init__(self, plan: Plan, head: bytes, steps: int) -> None:
        _refuse()

    def is_ready(self) -> bool:
        return False

    def close(self) -> None:
        """There is nothing to let go."""


def start(
    plan: Plan,
    data: bytes,
    pumped: tuple[int, ...] = (),
    capture: bool = False,
    feed: bool = False,
    standby: Standby | None = None,
) -> Launch:
    _refuse()


def fill_closed() -> None:
    """Nothing runs, so nothing is inherited."""


def inspect(fd: int) -> Stream | str:
    return "pass"
