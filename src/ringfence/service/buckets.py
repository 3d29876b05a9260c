"""How often somebody may ask: a bucket for each, which fills again with time."""

import time

from .trouble import Trouble

MOST_ASKERS = 10_000


class Buckets:
    """So many at once, so many a second. One whose bucket is full again is forgotten."""

    def __init__(self, most: float, rate: float) -> None:
        self._most, self._rate = most, rate
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, asker: str) -> None:
        """Once more, or it is too often."""
        now = time.monotonic()
        left, before = self._left.get(asker, (self._most, now))
        left = min(self._most, left + (now - before) * self._rate)
        if left < 1:
            raise Trouble("too_many", "too many requests; wait a moment")
        if len(self._left) >= MOST_ASKERS:
            full = self._most / self._rate
            self._left = {name: kept for name, kept in self._left.items() if now - kept[1] < full}
        self._left[asker] = (left - 1, now)
