"""`ringfence service`: tenants' workspaces over HTTP, and the accounts that open them."""

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

from ..model import UsageError
from .options import OUTPUT, Option, Values, one, parse, render_help
from .spawner import SOCKET

if TYPE_CHECKING:
    from ..service.accounts import Accounts
    from ..service.tokens import Keys

STATE = "/var/lib/ringfence"
LISTEN = "/run/ringfence/service.sock"
TABLE = (
    Option("--state", "DIR", f"accounts and keys, the service's own (default: {STATE})"),
    Option("--socket", "PATH", f"serve: where to listen (default: {LISTEN})"),
    Option("--spawner", "PATH", f"serve: where the spawner listens (default: {SOCKET})"),
    Option("--host", "NAME", "serve: a name that the service is asked by (default: localhost)", many=True),
    Option("--tenant", "HOST", "account: a workspace that it opens", many=True),
    OUTPUT[1],
)
EXAMPLES = (
    "ringfence service account alice --tenant example.com < password.txt",
    "ringfence service serve --host box.example.com",
    "ringfence service rotate",
)
VERBS = ("serve", "account", "rotate")


def main(words: list[str]) -> int:
    """One of the verbs of the service."""
    values, rest = parse(words, TABLE)
    verb, rest = (rest[0], rest[1:]) if rest else ("", [])
    name, rest = (rest[0], rest[1:]) if rest and not rest[0].startswith("-") else ("", rest)
    more, rest = parse(rest, TABLE)
    values |= more
    if "--help" in values:
        usage = f"service {'|'.join(VERBS)} [NAME] [options]"
        print(render_help(usage, "Serves tenants' workspaces over HTTP.", TABLE, EXAMPLES))
        return 0
    if verb not in VERBS or rest or (name != "") != (verb == "account"):
        raise UsageError("service", f"needs one of: {', '.join(VERBS)}; account needs a name", hint=EXAMPLES[0])
    if os.geteuid() == 0:
        hint = "setpriv --reuid=ringfence, or its unit; the spawner alone is root"
        raise UsageError("service", "does not run as root", hint)
    try:
        from ..service import accounts, tokens
    except ModuleNotFoundError as error:
        hint = "pip install 'ringfence[service]'"
        raise UsageError("service", f"needs {error.name}, which is not installed", hint) from None
    state = one(values, "--state") or STATE
    os.makedirs(state, 0o700, exist_ok=True)
    keys = tokens.Keys(f"{state}/keys")
    if verb == "rotate":
        print(keys.rotate(int(time.time())).kid)
        return 0
    known = accounts.Accounts(f"{state}/accounts.db")
    if verb == "account":
        return _account(known, name, values)
    return _serve(known, keys, values)


def _account(known: "Accounts", name: str, values: Values) -> int:
    """A new account, or a new password for one: it is read from standard input, where no list of processes shows it."""
    import getpass

    from ..service.trouble import Trouble
    from ..workspace.tenants.names import tenant_name

    password = getpass.getpass("password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    try:
        known.put(name, password, tuple(map(tenant_name, values.get("--tenant", ()))))
    except Trouble as error:
        raise UsageError(f"account {name}", str(error)) from None
    return 0


def _serve(known: "Accounts", keys: "Keys", values: Values) -> int:
    import uvicorn

    from ..service.app import Service, make_app

    path = one(values, "--socket") or LISTEN
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # of one that was killed
    service = Service(known, keys, one(values, "--spawner") or SOCKET)
    app = make_app(service, tuple(values.get("--host", ("localhost",))))
    uvicorn.run(
        app,
        uds=path,
        log_level="warning",
        server_header=False,
        http="h11",
        limit_concurrency=1000,
        ws="none",
        h11_max_incomplete_event_size=65536,
    )
    return 0
