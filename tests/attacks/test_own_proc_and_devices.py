"""What somebody denies in /proc, and of the devices that every run has: no mount of a plan's holds that, for the run's
own /proc comes over it. It was hidden in the plan, and open."""

import resource
from collections.abc import Iterator

import pytest
from tests.attacks.conftest import EVERY_WALL, ROOT, Field, Ground, Walls, backend

import ringfence
from ringfence import keep, policy
from ringfence.model import Access, Verdict
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


@EVERY_WALL
@pytest.mark.parametrize("place", ["/proc/*/limits", "/dev/*"])
def test_what_a_pattern_denies_there_is_not_opened(field: Field, place: str) -> None:
    """For each process of the machine, and for where the links in /dev led, bubblewrap was to mount something in a
    /proc that is another one."""
    program = PROGRAM.splitlines()[5:6] if place.startswith("/proc") else PROGRAM.splitlines()[-2:]

    field.repels("\n".join(program), denied=lambda _ground: {"deny_read": (place,)})


@EVERY_WALL
@pytest.mark.parametrize("place", ["/proc/self/lim*", "/proc/self/task/*/limits", "/proc/*/limits"])
def test_what_a_pattern_denies_of_a_process_is_not_opened_of_a_thread_either(field: Field, place: str) -> None:
    """By `self` it was a pattern for ringfence's own number, and everything was open."""
    program = "\n".join(PROGRAM.splitlines()[5:8])

    field.repels(program, denied=lambda _ground: {"deny_read": (place,)})


ALL_OF_IT = """
attempt("its own", lambda: read("/proc/self/status"))
attempt("its own by number", lambda: read(f"/proc/{os.getpid()}/status"))
attempt("a directory of it", lambda: os.listdir("/proc/self/task"))
"""


@pytest.mark.parametrize("place", ["/proc/self", "/proc/thread-self"])
def test_all_that_is_said_of_a_process_is_not_opened(field: Field, place: str) -> None:
    """The plan had it by ringfence's own number, which is nobody's inside."""
    field.repels(ALL_OF_IT, denied=lambda _ground: {"deny_read": (place,)})


def test_the_tasks_of_a_process_are_denied_alone(field: Field) -> None:
    program = ALL_OF_IT if field.walls.kind == "view" else 'attempt("a device", lambda: read("/dev/zero"))'
    seen = field.program(field.ground(), program, deny_read=("/proc/self/task",))
    seen.answers.pop("a directory of it", None)

    assert set(seen.answers.values()) == {"done"}, seen.said


@pytest.mark.parametrize("place", ["/dev/ptmx", "/dev/ptm*"])
def test_a_device_that_is_a_link_inside_is_not_opened(field: Field, place: str) -> None:
    program = """
attempt("terminals", lambda: os.open("/dev/ptmx", os.O_RDWR))
attempt("where it leads", lambda: os.open("/dev/pts/ptmx", os.O_RDWR))
"""
    field.repels(program, denied=lambda _ground: {"deny_read": (place,)}, unknown=("where it leads",))


@pytest.mark.parametrize("place", ["/dev/zero", "/dev", "/dev/*"])
def test_the_judge_says_of_devices_what_is_held(field: Field, place: str) -> None:
    program = """
attempt("read", lambda: read("/dev/zero"))
attempt("write", lambda: write("/dev/zero", flags=0))
"""
    ground = field.ground()
    seen = field.program(ground, program, deny_read=(place,))
    with backend(field.walls):
        asked = keep.prepare(
            keep.Request(
                str(ground.workspace), str(ground.workspace), ringfence.Flags(deny_read=(place,)), str(ground.home),
                (ground.uid, ground.gid) if field.walls.who == "owner" else None,
            )
        ).judged()  # fmt: skip
        said = {access.value: policy.decide(asked, access, "/dev/zero").verdict for access in Access}

    assert seen.answers == {"read": "EACCES", "write": "EACCES"}, seen.said
    assert said == {"read": Verdict.DENY, "write": Verdict.DENY}


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


@pytest.fixture
def descriptors() -> Iterator[None]:
    """One for each process that a pattern matches: where the first one reaps nobody there are more than a thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize(
    ("flags", "place"),
    [
        ({"allow_write": "/proc/self/comm"}, "/proc/self/comm writable"),
        ({"allow_write": "/proc"}, "/proc writable"),
        ({"allow_write": "/dev"}, "/dev granted"),
        ({"allow_read": "/proc/self/comm", "deny_read": "/proc"}, "/proc/self/comm readable"),
        ({"allow_read": "/proc/self/comm"}, ""),
        ({"allow_read": "/proc/*/comm", "deny_read": "/proc"}, ""),
    ],
)
def test_what_is_granted_there_and_not_given_is_said(field: Field, flags: dict[str, str], place: str) -> None:
    program = f'attempt("it", lambda: {"write" if "allow_write" in flags else "read"}("/proc/self/comm"))'
    seen = field.program(field.ground(), program, **{name: (value,) for name, value in flags.items()})
    told = [gap.what for gap in seen.gaps if gap.why.startswith("the run has a /")]

    if field.walls.kind == "view":
        assert told == [place] * bool(place)
        assert (seen.answers["it"] == "done") is (not place), seen.said
    else:
        assert told == []


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr", "fd", "fd/1", "std*"])
def test_leave_for_a_stream_by_its_name_is_what_every_run_has(field: Field, name: str) -> None:
    """It led to a stream of ringfence's own: a pipe's name that is nowhere, and the launch was refused for it."""
    program = 'attempt("it", lambda: write("/dev/stdout", flags=0))'
    seen = field.program(field.ground(), program, allow_write=(f"/dev/{name}",))

    assert seen.answers == field.program(field.ground(), program).answers
    told = [gap.what for gap in seen.gaps if f"/dev/{name}" in gap.what]
    assert told == [f"the pattern /dev/{name} for names that appear later"] * ("*" in name)


@pytest.mark.parametrize("name", ["self/fd/1", "thread-self/fd/1", "self/fd", "self/fd/*"])
def test_leave_for_a_descriptor_of_proc_is_what_every_run_has(field: Field, name: str) -> None:
    """As by /dev/fd, which is a link to it."""
    program = 'attempt("it", lambda: write("/proc/self/fd/1", flags=0))'
    seen = field.program(field.ground(), program, allow_write=(f"/proc/{name}",))

    assert seen.answers == field.program(field.ground(), program).answers
    assert not [gap.what for gap in seen.gaps if "/fd" in gap.what]
