"""The resolver of a run: allowed names have an address that stands for them, others do not exist."""

import socket
from typing import Any

import dns.message
import dns.opcode
import dns.query
import dns.rcode
import dns.rdatatype
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.network.conftest import Serve, Served, allowing, everything, nobodys

from ringfence.gate import PolicyJudge
from ringfence.model import Verdict
from ringfence.model.standins import is_stand_in, stand_ins
from ringfence.network import resolver as resolver_module
from ringfence.network.names import MOST, Names
from ringfence.network.resolver import Resolver


@pytest.fixture
def run(serve: Serve) -> Served:
    return serve(allowing("a.test", "*.b.test:443", denied=("x.b.test",)), "names", "names-udp")


def ask(run: Served, name: str, kind: str = "A") -> dns.message.Message:
    query = dns.message.make_query(name, kind, use_edns=True)
    over_udp = dns.query.udp(query, "127.0.0.1", 10, run.ports["names-udp"])
    over_tcp = dns.query.tcp(query, "127.0.0.1", 10, run.ports["names"])
    assert over_udp == over_tcp
    return over_udp


def test_an_allowed_name_has_an_address_that_stands_for_it(run: Served) -> None:
    first, again = ask(run, "A.test."), ask(run, "a.test")
    address = str(first.answer[0][0])

    assert (first.rcode(), is_stand_in(address), str(again.answer[0][0])) == (dns.rcode.NOERROR, True, address)
    reverse = ask(run, ".".join(reversed(address.split("."))) + ".in-addr.arpa", "PTR")
    assert str(reverse.answer[0][0]) == "a.test."


@pytest.mark.parametrize("kind", ["AAAA", "HTTPS", "SVCB", "TXT", "MX", "SRV", "NS", "SOA", "CNAME"])
def test_an_allowed_name_has_nothing_else(run: Served, kind: str) -> None:
    answer = ask(run, "y.b.test", kind)

    assert (answer.rcode(), answer.answer) == (dns.rcode.NOERROR, [])


@pytest.mark.parametrize(
    "name", ["evil.test", "b.test", "x.b.test", "c2VjcmV0.evil.test", "localhost", "1.1.1.1.in-addr.arpa"]
)
def test_any_other_name_does_not_exist(run: Served, name: str) -> None:
    answers = [ask(run, name, kind) for kind in ("A", "AAAA", "TXT", "ANY")]

    assert [(answer.rcode(), answer.answer) for answer in answers] == [(dns.rcode.NXDOMAIN, [])] * 4


def test_a_refused_name_is_told_of_and_says_why(run: Served) -> None:
    answer = ask(run, "x.b.test")

    assert "denies x.b.test" in str(answer.options[0])
    assert [one.target for one in run.refusals()] == ["x.b.test"]


@pytest.mark.parametrize("kind", ["AXFR", "IXFR"])
def test_nobody_is_given_a_zone(run: Served, kind: str) -> None:
    query = dns.message.make_query("a.test", kind)

    assert dns.query.tcp(query, "127.0.0.1", 10, run.ports["names"], one_rr_per_rrset=True).answer == []


HOSTILE = [b"", b"\0", b"x" * 11, b"x" * 12, b"\xff" * 512, b"\0\0\1\0\0\1\0\0\0\0\0\0" + b"\xc0\x0c\0\1\0\1"]


@pytest.mark.parametrize("data", HOSTILE)
def test_a_hostile_question_leaves_the_resolver_answering(run: Served, data: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(data, ("127.0.0.1", run.ports["names-udp"]))
    with run.connect("names") as sock:
        sock.sendall(len(data).to_bytes(2, "big") + data)
        sock.shutdown(socket.SHUT_WR)
        everything(sock)

    assert ask(run, "a.test").rcode() == dns.rcode.NOERROR


def test_one_connection_asks_again_and_again_and_who_does_not_listen_is_hung_up_on(serve: Serve) -> None:
    """What it is not sent would be kept for it."""
    name = ".".join(["n" * 62] * 3) + ".b.test"
    wire = dns.message.make_query(name, "A").to_wire()
    run, asked = serve(allowing("*.b.test"), "names"), len(wire).to_bytes(2, "big") + wire
    with run.connect("names") as sock:
        sock.sendall(3 * asked)
        sock.shutdown(socket.SHUT_WR)
        said = everything(sock)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", run.ports["names"]))
        deaf.settimeout(10)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            deaf.sendall(80_000 * asked)

    assert [said.count(b"n" * 62), len(said) % 3] == [9, 0]


def test_of_a_message_the_question_alone_is_read_and_no_second_one() -> None:
    """Four thousand records in 64 KiB, each of which points to one long name, took twenty seconds, for every run."""
    resolver = Resolver(PolicyJudge(allowing("a.test"), nobodys), Names("/w"), lambda _name, _decision: None)
    head, question = b"\x12\x34\1\0", b"\1a\4test\0\0\1\0\1"
    records = b"no records" * 6000
    answers = [
        dns.message.from_wire(resolver.answer(head + counts + question + rest))
        for counts, rest in [
            (b"\0\1\xff\xff\xff\xff\xff\xff", records),
            (b"\x27\x10\0\0\0\0\0\0", 9999 * b"\xc0\x0c\0\1\0\1"),
            (b"\0\0\0\0\0\0\0\0", b""),
        ]
    ]

    assert [(answer.rcode(), len(answer.question), len(answer.answer)) for answer in answers] == [
        (dns.rcode.NOERROR, 1, 1),
        (dns.rcode.FORMERR, 0, 0),
        (dns.rcode.FORMERR, 0, 0),
    ]


def resolving(*entries: str, names: Names | None = None) -> Resolver:
    judge = PolicyJudge(allowing(*entries), nobodys)
    return Resolver(judge, names or Names("/w"), lambda _name, _decision: None)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"rdclass": "CH"}, dns.rcode.REFUSED),
        ({"opcode": dns.opcode.NOTIFY}, dns.rcode.NOTIMP),
        ({"opcode": dns.opcode.STATUS}, dns.rcode.NOTIMP),
    ],
)
def test_another_class_or_kind_of_question_is_refused(change: dict[str, Any], code: int) -> None:
    query = dns.message.make_query("a.test", "A", change.get("rdclass", "IN"))
    query.set_opcode(change.get("opcode", dns.opcode.QUERY))

    answer = dns.message.from_wire(resolving("a.test").answer(query.to_wire()))

    assert (answer.rcode(), answer.answer) == (code, [])


