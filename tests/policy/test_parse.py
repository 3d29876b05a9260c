"""Policy files, good and bad, in JSON and TOML: the layer they make, or the line and the hint."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.model import Access, Injection, Origin, PolicyError, Rule, Verdict
from ringfence.policy.keys import GROUPS, KEYS, known
from ringfence.policy.layer import Layer, Setting, Tier
from ringfence.policy.parse import parse
from ringfence.policy.paths import Base, PathError, are_plain, rule_paths

BASE = Base("/ws", "/home/u")
READ, WRITE, ALLOW, DENY = Access.READ, Access.WRITE, Verdict.ALLOW, Verdict.DENY


def read(text: str, name: str = "p.json") -> Layer:
    return parse(text.encode(), name, BASE)


def failure(content: bytes, name: str) -> tuple[str, str, str]:
    with pytest.raises(PolicyError) as caught:
        parse(content, name, BASE)
    return caught.value.place, caught.value.what, caught.value.hint


SRT = """{
  "$schema": "https://example.com/x.json",
  "network": {
    "allowedDomains": ["github.com", "*.npmjs.org:443"],
    "deniedDomains": [],
    "allowLocalBinding": true
  },
  "filesystem": {
    "denyRead": ["~/.ssh", {"path": "/data/[id]", "literal": true}],
    "allowRead": [],
    "allowWrite": [
      ".",
      "/tmp/out/**"
    ],
    "denyWrite": ["*.env"]
  },
  "ripgrep": {"command": "rg"}
}"""


def test_an_srt_file_is_read_with_every_rule_at_its_line() -> None:
    assert read(SRT) == Layer(
        Tier.EXPLICIT,
        "p.json",
        True,
        rules=(
            Rule(READ, DENY, "/home/u/.ssh", Origin("p.json", 9)),
            Rule(READ, DENY, "/data/[id]", Origin("p.json", 9)),
            Rule(WRITE, ALLOW, "/ws", Origin("p.json", 12)),
            Rule(READ, ALLOW, "/ws", Origin("p.json", 12), implied=True),
            Rule(WRITE, ALLOW, "/tmp/out", Origin("p.json", 13)),
            Rule(READ, ALLOW, "/tmp/out", Origin("p.json", 13), implied=True),
            Rule(WRITE, DENY, "/ws/*.env", Origin("p.json", 15), glob=True),
        ),
        settings=(
            Setting("network.allowedDomains", ("github.com",), Origin("p.json", 4)),
            Setting("network.allowedDomains", ("*.npmjs.org:443",), Origin("p.json", 4)),
            Setting("network.deniedDomains", (), Origin("p.json", 5)),
            Setting("network.allowLocalBinding", True, Origin("p.json", 6)),
            Setting("ripgrep", {"command": "rg"}, Origin("p.json", 17)),
        ),
    )


TOML = '''
enforcement = "best-effort"
[network]
allowNetwork = true
[filesystem]
denyReadAlways = ["/x",
  "/y"]
allowRead = """
  ~/notes
  lib
