"""From a word of the line to the arguments it becomes: braces, tildes, variables, splitting, patterns.

Pure: substitutions are run, and patterns matched against files, by functions handed in. What only the running shell
will know becomes a field that is not known, with the text that surely comes first.
"""

import itertools
import re
from collections.abc import Callable

from .patterns import lazy
from .state import Field, Shell
from .syntax import Arithmetic, Literal, Piece, Pipeline, Redirect, Simple, Substitution, Variable, Word
from .words import Unreadable

_SPECIAL = frozenset("*?[{~")
_GLOB = lazy(r"[*?\[]")
_TILDE_AFTER_NAME = lazy(r"[A-Za-z_][A-Za-z0-9_]*=(?:.*:)?~")
_NUMBERS = lazy(r"(-?[0-9]{1,6})\.\.(-?[0-9]{1,6})\Z")
_LETTERS = lazy(r"([a-zA-Z])\.\.([a-zA-Z])\Z")
_ESCAPED = lazy(r"([*?\[\\])")
_PLAIN = lazy(r"[A-Za-z0-9_./^~@%+-]+\Z")
_COUNTS = lazy(r"(?:nproc|id -[ug]|date \+%s(?:%N)?|wc -[lcw])\Z")
_NUMBERED = lazy(r"seq(?: -w)?(?: -?\d+){1,3}\Z")
_BARE_NAME = lazy(r"\$[A-Za-z_0-9@*#?$!-]")
MOST_FIELDS = 256
LONGEST = 100_000  # characters that a word may become: what it names may name others in turn, each twice as long
MOST_BRACES = 64

Atom = tuple[str, bool] | Variable | Substitution | Arithmetic  # one character and whether it is quoted, or a piece


