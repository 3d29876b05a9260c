"""From the text of a shell line to its commands, wherever they hide.

A strict reader of bash's grammar: what it does not know, and what two readers might read in two ways, is `Unreadable`
and never guessed. tree-sitter-bash goes on after an error and reads `3<>f`, `cat <<X >f | tee g` and `coproc { a; }`
wrongly, so it serves as the oracle of the tests, and not here.
"""

from .patterns import lazy
from .syntax import (
    AndOr,
    Assignment,
    Case,
    Compound,
    Coprocess,
    Count,
    For,
    Function,
    If,
    Node,
    Pipeline,
    Redirect,
    Sequence,
    Simple,
    Test,
    While,
    Word,
)
from .tokens import Tokens, operator_at, over_blanks
from .words import PLAIN as PLAIN
from .words import Unreadable as Unreadable

_NAME = lazy(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ASSIGNMENT = lazy(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[([A-Za-z0-9_@*]+)\])?(\+?)=")
_SUBSCRIPT = lazy(r"[A-Za-z_][A-Za-z0-9_]*\[")
_DELIMITER = lazy(r"""(?:([\w.!+-]+)|'([^'\n]+)'|"([^"\n$`\\]+)"|\\([\w.!+-]+))\Z""")

_REDIRECTS = frozenset(("<", ">", ">>", ">|", "<>", "<&", ">&", "&>", "&>>", "<<", "<<-", "<<<"))
_RESERVED = frozenset(
    "if then elif else fi while until for select case esac do done in { } ! [[ function time coproc".split()
)
_ENDS = frozenset("then elif else fi do done esac }".split())
_DECLARES = frozenset(("export", "declare", "typeset", "local", "readonly"))
DEEPEST = 60
MOST_COMMANDS = 10_000  # which take a tenth of a second to read


def parse(text: str) -> Sequence:
    """The whole script, or Unreadable with the reason."""
    odd = next(filter(_is_odd, dict.fromkeys(text)), "")
    if odd:
        raise Unreadable(f"it holds the character {odd!r}, which shells read differently")
    reader = Reader(text)
    script = reader.sequence("")
    if reader.at < len(text):
        raise Unreadable(f"nothing begins with {reader.operator()!r}")
    return script


def _is_odd(char: str) -> bool:
    """Whether it is a control character, a blank that is none to every shell, or half a character."""
    if char.isprintable() or char in "\t\n":
        return False
    return char < " " or char == "\x7f" or char.isspace() or "\ud800" <= char <= "\udfff"


class Reader(Tokens):
    """A place in the text, and the commands that can be read from there on."""

    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text, depth)
        self.commands = 0
        self.assigns = "=" in text or "[" in text  # somewhere; mostly nowhere

    # --- lists ---------------------------------------------------------------------------------------------------

    def sequence(self, closing: str) -> Sequence:
        """Commands up to a closing operator or reserved word, which stays."""
        items: list[tuple[Node, bool]] = []
        self.newlines()
        while not self.at_end(closing):
            node = self.and_or()
            operator = self.operator()
            items.append((node, operator == "&"))
            if operator in ("&", ";"):
                self.at += 1
                self.newlines()
            elif operator == "\n":
                self.newlines()
            elif not self.at_end(closing):
                raise Unreadable(f"{self.text[self.at : self.at + 10]!r} cannot follow a command")
        if self.documents and self.at >= len(self.text):
            raise Unreadable("a here-document has no text")
        return Sequence(tuple(items))

    def at_end(self, closing: str) -> bool:
        operator = self.operator()
        if self.at >= len(self.text):
            if closing:
                raise Unreadable(f"{closing!r} is missing at the end")
            return True
        if operator:
            return operator == closing or (closing == ";;" and operator in (";&", ";;&"))
        return self.peek_word() in _ENDS

    def and_or(self) -> Node:
        left: Node = self.pipeline()
        while (operator := self.operator()) in ("&&", "||"):
            self.at += 2
            self.newlines()
            left = AndOr(left, operator, self.pipeline())
        return left

    def pipeline(self) -> Node:
        while True:
            if self.keyword("!"):
                continue
            if self.keyword("time"):
                self.keyword("-p")
                self.keyword("--")
                if (self.operator() and self.text[self.at] != "(") or self.at >= len(self.text):
                    return Simple((), (), ())
                continue
            break
        commands = [self.command()]
        while (operator := self.operator()) in ("|", "|&"):
            self.at += len(operator)
            self.newlines()
            commands.append(self.command())
        return commands[0] if len(commands) == 1 else Pipeline(tuple(commands))

    # --- commands ------------------------------------------------------------------------------------------------

    def command(self) -> Node:
        self.depth += 1
        self.commands += 1
        if self.depth > DEEPEST:
            raise Unreadable("it is nested too deeply")
        if self.commands > MOST_COMMANDS:
            raise Unreadable("it has more commands than are read")
        try:
            return self._command()
        finally:
            self.depth -= 1

    def _command(self) -> Node:
        operator = self.operator()
        if operator == "(":
            if self.text.startswith("((", self.at):
                return self.with_redirects(Count(self.counted()))
            self.at += 1
            return self.with_redirects(self.closed(")"), subshell=True)
        if operator and operator not in _REDIRECTS:
            raise Unreadable(f"a command cannot begin with {operator!r}")
        word = self.peek_word()
        if word not in _RESERVED:
            return self.simple()
        self.at += len(word)
        if word == "coproc":
            return self.coprocess()
        if word == "function":
            return self.function(self.name())
        return self.with_redirects(self.compound(word))

    def compound(self, word: str) -> Node:
        if word == "{":
            body = self.sequence("}")
            self.expect("}")
            return body
        if word == "if":
            return self.conditional()
        if word in ("while", "until"):
            return While(self.sequence("do"), self.body())
        if word in ("for", "select"):
            return self.loop(chosen=word == "select")
        if word == "case":
            return self.case()
        if word == "[[":
            return Test(self.test_words())
        raise Unreadable(f"{word!r} stands where a command should")

    def closed(self, closing: str) -> Sequence:
        body = self.sequence(closing)
        if not self.take(closing):
            raise Unreadable(f"{closing!r} is missing")
        return body

    def body(self) -> Sequence:
        self.expect("do")
        body = self.sequence("done")
        self.expect("done")
        return body

    def conditional(self) -> Node:
        branches = []
        while True:
            condition = self.sequence("then")
            self.expect("then")
            branches.append((condition, self.sequence("fi")))
            word = self.keyword("elif", "else", "fi")
            if word != "elif":
                break
        otherwise = None
        if word == "else":
            otherwise = self.sequence("fi")
            self.expect("fi")
        elif word != "fi":
            raise Unreadable("'fi' is missing")
        return If(tuple(branches), otherwise)

    def loop(self, chosen: bool) -> Node:
        if self.operator() == "(":
            expression = self.counted()
            self.take(";")
            self.newlines()
            return Count(expression, self.body())
        name = self.name()
        self.newlines()
        words = None
        if self.keyword("in"):
            words = []
            while not self.operator() and self.at < len(self.text):
                words.append(self.word())
        if self.take(";") or self.operator() == "\n":
            self.newlines()
        return For(name, None if words is None else tuple(words), self.body(), chosen)

    def case(self) -> Node:
        self.skip()
        word = self.word()
        self.newlines()
        self.expect("in")
        self.newlines()
        clauses = []
        while not self.keyword("esac"):
            self.take("(")
            patterns = [self.pattern()]
            while self.take("|"):
                patterns.append(self.pattern())
            if not self.take(")"):
                raise Unreadable("a pattern of 'case' has no ')'")
            body = self.sequence(";;") if self.more_clauses() else Sequence(())
            clauses.append((tuple(patterns), body))
            if not (self.take(";;") or self.take(";&") or self.take(";;&")):
                self.newlines()
                self.expect("esac")
                break
            self.newlines()
        return Case(word, tuple(clauses))

    def more_clauses(self) -> bool:
        self.newlines()
        return self.operator() not in (";;", ";&", ";;&") and self.peek_word() != "esac"

    def pattern(self) -> Word:
        self.skip()
        if self.operator():
            raise Unreadable("a pattern of 'case' is missing")
        return self.word()

    def name(self) -> str:
        word = self.peek_word()
        if not _NAME.match(word):
            raise Unreadable(f"{word!r} is not a name")
        self.at += len(word)
        return word

    def function(self, name: str) -> Node:
        """A definition whose name has been read, up to the end of its body."""
        if self.take("(") and not self.take(")"):
            raise Unreadable("a function's parentheses hold something")
        self.newlines()
        word = self.peek_word()
        if self.operator() != "(" and word not in _RESERVED - _ENDS - {"in", "!", "function", "time", "coproc"}:
            raise Unreadable(f"the body of the function {name} is missing")
        return Function(name, self.command())

    def coprocess(self) -> Node:
        word = self.peek_word()
        name = "COPROC"
        if _NAME.match(word) and word not in _RESERVED:
            start = self.at
            self.at += len(word)
            if self.operator() == "(" or self.peek_word() in _RESERVED - _ENDS:
                name = word
            else:
                self.at = start
        return Coprocess(name, self.command())

    def with_redirects(self, body: Node, subshell: bool = False) -> Node:
        redirects = []
        while (redirect := self.redirect()) is not None:
            redirects.append(redirect)
        return Compound(body, tuple(redirects), subshell) if redirects or subshell else body

    def redirect(self) -> Redirect | None:
        """A redirection, if one comes next; its number or name stands directly before it."""
        self.skip()
        first = self.text[self.at : self.at + 1]
        found = _DESCRIPTOR.match(self.text, self.at) if first == "{" or first.isdigit() else None
        descriptor = found.group() if found else ""
        start = self.at
        self.at += len(descriptor)
        if operator_at(self.text, self.at) not in _REDIRECTS or self.process_begins():
            self.at = start
            return None
        kind = self.operator()
        self.at += len(kind)
        _skip_blank(self)
        if self.at >= len(self.text) or (operator_at(self.text, self.at) and not self.process_begins()):
            raise Unreadable(f"nothing follows {kind!r}")
        redirect = Redirect(descriptor, kind, self.word())
        if kind in ("<<", "<<-"):
            self.begin_document(redirect)
        return redirect

    def begin_document(self, redirect: Redirect) -> None:
        found = _DELIMITER.match(redirect.target.raw)
        if found is None:
            raise Unreadable(f"{redirect.target.raw!r} is an odd end of a here-document")
        bare = found.group(1)
        end = bare or found.group(2) or found.group(3) or found.group(4)
        self.documents.append((redirect, end, redirect.operator == "<<-", bare is None))

    def simple(self) -> Node:
        """Assignments, words and redirections in any order; or the definition of a function."""
        assignments: list[Assignment] = []
        words: list[Word | Assignment] = []
        redirects: list[Redirect] = []
        declares, before = (
            False,
            True,
        )  # whether only what stands before a builtin was there so far: `command export A=b`
        while True:
            redirect = self.redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            if self.at >= len(self.text) or (self.operator() and not self.process_begins()):
                if self.operator() == "(" and self.is_function(words, bool(assignments or redirects)):
                    return self.function(words[0].raw)  # type: ignore[union-attr]
                break
            assignment = self.assignment() if not words or declares else None
            if assignment is not None:
                if words:
                    words.append(assignment)
                else:
                    assignments.append(assignment)
                continue
            word = self.word()
            words.append(word)
            declares = word.raw in _DECLARES if before else declares
            before = before and word.raw in ("command", "builtin")
        if not (assignments or words or redirects):
            raise Unreadable("a command is missing")
        return Simple(tuple(assignments), tuple(words), tuple(redirects))

    def is_function(self, words: list[Word | Assignment], more: bool) -> bool:
        if len(words) == 1 and isinstance(words[0], Word) and not more and PLAIN.fullmatch(words[0].raw):
            return True
        raise Unreadable("a parenthesis stands inside a command")

    def assignment(self) -> Assignment | None:
        if not self.assigns:
            return None
        found = _ASSIGNMENT.match(self.text, self.at)
        if found is None:
            if _SUBSCRIPT.match(self.text, self.at):
                raise Unreadable("an element of an array is computed")
            return None
        self.at = found.end()
        name, subscript, more = found.groups()
        if self.text.startswith("(", self.at):
            self.at += 1
            elements = []
            self.newlines()
            while not self.take(")"):
                if self.at >= len(self.text) or (self.operator() and not self.process_begins()):
                    raise Unreadable("an array does not end")
                elements.append(self.word())
                self.newlines()
            if self.at < len(self.text) and not self.at_break():
                raise Unreadable("an array and a word touch")
            return Assignment(name, None, bool(more), tuple(elements))
        value = self.word() if self.at < len(self.text) and not self.at_break() else Word("", ())
        if subscript:
            return Assignment(name, None, bool(more), (value,), subscript)
        return Assignment(name, value, bool(more))

    def at_break(self) -> bool:
        return self.text[self.at] in " \t\n;&|()<>" and not self.process_begins()

    # --- what a word may hold ------------------------------------------------------------------------------------

    def script_inside(self) -> Sequence:
        """The script of a substitution whose parenthesis has just opened, up to and over the one that closes it."""
        waiting, self.documents, start = self.documents, [], self.at
        script = self.closed(")")
        if self.documents or (waiting and "\n" in self.text[start : self.at]):
            raise Unreadable("a here-document crosses a substitution")
        self.documents = waiting
        return script

    def script_of(self, text: str) -> Sequence:
        """The script between backquotes, which is read on its own."""
        reader = Reader(text, self.depth + 1)
        script = reader.sequence("")
        if reader.at < len(text):
            raise Unreadable("backquotes hold half a command")
        return script


_DESCRIPTOR = lazy(r"(?:[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})(?=[<>])")


def _skip_blank(reader: Reader) -> None:
    """Over blanks where no comment may begin: `> #f` writes a file of that name only when it touches nothing."""
    reader.at = over_blanks(reader.text, reader.at)
    if reader.text.startswith("#", reader.at):
        raise Unreadable("a comment stands where a file should")
