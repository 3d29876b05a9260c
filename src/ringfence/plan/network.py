"""What a plan gives of the network beyond open and closed, and what it cannot give here. Pure.

With a view the command has a network of its own, with a loopback alone. Its doors are sockets that listen there and are
served from outside: a resolver, two proxies, and a port for each service of this machine that was named.
"""

import msgspec

from ..model import (
    BUILT_IN,
    Access,
    Enforcement,
    Gap,
    Host,
    HostRule,
    Injection,
    Need,
    Network,
    Origin,
    Policy,
    Rule,
    SocketRule,
    Step,
    StepKind,
    Verdict,
)
from . import landlock
from .rules import has_broker, has_own_network, has_view, is_asking, is_seen

HTTP, SOCKS, NAMES = 3128, 1080, 53
LED = 1053  # where the warden leads who connects to 53, for with bubblewrap nobody may open that (enforce/dial.h)
_INET, _STREAM, _DATAGRAM = 2, 1, 2
LOCAL = ("localhost", "127.0.0.1")
ASKS = "asks"
AGENT = Origin("allowSshAgent")
FORWARD = Origin("--forward")
ESCAPES = {
    "docker": "who speaks to docker starts containers that see the whole machine",
    "containerd": "who speaks to containerd starts containers that see the whole machine",
    "podman": "who speaks to podman starts containers outside",
    "crio": "who speaks to cri-o starts containers outside",
    "systemd": "who speaks to systemd starts programs outside",
    "bus": "who speaks on D-Bus has programs started outside",
    "tmux": "who speaks to tmux types into terminals outside",
    "wayland": "who speaks to the display sees and types what you do",
    "X11": "who speaks to the display sees and types what you do",
    "agent": "an agent that is not filtered also adds, removes and unlocks keys; allowSshAgent is",
}
# Files of /etc by which names are resolved. What nsswitch.conf says of users stays simple: sockets to services that
# would know more are hidden anyway.
RESOLVER = {
    "resolv.conf": "nameserver 127.0.0.1\noptions edns0 timeout:2 attempts:2\n",
    "hosts": "127.0.0.1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
    "protocols: db files\nservices: db files\nethers: db files\nrpc: db files\nnetgroup: files\n",
}


class Door(msgspec.Struct, frozen=True):
    """A socket inside the run, and what serves it."""

    serves: str
    port: int
    is_datagram: bool = False

    def step(self) -> Step:
        if self.serves == ASKS:
            return Step(StepKind.ASK, "connections to outside are asked of the gate, and dialled by it")
        kind = _DATAGRAM if self.is_datagram else _STREAM
        text = f"127.0.0.1:{self.port} inside is served from outside: {self.serves}"
        return Step(StepKind.LISTEN, text, (_INET, kind, self.port))


def doors(policy: Policy, host: Host) -> tuple[Door, ...]:
    """The doors of a run, in the order of their steps."""
    network = policy.network
    asked = (Door(ASKS, 0),) if is_asked(policy, host) else ()
    asks = is_asking(policy, host) and not network.open
    wanted = network.allows_hosts or network.http_proxy_port or network.socks_proxy_port or asks
    if not has_own_network(host) or not wanted:
        return asked
    http = f"via 127.0.0.1 {network.http_proxy_port}" if network.http_proxy_port else "http"
    socks = f"via 127.0.0.1 {network.socks_proxy_port}" if network.socks_proxy_port else "socks"
    names = NAMES if host.namespaces else LED
    found = [Door("names-udp", names, True), Door("names", names), Door(http, HTTP), Door(socks, SOCKS)]
    taken = {NAMES, names, HTTP, SOCKS}
    for rule in network.hosts:
        if is_forwarded(rule) and rule.port not in taken:
            taken.add(rule.port)
            found.append(Door(f"to {rule.host} {rule.port}", rule.port))
    return (*found, *asked)


def is_asked(policy: Policy, host: Host) -> bool:
    """Whether every connection is judged by name, so that no program need know of a proxy."""
    network = policy.network
    able = has_own_network(host) and has_broker(policy, host) and not network.open
    return able and (network.allows_hosts or bool(network.forwards) or is_asking(policy, host))


def is_forwarded(rule: HostRule) -> bool:
    """Whether a rule names one port of this machine's own loopback."""
    return rule.verdict is Verdict.ALLOW and rule.host in LOCAL and rule.port > 0


def with_sockets(policy: Policy, host: Host) -> Policy:
    """The policy with the unix sockets that may be reached, as places that may be written: connecting is writing. The
    warden tells them by that from the sockets that are merely in sight."""
    if not has_view(host) or not policy.network.sockets:
        return policy
    rules = tuple(
        Rule(access, Verdict.ALLOW, one.path, one.origin) for one in policy.network.sockets for access in Access
    )
    return msgspec.structs.replace(policy, rules=(*policy.rules, *rules))


