"""What a tenant, or what it runs, can do to root's programs and to the service: nothing that others notice."""

import asyncio
import base64
import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from tests.attacks.everybody import installed as installed
from tests.tenants.conftest import Hosting
from tests.tenants.spawning import served
from tests.tenants.test_spawner import Started

from ringfence import steward
from ringfence.cli.tenant import main
from ringfence.model import TenantError, event
from ringfence.service import runs, stewards, views
from ringfence.service.accounts import Accounts
from ringfence.service.buckets import Buckets
from ringfence.service.database import Database, Rows
from ringfence.service.guard import Guarded
from ringfence.service.markup import plain
from ringfence.service.runs import Run, Runs
from ringfence.service.stewards import Spawning
from ringfence.service.trouble import Trouble
from ringfence.spawner import check_streams
from ringfence.workspace.tenants import life, tree

ROOT = pytest.mark.needs_root


# ---- Root's programs in a tree that somebody hostile made ----


def dig(top: Path, levels: int) -> None:
    """Deeper than any path can say."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        there = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = there
    os.close(os.open("bottom", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)


@pytest.fixture
def tree_of_tricks(hosting: Hosting) -> Path:
    source = Path(hosting.base, hosting.create("a").name, "user", "src")
    outside = Path(hosting.base, "outside")
    outside.write_text("root's")
    with (source / "huge").open("wb") as file:
        file.truncate(1 << 42)
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(source / "socket"))
    (source / "link").symlink_to(hosting.base)
    (source / "-x\n --to-command=sh").write_text("a name")
    os.link(outside, source / "second")
    (source / "shut").mkdir(0)
    dig(source, 3000)
    return source


@ROOT
def test_a_hostile_tree_is_archived_and_removed(hosting: Hosting, tree_of_tricks: Path) -> None:
    archive = life.remove(hosting.registry, hosting.base, hosting.name("a"))
    assert os.stat(archive).st_size < 1 << 20
    assert stat.S_IMODE(os.stat(archive).st_mode) == 0o600
    with tarfile.open(archive) as tar:
        names = {name.rpartition("/")[2] for name in tar.getnames()}
    assert {"huge", "pipe", "link", "-x\n --to-command=sh", "shut", "bottom"} <= names
    assert "second" not in names  # it is somebody else's, and whoever unpacks this gives it all to the tenant
    assert Path(hosting.base, "outside").read_text() == "root's"
    assert not Path(hosting.base, hosting.name("a")).exists()


@ROOT
def test_repair_goes_as_deep_as_it_can(hosting: Hosting, tree_of_tricks: Path) -> None:
    made, changed, left = life.repair(hosting.registry, hosting.base, hosting.name("a"))
    assert "user/src/second" in left
    assert [path.count("/") for path in left if path.endswith("/d")] == [tree.DEEPEST - 1]
    assert changed > tree.DEEPEST - 10
    assert (tree_of_tricks / "link").lstat().st_uid == made.uid
    assert {os.stat(hosting.base).st_uid, Path(hosting.base, "outside").stat().st_uid} == {0}


@ROOT
@pytest.mark.parametrize("name", [b"\x1b]0;evil\x07", b"x\nexample.com: 0 names given back", b"\xff"])
def test_a_name_that_repair_leaves_does_not_steer_the_terminal_of_root(
    hosting: Hosting, capsys: pytest.CaptureFixture[str], name: bytes
) -> None:
    """A tenant makes it too deep, and a second name of a file of root's is left by it as well."""
    made, outside = hosting.create("a"), Path(hosting.base, "outside")
    outside.touch()
    os.link(outside, os.fsencode(f"{hosting.base}/{made.name}/user/src/") + name)

    assert main(["repair", made.name, "--base", hosting.base, "--registry", hosting.records]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    assert "user/src/" in said[1]
    assert said[1].isprintable()


@ROOT
def test_processes_that_kill_their_killer_are_ended(hosting: Hosting) -> None:
    made = hosting.create("a")
    words = ["setpriv", f"--reuid={made.uid}", f"--regid={made.gid}", "--clear-groups"]
    # -1 is everybody of this user but the one who says it.
    code = "import os, signal\nprint(flush=True)\nwhile True:\n try: os.kill(-1, 9)\n except OSError: pass"
    with subprocess.Popen([*words, "/usr/bin/python3", "-c", code], stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        assert life.is_alive(made.uid)
        life.suspend(hosting.registry, made.name)
        assert not life.is_alive(made.uid)


@ROOT
@pytest.mark.usefixtures("installed")
def test_a_removal_that_takes_long_holds_up_its_own_tenant_alone(hosting: Hosting) -> None:
    one, other = hosting.create("a").name, hosting.create("b").name
    with served(hosting) as spawner, spawner.connect() as asker, hosting.registry.locked(one):
        waits, works = Started(asker, one, "a1"), Started(asker, other, "b1")
    assert waits.answer["error"] == "TENANT_UNFINISHED"
    assert works.answer == {"run": "b1", "started": True}
    waits.close()
    works.close()


@ROOT
@pytest.mark.usefixtures("installed")
def test_who_is_removed_in_the_middle_of_runs_is_gone_and_stays_gone(hosting: Hosting) -> None:
    made = hosting.create("a")
    with served(hosting) as spawner, spawner.connect() as asker:
        first = Started(asker, made.name, "a0")
        os.write(first.input, b'{"do": "run", "argv": ["sh", "-c", "while :; do date > x; echo; done"]}\n')
        assert "stream" in first.line()
        with ThreadPoolExecutor(1) as pool:
            removing = pool.submit(life.remove, hosting.registry, hosting.base, made.name)
            more, answers = [first], [first.answer]
            while not removing.done() or len(answers) < 3:  # as often as there is time: none is kept that was refused
                more.append(Started(asker, made.name, f"a{len(answers)}"))
                answers.append(more[-1].answer)
                if "error" in answers[-1]:
                    more.pop().close()
            assert os.path.exists(removing.result())
        assert not life.is_alive(made.uid)
        errors = {str(answer["error"]) for answer in answers if "error" in answer}
        assert errors <= {"TENANT_NOT_FOUND", "TENANT_UNFINISHED"}
        with spawner.connect() as again:
            more.append(Started(again, made.name, "b0"))
        assert more[-1].answer["error"] == "TENANT_NOT_FOUND"
        for one in more:
            one.close()


def test_a_socket_that_leads_nowhere_yet_is_no_stream() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(socket.AF_UNIX) as loose, socket.socket(socket.AF_UNIX) as listens:
        listens.bind("")
        listens.listen()
        check_streams([theirs.fileno()] * 3)
        for wrong in (loose, listens):
            with pytest.raises(TenantError):
                check_streams([theirs.fileno(), theirs.fileno(), wrong.fileno()])


SWAP = """
import os, sys
os.chdir(sys.argv[1])
print(flush=True)
while True:
    os.rename("d", "inside"); os.rename("outside", "d")
    os.rename("d", "outside"); os.rename("inside", "d")
"""


def test_what_goes_while_its_directory_is_listed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    entry = steward._entry

    def late(one: os.DirEntry[str]) -> dict[str, object] | None:
        (tmp_path / "b").unlink(missing_ok=True)
        return entry(one)

    monkeypatch.setattr(steward, "_entry", late)

    assert [one["name"] for one in steward.listed(str(tmp_path), "")] == ["a", "c"]


def test_a_directory_that_becomes_a_link_meanwhile_leads_nowhere(tmp_path: Path) -> None:
    root = tmp_path / "src"
    (root / "d").mkdir(parents=True)
    (root / "d" / "file").write_text("inside")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("outside")
    (root / "outside").symlink_to("../other")
    seen: dict[str, set[object]] = {"ours": set(), "bare": set()}
    with subprocess.Popen([sys.executable, "-I", "-c", SWAP, root], stdout=subprocess.PIPE) as swapping:
        assert swapping.stdout is not None
        swapping.stdout.readline()
        try:
            tries, until = 0, time.monotonic() + 60
            while tries < 1000 or (len(seen["bare"]) < 2 and time.monotonic() < until):
                tries += 1
                with contextlib.suppress(steward.Wrong):
                    seen["ours"].add(steward.read(str(root), "d/file"))
                with contextlib.suppress(steward.Wrong):
                    steward.write(str(root), "d/new", b"x")
                if os.path.islink(root / "d"):  # who looks first and opens then
                    continue
                with contextlib.suppress(FileNotFoundError):
                    seen["bare"].add((root / "d" / "file").read_bytes())
        finally:
            swapping.kill()
    assert seen == {"ours": {b"inside"}, "bare": {b"inside", b"outside"}}
    assert os.listdir(tmp_path / "other") == ["file"]


# ---- What a command says, and the service that shows it ----


@pytest.fixture
def in_time() -> Iterator[None]:
    """Twenty seconds of the processor, where a hundredth of one is enough."""

    def over(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, 20)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("said", [b"\x1b]", b"\x1b[", b"\x1b[1", b"\x1b]a\x1b", b"\r", b"\x00", b"<"])
def test_no_output_takes_long_to_show(in_time: None, said: bytes) -> None:
    whole = said * (500_000 // len(said))
    assert views.outputs([{"stream": "stdout", "data": base64.b64encode(whole)}])


def test_escapes_are_left_out_and_the_rest_is_shown() -> None:
    said = b"\x1b[31mred\x1b[0m \x1b]0;title\x07one \x1b]8;;x\x1b\\two \x1b]never"
    (shown,) = views.outputs([{"stream": "stdout", "data": base64.b64encode(said)}])
    assert shown == '<span class="stdout">red one two \\u{1b}]never</span>'


@pytest.mark.parametrize("odd", ["\u3164", "\u2800", "\u0301", "\n", "  ", "\u202e", "\x1b"])
def test_a_question_shows_every_letter_of_what_it_is_about(odd: str) -> None:
    """What cannot be seen, or passes for the next line, would have a person say yes to another name."""
    path = f"/srv/a{odd}b"
    asked: views.Document = {"query_id": "1", "run": "0" * 32, "argv": [path], "path": path, "process": {"exe": path}}
    asked |= {"choices": [path, "/srv"], "rule": path}
    shown = views.question("/w/a", asked).replace(f'value="{plain(path)}"', "")
    assert odd not in shown
    assert shown.count("/srv/a\\") >= 5


def test_what_nobody_wants_yet_is_not_read() -> None:
    """Or thirty runs that say all they can would fill the service's memory."""

    async def act() -> None:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours, limit=stewards.AHEAD)
        found = stewards.Steward(Spawning("/nowhere"), "a", "1", reader, (writer,))
        theirs.setblocking(False)
        sent, line, idle = 0, b'{"data": "' + b"x" * 100_000 + b'"}\n', 0
        while idle < 50:
            try:
                sent += theirs.send((line * 10)[sent % len(line) :])
                idle = 0
            except BlockingIOError:
                idle += 1
            await asyncio.sleep(0.001)
        assert sent < 2 << 20
        assert await found.hear() == {"data": "x" * 100_000}  # and nothing of it is lost
        theirs.close()
        lines = 1
        with contextlib.suppress(stewards.Gone):
            while await found.hear():
                lines += 1
        assert lines == sent // len(line)
        writer.close()

    asyncio.run(act())


@pytest.mark.parametrize(
    ("do", "dies", "seen"),
    [
        ("start", "before it is asked", ["new: start"]),
        ("start", "before it answers", ["old: start"]),
        ("revoke", "before it answers", ["old: revoke"]),
        ("audit", "before it answers", ["old: audit", "new: audit"]),
    ],
)
def test_nothing_is_done_twice_for_a_steward_that_was_killed(do: str, dies: str, seen: list[str]) -> None:
    """It may have done what it was asked, and have been killed before it said so."""
    asked: list[str] = []

    class Killed(stewards.Steward):
        def __init__(self, name: str, dies: str = "") -> None:
            self.tenant, self.name, self.dies, self.answered, self.begun = "a", name, dies, 0, time.monotonic()
            self._reader, self._writers = asyncio.StreamReader(), ()
            if dies == "before it is asked":
                self._reader.feed_eof()

        async def answer(self, request: dict[str, object]) -> dict[str, object]:
            if not self.is_gone:
                asked.append(f"{self.name}: {request['do']}")
            if self.dies:
                raise stewards.Gone
            return {}

    async def act() -> None:
        spawning = Spawning("/nowhere")

        async def hire(tenant: str) -> stewards.Steward:
            return Killed("new")

        spawning.hire = hire  # type: ignore[method-assign]
        spawning._idle.append(Killed("old", dies))
        if seen[-1].startswith("new"):
            assert await spawning.errand("a", do=do) == {}
        else:
            with pytest.raises(stewards.Gone):
                await spawning.errand("a", do=do)

    asyncio.run(act())
    assert asked == seen


def test_a_steward_that_is_asked_again_and_again_is_followed_by_one_that_knows_the_limits_of_today() -> None:
    """Or a limit that was lowered would not hold, and one that was raised not be had, for as long as somebody asks."""

    class Asked(stewards.Steward):
        def __init__(self, begun: float) -> None:
            self.tenant, self.answered, self.begun, self._writers = "a", 0, begun, ()
            self._reader = asyncio.StreamReader()

        async def answer(self, request: dict[str, object]) -> dict[str, object]:
            return {}

    async def act() -> None:
        now, spawning = time.monotonic(), Spawning("/nowhere")
        young, old = Asked(now - stewards.OLDEST / 2), Asked(now - stewards.OLDEST)
        for one, left in ((young, [young]), (old, [])):
            spawning._idle[:] = [one]
            assert await spawning.errand("a", do="list") == {}
            assert spawning._idle == left

    asyncio.run(act())


def test_one_letter_at_a_time_costs_no_more() -> None:
    async def act() -> None:
        run = Run("a", ("x",))
        for _ in range(20_000):
            run.add({"stream": "stdout", "data": "eA=="})
        assert len(run.said()) <= runs.MOST_HELD / runs.OVERHEAD

    asyncio.run(act())


def _runs(tmp_path: Path) -> Runs:
    return Runs(Spawning("/nowhere"), Database(f"{tmp_path}/own/service.db"))


def test_who_has_many_runs_pushes_out_its_own(tmp_path: Path) -> None:
    async def act() -> None:
        known = _runs(tmp_path)
        for tenant, count in (("quiet", 5), ("busy", 2 * runs.MOST_KEPT)):
            for _ in range(count):
                run = Run(tenant, ("x",))
                run.ended = {}
                known._runs[run.id] = run
        known._forget()
        assert [run.tenant for run in known._runs.values()].count("quiet") == 5
        assert len(known._runs) == runs.MOST_KEPT

    asyncio.run(act())


def test_ten_thousand_questions(tmp_path: Path) -> None:
    async def act() -> None:
        known, run = _runs(tmp_path), Run("a", ("x",))
        known._runs[run.id] = run
        refused = [known._asked(run, {"state": "query", "query_id": str(n)}) for n in range(10_000)]
        assert len([name for name in refused if name]) == 10_000 - runs.MOST_QUESTIONS
        assert len(known.questions("a")) == runs.MOST_QUESTIONS
        assert known._asked(run, {"state": "answered", "query_id": "0"}) == ""
        assert known._asked(run, {"state": "query", "query_id": "again"}) == ""
        assert known._asked(run, None) == known._asked(run, ["x"]) == ""  # what is no line of ours

    asyncio.run(act())


def test_long_questions_are_fewer(tmp_path: Path) -> None:
    async def act() -> None:
        known, run = _runs(tmp_path), Run("a", ("x",))
        long = {"state": "query", "path": "/" + "x" * 50_000}
        refused = [known._asked(run, {**long, "query_id": str(n)}) for n in range(100)]
        assert refused == [*[""] * 5, *map(str, range(5, 100))]
        assert known._asked(run, {"state": "withdrawn", "query_id": "3"}) == ""
        assert known._asked(run, {**long, "query_id": "3"}) == ""
        assert known._asked(run, {**long, "query_id": "6"}) == "6"

    asyncio.run(act())


def test_what_was_refused_is_held_up_to_a_size(tmp_path: Path) -> None:
    """By the steward already; and of a steward that is not ours. A command says what it wants to open."""

    async def act() -> None:
        known, run = _runs(tmp_path), Run("a", ("x",))
        denial = {"access": "read", "target": "/" + "\u202e" * 1500, "reason": "no"}
        said = {"ended": {}, "exitCode": 1, "denials": [denial] * 1000}

        async def hire(tenant: str) -> object:
            class Worker:
                async def work(self, request: object) -> AsyncIterator[dict[str, object]]:
                    yield said

                def close(self) -> None:
                    return

            return Worker()

        known._spawning.hire = hire  # type: ignore[method-assign, assignment]
        await known._database.run("insert into runs values (?, 'a', 'h', ?, 1.0, '')", run.id, '["x"]')
        await known._carry(run, {})
        assert run.ended is not None
        (shown,) = [one["ended"] for one in [await known.show("a", run.id)]]
        assert shown == {**run.ended, "denials": [denial] * 57}
        assert (shown["denied"], shown["cut"]) == (1000, True)
        assert len(msgspec.json.encode(run.ended)) <= event.MOST_DENIALS + 1000
        assert "Refused: 1000" in views.denials(shown["denials"], shown["denied"])

    asyncio.run(act())


def test_what_was_refused_is_counted_in_a_list_and_shown_with_its_run(tmp_path: Path) -> None:
    async def act() -> None:
        known, run = _runs(tmp_path), Run("a", ("echo", "x" * 100_000, *["y"] * 50_000))
        await known._database.run("insert into runs values (?, 'a', 'h', ?, 1.0, '')", run.id, '["x"]')
        run.ended = {"ended": "exited", "exitCode": 1, "denials": [{"target": f"/{n}"} for n in range(500)]}
        await known._end(run)
        (listed,) = await known.of("a")
        assert listed["ended"] == {"ended": "exited", "exitCode": 1, "denied": 500}
        shown = await known.show("a", run.id)
        assert shown["ended"] == {**run.ended, "denied": 500}
        assert len("".join(runs._cut(run.argv))) < runs.MOST_WORDS + 10

    asyncio.run(act())


def test_a_tenant_fills_no_database(tmp_path: Path) -> None:
    async def act() -> None:
        known, add = _runs(tmp_path), "insert into runs values (?, ?, 'h', '[]', ?, '{}')"
        await known._database.run("begin")
        for number in range(1200):
            await known._database.run(add, f"a{number}", "a", float(number))
            await known._database.run("insert into refusals values (?, '[1]')", f"a{number}")
        await known._database.run(add, "b1", "b", 0.0)
        await known._database.run("commit")
        run = Run("a", ("x",))
        run.id, run.ended = "a1199", {"exitCode": 0}
        await known._end(run)
        (count,) = await known._database.run("select count(*) from runs where tenant = 'a'")
        (refusals,) = await known._database.run("select count(*), min(id) from refusals")
        assert (count[0], refusals[0]) == (runs.MOST_REMEMBERED + 1, runs.MOST_LISTED + 1)
        assert len(await known.of("b")) == 1

    asyncio.run(act())


# ---- Who somebody is ----


def test_a_new_password_ends_what_the_old_one_opened(tmp_path: Path) -> None:
    async def act() -> None:
        known = Accounts(Database(f"{tmp_path}/own/service.db"))
        known.put("alice", "the first password", ("a.test",))
        _, stamp = await known.log_in("alice", "the first password")
        assert (await known.opened("alice"))[1] == stamp
        word = await known.visit("alice", stamp)
        assert await known.visitor(word) == "alice"
        known.put("alice", "the first password", ("a.test",))
        assert (await known.opened("alice"))[1] != stamp
        # Who was let in by the old one and comes to the page a moment after the change; and who turns the words around.
        for late in (word, await known.visit("alice", stamp), f"{word.partition('.')[0]}.{stamp}", "", "."):
            with pytest.raises(Trouble, match="log in first"):
                await known.visitor(late)
        known.remove("alice")
        with pytest.raises(Trouble, match="log in first"):
            await known.visitor(await known.visit("alice", ""))

    asyncio.run(act())


def test_who_has_a_name_next_sees_nothing_of_who_had_it(tmp_path: Path) -> None:
    async def act() -> None:
        database = Database(f"{tmp_path}/own/service.db")
        known, runs = Accounts(database), Runs(Spawning("/nowhere"), database)
        known.put("alice", "the first password", ("a.test", "b.test"))
        for tenant in ("a.test", "b.test"):
            await runs.start(tenant, {"argv": ("echo", f"of {tenant}")})
        while any(run["ended"] is None for run in await runs.of("a.test")):
            await asyncio.sleep(0.01)
        assert "of a.test" in str(await runs.of("a.test"))  # who opened this name now would read that
        known.forget("a.test")
        assert (await known.opened("alice"))[0] == ("b.test",)
        assert await runs.of("a.test") == []
        assert "of b.test" in str(await runs.of("b.test"))
        await runs.close()

    asyncio.run(act())


def test_what_an_account_opens_is_changed_while_a_workspace_is_forgotten(tmp_path: Path) -> None:
    """What was taken from it just then stays taken."""

    class Changing(Database):
        def ask(self, sql: str, *values: object) -> Rows:
            if sql.startswith("update accounts"):
                super().ask("update accounts set workspaces = '[\"b.test\"]' where name = 'alice'")
            return super().ask(sql, *values)

    async def act() -> None:
        known = Accounts(Changing(f"{tmp_path}/own/service.db"))
        known.put("alice", "the first password", ("a.test", "b.test", "secret.test"))
        known.forget("a.test")
        assert (await known.opened("alice"))[0] == ("b.test",)

    asyncio.run(act())


class Forgetting(Database):
    """A database in which a workspace is forgotten just before a statement that begins so."""

    before = ""

    def ask(self, sql: str, *values: object) -> Rows:
        if self.before and sql.startswith(self.before):
            self.before = ""
            Accounts(self).forget("a.test")
        return super().ask(sql, *values)


def test_a_run_that_begins_while_its_workspace_is_forgotten_leaves_nothing(tmp_path: Path) -> None:
    async def act() -> None:
        database = Forgetting(f"{tmp_path}/own/service.db")
        known, runs = Accounts(database), Runs(Spawning("/nowhere"), database)
        known.put("alice", "the first password", ("a.test", "ba.test"))
        database.before = "insert into runs"
        with pytest.raises(Trouble) as caught:
            await runs.start("a.test", {"argv": ("echo", "secret")})
        assert caught.value.code == "workspace_forbidden"
        assert await runs.of("a.test") == []
        assert runs.alive("a.test") == []
        assert (await runs.start("ba.test", {"argv": ("true",)})).tenant == "ba.test"
        await runs.close()

    asyncio.run(act())


class Losing(Database):
    """A database whose answers are lost: what it was asked is done, and nobody hears of it."""

    lost: tuple[str, ...] = ("insert into runs", "delete from runs")

    def ask(self, sql: str, *values: object) -> Rows:
        rows = super().ask(sql, *values)
        if sql.startswith(self.lost):
            self.lost = self.lost[1:]
            raise Trouble("unavailable", "the database does not answer")
        return rows


def test_a_run_that_is_refused_for_a_lost_answer_is_not_listed_as_one_that_goes_on(tmp_path: Path) -> None:
    async def act() -> None:
        database = Losing(f"{tmp_path}/own/service.db")
        Accounts(database).put("alice", "the first password", ("a.test",))
        runs = Runs(Spawning("/nowhere"), database)
        with pytest.raises(Trouble, match="does not answer"):
            await runs.start("a.test", {"argv": ("true",)})
        assert runs.alive("a.test") == []
        while await runs.of("a.test"):
            await asyncio.sleep(0.01)
        await runs.close()

    asyncio.run(asyncio.wait_for(act(), 30))


def test_what_a_run_was_refused_is_not_kept_when_its_workspace_is_forgotten(tmp_path: Path) -> None:
    async def act() -> None:
        database = Forgetting(f"{tmp_path}/own/service.db")
        Accounts(database).put("alice", "the first password", ("a.test",))
        known, run = Runs(Spawning("/nowhere"), database), Run("a.test", ("x",))
        await database.run("insert into runs values (?, 'a.test', 'h', '[]', 1.0, '')", run.id)
        run.ended, database.before = {"exitCode": 1, "denials": [{"target": "/secret"}]}, "insert into refusals"
        await known._end(run)
        assert await database.run("select id from refusals") == []

    asyncio.run(act())


@pytest.mark.parametrize("url", ["postgresql://user:hunter2/x@host/db", "postgresql://user:a@hunter2:b@host/db"])
def test_no_piece_of_a_password_is_said(url: str) -> None:
    with pytest.raises(Trouble) as caught:
        Database(url).ask("select 1")
    assert "hunter2" not in repr(caught.value) + repr(caught.value.__cause__)
    assert caught.value.__suppress_context__


def _refused(scheme: str, *headers: tuple[bytes, bytes]) -> bool:
    scope = {"type": "http", "scheme": scheme, "headers": [*headers]}
    return Guarded(None, ("localhost",))._refusal(scope) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scheme", "origin", "refused"),
    [
        ("https", b"https://localhost", False),
        ("https", b"http://localhost", True),  # whoever sits on the way could serve that page
        ("http", b"http://localhost", False),
        ("http", b"https://localhost", False),
        ("http", b"https://localhost.evil.example", True),
        ("http", b"https://localhost:1", True),
        ("http", b"ftp://localhost", True),
        ("http", b"null", True),
        ("http", b"", True),
    ],
)
def test_where_a_request_may_come_from(scheme: str, origin: bytes, refused: bool) -> None:
    assert _refused(scheme, (b"host", b"localhost"), (b"origin", origin)) == refused
    assert _refused(scheme, (b"host", b"localhost"), (b"origin", origin), (b"origin", b"http://evil.example"))


@pytest.mark.parametrize(
    "host", [b"evil.example", b"localhost.", b"localhost@evil", b"", b"localhost:x", b"LOCALHOST", b"localhost:\xb2"]
)
def test_which_hosts_it_has(host: bytes) -> None:
    assert _refused("http", (b"host", host))
    assert _refused("http", (b"host", b"localhost"), (b"host", b"localhost"))
    assert _refused("http")
    assert not _refused("http", (b"host", b"localhost:8443"))


def test_names_that_somebody_makes_up_cost_no_more_than_one(in_time: None) -> None:
    buckets = Buckets(10, 0.2)
    for number in range(200_000):
        buckets.take(f"nobody {number}")
    for _ in range(10):
        buckets.take("alice")
    with pytest.raises(Trouble):
        buckets.take("alice")
    assert buckets.spend("large", 20) > 0
