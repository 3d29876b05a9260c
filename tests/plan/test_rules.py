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
    Network,
    Origin,
    Place,
    Policy,
    Rule,
    Verdict,
)
from ringfence.plan.rules import (
    absent_names,
    has_broker,
    has_unix_sockets,
    has_warden,
    is_swayed,
    swayed,
    with_git_insides,
    with_git_programs,
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
        (Host.linux(6, namespaces=False, traces=False), True, False),
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
    assert with_git_programs(Policy(WS, ()), ["/w/tool"]) == Policy(WS, ())  # path rules are switched off
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
