"""Which events of the audit log somebody asks for. Pure."""

import msgspec

from ..model.event import AnyEvent, Denied, Ran

_decode = msgspec.json.Decoder(AnyEvent).decode


class Wanted(msgspec.Struct, frozen=True):
    """Which events somebody asks for."""

    since: str = ""  # as events say the time
    denied: bool = False
    session: str = ""
    run: str = ""


def event_of(line: bytes) -> AnyEvent | None:
    """The event of a line, or None when it is no line of ours; `verify` says more."""
    try:
        event: AnyEvent = _decode(line)
        return event
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def is_wanted(event: AnyEvent, wanted: Wanted) -> bool:
    """Whether an event is among those asked for."""
    return (
        event.at >= wanted.since
        and (not wanted.denied or is_denied(event))
        and wanted.session in ("", event.session)
        and wanted.run in ("", event.run)
    )


def is_denied(event: AnyEvent) -> bool:
    """Whether it says that something was refused."""
    return isinstance(event, Denied) or (isinstance(event, Ran) and bool(event.error))
