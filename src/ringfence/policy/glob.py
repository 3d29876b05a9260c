"""Patterns over paths, matched part by part in bounded time.

    *       any run of characters within one name, also a leading dot
    **      as a whole name: any number of names, also none; elsewhere it is `*`
    ?       one character
    [a-z]   one character of a set; [!a-z] and [^a-z] one that is not; [*] is a star itself
    {a,b}   either; expanded before matching, so that a rule holds one pattern only; {a} is a name as it is written

A pattern stands for every path it matches, as if each had been written out: it speaks for the path and all below it.
Pure. Nothing here backtracks: names are matched greedily from star to star, names against parts as a set of states.
"""

SPECIAL = frozenset("*?[{")
MAX_ALTERNATIVES = 64
MAX_GROUPS = 8

_STAR = ""  # a token of one name: any run of characters
Token = str | tuple[bool, tuple[tuple[str, str], ...]]  # a character, _STAR, or (negated, ranges)
Part = str | tuple[Token, ...] | None  # a name, a pattern of one name, or None for `**`


class GlobError(ValueError):
    """A pattern that cannot be read; the text says why."""


def is_pattern(text: str) -> bool:
    """Whether a text has any character that patterns are made of."""
    return "*" in text or "?" in text or "[" in text or "{" in text  # a text may be thousands of paths


def escape(path: str) -> str:
    """A pattern that matches exactly this path."""
    return "".join(f"[{character}]" if character in SPECIAL else character for character in path)


def parted(pattern: str) -> tuple[str, str]:
    """The path that a pattern begins with, before the first name that varies; and the rest of the pattern."""
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    fixed: list[str] = []
    for name in names:
        part = None if name == "**" else _compile_name(name) if is_pattern(name) else name
        if not isinstance(part, str):
            break
        fixed.append(part)
    return "/" + "/".join(fixed), "/".join(names[len(fixed) :])


def literal_of(pattern: str) -> str | None:
    """The one path a pattern without braces names, or None when it can match several."""
    names = []
    for part in compile_parts(pattern):
        if not isinstance(part, str):
            return None
        names.append(part)
    return "/" + "/".join(names)


def expand(pattern: str) -> tuple[str, ...]:
    """The patterns that braces stand for."""
    if "{" not in pattern:
        return (pattern,)
    groups = at = 0
    while (at := _plain_end(pattern, at, "{")) < len(pattern):
        groups, at = groups + 1, at + 1
    if groups > MAX_GROUPS:
        raise GlobError(f"more than {MAX_GROUPS} groups in braces")
    alternatives, end = _alternatives(pattern, 0, nested=False)
    assert end == len(pattern)
    return tuple(dict.fromkeys(alternatives))


def _alternatives(pattern: str, at: int, nested: bool) -> tuple[list[str], int]:
    """What the text from `at` on can be, to its end or to the `}` that closes this group; and where that is."""
    done: list[str] = []
    heads = [""]
    while at < len(pattern):
        character = pattern[at]
        if nested and character == "}" and not done:
            return [f"[{{]{head}}}" for head in heads], at + 1  # nothing to choose from: it is called so
        if nested and character in ",}":
            done += heads
            heads = [""]
            at += 1
            if character == "}":
                return done, at
            continue
        if character == "{":
            tails, at = _alternatives(pattern, at + 1, nested=True)
        else:
            end = _plain_end(pattern, at, "{,}" if nested else "{")
            tails, at = [pattern[at:end]], end
        if len(heads) * len(tails) + len(done) > MAX_ALTERNATIVES:
            raise GlobError(f"its braces stand for more than {MAX_ALTERNATIVES} paths")
        heads = [head + tail for head in heads for tail in tails]
    if nested:
        raise GlobError("a { without its }")
    return heads, at


def _plain_end(pattern: str, at: int, stops: str) -> int:
    """Where the run of text that starts at `at` meets a brace; a set in brackets may hold any of them."""
    while at < len(pattern) and pattern[at] not in stops:
        at = _set_end(pattern, at) if pattern[at] == "[" else at + 1
    return at


def _set_end(pattern: str, at: int) -> int:
    """The position behind the `]` of the set that opens at `at`."""
    start = at + 1
    if pattern[start : start + 1] in ("!", "^"):
        start += 1
    end = pattern.find("]", start + 1)  # a `]` that comes first is a member
    if end < 0 or "/" in pattern[at:end]:
        raise GlobError("a [ without its ]")
    return end + 1


