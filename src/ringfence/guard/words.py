"""The inside of a word: quotes, escapes, and what expands.

Quotes are removed as bash removes them, and every substitution is read in place, so that no command hides in a word.
"""

import re

from .patterns import lazy
from .syntax import Arithmetic, Literal, Piece, Sequence, Substitution, Variable, Word

PLAIN = lazy(r"[A-Za-z0-9_.,:/@%+=!{}\[\]^-]+(?=[ \t\n;&|()<>]|\Z)")
_RUN = lazy(r"[^\s\\'\"$`;&|()<>?*+@!]+|[?*+@!](?!\()")
_IN_QUOTES = lazy(r"[^\\\"$`]+")
_IN_BRACES = lazy(r"[^\s\\'\"$`;&|()<>?*+@!}]+")
_IN_DOCUMENT = lazy(r"[^\\$`]+")
_SIMPLE = lazy(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
# `$x[2,-1]` and `$x:h` are other texts to zsh, and `$10` is.
_ZSH_GOES_ON = lazy(r"\[|:[aAcehlpPqQrstuxgfFwW&]|(?<=\$[0-9])[0-9]")
# What it computes there may be quoted, and runs all the same; what is longer is as good as quoted.
_ZSH_COUNTS = lazy(r"\[(?:[^\]\s'\"\\]{0,200}['\"\\]|[^\]\s'\"\\]{201})")
_ZSH_NAME = lazy(r"\$#?(?:[A-Za-z_]\w*|[0-9@*#?$!-])")  # to it `$#x` is the length of one
_ZSH_FLAGS = lazy(r"\$[=^~+]+[\w{@*#?!$-]")  # `"$=x"`, which to bash is no variable
_BRACED = lazy(r"(#(?=[A-Za-z_]\w*\[)|!?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])(\[[A-Za-z0-9_@*]*\])?")
_NO_NESTED = lazy(r"\$(?![-}:#%/^,@+=?])")  # `${$(command)}`, which zsh runs
_ANSI = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ANSI |= {char: char for char in "\\'\"?"}
_ANSI_CODE = lazy(r"x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})")
_BREAKS = frozenset(" \t\n;&|()<>")
_TEST_OPERATORS = ("&&", "||", "(", ")", "<", ">")


class Unreadable(ValueError):
    """A text that no reader should guess at; the message says why."""


class Words:
    """A place in a text, and the words that can be read from it."""

    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.at = 0
        self.depth = depth

    def script_inside(self) -> Sequence:
        raise NotImplementedError

    def script_of(self, text: str) -> Sequence:
        raise NotImplementedError

    def skip(self) -> None:
        raise NotImplementedError

    def process_begins(self) -> bool:
        return self.text.startswith(("<(", ">("), self.at)

    # --- words ---------------------------------------------------------------------------------------------------

    def word(self) -> Word:
        """One word, up to a blank or an operator."""
        found = PLAIN.match(self.text, self.at)
        if found is not None:
            if found.group() == "}":
                raise Unreadable("'}' ends a group in zsh, wherever it stands")
            self.at = found.end()
            return Word(found.group(), (Literal(found.group(), False),))
        start = self.at
        pieces: list[Piece] = []
        while self.at < len(self.text):
            if self.text[self.at] in _BREAKS and not self.process_begins():
                break
            self.piece(pieces)
        if start == self.at:
            raise Unreadable("a word is missing")
        raw = self.text[start : self.at]
        if "\\\n" in raw and self.text[self.at : self.at + 1] in ("<", ">"):
            raise Unreadable("a continued word touches a redirection")
        return Word(raw, tuple(pieces))

    def piece(self, pieces: list[Piece]) -> None:
        """The next part of an unquoted word."""
        text, at = self.text, self.at
        char = text[at]
        found = _RUN.match(text, at)
        if found is not None:
            self.at = found.end()
            pieces.append(Literal(found.group(), False))
        elif char == "\\":
            self.escape(pieces)
        elif char == "'":
            pieces.append(Literal(self.until("'"), True))
        elif char == '"':
            self.at += 1
            self.double(pieces)
        elif char == "$":
            self.dollar(pieces, quoted=False)
        elif char == "`":
            pieces.append(self.backquoted(quoted=False, special="\\$`"))
        elif char in "<>":
            self.at += 2
            pieces.append(Substitution(self.script_inside(), True, char))
        else:
            raise Unreadable(f"{text[at : at + 2]!r} begins an extended pattern")

    def escape(self, pieces: list[Piece]) -> None:
        if self.at + 1 >= len(self.text):
            raise Unreadable("a backslash ends it")
        if self.text[self.at + 1] != "\n":  # else the line goes on, and nothing is left of either
            pieces.append(Literal(self.text[self.at + 1], True))
        self.at += 2

    def until(self, quote: str) -> str:
        """The text of a quotation in which nothing is special, from one quote to the next."""
        end = self.text.find(quote, self.at + 1)
        if end < 0:
            raise Unreadable("a quotation does not end")
        found = self.text[self.at + 1 : end]
        self.at = end + 1
        return found

    def double(self, pieces: list[Piece]) -> None:
        """Between double quotes, over the closing one."""
        pieces.append(Literal("", True))
        while self.at < len(self.text):
            if self.text[self.at] == '"':
                self.at += 1
                return
            self.inside_quotes(pieces, _IN_QUOTES, '$`"\\')
        raise Unreadable("a quotation does not end")

    def inside_quotes(self, pieces: list[Piece], run: re.Pattern[str], escapable: str) -> None:
        found = run.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            pieces.append(Literal(found.group(), True))
            return
        char = self.text[self.at]
        if char == "$":
            self.dollar(pieces, quoted=True)
        elif char == "`":
            pieces.append(self.backquoted(quoted=True, special=escapable))
        else:
            following = self.text[self.at + 1 : self.at + 2]
            self.at += 2 if following == "\n" or (following and following in escapable) else 1
            if following != "\n":
                pieces.append(Literal(following if following and following in escapable else "\\", True))

    def quoted_text(self, body: str, expands: bool) -> tuple[Piece, ...]:
        """The pieces of a here-document's body."""
        if not expands:
            return (Literal(body, True),)
        outer, self.text, self.at, at = self.text, body, 0, self.at
        pieces: list[Piece] = []
        while self.at < len(body):
            self.inside_quotes(pieces, _IN_DOCUMENT, "$`\\")
        self.text, self.at = outer, at
        return tuple(pieces)

    # --- what begins with a dollar -------------------------------------------------------------------------------

    def dollar(self, pieces: list[Piece], quoted: bool) -> None:
        text, at = self.text, self.at
        if text.startswith("$((", at):
            self.at += 1
            pieces.append(self.counted())
        elif text.startswith("$(", at):
            self.at += 2
            script = self.script_inside()
            pieces.append(Substitution(script, quoted, raw=text[at : self.at]))
        elif text.startswith("${", at):
            self.at += 2
            pieces.append(self.braced(quoted))
        elif text.startswith("$'", at) and not quoted:
            self.at += 1
            pieces.append(Literal(self.ansi(), True))
        elif text.startswith('$"', at) and not quoted:
            self.at += 2
            self.double(pieces)
        elif text.startswith("$[", at):
            raise Unreadable("'$[' is an old form of arithmetic")
        elif found := _SIMPLE.match(text, at + 1):
            if text.startswith("\\\n", found.end()):
                raise Unreadable("a name is continued on the next line")
            self.at = found.end()
            named = _ZSH_NAME.match(text, at)
            counts = named is not None and _ZSH_COUNTS.match(text, named.end()) is not None
            goes_on = counts or _ZSH_GOES_ON.match(text, self.at) is not None
            pieces.append(Variable(found.group(), quoted, open=goes_on, counts=counts))
        elif text.startswith("\\\n", at + 1):
            raise Unreadable("a name is continued on the next line")
        elif quoted and not _ZSH_FLAGS.match(text, at):
            self.at += 1
            pieces.append(Literal("$", True))
        else:
            raise Unreadable("a dollar stands before no name")  # bash splits the word in another way, or zsh finds one

    def braced(self, quoted: bool) -> Variable:
        """`${...}`, of which the opening has been read."""
        found = _BRACED.match(self.text, self.at)
        if found is None or self.text.startswith("\\\n", found.end()) or _NO_NESTED.match(self.text, self.at):
            raise Unreadable("'${' is followed by something odd")
        before, name, subscript = found.groups()
        self.at = found.end()
        start = self.at
        inner: list[Piece] = []
        while self.at < len(self.text) and self.text[self.at] != "}":
            char = self.text[self.at]
            # Between double quotes a quotation in here is none behind some operators, and one behind others.
            if quoted and (char in "\"'" or self.text.startswith(("$'", '$"'), self.at)):
                raise Unreadable("a quotation is nested in an expansion")
            if self.process_begins() or (quoted and char == "`"):
                raise Unreadable("a command is nested in an expansion")
            if quoted and char == "$":
                self.dollar(inner, quoted=True)
            elif char in _BREAKS or char in "?*+@!":
                inner.append(Literal(char, False))
                self.at += 1
            elif brace := _IN_BRACES.match(self.text, self.at):
                self.at = brace.end()
                inner.append(Literal(brace.group(), False))
            else:
                self.piece(inner)
        if self.at >= len(self.text):
            raise Unreadable("'${' does not end")
        rest = before + (subscript or "") + self.text[start : self.at]
        self.at += 1
        return Variable(name, quoted, rest, tuple(inner))

    def ansi(self) -> str:
        """`$'...'`, from its quote on."""
        self.at += 1
        out: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == "'":
                text = "".join(out)
                if "\0" in text or not text.isascii():
                    raise Unreadable("a quotation spells bytes that depend on the locale")
                return text
            if char != "\\":
                out.append(char)
                continue
            found = _ANSI_CODE.match(self.text, self.at)
            if found is not None:
                self.at = found.end()
                digits = next(group for group in found.groups() if group)
                out.append(chr(min(int(digits, 8 if found.group(4) else 16), 0x10FFFF)))
                continue
            following = self.text[self.at : self.at + 1]
            if following not in _ANSI:
                raise Unreadable(f"'\\{following}' is an odd escape")
            out.append(_ANSI[following])
            self.at += 1
        raise Unreadable("a quotation does not end")

    def backquoted(self, quoted: bool, special: str) -> Substitution:
        """From a backquote on, over the next; what is `special` loses the backslash before it."""
        begin = self.at
        self.at += 1
        out: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == "`":
                return Substitution(self.script_of("".join(out)), quoted, raw=self.text[begin : self.at])
            following = self.text[self.at : self.at + 1]
            if char == "\\" and following and following in special:
                char = following
                self.at += 1
            out.append(char)
        raise Unreadable("a backquote does not end")

    def counted(self) -> Arithmetic:
        """`((...))`, from its first parenthesis on, over the last."""
        start = self.at
        self.at += 2
        inner: list[Piece] = []
        depth = 0
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in "'\"\\":
                raise Unreadable("arithmetic holds a quotation")
            if char == "#" and not self.text[self.at - 1].isalnum():
                raise Unreadable("arithmetic holds a comment")
            if char == "$":
                self.dollar(inner, quoted=True)
                if isinstance(inner[-1], Variable) and any(char in inner[-1].rest for char in "()\n"):
                    raise Unreadable("'((' may end inside an expansion")
                continue
            if char == "`":
                begin = self.at
                inner.append(self.backquoted(quoted=True, special="\\$`"))
                if '"' in self.text[begin : self.at]:
                    raise Unreadable("arithmetic holds a quotation")
                continue
            if char == ")" and depth == 0:
                if not self.text.startswith("))", self.at):
                    raise Unreadable("'((' may be arithmetic or two subshells")
                self.at += 2
                return Arithmetic(self.text[start + 2 : self.at - 2], tuple(inner))
            depth += (char == "(") - (char == ")")
            self.at += 1
        raise Unreadable("'((' does not end")

    # --- [[ ... ]] -----------------------------------------------------------------------------------------------

    def test_words(self) -> tuple[Word, ...]:
        """The words between `[[` and `]]`, operators as words of their own."""
        words: list[Word] = []
        while True:
            self.blanks()
            if self.at >= len(self.text):
                raise Unreadable("']]' is missing")
            operator = next((known for known in _TEST_OPERATORS if self.text.startswith(known, self.at)), "")
            if operator and not self.process_begins():
                self.at += len(operator)
                words.append(Word(operator, ()))
                continue
            pattern = bool(words) and words[-1].raw in ("=~", "==", "=", "!=")
            word = self.pattern_word() if pattern else self.word()
            if "\\\n" in word.raw:
                raise Unreadable("a test is continued or holds a comment")  # `-\` and `eq` on the next line
            if word.raw == "]]":
                return tuple(words)
            words.append(word)

    def blanks(self) -> None:
        while self.text.startswith((" ", "\t", "\n"), self.at):
            self.at += 1
        if self.text.startswith(("\\\n", "#"), self.at):
            raise Unreadable("a test is continued or holds a comment")

    def pattern_word(self) -> Word:
        """What stands right of a match: parentheses and bars belong to it."""
        start = self.at
        pieces: list[Piece] = []
        depth = 0
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\n" and depth == 0:
                break
            if char in "()|?*+@!;&<> \t\n":
                if char in ";&<>":
                    raise Unreadable("a pattern holds an operator")
                depth += (char == "(") - (char == ")")
                if depth < 0:
                    break
                pieces.append(Literal(char, False))
                self.at += 1
            elif char == "$" and self.text[self.at + 1 : self.at + 2] in ("", " ", "\t", "\n", ")", "|"):
                pieces.append(Literal(char, False))  # the end of a line, in a regular expression
                self.at += 1
            else:
                self.piece(pieces)
        if start == self.at:
            raise Unreadable("a pattern is missing")
        return Word(self.text[start : self.at], tuple(pieces))
