"""A descriptor is handed in while its caller is bound to the warden's processor: nobody is left bound.

The sanitized enactor binds whatever a hand-over takes; the product's does where it takes long.
"""

import os
import shlex
import sys
from pathlib import Path

import msgspec
import pytest
from tests.enforce.conftest import WALLS, Site, Walls, bare, rule

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

# A child makes files, and is bound elsewhere just when the warden has bound it; how often that was lost.
BINDS = """
import os, signal
where = sorted(os.sched_getaffinity(0))
child = os.fork()
while not child:
    os.close(os.open("bound", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    os.unlink("bound")
lost = tried = 0
for _ in range(6000 if len(where) > 1 else 0):
    os.sched_setaffinity(child, where)
    for _ in range(200):
        now = os.sched_getaffinity(child)
        if len(now) == 1:
            break
    else:
        continue
    os.sched_setaffinity(child, set(where) - now)
    tried += 1
    for _ in range(30):
        if os.sched_getaffinity(child) == set(where):
            lost += 1
            break
os.kill(child, signal.SIGKILL)
os.wait()
print(tried, lost)
"""

# Where each open is the warden's, whoever opens one file after the other is kept on its processor; what is seen of
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
        os.close(os.open("/etc/passwd", os.O_RDONLY))
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
before = listed()
read()
kept = listed() != before
time.sleep(0.2)
later = listed() != before
read()
asked = is_narrow()
read()
os.sched_setaffinity(0, {max(everywhere)})
read()
time.sleep(0.2)
chosen = os.sched_getaffinity(0) != {max(everywhere)}
os.sched_setaffinity(0, everywhere)
print(int(kept), later, asked, chosen, child(), thread(), program(False), program(True))
"""


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


@pytest.mark.parametrize("walls", WALLS)
def test_nobody_but_it_sees_that_a_caller_is_kept(tmp_path: Path, walls: Walls, sanitized: Opened) -> None:
    site = Judged(tmp_path)
    plan = site.plan(walls, f"cd sub && exec /usr/bin/python3 -c {shlex.quote(KEEPS)}")

    ran = bare(sanitized, wire.encode(plan.steps))

    site.close()
    several = len(os.sched_getaffinity(0)) > 1
    assert ran.out.decode() == f"{int(several)} False False False 0 0 0 0\n"


@pytest.mark.parametrize("walls", WALLS)
def test_whoever_is_handed_a_descriptor_runs_where_it_ran(tmp_path: Path, walls: Walls, sanitized: Opened) -> None:
    site = Watched(tmp_path)
    plan = site.plan(walls, f"cd sub && exec /usr/bin/python3 -c {shlex.quote(LOOKS)}")

    ran = bare(sanitized, wire.encode(plan.steps))

    everywhere = tuple(sorted(os.sched_getaffinity(0)))
    site.close()
    assert ran.out.decode() == f"{sorted(map(str, [everywhere, ('child', 0)]))}\n"
    assert len(list((tmp_path / "sub").glob("*-*"))) == 800


@pytest.mark.parametrize("walls", WALLS)
def test_what_another_binds_it_to_meanwhile_stays(tmp_path: Path, walls: Walls, sanitized: Opened) -> None:
    site = Watched(tmp_path)
    plan = site.plan(walls, f"cd sub && exec /usr/bin/python3 -c {shlex.quote(BINDS)}")

    ran = bare(sanitized, wire.encode(plan.steps))

    site.close()
    tried, lost = map(int, ran.out.split())
    assert lost <= max(tried // 10, 5)  # a binding between two calls of the warden's is lost, and cannot be seen
