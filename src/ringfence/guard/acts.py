"""Programs whose arguments need more than a row: what they write depends on how many there are, or on a small language.

Each handler gets the walk and one call. `HANDLERS` come after the options are sorted; `RAW` sort them themselves.
"""

import posixpath
import re
from collections.abc import Callable

from ..model import Access, Verdict
from .arguments import Call, apply_role
from .bounds import runs_later
from .patterns import lazy
from .reach import Walk
from .state import Field
from .touches import goes_back


def copy(walk: Walk, call: Call) -> None:
    """cp, mv and install: the last operand is written, or what lies in it under the names of the others."""
    no_directory(walk, call, "-S", "--suffix")
    operands, targets = list(call.operands), call.values("-t", "--target-directory")
    if call.name == "install" and call.has("-d", "--directory"):
        for operand in operands:
            walk.writes(operand, call.shell)
        return
    if any(field.many for field in operands):
        walk.doubt(f"how many files {call.name} gets is not known, so neither is its last")
        return
    if not targets:
        if len(operands) < 2:  # it will say so; but on macOS -S has no value
            for operand in operands:
                walk.writes(operand, call.shell)
            return
        targets = [operands.pop()]
    target = targets[-1]
    if not target.plain and target.known and "*" in target.raw:
        walk.doubt(f"{call.name} writes the last of {target.raw!r}, whichever that is")
    moves, links = call.name == "mv", call.has("-l", "-s", "--link", "--symbolic-link")
    replaces = moves or links or call.name == "install" or call.has("--remove-destination", "-b", "--backup")
    plain = not call.has("-T", "--no-target-directory")
    walk.writes(target, call.shell, replaces=replaces and not plain)
    if plain and (replaces or target.text.rstrip("/") != "/dev/null"):
        walk.writes(target, call.shell) if not replaces else walk.writes(
            Field(target.text + "/", target.known, target.raw, below=target.below), call.shell
        )
        for source in operands:
            written_in(walk, target, source, call)
    for source in operands:
        if moves or links:
            walk.writes(source, call.shell, replaces=moves and not links)
        else:
            walk.reads(source, call.shell)
    carried(walk, call, operands, target)
    if moves:
        stood_in(walk, call, operands)


def stood_in(walk: Walk, call: Call, sources: list[Field]) -> None:
    """A directory that a shell of this line stands in takes the shell along, and `..` is another one then."""
    for source in sources:
        for real in names(walk, source, call) if source.known else ():
            if any((walk.stand(place) + "/").startswith(real.rstrip("/") + "/") for place in walk.seen_places):
                walk.doubt(f"{call.name} moves {source.shown!r}, in which this line stands")


def names(walk: Walk, field: Field, call: Call) -> list[str]:
    """Where the names themselves stand that a path may mean; if one is a link, it is not followed."""
    paths = walk.absolute(field.text.rstrip("/") or "/", call.shell, "", follow=False)
    heads = [(walk.bounds.resolve(posixpath.dirname(path)), posixpath.basename(path)) for path in paths]
    return [posixpath.normpath(posixpath.join(head, name)) for head, name in heads]


def written_in(walk: Walk, target: Field, source: Field, call: Call) -> None:
    """The file that is written when the target turns out to be a directory: a link may stand there already."""
    if not (target.known and source.known):
        return
    parents = call.has("--parents")  # which wants a directory there, so that the line may make it first
    name = posixpath.basename(posixpath.normpath(source.text)) if not parents else source.text
    there = parents or any(is_directory(walk, path) for path in walk.absolute(target.text, call.shell, ""))
    if there and name not in ("", ".", "..", "/"):
        walk.writes(Field(posixpath.join(target.text, name.lstrip("/")), raw=target.raw), call.shell)


def is_directory(walk: Walk, path: str) -> bool:
    return walk.bounds.is_directory(walk.bounds.resolve(path))


def carried(walk: Walk, call: Call, sources: list[Field], target: Field) -> None:
    """Links that are moved or copied mean something else in their new place; whole trees may hold such links."""
    deep = call.name == "mv" or call.has("-r", "-R", "-a", "-d", "-P", "--recursive", "--archive", "--no-dereference")
    if not deep or not target.known:
        return
    for path in walk.absolute(target.text, call.shell, ""):
        real = walk.bounds.resolve(path)
        if call.name != "mv" and walk.bounds.is_directory(real) and walk.bounds.leaks(real):
            walk.doubt(f"{call.name} writes below {target.shown!r}, where a link leads elsewhere")
        for source in sources:
            for place in names(walk, source, call) if source.known else ():
                made = place in walk.links or any(link.startswith(place + "/") for link in walk.links)
                if made or walk.bounds.is_link(place):
                    walk.doubt(f"{call.name} carries the link {source.shown!r} to another place")
                elif walk.bounds.is_directory(walk.bounds.resolve(place)):
                    walk.loose.append(real)
                    brings_rules(walk, call, source, place, real)


