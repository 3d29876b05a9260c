"""Verdicts are ordered, so that combining them is `max`: the stricter stands."""

import enum


class Verdict(enum.IntEnum):
    """What is said of one access."""

    ALLOW = 0
    ASK = 1
    DENY = 2

    @property
    def word(self) -> str:
        return self.name.lower()
