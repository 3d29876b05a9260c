"""What asks for a run beside its own is a command in a sandbox, and lies: it gets nothing that it does not have.

Each attack writes a request of its own, by our own code, and sends it where an honest `ringfence run` would.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import dns
import h11
import hypothesis
import hypothesis.strategies as st
import msgspec
import pytest
from tests.attacks.conftest import Field, Walls, backend
from tests.attacks.everybody import BASE, NOBODY, RUN
from tests.attacks.everybody import installed as installed
from tests.attacks.everybody import workspace as workspace
from tests.attacks.test_siblings import SECONDS, Outer, _below, inner, living, until
from tests.attacks.test_siblings import mark as mark
from tests.attacks.test_siblings import outer as outer

import ringfence
from ringfence import beside, siblings
from ringfence.beside import HEAD, LONGEST, MAGIC, Asked, receive
from ringfence.enforce import listen_at
from ringfence.model import LaunchError, Policy
from ringfence.taking import TAKE, taken

pytestmark = pytest.mark.usefixtures("installed")

# Whoever runs it has `link`, connected and taken, and `ask(policy, ...)`, which prints what came of it.
ASKER = f"""
import os, socket, struct, sys
sys.path.insert(0, {str(BASE / "lib")!r})
import msgspec
from ringfence.beside import Asked, HEAD, MAGIC, send
from ringfence.within import reach
from ringfence.model import *
from ringfence.model.policy import ParentProxy

READ, WRITE, ALLOW, DENY = Access.READ, Access.WRITE, Verdict.ALLOW, Verdict.DENY
ME = Origin("me")
everything = tuple(Rule(access, ALLOW, "/", origin) for access in Access for origin in (ME, BUILT_IN))


def ask(policy, script, fds=None, cwd=None, argv=None, more={{}}):
    link = reach()
    argv = argv or (b"sh", b"-c", script.encode())
    here = os.getcwd()
    asked = Asked(argv, b"/bin/sh", os.fsencode(cwd or here), dict(os.environb) | more, policy)
    try:
        send(link, asked, fds or (0, 1, 2, os.open(here, os.O_PATH)))
    except OSError:
        pass
    said = link.recv(2, socket.MSG_WAITALL)
    print("answer", list(said), flush=True)
    return said
"""


def attack(outer: Outer, script: str, *options: str) -> str:
    (outer.workspace / "attack.py").write_text(ASKER + script)
    _, said = outer.run(*options, script="/usr/bin/python3 -I attack.py")
    assert "Traceback" not in said, said
    return said


GREEDY = """
policy = Policy(
    "/", everything, network=Network(True, True, True, True), enforcement=Enforcement({enforcement!r}), nested=True,
    escape=ALLOW, injections=(Injection({secret!r}, os.getcwd() + "/shown", ME),),
    limits=(Limit("processes", -1.0, ME),), environment=Environment(("*",), {{"RINGFENCE_SIBLINGS": "/nowhere"}}),
)
ask(policy, "cat {secret}; cat shown; echo no > {outside}/new; echo $RINGFENCE_SIBLINGS; echo ran")
"""


@pytest.mark.parametrize("enforcement", ["off", "best-effort", "required"])
def test_a_policy_that_allows_everything_opens_nothing(outer: Outer, enforcement: str) -> None:
    secret, outside = outer.home / "x" / "f", outer.workspace.parent / "outside"
    (outer.workspace / "shown").touch()

    said = attack(outer, GREEDY.format(enforcement=enforcement, secret=str(secret), outside=outside))

    assert "ran" in said.split()
    assert "of-the-outer" not in said
    assert "/nowhere" not in said.split()
    assert not list(outside.iterdir())


LINKED = """
os.symlink({secret!r}, "link")
here = os.getcwd()
policy = Policy(here, (Rule(READ, ALLOW, "/", ME), Rule(READ, DENY, here, ME), {rules}))
ask(policy, "cat link/f " + here + "/link/f; echo no > link/new", cwd="/", fds=(0, 1, 2, os.open("/", os.O_PATH)))
"""


@pytest.mark.parametrize(
    "rules",
    [
        'Rule(READ, ALLOW, here + "/link", ME)',
        '*(Rule(access, ALLOW, here + "/link", BUILT_IN) for access in Access)',
        '*(Rule(access, ALLOW, here + "/link/f", ME) for access in Access)',
    ],
)
def test_a_grant_of_what_is_its_own_does_not_lead_elsewhere_through_a_link(outer: Outer, rules: str) -> None:
    """The workspace is not writable in such a run, so nobody inside could turn the link; whoever asks has done so."""
    place = outer.home / "x"

    said = attack(outer, LINKED.format(secret=str(place), rules=rules))

    assert "answer" in said
    assert "of-the-outer" not in said
    assert not (place / "new").exists()


# What a rule names is a link at one moment and a directory at the next: whoever looks twice sees one of each.
SWAPPED = """
import ctypes, signal, time
libc, here, end = ctypes.CDLL(None), os.getcwd(), time.monotonic() + 8
os.mkdir("d")
open("d/f", "w").close()
os.symlink({secret!r}, "l")
child = os.fork()
while not child:
    libc.renameat2(-100, b"d", -100, b"l", 2)
    time.sleep(0)
