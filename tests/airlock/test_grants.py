"""A person's yes: narrow, shown before it is stored, in force at the next run, and taken back."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence import Flags, PolicyError, approvals, run
from ringfence.airlock import Store
from ringfence.cli import call
from ringfence.explain import why, why_connect
from ringfence.judging import bounds_for_agent
from ringfence.model import (
    GRANTED,
    NOTHING_APPROVED,
    Access,
    Disk,
    Kind,
    Origin,
    Place,
    Policy,
    Rule,
    Standing,
    Verdict,
)
from ringfence.model.grant import Answer, Grant, Operation
from ringfence.model.names import TENANT
from ringfence.network import own
from ringfence.plan.rules import swayed
from ringfence.policy import load
from ringfence.policy.grants import choices, grants_layer, refusal, rule_text, target_of
from ringfence.policy.trust import approvals_of
from ringfence.run import make_request

AS_ROOT = os.geteuid() == 0


def add(
    target: object, workspace: Path, operation: str = "read", answer: Answer = Answer.PROJECT, **more: int
) -> Grant:
    made = approvals.make(Operation(operation), str(target), answer, str(workspace), environ=os.environ, **more)  # type: ignore[arg-type]
    store().add([made])
    return made


def store() -> Store:
    return Store(approvals_of(os.environ))


def said(workspace: Path, *argv: str) -> tuple[int, str]:
    outcome = run(list(argv), workspace=str(workspace), as_root=AS_ROOT, capture=True)
    return outcome.exit_code, (outcome.stdout or b"").decode()


def verdict(workspace: Path, access: str, path: object) -> tuple[Verdict, str]:
    request = make_request(str(workspace), str(workspace), Flags(), AS_ROOT)
    decision, _ = why_connect(request, str(path)) if access == "connect" else why(request, access, str(path))
    return decision.verdict, decision.reason


# ---- In force ----


def test_a_yes_reaches_the_next_run_the_judge_and_the_guard_and_is_taken_back(home: Path, workspace: Path) -> None:
    assert said(workspace, "cat", f"{home}/data/f") == (1, "")
    grant = add(home / "data", workspace, seconds=3600)
    assert said(workspace, "cat", f"{home}/data/f") == (0, "data")
    word, reason = verdict(workspace, "read", home / "data" / "f")
    assert word is Verdict.ALLOW
    stamp = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(grant.until))
    assert f"grant {grant.id} (until {stamp})" in reason
    guard = bounds_for_agent(str(workspace), "", os.environ)
    assert guard.decide(Access.READ, f"{home}/data/f").verdict is Verdict.ALLOW
    assert guard.decide(Access.WRITE, f"{home}/data/f").verdict is Verdict.DENY
    store().remove([grant.id])
    assert said(workspace, "cat", f"{home}/data/f") == (1, "")
    assert verdict(workspace, "read", home / "data" / "f")[0] is Verdict.DENY


def test_a_yes_that_is_taken_back_within_a_tick_of_the_clock_of_files_is_not_used(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = add(home / "data", workspace)
    coarse = os.lstat(store().path)  # as the file looks to a clock that goes in steps, until the next one
    monkeypatch.setattr(approvals, "_identity", lambda path: (1, 1, coarse.st_mtime_ns, coarse.st_ctime_ns))
    monkeypatch.setitem(load.__globals__, "_file_clock", lambda: coarse.st_ctime_ns)
    assert approvals.standing(str(workspace), os.environ).grants == (grant,)
    store().remove([grant.id])
    assert approvals.standing(str(workspace), os.environ).grants == ()


def test_what_was_approved_a_while_ago_is_read_once(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = add(home / "data", workspace)
    time.sleep(0.1)
    assert approvals.standing(str(workspace), os.environ).grants == (grant,)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "grants", lambda store: pytest.fail("read again"))
        assert approvals.standing(str(workspace), os.environ).grants == (grant,)
    store().remove([grant.id])  # and what is taken back is gone at once, for a process that lives too
    assert approvals.standing(str(workspace), os.environ) == NOTHING_APPROVED


def test_a_write_and_a_host(home: Path, workspace: Path) -> None:
    add(home / "data", workspace, "create")
    add("API.Example.com.:443", workspace, "connect")
    assert said(workspace, "sh", "-c", f"echo new > {home}/data/new && cat {home}/data/f")[0] == 0
    assert (home / "data" / "new").read_text() == "new\n"
    assert verdict(workspace, "connect", "api.example.com:443")[0] is Verdict.ALLOW
    assert "grant" in verdict(workspace, "connect", "api.example.com:443")[1]
    assert verdict(workspace, "connect", "api.example.com:80")[0] is Verdict.DENY
    assert verdict(workspace, "connect", "evilapi.example.com:443")[0] is Verdict.DENY


def test_a_grant_holds_where_and_as_long_as_it_says(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = workspace.parent / "other"
    other.mkdir()
    add(home / "data", workspace)
    assert approvals.standing(str(other), os.environ) == NOTHING_APPROVED
    always = add(home / "notes", workspace, answer=Answer.ALWAYS)
    assert approvals.standing(str(other), os.environ).grants == (always,)
    session = add(home / ".cargo", workspace, answer=Answer.SESSION, seconds=10**9)
    assert session.until - session.made == approvals.SESSION_SECONDS
    assert session in approvals.standing(str(workspace), os.environ).grants
    monkeypatch.setattr(approvals, "boot_id", lambda: "another start")
    assert session not in approvals.standing(str(workspace), os.environ).grants
    later = time.time() + 7200
    short = add(home / "data", workspace, seconds=3600)
    assert short in approvals.standing(str(workspace), os.environ).grants
    monkeypatch.setattr(time, "time", lambda: later)
    assert short not in approvals.standing(str(workspace), os.environ).grants
    monkeypatch.setattr(
        time, "time", lambda: later - 86400
    )  # a clock that is set back gives back nothing that has ended
    assert approvals.standing(str(workspace), os.environ).grants == (always,)


# ---- What it never covers ----


def test_a_grant_for_a_toolchain_does_not_open_its_token(home: Path, workspace: Path) -> None:
    add(home / ".cargo", workspace, "write")
    assert said(workspace, "cat", f"{home}/.cargo/bin/cargo") == (0, "tool")
    assert said(workspace, "cat", f"{home}/.cargo/credentials.toml")[0] != 0
    assert said(workspace, "sh", "-c", f"echo x > {home}/.cargo/credentials.toml")[0] != 0
    assert (home / ".cargo" / "credentials.toml").read_text() == "token"


def test_a_path_that_became_a_link_opens_nothing(home: Path, workspace: Path) -> None:
    add(home / "data", workspace)
    (home / "data").rename(home / "moved")
    (home / "data").symlink_to(home / ".ssh")
    assert said(workspace, "cat", f"{home}/data/id")[0] != 0
    found = approvals.standing(str(workspace), os.environ)
    assert (found.grants, len(found.notes)) == ((), 1)
    (home / "data").unlink()
    (home / "data").symlink_to(home / "moved")
    assert said(workspace, "cat", f"{home}/data/f")[0] != 0
    (home / "data").unlink()
    assert "is not there" in approvals.standing(str(workspace), os.environ).notes[0]
    (home / "moved").rename(home / "data")
    assert said(workspace, "cat", f"{home}/data/f") == (0, "data")


def test_a_link_that_comes_after_the_store_was_read_opens_nothing() -> None:
    """The planner does not follow it either, wherever it stands: it was the path that was approved."""
    approved = Rule(Access.READ, Verdict.ALLOW, "/data/x", Origin("grant 1"), why=GRANTED)
    written = Rule(Access.READ, Verdict.ALLOW, "/data/x", Origin("--allow-read"))
    disk = Disk({"/data/x": Place("/data/x", "/home/me/.ssh", Kind.DIRECTORY, links=("/data/x",))})
    assert swayed(Policy("/ws", (approved, written)), disk) == (approved,)


@pytest.mark.parametrize(
    "target",
    [
        *("~/.ssh", "~/.ssh/id", "~/.cargo/credentials.toml", "~", "/", "/etc/shadow", "/home", "/var/lib/docker/x"),
        *("~/.local/state/ringfence", "~/.local/state/ringfence/approvals", "~/.config/ringfence/policy.toml"),
        *("/tmp", "/var/tmp", "/dev/shm", "/run/lock"),
        *("~/nowhere", "~/data/nowhere", "/etc/ringfence/policy.d", "~/link", "~/data/../.ssh"),
    ],
)
def test_what_no_grant_covers(home: Path, workspace: Path, target: str) -> None:
    (home / "link").symlink_to(".ssh")
    with pytest.raises(PolicyError):
        add(target.replace("~", str(home)), workspace)
    assert store().grants() == []


@pytest.mark.parametrize("operation", ["read", "write"])
def test_no_grant_opens_a_socket(home: Path, workspace: Path, operation: str) -> None:
    """Nor is one opened that came to where a file was."""
    add(home / "data" / "f", workspace, operation)
    (home / "data" / "f").unlink()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(home / "data" / "f"))
    assert "is a socket" in approvals.standing(str(workspace), os.environ).notes[0]
    with pytest.raises(PolicyError, match="is a socket"):
        add(home / "data" / "f", workspace, operation)


@pytest.mark.parametrize("target", ["~/.bashrc", "~/.config", "~/.config/git", "~/.local/state"])
def test_what_no_grant_lets_be_written(home: Path, workspace: Path, target: str) -> None:
    for name in (".bashrc", ".config/git/x", ".local/state/x", ".config/ringfence/x"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("")
    path = target.replace("~", str(home))
    with pytest.raises(PolicyError):
        add(path, workspace, "write")


def test_what_is_never_allowed_stays_so(home: Path, workspace: Path) -> None:
    place = home / ".config" / "ringfence" / "profiles"
    place.mkdir(parents=True)
    (place / "mine.toml").write_text(f'[profile]\nneverAllow = ["{home}/data"]\n')
    add(home / "data" / "f", workspace)
    request = make_request(str(workspace), str(workspace), Flags(profile="mine"), AS_ROOT)
    assert why(request, "read", f"{home}/data/f")[0].verdict is Verdict.DENY


def test_a_grant_that_a_policy_leaves_no_effect_says_so(home: Path, workspace: Path) -> None:
    place = home / ".config" / "ringfence"
    place.mkdir(parents=True)
    (place / "policy.toml").write_text(
        f'filesystem.denyReadAlways = ["{home}/data"]\nnetwork.deniedDomains = ["*.example.com"]\n'
    )
    words = [sys.executable, "-I", "-m", "ringfence", "approvals", "grant", "--yes"]

    def said(*more: object) -> str:
        done = subprocess.run([*words, *map(str, more)], cwd=workspace, capture_output=True, text=True, check=True)
        return done.stderr

    assert said("read", home / "data").startswith(f"ringfence: it has no effect here: {home}/data may not be read")
    assert said("connect", "a.example.com").startswith("ringfence: it has no effect here: a.example.com:443 may not")
    assert said("connect", "example.org") == ""
    assert said("connect", "*.example.org:22") == ""
    assert said("write", home / "notes") == ""


@pytest.mark.parametrize("host", ["*", "*.com", "*.1.2.3.4", "x.com:0", "x.com:99999", "a b", "", "0x7f.1", "*.*.com"])
def test_hosts_that_are_none_or_too_many(workspace: Path, host: str) -> None:
    with pytest.raises(PolicyError):
        add(host, workspace, "connect")


@pytest.mark.parametrize("host", ["intranet", "intranet:80", "-1"])
def test_a_host_that_no_policy_can_hold_refuses_no_run(workspace: Path, host: str) -> None:
    """Once such a grant was stored, every run after it was refused."""
    with pytest.raises(PolicyError, match="needs a dot"):
        add(host, workspace, "connect")
    place = os.path.realpath(workspace)
    grant = Grant(
        id="0badcafe", operation=Operation.CONNECT, target=host, answer=Answer.PROJECT, workspace=place, made=1
    )
    store().add([grant])
    assert said(workspace, "echo", "ran") == (0, "ran\n")
    assert ["0badcafe has no effect" in note for note in approvals.standing(place, os.environ).notes] == [True]


NEAR = "localhost localhost:80 127.0.0.1:80 [::1]:80 169.254.169.254:80 10.0.0.5:5432 0.0.0.0:22 [fe80::1]:22 [fd00::1]"


@pytest.mark.parametrize(("operation", "target"), [("bind", "8080"), *(("connect", host) for host in NEAR.split())])
def test_on_a_host_of_somebody_else_nothing_near_is_approved(workspace: Path, operation: str, target: str) -> None:
    """Whoever has an account of a tenant is not the host's person; whoever sits at a machine of their own is."""
    environ = {**os.environ, TENANT: "example.com"}
    asked = Operation(operation), target, Answer.PROJECT, str(workspace)
    grant = approvals.make(*asked, environ=os.environ)
    with pytest.raises(PolicyError, match="of the host or its network"):
        approvals.make(*asked, environ=environ)
    store().add([grant])  # before there was this rule
    assert approvals.standing(str(workspace), os.environ).grants == (grant,)
    assert approvals.standing(str(workspace), environ).grants == ()


