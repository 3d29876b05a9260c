"""The command's own steps: its streams, its directory, its environment, and the exec. Pure."""

from ..model import Command, Enforcement, Host, PlanError, Policy, Step, StepKind
from .environment import scrubbed
from .rules import has_view


def own_steps(policy: Policy, command: Command, host: Host) -> tuple[list[Step], Step]:
    """The command's own: its streams and directory, and the exec."""
    steps = [
        Step(
            StepKind.STREAM,
            f"descriptor {stream.fd} opened again as {stream.path}",
            (stream.fd, stream.flags, stream.device, stream.inode, stream.offset),
            (stream.path.encode("utf-8", "surrogateescape"),),
        )
        for stream in command.streams
    ]
    steps.append(Step(StepKind.STREAMS, "descriptors 0 to 2 checked, all others closed"))
    cwd = command.cwd.encode("utf-8", "surrogateescape")
    steps.append(Step(StepKind.DIRECTORY, f"start in {command.cwd}", (0, 0), (cwd,)))
    fixed = {"PWD": command.cwd, "RINGFENCE": "1"}
    if policy.enforcement is Enforcement.OFF:
        environ = command.environ
    else:
        fixed["TMPDIR"] = "/tmp" if has_view(host) else command.temporary
        environ = scrubbed(command.environ, policy.environment, fixed)
    words = [command.program, *command.argv, *(f"{name}={value}" for name, value in environ.items())]
    try:
        strings = tuple(word.encode("utf-8", "surrogateescape") for word in words)
    except UnicodeEncodeError as error:
        raise PlanError("command", f"cannot be written as bytes: {error.object[:40]!r}") from None
    if any(b"\0" in text for text in strings):
        raise PlanError("command", "an argument or variable holds a NUL byte", hint="no program can be given one")
    return steps, Step(StepKind.EXEC, " ".join(command.argv), (len(command.argv),), strings)
