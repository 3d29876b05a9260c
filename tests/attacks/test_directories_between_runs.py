"""A directory of one run in the hands of another: when the first has ended, the mounts that hid things in it are gone.

So descriptors must not pass between two runs of one workspace, which are beside one another or one asked for the other:
not through a stream that is a socket, nor through one at a path. Bare, each of the two gives what it is asked for.
"""

import contextlib
import os
import random
import shlex
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from tests.attacks.everybody import RUN
from tests.attacks.everybody import installed as installed
from tests.attacks.everybody import workspace as workspace
from tests.attacks.test_siblings import Outer

pytestmark = [pytest.mark.usefixtures("installed"), pytest.mark.needs_userns]

COMMON = """
import array, os, socket, subprocess, sys, time
secret, *run = sys.argv[1:]

def given(link):
    link.settimeout(0.2)
    rights = link.recvmsg(1, socket.CMSG_SPACE(4))[1]
    return array.array("i", rights[0][2])[0] if rights else -1

def show(directory):
    try:
        print(os.read(os.open(secret.lstrip("/"), os.O_RDONLY, dir_fd=directory), 99).decode(), flush=True)
    except OSError as error:
        print(error, flush=True)
"""

BY_A_STREAM = (
    COMMON
    + """
giving = '''
import array, os, socket
link = socket.socket(fileno=0)
link.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [os.open("/", os.O_RDONLY)]))])
'''
ours, theirs = socket.socketpair()
process = subprocess.Popen([*run, "/usr/bin/python3", "-c", giving], stdin=theirs, stderr=subprocess.DEVNULL)
theirs.close()
process.wait()
directory = given(ours)
time.sleep(0.3)
show(directory)
"""
)

# One binds a name and removes it, so that the other's socket is given its number; and while it connects there it says
# something already. Most file systems give it out at once.
BY_A_PATH = (
    COMMON
    + """
giving = '''
import array, os, signal, socket, sys, time
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [os.open("/", os.O_RDONLY)]))]
for line in sys.stdin:
    link = socket.socket(socket.AF_UNIX)
    if line == "bind\\\\n":
        link.bind("mine")
        link.close()
        os.unlink("mine")
    else:
        child = os.fork()
        while not child:
            try:
                link.sendmsg([b"x"], rights)
                os._exit(0)
            except BrokenPipeError:
                os._exit(0)
            except OSError:
                pass
        time.sleep(0.003)
        try:
            link.connect("theirs")
            time.sleep(0.01)
        except OSError:
            pass
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    print(flush=True)
'''
process = subprocess.Popen([*run, "/usr/bin/python3", "-c", giving], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
directory, number = -1, 0
while directory < 0 and number < 150:
    number += 1
    for word in (b"bind\\n", b"connect\\n"):
        if word == b"connect\\n":
            door = socket.socket(socket.AF_UNIX)
            door.bind("theirs")
            door.listen()
            door.setblocking(False)
        process.stdin.write(word)
        process.stdin.flush()
        process.stdout.readline()
    try:
        directory = given(door.accept()[0])
    except OSError:
        pass
    door.close()
    os.unlink("theirs")
process.stdin.close()
process.wait()
time.sleep(0.3)
show(directory)
"""
)


# The inner one says which socket it wants to reach: a grant inside what it denies itself is a mount of its own.
BY_A_GRANT = (
    COMMON
    + """
giving = '''
import array, os, socket
link = socket.socket(socket.AF_UNIX)
link.connect("sub/theirs")
link.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [os.open("/", os.O_RDONLY)]))])
'''
door = socket.socket(socket.AF_UNIX)
door.bind("sub/theirs")
door.listen()
door.settimeout(3)
here = os.getcwd()
flags = ["--deny-read", f"{here}/sub", "--allow-read", f"{here}/sub/theirs", "--allow-write", f"{here}/sub/theirs"]
run = [*run[:-1], *flags, "--"] if run else []
process = subprocess.Popen([*run, "/usr/bin/python3", "-c", giving], stderr=subprocess.DEVNULL)
try:
    directory = given(door.accept()[0])
except OSError:
    directory = -1
process.wait()
os.unlink("sub/theirs")
time.sleep(0.3)
show(directory)
"""
)


