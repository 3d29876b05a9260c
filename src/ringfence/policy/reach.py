"""What all layers together say of the network, as one value.

Pure. Lists unite; of single values the latest wins; what an untrusted layer may not say was dropped before.
"""

from collections.abc import Iterable

import msgspec

from ..model import HostRule, Network, Origin, ParentProxy, PolicyError, SocketRule, Verdict
from .hosts import HostError, canonical_host, port_number, split_port
from .names import HOST, entry_fault
from .words import named

_VERDICTS = {
    "network.allowedDomains": Verdict.ALLOW,
    "network.allowTcp": Verdict.ALLOW,
    "network.deniedDomains": Verdict.DENY,
}
_SINGLE = {
    "network.httpProxyPort": "http_proxy_port",
    "network.socksProxyPort": "socks_proxy_port",
    "network.requireHostMatch": "match_hosts",
    "network.endWithProxy": "ends_with_proxy",
}
MOST_HOSTS = 8192


def host_rule(verdict: Verdict, text: str | int, origin: Origin) -> HostRule:
    """One entry as a rule. A bare port is that port of this machine's own loopback."""
    if isinstance(text, int):
        return HostRule(verdict, "localhost", text, origin, str(text))
    fault = entry_fault(text, any_host=verdict is not Verdict.ALLOW)
    if fault:
        raise PolicyError(origin, f"{named(text)}: {fault}", HOST)
    host, port = split_port(text)
    return HostRule(verdict, canonical_pattern(host), port_number(port), origin, text)


def canonical_pattern(host: str) -> str:
    """The canonical form of a host, of `*.host`, or of `*`."""
    if host == "*":
        return host
    star = "*." if host.startswith("*.") else ""
    return star + canonical_host(host.removeprefix(star))


def make_network(settings: Iterable[tuple[str, object, Origin]], switches: Network) -> Network:
    """The network out of every setting, in the order of the layers; `switches` has what is only on or off."""
    hosts: list[HostRule] = []
    denied: list[HostRule] = []
    sockets: list[SocketRule] = []
    reasons: dict[str, str] = {}
    forwards: list[int] = []
    single: dict[str, object] = {}
    for key, value, origin in settings:
        if key in _VERDICTS and isinstance(value, tuple):
            hosts += [host_rule(_VERDICTS[key], entry, origin) for entry in value]
        elif key == "network.deniedResolvedAddresses" and isinstance(value, tuple):
            denied += [HostRule(Verdict.DENY, entry, 0, origin, entry) for entry in value]
        elif key == "network.allowUnixSockets" and isinstance(value, tuple):
            sockets += [SocketRule(entry, origin) for entry in value]
        elif key == "network.deniedDomainReasons" and isinstance(value, dict):
            reasons |= value
        elif key == "network.parentProxy" and isinstance(value, dict):
            single["parent"] = _parent(value, origin)
        elif key == "network.forward" and isinstance(value, tuple):
            forwards += value
        elif key == "network.strictAllowlist":
            single["is_strict"] = bool(value or single.get("is_strict"))  # no later layer takes it back
        elif key in _SINGLE:
            single[_SINGLE[key]] = value
    if len(hosts) > MOST_HOSTS:
        raise PolicyError("policy", f"{len(hosts)} rules about hosts", f"join some: at most {MOST_HOSTS} are judged")
    explained = tuple(
        msgspec.structs.replace(rule, why=reasons[rule.text])
        if rule.verdict is Verdict.DENY and rule.text in reasons
        else rule
        for rule in hosts
    )
    return msgspec.structs.replace(
        switches,
        hosts=explained,
        denied_addresses=tuple(denied),
        sockets=tuple(sockets),
        forwards=tuple(dict.fromkeys(forwards)),
        **single,
    )


def _parent(value: dict[str, str], origin: Origin) -> ParentProxy:
    for name in ("http", "https"):
        _checked_proxy(value.get(name, ""), origin)
    passed = tuple(entry.strip().lower() for entry in value.get("noProxy", "").split(",") if entry.strip())
    return ParentProxy(value.get("http", ""), value.get("https", ""), passed)


def _checked_proxy(url: str, origin: Origin) -> None:
    fault = proxy_fault(url) if url else ""
    if fault:
        raise PolicyError(origin, f"network.parentProxy is {named(url)}: {fault}", PROXY)


PROXY = "http://host:port or socks5h://host:port"


def proxy_fault(url: str) -> str:
    """Why it is no proxy to dial through, or nothing; one is `http://host:port`, perhaps with a name and password."""
    scheme, mark, rest = url.partition("://")
    host, port = split_port(rest.rstrip("/").rpartition("@")[2])
    try:
        canonical_host(host)
    except HostError as error:
        return str(error)
    if not mark or scheme not in ("http", "socks5", "socks5h"):
        return "it is spoken to as HTTP or SOCKS5, and not by TLS"
    return "a port is a number from 1 to 65535" if port and not port_number(port) else ""