named = tuple(Rule(access, ALLOW, here + "/d/f", ME) for access in Access)
policy = Policy("/", (*everything, Rule(READ, DENY, here + "/d", ME), *named))
while time.monotonic() < end:
    ask(policy, "cat {secret}/f; echo changed >> {secret}/f")
os.kill(child, signal.SIGKILL)
"""


def test_what_is_swapped_for_a_link_while_it_is_looked_at_is_not_given(outer: Outer) -> None:
    secret = outer.home / "x"

    said = attack(outer, SWAPPED.format(secret=str(secret)))

    assert said.count("answer") > 10, said
    assert "of-the-outer" not in said
    assert (secret / "f").read_text() == "of-the-outer\n"


# What a pattern of the outer run begins with is a link by the time that the first one asks.
TURNED = """
os.rmdir("d")
os.symlink({secret!r}, "d")
policy = Policy("/", (*everything, *(Rule(access, ALLOW, {secret!r} + "/f", ME) for access in Access)))
ask(policy, "cat {secret}/f; echo changed >> {secret}/f")
"""


@pytest.mark.parametrize("option", ["--allow-read", "--allow-write"])
def test_where_a_pattern_of_the_outer_run_begins_is_not_what_became_of_it(outer: Outer, option: str) -> None:
    secret = outer.home / "x"
    (outer.workspace / "d").mkdir()

    said = attack(outer, TURNED.format(secret=str(secret)), option, f"{outer.workspace}/d/*")

    assert "answer" in said, said
    assert "of-the-outer" not in said
    assert (secret / "f").read_text() == "of-the-outer\n"


@pytest.mark.parametrize(
    "given",
    [
        "os.open(here, os.O_RDONLY), 1, 2, os.open(here, os.O_PATH)",
        'os.open("/etc/passwd", os.O_PATH), 1, 2, os.open(here, os.O_PATH)',
        "0, 1, 2, 0",
    ],
)
def test_streams_through_which_one_could_leave_are_refused(outer: Outer, given: str) -> None:
    said = attack(outer, f'here = os.getcwd()\nask(Policy("/", everything), "echo ran", fds=({given}))\n')

    assert "ran" not in said.split(), said
    assert "answer" in said


def test_a_directory_that_is_another_outside_is_none(outer: Outer) -> None:
    """It is the path that counts inside, and what stands there must be what whoever asks has seen."""
    said = attack(outer, f'ask(Policy("/", everything), "echo ran; pwd", cwd={str(outer.home)!r})\n')

    assert "answer [3, 0]" in said


RUBBISH = """
import random
for _ in range(12):
    link = reach()
    if link is None:
        continue
    size = random.choice((0, 5, 100, 1 << 31))
    data = random.randbytes(random.randrange(40))
    head = random.choice((b"", b"RF", os.urandom(8), HEAD.pack(MAGIC, size), HEAD.pack(b"abcd", size)))
    fds = [0] * random.choice((0, 1, 3, 4, 5, 30))
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
    try:
        link.sendmsg([head + data or b"x"], rights)
        link.close()
    except OSError:
        pass
if "landlock" in sys.argv:
    door = os.open(os.environ["RINGFENCE_SIBLINGS"], os.O_WRONLY)
    for number in range(40):
        os.write(door, random.choice((struct.pack("<iI", random.randrange(-9, 99999), number), bytes(8))))
