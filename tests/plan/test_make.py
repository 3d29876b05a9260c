"""Planning: for each thing asked, steps or a gap, on every kernel, without touching one."""

import msgspec
import pytest

from ringfence.model import (
    BUILT_IN,
    Access,
    Ask,
    Command,
    Disk,
    Enactor,
    Enforcement,
    Environment,
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
    Screen,
    SocketRule,
    StepKind,
    Verdict,
)
from ringfence.plan import (
    allowlist,
    further_paths,
    has_siblings,
    lay_out,
    make_plan,
    named_paths,
    shows,
    with_repository,
)
from ringfence.plan.environment import passes
from ringfence.plan.gaps import anywhere_gaps, asking_gaps, closed_gaps, glob_gaps
from ringfence.plan.network import AGENT
from ringfence.plan.rules import PRIVATE, is_swayed, swayed
from ringfence.plan.view import is_device

WS = "/home/u/ws"
TRUE = Command(("true",), WS, {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "s", "LC_ALL": "C"}, "/bin/true")
FILES = frozenset({"/etc/shadow", f"{WS}/.git/config", "/home/u/.gitconfig"})
BELOW_A_FILE = "/home/u/.gitconfig/keys"
MISSING = frozenset({f"{WS}/.mcp.json", "/home/u/.aws", BELOW_A_FILE})


def rule(access: str, verdict: str, path: str, need: Need = Need.REQUIRED, origin: Origin = BUILT_IN) -> Rule:
    return Rule(Access(access), Verdict[verdict.upper()], path, origin, need=need)


RULES = (
    rule("read", "allow", "/"),
    rule("read", "deny", "/home"),
    rule("read", "deny", "/etc/shadow"),
    rule("read", "allow", "/home/u/.gitconfig"),
    rule("read", "deny", "/home/u/.aws"),
    rule("read", "allow", WS),
    rule("write", "allow", WS),
    rule("write", "deny", f"{WS}/.git/hooks", Need.WANTED),
    rule("write", "deny", f"{WS}/.git/config", Need.WANTED),
    rule("write", "deny", f"{WS}/.mcp.json", Need.WANTED),
)
POLICY = Policy(WS, RULES)


def place(path: str) -> Place:
    kind = Kind.MISSING if path in MISSING else Kind.FILE if path in FILES else Kind.DIRECTORY
    if path.startswith("/dev/") and path not in ("/dev/shm", "/dev/pts"):
        kind = Kind.OTHER
    return Place(path, path, kind, 1, int.from_bytes(path.encode()[-12:], "big") + 1000)


def disk_for(policy: Policy, host: Host) -> Disk:
    """A disk on which every named path is what `place` says, and every directory listed has two more children."""
    disk = Disk({path: place(path) for path in named_paths(policy)})
    pins, spines = further_paths(lay_out(policy, host, disk, ""), host)
    known = {**disk.places, **{path: place(path) for path in pins}}
    children = {}
    for spine in spines:
        below = {path for path in known if path.rpartition("/")[0] == spine.rstrip("/")} - {spine}
        also = {f"{spine.rstrip('/')}/{name}" for name in ("one", "two")}
        also |= {path for path in spines if path.rpartition("/")[0] == spine.rstrip("/") and path != spine}
        children[spine] = tuple(place(path) for path in sorted(below | also) if path not in MISSING)
    return Disk(known, children)


def planned(host: Host, policy: Policy = POLICY, command: Command = TRUE) -> Plan:
    return make_plan(policy, command, host, disk_for(policy, host))


def texts(plan: Plan, kind: StepKind) -> list[str]:
    return [step.text for step in plan.steps if step.kind is kind]


HOSTS = [Host.linux(abi, namespaces) for abi in range(8) for namespaces in (True, False)]


@pytest.mark.parametrize("host", HOSTS, ids=lambda h: f"abi{h.landlock_abi}-{'view' if h.namespaces else 'plain'}")
def test_the_steps_of_every_plan_are_in_the_only_safe_order(host: Host) -> None:
    kinds = [step.kind for step in planned(host).steps]

    assert kinds == sorted(kinds)
    assert kinds[-1] is StepKind.EXEC


@pytest.mark.parametrize("host", HOSTS, ids=lambda h: f"abi{h.landlock_abi}-{'view' if h.namespaces else 'plain'}")
def test_no_plan_ever_goes_without_no_new_privs_capabilities_and_seccomp(host: Host) -> None:
    kinds = {step.kind for step in planned(host).steps}

    assert {StepKind.NO_NEW_PRIVS, StepKind.CAPABILITIES, StepKind.SECCOMP, StepKind.STREAMS} <= kinds


REQUIRED_GAPS = {
    (True, 0): set(),
    (True, 5): set(),
    (True, 6): set(),
    (True, 7): set(),
    (False, 0): {"files", "truncation outside the workspace", "signals to other processes"},
    (False, 2): {"truncation outside the workspace", "signals to other processes"},
    (False, 3): {"signals to other processes"},
    (False, 6): set(),
    (False, 7): set(),
}


