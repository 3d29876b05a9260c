"""What each request of the API does: authenticated, authorised for the one workspace that it names, then done by a
steward, who is that tenant."""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from . import tokens
from .desk import PIECE, Service, body, reply
from .runs import Event, Run
from .trouble import Trouble

MOST_BODY = 24 << 20
MOST_FILE = 16 << 20
STILL = b": still here\n\n"  # a remark, which those who read events pass over


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
    worktree: Annotated[str, msgspec.Meta(max_length=64)] = ""
    ask: bool = False  # what a person may grant is asked, while the command waits
    timeout: Annotated[float, msgspec.Meta(gt=0, le=86400)] | None = None


class Content(msgspec.Struct, forbid_unknown_fields=True):
    """A file's content, in base64."""

    data: bytes


class Said(msgspec.Struct, forbid_unknown_fields=True):
    """What a person says to a question, and what the rule then names if it is something wider."""

    answer: Literal["once", "session", "project", "always", "deny"]
    target: Annotated[str, msgspec.Meta(max_length=4096)] = ""


class NewWorktree(msgspec.Struct, forbid_unknown_fields=True, rename={"revision": "from"}):
    """A worktree to make; without a slug it gets one."""

    slug: Annotated[str, msgspec.Meta(max_length=64)] = ""
    revision: Annotated[str, msgspec.Meta(max_length=256)] = ""


class Merge(msgspec.Struct, forbid_unknown_fields=True):
    """Where to merge; by default into the branch that a worktree began from."""

    into: Annotated[str, msgspec.Meta(max_length=256)] = ""


class NewApproval(msgspec.Struct, forbid_unknown_fields=True):
    """What to say yes to."""

    operation: Literal["read", "write", "connect", "bind"]
    target: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    scope: Literal["session", "project", "always"] = "project"
    seconds: Annotated[int, msgspec.Meta(ge=0, le=31_536_000)] = 0
    reason: Annotated[str, msgspec.Meta(max_length=1024)] = ""


async def log_in(service: Service, request: Request) -> Response:
    """A token for an account."""
    given = await body(request, Login)
    service.logins.take(given.account)
    workspaces, stamp = await service.accounts.log_in(given.account, given.password)
    await service.keys.look_again()  # `rotate` is another process
    token, ends = tokens.issue(service.keys, given.account, workspaces, stamp)
    return reply(Token(token, ends, workspaces))


async def workspaces(service: Service, request: Request) -> Response:
    """The workspaces that the token opens."""
    return reply({"workspaces": (await service.claims(request)).workspaces})


async def read_file(service: Service, request: Request) -> Response:
    """A file of the workspace, in base64."""
    tenant = await service.workspace(request)
    with service.large(tenant):
        found = await service.spawning.errand(tenant, do="read", path=_path(request))
    return service.sent(tenant, found)


async def write_file(service: Service, request: Request) -> Response:
    """Put a file into the workspace, new or in the place of another."""
    tenant = await service.workspace(request)
    with service.large(tenant):
        given = await body(request, Content, MOST_BODY)
        service.asked.spend(f"workspace {tenant}", len(given.data) / PIECE)
        if len(given.data) > MOST_FILE:
            raise Trouble("too_large", f"a file has at most {MOST_FILE} bytes")
        data = base64.b64encode(given.data).decode()
        return reply(await service.spawning.errand(tenant, do="write", path=_path(request), data=data))


async def list_files(service: Service, request: Request) -> Response:
    """The names in a directory of the workspace."""
    tenant = await service.workspace(request)
    found = await service.spawning.errand(tenant, do="list", path=request.query_params.get("path", ""))
    return service.sent(tenant, found)


async def start_run(service: Service, request: Request) -> Response:
    """Run a command inside the workspace."""
    tenant = await service.workspace(request)
    given = await body(request, NewRun)
    run = await service.runs.start(tenant, msgspec.to_builtins(given))
    return reply(run.document(), 201)


async def list_runs(service: Service, request: Request) -> Response:
    """The workspace's runs, the newest first."""
    tenant = await service.workspace(request)
    return service.sent(tenant, {"runs": await service.runs.of(tenant)})


async def show_run(service: Service, request: Request) -> Response:
    """One run."""
    tenant = await service.workspace(request)
    return service.sent(tenant, await service.runs.show(tenant, request.path_params["run"]))


async def denials(service: Service, request: Request) -> Response:
    """What a run was refused, and why."""
    tenant = await service.workspace(request)
    ended = (await service.runs.show(tenant, request.path_params["run"]))["ended"]
    return service.sent(tenant, {"denials": ended.get("denials", []) if isinstance(ended, dict) else []})


async def cancel_run(service: Service, request: Request) -> Response:
    """End a run."""
    run = service.runs.find(await service.workspace(request), request.path_params["run"])
    await service.runs.cancel(run)
    return reply(run.document(), 202)


