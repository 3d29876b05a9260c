"""Before anything else is imported: a hostile workspace must not choose what we import.

`python -m` puts the current directory first on the path, and an empty entry of PYTHONPATH means it too. When we are
the program, every such entry goes, and every entry of PYTHONPATH inside or around the current directory; only the one
that holds our own code, which is running already, stays. As a library we leave the path to whoever imports us.
"""

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def is_program(name: str, words: list[str], package: str) -> bool:
    """Whether this process is the command: the script of that name, or `python -m ringfence`. Another program started
    with -m that imports us is not; `words` are those Python was called with."""
    if name == "-m":  # while the module is looked for; then it is the file
        options = (index for index, word in enumerate(words) if word.startswith("-") and "m" in word)
        at = next(options, len(words))
        return words[at : at + 1] != [] and "".join(words[at : at + 2]).endswith("mringfence")
    if os.path.basename(name) == "__main__.py":
        return os.path.dirname(os.path.realpath(name)) == package
    return os.path.basename(name) in ("ringfence", "ringfence-shell")


def clean(path: list[str], pythonpath: str, cwd: str, own: str) -> list[str]:
    """The entries that may stay."""
    chosen = {os.path.realpath(entry) for entry in pythonpath.split(os.pathsep) if os.path.isabs(entry)}
    ours, here = _identity(own), _identity(cwd)

    def stays(entry: str) -> bool:
        if not os.path.isabs(entry):
            return False
        found = _identity(entry)
        if found and found == ours:
            return True
        if found == here:
            return False
        real = os.path.realpath(entry) if chosen else ""
        return real not in chosen or os.path.commonpath((real, cwd)) not in (real, cwd)

    return [entry for entry in path if stays(entry)]


def _identity(path: str) -> tuple[int, ...]:
    """Which file stands there; one question to the disk, where its real path would be one for each name."""
    try:
        facts = os.stat(path)
    except OSError:
        return ()
    return facts.st_dev, facts.st_ino


_Module = type(sys)


class _Later(_Module):  # type: ignore[misc, valid-type]
    """A module that no short process uses: whoever asks for something in it imports it then."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_imported(str(self.__name__)), name)


def _imported(name: str) -> object:
    import importlib

    if isinstance(sys.modules.get(name), _Later):
        del sys.modules[name]
    return importlib.import_module(name)


_SCHEMA = "msgspec._json_schema"
_STRUCTS = "msgspec.structs"
_TYPING = "typing_extensions"
_LATER = (_SCHEMA, _STRUCTS, "msgspec.inspect", "msgspec.msgpack", "msgspec.toml", "msgspec.yaml")


def before_msgspec() -> None:
    """Leave out what msgspec imports and a short process does not use: seven of its twelve milliseconds."""
    if "msgspec" in sys.modules:
        return
    sys.modules.setdefault(_TYPING, None)  # type: ignore[arg-type]  # msgspec takes it where it is, and need not
    if sys.version_info < (3, 12):
        import _datetime  # type: ignore[import-not-found]  # what the module of that name is, once it has been read for nothing

        sys.modules.setdefault("datetime", _datetime)
    for name in _LATER:
        sys.modules[name] = _Later(name)
    for name in ("schema", "schema_components"):  # taken by name when msgspec is imported
        setattr(sys.modules[_SCHEMA], name, _deferred(name))
    words = _UNUSED
    if sys.version_info < (3, 13) and sys.argv[1:2] == ["hook"]:  # later ones do without by themselves
        words = words | _UNUSED_IN_HOOKS
    unused = [name for name in words if name not in sys.modules]
    for name in unused:
        sys.modules[name] = _Module(name)
        for word in words[name]:
            setattr(sys.modules[name], word, type(word, (), {"unknown": None}))
    if "warnings" not in sys.modules:
        sys.modules["warnings"] = _Later("warnings")  # typing imports it, and has nothing to say
    import typing

    reference = typing.ForwardRef
    typing.ForwardRef = _Unread  # type: ignore[assignment, misc]
    try:
        import msgspec as msgspec

        core = sys.modules["msgspec._core"]
        for name in ("asdict", "replace"):
            setattr(sys.modules[_STRUCTS], name, getattr(core, name))
    except (ImportError, AttributeError):  # another msgspec than we know: as a whole, then
        for name in _LATER:
            sys.modules.pop(name, None)
    finally:
        typing.ForwardRef = reference  # type: ignore[misc]
        if sys.modules[_TYPING] is None:  # what other packages import later may need it
            del sys.modules[_TYPING]
        for name in unused:
            del sys.modules[name]


# What msgspec takes a word of, and nothing of ours is one.
_UNUSED = {"decimal": ("Decimal",), "uuid": ("UUID", "SafeUUID")}
# What typing takes two words of, for names of its own that no hook uses.
_UNUSED_IN_HOOKS = {"contextlib": ("AbstractContextManager", "AbstractAsyncContextManager")}


class _Unread:
    """msgspec makes one reference when it is imported, to see which words it takes. A real one compiles its text, and
    the first text that is compiled makes every class of `ast`: more than a millisecond."""

    def __init__(self, text: str, *, is_class: bool) -> None: ...


def _deferred(name: str) -> "Callable[..., object]":
    def call(*given: object, **named: object) -> object:
        function: Callable[..., object] = getattr(_imported(_SCHEMA), name)
        return function(*given, **named)

    return call


_package = os.path.dirname(os.path.realpath(__file__))
IS_PROGRAM = bool(sys.argv) and is_program(sys.argv[0], sys.orig_argv[1:], _package)

if IS_PROGRAM:
    gc.disable()  # a process this short has nothing to collect; looking for it costs three milliseconds
    _own = os.path.dirname(_package)
    try:
        _cwd = os.path.realpath(".")
    except FileNotFoundError:  # removed under us; then nothing can be imported from it
        _cwd = "/nonexistent"
    sys.path[:] = clean(sys.path, os.environ.get("PYTHONPATH", ""), _cwd, _own)
    from . import _finder

    _finder.install()
    if sys.argv[1:2] != ["hook"]:  # a hook may do without msgspec, and calls this where it does not
        before_msgspec()