@pytest.mark.parametrize("case", REQUIRED_GAPS, ids=str)
def test_what_a_kernel_cannot_hold_is_a_required_gap(case: tuple[bool, int]) -> None:
    gaps = REQUIRED_GAPS[case]
    namespaces, abi = case

    plan = planned(Host.linux(abi, namespaces))

    assert {gap.what for gap in plan.gaps if gap.need is Need.REQUIRED} == gaps
    assert plan.is_sound is (not gaps)


@pytest.mark.parametrize(
    ("abi", "handled"),
    [(1, 0x1FFF), (2, 0x3FFF), (3, 0x7FFF), (4, 0x7FFF), (5, 0xFFFF), (6, 0xFFFF), (7, 0xFFFF)],
)
def test_without_a_view_landlock_handles_every_right_it_knows(abi: int, handled: int) -> None:
    (ruleset,) = [s for s in planned(Host.linux(abi, False)).steps if s.kind is StepKind.RULESET]

    assert ruleset.numbers == (handled, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)


@pytest.mark.parametrize("abi", range(1, 8))
def test_no_rule_grants_a_right_that_is_not_handled(abi: int) -> None:
    # The kernel refuses such a rule with EINVAL, and then nothing runs.
    for namespaces in (True, False):
        steps = planned(Host.linux(abi, namespaces)).steps
        (ruleset,) = [step for step in steps if step.kind is StepKind.RULESET]
        rules = [step for step in steps if step.kind is StepKind.BENEATH]
        assert rules
        assert [step.text for step in rules if step.numbers[0] & ~ruleset.numbers[0] or not step.numbers[0]] == []


def test_with_a_view_reading_and_truncation_are_left_to_the_mounts() -> None:
    (ruleset,) = [s for s in planned(Host.linux(7)).steps if s.kind is StepKind.RULESET]

    assert ruleset.numbers == (0xBFF2, 0, 3)


def test_the_view_hides_shows_pins_and_protects_parents_first() -> None:
    mounts = texts(planned(Host.linux()), StepKind.MOUNT)

    assert [text for text in mounts if not text.startswith("/dev")] == [
        "/etc/shadow hidden (built-in)",
        "/home hidden (built-in) but for 2 inside",
        "/home/u/.gitconfig read-only (built-in)",
        f"{WS} writable (built-in)",
        f"{WS}/.git pinned, so that it cannot be renamed",
        f"{WS}/.git/config read-only (built-in)",
        f"{WS}/.git/hooks read-only (built-in)",
        "/tmp private",
        "/var/tmp private",
    ]


def test_what_is_shown_inside_a_hidden_directory_gets_a_place_to_stand_on() -> None:
    (home,) = [step for step in planned(Host.linux()).steps if step.text.startswith("/home hidden")]

    assert home.strings == (b"/home", b"du", b"fu/.gitconfig", b"du/ws")


def test_a_workspace_in_tmp_is_shown_inside_the_private_tmp() -> None:
    policy = Policy(
        "/tmp/ws", (rule("read", "allow", "/"), rule("read", "allow", "/tmp/ws"), rule("write", "allow", "/tmp/ws"))
    )

    steps = [step for step in planned(Host.linux(), policy).steps if step.kind is StepKind.MOUNT]

    assert [(step.text, step.strings[1:]) for step in steps if step.strings[0].startswith(b"/tmp")] == [
        ("/tmp private", (b"dws",)),
        ("/tmp/ws writable (built-in)", (b"/tmp/ws",)),
    ]


def test_a_home_in_tmp_is_hidden_inside_the_private_tmp() -> None:
    policy = Policy(WS, (*RULES, rule("read", "deny", "/tmp/home")))

    steps = [step for step in planned(Host.linux(), policy).steps if step.kind is StepKind.MOUNT]

    assert [(step.text, step.strings[1:]) for step in steps if step.strings[0].startswith(b"/tmp")] == [
        ("/tmp private", (b"dhome",)),
        ("/tmp/home hidden (built-in)", ()),
    ]


def test_with_a_view_the_warden_is_pid_1_and_shows_a_proc_of_its_own_where_it_can() -> None:
    def kinds(host: Host) -> list[StepKind]:
        return [step.kind for step in planned(host).steps if StepKind.ATTACH < step.kind < StepKind.RULESET]

    assert kinds(Host.linux()) == [StepKind.WARDEN, StepKind.PROC, StepKind.LOCK, StepKind.NO_NEW_PRIVS]
    assert kinds(Host.linux(fresh_proc=False)) == [StepKind.WARDEN, StepKind.LOCK, StepKind.NO_NEW_PRIVS]
    assert "other processes invisible" in {gap.what for gap in planned(Host.linux(fresh_proc=False)).gaps}
    assert "other processes invisible" not in {gap.what for gap in planned(Host.linux()).gaps}


