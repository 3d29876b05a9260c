"""A refused call waits for an answer, and goes on or fails with it: the real kernel, on each backend."""

import contextlib
import json
import os
import signal
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from tests.airlock.asked import AS_ROOT, PYTHON, Place, still
from tests.conftest import needs_bwrap
from tests.looking import common_place, until

from ringfence import asking
from ringfence.airlock.lines import LONGEST
from ringfence.enforce import outside
from ringfence.enforce.pauses import Call, Inquiry
from ringfence.inquiry import Host, exactly, with_grants
from ringfence.model import BUILT_IN, Network, Policy, Verdict
from ringfence.model import Host as HostFacts
from ringfence.model.grant import Operation
from ringfence.model.names import TENANT
from ringfence.network.control import Granted, Wish
from ringfence.onward import Onward
from ringfence.policy.reach import MOST_HOSTS, host_rule

pytestmark = [pytest.mark.needs_userns, pytest.mark.needs_landlock(6)]
BACKENDS = ["view", "landlock"]
FORBIDDEN = "HTTP/1.1 403 Forbidden\n"


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir=common_place(), prefix="rf-ask-") as base:
        yield Place(Path(base), request.param)


@pytest.fixture
def view() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir=common_place(), prefix="rf-ask-") as base:
        yield Place(Path(base), "view")


def test_a_question_has_all_its_parts_and_yes_goes_on(place: Place) -> None:
    with place.start("cat", "../home/data/one") as run:
        query = run.query()
        assert query["kind"] == "filesystem"
        assert query["code"] == "FILESYSTEM_DENIED"
        assert query["operation"] == "read"
        assert query["query_id"] == "1"
        assert query["path"] == str(place.home / "data/one")
        assert query["choices"] == [str(place.home / "data/one"), str(place.home / "data")]
        assert query["suggested_grant"] == {"allowRead": str(place.home / "data/one")}
        rule = f"--allow-read {place.home}/data/one in {place.workspace}, until it is revoked"
        assert query["rule"] == rule
        process = query["process"]
        assert isinstance(process, dict)
        assert process["exe"] == "/usr/bin/cat"
        assert still(run.process)
        run.allow(query)
        assert run.until("answered", "1")["by"] == "fd"
        assert run.end()[:2] == (0, "one\n")


def test_however_it_is_spelled(place: Place) -> None:
    os.symlink(place.home / "data", place.workspace / "link")
    path = place.home / "data/one"
    for text in (str(path), "../home/data/one", "../home/./data/../data/one", "link/one", f"/proc/self/cwd/../{path}"):
        with place.start("cat", text) as run:
            if text.startswith("/proc"):  # what stands there is another thing to us
                assert run.end()[0] == 1
                continue
            query = run.query()
            assert query["path"] == str(path)
            run.allow(query)
            assert run.end()[:2] == (0, "one\n")


def test_what_was_allowed_once_is_in_the_audit_log(place: Place) -> None:
    with place.start("cat", "../home/data/one") as run:
        run.allow(run.query())
        assert run.end()[0] == 0
    assert f"read {place.home}/data/one, once" in place.said("log", "--json")


def test_no_fails_as_it_would_have_failed_and_says_how_to_grant(place: Place) -> None:
    with place.start("cat", "../home/data/one") as run:
        run.deny(run.query())
        code, out, err = run.end()
    assert (code, out) == (1, "")
    assert "Permission denied" in err
    assert f"--allow-read {place.home}/data/one" in err


def test_anything_else_than_allow_is_a_no(place: Place) -> None:
    with place.start("cat", "../home/data/one") as run:
        run.say({"query_id": run.query()["query_id"], "action": "Allow"})
        assert run.end()[0] == 1


def test_what_has_no_effect(place: Place) -> None:
    """A number for an id, an id that nobody asked, no object, an answer that was given."""
    program = "for name in ('one', 'two'):\n print(open('../home/data/' + name).read(), end='', flush=True)"
    with place.python(program) as run:
        query = run.query()
        for line in ({"query_id": 1, "action": "allow"}, {"query_id": "7", "action": "allow"}, [1], "x", None, 1):
            run.say(line)
        run.socket.sendall(b"\xff{]\n\n")
        assert still(run.process)
        run.allow(query)
        second = run.query()
        assert second["query_id"] == "2"
        run.allow(query)  # of the first again
        assert still(run.process)
        run.deny(second)
        assert run.end()[:2] == (1, "one\n")


