"""The Seatbelt profile, made and judged on Linux: by a reader of profiles, by golden files, and against the judge."""

import os
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import msgspec
import pytest
from tests.plan.sbpl import Sandbox, parse
from tests.plan.test_regions import Everywhere, rules

from ringfence.model import (
    Access,
    Command,
    Disk,
    Host,
    Injection,
    Kind,
    Limit,
    Need,
    Network,
    Origin,
    Place,
    Plan,
    PlanError,
    Policy,
    Rule,
    Verdict,
)
from ringfence.plan import lay_out, make_plan, named_paths, seatbelt
from ringfence.plan.regions import State
from ringfence.policy import decide
from ringfence.policy.defaults import built_in
from ringfence.policy.layer import settled

GOLDEN = Path(__file__).parent / "golden"
HOME, WS, TEMPORARY = "/Users/u", "/Users/u/src/ws", "/private/tmp/ringfence-501-x"
MAC = Host("darwin", "arm64", seatbelt=True, uid=501, gid=20)
PRESENT = ("/", WS, f"{WS}/.git/hooks", f"{HOME}/.cargo", f"{HOME}/.gitconfig", "/dev/null", "/dev/tty", "/usr")
WRITE = Origin("policy.json", 1)
COMMAND = Command(("make", "-j2"), WS, {"PATH": "/usr/bin"}, "/usr/bin/make", temporary=TEMPORARY)


def place(path: str) -> Place:
    """A Mac: /tmp, /var and /etc are links into /private."""
    real = f"/private{path}" if path.split("/")[1] in ("tmp", "var", "etc") else path
    return Place(path, real, Kind.DIRECTORY if path in PRESENT else Kind.MISSING)


def default(*more: Rule, network: Network = Network()) -> Policy:  # noqa: B008
    return Policy(WS, settled((*built_in(WS, (HOME,)).rules, *more)), network)


def planned(policy: Policy, command: Command = COMMAND) -> Plan:
    named = [*named_paths(policy), TEMPORARY]
    return make_plan(policy, command, MAC, Disk({path: place(path) for path in named}))


def sandbox(plan: Plan) -> Sandbox:
    """The profile and the parameters on a command line, as sandbox-exec would take them."""
    words = [word.decode() for word in plan.steps[-1].strings]
    given = dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "-D")
    return Sandbox(words[words.index("-p") + 1], given)


def ways(plan: Plan, path: str) -> str:
    """What may be done with a path: r, w and x."""
    held = sandbox(plan)
    asked = (("r", "file-read-data"), ("w", "file-write-data"), ("x", "process-exec"))
    return "".join(letter for letter, operation in asked if held.allows(operation, path))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "rx"),
        ("/usr/bin/make", "rx"),
        ("/System/Library/x", "rx"),
        (f"{WS}/src/main.c", "rwx"),
        (f"{WS}/.git/hooks/pre-commit", "rx"),
        (f"{WS}/.mcp.json", "rx"),  # does not exist yet, and cannot be made
        (f"{WS}/.envrc", "rx"),
        (f"{HOME}/.ssh/id_ed25519", ""),
        (f"{HOME}/Library/Keychains/login.keychain-db", ""),
        (f"{HOME}/.cargo/bin/cargo", "rx"),
        (f"{HOME}/.cargo/credentials.toml", ""),
        (f"{HOME}/.gitconfig", "rx"),
        ("/Users/other/notes", ""),
        ("/Volumes/backup/x", ""),
        ("/System/Volumes/Data/Users/u/.ssh/id_ed25519", ""),
        ("/private/tmp/other", ""),
        ("/private/var/folders/zz/T/x", ""),
        ("/private/etc/sudoers", ""),
        ("/private/etc/hosts", "rx"),
        (f"{TEMPORARY}/x", "rwx"),
        ("/dev/null", "rwx"),
        ("/dev/ttys004", "rwx"),
        ("/dev/disk0", "rx"),  # its own mode holds it
    ],
)
def test_the_default_policy_on_a_mac(path: str, expected: str) -> None:
    assert ways(planned(default()), path) == expected


def test_the_way_to_the_workspace_can_be_walked_and_not_be_listed() -> None:
    held = sandbox(planned(default()))

    for above in ("/Users", HOME, f"{HOME}/src"):
        assert held.allows("file-read-metadata", above)
        assert not held.allows("file-read-data", above)
    assert not held.allows("file-read-metadata", f"{HOME}/.ssh")


def test_what_holds_a_denied_name_cannot_be_carried_away() -> None:
    held = sandbox(planned(default()))

    assert not held.allows("file-write-unlink", f"{WS}/.git")
    assert held.allows("file-write-create", f"{WS}/.git/index")
    assert held.allows("file-write-unlink", f"{WS}/build")


@pytest.mark.parametrize(
    ("network", "out", "local", "unix"),
    [
        (Network(), False, False, False),
        (Network(open=True), True, True, True),
        (Network(local_binding=True), False, True, False),
        (Network(all_unix_sockets=True), False, False, True),
    ],
)
def test_the_network(network: Network, out: bool, local: bool, unix: bool) -> None:
    held = sandbox(planned(default(network=network)))

    assert held.allows("network-outbound", "example.org:443") is out
    assert held.allows("network-bind", "localhost:*") is local
    assert held.allows("network-outbound", "unix-socket") is unix


def test_little_else_is_open() -> None:
    held = sandbox(planned(default()))

    assert held.allows("mach-lookup", "com.apple.system.opendirectoryd.libinfo")
    assert not held.allows("mach-lookup", "com.apple.SecurityServer")
    for operation in ("sysctl-write", "iokit-open", "mach-register", "appleevent-send", "system-kext-load"):
        assert not held.allows(operation)
    assert held.allows("process-fork")
    assert not held.allows("signal", "others")