@pytest.mark.parametrize(
    ("host", "is_said"),
    [(Host.linux(), False), (Host.linux(fresh_proc=False), True), (Host.linux(namespaces=False, landlock_abi=5), True)],
)
def test_where_nobody_answers_opens_it_is_said_that_they_make_setuid_programs(host: Host, is_said: bool) -> None:
    policy = Policy(WS, (*RULES, rule("write", "deny", f"{WS}/missing")))

    assert any("(setuid)" in gap.what for gap in planned(host, policy).gaps) is is_said


def test_reading_a_path_in_tmp_does_not_make_it_writable() -> None:
    policy = Policy(WS, (*RULES, rule("read", "allow", "/tmp/data", origin=Origin("--allow-read"))))

    mounts = texts(planned(Host.linux(), policy), StepKind.MOUNT)

    assert "/tmp/data read-only (--allow-read)" in mounts


def test_the_hosts_own_tmp_is_given_when_somebody_asks_for_it_by_name() -> None:
    flag = Origin("--allow-write")
    policy = Policy(
        WS, (*RULES, rule("write", "allow", "/tmp", origin=flag), rule("read", "allow", "/tmp", origin=flag))
    )

    mounts = texts(planned(Host.linux(), policy), StepKind.MOUNT)

    assert "/tmp writable (--allow-write)" in mounts
    assert "/tmp private" not in mounts


@pytest.mark.parametrize("namespaces", [True, False])
def test_a_link_in_the_repository_of_a_worktree_grants_nothing_and_refuses(namespaces: bool) -> None:
    # Another workspace's command writes there: it must not choose what this one may write.
    common, secret = "/home/u/main/.git", "/home/u/secret"
    policy = with_repository(POLICY, f"{common}/worktrees/ws", common, None)
    host = Host.linux(7, namespaces)
    disk = disk_for(policy, host)
    planted = Place(f"{common}/refs", secret, Kind.DIRECTORY, 1, 7, links=(f"{common}/refs",))
    disk = Disk({**disk.places, f"{common}/refs": planted}, disk.children)

    plan = make_plan(policy, TRUE, host, disk)

    assert not [step.text for step in plan.steps if secret in step.text]
    assert [step.text for step in plan.steps if f"{common}/objects" in step.text]
    assert f"{common}/refs writable" in {gap.what for gap in plan.gaps if gap.need is Need.REQUIRED}


def test_a_link_in_what_is_itself_granted_by_a_link_grants_nothing_and_refuses() -> None:
    # Nobody inside turns the first; where it leads, the command may turn the second.
    given, inner, flag = "/srv/pointer", "/srv/pointer/current", Origin("--allow-write")
    policy = Policy(WS, (*RULES, *(rule("write", "allow", path, origin=flag) for path in (given, inner))))
    disk = disk_for(policy, Host.linux())
    led = Place(given, "/srv/real", Kind.DIRECTORY, 1, 6, links=(given,))
    turned = Place(inner, "/home/u/secret", Kind.DIRECTORY, 1, 7, links=(given, "/srv/real/current"))
    disk = Disk({**disk.places, given: led, inner: turned}, disk.children)

    plan = make_plan(policy, TRUE, Host.linux(), disk)

    assert "/srv/real writable (--allow-write)" in texts(plan, StepKind.MOUNT)
    assert not [step.text for step in plan.steps if "/home/u/secret" in step.text]
    assert f"{inner} writable" in {gap.what for gap in plan.gaps if gap.need is Need.REQUIRED}


@pytest.mark.parametrize("namespaces", [True, False])
@pytest.mark.parametrize(("target", "is_refused"), [("/", True), ("/home", True), (WS, True), (f"{WS}/src", False)])
def test_a_kept_name_that_leads_to_the_workspace_or_above_it_refuses(
    target: str, is_refused: bool, namespaces: bool
) -> None:
    # An earlier command made it, where there was no repository: nothing could be written, and nobody said why.
    link = f"{WS}/.git/hooks"
    policy = Policy(WS, (*RULES, rule("write", "deny", link)))
    host = Host.linux(7, namespaces)
    disk = disk_for(policy, host)
    disk = Disk({**disk.places, link: Place(link, target, Kind.DIRECTORY, 1, 9, links=(link,))}, disk.children)

    plan = make_plan(policy, TRUE, host, disk)

    said = [gap.why for gap in plan.gaps if gap.what == f"{WS} writable" and gap.need is Need.REQUIRED]
    assert said == [f"{link} leads to {target}, and what it leads to is kept"] * is_refused