def test_nobody_answers_in_time(place: Place) -> None:
    with place.start("cat", "../home/data/one", options=("--ask-timeout", "1s")) as run:
        query = run.query()
        assert run.until("answered", query["query_id"])["by"] == "deadline"
        assert run.end()[0] == 1


def test_a_question_may_wait_for_longer_than_the_kernel_does_at_once(place: Place) -> None:
    with place.start("cat", "../home/data/one", options=("--ask-timeout", "720h")) as run:
        run.allow(run.query())
        assert run.end()[0] == 0


def test_who_asks_on_a_descriptor_that_closes_is_refused_from_then_on(place: Place) -> None:
    with place.start("sh", "-c", "cat ../home/data/one; cat ../home/data/two") as run:
        run.query()
        run.socket.shutdown(2)
        code, out, err = run.end()
    assert (code, out) == (1, "")
    assert err.count("Permission denied") == 2


def test_what_is_never_granted_is_not_asked(place: Place) -> None:
    """A store of secrets, our own files, a whole home, a start-up file, and what is not there."""
    (place.home / ".bashrc").write_text("")
    (place.home / ".local/state/ringfence/approvals").mkdir(parents=True)
    (place.home / ".local/state/ringfence/approvals/approvals.db").write_text("")
    script = (
        "cat ../home/.ssh/id; cat ../home/.local/state/ringfence/approvals/approvals.db; ls ../home; "
        "echo x >> ../home/.bashrc; cat ../home/nothing; cat /proc/1/environ; exit 3"
    )
    with place.start("sh", "-c", script) as run:
        code, out, err = run.end()
        assert run.asks_nothing_more()
    assert (code, out) == (3, "")
    assert "key\n" not in err
    assert (place.home / ".bashrc").read_text() == ""


def test_a_kept_answer_holds_for_the_run_and_for_the_next_until_it_is_revoked(place: Place) -> None:
    script = "cat ../home/data/one ../home/data/two; ls ../home/data"
    with place.start("sh", "-c", script) as run:
        run.allow(run.query(), scope="project", target=str(place.home / "data"))
        code, out, _ = run.end()
        assert run.asks_nothing_more()
    assert (code, out) == (0, "one\ntwo\none\ntwo\n")
    with place.start("sh", "-c", script) as run:
        assert run.end()[:2] == (0, "one\ntwo\none\ntwo\n")
        assert run.asks_nothing_more()
    grants = json.loads(place.approvals("list", "--json"))["grants"]
    assert [grant["target"] for grant in grants] == [str(place.home / "data")]
    place.approvals("revoke", grants[0]["id"])
    with place.start("sh", "-c", script) as run:
        run.deny(run.query(), scope="run")
        assert run.end()[0] != 0


def test_a_kept_answer_ends_when_it_was_said_to_in_a_run_that_goes_on(place: Place) -> None:
    program = """
import time
for _ in range(2):
    print(open('../home/data/one').read(), open('../home/data/one').read(), end='', flush=True)
    time.sleep(2.5)
"""
    with place.python(program) as run:
        run.allow(run.query(), scope="project", seconds=2)
        again = run.query()
        assert again["path"] == str(place.home / "data/one")
        run.allow(again, scope="project")
        assert run.end()[:2] == (0, "one\n one\none\n one\n")
        assert run.asks_nothing_more()


def test_it_has_ended_too_when_the_machine_has_slept_meanwhile() -> None:
    grant = exactly((Operation.READ, "/x"))
    over = msgspec.structs.replace(grant, until=int(time.time()) - 1)
    later = msgspec.structs.replace(grant, until=int(time.time()) + 60)
    soon, past = time.monotonic() + 60, time.monotonic()

    said = [asking.is_over(one, until) for one in (grant, over, later) for until in (soon, past)]
    assert said == [False, True, True, True, False, True]


