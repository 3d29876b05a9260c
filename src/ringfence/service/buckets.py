"""How often somebody may ask: a bucket for each, which fills again with time."""

import time

from .trouble import Trouble


class Buckets:
    """So many at once, so many a second. Who has not asked for as long as a bucket takes to fill is forgotten."""

    def __init__(self, most: float, rate: float) -> None:
        self._most, self._rate = most, rate
        self._left: dict[str, tuple[float, float]] = {}
        self._older: dict[str, tuple[float, float]] = {}  # who asked before that, and perhaps not since
        self._turned = time.monotonic()

    def take(self, asker: str) -> None:
        """Once more, or it is too often."""
        if self._now(asker) < 1:
            raise Trouble("too_many", "too many requests; wait a moment")
        self.spend(asker, 1)

    def spend(self, asker: str, cost: float) -> float:
        """What something turned out to cost; for how many seconds nothing more should be done then."""
        left = self._now(asker) - cost
        self._left[asker] = (left, time.monotonic())
        return max(0.0, -left / self._rate)

    def _now(self, asker: str) -> float:
        """What is in a bucket. Nobody goes through all of them: names that somebody makes up may be many."""
        now = time.monotonic()
        if now - self._turned > 2 * self._most / self._rate:
            self._older, self._left, self._turned = self._left, {}, now
        left, before = self._left.get(asker) or self._older.get(asker) or (self._most, now)
        return min(self._most, left + (now - before) * self._rate)
