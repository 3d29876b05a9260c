"""Real programs, none of which is told of a proxy, reach the allowed name and nothing else."""

import contextlib
import functools
import http.server
import io
import json
import os
import shutil
import socket
import ssl
import subprocess
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.looking import free_port
from tests.network.test_by_name import PYTHON, ROOT, World

pytestmark = [pytest.mark.needs_userns, pytest.mark.needs_landlock(6)]
PLAIN = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if ROOT else []


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    base = Path("/var/tmp") / f"rf-{os.urandom(6).hex()}"
    base.mkdir()
    base.chmod(0o755)
    yield World(base, "view")
    shutil.rmtree(base, ignore_errors=True)


class Site:
    """Files over TLS, under a name, with a certificate of its own."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.certificate = root / "ca.pem"
        key = root / "key.pem"
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-keyout", str(key), "-out", str(self.certificate), "-days", "2", "-subj", "/CN=good.test",
                 "-addext", "subjectAltName=DNS:good.test,DNS:other.test"]  # fmt: skip
        subprocess.run(words, check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        key.unlink()
        handler = functools.partial(Quiet, directory=str(directory))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def allowed(self) -> tuple[str, str]:
        return f"good.test:{self.port}", f"127.0.0.1:{self.port}"

    def url(self, host: str = "good.test") -> str:
        return f"https://{host}:{self.port}"


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site(world: World) -> Iterator[Site]:
    files = world.base / "files"
    files.mkdir()
    (files / "hello").write_text("hello\n")
    made = Site(world.workspace, files)
    yield made
    made.server.shutdown()
    made.server.server_close()


def until_open(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.05)
    raise AssertionError("the server did not start")


@pytest.mark.needs_program("openssl", "curl")
def test_curl(world: World, site: Site) -> None:
    words = ["curl", "-sS", "--max-time", "10", "--cacert", "ca.pem", "-w", "%{http_version} %{num_connects}\n"]

    assert world.run([*words, f"{site.url()}/hello", f"{site.url()}/hello"], *site.allowed)["stdout"].split() == [
        "hello", "1.1", "1", "hello", "1.1", "0",
    ]  # fmt: skip
    refused = world.run([*words, f"{site.url('other.test')}/hello"], *site.allowed)
    assert (refused["exitCode"], refused["denials"][0]["target"]) == (
        6,
        site.url("other.test").removeprefix("https://"),
    )


@pytest.mark.needs_program("openssl")
def test_git_over_https(world: World, site: Site) -> None:
    repository(world.base / "files/repo.git")
    words = ["git", "-c", "http.sslCAInfo=" + str(site.certificate), "clone", "-q"]

    outcome = world.run([*words, f"{site.url()}/repo.git", "copy"], *site.allowed)

    assert (outcome["exitCode"], (world.workspace / "copy/one").read_text()) == (0, "one\n")
    assert world.run([*words, f"{site.url('other.test')}/repo.git", "no"], *site.allowed)["exitCode"] == 128


def repository(path: Path) -> None:
    script = (
        "git init -q -b main work && cd work && echo one > one && git add one && git $ME commit -qm one"
        ' && git clone -q --bare . "$1" && cd "$1" && git update-server-info'
    ).replace("$ME", "-c user.name=n -c user.email=e@x.test")
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["sh", "-c", script, "sh", str(path)], cwd=path.parent, env=environ, check=True, capture_output=True)


@pytest.mark.needs_root  # a plain account may have no shell to log in to
@pytest.mark.needs_program("/usr/sbin/sshd", "ssh", "ssh-keygen")
def test_git_over_ssh(world: World) -> None:
    port = free_port()
    repository(world.base / "repo.git")
    for name in ("hostkey", "ws/key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(world.base / name)]
        subprocess.run(words, check=True, capture_output=True)
    authorized = world.base / "authorized"
    authorized.write_text((world.workspace / "key.pub").read_text())
    config = world.base / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {world.base}/hostkey\nAuthorizedKeysFile {authorized}\n"
        "StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n"
    )
    if ROOT:
        os.makedirs("/run/sshd", exist_ok=True)
    server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", str(config)], stderr=subprocess.DEVNULL)
    try:
        until_open(port, server)
        user = subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip()
        ssh = "ssh -i key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes -F /dev/null"
        words = ["env", f"GIT_SSH_COMMAND={ssh}", "git", "-c", "safe.directory=*", "clone", "-q"]

        def clone(host: str, into: str) -> int:
            url = f"ssh://{user}@{host}:{port}{world.base}/repo.git"
            code: int = world.run([*words, url, into], f"good.test:{port}", f"127.0.0.1:{port}")["exitCode"]
            return code

        assert (clone("good.test", "copy"), clone("other.test", "no")) == (0, 128)
        assert (world.workspace / "copy/one").read_text() == "one\n"
    finally:
        server.terminate()
        server.wait()


@pytest.mark.needs_program("openssl")
def test_pip(world: World, site: Site) -> None:
    if subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode:
        pip = next(iter(sorted(Path("/usr/share/python-wheels").glob("pip-*.whl"))), None)
        words = [PYTHON, f"{pip}/pip"] if pip else []
    else:
        words = [PYTHON, "-m", "pip"]
    if not words:
        return  # no pip of the system's, and every other lies in somebody's home
    simple = world.base / "files/simple/tiny"
    simple.mkdir(parents=True)
    with zipfile.ZipFile(simple / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "ONE = 1\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    (simple / "index.html").write_text('<a href="tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>')
    options = ["install", "-q", "--disable-pip-version-check", "--no-cache-dir", "--retries", "0", "--target", "out",
               "--cert", "ca.pem", "--index-url"]  # fmt: skip

    outcome = world.run([*words, *options, f"{site.url()}/simple/", "tiny"], *site.allowed)

    assert (outcome["exitCode"], (world.workspace / "out/tiny.py").exists()) == (0, True), outcome
    assert world.run([*words, *options, f"{site.url('other.test')}/simple/", "tiny"], *site.allowed)["exitCode"] == 1


@pytest.mark.needs_program("openssl", "node")
def test_node_fetch(world: World, site: Site) -> None:
    program = f"""
