"""What a shell line is made of, as values: words with their pieces, and the commands around them.

Plain structs that `shell.py` makes and `reach.py` walks. A piece says how bash will treat its text: what is quoted is
neither split nor matched against files; what comes of a variable or of another command is known only when it runs.
"""

from __future__ import annotations

import msgspec


class Literal(msgspec.Struct, gc=False):
    """Text as it stands, quotes removed."""

    text: str
    quoted: bool


class Variable(msgspec.Struct):
    """`$name` or `${name}`, or with `rest` an expansion that does more than look it up."""

    name: str
    quoted: bool
    rest: str = ""
    inner: tuple[Piece, ...] = ()  # what the rest expands in turn
    open: bool = False  # what follows belongs to it for zsh
    counts: bool = False  # and is an index, with a quotation


class Substitution(msgspec.Struct):
    """`$(...)`, backquotes, `<(...)` or `>(...)`: a script that runs on its own."""

    script: Sequence
    quoted: bool
    process: str = ""  # "<" or ">" where its name is that of a pipe
    raw: str = ""  # what was written, where it is none


class Arithmetic(msgspec.Struct):
    """`$((...))`."""

    text: str
    inner: tuple[Piece, ...]


Piece = Literal | Variable | Substitution | Arithmetic


class Word(msgspec.Struct):
    """One word of the line; `raw` is what was written."""

    raw: str
    pieces: tuple[Piece, ...]


class Assignment(msgspec.Struct):
    """`name=value`, `name+=value`; an array has its elements, and no value."""

    name: str
    value: Word | None
    more: bool = False  # +=
    elements: tuple[Word, ...] = ()
    subscript: str = ""


class Redirect(msgspec.Struct):
    """`3>>file`; a here-document has its body as the target."""

    descriptor: str  # "", digits, or {name}
    operator: str
    target: Word


class Simple(msgspec.Struct):
    """A simple command: what is assigned before it, its words, where its streams go."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word | Assignment, ...]  # an assignment here is an argument of export, declare and their kin
    redirects: tuple[Redirect, ...]


class Pipeline(msgspec.Struct):
    """Commands side by side."""

    commands: tuple[Node, ...]


class AndOr(msgspec.Struct):
    """`left && right` or `left || right`."""

    left: Node
    operator: str
    right: Node


class Sequence(msgspec.Struct):
    """Commands one after another; with True those that run beside what follows."""

    items: tuple[tuple[Node, bool], ...]


class Compound(msgspec.Struct):
    """A group or subshell with its redirections."""

    body: Node
    redirects: tuple[Redirect, ...]
    subshell: bool = False


class If(msgspec.Struct):
    """Conditions with what follows each; the last may stand alone."""

    branches: tuple[tuple[Sequence, Sequence], ...]
    otherwise: Sequence | None


class While(msgspec.Struct):
    """`while` and `until`."""

    condition: Sequence
    body: Sequence


class For(msgspec.Struct):
    """`for` and `select`; without words it takes the positional ones."""

    name: str
    words: tuple[Word, ...] | None
    body: Sequence
    chosen: bool = False  # by a person, who may choose nothing


class Count(msgspec.Struct):
    """`((...))`, or with a body `for ((...))`."""

    expression: Arithmetic
    body: Sequence | None = None


class Case(msgspec.Struct):
    """`case`: the word, and for each clause its patterns and body."""

    word: Word
    clauses: tuple[tuple[tuple[Word, ...], Sequence], ...]


class Test(msgspec.Struct):
    """`[[ ... ]]`: its words in order, operators among them."""

    words: tuple[Word, ...]


class Function(msgspec.Struct):
    """A definition: nothing runs until it is called."""

    name: str
    body: Node


class Coprocess(msgspec.Struct):
    """`coproc`."""

    name: str
    body: Node


Node = Simple | Pipeline | AndOr | Sequence | Compound | If | While | For | Count | Case | Test | Function | Coprocess
