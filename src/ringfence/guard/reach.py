"""What a shell line touches: a walk through its commands that follows `cd`, assignments, loops and functions.

Every branch is taken, because nobody knows beforehand which will be. What the walk cannot know is a doubt, and a doubt
is never silent: it becomes ASK. What programs do with their arguments is in `programs.py` and `acts.py`; here is what
the shell itself does.
"""

import functools
import posixpath
import re
from collections.abc import Callable

from ..model import Access, Verdict
from .bounds import Bounds
from .expand import are_numbers, is_count
from .patterns import lazy
from .shell import parse
from .state import MISSING, MOST_PLACES, Field, Shell, merged
from .syntax import (
    AndOr,
    Arithmetic,
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
    Variable,
    While,
    Word,
)
from .variables import ZSH_ADDS, ZSH_CALLS, Values, added, computes, concern, handed_on, listed, only_adds
from .words import Unreadable

MOST_STEPS = 1500  # a line that takes more is a program, and is asked about
MOST_ROUNDS = 6
MOST_WORDS = 1000
_BASHS_OWN = lazy(
    r"(?:E?UID|PPID|S?RANDOM|SECONDS|LINENO|HISTCMD|EPOCH\w+|GROUPS|FUNCNAME|DIRSTACK|MAPFILE|COPROC\w*|OPT\w+|COMP_\w+|BASH\w*|SHELLOPTS|_"
    r"|PIPESTATUS|REPLY|PWD|OLDPWD|SHLVL|HOSTNAME|HOSTTYPE|MACHTYPE|OSTYPE|COLUMNS|LINES)\Z"
)
_PLAIN_TARGET = lazy(r"[\w./:,@%+=-]*\Z")
_ELEMENT = lazy(r"\[([^\]]*)\]\+?=")
_SETTLES = ("places", "variables", "numbers", "functions", "exported", "positional", "odd_words")
_COMPARES = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))


class TooLong(Exception):
    """The line was walked for long enough."""


