"""The narrower of two policies: what it allows, both allow; and without patterns the other way round too."""

import math

import hypothesis
import hypothesis.strategies as st
import msgspec
import pytest

from ringfence.model import (
    BUILT_IN,
    Access,
    Enforcement,
    Environment,
    HostRule,
    Injection,
    Limit,
    Network,
    Origin,
    Policy,
    Rule,
    SocketRule,
    Verdict,
)
from ringfence.policy import decide, decide_host
from ringfence.policy.connect import decide_address
from ringfence.policy.decide import writer
from ringfence.policy.defaults import built_in
from ringfence.policy.meet import meet

ALLOW, DENY = Verdict.ALLOW, Verdict.DENY
READ, WRITE = Access.READ, Access.WRITE
SOMEBODY = Origin("/etc/policy.json", 3)

names = st.sampled_from(("a", "b", "c"))
places = st.lists(names, max_size=4).map(lambda found: "/" + "/".join(found))
origins = st.sampled_from((SOMEBODY, BUILT_IN, Origin("--allow-read")))
patterns = st.sampled_from(("/**/a", "/a/*", "/a/**", "/*/b", "/**/b/c", "/a/?/c"))
plain = st.builds(Rule, st.sampled_from(Access), st.sampled_from((ALLOW, DENY)), places, origins, st.booleans())
globs = st.builds(Rule, st.sampled_from(Access), st.sampled_from((ALLOW, DENY)), patterns, origins, glob=st.just(True))
private = st.just(Rule(WRITE, ALLOW, "/tmp", BUILT_IN))
in_private = st.builds(
    Rule,
    st.sampled_from(Access),
    st.sampled_from((ALLOW, DENY)),
    st.sampled_from(("/tmp/a", "/tmp/a/b", "/tmp")),
    origins,
)


def cleaned(rules: list[Rule]) -> Policy:
    kept = [
        msgspec.structs.replace(rule, always=rule.always and rule.access is READ and rule.verdict is DENY)
        for rule in rules
    ]
    return Policy("/a", tuple(kept))


without_patterns = st.lists(plain | private | in_private, max_size=8).map(cleaned)
with_patterns = st.lists(plain | globs | private | in_private, max_size=8).map(cleaned)
asked_places = places | st.sampled_from(("/tmp", "/tmp/a", "/tmp/a/b", "/tmp/a/b/c", "/tmp/b"))


def is_private(policy: Policy, path: str) -> bool:
    """Whether what is at a path is the command's own: it is allowed, and nothing of the host's."""
    rule = decide(policy, READ, path).rule
    return rule is not None and rule.access is WRITE


def reads(policy: Policy, path: str) -> bool:
    """Whether the host's own file may be read."""
    return decide(policy, READ, path).verdict is ALLOW and not is_private(policy, path)


def writes(policy: Policy, path: str) -> bool:
    """Whether the host's own file may be written."""
    return decide(policy, WRITE, path).verdict is ALLOW and writer(policy, path) is not None and reads(policy, path)


@hypothesis.given(outer=with_patterns, inner=with_patterns, path=asked_places)
def test_what_the_narrower_allows_both_allow(outer: Policy, inner: Policy, path: str) -> None:
    found = meet(outer, inner)

    assert reads(found, path) <= (reads(outer, path) and reads(inner, path))
    assert writes(found, path) <= (writes(outer, path) and writes(inner, path))


@hypothesis.given(outer=without_patterns, inner=without_patterns, path=asked_places)
def test_without_patterns_what_both_allow_the_narrower_allows(outer: Policy, inner: Policy, path: str) -> None:
    found = meet(outer, inner)

    assert reads(found, path) == (reads(outer, path) and reads(inner, path))
    assert writes(found, path) == (writes(outer, path) and writes(inner, path))


@hypothesis.given(
    path=st.sampled_from(("/", "/etc", "/home/u", "/home/u/.ssh", "/home/u/w", "/home/u/w/x", "/tmp", "/tmp/x"))
)
def test_of_a_policy_and_itself_it_is_the_same(path: str) -> None:
    own = Policy("/home/u/w", built_in("/home/u/w", ("/home/u",)).rules)
    found = meet(own, own)

    for access in Access:
        assert decide(found, access, path).verdict is ALLOW or decide(own, access, path).verdict is not ALLOW
    assert all(rule.origin is BUILT_IN for rule in found.rules), "the planner tells it by that very object"