"""


def test_rubbish_does_no_harm_and_the_next_one_is_served(outer: Outer) -> None:
    (outer.workspace / "attack.py").write_text(ASKER + RUBBISH)

    _, said = outer.run(script=f"/usr/bin/python3 -I attack.py {outer.walls}; {inner(script='echo served')}")

    assert said.split() == ["served"], said


def test_there_are_never_more_than_so_many(outer: Outer) -> None:
    """Those that say nothing count too, until they have waited too long."""
    most, asker = siblings.MOST, inner(script="echo ran")
    held = f"links = [reach() for _ in range({most})]\nos.system({asker!r})\nprint(len(links))\n"

    said = attack(outer, held)

    assert f"has {most} beside it already" in said
    assert said.split()[-1] == str(most)
    assert "ran" not in said.split()


def test_what_is_sent_to_the_log_is_the_run_that_was_asked_for(outer: Outer) -> None:
    """A run beside another one is recorded as any other is."""
    outer.run(script=inner(script="echo beside-the-outer"))
    log = subprocess.run(
        [*RUN[:4], "log"], cwd=outer.workspace, env=outer.environ, capture_output=True, text=True,
        user=NOBODY if os.geteuid() == 0 and outer.walls == "landlock" else None,
    )  # fmt: skip

    assert "beside-the-outer" in log.stdout, log.stderr


def test_only_a_descriptor_of_the_run_itself_is_taken() -> None:
    """We may take those of all the user's others, and a command could name them."""
    code = "import socket, sys, time; a, b = socket.socketpair(); print(a.fileno(), flush=True); sys.stdin.read()"
    with (
        subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as run,
        subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as bystander,
    ):
        numbers = [int(one.stdout.readline()) for one in (run, bystander) if one.stdout]

        mine = taken(TAKE.pack(run.pid, numbers[0]), run.pid, os.geteuid())
        others = [
            taken(TAKE.pack(bystander.pid, numbers[1]), run.pid, os.geteuid()),
            taken(TAKE.pack(os.getpid(), 0), run.pid, os.geteuid()),
            taken(TAKE.pack(run.pid, 0), run.pid, os.geteuid()),  # a pipe, and no end of a connection
            taken(TAKE.pack(run.pid, 500), run.pid, os.geteuid()),
            taken(TAKE.pack(-1, 0), run.pid, os.geteuid()),
            taken(b"short", run.pid, os.geteuid()),
        ]
        unguarded = taken(TAKE.pack(bystander.pid, numbers[1]), os.getpid(), os.geteuid())  # as one of ours it would be
        for one in (run, bystander):
            one.send_signal(signal.SIGKILL)
    assert mine >= 0
    assert unguarded >= 0
    assert others == [-1] * 6
    for fd in (mine, unguarded):
        os.close(fd)


# Whoever is above us, up to the process that started the run: the warden is among them, and speaks to the outside.
NAMING = """
import os, struct, sys, time
door = os.open(os.environ["RINGFENCE_SIBLINGS"], os.O_WRONLY)
pid = os.getpid()
for _ in range(2):
    pid = int(open(f"/proc/{pid}/stat").read().rpartition(") ")[2].split()[1])
    for number in range(12):
        os.write(door, struct.pack("<iI", pid, number))
time.sleep(2)
print("ran")
sys.exit(7)
"""


@pytest.mark.needs_root
@pytest.mark.needs_landlock(6)
def test_what_the_warden_speaks_by_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may take what is nobody's to look at; and whoever serves would speak and listen there instead."""
    walls = Walls("landlock", "owner")
    field = Field(walls, monkeypatch)
    ground = field.ground()
    try:
        with backend(walls):
            ran = ringfence.run(
                ["/usr/bin/python3", "-c", NAMING], workspace=str(ground.workspace), siblings=True, capture=True
            )
    finally:
        field.close()

    assert (ran.exit_code, ran.stdout) == (7, b"ran\n"), ran


ASKED = Asked((b"true",), b"/bin/true", b"/", {b"A": b"b"}, Policy("/", ()))


