"""Without a network namespace: closed by default; as a best effort two proxies, by port."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends import on
from tests.network.conftest import Echo, Web

import ringfence
from ringfence.model import Enactor, Enforcement
from ringfence.policy import Flags

pytestmark = [pytest.mark.needs_landlock(6)]
PLAIN = 65534
PYTHON = "/usr/bin/python3"
PROGRAM = """
import errno, os, socket, sys
def attempt(call):
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno]
proxy = os.environ.get("HTTP_PROXY", "")
print(bool(proxy), attempt(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)))
print(attempt(lambda: socket.socket(type=socket.SOCK_DGRAM)), attempt(lambda: socket.socket().listen()))
if proxy:
    import base64
    user, _, place = proxy.removeprefix("http://").rpartition("@")
    host, _, port = place.partition(":")
    for word in (user, "ringfence:wrong", ""):
        with socket.create_connection((host, int(port)), 5) as sock:
            line = f"Proxy-Authorization: Basic {base64.b64encode(word.encode()).decode()}\\r\\n" if word else ""
            where = f"127.0.0.1:{sys.argv[1]}"
            head = f"GET http://{where}/ HTTP/1.1\\r\\nHost: {where}\\r\\nConnection: close\\r\\n"
            sock.sendall((head + line + "\\r\\n").encode())
            print(sock.recv(12).decode())
"""


@pytest.fixture(params=[Enactor.NATIVE, Enactor.PYTHON], ids=str)
def workspace(request: pytest.FixtureRequest) -> Iterator[Path]:
    path = Path("/var/tmp") / f"rf-{os.urandom(6).hex()}"
    path.mkdir()
    ids = (PLAIN, PLAIN) if os.geteuid() == 0 else None
    if ids:
        os.chown(path, *ids)
    with on("landlock", ids, detached_mounts=False, fresh_proc=False, enactor=request.param):
        yield path
    path.rmdir()


def outcome(workspace: Path, port: int, enforcement: Enforcement | None) -> ringfence.Outcome:
    flags = Flags(allow_host=(f"127.0.0.1:{port}",), enforcement=enforcement)
    words = [PYTHON, "-I", "-S", "-c", PROGRAM, str(port)]
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    return ringfence.run(words, workspace=str(workspace), env=environ, flags=flags, capture=True)


def test_it_stays_closed_and_the_plan_says_why(workspace: Path, echo: Echo) -> None:
    done = outcome(workspace, echo.port, None)

    assert (done.stdout or b"").decode().split() == ["False", "EAFNOSUPPORT", "EAFNOSUPPORT", "EAFNOSUPPORT"]
    assert [gap.what for gap in done.gaps if "reachable" in gap.what and "terminals" not in gap.what] == [
        f"127.0.0.1:{echo.port} reachable"
    ]
    assert echo.count == 0


def test_as_a_best_effort_the_proxies_are_reached_by_who_knows_the_password(workspace: Path, web: Web) -> None:
    done = outcome(workspace, web.port, Enforcement.BEST_EFFORT)

    assert (done.stdout or b"").decode().splitlines() == [
        "True EACCES",
        "EPERM EPERM",
        "HTTP/1.1 200",
        "HTTP/1.1 407",
        "HTTP/1.1 407",
    ], done
    assert any("Landlock knows ports, not addresses" in gap.why for gap in done.gaps)
