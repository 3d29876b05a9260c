"""A descriptor is handed in while its caller is bound to the warden's processor: nobody is left bound.

The sanitized enactor binds whatever a hand-over takes; the product's does where it takes long.
"""

import contextlib
import os
import re
import shlex
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from tests.enforce.conftest import WALLS, Ran, Site, Walls, bare, rule

from ringfence.enforce import wire
from ringfence.enforce.enactor import Opened
from ringfence.model import Policy, Verdict

assert sys.platform == "linux"

# What is bound, of the command, its threads and its children, after new files and in the midst of them.
LOOKS = """
import os, threading
seen = set()
def make(name):
    for i in range(200):
        os.close(os.open(f"{name}-{i}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        if i % 20 == 0:
            seen.add(tuple(sorted(os.sched_getaffinity(0))))
            child = os.fork()
            if not child:
                os._exit(tuple(sorted(os.sched_getaffinity(0))) not in seen)
            seen.add(("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
threads = [threading.Thread(target=make, args=(f"thread-{i}",)) for i in range(3)]
[thread.start() for thread in threads]
make("main")
[thread.join() for thread in threads]
print(sorted(map(str, seen)))
"""

# A child makes files until its parent has done something meanwhile.
MEANWHILE = """
import os, signal, time
everywhere, count = os.sched_getaffinity(0), 0
child = os.fork()
while not child:
    os.close(os.open("made", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    os.unlink("made")
time.sleep(0.3)
{}
os.kill(child, signal.SIGKILL)
os.wait()
print(count)
"""

# It binds the child: how often that was lost.
BINDS = MEANWHILE.format("""
where = sorted(everywhere)
for turn in range(300):
    chosen = {where[turn % len(where)]}
    os.sched_setaffinity(child, chosen)
    for _ in range(20):
        count += os.sched_getaffinity(child) != chosen
""")

# It asks where the child may run: how often it was told less.
ASKS = MEANWHILE.format("""
for _ in range(300):
    time.sleep(0.001)
    count += os.sched_getaffinity(child) != everywhere
""")

# Somebody outside says where it runs, so that it cannot be kept: how often the warden wakes when nobody asks any more.
NARROW = """
import ctypes, os, re, sys, time
def woken():
    return int(re.search(r"\\nvoluntary_ctxt_switches:\t(.*)", open("/proc/1/status").read())[1])
ctypes.CDLL(None).prctl(15, sys.argv[1].encode())
open("look", "w").close()
while os.path.exists("look"):
    time.sleep(0.01)
for _ in range(200):
    os.close(OPENED)
time.sleep(0.5)
before = woken()
time.sleep(0.5)
print(woken() - before)
"""

# Whoever opens one file after the other, and the warden opens or makes each, is kept on its processor; what is seen of
# that: by whoever is kept, right then and a moment later, by what it is asked, by its children, threads and programs.
KEEPS = """
import os, re, subprocess, sys, threading, time
everywhere = os.sched_getaffinity(0)
status = os.open("/proc/self/status", os.O_RDONLY)
tells = "import os; print(len(os.sched_getaffinity(0)))"
def listed():
    return re.search(rb"Cpus_allowed:\\t(.*)", os.pread(status, 10000, 0))[1]
def read(count=50):
    for _ in range(count):
        os.close(OPENED)
def is_narrow():
    return os.sched_getaffinity(0) != everywhere
def child():
    read()
    number = os.fork()
    if not number:
        os._exit(is_narrow())
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
def thread():
    found = []
    read()
    started = threading.Thread(target=lambda: found.append(is_narrow()))
    started.start()
    started.join()
    return int(found[0])
def program(by_thread):
    number = os.fork()
    if not number:
        run = lambda: (read(), os.execv(sys.executable, [sys.executable, "-c",
            f"import os; os._exit(os.sched_getaffinity(0) != {everywhere})"]))
        by_thread and threading.Thread(target=run).start()
        by_thread or run()
        time.sleep(60)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
def opened():
    with open("/proc/self/status", "rb") as status:
        return status.read() and listed()
def moved(where):
    # Whether children of who has chosen where to run have been sent elsewhere.
    children = [os.fork() or time.sleep(60) for _ in range(9)]
    time.sleep(0.05)
    found = any(os.sched_getaffinity(child) != {where} for child in children)
    [(os.kill(child, 9), os.waitpid(child, 0)) for child in children]
    return found
def widened(where):
    # As if they were those of another, who is kept there.
    reader = os.fork()
    while not reader:
        read(1)
    os.sched_setaffinity(0, {where})
    time.sleep(0.05)
    found = moved(where)
    os.kill(reader, 9)
    os.waitpid(reader, 0)
    os.sched_setaffinity(0, everywhere)
    return found
before = listed()
slow = set()
for _ in range(25):  # who works between its calls
    time.sleep(0.03)
    read(1)
    slow.add(listed() != before)
read()
kept = listed() != before
time.sleep(0.2)
later = listed() != before
read()
asked = is_narrow()
read()
looked = opened() != before
children = child(), thread(), program(False), program(True)
where = max(everywhere)
read()
os.sched_setaffinity(0, {where})
chosen = moved(where)
read()
time.sleep(0.2)
chosen |= os.sched_getaffinity(0) != {where} or any([widened(where) for where in everywhere])
print(slow, int(kept), later, asked, looked, chosen, *children)
"""


