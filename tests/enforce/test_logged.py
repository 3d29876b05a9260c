"""What Landlock refused, as the kernel's audit tells it: by records as it writes them, hostile ones, and its own."""

import concurrent.futures
import contextlib
import os
import socket
import string
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from tests.attacks.conftest import PLAIN, Walls, backend

import ringfence
from ringfence.enforce import logged
from ringfence.enforce.logged import ACCESS, DOMAIN, SYSCALL, read
from ringfence.model import Observed

NAME = b"rf-0123456789ab"
OURS, OTHER = b"17d401a2a", b"17d3fdc52"


def quoted(text: bytes) -> bytes:
    """A string as audit writes it."""
    is_plain = all(0x21 <= byte <= 0x7E and byte != ord('"') for byte in text)
    return b'"' + text + b'"' if is_plain else text.hex().upper().encode()


def record(kind: int, event: int, text: bytes) -> tuple[int, bytes]:
    return kind, b"audit(1794815740.971:%d): " % event + text


def domain(number: bytes, comm: bytes, pid: int = 15587) -> bytes:
    return b"domain=%s status=allocated mode=enforcing pid=%d uid=0 exe=%s comm=%s" % (
        number,
        pid,
        quoted(b"/usr/lib/ringfence/enact"),
        quoted(comm),
    )


def access(number: bytes, path: bytes, blockers: bytes = b"fs.read_file") -> bytes:
    return b'domain=%s blockers=%s path=%s dev="vda" ino=1196038' % (number, blockers, quoted(path))


def syscall(pid: int, comm: bytes, exe: bytes) -> bytes:
    return (
        b"arch=c000003e syscall=257 success=no exit=-13 a0=ffffff9c a1=7fbf6bc0b0b1 a2=80000 a3=0 items=0 ppid=13429 "
        b"pid=%d auid=4294967295 uid=0 gid=0 euid=0 suid=0 fsuid=0 egid=0 sgid=0 fsgid=0 tty=(none) ses=4294967295 "
        b"comm=%s exe=%s key=(null)" % (pid, quoted(comm), quoted(exe))
    )


def failed(what: str, path: bytes, pid: int = 0, exe: bytes = b"") -> Observed:
    return Observed(what, path, pid, exe, "failed", -1, 13)


CAT = syscall(15600, b"cat", b"/usr/bin/cat")


def test_what_a_domain_of_ours_refused_is_told_with_who_asked() -> None:
    records = [
        record(ACCESS, 554, access(OURS, b"/etc/hostname")),
        record(DOMAIN, 554, domain(OURS, NAME)),
        record(SYSCALL, 554, CAT),
        record(1327, 554, b"proctitle=636174"),
        record(1320, 554, b""),
        record(ACCESS, 555, access(OURS, b"/srv/x y", b"fs.write_file")),
        record(DOMAIN, 600, b"domain=%s status=deallocated denials=2" % OURS),
    ]

    assert read(records, NAME) == [
        failed("read", b"/etc/hostname", 15600, b"/usr/bin/cat"),
        failed("write", b"/srv/x y"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"blockers=fs.execute path=%s" % quoted(b"/opt/tool"), ("read", b"/opt/tool")),
        (b"blockers=fs.read_dir path=%s" % quoted(b"/opt"), ("read", b"/opt")),
        (b"blockers=fs.read_file,fs.write_file path=%s" % quoted(b"/opt/a"), ("write", b"/opt/a")),
        (b"blockers=fs.truncate path=%s" % quoted(b"/opt/a"), ("write", b"/opt/a")),
        (b"blockers=fs.make_dir path=%s" % quoted(b"/opt"), ("make", b"/opt")),
        (b"blockers=fs.remove_file,fs.refer path=%s" % quoted(b"/opt"), ("make", b"/opt")),
        (b"blockers=net.connect_tcp daddr=127.0.0.1 dest=9", ("connect", b"127.0.0.1:9")),
        (b"blockers=net.connect_tcp daddr=::1 dest=9", ("connect", b"::1:9")),
        (b"blockers=net.bind_tcp saddr=127.0.0.1 src=8099", ("bind", b"8099")),
        (b'blockers=scope.signal opid=1 ocomm="init"', ("signal", b"init")),
        (b"blockers=scope.signal opid=9 ocomm=%s" % quoted(NAME), ("signal", b"the warden")),
        (b"blockers=scope.abstract_unix_socket path=00%s" % b"bus".hex().encode(), ("connect", b"@bus")),
        (b'blockers=ptrace opid=1 ocomm="init"', None),
        (b'blockers=fs.ioctl_dev path="/dev/tty" dev="devtmpfs" ino=9 ioctlcmd=0x5401', None),
        (b'blockers=fs.change_topology name="/" dev="tmpfs" ino=1', None),
        (b"blockers=fs.read_file path=zz", None),
        (b'blockers=fs.read_file path="pipe:[7]"', None),
        (b"blockers=net.connect_tcp", None),
        (b"blockers=later.one path=%s" % quoted(b"/opt"), None),
        (b"", None),
    ],
)
def test_each_kind_of_refusal(text: bytes, expected: tuple[str, bytes] | None) -> None:
    records = [record(DOMAIN, 1, domain(OURS, NAME)), record(ACCESS, 2, b"domain=%s " % OURS + text)]

    assert read(records, NAME) == ([failed(*expected)] if expected else [])


