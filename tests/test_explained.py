"""Ordinary failures, each with its true cause: ours, with the grant that makes it pass, or not ours.

Every row is a command that fails inside. For one of ours the named access and target are right, and the grant, applied
as printed, makes the command pass; where there is none, none is printed. For all others nobody blames the sandbox.
"""

import http.server
import os
import pwd
import shlex
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.attacks.conftest import PATH, ROOT, WALLS, Walls, backend
from tests.looking import common_place

import ringfence
from ringfence.explain import explained
from ringfence.keep import prepare
from ringfence.model import Observed
from ringfence.policy import Reach
from ringfence.run import make_request

PYTHON = "/usr/bin/python3"


class World:
    """A workspace, a home and things around them, of one owner; and somebody who listens on the host."""

    def __init__(self, walls: Walls) -> None:
        self.walls = walls
        self.base = Path(tempfile.mkdtemp(prefix="rf-why-", dir=common_place()))
        self.ws, self.home, self.out = self.base / "ws", self.base / "home", self.base / "out"
        self.tmp = Path(tempfile.mkdtemp(prefix="rf-why-", dir="/tmp")) / "data"
        for name, text in FILES.items():
            path = self.base / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.tmp.write_text("of the host\n")
        self.env = self.tmp.parent / "env"
        (self.env / "bin").mkdir(parents=True)
        (self.env / "pyvenv.cfg").write_text("home = /usr/bin\n")
        (self.env / "bin/python").symlink_to(PYTHON)
        (self.home / "bin/tool").chmod(0o755)
        (self.home / "opt/led").chmod(0o755)
        (self.home / "env/bin/python").symlink_to(PYTHON)
        (self.home / "env/bin/hello").write_text(f"#!{self.home}/env/bin/python\nimport hello\n")
        (self.home / "env/bin/hello").chmod(0o755)
        (self.home / "bin/snake").symlink_to(PYTHON)
        (self.home / "linked").symlink_to("/usr/share/perl5")
        (self.home / "bin/led").symlink_to("../opt/led")
        (self.home / "now").symlink_to("opt")
        (self.ws / "orphan").chmod(0o755)
        (self.ws / "locked").chmod(0)
        self.base.chmod(0o755)
        self.tmp.parent.chmod(0o755)
        if ROOT:
            for path in (self.base, *self.base.rglob("*"), self.tmp.parent, *self.tmp.parent.rglob("*")):
                os.chown(path, walls.uid, walls.uid, follow_symlinks=False)
        (self.out / "closed").chmod(0o700 if ROOT else 0)
        if ROOT:
            os.chown(self.out / "closed", 0, 0)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        self.port = self.server.server_port
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(self.base / "d.sock"))
        os.chmod(self.base / "d.sock", 0o777)
        self.socket.listen()
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        self.socket.close()
        (self.out / "closed").chmod(0o700)
        shutil.rmtree(self.base)
        shutil.rmtree(self.tmp.parent)

    def run(
        self,
        words: list[str],
        flags: dict[str, tuple[str, ...]],
        explain: ringfence.Explain = ringfence.Explain.FAILURE,
    ) -> ringfence.Outcome:
        given = {**flags, "allow_read": (str(self.out), *flags.get("allow_read", ()))}  # wherever the tests stand
        environ = {"PATH": f"{self.home}/bin:{PATH}", "HOME": str(self.home), "LANG": "C.UTF-8", "MY_TOKEN": "12345678"}
        with backend(self.walls):
            return ringfence.run(
                words,
                workspace=str(self.ws),
                flags=ringfence.Flags(cwd=str(self.ws), **given),  # type: ignore[arg-type]
                env=environ,
                capture=True,
                input=b"",
                timeout=60,
                as_root=self.walls.who == "root",
                explain=explain,
            )