def with_agent(policy: Policy, path: str) -> Policy:
    """The policy with a socket that stands for the ssh agent, and the variable by which it is found."""
    network = msgspec.structs.replace(policy.network, sockets=(*policy.network.sockets, SocketRule(path, AGENT)))
    environment = msgspec.structs.replace(policy.environment, set={"SSH_AUTH_SOCK": path} | policy.environment.set)
    return msgspec.structs.replace(policy, network=network, environment=environment)


SIBLINGS = "RINGFENCE_SIBLINGS"  # the variable that says where a run beside this one is asked for
_DOOR = Origin("runs beside this one")


def has_siblings(policy: Policy, host: Host) -> bool:
    """Whether a ringfence inside may ask for runs beside this one. Who lets sandboxes be made inside has no need. Nor
    where the two could reach one another by unix sockets; nor where we may not take a descriptor from who asks."""
    is_held = host.system == "linux" and policy.enforcement is not Enforcement.OFF
    return is_held and (is_apart(policy, host) if has_view(host) else is_seen(host)) and not policy.nested


def is_apart(policy: Policy, host: Host) -> bool:
    """Whether no unix socket that is made in a view reaches another run, to which descriptors could pass."""
    scoped = not policy.network.open or host.landlock_abi >= landlock.SCOPES_SINCE  # abstract names are a network's
    return has_broker(policy, host) and scoped and not wants_datagrams(policy)


def with_door(policy: Policy, path: str, host: Host) -> Policy:
    """The policy with the place at which runs beside this one are asked for, and the variable by which it is found."""
    environment = msgspec.structs.replace(policy.environment, set=policy.environment.set | {SIBLINGS: path})
    rules = tuple(Rule(access, Verdict.ALLOW, path, _DOOR) for access in Access)
    if not has_view(host):
        rules = ()  # it lies in the command's own temporary directory
    return msgspec.structs.replace(policy, rules=(*policy.rules, *rules), environment=environment)


def wants_datagrams(policy: Policy) -> bool:
    """Whether unix sockets for datagrams can be made: only for a policy that names sockets itself, for where a datagram
    goes is in the sending call."""
    return policy.network.all_unix_sockets or any(rule.origin != AGENT for rule in policy.network.sockets)


def wants_proxies(policy: Policy, host: Host) -> bool:
    """Whether hosts are reached by proxies on the host's loopback: without a namespace, and only as a best effort, for
    Landlock knows ports and not addresses."""
    able = not has_view(host) and host.seccomp and host.landlock_abi >= landlock.NETWORK_SINCE
    return able and policy.network.allows_hosts and policy.enforcement is Enforcement.BEST_EFFORT


def with_proxies(policy: Policy, ports: tuple[int, ...], credential: str) -> Policy:
    """The policy with the ports that were found for the proxies."""
    return _without(policy, proxies=ports, credential=credential)


def port_steps(policy: Policy) -> list[Step]:
    """The ports that may be connected to where nothing else tells hosts apart."""
    return [
        Step(StepKind.PORT, f"TCP to port {port}, where a proxy of ours listens", (landlock.CONNECT_TCP, port))
        for port in policy.network.proxies
    ]


def resolver_files(policy: Policy, machine: str) -> dict[str, str]:
    """The files, with the machine's own name, for Java and others ask for it and fail without an answer; and with the
    names that are known: who finds them here saves a question."""
    from ..model.standins import stand_ins  # few runs have a resolver

    named = f"127.0.0.1 {machine}\n" if machine.isprintable() and machine and " " not in machine else ""
    for name, address in stand_ins(policy.workspace, policy.network.known_names).items():
        named += f"{address} {name}\n"
    return RESOLVER | {"hosts": RESOLVER["hosts"] + named}


def wants_resolver(policy: Policy, host: Host) -> bool:
    """Whether names are resolved inside, by our resolver alone."""
    named = policy.network.allows_hosts or is_asking(policy, host)
    return named and len(doors(policy, host)) > 1 and policy.enforcement is not Enforcement.OFF


def with_resolver(policy: Policy, directory: str) -> Policy:
    """The policy with the files that send every question for a name to our resolver; they lie in `directory`."""
    shown = tuple(Injection(f"{directory}/{name}", f"/etc/{name}", BUILT_IN) for name in RESOLVER)
    return msgspec.structs.replace(policy, injections=(*policy.injections, *shown))


def retry_environment(policy: Policy, host: Host) -> dict[str, str]:
    """Where nothing can be reached nobody need try again: npm would for over a minute, before it takes its cache. Where
    some hosts can, it waits less before it does: no answer to a name or a connection ends it sooner, as it tries again
    after every error of the system's. pnpm 11 and later do the same, and have variables of their own."""
    network = policy.network
    if network.open:
        return {}
    if network.allows_hosts or network.proxies or doors(policy, host):
        waits = {"fetch_retry_mintimeout": "1000", "fetch_retry_maxtimeout": "3000"}
        return {f"{tool}_config_{name}": value for tool in ("npm", "pnpm") for name, value in waits.items()}
    names = ("npm_config_fetch_retries", "pnpm_config_fetch_retries", "PIP_RETRIES", "UV_HTTP_RETRIES")
    return dict.fromkeys(names, "0")


