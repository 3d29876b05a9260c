"""Finding and believing the layers: real files, as root and as anyone else."""

import errno
import os
import resource
import time
from pathlib import Path

import msgspec
import pytest

from ringfence.model import Access, Enforcement, Network, Origin, Policy, PolicyError, Rule, UsageError, Verdict
from ringfence.policy import Flags, Reach, decide, distrust, load, trust
from ringfence.policy.trust import MAX_BYTES, policy_file, store_of, trusted_digest

READ, WRITE, ALLOW, DENY = Access.READ, Access.WRITE, Verdict.ALLOW, Verdict.DENY


class World:
    """A home, a workspace beside it, and a managed directory, all of them ours."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.workspace = root / "ws"
        self.managed = root / "managed"
        self.environ = {"HOME": str(self.home)}
        for directory in (self.home, self.workspace, self.managed):
            directory.mkdir(mode=0o755)

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def user(self, text: str, name: str = "policy.json", mode: int = 0o644) -> Path:
        return self.write(f"home/.config/ringfence/{name}", text, mode)

    def project(self, text: str, name: str = "policy.json") -> Path:
        return self.write(f"ws/.ringfence/{name}", text)

    def load(self, flags: Flags = Flags(), owner: int | None = None) -> Policy:  # noqa: B008 - frozen
        return load(
            str(self.workspace),
            flags,
            environ=self.environ,
            managed=str(self.managed),
            managed_owner=os.getuid() if owner is None else owner,
        )

    def error(self, flags: Flags = Flags(), owner: int | None = None) -> tuple[str, str, str]:  # noqa: B008 - frozen
        with pytest.raises((PolicyError, UsageError)) as caught:
            self.load(flags, owner)
        return caught.value.place, caught.value.what, caught.value.hint


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path.resolve())


def of(policy: Policy, *sources: str) -> tuple[Rule, ...]:
    return tuple(rule for rule in policy.rules if rule.origin.source in sources)


def test_all_layers_come_together_in_their_order(world: World) -> None:
    managed = world.write("managed/10.json", '{"filesystem": {"denyRead": ["/m"]}}')
    user = world.user('[filesystem]\nallowRead = ["~/notes"]', "policy.toml")
    project = world.project('{"filesystem":\n{"denyRead": ["private"]}}')
    explicit = world.write("extra.json", '{"network": {"allowNetwork": true}}')
    flags = Flags(deny_write=("out",), policy_files=("../extra.json",), cwd=str(world.workspace))

    policy = world.load(flags)

    given = str(world.workspace / "../extra.json")
    assert of(policy, str(managed), str(user), str(project), "--deny-write") == (
        Rule(READ, DENY, "/m", Origin(str(managed), 1), always=True),
        Rule(READ, ALLOW, f"{world.home}/notes", Origin(str(user), 2)),
        Rule(READ, DENY, f"{world.workspace}/private", Origin(str(project), 2)),
        Rule(WRITE, DENY, f"{world.workspace}/out", Origin("--deny-write")),
    )
    assert (policy.sources, policy.network) == ((str(managed), str(user), str(project), given), Network(open=True))
    assert explicit.exists()


def test_flags_say_the_last_word_and_relative_paths_start_where_one_stands(world: World) -> None:
    world.user('{"network": {"allowNetwork": true}, "enforcement": "off"}')
    flags = Flags(
        allow_read=("a", "/b/**"),
        allow_write=("~/c",),
        allow_env=("X", "Y_*"),
        network=Reach.CLOSED,
        enforcement=Enforcement.BEST_EFFORT,
        cwd="/somewhere",
    )

    policy = world.load(flags)

    assert of(policy, "--allow-read", "--allow-write") == (
        Rule(READ, ALLOW, "/somewhere/a", Origin("--allow-read")),
        Rule(READ, ALLOW, "/b", Origin("--allow-read")),
        Rule(WRITE, ALLOW, f"{world.home}/c", Origin("--allow-write")),
        Rule(READ, ALLOW, f"{world.home}/c", Origin("--allow-write"), implied=True),
    )
    assert (policy.network, policy.enforcement, policy.environment.allow) == (
        Network(),
        Enforcement.BEST_EFFORT,
        ("X", "Y_*"),
    )


@pytest.mark.parametrize(
    ("flags", "place", "what"),
    [
        (Flags(allow_read=("",)), "--allow-read", "an empty path"),
        (Flags(deny_write=("/a\0",)), "--deny-write", "'/a\\x00' holds a NUL character"),
        (Flags(deny_read=("/a\udcff",)), "--deny-read", "'/a\\udcff' is not valid UTF-8"),
        (Flags(allow_env=("*",)), "--allow-env", "'*' is no variable's name"),
        (Flags(policy_files=("/nowhere/x.json",)), "/nowhere/x.json", "cannot be read: No such file or directory"),
        (Flags(policy_files=("/dev/null",)), "/dev/null", "is not a regular file"),
        (Flags(policy_files=("/",)), "/", "is not a regular file"),
        (Flags(policy_files=("/a\0b",)), "/a\0b", None),
    ],
)
def test_a_bad_flag_is_named(world: World, flags: Flags, place: str, what: str | None) -> None:
    found = world.error(flags)

    assert (found[0], found[1] if what else None) == (place, what)


# --- what is believed -------------------------------------------------------------------------------------------


def test_two_policy_files_in_one_place_are_one_too_many(world: World) -> None:
    world.user("{}")
    world.user("", "policy.toml")

    assert world.error() == (
        f"{world.home}/.config/ringfence",
        "holds both policy.json and policy.toml",
        "keep one of them",
    )


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_user_policy_that_others_can_write_is_refused(world: World, mode: int) -> None:
    path = world.user("{}", mode=mode)

    assert world.error() == (str(path), "can be written by others", f"chmod go-w {path}")


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_managed_policy_that_others_can_write_is_refused(world: World, mode: int) -> None:
    path = world.write("managed/a.toml", "", mode)

    assert world.error() == (str(path), "can be written by others than root", f"chmod go-w {path}")


def test_a_managed_policy_that_is_not_roots_is_refused(world: World) -> None:
    world.write("managed/a.json", "{}")

    place, what, _ = world.error(owner=os.getuid() + 1)

    assert (place, what) == (str(world.managed), f"belongs to uid {os.getuid()}, not to root")


def test_a_managed_directory_that_others_can_write_is_refused(world: World) -> None:
    world.write("managed/a.json", "{}")
    world.managed.chmod(0o777)

    assert world.error()[0] == str(world.managed)


def test_other_names_in_the_managed_directory_are_no_policies(world: World) -> None:
    for name in ("README", ".a.json", "a.json~", "b.yaml"):
        world.write(f"managed/{name}", "not a policy")

    assert world.load().sources == ()


def test_a_policy_that_is_a_fifo_is_refused_at_once(world: World) -> None:
    path = world.project("{}")
    path.unlink()
    os.mkfifo(path)  # nobody ever writes to it

    assert world.error() == (str(path), "is not a regular file", "a policy is a plain file")


def test_a_policy_that_is_too_large_is_refused_unread(world: World) -> None:
    path = world.project("")
    with path.open("wb") as file:
        file.truncate(50 << 20)

    assert world.error() == (str(path), f"holds {50 << 20} bytes", f"a policy file has at most {MAX_BYTES}")


def test_a_link_to_nowhere_is_no_missing_policy(world: World) -> None:
    path = world.project("{}")
    path.unlink()
    path.symlink_to("nowhere")

    assert world.error()[:2] == (str(path), "is reached through a link")


@pytest.mark.parametrize(
    ("name", "which", "number"),
    [
        ("home/.config/ringfence/policy.json", 3, errno.EIO),
        ("ws/.ringfence/policy.toml", 2, errno.EIO),
        ("ws/.ringfence/policy.toml", 2, errno.EACCES),  # a command of another run closes and opens its workspace
    ],
)
def test_a_policy_that_cannot_be_looked_at_is_no_missing_policy(
    world: World, name: str, which: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network's disk may fail once: after it was seen that nothing has changed, and before it is read."""
    path, real, looks = str(world.write(name, "{}")), os.lstat, list[str]()

    def failing(asked: str) -> os.stat_result:
        looks.append(asked)
        if asked == path and looks.count(path) == which:
            raise OSError(number, os.strerror(number), path)
        return real(asked)

    monkeypatch.setattr(os, "lstat", failing)

    assert world.error()[:2] == (path, f"cannot be looked at: {os.strerror(number)}")