def test_a_host_that_was_allowed_for_a_moment_is_asked_about_again(view: Place, port: int) -> None:
    view.with_hosts("127.0.0.1 localhost more.test\n")
    program = f"""
import socket, time
for _ in range(2):
    for _ in range(2):
        print(socket.create_connection(("more.test", {port})).recv(100).decode(), flush=True)
    time.sleep(4)
"""
    with view.python(program) as run:
        run.allow(run.query(), scope="project", seconds=2, target="more.test")
        run.allow(run.query(), scope="project")  # for its address
        again = run.query()
        assert again["target"] == f"more.test:{port}"
        run.deny(again)
        code, out, _ = run.end()
    assert (code, out) == (1, 2 * "hello from outside\n")


def test_an_answer_that_does_not_cover_the_question_is_refused_and_it_stays_open(place: Place) -> None:
    with place.start("cat", "../home/data/one") as run:
        query = run.query()
        for target in (place.home / "other", place.home, "relative", "/nonexistent"):
            run.allow(query, scope="project", target=str(target))
            assert run.until("refused", query["query_id"])["why"]
        run.allow(query, scope="for ever")
        assert run.until("refused", query["query_id"])
        run.allow(query)
        assert run.end()[0] == 0


def test_who_names_nothing_means_what_was_offered(place: Place) -> None:
    """By the time of the answer the file was gone, and the narrowest that was left was its directory."""
    with place.start("cat", "../home/data/one") as run:
        query = run.query()
        (place.home / "data/one").unlink()
        run.allow(query, scope="project")
        assert "is not there" in str(run.until("refused", query["query_id"])["why"])
        run.deny(query)
        assert run.end()[0] == 1
    assert f"{place.home}/data" not in place.approvals("list")


def test_a_grant_for_a_directory_leaves_what_is_secret_in_it_closed(place: Place) -> None:
    cargo = place.home / ".cargo"
    cargo.mkdir()
    (cargo / "credentials.toml").write_text("token")
    (cargo / "mine").write_text("mine\n")
    script = "cat ../home/.cargo/mine; cat ../home/.cargo/credentials.toml"
    with place.start("sh", "-c", script, options=("--profile", "safe")) as run:
        run.allow(run.query(), scope="session", target=str(cargo))
        code, out, _ = run.end()
        assert run.asks_nothing_more()
    assert (code, out) == (1, "mine\n")


def test_a_path_that_becomes_a_link_opens_nothing(place: Place) -> None:
    """Swapped while the question is open: what was shown is opened, or nothing."""
    with place.start("cat", "../home/data/one") as run:
        query = run.query()
        os.rename(place.home / "data", place.home / "was")
        os.symlink(place.home / ".ssh", place.home / "data")
        (place.home / ".ssh/one").write_text("key\n")
        run.allow(query, scope="project")
        assert "kept closed" in str(run.until("refused", query["query_id"])["why"])
        os.unlink(place.home / "data")
        os.symlink(place.home / "other", place.home / "data")
        (place.home / "other/one").write_text("other\n")
        run.allow(query, scope="project")
        assert "does not cover" in str(run.until("refused", query["query_id"])["why"])
        run.allow(query)
        assert run.end()[:2] == (1, "")


def test_a_link_that_comes_between_the_answer_and_the_open_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/f").write_text("f")
    os.symlink("real", tmp_path / "linked")
    os.symlink("real/f", tmp_path / "f")
    os.mkfifo(tmp_path / "pipe")
    os.close(outside.open_file(str(tmp_path / "real/f"), os.O_RDONLY, 0, directories=False))
    for name in ("linked/f", "f", "pipe", "real"):
        with pytest.raises(OSError):
            outside.open_file(str(tmp_path / name), os.O_RDWR, 0, directories=False)
    with pytest.raises(OSError):
        outside.do(Inquiry(1, Call.UNLINK), str(tmp_path / "linked/f"), "")
    assert (tmp_path / "real/f").exists()


def test_a_granted_directory_that_becomes_a_link_opens_nothing(place: Place) -> None:
    with place.start("cat", "../home/data/one") as run:
        run.allow(run.query(), scope="project", target=str(place.home / "data"))
        assert run.end()[0] == 0
    os.rename(place.home / "data", place.home / "was")
    os.symlink(place.home / ".ssh", place.home / "data")
    with place.start("sh", "-c", "cat ../home/data/id; ls ../home/data") as run:
        code, out, err = run.end()
        assert run.asks_nothing_more()
    assert code != 0
    assert out == ""
    assert "has no effect" in err