"""
[[filesystem.inject]]
source = "~/a"
target = "/b"
[environment]
allow = ["LC_*", "FOO"]
set = { A = "1" }
[limits]
timeout = 1.5
'''


def test_a_toml_file_says_the_same_things() -> None:
    assert read(TOML, "p.toml") == Layer(
        Tier.EXPLICIT,
        "p.toml",
        True,
        rules=(
            Rule(READ, DENY, "/x", Origin("p.toml", 6), always=True),
            Rule(READ, DENY, "/y", Origin("p.toml", 7), always=True),
            Rule(READ, ALLOW, "/home/u/notes", Origin("p.toml", 8)),
            Rule(READ, ALLOW, "/ws/lib", Origin("p.toml", 8)),
        ),
        injections=(Injection("/home/u/a", "/b", Origin("p.toml", 12)),),
        settings=(
            Setting("enforcement", "best-effort", Origin("p.toml", 2)),
            Setting("network.allowNetwork", True, Origin("p.toml", 4)),
            Setting("environment.allow", ("LC_*", "FOO"), Origin("p.toml", 16)),
            Setting("environment.set", {"A": "1"}, Origin("p.toml", 17)),
            Setting("limits.timeout", 1.5, Origin("p.toml", 19)),
        ),
    )


@pytest.mark.parametrize(
    ("value", "lines"),
    [('["/a", "/b",\n"/c"\n,"/d"]', [1, 1, 2, 3]), ('"/a\\n/b\\n\\n/c\\n/d"', [1, 1, 1, 1])],
    ids=["list", "text"],
)
@pytest.mark.parametrize("more", ["", "relative"])
def test_each_of_many_paths_is_a_rule_at_its_line(value: str, lines: list[int], more: str) -> None:
    # One that does not stand for itself has each of them read by itself.
    value = value.replace('/d"', f'/d", "{more}"' if value.startswith("[") else f'/d\\n{more}"') if more else value
    rules = read(f'{{"filesystem": {{"denyRead": {value}}}}}').rules

    assert [(rule.path, rule.origin.line) for rule in rules[:4]] == list(
        zip(("/a", "/b", "/c", "/d"), lines, strict=True)
    )
    assert [rule.path for rule in rules[4:]] == [f"/ws/{more}"] * bool(more)


def test_a_credential_file_to_be_denied_is_a_read_denial_and_one_to_be_masked_is_asked_for() -> None:
    layer = read('{"credentials": {"files": [\n{"path": "/k", "mode": "deny"},\n{"path": "/m", "mode": "mask"}]}}')

    assert (layer.rules, layer.settings) == (
        (Rule(READ, DENY, "/k", Origin("p.json", 2)),),
        (Setting("credentials.files", ("/m",), Origin("p.json", 1)),),
    )


BAD_JSON = [
    (
        '{\n "filesystem": {\n  "allowWrites": []}}',
        3,
        "unknown key 'allowWrites' in filesystem",
        "did you mean 'allowWrite'?",
    ),
    ('{\n"netwrok": {}}', 2, "unknown key 'netwrok'", "did you mean 'network'?"),
    ('{"NETWORK": {}}', 1, "unknown key 'NETWORK'", "did you mean 'network'?"),
    ('{"network.allowNetwork": true}', 1, "unknown key 'network.allowNetwork'", None),
    ('{"network":\n[]}', 1, "network is a list", "it takes an object"),
    ('{"filesystem": null}', 1, "filesystem is null", "it takes an object"),
    ("[]", 1, "the policy is a list", "it takes an object"),
    ('{"network": {"allowNetwork": null}}', 1, "network.allowNetwork is null", "it takes true or false"),
    ('{"network": {"allowNetwork": "yes"}}', 1, "network.allowNetwork is 'yes'", "it takes true or false"),
    ('{"network": {"allowNetwork": 1}}', 1, "network.allowNetwork is the number 1", "it takes true or false"),
    (
        '{"network": {\n"httpProxyPort": 0}}',
        2,
        "network.httpProxyPort is the number 0",
        "it takes a whole number from 1 to 65535",
    ),
    ('{"network": {"socksProxyPort": 65536}}', 1, "network.socksProxyPort is the number 65536", None),
    ('{"network": {"httpProxyPort": "80"}}', 1, "network.httpProxyPort is '80'", None),
    ('{"network": {"httpProxyPort": true}}', 1, "network.httpProxyPort is true", None),
    (
        '{"network": {"filterRequest": 1}}',
        1,
        "network.filterRequest is a function of srt's library and cannot stand in a file",
        "remove it",
    ),
    ('{"enforcement": "strict"}', 1, "enforcement is 'strict'", "it takes one of: required, best-effort, off"),
    (
        '{"filesystem": {"denyRead": [\n"/a",\n""]}}',
        3,
        "filesystem.denyRead[1]: an empty path",
        "name a path, or leave the entry out",
    ),
    ('{"filesystem": {"allowWrite": ""}}', 1, "filesystem.allowWrite is an empty path", None),
    ('{"filesystem": {"allowWrite": null}}', 1, "filesystem.allowWrite is null", None),
    ('{"filesystem": {"denyRead": ["/a\\u0000"]}}', 1, "filesystem.denyRead[0]: '/a\\x00' holds a NUL character", None),
    ('{"filesystem": {"denyRead": ["~bob/x"]}}', 1, "filesystem.denyRead[0]: '~bob/x' names another user's home", None),
    ('{"filesystem": {"denyRead": ["/a/../b"]}}', 1, "filesystem.denyRead[0]: '/a/../b' has '..' behind a name", None),
    (
        '{"filesystem": {"denyRead": ["/a/[b"]}}',
        1,
        "filesystem.denyRead[0]: '/a/[b' is not a pattern: a [ without its ]",
        'a name with such characters is written {"path": "/a/[b", "literal": true}',
    ),
    ('{"filesystem": {"denyRead": [7]}}', 1, "filesystem.denyRead[0] is the number 7", None),
    (
        '{"filesystem": {"denyRead": [{"path": "/a", "literal": false}]}}',
        1,
        "filesystem.denyRead[0] is an object",
        None,
    ),
    ('{"filesystem": {"inject": [{"source": "/a"}]}}', 1, "filesystem.inject[0] has no target", None),
    ('{"credentials": {"envVars": [{"name": "1A", "mode": "deny"}]}}', 1, "credentials.envVars[0].name is '1A'", None),
    (
        '{"credentials": {"files": [{"path": "/a", "mode": "deny", "mod": 1}]}}',
        1,
        "unknown key 'mod' in credentials.files[0]",
        "did you mean 'mode'?",
    ),
    (
        '{"environment": {"allow": ["*"]}}',
        1,
        "environment.allow[0] is '*'",
        "it takes a name like LANG or a pattern like LC_*",
    ),
    ('{"environment": {"set": {"A B": "x"}}}', 1, "environment.set has the key 'A B'", None),
    ('{"limits": {"memory": "lots"}}', 1, "limits.memory is 'lots'", "it takes a number of bytes, or text like '512M'"),
    ('{"limits": {"timeout": 0}}', 1, "limits.timeout is the number 0", "it takes a number above 0"),
    ('{"mandatoryDenySearchDepth": 11}', 1, "mandatoryDenySearchDepth is the number 11", None),
    ('{"mandatoryDenySearchDepth": 3.5}', 1, "mandatoryDenySearchDepth is the number 3.5", None),
    ('{"bwrapPath": "bin/bwrap"}', 1, "bwrapPath is 'bin/bwrap'", "it takes an absolute path"),
    ('{"windows": {"proxyPortRange": [1]}}', 1, "windows.proxyPortRange has 1 entries", "it takes exactly 2"),
    (
        '{"network": {"deniedResolvedAddresses": ["10.0.0.0/99"]}}',
        1,
        "network.deniedResolvedAddresses[0] is '10.0.0.0/99'",
        None,
    ),
    ('{"a": 1,\n"a": 2}', 2, "the key 'a' comes twice", "it was set first in line 1"),
    ('{\n"a" 1}', 2, "not valid JSON: expected ':'", ""),
    ('{"a": 1,\n\n', 1, "not valid JSON: input data was truncated", ""),
    ("", 1, "not valid JSON: input data was truncated", "an empty policy is {}"),
    ("\ufeff{}", 1, "begins with a byte order mark", "save it as UTF-8 without one"),
    (
        '{\n// mine\n"a": 1}',
        2,
        "not valid JSON: object keys must be strings",
        "JSON has no comments; a .toml file may have them",
    ),
    ("# mine\n{}", 1, "not valid JSON: invalid character", "JSON has no comments; a .toml file may have them"),
    ('{"a": "\u00e9",\n x}', 2, "not valid JSON: object keys must be strings", ""),
    ("[" * 40, 1, "not valid JSON: input data was truncated", ""),
    ('{"a": ' * 20 + "1" + "}" * 20, 1, "nested deeper than 16 levels", ""),
    ("[" * 1_000_000, 1, "nested deeper than 16 levels", ""),
    ('{"\x1b[31m": 1}'.replace("\x1b", "\\u001b"), 1, "unknown key '\\x1b[31m'", None),
]


@pytest.mark.parametrize(("text", "line", "what", "hint"), BAD_JSON, ids=[row[0][:50] for row in BAD_JSON])
def test_a_bad_json_file_is_refused_with_its_line_and_a_hint(text: str, line: int, what: str, hint: str | None) -> None:
    place, said, hinted = failure(text.encode(), "p.json")

    assert (place, said, hinted if hint is not None else None) == (f"p.json:{line}", what, hint)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("[filesystem]\nallowWrites = []", 2, "unknown key 'allowWrites' in filesystem"),
        ('x = 1\n[network]\nallowNetwork = "no"', 1, "unknown key 'x'"),
        ('[network]\n\nallowNetwork = "no"', 3, "network.allowNetwork is 'no'"),
        ('[filesystem]\ndenyRead = ["/a",\n""]', 3, "filesystem.denyRead[1]: an empty path"),
        ("enforcement = 2024-01-01", 1, "enforcement is a date"),
        ("[network]\nallowNetwork = true\nallowNetwork = true", 3, "not valid TOML: Cannot overwrite a value"),
        ("[network]\nallowNetwork = \n", 2, "not valid TOML: Invalid value"),
        ("a = 'x", 1, "a string that is never closed"),
        ("a." * 100 + "a = 1", 1, "a key of more than 16 parts"),
        ("a = " + "[" * 1000, 1, "nested deeper than 16 levels"),
        ("[limits]\nfiles = " + "9" * 5000 + "\n\n", 2, "a word of 5000 characters"),
    ],
)
def test_a_bad_toml_file_is_refused_with_its_line(text: str, line: int, what: str) -> None:
    place, said, _ = failure(text.encode(), "p.toml")

    assert (place, said) == (f"p.toml:{line}", what)


@pytest.mark.parametrize("name", ["p.json", "p.toml"])
def test_a_file_that_is_not_utf_8_is_refused_at_the_line_of_the_byte(name: str) -> None:
    assert failure(b"# \n\n\xff", name) == (f"{name}:3", "the file is not valid UTF-8", "save it as UTF-8")


ACCEPTED = """example.com *.example.com localhost x.com:443 *.example.com:8443 [::1] [::1]:443 127.0.0.1 127.0.0.1:80
    *.co.uk EXAMPLE.com x_y.com""".split()
REFUSED = """*.com * example .x.com x.com. *x.com a.*.com *.localhost http://x.com x.com/a x.com:0 x.com:65536 ::1
    10.0.0.0/8 *:22 [::g] x.com: x.com:+1 *. user@x.com 127.1 0x7f.1 *.1.2.3.4 [fe80::1%eth0]""".split()


@pytest.mark.parametrize("domain", ACCEPTED)
@pytest.mark.parametrize("key", ["allowedDomains", "deniedDomains"])
def test_a_host_is_accepted(key: str, domain: str) -> None:
    layer = read(f'{{"network": {{"{key}": ["{domain}"]}}}}')

    assert layer.settings == (Setting(f"network.{key}", (domain,), Origin("p.json", 1)),)


@pytest.mark.parametrize("domain", [*REFUSED, "", "x .com", "x\n.com"])
def test_what_is_no_host_is_refused(domain: str) -> None:
    text = '{"network": {"allowedDomains": ["a.b",\n"%s"]}}' % domain.replace("\n", "\\n")  # noqa: UP031

    assert failure(text.encode(), "p.json")[0] == "p.json:2"


@pytest.mark.parametrize("domain", ["*", "*:22"])
def test_every_host_can_be_denied_but_not_allowed(domain: str) -> None:
    assert read(f'{{"network": {{"deniedDomains": ["{domain}"]}}}}').settings[0].value == (domain,)
    assert failure(f'{{"network": {{"allowedDomains": ["{domain}"]}}}}'.encode(), "p.json")[0] == "p.json:1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a", (("/a", False),)),
        ("/a//b/./c/", (("/a/b/c", False),)),
        ("/", (("/", False),)),
        (".", (("/ws", False),)),
        ("..", (("/", False),)),
        ("../x", (("/x", False),)),
        ("../../../x", (("/x", False),)),
        ("~", (("/home/u", False),)),
        ("~/a", (("/home/u/a", False),)),
        ("./~x", (("/ws/~x", False),)),
        ("$HOME/x", (("/ws/$HOME/x", False),)),
        ("/a/**", (("/a", False),)),
        ("/**", (("/", False),)),
        ("**", (("/ws", False),)),
        ("/a/*", (("/a/*", True),)),
        ("/a/*/", (("/a/*", True),)),
        ("/a/*/**", (("/a/*", True),)),
        ("**/.env", (("/ws/**/.env", True),)),
        ("/{a,b*}", (("/a", False), ("/b*", True))),
        ("/a[*]b", (("/a*b", False),)),
        ("/a b\nc", (("/a b\nc", False),)),
    ],
)
def test_a_path_becomes_absolute(text: str, expected: tuple[tuple[str, bool], ...]) -> None:
    assert rule_paths(text, BASE) == expected


def test_the_workspaces_own_name_is_no_pattern() -> None:
    assert rule_paths("*.py", Base("/w[1]*", "")) == (("/w[[]1][*]/*.py", True),)
    assert rule_paths("a.py", Base("/w[1]*", "")) == (("/w[1]*/a.py", False),)


@pytest.mark.parametrize("text", ["/a/" + "é" * 128, "b" * 256 + "/c", "~/" + "b" * 256])
def test_a_name_that_is_longer_than_any_can_be_is_refused(text: str) -> None:
    """The warden is told names, and refused the whole plan."""
    with pytest.raises(PathError, match="a name of 256 bytes") as caught:
        rule_paths(text, BASE)

    assert (caught.value.hint, are_plain((text,))) == ("no name can be longer than 255", False)
    assert rule_paths(text.replace("é" * 128, "é" * 127).replace("b" * 256, "b" * 255), BASE)


def stands_for_itself(text: str) -> bool:
    try:
        return rule_paths(text, BASE) == ((text, False),)
    except PathError:
        return False


written = st.lists(
    st.sampled_from(["/", "/", ".", "..", "a", "b.c", ".d", "\0", "*", "~", " ", "\udc80", "é", "n" * 250]), max_size=6
)


@given(st.lists(written.map("".join), min_size=1, max_size=4).map(tuple))
def test_many_paths_are_taken_as_they_are_only_if_each_stands_for_itself(texts: tuple[str, ...]) -> None:
    each = all(text != "/" and stands_for_itself(text) for text in texts)  # the root is looked at
    assert are_plain(texts) is each


def test_the_table_knows_every_group_and_every_key_has_a_reason() -> None:
    assert GROUPS == ("filesystem", "network", "credentials", "environment", "limits", "git")
    assert [key for key, row in KEYS.items() if not row.why] == []
    assert sum(len(known(group)) for group in ("", *GROUPS)) == len(KEYS) + len(GROUPS)


def outcome(content: bytes, name: str) -> str:
    try:
        parse(content, name, BASE)
    except PolicyError as error:
        line = error.place.removeprefix(f"{name}:")
        return "an error with its line" if line.isdigit() and int(line) > 0 else error.place
    return "a layer"


@given(st.binary(max_size=200) | st.text('{}[]":,=.#\n ab/filesystem*~truen0', max_size=200).map(str.encode))
def test_any_bytes_are_a_layer_or_a_policy_error(content: bytes) -> None:
    assert {outcome(content, name) for name in ("p.json", "p.toml")} <= {"a layer", "an error with its line"}


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 70000) | st.sampled_from(["", "/", "*", "~", "{a", "x.com", "deny"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["path", "mode", "literal", "source", "target", "name"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from(sorted(KEYS)), JUNK)
def test_any_value_of_any_key_is_a_layer_or_a_policy_error(key: str, value: object) -> None:
    group, _, name = key.rpartition(".")
    content = json.dumps({group: {name: value}} if group else {name: value}).encode()
    assert outcome(content, "p.json") in ("a layer", "an error with its line")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.json", b"[" * (1 << 20)),
        ("p.json", b'{"a":' * 200_000),
        ("p.json", b"{" + b",".join(b'"k%d":1' % n for n in range(90_000)) + b"}"),
        ("p.json", b'{"filesystem":{"denyRead":[' + b",".join([b'"/a"'] * 190_000) + b"]}}"),
        ("p.json", b'{"filesystem":{"denyRead":[' + b",".join([b'"/{' + b"a," * 1900 + b'}"'] * 200) + b"]}}"),
        ("p.json", b'{"' + b"x" * 1_000_000 + b'": 1}'),
        ("p.toml", b"".join(b"k%d=1\n" % n for n in range(90_000))),
        ("p.toml", b"a." * 500_000 + b"a=1"),
        ("p.toml", b"a=" + b"[" * 1_000_000),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else value,
)
def test_no_file_takes_long_to_refuse(name: str, content: bytes) -> None:
    start = time.process_time()  # however busy the machine is
    failure(content, name)

    assert time.process_time() - start < 20