def test_a_person_may_keep_the_whole_workspace_as_it_is_by_a_link() -> None:
    link = "/home/u/work"
    policy = Policy(WS, (*RULES, rule("write", "deny", link, origin=Origin("--deny-write"))))
    disk = disk_for(policy, Host.linux())
    disk = Disk({**disk.places, link: Place(link, WS, Kind.DIRECTORY, 1, 9, links=(link,))}, disk.children)

    assert not [gap for gap in make_plan(policy, TRUE, Host.linux(), disk).gaps if gap.what == f"{WS} writable"]


def test_a_protected_name_that_does_not_exist_yet_is_the_wardens_or_a_gap() -> None:
    gaps = [gap.what for gap in planned(Host.linux()).gaps]

    assert not any(".mcp.json" in gap for gap in gaps)
    assert f"{WS}/.mcp.json must not appear (built-in)" in texts(planned(Host.linux()), StepKind.NAME)
    assert f"not to be created: {WS}/.mcp.json" in [gap.what for gap in planned(Host.linux(fresh_proc=False)).gaps]


def test_below_a_file_that_may_be_written_no_name_appears() -> None:
    policy = Policy(WS, (*RULES, rule("write", "allow", "/home/u/.gitconfig"), rule("read", "deny", BELOW_A_FILE)))

    assert not [text for text in texts(planned(Host.linux(), policy), StepKind.PARENT) if ".gitconfig" in text]
    assert not [gap.what for gap in planned(Host.linux(fresh_proc=False), policy).gaps if BELOW_A_FILE in gap.what]


def test_a_denial_somebody_wrote_refuses_when_its_name_does_not_exist_yet() -> None:
    policy = Policy(WS, (*RULES, rule("write", "deny", f"{WS}/.mcp.json", origin=Origin("p.toml", 3))))

    (gap,) = [gap for gap in planned(Host.linux(fresh_proc=False), policy).gaps if gap.need is Need.REQUIRED]

    assert (gap.what, str(gap.origin)) == (f"not to be created: {WS}/.mcp.json", "p.toml:3")


def test_without_a_view_a_directory_with_something_denied_inside_is_granted_child_by_child() -> None:
    grants = texts(planned(Host.linux(7, False, uid=0)), StepKind.BENEATH)

    assert "read /etc/one" in grants
    assert "read /etc/shadow" not in grants
    assert "read /etc" not in grants
    assert f"read and write {WS}" in grants
    assert not any(grant.startswith(("read /tmp", "write /tmp", "read /dev")) for grant in grants)


def test_the_systems_secrets_are_left_to_their_modes_without_a_view_unless_one_is_root() -> None:
    grants = texts(planned(Host.linux(7, False)), StepKind.BENEATH)

    assert "read /etc/one" not in grants
    assert "read /etc/one" in texts(planned(Host.linux(7, False, uid=0)), StepKind.BENEATH)


def test_a_file_whose_own_mode_closes_it_needs_no_rule() -> None:
    host = Host.linux(7, False, uid=0)
    disk = disk_for(POLICY, host)
    shadow = Place("/etc/shadow", "/etc/shadow", Kind.FILE, 1, 1, readable=False)
    disk = Disk({**disk.places, "/etc/shadow": shadow}, disk.children)

    grants = texts(make_plan(POLICY, TRUE, host, disk), StepKind.BENEATH)

    assert "read /etc" in grants
    assert further_paths(lay_out(POLICY, host, disk, ""), host)[1] == ["/", "/var"]


def test_as_uid_0_without_a_view_metadata_outside_is_a_required_gap() -> None:
    plan = planned(Host.linux(7, False, uid=0))

    assert [gap.what for gap in plan.gaps if gap.need is Need.REQUIRED] == [
        "chmod, chown, utime and xattr of what may not be written"
    ]


def test_the_python_enactor_cannot_build_a_view() -> None:
    plan = planned(Host.linux(enactor=Enactor.PYTHON))

    assert not any(step.kind < StepKind.NO_NEW_PRIVS for step in plan.steps)
    assert any("python enactor cannot build one" in gap.why for gap in plan.gaps)


@pytest.mark.parametrize(
    ("network", "namespaces", "has_netns", "sockets"),
    [
        (Network(), True, True, "UNIX, INET, NETLINK_ROUTE"),
        (Network(), False, False, "none"),
        (Network(open=True), True, False, "UNIX, INET, NETLINK_ROUTE"),
        (Network(open=True), False, False, "INET, NETLINK_ROUTE"),
        (Network(open=True, all_unix_sockets=True), False, False, "UNIX, INET, NETLINK_ROUTE, UNIX_DATAGRAMS"),
        (Network(all_unix_sockets=True), False, False, "UNIX, UNIX_DATAGRAMS"),
    ],
)
def test_the_network_is_closed_by_a_namespace_or_by_the_filter(
    network: Network, namespaces: bool, has_netns: bool, sockets: str
) -> None:
    plan = planned(Host.linux(7, namespaces), Policy(WS, RULES, network))

    assert any(step.kind is StepKind.LOOPBACK for step in plan.steps) is has_netns
    assert f"sockets: {sockets}" in texts(plan, StepKind.SECCOMP)[0].split("; ")


