"""Regular expressions that are compiled when they are first used: a hook needs few of them, and has no time."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    lazy = re.compile
else:

    class lazy:  # noqa: N801  # it stands for re.compile
        """A pattern; its methods are those of the compiled one from the first use on."""

        def __init__(self, pattern: str, flags: int = 0) -> None:
            self.pattern, self.flags = pattern, flags

        def __getattr__(self, name: str) -> object:
            compiled = re.compile(self.pattern, self.flags)
            for method in ("match", "fullmatch", "search", "findall", "finditer", "split", "sub"):
                setattr(self, method, getattr(compiled, method))
            return getattr(compiled, name)