@hypothesis.given(data=st.data())
def test_a_request_is_understood_or_refused_and_no_descriptor_is_kept(data: st.DataObject) -> None:
    import _socket
    import struct

    whole = bytearray(msgspec.msgpack.encode(ASKED))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    size = data.draw(st.sampled_from((len(whole), len(whole), len(whole) + 1, LONGEST + 1)))
    count = data.draw(st.sampled_from((4, 4, 0, 3, 5)))
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    theirs.settimeout(1)
    before = len(os.listdir("/proc/self/fd"))
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack(f"{count}i", *[0] * count))] if count else []
    ours.sendmsg([HEAD.pack(MAGIC, size)], rights)
    ours.sendall(whole)
    ours.shutdown(_socket.SHUT_WR)
    try:
        asked, fds = receive(theirs, os.geteuid())
    except LaunchError:
        pass
    else:
        assert isinstance(asked, Asked)
        assert len(fds) == 4
        for fd in fds:
            os.close(fd)
    assert len(os.listdir("/proc/self/fd")) == before
    for end in (ours, theirs):
        end.close()


def test_another_user_is_not_heard() -> None:
    import _socket

    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)

    with pytest.raises(LaunchError, match="another user"):
        receive(theirs, os.geteuid() + 1)
    for end in (ours, theirs):
        end.close()


PROXIED = """
hosts = (HostRule(ALLOW, "example.test", 80, ME),)
reach_it = "import socket; socket.create_connection(('example.test', 80), 5)"
parent = ParentProxy("http://127.0.0.1:{port}", "http://127.0.0.1:{port}")
policy = Policy("/", everything, network=Network(hosts=hosts, parent=parent))
more = {{name: b"http://127.0.0.1:{port}" for name in (b"http_proxy", b"https_proxy", b"all_proxy", b"ALL_PROXY")}}
ask(policy, '/usr/bin/python3 -c "' + reach_it + '" || echo unreached', more=more)
"""


@pytest.mark.needs_userns
def test_whose_proxy_is_dialled_through_is_not_for_who_asks_to_say(workspace: Path) -> None:
    """It would be dialled outside, on this machine's own loopback. A person's own variables do choose it."""
    outer = Outer(workspace, "view")
    for module in (dns, h11):  # what the gate needs besides
        source = Path(module.__file__ or "").parent
        shutil.copytree(source, BASE / "lib" / source.name, dirs_exist_ok=True)
        subprocess.run(["chmod", "-R", "a+rX", BASE / "lib" / source.name], check=True)
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]
        service.settimeout(10)
        own = f"http://127.0.0.1:{port}"
        reach_it = "import socket; socket.create_connection(('example.test', 80), 5)"
        given = {"http_proxy": own, "https_proxy": own}
        outer.environ |= given
        with outer.start("--allow-host", "example.test:80", script=f'/usr/bin/python3 -c "{reach_it}"') as bare:
            with service.accept()[0] as link:  # so it goes for whoever starts a run
                assert link.recv(1 << 12).startswith(b"CONNECT example.test:80 ")
                link.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                bare.communicate(timeout=20)
        for name in given:
            del outer.environ[name]
        (workspace / "attack.py").write_text(ASKER + PROXIED.format(port=port))

        _, said = outer.run("--allow-host", "example.test:80", script="/usr/bin/python3 -I attack.py")

        assert "unreached" in said, said
        service.settimeout(0.5)
        with pytest.raises(TimeoutError):
            service.accept()


HOLDING = """
link, here = reach(), os.getcwd()
asked = Asked((b"sleep", b"{mark}"), b"/bin/sleep", os.fsencode(here), dict(os.environb), Policy("/", everything))
send(link, asked, (link.fileno(), 1, 2, os.open(here, os.O_PATH)))
while not os.path.exists("on"):
    pass
"""


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_sibling_that_holds_its_askers_end_and_the_streams_ends_with_the_run(
    outer: Outer, mark: str, options: tuple[str, ...]
) -> None:
    """Nobody sees whoever asked go; and who waits for the end of the output would wait for the sibling's."""
    (outer.workspace / "attack.py").write_text(ASKER + HOLDING.format(mark=mark))
    with outer.start(*options, script="/usr/bin/python3 -I attack.py") as process:
        try:
            assert until(lambda: living(mark))
            (outer.workspace / "on").touch()
            process.communicate(timeout=10)
        finally:
            process.kill()

    assert until(lambda: not living(mark), 5)


