"""Every key a policy file can have, in one table: what it holds, which way it moves the wall, and who carries it out.

The names are those of the Anthropic Sandbox Runtime (srt) and landstrip, and a few of our own. A key that this
version does not carry out is an Ask: required when it narrows, because a narrowing that is silently missing is a
hole; only wanted when it widens, because then the wall merely stays where it was.
"""

import enum

import msgspec

from .kinds import Bool, Either, Kind, ListOf, MapOf, Never, Number, Object, Size, Text
from .names import Address, Domain, Paths


class Effect(enum.Enum):
    """Which way a key moves the wall when it is set."""

    NARROWS = "narrows"
    WIDENS = "widens"
    NEITHER = "neither"


class Support(enum.Enum):
    """Who carries a key out."""

    HELD = "held"  # in force
    ASKED = "asked"  # not yet: it becomes an Ask
    MOOT = "asked while the network is open"  # not yet, and a closed network makes it true anyway
    NOTED = "noted"  # read, and without meaning


class Key(msgspec.Struct, frozen=True):
    """One row of the table."""

    kind: Kind
    effect: Effect
    support: Support
    why: str  # what it is for when held; why it is not in force when asked


_NARROWS, _WIDENS, _NEITHER = Effect.NARROWS, Effect.WIDENS, Effect.NEITHER
_HELD, _ASKED, _MOOT, _NOTED = Support.HELD, Support.ASKED, Support.MOOT, Support.NOTED