def test_what_is_private_to_one_of_them_shows_nothing_of_the_host() -> None:
    outer = Policy("/w", (Rule(READ, ALLOW, "/", BUILT_IN), Rule(WRITE, ALLOW, "/tmp", BUILT_IN)))
    inner = msgspec.structs.replace(
        outer, rules=(*outer.rules, *(Rule(access, ALLOW, "/tmp/of-another-run", SOMEBODY) for access in Access))
    )

    found = meet(outer, inner)

    assert not reads(found, "/tmp/of-another-run/key")
    assert not writes(found, "/tmp/of-another-run/key")
    assert reads(inner, "/tmp/of-another-run/key")
    assert "not given: /tmp/of-another-run writable" in " ".join(found.ignored)


def hosts(*rows: tuple[str, int], verdict: Verdict = ALLOW) -> tuple[HostRule, ...]:
    return tuple(HostRule(verdict, host, port, SOMEBODY) for host, port in rows)


@pytest.mark.parametrize(
    ("outer", "inner", "reached", "refused"),
    [
        (Network(open=True), Network(), (), ("a.org",)),
        (Network(), Network(open=True), (), ("a.org",)),
        (Network(hosts=hosts(("a.org", 443))), Network(open=True), ("a.org",), ("b.org",)),
        (Network(open=True), Network(hosts=hosts(("a.org", 443))), ("a.org",), ("b.org",)),
        (
            Network(hosts=hosts(("*.a.org", 0))),
            Network(hosts=hosts(("x.a.org", 443))),
            ("x.a.org",),
            ("y.a.org", "a.org"),
        ),
        (Network(hosts=hosts(("x.a.org", 443))), Network(hosts=hosts(("*", 0))), ("x.a.org",), ("a.org",)),
        (Network(hosts=hosts(("a.org", 80))), Network(hosts=hosts(("a.org", 443))), (), ("a.org",)),
        (
            Network(hosts=hosts(("*.a.org", 0))),
            Network(hosts=(*hosts(("*.a.org", 0)), *hosts(("x.a.org", 0), verdict=DENY))),
            ("y.a.org",),
            ("x.a.org",),
        ),
    ],
)
def test_the_network_is_what_both_reach(
    outer: Network, inner: Network, reached: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    found = meet(Policy("/w", (), network=outer), Policy("/w", (), network=inner)).network

    assert not found.open
    assert [name for name in (*reached, *refused) if decide_host(found, name, 443).verdict is ALLOW] == list(reached)


ASKED = ("a.org", "x.a.org", "y.x.a.org", "xa.org", "b.org", "a.com", "10.0.0.1", "localhost")


@pytest.mark.parametrize(
    ("one", "other", "reached"),
    [
        ("a.org", "a.org", ("a.org",)),
        ("a.org", "b.org", ()),
        ("a.org", "x.a.org", ()),
        ("*.a.org", "a.org", ()),
        ("*.a.org", "xa.org", ()),
        ("*.a.org", "b.org", ()),
        ("*.a.org", "x.a.org", ("x.a.org",)),
        ("*.a.org", "*.x.a.org", ("y.x.a.org",)),
        ("*.a.org", "*.a.org", ("x.a.org", "y.x.a.org")),
        ("*.a.org", "*.org", ("x.a.org", "y.x.a.org")),
        ("*.a.org", "10.0.0.1", ()),
        ("*", "a.com", ("a.com",)),
        ("*", "*.a.org", ("x.a.org", "y.x.a.org")),
        ("*", "10.0.0.1", ()),  # which must be named, as this machine must
        ("*", "localhost", ()),
        ("*", "10.0.0.0/8", ()),
        ("*", "A.org", ()),  # no name that a policy has
        ("10.0.0.1", "10.0.0.1", ("10.0.0.1",)),
    ],
)
def test_a_name_is_reached_that_both_allow(one: str, other: str, reached: tuple[str, ...]) -> None:
    outer, inner = (Policy("/w", (), network=Network(hosts=hosts((host, 443)))) for host in (one, other))

    for found in (meet(outer, inner).network, meet(inner, outer).network):
        assert tuple(name for name in ASKED if decide_host(found, name, 443).verdict is ALLOW) == reached


def test_what_the_run_around_does_not_have_is_told_and_nothing_else() -> None:
    outer = Policy("/w", (Rule(READ, ALLOW, "/ok", SOMEBODY),), network=Network(hosts=hosts(("a.org", 443))))
    rules = (
        Rule(READ, ALLOW, "/ok/too", SOMEBODY),
        Rule(READ, ALLOW, "/x", SOMEBODY),
        Rule(WRITE, ALLOW, "/z", SOMEBODY),
        Rule(READ, ALLOW, "/z", SOMEBODY, implied=True),
        Rule(READ, DENY, "/q", SOMEBODY),
        Rule(READ, ALLOW, "/built", BUILT_IN),
    )
    network = Network(hosts=(*hosts(("a.org", 443), ("b.org", 443)), *hosts(("c.org", 0), verdict=DENY)))
    asked = Policy("/w", rules, network=network, asking=True)

    assert [line.removeprefix("not given: ").partition(":")[0] for line in meet(outer, asked).ignored] == [
        "/x readable", "/z writable", "b.org reachable", "questions to a person (--ask)",
    ]  # fmt: skip
    opened = Policy("/w", (), network=Network(open=True))
    assert "the host's network" in " ".join(meet(outer, opened).ignored)
    assert meet(opened, opened).ignored == ()


said_hosts = st.sampled_from(
    ("*", "*.org", "*.a.org", "a.org", "x.a.org", "localhost", "127.0.0.1", "10.0.0.1", "10.0.0.0/8", "::1", "1.2.3.4")
)
host_rules = st.builds(
    HostRule, st.sampled_from((ALLOW, DENY)), said_hosts, st.sampled_from((0, 80, 443)), st.just(SOMEBODY)
)
networks = st.builds(
    Network,
    open=st.booleans(),
    hosts=st.lists(host_rules, max_size=5).map(tuple),
    denied_addresses=st.lists(
        st.builds(
            HostRule, st.just(DENY), st.sampled_from(("10.0.0.0/8", "1.2.3.4", "::1")), st.just(0), st.just(SOMEBODY)
        ),
        max_size=2,
    ).map(tuple),
)


def reaches(network: Network, host: str, port: int, address: str) -> bool:
    return (
        decide_host(network, host, port).verdict is ALLOW
        and decide_address(network, host, port, address).verdict is ALLOW
    )


@hypothesis.given(
    outer=networks,
    inner=networks,
    host=st.sampled_from(("a.org", "x.a.org", "b.org", "localhost", "10.0.0.1", "127.0.0.1", "1.2.3.4", "a.com")),
    port=st.sampled_from((80, 443, 22)),
    address=st.sampled_from(("1.2.3.4", "10.0.0.1", "127.0.0.1", "::1", "8.8.8.8")),
)
def test_what_the_narrower_reaches_both_reach(
    outer: Network, inner: Network, host: str, port: int, address: str
) -> None:
    found = meet(Policy("/w", (), network=outer), Policy("/w", (), network=inner)).network

    assert reaches(found, host, port, address) <= (
        reaches(outer, host, port, address) and reaches(inner, host, port, address)
    )


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "localhost", "::1", "169.254.169.254"])
def test_a_special_address_that_the_outer_one_has_not_named_is_not_named_from_inside(address: str) -> None:
    """Any host is none of this machine's own: that takes its name."""
    outer, inner = Network(hosts=hosts(("*", 0))), Network(hosts=hosts((address, 0)))
    real = "127.0.0.1" if address == "localhost" else address

    found = meet(Policy("/w", (), network=outer), Policy("/w", (), network=inner)).network

    assert decide_address(inner, address, 80, real).verdict is ALLOW
    assert decide_address(found, address, 80, real).verdict is not ALLOW