async def follow_run(service: Service, request: Request) -> Response:
    """What a run says, as server-sent events, from its beginning or after Last-Event-ID, to its end."""
    run = service.runs.find(await service.workspace(request), request.path_params["run"])
    return stream(
        service, run, request.headers.get("last-event-id", ""), lambda: service.workspace(request, counted=False)
    )


def stream(service: Service, run: Run, seen: str, again: Callable[[], Awaitable[object]]) -> Response:
    """The events of a run after a number."""
    if seen and not (seen.removeprefix("-").isdecimal() and seen.isascii() and len(seen) < 16):
        raise Trouble("bad_request", "Last-Event-ID is a number")

    async def lines() -> AsyncIterator[bytes]:
        async for events in run.follow(int(seen) if seen else -1):
            yield b"".join(map(_line, events)) or STILL

    return service.streamed(run.tenant, lines(), again)


def _line(event: Event) -> bytes:
    kind = "output" if "stream" in event.data else "asked" if "asked" in event.data else "ended"
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.number, kind.encode(), msgspec.json.encode(event.data))


async def list_questions(service: Service, request: Request) -> Response:
    """What the workspace's commands wait for: each question as docs/asking.md has it, with its run."""
    tenant = await service.workspace(request)
    return service.sent(tenant, {"questions": service.runs.questions(tenant)})


async def answer_question(service: Service, request: Request) -> Response:
    """Answer a question; the command that waits for it goes on."""
    run = service.runs.find(await service.workspace(request), request.path_params["run"])
    given = await body(request, Said)
    await service.runs.answer(run, request.path_params["question"], given.answer, given.target)
    return reply(run.document(), 202)


async def list_worktrees(service: Service, request: Request) -> Response:
    """The worktrees of the workspace."""
    tenant = await service.workspace(request)
    return service.sent(tenant, await service.spawning.errand(tenant, do="worktrees"))


async def make_worktree(service: Service, request: Request) -> Response:
    """A worktree with a branch of its own."""
    tenant = await service.workspace(request)
    given = await body(request, NewWorktree)
    made = await service.spawning.errand(tenant, do="start", name=given.slug, revision=given.revision)
    return reply(made, 201)


async def show_worktree(service: Service, request: Request) -> Response:
    """One worktree as it stands."""
    return reply(await _of_worktree(service, request, await service.workspace(request), "worktree"))


async def diff_worktree(service: Service, request: Request) -> Response:
    """What is different in it from where it began, as a patch."""
    tenant = await service.workspace(request)
    return service.sent(tenant, await _of_worktree(service, request, tenant, "diff"))


async def merge_worktree(service: Service, request: Request) -> Response:
    """Merge what is committed in it, or change nothing."""
    tenant = await service.workspace(request)
    given = await body(request, Merge)
    name = request.path_params["slug"]
    return reply(await service.spawning.errand(tenant, do="merge", name=name, into=given.into))


async def end_worktree(service: Service, request: Request) -> Response:
    """Put all work on its branch and take it away; the branch goes too with deleteBranch=true."""
    query = request.query_params
    deletes, dirty = query.get("deleteBranch") == "true", query.get("allowDirty") == "true"
    tenant = await service.workspace(request)
    return reply(await _of_worktree(service, request, tenant, "end", deletes=deletes, dirty=dirty))


async def _of_worktree(service: Service, request: Request, tenant: str, do: str, **more: object) -> dict[str, object]:
    return await service.spawning.errand(tenant, do=do, name=request.path_params["slug"], **more)


async def list_approvals(service: Service, request: Request) -> Response:
    """What was approved for the workspace's commands, each with the exact rule."""
    tenant = await service.workspace(request)
    return service.sent(tenant, await service.spawning.errand(tenant, do="approvals"))


async def approve(service: Service, request: Request) -> Response:
    """Say yes to one thing more; the answer has the rule as it is stored."""
    tenant = await service.workspace(request)
    given = await body(request, NewApproval)
    return reply(await service.spawning.errand(tenant, do="approve", **msgspec.structs.asdict(given)), 201)


async def revoke(service: Service, request: Request) -> Response:
    """Take an approval back."""
    tenant = await service.workspace(request)
    return reply(await service.spawning.errand(tenant, do="revoke", name=request.path_params["approval"]))


async def audit(service: Service, request: Request) -> Response:
    """The newest events of the audit log: all, or with a text, of a run or a session, refused ones, or since a time."""
    tenant = await service.workspace(request)
    return service.sent(tenant, await service.spawning.errand(tenant, **audit_errand(request)))


def audit_errand(request: Request) -> dict[str, object]:
    """What a request's query asks of the log."""
    query = request.query_params
    wanted: dict[str, object] = {name: query.get(name, "")[:256] for name in ("since", "session", "run")}
    wanted["denied"] = query.get("denied") == "true"
    return {"do": "audit", "text": query.get("q", "")[:256], "wanted": wanted}


def _path(request: Request) -> str:
    path = request.query_params.get("path", "")
    if not path or len(path) > 4096:
        raise Trouble("bad_request", "name a file: ?path=README.md")
    return path