def test_an_error_in_a_file_names_its_line(world: World) -> None:
    path = world.user('{\n"filesytem": {}}')

    assert world.error() == (f"{path}:2", "unknown key 'filesytem'", "did you mean 'filesystem'?")


# --- who could write it -----------------------------------------------------------------------------------------


def exposed(path: str, rule: str, target: str) -> tuple[str, str, str]:
    return (
        path,
        f"the command could write this file, for {rule} lets it write {target}",
        "it decides what is allowed: keep it out of what may be written, or add it to denyWrite",
    )


def test_a_link_into_another_process_exposes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command leaves it where writing is granted: the planner says what becomes of that, with a way out."""
    link = os.path.join(world.workspace, "link")
    os.symlink("/proc/1/root", link)
    real = os.readlink

    def closed(path: str) -> str:
        if path == "/proc/1/root":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path)

    monkeypatch.setattr(os, "readlink", closed)

    assert link in [rule.path for rule in world.load(Flags(allow_write=(link,))).rules]


def test_a_command_that_could_write_the_users_policy_is_refused_though_there_is_none_yet(world: World) -> None:
    flags = Flags(allow_write=("~/.config",))

    assert world.error(flags) == exposed(
        f"{world.home}/.config/ringfence/policy.json", "--allow-write", f"{world.home}/.config"
    )


def test_a_command_that_could_write_the_trust_store_is_refused(world: World) -> None:
    path = world.user('{"filesystem": {"allowWrite": ["~/.local"]}}')

    assert world.error() == exposed(
        f"{world.home}/.local/state/ringfence/trust.json", f"{path}:1", f"{world.home}/.local"
    )


def test_a_command_that_could_answer_for_the_hook_that_stays_is_refused(world: World) -> None:
    place = world.workspace / "run"
    world.environ["XDG_RUNTIME_DIR"] = str(place)

    assert world.error() == exposed(f"{place}/ringfence", "built-in", str(world.workspace))
    assert world.load(Flags(deny_write=("run/ringfence",))).rules


def test_a_policy_file_in_the_workspace_is_refused_unless_writing_it_is_denied(world: World) -> None:
    path = world.write("ws/policy.json", "{}")
    flags = Flags(policy_files=(str(path),))

    assert world.error(flags) == exposed(str(path), "built-in", str(world.workspace))
    assert world.load(msgspec.structs.replace(flags, deny_write=("policy.json",))).sources == (str(path),)


def test_a_users_policy_that_is_a_link_into_the_workspace_is_refused(world: World) -> None:
    target = world.write("ws/mine.json", "{}")
    link = world.user("{}")
    link.unlink()
    link.symlink_to(target)

    assert world.error() == exposed(str(target), "built-in", str(world.workspace))


def test_a_writable_link_to_the_users_directory_is_seen_through(world: World) -> None:
    world.user("{}")
    (world.workspace / "link").symlink_to(world.home / ".config")
    flags = Flags(allow_write=("link",))

    assert world.error(flags)[0] == f"{world.home}/.config/ringfence/policy.json"


def test_the_projects_own_policy_is_protected_by_the_built_in_rules(world: World) -> None:
    world.project("{}")
    trust(str(world.workspace), world.environ)

    assert decide(world.load(), WRITE, f"{world.workspace}/.ringfence/policy.json").verdict is DENY


def test_a_project_policy_that_is_reached_through_a_link_is_refused_unread(world: World) -> None:
    target = world.write("ws/p.json", '{"secret": 1}')
    link = world.project("{}")
    link.unlink()
    link.symlink_to(target)

    place, what, _ = world.error()

    assert (place, what) == (str(link), "is reached through a link")


def test_with_path_rules_off_our_own_files_are_still_unwritable(world: World) -> None:
    path = world.user('{"filesystem": {"disabled": true}}')
    policy = world.load()

    verdicts = [decide(policy, WRITE, place).verdict for place in ("/etc/x", str(path), str(world.home / "y"))]
    assert verdicts == [ALLOW, DENY, ALLOW]


# --- trust ------------------------------------------------------------------------------------------------------


def test_a_project_widens_once_trusted_and_no_longer_when_it_changes(world: World) -> None:
    path = world.project('{"filesystem": {"allowRead": ["/home/x"]}}')
    sentence = (
        f"{path}:1: the permission to read /home/x has no effect: "
        "the project is not trusted; read the file, then run `ringfence trust`"
    )
    seen = []

    def look() -> None:
        policy = world.load()
        seen.append((decide(policy, READ, "/home/x/y").verdict, policy.ignored))

    look()
    given = trust(str(world.workspace), world.environ)
    look()
    path.write_text('{"filesystem": {"allowRead": ["/home/x" ]}}')
    look()
    trust(str(world.workspace), world.environ)
    look()
    forgotten = distrust(str(world.workspace), world.environ)
    look()

    closed, opened = (DENY, (sentence,)), (ALLOW, ())
    assert seen == [closed, opened, closed, opened, closed]
    assert (given[0], forgotten[0], given[1] != forgotten[1]) == (str(path), str(path), True)


def test_the_store_is_private_and_keyed_by_the_real_path(world: World) -> None:
    path = world.project("{}")
    (world.root / "alias").symlink_to(world.workspace)
    store = Path(store_of(world.environ))

    given = trust(str(world.root / "alias"), world.environ)

    assert (store.stat().st_mode & 0o777, store.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert msgspec.json.decode(store.read_bytes()) == {str(path): given[1]}
    assert trusted_digest(str(world.root / "alias/.ringfence/policy.json"), str(store)) == given[1]
    assert sorted(entry.name for entry in store.parent.iterdir()) == ["trust.json"]


@pytest.mark.parametrize(
    ("content", "mode", "what"),
    [
        ("{", 0o600, "is damaged"),
        ("[]", 0o600, "is damaged"),
        ("[" * 100_000, 0o600, "is damaged"),
        ('{"a": 1}', 0o600, "is damaged"),
        ("{}", 0o622, "others can change it"),
    ],
)
def test_a_store_that_cannot_be_believed_is_refused(world: World, content: str, mode: int, what: str) -> None:
    world.project("{}")
    store = world.write("home/.local/state/ringfence/trust.json", content, mode)

    assert world.error()[:2] == (str(store), what)


def test_a_full_disk_leaves_the_store_as_it_was(world: World) -> None:
    world.project("{}")
    trust(str(world.workspace), world.environ)
    store = Path(store_of(world.environ))
    before = store.read_bytes()
    world.project('{"enforcement": "required"}')
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, limits[1]))  # so much is written, and no more
    try:
        with pytest.raises(PolicyError, match="cannot be written: File too large"):
            trust(str(world.workspace), world.environ)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert store.read_bytes() == before


@pytest.mark.needs_root
def test_nor_is_one_that_belongs_to_another(world: World) -> None:
    world.project("{}")
    store = world.write("home/.local/state/ringfence/trust.json", "{}", 0o600)
    os.chown(store, 65534, -1)

    assert world.error()[:2] == (str(store), "others can change it")


def test_only_a_policy_that_can_be_understood_can_be_trusted(world: World) -> None:
    path = world.project('{"x": 1}')

    with pytest.raises(PolicyError) as caught:
        trust(str(world.workspace), world.environ)
    assert (caught.value.place, Path(store_of(world.environ)).exists()) == (f"{path}:1", False)


def test_trusting_nothing_and_forgetting_nothing_are_errors(world: World) -> None:
    for act in (trust, distrust):
        with pytest.raises(PolicyError, match="holds no policy"):
            act(str(world.workspace), world.environ)


# --- homes and workspaces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("home", ["", "relative", None])
def test_without_a_home_in_the_environment_the_one_on_record_stays_closed(world: World, home: str | None) -> None:
    import pwd

    record = pwd.getpwuid(os.getuid()).pw_dir
    world.environ = {} if home is None else {"HOME": home}

    assert decide(world.load(), READ, f"{record}/.ssh/id_rsa").verdict is DENY


def test_the_commands_own_home_comes_first(world: World) -> None:
    other = world.root / "other"
    other.mkdir()
    policy = load(str(world.workspace), home=str(other), environ=world.environ, managed=str(world.managed))

    verdicts = {
        path: decide(policy, READ, str(path)).verdict
        for path in (other / "x", other / ".cargo/bin", world.home / "x", world.home / ".cargo/bin")
    }
    assert list(verdicts.values()) == [DENY, ALLOW, DENY, DENY]


def test_a_home_that_comes_into_being_is_closed_name_by_name(world: World) -> None:
    other = world.root / "other"

    def rules() -> set[str]:
        found = load(str(world.workspace), home=str(other), environ=world.environ, managed=str(world.managed))
        return {rule.path for rule in found.rules if rule.path.startswith(f"{other}/")}

    assert rules() == set()
    other.mkdir()
    assert f"{other}/.ssh" in rules()


def test_a_workspace_that_is_a_link_is_the_directory_it_leads_to(world: World) -> None:
    (world.root / "alias").symlink_to(world.workspace)

    assert load(str(world.root / "alias"), environ=world.environ).workspace == str(world.workspace)


def test_a_workspace_that_is_no_directory_is_refused(world: World) -> None:
    with pytest.raises(PolicyError) as caught:
        load(str(world.root / "nowhere"), environ=world.environ)
    assert caught.value.what == f"{world.root}/nowhere is not a directory"


@pytest.mark.parametrize(
    ("mode", "inside", "is_masked"), [(0, True, True), (0, False, False), (0o700, True, False), (0o100, False, False)]
)
def test_where_nobody_can_look_a_policy_could_stand_but_behind_the_mask_of_a_run_around_ours(
    mode: int, inside: bool, is_masked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, look = tmp_path / "ringfence", os.lstat
    place.mkdir()
    place.chmod(mode)

    def closed(path: str) -> os.stat_result:
        if os.fspath(path).startswith(f"{place}/"):  # to root nothing is closed
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return look(path)

    monkeypatch.setattr(os, "lstat", closed)
    monkeypatch.setenv("RINGFENCE", "1")
    if not inside:
        monkeypatch.delenv("RINGFENCE")

    if is_masked:
        assert policy_file(str(place)) == ""
    else:
        with pytest.raises(PolicyError, match="cannot be looked at"):
            policy_file(str(place))


# --- memory -----------------------------------------------------------------------------------------------------


def settle() -> None:
    """Until what stands there is old enough to be remembered."""
    time.sleep(0.08)


def test_a_policy_is_remembered_while_nothing_changes(world: World) -> None:
    world.user("{}")
    world.project("{}")
    settle()

    assert world.load() is world.load()
    assert world.load() is not world.load(Flags(cwd="/"))


def test_that_of_a_workspace_is_not_for_another_that_took_its_place(world: World) -> None:
    settle()
    first = world.load()
    world.workspace.rename(world.root / "away")
    world.workspace.mkdir()

    assert world.load() is not first


def test_a_policy_from_files_that_just_changed_is_not_remembered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(load.__globals__, "_SETTLED", 600 * 10**9)  # a busy machine takes its time
    world.user("{}")

    assert world.load() is not world.load()


def test_nor_is_one_that_was_read_slowly(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    read, now = load.__globals__["_load"], [os.stat(world.user("{}")).st_ctime_ns]
    monkeypatch.setitem(load.__globals__, "_file_clock", lambda: now[0])

    def slowly(*what: object) -> object:
        now[0] += 10**9
        return read(*what)

    monkeypatch.setitem(load.__globals__, "_load", slowly)

    assert world.load() is not world.load(), "changed after it was read, within the tick, it would look the same"
    assert world.load() is world.load()


@pytest.mark.parametrize(
    "name",
    [
        "home/.config/ringfence/policy.json",
        "home/.config/ringfence/policy.toml",
        "ws/.ringfence/policy.json",
        "managed/new.json",
        "extra.json",
    ],
)
def test_a_change_of_any_layer_is_seen(world: World, name: str) -> None:
    text = ['{"filesystem": {"denyRead": ["/x"]}}', '{"filesystem": {"denyRead": ["/y"]}}']
    toml = ['filesystem.denyRead = ["/x"]', 'filesystem.denyRead = ["/y"]']
    texts = toml if name.endswith(".toml") else text
    extra = world.write("extra.json", "{}")
    flags = Flags(policy_files=(str(extra),))
    seen = []
    settle()
    for step in (None, *texts):
        if step is not None:
            world.write(name, step)
            settle()
        world.load(flags)
        found = world.load(flags)
        seen.append([rule.path for rule in of(found, str(world.root / name))])

    assert seen == [[], ["/x"], ["/y"]]


def test_a_change_behind_a_link_is_seen(world: World) -> None:
    target = world.write("elsewhere.json", "{}")
    link = world.user("{}")
    link.unlink()
    link.symlink_to(target)
    settle()
    before = world.load()
    target.write_text('{"network": {"allowNetwork": true}}')

    assert (before.network, world.load().network) == (Network(), Network(open=True))


def test_the_workspace_filling_with_files_forgets_nothing(world: World) -> None:
    settle()
    before = world.load()
    (world.workspace / "file").touch()

    assert world.load() is before


def test_a_policy_that_appears_is_seen_where_the_system_refuses_to_be_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under a filter that answers EPERM to faccessat2: of everything it says that it is not there."""
    settle()
    before = world.load()
    monkeypatch.setattr(os, "access", lambda *_args, **_more: False)

    world.user('{"filesystem": {"denyRead": ["/somewhere"]}}')

    assert [rule.path for rule in set(world.load().rules) - set(before.rules)] == ["/somewhere"]
