"""What a request can come to, as one JSON shape with stable codes."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

STATUS = {
    "bad_request": 400,
    "path_invalid": 400,
    "tenant_invalid_name": 400,
    "token_missing": 401,
    "token_invalid": 401,
    "login_failed": 401,
    "path_outside_workspace": 403,
    "workspace_forbidden": 403,
    "host_refused": 403,
    "path_not_found": 404,
    "run_not_found": 404,
    "approval_not_found": 404,
    "question_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "tenant_not_found": 404,
    "tenant_suspended": 409,
    "tenant_unfinished": 409,
    "tenant_owner_mismatch": 409,
    "tenant_outside": 409,
    "too_slow": 408,
    "too_large": 413,
    "too_many": 429,
    "no_space": 507,
    "unavailable": 503,
    "worktree_invalid_slug": 400,
    "worktree_invalid_branch": 400,
    "worktree_invalid_from": 400,
    "worktree_base_invalid": 400,
    "worktree_branch_unknown": 400,
    "worktree_not_found": 404,
    "worktree_not_git": 404,
    "worktree_exists": 409,
    "worktree_path_exists": 409,
    "worktree_branch_in_use": 409,
    "worktree_locked": 409,
    "worktree_dirty": 409,
    "worktree_delete_branch_blocked": 409,
    "worktree_conflict": 409,
    "worktree_unsafe": 409,
    "worktree_unsaved": 409,
    "worktree_git_failed": 500,
}


class Trouble(Exception):
    """A request that is not done, and why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """Codes that only a steward knows are about its work, and the request was understood."""
        return STATUS.get(self.code, 422)


def response(code: str, message: str, status: int = 0) -> Response:
    """The one shape of an error."""
    body = msgspec.json.encode({"error": {"code": code, "message": message}})
    return Response(body, status or STATUS.get(code, 422), media_type="application/json")


async def on_trouble(_: Request, error: Exception) -> Response:
    """Any trouble, and what is wrong with a request before we see it."""
    if isinstance(error, Trouble):
        return response(error.code, str(error), error.status)
    status = getattr(error, "status_code", 500)
    codes = {404: "not_found", 405: "method_not_allowed"}
    return response(codes.get(status, "bad_request"), codes.get(status, "bad request").replace("_", " "), status)
