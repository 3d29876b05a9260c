"""The service's requests, as one table: it makes the routes and the OpenAPI document.

Each is authenticated, then authorised for the one workspace that it names, then done by a steward, who is that tenant.
"""

import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ..model import TenantError
from ..workspace.tenants.names import tenant_name
from . import tokens
from .accounts import Accounts
from .buckets import Buckets
from .guard import Guarded
from .runs import Event, Runs
from .stewards import Spawning
from .trouble import STATUS, Trouble, on_trouble

MOST_BODY = 24 << 20
MOST_SMALL = 1 << 16
MOST_FILE = 16 << 20

T = TypeVar("T")


class Login(msgspec.Struct, forbid_unknown_fields=True):
    """Who asks for a token."""

    account: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    password: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class Token(msgspec.Struct):
    """A token, when it ends, and what it opens."""

    token: str
    ends: int
    workspaces: tuple[str, ...]


class NewRun(msgspec.Struct, forbid_unknown_fields=True):
    """A command to run in a workspace."""

    argv: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=131072)], ...], msgspec.Meta(min_length=1, max_length=4096)
    ]
    cwd: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    env: Annotated[dict[str, str], msgspec.Meta(max_length=256)] = {}
    timeout: Annotated[float, msgspec.Meta(gt=0, le=86400)] | None = None


class Content(msgspec.Struct, forbid_unknown_fields=True):
    """A file's content, in base64."""

    data: bytes


class Service:
    """What the handlers share."""

    def __init__(self, accounts: Accounts, keys: tokens.Keys, spawner: str) -> None:
        self.accounts, self.keys = accounts, keys
        self.spawning = Spawning(spawner)
        self.runs = Runs(self.spawning)
        self.asked, self.logins = Buckets(200, 50), Buckets(10, 0.2)

    def claims(self, request: Request) -> tokens.Claims:
        """Who asks: by the one header, and never by the address."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Trouble("token_missing", "say who you are: Authorization: Bearer TOKEN")
        claims = tokens.read(self.keys, token.strip())
        self.asked.take(claims.account)
        opened = self.accounts.workspaces(claims.account)
        return msgspec.structs.replace(claims, workspaces=tuple(name for name in claims.workspaces if name in opened))

    def workspace(self, request: Request) -> str:
        """The workspace that is asked for, if the token opens it."""
        claims = self.claims(request)
        try:
            name = tenant_name(request.path_params["workspace"])
        except TenantError:
            raise Trouble("workspace_forbidden", "the token does not open this workspace") from None
        if name not in claims.workspaces:
            raise Trouble("workspace_forbidden", "the token does not open this workspace")
        return name

    async def ask(self, tenant: str, **request: object) -> dict[str, object]:
        """One question to a steward."""
        async with self.spawning.steward(tenant) as steward:
            async for answer in steward.ask(**request):
                return answer
        raise Trouble("unavailable", "the steward said nothing")


async def body(request: Request, kind: type[T], most: int = MOST_SMALL) -> T:
    """The request's body, as what it must be."""
    data = b""
    async for piece in request.stream():
        data += piece
        if len(data) > most:
            raise Trouble("too_large", f"the body has more than {most} bytes")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Trouble("bad_request", str(error)) from None


def reply(document: object, status: int = 200) -> Response:
    """A JSON document."""
    return Response(msgspec.json.encode(document, enc_hook=str), status, media_type="application/json")


# ---- The handlers ----


async def log_in(service: Service, request: Request) -> Response:
    """A token for an account."""
    given = await body(request, Login)
    service.logins.take(given.account)
    workspaces = await service.accounts.log_in(given.account, given.password)
    token, ends = tokens.issue(service.keys, given.account, workspaces)
    return reply(Token(token, ends, workspaces))


async def workspaces(service: Service, request: Request) -> Response:
    """The workspaces that the token opens."""
    return reply({"workspaces": service.claims(request).workspaces})


async def read_file(service: Service, request: Request) -> Response:
    """A file of the workspace, in base64."""
    return reply(await service.ask(service.workspace(request), do="read", path=_path(request)))


async def write_file(service: Service, request: Request) -> Response:
    """Put a file into the workspace, new or in the place of another."""
    tenant = service.workspace(request)
    given = await body(request, Content, MOST_BODY)
    if len(given.data) > MOST_FILE:
        raise Trouble("too_large", f"a file has at most {MOST_FILE} bytes")
    data = base64.b64encode(given.data).decode()
    return reply(await service.ask(tenant, do="write", path=_path(request), data=data))


async def list_files(service: Service, request: Request) -> Response:
    """The names in a directory of the workspace."""
    return reply(await service.ask(service.workspace(request), do="list", path=request.query_params.get("path", "")))


async def start_run(service: Service, request: Request) -> Response:
    """Run a command inside the workspace."""
    tenant = service.workspace(request)
    given = await body(request, NewRun)
    run = service.runs.start(tenant, msgspec.to_builtins(given))
    return reply(run.document(), 201)


async def list_runs(service: Service, request: Request) -> Response:
    """The workspace's runs, the newest first."""
    return reply({"runs": [run.document() for run in service.runs.of(service.workspace(request))]})