def brings_rules(walk: Walk, call: Call, source: Field, place: str, real: str) -> None:
    """What the inside of a tree brings to the top of the worktree by which git or an agent runs something."""
    inside = posixpath.basename(source.text) in ("", ".", "..") or call.has("-T", "--no-target-directory")
    if walk.bounds.held or real != walk.bounds.root or not inside:
        return
    found = [name for name in _RULES if walk.bounds.is_directory(walk.bounds.resolve(f"{place}/{name}"))]
    for pattern in (".[!.]?*", "*"):
        names = walk.bounds.match(pattern, place)
        found += [".*"] if names is None and pattern[0] == "." else []
        found += [name for name in names or () if runs_later(f"{real}/{name}")]
    if found:
        walk.doubt(f"{call.name} brings {found[0]!r}, by which git or an agent runs something")


_RULES = (".copilot", ".github/hooks", ".hg", ".sl", ".jj", ".config/mise")


def link(walk: Walk, call: Call) -> None:
    """ln: what a link leads to is as good as written, for whoever writes the link writes that."""
    operands, targets = list(call.operands), call.values("-t", "--target-directory")
    symbolic = call.has("-s", "--symbolic")
    no_directory(walk, call, "-S", "--suffix")
    if any(not field.known for field in (*operands, *targets)):
        walk.doubt("it makes a link whose name or target is not known")
        return
    if not targets:
        targets = [operands.pop() if len(operands) > 1 else Field(".", raw=".")]
    target = targets[-1]
    walk.writes(target, call.shell, replaces=True)
    walk.writes(Field(target.text + "/", raw=target.raw), call.shell)
    for source in operands:
        name = posixpath.basename(posixpath.normpath(source.text))
        for path in walk.absolute(target.text, call.shell, "it makes a link"):
            within = walk.bounds.is_directory(walk.bounds.resolve(path)) and not call.has("-T", "--no-target-directory")
            place = posixpath.normpath(posixpath.join(path, name) if within else path)
            linked(walk, call, source, place, symbolic)


def linked(walk: Walk, call: Call, source: Field, place: str, symbolic: bool) -> None:
    """One link, at its place."""
    home = walk.bounds.resolve(posixpath.dirname(place))
    relative = call.has("-r", "--relative") or not symbolic
    itself = not symbolic and not call.has("-L", "--logical")
    if itself and any(name in walk.links or walk.bounds.is_link(name) for name in names(walk, source, call)):
        walk.doubt(f"it makes another name for the link {source.shown!r}, which leads elsewhere from there")
    if symbolic and goes_back(source.text):
        walk.doubt(f"it makes a link to {source.shown!r}, where '..' may lead through a link that this line makes")
    starts = [walk.stand(spot) for spot in sorted(call.shell.places)] if relative else [home]
    for start in starts or [home]:
        leads = posixpath.join(start, source.text)
        walk.written(walk.through_links(leads), f"it makes a link to {source.shown!r}")
        walk.links[posixpath.join(home, posixpath.basename(place))] = walk.bounds.resolve(walk.through_links(leads))
    if symbolic and not source.text.startswith("/") and ".." in source.text.split("/") and not relative:
        # Seen from another place, or through another link, it leads elsewhere; what is below it cannot be trusted.
        walk.loose.append(posixpath.join(home, posixpath.basename(place)))


def owned(walk: Walk, call: Call) -> None:
    """chown and chgrp: with a file to go by there is no owner among the operands."""
    for operand in call.operands[:1] if call.has("--reference") else ():
        walk.writes(operand, call.shell)


def rmdir(walk: Walk, call: Call) -> None:
    if call.has("-p", "--parents") and any(field.text.startswith(("/", "..")) for field in call.operands):
        walk.doubt("it removes directories above the one it names")


def dd(walk: Walk, call: Call) -> None:
    for field in call.operands:
        key, _, value = field.text.partition("=")
        if not field.known and (field.many or key not in ("if", "bs", "count", "skip", "seek")):
            apply_role(walk, "w" if key == "of" else "q", field, call)
        elif key == "of":
            walk.writes(Field(value, raw=field.raw), call.shell)
        elif key == "if":
            walk.reads(Field(value, field.known, raw=field.raw), call.shell)