STEALING = """
import time
link, theirs = socket.socketpair()
door = os.open(os.environ["RINGFENCE_SIBLINGS"], os.O_WRONLY)
os.write(door, struct.pack("<iI", os.getpid(), theirs.fileno()))
assert link.recv(1) == b"\\0"
here = os.getcwd()
argv = (b"sleep", b"{mark}")
asked = Asked(argv, b"/bin/sleep", os.fsencode(here), dict(os.environb), Policy("/", everything))
send(link, asked, (0, 1, 2, os.open(here, os.O_PATH)))
time.sleep(2)
theirs.setblocking(False)
end = time.monotonic() + 3
while time.monotonic() < end:
    link.send(b"x")
    try:
        theirs.recv(9)
    except OSError:
        pass
theirs.setblocking(True)
open("stolen", "w")
time.sleep(1000)
"""


@pytest.mark.needs_bwrap
@pytest.mark.needs_landlock(6)
def test_who_reads_what_the_server_was_about_to_read_does_not_keep_it_from_ending(workspace: Path, mark: str) -> None:
    """Whoever named an end by the pipe has that end too."""
    outer = Outer(workspace, "landlock")
    (workspace / "attack.py").write_text(ASKER + STEALING.format(mark=mark))
    with outer.start(script="/usr/bin/python3 -I attack.py") as process:
        assert until((workspace / "stolen").exists, 20), process.communicate(timeout=1)
        os.kill(_below(process.pid, "run"), signal.SIGKILL)  # the outer one, which has nobody left to say so
        process.communicate(timeout=10)

    assert until(lambda: not living(mark), 8)


def test_a_place_is_free_again_however_its_sibling_ended(outer: Outer, mark: str) -> None:
    """One whose server is killed had siblings of its own, which nobody is left to count."""
    deeper = (
        f"links = [reach() for _ in range({siblings.MOST - 1})]\nopen('there', 'w')\nimport time\ntime.sleep(1000)\n"
    )
    (outer.workspace / "deeper.py").write_text(ASKER + deeper)
    asker = inner(script=f"/usr/bin/python3 -I deeper.py {mark}")
    again = inner(script=inner(script="echo served"))  # two of them
    wait = "while [ ! -e on ]; do sleep 0.1; done; end=$(($(date +%s) + 12))"
    once = f"until {again} || [ $(date +%s) -gt $end ]; do sleep 0.2; done"
    with outer.start(script=f"{asker} & {wait}; {once}") as process:
        try:
            assert until((outer.workspace / "there").exists)
            servers = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _serves(pid, outer)]
            os.kill(min(servers), signal.SIGKILL)
            (outer.workspace / "on").touch()
            said = process.communicate(timeout=40)[0]
        finally:
            process.kill()

    assert "served" in said.split(), said


def _serves(pid: int, outer: Outer) -> bool:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"beside import serve" in line and str(BASE).encode() in line
    except OSError:
        return False


@pytest.mark.parametrize("program", [b"", b"sh", b"./sh"])
def test_nobody_outside_looks_for_the_program(outer: Outer, program: bytes) -> None:
    """Whether there is one would be told of places that whoever asks cannot look into."""
    said = attack(
        outer,
        f"""
link, here = reach(), os.getcwd()
asked = Asked((b"sh", b"-c", b"echo ran"), {program!r}, os.fsencode(here), dict(os.environb), Policy("/", everything))
send(link, asked, (0, 1, 2, os.open(here, os.O_PATH)))
print("answer", list(link.recv(2, socket.MSG_WAITALL)))
""",
    )

    assert "answer [1, 125]" in said
    assert "ran" not in said.split()


LONG = """
long = "x" * 1_000_000
ask(Policy("/", everything, asks=(Ask("key" + long, Origin("of" + long), "why" + long, Need.REQUIRED),)), "echo ran")
"""


def test_what_is_sent_does_not_fill_the_log(outer: Outer) -> None:
    said = attack(outer, LONG)

    assert "answer [1, 125]" in said
    kept = [path.stat().st_size for path in outer.home.rglob("audit/*") if path.is_file()]
    assert kept
    assert sum(kept) < 100_000


