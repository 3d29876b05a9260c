"""What a run has of the network: what listens before it is planned, and the gate of each user that runs are started
for, which is started when first wanted, kept from run to run, and ended with us."""

import _thread
import atexit
import os
from collections.abc import Mapping

import msgspec

from . import plan
from .enforce import Launch, write_new
from .model import Denial, Enforcement, Host, LaunchError, Network, ParentProxy, Policy, Verdict
from .network.start import Gate, listen_at, listen_on, port_of

DIALLED = "was dialled"
_HERE = ("localhost", "127.0.0.1", "::1")
_Ids = tuple[int, int] | None
_gates: dict[_Ids, Gate] = {}
_lock = _thread.allocate_lock()


# ---- What listens or is on the disk before a run is planned; `held` keeps the sockets ----


def agent_of(policy: Policy, host: Host, ids: _Ids, environ: Mapping[str, str]) -> str:
    """Where the caller's ssh agent listens, if the run is to have it."""
    wanted = policy.network.ssh_agent and policy.enforcement is not Enforcement.OFF
    return environ.get("SSH_AUTH_SOCK", "") if wanted and plan.has_view(host) and ids is None else ""


def with_agent(policy: Policy, path: str, place: str, held: list[int]) -> tuple[Policy, tuple[str, int]]:
    """The policy with a socket that stands for the agent's; the agent's path, and that socket."""
    held.append(listen_at(f"{place}/agent"))
    return plan.with_agent(policy, f"{place}/agent"), (path, held[-1])


def with_proxies(policy: Policy, held: list[int]) -> tuple[Policy, tuple[int, ...]]:
    """The policy with two proxies on the host's loopback, and the sockets on which they listen."""
    proxies = listen_on(0), listen_on(0)
    held += proxies
    return plan.with_proxies(policy, tuple(map(port_of, proxies)), os.urandom(16).hex()), proxies


def with_resolver(policy: Policy, host: Host, place: str) -> Policy:
    """The policy with the files that lead programs to the run's resolver, where it has one."""
    if not plan.wants_resolver(policy, host):
        return policy
    for name, text in plan.resolver_files(policy, os.uname().nodename).items():
        write_new(f"{place}/{name}", text)
    return plan.with_resolver(policy, place)


# ---- What goes through a gate ----


class Passage:
    """What of one run goes through a gate."""

    def __init__(
        self,
        policy: Policy,
        host: Host,
        ids: _Ids,
        environ: Mapping[str, str],
        agent: tuple[str, int] | None,
        proxies: tuple[int, ...],
        questions: int,
    ) -> None:
        self._doors = plan.doors(policy, host)
        self._policy = policy
        self._agent = agent
        self._proxies = proxies
        self._questions = questions  # where a person is asked about hosts
        self._number = 0
        self._told: tuple[tuple[Denial, ...], tuple[str, ...]] = ((), ())
        self.reached: tuple[str, ...] = ()  # the hosts that were dialled, once the run is over
        self._listeners: dict[int, int] = {}
        try:
            self._network = with_parent(policy.network, environ, asks=questions >= 0)
            self._gate = _gate(ids)
            for port in dict.fromkeys(policy.network.forwards):
                self._listeners[port] = _listen(port)
        except BaseException:
            self.__exit__()
            raise

    def open(self, launched: Launch) -> None:
        """Hand the gate what was opened inside; nothing when the launch did not come so far."""
        fds = launched.opened(len(self._doors))
        if len(fds) < len(self._doors):
            return
        serves, path = tuple(door.serves for door in self._doors), ""
        if self._proxies:
            serves, fds = ("http", "socks"), tuple(map(os.dup, self._proxies))
        if self._agent is not None:
            path, fd = self._agent
            serves, fds = (*serves, "agent"), (*fds, os.dup(fd))
        if self._questions >= 0:
            serves, fds, self._questions = (*serves, "questions"), (*fds, self._questions), -1
        for port in tuple(self._listeners):
            serves, fds = (*serves, f"inward {port}"), (*fds, self._listeners.pop(port))
        try:
            self._number = self._gate.serve(self._network, self._policy.workspace, serves, fds, path)
        except OSError as error:
            raise LaunchError("gate", f"does not take the run: {error.strerror}", "run it again") from None
        if self._network.ends_with_proxy:
            launched.end_with(self._gate.pid)

    def __enter__(self) -> "Passage":
        return self

    def __exit__(self, *_: object) -> None:
        """The run is over, or did not come so far."""
        while self._listeners:
            os.close(self._listeners.popitem()[1])
        if self._questions >= 0:
            os.close(self._questions)
            self._questions = -1
        self.told()

    def told(self) -> tuple[tuple[Denial, ...], tuple[str, ...]]:
        """What was refused to the run, which is over, and what was signed for it."""
        number, self._number = self._number, 0
        if number:
            said = self._gate.stop(number)
            self.reached = tuple(one.target for one in said if one.allowed and one.reason == DIALLED)
            refused = [one for one in said if not one.allowed]
            self._told = (
                tuple(
                    Denial("connect", one.target, one.reason, one.grant, True, one.origin, one.pid, one.exe)
                    for one in refused
                ),
                tuple(one.reason for one in said if one.allowed and one.reason != DIALLED),
            )
        return self._told