class Expander:
    """How words expand in one shell."""

    def __init__(
        self,
        shell: Shell,
        home: str,
        run: Callable[[Piece], str | None],
        match: Callable[[str], list[str] | None],
    ) -> None:
        self.shell, self.home, self.run, self.match = shell, home, run, match

    def fields(self, word: Word) -> list[Field]:
        """The arguments a word becomes."""
        pieces = word.pieces
        if word.raw in ('"$@"', '"${@}"') and self.shell.positional is not None:
            return list(self.shell.positional)
        first = pieces[0] if len(pieces) == 1 else None
        if isinstance(first, Literal) and not first.quoted and _SPECIAL.isdisjoint(first.text):
            return [Field(first.text, raw=word.raw, plain=True)]
        if all(isinstance(piece, Literal) and piece.quoted for piece in pieces):
            return [Field("".join([piece.text for piece in pieces]), raw=word.raw, plain=True)]  # type: ignore[union-attr]
        if not any(isinstance(piece, Literal) and not piece.quoted and "{" in piece.text for piece in pieces):
            fields = self.one(pieces, word.raw)
            if all(
                isinstance(piece, Literal) and (piece.quoted or _SPECIAL.isdisjoint(piece.text)) for piece in pieces
            ):
                return [Field(field.text, field.known, field.raw, plain=True) for field in fields]
            return fields
        if _BARE_NAME.search(word.raw) and any(isinstance(piece, Variable) for piece in pieces):
            for piece in pieces:
                self.value(piece)
            return [Field("", False, word.raw, many=True)]  # braces come first: `{$x,b}c` looks up `xc`
        whole = _atoms(pieces)
        if whole.count(("{", False)) > MOST_BRACES:
            raise Unreadable("a word has more braces than are followed")
        found = []
        for atoms in braces(whole):
            found += self.one(tuple(_pieces(atoms)), word.raw)
            if len(found) > MOST_FIELDS:
                return [Field("", False, word.raw, many=True)]
        return found

    def text(self, word: Word) -> str | None:
        """The value of a word where it is neither split nor matched, or None when it cannot be known."""
        out, known = "", True
        for index, piece in enumerate(word.pieces):
            value = self.value(piece)
            if index == 0 and isinstance(piece, Literal) and not piece.quoted and piece.text.startswith("~"):
                value = self.tilde(piece.text, alone=len(word.pieces) == 1)
            if isinstance(piece, Literal) and not piece.quoted and ":~" in piece.text:
                value = None
            known = known and value is not None
            out += value or ""
            _limit(len(out))
        return out if known else None

    def value(self, piece: Piece) -> str | None:
        if isinstance(piece, Literal):
            return piece.text
        return self.run(piece)

    def tilde(self, text: str, alone: bool) -> str | None:
        """A leading `~` expanded; another user's home is not known."""
        name, slash, rest = text.partition("/")
        if name != "~" or (not slash and not alone):
            return None
        home = self.shell.variables.get("HOME", self.home)
        return home + slash + rest if home else None

    def one(self, pieces: tuple[Piece, ...], raw: str) -> list[Field]:
        """The arguments of a word without braces."""
        texts = [""]  # the arguments so far; the last is still growing
        patterns = [""]
        quoted = False  # an empty quotation makes an argument of nothing
        wild = False
        for index, piece in enumerate(pieces):
            value = self.value(piece)
            if isinstance(piece, Literal) and not piece.quoted:
                if index == 0 and piece.text.startswith("~"):
                    value = self.tilde(piece.text, alone=len(pieces) == 1)
                elif _TILDE_AFTER_NAME.match(piece.text) if index == 0 else ":~" in piece.text:
                    value = None
                wild = wild or bool(_GLOB.search(piece.text))
            digits = self.is_digits(piece)
            splits = _expands(piece) and not digits
            several = _is_list(piece)
            if value is None or (splits and self.shell.odd_words):
                for rest in pieces[index + 1 :]:
                    self.value(rest)  # what it runs is run all the same
                lead = texts[-1]
                digits = digits and all(
                    isinstance(rest, Literal) and "/" not in rest.text for rest in pieces[index + 1 :]
                )
                many = splits or several or any(map(self.may_split, pieces[index + 1 :]))
                found = Field(lead, False, raw, many, digits=digits)
                return [*self.finished(texts[:-1], patterns, wild, raw), found]
            if splits:
                wild = wild or bool(_GLOB.search(value))
                first, *more = re.split(r"[ \t\n]+", value)
                texts[-1] += first
                patterns[-1] += first
                texts += more
                patterns += more
                _limit(len(value) + len(texts) * (LONGEST // MOST_FIELDS))
                continue
            quoted = quoted or (isinstance(piece, Literal) and piece.quoted) or isinstance(piece, Variable)
            texts[-1] += value
            _limit(len(texts[-1]))
            patterns[-1] += value if isinstance(piece, Literal) and not piece.quoted else _ESCAPED.sub(r"\\\1", value)
        if not quoted:
            kept = [index for index, text in enumerate(texts) if text]
            texts, patterns = [texts[index] for index in kept], [patterns[index] for index in kept]
        return self.finished(texts, patterns, wild, raw)

    def is_digits(self, piece: Piece) -> bool:
        return (is_count(piece, self.shell) or _is_commit(piece, self.shell)) and not self.shell.odd_words

    def may_split(self, piece: Piece) -> bool:
        """Whether what a piece stands for may be several words, or names."""
        if isinstance(piece, Literal):
            return not piece.quoted and _GLOB.search(piece.text) is not None
        return _is_list(piece) or (_expands(piece) and not self.is_digits(piece))

    def finished(self, texts: list[str], patterns: list[str], wild: bool, raw: str) -> list[Field]:
        """Arguments after matching against files; a pattern that matches nothing stands for itself."""
        if not wild:
            return [Field(text, raw=raw) for text in texts]
        found = []
        for text, pattern in zip(texts, patterns, strict=False):
            if not _GLOB.search(pattern.replace("\\*", "").replace("\\?", "").replace("\\[", "")):
                found.append(Field(text, raw=raw))
                continue
            names = None if self.shell.odd_words else self.match(pattern)
            if names is None:
                found.append(Field(fixed(text) or ".", False, raw, many=True, below=True))
            else:
                found += [Field(name, raw=raw) for name in names] or [Field(text, raw=raw)]
        return found


def _limit(length: int) -> None:
    if length > LONGEST:
        raise Unreadable("a word becomes longer than is followed")


def _expands(piece: Piece) -> bool:
    return isinstance(piece, Variable | Substitution | Arithmetic) and not getattr(piece, "quoted", False)


def _is_list(piece: Piece) -> bool:
    return isinstance(piece, Variable) and (piece.name in ("@", "*") or "[@]" in piece.rest or "[*]" in piece.rest)


def is_count(piece: Piece, shell: Shell) -> bool:
    """`$(nproc)`, `$(date +%s)`, `$(... | wc -l)`: a number, whichever."""
    return _COUNTS.match(" ".join(_called(piece, shell))) is not None


def are_numbers(word: Word, shell: Shell) -> bool:
    """`$(seq 1 3)`: numbers, however many."""
    return len(word.pieces) == 1 and _NUMBERED.match(" ".join(_called(word.pieces[0], shell))) is not None


def _is_commit(piece: Piece, shell: Shell) -> bool:
    """`$(git merge-base a b)`: one word of digits and letters, which to arithmetic may be a name."""
    words = _called(piece, shell)
    return words[:2] == ["git", "merge-base"] and not any(word[:1] == "-" for word in words)


def _called(piece: Piece, shell: Shell) -> list[str]:
    """The words of the only command of a substitution, or of the last of its pipeline, where they are written out, no
    function of the line stands for it, and nobody else prints: `< >(echo a)` does."""
    script = piece.script if isinstance(piece, Substitution) and not piece.process else None
    first = script.items[0][0] if script is not None and len(script.items) == 1 else None
    last = first.commands[-1] if isinstance(first, Pipeline) else first
    if not isinstance(last, Simple) or last.assignments or any(map(_may_print, last.redirects)):
        return []
    plain = [word.raw for word in last.words if isinstance(word, Word) and _PLAIN.match(word.raw)]
    return plain if len(plain) == len(last.words) and not shell.functions.keys() & plain[:1] else []


def _may_print(redirect: Redirect) -> bool:
    pieces = redirect.target.pieces
    return redirect.operator != "<" or any(isinstance(piece, Substitution) and piece.process for piece in pieces)


def fixed(pattern: str) -> str:
    """The directory before the first name that varies."""
    head = _GLOB.split(pattern)[0]
    return head[: head.rfind("/") + 1]


def _atoms(pieces: tuple[Piece, ...]) -> list[Atom]:
    atoms: list[Atom] = []
    for piece in pieces:
        if isinstance(piece, Literal):
            atoms += [(char, piece.quoted) for char in piece.text] or [("", piece.quoted)]
        else:
            atoms.append(piece)
    return atoms


def _pieces(atoms: list[Atom]) -> list[Piece]:
    pieces: list[Piece] = []
    for is_text, group in itertools.groupby(atoms, lambda atom: atom[1] if isinstance(atom, tuple) else None):
        if is_text is None:
            pieces += [atom for atom in group if not isinstance(atom, tuple)]
        else:
            pieces.append(Literal("".join(atom[0] for atom in group if isinstance(atom, tuple)), is_text))
    return pieces


def braces(atoms: list[Atom]) -> list[list[Atom]]:
    """Every word that braces make of one; `{a}` and `{}` are no braces."""
    for start, atom in enumerate(atoms):
        if atom != ("{", False):
            continue
        found = _closing(atoms, start)
        if found is None:
            continue
        end, commas = found
        if commas:
            cuts = [start, *commas, end]
            choices = [atoms[one + 1 : two] for one, two in itertools.pairwise(cuts)]
        else:
            choices = _counted(atoms[start + 1 : end])
        if not choices:
            continue
        words = []
        tails = braces(atoms[end + 1 :])
        for choice in choices:
            for middle in braces(choice):
                words += [atoms[:start] + middle + tail for tail in tails]
                if len(words) > MOST_FIELDS:
                    return words
        return words
    return [atoms]


def _closing(atoms: list[Atom], start: int) -> tuple[int, list[int]] | None:
    """Where a brace ends: behind a comma or two dots. One before them is text: `{a},b}` is `a}` and `b`."""
    depth, counts = 0, False
    commas: list[int] = []
    if start == 0 and atoms[1:2] == [("}", False)]:
        return None  # as find and xargs have it
    for index in range(start + 1, len(atoms)):
        atom = atoms[index]
        if atom == ("{", False):
            depth += 1
        elif atom == ("}", False):
            if depth == 0 and (commas or counts):
                return index, commas
            depth -= depth > 0
        elif atom == (",", False) and depth == 0:
            commas.append(index)
        elif atoms[index : index + 2] == _DOTS and depth == 0:
            counts = counts or atoms[index + 2 : index + 3] != [("}", False)]
    return None


_DOTS: list[Atom] = [(".", False), (".", False)]


def _counted(atoms: list[Atom]) -> list[list[Atom]]:
    """`{1..9}` and `{a..e}`; anything else between braces is text."""
    if any(isinstance(atom, tuple) and atom[1] for atom in atoms):
        raise Unreadable("braces count what is quoted")  # `{'a,'..b}` is `a,..b` to bash
    if not all(isinstance(atom, tuple) for atom in atoms):
        return []
    text = "".join(atom[0] for atom in atoms if isinstance(atom, tuple))
    if numbers := _NUMBERS.match(text):
        first, last = int(numbers[1]), int(numbers[2])
        width = max(len(numbers[1]), len(numbers[2])) if re.search(r"(?:^|\.-?|^-)0\d", text) else 0
        run = range(first, last + (1 if last >= first else -1), 1 if last >= first else -1)
        names = [str(number).zfill(width) for number in run[: MOST_FIELDS + 1]]
    elif letters := _LETTERS.match(text):
        first, last = ord(letters[1]), ord(letters[2])
        step = 1 if last >= first else -1
        names = [chr(code) for code in range(first, last + step, step)]
    elif ".." in text:
        raise Unreadable("braces count in an odd way")
    else:
        return []
    return [[(char, True) for char in name] for name in names]
