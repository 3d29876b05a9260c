"""The resolver that a run sees: it answers allowed names with the addresses that stand for them, and asks nobody.

A name that is not allowed does not exist. AAAA, HTTPS, SVCB and the rest of an allowed name have no data, and never
NXDOMAIN, for some resolvers would then drop the name. Since nothing is asked outside, nothing leaks by asking.
"""

import asyncio
import socket
from collections.abc import Callable

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.reversename
import dns.rrset

from ..model import Decision, Verdict
from .judge import Judge
from .link import Link
from .names import Names

TTL = 60
MOST_UDP = 4096
_NONE, _ONE = b"\0\0", b"\0\1"  # how many of something a message has
_AT_ONCE = 16  # questions answered before others are heard
_MOST_KEPT, _MOST_ASKED = 4096, 512  # answers, and bytes of a question that is worth keeping: it may have 64 KiB


class Resolver:
    """Answers for one run."""

    def __init__(self, judge: Judge, names: Names, denied: Callable[[str, Decision], None]) -> None:
        self._judge = judge
        self._names = names
        self._denied = denied
        self._kept: dict[bytes, bytes] = {}  # question and answer, without the number that both begin with

    def rejudge(self, judge: Judge) -> None:
        """Another judge from now on."""
        self._judge = judge
        self._kept.clear()

    def answer(self, query: bytes) -> bytes:
        """The answer to one message; empty for what deserves none."""
        known = self._kept.get(query[2:])
        if known is None:
            known = self._answer(query)[2:]
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            if len(query) <= _MOST_ASKED:
                self._kept[query[2:]] = known
        return query[:2] + known if known else b""

    def _answer(self, query: bytes) -> bytes:
        """Of a message the question alone is read, and of one: records that are pointed to again and again, or options,
        would keep every run waiting for seconds."""
        try:
            if query[4:6] != _ONE:
                raise dns.exception.FormError
            asked = dns.message.from_wire(query, question_only=True)
        except (dns.exception.DNSException, ValueError):
            return query[:2] + b"\x80\x01" + bytes(8) if len(query) >= 12 and not query[2] & 0x80 else b""
        if asked.flags & dns.flags.QR:
            return b""
        if query[10:12] != _NONE:
            asked.use_edns()
        reply = dns.message.make_response(asked, recursion_available=True)
        if asked.opcode() != dns.opcode.QUERY:
            reply.set_rcode(dns.rcode.NOTIMP)
        elif asked.question[0].rdclass != dns.rdataclass.IN:
            reply.set_rcode(dns.rcode.REFUSED)
        else:
            self._fill(reply, asked.question[0])
        return reply.to_wire()

    def _fill(self, reply: dns.message.Message, question: dns.rrset.RRset) -> None:
        if question.name.is_subdomain(dns.reversename.ipv4_reverse_domain):
            self._fill_reverse(reply, question)
            return
        name = question.name.to_text(omit_final_dot=True).lower()
        decision = self._judge.name(name)
        if decision.verdict is not Verdict.ALLOW:
            self._denied(name, decision)
            reply.set_rcode(dns.rcode.NXDOMAIN)
            if reply.edns >= 0:
                reason = dns.edns.EDEOption(dns.edns.EDECode.PROHIBITED, decision.reason[:200])
                reply.use_edns(reply.edns, reply.ednsflags, options=[reason])
            return
        if question.rdtype not in (dns.rdatatype.A, dns.rdatatype.ANY):
            return
        address = self._names.address_of(name)
        if not address:
            reply.set_rcode(dns.rcode.SERVFAIL)
            return
        reply.answer.append(dns.rrset.from_text(question.name, TTL, dns.rdataclass.IN, dns.rdatatype.A, address))

    def _fill_reverse(self, reply: dns.message.Message, question: dns.rrset.RRset) -> None:
        try:
            name = self._names.name_of(dns.reversename.to_address(question.name))
        except (dns.exception.DNSException, ValueError):
            name = ""
        if not name:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        elif question.rdtype in (dns.rdatatype.PTR, dns.rdatatype.ANY):
            reply.answer.append(
                dns.rrset.from_text(question.name, TTL, dns.rdataclass.IN, dns.rdatatype.PTR, f"{name}.")
            )

    # ---- On sockets ----

    def serve_datagrams(self, sock: socket.socket) -> None:
        """Answer on a bound UDP socket; the loop's reader is removed by whoever closes it."""
        sock.setblocking(False)

        def readable() -> None:
            for _ in range(_AT_ONCE):
                try:
                    query, place = sock.recvfrom(MOST_UDP)
                    reply = self.answer(query)
                    if reply:
                        sock.sendto(reply, place)
                except OSError:  # nothing more there, or whoever asked is gone
                    return

        asyncio.get_running_loop().add_reader(sock.fileno(), readable)

    def serve_stream(self, link: Link) -> None:
        """Answer on a TCP connection: each message has its length before it."""
        kept = bytearray()
        link.most = MOST_UDP  # a hundred questions: each takes as long as carrying many pages

        def data(view: memoryview) -> None:
            kept.extend(view)
            while len(kept) >= 2 and len(kept) >= 2 + (length := int.from_bytes(kept[:2], "big")):
                reply = self.answer(bytes(kept[2 : 2 + length]))
                del kept[: 2 + length]
                if not reply or not link.write(len(reply).to_bytes(2, "big") + reply):
                    link.close()
                    return

        link.on_data = data
        link.on_end = link.close
        link.read()
