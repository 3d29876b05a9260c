"""Events in the words of the Open Cybersecurity Schema Framework, 1.3. Pure.

A run is a process activity, a denial a file or network activity that was blocked, a grant and a change of policy are
entity management, an escape is a detection finding. What has no place there is of no class, or under `unmapped`.
"""

import datetime

import msgspec

from ..model.event import AnyEvent, Changed, Denied, Escaped, Granted, Noted, Ran, Signed

VERSION = "1.3.0"
SYSTEM, FINDINGS, IDENTITY, NETWORK = 1, 2, 3, 4
INFORMATIONAL, LOW, MEDIUM, HIGH = 1, 2, 3, 4
SUCCESS, FAILURE = 1, 2
DENIED, BLOCKED = 2, 2
_FILE_ACTS = {"read": 2, "write": 3, "run": 14}
_NETWORK_ACTS = ("connect", "bind")
_REFUSE = 5  # of network activity

Document = dict[str, object]


def milliseconds(at: str) -> int:
    """The time of an event as OCSF says it."""
    return int(datetime.datetime.fromisoformat(at).timestamp() * 1000)


def document(event: AnyEvent, number: int, hostname: str, version: str) -> Document:
    """One event."""
    if isinstance(event, Ran):
        return _ran(event) | _base(event, 1007, SYSTEM, 1, number, hostname, version)
    if isinstance(event, Denied):
        return _denied(event, number, hostname, version)
    if isinstance(event, Escaped):
        finding = {"title": "A command ran with less around it than was wanted", "uid": f"{event.run}-{number}"}
        base = _base(event, 2004, FINDINGS, 1, number, hostname, version, HIGH)
        return {**base, "finding_info": finding | {"desc": "; ".join(event.what)}}
    if isinstance(event, Granted | Changed):
        activity = 1 if isinstance(event, Granted) else 3
        base = _base(event, 3004, IDENTITY, activity, number, hostname, version, LOW)
        said = event.grants if isinstance(event, Granted) else (event.what, *event.policies)
        return {**base, "entity": {"name": event.workspace, "type": "Policy"}, "comment": "; ".join(said)}
    return {**_base(event, 0, 0, 0, number, hostname, version), "message": _said(event)}


def _said(event: Noted | Signed) -> str:
    return "; ".join(event.what) if isinstance(event, Signed) else event.what


def _base(
    event: AnyEvent,
    class_uid: int,
    category: int,
    activity: int,
    number: int,
    hostname: str,
    version: str,
    severity: int = INFORMATIONAL,
) -> Document:
    product = {"name": "ringfence", "vendor_name": "ringfence", "version": version}
    metadata: Document = {"version": VERSION, "product": product, "uid": str(number), "log_name": "ringfence audit"}
    if event.run:
        metadata["correlation_uid"] = event.run
    return {
        "class_uid": class_uid,
        "category_uid": category,
        "activity_id": activity,
        "type_uid": class_uid * 100 + activity,
        "severity_id": severity,
        "time": milliseconds(event.at),
        "metadata": metadata,
        "device": {"hostname": hostname, "type_id": 0},
        "actor": {"user": {"uid": str(event.uid)}, "process": {"pid": event.pid}},
        "unmapped": msgspec.to_builtins(event),
    }


def _ran(event: Ran) -> Document:
    process = {"cmd_line": " ".join(event.argv), "name": event.argv[0] if event.argv else ""}
    ended = milliseconds(event.at)
    code: Document = {} if event.ending is None else {"exit_code": event.exit_code}  # else it never began
    return {
        **code,
        "process": process | {"working_directory": event.cwd, "user": {"uid": str(event.ran_as)}},
        "start_time": ended - int(event.seconds * 1000),
        "end_time": ended,
        "status_id": SUCCESS if event.ending is not None and event.exit_code == 0 else FAILURE,
        "status_detail": event.error or str(event.ending),
    }


def _denied(event: Denied, number: int, hostname: str, version: str) -> Document:
    denial = event.denial
    by_policy: Document = {
        "action_id": DENIED,
        "disposition_id": BLOCKED,
        "status_id": FAILURE,
        "status_detail": denial.reason,
        "message": f"{denial.access} {denial.target}: {denial.reason}",
    }
    activity = _FILE_ACTS.get(denial.access)
    if activity is None and denial.access not in _NETWORK_ACTS:  # a tool call, a variable, a trace
        return {**_base(event, 0, 0, 0, number, hostname, version, MEDIUM), **by_policy}
    if activity is None:
        host, _, port = denial.target.rpartition(":")
        end = {"hostname": host, "port": int(port)} if host and port.isdigit() else {"hostname": denial.target}
        base = _base(event, 4001, NETWORK, _REFUSE, number, hostname, version, MEDIUM)
        return {**base, **by_policy, "dst_endpoint": end}
    name = denial.target.rstrip("/").rpartition("/")[2] or denial.target
    base = _base(event, 1001, SYSTEM, activity, number, hostname, version, MEDIUM)
    return {**base, **by_policy, "file": {"name": name, "path": denial.target, "type_id": 0}}