def mktemp(walk: Walk, call: Call) -> None:
    if call.has("-u", "--dry-run"):
        return
    template = call.operands[0] if call.operands else None
    if template is not None and not call.has("-t", "-p", "--tmpdir"):
        walk.writes(template, call.shell)
        return
    given = call.values("-p", "--tmpdir")
    if not given:
        given = [temporary(call)]
    name = template.text if template is not None else "tmp.XXXXXXXXXX"
    walk.writes(Field(posixpath.join(given[0].text, name), given[0].known, raw=given[0].raw), call.shell)


def csplit(walk: Walk, call: Call) -> None:
    no_directory(walk, call, "-b", "--suffix-format")
    prefixes = call.values("-f", "--prefix") or [Field("xx", raw="xx")]
    for prefix in prefixes:
        numbered(walk, call, prefix)


def split(walk: Walk, call: Call) -> None:
    numbered(walk, call, next(iter(call.operands[1:]), Field("x", raw="x")))


def numbered(walk: Walk, call: Call, prefix: Field) -> None:
    """Names that begin so: some may be there already, as links to elsewhere."""
    walk.writes(prefix, call.shell)
    head, base = posixpath.split(prefix.text)
    for path in walk.absolute(head or ".", call.shell, "") if prefix.known else ():
        for name in walk.bounds.match(re.sub(r"([*?[])", r"[\1]", base) + "*", walk.bounds.resolve(path)) or ():
            walk.writes(Field(posixpath.join(path, name), raw=prefix.raw), call.shell)


# By these no name becomes one that somebody runs later, as `.env` and `rc` make `.envrc`.
PLAIN_ENDING = lazy(
    r"[.~_-]{0,2}(?:(?:bak|backup|orig|old|prev|save|tmp|copy|gz|xz|txt|csv|log|md)[\d~]*|[\d~]+)\Z"
    r"|%0?\d*[dux](?:\.(?:txt|csv|log|md))?\Z"
)


def no_directory(walk: Walk, call: Call, *options: str) -> None:
    """The ending of a name, which could lead elsewhere, or make another name of it."""
    for value in call.values(*options):
        if not value.known or "/" in value.text or not (walk.bounds.held or PLAIN_ENDING.match(value.text)):
            walk.doubt(f"{call.name} is told the ending of a name that may lead elsewhere")


def patch(walk: Walk, call: Call) -> None:
    """patch keeps to the directory it works in; a trial and an output of its own go through a temporary file."""
    walk.writes(Field(".", raw="what the patch names"), call.shell)
    no_directory(walk, call, "-B", "-z")
    walk.loose += [walk.stand(place) for place in call.shell.places]  # it makes links, too
    from .fetching import patched  # it needs this module in turn

    is_trial = call.has("--dry-run")
    names = bool(call.operands)  # what it changes
    patched(walk, call, [*call.values("-i", "--input"), *call.operands[1:]], call.stdin, is_trial or names)
    if is_trial or call.has("-o", "--output"):
        walk.writes(temporary(call), call.shell)


def temporary(call: Call) -> Field:
    """The directory of temporary files."""
    known = call.shell.variables.get("TMPDIR", "/tmp")
    return Field(known or "", known is not None, raw=known or "$TMPDIR")


def unzip(walk: Walk, call: Call) -> None:
    if any(option.startswith("--") for option, _ in call.options):
        walk.doubt("unzip takes an option back, and what is left of the others is not known")
    if call.has("-l", "-t", "-p", "-c", "-v", "-z", "-Z"):
        return
    if call.has("-:"):
        walk.doubt("unzip -: lets names lead upwards")
    from .fetching import taken_apart  # it needs this module in turn

    taken_apart(walk, call, call.operands[:1])
    unpacked(walk, call, call.values("-d") or [Field(".", raw=".")])


_NEXT = lazy(r"(?s).+(?:\$|--|\s-)")  # behind an option of less in the same word: there begins the next


def less(walk: Walk, call: Call) -> None:
    for field in call.words if not walk.bounds.held else ():
        name = field.text.partition("=")[0]
        mixed = name != name.lower() and any(known.startswith(name.lower()) for known in call.row.long)
        if name[:1] == "-" and (_NEXT.match(field.text[1:]) or (mixed and name[:2] == "--")):
            walk.doubt(f"less may take {field.shown!r} for more than one option, or another")
    if any(field.text.startswith("+") and not re.fullmatch(r"\+[FGg\d]*", field.text) for field in call.operands):
        walk.doubt("less is told commands")