@pytest.mark.parametrize("is_known", [True, False])
def test_an_address_of_a_host_of_somebody_else_is_not_approved(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """Nor one of which nobody can say whose it is."""

    def is_own(address: str, port: int) -> bool:
        if not is_known and address == "9.9.9.9":
            raise OSError
        return (address, port) == ("9.9.9.9", 80)

    monkeypatch.setattr(own, "is_own", is_own)
    environ = {**os.environ, TENANT: "example.com"}
    approvals.make(Operation.CONNECT, "9.9.8.8:80", Answer.PROJECT, str(workspace), environ=environ)
    with pytest.raises(PolicyError, match="of the host or its network"):
        approvals.make(Operation.CONNECT, "9.9.9.9:80", Answer.PROJECT, str(workspace), environ=environ)


@given(st.text(alphabet="/ab.~*\0\n", max_size=12))
def test_only_a_canonical_path_is_stored(text: str) -> None:
    try:
        stored = target_of(Operation.READ, text)
    except ValueError:
        return
    assert stored == os.path.normpath(text) == text
    assert text.startswith("/")


def test_what_is_shown_is_what_is_stored(home: Path, workspace: Path) -> None:
    grant = add(home / "data", workspace, "delete")
    assert rule_text(grant) == f"--allow-write {home}/data in {workspace}, until it is revoked"
    layer = grants_layer(Standing((grant,)))
    assert [(rule.access, rule.path) for rule in layer.rules if not rule.implied] == [(Access.WRITE, f"{home}/data")]
    assert refusal(msgspec.structs.replace(grant, target=f"{home}/.ssh"), (str(home),))


@pytest.mark.parametrize(
    ("operation", "target", "is_refused"),
    [
        (Operation.READ, "/data/around", False),
        (Operation.LIST, "/data", False),
        (Operation.WRITE, "/data/around", True),
        (Operation.CREATE, "/data", True),
        (Operation.READ, "/data/around/own", True),
        (Operation.EXECUTE, "/data/around/own/file", True),
        (Operation.WRITE, "/data/around/owned", False),
    ],
)
def test_no_grant_covers_what_is_ringfences_own_nor_lets_what_is_around_it_be_changed(
    home: Path, workspace: Path, operation: Operation, target: str, is_refused: bool
) -> None:
    grant = msgspec.structs.replace(add(home / "data", workspace), operation=operation, target=target)

    assert bool(refusal(grant, own=("/data/around/own",))) is is_refused


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("A.Example.org:443", "a.example.org:443"),
        ("*.example.org", "*.example.org"),
        ("*.org", ""),
        ("*.10.0.0.1", ""),
        ("*", ""),
        ("a.example.org:0", ""),
        ("a.example.org/x", ""),
        ("10.0.0.0/8", ""),
    ],
)
def test_a_host_is_stored_as_a_policy_holds_it_and_not_half_of_the_internet(text: str, stored: str) -> None:
    try:
        found = target_of(Operation.CONNECT, text)
    except ValueError:
        found = ""
    assert found == stored


