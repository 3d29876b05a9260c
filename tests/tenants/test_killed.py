"""Whoever of the three is killed: no event is lost, no process is left, and everything goes on by itself.

`bench/service.py kill` does the same with two hundred runs.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.attacks.everybody import installed as installed
from tests.tenants.conftest import Hosting
from tests.tenants.serving import NEEDS_SERVER, PROGRAMS, Client, Living, Server, becomes, living, server
from tests.tenants.spawning import Served, served

from ringfence.model.tenant import TenantState
from ringfence.service.database import Database
from ringfence.service.trouble import Trouble
from ringfence.workspace.tenants import life, tree

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


def kill_each(
    hosting: Hosting, spawner: Served, made: Living, database: Server | None, names: list[str], each: int
) -> int:
    """Kill -9 the service, the spawner and the database in the middle of runs, and see what is left; how many ran.
    SQLite lives in the service: without a server, that is killed a second time."""
    client = Client(made.path)
    client.log_in("all")
    begun = begin(client, hosting, names, each)
    kill_service(hosting, made, begun)
    begun += begin(client, hosting, names, each)  # the token is good, for the keys are kept
    spawner.process.kill()
    spawner.process.communicate()
    os.unlink(f"{spawner.top}/s")
    wait(lambda: not orphans(hosting), f"the spawner was killed, and there are {orphans(hosting)[:3]}")
    wait(lambda: endless(made) == 0, "runs of a spawner that was killed have no end")
    assert recorded(hosting) == begun
    spawner.start()
    begun += begin(client, hosting, names, each)
    if database is None:
        kill_service(hosting, made, begun)
        assert made.database.ask("pragma integrity_check") == [("ok",)]
        return begun
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


def kill_service(hosting: Hosting, made: Living, begun: int) -> None:
    made.kill()
    wait(lambda: not orphans(hosting), f"the service was killed, and there are {orphans(hosting)[:3]}")
    assert recorded(hosting) == begun
    made.start()
    wait(lambda: endless(made) == 0, "nobody says that they were lost")


def kill_makers(hosting: Hosting, count: int) -> tuple[int, int]:
    """Kill -9 whoever makes a tenant, at any moment; how many were half made, and how many are whole when the same is
    asked for again."""
    half = 0
    for number in range(count):
        name = hosting.name(f"m{number}")
        pid = os.fork()
        if pid == 0:
            try:
                life.create(hosting.registry, hosting.base, name)
            finally:
                os._exit(0)
        if number % 4:
            while not hosting.registry.is_taken(name):
                time.sleep(0.001)
            time.sleep(0.02 * number / count)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        is_made = hosting.registry.is_taken(name)
        half += is_made and hosting.registry.find(name).state is TenantState.MAKING
        if not is_made or hosting.registry.find(name).state is TenantState.MAKING:
            life.create(hosting.registry, hosting.base, name)
    found = [hosting.registry.find(name) for name in hosting.registry.names()]
    whole = {tree.resolve(hosting.base, tenant).uid for tenant in found}
    return half, len(whole)


@NEEDS_SERVER
@pytest.mark.timeout(240)  # three are killed and started again, with runs in between
def test_each_is_killed_in_the_middle(hosting: Hosting) -> None:
    names = [hosting.create(word).name for word in ("a", "b")]
    with server() as database, served(hosting) as spawner, living(spawner, {"all": tuple(names)}, database.url) as made:
        assert kill_each(hosting, spawner, made, database, names, 2) == 12


def test_the_one_that_has_sqlite_is_killed(hosting: Hosting) -> None:
    name = hosting.create("a").name
    with served(hosting) as spawner, living(spawner, {"all": (name,)}) as made:
        assert kill_each(hosting, spawner, made, None, [name], 2) == 6


def test_who_makes_tenants_is_killed_and_asked_again(hosting: Hosting) -> None:
    assert kill_makers(hosting, 8)[1] == 8


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


def test_a_second_service_of_the_same_state_is_refused(hosting: Hosting) -> None:
    """It would say of the runs of the first that they were lost, while they go on. A death lets go of the state."""
    name = hosting.create("a").name
    with served(hosting) as spawner, living(spawner, {"all": (name,)}) as made:
        client, runs = Client(made.path), f"/api/workspaces/{name}/runs"
        client.log_in("all")
        begin(client, hosting, [name], 1)
        words = [word.replace("service.sock", "second.sock") for word in made._words]
        second = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=60)
        assert f"another service serves {made.state}" in second.stderr
        assert client.ask("GET", runs)[1]["runs"][0]["ended"] is None
        made.kill()
        made.start()
        assert client.ask("GET", runs)[1]["runs"][0]["ended"]["error"]["code"] == "unavailable"


@NEEDS_SERVER
def test_a_database_that_may_only_be_read_or_has_lost_its_tables_is_one_that_does_not_answer() -> None:
    """As one that is another's copy by now. It was an error of ours, after which no end of a run was written."""
    import psycopg

    with server() as made, contextlib.closing(Database(made.url)) as asked:
        wait(
            lambda: subprocess.run([f"{PROGRAMS}/pg_isready", "-h", made.url.rpartition("=")[2]]).returncode == 0, "up"
        )
        asked.ask("select 1")
        with psycopg.connect(made.url, autocommit=True) as link:
            link.execute("alter role tester set default_transaction_read_only = on")
            asked.ask("set default_transaction_read_only = on")
            with pytest.raises(Trouble, match="does not answer"):
                asked.ask("delete from runs")
            link.execute("alter role tester reset default_transaction_read_only")
            assert asked.ask("delete from runs returning id") == []
            link.execute("drop table runs")
            assert asked.ask("select * from runs") == []
