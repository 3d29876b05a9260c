"""The judge of hosts: one canonical form for every name, and what is allowed, refused and why."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.model import Decision, HostRule, Network, Origin, Policy, PolicyError, Verdict
from ringfence.policy import decide_address, decide_connect, decide_host, decide_name, decide_target
from ringfence.policy.hosts import HostError, canonical_host, is_address, joined, port_number, special, split_port
from ringfence.policy.layer import Layer, Setting, Tier, merge
from ringfence.policy.reach import host_rule

ALLOW, DENY = Verdict.ALLOW, Verdict.DENY
HERE = Origin("p.json", 3)


def network(*entries: str | int, denied: tuple[str, ...] = (), addresses: tuple[str, ...] = ()) -> Network:
    allowed = [host_rule(ALLOW, entry, HERE) for entry in entries]
    refused = [host_rule(DENY, entry, HERE) for entry in denied]
    closed = tuple(HostRule(DENY, one, 0, HERE, one) for one in addresses)
    return Network(hosts=(*allowed, *refused), denied_addresses=closed)


def may(where: Network, host: str, port: int = 443) -> bool:
    return decide_host(where, host, port).verdict is ALLOW


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("x_y.example.com", "x_y.example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("example。com", "example.com"),
        ("１２７.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[0:0::0001]", "::1"),
        ("::FFFF:127.0.0.1", "127.0.0.1"),
        ("[::ffff:7f00:1]", "127.0.0.1"),
    ],
)
def test_a_host_has_one_form(text: str, expected: str) -> None:
    assert canonical_host(text) == expected


HOSTILE = [
    "", ".", "..", "a..b", ".a.b", "a b", " a.b", "a.b ", "a\tb", "a\nb", "a\r\nb", "a\0b", "evil.test\0.allowed.com",
    "user@a.b", "a.b@c.d", "a%62.c", "a.b/c", "a\\b", "a?b", "a#b", "2130706433", "0x7f000001", "0x7f.1", "127.1",
    "0177.0.0.1", "127.0.0.01", "1.2.3.4.5", "1.2.3", "256.0.0.1", "a.0x", "a.123", "[::1", "::1]", "[1.2.3.4]",
    "[fe80::1%eth0]", "fe80::1%1", "[::g]", "a" * 64 + ".b", ("a" * 60 + ".") * 5 + "com", "*.a.b", "*", "a,b",
    "\u202ea.b", "xn--\u00fc.b", "a\ud800.b",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_what_two_readers_could_read_differently_is_no_host(text: str) -> None:
    with pytest.raises(HostError):
        canonical_host(text)


@given(st.text(max_size=40) | st.from_regex(r"[a-zA-Z0-9_.\-\[\]:%@*]{1,30}", fullmatch=True))
def test_the_canonical_form_is_its_own_canonical_form(text: str) -> None:
    try:
        once = canonical_host(text)
    except HostError:
        return

    assert canonical_host(once) == once
    assert once.isascii()
    assert once == once.lower()
    assert not set(once) & set(" \t\r\n\0@/\\%*?#[]")
    assert not once.endswith(".") or once == "::"


@given(st.ip_addresses())
def test_an_address_keeps_its_value_and_is_known_as_one(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    once = canonical_host(str(address))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None

    assert ipaddress.ip_address(once) == (mapped or address)
    assert is_address(once)


@given(st.ip_addresses())
def test_what_python_calls_private_is_special(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    once = canonical_host(str(address))

    if not ipaddress.ip_address(once).is_global or ipaddress.ip_address(once).is_multicast:
        assert special(once)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b:80", ("a.b", "80")),
        ("a.b", ("a.b", "")),
        ("[::1]:80", ("[::1]", "80")),
        ("[::1]", ("[::1]", "")),
        ("::1", ("::1", "")),
        ("a.b:", ("a.b", "?")),
    ],
)
def test_a_port_is_split_off(text: str, expected: tuple[str, str]) -> None:
    assert split_port(text) == expected


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [("a.test", 443, "a.test:443"), ("a.test", 0, "a.test"), ("::1", 443, "[::1]:443"), ("::1", 0, "[::1]")],
)
def test_a_port_is_put_behind_where_there_is_one(host: str, port: int, expected: str) -> None:
    assert joined(host, port) == expected


def test_a_port_is_a_number_in_its_range() -> None:
    assert [port_number(text) for text in ("1", "65535", "0", "65536", "+1", "1 ", "٣", "?")] == [
        1, 65535, 0, 0, 0, 0, 0, 0,
    ]  # fmt: skip


def test_a_closed_network_allows_nothing() -> None:
    assert decide_host(Network(), "example.com", 443) == Decision(
        DENY, "no rule lets anyone reach example.com:443", grant="--allow-host example.com:443"
    )


@pytest.mark.parametrize("ask", [Verdict.DENY, Verdict.ASK])
def test_a_host_that_no_policy_can_hold_has_no_grant_and_is_not_asked_about(ask: Verdict) -> None:
    """`--allow-host intranet:80` was offered, and refused as soon as somebody followed it."""
    reason = "no rule lets anyone reach intranet:80, nor could one: it needs a dot, or everything would match"
    denied = Decision(DENY, reason)

    assert decide_host(Network(), "intranet", 80) == denied
    assert decide_connect(Policy("/work", (), escape=ask), "intranet", 80) == denied


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("a.com", 443, True),
        ("A.com.", 1, True),
        ("x.a.com", 443, False),
        ("evila.com", 443, False),
        ("a.com.evil.test", 443, False),
        ("b.com", 443, False),
        ("x.b.com", 443, True),
        ("x.y.b.com", 443, True),
        ("xb.com", 443, False),
        ("c.com", 8443, True),
        ("c.com", 443, False),
        ("10.0.0.5", 5432, True),
        ("10.0.0.5", 5433, False),
        ("::ffff:10.0.0.5", 5432, True),
        ("localhost", 6379, True),
        ("127.0.0.1", 6379, True),
        ("[::1]", 6379, True),
        ("localhost", 22, False),
        ("127.0.0.2", 6379, False),
        ("xn--bcher-kva.example", 443, True),
        ("a.com\0.evil.test", 443, False),
        ("a.com", 0, False),
        ("a.com", 65536, False),
        ("no.d.com", 443, False),
        ("yes.d.com", 443, True),
        ("yes.d.com", 22, False),
    ],
)
def test_what_is_allowed_is_what_is_named(host: str, port: int, expected: bool) -> None:
    where = network(
        "a.com", "*.b.com", "c.com:8443", "10.0.0.5:5432", 6379, "BÜCHER.example", "*.d.com",
        denied=("no.d.com", "*:22"),
    )  # fmt: skip

    assert may(where, host, port) is expected


@pytest.mark.parametrize(
    ("target", "port", "expected"),
    [
        ("a.test", 0, ALLOW),
        ("a.test", 8443, DENY),
        ("b.test", 0, DENY),
        ("b.test", 8443, ALLOW),
        ("b.test:8443", 0, ALLOW),
        ("b.test:8443", 443, ALLOW),  # its own is meant
        ("a.test:8443", 443, DENY),
        ("a.test:0", 443, DENY),
        ("a.test/x", 0, DENY),
        ("a..test", 0, DENY),
        ("93.184.216.34:80", 0, ALLOW),
        ("127.0.0.1:80", 0, DENY),  # by its name it may be reached, and by where that leads it may not
        ("[::1]", 80, DENY),
    ],
)
def test_a_target_is_judged_by_its_port_and_where_it_leads(target: str, port: int, expected: Verdict) -> None:
    hosts = (*network("a.test:443", "b.test:8443").hosts, HostRule(ALLOW, "*", 80, HERE))
    found = decide_target(Policy("/w", (), Network(hosts=hosts), escape=DENY), target, port)

    assert found.verdict is expected


def test_a_rule_is_told_as_somebody_wrote_it() -> None:
    where = Network(hosts=(HostRule(ALLOW, "a.test", 0, HERE, "A.Test"),))

    assert decide_host(where, "a.test", 443).reason == "a.test:443 may be reached: p.json:3 allows A.Test"


def test_a_name_may_be_resolved_when_some_port_of_it_may_be_reached() -> None:
    where = network("a.com:22", "*.b.com", denied=("x.b.com", "*:443"))
    answers = {
        name: decide_name(where, name).verdict is ALLOW for name in ("a.com", "y.b.com", "x.b.com", "c.com", "a b")
    }

    assert answers == {"a.com": True, "y.b.com": True, "x.b.com": False, "c.com": False, "a b": False}


@pytest.mark.parametrize("is_strict", [False, True])
def test_what_nobody_spoke_of_is_asked_about_unless_the_list_is_strict(is_strict: bool) -> None:
    judged = Policy("/work", (), network=Network(is_strict=is_strict), escape=Verdict.ASK)

    assert decide_connect(judged, "example.com", 443).verdict is (Verdict.DENY if is_strict else Verdict.ASK)


def test_a_denial_says_its_line_and_its_reason_and_offers_nothing() -> None:
    layer = Layer(
        Tier.USER,
        "p.json",
        settings=(
            Setting("network.allowedDomains", ("*.a.com",), HERE),
            Setting("network.deniedDomains", ("x.a.com",), Origin("p.json", 5)),
            Setting("network.deniedDomainReasons", {"x.a.com": "use y instead"}, Origin("p.json", 6)),
        ),
    )

    decision = decide_host(merge("/ws", (layer,)).network, "X.a.com", 80)

    reason = "x.a.com:80 may not be reached: p.json:5 denies x.a.com: use y instead"
    assert (decision.verdict, decision.reason, decision.grant) == (DENY, reason, "")


def test_an_open_network_allows_what_is_not_denied() -> None:
    where = Network(open=True, hosts=(host_rule(DENY, "a.com", HERE),))

    assert (may(where, "b.com"), may(where, "a.com")) == (True, False)


SPECIAL = """127.0.0.1 127.9.9.9 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.100.100.200 168.63.129.16
    198.18.0.1 224.0.0.1 255.255.255.255 ::1 :: ::ffff:127.0.0.1 fe80::1 fd00:ec2::254 ff02::1 64:ff9b::7f00:1
    2002:7f00:1:: ::127.0.0.1""".split()


@pytest.mark.parametrize("address", SPECIAL)
def test_an_allowed_name_may_not_lead_to_a_special_address(address: str) -> None:
    decision = decide_address(network("a.com"), "a.com", 80, address)

    assert decision.verdict is DENY
    assert decision.grant.startswith("--allow-host ")


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "9.9.9.9"])
def test_an_allowed_name_may_lead_to_a_public_address(address: str) -> None:
    assert decide_address(network("a.com"), "a.com", 80, address).verdict is ALLOW


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_this_machine_is_reached_by_who_names_it_alone(host: str) -> None:
    anything = Network(hosts=(HostRule(ALLOW, "*", 0, HERE),))

    for found in (anything, network("a.com"), network(denied=("localhost",))):
        assert decide_address(found, host, 80, "127.0.0.1").verdict is DENY
    assert decide_address(network("localhost"), host, 80, "127.0.0.1").verdict is ALLOW


def test_the_machines_own_address_must_be_named() -> None:
    def own(address: str, port: int) -> bool:
        return address == "93.184.215.14" and port < 1000

    assert decide_address(network("a.com"), "a.com", 80, "93.184.217.77", own).verdict is ALLOW
    assert decide_address(network("a.com"), "a.com", 80, "93.184.215.14", own).verdict is DENY
    assert decide_address(network("a.com", "93.184.215.14:80"), "a.com", 80, "93.184.215.14", own).verdict is ALLOW
    assert decide_address(network("a.com", "93.184.215.14:80"), "a.com", 81, "93.184.215.14", own).verdict is DENY


@pytest.mark.parametrize(
    ("entry", "host", "port", "address", "expected"),
    [
        ("10.0.0.5:5432", "db.example.com", 5432, "10.0.0.5", True),
        ("10.0.0.5:5432", "db.example.com", 22, "10.0.0.5", False),
        ("10.0.0.5:5432", "db.example.com", 5432, "10.0.0.6", False),
        ("localhost:80", "localhost", 80, "127.0.0.1", True),
        ("localhost:80", "localhost", 80, "::1", True),
        ("localhost:80", "127.0.0.1", 80, "127.0.0.1", True),
        ("localhost:80", "db.example.com", 80, "127.0.0.1", False),  # rebinding: localhost is allowed by its name alone
        ("localhost:80", "localhost", 80, "10.0.0.1", False),
    ],
)
def test_a_special_address_is_reached_when_it_is_named(
    entry: str, host: str, port: int, address: str, expected: bool
) -> None:
    assert (decide_address(network(entry), host, port, address).verdict is ALLOW) is expected


def test_a_denied_address_is_denied_even_when_it_is_named_and_the_network_open() -> None:
    where = network("a.com", "10.0.0.5", addresses=("10.0.0.0/8", "2001:4860::/32"))

    assert decide_address(where, "a.com", 80, "10.0.0.5").verdict is DENY
    assert decide_address(where, "a.com", 80, "2001:4860:4860::8888").verdict is DENY
    assert decide_address(where, "a.com", 80, "8.8.8.8").verdict is ALLOW


@pytest.mark.parametrize(
    ("denied", "addresses", "address", "port"),
    [
        (("localhost",), (), "127.0.0.1", 80),
        (("localhost:80",), (), "::1", 80),
        (("127.0.0.1:80",), (), "::ffff:127.0.0.1", 80),
        ((), ("::ffff:127.0.0.0/104",), "127.0.0.1", 80),
        ((), ("::ffff:7f00:1",), "127.0.0.1", 80),
    ],
)
def test_no_other_name_leads_to_what_is_denied(
    denied: tuple[str, ...], addresses: tuple[str, ...], address: str, port: int
) -> None:
    """However the one who denies it spells it, and whoever names the address besides."""
    where = network("a.com", "127.0.0.1", "[::1]", denied=denied, addresses=addresses)

    assert decide_address(where, "a.com", port, address).verdict is DENY
    assert decide_address(where, "a.com", port, "8.8.8.8").verdict is ALLOW
    if denied[:1] != ("localhost",) and not addresses:
        assert decide_address(where, "a.com", 81, address).verdict is ALLOW


@given(st.text(max_size=30), st.integers(-1, 70000), st.text(max_size=20))
def test_the_judge_answers_whatever_it_is_asked(host: str, port: int, address: str) -> None:
    where = network("a.com", "*.b.com", 80)

    assert decide_host(where, host, port).verdict in (ALLOW, DENY)
    assert decide_address(where, host, port, address).verdict in (ALLOW, DENY)
    if decide_host(where, host, port).verdict is ALLOW:
        assert joined(canonical_host(host), port)


@pytest.mark.parametrize("text", ["a b", "*", "*.com", "com", "a.com:0", "http://a.com"])
def test_a_hostile_flag_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        host_rule(ALLOW, text, Origin("--allow-host"))

    assert caught.value.place == "--allow-host"


@pytest.mark.parametrize("url", ["ftp://a.b:1", "http://a b:1", "http://a.b:0", "a.b"])
def test_a_parent_proxy_that_cannot_be_one_is_refused(url: str) -> None:
    layer = Layer(Tier.USER, "p.json", settings=(Setting("network.parentProxy", {"http": url}, HERE),))

    with pytest.raises(PolicyError):
        merge("/ws", (layer,))


def test_an_untrusted_project_may_deny_hosts_and_neither_allow_them_nor_unmatch_them() -> None:
    layer = Layer(
        Tier.PROJECT,
        "p.json",
        trusted=False,
        settings=(
            Setting("network.allowedDomains", ("a.com",), HERE),
            Setting("network.deniedDomains", ("b.com",), HERE),
            Setting("network.requireHostMatch", False, HERE),
            Setting("network.allowUnixSockets", ("/s",), HERE),
        ),
    )

    assert merge("/ws", (layer,)).network == Network(hosts=(host_rule(DENY, "b.com", HERE),))