async def show_run(service: Service, request: Request) -> Response:
    """One run."""
    return reply(service.runs.find(service.workspace(request), request.path_params["run"]).document())


async def cancel_run(service: Service, request: Request) -> Response:
    """End a run."""
    run = service.runs.find(service.workspace(request), request.path_params["run"])
    await service.runs.cancel(run)
    return reply(run.document(), 202)


async def follow_run(service: Service, request: Request) -> Response:
    """What a run says, as server-sent events, from its beginning or after Last-Event-ID, to its end."""
    run = service.runs.find(service.workspace(request), request.path_params["run"])
    seen = request.headers.get("last-event-id", "")
    if seen and not (seen.isascii() and seen.isdigit() and len(seen) < 16):
        raise Trouble("bad_request", "Last-Event-ID is a number")

    async def lines() -> AsyncIterator[bytes]:
        async for event in run.follow(int(seen) if seen else -1):
            yield _line(event)

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _line(event: Event) -> bytes:
    kind = "output" if "stream" in event.data else "ended"
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.number, kind.encode(), msgspec.json.encode(event.data))


def _path(request: Request) -> str:
    path = request.query_params.get("path", "")
    if not path or len(path) > 4096:
        raise Trouble("bad_request", "name a file: ?path=README.md")
    return path


# ---- The table ----

Handler = Callable[[Service, Request], Awaitable[Response]]


class Row(msgspec.Struct, frozen=True):
    """A request: how it is asked, who answers, and what goes in and out."""

    method: str
    path: str
    handler: Handler
    takes: object = None
    gives: int = 200
    query: str = ""  # the one parameter, required where something is read or written


WORKSPACE = "/api/workspaces/{workspace}"
TABLE = (
    Row("POST", "/api/login", log_in, Login),
    Row("GET", "/api/workspaces", workspaces),
    Row("GET", WORKSPACE + "/files", list_files, query="path"),
    Row("GET", WORKSPACE + "/file", read_file, query="path!"),
    Row("PUT", WORKSPACE + "/file", write_file, Content, query="path!"),
    Row("GET", WORKSPACE + "/runs", list_runs),
    Row("POST", WORKSPACE + "/runs", start_run, NewRun, gives=201),
    Row("GET", WORKSPACE + "/runs/{run}", show_run),
    Row("DELETE", WORKSPACE + "/runs/{run}", cancel_run, gives=202),
    Row("GET", WORKSPACE + "/runs/{run}/events", follow_run),
)


def openapi() -> dict[str, object]:
    """The document of the table."""
    kinds = [row.takes for row in TABLE if row.takes is not None]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    by_kind = dict(zip(map(id, kinds), schemas, strict=True))
    wrong = {"type": "object", "required": ["error"], "properties": {"error": {"type": "object"}}}
    paths: dict[str, dict[str, object]] = {}
    for row in TABLE:
        names = [part[1:-1] for part in row.path.split("/") if part.startswith("{")]
        parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
        if row.query:
            name, must = row.query.rstrip("!"), row.query.endswith("!")
            schema = {"type": "string", "maxLength": 4096, "minLength": int(must)}
            parameters.append({"name": name, "in": "query", "required": must, "schema": schema})
        refused = {str(status): {"$ref": "#/components/responses/Wrong"} for status in sorted({*STATUS.values(), 422})}
        kind = "text/event-stream" if row.handler is follow_run else "application/json"
        given: dict[str, object] = {"description": row.handler.__doc__, "content": {kind: {"schema": {}}}}
        operation: dict[str, object] = {"summary": row.handler.__doc__, "operationId": row.handler.__name__}
        operation |= {"parameters": parameters, "responses": {str(row.gives): given, **refused}}
        if row.takes is not None:
            content = {"application/json": {"schema": by_kind[id(row.takes)]}}
            operation["requestBody"] = {"required": True, "content": content}
        if row.handler is not log_in:
            operation["security"] = [{"token": []}]
        paths.setdefault(row.path, {})[row.method.lower()] = operation
    answers = {"Wrong": {"description": "it was not done", "content": {"application/json": {"schema": wrong}}}}
    bearer = {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}
    parts = {"schemas": components, "responses": answers, "securitySchemes": bearer}
    return {"openapi": "3.1.0", "info": {"title": "ringfence", "version": "1"}, "paths": paths, "components": parts}


def make_app(service: Service, hosts: tuple[str, ...] = ("localhost",)) -> Starlette:
    """The application."""
    document = msgspec.json.encode(openapi())

    async def described(_: Request) -> Response:
        return Response(document, media_type="application/json")

    def bound(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return await handler(service, request)

        return answer

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await service.runs.close()

    routes = [Route(row.path, bound(row.handler), methods=[row.method]) for row in TABLE]
    # Starlette answers HEAD where there is GET; two rows of one path are two routes, and the first that fits is taken.
    return Starlette(
        routes=[*routes, Route("/openapi.json", described)],
        middleware=[Middleware(Guarded, hosts=hosts)],
        exception_handlers={Trouble: on_trouble, HTTPException: on_trouble},
        lifespan=lifespan,
    )
