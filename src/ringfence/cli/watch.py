"""`ringfence approvals watch`: the questions of all runs of this user, answered from another terminal."""

import os
import select
import sys

from ..airlock import lines
from ..airlock.lines import Line, Lines, Waiting
from ..model import PolicyError
from ..policy.trust import asking_of
from .desk import Desk
from .options import printable, say

LOOK_SECONDS = 0.2  # how often new runs are looked for


def watch(as_json: bool) -> int:
    """Until standard input ends."""
    directory = asking_of(os.environ)
    if "RINGFENCE" in os.environ:
        raise PolicyError("approvals", "are a person's, and this runs inside a sandbox", "say it outside")
    if not directory:
        raise PolicyError("approvals", "there is no home directory where runs could be found", "set HOME")
    watching = _Watching(directory, as_json)
    try:
        while watching.turn():
            pass
    except KeyboardInterrupt:
        pass
    return 0


class _Watching:
    def __init__(self, directory: str, as_json: bool) -> None:
        self._directory, self._as_json = directory, as_json
        self._runs: dict[str, tuple[Lines, Waiting]] = {}
        self._desk = Desk()
        self._typed = b""
        if not as_json:
            say("ringfence: waiting for questions; Ctrl-C ends this")

    def turn(self) -> bool:
        """Wait a moment, and see to what came; whether there is more to come."""
        for run in lines.runs(self._directory):
            if run not in self._runs:
                self._meet(run)
        by_fd = {met[0].fileno(): run for run, met in self._runs.items()}
        ready = select.select([0, *by_fd], [], [], LOOK_SECONDS)[0]
        for fd in ready:
            if fd in by_fd:
                self._hear(by_fd[fd])
        if not self._as_json and self._desk.open and not self._desk.shown and not self._desk.wait():
            self._show()
        return 0 not in ready or self._read()

    def _meet(self, run: str) -> None:
        met = lines.connect(self._directory, run)
        if met is None:
            return
        met[0].socket.setblocking(False)
        self._runs[run] = met
        for question in met[1].questions:
            self._take(run, question)

    def _hear(self, run: str) -> None:
        end, _ = self._runs[run]
        said = end.read()
        for line in said or ():
            self._take(run, line)
        if said is None:
            end.close()
            for key in [key for key in self._desk.open if key[0] == run]:
                self._take(run, {"state": "withdrawn", "query_id": key[1]})
            del self._runs[run]

    def _take(self, run: str, line: Line) -> None:
        if self._as_json:
            import msgspec

            sys.stdout.write(msgspec.json.encode({**line, "run": run}).decode() + "\n")
            sys.stdout.flush()
            return
        told = self._desk.hear(run, self._runs[run][1].workspace, line)
        if told:
            sys.stdout.write(printable(told) + "\n")
            sys.stdout.flush()
            if self._desk.shown:
                self._show()

    def _show(self) -> None:
        question = self._desk.open[(self._desk.shown or [next(iter(self._desk.open))])[0]]
        command = " ".join(self._runs[question.run][1].command)
        sys.stdout.write(printable(f"{command[:120]} in {question.workspace}:") + f"\n{self._desk.show()}")
        sys.stdout.flush()

    def _read(self) -> bool:
        data = os.read(0, 1 << 16)
        *whole, self._typed = (self._typed + data).split(b"\n")
        for text in whole:
            self._say(text)
        return bool(data)

    def _say(self, text: bytes) -> None:
        if self._as_json:
            import msgspec

            try:
                line = msgspec.json.decode(text, type=dict[str, object])
            except (msgspec.MsgspecError, RecursionError) as error:
                say(f"ringfence: not a line of JSON: {error}")
                return
            self._send(str(line.pop("run", "")), line)
            return
        if not self._desk.shown:
            return
        answers = self._desk.typed(text.decode("utf-8", "replace"))
        for run, line in answers:
            self._send(run, line)
        if not answers:
            self._show()

    def _send(self, run: str, line: Line) -> None:
        if run in self._runs:
            try:
                self._runs[run][0].send(line)
            except OSError:
                say("ringfence: that run is over")
