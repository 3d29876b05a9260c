"""How a run ended that did not end well, or of which more was told than that it began and ended."""

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes an enum of them all
import errno
import os

from ..model import Broken, Ending, Exited, LaunchError, Plan, Refused, Signalled, StepKind
from . import wire
from .process import LOST

OWN = (StepKind.STREAM, StepKind.STREAMS, StepKind.DIRECTORY, StepKind.EXEC)  # the steps that a standby is handed

GIVEN_UP = 125  # what the warden leaves with


def ending_of(data: bytes, code: int, plan: Plan, was_standby: bool, was_told: bool = False) -> Ending:
    """What the status channel and the exit code say together. `was_told`: we have sent a signal ourselves."""
    records, words = wire.read_records(data)
    ended = next((record for record in records if record[0] == wire.ENDED), None)
    told = records if ended is None else records[: records.index(ended)]  # what follows is of the next that stands by
    failed = next((record for record in told if record[0] == wire.FAILED), None)
    is_ready = any(record[0] == wire.READY for record in records)
    # Before it was ready, too, if we asked for its end. Else somebody has killed what stood by: that it is ready is
    # said before a command is begun, so none was.
    if ended is not None and not ended[2] and (is_ready or was_told or not was_standby):
        return Signalled(ended[1])
    if was_standby and not is_ready and (failed is None or failed[2] not in OWN):
        how = "gone" if ended is None or ended[2] else f"ended by signal {ended[1]}"
        return Refused(0, "standby", errno.ESTALE, f"the enactor that stood by was {how} before it had its command")
    if failed is not None:
        return _refused(plan, *failed[1:])
    if is_ready and ended is not None:
        return Exited(ended[1])
    if is_ready and plan.has_warden:
        # The warden itself was ended, or gave up, and the command with it.
        is_given_up = code == GIVEN_UP and not was_told
        return Broken("its warden could not go on") if is_given_up else Signalled(signal.SIGKILL)
    if words and not is_ready:
        return Refused(0, "bubblewrap", errno.ESTALE, words)
    if code == LOST:
        hint = "do not ignore SIGCHLD, and do not wait for any child"
        raise LaunchError("command", "it has ended, and somebody else was told how", hint)
    if is_ready or code < 0:
        return Exited(code) if code >= 0 else Signalled(-code)
    raise LaunchError("enactor", f"ended with {code} and said nothing", "install ringfence again")


def _refused(plan: Plan, step: int, kind: int, error: int) -> Refused:
    if kind == 0:  # before its first step: a plan it does not understand, or a user it cannot become
        text = "it does not accept the plan" if error == errno.EPROTO else f"it cannot begin: {os.strerror(error)}"
        return Refused(step, "enactor", error, text)
    what = plan.steps[step]
    text = f"{what.text}: {os.strerror(error)}"
    if error == errno.ESTALE:
        text = f"{what.text}: something else stands there than when it was planned"
    if error == errno.ENOSPC and what.kind in (StepKind.PARENT, StepKind.NAME):
        text = f"{what.text}: more names and directories are to be watched than the warden has room for"
    exit_code = 125
    if kind == StepKind.EXEC:
        exit_code = 127 if error == errno.ENOENT else 126
        text = f"{what.strings[1].decode('utf-8', 'replace')}: {os.strerror(error)}"  # its name as it was given
    return Refused(step, what.kind.word, error, text, exit_code)
