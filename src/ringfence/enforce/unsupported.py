"""A platform without a sandbox yet: the policy can be read and judged, a plan has one required gap, nothing runs.

macOS takes from here what Linux alone has.
"""

import os
import sys
from collections.abc import Callable, Iterable, Set
from types import TracebackType
from typing import NoReturn

from ..model import (
    Crowd,
    Disk,
    Ending,
    Host,
    Kind,
    LaunchError,
    Mount,
    Observed,
    Place,
    Plan,
    Rule,
    Shelf,
    Step,
    Stream,
)
from .flows import Give, Sink


class Supervisor:
    """Never made here."""

    is_over = True
    input: "Give | None" = None

    def wants(self) -> dict[int, int]:
        raise NotImplementedError

    def deadline(self) -> float | None:
        raise NotImplementedError

    def happened(self, fd: int, events: int) -> None:
        raise NotImplementedError

    def pause(self, is_paused: bool) -> None:
        raise NotImplementedError

    def tick(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        raise NotImplementedError

    def hold(self, is_held: bool, done: Callable[[], None]) -> bool:
        raise NotImplementedError

    def interrupt(self) -> None:
        raise NotImplementedError


class Launch:
    """A launch in name only: none is ever made here, and macOS overrides what it can do."""

    is_ready = False
    is_quiet = False
    own_steps: Callable[[], tuple[Step, ...]] | None = None
    denied: tuple[int, ...] = ()
    heard = b""
    on_seen: Callable[[Observed], None] | None = None
    on_paused: Callable[[int], None] | None = None
    supervisor: Supervisor | None = None

    def observed(self) -> tuple[list[Observed], int]:
        """Nobody watches here."""
        return [], 0

    def opened(self, count: int) -> tuple[int, ...]:
        raise NotImplementedError

    def end_with(self, pid: int) -> None:
        raise NotImplementedError

    def __enter__(self) -> "Launch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        raise NotImplementedError

    def forward(self, number: int) -> None:
        raise NotImplementedError

    def signal(self, number: int) -> None:
        raise NotImplementedError

    def supervise(
        self,
        sink: Sink | None = None,
        data: bytes = b"",
        timeout: float | None = None,
        output: int | None = None,
        finish: bool = True,
    ) -> Supervisor:
        raise NotImplementedError

    def wait(
        self, timeout: float | None = None, data: bytes = b"", sink: Sink | None = None, output: int | None = None
    ) -> tuple[Ending, bytes | None, bytes | None]:
        raise NotImplementedError

    def ending(self) -> Ending:
        raise NotImplementedError


def _refuse() -> NoReturn:
    raise LaunchError(sys.platform, "ringfence cannot enforce anything here yet", "use Linux")


def canonical(path: str) -> str:
    return os.path.realpath(path)


def standing_at(path: str) -> os.stat_result:
    return os.stat(path)


def survey(
    paths: Iterable[str],
    held: list[int],
    known: Disk = Disk({}),  # noqa: B008 - frozen
    ids: tuple[int, int] | None = None,
    denied: Set[str] = frozenset(),
) -> Disk:
    return Disk({path: Place(path, os.path.realpath(path), Kind.MISSING) for path in paths} | known.places)


def list_children(disk: Disk, paths: list[str], ids: tuple[int, int] | None = None) -> Disk:
    return disk


def make_shelf(workspace: str, home: str, ids: tuple[int, int] | None, caches: tuple[tuple[str, str], ...]) -> Shelf:
    return Shelf()


def mounts() -> tuple[Mount, ...]:
    return ()


def inheritance() -> tuple[object, ...]:
    """There is no standby that would have to inherit it."""
    return ()


def disown() -> None:
    """Nothing runs."""


def ask(ids: tuple[int, int] | None) -> None:
    """There is nothing to find out."""


def probe(ids: tuple[int, int] | None = None) -> Host:
    return Host(sys.platform, os.uname().machine)


class Opened:
    """Never made here."""

    path = ""


def open_enactor() -> Opened:
    _refuse()


def controllers() -> tuple[str, ...]:
    return ()


def hides_processes() -> bool:
    return False


def owns_group(ids: tuple[int, int] | None) -> bool:
    return False


class Group:
    """Never made here."""


def make_group(plan: Plan) -> Group | None:
    return None


class Nursery:
    """Never made here."""

    def __init__(self, plan: Plan, walls: bytes, steps: int) -> None:
        _refuse()

    def ask(self, most: int = 1) -> None:
        _refuse()

    def take(self) -> "Standby":
        _refuse()

    def disown(self) -> None:
        """There is nothing to let go."""

    def close(self) -> None:
        """There is nothing to let go."""


class Standby:
    """Never made here."""

    LONGEST = 0
    SECONDS = 0.0
    is_awaited_at_its_end = False

    def close(self) -> None:
        """There is nothing to let go."""


def start(
    plan: Plan,
    data: bytes,
    pumped: tuple[int, ...] = (),
    capture: bool = False,
    feed: bool = False,
    standby: Standby | None = None,
    group: Group | None = None,
) -> Launch:
    _refuse()


def folding(paths: Iterable[str], mounts: object) -> dict[str, bool]:
    """Of none is it known, so all may; nothing is mounted."""
    return dict.fromkeys(paths, False)


def look_at(
    crowds: Iterable[Crowd], apart: object, mounts: object, held: object, ids: object
) -> tuple[tuple[Crowd, ...], list[Rule]]:
    """Nothing is planned together: each rule by itself."""
    return (), [rule for crowd in crowds for rule in crowd.rules.values()]


def look_over(inherited: tuple[int, ...]) -> tuple[tuple[Stream, ...], tuple[int, ...], bool, bool]:
    """Nothing is opened again, and there are no standbys that a terminal could miss."""
    return (), (), False, False


def were_plain() -> bool:
    """Nobody else looks at them here."""
    return False
