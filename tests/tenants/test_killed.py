"""Whoever of the three is killed: no event is lost, no process is left, and everything goes on by itself.

`bench/service.py kill` does the same with two hundred runs.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.attacks.everybody import installed as installed
from tests.tenants.conftest import Hosting
from tests.tenants.serving import NEEDS_SERVER, Client, Living, Server, becomes, living, server
from tests.tenants.spawning import Served, served

pytestmark = [pytest.mark.needs_root, pytest.mark.usefixtures("installed"), pytest.mark.needs_program("curl")]
FOREVER = 'eval "$2"; echo begun > begun-$1; while :; do echo still; sleep 0.05; done'


def begin(client: Client, hosting: Hosting, names: Iterable[str], each: int, first: str = ":") -> int:
    """Runs that do not end and say something all the time, each of which is up when this returns."""
    marks = []
    for name in names:
        for number in range(each):
            mark = f"{os.urandom(3).hex()}-{number}"
            words = ["sh", "-c", FOREVER, "sh", mark, first]
            status, answer = client.ask("POST", f"/api/workspaces/{name}/runs", data={"argv": words})
            assert status == 201, answer
            marks.append(Path(hosting.base, name, "user/src", f"begun-{mark}"))
    wait(lambda: all(mark.exists() for mark in marks), "not every run began")
    return len(marks)


def wait(is_so: Callable[[], bool], what: str, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def orphans(hosting: Hosting) -> list[str]:
    """Processes of any tenant that live; whether somebody reaps the dead is not ours to say."""
    uids = ",".join(str(hosting.registry.find(name).uid) for name in hosting.registry.names())
    listed = subprocess.run(["ps", "-o", "pid=,args=", "-u", uids], capture_output=True, text=True).stdout.splitlines()
    return [line for line in listed if not line.endswith("<defunct>")]


def recorded(hosting: Hosting) -> int:
    """The runs in all audit logs, each of which must be whole."""
    count = 0
    for name in hosting.registry.names():
        for path in Path(hosting.base, name, ".local/state/ringfence").rglob("*.jsonl"):
            count += sum(json.loads(line)["kind"] == "run" for line in path.read_bytes().splitlines())
    return count


def endless(made: Living) -> int:
    """Runs of which nobody says that they ended."""
    return int(made.database.ask("select count(*) from runs where ended = ''")[0][0])


def kill_each(hosting: Hosting, spawner: Served, made: Living, database: Server, names: list[str], each: int) -> int:
    """Kill -9 the service, the spawner and the database in the middle of runs, and see what is left; how many ran."""
    client = Client(made.path)
    client.log_in("all")
    begun = begin(client, hosting, names, each)
    made.kill()
    wait(lambda: not orphans(hosting), f"the service was killed, and there are {orphans(hosting)[:3]}")
    assert recorded(hosting) == begun
    made.start()
    assert endless(made) == 0  # and says that they were lost
    begun += begin(client, hosting, names, each)  # the token is good, for the keys are kept
    spawner.process.kill()
    spawner.process.communicate()
    os.unlink(f"{spawner.top}/s")
    wait(lambda: not orphans(hosting), f"the spawner was killed, and there are {orphans(hosting)[:3]}")
    wait(lambda: endless(made) == 0, "runs of a spawner that was killed have no end")
    assert recorded(hosting) == begun
    spawner.start()
    begun += begin(client, hosting, names, each)
    database.kill()
    runs = f"/api/workspaces/{names[0]}/runs"
    assert client.ask("GET", runs)[0] == 503
    database.start()
    wait(lambda: client.ask("GET", runs)[0] == 200, "the service does not find the database again")
    for name in names:
        for run in client.ask("GET", f"/api/workspaces/{name}/runs")[1]["runs"]:
            if run["ended"] is None:
                assert client.ask("DELETE", f"/api/workspaces/{name}/runs/{run['run']}")[0] == 202
    wait(lambda: endless(made) == 0, "what ran while the database was away has no end")
    wait(lambda: recorded(hosting) == begun, f"{recorded(hosting)} of {begun} runs are recorded")
    return begun


@NEEDS_SERVER
@pytest.mark.timeout(240)  # three are killed and started again, with runs in between
def test_each_is_killed_in_the_middle(hosting: Hosting) -> None:
    names = [hosting.create(word).name for word in ("a", "b")]
    with server() as database, served(hosting) as spawner, living(spawner, {"all": tuple(names)}, database.url) as made:
        assert kill_each(hosting, spawner, made, database, names, 2) == 12


def test_a_run_that_does_not_want_to_end_is_recorded_too(hosting: Hosting) -> None:
    """Cancelling ends a tree that ignores SIGTERM, and the steward is left the time to say so."""
    name = hosting.create("a").name
    with served(hosting) as spawner, living(spawner, {"all": (name,)}) as made:
        client = Client(made.path)
        client.log_in("all")
        begin(client, hosting, [name], 1, "trap '' TERM")
        run = client.ask("GET", f"/api/workspaces/{name}/runs")[1]["runs"][0]
        client.ask("DELETE", f"/api/workspaces/{name}/runs/{run['run']}")
        wait(lambda: endless(made) == 0, "it has no end")
        assert recorded(hosting) == 1
        assert becomes(False, str(hosting.registry.find(name).uid))
