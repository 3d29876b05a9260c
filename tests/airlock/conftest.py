"""A home, a workspace beside it, and nothing approved yet."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence import keep


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a toolchain, a store of secrets, and something of a person's own."""
    place = tmp_path / "home"
    for name, text in (
        (".cargo/bin/cargo", "tool"),
        (".cargo/credentials.toml", "token"),
        (".ssh/id", "key"),
        ("data/f", "data"),
        ("notes", "notes"),
    ):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place))
    keep.forget_all()
    yield place
    keep.forget_all()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "ws"
    place.mkdir()
    return place


@pytest.fixture
def port() -> Iterator[int]:
    """A server that greets everybody."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                client.sendall(b"hello from outside")
                client.close()

        threading.Thread(target=serve, daemon=True).start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