def test_a_key_that_is_not_carried_out_is_a_gap_with_its_own_need() -> None:
    asks = (
        Ask("network.tlsTerminate", Origin("p", 1), "not yet", Need.REQUIRED),
        Ask("ripgrep", Origin("p", 2), "no", Need.WANTED),
    )

    plan = planned(Host.linux(), Policy(WS, RULES, asks=asks))

    assert [(gap.what, gap.need) for gap in plan.gaps if str(gap.origin).startswith("p:")] == [
        ("network.tlsTerminate", Need.REQUIRED),
        ("ripgrep", Need.WANTED),
    ]


@pytest.mark.parametrize("namespaces", [True, False])
@pytest.mark.parametrize("added", ["a/" * 70 + "*", "many"])
def test_where_others_are_more_than_the_warden_takes_a_pattern_is_required(namespaces: bool, added: str) -> None:
    """An untrusted project may add rules, and must not undo the user's by that."""
    names = [f"n{number}*" for number in range(1200)] if added == "many" else [added]
    more = [Rule(Access.WRITE, Verdict.DENY, f"{WS}/{name}", Origin("project", 1), glob=True) for name in names]
    pattern = Rule(Access.READ, Verdict.DENY, f"{WS}/*.pem", Origin("p", 1), glob=True)

    found = planned(Host.linux(namespaces=namespaces), Policy(WS, (*RULES, pattern, *more)))

    assert [gap.need for gap in found.gaps if str(gap.origin) == "p:1"] == [Need.REQUIRED]


@pytest.mark.parametrize("verdict", [Verdict.ALLOW, Verdict.DENY])
def test_a_pattern_is_a_gap_for_names_that_appear_later(verdict: Verdict) -> None:
    pattern = Rule(Access.READ, verdict, f"{WS}/*.pem", Origin("p", 1), glob=True)

    gap = (f"the pattern {WS}/*.pem for names that appear later", Need.WANTED)
    judged = planned(Host.linux(), Policy(WS, (*RULES, pattern)))
    alone = planned(Host.linux(namespaces=False), Policy(WS, (*RULES, pattern)))
    inside = planned(Host.linux(namespaces=False, layers=14), Policy(WS, (*RULES, pattern)))

    def gaps(plan: Plan) -> list[tuple[str, Need]]:
        return [(gap.what, gap.need) for gap in plan.gaps if str(gap.origin) == "p:1"]

    assert gaps(inside) == [gap]  # there is no second warden
    # What is denied the warden judges when it is used, but for what is executed.
    assert gaps(alone) == gaps(judged) == [gap] * (verdict is Verdict.ALLOW)
    executed = "programs that match a denied pattern and appear later not executed"
    assert [executed in [gap.what for gap in made.gaps] for made in (judged, alone)] == [verdict is Verdict.DENY] * 2
    assert (StepKind.PATTERN in [step.kind for step in judged.steps]) == (verdict is Verdict.DENY)


def test_programs_where_no_pattern_was_looked_for_are_a_gap_of_their_own() -> None:
    pattern = Rule(Access.READ, Verdict.DENY, f"{WS}/**/*.pem", Origin("p", 1), glob=True)

    gaps = glob_gaps(Policy(WS, (pattern,)), Disk({}, unsearched=(f"{WS}/blind",)), held=True)

    assert gaps[1].what == f"programs that match a denied pattern in {WS}/blind, and what comes after not executed"
    assert len(gaps) == 2


def test_an_injection_is_a_read_only_mount_and_a_gap_where_it_cannot_be() -> None:
    injection = Injection("/etc/shadow", f"{WS}/.git/config", Origin("p", 1))
    missing = Injection("/etc/shadow", f"{WS}/.mcp.json", Origin("p", 2))
    policy = Policy(WS, RULES, injections=(injection, missing))

    plan = planned(Host.linux(), policy)

    assert f"{WS}/.git/config shows /etc/shadow, read-only (p:1)" in texts(plan, StepKind.MOUNT)
    assert [str(gap.origin) for gap in plan.gaps if gap.need is Need.REQUIRED] == ["p:2"]


TABLE, PRIVILEGES = (
    "system calls: the table of escapes is closed (seccomp)",
    "privileges: no capabilities; no_new_privs",
)
SCOPES = "signals and abstract sockets: none outside the run (Landlock)"