@pytest.mark.parametrize(
    "comm",
    [b"enact", b"", NAME + b"x", NAME[:-1], b'" comm="' + NAME, b"x comm=" + NAME, b"\n" + NAME, NAME.upper()],
)
def test_the_domain_of_anybody_else_is_not_ours_whatever_he_is_called(comm: bytes) -> None:
    """With the same program and pid: both are used again."""
    records = [
        record(ACCESS, 1, access(OTHER, b"/etc/shadow")),
        record(DOMAIN, 1, domain(OTHER, comm[:15])) if comm[:15] != NAME else record(DOMAIN, 1, domain(OTHER, b"x")),
        record(SYSCALL, 1, syscall(7, NAME, b"/usr/bin/cat")),
        record(ACCESS, 2, access(OTHER, b'/x" domain=' + OURS + b" blockers=fs.read_file path=/etc/passwd")),
        record(DOMAIN, 3, domain(OURS, NAME)),
    ]

    assert read(records, NAME) == []


def test_the_first_record_of_a_domain_may_be_lost_and_then_nothing_is_ours() -> None:
    assert read([record(ACCESS, 1, access(OURS, b"/etc/hostname")), record(SYSCALL, 1, CAT)], NAME) == []


def test_each_is_told_once_and_what_the_maker_was_refused_is_not() -> None:
    many = [record(ACCESS, number, access(OURS, b"/etc/hostname")) for number in range(100)]
    own = [record(ACCESS, 101, access(OURS, b"/etc/own")), record(SYSCALL, 101, syscall(5, NAME, b"/enact"))]

    assert read([*many, *own, record(DOMAIN, 0, domain(OURS, NAME))], NAME) == [failed("read", b"/etc/hostname")]


NAMES = st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name)
FORGED = st.sampled_from([b'"', b" ", b"\n", b" domain=" + OURS, b" comm=" + quoted(NAME), b"path=", b"audit(1.1:1): "])
HOSTILE = st.lists(NAMES | FORGED, min_size=1, max_size=4).map(b"".join)


@hypothesis.given(path=HOSTILE, comm=HOSTILE, exe=HOSTILE)
def test_names_that_look_like_records_stay_names(path: bytes, comm: bytes, exe: bytes) -> None:
    path, exe = b"/" + path, b"/" + exe
    records = [
        record(ACCESS, 1, access(OURS, path)),
        record(DOMAIN, 1, domain(OURS, NAME)),
        record(SYSCALL, 1, syscall(7, b"c" + comm[:14], exe)),
        record(ACCESS, 2, access(OTHER, path)),
        record(DOMAIN, 2, domain(OTHER, b"c" + comm[:14])),
    ]

    assert read(records, NAME) == [failed("read", path, 7, exe)]


@hypothesis.given(st.lists(st.tuples(st.sampled_from([ACCESS, DOMAIN, SYSCALL, 1320, 0]), st.binary() | HOSTILE)))
def test_no_bytes_are_an_error_or_a_denial_of_ours(records: list[tuple[int, bytes]]) -> None:
    assert read([(kind, b"audit(1.5:1): " + text) for kind, text in records], b"rf-of-nobody") == []
    assert read(records, NAME) == []


@hypothesis.given(st.binary())
def test_what_audit_writes_is_read_back(text: bytes) -> None:
    assert logged.decoded(quoted(text)) == text


# ---- The kernel's own ----


def test_an_older_landlock_is_not_listened_to() -> None:
    assert logged.listen(6) is None


def test_nobody_listens_who_may_not() -> None:
    become = f"os.geteuid() or os.setresuid({PLAIN}, {PLAIN}, {PLAIN})"
    script = f"import os; from ringfence.enforce import logged; {become}; print(logged.listen(99))"

    assert subprocess.check_output([sys.executable, "-c", script], cwd="/") == b"None\n"