FILES = {
    "ws/.env": "KEY=1\n",
    "ws/.git/config": "[core]\n",
    "ws/.git/HEAD": "ref: refs/heads/main\n",
    "ws/.git/objects/pack/x": "",
    "ws/.git/refs/heads/x": "",
    "ws/.git/worktrees/w/commondir": "../..\n",
    "ws/locked": "x\n",
    "ws/script": "#!/bin/sh\n",
    "ws/orphan": "#!/no/such/interpreter\n",
    "ws/src/main.c": "int main;\n",
    "home/.ssh/id_ed25519": "key\n",
    "home/.npmrc": "token\n",
    "home/.aws/credentials": "key\n",
    "home/.config/foo/settings": "a=1\n",
    "home/.gitconfig": "[user]\n\tname = somebody\n",
    "home/.cache/foo/x": "x\n",
    "home/notes.txt": "x\n",
    "home/bare.git/HEAD": "ref: refs/heads/main\n",
    "home/bare.git/config": "[core]\n\tbare = true\n",
    "home/bare.git/objects/x": "",
    "home/bare.git/refs/x": "",
    "home/bin/tool": "#!/bin/sh\nexit 0\n",
    "home/opt/led": "#!/bin/sh\nexit 0\n",
    "home/env/pyvenv.cfg": "home = /usr/bin\n",
    "home/env/bin/hello": "",
    f"home/env/lib/{os.path.basename(os.path.realpath(PYTHON))}/site-packages/hello.py": "",
    "out/file": "x\n",
    "out/dir/inner": "x\n",
    "out/dir/old": "x\n",
    "out/closed/inner": "x\n",
    "out/moved/inner": "x\n",
}


class Row(NamedTuple):
    """A command, and its cause; without an access there is nothing to say."""

    name: str
    script: str  # by sh; {ws}, {home}, {out}, {base}, {tmp}, {port} stand for themselves
    access: str = ""
    target: str = ""
    ours: bool = True
    grant: bool = True  # whether there is one
    passes: bool = True  # whether the command passes with it: not where a real network would be needed
    flags: tuple[tuple[str, str], ...] = ()
    only: str = ""  # on this kind of wall: what the others do not refuse, or refuse otherwise
    root: str = ""  # for root, which has no capabilities inside: "ours" where it would pass outside, "skip"


def py(text: str) -> str:
    return f"{PYTHON} -c {shlex.quote(text)}"


# As Go says it, which was told an address that stands for the name.
DIALLED = """import socket
place = socket.getaddrinfo('NAME', 443, socket.AF_INET)[0][4]
try: socket.create_connection(place)
except OSError as error: raise SystemExit(f"dial tcp {{place[0]}}:443: connect: {{error.strerror.lower()}}")"""

# As Rust and Node say it.
DEEP = py("""import os
try: os.makedirs('DEEP')
except OSError as error: raise SystemExit(f"cannot create directory `DEEP`: {{os.strerror(error.errno)}}")""")

