"""The ssh agent inside: it lists keys and signs, and everything else is refused."""

import base64
import os
import select
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import pytest
from tests.looking import until
from tests.network.conftest import allowing, listener
from tests.network.test_by_name import World
from tests.network.test_by_name import world as world

from ringfence.network.run import MOST_TOLD
from ringfence.network.ssh_agent import fingerprint
from ringfence.network.start import Gate


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """A real agent with a key; its socket."""
    path = tmp_path / "agent"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    add = ["ssh-add", "-q", str(tmp_path / "key")]
    environ = {"SSH_AUTH_SOCK": str(path), "PATH": os.environ["PATH"]}
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL) as process:
        try:  # its socket is there before it listens
            assert until(lambda: subprocess.run(add, env=environ, capture_output=True).returncode == 0)
            yield path
        finally:
            process.terminate()


@pytest.mark.needs_program("ssh-keygen")
def test_a_key_is_told_of_as_ssh_shows_it(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    blob = base64.b64decode((tmp_path / "key.pub").read_text().split()[1])
    shown = subprocess.run(["ssh-keygen", "-lf", str(tmp_path / "key.pub")], capture_output=True, text=True, check=True)
    message = bytes(4) + b"\x0d" + struct.pack(">I", len(blob)) + blob + struct.pack(">I", 4) + b"text" + bytes(4)
    assert fingerprint(message) == shown.stdout.split()[1]


def ask(sock: socket.socket, body: bytes) -> bytes:
    sock.sendall(struct.pack(">I", len(body)) + body)
    head = sock.recv(4, socket.MSG_WAITALL)
    return sock.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL) if head else b""


@pytest.mark.needs_program("ssh-agent", "ssh-add")
def test_only_listing_and_signing_pass(agent: Path) -> None:
    gate = Gate(None)
    door = listener()
    place = door.getsockname()
    number = gate.serve(allowing(), "/ws", ("agent",), (door.detach(),), str(agent))
    with socket.create_connection(place, 10) as sock:
        listed = ask(sock, b"\x0b")
        answers = [ask(sock, bytes((kind,)) + b"x" * 40)[0] for kind in range(1, 256) if kind not in (11, 13)]
        again = ask(sock, b"\x0b")
    said = gate.stop(number)
    gate.close()

    assert (listed[0], listed[1:5], again) == (12, struct.pack(">I", 1), listed)
    assert set(answers) == {5}
    assert len(said) == 253