@pytest.mark.parametrize(
    ("host", "network", "by", "expected"),
    [
        (Host.linux(7), Network(), "mounts and Landlock ABI 7", "closed but for the run's own loopback"),
        (Host.linux(7), Network(open=True), "mounts and Landlock ABI 7", "the host's (allowed)"),
        (Host.linux(7, namespaces=False), Network(), "Landlock ABI 7", "closed (seccomp)"),
        (Host.linux(2, namespaces=False), Network(), "Landlock ABI 2", "closed (seccomp)"),
        (
            Host.linux(7, namespaces=False),
            Network(proxies=(1, 2)),
            "Landlock ABI 7",
            "TCP to the ports of two proxies (seccomp, Landlock)",
        ),
    ],
)
def test_what_is_in_force_is_said_and_nothing_else(host: Host, network: Network, by: str, expected: str) -> None:
    files = f"files: only {WS} and private directories are writable ({by})"
    scopes = (SCOPES,) if host.landlock_abi > 5 else ()

    assert planned(host, msgspec.structs.replace(POLICY, network=network)).in_force == (
        files, f"network: {expected}", TABLE, PRIVILEGES, *scopes,
    )  # fmt: skip


def test_off_means_off_and_says_so() -> None:
    plan = planned(Host.linux(), Policy(WS, RULES, enforcement=Enforcement.OFF))

    assert [step.kind for step in plan.steps] == [StepKind.STREAMS, StepKind.DIRECTORY, StepKind.EXEC]
    assert plan.in_force == ("nothing: enforcement is off",)


def test_only_allowed_variables_reach_the_command() -> None:
    (last,) = [step for step in planned(Host.linux()).steps if step.kind is StepKind.EXEC]

    assert b"LC_ALL=C" in last.strings
    assert not any(text.startswith(b"AWS_") for text in last.strings)


DELICATE = """AWS_PROFILE SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS KUBECONFIG VAULT_ADDR DEPLOY_KEY DATABASE_URL
    SENTRY_DSN PGPASSWORD NPM_TOKEN X_SECRET_X MY_COOKIES LD_PRELOAD DYLD_INSERT_LIBRARIES GIT_CONFIG_COUNT
    BASH_FUNC_ls%% BASH_ENV NODE_OPTIONS PYTHONPATH GIT_SSH_COMMAND PAGER npm_token ld_preload pythonpath""".split()


@pytest.mark.parametrize("name", DELICATE)
def test_a_secret_and_what_runs_code_pass_by_their_name_and_by_no_pattern(name: str) -> None:
    wide = Environment(allow=("*", f"{name[:3]}*", f"{name}*"))

    assert (passes(name, wide), passes("CI_JOB", wide)) == (False, True)
    assert passes(name, Environment(allow=(name,)))
    assert not passes("CI_JOB", Environment(allow=(name,)))


@pytest.mark.parametrize("argv", [("a\0b",), ("\ud800",)])
def test_an_argument_that_no_program_can_be_given_is_refused(argv: tuple[str, ...]) -> None:
    with pytest.raises(PlanError):
        planned(Host.linux(), command=Command(argv, WS, {}, "/bin/true"))


def test_private_directories_are_named_for_the_disk() -> None:
    assert set(PRIVATE) <= set(named_paths(POLICY))


def test_the_directories_on_the_way_to_a_denial_are_named_whole() -> None:
    assert allowlist.spine("/", ["/a", "/b/c/d", "/b/c/e"]) == {"/", "/b", "/b/c"}
    assert allowlist.spine("/b", ["/b/c/d"]) == {"/b", "/b/c"}
    assert allowlist.spine("/b", []) == set()


def test_a_directory_that_is_closed_whole_is_said_where_it_could_be_changed() -> None:
    """Nobody can look into it, so what is denied below it cannot be covered by itself."""
    paths = ("/w/shut/key", "/o/shut/key")
    rules = [Rule(Access.READ, Verdict.DENY, path, Origin("flag")) for path in paths]
    rules.append(Rule(Access.WRITE, Verdict.ALLOW, "/w", Origin("flag")))
    places = {path: Place(path, path, Kind.MISSING, closed=path.removesuffix("/key")) for path in paths}
    policy = Policy("/w", tuple(rules))

    (gap,) = closed_gaps(policy, Disk({**places, "/w": Place("/w", "/w", Kind.DIRECTORY, 1, 2)}))

    assert (gap.what, gap.need) == ("/w/shut changed or opened", Need.WANTED)


@pytest.mark.parametrize(
    ("cgroups", "refused"),
    [((), ["cpu", "memory", "processes", "disk"]), (("cpu", "pids"), ["memory", "disk"])],
)
def test_a_limit_that_takes_a_look_is_refused_where_proc_hides_the_run(
    cgroups: tuple[str, ...], refused: list[str]
) -> None:
    names = ("timeout", "cpu", "memory", "processes", "files", "disk", "output")
    policy = Policy(WS, RULES, limits=tuple(Limit(name, 9, Origin("flag")) for name in names))

    def required(hides: bool) -> list[str]:
        gaps = planned(Host.linux(cgroups=cgroups, hides_processes=hides), policy).gaps
        return [gap.what.removeprefix("the limit of ") for gap in gaps if gap.need is Need.REQUIRED]

    assert required(hides=False) == []
    assert required(hides=True) == refused


