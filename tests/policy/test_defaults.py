"""The built-in policy: what it opens, what it closes, and which workspaces it refuses."""

import pytest

from ringfence.model import BUILT_IN, Access, Need, PolicyError, Verdict
from ringfence.policy import decide
from ringfence.policy.defaults import DEVICES, PRIVATE, built_in
from ringfence.policy.flags import Flags, flags_layer
from ringfence.policy.layer import merge
from ringfence.policy.paths import Base
from ringfence.policy.stores import SECRETS, SYSTEM_SECRETS
from ringfence.policy.tables import CLOSED, OPENED, PROTECTED, STARTUP, TOOLS

HOME, WS = "/home/u", "/home/u/ws"
READ, WRITE, ALLOW, DENY = Access.READ, Access.WRITE, Verdict.ALLOW, Verdict.DENY
POLICY = merge(WS, (built_in(WS, (HOME,), (f"{WS}/.venv", "/usr/lib/ringfence")),))


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ("/usr/bin/env", ALLOW),
        ("/etc/passwd", ALLOW),
        ("/etc/ssl/certs/ca.pem", ALLOW),
        ("/etc/ssh/ssh_config", ALLOW),
        ("/etc/ssh/ssh_host_rsa_key", DENY),
        ("/etc/ssh/ssh_host_rsa_key.pub", ALLOW),
        ("/etc/shadow", DENY),
        ("/opt/tool/bin/x", ALLOW),
        ("/home/u", DENY),
        ("/home/u/ws/a", ALLOW),
        ("/home/u/wsx", DENY),
        ("/home/other/.bashrc", DENY),
        ("/root/.ssh", DENY),
        ("/home/u/.cargo/bin/cargo", ALLOW),
        ("/home/u/.local/pipx/venvs/ringfence/bin/python", ALLOW),  # before pipx 1.2, which Debian 12 does not have
        ("/home/u/.cargo/credentials.toml", DENY),
        ("/home/u/.local/share/uv/python", ALLOW),
        ("/home/u/.local/share/uv/credentials/x", DENY),
        ("/home/u/.npm/_cacache", ALLOW),
        ("/home/u/.npmrc", DENY),
        ("/home/u/.cache/pip/x", ALLOW),
        ("/home/u/.cache/google-chrome", DENY),
        ("/home/u/.cache/unheard-of", DENY),
        ("/home/u/go/pkg/mod", ALLOW),
        ("/home/u/go/src/other", DENY),
        ("/home/u/.gitconfig", ALLOW),
        ("/home/u/.config/git/config", ALLOW),
        ("/home/u/.config/git/credentials", DENY),
        ("/home/u/unheard-of", DENY),
        ("/run/docker.sock", DENY),
        ("/run/user/1000/bus", DENY),
        ("/run/systemd/resolve/stub-resolv.conf", ALLOW),
        ("/run/systemd/resolve/io.systemd.Resolve", DENY),
        ("/run/current-system/sw/bin", ALLOW),
        ("/var/lib/docker/x", DENY),
        ("/var/log/auth.log", DENY),
        ("/mnt/c/Users", DENY),
        ("/srv/tenant", DENY),
        ("/tmp/x", ALLOW),
    ],
)
def test_the_system_is_readable_and_peoples_things_are_not(path: str, verdict: Verdict) -> None:
    assert decide(POLICY, READ, path).verdict is verdict


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        (f"{WS}/src/a.py", ALLOW),
        (f"{WS}/.git/index", ALLOW),
        (f"{WS}/.git/worktrees/x", ALLOW),
        (f"{WS}/.git/hooks/pre-commit", DENY),
        (f"{WS}/.git/config", DENY),
        (f"{WS}/.git/modules/x/hooks", DENY),
        (f"{WS}/.mcp.json", DENY),
        (f"{WS}/.vscode/tasks.json", DENY),
        (f"{WS}/.claude/settings.json", DENY),
        (f"{WS}/.ringfence/policy.json", DENY),
        (f"{WS}/.pre-commit-config.yaml", ALLOW),
        (f"{WS}/.venv/bin/python", DENY),
        ("/home/u/.bashrc", DENY),
        ("/home/u/x", DENY),
        ("/usr/lib/x", DENY),
        ("/tmp/x", ALLOW),
        ("/dev/shm/x", ALLOW),
        ("/dev/null", ALLOW),
        ("/dev/pts/3", ALLOW),
        ("/dev/sda", DENY),
        ("/dev/nullx", DENY),
    ],
)
def test_the_workspace_is_writable_but_for_what_runs_later(path: str, verdict: Verdict) -> None:
    assert decide(POLICY, WRITE, path).verdict is verdict


@pytest.mark.parametrize("name", [name for name, _ in SECRETS])
def test_a_store_of_secrets_stays_closed_under_a_wider_grant_until_it_is_named(name: str) -> None:
    base = Base(WS, HOME)
    built = built_in(WS, (HOME,))
    wider = merge(WS, (built, flags_layer(Flags(allow_read=("~", "/")), base)))
    named = merge(WS, (built, flags_layer(Flags(allow_read=(f"~/{name}",)), base)))

    path = f"{HOME}/{name}/x"
    assert (decide(wider, READ, path).verdict, decide(named, READ, path).verdict) == (DENY, ALLOW)


def test_a_home_that_may_be_written_keeps_what_runs_at_login() -> None:
    flags = Flags(allow_read=("~",), allow_write=("~",))
    policy = merge(WS, (built_in(WS, (HOME,)), flags_layer(flags, Base(WS, HOME))))

    closed = [name for name, _ in STARTUP if decide(policy, WRITE, f"{HOME}/{name}").verdict is DENY]
    assert (closed, decide(policy, WRITE, f"{HOME}/notes").verdict) == ([name for name, _ in STARTUP], ALLOW)


