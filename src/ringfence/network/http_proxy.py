"""The HTTP proxy: CONNECT, absolute and origin form, connections kept alive.

h11 reads what the client and the server say; what goes on is written anew from what was understood, so that nobody
behind us reads a request in another way than it was judged. A body of known length passes as it is, counted. Every
request of a connection is judged, not only the first.
"""

import base64
import binascii

import h11

from ..model import Decision
from .judge import Denied, Unreachable
from .link import Link
from .run import IDLE_SECONDS, Run
from .tunnel import open_tunnel

MOST_HEAD = 65536
_EARLY = 65536  # how much may come before its turn
_HOP = frozenset(
    (b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"upgrade", b"transfer-encoding")
)
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


def header(request: h11.Request, name: bytes) -> bytes | None:
    """The one value of a header, or None."""
    found = [value for key, value in request.headers if key == name]
    if len(found) > 1:
        raise BadRequest(f"{name.decode()} comes twice")
    return found[0] if found else None


def target_of(request: h11.Request, match: bool = True) -> tuple[str, int, bytes]:
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
        self._parser = h11.Connection(h11.SERVER, MOST_HEAD)
        self._reader = h11.Connection(h11.CLIENT, MOST_HEAD)  # of the upstream
        self._request: h11.Request | None = None
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
            if self._request is None and view:
                self.run.hurry(self.client)
            self._parser.receive_data(bytes(view))
            self._advance()
        elif view:
            self._early += view
            if len(self._early) > _EARLY:
                self.client.pause()

    def _advance(self) -> None:
        """Go on with what the client said."""
        try:
            event = self._parser.next_event()
            while not isinstance(event, type):  # NEED_DATA and PAUSED are classes
                if isinstance(event, h11.Request):
                    self._begin(event)
                    return
                if isinstance(event, h11.ConnectionClosed):
                    return
                if isinstance(event, h11.Data):
                    self._send_upstream(b"%x\r\n%b\r\n" % (len(event.data), event.data))
                elif isinstance(event, h11.EndOfMessage):
                    self._is_chunked = False
                    self._send_upstream(b"0\r\n\r\n")
                    self._early += self._parser.trailing_data[0]
                    return
                event = self._parser.next_event()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, str(error))
        except BadRequest as error:
            self._refuse(error.status, str(error))
        except Denied as error:
            self.run.denied(error.target, error.decision)
            self._forbid(error.decision)

    def _begin(self, request: h11.Request) -> None:
        """Judge a request, and send it on or dial for it."""
        self._request = request
        self.run.heard(self.client)
        if self.run.has_credential and not self.run.is_known(_credential_of(request)):
            self._refuse(407, "this proxy is another run's", 'Proxy-Authenticate: Basic realm="ringfence"\r\n')
            return
        names = [name for name, _ in request.headers]
        if b"transfer-encoding" in names and b"content-length" in names:
            raise BadRequest("a body has one length, not two")
        host, port, path = target_of(request, self.run.match_hosts)
        name = self.run.dialler.target(host, port)
        if request.method == b"CONNECT":
            self.client.pause()
            self.run.start(self._tunnel(name, port))
        elif self.upstream is not None and self.place == (name, port) and not self.upstream.closed:
            self._forward(path)
        else:
            self.client.pause()
            self.run.start(self._dial(name, port, path))

    async def _dial(self, host: str, port: int, path: bytes) -> None:
        if self.upstream is not None:
            self.run.drop(self.upstream)
            self.upstream = None
        try:
            upstream = await self.run.dial(host, port)
        except Denied as error:
            self._forbid(error.decision)
            return
        except Unreachable as error:
            self._refuse(502, str(error))
            return
        if self.client.closed:
            self.run.drop(upstream)
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
        if self._is_chunked:
            kept.append((b"Transfer-Encoding", b"chunked"))
        host, port = self.place
        authority = f"[{host}]" if ":" in host else host
        authority += "" if port == 80 else f":{port}"
        lines = [b"%b %b HTTP/1.1" % (request.method, path), b"Host: " + authority.encode()]
        lines += [b"%b: %b" % (name, value) for name, value in kept]
        self._reader = h11.Connection(h11.CLIENT, MOST_HEAD)
        self._reader.send(h11.Request(method=request.method, target=b"/", headers=[(b"host", b"x")]))
        self._reader.send(h11.EndOfMessage())
        head = b"\r\n".join(lines) + b"\r\n\r\n"
        if self._is_chunked:
            self._send_upstream(head)
            self._advance()
            return
        length = int(header(request, b"content-length") or b"0")
        rest = self._parser.trailing_data[0]
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
        self._reader.receive_data(bytes(view))
        self._advance_reply()

    def _advance_reply(self) -> None:
        try:
            event = self._reader.next_event()
            while not isinstance(event, type):
                if isinstance(event, h11.Response):
                    self._is_fresh = False
                    if self._answer(event):
                        return
                elif isinstance(event, h11.InformationalResponse):
                    if event.status_code == 101:
                        raise h11.RemoteProtocolError("nobody asked for another protocol")
                    self._send_client(self._parser.send(event) or b"")
                elif isinstance(event, h11.Data | h11.EndOfMessage):
                    self._send_client(self._parser.send(event) or b"")
                    if isinstance(event, h11.EndOfMessage):
                        self._replied()
                        return
                else:
                    return
                event = self._reader.next_event()
        except (h11.RemoteProtocolError, h11.LocalProtocolError) as error:
            if self._parser.our_state is h11.SEND_RESPONSE:
                self._refuse(502, f"the server does not speak HTTP: {error}")
            else:
                self.close()

    def _answer(self, response: h11.Response) -> bool:
        """Send a response's head; True when its body has a known length, and passes as it is."""
        dropped = _HOP | _connection_words(response.headers)
        self._keeps = response.http_version == b"1.1" and b"close" not in _connection_words(response.headers)
        headers = [(name, value) for name, value in response.headers if name not in dropped]
        chunked = any(name == b"transfer-encoding" for name, _ in response.headers)
        if chunked:
            headers = [(name, value) for name, value in headers if name != b"content-length"]
        head = h11.Response(status_code=response.status_code, headers=headers, reason=response.reason)
        self._send_client(self._parser.send(head) or b"")
        assert self._request is not None
        empty = self._request.method == b"HEAD" or response.status_code in (204, 304)
        length = next((int(value) for name, value in headers if name == b"content-length"), 0)
        if chunked or empty or not length:
            return False
        rest = self._reader.trailing_data[0]
        if len(rest) > length:
            self._keeps = False
        self._send_client(rest[:length])
        self._reply = max(0, length - len(rest))
        if not self._reply:
            self._replied()
        return True

    def _send_client(self, data: bytes | memoryview) -> None:
        if data and not self.client.write(data) and self.upstream is not None:
            self.upstream.pause()

    def _replied(self) -> None:
        """A response is complete: on to the next request, where both sides stay."""
        request = self._request
        assert request is not None
        done = not self._body and not self._is_chunked  # else the server answered before it had heard all
        stays = done and request.http_version == b"1.1" and b"close" not in _connection_words(request.headers)
        if self._reader.their_state in (h11.MUST_CLOSE, h11.CLOSED) or not self._keeps:
            self._lose_upstream()
        if not stays or self._parser.our_state in (h11.MUST_CLOSE, h11.CLOSED, h11.ERROR):
            self._end_client()
            return
        self._request = None
        self._parser = h11.Connection(h11.SERVER, MOST_HEAD)
        if self._early:
            self._parser.receive_data(bytes(self._early))
            self._early.clear()
            self.client.read()
            self._advance()

    def _upstream_ended(self) -> None:
        """The server hung up: between two requests that is its right, and in a response without length its end."""
        waiting = self._request is not None
        if waiting and self._reply:
            self.close()
            return
        if not waiting:
            self._lose_upstream()
            return
        if self._parser.our_state is h11.SEND_RESPONSE:
            self._again()
            return
        self._reader.receive_data(b"")
        self._advance_reply()

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
        try:
            upstream = await self.run.dial(host, port)
        except Denied as error:
            self._forbid(error.decision)
            return
        except Unreachable as error:
            self._refuse(502, str(error))
            return
        if self.client.closed:
            self.run.drop(upstream)
            return
        self.upstream = upstream
        self.client.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        open_tunnel(self.run, self.client, upstream, host, self._parser.trailing_data[0])

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
        self.run.links[self.client] = 5.0
        self.client.read()


def _credential_of(request: h11.Request) -> bytes:
    """What the client says to be let in: the password of Basic, whatever the user's name."""
    kind, _, value = (header(request, b"proxy-authorization") or b"").partition(b" ")
    if kind.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def _connection_words(headers: "h11._headers.Headers") -> frozenset[bytes]:
    """The names in Connection, which are about this hop alone."""
    values = [value for name, value in headers if name == b"connection"]
    return frozenset(word.strip().lower() for value in values for word in value.split(b","))