@pytest.mark.parametrize(
    ("operation", "target", "is_refused"),
    [
        (Operation.CONNECT, "a.example.org:443", False),
        (Operation.CONNECT, "8.8.8.8:53", False),
        (Operation.CONNECT, "93.184.216.34:443", True),
        (Operation.CONNECT, "10.0.0.1", True),
        (Operation.CONNECT, "localhost:80", True),
        (Operation.CONNECT, "nodot:443", True),
        (Operation.BIND, "8080", True),
    ],
)
def test_an_accounts_grant_reaches_neither_the_host_nor_its_network(
    home: Path, workspace: Path, operation: Operation, target: str, is_refused: bool
) -> None:
    grant = msgspec.structs.replace(add(home / "data", workspace), operation=operation, target=target)

    assert bool(refusal(grant, is_own=lambda address, port: (address, port) == ("93.184.216.34", 443))) is is_refused
    assert bool(refusal(grant)) is (target == "nodot:443")


def test_a_question_can_be_answered_narrower_or_wider() -> None:
    def asked(operation: Operation, target: str) -> list[str]:
        return choices(operation, target, ("/home/x",))

    assert asked(Operation.READ, "/home/x/a/b/c") == ["/home/x/a/b/c", "/home/x/a/b", "/home/x/a"]
    assert asked(Operation.CONNECT, "api.x.com:443") == ["api.x.com:443", "api.x.com", "*.x.com"]
    assert asked(Operation.CONNECT, "x.co.uk:443") == ["x.co.uk:443", "x.co.uk"]  # and not half of a country
    assert asked(Operation.CONNECT, "api.x.co.uk:443")[2:] == ["*.x.co.uk"]
    assert asked(Operation.CONNECT, "1.2.3.4:5") == ["1.2.3.4:5", "1.2.3.4"]
    assert asked(Operation.BIND, "8080") == ["8080"]
    assert [answer.is_kept for answer in Answer] == [False, False, True, True, True]