_PORT = Number(1, 65535)
_TIME = Either(
    Text("a length of time like '60s' or '5m'", pattern=r"^[0-9]*\.?[0-9]+(ms|s|m|h)\Z"), Number(0, whole=False)
)
_TEXTS = ListOf(Text())
_ABSOLUTE = Text("an absolute path", pattern="^/")
_VARIABLE = Text("a name of letters, digits and _", pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")
_VARIABLES = Text("a name like LANG or a pattern like LC_*", pattern=r"^[A-Za-z_][A-Za-z0-9_]*\*?\Z")
_PASS = Text(choices=("deny", "passthrough"))
_TARGET = {
    "mode": Text(choices=("deny", "mask")),
    "extract": Text(),
    "onExtractNoMatch": Text(choices=("warn", "deny", "error")),
    "decode": Text(choices=("jwt",)),
    "maskClaims": _TEXTS,
    "injectHosts": _TEXTS,
}
_TLS = Object(
    {
        "caCertPath": Text(),
        "caKeyPath": Text(),
        "excludeDomains": ListOf(Domain()),
        "extraCaCertPaths": _TEXTS,
        "maxTunnels": Number(1, 65536),
        "handshakeTimeoutMs": Number(100, 600_000),
    }
)
_WINDOWS = Object(
    {
        "backend": Text(choices=("mxc", "srt-win")),
        "sandboxUser": Text("a name of at most 20 characters", longest=20),
        "sublayerGuid": Text(),
        "wfpSublayerGuid": Text(),
        "proxyPortRange": ListOf(_PORT, 2, 2),
        "srtWin": Object({"path": Text()}),
        "appContainerMode": Text(choices=("lpac", "standard")),
        "allowLoopback": Bool(),
    }
)

_OPEN = "with allowNetwork nobody asks which host it is"
_PROXY = "a filter of somebody else's on this port of loopback, instead of ours"
_REQUESTS = "requests are not inspected yet"
_CREDENTIALS = "credentials are not masked yet"
_NESTED = "ringfence says allowNestedSandbox"
_MACOS = "it has a meaning on macOS only"
_OTHER = "ringfence does not use that program"

KEYS: dict[str, Key] = {
    "$schema": Key(Text(), _NEITHER, _NOTED, "for editors"),
    "enforcement": Key(
        Text(choices=("required", "best-effort", "off")), _WIDENS, _HELD, "what happens when a thing cannot be enforced"
    ),
    "profile": Key(
        Text(), _WIDENS, _HELD, "the boundary where no --profile names another; not in a project's own policy"
    ),
    "filesystem.denyRead": Key(Paths(), _NARROWS, _HELD, "may not be read, but for what allowRead names in it"),
    "filesystem.denyReadAlways": Key(Paths(), _NARROWS, _HELD, "may not be read, whatever else is said"),
    "filesystem.allowRead": Key(Paths(), _WIDENS, _HELD, "may be read, but for what denyRead names below it"),
    "filesystem.allowWrite": Key(Paths(), _WIDENS, _HELD, "may be written, and so read"),
    "filesystem.denyWrite": Key(Paths(), _NARROWS, _HELD, "may not be written, whatever else is said"),
    "filesystem.allowGitConfig": Key(Bool(), _WIDENS, _HELD, "lets the command write .git/config"),
    "filesystem.disabled": Key(Bool(), _WIDENS, _HELD, "drops the rules about paths, but for managed denials"),
    "filesystem.inject": Key(
        ListOf(Object({"source": Text(), "target": Text()}, ("source", "target"))),
        _WIDENS,
        _HELD,
        "shows a file or directory read-only at another place",
    ),
    "network.allowNetwork": Key(Bool(), _WIDENS, _HELD, "the host's network as it is"),
    "network.allowLocalBinding": Key(
        Bool(), _WIDENS, _HELD, "servers of the run; with a network of their own they stay in it, see --forward"
    ),
    "network.allowAllUnixSockets": Key(Bool(), _WIDENS, _HELD, "unix sockets without asking which"),
    "network.allowedDomains": Key(
        ListOf(Domain()),
        _WIDENS,
        _HELD,
        "hosts that may be reached, `*.x` for all strictly below x, with `:port` or any",
    ),
    "network.deniedDomains": Key(ListOf(Domain(any_host=True)), _NARROWS, _MOOT, _OPEN),
    "network.deniedDomainReasons": Key(
        MapOf(Text()), _NEITHER, _HELD, "what is said when an entry of deniedDomains refuses"
    ),
    "network.strictAllowlist": Key(Bool(), _NARROWS, _HELD, "what is not allowed is refused, and nobody is asked"),
    "network.deniedResolvedAddresses": Key(ListOf(Address()), _NARROWS, _MOOT, _OPEN),
    "network.allowUnixSockets": Key(_TEXTS, _WIDENS, _HELD, "unix sockets of the host, by path"),
    "network.allowTcp": Key(
        ListOf(Either(Domain(with_port=True), _PORT)),
        _WIDENS,
        _HELD,
        "hosts and ports for TCP; a bare port is this machine's own",
    ),
    "network.allowSshAgent": Key(Bool(), _WIDENS, _HELD, "the ssh agent, which then lists keys and signs, and no more"),
    "network.allowMachLookup": Key(_TEXTS, _WIDENS, _ASKED, _MACOS),
    "network.httpProxyPort": Key(_PORT, _WIDENS, _HELD, _PROXY),
    "network.socksProxyPort": Key(_PORT, _WIDENS, _HELD, _PROXY),
    "network.mitmProxy": Key(
        Object({"socketPath": Text(), "domains": ListOf(Domain(), 1)}, ("socketPath", "domains")),
        _NARROWS,
        _MOOT,
        "connections are not led through a proxy yet",
    ),
    "network.filterRequest": Key(
        Never("is a function of srt's library and cannot stand in a file"), _NARROWS, _NOTED, _REQUESTS
    ),
    "network.allowPlaintextHeaderSet": Key(Bool(), _WIDENS, _ASKED, _REQUESTS),
    "network.stripResponseHeaders": Key(_TEXTS, _NARROWS, _MOOT, _REQUESTS),
    "network.refuseOpaqueTunnels": Key(Bool(), _NARROWS, _MOOT, _REQUESTS),
    "network.requireHostMatch": Key(
        Bool(),
        _NARROWS,
        _MOOT,
        "a tunnel's TLS server name and a request's Host must be the host it is for; the default",
    ),
    "network.endWithProxy": Key(
        Bool(), _NARROWS, _HELD, "the run ends when the process that dials for it does; otherwise it goes on without"
    ),
    "network.ambiguousRequestTarget": Key(
        Text(choices=("refuse", "asSpelled", "normalize")), _NEITHER, _ASKED, "it goes with filterRequest"
    ),
    "network.tlsTerminate": Key(_TLS, _NARROWS, _MOOT, "TLS is not terminated: nobody looks into connections"),
    "network.parentProxy": Key(
        Object({"http": Text(), "https": Text(), "noProxy": Text()}),
        _WIDENS,
        _HELD,
        "the proxy that ours dials through; by default that of HTTP_PROXY and its kin",
    ),
    "credentials.files": Key(
        ListOf(Object({"path": Text(), "maskDuplicates": Bool(), **_TARGET}, ("path", "mode"))),
        _NARROWS,
        _ASKED,
        _CREDENTIALS,
    ),
    "credentials.envVars": Key(
        ListOf(Object({"name": _VARIABLE, **_TARGET}, ("name", "mode"))), _NARROWS, _ASKED, _CREDENTIALS
    ),
    "credentials.allowPlaintextInject": Key(Bool(), _WIDENS, _ASKED, _CREDENTIALS),
    "credentials.awsPairs": Key(
        ListOf(MapOf(Text())),
        _NARROWS,
        _ASKED,
        _CREDENTIALS,
    ),
    "credentials.sigv4": Key(
        Object({"streaming": _PASS, "presigned": _PASS, "sigv4a": _PASS}), _NARROWS, _ASKED, _CREDENTIALS
    ),
    "environment.allow": Key(ListOf(_VARIABLES), _WIDENS, _HELD, "variables that pass, by name or PREFIX_*"),
    "environment.set": Key(MapOf(Text(), _VARIABLE), _WIDENS, _HELD, "variables with their values"),
    "limits.timeout": Key(_TIME, _NARROWS, _HELD, "how long the run may take"),
    "limits.cpu": Key(_TIME, _NARROWS, _HELD, "how much processor time it may use"),
    "limits.memory": Key(Size(), _NARROWS, _HELD, "how much memory it may use at once"),
    "limits.output": Key(Size(), _NARROWS, _HELD, "how much it may write to standard output and error"),
    "limits.fileSize": Key(Size(), _NARROWS, _HELD, "how large a file it may write"),
    "limits.disk": Key(Size(), _NARROWS, _HELD, "how much it may write to disk"),
    "limits.processes": Key(Number(1), _NARROWS, _HELD, "how many processes and threads it may have at once"),
    "limits.files": Key(Number(1), _NARROWS, _HELD, "how many files each process may have open"),
    "git.safeDirectories": Key(_TEXTS, _WIDENS, _ASKED, "git's configuration is not injected yet"),
    "ignoreViolations": Key(MapOf(_TEXTS), _NEITHER, _ASKED, "reports are not filtered"),
    "allowNestedSandbox": Key(Bool(), _WIDENS, _HELD, "programs may make sandboxes of their own; a gap says the price"),
    "allowNestedUserNamespaces": Key(Bool(), _WIDENS, _ASKED, _NESTED),
    "enableWeakerNestedSandbox": Key(Bool(), _WIDENS, _ASKED, _NESTED),
    "enableWeakerNetworkIsolation": Key(Bool(), _WIDENS, _ASKED, _MACOS),
    "allowAppleEvents": Key(Bool(), _WIDENS, _ASKED, _MACOS),
    "allowPty": Key(Bool(), _WIDENS, _ASKED, _MACOS),
    "ripgrep": Key(
        Object({"command": Text(), "args": _TEXTS, "argv0": Text()}, ("command",)), _NEITHER, _ASKED, _OTHER
    ),
    "seccomp": Key(Object({"applyPath": Text(), "argv0": Text()}), _NEITHER, _ASKED, _OTHER),
    "bwrapPath": Key(_ABSOLUTE, _NEITHER, _ASKED, "bubblewrap is taken from where the system has it"),
    "socatPath": Key(_ABSOLUTE, _NEITHER, _ASKED, _OTHER),
    "javaAgentJarPath": Key(_ABSOLUTE, _NEITHER, _ASKED, _OTHER),
    "mandatoryDenySearchDepth": Key(Number(1, 10), _NEITHER, _ASKED, "protected names are not searched for by depth"),
    "windows": Key(_WINDOWS, _NEITHER, _ASKED, "it has a meaning on Windows only"),
}

# Moot while hosts are judged by name: then the judge carries them out.
BY_NAME = ("network.deniedDomains", "network.deniedResolvedAddresses", "network.requireHostMatch")

GROUPS: tuple[str, ...] = tuple(dict.fromkeys(key.split(".")[0] for key in KEYS if "." in key))


def known(group: str) -> tuple[str, ...]:
    """The keys that may stand in a group, or at the top for the empty one."""
    if not group:
        return (*(key for key in KEYS if "." not in key), *GROUPS)
    return tuple(key.split(".", 1)[1] for key in KEYS if key.startswith(group + "."))