ROWS = (
    # Files that the policy closes.
    Row("ssh key", "cat {home}/.ssh/id_ed25519", "read", "{home}/.ssh/id_ed25519"),
    Row("ssh directory", "ls {home}/.ssh", "read", "{home}/.ssh"),
    Row("npm token", "cat ~/.npmrc", "read", "{home}/.npmrc"),
    Row("aws key", py("open('{home}/.aws/credentials')"), "read", "{home}/.aws/credentials"),
    Row("settings in the home", "grep a {home}/.config/foo/settings", "read", "{home}/.config/foo/settings"),
    Row("file in the home", "cp {home}/notes.txt .", "read", "{home}/notes.txt"),
    Row("by node", "node -e \"require('fs').readFileSync('{home}/.npmrc')\"", "read", "{home}/.npmrc"),
    Row(".env that a flag closes", "cat .env", "read", "{ws}/.env", flags=(("deny_read", "{ws}/.env"),)),
    Row("shell reads", ". {home}/.config/foo/settings", "read", "{home}/.config/foo/settings"),
    Row("file in the host's /tmp", "cat {tmp}", "read", "{tmp}"),
    Row("program in the home", "tool", "run", "{home}/bin/tool"),
    Row("program of an environment in the home", "{home}/env/bin/hello", "read", "{home}/env/bin/hello"),
    Row("program that is a link in the home", "snake -c 1", "read", "{home}/bin/snake", only="view"),
    Row("link in the home to a program in it", "led", "run", "{home}/opt/led"),
    Row("link in the home on the way to a file in it", "cat {home}/now/led", "read", "{home}/opt/led"),
    Row("its interpreter", "{home}/env/bin/python -c 'import hello'", "read", "{home}/env/bin/python", only="view"),
    Row("environment in the host's /tmp", "{env}/bin/python -c 1", "read", "{env}/bin/python", only="view"),
    Row("script with an interpreter of it", "printf '#!{home}/env/bin/python\nimport hello' > s5; chmod +x s5; ./s5",
        "read", "{home}/env/bin/python", only="view"),
    Row("link in the home", "ls {home}/linked/", "read", "{home}/linked", only="view"),
    Row("/etc/shadow", "cat /etc/shadow", "read", "/etc/shadow", ours=False, root="ours"),
    Row("descriptor of the caller's", "cat /dev/fd/63", "read", "/dev/fd/63", grant=False),
    # Files that it keeps from being written.
    Row("touch outside", "touch {out}/new", "write", "{out}/new"),
    Row("mkdir outside", "mkdir {out}/made", "write", "{out}/made"),
    Row("mkdir outside, of which the last is named", DEEP.replace("DEEP", "{out}/first/deep"), "write",
        "{out}/first/deep"),
    Row("mkdir in the home, of which the last is named", DEEP.replace("DEEP", "{home}/.local/share/foo"), "write",
        "{home}/.local/share/foo", grant=False),
    Row("file outside", "echo x > {out}/file", "write", "{out}/file"),
    Row("file outside, by Python", py("open('{out}/file', 'w')"), "write", "{out}/file"),
    Row("remove outside", "rm {out}/dir/inner", "write", "{out}/dir/inner"),
    Row("link outside", "ln -s x {out}/dir/link", "write", "{out}/dir/link"),
    Row("rename outside", "mv {out}/dir/old {out}/dir/other", "write", "{out}/dir/old"),
    Row("cache in the home", "mkdir {home}/.cache/foo/deep", "write", "{home}/.cache/foo/deep"),
    Row("new file in the home", "touch {home}/new", "write", "{home}/new", grant=False),
    Row("git's settings", "git config --global user.name x", "write", "{home}/.gitconfig", grant=False),
    Row("the repository's settings", "git config user.name x", "write", "{ws}/.git/config", grant=False),
    Row("remote in the home", "git ls-remote {home}/bare.git", "read", "{home}/bare.git"),
    Row("what git says of a worktree that it was to remove", "echo \"error: failed to delete '.git/worktrees/w': "
        "Device or resource busy\" >&2; exit 255", "write", "{ws}/.git/worktrees/w", grant=False),
    Row("repository elsewhere", "foo=foo; mkdir sep; echo \"gitdir: $HOME/.config/$foo\" > sep/.git; cd sep; "
        "git status; said=$?; rm -r ../sep; exit $said", "read", "{home}/.config/foo", passes=False),
    Row("protected name", "mkdir .vscode", "write", "{ws}/.vscode", grant=False, only="view"),
    Row("protected name, by Python", py("open('.envrc', 'w')"), "write", "{ws}/.envrc", grant=False, only="view"),
    Row("datagrams", py("import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)"), "socket", "datagrams",
        grant=False, only="view"),
    Row("no sockets", py("import socket; socket.socket()"), "connect", "*", only="landlock"),
    Row("flag keeps it", "echo x > src/main.c", "write", "{ws}/src/main.c", grant=False,
        flags=(("deny_write", "{ws}/src"),)),
    Row("archive outside", "tar cf {out}/x.tar src", "write", "{out}/x.tar"),
    Row("by the linker", "echo 'int main(void) {{ return 0; }}' > a.c; cc a.c -o {out}/a", "write", "{out}/a"),
    Row("by perl", "perl -e 'open(F, q(>{out}/p)) or die qq(cannot open {out}/p: $!)'", "write", "{out}/p"),
    Row("rename a directory outside", "mv {out}/moved {out}/elsewhere", "write", "{out}/moved"),
    Row("a new key", "rm -f {home}/.ssh/new; ssh-keygen -q -N '' -t ed25519 -f {home}/.ssh/new", "write",
        "{home}/.ssh/new"),
    Row("interpreter by env", "printf '#!/usr/bin/env tool\\n' > s2; chmod +x s2; ./s2", "run", "{home}/bin/tool"),
    Row("/tmp of everybody", "touch /tmp/rf-why-new", "write", "/tmp/rf-why-new", grant=False, only="landlock"),
    Row("tracing", py("import ctypes, os; c = ctypes.CDLL(None, use_errno=True); c.ptrace(0, 0, 0, 0);"
        "raise OSError(ctypes.get_errno(), 'ptrace: ' + os.strerror(ctypes.get_errno()))"), "trace", "ptrace",
        grant=False),
    # The network.
    Row("port 443", "curl -sS https://example.org/", "connect", "example.org:443", passes=False),
    Row("port 80", "curl -sS http://example.org/", "connect", "example.org:80", passes=False),
    Row("git clone", "git clone https://github.com/a/b", "connect", "github.com:443", passes=False),
    Row("ssh", "ssh -F none -o BatchMode=yes git@github.com", "connect", "github.com:22", passes=False),
    Row("by Python", py("import urllib.request as u; u.urlopen('https://example.com/')"), "connect", "example.com:443",
        passes=False),
    Row("by node", "node -e \"fetch('https://example.com/').catch(e => {{console.error(e); process.exit(1)}})\"",
        "connect", "example.com:443", passes=False),
    Row("host of no domain", "curl -sS http://db:5432/", "connect", "db:5432", passes=False),
    Row("listens, alone", "node -e \"require('net').createServer().listen(0, () => process.exit(0))\"", "connect", "*",
        only="landlock"),
    Row("socket, by curl", "curl -sS -m 1 --unix-socket {base}/d.sock http://x/", "connect", "{base}/d.sock",
        passes=False, only="view"),
    Row("database on the host", "echo 'psql: error: connection to server at \"127.0.0.1\", port {port} failed: "
        "Connection refused' >&2; exit 2", "connect", "127.0.0.1:{port}", passes=False),
    Row("service on the host", "curl -sS http://127.0.0.1:{port}/", "connect", "127.0.0.1:{port}"),
    Row("docker's socket", py("import socket, sys\ntry: socket.socket(socket.AF_UNIX).connect('{base}/d.sock')\n"
        "except OSError as e: sys.exit(f'{{e.strerror.lower()}} while trying to connect to the docker API at "
        "unix://{base}/d.sock')"), "connect", "{base}/d.sock", only="view"),
    Row("docker's socket, alone", py("import socket; socket.socket(socket.AF_UNIX).connect('{base}/d.sock')"),
        "connect", "{base}/d.sock", only="landlock", grant=False),
    # Variables.
    Row("variable, by Python", py("import os; os.environ['MY_TOKEN']"), "variable", "MY_TOKEN"),
    Row("variable, by the shell", "set -u; echo $MY_TOKEN", "variable", "MY_TOKEN"),
    # Not ours.
    Row("no such file", "cat nope", "read", "{ws}/nope", ours=False),
    Row("no such file outside", "cat {out}/nope", "read", "{out}/nope", ours=False),
    Row("missing ssh key", "cat {home}/.ssh/id_rsa", "read", "{home}/.ssh/id_rsa", ours=False),
    Row("no such file, by Python", py("open('nope.txt')"), "read", "{ws}/nope.txt", ours=False),
    Row("no such directory", "touch no/such/file", "write", "{ws}/no/such/file", ours=False),
    Row("mode of a file", "cat locked", "read", "{ws}/locked", ours=False, root="ours"),
    Row("mode of a directory", "cat {out}/closed/inner", "read", "{out}/closed/inner", ours=False, root="skip"),
    Row("no such program", "no-such-program", "run", "no-such-program", ours=False),
    Row("not executable", "./script", "run", "{ws}/script", ours=False, root="skip"),
    Row("script without its interpreter", "./orphan", "read", "/no/such/interpreter", ours=False),
    Row("script with a closed interpreter", "echo '#!{home}/bin/tool' > made; chmod +x made; ./made", "read",
        "{home}/bin/tool"),
    Row("name that does not exist", "curl -sS https://no-such-name.invalid/", "connect", "no-such-name.invalid:443",
        ours=False, flags=(("allow_host", "no-such-name.invalid"),), only="view itself"),
    Row("name that does not exist, by its address", py(DIALLED.replace("NAME", "no-such-name.invalid")), "connect",
        "no-such-name.invalid:443", ours=False, flags=(("allow_host", "no-such-name.invalid"),), only="view itself"),
    Row("nobody listens", "curl -sS http://127.0.0.1:9/", "connect", "127.0.0.1:9", ours=False),
    Row("port below 1024", py("import socket; socket.socket().bind(('127.0.0.1', 81))"), "bind", "81", ours=False,
        only="view", root="ours"),
    Row("port below 1024, by node", "node -e \"require('net').createServer().listen(80)\"", "bind", "80", ours=False,
        root="ours"),
    Row("rename what is gone", "mv {out}/gone x", "read", "{out}/gone", ours=False),
    Row("nobody's program by env", "printf '#!/usr/bin/env nope\\n' > s4; chmod +x s4; ./s4", "run", "nope",
        ours=False),
    Row("a file's own mode", "touch ro; chmod 444 ro; echo x > ro", "write", "{ws}/ro", ours=False, root="ours"),
    Row("/usr/local", "touch /usr/local/rf-why-new", "write", "/usr/local/rf-why-new", ours=False, root="ours"),
    Row("socket of nobody", "echo 'psql: error: connection to server on socket \"/run/no/s.5432\" failed: "
        "Permission denied' >&2; exit 2", "connect", "/run/no/s.5432", ours=False),
    Row("docker, of nobody", "echo 'permission denied while trying to connect to the Docker daemon socket at "
        "unix:///run/no/d.sock: dial unix /run/no/d.sock: connect: permission denied' >&2; exit 1", "connect",
        "/run/no/d.sock", ours=False),
    Row("variable that is not set", py("import os; os.environ['NOBODY_SET_IT']"), "variable", "NOBODY_SET_IT",
        ours=False),
    # Nothing to say.
    Row("is a directory", "cat src"),
    Row("name too long", py("open('x' * 300, 'w')")),
    Row("device", "mknod device c 1 3"),
    Row("no room", "echo x > /dev/full"),
    Row("not empty", "rmdir src"),
    Row("is there already", "mkdir src"),
    Row("goes in circles", "ln -sf loop loop; cat loop"),
    Row("not a directory", "cat .env/x"),
    Row("too many files", "ulimit -n 20; " + py("[open('/dev/null') for _ in range(50)]")),
    Row("too large", "ulimit -f 1; head -c 9999 /dev/zero > big"),
    Row("too late", "timeout 0.1 sleep 9"),
    Row("only root may", "mount -t tmpfs none {out}", root="skip"),
    Row("no such module", py("import nope")),
    Row("name of a pattern, by its address", py(DIALLED.replace("NAME", "x.no-such-name.invalid")),
        flags=(("allow_host", "*.no-such-name.invalid"),), only="view itself"),
    Row("no match", "grep nothing src/main.c"),
    Row("a test fails", py("assert 1 == 2")),
    Row("a syntax error", py("def :")),
    Row("usage", "ls --no-such-option"),
)  # fmt: skip


