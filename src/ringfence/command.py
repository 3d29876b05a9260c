"""The command's own part of a plan: its words, variables, streams and directory, in steps and in bytes.

It is made for every run, so what is the same from run to run is kept beside the walls.
"""

import os
from collections.abc import Mapping, Sequence

from . import enforce, plan
from .keep import Prepared
from .model import Command, Plan, Step, Stream
from .where import find_program


class Own:
    """What a run has of its own, beside the walls it shares with others."""

    def __init__(self, made: Prepared, argv: Sequence[str], environ: Mapping[str, str], streams: tuple[Stream, ...]):
        given, encoded = _variables(made, environ)
        if streams:
            self._first = plan.first_steps(made.request.cwd, streams)
            self._between = b"".join(map(enforce.encode_step, self._first))
        else:
            self._first, self._between = _first(made)
        program = find_program(argv[0], environ.get("PATH", os.defpath), made.request.cwd)
        self._last = plan.exec_step(program, argv, given, made.walls.prefix)
        self._end = enforce.encode_step(self._last, len(given), encoded)
        self._made, self._argv = made, argv

    @property
    def is_long(self) -> bool:
        """Whether it is more than a standby can be handed."""
        return len(self._between) + len(self._end) > enforce.Standby.LONGEST - 64

    def for_standby(self) -> tuple[Plan, bytes]:
        """What one is handed that stands behind the walls."""
        steps = (*self._first, self._last)
        return self._made.outline(steps, self._argv), enforce.whole(len(steps), (self._between, self._end))

    def whole(self) -> tuple[Plan, bytes]:
        """Everything, for an enactor that begins with nothing."""
        made = self._made
        steps = (*made.walls.head, *self._first, *made.walls.tail, self._last)
        data = enforce.whole(len(steps), (made.head, self._between, made.tail, self._end))
        return made.outline(steps, self._argv), data


def _first(made: Prepared) -> tuple[tuple[Step, ...], bytes]:
    """Without streams that are opened again."""
    if made.first is None:
        steps = plan.first_steps(made.request.cwd, ())
        made.first = steps, b"".join(map(enforce.encode_step, steps))
    return made.first


def _variables(made: Prepared, environ: Mapping[str, str]) -> tuple[tuple[bytes, ...], bytes]:
    """What the command is given of an environment, and encoded; kept."""
    if made.variables is not None and made.variables[0] == environ:
        return made.variables[1:]
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