def unpacked(walk: Walk, call: Call, places: list[Field]) -> None:
    """What comes out of an archive may be a link."""
    for place in places:
        walk.writes(place, call.shell)
        for path in walk.absolute(place.text, call.shell, "") if place.known else ():
            real = walk.bounds.resolve(path)
            walk.loose.append(real)
            if walk.bounds.is_directory(real) and walk.bounds.leaks(real):
                walk.doubt(f"{call.name} writes below {place.shown!r}, where a link leads elsewhere")
            plants(walk, call, real)


def plants(walk: Walk, call: Call, real: str) -> None:
    """Whoever writes names that nobody knows may write those of hooks."""
    hooks = walk.bounds.decide(Access.WRITE, f"{real.rstrip('/')}/.git/hooks/x")
    if not walk.bounds.held and hooks.verdict is not Verdict.ALLOW:
        walk.doubt(f"{call.name} may write what git or an agent runs, and no sandbox keeps it from that")


# Letters of one word of zip that mean no more together than each by itself; `-rws` and `-li` are other options.
_ZIP = lazy(r"-(?:-.*|(?!.*TT)[0-9rqjmvgykoXcJzueTfD@]+|r?FS[0-9rqjy]*|FF|ll|lf|TT|.|)\Z")


def zip_up(walk: Walk, call: Call) -> None:
    if not all(_ZIP.match(field.text) for field in call.words if field.known and field.text[:1] == "-"):
        walk.doubt("which of its words zip takes for the archive is not known")
    log = call.has("-l") and call.has("-f")  # -lf is its name
    if log or call.has("-m", "--move", "-T", "--test", "-TT", "-@"):
        walk.doubt("zip removes files, runs a test, or takes names from its input")


def squeeze(walk: Walk, call: Call) -> None:
    """gzip and its kin replace a file by another beside it, or print it."""
    no_directory(walk, call, "-S", "--suffix")
    looks = call.has("--list", "-t", "--test") or (call.name != "lz4" and call.has("-l"))  # to lz4 it is a format
    acts = call.has("-d", "-z", "--decompress", "--uncompress", "--compress")  # to most the last of them counts
    prints = call.has("-c", "--stdout", "--to-stdout") or (looks and not acts)
    if call.has("-N", "--name", "-r", "--recursive") and not prints and not walk.bounds.held:
        walk.doubt(f"which names {call.name} writes is not known")
    ends = [value.text for value in call.values("-S", "--suffix") if value.known and value.text]
    for operand in call.operands:
        if prints:
            walk.reads(operand, call.shell)
        else:
            walk.writes(operand, call.shell)
            names = (operand.text + ".gz", posixpath.splitext(operand.text)[0], *map(operand.text.removesuffix, ends))
            for name in names if operand.known else ():
                walk.writes(Field(name, raw=operand.raw), call.shell)


def rsync(walk: Walk, call: Call) -> None:
    operands = list(call.operands)
    if len(operands) < 2 or any(not field.known for field in operands):
        walk.doubt("what rsync gets is not known") if operands else None
        return
    no_directory(walk, call, "--suffix")
    if any(re.match(r"[^/]+:|rsync://", field.text) for field in operands):
        walk.doubt("rsync speaks to another machine")
    if call.has("-K", "--keep-dirlinks", "--inplace", "--append", "--append-verify", "--write-devices", "-s") or any(
        "K" in option for option, _ in call.options
    ):
        walk.doubt("rsync follows links where it writes")
    target = operands.pop()
    walk.writes(target, call.shell)
    for source in operands:
        walk.reads(source, call.shell)
        whole = source.text.rpartition("/./")[2] if call.has("-R", "--relative") else posixpath.basename(source.text)
        name = re.sub(r"\A(?:\.{0,2}/)+", "", whole)
        if name not in ("", ".", "..") and not walk.bounds.held:
            made = posixpath.join(target.text, name)
            walk.writes(Field(made, raw=made), call.shell)
    for path in walk.absolute(target.text, call.shell, ""):
        real = walk.bounds.resolve(path)
        walk.loose.append(real)
        if walk.bounds.is_directory(real) and walk.bounds.leaks(real):
            walk.doubt(f"rsync writes below {target.shown!r}, where a link leads elsewhere")
        for source in operands:
            for place in names(walk, source, call):
                brings_rules(walk, call, source, place, real)


_TAR_VALUES = {"f": "file", "C": "C", "X": "r", "g": "w", **dict.fromkeys("TIF", "q"), **dict.fromkeys("bHVKLN", "n")}
_TAR_LONG = {
    f"--{name}": role
    for role, names in {
        "file": "file",
        "C": "directory one-top-level",
        "r": "exclude-from",
        "w": "listed-incremental index-file",
        "q": "files-from use-compress-program to-command checkpoint-action rsh-command info-script new-volume-script "
        "transform xform",
        "n": "exclude strip-components owner group mode format mtime sort",
        "": "wildcards gzip bzip2 xz zstd verbose create extract list get append update totals no-same-owner "
        "numeric-owner keep-old-files overwrite to-stdout auto-compress exclude-vcs no-recursion",
    }.items()
    for name in names.split()
}
_TAR_FLAGS = frozenset("xctruvzjJapkmopwhSOZdl")  # -s and -W are other things to bsdtar, as macOS has it


