"""Before anything else is imported: a hostile workspace must not choose what we import.

`python -m` puts the current directory first on the path, and an empty entry of PYTHONPATH means it too. When we are
the program, every such entry goes, and every entry of PYTHONPATH inside or around the current directory; only the one
that holds our own code, which is running already, stays. As a library we leave the path to whoever imports us.
"""

import gc
import os
import sys


def is_program(name: str) -> bool:
    """Whether this process is the command: `python -m ringfence`, or the script of that name."""
    return name == "-m" or os.path.basename(name) in ("ringfence", "__main__.py")


def clean(path: list[str], pythonpath: str, cwd: str, own: str) -> list[str]:
    """The entries that may stay."""
    chosen = {os.path.realpath(entry) for entry in pythonpath.split(os.pathsep) if os.path.isabs(entry)}

    def stays(entry: str) -> bool:
        if not os.path.isabs(entry):
            return False
        real = os.path.realpath(entry)
        if real == own:
            return True
        if real == cwd:
            return False
        return real not in chosen or os.path.commonpath((real, cwd)) not in (real, cwd)

    return [entry for entry in path if stays(entry)]


if sys.argv and is_program(sys.argv[0]):
    gc.disable()  # a process this short has nothing to collect; looking for it costs three milliseconds
    sys.modules.setdefault("typing_extensions", None)  # type: ignore[arg-type]  # msgspec would take it; six more
    _own = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    try:
        _cwd = os.path.realpath(".")
    except FileNotFoundError:  # removed under us; then nothing can be imported from it
        _cwd = "/nonexistent"
    sys.path[:] = clean(sys.path, os.environ.get("PYTHONPATH", ""), _cwd, _own)
