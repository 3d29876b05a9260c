"""The page: what a person sees and decides, as HTML that the server makes.

A browser is known by a visit, in a cookie that no script reads and no other site's page sends; the API knows nothing of
it, and the page nothing of tokens. What changes something is a form of ours; without our origin it is refused.
"""

import asyncio
import shlex
import time
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from . import views
from .accounts import VISIT
from .desk import Service, read_body
from .handlers import STILL, audit_errand, stream
from .markup import plain
from .runs import QUIET
from .shapes import Approvals, Events, Patch, Worktree, Worktrees, shaped
from .trouble import Trouble

COOKIE = "__Host-ringfence"  # of this host alone, and by TLS alone; browsers count localhost as that
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'"
)
MOST_FIELDS = 20
DEAR = 250  # requests that a second of making pages counts for: one workspace has a fifth of our time at most


# ---- Who ----


async def visitor(service: Service, request: Request, counted: bool = True) -> str:
    """Whose browser this is."""
    account = await service.accounts.visitor(request.cookies.get(COOKIE, ""))
    if counted:
        service.asked.take(f"account {account}")
    return account


async def workspace(service: Service, request: Request, counted: bool = True) -> str:
    """The workspace that is asked for, if the visitor's account opens it."""
    account = await visitor(service, request, counted)
    return service.opened(request, (await service.accounts.opened(account))[0], counted)


