"""Find the layers, read them, and hand back one policy; remembered until a file it came from changes.

`load` is called for every run, so what it found is kept, and the next call only compares the identities of every
file that is or could be a layer. Which of them may be believed is checked here too: who owns them, who can write
them, and whether the command itself could.
"""

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Protocol

import msgspec

from ..model import NOTHING_APPROVED, Access, Policy, PolicyError, Standing, UsageError, Verdict
from .decide import canonical_policy, writer
from .defaults import built_in
from .flags import Flags, flags_layer
from .layer import Layer, Tier, merge
from .paths import Base
from .trust import (
    approvals_of,
    audit_of,
    candidates,
    digest_of,
    directory_of,
    home_of,
    is_masked,
    passwd_home,
    policy_file,
    read_regular,
    store_of,
    trusted_digest,
)

MANAGED = "/etc/ringfence/policy.d"
PROFILES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "profiles")
INLINE = "inline policy"
_PLACES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
_REMEMBERED = 64
_SETTLED = 50_000_000  # ns. A file changed twice within one tick of the kernel's clock looks unchanged the second time.

_Identity = tuple[int, ...] | None
# The policy; the workspace's device and inode, and its path; what was absent, and on which devices; what was there.
_Memory = tuple[Policy, tuple[int, int], bytes, tuple[bytes, ...], frozenset[int], tuple[tuple[str, _Identity], ...]]
_memory: dict[object, _Memory] = {}

if TYPE_CHECKING:

    class Brief(Protocol):
        """Who can say without letting go of the interpreter's lock whether a name is there, on some devices."""

        near: Set[int]
        is_any_there: Callable[[Sequence[bytes]], bool]


class Sources(msgspec.Struct, frozen=True):
    """Where layers are looked for."""

    workspace: str
    environ: dict[str, str]
    home: str = ""  # the command's, where that is not the caller's
    managed: str = MANAGED
    managed_owner: int = 0
    own: tuple[str, ...] = ()  # our program's directories, unwritable inside the workspace
    start: str = ""  # where the command begins

    @property
    def user(self) -> str:
        return directory_of(self.environ, "XDG_CONFIG_HOME", ".config")

    @property
    def project(self) -> str:
        return f"{self.workspace}/.ringfence"


def load(
    workspace: str,
    flags: Flags = Flags(),  # noqa: B008 - frozen
    start: str = "",
    *,
    home: str = "",
    environ: Mapping[str, str] | None = None,
    managed: str = MANAGED,
    managed_owner: int = 0,
    own: tuple[str, ...] = (),
    standing: Standing = NOTHING_APPROVED,
    seen: os.stat_result | None = None,
    brief: "Brief | None" = None,
) -> Policy:
    """The policy for a workspace: all layers, merged and checked.

    `start` is where the command begins, canonical; `home` its home, where it runs as somebody else than the caller;
    `environ` says where the caller's own files are; `own` are our program's directories; `standing` is what a person
    approved; `seen` is what stands at the workspace's path, if somebody has just looked; `brief` is for whoever has
    many at once.
    """
    environ = os.environ if environ is None else environ
    get = environ.get
    chosen = get("HOME", ""), get("XDG_CONFIG_HOME", ""), get("XDG_STATE_HOME", ""), get("XDG_RUNTIME_DIR", "")
    key = (workspace, flags, chosen, home, managed, managed_owner, own, standing, start, os.getuid())
    known = _memory.get(key)
    if known is not None and _is_as_stamped(workspace, known, seen, brief):
        return known[0]
    named = dict(zip(_PLACES, chosen, strict=True))
    sources = Sources(_directory(workspace), named, home, managed, managed_owner, own, start)
    homes = _homes(sources)
    watched = _watched(sources, flags, homes)
    stamp = _stamp(workspace, watched)
    is_kept = stamp is not None and is_settled(max((found[3] for found in stamp[1] if found), default=0))
    policy = _load(sources, flags, standing, homes)
    if stamp is not None and is_kept:
        if len(_memory) >= _REMEMBERED:
            _memory.clear()
        absent = tuple(os.fsencode(path) for path, then in zip(watched, stamp[1], strict=True) if then is None)
        there = tuple(found for found in zip(watched, stamp[1], strict=True) if found[1] is not None)
        place = os.fsencode(workspace)
        _memory[key] = policy, stamp[0], place, absent, _devices((place, *absent)), there
    return policy


