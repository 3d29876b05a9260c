"""Finds our own modules faster, when we are the program: dozens of them are imported before a command can begin.

Python asks the disk a dozen things for each module; ours stand beside each other, compiled beside them. What is read is
what Python itself would read, on its own condition: the compiled file is of this source, by its time and size. What is
not as expected (not compiled yet, compiled in another way or elsewhere) is left to Python.
"""

import _imp
import marshal
import os
import sys
from _frozen_importlib import ModuleSpec  # importlib would only be read for their other names
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType

_SUFFIX = f".{sys.implementation.cache_tag}.pyc"
_HEADER = 16  # PEP 552: a magic number, no flags, then time and size of the source


def install() -> None:
    """Ask here first, where modules are compiled in the usual way to the usual place."""
    if not sys.flags.optimize and sys.pycache_prefix is None and type(__spec__.loader) is SourceFileLoader:
        sys.meta_path.insert(0, Finder)


class Finder:
    """Finds `ringfence.*`; None leaves a module to the next, which is Python's."""

    @staticmethod
    def find_spec(name: str, path: "Sequence[str] | None" = None, _: object = None) -> ModuleSpec | None:
        if path is None or not name.startswith("ringfence."):
            return None
        place = f"{path[0]}/{name.rpartition('.')[2]}"
        facts = _facts(f"{place}.py")
        if facts is not None:
            return _spec(name, *place.rpartition("/")[::2], facts)
        facts = _facts(f"{place}/__init__.py")
        if facts is None:
            return None
        spec = _spec(name, place, "__init__", facts)
        spec.submodule_search_locations = [place]
        return spec


class Loader(SourceFileLoader):
    """Python's own, but for how it reads what is compiled."""

    facts: os.stat_result
    compiled: str

    def get_code(self, fullname: str) -> "CodeType | None":
        try:
            at = os.open(self.compiled, os.O_RDONLY)
        except OSError:
            return super().get_code(fullname)
        try:
            data = os.read(at, os.fstat(at).st_size)
        finally:
            os.close(at)
        source = _word(int(self.facts.st_mtime)) + _word(self.facts.st_size)
        if data[:_HEADER] != MAGIC_NUMBER + bytes(4) + source:
            return super().get_code(fullname)
        code: CodeType = marshal.loads(memoryview(data)[_HEADER:])
        _imp._fix_co_filename(code, self.path)  # type: ignore[attr-defined]  # it was compiled by another name perhaps
        return code


def _spec(name: str, directory: str, tail: str, facts: os.stat_result) -> ModuleSpec:
    source = f"{directory}/{tail}.py"
    loader = Loader(name, source)
    loader.facts, loader.compiled = facts, f"{directory}/__pycache__/{tail}{_SUFFIX}"
    spec = ModuleSpec(name, loader, origin=source)
    spec.has_location, spec.cached = True, loader.compiled
    return spec


def _facts(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _word(number: int) -> bytes:
    return (number & 0xFFFFFFFF).to_bytes(4, "little")
