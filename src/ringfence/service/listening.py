"""Connections that give way: who is slow to ask, or does not take what was asked for, holds up nobody else."""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD = 10.0  # seconds for the head of a request, from when the connection is ours or was last used
STALL = 30.0  # seconds for a client to take what lies ready for it
MOST_WAITING = 1000  # connections that have not asked yet; the oldest makes room for one more
HANDSHAKE = 10.0  # seconds for TLS


class Prompt(H11Protocol):
    """A connection with a time for each thing that its client must do."""

    _waiting: ClassVar[dict["Prompt", asyncio.TimerHandle]] = {}  # in the order in which they came
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._done()
        self._moves()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._done()

    def on_response_complete(self) -> None:
        if self.conn.trailing_data[0]:  # who asks on without waiting has as many turns as fit, and others one
            self.transport.close()
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self._stalled or self.loop.call_later(STALL, self.transport.abort)

    def resume_writing(self) -> None:
        self._moves()
        super().resume_writing()

    def _wait(self) -> None:
        self._done()
        self._waiting[self] = self.loop.call_later(HEAD, self.transport.abort)
        if len(self._waiting) > MOST_WAITING:
            oldest = next(iter(self._waiting))
            oldest._done()  # an end is heard of later, and meanwhile others come
            oldest.transport.abort()

    def _done(self) -> None:
        """It has asked, or is gone."""
        if (timer := self._waiting.pop(self, None)) is not None:
            timer.cancel()

    def _moves(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
