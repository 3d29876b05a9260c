"""`ringfence spawner`: the root half of a service of many tenants."""

import errno
import os
import pwd
import signal
import socket
import stat
import sys

from ..model import UsageError
from ..spawner import Spawner
from ..workspace.tenants.registry import Registry
from .options import OUTPUT, Option, one, parse, render_help
from .tenant import BASE, REGISTRY

SOCKET = "/run/ringfence/spawner.sock"
# One of our own programs: what the package has for others is not imported, and that is half of its start.
STEWARD = "import os, sys; sys.argv[0] = 'ringfence'; from ringfence.steward import main; os._exit(main())"
HANDED = 3  # where systemd puts the first socket that it listens on
TABLE = (
    Option("--service", "USER", "the one user that may ask"),
    Option("--socket", "PATH", f"where it asks (default: {SOCKET}, or the socket that systemd hands over)"),
    Option("--base", "DIR", f"where the trees are (default: {BASE})"),
    Option("--registry", "DIR", f"where the records are (default: {REGISTRY})"),
    Option("--units", "", "print its units of systemd instead"),
    OUTPUT[1],
)
EXAMPLES = ("ringfence spawner --service ringfence", "ringfence spawner --service ringfence --units")


def main(words: list[str]) -> int:
    """Serve until SIGTERM."""
    values, rest = parse(words, TABLE)
    if "--help" in values:
        print(render_help("spawner --service USER [options]", "Starts stewards as tenants.", TABLE, EXAMPLES))
        return 0
    service = one(values, "--service")
    if rest or service is None:
        raise UsageError("spawner", "needs --service USER, and nothing else", hint=EXAMPLES[0])
    base, records = one(values, "--base") or BASE, one(values, "--registry") or REGISTRY
    if "--units" in values:
        from .units import spawner_units

        print("\n".join(f"# {name}\n{text}" for name, text in spawner_units(base, records, service).items()), end="")
        return 0
    if os.geteuid() != 0:
        raise UsageError("spawner", "only root can become a tenant", hint="its unit starts it as root")
    steward = (sys.executable, "-I", "-c", STEWARD)
    with _listening(one(values, "--socket") or SOCKET, _user(service)) as listener:
        with Registry(records) as registry:
            spawner = Spawner(listener, registry, base, _user(service), steward)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: spawner.stop())
            spawner.serve()
    return 0


def _user(name: str) -> int:
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        raise UsageError("--service", f"there is no user {name}", hint="useradd --system ringfence") from None
    if uid == 0:
        raise UsageError("--service", "the service does not run as root")
    return uid


def make_free(path: str, kind: socket.SocketKind) -> None:
    """Where one that was killed left its socket, and never where another listens, or something else stands."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, kind) as asked:
        is_left = stat.S_ISSOCK(mode) and asked.connect_ex(path) == errno.ECONNREFUSED
    if not is_left:
        raise UsageError("--socket", f"{path} is in use", "another one runs; or name another path")
    os.unlink(path)


def _listening(path: str, uid: int) -> socket.socket:
    """What systemd hands over, or a socket of our own that the service's user alone can open."""
    if os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ.get("LISTEN_FDS") == "1":
        return socket.socket(fileno=HANDED)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    make_free(path, socket.SOCK_SEQPACKET)
    mask = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(mask)
    os.chown(path, uid, 0)
    listener.listen(64)
    return listener