def _load(sources: Sources, flags: Flags, standing: Standing, homes: tuple[str, ...]) -> Policy:
    base = Base(sources.workspace, homes[0] if homes else "")
    chosen = (*_managed_layers(sources, base), *_user_layer(sources, base))
    layers = (
        built_in(sources.workspace, homes, sources.own, _missing(homes), *_kept(sources.environ), sources.start),
        *chosen,
        *_profile_layers(_named_profile(flags, sources) or _default_profile(chosen), sources, base, homes),
        *_project_layer(sources, base),
        *_grants_layer(standing),
        *_explicit_layers(flags, base),
        flags_layer(flags, msgspec.structs.replace(base, directory=flags.cwd or base.directory)),
    )
    guarded = _guarded(sources, layers)
    policy = merge(sources.workspace, layers, guarded)
    _refuse_exposed(policy, guarded)
    if flags.ask:  # without a boundary of its own what nobody speaks of is a question
        bounded = any(layer.tier is Tier.PROFILE for layer in layers)
        policy = msgspec.structs.replace(policy, asking=True, escape=policy.escape if bounded else Verdict.ASK)
    return policy


def _kept(environ: Mapping[str, str]) -> tuple[str, str]:
    return audit_of(environ), approvals_of(environ)


def _directory(workspace: str) -> str:
    """The workspace, canonical."""
    real = os.path.realpath(workspace)
    if not os.path.isdir(real):
        raise PolicyError("workspace", f"{workspace} is not a directory", "name one with --workspace")
    return real


def _homes(sources: Sources) -> tuple[str, ...]:
    """The command's home, the caller's, and the one on record, canonical: naming another must not open the real one."""
    homes = (sources.home, home_of(sources.environ), passwd_home())
    return tuple(dict.fromkeys(os.path.realpath(home) for home in homes if home.startswith("/")))