def test_limits_are_the_smaller_ones_and_none_is_lifted() -> None:
    def limits(**amounts: float) -> Policy:
        return Policy("/w", (), limits=tuple(Limit(name, amount, SOMEBODY) for name, amount in amounts.items()))

    outer = limits(memory=100, timeout=5, processes=7, cpu=9)
    found = meet(outer, limits(memory=50, timeout=50, processes=-1, cpu=math.nan, output=3, nonsense=1))

    assert {limit.name: limit.amount for limit in found.limits} == {
        "memory": 50, "timeout": 5, "processes": 7, "cpu": 9, "output": 3,
    }  # fmt: skip


def test_nothing_else_of_the_inner_one_opens_anything() -> None:
    greedy = Policy(
        "/",
        (Rule(READ, ALLOW, "/", SOMEBODY), Rule(WRITE, ALLOW, "/", SOMEBODY)),
        network=Network(
            True, True, True, True, sockets=(SocketRule("/run/docker.sock", SOMEBODY),), forwards=(80,), proxies=(1,)
        ),
        environment=Environment(("AWS_*",)),
        enforcement=Enforcement.OFF,
        injections=(Injection("/root/key", "/w/key", SOMEBODY),),
        sources=("/x",),
        nested=True,
        escape=Verdict.ALLOW,
        asking=True,
    )
    outer = Policy("/w", (Rule(READ, ALLOW, "/w", SOMEBODY),))

    found = meet(outer, greedy)

    assert msgspec.structs.replace(found, rules=(), environment=Environment(), ignored=(), is_resolved=False) == (
        msgspec.structs.replace(outer, rules=())
    )
    assert [(rule.access, rule.verdict, rule.path) for rule in found.rules] == [(READ, DENY, "/"), (READ, ALLOW, "/w")]
    assert len(found.ignored) == 4, found.ignored