@pytest.fixture(scope="module", params=WALLS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(request.param)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _home(world: World, monkeypatch: pytest.MonkeyPatch, settled: None) -> None:
    monkeypatch.setenv("HOME", str(world.home))
    look_up = pwd.getpwuid

    def getpwuid(uid: int) -> object:
        entry = look_up(uid)
        return pwd.struct_passwd((*entry[:5], str(world.home), *entry[6:])) if uid == world.walls.uid else entry

    monkeypatch.setattr(pwd, "getpwuid", getpwuid)


def filled(world: World, text: str) -> str:
    values = {name: getattr(world, name) for name in ("ws", "home", "out", "base", "tmp", "env", "port")}
    return text.format(**values)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_cause_is_named_and_the_grant_makes_it_pass(world: World, row: Row) -> None:
    is_root = world.walls.who == "root"
    if row.only not in ("", world.walls.kind, f"{world.walls.backend} itself"):
        return  # a gap says so, or another row
    if is_root and row.root == "skip":
        return  # root outside passes; inside it is the modes that hold, and there is nothing of ours to name
    words = ["sh", "-c", filled(world, row.script)]
    flags: dict[str, tuple[str, ...]] = {name: (filled(world, value),) for name, value in row.flags}
    before = world.run(words, flags)
    said = [(denial.access, denial.target) for denial in before.denials]
    others = [(cause.access, cause.target) for cause in before.not_ours]
    expected = [(row.access, filled(world, row.target))] if row.access else []
    is_ours = row.ours or (is_root and row.root == "ours")
    told = f"{before.ending} {before.stderr!r} {before.denials} {before.not_ours}"

    assert not before.ok, told
    assert said == (expected if is_ours else []), told
    assert others == ([] if is_ours else expected), told
    if not is_ours or not row.access or (is_root and row.root):
        return
    (denial,) = before.denials
    assert bool(denial.grant) == row.grant, told
    if row.grant:
        after = world.run(words, flags | _granted(denial.grant, flags))
        assert after.denials == (), after
        assert after.ok or not row.passes, f"{denial.grant}: {after.ending} {after.stderr!r}"


def _granted(grant: str, flags: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The flags that a grant's words are."""
    found: dict[str, tuple[str, ...]] = {}
    words = iter(shlex.split(grant))
    for word in words:
        if word == "--allow-network":
            return {"network": Reach.OPEN}  # type: ignore[dict-item]
        name = word.removeprefix("--").replace("-", "_")
        found[name] = (*found.get(name, flags.get(name, ())), next(words))
    return found


# Not watched is who only looks (stat) or executes; git makes a lock beside the file; what the table has made is there.
UNSEEN = (
    "what git says of a worktree that it was to remove",
    "remote in the home",
    "descriptor of the caller's",
    "script with a closed interpreter",
    "ssh directory",
    "file in the home",
    "git's settings",
    "touch outside",
    "mkdir outside",
    "mkdir outside, of which the last is named",
    "mkdir in the home, of which the last is named",
    "cache in the home",
    "link outside",
    "rename a directory outside",
    "by the linker",
    "repository elsewhere",
    "a new key",
    "program of an environment in the home",
)
SEEN = [
    row
    for row in ROWS
    if row.ours and row.access in ("read", "write") and not row.root and not row.only and row.name not in UNSEEN
]


@pytest.mark.parametrize("row", SEEN, ids=lambda row: row.name)
def test_what_is_watched_is_seen_with_who_did_it(world: World, row: Row) -> None:
    flags: dict[str, tuple[str, ...]] = {name: (filled(world, value),) for name, value in row.flags}
    script = filled(world, row.script)
    found = world.run(["sh", "-c", f"exec 2>/dev/null; {script}"], flags, ringfence.Explain.OUTPUT)
    named = [one for one in found.denials if (one.access, one.target) == (row.access, filled(world, row.target))]

    assert [one.observed for one in named] == [True], found
    assert named[0].pid > 0
    assert named[0].exe.startswith("/")


class Logged(NamedTuple):
    """What Landlock refused, and what is said of it: an access, or nothing."""

    name: str
    access: str
    path: str
    said: str = ""
    grant: str = ""
    only: str = ""


LOGGED = (
    Logged("a file", "read", "{home}/.npmrc", "read", "--allow-read {home}/.npmrc"),
    Logged("a directory, to make something in", "make", "{out}/dir", "write", "--allow-write {out}/dir"),
    Logged("a home, to make something in", "make", "{home}", "write"),
    Logged("what the policy gives", "read", "{ws}/src/main.c"),
    Logged("what is gone", "read", "{home}/gone"),
    Logged("a file that the host closes too", "make", "/etc"),
    Logged("a signal", "signal", "init", "signal"),
    Logged("an abstract name", "connect", "@bus", "connect"),
    Logged("a service on the host", "connect", "127.0.0.1:{port}", "connect", "--allow-network", only="landlock"),
    Logged("nobody listens", "connect", "127.0.0.1:9"),
    Logged("a port of the host's", "bind", "8099", "bind", "--allow-network", only="landlock"),
    Logged("no port", "bind", "x"),
)


@pytest.mark.parametrize("row", LOGGED, ids=lambda row: row.name)
def test_what_landlock_logs_is_judged_like_all_the_rest(world: World, row: Logged) -> None:
    if row.only not in ("", world.walls.kind) or (world.walls.who == "root" and row.path == "/etc"):
        return
    target = filled(world, row.path)
    one = Observed(row.access, os.fsencode(target), 77, b"/usr/bin/cat", "failed", -1, 13)
    flags = ringfence.Flags(cwd=str(world.ws), allow_read=(str(world.out),))
    failed = ringfence.Outcome(ringfence.Exited(1), (), (), 0.1)
    with backend(world.walls):
        request = make_request(str(world.ws), flags=flags, as_root=world.walls.who == "root")
        found = explained(prepare(request), ["true"], {}, failed, b"", [one])

    pid = 77 if world.walls.kind == "landlock" else 0  # a view counts from one
    assert [(d.access, d.target, d.grant, d.observed, d.pid, d.exe) for d in found.denials] == (
        [(row.said, target, filled(world, row.grant), True, pid, "/usr/bin/cat")] if row.said else []
    )
    assert found.not_ours == ()


@pytest.mark.parametrize(
    ("denied", "read"),
    [("/proc/self/environ", "/proc/self/environ"), ("/proc/self/env*", "/proc/thread-self/environ")],
)
def test_what_is_denied_of_one_process_is_explained_for_each(world: World, denied: str, read: str) -> None:
    """Inside it has another number. It was said to stay where it is, and nobody had moved it."""
    if world.walls.kind != "view":
        return
    flags = ringfence.Flags(cwd=str(world.ws), deny_read=(denied,))
    with backend(world.walls):
        as_root = world.walls.who == "root"
        outcome = ringfence.run(["cat", read], workspace=str(world.ws), flags=flags, as_root=as_root, capture=True)

    assert {(denial.origin, denial.access) for denial in outcome.denials} == {("--deny-read", "read")}