# ---- Out and in ----


def test_a_document_goes_round_and_adds_to_what_is_there(home: Path, workspace: Path) -> None:
    first, second = add(home / "data", workspace), add(home / "notes", workspace, answer=Answer.ALWAYS)
    add(home / ".cargo", workspace, answer=Answer.SESSION)
    document = approvals.export(store().grants())
    store().remove([first.id, second.id])
    third = add("x.example:443", workspace, "connect")
    good, bad = approvals.read_document(document, os.environ)
    assert ({one.id for one in good}, bad) == ({first.id, second.id}, [])
    store().add(good)
    assert {one.id for one in store().grants()} >= {first.id, second.id, third.id}


@pytest.mark.parametrize(
    "change",
    [
        *({"target": "relative/path"}, {"target": "../escape/attempt"}, {"target": "/nonexistent/x"}),
        *({"target": "HOME/.ssh/id"}, {"target": "HOME/link"}, {"answer": "session"}, {"answer": "deny"}),
        *({"workspace": ""}, {"operation": "delete"}, {"id": "../x"}),
        *({"until": 1 << 63}, {"until": 10**14}, {"until": -1}, {"made": 1 << 63}),
    ],
    ids=str,
)
def test_what_may_not_be_stored_is_not_imported(home: Path, workspace: Path, change: dict[str, str | int]) -> None:
    (home / "link").symlink_to("data")
    grant = add(home / "data", workspace)
    document = json.loads(approvals.export([grant]))
    document["grants"][0] |= {
        key: value.replace("HOME", str(home)) if isinstance(value, str) else value for key, value in change.items()
    }
    good, bad = approvals.read_document(json.dumps(document).encode(), os.environ)
    assert (good, len(bad)) == ([], 1)


