"""What the handlers share: who asks, what it opens, and what is sent back."""

import asyncio
import collections
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ..model import TenantError
from ..workspace.tenants.names import tenant_name
from . import tokens
from .accounts import Accounts
from .buckets import Buckets
from .database import Database
from .runs import Runs
from .stewards import Spawning
from .trouble import Trouble

MOST_SMALL = 1 << 16
MOST_STREAMS = 64  # for each workspace
MOST_LARGE = 4  # files and answers beyond a PIECE that go in or out at once, for each workspace: each is in memory
PIECE = 1 << 16
SLOWEST = 30.0  # seconds for a body to come
LOOK = 5.0  # seconds for which who watches is believed to be let
OVER = ("token_missing", "token_invalid", "workspace_forbidden")

T = TypeVar("T")


class Service:
    """A service that runs."""

    def __init__(self, database: Database, spawner: str) -> None:
        self._database = database
        self.accounts, self.keys = Accounts(database), tokens.Keys(database)
        self.spawning = Spawning(spawner)
        self.runs = Runs(self.spawning, database)
        self._streams: collections.Counter[str] = collections.Counter()
        self._large: collections.Counter[str] = collections.Counter()
        self.asked, self.logins = Buckets(200, 50), Buckets(10, 0.2)

    async def close(self) -> None:
        """End its runs, and say so where that is kept."""
        await self.runs.close()
        self._database.close()

    async def claims(self, request: Request, counted: bool = True) -> tokens.Claims:
        """Who asks: by the one header, and never by the address. Who is only looked at again does not ask."""
        given = request.headers.getlist("authorization")  # of two, a proxy before us may have looked at the other
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not token:
            raise Trouble("token_missing", "say who you are: Authorization: Bearer TOKEN")
        try:
            claims = tokens.read(self.keys, token.strip())
        except Trouble:
            await self.keys.look_again()
            claims = tokens.read(self.keys, token.strip())
        if counted:
            self.asked.take(f"account {claims.account}")
        opened, stamp = await self.accounts.opened(claims.account)
        if stamp != claims.stamp:  # its password was changed since, or it is another account of this name
            raise Trouble("token_invalid", "the token is not one of ours, or is over")
        return msgspec.structs.replace(claims, workspaces=tuple(name for name in claims.workspaces if name in opened))

    async def workspace(self, request: Request, counted: bool = True) -> str:
        """The workspace that is asked for, if the token opens it."""
        return self.opened(request, (await self.claims(request, counted)).workspaces, counted)

    def opened(self, request: Request, workspaces: tuple[str, ...], counted: bool) -> str:
        """The workspace that a request names, which must be one of these."""
        refused = Trouble("workspace_forbidden", "this workspace is not open to you")
        try:
            name = tenant_name(request.path_params["workspace"])
        except TenantError:
            raise refused from None
        if name not in workspaces:
            raise refused
        if counted:
            self.asked.take(f"workspace {name}")
        return name

    def streamed(self, tenant: str, lines: AsyncIterator[bytes], again: Callable[[], Awaitable[object]]) -> Response:
        """Server-sent events, for so many at once of a workspace: each holds a connection. Who may watch is asked
        `again` while it goes on, for a run takes longer than an account may be there; and it is not counted, or who
        asks too often would be let for that."""

        async def while_let() -> AsyncIterator[bytes]:
            looked = time.monotonic()
            async for line in lines:
                if time.monotonic() - looked > LOOK:
                    if not await _may(again):
                        return
                    looked = time.monotonic()
                yield line

        place = _taken(self._streams, tenant, MOST_STREAMS, "this workspace is watched by as many as may be")
        return _Pieces(place, while_let(), "text/event-stream", {"Cache-Control": "no-store"})

    def large(self, tenant: str) -> AbstractContextManager[None]:
        """So many files at once."""
        return _taken(self._large, tenant, MOST_LARGE, "as many files of this workspace as may be are on their way")

    def sent(self, tenant: str, document: object) -> Response:
        """A document that may be large."""
        return self.weighed(tenant, msgspec.json.encode(document), "application/json")

    def weighed(self, tenant: str, data: bytes, kind: str, **headers: str) -> Response:
        """What may be large: piece by piece, as it is taken, and it costs what it weighs. Who takes little at a time
        would have it held for hours, so there are few of them."""
        self.asked.spend(f"workspace {tenant}", len(data) / PIECE)
        if len(data) <= PIECE:
            return Response(data, media_type=kind, headers=headers)
        refused = "as many large answers of this workspace as may be are on their way"

        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(data), PIECE):
                yield data[start : start + PIECE]

        place = _taken(self._large, tenant, MOST_LARGE, refused)
        return _Pieces(place, pieces(), kind, {**headers, "Content-Length": str(len(data))})


async def _may(again: Callable[[], Awaitable[object]]) -> bool:
    """Whether somebody is still let; a database that is away is no answer to that."""
    try:
        await again()
    except Trouble as error:
        return error.code not in OVER
    return True


@contextlib.contextmanager
def _taken(counter: collections.Counter[str], name: str, most: int, refused: str) -> Iterator[None]:
    """One of so many places of a workspace: looked for and taken in one, or all who come at a moment would find the
    last one free."""
    if counter[name] >= most:
        raise Trouble("too_many", refused)
    counter[name] += 1
    try:
        yield
    finally:
        counter[name] -= 1
        if not counter[name]:
            del counter[name]


class _Pieces(StreamingResponse):
    """An answer in pieces, which has its place from when it is made until all of it is said, or nobody is there."""

    def __init__(
        self, place: AbstractContextManager[None], pieces: AsyncIterator[bytes], kind: str, headers: dict[str, str]
    ) -> None:
        self._place = contextlib.ExitStack()
        self._place.enter_context(place)
        super().__init__(self._counted(pieces), media_type=kind, headers=headers)

    async def _counted(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        with self._place:
            async for piece in pieces:
                yield piece

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:  # who is gone before the first piece takes none
            await super().__call__(scope, receive, send)


async def body(request: Request, kind: type[T], most: int = MOST_SMALL) -> T:
    """The request's body, as what it must be."""
    try:
        return msgspec.json.decode(await read_body(request, most), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Trouble("bad_request", str(error)) from None


async def read_body(request: Request, most: int = MOST_SMALL) -> bytes:
    """The bytes, up to so many."""
    data = bytearray()
    try:
        async with asyncio.timeout(SLOWEST):
            async for piece in request.stream():
                data += piece
                if len(data) > most:
                    raise Trouble("too_large", f"the body has more than {most} bytes")
    except ClientDisconnect:
        raise Trouble("bad_request", "the body was not finished") from None
    except TimeoutError:
        raise Trouble("too_slow", f"the body took more than {SLOWEST:g} s") from None
    return bytes(data)


def reply(document: object, status: int = 200) -> Response:
    """A JSON document."""
    return Response(msgspec.json.encode(document, enc_hook=str), status, media_type="application/json")
