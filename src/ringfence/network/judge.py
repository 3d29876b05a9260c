"""What this room asks of the judge, and what it says when the answer is no. The judge itself is handed in."""

from typing import Protocol

from ..model import Decision

Who = tuple[int, str]  # a process, as the run counts, and its program
NOBODY: Who = (0, "")


def written(host: str, port: int) -> str:
    """A canonical host and a port as a rule has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Judge(Protocol):
    """May a host, an address it leads to, or a name at any port be reached?"""

    def canonical(
        self, host: str
    ) -> str: ...  # the form in which a host is judged and dialled; itself when there is none

    def host(self, host: str, port: int) -> Decision: ...

    def address(self, host: str, port: int, address: str) -> Decision: ...

    def name(self, host: str) -> Decision: ...


class Denied(Exception):
    """The judge said no."""

    def __init__(self, target: str, decision: Decision) -> None:
        super().__init__(decision.reason)
        self.target = target
        self.decision = decision


class Unreachable(Exception):
    """It may be reached, and cannot: no such name, nobody answers, or too slowly."""

    def __init__(self, why: str, errno: int) -> None:
        super().__init__(why)
        self.errno = errno