# Where somebody allows a unix socket there are datagrams too, and nobody judges where they go.
BY_DATAGRAMS = (
    COMMON
    + """
giving = '''
import array, os, socket
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [os.open("/", os.O_RDONLY)]))]
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendmsg([b"x"], rights, 0, "mine")
'''
door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
door.bind("mine")
subprocess.run([*run, "/usr/bin/python3", "-c", giving], stderr=subprocess.DEVNULL)
time.sleep(0.3)
try:
    show(given(door))
except OSError as error:
    print(error)
"""
)


def test_where_datagrams_pass_nothing_is_started_beside_a_run(workspace: Path) -> None:
    outer = Outer(workspace, "view")
    secret, service = outer.home / "secret", workspace.parent / "outside" / "service"
    secret.write_text("the-secret\n")
    secret.chmod(0o644)
    (workspace / "attack.py").write_text(BY_DATAGRAMS)
    words = ["/usr/bin/python3", "-I", "attack.py", str(secret)]

    bare = subprocess.run(words, cwd=workspace, env=outer.environ, capture_output=True, text=True, timeout=30)
    (workspace / "mine").unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(service))
        service.chmod(0o777)
        listening.listen()
        allowed = ("--allow-socket", str(service))
        _, said = outer.run(*allowed, script=shlex.join([*words, *RUN, *allowed, "--"]), stderr=subprocess.DEVNULL)

    assert "the-secret" in bare.stdout, bare.stderr
    assert said
    assert "the-secret" not in said


@pytest.mark.parametrize(
    "program", [BY_A_STREAM, BY_A_PATH, BY_A_GRANT], ids=["by a stream", "by a path", "by a grant"]
)
def test_no_directory_passes_between_runs(workspace: Path, program: str) -> None:
    outer = Outer(workspace, "view")
    secret = outer.home / "secret"
    secret.write_text("the-secret\n")
    secret.chmod(0o644)
    (workspace / "attack.py").write_text(program)
    words = ["/usr/bin/python3", "-I", "attack.py", str(secret)]

    bare = subprocess.run(words, cwd=workspace, env=outer.environ, capture_output=True, text=True, timeout=30)
    _, said = outer.run(script=shlex.join([*words, *RUN, "--"]), stderr=subprocess.DEVNULL)

    assert "the-secret" in bare.stdout, bare.stderr
    assert said
    assert "the-secret" not in said


# A name is bound, and before the warden has looked at it another run has put a listening socket of its own there: by
# somebody outside here, who does the same. What is said is heard there or is not.
PLANTED = """
import os, socket, time
end, bound = time.monotonic() + 4, 0
while time.monotonic() < end:
    door, link = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    try:
        os.unlink("mine")
        door.bind("mine")
        bound += 1
        door.listen()
        link.connect("mine")
        link.send(b"x")
    except OSError:
        pass
print(bound)
"""


@pytest.mark.parametrize("inside", [False, True], ids=["bare", "inside"])
def test_what_takes_the_place_of_a_name_just_bound_is_not_spoken_to(workspace: Path, inside: bool) -> None:
    outer = Outer(workspace, "view")
    (workspace / "attack.py").write_text(PLANTED)
    words = ["/usr/bin/python3", "-I", "attack.py"]
    over, heard, names = threading.Event(), list[bytes](), list[bytes]()

    def plant() -> None:
        while not over.is_set():
            os.link(workspace / "theirs", workspace / "planted")
            os.rename(workspace / "planted", workspace / "mine")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(workspace / "planted")  # it was there already: a second name of the same file is no change
            time.sleep(random.uniform(0, 0.0004))

    def hear(listening: socket.socket) -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                link, name = listening.accept()
                names.append(name)
                with link:
                    link.settimeout(0.01)
                    heard.append(link.recv(9))

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(workspace / "theirs"))
        (workspace / "theirs").chmod(0o777)
        listening.listen(128)
        listening.settimeout(0.1)
        threads = [threading.Thread(target=plant), threading.Thread(target=hear, args=(listening,))]
        for thread in threads:
            thread.start()
        if inside:
            said = outer.run(script=shlex.join(words), stderr=subprocess.DEVNULL)[1]
        else:
            said = subprocess.run(words, cwd=workspace, capture_output=True, text=True, timeout=30).stdout
        over.set()
        for thread in threads:
            thread.join()

    assert int(said) > 10
    assert (b"x" in heard) is not inside
    # Only the warden has come then, to see who listens, by a name that must not be found twice: of the million that the
    # kernel gives, two runs that have their wardens come to one another again and again saw two alike in some minutes.
    assert not inside or {len(name) for name in names} == {17}, names