@pytest.mark.parametrize("until", [10**14, (1 << 63) - 1, -(10**14)])
def test_a_stored_time_that_no_calendar_has_stops_nothing(home: Path, workspace: Path, until: int) -> None:
    """Whoever has one could otherwise run nothing, nor see which grant to take back."""
    grant = msgspec.structs.replace(add(home / "data", workspace), until=until)
    store().add([grant])
    assert "UTC" in rule_text(store().grants()[0])
    assert verdict(workspace, "read", home / "data")[0] is (Verdict.DENY if until < 0 else Verdict.ALLOW)
    with pytest.raises(PolicyError, match="a hundred years"):
        add(home / "data", workspace, seconds=1 << 40)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "other@1", "grants": []}', '{"schema": 1}', "\0"])
def test_what_is_no_document(text: str) -> None:
    with pytest.raises(PolicyError):
        approvals.read_document(text.encode(), os.environ)


# ---- The command ----


def test_the_life_of_a_grant_by_the_command(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ringfence(*words: str) -> tuple[int, str, str]:
        code = call(["approvals", *words])
        out, err = capsys.readouterr()
        return code, out, err

    monkeypatch.chdir(workspace)
    code, out, _ = ringfence("grant", "read", "~/data", "--for", "8h", "--dry-run")
    assert (code, out.startswith(f"--allow-read {home}/data in {workspace}, until ")) == (0, True)
    assert store().grants() == []
    code, _, err = ringfence("grant", "read", "~/data")
    assert (code, "nobody is there to be asked" in err) == (2, True)
    code, out, _ = ringfence("grant", "read", "~/data", "--for", "8h", "--reason", "tests", "--yes", "--json")
    stored = json.loads(out)
    assert (code, stored["target"], stored["reason"]) == (0, f"{home}/data", "tests")
    assert stored["id"] in ringfence("list")[1]
    assert json.loads(ringfence("list", "--json")[1])["grants"][0]["countsHere"] is True
    assert "tests" in ringfence("show", stored["id"])[1]
    document = workspace / "approvals.json"
    document.write_text(ringfence("export")[1])
    code, out, err = ringfence("revoke", stored["id"], "nobody", "--json")
    assert (code, json.loads(out)["missing"]) == (125, ["nobody"])
    assert err.startswith("ringfence: nobody: there is no such grant")
    code, out, _ = ringfence("revoke", stored["id"], "--json")
    assert (code, json.loads(out)["what"]) == (125, "there is no such grant")
    assert ringfence("list")[1] == ""
    assert ringfence("import", str(document))[0] == 0
    assert [one.id for one in store().grants()] == [stored["id"]]
    for words in (
        (),
        ("grant",),
        ("grant", "fly", "x"),
        ("list", "x"),
        ("show",),
        ("grant", "read", "x", "--for", "soon"),
    ):
        assert ringfence(*words)[0] in (2, 125)
    code, out, _ = (call(["log", "--json"]), *capsys.readouterr())
    assert "grant" in out
    assert "revoked: " in out


@pytest.mark.parametrize(
    ("typed", "stored"),
    [("y\n", "data"), ("n\n", ""), ("\n", ""), ("~/data/f\ny\n", "data/f"), ("~/.ssh\n~/data\nyes\n", "data")],
)
def test_a_person_sees_the_rule_before_it_is_stored_and_may_change_it(
    home: Path, workspace: Path, typed: str, stored: str
) -> None:
    command = [sys.executable, "-I", "-m", "ringfence", "approvals", "grant", "read", str(home / "data")]
    ours, theirs = os.openpty()
    process = subprocess.Popen(command, cwd=workspace, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b""
    with contextlib.suppress(OSError):  # a terminal nobody has open any more
        while piece := os.read(ours, 4096):
            shown += piece
    os.close(ours)
    assert process.wait(30) == (0 if stored else 1)
    assert f"this will be stored: --allow-read {home}/data in {workspace}".encode() in shown
    assert [one.target for one in store().grants()] == ([f"{home}/{stored}"] if stored else [])


def test_the_model_cannot_answer_its_own_question(home: Path, workspace: Path) -> None:
    """Inside, the store is neither there to be read nor to be written, and the verb says so."""
    add(home / "notes", workspace)
    place = approvals_of(os.environ)
    before = (Path(place) / "approvals.db").read_bytes()
    script = f"cat {place}/approvals.db; ls {place}; echo x > {place}/approvals.db; mkdir -p {place}; rm -rf {place}"
    assert said(workspace, "sh", "-c", script)[1] == ""
    assert (Path(place) / "approvals.db").read_bytes() == before
    code = "import sys; from ringfence.cli import call; sys.exit(call(['approvals', 'grant', 'read', '/opt', '--yes']))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"RINGFENCE": "1"}, cwd=workspace, capture_output=True, text=True
    )
    assert (done.returncode, "a person's" in done.stderr) == (125, True)
