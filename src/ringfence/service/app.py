"""The service's requests, as one table: it makes the routes and the OpenAPI document."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import idna
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from . import handlers, page
from .desk import Service
from .guard import Guarded
from .trouble import STATUS, Trouble, on_trouble

idna.encode("bücher.example", uts46=True)  # its tables are imported late, and we may not be able to by then

Handler = Callable[[Service, Request], Awaitable[Response]]


class Row(msgspec.Struct, frozen=True):
    """A request: how it is asked, who answers, and what goes in and out."""

    method: str
    path: str
    handler: Handler
    takes: object = None
    gives: int = 200
    query: tuple[str, ...] = ()  # its parameters; one that must be there has a mark


WORKSPACE = "/api/workspaces/{workspace}"
TABLE = (
    Row("POST", "/api/login", handlers.log_in, handlers.Login),
    Row("GET", "/api/workspaces", handlers.workspaces),
    Row("GET", WORKSPACE + "/files", handlers.list_files, query=("path",)),
    Row("GET", WORKSPACE + "/file", handlers.read_file, query=("path!",)),
    Row("PUT", WORKSPACE + "/file", handlers.write_file, handlers.Content, query=("path!",)),
    Row("GET", WORKSPACE + "/runs", handlers.list_runs),
    Row("POST", WORKSPACE + "/runs", handlers.start_run, handlers.NewRun, gives=201),
    Row("GET", WORKSPACE + "/runs/{run}", handlers.show_run),
    Row("DELETE", WORKSPACE + "/runs/{run}", handlers.cancel_run, gives=202),
    Row("GET", WORKSPACE + "/runs/{run}/events", handlers.follow_run),
    Row("GET", WORKSPACE + "/runs/{run}/denials", handlers.denials),
    Row("GET", WORKSPACE + "/questions", handlers.list_questions),
    Row("POST", WORKSPACE + "/runs/{run}/questions/{question}", handlers.answer_question, handlers.Said, gives=202),
    Row("GET", WORKSPACE + "/worktrees", handlers.list_worktrees),
    Row("POST", WORKSPACE + "/worktrees", handlers.make_worktree, handlers.NewWorktree, gives=201),
    Row("GET", WORKSPACE + "/worktrees/{slug}", handlers.show_worktree),
    Row("DELETE", WORKSPACE + "/worktrees/{slug}", handlers.end_worktree, query=("deleteBranch", "allowDirty")),
    Row("GET", WORKSPACE + "/worktrees/{slug}/diff", handlers.diff_worktree),
    Row("POST", WORKSPACE + "/worktrees/{slug}/merge", handlers.merge_worktree, handlers.Merge),
    Row("GET", WORKSPACE + "/approvals", handlers.list_approvals),
    Row("POST", WORKSPACE + "/approvals", handlers.approve, handlers.NewApproval, gives=201),
    Row("DELETE", WORKSPACE + "/approvals/{approval}", handlers.revoke),
    Row("GET", WORKSPACE + "/audit", handlers.audit, query=("q", "since", "session", "run", "denied")),
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
        for query in row.query:
            name, must = query.rstrip("!"), query.endswith("!")
            schema = {"type": "string", "maxLength": 4096, "minLength": int(must)}
            parameters.append({"name": name, "in": "query", "required": must, "schema": schema})
        refused = {str(status): {"$ref": "#/components/responses/Wrong"} for status in sorted({*STATUS.values(), 422})}
        kind = "text/event-stream" if row.handler is handlers.follow_run else "application/json"
        given: dict[str, object] = {"description": row.handler.__doc__, "content": {kind: {"schema": {}}}}
        operation: dict[str, object] = {"summary": row.handler.__doc__, "operationId": row.handler.__name__}
        operation |= {"parameters": parameters, "responses": {str(row.gives): given, **refused}}
        if row.takes is not None:
            content = {"application/json": {"schema": by_kind[id(row.takes)]}}
            operation["requestBody"] = {"required": True, "content": content}
        if row.handler is not handlers.log_in:
            operation["security"] = [{"token": []}]
        paths.setdefault(row.path, {})[row.method.lower()] = operation
    answers = {"Wrong": {"description": "it was not done", "content": {"application/json": {"schema": wrong}}}}
    bearer = {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}
    parts = {"schemas": components, "responses": answers, "securitySchemes": bearer}
    return {"openapi": "3.1.0", "info": {"title": "ringfence", "version": "1"}, "paths": paths, "components": parts}


def make_app(service: Service, hosts: tuple[str, ...]) -> Starlette:
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
        await service.runs.begin()
        yield
        await service.close()

    routes = [Route(row.path, bound(row.handler), methods=[row.method]) for row in TABLE]
    # Starlette answers HEAD where there is GET; two rows of one path are two routes, and the first that fits is taken.
    return Starlette(
        routes=[*routes, Route("/openapi.json", described), *page.routes(service)],
        middleware=[Middleware(Guarded, hosts=hosts)],
        exception_handlers={Trouble: on_trouble, HTTPException: on_trouble},
        lifespan=lifespan,
    )