def _missing(homes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(home for home in homes if not os.path.lexists(home))


# --- what is remembered -----------------------------------------------------------------------------------------


def _watched(sources: Sources, flags: Flags, homes: tuple[str, ...]) -> tuple[str, ...]:
    """Every file that is a layer or could become one. Of a directory that is missing, its own coming is enough."""
    watched: list[str] = []
    for directory in (sources.user, sources.project):
        if directory:
            watched += candidates(directory) if os.path.lexists(directory) else (directory,)
    managed = _managed_files(sources.managed)
    watched += [sources.managed, *managed]
    watched += _missing(homes)
    watched += [_explicit_path(name, flags, sources.workspace) for name in flags.policy_files]
    watched += _profile_files(sources) if flags.profile or managed or policy_file(sources.user) else ()
    store = store_of(sources.environ)
    return (*watched, store) if store else tuple(watched)


def _stamp(workspace: str, watched: tuple[str, ...]) -> tuple[tuple[int, int], tuple[_Identity, ...]] | None:
    try:
        facts = os.stat(workspace)
    except (OSError, ValueError):
        return None
    return (facts.st_dev, facts.st_ino), tuple(map(_identity, watched))


def _devices(paths: Iterable[bytes]) -> frozenset[int]:
    """On which these are, or would be: of each the device of the nearest directory that is there."""
    return frozenset(map(_device, paths))


def _device(path: bytes) -> int:
    try:
        return os.stat(path).st_dev
    except OSError:
        return -1 if path == b"/" else _device(os.path.dirname(path))


def _is_as_stamped(workspace: str, known: _Memory, seen: os.stat_result | None, brief: "Brief | None") -> bool:
    """Whether everything is as it was. Most of it was missing, and to ask for that alone costs a third."""
    _, which, place, absent, devices, there = known
    try:
        facts = os.stat(workspace) if seen is None else seen
    except (OSError, ValueError):
        return False
    if which != (facts.st_dev, facts.st_ino):
        return False
    is_any_there = brief.is_any_there if brief is not None and devices <= brief.near else _is_any_there
    if absent and not is_any_there((place,)):
        return False  # the call itself is refused here, and would say of everything that it is not there
    if is_any_there(absent):
        return False
    return not there or all(_identity(path) == then for path, then in there)


def _is_any_there(paths: Sequence[bytes]) -> bool:
    return True in [os.access(path, 0, follow_symlinks=False) for path in paths]


def _identity(path: str) -> _Identity:
    """What changes when a file does; None when there is none."""
    try:
        facts = os.lstat(path)
        if not stat.S_ISLNK(facts.st_mode):
            return facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size
        there = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        if isinstance(error, PermissionError) and is_masked(os.path.dirname(path)):
            return None
        hint = "a policy could stand there: whoever starts ringfence must be able to look"
        why = error.strerror if isinstance(error, OSError) else error
        raise PolicyError(path, f"cannot be looked at: {why}", hint) from None
    changes = (facts.st_ino, facts.st_ctime_ns)
    return there.st_dev, there.st_ino, there.st_mtime_ns, there.st_ctime_ns, there.st_size, *changes


def is_settled(changed: int) -> bool:
    """Whether a change from now on would show, for who asks before it reads. By the time of change: any change sets
    it, and nobody else does."""
    return _file_clock() - changed > _SETTLED


def _file_clock() -> int:
    """The time by the clock that stamps files: a new pipe has it."""
    ends = os.pipe()
    try:
        return os.fstat(ends[0]).st_ctime_ns
    finally:
        for end in ends:
            os.close(end)


# --- the layers -------------------------------------------------------------------------------------------------


def _layer(path: str, base: Base, tier: Tier, content: bytes, trusted: bool = True) -> Layer:
    from .parse import parse  # the table of keys is needed only where there is a file

    return parse(content, path, base, tier, trusted)


def _managed_files(directory: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise PolicyError(directory, f"cannot be listed: {error.strerror}") from None
    kept = [name for name in names if name.endswith((".json", ".toml")) and not name.startswith(".")]
    return [f"{directory}/{name}" for name in sorted(kept)]


def _managed_layers(sources: Sources, base: Base) -> list[Layer]:
    layers: list[Layer] = []
    for path in _managed_files(sources.managed):
        if not layers:
            _check_managed(sources.managed, os.stat(sources.managed), sources.managed_owner)
        content, facts = read_regular(path)
        _check_managed(path, facts, sources.managed_owner)
        layers.append(_layer(path, base, Tier.MANAGED, content))
    return layers


def _check_managed(path: str, facts: os.stat_result, owner: int) -> None:
    # In a user namespace without root everything of root's has the overflow id; /etc shows which that is.
    owners = (0, os.stat("/etc").st_uid) if owner == 0 else (owner,)
    if facts.st_uid not in owners:
        raise PolicyError(path, f"belongs to uid {facts.st_uid}, not to root", f"chown root {path}")
    if facts.st_mode & 0o022:
        raise PolicyError(path, "can be written by others than root", f"chmod go-w {path}")


def _user_layer(sources: Sources, base: Base) -> list[Layer]:
    path = policy_file(sources.user) if sources.user else ""
    if not path:
        return []
    content, facts = read_regular(path)
    if facts.st_mode & 0o022:
        raise PolicyError(path, "can be written by others", f"chmod go-w {path}")
    return [_layer(path, base, Tier.USER, content)]


def _project_layer(sources: Sources, base: Base) -> list[Layer]:
    path = policy_file(sources.project)
    if not path:
        return []
    if os.path.realpath(path) != path:  # else its errors would tell of a file that only we may read
        raise PolicyError(path, "is reached through a link", "a project's policy is a file of the project itself")
    content, _ = read_regular(path)
    known = trusted_digest(path, store_of(sources.environ))
    trusted = bool(known) and known == digest_of(content)
    layer = _layer(path, base, Tier.PROJECT, content, trusted)
    named = [setting.origin for setting in layer.settings if setting.key == "profile"]
    notes = tuple(
        f"{origin}: profile has no effect: only the user's own policy or a flag names one" for origin in named
    )
    kept = tuple(setting for setting in layer.settings if setting.key != "profile")
    return [msgspec.structs.replace(layer, settings=kept, notes=notes)]


def _grants_layer(standing: Standing) -> list[Layer]:
    if standing == NOTHING_APPROVED:
        return []
    from .grants import grants_layer

    return [grants_layer(standing)]


def profile_directory(environ: Mapping[str, str]) -> str:
    """Where the user's own profiles are; empty without a home."""
    directory = directory_of(environ, "XDG_CONFIG_HOME", ".config")
    return f"{directory}/profiles" if directory else ""


def _profile_files(sources: Sources) -> list[str]:
    """The directory of the user's own profiles, and those in it."""
    directory = profile_directory(sources.environ)
    if not directory or not os.path.isdir(directory):
        return [directory] if directory else []
    return [directory, *(f"{directory}/{name}" for name in sorted(os.listdir(directory)) if name.endswith(".toml"))]


def read_profile(name: str, environ: Mapping[str, str]) -> tuple[bytes, str]:
    """The text of a profile and where it is from: ours, or the user's own."""
    from .profiles import check_name, unknown

    check_name(name)
    ours = f"{PROFILES}/{name}.toml"
    directory = profile_directory(environ)
    theirs = f"{directory}/{name}.toml" if directory else ""
    if os.path.isfile(ours):
        if theirs and os.path.lexists(theirs):
            raise PolicyError(theirs, f"there is a profile {name} of ringfence's own", "give it another name")
        return read_regular(ours)[0], ours
    if not theirs or not os.path.lexists(theirs):
        raise unknown(name, profile_names(environ))
    content, facts = read_regular(theirs)
    if facts.st_mode & 0o022:
        raise PolicyError(theirs, "can be written by others", f"chmod go-w {theirs}")
    return content, theirs


def profile_names(environ: Mapping[str, str]) -> list[str]:
    """Every profile there is, ours first."""
    directory = profile_directory(environ)
    own = sorted(os.listdir(directory)) if directory and os.path.isdir(directory) else []
    names = [*sorted(os.listdir(PROFILES)), *own]
    return [name.removesuffix(".toml") for name in names if name.endswith(".toml")]


def _named_profile(flags: Flags, sources: Sources) -> str:
    """The boundary that the command line names."""
    if flags.profile:
        from .profiles import ALIASES
        from .words import nearest, shown

        name, names = flags.profile, tuple(profile_names(sources.environ))
        if ALIASES.get(name, name) not in names:
            raise UsageError("--profile", f"there is no profile {shown(name)}", nearest(name, names))
    return flags.profile


def _default_profile(layers: tuple[Layer, ...]) -> str:
    """The boundary that the user's own policy names, or a managed one."""
    named = [setting.value for layer in layers for setting in layer.settings if setting.key == "profile"]
    return str(named[-1]) if named else ""


def _profile_layers(profile: str, sources: Sources, base: Base, homes: tuple[str, ...]) -> tuple[Layer, ...]:
    if not profile:
        return ()
    from .profiles import layers_of, load_chain

    chain = load_chain(profile, lambda name: read_profile(name, sources.environ), base)
    state = os.path.dirname(store_of(sources.environ))
    own = tuple(place for place in (*sources.own, os.path.dirname(PROFILES), sources.user, state) if place)
    return layers_of(chain, sources.workspace, homes, own)


def _explicit_layers(flags: Flags, base: Base) -> list[Layer]:
    layers = []
    for name in flags.policy_files:
        path = _explicit_path(name, flags, base.directory)
        content, facts = read_regular(path, name)
        if facts.st_mode & stat.S_IWOTH:
            raise PolicyError(name, "can be written by everyone", f"chmod o-w {name}")
        layers.append(_layer(path, base, Tier.EXPLICIT, content))
    return [*layers, *(_layer(INLINE, base, Tier.EXPLICIT, content) for content in flags.inline)]


def _explicit_path(name: str, flags: Flags, workspace: str) -> str:
    return os.path.join(flags.cwd or workspace, name)


# --- who could change them --------------------------------------------------------------------------------------


def _guarded(sources: Sources, layers: tuple[Layer, ...]) -> tuple[str, ...]:
    """Every place whose content can widen a policy or answers for it, as it is reached and as it really is."""
    places = [sources.managed, *(candidates(sources.user) if sources.user else ())]
    further = (store_of(sources.environ), approvals_of(sources.environ), profile_directory(sources.environ))
    places += [place for place in further if place]
    if sources.environ["XDG_RUNTIME_DIR"].startswith("/"):  # whoever writes there can answer for the hook that stays
        places.append(directory_of(sources.environ, "XDG_RUNTIME_DIR", ""))
    places += [layer.source for layer in layers if layer.source not in ("", INLINE) and layer.trusted]
    real = {directory: os.path.realpath(directory) for directory in dict.fromkeys(map(os.path.dirname, places))}
    reached = [f"{real[os.path.dirname(place)]}/{os.path.basename(place)}" for place in places]
    links = [place for place in reached if os.path.islink(place)]
    return tuple(dict.fromkeys([*reached, *map(os.path.realpath, links)]))


def _led_to(path: str) -> str:
    try:
        return os.path.realpath(path)
    except PermissionError:  # by a link into another process: the planner says what becomes of it
        return path


def _refuse_exposed(policy: Policy, guarded: tuple[str, ...]) -> None:
    """Refuse a policy that lets the command write what a later policy is read from."""
    write, allow = Access.WRITE, Verdict.ALLOW
    # Denials are many and cost a look at the disk each, so they are asked only when an allowance is there.
    for verdicts in ((allow,), tuple(Verdict)):
        rules = tuple([rule for rule in policy.rules if rule.verdict in verdicts and rule.access is write])
        only = canonical_policy(msgspec.structs.replace(policy, rules=rules, injections=()), _led_to)
        exposed = [(path, rule) for path in guarded if (rule := writer(only, path))]
        if not exposed:
            return
    path, rule = exposed[0]
    raise PolicyError(
        path,
        f"the command could write this file, for {rule.origin} lets it write {rule.path}",
        "it decides what is allowed: keep it out of what may be written, or add it to denyWrite",
    )