def test_names_made_changed_and_removed(place: Place) -> None:
    script = """
cd ../home/data
echo new > n && mkdir d && mv n d/m && ln d/m second && ln -s m d/l && chmod 600 d/m && truncate -s 2 d/m && cat d/m
rm d/m second d/l && rmdir d && echo more >> one && cat one
"""
    asked = []
    with place.start("sh", "-ec", script) as run:
        while True:
            text = run.lines.readline()
            if not text:
                break
            line = json.loads(text)
            if line["state"] == "query":
                asked.append(line["operation"])
                run.allow(line)
        code, out, err = run.end()
    assert (code, out) == (0, "neone\nmore\n"), err
    assert set(asked) >= {"create", "delete", "write", "read"}
    assert sorted(path.name for path in (place.home / "data").iterdir()) == ["one", "two"]


def test_what_is_replaced_is_not_said_to_be_created(place: Place) -> None:
    """Its content goes, also where its mode would not let it be written."""
    (place.home / "data/one").chmod(0o444)
    program = """
import os
open("new", "w").write("new")
os.rename("new", "../home/data/one")
os.rename("../home/data/one", "../home/data/three")
"""
    asked = []
    with place.python(program) as run:
        for _ in range(3):
            query = run.query()
            asked.append((query["operation"], os.path.basename(str(query["path"]))))
            run.allow(query)
        assert run.end()[0] == 0
    assert asked == [("write", "one"), ("delete", "one"), ("create", "three")]
    assert (place.home / "data/three").read_text() == "new"


def test_what_has_come_since_a_name_was_asked_about_is_not_replaced(place: Place) -> None:
    """Who was asked about a new name has said nothing of what came there."""
    program = """
import os
open("new", "w").write("new")
for _ in range(2):
    try:
        os.rename("new", "../home/data/late")
    except OSError as error:
        print(error.strerror, flush=True)
"""
    late = place.home / "data/late"
    with place.python(program) as run:
        query = run.query()
        late.write_text("somebody's")
        run.allow(query)
        again = run.query()
        before = late.read_text()
        run.allow(again)
        assert run.end()[:2] == (0, "Permission denied\n")
    assert (query["operation"], again["operation"], before) == ("create", "write", "somebody's")
    assert late.read_text() == "new"


def test_a_directory_does_not_carry_out_what_is_closed_in_it(place: Place) -> None:
    """Moved as one it would: mv is sent to copy it, and what is closed in it is not copied."""
    (place.home / ".config/gh").mkdir(parents=True)
    (place.home / ".config/gh/hosts.yml").write_text("token")
    (place.home / ".config/mine").write_text("mine")
    program = """
import os
try:
    os.rename("../home/.config", "../home/data/moved")
except OSError as error:
    print(error.strerror)
"""
    with place.python(program) as run:
        assert run.end()[:2] == (0, "Invalid cross-device link\n")
        assert run.asks_nothing_more()
    assert (place.home / ".config/gh/hosts.yml").exists()


def test_a_live_grant_is_told_of_by_why_and_heard_by_the_guard(place: Place) -> None:
    with place.start("cat", "../home/data/one") as run:
        run.allow(run.query(), scope="session", seconds=3600)
        answered = run.until("answered", "1")
        assert run.end()[0] == 0
    path, grant = str(place.home / "data/one"), str(answered["grant"])
    where = (*AS_ROOT, "--workspace", str(place.workspace), "--json")
    said = place.said("why", *where, "read", path)
    assert json.loads(said)["verdict"] == "allow"
    assert f"grant {grant} (until " in said
    judged = json.loads(place.said("judge", *where, "bash", f"cat {path}"))
    assert judged["verdict"] == "allow"


def test_the_mode_of_what_is_made_is_as_the_mask_says(place: Place) -> None:
    with place.start("sh", "-c", "umask 027; echo x > ../home/data/made; umask 077; mkdir ../home/data/dir") as run:
        run.allow(run.query())
        run.allow(run.query())
        assert run.end()[0] == 0
    assert stat.S_IMODE(os.stat(place.home / "data/made").st_mode) == 0o640
    assert stat.S_IMODE(os.stat(place.home / "data/dir").st_mode) == 0o700