# Forks in a rain of signals: how many of them were ended by one. No system that we know of does that.
FORKS = """
import os, signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
ended = 0
for _ in range(500):
    try:
        child = os.fork()
    except InterruptedError:
        ended += 1
        continue
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
print(ended)
"""

# A large process takes longer to fork than nobody asks before it is let go: whether what it forks is left bound.
LARGE = """
import os, time
ballast = bytearray(800 << 20)
ballast[::4096] = b"x" * len(ballast[::4096])
everywhere, left = os.sched_getaffinity(0), 0
for _ in range(15):
    for _ in range(100):
        os.close(OPENED)
    child = os.fork()
    if not child:
        time.sleep(0.5)
        os._exit(0)
    time.sleep(0.3)
    left += os.sched_getaffinity(child) != everywhere
    os.waitpid(child, 0)
print(left)
"""

# Who is born of who is kept, and opens nothing that would tell the warden of it: a child, one that has lost its parent,
# one whose parent goes on, and a thread. Each is looked at from outside, while there is a file "look".
BORN = """
import ctypes, os, sys, threading, time
def called():
    ctypes.CDLL(None).prctl(15, sys.argv[1].encode())
def read(count=50):
    for _ in range(count):
        os.close(OPENED)
def born(how):
    read()
    ready, tell = os.pipe()
    if how == "thread":
        threading.Thread(target=lambda: (called(), os.write(tell, b"0"), os.read(done[0], 1))).start()
    elif not os.fork():
        if how == "orphan" and os.fork():
            os._exit(0)
        called()
        os.write(tell, b"%d" % os.getpid())
        time.sleep(60)
    number, begun, asked = int(os.read(ready, 9)), time.monotonic(), False
    while not asked or os.path.exists("look"):
        time.sleep(0.004)
        how == "busy" and read(1)
        if not asked and time.monotonic() > begun + 0.3:
            open("look", "w").close()
            asked = True
    os.kill(number, 9) if number else os.write(done[1], b"x")
done = os.pipe()
for how in ("child", "orphan", "busy", "thread"):
    born(how)
print("done")
"""


def masks(name: str) -> set[str]:
    """Where the threads that are called so may run."""
    found = set[str]()
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended
            for status in Path(f"/proc/{process}/task").glob("*/status"):
                text = status.read_text()
                if text.startswith(f"Name:\t{name}\n"):
                    found |= set(re.findall(r"Cpus_allowed:\t(.*)", text))
    return found


def number_of(name: str) -> int:
    """The process that is called so."""
    found = (process.parent.name for process in Path("/proc").glob("[0-9]*/comm") if process.read_text() == f"{name}\n")
    return int(next(found))


class Watched(Site):
    """A site with a name that must not appear: so new files are the warden's to make."""

    def policy(self) -> Policy:
        found = super().policy()
        return msgspec.structs.replace(found, rules=(*found.rules, rule("write", Verdict.DENY, self.path / "never")))


class Judged(Site):
    """A site where a name may come that nobody may read: so each open is the warden's to judge."""

    def policy(self) -> Policy:
        found = super().policy()
        late = msgspec.structs.replace(rule("read", Verdict.DENY, self.path / "**" / "*.never"), glob=True)
        return msgspec.structs.replace(found, rules=(*found.rules, late))


def printed(site: Site, walls: Walls, program: str, sanitized: Opened) -> str:
    """What a program of Python says inside."""
    try:
        plan = site.plan(walls, f"cd sub && exec /usr/bin/python3 -c {shlex.quote(program)}")
        return bare(sanitized, wire.encode(plan.steps)).out.decode()
    finally:
        site.close()


