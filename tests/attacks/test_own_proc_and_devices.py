"""What somebody denies in /proc, and of the devices that every run has: no mount of a plan's holds that, for the run's
own /proc comes over it. It was hidden in the plan, and open."""

import pytest
from tests.attacks.conftest import EVERY_WALL, ROOT, Field, Ground, Walls

from ringfence.model.errors import Unenforceable

PROGRAM = """
attempt("a file of the system's", lambda: read("/proc/cpuinfo"))
attempt("keys", lambda: read("/proc/self/../keys"))
attempt("below a directory", lambda: read("/proc/sys/kernel/hostname"))
attempt("a directory", lambda: os.listdir("/proc/sys"))
attempt("its own", lambda: read("/proc/self/limits"))
attempt("its own by number", lambda: read(f"/proc/{os.getpid()}/limits"))
attempt("its thread's", lambda: read("/proc/thread-self/limits"))
attempt("by a link", lambda: read("/proc/mounts"))
attempt("by a descriptor", lambda: read("cpuinfo", os.open("/proc", os.O_PATH)))
attempt("by a descriptor of it", lambda: read(f"/proc/self/fd/{os.open('/proc/cpuinfo', os.O_PATH)}"))
attempt("a device", lambda: read("/dev/urandom"))
attempt("a device written", lambda: write("/dev/zero", flags=0))
"""
PLACES = ("/proc/cpuinfo", "/proc/keys", "/proc/sys", "/proc/self/limits", "/proc/self/mounts", "/dev/urandom")


def denied(_ground: Ground) -> dict[str, tuple[str, ...]]:
    return {"deny_read": PLACES, "deny_write": ("/dev/zero",)}


@EVERY_WALL
def test_what_is_denied_there_is_not_opened(field: Field) -> None:
    field.repels(PROGRAM, denied=denied)


@EVERY_WALL
def test_the_rest_stays_open(field: Field) -> None:
    program = """
attempt("a device", lambda: read("/dev/zero"))
attempt("another", lambda: write("/dev/null", flags=0))
"""
    more = 'attempt("its own", lambda: read("/proc/self/status"))\nattempt("a file", lambda: read("/proc/meminfo"))'
    seen = field.program(field.ground(), program + more * (field.walls.kind == "view"), **denied(field.ground()))

    assert set(seen.answers.values()) == {"done"}, seen.said


WHO = "owner" if ROOT else "self"
UNJUDGED = [
    pytest.param(Walls(backend, WHO), place, marks=mark, id=f"{backend} {place}")
    for backend, mark, place in (
        ("view", pytest.mark.needs_userns, "/proc/keys"),
        ("view", pytest.mark.needs_userns, "/dev/urandom"),
        ("unasked", pytest.mark.needs_landlock(6), "/dev/urandom"),
    )
]


@pytest.mark.parametrize(("field", "place"), UNJUDGED, indirect=["field"])
def test_where_no_warden_judges_it_the_launch_is_refused(field: Field, place: str) -> None:
    nested = (b'{"allowNestedSandbox": true}',) * (field.walls.backend == "view")
    with pytest.raises(Unenforceable, match=f"{place} denied"):
        field.run(field.ground(), ["true"], deny_read=(place,), inline=nested)