def test_ten_thousand_identical_questions_are_one(place: Place) -> None:
    program = """
import threading
def ask():
    for _ in range(100):
        try:
            open("../home/data/one")
        except PermissionError:
            pass
threads = [threading.Thread(target=ask) for _ in range(100)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    with place.python(program) as run:
        query = run.query()
        assert still(run.process)
        run.deny(query)
        assert run.end()[0] == 0
        assert run.asks_nothing_more()


def test_a_boundary_that_asks_nothing(place: Place) -> None:
    with place.start("cat", "../home/data/one", options=("--profile", "ci")) as run:
        assert run.end()[0] == 1
        assert run.asks_nothing_more()


def test_a_signal_ends_the_wait(place: Place) -> None:
    program = """
import signal, sys, time
def heard(*_):
    raise InterruptedError
signal.signal(signal.SIGUSR1, heard)
try:
    open("../home/data/one")
except InterruptedError:
    print("interrupted")
"""
    with place.python(program) as run:
        query = run.query()
        begun = time.monotonic()
        process = query["process"]
        assert isinstance(process, dict)
        signal_inside(run.process.pid, signal.SIGUSR1)
        assert run.until("withdrawn", query["query_id"])
        assert run.end()[:2] == (0, "interrupted\n")
        assert time.monotonic() - begun < 30  # a question waits for minutes


def signal_inside(pid: int, number: int) -> None:
    """Signal the one descendant that is the command."""
    begins = f"{PYTHON}\0-I\0-S\0-c\0".encode()

    def commands() -> list[int]:
        found = [pid]
        for one in found:
            with contextlib.suppress(OSError):  # it is over
                for task in os.listdir(f"/proc/{one}/task"):
                    found += map(int, Path(f"/proc/{one}/task/{task}/children").read_text().split())
        return [one for one in found if Path(f"/proc/{one}/cmdline").read_bytes().startswith(begins)]

    (command,) = until(commands)
    os.kill(command, number)


def test_what_is_opened_for_reading_is_not_opened_anew_for_writing(place: Place) -> None:
    program = """
import os
fd = os.open("../home/data/one", os.O_RDONLY)
try:
    os.open(f"/proc/self/fd/{fd}", os.O_WRONLY)
except OSError as error:
    print(error.strerror)
"""
    with place.python(program) as run:
        run.allow(run.query())
        assert run.end()[:2] == (0, "Permission denied\n")
        assert run.asks_nothing_more()


def test_a_directory_that_was_granted_leads_nowhere_else(place: Place) -> None:
    program = """
import os
fd = os.open("../home/data", os.O_RDONLY | os.O_DIRECTORY)
print(sorted(os.listdir(fd)))
for name in ("../.ssh/id", "../other/f", "../../home/.ssh/id"):
    try:
        print(os.read(os.open(name, os.O_RDONLY, dir_fd=fd), 10))
    except OSError as error:
        print(error.strerror)
"""
    with place.python(program) as run:
        run.allow(run.query())
        query = run.query()
        assert query["path"] == str(place.home / "other/f")
        run.deny(query)
        code, out, _ = run.end()
    assert (code, out) == (0, "['one', 'two']\nPermission denied\nPermission denied\nPermission denied\n")


def test_the_descriptor_of_the_questions_is_not_inside(place: Place) -> None:
    program = """
import os, socket
found = []
for name in os.listdir("/proc/self/fd"):
    try:
        found.append(os.readlink("/proc/self/fd/" + name).split(":")[0])
    except OSError:
        pass
print("socket" in found)
"""
    with place.python(program) as run:
        assert run.end()[:2] == (0, "False\n")


def test_a_strict_list_of_hosts_asks_nobody_whatever_a_later_layer_says(view: Place, port: int) -> None:
    view.with_hosts("127.0.0.1 localhost more.test\n")
    program = f"""
import socket
for host in ("more.test", "127.0.0.1"):
    try:
        print(socket.create_connection((host, {port})))
    except OSError:
        print("refused")
"""
    files = [view.base / f"{name}.toml" for name in ("strict", "later")]
    for file, word in zip(files, ("true", "false"), strict=True):
        file.write_text(f"network.strictAllowlist = {word}\n")
    with view.python(program, *(word for file in files for word in ("--policy", str(file)))) as run:
        assert run.end()[:2] == (0, "refused\nrefused\n")
        assert run.asks_nothing_more()


@pytest.mark.parametrize("backend", ["view", "bubblewrap"])
def test_a_host_is_asked_about_by_every_way_to_it(view: Place, backend: str, port: int) -> None:
    """By a connection and by a proxy; a name that leads to this machine is asked about twice, for its address too."""
    unmet = needs_bwrap() if backend == "bubblewrap" else None
    if unmet:
        pytest.skip(unmet.reason)
    view.backend = backend
    view.with_hosts("127.0.0.1 localhost more.test other.test\n")
    program = f"""
