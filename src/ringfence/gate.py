"""The process between runs and the network, started by `network.start`.

It joins the judge to the room that dials. On its control socket come messages from whoever started the runs, each with
descriptors: sockets that listen inside a run, with the policy they serve. When that ends, so does all.
Until somebody connects it has imported next to nothing: most commands never do.
"""

import os
from collections.abc import Callable

from .model import Decision, Network, Verdict
from .policy import decide_address, decide_host, decide_name
from .policy.hosts import HostError, canonical_host

_MOST_KEPT, _LONGEST = 4096, 255  # answers, and letters of a host: a request may have 64 KiB of them


class PolicyJudge:
    """The judge, for one run: what it said of a host it does not work out again."""

    def __init__(self, network: Network, is_own: Callable[[str, int], bool], asks: bool = False) -> None:
        self._network = network
        self._is_own = is_own
        self._asks = asks
        self._kept: dict[tuple[str, int], Decision] = {}
        self._forms: dict[str, str] = {}

    def canonical(self, host: str) -> str:
        known = self._forms.get(host)
        if known is None:
            if len(self._forms) >= _MOST_KEPT:
                self._forms.clear()
            try:
                known = canonical_host(host)
            except HostError:
                known = host
            if len(host) <= _LONGEST:
                self._forms[host] = known
        return known

    def host(self, host: str, port: int) -> Decision:
        known = self._kept.get((host, port))
        if known is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            known = decide_host(self._network, host, port)
            if len(host) <= _LONGEST:
                self._kept[host, port] = known
        return known

    def address(self, host: str, port: int, address: str) -> Decision:
        return decide_address(self._network, host, port, address, self._is_own)

    def name(self, host: str) -> Decision:
        said = decide_name(self._network, host)
        if self._asks and said.verdict is Verdict.DENY and said.host is None and said.grant:
            return Decision(Verdict.ALLOW, f"{said.reason}; who connects is asked about")  # nothing is asked outside
        return said


def become(uid: int, gid: int) -> None:
    """Root dials for another user as that user, and reads nothing of a run's before."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if (os.getuid(), os.geteuid(), os.getgid(), os.getegid()) != (uid, uid, gid, gid):
        raise PermissionError(f"cannot become {uid}:{gid}")


def main(arguments: list[str]) -> int:
    """CONTROL [UID GID]: serve until the control socket ends."""
    control = int(arguments[0])
    from .network.control import wait_for_work

    work = wait_for_work(control)
    if work:
        from .network.serve import preload, serve

        if len(arguments) == 3:
            preload()  # whoever we become may not be able to read this Python
            become(int(arguments[1]), int(arguments[2]))
        serve(control, PolicyJudge, work)
    return 0
