"""Two older ways in: a builder that gives a prefix to put before any command, and a command by mode.

Both end in the same door as everything else, `ringfence run`; here are only words for it.
"""

import enum
import sys

import msgspec

from .model import PolicyError, UsageError

FORBIDDEN = '"\\\0'


def validated(path: str, label: str) -> str:
    """A path that may be written into any profile text, or an error that says which rule it breaks."""
    if not path.startswith("/"):
        raise PolicyError(f"sandbox {label}", f"must be an absolute path, got: {path}")
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise PolicyError(f"sandbox {label}", "is not valid UTF-8") from None
    if any(char in path for char in FORBIDDEN):
        raise PolicyError(f"sandbox {label}", "contains forbidden characters (double-quote, backslash, or null)")
    return path


class Prefix(msgspec.Struct, frozen=True):
    """What to put before a command: a program, and its arguments."""

    program: str
    args: tuple[str, ...]


def _ringfence(*options: str) -> Prefix:
    # -I: neither the workspace nor the environment chooses what Python loads.
    return Prefix(sys.executable, ("-I", "-m", "ringfence", "run", *options, "--"))


class Sandbox(msgspec.Struct, frozen=True):
    """A sandbox in words, built step by step; every step gives a new one.

    >>> Sandbox("/work/project").with_hidden("/work/project/.env").prefix()  # doctest: +SKIP
    """

    root: str
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        validated(self.root, "writable root")

    def _with(self, *options: str) -> "Sandbox":
        return Sandbox(self.root, (*self.options, *options))

    def with_network(self, allowed: bool) -> "Sandbox":
        """The host's network as it is, or none (which is how it starts)."""
        kept = tuple(option for option in self.options if option != "--allow-network")
        return Sandbox(self.root, (*kept, "--allow-network") if allowed else kept)

    def with_extra_read(self, path: str) -> "Sandbox":
        """Also readable."""
        return self._with("--allow-read", validated(path, "extra read path"))

    def with_extra_write(self, path: str) -> "Sandbox":
        """Also readable and writable."""
        path = validated(path, "extra write path")
        return self._with("--allow-read", path, "--allow-write", path)

    def with_hidden(self, path: str) -> "Sandbox":
        """Not visible, but for the root and what is granted inside it."""
        return self._with("--deny-read", validated(path, "hidden path"))

    def with_ro_inject(self, source: str, target: str) -> "Sandbox":
        """A file or directory shown read-only at another place."""
        source, target = validated(source, "injection source"), validated(target, "injection target")
        return self._with("--inject", source, target)

    def prefix(self) -> Prefix:
        """Program and arguments to put before any command."""
        # Granting the root by name keeps it open when a directory around it is hidden.
        return _ringfence("--workspace", self.root, "--allow-read", self.root, *self.options)


class Mode(enum.Enum):
    """How much a command may do."""

    SANDBOX = "sandbox"
    RX = "rx"
    RWX = "rwx"

    @classmethod
    def parse(cls, word: str) -> "Mode":
        try:
            return cls(word)
        except ValueError:
            raise UsageError("mode", f"invalid sandbox mode {word!r}", hint="must be sandbox, rx, or rwx") from None

    @property
    def display_name(self) -> str:
        return self.value

    def prompt_constraint(self, workspace: str) -> str | None:
        """What to tell a model about the mode it works in; None where nothing holds it."""
        if self is Mode.SANDBOX:
            return (
                f"You work in SANDBOX mode. Work only inside {workspace}: nothing else can be written, and do not read "
                "outside it. The network is available. Install what you need inside the workspace."
            )
        if self is Mode.RX:
            return (
                "You work in READ-ONLY mode. You may read anywhere that is not closed to you, and run programs, "
                f"but write only inside {workspace}."
            )
        return None


def sandboxed_command(program: str, mode: Mode | str, data_dir: str) -> list[str]:
    """The words that start a program in a mode, with `data_dir` writable; append its arguments."""
    mode = Mode.parse(mode) if isinstance(mode, str) else mode
    if mode is Mode.RWX:
        return [program]
    wider = ("--allow-read", "/") if mode is Mode.RX else ()
    root = validated(data_dir, "writable root")
    prefix = _ringfence("--workspace", root, "--allow-network", *wider)
    return [prefix.program, *prefix.args, program]
