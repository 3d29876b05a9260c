"""What is found out about a line: paths that are read, written and entered, doubts, and what the judge says of each."""

import itertools
import posixpath
from collections.abc import Iterator

from ..model import Access, Verdict
from .bounds import Bounds, Finding, runs_later
from .patterns import lazy
from .state import Field, Shell

_STREAMS = lazy(r"/dev/(?:null|stdout|stderr|fd/\d+)\Z")
# What shows the machine, or this process alone.
_OF_ALL = lazy(
    r"/proc(?:/(?:self|thread-self))?(?:/(?:cpuinfo|meminfo|version|loadavg|uptime|filesystems|stat|status|limits|mounts|mountinfo"
    r"|cgroup|partitions|diskstats|net/\w+|sys/.*|fd(?:/\w+)?))?\Z|/dev(?:/(?:null|zero|full|u?random|tty|std(?:in|out|err)|fd/\d+))?\Z"
)
_WILD = frozenset("*?[")
_CHANGES_MODE = "it changes the mode of"
LONGEST = 2000  # characters of a word in which somebody looks for more than its beginning
MOST_PATHS = 128
MOST_LINKS = 40  # as many as the kernel follows
LONGEST_PATH = 4096  # characters; more the kernel does not take
MOST_FOLLOWED = 2_000_000  # characters of paths that go through links of the line, all of them together
_HOME = lazy(r'"?\$(?:HOME\b|\{HOME\})"?')
_DEFAULT = lazy(r"\$\{\w+:?[-=+]([^{}]*)\}")  # what a variable is, if nobody has set it
_ANOTHERS = lazy(r"~[A-Za-z_]")  # somebody's home, and not the user's own
_IN_CODE = frozenset(("sed", "awk", "perl", "ruby"))  # to whom strokes and dots are more than paths
_FROM_FILE = lazy(r"(?:\A|[=;])[@<]\Z")
_ENCODED = frozenset(("--data-urlencode", "--url-query", "--variable"))  # which have a name before the file's
# Whose value curl takes for a file behind an `@`, and one of a form behind a name, too.
_SENT = lazy(r"-\w*[dH]\Z|--(?:da(?!ta-raw)|js|url-q|header|proxy-h)[\w-]*\Z")
_BARE = lazy(r"\"?\$(?:([A-Za-z]\w*)|\{([A-Za-z]\w*)\})\"?\Z")
_FORM = lazy(r"-\w*F\Z|--fo(?!rm-s)[\w-]*\Z")
_SHOWN = lazy(r"(?:-F|-X|--(?:file|contents|add-file|exclude-from)=?)\Z")  # by git, or kept
_LOCAL = lazy(r"(?i)file:(?://[^/]*)?/")
# Addresses in which curl reads letters by their numbers, or several in one.
_SPELLED = lazy(r"(?is)(?:--url=)?[\"']?(?:file:.*[%\[{$`]|[^:/\s\"\[{]*[\[{][^/\s\"]*:/)")
_IMPORTS = lazy(r"(?s)\b(?:import|include|search)\b.*\\")
_BEHIND = lazy(r"/proc/[^/]+/(?:task/[^/]+/)?(?:root|cwd)/")  # whose links nobody can follow beforehand
_RELATIVE = lazy(r"\bsqlite(?:\+\w+)?:///(?!/)")  # so begins an address whose path is none of the root's
_PARTS = lazy(r"[\s=:,;|@\"'(){}]+")
# Not the two strokes of an address with a host; those of a path count as one.
_ELSEWHERE = lazy(
    r"(?:(?<![\w./~*?\]})-])|(?<=^-[A-Za-z])|(?<=^-[A-Za-z]{2})|(?<=^-[A-Za-z]{3}))(?=(?!(?<=[A-Za-z0-9]:)(?<!file:)//[\w\[])/|~|\.\.(?:/|\Z))"
)


def _upwards(path: str) -> list[str]:
    """A path and all that it lies below."""
    names = path.split("/")
    return ["/".join(names[:count]) for count in range(len(names), 1, -1)]


def goes_back(path: str) -> bool:
    """Whether `..` comes after a name."""
    names = path.split("/")
    first = next((at for at, name in enumerate(names) if name not in ("", ".", "..")), len(names))
    return ".." in names[first:]