@pytest.mark.needs_program("ssh-agent", "ssh-add")
@pytest.mark.parametrize("data", [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x01"])
def test_a_hostile_client_is_hung_up_on_or_waited_for(agent: Path, data: bytes) -> None:
    gate = Gate(None)
    door = listener()
    place = door.getsockname()
    gate.serve(allowing(), "/ws", ("agent",), (door.detach(),), str(agent))
    with socket.create_connection(place, 10) as hostile, socket.create_connection(place, 10) as sock:
        hostile.sendall(data)
        listed = ask(sock, b"\x0b")
    gate.close()

    assert listed[0] == 12


class Mute:
    """Somebody at an agent's path, and the gate with a run that has it."""

    def __init__(self, path: Path, backlog: int) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(str(path))
        self.sock.listen(backlog)
        self.gate = Gate(None)
        door, web = listener(), listener()
        self.door, self.other = door.getsockname(), web.getsockname()
        self.gate.serve(allowing(), "/ws", ("agent",), (door.detach(),), str(path))
        self.gate.serve(allowing(), "/ws", ("socks",), (web.detach(),))

    def close(self) -> None:
        self.gate.close()
        self.sock.close()


@pytest.fixture
def mute(tmp_path: Path) -> Iterator[Callable[[int], Mute]]:
    made: list[Mute] = []

    def make(backlog: int) -> Mute:
        made.append(Mute(tmp_path / "mute", backlog))
        return made[-1]

    yield make
    for one in made:
        one.close()


LONG = struct.pack(">I", 200_000) + b"\x0d" + bytes(199_999)


def test_what_an_agent_does_not_take_yet_does_not_pile_up_at_the_gate(mute: Callable[[int], Mute]) -> None:
    """It may wait for its owner to confirm a signature."""
    served = mute(5)
    sent = 0
    with socket.create_connection(served.door, 10) as sock:
        assert ask(sock, b"\x05") == b"\x05"  # it serves
        sock.setblocking(False)
        while select.select([], [sock], [], 0.5)[1] and sent < 64 << 20:
            sent += sock.send(LONG)

    assert 200_000 < sent < 48 << 20


def test_an_agent_that_accepts_nobody_keeps_no_run_waiting(mute: Callable[[int], Mute]) -> None:
    served = mute(1)
    socks = [socket.create_connection(served.door, 10) for _ in range(8)]
    while not any(select.select(socks, [], [], 10)[0]):
        pass  # those beyond what the agent's socket holds are hung up on
    with socket.create_connection(served.other, 10) as sock:
        sock.sendall(b"\x05\x01\x00")
        answer = sock.recv(2)
    for one in socks:
        one.close()

    assert answer == b"\x05\x00"


def test_one_run_does_not_take_all_that_an_agent_can_serve(mute: Callable[[int], Mute]) -> None:
    served = mute(1000)
    socks = [socket.create_connection(served.door, 10) for _ in range(100)]
    gone = 0
    while gone < 36:
        for sock in select.select(socks, [], [], 10)[0]:
            socks.remove(sock)
            sock.close()
            gone += 1
    left = select.select(socks, [], [], 0)[0]
    for sock in socks:
        sock.close()

    assert not left


@pytest.mark.needs_program("ssh-agent", "ssh-add")
@pytest.mark.parametrize("others", [0, 1])
def test_who_is_refused_often_hides_no_signature(agent: Path, others: int) -> None:
    """Refusals without end fill what the gate says them by; what was signed, for this run or another, is told of."""
    gate = Gate(None)
    door, names, other = listener(), listener(), listener()
    place, asked, beside = door.getsockname(), names.getsockname(), other.getsockname()
    number = gate.serve(allowing(), "/ws", ("agent", "names"), (door.detach(), names.detach()), str(agent))
    second = gate.serve(allowing(), "/ws", ("agent",), (other.detach(),), str(agent))
    with socket.create_connection(asked, 10) as sock:
        for count in range(1500):
            query = dns.message.make_query(f"{count}.{'x' * 60}.{'y' * 60}.{'z' * 60}.test", "A").to_wire()
            sock.sendall(struct.pack(">H", len(query)) + query)
            sock.recv(struct.unpack(">H", sock.recv(2, socket.MSG_WAITALL))[0], socket.MSG_WAITALL)
    with socket.create_connection(beside if others else place, 10) as sock:
        ask(sock, b"\x0d" + b"\0\0\0\x01k" * 3)
    said = gate.stop(second if others else number)
    rest = gate.stop(number) if others else said
    gate.close()

    assert [one.reason[:11] for one in said if one.allowed] == ["signature 1"]
    refused = [one for one in rest if not one.allowed]
    assert (len(refused), "the rest is not told" in refused[-1].reason) == (MOST_TOLD + 1, True)


@pytest.mark.needs_userns
@pytest.mark.needs_landlock(6)
@pytest.mark.needs_program("ssh-agent", "ssh-add")
def test_it_is_found_inside_when_the_policy_allows_it(world: World, agent: Path) -> None:
    policy = world.base / "policy.json"
    policy.write_text('{"network": {"allowSshAgent": true}}')
    policy.chmod(0o600)
    (world.workspace / "key.pub").write_text((agent.parent / "key.pub").read_text())
    script = "ssh-add -l; ssh-add -D; echo x | ssh-keygen -q -Y sign -n file -f key.pub"
    words = world.words(["sh", "-c", script], (), "--policy", str(policy))
    environ = world.environ() | {"SSH_AUTH_SOCK": str(agent)}
    done = subprocess.run(words, cwd=world.workspace, env=environ, capture_output=True, text=True, timeout=30)
    without = world.words(["sh", "-c", "ssh-add -l"], ())
    closed = subprocess.run(without, cwd=world.workspace, env=environ, capture_output=True, text=True, timeout=30)

    assert ("ED25519" in done.stdout, "BEGIN SSH SIGNATURE" in done.stdout) == (True, True)
    print_of_key = done.stdout.split()[1]
    assert f"ringfence: signature 1 by the ssh agent, with {print_of_key}\n" in done.stderr
    assert "lists and signs alone" in done.stderr
    assert closed.returncode == 2
