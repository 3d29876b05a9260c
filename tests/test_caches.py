"""Package caches: warm ones of the host are used, and nothing that a command puts there is ever seen outside."""

import base64
import hashlib
import http.server
import io
import json
import os
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends import on

import ringfence
from ringfence import enforce, keep
from ringfence.explain import why
from ringfence.run import make_request

AS_ROOT = os.geteuid() == 0


class Place:
    """A home with a cache, and a workspace beside it."""

    def __init__(self, path: Path) -> None:
        self.home, self.workspace = path / "home", path / "ws"
        for one in (self.home, self.workspace):
            one.mkdir()

    def run(
        self, script: str, workspace: Path | None = None, **given: tuple[str, ...] | tuple[bytes, ...]
    ) -> ringfence.Outcome:
        flags = ringfence.Flags(enforcement=ringfence.Enforcement.BEST_EFFORT, **given)  # type: ignore[arg-type]
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        return ringfence.run(
            ["sh", "-c", script], workspace=str(workspace or self.workspace), env=environ, flags=flags, capture=True,
            as_root=AS_ROOT, timeout=50,
        )  # fmt: skip


@pytest.fixture(params=["view", "view without overlays", "landlock"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled: None
) -> Iterator[Place]:
    monkeypatch.setattr(keep, "_has_overlays", request.param == "view")
    made = Place(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("XDG_CACHE_HOME")
    with on(request.param.partition(" ")[0]):
        yield made


def test_a_warm_cache_is_read_and_never_written(place: Place) -> None:
    warm = place.home / ".cache" / "uv" / "wheels"
    warm.mkdir(parents=True)
    (warm / "one").write_text("good")

    script = "cd ~/.cache/uv/wheels; cat one; echo poison > one; echo new > two; rm -f one; mkdir deep; echo x > deep/x"
    first = place.run(script)
    second = place.run("cat ~/.cache/uv/wheels/two")

    assert (first.stdout or b"").startswith(b"good"), first
    assert {path.name: path.read_text() for path in warm.iterdir()} == {"one": "good"}
    has_layers = keep._has_overlays and enforce.probe().namespaces
    assert (second.stdout == b"new\n") is has_layers
    assert any("caches of uv" in gap.what for gap in first.gaps) is not has_layers
    said, _ = why(make_request(str(place.workspace), as_root=AS_ROOT), "write", str(warm / "two"))
    assert (said.verdict is ringfence.Verdict.ALLOW) is has_layers, said
    assert ("private layer" in said.reason) is has_layers


def test_a_cache_is_there_where_the_system_is_closed(place: Place) -> None:
    warm = place.home / ".cache" / "uv"
    warm.mkdir(parents=True)
    (warm / "one").write_text("good")
    system = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache")

    seen = place.run("read -r said < ~/.cache/uv/one; echo $said; ls /etc", deny_read=("/",), allow_read=system)

    assert (seen.stdout or b"").startswith(b"good\n"), seen
    assert b"passwd" not in (seen.stdout or b"")


def test_a_cache_is_there_where_programs_make_sandboxes_of_their_own(place: Place) -> None:
    warm = place.home / ".cache" / "uv"
    warm.mkdir(parents=True)
    (warm / "one").write_text("good")

    seen = place.run("cat ~/.cache/uv/one", inline=(b'{"allowNestedSandbox": true}',))

    assert (seen.stdout, seen.exit_code) == (b"good", 0), seen


def test_npx_makes_its_lock_beside_what_it_installed(place: Place) -> None:
    installed = place.home / ".npm" / "_npx" / "8f497369b2d6166e"
    installed.mkdir(parents=True)
    (place.home / ".npm" / "_cacache").mkdir()

    found = place.run('mkdir -p "${npm_config_cache:-$HOME/.npm}/_npx/8f497369b2d6166e/concurrency.lock"')

    assert found.exit_code == 0, found
    assert list(installed.iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        *(".cache/yarn", ".yarn/berry", ".cache/ccache", ".ccache", ".cache/deno", ".cache/zig", ".cache/pre-commit"),
        ".cache/pnpm",
    ],
)
def test_a_cache_that_its_tool_has_to_write_is_written_privately(place: Place, path: str) -> None:
    """Yarn, ccache, deno, zig and pre-commit give up where they cannot."""
    warm = place.home / path
    warm.mkdir(parents=True)
    (warm / "one").write_text("good")

    found = place.run(f"cat ~/{path}/one && echo new > ~/{path}/two")

    assert (found.stdout or b"").startswith(b"good"), found
    assert found.ok is (keep._has_overlays and enforce.probe().namespaces), found
    assert [one.name for one in warm.iterdir()] == ["one"]


def test_nobody_tries_again_where_nothing_can_be_reached(place: Place) -> None:
    script = 'echo "$npm_config_fetch_retries,$pnpm_config_fetch_retries,$PIP_RETRIES,$UV_HTTP_RETRIES"'

    assert place.run(script).stdout == b"0,0,0,0\n"
    assert place.run(script, allow_host=("example.com",)).stdout == b",,,\n"


@pytest.mark.parametrize("tool", ["npm", "pnpm"])
def test_npm_waits_less_before_it_tries_again_where_hosts_are_named(place: Place, tool: str) -> None:
    """It takes a refusal for an error of the moment, and waited for 70 s. pnpm 12 reads no variable of npm's."""
    script = f'echo "${tool}_config_fetch_retry_mintimeout,${tool}_config_fetch_retry_maxtimeout"'

    assert place.run(script, allow_host=("example.com",)).stdout == b"1000,3000\n"
    assert place.run(script).stdout == b",\n"


def test_pnpm_is_told_of_the_store_that_is_there(place: Place) -> None:
    """pnpm 12 makes a store in node_modules where it can link from no other, as from one mount into another."""
    store = place.home / ".local" / "share" / "pnpm" / "store"
    store.mkdir(parents=True)
    (store / "one").write_text("good")

    found = place.run('cat "$pnpm_config_store_dir/one" 2>/dev/null; mkdir -p "$pnpm_config_store_dir/v11"')

    assert found.ok, found
    assert (found.stdout == b"good") is (keep._has_overlays and enforce.probe().namespaces)
    assert [one.name for one in store.iterdir()] == ["one"]


def test_maven_is_led_by_a_variable_that_all_its_versions_know_unless_somebody_lets_in_their_own(
    place: Place,
) -> None:
    """Debian 12 has Maven 3.8, which reads no MAVEN_ARGS."""
    said = place.run('echo "$MAVEN_OPTS"').stdout or b""
    assert said.startswith(b"-Dmaven.repo.local=/")
    environ = {"PATH": os.environ["PATH"], "HOME": str(place.home), "MAVEN_OPTS": "-Xmx1g"}
    flags = ringfence.Flags(allow_env=("MAVEN_OPTS",), enforcement=ringfence.Enforcement.BEST_EFFORT)
    words = ["sh", "-c", 'echo "$MAVEN_OPTS"']
    mine = ringfence.run(words, workspace=place.workspace, env=environ, flags=flags, capture=True, as_root=AS_ROOT)
    assert mine.stdout == b"-Xmx1g\n"


def test_another_workspace_does_not_see_it(place: Place) -> None:
    (place.home / ".cache" / "uv").mkdir(parents=True)
    other = place.workspace.parent / "other"
    other.mkdir()

    place.run('echo poison > ~/.cache/uv/x; mkdir -p "$PIP_CACHE_DIR" && echo poison > "$PIP_CACHE_DIR/x"')
    seen = place.run('cat ~/.cache/uv/x "$PIP_CACHE_DIR/x" 2>/dev/null; ls ~/.cache/ringfence/*/own | wc -l', other)

    assert b"poison" not in (seen.stdout or b"")


@pytest.mark.parametrize(
    "variable",
    [
        *("UV_CACHE_DIR", "PIP_CACHE_DIR", "npm_config_cache", "PNPM_HOME", "BUN_INSTALL_CACHE_DIR", "GOCACHE"),
        *("GOMODCACHE", "CARGO_HOME", "GRADLE_USER_HOME", "UV_TOOL_DIR", "POETRY_CACHE_DIR"),
        *("YARN_GLOBAL_FOLDER", "CCACHE_DIR", "DENO_DIR", "ZIG_GLOBAL_CACHE_DIR", "PRE_COMMIT_HOME"),
        *("pnpm_config_store_dir", "pnpm_config_cache_dir"),
    ],
)
def test_a_tool_without_a_cache_has_one_that_stays(place: Place, variable: str) -> None:
    (place.home / ".m2" / "repository").mkdir(parents=True)  # somebody here has one

    place.run(f'mkdir -p "${variable}" && echo kept > "${variable}/x"')

    assert place.run(f'cat "${variable}/x"').stdout == b"kept\n"


def test_what_is_hidden_in_a_cache_stays_hidden(place: Place) -> None:
    secret = place.home / ".cache" / "uv" / "secret"
    secret.parent.mkdir(parents=True)
    secret.write_text("token")
    flags = ringfence.Flags(deny_read=(str(secret),), enforcement=ringfence.Enforcement.BEST_EFFORT)

    outcome = ringfence.run(
        ["cat", str(secret)], workspace=str(place.workspace), flags=flags, capture=True, as_root=AS_ROOT
    )

    assert b"token" not in (outcome.stdout or b"")


def test_a_cache_that_was_replaced_between_two_runs_is_the_new_one(place: Place) -> None:
    cache = place.home / ".cache" / "uv"
    cache.mkdir(parents=True)
    (cache / "which").write_text("old")
    script = 'cat "${UV_CACHE_DIR:-$HOME/.cache/uv}/which" "$HOME/.cache/uv/which"'
    for _ in range(5):  # from the third on by a nursery, whose overlays have the layers that it found
        assert b"old" in (place.run(script).stdout or b"")
    cache.rename(place.home / "before")
    cache.mkdir()
    (cache / "which").write_text("new")

    found = place.run(script).stdout or b""

    assert b"new" in found
    assert b"old" not in found


def test_many_at_once_write_to_one_cache(place: Place) -> None:
    (place.home / ".cache" / "uv" / "lower").mkdir(parents=True)
    outcomes: list[ringfence.Outcome] = []
    script = (
        'c=${UV_CACHE_DIR:-$HOME/.cache/uv}; mkdir -p "$c/lower";'
        'for i in 1 2 3; do echo x > "$c/lower/NUMBER-$i" || exit 1; sleep 0.1; done'
    )

    assert place.run(script).ok  # the first write into a directory of the host's is not shared

    def one(number: int) -> None:
        outcomes.append(place.run(script.replace("NUMBER", str(number))))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [outcome.exit_code for outcome in outcomes] == [0] * 8, [outcome.stderr for outcome in outcomes]


def test_what_the_kernel_leaves_of_a_layer_is_swept(place: Place) -> None:
    (place.home / ".cache" / "uv").mkdir(parents=True)
    place.run("echo x > ~/.cache/uv/x")
    keep.forget_all()
    for number, work in enumerate((place.home / ".cache" / "ringfence").glob("*/layers/uv/work/*")):
        work.rename(work.with_name(f"{1 << 30}{number}"))  # so that nobody has its number meanwhile

    place.run("true")

    assert [*(place.home / ".cache" / "ringfence").glob(f"*/layers/uv/work/{1 << 30}*")] == []


def test_caches_of_workspaces_that_are_gone_are_swept(place: Place) -> None:
    old = place.workspace.parent / "old"
    old.mkdir()
    (place.home / "go" / "pkg" / "mod").mkdir(parents=True)
    place.run("true", old)
    shelves = place.home / ".cache" / "ringfence"
    assert len([*shelves.iterdir()]) == 1
    old.rmdir()
    keep.forget_all()

    place.run("true")

    assert [(shelf / "workspace").read_text() for shelf in shelves.iterdir()] == [str(place.workspace)]


def test_a_home_without_caches_stays_as_it_was(place: Place) -> None:
    outcome = place.run('mkdir -p "$UV_CACHE_DIR" && echo x > "$UV_CACHE_DIR/x" && echo written')

    assert outcome.stdout == b"written\n", outcome
    assert [*place.home.iterdir()] == []


class Registry(http.server.BaseHTTPRequestHandler):
    """A registry of npm with one package."""

    archive = b""

    def do_GET(self) -> None:
        body = self.archive
        if not self.path.endswith(".tgz"):
            address = f"http://{self.headers['Host']}/dep/-/dep-1.0.0.tgz"
            integrity = "sha512-" + base64.b64encode(hashlib.sha512(self.archive).digest()).decode()
            version = {"name": "dep", "version": "1.0.0", "dist": {"tarball": address, "integrity": integrity}}
            body = json.dumps(
                {"name": "dep", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
            ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=300")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def registry() -> Iterator[str]:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as archive:
        for name, text in (
            ("package.json", '{"name": "dep", "version": "1.0.0"}'),
            ("index.js", "module.exports = 42"),
        ):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    Registry.archive = whole.getvalue()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
@pytest.mark.needs_program("npm")
def test_npm_installs_offline_from_a_warm_cache(place: Place, registry: str) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(place.home)}
    warm = place.workspace.parent / "warm"
    warm.mkdir()
    npm = ["npm", "install", f"--registry={registry}", "--no-audit", "--no-fund", "dep"]
    subprocess.run(npm, cwd=warm, env=environ, check=True, capture_output=True)
    for name in ("package.json", "package-lock.json"):
        (place.workspace / name).write_bytes((warm / name).read_bytes())
    before = sorted(str(path) for path in (place.home / ".npm" / "_cacache").rglob("*"))

    outcome = place.run(f"npm ci --offline --registry={registry} --no-audit --no-fund && node -p 'require(\"dep\")'")
    if any("caches of npm" in gap.what for gap in outcome.gaps):
        assert b"ENOTCACHED" in (outcome.stderr or b""), outcome  # its own cache starts empty, and that is said
        return

    assert (outcome.exit_code, (outcome.stdout or b"").splitlines()[-1:]) == (0, [b"42"]), outcome
    assert sorted(str(path) for path in (place.home / ".npm" / "_cacache").rglob("*")) == before