def test_protections_of_names_are_wanted_and_everything_else_is_required() -> None:
    wanted = {rule.path for rule in POLICY.rules if rule.need is Need.WANTED}

    assert wanted == {f"{WS}/{name}" for name, _ in PROTECTED} | {f"{HOME}/{name}" for name, _ in STARTUP}


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ("a/b/.claude/settings.json", DENY),
        ("a/b/opencode.json", DENY),
        ("a/.mcp.json", DENY),
        ("a/b/.git/hooks/x", ALLOW),  # a repository there is the command's own to make
        ("a/c/.claude/x", ALLOW),
        ("a/b/src/x", ALLOW),
    ],
)
def test_where_a_command_begins_the_names_are_held_too(path: str, verdict: Verdict) -> None:
    policy = merge(WS, (built_in(WS, (HOME,), start=f"{WS}/a/b"),))

    assert decide(policy, WRITE, f"{WS}/{path}").verdict is verdict


@pytest.mark.parametrize(
    ("start", "held"),
    [(WS, []), (f"{WS}x/a", []), ("/", []), (f"{WS}/1/2/3/4/5/6", ["1/2/3", "1/2/3/4", "1/2/3/4/5", "1/2/3/4/5/6"])],
)
def test_of_the_directories_on_the_way_there_only_the_last_ones(start: str, held: list[str]) -> None:
    layer = built_in(WS, (HOME,), start=start)
    found = [rule.path for rule in layer.rules if rule.path.endswith("/.claude") and rule.access is WRITE]

    assert sorted(found) == sorted(f"{WS}/{name}/.claude".replace("//", "/") for name in ("", *held))


def test_every_built_in_rule_says_what_it_is_for() -> None:
    assert [rule for rule in POLICY.rules if not rule.why or rule.origin != BUILT_IN] == []


@pytest.mark.parametrize("table", [CLOSED, OPENED, SYSTEM_SECRETS])
def test_a_system_table_has_absolute_paths_each_once(table: tuple[tuple[str, str], ...]) -> None:
    paths = [path for path, _ in table]

    assert [path for path in paths if not path.startswith("/") or path != path.rstrip("/")] == []
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("table", [SECRETS, TOOLS, PROTECTED, STARTUP])
def test_a_table_of_names_has_relative_paths_each_once(table: tuple[tuple[str, str], ...]) -> None:
    paths = [path for path, _ in table]

    assert [path for path in paths if path.startswith(("/", "~")) or set("*?[{ ") & set(path)] == []
    assert len(paths) == len(set(paths))


def test_no_tool_is_opened_at_or_inside_a_store_of_secrets() -> None:
    stores = [name for name, _ in SECRETS]

    assert [name for name, _ in TOOLS if any(f"{name}/".startswith(f"{store}/") for store in stores)] == []


def test_private_places_have_no_read_denials() -> None:
    assert [rule.path for rule in POLICY.rules if rule.access is READ and rule.path in (*PRIVATE, *DEVICES)] == []


@pytest.mark.parametrize(
    ("workspace", "homes", "what"),
    [
        ("/", (), "/ belongs to the whole system"),
        ("/etc", (), "/etc belongs to the whole system"),
        ("/tmp", (), "/tmp belongs to the whole system"),
        ("/home", ("/home/u",), "/home belongs to the whole system"),
        ("/proc/self/cwd", (), "/proc/self/cwd belongs to the whole system"),
        ("/dev/shm", (), "/dev/shm belongs to the whole system"),
        ("/home/u", ("/home/u",), "/home/u is a home directory"),
        ("/data", ("/data/people/u",), "/data holds the home directory /data/people/u"),
        ("/data/u", ("/tmp/fake", "/data/u"), "/data/u is a home directory"),
        ("/home/u/.ssh", ("/home/u",), "/home/u/.ssh lies in a store of secrets (ssh keys)"),
        ("/home/u/.aws/x", ("/home/u",), "/home/u/.aws/x lies in a store of secrets (cloud keys)"),
    ],
)
def test_a_workspace_that_is_too_much_is_refused(workspace: str, homes: tuple[str, ...], what: str) -> None:
    with pytest.raises(PolicyError) as caught:
        built_in(workspace, homes)
    assert (caught.value.place, caught.value.what, caught.value.hint) == (
        "workspace",
        what,
        "start ringfence in the project's directory, or name one with --workspace",
    )


@pytest.mark.parametrize("workspace", ["/app", "/dev/shm/ws", "/srv/x", "/tmp/x", "/root/x", "/home/u2", "/usr/src/x"])
def test_an_ordinary_workspace_is_open(workspace: str) -> None:
    policy = merge(workspace, (built_in(workspace, ("/home/u", "/")),))

    verdicts = [decide(policy, access, f"{workspace}/a").verdict for access in Access]
    assert verdicts == [ALLOW, ALLOW]


@pytest.mark.parametrize("home", ["/", "/usr/sbin", "/bin"])
def test_a_home_that_is_the_systems_closes_nothing_of_the_system(home: str) -> None:
    policy = merge("/app", (built_in("/app", (home,)),))

    assert decide(policy, READ, "/usr/sbin/x").verdict is ALLOW


def test_without_a_home_nothing_is_opened() -> None:
    with_home = {rule.path for rule in built_in("/app", (HOME,)).rules}
    without = {rule.path for rule in built_in("/app").rules}

    assert without <= with_home
    assert [path for path in with_home - without if not path.startswith(f"{HOME}/") and path != HOME] == []
