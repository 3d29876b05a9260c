"""Joining a client to what was dialled for it, after a look at its first bytes."""

from ..model import Decision, Verdict
from . import hello
from .link import Link
from .run import IDLE_SECONDS, LINGER_SECONDS, Run


def open_tunnel(run: Run, client: Link, upstream: Link, host: str, first: bytes) -> None:
    """Join two links. The first bytes are looked at: TLS for another server than the tunnel is for goes no further."""
    kept = bytearray(first)

    def look() -> None:
        if not kept:
            return
        if run.match_hosts and hello.is_tls(kept):
            try:
                name = hello.server_name(bytes(kept))
            except hello.NotHello:
                name = "?"
            if name is None:
                return
            if name and name.lower().removesuffix(".") != host:
                reason = f"a tunnel to {host} asks for the server {name[:100]!r} (requireHostMatch)"
                run.denied(host, Decision(Verdict.DENY, reason))
                client.write(hello.ALERT)
                run.drop(upstream)
                client.close_after_writing()
                return
        upstream.write(kept)
        run.join(client, upstream)

    def data(view: memoryview) -> None:
        kept.extend(view)
        look()

    def passed(view: memoryview) -> None:  # a server may speak first, as ssh does
        if not client.write(view):
            upstream.pause()

    def heard() -> None:  # the client says no more; without a word it may still listen, and its end is read again there
        if kept or client.closed:
            run.drop(client)
            run.drop(upstream)
        else:
            run.join(client, upstream)

    def ended() -> None:  # the server says no more, and what it said goes out first
        if upstream.closed:
            client.close_after_writing()
            run.links[client] = LINGER_SECONDS
        else:
            client.finish()

    client.on_data, client.on_end, client.on_drain = data, heard, upstream.read
    upstream.on_data, upstream.on_end = passed, ended
    run.links[client] = IDLE_SECONDS
    run.heard(client)
    client.read()
    upstream.read()
    look()