OPENED = {
    Judged: 'os.open("/usr/bin/env", os.O_RDONLY)',  # no file of /etc, which other tests replace
    Watched: 'os.open(f"{os.getpid()}-{time.monotonic_ns()}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)',
}
SITES = pytest.mark.parametrize("site", OPENED)


@SITES
@pytest.mark.parametrize("walls", WALLS)
def test_nobody_but_it_sees_that_a_caller_is_kept(
    tmp_path: Path, walls: Walls, site: type[Site], sanitized: Opened
) -> None:
    out = printed(site(tmp_path), walls, KEEPS.replace("OPENED", OPENED[site]), sanitized)

    several = len(os.sched_getaffinity(0)) > 1
    looked = several and site is Watched  # it may look in /proc without the warden
    assert out == f"{{False}} {int(several)} False False {looked} False 0 0 0 0\n"


@pytest.mark.parametrize("walls", WALLS)
def test_no_fork_is_ended_by_a_signal(tmp_path: Path, settled: None, walls: Walls, sanitized: Opened) -> None:
    out = printed(Judged(tmp_path), walls, FORKS, sanitized)

    assert out == "0\n"


@SITES
@pytest.mark.parametrize("walls", WALLS)
def test_nobody_who_is_born_of_who_is_kept_stays_bound(
    tmp_path: Path, settled: None, walls: Walls, site: type[Site], sanitized: Opened
) -> None:
    place, program = site(tmp_path), BORN.replace("OPENED", OPENED[site])
    name, look, seen, ran = f"born-{os.getpid()}", tmp_path / "sub" / "look", [], list[Ran]()
    plan = place.plan(walls, f"cd sub && exec /usr/bin/python3 -c {shlex.quote(program)} {name}")
    whole = threading.Thread(target=lambda: ran.append(bare(sanitized, wire.encode(plan.steps))))

    whole.start()
    while whole.is_alive():
        if look.exists():
            seen.append(masks(name))
            look.unlink()
        time.sleep(0.01)

    place.close()
    assert ran[0].out == b"done\n"
    assert seen == [set(re.findall(r"Cpus_allowed:\t(.*)", Path("/proc/self/status").read_text()))] * 4


@SITES
@pytest.mark.needs_userns
def test_nobody_is_left_bound_who_was_being_born(tmp_path: Path, site: type[Site], sanitized: Opened) -> None:
    out = printed(site(tmp_path), Walls(view=True), LARGE.replace("OPENED", OPENED[site]), sanitized)

    assert out == "0\n"


@pytest.mark.parametrize("walls", WALLS)
def test_whoever_is_handed_a_descriptor_runs_where_it_ran(
    tmp_path: Path, settled: None, walls: Walls, sanitized: Opened
) -> None:
    out = printed(Watched(tmp_path), walls, LOOKS, sanitized)

    everywhere = tuple(sorted(os.sched_getaffinity(0)))
    assert out == f"{sorted(map(str, [everywhere, ('child', 0)]))}\n"
    assert len(list((tmp_path / "sub").glob("*-*"))) == 800


@pytest.mark.parametrize("walls", WALLS)
def test_what_another_binds_it_to_meanwhile_stays(tmp_path: Path, walls: Walls, sanitized: Opened) -> None:
    out = printed(Watched(tmp_path), walls, BINDS, sanitized)

    assert out == "0\n"


@pytest.mark.parametrize("walls", WALLS)
def test_nobody_is_told_that_another_is_bound(tmp_path: Path, walls: Walls, sanitized: Opened) -> None:
    out = printed(Watched(tmp_path), walls, ASKS, sanitized)

    assert out == "0\n"


@pytest.mark.needs_userns
def test_the_warden_rests_also_when_somebody_could_not_be_kept(tmp_path: Path, sanitized: Opened) -> None:
    site, name, ran = Watched(tmp_path), f"narrow-{os.getpid()}", list[Ran]()
    program, look = NARROW.replace("OPENED", OPENED[Watched]), tmp_path / "sub" / "look"
    plan = site.plan(Walls(view=True), f"cd sub && exec /usr/bin/python3 -c {shlex.quote(program)} {name}")
    whole = threading.Thread(target=lambda: ran.append(bare(sanitized, wire.encode(plan.steps))))

    whole.start()
    while whole.is_alive():
        if look.exists():
            os.sched_setaffinity(number_of(name), {min(os.sched_getaffinity(0))})
            look.unlink()
        time.sleep(0.01)

    site.close()
    assert int(ran[0].out) < 10