class Walk(Values):
    """One walk, and what it found."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds)
        self.steps = 0
        self.calls = 0
        self.seen_places: set[str] = set()
        self.traps: list[str] = []
        self.functions: dict[str, tuple[Node, ...]] = {}
        self.frozen: set[str] = set()  # names that cannot be assigned any more
        self.lists: set[str] = set()  # names that may be arrays
        self.leaves: list[tuple[int, list[Shell]]] = []  # for each loop around: in which call, and how it may be left
        self.returns: list[list[Shell]] = []  # for each call around: how it may be left early
        self.locals: list[set[str]] = []  # for each call around: the names that are its own
        self.closes = False  # whether a stream may have been closed
        self.limited = False  # whether there may be no descriptor left for another one
        self.later: list[tuple[Node, Shell, tuple[object, ...]]] = []  # what runs beside the rest, since when

    # --- walking -------------------------------------------------------------------------------------------------

    def line(self, text: str, shell: Shell) -> tuple[Shell, Shell]:
        """A text as a shell line, in this shell."""
        return self.understood(lambda: self.run(parse(text), shell), shell)

    def understood(self, walking: Callable[[], tuple[Shell, Shell]], shell: Shell) -> tuple[Shell, Shell]:
        """What comes of a walk; if something on its way cannot be read, that is a doubt."""
        try:
            return walking()
        except Unreadable as error:
            self.doubt(f"it cannot be read: {error}")
        except RecursionError:
            self.doubt("it is nested too deeply to be read")
        return shell, shell

    def run(self, node: Node, shell: Shell) -> tuple[Shell, Shell]:
        """The shell after a node that succeeded, and after one that failed. They are one where it cannot matter."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TooLong
        self.seen_places |= shell.places
        return _WALKS[type(node)](self, node, shell)

    def after(self, node: Node, shell: Shell) -> Shell:
        """The shell after a node, whatever came of it."""
        return merged(*self.run(node, shell))

    def aside(self, node: Node, shell: Shell) -> None:
        """A node in a shell of its own."""
        self.after(node, shell.copy())

    def sequence(self, node: Sequence, shell: Shell) -> tuple[Shell, Shell]:
        ok = bad = shell
        for item, beside in node.items:
            shell = merged(ok, bad)
            if beside:
                self.beside(item, shell)
                ok = bad = shell
            else:
                ok, bad = self.run(item, shell)
        return ok, bad

    def and_or(self, node: AndOr, shell: Shell) -> tuple[Shell, Shell]:
        ok, bad = self.run(node.left, shell)
        if node.operator == "&&":
            then_ok, then_bad = self.run(node.right, ok.copy())
            return then_ok, merged(bad, then_bad)
        then_ok, then_bad = self.run(node.right, bad.copy())
        return merged(ok, then_ok), then_bad

    def beside(self, node: Node, shell: Shell) -> None:
        """A node that runs while the line goes on; at the end of that it is walked again."""
        self.later.append((node, shell.copy(), self.spread()))
        self.aside(node, shell)

    def pipeline(self, node: Pipeline, shell: Shell) -> tuple[Shell, Shell]:
        before, feeds, piped, end = self.spread(), self.feeds, self.piped, shell
        self.feeds += any(hands_on(command) for command in node.commands[1:])
        for command in node.commands:
            end = self.after(command, shell.copy())
            self.piped = piped or len(node.commands) > 1
        for command in node.commands if self.spread() != before else ():  # each runs while the others do
            self.aside(command, shell)
        self.feeds, self.piped = feeds, piped
        end = shell if self.bounds.held else merged(shell, end)  # to zsh the last of them is this shell
        return end, end

    def compound(self, node: Compound, shell: Shell) -> tuple[Shell, Shell]:
        before = shell.copy()
        fails = self.redirects(node.redirects, shell)
        if node.subshell:
            self.aside(node.body, shell)
            return shell, shell
        ok, bad = self.run(node.body, shell)
        return (ok, merged(before, bad)) if fails else (ok, bad)

    def conditional(self, node: If, shell: Shell) -> tuple[Shell, Shell]:
        ends = []
        for condition, body in node.branches:
            ok, shell = self.run(condition, shell)
            ends.append(self.after(body, ok.copy()))
        ends.append(self.after(node.otherwise, shell) if node.otherwise else shell)
        end = ends[0]
        for other in ends[1:]:
            end = merged(end, other)
        return end, end

    def repeated(self, shell: Shell, rounds: list[tuple[Node, ...]]) -> Shell:
        """Bodies one after another, after each of which the loop may have ended."""
        end = shell
        for bodies in rounds:
            inner = end.copy()
            self.leaves.append((self.calls, []))
            for body in bodies:
                inner = self.after(body, inner)
            end = merged(end, inner)
            for left in self.leaves.pop()[1]:
                end = merged(end, left)
        return end

    def settled(self, shell: Shell, *bodies: Node) -> Shell:
        """Bodies again and again, until nothing new comes of it."""
        for _ in range(MOST_ROUNDS):
            before = len(self.findings), self.spread()
            end = self.repeated(shell, [bodies])
            new = before != (len(self.findings), self.spread())
            if not new and all(getattr(end, what) == getattr(shell, what) for what in _SETTLES):
                return end
            shell = end
        shell = shell.copy()
        shell.places = frozenset()
        shell.forget()
        return self.repeated(shell, [bodies])

    def loop(self, node: While, shell: Shell) -> tuple[Shell, Shell]:
        end = self.settled(shell, node.condition, node.body)
        return end, end

    def count(self, node: Count, shell: Shell) -> tuple[Shell, Shell]:
        self.arithmetic(node.expression.text, node.expression.inner, shell)
        if node.body is not None:
            shell = self.settled(shell, node.body)
        return shell, shell

    def each(self, node: For, shell: Shell) -> tuple[Shell, Shell]:
        if node.words is None:
            fields = list(shell.positional) if shell.positional is not None else [Field("", False, "$@", many=True)]
        else:
            fields = []
            for word in node.words:
                fields += self.expander(shell).fields(word)
                if len(fields) > MOST_WORDS:
                    raise TooLong
        if node.name != "path" or node.chosen:
            concern(self, node.name, None, shell)
        for field in fields:
            if node.name == "path" or field.known:  # which is PATH to zsh
                concern(self, node.name, field.text if field.known else None, shell)
        if node.chosen or not all(field.known for field in fields) or len(fields) > 24 or not self.holds(node.name):
            inner = shell.copy()
            words = node.words or ()
            inner.assign(node.name, None, bool(words) and all(are_numbers(word, shell) for word in words))
            end = merged(shell, self.settled(inner, node.body))
            return end, end
        for field in fields:
            shell = shell.copy()
            shell.assign(node.name, field.text)
            self.leaves.append((self.calls, []))
            shell = merged(shell, self.after(node.body, shell.copy()))
            for left in self.leaves.pop()[1]:
                shell = merged(shell, left)
        return shell, shell

    def case(self, node: Case, shell: Shell) -> tuple[Shell, Shell]:
        self.expander(shell).text(node.word)
        end = shell
        for patterns, body in node.clauses:
            for pattern in patterns:
                self.expander(shell).text(pattern)
            end = merged(end, self.after(body, end.copy()))  # `;&` falls through, so one clause may follow another
        return end, end

    def test(self, node: Test, shell: Shell) -> tuple[Shell, Shell]:
        texts = [self.expander(shell).text(word) for word in node.words]
        for name in ("MATCH", "match", "MBEGIN", "MEND", "mbegin", "mend"):  # in which zsh keeps what it found
            if name in shell.variables and not self.bounds.held:
                shell.assign(name, None)
        for index, word in enumerate(node.words):
            one = word.raw == "-v" or (word.raw == "-t" and not self.bounds.held)  # which zsh counts
            sides = (index - 1, index + 1) if word.raw in _COMPARES else (index + 1,) if one else ()
            for side in sides:
                if 0 <= side < len(texts) and not is_number(node.words[side], shell):
                    text = texts[side]
                    text = text.partition("[")[2].removesuffix("]") if word.raw == "-v" and text is not None else text
                    self.evaluated(text, node.words[side].raw, shell)
                    self.altered(text or "", shell)
        return shell, shell

    def function(self, node: Function, shell: Shell) -> tuple[Shell, Shell]:
        shell.functions = {**shell.functions, node.name: (node.body,)}
        self.functions[node.name] = (*self.functions.get(node.name, ()), node.body)
        if node.name.startswith("command_not_found_handle"):  # and zsh has it with an r
            self.doubt("it says itself what runs in place of a program that is not there")
        if ZSH_CALLS.match(node.name):
            self.doubt(f"zsh calls {node.name} by itself")
        return shell, shell

    def coprocess(self, node: Coprocess, shell: Shell) -> tuple[Shell, Shell]:
        self.fed = True
        self.beside(node.body, shell)
        concern(self, node.name, None, shell)
        shell.assign(node.name, None)
        return shell, shell

    # --- simple commands -----------------------------------------------------------------------------------------

    def simple(self, node: Simple, shell: Shell) -> tuple[Shell, Shell]:
        expander, before = self.expander(shell), shell.copy()
        fields: list[Field] = []
        if len(node.assignments) > MOST_WORDS:
            raise TooLong
        for word in node.words:
            fields += self.declared(word, shell, fields) if isinstance(word, Assignment) else expander.fields(word)
            if len(fields) > MOST_WORDS:
                raise TooLong
        fails = self.redirects(node.redirects, shell) if node.words else False
        for assignment in node.assignments:
            self.assigned(assignment, shell, lasting=not node.words, command=fields[0].text if fields else "")
        if not node.words:  # then bash assigns first
            self.redirects(node.redirects, shell)
        if not fields:
            return shell, shell
        ok, bad = self.call(fields, shell, stdin_of(node.redirects))
        return (ok, merged(before, bad)) if fails else (ok, bad)

    def call(self, fields: list[Field], shell: Shell, stdin: Word | None = None) -> tuple[Shell, Shell]:
        """One command with its arguments: a function, a builtin, or a program."""
        from .call import call  # it needs this module in turn

        self.steps += 1
        if self.steps > MOST_STEPS or len(fields) > MOST_WORDS:
            raise TooLong
        return call(self, fields, shell, stdin)

    def declared(self, assignment: Assignment, shell: Shell, options: list[Field]) -> list[Field]:
        """An assignment that is an argument of export or its kin, and may be several: `export a={b,c}`."""
        self.assigned(assignment, shell, lasting=True, command="export")
        if assignment.value is not None:
            value = self.expander(shell).text(assignment.value)
            listed = assignment.name in self.lists or any(re.match(r"-\w*[aA]", option.text) for option in options)
            if (listed and value is None) or (value or "").lstrip().startswith("("):
                self.doubt(f"it declares {assignment.name}, perhaps as a list that is expanded though it is quoted")
            if options[0].text in ("command", "builtin") and not _ONE_WORD.match(assignment.value.raw):
                self.doubt(f"it declares {assignment.name} by {assignment.value.raw!r}, which may be several words")
            past = options[0].text == "command" and not self.bounds.held  # which zsh takes for a program
            if past or "{" in assignment.value.raw:
                shell.assign(assignment.name, None)
        return [Field(f"{assignment.name}=")]  # nothing is written of it: it was assigned here

    def assigned(self, assignment: Assignment, shell: Shell, lasting: bool, command: str) -> None:
        name = assignment.name
        value: str | None = None
        if assignment.value is not None:
            value = self.expander(shell).text(assignment.value)
        self.evaluated(assignment.subscript, assignment.subscript, shell)
        if len(assignment.elements) > MOST_WORDS:
            raise TooLong
        self.lists |= {name} if assignment.value is None else set()
        for element in assignment.elements:
            if found := _ELEMENT.match(element.raw):
                self.evaluated(found[1], found[1], shell)
            self.expander(shell).fields(element)
        if assignment.more:
            computes(self, name, value)
            if name in ZSH_ADDS and not self.bounds.held and not (value or "?").isdigit():
                self.doubt(f"zsh counts what is added to {name}, and that may run commands")
            before = shell.variables.get(name)
            value = before + value if before is not None and value is not None else None
        if name == "IFS" and command == "read":
            return  # only for its time
        told = added(name, assignment.value, shell) if value is None and not assignment.more else value
        if name != "PATH" or assignment.more or not only_adds(self, assignment.value, shell):
            number = value is None and assignment.value is not None and is_number(assignment.value, shell)
            concern(self, name, "0" if number else told, shell)
        if assignment.value is None or assignment.more:
            listed(self, name, all(element.raw.isalnum() for element in assignment.elements))
        if not lasting:
            handed_on(self, name, told, shell)
        kept = lasting and self.holds(name)
        number = kept and not assignment.more and assignment.value is not None and is_number(assignment.value, shell)
        shell.assign(name, value if kept else None, number)

    def holds(self, name: str) -> bool:
        """Whether a name keeps what it is assigned: some are frozen, and some are bash's own."""
        return name not in self.frozen and not _BASHS_OWN.match(name)

    def redirects(self, redirects: tuple[Redirect, ...], shell: Shell) -> bool:
        """Where streams go; and whether that may fail, so that the command does not run at all."""
        fails = False
        if len(redirects) > MOST_WORDS:
            raise TooLong
        for redirect in redirects:
            fails = fails or self.may_fail(redirect)
            self.fed = self.fed or (redirect.operator[0] == "<" and redirect.target.raw != "/dev/null")
            if redirect.descriptor.startswith("{"):
                concern(self, redirect.descriptor[1:-1], None, shell)
                shell.assign(redirect.descriptor[1:-1], None)
            if redirect.operator in ("<<", "<<-", "<<<"):
                self.expander(shell).text(redirect.target)
            else:
                self.redirected(redirect, shell)
        return fails

    def may_fail(self, redirect: Redirect) -> bool:
        """All but here-documents, the null device, and the streams that every command has, if none was closed."""
        if self.limited or redirect.operator in ("<<", "<<-", "<<<"):
            return self.limited
        if redirect.operator in ("<&", ">&") and not redirect.target.raw.isdigit():
            self.closes = True
        return redirect.target.raw != "/dev/null" and (self.closes or redirect.target.raw not in ("0", "1", "2"))

    def redirected(self, redirect: Redirect, shell: Shell) -> None:
        fields = self.expander(shell).fields(redirect.target)
        field = fields[0] if len(fields) == 1 else Field("", False, redirect.target.raw)
        duplicates = redirect.operator in ("<&", ">&")
        if duplicates and field.known and re.fullmatch(r"[0-9]*-?", field.text):
            return
        if redirect.operator == "<&":
            return  # another name for a descriptor that is open already
        if redirect.operator == "<":
            if re.match(r"/dev/(?:tcp|udp)/", field.text):
                self.refuse(f"it reads {field.shown!r}: bash connects to that")
            self.reads(field, shell)
            self.opens(field, shell)
            return
        if duplicates and not _PLAIN_TARGET.match(field.text):
            self.doubt(f"what {redirect.operator + redirect.target.raw!r} writes bash expands twice, quoted or not")
        if redirect.target.raw.startswith("!"):
            self.doubt(f"{redirect.operator + redirect.target.raw!r} writes another file in zsh")
        self.writes(field, shell)

    def opens(self, field: Field, shell: Shell) -> None:
        """A file that stands open for reading can be opened for writing by its descriptor's name."""
        if not field.known:
            self.opened_outside = self.opened_outside or field.shown
            return
        for place in sorted(shell.places) or ("/",):
            real = self.bounds.resolve(posixpath.join(self.stand(place), field.text))
            if real != "/dev/null" and self.bounds.decide(Access.WRITE, real).verdict is not Verdict.ALLOW:
                self.opened_outside = field.shown