def with_parent(network: Network, environ: Mapping[str, str], asks: bool = False) -> Network:
    """The network with the caller's own proxy to dial through, where the policy names none. Who is allowed this machine
    alone, and cannot be granted more, never dials through one: what the variables say is nobody's matter then."""
    away = any(rule.verdict is Verdict.ALLOW and rule.host not in _HERE for rule in network.hosts)
    if network.parent != ParentProxy() or not (away or asks):
        return network

    def first(*names: str) -> str:
        name = next((name for name in names if environ.get(name)), "")
        return _proxy_of(name, environ[name]) if name else ""

    http = first("http_proxy", "HTTP_PROXY")
    https = first("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "SOCKS_PROXY")
    if not http and not https:
        return network
    entries = (environ.get("no_proxy") or environ.get("NO_PROXY") or "").lower().replace(",", " ").split()
    passed = tuple(form for entry in entries for form in _forms(entry))
    return msgspec.structs.replace(network, parent=ParentProxy(http, https, passed))


def _proxy_of(name: str, text: str) -> str:
    """The proxy that a variable names, which may have a password and is not shown."""
    from .policy.reach import PROXY, proxy_fault

    scheme, mark, rest = text.partition("://")
    scheme = {"socks": "socks5h"}.get(scheme.lower(), scheme.lower())
    url = f"{scheme}://{rest}" if mark else f"http://{text}"
    fault = proxy_fault(url)
    if fault:
        raise LaunchError(name, f"names no proxy that can be dialled through: {fault}", PROXY)
    return url


def _forms(entry: str) -> tuple[str, ...]:
    """What NO_PROXY means by an entry to curl, Python, Go and others: a domain with all that lies below it."""
    domain = entry.removeprefix("*").removeprefix(".")
    return (domain, f".{domain}") if domain else (entry,)


def _listen(port: int) -> int:
    """A port of the host's loopback."""
    try:
        return listen_on(port)
    except OSError as error:
        raise LaunchError("--forward", f"port {port}: {error.strerror}", "choose another port") from None


def _gate(ids: _Ids) -> Gate:
    with _lock:
        kept = _gates.get(ids)
        if kept is not None and kept.is_alive():
            return kept
        if kept is not None:
            kept.close()
        try:
            made = _gates[ids] = Gate(ids)
        except OSError as error:
            raise LaunchError("gate", f"cannot be started: {error.strerror}", "close some processes") from None
        return made


def _disown() -> None:
    """In a fork of our caller's: the gates are the parent's."""
    global _lock
    _lock = _thread.allocate_lock()
    for gate in _gates.values():
        gate.disown()
    _gates.clear()


os.register_at_fork(after_in_child=_disown)


@atexit.register
def end_all() -> None:
    """End every gate."""
    with _lock:
        ended = list(_gates.values())
        _gates.clear()
    for gate in ended:
        gate.close()