def test_who_asks_byte_by_byte_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import _socket
    import struct

    monkeypatch.setattr(beside, "PATIENCE", 0.5)
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("4i", 0, 0, 0, 0))]
    ours.sendmsg([HEAD.pack(MAGIC, 1000)], rights)
    is_over = threading.Event()

    def trickle() -> None:
        while not is_over.wait(0.05):
            ours.send(b"x")

    thread = threading.Thread(target=trickle)
    thread.start()
    begun = time.monotonic()
    try:
        with pytest.raises(LaunchError):
            receive(theirs, os.geteuid())
    finally:
        is_over.set()
        thread.join()
        for end in (ours, theirs):
            end.close()
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("instead", ["link", "file", "pipe"])
@pytest.mark.parametrize("connects", [True, False])
def test_a_link_at_the_door_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connects: bool, instead: str
) -> None:
    """The directory is the command's user's when the door is made, and we may be root. A second name is one too."""
    precious, path = tmp_path / "precious", tmp_path / "door"
    if instead == "pipe":
        os.mkfifo(precious, 0o644)
    else:
        precious.touch(mode=0o644)
    before = precious.stat()

    def swapped() -> None:
        path.unlink()
        if instead == "link":
            path.symlink_to(precious)
        else:
            path.hardlink_to(precious)

    mkfifo = os.mkfifo

    def made(place: str, mode: int, *, dir_fd: int) -> None:
        mkfifo(place, mode, dir_fd=dir_fd)
        swapped()

    monkeypatch.setattr(os, "mkfifo", made)
    import _socket

    import ringfence.enforce.temporary as temporary

    class Swapping(_socket.socket):
        def bind(self, address: object) -> None:
            super().bind(address)  # type: ignore[arg-type]
            swapped()

    known = {"socket": Swapping, "AF_UNIX": _socket.AF_UNIX, "SOCK_STREAM": _socket.SOCK_STREAM}
    monkeypatch.setattr(temporary, "_socket", types.SimpleNamespace(**known))
    with pytest.raises(OSError, match="door"):
        os.close(listen_at(str(path), (os.geteuid() or NOBODY, os.getegid() or NOBODY), connects))
    after = precious.stat()

    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)


def test_where_a_path_cannot_be_written_down_nobody_is_served(outer: Outer) -> None:
    odd = os.fsencode(outer.workspace) + b"/n\xff"
    os.mkdir(odd)
    if os.geteuid() == 0:
        os.chown(odd, NOBODY, NOBODY)
    outer.workspace = Path(os.fsdecode(odd))

    begun = time.monotonic()
    _, said = outer.run(script=inner(script="echo ran"))

    assert "Traceback" not in said
    assert ("ran" in said.split()) == (outer.walls == "view"), said
    assert time.monotonic() - begun < beside.PATIENCE  # it was told, and has not waited for it


MUCH = """
paths = tuple(Rule(READ, ALLOW, f"/a{number}/b/c/d/e/f", ME) for number in range(4000))
patterns = tuple(Rule(READ, DENY, f"/**/*x*y*{number}/**/z", ME, glob=True) for number in range(4000))
ask(Policy("/", (*everything, *paths, *patterns)), "echo ran")
"""
DEEP = """
ask(Policy("/", (*everything, Rule(READ, DENY, "/a" * 1_000_000, ME))), "echo ran")
"""


def test_a_policy_that_takes_long_is_given_up(outer: Outer) -> None:
    begun = time.monotonic()
    said = attack(outer, MUCH if outer.walls == "view" else DEEP)  # five seconds of the processor each

    assert "takes more than 5 s of work" in said
    assert "answer [1, 125]" in said
    assert "ran" not in said.split()
    assert time.monotonic() - begun < SECONDS


TOLD = """
def told(path):
    out, into = os.pipe()
    link, here = reach(), os.getcwd()
    policy = Policy("/", (*everything, Rule(READ, DENY, path, ME)))
    asked = Asked((b"true",), b"/bin/true", os.fsencode(here), dict(os.environb), policy, json=True)
    send(link, asked, (0, into, into, os.open(here, os.O_PATH)))
    os.close(into)
    found = msgspec.json.decode(open(out, "rb").read())
    return [(gap["what"].replace(path, ""), gap["why"].replace(path, "")) for gap in found["gaps"]], found["exitCode"]


print("alike" if len({{repr(told({hidden!r} + name)) for name in ("/file", "/nothing", "/link")}}) == 1 else "told")
"""


def test_what_stands_at_a_hidden_path_is_not_told(outer: Outer) -> None:
    hidden = outer.home / "hidden"
    hidden.mkdir()
    (hidden / "file").touch()
    (hidden / "link").symlink_to("/etc/passwd")

    said = attack(outer, TOLD.format(hidden=str(hidden)))

    assert said.split() == ["alike"], said