async def given(request: Request) -> dict[str, str]:
    """A form of ours."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    if request.headers.get("origin") is None or site != "same-origin":  # Guarded compares the origin with the host
        raise Trouble("host_refused", "the form does not come from this page")
    text = (await read_body(request)).decode("utf-8", "replace")
    try:
        return dict(urllib.parse.parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise Trouble("bad_request", f"a form has at most {MOST_FIELDS} fields") from None


def made(service: Service, tenant: str, view: Callable[..., bytes], *known: object) -> Response:
    """A page of a workspace. Nobody else is served while it is made, so it costs the time that takes."""
    begun = time.thread_time()
    page = view(tenant, *known)
    service.asked.spend(f"workspace {tenant}", DEAR * (time.thread_time() - begun))
    return service.weighed(tenant, page, "text/html", **{"Content-Security-Policy": POLICY})


def shown(page: bytes, status: int = 200) -> Response:
    return Response(page, status, media_type="text/html", headers={"Content-Security-Policy": POLICY})


def seen(path: str) -> Response:
    """Done; look there."""
    return RedirectResponse(path, 303)


# ---- The pages ----


async def home(service: Service, request: Request) -> Response:
    """The way in."""
    try:
        account = await visitor(service, request)
    except Trouble as error:
        if error.code != "token_missing":
            raise
        return shown(views.login())
    names, _ = await service.accounts.opened(account)
    return seen(f"/w/{names[0]}") if len(names) == 1 else shown(views.workspaces(names))


async def log_in(service: Service, request: Request) -> Response:
    form = await given(request)
    account, password = form.get("account", "")[:64], form.get("password", "")
    try:
        service.logins.take(account)
        _, stamp = await service.accounts.log_in(account, password)
    except Trouble as error:
        return shown(views.login(str(error)), error.status)
    answer = seen("/")
    word = await service.accounts.visit(account, stamp)
    answer.set_cookie(COOKIE, word, max_age=VISIT, secure=True, httponly=True, samesite="strict")
    return answer


async def log_out(service: Service, request: Request) -> Response:
    await given(request)
    await service.accounts.leave(request.cookies.get(COOKIE, ""))
    answer = seen("/")
    answer.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict")
    return answer


async def runs(service: Service, request: Request) -> Response:
    tenant = await workspace(service, request)
    found, worktrees = await service.runs.of(tenant), await _active(service, tenant)
    return made(service, tenant, views.runs, found, service.runs.questions(tenant), worktrees)


async def _active(service: Service, tenant: str) -> list[str]:
    """The worktrees that a run can be in; a workspace that is no repository has none, and where the tenant has as many
    runs as it may nobody is left to look."""
    try:
        found = shaped(await service.spawning.errand(tenant, do="worktrees"), Worktrees)
    except Trouble as error:
        if not error.code.startswith(("worktree_", "tenant_failed")):
            raise
        return []
    return [one["slug"] for one in found["worktrees"] if one["state"] == "active"]


async def start_run(service: Service, request: Request) -> Response:
    tenant = await workspace(service, request)
    form = await given(request)
    try:
        argv = shlex.split(form.get("command", ""))
    except ValueError as error:
        raise Trouble("bad_request", f"the command: {error}") from None
    if not argv:
        raise Trouble("bad_request", "which command?")
    asked = {"argv": argv, "worktree": form.get("worktree", ""), "ask": form.get("ask") == "1"}
    run = await service.runs.start(tenant, asked)
    return seen(f"/w/{tenant}/runs/{run.id}")


async def run(service: Service, request: Request) -> Response:
    tenant, name = await workspace(service, request), request.path_params["run"]
    one = await service.runs.show(tenant, name)
    said, last = service.runs.said(name)
    asked = [each for each in service.runs.questions(tenant) if each["run"] == name]
    return made(service, tenant, views.run, one, said, last, asked)


async def cancel_run(service: Service, request: Request) -> Response:
    tenant = await workspace(service, request)
    await given(request)
    found = service.runs.find(tenant, request.path_params["run"])
    await service.runs.cancel(found)
    return seen(f"/w/{tenant}/runs/{found.id}")


async def answer(service: Service, request: Request) -> Response:
    """What a person said to a question."""
    tenant = await workspace(service, request)
    form = await given(request)
    found = service.runs.find(tenant, request.path_params["run"])
    name = request.path_params["question"]
    await service.runs.answer(
        found, name, form.get("answer", "deny"), _chosen(found.questions.get(name, {}), form.get("target", ""))
    )
    return seen(f"/w/{tenant}/runs/{found.id}")


def _chosen(asked: Mapping[str, Any], said: str) -> str:
    """What a person chose, of what the page offered: there letters that cannot be seen are numbers, and a browser sends
    the end of a line as two letters."""
    said = said.replace("\r\n", "\n")
    return next((one for one in views.offered(asked) if plain(one) == said), said[:4096])


async def follow_run(service: Service, request: Request) -> Response:
    found = service.runs.find(await workspace(service, request), request.path_params["run"])
    after = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return stream(service, found, after, lambda: workspace(service, request, counted=False))


async def changes(service: Service, request: Request) -> Response:
    """Says when a run of the workspace began, ended, or asks."""
    tenant = await workspace(service, request)

    async def lines() -> AsyncIterator[bytes]:
        yield b"retry: 1000\nevent: changed\ndata: {}\n\n"
        while True:
            try:
                await asyncio.wait_for(service.runs.news(tenant), QUIET)
                yield b"event: changed\ndata: {}\n\n"
            except TimeoutError:
                yield STILL

    return service.streamed(tenant, lines(), lambda: workspace(service, request, counted=False))


async def sessions(service: Service, request: Request) -> Response:
    tenant = await workspace(service, request)
    found = shaped(await service.spawning.errand(tenant, do="worktrees"), Worktrees)
    return made(service, tenant, views.sessions, found["worktrees"])


async def start_session(service: Service, request: Request) -> Response:
    tenant = await workspace(service, request)
    form = await given(request)
    begun = shaped(await service.spawning.errand(tenant, do="start", name=form.get("slug", "")), Worktree)
    return seen(f"/w/{tenant}/sessions/{begun['slug']}")


async def session(service: Service, request: Request) -> Response:
    tenant, name = await workspace(service, request), request.path_params["slug"]
    one = shaped(await service.spawning.errand(tenant, do="worktree", name=name), Worktree)
    patch = shaped(await service.spawning.errand(tenant, do="diff", name=name), Patch)
    return made(service, tenant, views.session, one, patch["patch"], patch["cut"])


async def end_session(service: Service, request: Request) -> Response:
    return await _of_session(service, request, "end")


async def merge_session(service: Service, request: Request) -> Response:
    return await _of_session(service, request, "merge")


async def _of_session(service: Service, request: Request, do: str) -> Response:
    tenant, name = await workspace(service, request), request.path_params["slug"]
    await given(request)
    await service.spawning.errand(tenant, do=do, name=name)
    return seen(f"/w/{tenant}/sessions/{urllib.parse.quote(name, safe='')}")


async def approvals(service: Service, request: Request) -> Response:
    tenant = await workspace(service, request)
    found = shaped(await service.spawning.errand(tenant, do="approvals"), Approvals)
    return made(service, tenant, views.approvals, found["approvals"])


async def revoke(service: Service, request: Request) -> Response:
    tenant = await workspace(service, request)
    await given(request)
    await service.spawning.errand(tenant, do="revoke", name=request.path_params["approval"])
    return seen(f"/w/{tenant}/approvals")


async def audit(service: Service, request: Request) -> Response:
    tenant, asked = await workspace(service, request), audit_errand(request)
    found = shaped(await service.spawning.errand(tenant, **asked), Events)
    denied = request.query_params.get("denied") == "true"
    return made(service, tenant, views.audit, found["events"], str(asked["text"]), denied)


# ---- The table ----

Handler = Callable[[Service, Request], Awaitable[Response]]
WORKSPACE = "/w/{workspace}"
TABLE: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/", home),
    ("POST", "/login", log_in),
    ("POST", "/logout", log_out),
    ("GET", WORKSPACE, runs),
    ("GET", WORKSPACE + "/changes", changes),
    ("POST", WORKSPACE + "/runs", start_run),
    ("GET", WORKSPACE + "/runs/{run}", run),
    ("POST", WORKSPACE + "/runs/{run}/cancel", cancel_run),
    ("GET", WORKSPACE + "/runs/{run}/events", follow_run),
    ("POST", WORKSPACE + "/runs/{run}/questions/{question}", answer),
    ("GET", WORKSPACE + "/sessions", sessions),
    ("POST", WORKSPACE + "/sessions", start_session),
    ("GET", WORKSPACE + "/sessions/{slug}", session),
    ("POST", WORKSPACE + "/sessions/{slug}/end", end_session),
    ("POST", WORKSPACE + "/sessions/{slug}/merge", merge_session),
    ("GET", WORKSPACE + "/approvals", approvals),
    ("POST", WORKSPACE + "/approvals/{approval}/revoke", revoke),
    ("GET", WORKSPACE + "/audit", audit),
)
FILES = tuple(
    (name, Path(__file__).with_name(name).read_bytes(), kind)
    for name, kind in (("page.css", "text/css"), ("page.js", "text/javascript"))
)


def routes(service: Service) -> list[Route]:
    """The page's, whose troubles are pages too."""

    def bound(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def act(request: Request) -> Response:
            try:
                return await handler(service, request)
            except Trouble as error:
                if error.code == "token_missing":
                    return seen("/")
                back = request.url.path if request.method == "GET" else request.url.path.rpartition("/")[0] or "/"
                return shown(views.trouble(str(error), back), error.status)

        return act

    def sent(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
        async def act(_: Request) -> Response:
            return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

        return act

    pages = [Route(path, bound(handler), methods=[method]) for method, path, handler in TABLE]
    return [*pages, *(Route(f"/{name}", sent(content, kind)) for name, content, kind in FILES)]
