"""The HTTP proxy: CONNECT, absolute and origin form, connections kept alive.

h11 reads what the client and the server say, but for the plainest heads, which are read in `heads`; what goes on is
written anew from what was understood, so that nobody behind us reads a request in another way than it was judged. A
body of known length passes as it is, counted. Every request of a connection is judged, not only the first.
"""

import base64
import binascii

import h11

from ..model import Decision
from . import heads
from .channel import LARGE, open_channel
from .heads import Headers, Request
from .judge import Denied, Unreachable
from .link import ALL, FEW, Link
from .run import IDLE_SECONDS, LINGER_SECONDS, Run
from .tunnel import open_tunnel

MOST_HEAD = 65536
_END = b"\r\n\r\n"
_EARLY = 65536  # how much may come before its turn
_HOP = frozenset(
    (b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"upgrade", b"transfer-encoding")
)
# Who names one of these in Connection has it taken out on the way, and the rest of the message is read as another.
_ENDS = frozenset((b"content-length", b"host"))
_PHRASES = {400: "Bad Request", 403: "Forbidden", 407: "Proxy Authentication Required", 421: "Misdirected Request",
            431: "Request Header Fields Too Large", 501: "Not Implemented", 502: "Bad Gateway"}  # fmt: skip


class BadRequest(Exception):
    """The client says something that is not understood, or that could be understood in two ways."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.status = status


def split_authority(text: str, port: int) -> tuple[str, int]:
    """Host and port of `host:port`, as they stand there; the judge says whether it is a host."""
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text, port
    if not (number.isascii() and number.isdigit() and len(number) <= 5):
        raise BadRequest("the port is not a number")
    return host, int(number)


def header(request: Request, name: bytes) -> bytes | None:
    """The one value of a header, or None."""
    found = [value for key, value in request.headers if key == name]
    if len(found) > 1:
        raise BadRequest(f"{name.decode()} comes twice")
    return found[0] if found else None


def target_of(request: Request, match: bool) -> tuple[str, int, bytes]:
    """The host, port and path that a request is for. With `match` its Host header says the same, or it is refused."""
    try:
        target = request.target.decode("ascii")
        host_header = (header(request, b"host") or b"").decode("ascii")
    except UnicodeDecodeError:
        raise BadRequest("the target is not ASCII") from None
    if request.method == b"CONNECT":
        return (*split_authority(target, 443), b"")
    if target.startswith("/"):
        return (*split_authority(host_header, 80), request.target)
    scheme, mark, rest = target.partition("://")
    if not mark or scheme.lower() != "http":
        raise BadRequest("only http:// is fetched here; https goes by CONNECT")
    end = min((rest.find(char) for char in "/?#" if char in rest), default=len(rest))
    authority, path = rest[:end], rest[end:].partition("#")[0]
    if match and host_header and split_authority(host_header.lower(), 80) != split_authority(authority.lower(), 80):
        raise BadRequest("the Host header is not the host of the request", 421)
    return (*split_authority(authority, 80), (path if path.startswith("/") else f"/{path}").encode())


class Session:
    """One connection of the command's."""

    def __init__(self, run: Run, client: Link) -> None:
        self.run = run
        self.client = client
        self.upstream: Link | None = None
        self.place = ("", 0)  # what the upstream is connected to
        self._parser: h11.Connection | None = None  # of the client, where h11 is needed
        self._reader: h11.Connection | None = None  # of the upstream, the same
        self._request: Request | None = None
        self._rest = b""  # what came with its head
        self._early = bytearray()  # what came before its turn
        self._body = 0  # how much of the request's body is still to come, of known length
        self._reply = 0  # the same of the response's
        self._is_chunked = False  # the request's body is, and not all of it came
        self._keeps = False  # the upstream can be used again
        self._is_fresh = False  # it has not answered anything yet
        client.on_data = self._from_client
        client.on_end = self.close
        client.read()

    def close(self) -> None:
        """End both sides."""
        for link in (self.client, self.upstream):
            if link is not None:
                self.run.drop(link)

    # ---- From the client ----

    def _from_client(self, view: memoryview) -> None:
        if self._body:
            taken = view[: self._body]
            self._body -= len(taken)
            self._send_upstream(taken)
            view = view[len(taken) :]
        if self._request is None or self._is_chunked:
            self._hear(bytes(view))
        elif view:
            self._early += view
            if len(self._early) > _EARLY:
                self.client.pause()

    def _hear(self, data: bytes) -> None:
        """More of a request that has not been heard to its end."""
        try:
            end = data.find(_END) if self._parser is None else -1
            plain = heads.read_request(data[: end + 2]) if 0 < end < MOST_HEAD else None
            if plain is not None:
                self._begin(plain, data[end + 4 :])
                return
            if self._request is None and data:
                self.run.hurry(self.client)
            if self._parser is None:
                self._parser = h11.Connection(h11.SERVER, MOST_HEAD)
            if data:  # none would be the end
                self._parser.receive_data(data)
            self._advance(self._parser)
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, str(error))
        except BadRequest as error:
            self._refuse(error.status, str(error))
        except Denied as error:
            self.run.denied(error.target, error.decision)
            self._forbid(error.decision)

    def _hear_on(self) -> None:
        if self._is_chunked and not self.client.closed:
            self._hear(b"")

    def _advance(self, parser: h11.Connection) -> None:
        """Go on with what the client said."""
        event = parser.next_event()
        while not isinstance(event, type):  # NEED_DATA and PAUSED are classes
            if isinstance(event, h11.Request):
                request = Request(event.method, event.target, list(event.headers), event.http_version)
                self._begin(request, parser.trailing_data[0])
                return
            if isinstance(event, h11.Data):
                self._send_upstream(b"%x\r\n%b\r\n" % (len(event.data), event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._is_chunked = False
                self._send_upstream(b"0\r\n\r\n")
                self._early += parser.trailing_data[0]
                return
            event = parser.next_event()

    def _begin(self, request: Request, rest: bytes) -> None:
        """Judge a request, and send it on or dial for it."""
        self._request, self._rest = request, rest
        self.run.heard(self.client)
        if self.run.has_credential and not self.run.is_known(_credential_of(request)):
            self._refuse(407, "this proxy is another run's", 'Proxy-Authenticate: Basic realm="ringfence"\r\n')
            return
        if not _ENDS.isdisjoint(_connection_words(request.headers)):
            raise BadRequest("the length and the host of a request are no matter of the connection")
        names = [name for name, _ in request.headers]
        if b"transfer-encoding" in names and b"content-length" in names:
            raise BadRequest("a body has one length, not two")
        host, port, path = target_of(request, self.run.match_hosts)
        dialler = self.run.dialler  # where somebody can be asked, dialling judges
        name = dialler.target(host, port) if dialler.ask is None else dialler.meant(host)
        is_same = self.upstream is not None and self.place == (name, port) and not self.upstream.closed
        if is_same and request.method != b"CONNECT":
            self._forward(path)
            return
        self._lose_upstream()  # now: what it says from here on would pass for an answer of the next one's
        self.client.pause()
        is_tunnel = request.method == b"CONNECT"
        self.run.start(self._tunnel(name, port) if is_tunnel else self._dial(name, port, path))

    async def _reach(self, host: str, port: int) -> Link | None:
        """Dial for the client; None when it has been told why not, or is gone."""
        try:
            upstream = await self.run.dial(host, port)
        except Denied as error:
            self._forbid(error.decision)
            return None
        except Unreachable as error:
            self._refuse(502, str(error))
            return None
        if self.client.closed:
            self.run.drop(upstream)
            return None
        return upstream

    async def _dial(self, host: str, port: int, path: bytes) -> None:
        self._lose_upstream()
        upstream = await self._reach(host, port)
        if upstream is None:
            return
        self.upstream, self.place, self._is_fresh = upstream, (host, port), True
        upstream.on_data = self._from_upstream
        upstream.on_end = self._upstream_ended
        upstream.on_drain = self.client.read
        self.client.on_drain = upstream.read
        self._forward(path)
        upstream.read()
        self.client.read()

    def _forward(self, path: bytes) -> None:
        """Send the request on as it was understood; what of its body has come already goes with it."""
        request = self._request
        assert request is not None
        self.run.links[self.client] = IDLE_SECONDS
        dropped = _HOP | _connection_words(request.headers)
        kept = [(name, value) for name, value in request.headers if name not in dropped and name != b"host"]
        self._is_chunked = any(name == b"transfer-encoding" for name, _ in request.headers)
        self.client.most = FEW if self._is_chunked else ALL
        if self.upstream is not None:
            self.upstream.most = FEW  # until it is known that its answer is only carried
        if self._is_chunked:
            kept.append((b"Transfer-Encoding", b"chunked"))
        host, port = self.place
        authority = f"[{host}]" if ":" in host else host
        authority += "" if port == 80 else f":{port}"
        lines = [b"%b %b HTTP/1.1" % (request.method, path), b"Host: " + authority.encode()]
        lines += [b"%b: %b" % (name, value) for name, value in kept]
        self._reader = None
        head = b"\r\n".join(lines) + b"\r\n\r\n"
        if self._is_chunked:
            self._send_upstream(head)
            self.client.turn.take(self._hear_on)  # what came with the head
            return
        length = int(header(request, b"content-length") or b"0")
        rest, self._rest = self._rest, b""
        self._body = max(0, length - len(rest))
        self._early += rest[length:]
        self._send_upstream(head + rest[:length])

    def _send_upstream(self, data: bytes | memoryview) -> None:
        if self.upstream is not None and data and not self.upstream.write(data):
            self.client.pause()

    # ---- From the upstream ----

    def _from_upstream(self, view: memoryview) -> None:
        if self._reply:
            if len(view) > self._reply:
                self._keeps = False  # it says more than it announced: none of that is passed on
            taken = view[: self._reply]
            self._reply -= len(taken)
            self._send_client(taken)
            if not self._reply:
                self._replied()
            return
        if self._request is None:
            self._lose_upstream()  # it speaks without being asked
            return
        data = bytes(view)
        if self._reader is None:
            end = data.find(_END) if self._request.method != b"HEAD" else -1
            plain = heads.read_response(data[: end + 2]) if 0 < end < MOST_HEAD else None
            if plain is not None:
                self._answer_plainly(plain, data[end + 4 :])
                return
            self._reader = self._begin_to_read(self._request)
        self._reader.receive_data(data)
        self._advance_reply(self._reader)

    def _answer_plainly(self, response: heads.Response, rest: bytes) -> None:
        assert self._request is not None
        self._is_fresh = False
        words = _connection_words(response.headers)
        self._keeps = b"close" not in words
        dropped = _HOP | words
        lines = [b"HTTP/1.1 %b %b" % (response.status, response.reason)]
        lines += [b"%b: %b" % line for line in response.headers if line[0] not in dropped]
        if not _goes_on(self._request):
            lines.append(b"Connection: close")
        self._begin_body(b"\r\n".join(lines) + _END, response.length, rest)

    def _begin_body(self, head: bytes, length: int, rest: bytes) -> None:
        """Send a response's head, and what there is of a body of known length, which passes as it is."""
        if len(rest) > length:
            self._keeps = False  # it says more than it announced: none of that is passed on
        self._reply = max(0, length - len(rest))
        if self.upstream is not None:
            self.upstream.most = ALL
        self._send_client(head + rest[:length])
        if not self._reply:
            self._replied()
        elif self._reply >= LARGE and self.upstream is not None:
            open_channel(self.upstream, self.client, self._reply, self._carried)

    def _carried(self) -> None:
        """The kernel has passed a whole body on. Whether more follows nobody has looked, so the connection is over."""
        self._reply, self._keeps = 0, False
        self._replied()

    def _begin_to_read(self, request: Request) -> h11.Connection:
        """h11 reads the response, and writes it: it has to know the request."""
        if self._parser is None:
            closes = b"" if _goes_on(request) else b"Connection: close\r\n"
            self._parser = h11.Connection(h11.SERVER, MOST_HEAD)
            self._parser.receive_data(b"%b / HTTP/1.1\r\nHost: x\r\n%b\r\n" % (request.method, closes))
            self._parser.next_event()
        reader = h11.Connection(h11.CLIENT, MOST_HEAD)
        reader.send(h11.Request(method=request.method, target=b"/", headers=[(b"host", b"x")]))
        reader.send(h11.EndOfMessage())
        return reader

    def _advance_reply(self, reader: h11.Connection) -> None:
        parser = self._parser
        assert parser is not None
        try:
            event = reader.next_event()
            while not isinstance(event, type):
                if isinstance(event, h11.Response):
                    self._is_fresh = False
                    if self._answer(parser, event, reader.trailing_data[0]):
                        return
                elif isinstance(event, h11.InformationalResponse):
                    if event.status_code == 101:
                        raise h11.RemoteProtocolError("nobody asked for another protocol")
                    self._send_client(parser.send(event) or b"")
                elif isinstance(event, h11.Data | h11.EndOfMessage):
                    self._send_client(parser.send(event) or b"")
                    if isinstance(event, h11.EndOfMessage):
                        self._replied()
                        return
                else:
                    return
                event = reader.next_event()
        except (h11.RemoteProtocolError, h11.LocalProtocolError) as error:
            if parser.our_state is h11.SEND_RESPONSE:
                self._refuse(502, f"the server does not speak HTTP: {error}")
            else:
                self.close()

    def _answer(self, parser: h11.Connection, response: h11.Response, rest: bytes) -> bool:
        """Send a response's head; True when its body has a known length, and passes as it is."""
        words = _connection_words(list(response.headers))
        if not _ENDS.isdisjoint(words):
            raise h11.RemoteProtocolError("the length of an answer is no matter of the connection")
        self._keeps = response.http_version == b"1.1" and b"close" not in words
        headers = [(name, value) for name, value in response.headers if name not in _HOP | words]
        chunked = any(name == b"transfer-encoding" for name, _ in response.headers)
        if chunked:
            headers = [(name, value) for name, value in headers if name != b"content-length"]
        head = parser.send(h11.Response(status_code=response.status_code, headers=headers, reason=response.reason))
        assert self._request is not None
        empty = self._request.method == b"HEAD" or response.status_code in (204, 304)
        length = next((int(value) for name, value in headers if name == b"content-length"), 0)
        if chunked or empty or not length:
            self._send_client(head or b"")
            return False
        self._begin_body(head or b"", length, rest)
        return True

    def _send_client(self, data: bytes | memoryview) -> None:
        if data and not self.client.write(data) and self.upstream is not None:
            self.upstream.pause()

    def _replied(self) -> None:
        """A response is complete: on to the next request, where both sides stay."""
        request = self._request
        assert request is not None
        done = not self._body and not self._is_chunked  # else the server answered before it had heard all
        ends = (h11.MUST_CLOSE, h11.CLOSED, h11.ERROR)
        if not self._keeps or (self._reader is not None and self._reader.their_state in ends):
            self._lose_upstream()
        if not done or not _goes_on(request) or (self._parser is not None and self._parser.our_state in ends):
            self._end_client()
            return
        self._request = self._parser = None
        if self._early:
            early = bytes(self._early)
            self._early.clear()
            self.client.read()
            self._hear(early)

    def _upstream_ended(self) -> None:
        """The server hung up: between two requests that is its right, and in a response without length its end."""
        if self._request is None:
            self._lose_upstream()
        elif self._reply:
            self.close()
        elif self._reader is None or self._parser is None or self._parser.our_state is h11.SEND_RESPONSE:
            self._again()
        else:
            self._reader.receive_data(b"")
            self._advance_reply(self._reader)

    def _again(self) -> None:
        """No answer came. On a connection used before, the server may just have given it up: once more, if it can be
        asked again without harm."""
        request = self._request
        assert request is not None
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in request.headers)
        if self._is_fresh or has_body or request.method not in (b"GET", b"HEAD", b"OPTIONS"):
            self._refuse(502, "the server hung up")
            return
        host, port = self.place
        self.client.pause()
        self.run.start(self._dial(host, port, target_of(request, False)[2]))

    def _lose_upstream(self) -> None:
        if self.upstream is not None:
            self.run.drop(self.upstream)
            self.upstream = None

    # ---- Tunnels ----

    async def _tunnel(self, host: str, port: int) -> None:
        upstream = await self._reach(host, port)
        if upstream is not None:
            self.upstream = upstream
            self.client.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            open_tunnel(self.run, self.client, upstream, host, self._rest)

    # ---- Refusals ----

    def _forbid(self, decision: Decision) -> None:
        hint = f"\n  to change it: {decision.grant}" if decision.grant else ""
        self._refuse(403, f"{decision.reason}{hint}")

    def _refuse(self, status: int, why: str, headers: str = "") -> None:
        """Answer with the reason, and end the connection: what follows would be read in a guess."""
        body = f"ringfence: {why}\n".encode("utf-8", "replace")
        phrase = _PHRASES.get(status, "Error")
        head = f"HTTP/1.1 {status} {phrase}\r\n{headers}Content-Type: text/plain; charset=utf-8\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.client.write(head.encode() + (b"" if self._request and self._request.method == b"HEAD" else body))
        self._lose_upstream()
        self._end_client()

    def _end_client(self) -> None:
        """Close once all is sent. First only our half: a reset would take the answer from a client still writing."""
        self.client.finish()
        self.client.on_data = lambda _: None
        self.client.on_end = self.close
        self.run.links[self.client] = LINGER_SECONDS
        self.client.read()


def _credential_of(request: Request) -> bytes:
    """What the client says to be let in: the password of Basic, whatever the user's name."""
    kind, _, value = (header(request, b"proxy-authorization") or b"").partition(b" ")
    if kind.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def _connection_words(headers: Headers) -> frozenset[bytes]:
    """The names in Connection, which are about this hop alone."""
    values = [value for name, value in headers if name == b"connection"]
    return frozenset(word.strip().lower() for value in values for word in value.split(b","))


def _goes_on(request: Request) -> bool:
    """Whether another request may follow on the connection."""
    return request.http_version == b"1.1" and b"close" not in _connection_words(request.headers)
