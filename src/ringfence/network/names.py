"""The names of a run, and the addresses that stand for them. Pure.

Those that the policy names itself are known from the start, and stand in the run's /etc/hosts as well. A `*.x` rule
lets a command ask for names without end, so their number is bounded.
"""

from ..model.standins import stand_in, stand_ins

MOST = 4096


class Names:
    """The names of one run, each with the address that stands for it."""

    def __init__(self, workspace: str, named: tuple[str, ...] = ()) -> None:
        self._workspace = workspace
        self._addresses = stand_ins(workspace, named)
        self._names = {address: name for name, address in self._addresses.items()}

    def address_of(self, name: str) -> str:
        """The address that stands for a canonical name; empty when there are too many names."""
        known = self._addresses.get(name)
        if known is not None:
            return known
        if len(self._names) >= MOST:
            return ""
        address = stand_in(self._workspace, name, self._names)
        self._addresses[name] = address
        self._names[address] = name
        return address

    def name_of(self, address: str) -> str:
        """The name that an address stands for; empty when it stands for none."""
        return self._names.get(address, "")