_ONE_WORD = lazy(r"[\w./:+,@%-]*\Z|\"[^\"]*\"\Z|'[^']*'\Z")


def hands_on(node: Node) -> bool:
    """Whether a command takes what it reads for arguments."""
    return isinstance(node, Simple) and any(isinstance(word, Word) and word.raw == "xargs" for word in node.words)


def is_number(word: Word, shell: Shell) -> bool:
    """Whether a word is a number, whichever: `$((...))`, `$!`, `$(date +%s)`."""
    first = word.pieces[0] if len(word.pieces) == 1 else None
    if isinstance(first, Variable):
        return first.name in "!?#$" and not first.rest
    return first is not None and (isinstance(first, Arithmetic) or is_count(first, shell))


def stdin_of(redirects: tuple[Redirect, ...]) -> Word | None:
    """The text that a here-document or here-string feeds to a command, unless another file takes its place."""
    for redirect in reversed(redirects):
        if redirect.descriptor.strip("0") == "" and (redirect.descriptor or redirect.operator.startswith("<")):
            return redirect.target if redirect.operator in ("<<", "<<-", "<<<") else None
    return None


_WALKS: dict[type, Callable[..., tuple[Shell, Shell]]] = {
    Sequence: Walk.sequence,
    AndOr: Walk.and_or,
    Pipeline: Walk.pipeline,
    Compound: Walk.compound,
    If: Walk.conditional,
    While: Walk.loop,
    Count: Walk.count,
    For: Walk.each,
    Case: Walk.case,
    Test: Walk.test,
    Function: Walk.function,
    Coprocess: Walk.coprocess,
    Simple: Walk.simple,
}


def reach(text: str, bounds: Bounds) -> Walk:
    """Everything a line does that can be known, and every doubt about the rest."""
    walk = Walk(bounds)
    first = Shell(frozenset((bounds.start,)))
    try:
        for end in walk.line(text, first):
            walk.seen_places |= end.places
        done = 0
        while done < len(walk.traps):  # a trap may run at any moment, wherever the shell stands then
            places = frozenset(walk.seen_places) if len(walk.seen_places) <= MOST_PLACES else frozenset[str]()
            functions = {name: (*bodies, MISSING) for name, bodies in walk.functions.items()}
            shell = Shell(places, dict.fromkeys(first.ever), functions=functions, ever=first.ever)
            shell.numbers = frozenset(name for name, number in first.ever.items() if number)
            shell.odd_words = "IFS was set" if "IFS" in first.ever else ""
            walk.line(walk.traps[done], shell)
            done += 1
        for node, there, before in list(walk.later):
            if walk.spread() != before:
                walk.understood(functools.partial(walk.run, node, there), there)
    except TooLong:
        walk.doubt("it does more than can be followed")
    if walk.opened_outside and walk.descriptor_written:
        walk.doubt(f"it writes {walk.descriptor_written}, which may be {walk.opened_outside!r}")
    return walk
