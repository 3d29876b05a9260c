"""The command's own part of a plan: its words, variables, streams and directory, in steps and in bytes.

It is made for every run, so what is the same from run to run is kept beside the walls, and steps are made of it only
where somebody looks at them.
"""

import os
from collections.abc import Mapping, Sequence

from . import enforce, plan
from .keep import Prepared
from .model import Command, Plan, Step, Stream
from .where import find_program


class Own:
    """What a run has of its own, beside the walls it shares with others."""

    def __init__(
        self,
        made: Prepared,
        argv: Sequence[str],
        environ: Mapping[str, str],
        streams: tuple[Stream, ...],
        begin: tuple[Step, ...] = (),
        program: str = "",
    ):
        """`begin` comes before all the others, and a standby has none. Where there is a `program`, nobody looks for the
        first word."""
        self._made, self._argv, self._streams, self._begin = made, argv, streams, begin
        self._program = program or argv[0]
        if self._program[0] != "/":
            self._program = find_program(argv[0], environ.get("PATH", os.defpath), made.request.cwd)
        words = plan.exec_words(self._program, argv, made.walls.prefix)
        kept = made.variables
        self._given, encoded = kept[1:] if kept is not None and kept[0] == environ else _variables(made, environ)
        between = made.between if made.between and not streams else _between(made, streams)
        self._pieces = between, enforce.encode_exec(words, len(self._given), encoded)

    def steps(self) -> tuple[Step, ...]:
        """What a standby is handed, which has done the steps of the walls already."""
        first = plan.first_steps(self._made.request.cwd, self._streams)
        return *first, plan.exec_step(self._program, self._argv, self._given, self._made.walls.prefix)

    def for_standby(self) -> bytes:
        """Those steps, encoded."""
        return enforce.whole(len(self._streams) + 3, self._pieces)

    def whole(self) -> tuple[Plan, bytes]:
        """Everything, for an enactor that begins with nothing."""
        made, (between, end), (*first, last) = self._made, self._pieces, self.steps()
        steps = (*self._begin, *made.walls.head, *first, *made.walls.tail, last)
        begin = map(enforce.encode_step, self._begin)
        data = enforce.whole(len(steps), (*begin, made.head, between, made.tail, end))
        return made.outline(steps, self._argv), data


def _between(made: Prepared, streams: tuple[Stream, ...]) -> bytes:
    """The steps before the last, encoded; kept, where no stream is opened again."""
    found = b"".join(map(enforce.encode_step, plan.first_steps(made.request.cwd, streams)))
    if not streams:
        made.between = found
    return found


def _variables(made: Prepared, environ: Mapping[str, str]) -> tuple[tuple[bytes, ...], bytes]:
    """What the command is given of an environment, and encoded; kept."""
    request, asked = made.request, dict(environ)
    if request.ids:
        name = _name(request.ids[0])
        asked |= {"HOME": request.home, "USER": name, "LOGNAME": name}
    bare = Command((), request.cwd, asked, temporary=made.temporary)
    given = plan.given_variables(made.policy, bare, made.host, made.walls.variables)
    made.variables = dict(environ), given, enforce.encode_texts(given)
    return made.variables[1:]


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
