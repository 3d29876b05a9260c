"""An event as a person reads it."""

import shlex

from ..model.event import AnyEvent, Changed, Denied, Escaped, Granted, Ran, Signed


def sentence(event: AnyEvent) -> tuple[str, str]:
    """What kind of event it is, and what happened."""
    if isinstance(event, Ran):
        how = event.error or f"{event.ending}, {event.seconds:.2f} s"
        denied = f", {event.denials} refused" if event.denials else ""
        return "run", f"{shlex.join(event.argv)}: {how}{denied}"
    if isinstance(event, Denied):
        who = f" by {event.by}" if event.by else ""
        return "denied", f"{event.denial.access} {event.denial.target}{who}: {event.denial.reason}"
    if isinstance(event, Granted):
        return "granted", "; ".join(event.grants)
    if isinstance(event, Escaped):
        return "escape", "; ".join(event.what)
    if isinstance(event, Signed):
        return "signed", "; ".join(event.what)
    if isinstance(event, Changed):
        return "policy", f"{event.what}: {', '.join(event.policies) or 'none'}"
    return "log", event.what


def rendered(event: AnyEvent) -> str:
    """One line."""
    kind, said = sentence(event)
    where = f" [{event.session or event.workspace}]" if event.workspace else ""
    return f"{event.at[:19].replace('T', ' ')}Z {kind:7} {said}{where}"