REACHES = [
    (Host.linux(), Network(), False),
    (Host.linux(), Network(sockets=(SocketRule("/run/s", Origin("flag")),)), True),
    (Host.linux(), Network(sockets=(SocketRule("/run/s", AGENT),)), False),
    (Host.linux(), Network(all_unix_sockets=True), True),
    (Host.linux(fresh_proc=False), Network(), True),
    (Host.linux(landlock_abi=1), Network(), True),
    (Host.linux(landlock_abi=5), Network(), False),
    (Host.linux(landlock_abi=5), Network(open=True), True),
    (Host.linux(landlock_abi=6), Network(open=True), False),
    (Host.linux(namespaces=False), Network(all_unix_sockets=True), False),
]


@pytest.mark.parametrize(("host", "network", "reaches"), REACHES)
def test_no_run_has_others_beside_it_that_it_could_reach_by_a_unix_socket(
    host: Host, network: Network, reaches: bool
) -> None:
    """Without a view there is nothing to be hidden from the other, and all is the kernel's to judge."""
    assert has_siblings(Policy(WS, RULES, network), host) is not reaches


@pytest.mark.parametrize(("yama", "given"), [(1, True), (2, False)])
def test_without_a_view_none_is_asked_for_where_yama_lets_no_descriptor_be_taken(yama: int, given: bool) -> None:
    assert has_siblings(Policy(WS, RULES), Host.linux(namespaces=False, yama=yama)) is given


@pytest.mark.parametrize(("host", "network"), [(host, network) for host, network, _ in REACHES])
def test_the_mounts_are_one(host: Host, network: Network) -> None:
    """Descriptors pass by a socket that the run makes, by a stream of it, or to whoever comes to its own."""
    policy = Policy(WS, RULES, network)
    disk = Disk(
        {path: place(path) for path in ("/run/s", *disk_for(policy, host).places)}, disk_for(policy, host).children
    )
    lent = msgspec.structs.replace(TRUE, lends=True)

    plans = [make_plan(policy, command, host, disk) for command in (TRUE, lent)]

    assert [bool(texts(plan, StepKind.LOCK)) for plan in plans] == [host.namespaces] * 2


def test_mounts_by_bubblewrap_come_off_and_it_is_said() -> None:
    host = Host.linux(namespaces=False, bubblewrap="/usr/bin/bwrap", fresh_proc=True)
    lent = msgspec.structs.replace(TRUE, lends=True)
    what = "what was hidden kept from who was handed a directory of the run"

    assert [what in {gap.what for gap in planned(host, command=command).gaps} for command in (TRUE, lent)] == [
        False,
        True,
    ]
    assert not texts(planned(host, command=lent), StepKind.LOCK)


ABSTRACT = [  # whether those of the host are unreachable, and whether the run's own work
    (Host.linux(landlock_abi=2), Network(), True, True),
    (Host.linux(landlock_abi=2), Network(open=True), True, False),
    (Host.linux(landlock_abi=2, fresh_proc=False), Network(open=True), False, True),
    (Host.linux(landlock_abi=2), Network(open=True, all_unix_sockets=True), False, False),
    (Host.linux(landlock_abi=1), Network(open=True), False, True),
    (Host.linux(landlock_abi=6), Network(open=True), True, True),
    (Host.linux(landlock_abi=5, namespaces=False), Network(open=True), True, True),
    (Host.linux(landlock_abi=5, namespaces=False), Network(all_unix_sockets=True), False, True),
]


@pytest.mark.parametrize(("host", "network", "kept", "own"), ABSTRACT)
def test_abstract_sockets_where_landlock_has_no_scopes(host: Host, network: Network, kept: bool, own: bool) -> None:
    policy = Policy(WS, RULES, network)

    found = [gap.what for gap in make_plan(policy, TRUE, host, disk_for(policy, host)).gaps if "abstract" in gap.what]

    assert any("of the host" in what for what in found) is not kept
    assert any("own processes" in what for what in found) is not own


@pytest.mark.parametrize("abi", [1, 2, 5])
def test_what_an_older_landlock_lacks_says_how_it_is_had(abi: int) -> None:
    host = Host.linux(landlock_abi=abi, namespaces=False)

    gaps = make_plan(POLICY, TRUE, host, disk_for(POLICY, host)).gaps

    hints = [gap.way_out for gap in gaps if "Landlock ABI" in gap.why]
    assert hints
    assert all("a newer kernel, or a view" in hint for hint in hints)


