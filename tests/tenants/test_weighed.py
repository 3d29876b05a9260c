"""What an answer weighs, and who pays for it: without a server."""

import asyncio
import itertools
import time
from pathlib import Path

import pytest
from starlette.requests import Request

from ringfence.service import desk, handlers, page, runs, tokens, views
from ringfence.service.database import Database
from ringfence.service.desk import MOST_LARGE, PIECE, Service
from ringfence.service.runs import Run
from ringfence.service.trouble import Trouble


def test_few_large_answers_of_a_workspace_are_held(tmp_path: Path) -> None:
    """Who takes a piece now and then would have each of them held for hours."""

    async def act() -> None:
        service = Service(Database(f"{tmp_path}/state/service.db"), "/nowhere")
        large, small = {"patch": "x" * (2 * PIECE)}, {"patch": ""}
        held = [service.sent("a", large).body_iterator for _ in range(MOST_LARGE)]  # type: ignore[attr-defined]
        for one in held:
            await anext(one)
        with pytest.raises(Trouble, match="as many large answers"):
            service.sent("a", large)
        assert service.sent("a", small).status_code == service.sent("b", large).status_code == 200
        await held[0].aclose()
        assert service.sent("a", large).status_code == 200
        await service.close()

    asyncio.run(act())


def test_making_pages_costs_the_time_that_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a few browsers at one long session take all of it."""
    clock = itertools.count(0.0, 1.0)
    monkeypatch.setattr(time, "thread_time", lambda: next(clock))
    service = Service(Database(f"{tmp_path}/state/service.db"), "/nowhere")
    assert page.made(service, "a", views.sessions, []).status_code == 200
    with pytest.raises(Trouble, match="too many requests"):
        service.asked.take("workspace a")
    service.asked.take("workspace b")


@pytest.mark.parametrize("line", ["+\u202e", "+\x01", "+", "-", "+<", "@@"])
def test_a_page_of_changes_has_an_end(line: str) -> None:
    patch = f"{line * 200}\n" * 20_000
    one = {"slug": "s", "state": "active", "branch": "b", "base": "main", "head": "0" * 40}
    assert len(views.session("a", one, patch, False)) < 3 << 20  # type: ignore[arg-type]


@pytest.mark.parametrize(("code", "comes"), [("token_invalid", 0), ("workspace_forbidden", 0), ("unavailable", 2)])
def test_a_stream_ends_with_the_account_that_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, comes: int
) -> None:
    """A run may take a day, and who asked for its output once has heard all of it, whatever was taken away since."""
    monkeypatch.setattr(desk, "LOOK", -1.0)

    async def again() -> None:
        raise Trouble(code, "is over")

    async def act() -> int:
        service, run = Service(Database(f"{tmp_path}/state/service.db"), "/nowhere"), Run("a", ("x",))
        run.add({"stream": "stdout", "data": "eA=="})
        watched = handlers.stream(service, run, "", again).body_iterator  # type: ignore[attr-defined]
        heard = 0
        async for _ in watched:
            heard += 1
            run.ended = {}
            if heard == 1:
                run.add({"ended": {}})
        await service.close()
        return heard

    assert asyncio.run(asyncio.wait_for(act(), 30)) == comes


@pytest.mark.parametrize("seen", ["x", "-", "--1", "1.0", "1e3", "²", "1" * 16])
def test_a_stream_goes_on_after_a_number(tmp_path: Path, seen: str) -> None:
    service = Service(Database(f"{tmp_path}/state/service.db"), "/nowhere")
    with pytest.raises(Trouble, match="is a number"):
        handlers.stream(service, Run("a", ("x",)), seen, asyncio.Event().wait)


def test_a_stream_in_which_nothing_is_said_ends_with_its_account_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or whoever was let once holds all the streams of a workspace for as long as its quietest run takes."""
    monkeypatch.setattr(desk, "LOOK", -1.0)
    monkeypatch.setattr(runs, "QUIET", 0.01)
    let = [True, True, False]

    async def again() -> None:
        if not let.pop(0):
            raise Trouble("token_invalid", "is over")

    async def act() -> list[object]:
        service = Service(Database(f"{tmp_path}/state/service.db"), "/nowhere")
        watched = handlers.stream(service, Run("a", ("sleep",)), "", again).body_iterator  # type: ignore[attr-defined]
        heard = [piece async for piece in watched]
        await service.close()
        return heard

    assert asyncio.run(asyncio.wait_for(act(), 30)) == [handlers.STILL, handlers.STILL]


@pytest.mark.parametrize("door", [handlers.follow_run, page.follow_run, page.changes])
def test_a_stream_ends_with_its_account_however_much_that_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: page.Handler
) -> None:
    """Who asks so often that no more is answered is not let for that: what was taken away stays taken away."""
    monkeypatch.setattr(desk, "LOOK", -1.0)
    monkeypatch.setattr(page, "QUIET", 0.01)
    monkeypatch.setattr(runs, "QUIET", 0.01)

    async def act() -> None:
        service = Service(Database(f"{tmp_path}/state/service.db"), "/nowhere")
        service.accounts.put("alice", "the first password", ("a.test",))
        (opened, stamp), run = await service.accounts.opened("alice"), Run("a.test", ("sleep",))
        service.runs._runs[run.id] = run
        token, _ = tokens.issue(service.keys, "alice", opened, stamp)
        word = await service.accounts.visit("alice", stamp)
        known = {"authorization": f"Bearer {token}", "cookie": f"{page.COOKIE}={word}"}
        headers = [(name.encode(), text.encode()) for name, text in known.items()]
        path = {"workspace": "a.test", "run": run.id}
        request = Request({"type": "http", "headers": headers, "path_params": path, "query_string": b""})
        watched = (await door(service, request)).body_iterator  # type: ignore[attr-defined]
        await anext(watched)
        service.asked.spend("account alice", 1e6)
        service.asked.spend("workspace a.test", 1e6)
        await anext(watched)  # who is let goes on, however often it asks
        service.accounts.forget("a.test")
        assert [piece async for piece in watched] == []
        await service.close()

    asyncio.run(asyncio.wait_for(act(), 30))