import os, socket
def greeted(host):
    try:
        return socket.create_connection((host, {port})).recv(100).decode()
    except OSError as error:
        return error.strerror
def led(host):
    end = socket.create_connection(("127.0.0.1", 3128))
    end.sendall(f"CONNECT {{host}}:{port} HTTP/1.1\\r\\nHost: {{host}}:{port}\\r\\n\\r\\n".encode())
    return end.recv(100).split(b"\\r")[0].decode()
for answer in (greeted("more.test"), greeted("more.test"), greeted("other.test"), led("other.test"), led("third.test")):
    print(answer, flush=True)
"""
    with view.python(program) as run:
        query = run.query()
        assert query["kind"] == "network"
        assert query["code"] == "NETWORK_DENIED"
        assert query["operation"] == "connect"
        assert query["target"] == f"more.test:{port}"
        process = query["process"]
        assert isinstance(process, dict)
        assert "python3" in process["exe"]
        run.allow(query, scope="session", target="more.test")
        address = run.query()
        assert address["target"] == f"127.0.0.1:{port}"
        assert "more.test leads to 127.0.0.1" in str(address["why"])
        run.allow(address, scope="session")
        other = run.query()
        assert other["target"] == f"other.test:{port}"
        run.deny(other)
        third = run.query()
        assert third["target"] == f"third.test:{port}"
        run.deny(third)
        code, out, err = run.end()
    greeting = "hello from outside\n"
    assert (code, out) == (0, f"{greeting}{greeting}Permission denied\n{FORBIDDEN}{FORBIDDEN}"), err


@pytest.mark.parametrize(("tenant", "target"), [(False, "intranet"), (True, "more.test")])
def test_a_host_that_cannot_be_granted_is_not_asked_about_and_the_next_one_is(
    view: Place, tenant: bool, target: str, port: int
) -> None:
    """One that no policy can hold ended all asking once a person had said yes; one of a host of somebody else's opened
    what listens there."""
    view.with_hosts("127.0.0.1 localhost intranet more.test\n")
    if tenant:
        view.prefix += ["env", f"{TENANT}=example.com"]
    program = f"""
import socket
for host in ({target!r}, "other.test"):
    try:
        print(socket.create_connection((host, {port})).recv(100))
    except OSError as error:
        print("refused")