def _audit(kind: int, body: bytes = b"") -> bytes:
    with socket.socket(logged.NETLINK, socket.SOCK_RAW, logged.AUDIT) as channel:
        channel.settimeout(5)
        channel.send(logged.HEAD.pack(logged.HEAD.size + len(body), kind, 1, 1, 0) + body)
        if body:
            return b""
        answer = channel.recv(logged.LONGEST)
        is_refused = logged.HEAD.unpack_from(answer)[1] != kind  # as in a container: then it is as if it were off
        return bytes(8) if is_refused else answer[logged.HEAD.size :]


def _switch(to: int) -> None:
    _audit(1001, struct.pack("=11I", 1, to, *[0] * 9))  # AUDIT_SET, AUDIT_STATUS_ENABLED


@pytest.fixture
def audit() -> Iterator[None]:
    """Audit is on; as it was, afterwards."""
    (before,) = struct.unpack_from("=I", _audit(logged.GET), 4)
    if not before:
        _switch(1)
    yield
    if not before:
        _switch(0)


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace of a plain user's, and files beside it, where no run has one of its own."""
    base = Path(subprocess.check_output(["mktemp", "-d", "/opt/rf-log-XXXXXX"], text=True).strip())
    (base / "ws").mkdir()
    for name in ("tool", "secret"):
        (base / name).write_text("#!/bin/sh\n")
        (base / name).chmod(0o755)
    base.chmod(0o777)
    os.chown(base / "ws", PLAIN, PLAIN)
    yield base
    subprocess.run(["rm", "-rf", base], check=True)


def explained(place: Path, script: str) -> ringfence.Outcome:
    return ringfence.run(
        ["sh", "-c", script],
        workspace=str(place / "ws"),
        flags=ringfence.Flags(cwd=str(place / "ws"), deny_read=(str(place),), allow_read=(str(place / "ws"),)),
        capture=True,
        explain=ringfence.Explain.OUTPUT,
    )


def told(outcome: ringfence.Outcome) -> set[tuple[str, str, bool]]:
    return {(one.access, one.target, one.observed) for one in outcome.denials}


@contextlib.contextmanager
def somebody_else() -> Iterator[None]:
    """Another sandbox, whose domain refuses all the time."""
    script = (
        "import ctypes, os, struct, time; c = ctypes.CDLL(None); c.prctl(38, 1, 0, 0, 0);"
        "fd = c.syscall(444, struct.pack('Q', 4), 8, 0); c.syscall(446, fd, 2, 0)\n"
        "print(flush=True)\n"
        "while True:\n try: open('/etc/passwd')\n except OSError: time.sleep(0.01)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        yield
        other.kill()


@pytest.mark.needs_audit
def test_a_program_that_landlock_does_not_let_run_is_seen(place: Path, audit: None) -> None:
    with backend(Walls("landlock", "owner")), somebody_else():
        found = explained(place, f"{place}/tool 2>&-")

    assert told(found) == {("read", f"{place}/tool", True)}
    assert found.denials[0].grant == f"--allow-read {place}/tool"
    assert found.denials[0].exe.startswith("/")
    assert found.denials[0].pid > 1


@pytest.mark.needs_audit
def test_runs_at_the_same_time_have_each_their_own(place: Path, audit: None) -> None:
    for letter in string.ascii_lowercase[:8]:
        (place / letter).write_text("#!/bin/sh\n")
        (place / letter).chmod(0o755)
    with backend(Walls("landlock", "owner")), concurrent.futures.ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda letter: explained(place, f"{place}/{letter} 2>&-"), string.ascii_lowercase[:8]))

    assert [told(one) for one in outcomes] == [
        {("read", f"{place}/{letter}", True)} for letter in string.ascii_lowercase[:8]
    ]


@pytest.mark.needs_audit
def test_what_was_lost_is_concluded(place: Path, audit: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged, "HELD", 1)  # the kernel keeps a record or two
    with backend(Walls("landlock", "owner")):
        found = explained(place, f"for i in 1 2 3 4 5 6 7 8; do {place}/secret 2>&-; done; {place}/tool")

    assert ("read", f"{place}/tool", False) in told(found)


@pytest.mark.needs_audit
def test_a_view_tells_who_asked_by_its_program_alone(place: Path, audit: None) -> None:
    with backend(Walls("view", "owner")):
        found = explained(place, "kill -9 1")

    assert told(found) == {("signal", "the warden", True)}
    assert (found.denials[0].pid, found.denials[0].exe, found.denials[0].grant) == (0, "/usr/bin/dash", "")


@pytest.mark.needs_root
@pytest.mark.needs_landlock(7)
def test_where_audit_is_off_nobody_listens() -> None:
    (before,) = struct.unpack_from("=I", _audit(logged.GET), 4)
    log = logged.listen(7)
    if log is not None:
        log.close()

    assert (log is not None) is bool(before)
