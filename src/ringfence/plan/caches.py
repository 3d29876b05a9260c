"""Package caches: the host's may be read and not written, and each workspace writes to its own.

With a view the host's cache lies below a private one at the same place (an overlay), so what was downloaded once is
there offline, and what a command puts into it nobody else ever sees. Where that cannot be, a variable leads the tool to
a cache of the workspace's own, which starts empty. Pure.
"""

import msgspec

from ..model import BUILT_IN, Access, Disk, Gap, Host, Kind, Need, Place, Policy, Rule, Shelf, Step, Verdict
from . import allowlist, landlock, view
from .regions import Region, State, is_below
from .rules import has_view

WHY = "private caches of this workspace"
LAYERED = "into a private layer above the host's cache, which stays as it is"


LOGS = "npm_config_logs_dir"  # npm writes them beside its cache, where they are hidden
STORE = "pnpm_config_store_dir"  # untold, pnpm 12 takes no store on another mount, and makes one in node_modules


class Cache(msgspec.Struct, frozen=True):
    """Where a tool keeps what it downloaded, below the home, and the variable that leads it elsewhere."""

    name: str
    path: str
    variable: str
    value: str = "{}"
    below: bool = True  # whether it may lie below a private one; else the tool itself reads two
    beside: str = ""  # the variable for a cache that is only read


CACHES = (
    Cache("uv", ".cache/uv", "UV_CACHE_DIR"),
    Cache("uv-tools", ".local/share/uv/tools", "UV_TOOL_DIR"),  # uvx wants a lock there
    Cache("pip", ".cache/pip", "PIP_CACHE_DIR"),
    Cache("poetry", ".cache/pypoetry", "POETRY_CACHE_DIR"),  # with its environments
    Cache("pre-commit", ".cache/pre-commit", "PRE_COMMIT_HOME"),  # with its environments
    Cache("npm", ".npm/_cacache", "npm_config_cache"),
    Cache("npx", ".npm/_npx", ""),  # beside npm's, and led by its variable
    Cache("pnpm", ".local/share/pnpm/store", "PNPM_HOME"),  # it has its store there
    Cache("pnpm-names", ".cache/pnpm", "pnpm_config_cache_dir"),  # what versions there are
    Cache("yarn", ".cache/yarn", ""),  # its variable would also move the cache that Yarn 2 and 3 have in the project
    Cache("yarn-berry", ".yarn/berry", "YARN_GLOBAL_FOLDER"),
    Cache("bun", ".bun/install/cache", "BUN_INSTALL_CACHE_DIR"),
    Cache("ccache", ".cache/ccache", "CCACHE_DIR"),
    Cache("ccache-old", ".ccache", ""),
    Cache("deno", ".cache/deno", "DENO_DIR"),
    Cache("zig", ".cache/zig", "ZIG_GLOBAL_CACHE_DIR"),
    Cache("go", ".cache/go-build", "GOCACHE"),
    Cache("go-mod", "go/pkg/mod", "GOMODCACHE"),
    Cache("cargo", ".cargo/registry", "CARGO_HOME"),
    Cache("maven", ".m2/repository", "MAVEN_OPTS", "-Dmaven.repo.local={}"),  # before 3.9 it has no MAVEN_ARGS
    Cache("gradle", ".gradle/caches", "GRADLE_USER_HOME", below=False, beside="GRADLE_RO_DEP_CACHE"),
)


Layered = tuple[Cache, Place]  # one of the host's that lies below a private layer
PLACES = tuple((cache.name, cache.path) for cache in CACHES)


def cache_paths(shelf: Shelf) -> list[str]:
    """The places to look at."""
    return [f"{shelf.home}/{cache.path}" for cache in CACHES] if shelf.home else []


def with_shelf(policy: Policy, shelf: Shelf) -> Policy:
    """The policy, with leave for the workspace's own caches."""
    if not shelf.own:
        return policy
    rules = [Rule(access, Verdict.ALLOW, shelf.own, BUILT_IN, why=WHY) for access in Access]
    return msgspec.structs.replace(policy, rules=(*policy.rules, *rules))


