"""Devices of the host: a run has a few in a /dev of its own, and besides those that somebody names."""

import os
from pathlib import Path

import pytest
from tests.backends import on

import ringfence
from ringfence import Enforcement, Flags, Unenforceable
from ringfence.explain import why
from ringfence.run import make_request

pytestmark = pytest.mark.needs_root  # nobody else may open a device here that is not one of the few
TRIES = """
import os, sys
for flags in (os.O_RDONLY, os.O_RDWR):
    try:
        os.close(os.open(sys.argv[1], flags | os.O_NONBLOCK))
        print("allow")
    except OSError:
        print("deny")
"""


@pytest.fixture(scope="module")
def device() -> str:
    """One that root may open without capabilities."""
    known = (f"/dev/{name}" for name in ("net/tun", "cpu/0/cpuid"))
    return next(path for path in known if os.path.exists(path))


def test_all_of_dev_is_not_given_and_that_is_said(tmp_path: Path, device: str) -> None:
    request = make_request(str(tmp_path), flags=Flags(allow_write=("/dev",)), as_root=True)

    outcome = ringfence.run(["ls", device], workspace=str(tmp_path), flags=request.flags, as_root=True, capture=True)

    assert [gap.way_out for gap in outcome.gaps if gap.what == "/dev granted"] == [
        "name the device: --allow-write /dev/kvm"
    ]
    assert why(request, "write", device)[0].verdict.word == "deny"
    assert not outcome.ok


@pytest.mark.parametrize("backend", ["view", "bubblewrap", "landlock"])
@pytest.mark.parametrize(
    ("path", "given", "expected"),
    [
        ("DEVICE", {}, ["deny", "deny"]),
        ("DEVICE", {"allow_read": ("DEVICE",)}, ["allow", "deny"]),
        ("DEVICE", {"allow_write": ("DEVICE",)}, ["allow", "allow"]),
        ("DEVICE", {"allow_write": ("DEVICE",), "deny_read": ("DEVICE",)}, ["deny", "deny"]),
        ("DEVICE", {"allow_write": ("DEVICE",), "deny_write": ("DEVICE",)}, ["allow", "deny"]),
        ("/dev/null", {"allow_write": ("DEVICE",)}, ["allow", "allow"]),
        ("DEVICE", {"allow_write": ("DIRECTORY",), "deny_write": ("DEVICE",)}, ["allow", "deny"]),
        ("DEVICE", {"allow_write": ("DIRECTORY",), "deny_read": ("DEVICE",)}, ["deny", "deny"]),
        ("/dev/null", {"deny_read": ("/dev",)}, ["deny", "deny"]),
    ],
)
def test_a_device_is_there_for_who_named_it_and_the_judge_says_so(
    backend: str, path: str, given: dict[str, tuple[str, ...]], expected: list[str], tmp_path: Path, device: str
) -> None:
    path, known = path.replace("DEVICE", device), {"DEVICE": device, "DIRECTORY": os.path.dirname(device)}
    rules = {name: tuple(known.get(one, one) for one in ones) for name, ones in given.items()}
    flags = Flags(enforcement=Enforcement.BEST_EFFORT, **rules)  # type: ignore[arg-type]
    request = make_request(str(tmp_path), flags=flags, as_root=True)
    with on(backend):
        judged = [why(request, access, path)[0].verdict.word for access in ("read", "write")]
        words = ["python3", "-c", TRIES, path]
        outcome = ringfence.run(words, workspace=str(tmp_path), flags=flags, as_root=True, capture=True)

    assert (outcome.stdout or b"").decode().split() == expected, outcome
    assert judged == expected


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize(("nested", "abi"), [(True, 7), (False, 0)])
def test_one_to_be_read_is_not_given_where_it_could_be_written(
    nested: bool, abi: int, inside: bool, tmp_path: Path, device: str
) -> None:
    """A read-only mount does not keep a device from being written, and Landlock is not there, or makes no sandboxes."""
    place = os.path.dirname(device) if inside else device
    flags = Flags(allow_read=(place,), inline=(b'{"allowNestedSandbox": true}',) * nested)
    both = Flags(allow_write=(place,), inline=flags.inline)
    with on("view", landlock_abi=abi):
        with pytest.raises(Unenforceable, match=f"^--allow-read: {place} unwritable: "):
            ringfence.run(["true"], workspace=str(tmp_path), flags=flags, as_root=True)
        assert ringfence.run(["true"], workspace=str(tmp_path), flags=both, as_root=True).ok