def test_an_answer_is_not_answered() -> None:
    """Two that answer each other's answers would never end; not one that is torn either."""
    reply = dns.message.make_response(dns.message.make_query("a.test", "A")).to_wire()

    assert [resolving("a.test").answer(reply[:size]) for size in (len(reply), 14)] == [b"", b""]


def test_when_there_are_too_many_names_one_more_is_a_failure_of_ours() -> None:
    """Not a name that does not exist, which some resolvers would go on saying."""
    names = Names("/w", tuple(f"n{number}.test" for number in range(MOST)))
    query = dns.message.make_query("a.test", "A")

    answer = dns.message.from_wire(resolving("a.test", names=names).answer(query.to_wire()))

    assert (answer.rcode(), answer.answer) == (dns.rcode.SERVFAIL, [])


def test_what_is_remembered_is_bounded_and_another_judges_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver_module, "_MOST_KEPT", 4)
    resolver = resolving()

    def ask_for(name: str) -> int:
        return dns.message.from_wire(resolver.answer(dns.message.make_query(name, "A").to_wire())).rcode()

    for number in range(9):
        ask_for(f"{number}.test")
        assert len(resolver._kept) <= 4
    codes = [ask_for("a.test")]
    resolver.rejudge(PolicyJudge(allowing("a.test"), nobodys))
    codes.append(ask_for("a.test"))

    assert codes == [dns.rcode.NXDOMAIN, dns.rcode.NOERROR]


@given(st.lists(st.text("abc.", min_size=1, max_size=9), max_size=50))
def test_addresses_are_stable_and_each_is_one_names(asked: list[str]) -> None:
    one, other = Names("/ws"), Names("/ws")
    addresses = {name: one.address_of(name) for name in asked}

    assert len(set(addresses.values())) == len(addresses)
    assert all(one.name_of(address) == name and is_stand_in(address) for name, address in addresses.items())
    if len(addresses) == 1:
        assert [other.address_of(name) for name in addresses] == list(addresses.values())
    assert Names("/ws", tuple(addresses))._addresses == stand_ins("/ws", addresses) == addresses


def test_there_is_an_end_to_names() -> None:
    names = Names("/ws")
    addresses = {names.address_of(f"n{number}.test") for number in range(MOST)}

    assert (len(addresses), names.address_of("one-more.test"), names.address_of("n0.test") in addresses) == (
        MOST,
        "",
        True,
    )


def test_large_questions_are_answered_and_not_remembered() -> None:
    resolver = Resolver(PolicyJudge(allowing("a.test"), nobodys), Names("/w"), lambda _name, _decision: None)
    for pad in (0, 4096, 32768):
        query = dns.message.make_query("a.test", "A", use_edns=True, pad=pad).to_wire(max_size=65535)
        assert len(dns.message.from_wire(resolver.answer(query)).answer) == 1
    assert sum(map(len, resolver._kept)) < 1024


def test_a_host_that_is_none_is_judged_and_not_remembered() -> None:
    judge = PolicyJudge(allowing("a.test"), nobodys)
    for count in range(100):
        host = f"{count}{'x' * 60_000}"
        assert judge.host(judge.canonical(host), 80).verdict is Verdict.DENY
    assert (judge.canonical("A.test"), judge.host("a.test", 80).verdict) == ("a.test", Verdict.ALLOW)
    assert (len(judge._forms), len(judge._kept)) == (1, 1)
