"""What is to hold, and who is there to hold it: the questions that the planner asks of a policy and a machine."""

import msgspec
import pytest

from ringfence.model import (
    BUILT_IN,
    Access,
    Disk,
    Enactor,
    Host,
    Injection,
    Kind,
    Need,
    Network,
    Origin,
    Place,
    Policy,
    Rule,
    Verdict,
)
from ringfence.plan.rules import (
    absent_names,
    as_viewed,
    denied_paths,
    has_broker,
    has_unix_sockets,
    has_warden,
    is_swayed,
    narrowed,
    swayed,
    with_git_insides,
    with_git_programs,
    with_pointers,
    without_absent,
)

READ, WRITE, ALLOW, DENY = Access.READ, Access.WRITE, Verdict.ALLOW, Verdict.DENY
HERE = Origin("p", 1)
WS = "/w"
OPEN = Policy(WS, (), Network(open=True))


def directory(path: str, real: str = "", links: tuple[str, ...] = ()) -> Place:
    return Place(path, real or path, Kind.DIRECTORY, 1, 2, links=links)


@pytest.mark.parametrize(
    ("host", "warden", "broker"),
    [
        (Host.linux(7), True, True),
        (Host.linux(2), True, True),
        (Host.linux(1), True, False),
        (Host.linux(7, fresh_proc=False), True, False),
        (Host.linux(7, seccomp=False), True, False),
        (Host.linux(7, enactor=Enactor.PYTHON), False, False),
        (Host.linux(6, namespaces=False), True, True),
        (Host.linux(5, namespaces=False), False, False),
        (Host.linux(7, yama=2), True, True),
        (Host.linux(7, yama=3), True, False),
        (Host.linux(6, namespaces=False, yama=1), True, True),
        (Host.linux(6, namespaces=False, yama=2), True, False),
        (Host.linux(7, namespaces=False, layers=15), True, False),
        (Host.linux(7, namespaces=False, layers=9), False, False),
    ],
)
def test_who_stays_with_a_run_and_whether_it_answers(host: Host, warden: bool, broker: bool) -> None:
    assert (has_warden(host), has_broker(Policy(WS, ()), host)) == (warden, broker)
    assert not has_broker(Policy(WS, (), nested=True), host)


@pytest.mark.parametrize(
    ("policy", "host", "expected"),
    [
        (Policy(WS, ()), Host.linux(7), True),
        (Policy(WS, ()), Host.linux(7, namespaces=False), False),
        (OPEN, Host.linux(7, namespaces=False), False),
        (OPEN, Host.linux(7, namespaces=False, layers=15), True),
        (Policy(WS, ()), Host.linux(7, namespaces=False, layers=15), False),
        (Policy(WS, ()), Host.linux(7, namespaces=False, layers=15, loopback_only=True), True),
        (Policy(WS, (), Network(all_unix_sockets=True)), Host.linux(7, namespaces=False), True),
    ],
)
def test_unix_sockets_are_made_where_somebody_judges_them(policy: Policy, host: Host, expected: bool) -> None:
    assert has_unix_sockets(policy, host) is expected


@pytest.mark.parametrize(
    ("link", "origin", "is_turned"),
    [
        ("/w/link", HERE, True),
        ("/opt/link", HERE, False),
        ("/real/data/link", HERE, True),  # by a link that stays as it is, to where the command writes
        ("/mine/link", HERE, False),  # what leads there could be turned itself, and is not given
        ("/w/link", BUILT_IN, False),
    ],
)
def test_a_link_counts_where_a_command_may_replace_it(link: str, origin: Origin, is_turned: bool) -> None:
    granted = Rule(READ, ALLOW, "/asked", HERE)
    written = [Rule(WRITE, ALLOW, path, HERE) for path in (WS, "/data", "/w/mine")]
    policy = Policy(WS, (*written, granted))
    places = (
        directory(WS),
        directory("/data", "/real/data", ("/data",)),
        directory("/w/mine", "/mine", ("/w/mine",)),
        directory("/asked", "/elsewhere", (link,)),
        directory("/shown"),
    )
    disk = Disk({place.asked: place for place in places})

    assert (granted in swayed(policy, disk)) is (is_turned or origin == BUILT_IN)
    assert is_swayed(Injection("/asked", "/shown", origin), policy, disk) is is_turned