def tar(walk: Walk, call: Call) -> None:
    """tar: `-C` holds for what follows, and the first word may be options without a dash."""
    words = list(call.operands)
    if words and words[0].known and not words[0].text.startswith("-"):
        words[0] = Field("-" + words[0].text, raw=words[0].raw)
        bundled = True
    else:
        bundled = False
    options, files, archives, operands = set[str](), list[Field](), list[Field](), list[Field]()
    while words:
        field = words.pop(0)
        if not field.known and field.may_be_option:
            walk.doubt(f"tar gets {field.shown!r}, which is not known and may be an option")
            return
        if not field.known or not field.text.startswith("-") or field.text == "-":
            operands.append(field)
            continue
        found = _tar_word(walk, field, words, bundled)
        bundled = False
        if found is None:
            return
        for option, value in found:
            role = _TAR_LONG.get(option) if option.startswith("--") else _TAR_VALUES.get(option, "")
            options.add(option)
            if value is None:
                continue
            if role == "n" and value.text[:1] == "-":  # to bsdtar -H and -L have no value
                walk.doubt(f"tar may take {value.shown!r} for an option, and not for the value of {option}")
                return
            if not value.known and value.many:  # what comes after its first word may be an option
                walk.doubt(f"tar gets {value.shown!r}, which is not known and may be more than one word")
                return
            if role == "file":
                archives.append(value)
            elif role == "C":
                files.append(value)
            elif role and role != "n":
                apply_role(walk, role, value, call)
    _tar_acts(walk, call, options, files, archives, operands)


def _tar_word(walk: Walk, field: Field, words: list[Field], bundled: bool) -> list[tuple[str, Field | None]] | None:
    text = field.text
    if text.startswith("--"):
        option, equals, value = text.partition("=")
        if option not in _TAR_LONG:
            walk.doubt(f"what the option {option} of tar does is not known")
            return None
        if equals:
            return [(option, Field(value, raw=field.raw))]
        takes = _TAR_LONG[option] not in ("", "C") or option == "--directory"
        return [(option, words.pop(0) if takes and words else None)]
    found: list[tuple[str, Field | None]] = []
    for index, letter in enumerate(text[1:], 1):
        if letter in _TAR_VALUES:
            attached = "" if bundled else text[index + 1 :]
            found.append((letter, Field(attached, raw=field.raw) if attached else (words.pop(0) if words else None)))
            if not bundled:
                return found
        elif letter in _TAR_FLAGS:
            found.append((letter, None))
        else:
            walk.doubt(f"what the option -{letter} of tar does is not known")
            return None
    return found


def _tar_acts(
    walk: Walk, call: Call, options: set[str], files: list[Field], archives: list[Field], operands: list[Field]
) -> None:
    extracts = options & {"x", "--extract", "--get"}
    lists = options & {"t", "--list", "O", "--to-stdout", "d"}
    makes = options & {"c", "r", "u", "--create", "--append", "--update"}
    remote = [archive for archive in archives if ":" in archive.text and not archive.text.startswith(("/", "./"))]
    if remote:
        walk.doubt("tar would speak to another machine")
    if makes or not (extracts or lists):
        for archive in archives:
            apply_role(walk, "w", archive, call)
        for directory in files:
            walk.reads(directory, call.shell)
        for operand in operands:
            walk.reads(operand, call.shell)
        return
    for archive in archives:
        apply_role(walk, "r", archive, call)
    if extracts and not lists:
        if len(files) > 1:
            walk.doubt("tar is sent to more than one directory")
        from .fetching import taken_apart  # it needs this module in turn

        taken_apart(walk, call, archives)
        unpacked(walk, call, files or [Field(".", raw=".")])


Handler = Callable[[Walk, Call], None]
HANDLERS: dict[str, Handler] = {
    "copy": copy,
    "link": link,
    "rmdir": rmdir,
    "owned": owned,
    "mktemp": mktemp,
    "patch": patch,
    "csplit": csplit,
    "split": split,
    "less": less,
    "unzip": unzip,
    "zip": zip_up,
    "squeeze": squeeze,
    "rsync": rsync,
}
RAW: dict[str, Handler] = {"dd": dd, "tar": tar}