def proxy_environment(policy: Policy, host: Host) -> dict[str, str]:
    """The variables by which programs find the proxies, in the spellings that are about; none where programs need no
    proxy."""
    proxies = policy.network.proxies or (HTTP, SOCKS)
    if not policy.network.proxies and (not doors(policy, host) or is_asked(policy, host)):
        return {}
    user = f"ringfence:{policy.network.credential}@" if policy.network.credential else ""
    http, socks = f"http://{user}127.0.0.1:{proxies[0]}", f"socks5h://{user}127.0.0.1:{proxies[1]}"
    both = {"HTTP_PROXY": http, "HTTPS_PROXY": http, "FTP_PROXY": http, "ALL_PROXY": socks}
    both["NO_PROXY"] = (
        "" if policy.network.proxies else "localhost,127.0.0.1,::1"
    )  # the loopback is the run's own, or closed
    names = both | {name.lower(): value for name, value in both.items()}
    java = (
        " ".join(f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort={proxies[0]}" for scheme in ("http", "https"))
        + " -Dhttp.nonProxyHosts=localhost|127.*|[::1]"
    )
    return names | {
        "SOCKS_PROXY": socks,
        "GRPC_PROXY": http,
        "grpc_proxy": http,
        "NODE_USE_ENV_PROXY": "1",
        "npm_config_proxy": http,
        "npm_config_https_proxy": http,
        "YARN_HTTP_PROXY": http,
        "YARN_HTTPS_PROXY": http,
        "DOCKER_HTTP_PROXY": http,
        "CLOUDSDK_PROXY_TYPE": "http",
        "CLOUDSDK_PROXY_ADDRESS": "127.0.0.1",
        "CLOUDSDK_PROXY_PORT": str(proxies[0]),
        "JAVA_TOOL_OPTIONS": java,
    }


def network_gaps(policy: Policy, host: Host) -> list[Gap]:
    """What was asked of the network and is not given."""
    network = policy.network
    if network.open:
        return []
    if network.ssh_agent and not any(rule.origin == AGENT for rule in network.sockets):
        why = "there is none here (SSH_AUTH_SOCK), or it is another user's, or there is no view to put it in"
        return [*network_gaps(_without(policy, ssh_agent=False), host), Gap("the ssh agent", why, Need.WANTED, AGENT)]
    if network.forwards and not is_asked(policy, host):
        why = "there is no warden here that could give a socket of the run's network"
        return [*network_gaps(_without(policy, forwards=()), host), Gap("--forward", why, Need.REQUIRED, FORWARD)]
    if has_own_network(host):
        return _ungiven_ports(network, host) + _escapes(network) + _told(network)
    if network.proxies:
        return [_port_gap(network)]
    why = "without a network namespace nothing tells one host from another, so the network stays closed"
    way_out = "`ringfence doctor` says how to get one; --best-effort goes through proxies, and is weaker"
    asked = [(f"{rule.text} reachable", rule.origin) for rule in network.hosts if rule.verdict is Verdict.ALLOW]
    asked += [(f"{rule.path} reachable", rule.origin) for rule in network.sockets]
    return [Gap(what, why, Need.WANTED, origin, way_out) for what, origin in asked]


def _port_gap(network: Network) -> Gap:
    ports = " and ".join(map(str, network.proxies))
    why = f"Landlock knows ports, not addresses: a server anywhere that listens on port {ports} is reached"
    what = "only what the policy names reachable, by programs that use no proxy too"
    return Gap(what, f"{why}; names are not resolved inside", Need.REQUIRED, BUILT_IN, "`ringfence doctor`")


def _without(policy: Policy, **facts: object) -> Policy:
    return msgspec.structs.replace(policy, network=msgspec.structs.replace(policy.network, **facts))


def _escapes(network: Network) -> list[Gap]:
    """Sockets whose other end does whatever it is asked, outside."""
    return [
        Gap(f"the run held by its walls, with {rule.path}", f"{why}; you allowed it", Need.WANTED, rule.origin)
        for rule in network.sockets
        for name, why in ESCAPES.items()
        if name in rule.path and rule.origin != AGENT
    ]


def _told(network: Network) -> list[Gap]:
    """What a socket of the host's tells whoever has it."""
    if not network.allows_hosts:
        return []
    why = "a connection to a host outside is a socket of the host's network, and answers for it (SIOCGIFCONF)"
    return [Gap("interfaces and addresses of this machine kept from the command", why, Need.WANTED, BUILT_IN)]


def _ungiven_ports(network: Network, host: Host) -> list[Gap]:
    """Services of this machine that cannot be at their own port inside; by the proxies they are reached."""
    reserved = (NAMES, NAMES if host.namespaces else LED, HTTP, SOCKS)
    why = "inside, that port is the run's own; only a program that uses a proxy reaches it"
    return [
        Gap(f"{rule.text} at its own port", why, Need.WANTED, rule.origin, "name one port of it")
        for rule in network.hosts
        if rule.verdict is Verdict.ALLOW and rule.host in LOCAL and (not rule.port or rule.port in reserved)
    ]
