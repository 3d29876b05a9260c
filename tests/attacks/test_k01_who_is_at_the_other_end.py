"""K1, K9, K11: who is at the other end of a socket on descriptor 0 is held by a pidfd (SO_PEERPIDFD), in whatever
namespace, and so can be ended and entered, and its descriptors taken."""

import socket
import subprocess
from collections.abc import Sequence

import pytest
from tests.attacks.conftest import PYTHON, Field, Ground, answers, as_user, ringfence_words, said, source

PROGRAM = """
import fcntl, signal, socket
peer = socket.socket(fileno=os.dup(0)).getsockopt(socket.SOL_SOCKET, 77)
reach("its mounts", lambda: fcntl.ioctl(peer, 0xFF03))
attempt("take a descriptor", lambda: syscall(NR.pidfd_getfd, peer, 0, 0))
attempt("continue", lambda: signal.pidfd_send_signal(peer, signal.SIGCONT))
attempt("end", lambda: signal.pidfd_send_signal(peer, signal.SIGTERM))
"""
VICTIM = """
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
print(flush=True)
kept = s.accept()
time.sleep(60)
"""


def tried(ground: Ground, words: Sequence[str]) -> tuple[dict[str, str], bool]:
    path = str(ground.outside / "listens")
    victim = subprocess.Popen([*as_user(ground.uid), PYTHON, "-I", "-S", "-c", VICTIM, path], stdout=subprocess.PIPE)
    assert victim.stdout is not None
    with victim, socket.socket(socket.AF_UNIX) as sock:
        try:
            victim.stdout.readline()
            sock.connect(path)
            whole = [*words, PYTHON, "-I", "-S", "-c", source(PROGRAM), "", "", ""]
            seen = said(whole, ground.workspace, stdin=sock.fileno())
            ended = answers(seen.out).get("end") == "done" and victim.wait(10) is not None
            return answers(seen.out), ended
        finally:
            victim.kill()


@pytest.mark.needs_yama(0)  # above, the kernel refuses it bare
def test_nobody_is_reached_who_is_at_the_other_end(field: Field) -> None:
    bare = field.ground()
    bare.own()
    ground = field.ground()
    ground.own()

    before = tried(bare, as_user(bare.uid))
    if not before[0]:
        return  # older than Linux 6.5
    after = tried(ground, ringfence_words(field.walls))

    assert set(before[0].values()) == {"done"}, before
    assert before[1], "the attack must be able to harm"
    assert after[0].keys() == before[0].keys(), after
    assert "done" not in after[0].values(), after
    assert not after[1]
