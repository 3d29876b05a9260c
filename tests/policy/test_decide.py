"""The judge: tables for what it promises, and properties for what no table covers."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.model import BUILT_IN, Access, Decision, Injection, Origin, Policy, Rule, Verdict
from ringfence.policy.decide import canonical_policy, decide, writer, written_down
from ringfence.policy.defaults import built_in
from ringfence.policy.flags import Flags, flags_layer
from ringfence.policy.layer import Layer, Tier, merge
from ringfence.policy.paths import Base

READ, WRITE, ALLOW, DENY = Access.READ, Access.WRITE, Verdict.ALLOW, Verdict.DENY
HERE = Origin("p", 1)
BASE = Base("/ws", "/home/u")


def policy(*texts: str, base: tuple[Rule, ...] = ()) -> Policy:
    """A policy from words: 'read allow /a', 'read always /a', 'write deny /a/*'; line n is rule n."""
    rules = []
    for line, text in enumerate(texts, 1):
        access, verdict, path = text.split(" ", 2)
        rules.append(
            Rule(
                Access(access),
                ALLOW if verdict in ("allow", "implied") else DENY,
                path,
                Origin("p", line),
                always=verdict == "always",
                glob="*" in path,
                implied=verdict == "implied",
            )
        )
    return Policy("/ws", (*base, *rules))


@pytest.mark.parametrize(
    ("rules", "path", "line", "verdict"),
    [
        ((), "/a", 0, DENY),
        (("read allow /",), "/a/b", 1, ALLOW),
        (("read allow /work",), "/workshop", 0, DENY),
        (("read allow /work",), "/work", 1, ALLOW),
        (("read allow /", "read deny /a"), "/a/b", 2, DENY),
        (("read allow /", "read deny /a", "read allow /a/b"), "/a/b/c", 3, ALLOW),
        (("read allow /a/b", "read deny /a/b/c", "read deny /a"), "/a/b/c", 2, DENY),
        (("read deny /a", "read allow /a"), "/a", 2, ALLOW),
        (("read deny /", "read allow /"), "/a", 2, ALLOW),
        (("read allow /a/b/c", "read always /a"), "/a/b/c", 2, DENY),
        (("read allow /a", "read always /a/*"), "/a/b/c", 2, DENY),
        (("read allow /ws", "read deny /ws/**/.env"), "/ws/x/.env", 2, DENY),
        (("read allow /ws", "read deny /ws/**/.env"), "/ws/x/env", 1, ALLOW),
        (("read allow /ws/*", "read deny /ws/key"), "/ws/key", 2, DENY),
        (("read deny /ws/*", "read allow /ws/key"), "/ws/key", 2, ALLOW),
        (("read deny /ws/*", "read allow /ws/**/key"), "/ws/key", 2, ALLOW),
        (("read deny /ws/s", "read implied /ws/s"), "/ws/s", 1, DENY),
        (("read deny /ws/*", "read implied /ws/s"), "/ws/s", 1, DENY),
        (("read deny /ws", "read implied /ws/s"), "/ws/s/x", 2, ALLOW),
        (("write allow /a",), "/a", 0, DENY),
    ],
)
def test_the_most_specific_rule_decides_about_reading(
    rules: tuple[str, ...], path: str, line: int, verdict: Verdict
) -> None:
    decision = decide(policy(*rules), READ, path)

    assert (decision.verdict, decision.rule.origin.line if decision.rule else 0) == (verdict, line)


@pytest.mark.parametrize(
    ("rules", "path", "verdict"),
    [
        (("read allow /",), "/a", DENY),
        (("read allow /", "write allow /a"), "/a/b", ALLOW),
        (("read allow /", "write allow /a", "write deny /a/b"), "/a/b/c", DENY),
        (("read allow /", "write allow /a/b", "write deny /a"), "/a/b", DENY),
        (("read allow /", "write allow /a", "write deny /a/*.env"), "/a/x.env", DENY),
        (("read allow /", "write allow /a/*"), "/a/b", ALLOW),
        (("read allow /", "write allow /a/*"), "/a", DENY),
        (("read allow /", "read deny /a/s", "write allow /a"), "/a/s/x", DENY),
        (("write allow /a",), "/a/b", DENY),
    ],
)
def test_any_denial_of_writing_wins_and_what_is_hidden_is_not_writable(
    rules: tuple[str, ...], path: str, verdict: Verdict
) -> None:
    assert decide(policy(*rules), WRITE, path).verdict is verdict


PRIVATE = tuple(Rule(WRITE, ALLOW, path, BUILT_IN) for path in ("/tmp", "/var/tmp", "/dev/null"))


@pytest.mark.parametrize(
    ("rules", "path", "reading", "writing"),
    [
        ((), "/tmp/x", ALLOW, ALLOW),
        ((), "/dev/null", ALLOW, ALLOW),
        (("read deny /",), "/tmp/x", ALLOW, ALLOW),
        (("read deny /var",), "/var/tmp/x", ALLOW, ALLOW),
        (("read deny /dev",), "/dev/null", DENY, DENY),
        (("read always /tmp",), "/tmp/x", DENY, DENY),
        (("read allow /tmp/data",), "/tmp/data/x", ALLOW, DENY),
        (("read allow /tmp/data", "write allow /tmp/data"), "/tmp/data/x", ALLOW, ALLOW),
        (("read allow /tmp/ws", "write allow /tmp/ws", "read deny /tmp/ws/s"), "/tmp/ws/s", DENY, DENY),
        (("write deny /tmp/x",), "/tmp/x", ALLOW, DENY),
        (("write allow /tmp",), "/tmp/x", DENY, DENY),
        (("write allow /tmp/x",), "/tmp/x", DENY, DENY),
        (("read allow /", "read deny /tmp/s", "write allow /tmp"), "/tmp/s", DENY, DENY),
    ],
)
def test_private_places_are_the_commands_own_but_for_what_is_shown_in_them(
    rules: tuple[str, ...], path: str, reading: Verdict, writing: Verdict
) -> None:
    judged = policy(*rules, base=PRIVATE)

    assert (decide(judged, READ, path).verdict, decide(judged, WRITE, path).verdict) == (reading, writing)


@pytest.mark.parametrize(
    ("rules", "access", "path", "expected"),
    [
        (
            ("read allow /a",),
            READ,
            "/a/b",
            Decision(ALLOW, "/a/b may be read as part of /a: p:1 allows it", Rule(READ, ALLOW, "/a", HERE)),
        ),
        (
            ("read deny /a",),
            READ,
            "/a/x y",
            Decision(
                DENY,
                "/a/x y may not be read as part of /a: p:1 denies it",
                Rule(READ, DENY, "/a", HERE),
                "--allow-read '/a/x y'",
            ),
        ),
        (
            ("read always /a",),
            READ,
            "/a",
            Decision(DENY, "/a may not be read: p:1 always denies it", Rule(READ, DENY, "/a", HERE, always=True)),
        ),
        ((), READ, "/a*", Decision(DENY, "no rule lets anyone read /a*", None, "--allow-read '/a[*]'")),
        (
            ("write deny /a",),
            WRITE,
            "/a",
            Decision(
                DENY,
                "/a may not be written: p:1 denies it; no flag lifts that, only removing it from p:1",
                Rule(WRITE, DENY, "/a", HERE),
            ),
        ),
        (
            ("read allow /",),
            WRITE,
            "/a",
            Decision(DENY, "no rule lets the command write /a", None, "--allow-write /a"),
        ),
        (
            ("read deny /a",),
            WRITE,
            "/a",
            Decision(DENY, "no rule lets the command write /a", None, "--allow-read /a --allow-write /a"),
        ),
        (("read always /a",), WRITE, "/a", Decision(DENY, "no rule lets the command write /a")),
        (
            ("read deny /a", "write allow /a"),
            WRITE,
            "/a/b",
            Decision(
                DENY,
                "/a/b is hidden, so it cannot be written: /a/b may not be read as part of /a: p:1 denies it",
                Rule(READ, DENY, "/a", HERE),
                "--allow-read /a/b",
            ),
        ),
        ((), READ, "a", Decision(DENY, "a is not a canonical absolute path")),
        (("read allow /",), READ, "/a/../b", Decision(DENY, "/a/../b is not a canonical absolute path")),
        (("read allow /",), READ, "/a//b", Decision(DENY, "/a//b is not a canonical absolute path")),
        (("read allow /",), READ, "/a\0b", Decision(DENY, "/a\\x00b is not a canonical absolute path")),
        (("read allow /",), READ, "", Decision(DENY, " is not a canonical absolute path")),
    ],
)
def test_an_answer_says_why_and_what_would_change_it(
    rules: tuple[str, ...], access: Access, path: str, expected: Decision
) -> None:
    assert decide(policy(*rules), access, path) == expected


@pytest.mark.parametrize(
    ("rules", "grant"),
    [
        ((), "--allow-write /a/b.key"),
        (("read allow /",), "--allow-write /a/b.key"),
        (("read allow /", "read deny /a"), "--allow-write /a/b.key"),
        (("read allow /", "read deny /a/b.key"), "--allow-read /a/b.key --allow-write /a/b.key"),
        (("read allow /", "read deny /a/*.key"), "--allow-read /a/b.key --allow-write /a/b.key"),
        (("read allow /", "read always /a"), ""),
    ],
)
def test_what_would_let_a_path_be_written_lets_its_name_be_read(rules: tuple[str, ...], grant: str) -> None:
    assert decide(policy(*rules), WRITE, "/a/b.key").grant == grant


def test_a_built_in_protection_says_what_it_is_for() -> None:
    judged = merge("/ws", (built_in("/ws", ("/home/u",)),))

    assert decide(judged, READ, "/home/u/.ssh/id").reason == (
        "/home/u/.ssh/id may not be read as part of /home/u/.ssh: built-in denies it, ssh keys"
    )
    assert decide(judged, WRITE, "/ws/.git/config").reason == (
        "/ws/.git/config may not be written: built-in denies it, git runs what it names; "
        "no flag lifts that, only filesystem.allowGitConfig in a policy of yours"
    )
    assert decide(judged, WRITE, "/ws/.git/hooks/x").reason.endswith(
        "; the built-in policy protects it, and no flag lifts that"
    )


def test_who_lets_a_file_be_written_is_told_apart_from_private_places() -> None:
    judged = policy("write allow /a", "write deny /a/b", "write allow /tmp/ws", base=PRIVATE)
    shared = policy("write allow /tmp", base=PRIVATE)

    assert writer(shared, "/tmp/x") == shared.rules[-1]

    writers = {path: writer(judged, path) for path in ("/a/x", "/a/b/x", "/tmp/x", "/tmp/ws/x", "/x")}
    assert {path: rule.path for path, rule in writers.items() if rule} == {"/a/x": "/a", "/tmp/ws/x": "/tmp/ws"}


# --- links ------------------------------------------------------------------------------------------------------


def links(**where: str) -> Callable[[str], str]:
    """A resolver over a disk whose links are given as name=target, names without their slash."""
    table = {"/" + name.replace("__", "/"): target for name, target in where.items()}

    def resolve(path: str) -> str:
        names = [name for name in path.split("/") if name]
        done = ""
        for name in names:
            done = table.get(f"{done}/{name}", f"{done}/{name}")
        return done or "/"

    return resolve


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("read allow /link/x", ["/real/x"]),
        ("read deny /link", ["/real", "/link"]),
        ("read deny /link/x", ["/real/x"]),
        ("write deny /link/x", ["/real/x", "/link"]),
        ("write deny /a/b", ["/a/b"]),
        ("read allow /link/*.x", ["/real/*.x"]),
        ("write deny /link/*.x", ["/real/*.x", "/link"]),
        ("read deny /link/*.x", ["/real/*.x"]),
        ("write deny /[l]ink/x*", ["/real/x*", "/link"]),
        ("write deny /lin*/x", ["/lin*/x"]),
    ],
)
def test_a_rule_follows_links_and_a_denied_link_is_protected_beside_its_target(rule: str, expected: list[str]) -> None:
    found = canonical_policy(policy(rule), links(link="/real"))

    assert [made.path for made in found.rules] == expected


def test_a_denied_link_is_protected_beside_a_pattern_too() -> None:
    found = canonical_policy(
        policy("read deny /link", "read deny /link/*.x", "read deny /link/[a]"), links(link="/real")
    )

    assert [made.path for made in found.rules] == ["/real", "/link", "/real/*.x", "/real/[a]"]


def test_a_canonical_policy_resolves_workspace_and_injections_too() -> None:
    asked = Policy("/link/ws", (), injections=(Injection("/link/s", "/t", HERE),))

    assert canonical_policy(asked, links(link="/real")) == Policy(
        "/real/ws", (), injections=(Injection("/real/s", "/t", HERE),)
    )


def test_a_read_that_came_with_writing_yields_to_a_denial_through_a_link() -> None:
    found = canonical_policy(policy("read deny /link", "write allow /real", "read implied /real"), links(link="/real"))

    assert decide(found, READ, "/real/x").verdict is DENY


# --- properties -------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "tmp"])
PATHS = st.lists(NAMES, max_size=4).map(lambda names: "/" + "/".join(names))
PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "**", "?", "[ab]", "tmp"]), min_size=1, max_size=4).map(
    lambda names: "/" + "/".join(names)
)


@st.composite
def drawn_rules(draw: st.DrawFn, verdict: Verdict | None = None) -> Rule:
    access = draw(st.sampled_from(list(Access)))
    made = draw(st.sampled_from([ALLOW, DENY])) if verdict is None else verdict
    path = draw(PATHS | PATTERNS)
    always = access is READ and made is DENY and draw(st.booleans())
    implied = access is READ and made is ALLOW and draw(st.booleans())
    glob = any(character in path for character in "*?[")
    return Rule(access, made, path, draw(st.sampled_from([HERE, BUILT_IN])), always=always, glob=glob, implied=implied)


RULES = st.lists(drawn_rules(), max_size=8).map(tuple)


@given(RULES, drawn_rules(DENY), st.sampled_from(list(Access)), PATHS)
def test_one_more_denial_never_allows_more(rules: tuple[Rule, ...], more: Rule, access: Access, path: str) -> None:
    before = decide(Policy("/ws", rules), access, path)
    after = decide(Policy("/ws", (*rules, more)), access, path)

    assert after.verdict >= before.verdict


@given(RULES, drawn_rules(ALLOW), PATHS)
def test_one_more_allowance_of_reading_never_hides_more(rules: tuple[Rule, ...], more: Rule, path: str) -> None:
    more = msgspec.structs.replace(more, access=READ)
    before = decide(Policy("/ws", rules), READ, path)
    after = decide(Policy("/ws", (*rules, more)), READ, path)

    assert after.verdict <= before.verdict


@given(RULES, st.sampled_from(list(Access)), PATHS)
def test_the_order_of_rules_does_not_matter(rules: tuple[Rule, ...], access: Access, path: str) -> None:
    forth, back = (decide(Policy("/ws", made), access, path).verdict for made in (rules, rules[::-1]))

    assert forth is back


@given(RULES, st.sampled_from(list(Access)), PATHS)
def test_a_grant_does_what_it_says(rules: tuple[Rule, ...], access: Access, path: str) -> None:
    judged = Policy("/ws", rules)
    grant = decide(judged, access, path).grant
    if not grant:
        return
    words = grant.split()
    said = {flag: (value,) for flag, value in zip(words[::2], words[1::2], strict=True)}
    flags = Flags(allow_read=said.get("--allow-read", ()), allow_write=said.get("--allow-write", ()))
    widened = merge("/ws", (Layer(Tier.USER, rules=rules), flags_layer(flags, BASE)))

    assert decide(widened, access, path).verdict is ALLOW


@given(RULES, PATHS)
def test_what_may_be_written_and_is_not_private_may_be_read(rules: tuple[Rule, ...], path: str) -> None:
    judged = Policy("/ws", tuple(rule for rule in rules if rule.origin != BUILT_IN))

    if decide(judged, WRITE, path).verdict is ALLOW:
        assert decide(judged, READ, path).verdict is ALLOW


def test_a_policy_from_its_json_knows_what_is_built_in() -> None:
    """By identity, as the planner asks; what somebody wrote is still theirs."""
    given = policy("read allow /", "write deny /a", base=PRIVATE)
    found = written_down(msgspec.json.encode(given))

    assert found == given
    assert [rule.origin is BUILT_IN for rule in found.rules] == [True] * len(PRIVATE) + [False, False]