for (const host of ["good.test", "other.test"])
  await fetch(`https://${{host}}:{site.port}/hello`).then(
    async (answer) => console.log((await answer.text()).trim()), (error) => console.log(error.cause.code));
"""
    (world.workspace / "fetch.mjs").write_text(program)

    outcome = world.run(["env", "NODE_EXTRA_CA_CERTS=ca.pem", "node", "fetch.mjs"], *site.allowed)

    assert outcome["stdout"].split() == ["hello", "ENOTFOUND"], outcome


@pytest.mark.needs_program("openssl", "node", "npm")
def test_npm(world: World, site: Site) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in (
            ("package.json", '{"name": "tiny", "version": "1.0.0"}'),
            ("index.js", "module.exports = 1"),
        ):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    files = world.base / "files"
    (files / "tiny-1.0.0.tgz").write_bytes(packed.getvalue())
    version = {"name": "tiny", "version": "1.0.0", "dist": {"tarball": f"{site.url()}/tiny-1.0.0.tgz"}}
    (files / "tiny").write_text(
        json.dumps({"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}})
    )
    words = ["npm", "install", "--no-audit", "--no-fund", "--fetch-retries=0", "--cafile=ca.pem", "--cache=/tmp/npm",
             "--registry"]  # fmt: skip
    (world.workspace / "package.json").write_text("{}")

    outcome = world.run([*words, f"{site.url()}/", "tiny"], *site.allowed)

    assert (outcome["exitCode"], (world.workspace / "node_modules/tiny/index.js").exists()) == (0, True), outcome
    refused = world.run([*words, f"{site.url('other.test')}/", "tiny"], *site.allowed)
    target = site.url("other.test").removeprefix("https://")
    assert (refused["exitCode"], refused["denials"][0]["target"]) == (1, target), refused


GO = """
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	for _, place := range os.Args[1:] {
		answer, err := http.Get(place)
		if err != nil {
			fmt.Println("refused")
			continue
		}
		body, _ := io.ReadAll(answer.Body)
		fmt.Print(string(body))
	}
}
"""


@pytest.fixture(scope="module")
def fetch_in_go(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("go")
    (base / "fetch.go").write_text(GO)
    environ = {"PATH": os.environ["PATH"], "HOME": str(base)}
    subprocess.run(["go", "build", "fetch.go"], cwd=base, env=environ, check=True, capture_output=True)
    return base / "fetch"


@pytest.mark.needs_program("openssl", "go")
@pytest.mark.parametrize("resolver", ["go", "cgo"])
def test_go_net_http(world: World, site: Site, fetch_in_go: Path, resolver: str) -> None:
    """With its own resolver, which asks over UDP by itself, and with the C library's."""
    shutil.copy(fetch_in_go, world.workspace / "fetch")
    words = ["env", f"GODEBUG=netdns={resolver}", "SSL_CERT_FILE=ca.pem", "./fetch"]
    places = [f"{site.url(host)}/hello" for host in ("good.test", "other.test", "127.0.0.2")]

    outcome = world.run([*words, *places], *site.allowed)

    assert outcome["stdout"].split() == ["hello", "refused", "refused"], outcome
    assert outcome["denials"][0]["target"] == "other.test"
    # Where something is denied, no name is in a file inside: each is asked for.
    outcome = world.run([*words, *places], *site.allowed, options=("--deny-host", "other.test"))
    assert outcome["stdout"].split() == ["hello", "refused", "refused"], outcome