@hypothesis.settings(max_examples=600, deadline=None)
@hypothesis.given(
    st.lists(rules(), max_size=7),
    st.lists(st.sampled_from(["a", "b", "x"]), min_size=1, max_size=4).map(lambda names: "/" + "/".join(names)),
)
def test_the_profile_says_what_the_judge_says(drawn: list[Rule], path: str) -> None:
    policy = Policy("/ws", settled(tuple(rule for rule in drawn if "/tmp" not in rule.path)))
    found = lay_out(policy, MAC, Disk(Everywhere()), "")
    made = seatbelt.profile(policy, found)
    held = Sandbox(made.text, dict(made.parameters))

    assert {access: held.allows(f"file-{access.value}-data", path) for access in Access} == {
        access: decide(policy, access, path).verdict is Verdict.ALLOW for access in Access
    }
    assert held.allows("process-exec", path) is (seatbelt.state_of(path, found) is not State.HIDDEN)


# ---- Paths are never text ----

PAYLOAD = '/tmp/evil") (allow file-write* (subpath "/"))'


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("relative/workspace", "absolute path"),
        ("/tmp/" + os.fsdecode(b"\xff\xfe") + "/workspace", "not valid UTF-8"),
        ('/tmp/evil"injection/workspace', "forbidden characters"),
        (PAYLOAD, "forbidden characters"),
        ("/tmp/work\\nspace", "forbidden characters"),
        ("/tmp/work\0space", "forbidden characters"),
    ],
)
def test_a_path_that_could_be_more_than_a_path_is_refused(path: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        seatbelt.checked(path, "workspace")


@pytest.mark.parametrize("access", list(Access))
def test_the_payload_of_a_hostile_name_makes_no_profile(access: Access) -> None:
    hostile = Rule(access, Verdict.ALLOW, PAYLOAD, WRITE)

    with pytest.raises(PlanError, match="forbidden characters"):
        planned(default(hostile))


@hypothesis.given(st.text(min_size=1, max_size=30))
def test_whatever_a_path_is_it_is_a_parameter_or_refused(name: str) -> None:
    path = f"/{name}"
    policy = Policy("/ws", (Rule(Access.READ, Verdict.ALLOW, path, WRITE),))
    try:
        made = seatbelt.profile(policy, lay_out(policy, MAC, Disk(Everywhere()), ""))
    except PlanError:
        assert any(char in name for char in '"\\\0') or any("\ud800" <= char <= "\udfff" for char in name)
        return
    parse(made.text)
    assert path in dict(made.parameters).values()
    assert all(word.startswith(("(", " ")) or not word for word in made.text.splitlines())


# ---- The command line, and what is said ----


def test_the_command_stands_behind_sandbox_exec() -> None:
    last = planned(default()).steps[-1]
    words = [word.decode() for word in last.strings[1 : last.numbers[0] + 1]]

    assert last.strings[0] == b"/usr/bin/sandbox-exec"
    assert (words[0], words[-2:]) == ("/usr/bin/sandbox-exec", ["/usr/bin/make", "-j2"])
    assert (words[-4], last.text) == ("-p", "make -j2")


def test_what_it_cannot_do_is_said() -> None:
    injection = Injection("/etc/a", "/etc/b", WRITE)
    plan = planned(msgspec.structs.replace(default(), injections=(injection,)))

    assert "dangerous system calls closed" in [gap.what for gap in plan.gaps]
    assert [gap.what for gap in plan.gaps if gap.need is Need.REQUIRED] == ["/etc/a shown at /etc/b"]
    assert planned(default()).is_sound
    limited = msgspec.structs.replace(default(), limits=(Limit("memory", 1 << 20, WRITE), Limit("timeout", 5, WRITE)))
    assert [gap.what for gap in planned(limited).gaps if gap.need is Need.REQUIRED] == ["the limit memory"]


def test_a_mac_without_sandbox_exec_runs_nothing() -> None:
    policy = default()
    host = msgspec.structs.replace(MAC, seatbelt=False)
    plan = make_plan(policy, COMMAND, host, Disk({path: place(path) for path in [*named_paths(policy), TEMPORARY]}))

    assert [gap.what for gap in plan.gaps if gap.need is Need.REQUIRED] == ["a sandbox"]


NESTED = (
    Rule(Access.READ, Verdict.DENY, f"{WS}/hidden", WRITE),
    Rule(Access.READ, Verdict.ALLOW, f"{WS}/hidden/shown", WRITE),
    Rule(Access.WRITE, Verdict.ALLOW, f"{WS}/hidden/shown", WRITE),
    Rule(Access.READ, Verdict.DENY, f"{WS}/hidden/shown/deep", WRITE),
)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("closed", Policy(WS, (Rule(Access.READ, Verdict.ALLOW, "/", WRITE), *NESTED))),
        ("open", Policy(WS, (Rule(Access.WRITE, Verdict.ALLOW, WS, WRITE),), Network(open=True))),
    ],
)
def test_the_profile_is_the_one_that_was_looked_at(name: str, policy: Policy) -> None:
    """After a change that is meant: UPDATE_GOLDEN=1, and look at the difference."""
    made = seatbelt.profile(policy, lay_out(policy, MAC, Disk(Everywhere()), TEMPORARY))
    text = made.text + "".join(f"; {name} = {path}\n" for name, path in made.parameters)
    file = GOLDEN / f"{name}.sb"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text)

    assert text == file.read_text()