def test_what_git_runs_is_kept_as_its_hooks_are() -> None:
    hooks = Rule(WRITE, DENY, f"{WS}/.git/hooks", BUILT_IN)
    policy = Policy(WS, (hooks,))

    assert with_git_programs(policy, []) is policy
    for rules in ((), (Rule(WRITE, DENY, hooks.path, HERE),)):  # path rules are switched off
        assert with_git_programs(Policy(WS, rules), ["/w/tool"]).rules == rules
    assert [rule.path for rule in with_git_programs(policy, ["/w/tool"]).rules] == [hooks.path, "/w/tool"]


@pytest.mark.parametrize(
    ("worktrees", "modules", "kept"),
    [
        ([], [], ["/w/.git/modules"]),
        ([], None, ["/w/.git/modules", "/w/.git/modules"]),
        ([], ["/w/.git/modules/m"], ["/w/.git/modules/m/config", "/w/.git/modules/m/hooks"]),
        (None, [], ["/w/.git/modules", "/w/.git/worktrees"]),
        (["/w/.git/worktrees/t"], [], ["/w/.git/modules", "/w/.git/worktrees/t/gitdir"]),
    ],
)
def test_repositories_inside_a_repository_are_kept(
    worktrees: list[str] | None, modules: list[str] | None, kept: list[str]
) -> None:
    whole = Rule(WRITE, DENY, f"{WS}/.git/modules", BUILT_IN)
    found = [rule.path for rule in with_git_insides(Policy(WS, (whole,)), f"{WS}/.git", worktrees, modules).rules]

    assert [path for path in found if path in kept] == kept
    assert ("/w/.git/modules" in found) is not bool(modules)


def test_absent_names_are_those_of_the_workspace_that_nobody_may_make() -> None:
    rules = [Rule(WRITE, DENY, path, BUILT_IN) for path in ("/w/.mcp.json", "/w/there", "/elsewhere")]
    rules += [Rule(READ, DENY, "/w/hidden", HERE), Rule(WRITE, ALLOW, "/w/mine", HERE)]
    missing = {path: Place(path, path, Kind.MISSING) for path in ("/w/.mcp.json", "/elsewhere", "/w/hidden", "/w/mine")}
    disk = Disk({**missing, "/w/there": directory("/w/there"), "/w/.git": directory("/w/.git")})

    assert absent_names(Policy(WS, tuple(rules)), disk) == ("/w/.mcp.json",)
    alone = msgspec.structs.replace(disk, places={**disk.places, "/w/.git": Place("/w/.git", "/w/.git", Kind.MISSING)})
    assert absent_names(Policy(WS, tuple(rules)), alone) == ("/w/.git", "/w/.mcp.json")


def missing(path: str, links: tuple[str, ...] = ()) -> Place:
    return Place(path, path, Kind.MISSING, links=links)


def test_what_is_built_in_of_places_that_nobody_can_make_is_left_out_of_a_view() -> None:
    gone = Rule(READ, DENY, "/absent/key", BUILT_IN)
    kept = (
        Rule(WRITE, ALLOW, WS, BUILT_IN),
        Rule(READ, DENY, "/absent/mine", HERE),
        Rule(READ, ALLOW, "/absent/given", BUILT_IN),
        Rule(READ, DENY, "/absent/by-link", BUILT_IN),
        Rule(READ, DENY, "/absent/*.key", BUILT_IN, glob=True),
        Rule(READ, DENY, "/there", BUILT_IN),
        Rule(WRITE, DENY, f"{WS}/.mcp.json", BUILT_IN),
    )
    absent = [missing(rule.path) for rule in (gone, *kept[1:3], kept[6])]
    places = (*absent, directory(WS), directory("/there"), missing("/absent/by-link", ("/absent",)))
    disk = Disk(
        {place.asked: place for place in (*places, *(directory(path) for path in ("/tmp", "/var/tmp", "/dev/shm")))}
    )
    policy = Policy(WS, (gone, *kept))

    assert without_absent(policy, Host.linux(7), disk).rules == kept
    assert without_absent(policy, Host.linux(7, namespaces=False), disk) is policy
    asked = msgspec.structs.replace(policy, asking=True)
    assert without_absent(asked, Host.linux(7), disk) is asked


