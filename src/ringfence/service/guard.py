"""What holds for every request before it is looked at: its host, its origin, and what goes back."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .trouble import response

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with none a browser hides the origin of our own forms too
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guarded:
    """The checks, around an application."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]) -> None:
        self._app, self._hosts = app, {*hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, sent)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy before us that reads the other of the two takes what follows for another person's request.
            refused = response("bad_request", "a body has one length, not two")
            refused.headers["Connection"] = "close"
            return refused
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name(hosts[0]) not in self._hosts:
            return response("host_refused", "this is not a host that the service has")
        secure, plain = f"https://{hosts[0]}", f"http://{hosts[0]}"
        # Behind a proxy we are asked without TLS for a page that has it; with TLS of our own nobody is asked without.
        origins = (secure,) if scope["scheme"] == "https" else (secure, plain)
        if any(origin not in origins for origin in headers.getlist("origin")):
            return response("host_refused", "the request comes from another page")
        return None


def _name(host: str) -> str:
    """A host without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and port.isascii() else host
