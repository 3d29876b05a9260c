"""What all processes of a run may use together its siblings use with it, whatever holds that limit.

Each part of an attack stays below the limit, and is let through alone; it is the sum that is beyond.
"""

import os
import select
import socket
import subprocess
import sys
import time

import msgspec
import pytest
from tests.attacks.everybody import installed as installed
from tests.attacks.everybody import workspace as workspace
from tests.attacks.test_siblings import Outer, inner, living, until
from tests.attacks.test_siblings import mark as mark
from tests.attacks.test_siblings import outer as outer

from ringfence import siblings
from ringfence.beside import Bound
from ringfence.cli.beside import _join
from ringfence.enforce import cgroup
from ringfence.enforce.process import sealed
from ringfence.model import Policy

pytestmark = pytest.mark.usefixtures("installed")

PYTHON = "/usr/bin/python3 -I -c"
# What each needs for itself is told apart from what it takes: processes that ask, serve and keep count too.
SLEEPERS = "for n in $(seq {many}); do sleep {mark} & done; wait"
# Alone each is there for a moment; of two the first stays until the other has come.
EATS = f"{PYTHON} 'import sys, time\nheld = bytes(range(256)) * (150 * 4096); time.sleep(float(sys.argv[1]))'"
BURNS = f"{PYTHON} 'import time\nwhile time.process_time() < 0.6: pass'"
WRITES = f"{PYTHON} 'import os, sys\nopen(sys.argv[1], \"wb\").write(bytes(15 << 20)); os.sync()'"
FILLS = 'import os, sys, time\nopen(os.environ["TMPDIR"] + "/big", "wb").write(bytes(25 << 20)); '
KEEPS = f"{PYTHON} '{FILLS}time.sleep(float(sys.argv[1]))'"


def test_processes_of_both_are_counted(outer: Outer, mark: str) -> None:
    many = SLEEPERS.format(many=30, mark=mark)

    code, said = outer.run("--processes", "60", "--timeout", "2s", script=inner(script=many))
    assert code == 124, said

    code, said = outer.run("--processes", "60", script=f"{inner(script=many)} & {many}")
    assert code == 123, said
    assert "beyond its limit of processes" in said
    assert until(lambda: not living(mark))


def test_those_of_a_sibling_of_a_sibling_are_counted_for_both_around_it(outer: Outer, mark: str) -> None:
    many = SLEEPERS.format(many=30, mark=mark)

    narrow = inner("--processes", "60", script=f"{inner(script=many)} & {many}")
    code, said = outer.run(script=f"{narrow}; echo code $?")
    assert "code 123" in said, said
    assert code == 0

    code, said = outer.run("--processes", "70", script=f"{inner(script=inner(script=many))} & {many}")
    assert code == 123, said
    assert until(lambda: not living(mark))


def test_memory_of_both_is_counted(outer: Outer) -> None:
    code, said = outer.run("--memory", "300M", script=inner(script=f"{EATS} 1"))
    assert code == 0, said

    code, said = outer.run("--memory", "300M", script=f"{inner(script=f'{EATS} 60')} & {EATS} 60; wait")
    assert code == 123, said
    assert "beyond its limit of memory" in said


def test_processor_time_of_those_that_have_ended_is_counted(outer: Outer) -> None:
    burns = inner(script=BURNS)

    code, said = outer.run("--cpu", "3s", script=burns)
    assert code == 0, said

    begun = time.monotonic()
    code, said = outer.run("--cpu", "3s", script=";".join([burns] * 12))
    assert code == 123, said
    assert "beyond its limit of cpu" in said
    assert time.monotonic() - begun < 20


def test_what_those_wrote_that_have_ended_is_counted(outer: Outer) -> None:
    code, said = outer.run("--disk", "40M", script=inner(script=f"{WRITES} 0"))
    assert code == 0, said

    script = ";".join(inner(script=f"{WRITES} {n}") for n in range(4))
    code, said = outer.run("--disk", "40M", script=f"{script}; sleep 5")
    assert code == 123, said
    assert "beyond its limit of disk" in said