def test_what_a_files_own_mode_closes_needs_no_mount_and_devices_are_the_planners() -> None:
    shut = {path: Place(path, path, Kind.FILE, 1, 2, readable=False) for path in ("/shut", "/mine")}
    left_out = (Rule(READ, DENY, "/shut", BUILT_IN), Rule(WRITE, ALLOW, "/dev/null", BUILT_IN))
    kept = (
        Rule(READ, DENY, "/mine", HERE),
        Rule(READ, ALLOW, "/shut", BUILT_IN),
        Rule(WRITE, DENY, "/shut", BUILT_IN),
        Rule(READ, DENY, "/open", BUILT_IN),
        Rule(READ, DENY, "/*.key", BUILT_IN, glob=True),
        Rule(READ, DENY, "/dev/null", HERE),
    )
    disk = Disk({**shut, "/open": directory("/open"), **{path: directory(path) for path in ("/dev", "/dev/null")}})
    found = as_viewed(Policy(WS, (*left_out, *kept)), disk)

    assert [rule for rule in found.rules if rule.path != "/dev"] == list(kept)


@pytest.mark.parametrize("uid", [0, 1000])
def test_without_a_view_the_systems_secrets_are_left_to_their_modes_but_by_root(uid: int) -> None:
    system, own = Rule(READ, DENY, "/etc/shadow", BUILT_IN), Rule(READ, DENY, "/etc/shadow", HERE)
    protected = Rule(WRITE, DENY, f"{WS}/.mcp.json", BUILT_IN, need=Need.WANTED)
    private = Rule(WRITE, ALLOW, "/tmp", BUILT_IN)
    disk = Disk({path: directory(path) for path in ("/etc/shadow", f"{WS}/.mcp.json", "/tmp")})
    found = narrowed(
        Policy(WS, (system, own, protected, private)), disk, "/tmp/own", Host.linux(7, False, uid=uid)
    ).rules

    assert (system in found, own in found, protected in found, private in found) == (uid == 0, True, False, False)
    assert Rule(READ, DENY, "/tmp", BUILT_IN) in found
    assert {rule.path for rule in found if rule.verdict is ALLOW} == {"/tmp/own", "/dev/shm"}


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        (Kind.DIRECTORY, ["/w/.git/hooks", "/w/.git/mine"]),
        (Kind.MISSING, ["/w/.git/mine"]),
        (Kind.FILE, ["/w/.git/mine", "/w/.git"]),
    ],
)
def test_a_git_directory_that_is_a_file_is_kept_itself(kind: Kind, kept: list[str]) -> None:
    rules = (Rule(WRITE, DENY, "/w/.git/hooks", BUILT_IN), Rule(WRITE, DENY, "/w/.git/mine", HERE))
    disk = Disk({"/w/.git": Place("/w/.git", "/w/.git", kind, 1, 2), "/w/.jj/repo": directory("/w/.jj/repo")})

    assert [rule.path for rule in with_pointers(Policy(WS, rules), disk).rules] == kept


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        (Kind.DIRECTORY, ["/w/.jj/repo/config.toml"]),
        (Kind.MISSING, ["/w/.jj/repo"]),
        (Kind.FILE, ["/w/.jj/repo"]),
    ],
)
def test_what_says_where_jujutsu_finds_its_repository_is_kept_itself(kind: Kind, kept: list[str]) -> None:
    rules = (Rule(WRITE, DENY, "/w/.jj/repo/config.toml", BUILT_IN),)
    disk = Disk({"/w/.git": directory("/w/.git"), "/w/.jj/repo": Place("/w/.jj/repo", "/w/.jj/repo", kind, 1, 2)})

    assert [rule.path for rule in with_pointers(Policy(WS, rules), disk).rules] == kept


def test_what_somebody_only_denies_needs_not_be_known() -> None:
    rules = [Rule(READ, DENY, path, HERE) for path in ("/only", "/both", "/given")]
    rules += [Rule(READ, DENY, "/both", BUILT_IN), Rule(WRITE, ALLOW, "/given", HERE), Rule(READ, ALLOW, "/", HERE)]
    rules.append(Rule(READ, DENY, "/*.key", HERE, glob=True))

    assert denied_paths(Policy(WS, tuple(rules))) == {"/only"}
    assert denied_paths(Policy(WS, (Rule(READ, DENY, "/only", BUILT_IN),))) == set()