@pytest.mark.needs_program("java", "javac")
def test_java_http_client(world: World) -> None:
    from tests.network.conftest import Web

    web = Web()
    (world.workspace / "Fetch.java").write_text(
        """
import java.net.URI;
import java.net.http.*;
class Fetch {
    public static void main(String[] places) throws Exception {
        for (String place : places)
            try {
                var request = HttpRequest.newBuilder(URI.create(place)).build();
                var client = HttpClient.newHttpClient();
                System.out.println(client.send(request, HttpResponse.BodyHandlers.ofString()).body());
            } catch (java.io.IOException error) {
                System.out.println("refused");
            }
    }
}
"""
    )
    words = ["java", "Fetch.java", f"http://good.test:{web.port}/x", f"http://other.test:{web.port}/x"]

    outcome = world.run(words, "good.test", f"127.0.0.1:{web.port}")

    web.server.shutdown()
    web.server.server_close()
    assert outcome["stdout"].splitlines() == [f"GET /x good.test:{web.port} ", "refused"], outcome


@pytest.mark.needs_program("psql", "postgres", "initdb")
def test_psql(world: World) -> None:
    data, port = world.base / "pg", free_port()
    data.mkdir()
    if ROOT:
        os.chown(data, 65534, 65534)
    environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    words = ["initdb", "-D", str(data), "-U", "tester", "--no-sync", "-A", "trust", "-E", "UTF8"]
    subprocess.run([*PLAIN, *words], check=True, capture_output=True, env=environ, cwd="/")
    server = subprocess.Popen(
        [*PLAIN, "postgres", "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", "", "-F"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ, cwd="/",
    )  # fmt: skip
    try:
        until_open(port, server)

        def query(host: str) -> tuple[int, str]:
            words = ["psql", "-At", "-h", host, "-p", str(port), "-U", "tester", "-c", "select 6 * 7", "postgres"]
            outcome = world.run(words, f"db.test:{port}", f"127.0.0.1:{port}")
            return outcome["exitCode"], outcome["stdout"].strip()

        # By name, and at its own port on the loopback inside, because the address was named too.
        assert (query("db.test"), query("127.0.0.1"), query("other.test")) == ((0, "42"), (0, "42"), (2, ""))
    finally:
        server.terminate()
        server.wait()


@pytest.mark.needs_program("redis-server", "redis-cli")
def test_redis(world: World) -> None:
    port = free_port()
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=world.base)
    try:
        until_open(port, server)

        def ping(host: str, allowed: str) -> str:
            words = ["redis-cli", "-h", host, "-p", str(port), "ping"]
            said: str = world.run(words, allowed, f"127.0.0.1:{port}")["stdout"]
            return said.strip()

        assert ping("db.test", f"db.test:{port}") == "PONG"
        assert ping("localhost", f"localhost:{port}") == "PONG"
        assert ping("other.test", f"db.test:{port}") == ""
    finally:
        server.terminate()
        server.wait()
