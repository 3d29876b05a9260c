"""How whoever waits goes on: a call by the warden that holds it, a connection by the gate.

What is decided comes from `asking`; here it is done. Each end may be gone, and all who waited there with it.
"""

import errno
import os
import socket
from typing import TYPE_CHECKING

from .enforce import outside
from .enforce.pauses import Call, Pauses
from .inquiry import Host, Waiter, writes
from .model import Policy
from .model.event import written
from .model.grant import Operation
from .network.control import Granted
from .plan import has_view, shows
from .policy.defaults import is_inside

if TYPE_CHECKING:
    from .keep import Prepared


class Onward:
    """The ends of one run where somebody waits. The warden's comes when the command has started."""

    def __init__(self, made: "Prepared") -> None:
        self._policy = made.judged()
        self._is_named = made.walls.shows_asked  # what is read is opened inside, by its name
        self._hands_directories = not has_view(made.host)
        self._layered = made.walls.layered
        self.warden: Pauses | None = None
        self.gate, self.gate_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def close(self) -> None:
        """Refuse all who still wait."""
        for end in (self.warden, self.gate):
            if end is not None:
                end.close()

    def is_hosts(self, path: str) -> bool:
        """Whether what stands at a path inside is what stands there on the host."""
        return self._hands_directories or (shows(self._policy, path) and not is_inside(path, self._layered))

    def let(self, waiter: Waiter, judged: Policy) -> None:
        """It may, under this policy."""
        if isinstance(waiter, Host):
            self._say(waiter.wish.number, judged)
            return
        assert self.warden is not None
        inquiry = waiter.inquiry
        try:
            if inquiry.call is not Call.OPEN:
                is_new = any(operation is Operation.CREATE for operation, _ in waiter.needs)
                outside.do(inquiry, waiter.path, waiter.other, is_new)
                self.warden.done(inquiry)
            elif self._is_named and not writes(inquiry.flags) and shows(self._policy, waiter.path):
                self.warden.name(inquiry, waiter.path)
            else:
                fd = outside.open_file(waiter.path, inquiry.flags, inquiry.number, directories=self._hands_directories)
                self.warden.hand(inquiry, fd)
                os.close(fd)
        except OSError as error:
            self.warden.refuse(inquiry, error.errno or errno.EACCES)

    def refuse(self, waiter: Waiter) -> None:
        """It may not."""
        if isinstance(waiter, Host):
            self._say(waiter.wish.number)
        elif self.warden is not None:
            self.warden.refuse(waiter.inquiry)

    def widen(self, judged: Policy) -> None:
        """From now on the gate goes by this policy, which has more than the run began with."""
        self._say(0, judged, keep=True)

    def _say(self, number: int, judged: Policy | None = None, keep: bool = False) -> None:
        more = judged.network.hosts[len(self._policy.network.hosts) :] if judged else None
        try:
            self.gate.send(written(Granted(number, more, keep)))
        except OSError:  # it is gone; or it is more than a message holds, and then nobody waits for nothing
            if judged:
                self._say(number)