@pytest.mark.needs_userns
@pytest.mark.parametrize("limit", ["disk", "memory"])
def test_what_is_in_the_private_directories_of_both_is_counted(workspace: object, limit: str) -> None:
    outer = Outer(workspace, "view")  # type: ignore[arg-type]
    amount = {"disk": "40M", "memory": "90M"}[limit]
    most = {"disk": 1, "memory": 3}[limit]

    code, said = outer.run(f"--{limit}", amount, script=inner(script=f"{KEEPS} 1"))
    assert code == 0, said

    script = " & ".join([inner(script=f"{KEEPS} 60")] * most)
    code, said = outer.run(f"--{limit}", amount, script=f"{script} & {KEEPS} 60; wait")
    assert code == 123, said
    assert f"beyond its limit of {limit}" in said


def test_a_narrower_limit_of_the_inner_one_ends_that_alone(outer: Outer, mark: str) -> None:
    many = SLEEPERS.format(many=28, mark=mark)

    code, said = outer.run("--processes", "200", script=f"{inner('--processes', '20', script=many)}; echo code $?")

    assert "code 123" in said, said
    assert code == 0


def test_output_of_both_is_counted(outer: Outer) -> None:
    script = "head -c 3000 /dev/zero"

    code, said = outer.run("--output", "5000", script=f"{inner(script=script)}; {script}; sleep 3")

    assert code == 123, said
    assert said.count("\0") == 5000


def test_a_sibling_ends_when_the_time_of_the_outer_one_is_up(outer: Outer, mark: str) -> None:
    code, said = outer.run("--timeout", "2s", script=inner("--timeout", "1h", script=f"sleep {mark}"))

    assert code == 124, said
    assert until(lambda: not living(mark))


def test_files_and_their_size_hold_in_a_sibling(outer: Outer) -> None:
    """Even where it asks for more."""
    more = ("--files", "4000", "--file-size", "1G")
    script = f"ulimit -n; head -c 3000000 /dev/zero > big; {PYTHON} 'import os; print(os.stat(\"big\").st_size)'"

    _, said = outer.run("--files", "100", "--file-size", "1M", script=inner(*more, script=script))

    assert said.split()[:1] == ["100"], said
    assert str(1 << 20) in said.split(), said


def test_who_is_not_let_into_the_group_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "_found", None)
    with open("/dev/full", "wb") as full:
        refused = _join((full.fileno(),))
    assert refused is not None
    assert "lets nobody in" in str(refused)
    assert cgroup.controllers() == ()  # nor makes one of its own


def test_whoever_serves_is_in_the_group_before_it_reads_what_is_asked() -> None:
    """Memory counts for the group of whoever filled it, and four megabytes of a question become a hundred."""
    bound = sealed(msgspec.json.encode(Bound(Policy("/", ()), "/", "/", None)))
    (ours, theirs), (asker, link), (entered, group) = socket.socketpair(), socket.socketpair(), os.pipe()
    lifeline, end = os.pipe()
    given = (theirs.fileno(), lifeline, bound, bound, group)
    program = siblings._PROGRAM.format(siblings._PACKAGE, siblings._OTHERS)

    with subprocess.Popen([sys.executable, "-I", "-c", program, *map(str, given)], pass_fds=given) as serving:
        try:
            assert select.select([entered], [], [], 1)[0] == [], "nobody has come yet"
            socket.send_fds(ours, [siblings.TAKEN], [link.fileno(), bound])
            assert select.select([entered], [], [], 10)[0] == [entered], "it waits for what is asked"
            assert os.read(entered, 10) == b"0"
            assert serving.poll() is None
        finally:
            asker.close()
            link.close()
            ours.close()
            assert serving.wait(10) == 1
    theirs.close()
    for fd in (bound, entered, group, lifeline, end):
        os.close(fd)