def test_where_the_inner_one_may_not_read_what_is_shown_neither_is_what_lies_below_it() -> None:
    outer = Policy("/w", (Rule(READ, ALLOW, "/", BUILT_IN),), injections=(Injection("/x/fake", "/w/real", SOMEBODY),))
    inner = Policy("/w", (Rule(READ, ALLOW, "/", BUILT_IN), Rule(READ, DENY, "/x", SOMEBODY)))

    found = meet(outer, inner)

    assert found.injections == ()
    assert decide(found, READ, "/w/real").verdict is DENY
    assert meet(outer, outer).injections == outer.injections


def both(name: str, outer: bool, inner: bool) -> object:
    policies = [
        Policy("/w", (), network=msgspec.structs.replace(Network(), **{name: value})) for value in (outer, inner)
    ]
    return getattr(meet(*policies).network, name)


@pytest.mark.parametrize("name", ["open", "local_binding", "all_unix_sockets", "ssh_agent"])
def test_what_opens_the_network_opens_it_where_both_have_it(name: str) -> None:
    assert [both(name, *pair) for pair in ((True, True), (True, False), (False, True))] == [True, False, False]


@pytest.mark.parametrize("name", ["match_hosts", "ends_with_proxy"])
def test_what_holds_the_network_holds_where_one_has_it(name: str) -> None:
    assert [both(name, *pair) for pair in ((False, False), (True, False), (False, True))] == [False, True, True]


def test_a_socket_is_reached_where_both_have_it_and_so_are_namespaces_made() -> None:
    one, other = (SocketRule(f"/run/{name}", SOMEBODY) for name in ("one", "other"))
    outer = Policy("/w", (), network=Network(sockets=(one, other)), nested=True)
    for inner, sockets in (
        (Network(), ()),
        (Network(sockets=(one,)), (one,)),
        (Network(all_unix_sockets=True), (one, other)),
    ):
        found = meet(outer, Policy("/w", (), network=inner))
        assert (found.network.sockets, found.nested) == (sockets, False)
    assert meet(outer, outer).nested


def test_what_one_of_them_may_not_do_neither_may_whichever_is_around_the_other() -> None:
    everything = Rule(READ, ALLOW, "/", SOMEBODY)
    wide = Policy("/w", (everything, Rule(WRITE, ALLOW, "/w", SOMEBODY)))
    narrow = Policy(
        "/w",
        (
            everything,
            Rule(WRITE, ALLOW, "/w/own", SOMEBODY),
            Rule(WRITE, DENY, "/w/own/kept", SOMEBODY),
            Rule(READ, DENY, "/w/own/hidden", SOMEBODY),
            Rule(WRITE, DENY, "/w/**/*.lock", SOMEBODY, glob=True),
            Rule(READ, DENY, "/w/**/*.key", SOMEBODY, glob=True),
        ),
    )
    paths = [f"/w/{name}" for name in ("x", "own/x", "own/kept", "own/a.lock", "own/hidden", "own/a.key")]

    for found in (meet(wide, narrow), meet(narrow, wide)):
        assert [path for path in paths if reads(found, path)] == paths[:4]
        assert [path for path in paths if writes(found, path)] == ["/w/own/x"]
