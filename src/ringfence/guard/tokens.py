"""What a shell line is made of between its words: blanks, comments, operators, ends of lines and here-documents."""

import re

from .patterns import lazy
from .syntax import Redirect, Word
from .words import PLAIN, Unreadable, Words

_OPERATORS = frozenset("\n && &>> &> & || |& | ;;& ;; ;& ; <<< <<- << <> <& < >> >& >| > ( )".split(" "))
_BLANKS = (" ", "\t", "\\\n")
_LINE = lazy(r"[^\n]*")
_CONTINUED = lazy(r"(?:[^\\\n]|\\.)*", re.DOTALL)  # a line that goes on in the next is one with it


def operator_at(text: str, at: int) -> str:
    """The longest operator that stands there, or nothing."""
    if text[at : at + 1] not in _OPERATORS:  # every beginning of one is one
        return ""
    return next(text[at:end] for end in (at + 3, at + 2, at + 1) if text[at:end] in _OPERATORS)


def over_blanks(text: str, at: int) -> int:
    """Where the blanks end that begin at a place; a line that goes on in the next is one of them."""
    while text.startswith(_BLANKS, at):
        at += 2 if text[at] == "\\" else 1
    return at


class Tokens(Words):
    """A place in the text, and what comes next. Here-documents are read at the end of the line that announces them."""

    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text, depth)
        self.documents: list[tuple[Redirect, str, bool, bool]] = []

    def skip(self) -> None:
        """Over blanks, and a comment where one may begin."""
        self.at = over_blanks(self.text, self.at)
        if self.text.startswith("#", self.at):
            end = self.text.find("\n", self.at)
            self.at = end if end >= 0 else len(self.text)

    def operator(self) -> str:
        """The operator that comes next, or nothing."""
        self.skip()
        found = operator_at(self.text, self.at)
        if found not in ("", "\n") and self.text.startswith("\\\n", self.at + len(found)):
            raise Unreadable("an operator is continued on the next line")
        return found

    def take(self, operator: str) -> bool:
        if self.operator() != operator:
            return False
        self.at += len(operator)
        return True

    def expect(self, word: str) -> None:
        if not self.keyword(word):
            raise Unreadable(f"{word!r} is missing")

    def keyword(self, *words: str) -> str:
        """Take one of these reserved words, if it comes next."""
        found = self.peek_word()
        if found not in words:
            return ""
        self.at += len(found)
        return found

    def peek_word(self) -> str:
        """The plain text of the next word, if a reserved word could be hidden in it."""
        self.skip()
        found = PLAIN.match(self.text, self.at)
        return found.group() if found else ""

    def newlines(self) -> None:
        while self.operator() == "\n":
            self.newline()

    def newline(self) -> None:
        """Over one end of line, and over the here-documents that begin there."""
        self.at += 1
        for redirect, end, strip, quoted in self.documents:
            redirect.target = self.document(end, strip, quoted)
        self.documents.clear()

    def document(self, end: str, strip: bool, quoted: bool) -> Word:
        """The body of a here-document."""
        lines = []
        while True:
            if self.at >= len(self.text):
                raise Unreadable(f"a here-document does not end with {end!r}")
            found = (_LINE if quoted else _CONTINUED).match(self.text, self.at)
            line = found.group() if found is not None else self.text[self.at :]
            self.at = min(self.at + len(line) + 1, len(self.text))
            line = line.lstrip("\t") if strip else line
            whole = line if quoted else line.replace("\\\n", "")
            if whole == end:
                break
            if whole.startswith(end) and ")" in whole:
                raise Unreadable("a line of a here-document may end it, and the substitution around it")
            lines.append(line + "\n")
        body = "".join(lines)
        return Word(body, self.quoted_text(body, not quoted))
