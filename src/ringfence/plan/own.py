"""The command's own steps: its streams, its directory, its environment, and the exec. Pure."""

from collections.abc import Sequence

from ..model import Command, Enforcement, Host, PlanError, Policy, Step, StepKind, Stream
from .environment import scrubbed
from .network import proxy_environment, retry_environment
from .rules import has_view


def first_steps(cwd: str, streams: tuple[Stream, ...]) -> tuple[Step, ...]:
    """Its streams, and its directory."""
    opened = [
        Step(
            StepKind.STREAM,
            f"descriptor {stream.fd} opened again as {stream.path}",
            (stream.fd, stream.flags, stream.device, stream.inode, stream.offset),
            (stream.path.encode("utf-8", "surrogateescape"),),
        )
        for stream in streams
    ]
    checked = Step(StepKind.STREAMS, "descriptors 0 to 2 checked, all others closed")
    place = Step(StepKind.DIRECTORY, f"start in {cwd}", (0, 0), (cwd.encode("utf-8", "surrogateescape"),))
    return *opened, checked, place


def exec_step(program: str, argv: Sequence[str], given: tuple[bytes, ...], prefix: tuple[str, ...]) -> Step:
    """The last of all, with the variables that are given. `prefix` is a program that holds the command, if there is
    one."""
    words = exec_words(program, argv, prefix)
    return Step(StepKind.EXEC, " ".join(argv), (len(words) - 1,), (*words, *given))


def exec_words(program: str, argv: Sequence[str], prefix: tuple[str, ...]) -> tuple[bytes, ...]:
    """What is executed, and its words."""
    return as_bytes([prefix[0], *prefix, program, *argv[1:]] if prefix else [program, *argv])


def given_variables(policy: Policy, command: Command, host: Host, variables: dict[str, str]) -> tuple[bytes, ...]:
    """The environment that the program is given. `variables` are the walls' own."""
    environ = command.environ
    if policy.enforcement is not Enforcement.OFF:
        temporary = "/tmp" if has_view(host) else command.temporary
        fixed = {"PWD": command.cwd, "RINGFENCE": "1", "TMPDIR": temporary}
        fixed |= proxy_environment(policy, host) | retry_environment(policy, host)
        named = policy.environment.allow  # what somebody lets in by its name goes before what leads to a cache
        led = {name: value for name, value in variables.items() if name not in named or name not in environ}
        environ = scrubbed(environ, policy.environment, fixed | led)
    return as_bytes([f"{name}={value}" for name, value in environ.items()])


def as_bytes(words: list[str]) -> tuple[bytes, ...]:
    """Words as a program is given them."""
    if not words:
        return ()
    try:
        strings = tuple("\0".join(words).encode("utf-8", "surrogateescape").split(b"\0"))
    except UnicodeEncodeError as error:
        raise PlanError("command", f"cannot be written as bytes: {error.object[error.start :][:40]!r}") from None
    if len(strings) != len(words):
        raise PlanError("command", "an argument or variable holds a NUL byte", hint="no program can be given one")
    return strings
