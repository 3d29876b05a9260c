"""Limits: how they are written, and whose counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.model import Limit, Origin, UsageError
from ringfence.model.policy import LIMITS, shown_amount
from ringfence.policy import Flags
from ringfence.policy.flags import flags_layer
from ringfence.policy.layer import Layer, Setting, Tier, merge
from ringfence.policy.limits import read_amount
from ringfence.policy.paths import Base

WS = "/home/u/ws"


@pytest.mark.parametrize(
    ("name", "value", "amount"),
    [
        ("timeout", "60s", 60),
        ("timeout", "5m", 300),
        ("timeout", "500ms", 0.5),
        ("cpu", 1.5, 1.5),
        ("cpu", "1h", 3600),
        ("memory", "2G", 2 << 30),
        ("output", "10M", 10 << 20),
        ("disk", 1000, 1000),
        ("fileSize", "4K", 4096),
        ("processes", "256", 256),
    ],
)
def test_an_amount_is_read_as_people_write_it(name: str, value: object, amount: float) -> None:
    assert read_amount(name, value) == amount


@pytest.mark.parametrize(
    ("name", "value"),
    [("timeout", "0"), ("timeout", "-1s"), ("timeout", "soon"), ("timeout", "1G"), ("timeout", "inf"), ("cpu", True),
     ("memory", "0.3"), ("memory", "1s"), ("memory", "nan"), ("processes", "1K"), ("processes", 0), ("files", None)],
)  # fmt: skip
def test_what_is_no_amount_is_not_taken_for_one(name: str, value: object) -> None:
    with pytest.raises(ValueError):
        read_amount(name, value)


@given(st.sampled_from(LIMITS), st.integers(1, 1 << 50))
def test_an_amount_is_shown_as_it_can_be_read(name: str, amount: int) -> None:
    if name in ("timeout", "cpu"):
        amount = amount % 100_000 + 1

    assert read_amount(name, shown_amount(name, amount)) == amount


def layer(tier: Tier, amount: object, trusted: bool = True) -> Layer:
    name = tier.name.lower()
    return Layer(tier, name, trusted, settings=(Setting("limits.memory", amount, Origin(name, 1)),))


@pytest.mark.parametrize(
    ("layers", "amount", "said"),
    [
        ((layer(Tier.USER, "1G"), layer(Tier.FLAGS, "2G")), 2 << 30, []),
        ((layer(Tier.USER, "1G"), layer(Tier.PROJECT, "512M", trusted=False)), 512 << 20, []),
        (
            (layer(Tier.USER, "1G"), layer(Tier.PROJECT, "2G", trusted=False)),
            1 << 30,
            ["project:1: limits.memory has no effect: user:1 says 1G, and the project is not trusted"],
        ),
        ((layer(Tier.PROJECT, "2G", trusted=False),), 2 << 30, []),
        (
            (layer(Tier.MANAGED, "1G"), layer(Tier.FLAGS, "2G")),
            1 << 30,
            ["flags:1: limits.memory has no effect: managed:1 says 1G, for everyone"],
        ),
        ((layer(Tier.MANAGED, "1G"), layer(Tier.USER, "512M"), layer(Tier.FLAGS, "700M")), 700 << 20, []),
    ],
)
def test_the_later_limit_counts_unless_somebody_with_more_say_forbids_it(
    layers: tuple[Layer, ...], amount: int, said: list[str]
) -> None:
    policy = merge(WS, layers)

    assert [(limit.name, limit.amount) for limit in policy.limits] == [("memory", amount)]
    assert list(policy.ignored) == said


def test_a_flag_is_a_limit_with_its_name() -> None:
    made = flags_layer(Flags(limits=(("fileSize", "1G"),)), Base(WS, "/home/u"))

    assert merge(WS, (made,)).limits == (Limit("fileSize", 1 << 30, Origin("--file-size")),)


@pytest.mark.parametrize("limit", [("memory", "lots"), ("size", "1G")])
def test_a_flag_that_is_none_is_refused(limit: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        flags_layer(Flags(limits=(limit,)), Base(WS, "/home/u"))
