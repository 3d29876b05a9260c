"""The gate, seen from whoever starts runs."""

import os
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import dns.message
import pytest
from tests.looking import until
from tests.network.conftest import Served, allowing, listener

from ringfence.gates import Passage
from ringfence.model import Host, LaunchError
from ringfence.model.standins import stand_ins
from ringfence.network import start
from ringfence.network.asks import QUESTION, REPLY
from ringfence.network.control import Serve
from ringfence.network.start import Gate
from ringfence.policy import Flags, load


def test_runs_that_several_threads_start_at_once_have_a_number_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """By it a run is ended and told of: with another's, that one would lose its network."""
    made, said, under_way = Gate(None), list[int](), set[str]()
    numbers: dict[str, list[int]] = {}

    def send(_to: int, message: Any, _fds: tuple[int, ...] = ()) -> None:
        assert not under_way  # a long message is in several packets
        under_way.add("")
        time.sleep(0.005)
        under_way.clear()
        said.append(message.number)
        numbers.setdefault(threading.current_thread().name, []).append(message.number)
        assert isinstance(message, Serve)

    monkeypatch.setattr(start, "send", send)
    answers: dict[str, int] = {}

    def serve() -> None:
        answers[threading.current_thread().name] = made.serve(allowing(), "/ws", (), ())

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made.close()

    assert sorted(said) == [1, 2, 3, 4]
    assert {who: [number] for who, number in answers.items()} == numbers


def test_a_workspace_whose_name_is_no_text_has_a_network(gate: Gate) -> None:
    """And the addresses that stand for names are those that its /etc/hosts has."""
    workspace = "/ws/\udcff"
    with listener() as door:
        place = door.getsockname()
        number = gate.serve(allowing("a.test"), workspace, ("names",), (door.detach(),))
    with socket.create_connection(place, 10) as sock:
        query = dns.message.make_query("a.test", "A").to_wire()
        sock.sendall(struct.pack(">H", len(query)) + query)
        said = sock.recv(struct.unpack(">H", sock.recv(2, socket.MSG_WAITALL))[0], socket.MSG_WAITALL)
    gate.stop(number)

    assert dns.message.from_wire(said).answer[0][0].to_text() == stand_ins(workspace, ["a.test"])["a.test"]


def test_a_gate_that_has_no_descriptor_left_hears_of_a_runs_end() -> None:
    """It took a copy of its socket to hear it; without one it went on to try, and what the run had was never let go."""
    gate = Gate(None)
    run = Served(gate, allowing("a.test"), ("socks",))
    run.ask("socks", b"?")  # from now on it has what it needs
    held = {int(name) for name in os.listdir(f"/proc/{gate.pid}/fd")}
    least = min(set(range(len(held) + 1)) - held)
    resource.prlimit(gate.pid, resource.RLIMIT_NOFILE, (least, least))
    gate.stop(run.number)

    def is_closed() -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", run.ports["socks"])) != 0

    assert until(is_closed)
    gate.close()


def test_a_run_that_was_stopped_keeps_no_other_waiting() -> None:
    """Its warden takes no answers; more of them than a socket holds would have stopped the gate."""
    gate, (warden, theirs), door = Gate(None), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET), listener()
    place = door.getsockname()
    gate.serve(allowing("127.0.0.1"), "/ws", ("asks",), (theirs.detach(),))
    gate.serve(allowing(), "/ws", ("socks",), (door.detach(),))
    for port in range(1, 513):  # a socket holds some 280 answers
        here = socket.inet_aton("127.0.0.1")
        warden.send(QUESTION.pack(port, 5, 0, socket.AF_INET, socket.htons(port), here, 1, b"x"))
    answers = set()
    for _ in range(100):  # while the gate comes to all of those
        with socket.create_connection(place, 10) as sock:
            sock.sendall(b"\x05\x01\x00")
            answers.add(sock.recv(2))
    heard = {REPLY.unpack(warden.recv(REPLY.size))[0] for _ in range(512)}
    warden.close()
    gate.close()

    assert answers == {b"\x05\x00"}
    assert heard == {*range(1, 513)}


