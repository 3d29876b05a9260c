"""What is known of a shell at one place of its line: where it may stand, and what its names hold.

Places are logical paths, as bash keeps them in PWD; several are possible after a `cd` that may have failed. A variable
that is not in the table comes from outside, and one that holds None was assigned something nobody can know.
"""

from __future__ import annotations

import msgspec

from .syntax import Node, Sequence

MOST_PLACES = 16
LONGEST_VALUE = 4096  # characters of a value that is remembered: no path is longer
MISSING = Sequence(())  # stands among a function's bodies where it may not be defined: then what it hides is called


class Field(msgspec.Struct, frozen=True):
    """One argument as a program will get it; of what is not known, the text that surely comes first."""

    text: str
    known: bool = True
    raw: str = ""
    many: bool = False  # may turn out to be several arguments, or none
    below: bool = False  # some path below `text`, as find hands it on
    plain: bool = False  # written out: nothing in it expands
    digits: bool = False  # what is not known of it are digits, and one word of them

    @property
    def shown(self) -> str:
        return self.raw or self.text

    @property
    def may_be_option(self) -> bool:
        if self.known:
            return self.text.startswith("-") and self.text != "-"
        if self.digits:
            return self.text.startswith("-")
        if self.below:
            return self.many and self.text == "."
        return self.many or not self.text or self.text.startswith("-")


class Shell(msgspec.Struct):
    """One shell, as far as it is known."""

    places: frozenset[str]  # empty: nobody knows
    variables: dict[str, str | None] = {}
    exported: frozenset[str] = frozenset()
    functions: dict[str, tuple[Node, ...]] = {}
    positional: tuple[Field, ...] | None = None
    odd_words: str = ""  # why words are split or matched in another way than usual
    dead: bool = False  # nobody comes here; it is walked all the same, but leads nowhere
    numbers: frozenset[str] = frozenset()  # names whose value is not known, but is a number
    ever: dict[str, bool] = {}  # names that any shell of the line assigns, and whether always a number; all share it

    def copy(self) -> Shell:
        return Shell(
            self.places,
            dict(self.variables),
            self.exported,
            dict(self.functions),
            self.positional,
            self.odd_words,
            self.dead,
            self.numbers,
            self.ever,
        )

    def assign(self, name: str, value: str | None, number: bool = False) -> None:
        self.variables[name] = value if value is None or len(value) <= LONGEST_VALUE else None
        self.numbers = self.numbers | {name} if number else self.numbers - {name}
        self.ever[name] = self.ever.get(name, True) and self.is_number(name)
        if name == "IFS":
            self.odd_words = self.odd_words or "IFS was set"

    def is_number(self, name: str) -> bool:
        value = self.variables.get(name)
        return name in self.numbers if value is None else value.isascii() and value.lstrip("-").isdigit()

    def forget(self) -> None:
        """Nothing that its names hold is known any more."""
        self.variables, self.numbers = dict.fromkeys(self.variables), frozenset()


def merged(left: Shell, right: Shell) -> Shell:
    """A shell that may be either of two."""
    if left is right or right.dead:
        return left
    if left.dead:
        return right
    places = left.places | right.places if left.places and right.places else frozenset[str]()
    variables: dict[str, str | None] = {}
    for name in left.variables.keys() | right.variables.keys():
        both = name in left.variables and name in right.variables
        variables[name] = left.variables[name] if both and left.variables[name] == right.variables[name] else None
    functions = dict(left.functions)
    for name in left.functions.keys() | right.functions.keys():
        one, two = left.functions.get(name, (MISSING,)), right.functions.get(name, (MISSING,))
        functions[name] = (*one, *(body for body in two if not any(body is known for known in one)))
    return Shell(
        places if len(places) <= MOST_PLACES else frozenset(),
        variables,
        left.exported & right.exported,
        functions,
        left.positional if left.positional == right.positional else None,
        left.odd_words or right.odd_words,
        numbers=frozenset(name for name in variables if left.is_number(name) and right.is_number(name)),
        ever=left.ever,
    )