"""
    with view.python(program) as run:
        query = run.query()
        if target == "more.test":
            assert query["target"] == f"more.test:{port}"
            run.allow(query)
            query = run.query()
        assert query["target"] == f"other.test:{port}"
        run.deny(query)
        assert run.end()[:2] == (0, "refused\nrefused\n")


def test_with_bubblewrap_files_are_asked_about(view: Place) -> None:
    unmet = needs_bwrap()
    if unmet:
        pytest.skip(unmet.reason)
    view.backend = "bubblewrap"
    with view.start("sh", "-c", "cat ../home/data/*; echo x > ../home/data/new; ls /proc/1/exe") as run:
        run.allow(run.query(), scope="session", target=str(view.home / "data"))
        run.allow(run.query())
        code, out, err = run.end()
    assert out.startswith("one\ntwo\n"), (code, out, err)
    assert (view.home / "data/new").read_text() == "x\n"


ODD: tuple[dict[str, object], ...] = (
    {"scope": []},
    {"scope": {}},
    {"scope": None},
    {"scope": "project", "seconds": 1 << 63},
    {"scope": "project", "seconds": 10**30},
    {"scope": "project", "seconds": 1.5},
    {"scope": "project", "seconds": "1"},
    {"scope": "project", "seconds": -1},
    {"scope": "project", "target": "/\0"},
    {"scope": "project", "target": ["/"]},
    {"scope": "project", "target": "/" + "a" * 60_000},
    {"scope": "once", "target": "/" + "a/" * 20_000},
)


def test_an_odd_answer_is_refused_and_the_question_stays_open(view: Place) -> None:
    with view.start("cat", "../home/data/one") as run:
        query = run.query()
        for more in ODD:
            run.allow(query, **more)
            assert run.until("refused", query["query_id"])["why"], more
        run.allow(query)
        assert run.end() == (0, "one\n", "")


def test_who_answers_oddly_and_is_gone_disturbs_nobody(view: Place) -> None:
    """A refusal of an answer has nobody to hear it."""
    with view.start("cat", "../home/data/one") as run:
        query = run.query()
        directory = view.home / ".local" / "state" / "ringfence" / "asking"
        name = next(directory.iterdir())
        for _ in range(5):
            with socket.socket(socket.AF_UNIX) as other:
                other.connect(str(name))
                odd = {"query_id": query["query_id"], "action": "allow", "scope": "for ever"}
                other.sendall(json.dumps(odd).encode() + b"\n")
            assert still(run.process, 0.1)
        run.allow(query)
        assert run.end() == (0, "one\n", "")


@pytest.mark.parametrize("scope", ["once", "project"])
def test_a_name_that_is_no_text_is_asked_about_and_so_is_the_next(view: Place, scope: str) -> None:
    """And so is what comes after it: whoever asks does not end by a name."""
    os.close(os.open(os.fsencode(view.home) + b"/data/odd\xff", os.O_CREAT | os.O_WRONLY))
    program = "print(open(b'../home/data/odd\\xff').read() + open('../home/data/one').read())"
    with view.python(program) as run:
        query = run.query()
        assert query["choices"] == [f"{view.home}/data/odd\\xff", f"{view.home}/data"]
        run.allow(query, scope=scope)
        if scope == "project":
            assert "is no text" in str(run.until("refused", "1")["why"])
            run.allow(query)
        run.until("answered", "1")
        run.allow(run.query())
        code, out, err = run.end()

    assert (code, out) == (0, "one\n\n")
    assert "Traceback" not in err


def test_a_yes_reaches_the_gate_however_many_hosts_the_policy_names() -> None:
    """A message holds some 200 KB: whoever waits would have waited for ever."""
    rules = tuple(host_rule(Verdict.ALLOW, f"host{number}.example.com", BUILT_IN) for number in range(MOST_HOSTS))
    base = Policy("/ws", (), network=Network(hosts=rules))
    made = SimpleNamespace(
        judged=lambda: base, walls=SimpleNamespace(shows_asked=False, layered=()), host=HostFacts.linux()
    )
    onward = Onward(made)  # type: ignore[arg-type]
    waiter = Host(Wish(7, "asked.test", 443))
    onward.let(waiter, with_grants(base, [exactly(waiter.needs[0])]))
    said = msgspec.json.decode(onward.gate_end.recv(1 << 20), type=Granted)
    onward.close()
    onward.gate_end.close()

    assert said.number == 7
    assert [rule.host for rule in said.hosts or ()] == ["asked.test"]


def test_a_question_is_no_longer_than_whoever_is_asked_reads(view: Place) -> None:
    """Who asks may stand in a directory, and be a program, of thousands of letters that are six each in JSON."""
    program = """
import os
for _ in range(15):
    os.mkdir('\\x01' * 250); os.chdir('\\x01' * 250)
with open('/usr/bin/cat', 'rb') as cat, open('c', 'wb') as copy:
    copy.write(cat.read())
os.chmod('c', 0o755)
os.execv('./c', ['c', '../' * 15 + '../home/data/one'])
"""
    with view.python(program) as run:
        query = run.query()
        run.allow(query)
        assert run.end()[:2] == (0, "one\n")

    assert query["path"] == f"{view.home}/data/one"
    assert len(json.dumps(query)) < LONGEST // 2


def test_a_path_of_more_links_than_anybody_follows_ends_nothing(view: Place) -> None:
    """The kernel has stopped before them, at a directory that its own mode closes."""
    program = """
import os
os.mkdir('closed', 0)
for number in range(3000):
    os.symlink(str(number + 1), str(number))
try:
    open('closed/../0', 'w')
except PermissionError:
    print(open('../home/data/one').read())
"""
    with view.python(program) as run:
        run.allow(run.query())
        code, out, err = run.end()

    assert (code, out, "Traceback" in err) == (0, "one\n\n", False)
