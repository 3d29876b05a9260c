"""A database that does not answer."""

import asyncio
import threading
from pathlib import Path

import pytest

from ringfence.service import database
from ringfence.service.database import Database
from ringfence.service.trouble import Trouble


def test_a_database_that_says_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frozen, or beyond a cable that was cut: its own limit of time does not hold then."""

    async def act() -> None:
        monkeypatch.setattr(database, "LONGEST", 0.05)
        asked, goes_on = Database(f"{tmp_path}/state/service.db"), threading.Event()
        real = asked.ask
        monkeypatch.setattr(asked, "ask", lambda sql: goes_on.wait() and real(sql))
        for _ in range(3):
            with pytest.raises(Trouble, match="does not answer"):
                await asked.run("select 1")
        monkeypatch.setattr(database, "LONGEST", 60)
        goes_on.set()
        assert await asked.run("select 2") == [(2,)]
        asked.close()

    asyncio.run(asyncio.wait_for(act(), 30))