def as_layered(policy: Policy, paths: tuple[str, ...]) -> Policy:
    """The policy as the command meets it: it may write into caches that have a private layer."""
    rules = [Rule(Access.WRITE, Verdict.ALLOW, path, BUILT_IN, why=LAYERED) for path in paths]
    return msgspec.structs.replace(policy, rules=(*policy.rules, *rules)) if rules else policy


def layered(shelf: Shelf, host: Host, disk: Disk, found: list[Region]) -> list[Layered]:
    """The caches of the host that lie below a private one."""
    if not shelf.layers or not host.namespaces or not has_view(host) or not host.overlays:
        return []
    pairs = [(cache, disk[f"{shelf.home}/{cache.path}"]) for cache in CACHES if cache.below]
    return [(cache, place) for cache, place in pairs if _is_plain(place, found)]


def _is_plain(place: Place, found: list[Region]) -> bool:
    """Whether all of it may be read, and nothing in it is told apart: an overlay would show what is hidden in it."""
    if place.kind is not Kind.DIRECTORY or not place.readable or place.closed:
        return False
    above = [region for region in found if region.path == place.path or is_below(place.path, region.path)]
    deepest = max(above, key=lambda region: len(region.path), default=None)
    return (
        deepest is not None
        and deepest.state is State.READ
        and not any(is_below(region.path, place.path) and region.place.kind is not Kind.MISSING for region in found)
    )


def mounts(shelf: Shelf, chosen: list[Layered]) -> list[Step]:
    """The overlays."""
    return [
        view.mount(
            view.OVERLAY,
            f"cache of {cache.name}: {place.path} as on the host, written privately in {shelf.layers}/{cache.name}",
            place.path,
            place.path,
            f"{shelf.layers}/{cache.name}/upper",
            f"{shelf.layers}/{cache.name}/work",
            place=place,
        )
        for cache, place in chosen
    ]


def grants(chosen: list[Layered], handled: int) -> list[Step]:
    """Landlock's leave to write there. It takes no rule without a right: there is none where it holds signals alone."""
    rights = (landlock.GRANTED_WRITE | landlock.READ) & handled
    places = [msgspec.structs.replace(place, device=0, inode=0) for _, place in chosen] if rights else []
    return [allowlist.beneath(place, rights, "write") for place in places]


def variables(shelf: Shelf, disk: Disk, chosen: list[Layered], temporary: str) -> dict[str, str]:
    """What leads the other tools to a cache of their own."""
    taken = {cache.name for cache, _ in chosen}
    own = shelf.own or f"{temporary}/cache"
    led = [cache for cache in CACHES if cache.variable and cache.name not in taken]
    found = {cache.variable: cache.value.format(f"{own}/{cache.name}") for cache in led}
    found[LOGS] = f"{own}/npm-logs"
    found[STORE] = next((place.path for cache, place in chosen if cache.name == "pnpm"), f"{own}/pnpm/store")
    if "cargo" not in taken and not shelf.home:
        del found["CARGO_HOME"]  # without a home there is no toolchain to take away
    for cache in CACHES:
        if cache.beside and shelf.home and disk[f"{shelf.home}/{cache.path}"].kind is Kind.DIRECTORY:
            found[cache.beside] = f"{shelf.home}/{cache.path}"
    return found


def gaps(shelf: Shelf, host: Host, disk: Disk, chosen: list[Layered]) -> list[Gap]:
    """The caches of the host that are there and not used."""
    if not shelf.home:
        return []
    taken = {cache.name for cache, _ in chosen}
    there = [cache for cache in CACHES if disk[f"{shelf.home}/{cache.path}"].kind is Kind.DIRECTORY and cache.below]
    unused = [cache.name for cache in there if cache.name not in taken]
    if not unused:
        return []
    why = "there is no view here" if not has_view(host) else "rules tell parts of them apart, or overlays do not work"
    what = f"the host's caches of {', '.join(unused)} used: the workspace has its own, which start empty"
    return [Gap(what, why, Need.WANTED, BUILT_IN)]
