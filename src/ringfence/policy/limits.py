"""Limits: how amounts are written, and which layer's counts.

Of one limit the later layer's counts, as with every single value; but nobody goes beyond a managed one, and a layer
that is not trusted can only lower what others set. Pure.
"""

from collections.abc import Iterable

import msgspec

from ..model import Limit, Origin
from ..model.policy import LIMITS, SIZES, TIMES, UNITS, shown_amount

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Asked(msgspec.Struct, frozen=True):
    """A limit as one layer sets it."""

    name: str
    amount: float
    origin: Origin
    trusted: bool = True
    managed: bool = False


def read_amount(name: str, value: object) -> float:
    """An amount as people write it: 90, "60s", "5m", "512M". Raises ValueError for what is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        amount = float(value)
    elif isinstance(value, str):
        amount = _read_text(name, value.strip())
    else:
        raise ValueError(value)
    if not 0 < amount < 1e18 or (name not in TIMES and amount != int(amount)):
        raise ValueError(value)
    return amount


def _read_text(name: str, text: str) -> float:
    units: dict[str, float] = _SECONDS if name in TIMES else {**UNITS} if name in SIZES else {}
    for unit in sorted(units, key=len, reverse=True):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * units[unit]
    return float(text)


def examples(name: str) -> str:
    """What would be understood."""
    return "60s, 5m, 500ms" if name in TIMES else "512M, 2G, 1000000" if name in SIZES else "256"


def settle(asked: Iterable[Asked], notes: list[str]) -> tuple[Limit, ...]:
    """One limit of each name, of all that were asked for in the order of the layers."""
    found: dict[str, Limit] = {}
    ceilings: dict[str, Asked] = {}
    for one in asked:
        ceiling, before = ceilings.get(one.name), found.get(one.name)
        bounds = (ceiling, None if one.trusted else before)
        over = next((bound for bound in bounds if bound and one.amount > bound.amount), None)
        if over is not None:
            why = "for everyone" if over is ceiling else "and the project is not trusted"
            most = f"{over.origin} says {shown_amount(one.name, over.amount)}, {why}"
            notes.append(f"{one.origin}: limits.{one.name} has no effect: {most}")
        else:
            found[one.name] = Limit(one.name, one.amount, one.origin)
            if one.managed:
                ceilings[one.name] = one
    return tuple(found[name] for name in LIMITS if name in found)