@pytest.mark.parametrize("place", ["_set_ident", "run"])
def test_without_memory_for_a_thread_the_gate_ends_and_nobody_waits(place: str) -> None:
    """`Thread.start` waits for a thread that ended before it had begun."""
    program = f"""
import threading
from ringfence.network.serve import end_without_threads
def fail(*_):
    raise MemoryError
setattr(threading.Thread, {place!r}, fail)
end_without_threads()
thread = threading.Thread()
print("begins", flush=True)
thread.start()
thread.join()
print("goes on", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=20, check=False)

    assert (done.stdout, done.returncode) == ("begins\n", 1)


def test_a_run_that_asked_somebody_leaves_the_next_one_all_its_doors(gate: Gate) -> None:
    """What was waited for is not waited for any more: the next socket of the same number would be taken for it."""
    heard = []
    for _ in range(2):
        with listener() as door, listener() as other:
            places = door.getsockname(), other.getsockname()
            asker, questions = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            kinds, fds = ("questions", "names", "names"), (questions.detach(), door.detach(), other.detach())
            number = gate.serve(allowing("a.test"), "/ws", kinds, fds)
        for place in places:
            with socket.create_connection(place, 10) as sock:
                query = dns.message.make_query("a.test", "A").to_wire()
                sock.sendall(struct.pack(">H", len(query)) + query)
                heard.append(len(sock.recv(2, socket.MSG_WAITALL)))
        gate.stop(number)
        asker.close()

    assert heard == [2, 2, 2, 2]


def test_a_warden_leaves_no_descriptor_at_the_gate_by_a_question() -> None:
    """One that was taken over would use up what other runs need."""
    gate, (warden, theirs) = Gate(None), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    gate.serve(allowing(), "/ws", ("asks",), (theirs.detach(),))
    held = []
    for number in range(1, 41):
        question = QUESTION.pack(number, 5, 0, socket.AF_INET, 80, socket.inet_aton("1.2.3.4"), 1, b"x")
        socket.send_fds(warden, [question], [warden.fileno()])
        warden.recv(REPLY.size)
        held.append(len(os.listdir(f"/proc/{gate.pid}/fd")))
    warden.close()
    gate.close()

    assert held[-1] == held[9]


def test_a_run_that_was_stopped_and_is_led_into_keeps_no_other_waiting() -> None:
    """Whoever connects to a port that leads into it has the gate wish for a socket, and the warden hears no wishes."""
    gate, (warden, theirs) = Gate(None), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    inward, door = listener(), listener()
    led, place = inward.getsockname(), door.getsockname()
    gate.serve(allowing("127.0.0.1"), "/ws", ("asks", "inward 8080"), (theirs.detach(), inward.detach()))
    gate.serve(allowing(), "/ws", ("socks",), (door.detach(),))
    callers = [socket.create_connection(led, 10) for _ in range(400)]  # a socket holds some 280 wishes
    with socket.create_connection(place, 10) as sock:
        sock.sendall(b"\x05\x01\x00")
        answer = sock.recv(2)
    for one in (*callers, warden):
        one.close()
    gate.close()

    assert answer == b"\x05\x00"


def test_a_run_that_has_no_way_out_leaves_nothing_open(tmp_path: Path) -> None:
    """The asker's end was left, and the ports before the one that is taken."""
    with listener() as taken, listener() as free:
        ports = free.getsockname()[1], taken.getsockname()[1]
        free.close()
        policy = load(str(tmp_path), Flags(allow_host=("a.test",), forward=ports))
        questions = os.dup(0)
        with pytest.raises(LaunchError, match="--forward"):
            Passage(policy, Host.linux(landlock_abi=7), None, {}, None, (), questions)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(questions)
        listener(port=ports[0]).close()