@pytest.mark.parametrize("mask", [1, 7])
def test_who_has_a_terminal_of_its_own_cannot_change_the_persons(mask: int) -> None:
    apart, held = (len(anywhere_gaps(screen)) for screen in (Screen(mask), Screen(6)))

    assert (apart, held) == (1, 2)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/dev", True),
        ("/dev/null", True),
        ("/dev/shm", False),
        ("/dev/shm/x", False),
        ("/dev/shmx", True),
        ("/devx", False),
    ],
)
def test_what_lies_in_memory_that_is_shared_is_no_device(path: str, expected: bool) -> None:
    assert is_device(path) is expected


def test_no_link_is_on_the_way_to_a_grant_where_all_of_them_were_followed_before() -> None:
    """A run beside a run is given where each path led: nobody but a command has put a link there since."""
    grant = rule("read", "allow", "/opt/data", origin=Origin("--allow-read"))
    shown = Injection("/opt/data", "/etc/x", Origin("p", 1))
    policy = msgspec.structs.replace(POLICY, rules=(*RULES, grant))
    turned = Place("/opt/data", "/srv/data", Kind.DIRECTORY, 1, 2, links=("/opt/data",))
    disk = Disk({**disk_for(policy, Host.linux(7)).places, "/opt/data": turned, "/etc/x": place("/etc/x")})
    resolved = msgspec.structs.replace(policy, is_resolved=True)

    assert (swayed(policy, disk), is_swayed(shown, policy, disk)) == ((), False)
    assert (swayed(resolved, disk), is_swayed(shown, resolved, disk)) == ((grant,), True)


@pytest.mark.parametrize(
    ("folding", "name", "need"),
    [
        ({}, "there", None),
        ({"/elsewhere": False}, "there", None),
        ({WS: True}, "there", None),  # a mount lies on every spelling of what is there
        ({WS: False}, "there", Need.REQUIRED),
        ({WS: True}, "missing", Need.REQUIRED),
        ({"/": False, WS: True}, "there", Need.REQUIRED),
    ],
)
def test_what_somebody_denies_where_case_is_folded_is_held_in_every_spelling_or_refused(
    folding: dict[str, bool], name: str, need: Need | None
) -> None:
    path, host = f"{WS}/deep/{name}", Host.linux()
    policy = Policy(WS, (*RULES, rule("write", "deny", path, origin=Origin("p", 1))))
    disk = disk_for(policy, host)
    places = disk.places | ({path: Place(path, path, Kind.MISSING)} if name == "missing" else {})
    plan = make_plan(policy, TRUE, host, msgspec.structs.replace(disk, places=places, folding=folding))

    assert [gap.need for gap in plan.gaps if gap.what == f"denied in every spelling: {path}"] == [need] * (
        need is not None
    )


@pytest.mark.parametrize(
    ("workspace", "path", "expected"),
    [
        ("/w", "/w/x", True),
        ("/w", "/home/x", True),
        ("/w", "/tmp/x", False),
        ("/w", "/dev/null", False),
        ("/tmp/w", "/tmp/w/x", True),
        ("/tmp/w", "/tmp/wx", False),
    ],
)
def test_a_file_of_the_host_is_the_same_inside_but_where_others_stand(
    workspace: str, path: str, expected: bool
) -> None:
    assert shows(Policy(workspace, ()), path) is expected


@pytest.mark.parametrize(
    ("escape", "host", "why"),
    [
        (Verdict.ASK, Host.linux(0, namespaces=False), "nobody here answers the command's calls"),
        (Verdict.DENY, Host.linux(7), "the boundary says that nothing is asked"),
    ],
)
def test_questions_that_nobody_can_hear_are_a_gap(escape: Verdict, host: Host, why: str) -> None:
    policy = msgspec.structs.replace(POLICY, asking=True, escape=escape)
    need = Need.REQUIRED if escape is Verdict.ASK else Need.WANTED

    assert [(gap.what, gap.why, gap.need) for gap in asking_gaps(policy, host)] == [("questions (--ask)", why, need)]
    assert asking_gaps(POLICY, host) == []
    heard = asking_gaps(msgspec.structs.replace(policy, escape=Verdict.ASK), Host.linux(7))
    assert {gap.need for gap in heard} == {Need.WANTED}
    assert "questions (--ask)" not in {gap.what for gap in heard}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ((rule("read", "allow", "/"), rule("write", "allow", WS)), 0),
        ((rule("read", "allow", "/"), rule("write", "allow", WS), rule("write", "deny", f"{WS}/.git/config")), 1),
        ((rule("read", "allow", "/"), rule("write", "allow", WS), rule("write", "deny", f"{WS}/.mcp.json")), 0),
        ((rule("read", "allow", "/"), rule("write", "allow", WS), rule("read", "deny", f"{WS}/.git/config")), 0),
    ],
)
def test_a_pipe_where_nothing_is_to_be_written_is_told_of_where_there_may_be_one(
    rules: tuple[Rule, ...], expected: int
) -> None:
    plan = planned(Host.linux(), Policy(WS, rules))

    assert len([gap for gap in plan.gaps if gap.what.startswith("named pipes in read-only places")]) == expected
