"""A small reader of Seatbelt profiles: enough of the language to say what a profile decides about one access.

Written from what is known of the language, not from our own writer: rules in order, the last that matches wins, an
operation with `*` stands for all that begin so, filters of one rule are alternatives.
"""

import re
from collections.abc import Iterator, Mapping

Node = str | list["Node"]
TOKEN = re.compile(
    r'\s+|;[^\n]*|(?P<open>\()|(?P<close>\))|#"(?P<regex>[^"]*)"|"(?P<text>[^"\\]*)"|(?P<word>[^\s()";]+)'
)


class Quoted(str):
    """A string of the profile, as opposed to a word."""


def tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"no profile: {text[at : at + 30]!r}")
        at = found.end()
        if found.lastgroup in ("text", "regex"):
            yield Quoted(found[found.lastgroup])
        elif found.lastgroup:
            yield found[0]


def parse(text: str) -> list[Node]:
    """The expressions of a profile."""
    stack: list[list[Node]] = [[]]
    for token in tokens(text):
        if token == "(" and not isinstance(token, Quoted):
            stack.append([])
        elif token == ")" and not isinstance(token, Quoted):
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    if len(stack) != 1:
        raise ValueError("a parenthesis is not closed")
    return stack[0]


class Sandbox:
    """A profile with its parameters, to be asked."""

    def __init__(self, text: str, parameters: Mapping[str, str]) -> None:
        self.parameters = parameters
        self.rules = parse(text)
        if self.rules[0] != ["version", "1"]:
            raise ValueError("another version")

    def allows(self, operation: str, path: str = "") -> bool:
        """The last rule that matches decides."""
        allowed = False
        for rule in self.rules[1:]:
            assert isinstance(rule, list)
            words = [word for word in rule[1:] if isinstance(word, str)]
            filters = [each for each in rule[1:] if isinstance(each, list)]
            if any(self._is_meant(word, operation) for word in words) and (
                not filters or any(self._matches(each, path) for each in filters)
            ):
                assert rule[0] in ("allow", "deny")
                allowed = rule[0] == "allow"
        return allowed

    def _is_meant(self, word: str, operation: str) -> bool:
        return word in ("default", operation) or (word.endswith("*") and operation.startswith(word[:-1]))

    def _value(self, node: Node) -> str:
        if isinstance(node, list):
            assert node[0] == "param"
            return self.parameters[str(node[1])]
        assert isinstance(node, Quoted)
        return node

    def _matches(self, condition: list[Node], path: str) -> bool:
        kind, value = condition[0], condition[-1]
        if kind == "literal":
            return path == self._value(value)
        if kind == "subpath":
            above = self._value(value)
            return path == above or path.startswith(above.rstrip("/") + "/")
        if kind == "regex":
            return re.search(self._value(value), path) is not None
        assert kind in ("global-name", "target", "local", "remote"), kind
        return str(value) == path
