"""`ringfence service`: tenants' workspaces over HTTP, and the accounts that open them."""

import fcntl
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

from ..model import UsageError
from ..policy.hosts import port_number
from .options import OUTPUT, Option, Values, one, parse_around, printable, render_help, with_extra
from .spawner import SOCKET, make_free

if TYPE_CHECKING:
    from ..service.accounts import Accounts
    from ..service.database import Database

URLS = ("postgresql://", "postgres://")
STATE = "/var/lib/ringfence"
LISTEN = "/run/ringfence-service/service.sock"  # its unit makes the directory
TABLE = (
    Option("--state", "DIR", f"accounts, keys and runs, the service's own (default: {STATE})"),
    Option("--database", "FILE", "a file with the URL of a PostgreSQL database to keep them in instead"),
    Option("--socket", "PATH", f"serve: where to listen (default: {LISTEN})"),
    Option("--listen", "ADDRESS", "serve: listen at ADDRESS:PORT instead, by TLS"),
    Option("--certificate", "FILE", "serve: for TLS, with those that it is signed by"),
    Option("--key", "FILE", "serve: the certificate's key"),
    Option("--spawner", "PATH", f"serve: where the spawner listens (default: {SOCKET})"),
    Option("--host", "NAME", "serve: a name that the service is asked by (default: localhost)", many=True),
    Option("--tenant", "HOST", "account: a workspace that it opens; all of them, each time", many=True),
    OUTPUT[1],
)
EXAMPLES = (
    "ringfence service account alice --tenant example.com < password.txt",
    "ringfence service serve --host box.example.com",
    "ringfence service rotate",
    "ringfence service forget example.com",
)
VERBS = ("serve", "account", "rotate", "forget")


def main(words: list[str]) -> int:
    """One of the verbs of the service."""
    values, rest = parse_around(words, TABLE)
    verb, name, rest = *rest[:2], *[""] * (2 - len(rest)), rest[2:]
    if "--help" in values:
        usage = f"service {'|'.join(VERBS)} [NAME] [options]"
        print(render_help(usage, "Serves tenants' workspaces over HTTP.", TABLE, EXAMPLES))
        return 0
    if verb not in VERBS or rest or (name != "") != (verb in ("account", "forget")):
        what = f"needs one of: {', '.join(VERBS)}; account and forget need a name"
        raise UsageError("service", what, hint=EXAMPLES[0])
    if os.geteuid() == 0:
        hint = "setpriv --reuid=ringfence --regid=ringfence --clear-groups ringfence service …, or its unit"
        raise UsageError("service", "does not run as root", hint)
    try:
        from ..service import accounts, tokens
        from ..service.database import Database
        from ..service.trouble import Trouble
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    try:
        database = Database(_where(values))
        if verb == "rotate":
            print(tokens.Keys(database).rotate(int(time.time())).kid)
            return 0
        if verb == "account":
            return _account(accounts.Accounts(database), name, values)
        if verb == "forget":
            return _forget(accounts.Accounts(database), name)
        return _serve(database, values)
    except Trouble as error:
        asks = error.code == "unavailable" and "--database" in values
        raise UsageError("service", str(error), 'psql "$(cat FILE)" says why' if asks else "") from None
    except ModuleNotFoundError as error:
        raise _missing(error) from None


def _missing(error: ModuleNotFoundError) -> UsageError:
    extra = "service,postgresql" if error.name == "psycopg" else "service"
    return UsageError("service", f"needs {error.name}, which is not installed", hint=with_extra(extra))


def _where(values: Values) -> str:
    """The database: a server's, by a URL in a file, where no list of processes shows its password, or a file."""
    path = one(values, "--database")
    if path is None:
        return f"{os.path.realpath(one(values, '--state') or STATE)}/service.db"
    try:
        with open(path, encoding="utf-8") as file:
            url = file.read().strip()
    except OSError as error:
        raise UsageError("--database", f"{path}: {error.strerror}", "a file that has a URL in it") from None
    if not url.startswith(URLS):  # which is not shown: it may be a password
        raise UsageError("--database", f"{path} holds no URL of PostgreSQL", "postgresql://USER:PASSWORD@HOST/NAME")
    return url


def _account(known: "Accounts", name: str, values: Values) -> int:
    """A new account, or a new password for one: it is read from standard input, where no list of processes shows it."""
    import getpass

    from ..workspace.tenants.names import tenant_name

    password = getpass.getpass("password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    tenants = tuple(map(tenant_name, values.get("--tenant", ())))
    known.put(name, password, tenants)
    print(printable(f"account {name}: opens {', '.join(tenants) or 'nothing: --tenant HOST names a workspace'}"))
    return 0


def _forget(known: "Accounts", host: str) -> int:
    from ..workspace.tenants.names import tenant_name

    known.forget(tenant_name(host))
    return 0


def _hold(directory: str) -> None:
    """Keep others from serving the same state for as long as we live: each would say of the other's runs that they were
    lost."""
    held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        hint = "end that one first, or give each its own --state"
        raise UsageError("--state", f"another service serves {directory}", hint) from None


def _serve(database: "Database", values: Values) -> int:
    import asyncio.constants
    import resource

    import uvicorn

    from ..service.app import make_app
    from ..service.desk import Service
    from ..service.listening import HANDSHAKE, Prompt

    asyncio.constants.SSL_HANDSHAKE_TIMEOUT = HANDSHAKE  # uvicorn has no other way to say it
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection is one, a steward two
    service = Service(database, one(values, "--spawner") or SOCKET)
    if "--database" not in values:
        _hold(os.path.dirname(_where(values)))
    listening = _listening(values)
    for option in ("--certificate", "--key"):
        file = one(values, option)
        if file and not os.access(file, os.R_OK):
            raise UsageError(option, f"{file} cannot be read", "a file in PEM that the service's user may read")
    app = make_app(service, tuple(values.get("--host", ("localhost",))))
    try:
        uvicorn.run(
            app,
            **listening,
            log_level="error",
            server_header=False,
            proxy_headers=False,
            http=Prompt,
            limit_concurrency=4000,
            ws="none",
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=65536,
        )
    except SystemExit:  # which it has said: an address in use, most often
        return 125
    return 0


def _listening(values: Values) -> dict[str, Any]:
    """Where to listen: a unix socket; or an address, which without TLS is this machine's own."""
    listen, certificate, key = (one(values, name) for name in ("--listen", "--certificate", "--key"))
    if listen is None:
        path = one(values, "--socket") or LISTEN
        if not os.path.isdir(os.path.dirname(path) or "."):
            raise UsageError("--socket", f"there is no directory {os.path.dirname(path)}", "make it, for this user")
        make_free(path, socket.SOCK_STREAM)
        return {"uds": path}
    address, _, port = listen.rpartition(":")
    address = address.strip("[]")
    if not address or not port_number(port):
        raise UsageError("--listen", f"does not understand {listen!r}", "ADDRESS:PORT, as 127.0.0.1:8443")
    if certificate and key:
        return {"host": address, "port": int(port), "ssl_certfile": certificate, "ssl_keyfile": key}
    if certificate or key or address not in ("127.0.0.1", "::1"):
        hint = "--certificate FILE --key FILE; 127.0.0.1 and ::1 do without"
        raise UsageError("--listen", "passwords and tokens go over a network by TLS only", hint)
    return {"host": address, "port": int(port)}