class Touches:
    """The findings so far, and how paths are looked at."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.findings: dict[tuple[str, str], Finding] = {}
        self.links: dict[str, str] = {}  # links that the line itself makes, and where they lead
        self.followed = 0  # how much of paths went through them
        self.loose: list[str] = []  # directories in which the line may have put links that nobody has seen
        self.generated = set[str]()  # directories that cmake has filled, by the project's own rules
        self.checked_out: list[str] = []  # and those in which git may have; it puts none into its own directory
        self.brought = False  # whether this line has fetched anything, under whatever name it keeps that
        self.strewn = ""  # what this line has fetched, unpacked or patched in, so that nobody has seen it
        self.exports = set[str]()  # names that programs get from here on, whatever they hold by then
        self.fed = False  # whether the line itself, or a file, says what somebody reads from its input
        self.path_read = False  # whether `path`, by which zsh looks for programs, holds what nobody knows
        self.handed = ""  # which variable was handed on that may be a command to a rule of make
        self.sought = ""  # whose number the line has asked for, if that is not a process of the project
        self.opened_outside = ""  # a file that may not be written and stands open on some descriptor
        self.descriptor_written = ""
        self.notes: list[str] = []
        self.written_paths = 0  # how often a path was looked at that is written, whether it was before or not
        self.environments = set[str](), 0  # which virtual ones the line has made, and how much was written by then
        self.piped = False  # what runs now may read what another one writes
        self.feeds = 0  # how many stand around that take what is printed for arguments
        self.looked = 0  # paths that were looked at in words of programs
        self.interrupted = False  # a trap may run at any moment
        self.odd_names = False  # the line makes a name that is several words, or a pattern, where it is not quoted

    def find(self, verdict: Verdict, reason: str, access: str = "", path: str = "") -> None:
        key = (reason, path)
        if key not in self.findings or self.findings[key].verdict < verdict:
            self.findings[key] = Finding(verdict, reason, access, path)

    def spread(self) -> tuple[object, ...]:
        """What a path means hangs on these, as the line has left them: who runs beside it may come upon them yet."""
        return len(self.links), len(set(self.loose)), len(set(self.checked_out)), self.strewn, self.odd_names

    def doubt(self, reason: str) -> None:
        """Something that cannot be known."""
        self.find(Verdict.ASK, reason)

    def refuse(self, reason: str) -> None:
        self.find(Verdict.DENY, reason)

    def reads(self, field: Field, shell: Shell, sends: bool = False, names: bool = False) -> None:
        """A path opened for reading; with `sends` by a program that may send it away, with `names` by one that shows
        what is called how, and not what is in it."""
        if self.bounds.reads_free:
            return
        if not field.known:
            if sends or not self.bounds.held or _ANOTHERS.match(field.shown):
                self.doubt(f"it reads {field.shown!r}, which is not known")
            self.searches(field.text[: field.text.rfind("/") + 1], field.shown, shell)
            return
        for path in self.absolute(field.text, shell, f"it reads {field.shown!r}"):
            real = self.bounds.resolve(path)
            self.ask(Access.READ, real, f"it reads {field.shown!r}")
            if not self.bounds.held:
                self.finds(real, field.shown, names)

    def finds(self, real: str, shown: str, names: bool) -> None:
        """What a line comes upon that no sandbox holds: other processes, disks, what is hidden below a directory."""
        whole = not names and real in ("/proc", "/dev")
        if whole or ((real + "/").startswith(("/proc/", "/dev/")) and not _OF_ALL.match(real)):
            self.doubt(f"it reads {shown!r}, where without a sandbox more is seen than may be read")
        elif not names and self.bounds.is_directory(real) and self.bounds.hides(real):
            self.doubt(f"it reads {shown!r}, below which not everything may be read")

    def searches(self, directory: str, shown: str, shell: Shell) -> None:
        """A directory below which something is read, and what is not known."""
        for path in self.absolute(directory, shell, f"it reads {shown!r}") if directory else ():
            if self.bounds.decide(Access.READ, self.bounds.resolve(path)).verdict is not Verdict.ALLOW:
                self.doubt(f"it reads {shown!r}, where not everything may be read")

    def told(self, name: str, fields: list[Field], shell: Shell) -> None:
        """A path that may not be read, anywhere among a program's words: many are read by an option, or an address."""
        if self.bounds.held and name in _IN_CODE:
            return
        first = next((field.text for field in fields if not field.text.startswith("-")), "")
        speaks = name == "git" and first in ("commit", "merge", "tag", "notes", "stash")  # to others -m is a flag
        for index, field in enumerate(fields):
            message = speaks and index and fields[index - 1].text in ("-m", "--message", "-am")
            text = field.text if field.known else _DEFAULT.sub(r"\1", field.raw)
            text = _HOME.sub(self.bounds.home, text) if self.bounds.home and not field.known else text
            if not field.known and _ANOTHERS.match(field.raw):
                self.doubt(f"{name} is told {field.raw!r}, in a home that is not known")
            if field.text.startswith("--files0" if self.bounds.held else ("--files0", "--stdin-p")):
                self.doubt(f"{name} reads the files that another one names")
            encoded = index and fields[index - 1].text in _ENCODED and field.text.endswith("@")
            if not field.known and name in ("curl", "wget") and (encoded or _FROM_FILE.search(field.text)):
                self.doubt(f"{name} takes what it sends from {field.shown!r}, which is not known")
            if not field.known and not self.bounds.held and not message:
                self.begun(name, field, fields[index - 1].text if index else "", shell)
            if name == "jq" and not self.bounds.held and _IMPORTS.search(text):
                self.doubt(f"jq is told {field.shown!r}, and which file that is it spells out itself")
            if name == "curl" and not self.bounds.held and _SPELLED.match(text):
                self.doubt(f"curl is told {field.shown!r}, and which file that is it spells out itself")
            if message or ("/" not in text and text != "..") or (not field.known and text == field.raw):
                continue
            if len(text) > LONGEST or self.looked > MOST_PATHS:
                self.doubt(f"{name} gets more words, or longer ones, than are looked at")
                return
            for path in itertools.islice(self.paths_in(_LOCAL.sub("file:/", text)), MOST_PATHS):
                for part in {path, _PARTS.split(path, maxsplit=1)[0]} - {""}:
                    self.looked += 1
                    self.told_one(name, part, shell)

    def begun(self, name: str, field: Field, before: str, shell: Shell) -> None:
        """A word that is not known but for its beginning: a file that is sent or kept, or one below a directory where
        not everything may be read. What a variable holds from outside the line was not chosen by it."""
        bare = _BARE.match(field.raw)
        text, curl = field.text, name == "curl" and (bare is None or (bare[1] or bare[2]) in shell.variables)
        sent = _SENT.match(text or before) or _FORM.match(before) or _FORM.match(text)
        local = (text or before == "--url") and "file:".startswith(text.lower())
        if (curl and (sent or local)) or (name == "git" and _SHOWN.match(text or before)):
            self.doubt(f"{name} may read the file {field.shown!r}, which is not known")
        for path in itertools.islice(self.paths_in(field.text), MOST_PATHS):
            head = path[: path.rfind("/") + 1]
            if head[:1] == "/" or ".." in head.split("/"):
                self.searches(head, field.shown, shell)
                for real in map(self.bounds.resolve, self.absolute(head, shell, "")):
                    if self.bounds.is_directory(real) and self.bounds.hides(real):
                        self.doubt(f"{name} may read {field.shown!r}, below which not everything may be read")

    def told_one(self, name: str, path: str, shell: Shell) -> None:
        if path[0] == "~" and name == "jq":  # which takes it for the home itself
            path = posixpath.join(self.bounds.home or "/", path[1:].lstrip("/"))
        if path[0] == "~":
            return
        once = "/" + path.lstrip("/") if path[0] == "/" else path  # two strokes at the beginning are one
        for place in ("/",) if path[0] == "/" else sorted(shell.places):
            real = self.bounds.resolve(posixpath.join(self.stand(place), once))
            decision = self.bounds.decide(Access.READ, real)
            if decision.verdict is not Verdict.ALLOW or _BEHIND.match(path):
                self.doubt(f"{name} is told {path!r}, which may not be read: {decision.reason}")
            if not self.bounds.held:
                self.finds(real, path, names=name != "git" or self.bounds.has(real))  # it compares whole trees

    def writes(self, field: Field, shell: Shell, replaces: bool = False, mode: bool = False) -> None:
        """A path opened for writing; or with `replaces` a name made, removed or put in another's place; or with `mode`
        what stays as it is but for who may do what with it."""
        what = f"{_CHANGES_MODE if mode else 'it writes'} {field.shown!r}"
        if not field.known and (not field.below or field.many):
            self.doubt(f"{what}, which is not known")
            if not field.below:
                return
        if field.text == "":
            if not field.known or not self.bounds.held:
                self.doubt("it writes a path that is empty")
            return
        lexical = posixpath.normpath(field.text)
        if not replaces and field.text.startswith("/") and _STREAMS.match(lexical):
            self.descriptor_written = lexical if lexical != "/dev/null" else self.descriptor_written
            return
        name = posixpath.basename(lexical)
        self.odd_names = self.odd_names or not _WILD.isdisjoint(name) or any(map(str.isspace, name))
        if name.startswith("-"):
            self.doubt(f"{what}, a name that looks like an option")
        if field.text[0] == "=" and not self.bounds.held:
            self.doubt(f"{what}, which zsh takes for the program of that name")
        follow = not replaces or field.below or field.text.endswith("/")
        paths = self.absolute(field.text, shell, what, follow or posixpath.basename(field.text) in (".", ".."))
        before, self.findings = self.findings, {}
        for path in paths:
            plain = posixpath.normpath(path)
            if later := runs_later(plain):
                self.doubt(f"{what}, {later}")
            self.written(path, what, follow, gone=replaces and not field.below)
        found, self.findings = self.findings.values(), before
        # From one place it may be written and from another not, and where the shell will stand is not known: a doubt.
        mixed = len(paths) > 1 and any(made.verdict is Verdict.ALLOW for made in found)
        for made in found:
            verdict = Verdict.ASK if mixed and made.verdict is Verdict.DENY else Verdict(made.verdict)
            self.find(verdict, made.reason, made.access, made.path)

    def written(self, path: str, what: str, follow: bool = True, by_git: bool = False, gone: bool = False) -> None:
        """An absolute path that is written; with `gone` it is removed, or another put in its place."""
        self.written_paths += 1
        if "/proc/" in path + "/" and (path.startswith("/proc/") or posixpath.normpath(path).startswith("/proc/")):
            self.find(Verdict.DENY, f"{what}, below /proc", "write", path)
            return
        head, _, name = path.rstrip("/").rpartition("/")
        if follow or name in ("", ".", ".."):
            real = self.bounds.resolve(path)
        else:
            real = posixpath.join(self.bounds.resolve(head or "/"), name)
        if real == self.bounds.root and (gone or not follow):
            self.find(Verdict.DENY, f"{what}, which is the worktree itself", "write", real)
        self.ask(Access.WRITE, real, what)
        if not self.bounds.held and self.is_loose(real, by_git):
            self.doubt(f"{what}, where this line may have put a link")

    def is_loose(self, real: str, by_git: bool = False) -> bool:
        """Whether this line may have put a link on the way to a path."""
        places = self.loose if by_git else self.loose + self.checked_out
        return any(real.startswith(place.rstrip("/") + "/") for place in places)

    def ask(self, access: Access, real: str, what: str) -> None:
        decision = self.bounds.decide(access, real)
        if decision.verdict is not Verdict.ALLOW:
            self.find(decision.verdict, f"{what}: {decision.reason}", access.value, real)
        else:
            self.find(Verdict.ALLOW, what, access.value, real)

    def absolute(self, text: str, shell: Shell, what: str, follow: bool = True) -> list[str]:
        """A path as the kernel will see it from each place the shell may stand in, links of this line followed.

        Without `follow` the last name is that of a link itself.
        """
        if text.startswith("/"):
            paths = [text]
        elif not shell.places:
            self.doubt(f"{what}, and where that is cannot be known")
            return []
        else:
            paths = [posixpath.join(self.stand(place), text) for place in sorted(shell.places)]
        if self.links and goes_back(text):
            self.doubt(f"{what}: '..' may lead through a link that this line makes")
        if follow:
            return [self.through_links(path) for path in paths]
        parts = [posixpath.split(path) for path in paths]
        return [posixpath.join(self.through_links(head), name) for head, name in parts]

    def stand(self, place: str) -> str:
        """Where the kernel has a shell that believes to be in a place."""
        return self.bounds.resolve(self.through_links(place))

    def through_links(self, path: str) -> str:
        for _ in range(min(len(self.links), MOST_LINKS)):
            plain = posixpath.normpath(path)
            link = self.first_link(plain)
            if not link:
                return path
            self.followed += len(path)
            if len(path) > LONGEST_PATH or self.followed > MOST_FOLLOWED:  # one that leads below itself makes it longer
                self.doubt("it makes more links than are followed")
                return "/"
            path = self.links[link] + plain[len(link) :]
        return path

    def first_link(self, plain: str) -> str:
        """The link of this line that comes first on the way to a path. Only places as long as one are looked up, for
        a path may have thousands."""
        ends = sorted({len(link) for link in self.links})
        whole = (plain[:end] for end in ends if end <= len(plain) and plain[end : end + 1] in ("", "/"))
        return next((above for above in whole if above in self.links), "")

    def surely_stands(self, real: str) -> bool:
        """Whether a directory is there now, and nothing in the line so far may have changed that."""
        if (
            not self.bounds.is_directory(real)
            or self.interrupted
            or self.notes
            or self.loose
            or self.checked_out
            or self.links
        ):
            return False
        changed = [
            finding.path for finding in self.findings.values() if finding.access == "write" or not finding.access
        ]
        return not any(path == "" or path == real or real.startswith(path.rstrip("/") + "/") for path in changed)

    def has_written(self, text: str, shell: Shell) -> bool:
        """Whether this line has written a path, or may have put another directory on the way to it."""
        made = [finding for finding in self.findings.values() if finding.access == "write"]
        written = {finding.path for finding in made if not finding.reason.startswith(_CHANGES_MODE)}
        if not written:
            return False
        reals = [self.bounds.resolve(path) for path in self.absolute(text, shell, "")] if shell.places else []
        return not reals or any(above in written for real in reals for above in _upwards(real))

    @property
    def shows_all(self) -> bool:
        """Whether what this line writes stands in it, and will run in a sandbox: as what another line wrote would."""
        return self.bounds.held and not self.brought

    @property
    def runs_seen(self) -> bool:
        """The same of what its code could run here: it has cloned or unpacked nothing that nobody has seen."""
        return self.shows_all and not self.strewn

    def has_brought(self, text: str, shell: Shell) -> bool:
        """Whether this line has written a path, and it is asked about who runs it."""
        return not self.shows_all and self.has_written(text, shell)

    def leads_outside(self, text: str, shell: Shell) -> bool:
        """Whether a path leads to where nobody may write, or without a sandbox to what is run later, from anywhere
        the shell may stand."""
        paths = (
            [text]
            if text.startswith("/")
            else [posixpath.join(self.stand(place), text) for place in sorted(shell.places)]
        )
        reals = [self.bounds.resolve(self.through_links(path)) for path in paths]
        return not reals or any(
            self.bounds.decide(Access.WRITE, real).verdict is not Verdict.ALLOW
            or (not self.bounds.held and runs_later(real))
            for real in reals
        )

    def points_elsewhere(self, text: str, shell: Shell) -> bool:
        """Whether a path somewhere in a text leads to where nobody may write."""
        paths = ["/" + path.lstrip("/") if path[:1] == "/" else path for path in self.paths_in(text)]
        return any(path[:1] == "~" or self.leads_outside(path, shell) for path in paths)

    def paths_in(self, text: str) -> Iterator[str]:
        text = _RELATIVE.sub(":", text) if "sqlite" in text else text
        parts = _PARTS.split(text)
        # An option may stand inside a word, with a path at its letter: `-Wl,-o../x`, `LDFLAGS=-o/etc/x`.
        for one in (text, *(part for part in parts[1:] if part[:1] == "-")):
            for found in _ELSEWHERE.finditer(one):
                yield one[found.end() :].partition(":")[0]
        # Inside by its beginning, and outside by `..` or a link further on.
        glued = [one[2:] for one in (text, *parts) if one[:1] == "-"]
        yield from (part for part in (*parts, *glued) if part[:1] not in ("/", "~", ""))