def compile_parts(pattern: str) -> tuple[Part, ...]:
    """A pattern without braces as its parts; a trailing `**` says nothing, for a rule holds for all below it."""
    parts: list[Part] = []
    for name in pattern.split("/"):
        if name in ("", "."):
            continue
        if name == "**":
            if not parts or parts[-1] is not None:
                parts.append(None)
            continue
        parts.append(_compile_name(name) if is_pattern(name) else name)
    while parts and parts[-1] is None:
        parts.pop()
    return tuple(parts)


def _compile_name(name: str) -> Part:
    """One name of a pattern as tokens, or as plain text when nothing in it varies."""
    tokens: list[Token] = []
    at = 0
    while at < len(name):
        character = name[at]
        if character == "[":
            end = _set_end(name, at)
            tokens.append(_compile_set(name[at + 1 : end - 1]))
            at = end
            continue
        if character == "*":
            if not tokens or tokens[-1] != _STAR:
                tokens.append(_STAR)
        else:
            tokens.append((True, ()) if character == "?" else character)  # `?`: whatever is not in the empty set
        at += 1
    text = [token for token in tokens if isinstance(token, str) and token != _STAR]
    return "".join(text) if len(text) == len(tokens) else tuple(tokens)


def _compile_set(inside: str) -> Token:
    negated = inside[:1] in ("!", "^")
    members = inside[1:] if negated else inside
    ranges: list[tuple[str, str]] = []
    at = 0
    while at < len(members):
        last = at + 2 if members[at + 1 : at + 2] == "-" and at + 2 < len(members) else at
        ranges.append((members[at], members[last]))
        at = last + 1
    if not negated and len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return ranges[0][0]
    return negated, tuple(ranges)


def _takes(token: Token, character: str) -> bool:
    if isinstance(token, str):
        return token == character
    negated, ranges = token
    return negated != any(first <= character <= last for first, last in ranges)


def matches_name(part: Part, name: str) -> bool:
    """Whether one part of a pattern matches one name: greedy, going back to the last star only."""
    if part is None or isinstance(part, str):
        return part is None or part == name
    token = at = 0
    star, resume = -1, 0
    while at < len(name):
        if token < len(part) and part[token] == _STAR:
            star, resume = token, at
            token += 1
        elif token < len(part) and _takes(part[token], name[at]):
            token += 1
            at += 1
        elif star >= 0:
            resume += 1
            token, at = star + 1, resume
        else:
            return False
    return all(rest == _STAR for rest in part[token:])


def signs_of(part: Part) -> tuple[str, str, str]:
    """What every name ends with that a part matches, what it begins with, and what it has somewhere."""
    if part is None or isinstance(part, str):
        return part or "", part or "", part or ""
    runs = "".join(token if isinstance(token, str) and token != _STAR else "/" for token in part).split("/")
    return runs[-1], runs[0], max(runs, key=len)


def deepest_match(parts: tuple[Part, ...], names: list[str]) -> int:
    """How many of the names the longest matching beginning has, or -1: a pattern speaks for all below a match."""
    deepest = -1
    states = begin(parts)
    for depth, name in enumerate(names):
        if len(parts) in states:
            deepest = depth
        states = advance(parts, states, name)
        if not states:
            return deepest
    return len(names) if len(parts) in states else deepest


def begin(parts: tuple[Part, ...]) -> frozenset[int]:
    """The states before the first name: how many parts are behind us, in each way to read the names so far."""
    return frozenset(_opened({0}, parts))


def advance(parts: tuple[Part, ...], states: frozenset[int], name: str) -> frozenset[int]:
    """The states one name further; when all parts are behind us, the names so far match."""
    following = set()
    for state in states:
        if state == len(parts):
            continue
        if parts[state] is None:
            following.add(state)
        elif matches_name(parts[state], name):
            following.add(state + 1)
    return frozenset(_opened(following, parts))


def _opened(states: set[int], parts: tuple[Part, ...]) -> set[int]:
    """The states with those added that follow a `**` matching nothing."""
    return states | {state + 1 for state in states if state < len(parts) and parts[state] is None}
