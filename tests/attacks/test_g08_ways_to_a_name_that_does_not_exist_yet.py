"""G8, F20, F25: `a/b/c` is denied and nothing of it exists. Whatever way leads to something being there is closed."""

import os
import subprocess
import time

import pytest
from tests.attacks.conftest import PYTHON, Field, Ground, as_user

import ringfence

# Each makes `a/b/c` be there, in its own way; `evil/b/c` is what shall stand there.
WAYS = {
    "plainly": 'os.makedirs("a/b"); write("a/b/c")',
    "as a directory": 'os.makedirs("a/b/c")',
    "by a descriptor": 'os.makedirs("a/b"); fd = os.open("a/b", os.O_RDONLY); os.close(os.open("c", 65, dir_fd=fd))',
    "from inside": 'os.makedirs("a/b"); os.chdir("a/b"); write("c")',
    "by /proc": 'os.makedirs("a/b"); os.chdir("a/b"); write("/proc/self/cwd/c")',
    "by a link on the way": 'os.makedirs("a/b"); os.symlink("a/b", "short"); write("short/c")',
    "by a link that dangles": 'os.makedirs("a/b"); os.symlink("a/b/c", "short"); write("short")',
    "by a link at its place": 'evil(); os.symlink("evil", "a")',
    "by a second name of a link": 'evil(); os.symlink("evil", "s"); os.link("s", "a", follow_symlinks=False)',
    "by a link that is moved": 'evil(); os.symlink("evil", "s"); os.rename("s", "a")',
    "by a tree that is moved": 'evil(); os.rename("evil", "a")',
    "by a tree moved deeper": 'evil(); os.mkdir("a"); os.rename("evil/b", "a/b")',
    "by an exchange": 'evil(); os.mkdir("a"); checked(libc.renameat2(-100, b"evil", -100, b"a", 2))',
    "by an exchange backwards": 'evil(); os.mkdir("a"); checked(libc.renameat2(-100, b"a", -100, b"evil", 2))',
    "by a file that is moved": 'evil(); os.makedirs("a/b"); os.rename("evil/b/c", "a/b/c")',
    "by a second name": 'evil(); os.makedirs("a/b"); os.link("evil/b/c", "a/b/c")',
    "by a file without a name": """
os.makedirs("a/b")
fd = os.open("src", os.O_TMPFILE | os.O_WRONLY, 0o644)
checked(libc.linkat(fd, b"", -100, b"a/b/c", 0x1000))""",
    "as a pipe": 'os.makedirs("a/b"); os.mkfifo("a/b/c")',
    "as a node": 'os.makedirs("a/b"); os.mknod("a/b/c", 0o100644)',
    "as a socket": 'import socket; os.makedirs("a/b"); socket.socket(socket.AF_UNIX).bind("a/b/c")',
    "made, moved and moved back": """
os.makedirs("a/b"); os.rename("a", "z"); write("z/b/c"); os.rename("z", "a")""",
    "where nobody may look": """
os.makedirs("a/b"); fd = os.open("a/b", os.O_RDONLY); os.chmod("a", 0)
try:
    os.close(os.open("c", 65, dir_fd=fd))
finally:
    os.chmod("a", 0o755)""",
    "removed and made again": 'os.makedirs("a/b"); os.removedirs("a/b"); os.makedirs("a/b"); write("a/b/c")',
    "after many times": """
for _ in range(200):
    os.mkdir("a"); os.rmdir("a")
os.makedirs("a/b"); write("a/b/c")""",
    "with flags nobody has": """
os.makedirs("a/b"); syscall(NR.openat, -100, b"a/b/c", (0xABCD << 32) | 65, 0o644)""",
    "with a slash": 'os.makedirs("a/b"); os.mkdir("a/b/c/")',
    "by a thread that flips the path": """
import threading, time
os.makedirs("a/b"); os.makedirs("q/b")
text = ctypes.create_string_buffer(b"q/b/c")
stop = []
def flip():
    while not stop:
        ctypes.memset(text, ord("a"), 1); ctypes.memset(text, ord("q"), 1)
thread = threading.Thread(target=flip); thread.start()
end = time.monotonic() + 1
while time.monotonic() < end and not os.path.lexists("a/b/c"):
    fd = libc.open(text, 65, 0o644)
    if fd >= 0:
        os.close(fd)
        if os.path.lexists("q/b/c"): os.unlink("q/b/c")
stop.append(1); thread.join()""",
}
PROGRAM = """
def evil():
    os.makedirs("evil/b"); write("evil/b/c")
def way():
    exec(EXTRA[0], globals())
    if not os.path.lexists(WS + "/a/b/c"):
        raise OSError(errno.ENOENT, "it is not there")
attempt("it is there", way)
"""


def denied(ground: Ground) -> dict[str, tuple[str, ...]]:
    return {"deny_write": (str(ground.workspace / "a/b/c"),)}


@pytest.mark.parametrize("way", WAYS)
def test_a_denied_name_is_not_there_afterwards(field: Field, way: str) -> None:
    program = PROGRAM.replace("EXTRA[0]", repr(WAYS[way])) + f"\n# {' '.join(WAYS[way].split())}"  # for its numbers
    field.repels(program, denied=denied)


ALL_WAYS = """
def evil():
    os.makedirs("evil/b"); write("evil/b/c")
for top in ("one", "two", "three"):
    for number, way in enumerate(WAYS):
        place = f"{WS}/{top}/w{number}"
        os.makedirs(place + "/src")
        os.chdir(place)
        try:
            exec(way, globals())
        except OSError:
            pass
        attempt(f"{top} {number}", lambda: os.lstat(place + "/a/b/c"))
"""


def test_nor_where_it_is_denied_by_a_pattern(field: Field) -> None:
    """All the ways, each in a directory of its own: bare they are done above."""
    ways = [way for name, way in WAYS.items() if "thread" not in name and "many" not in name]  # they take longer
    ground = field.ground()
    program = ALL_WAYS.replace("WAYS", repr(ways)) + "\n# NR.openat"
    patterns = ("one/*/a/b/c", "two/**/a/b/c", "three/w*/a/**/c")
    seen = field.program(ground, program, deny_write=tuple(str(ground.workspace / one) for one in patterns))
    assert set(seen.answers.values()) == {"ENOENT"}, seen.said
    assert len(seen.answers) == 3 * len(ways)


STARRED = """
os.makedirs("evil/q/x"); write("evil/q/x/c"); os.mkdir("p")
def moved():
    os.symlink("../evil", "src/link"); os.rename("src/link", "p/two"); os.stat("p/two/q/x/c")
attempt("link", lambda: (os.symlink("../evil", "p/one"), os.stat("p/one/q/x/c")))
attempt("moved", moved)
"""


def test_nor_by_a_link_where_a_star_stands_before_any_depth(field: Field) -> None:
    field.repels(STARRED, denied=lambda ground: {"deny_write": (str(ground.workspace / "p/*/q/**/c"),)})


def test_a_directory_that_another_run_made_is_watched_too(field: Field) -> None:
    """What is known of the disk is kept for seconds: the second run is planned as if there were nothing yet."""
    if field.walls.backend == "landlock":
        return  # nothing is made in such a directory at all: above
    ground = field.ground()
    words = [PYTHON, "-c", "import os, sys; os.makedirs('a/b', exist_ok=True); sys.argv[1:] and open('a/b/c', 'w')"]
    flags = ringfence.Flags(cwd=str(ground.workspace), **denied(ground))  # type: ignore[arg-type]

    def run(*more: str) -> int:
        return ringfence.run(
            [*words, *more], workspace=str(ground.workspace), flags=flags, capture=True, as_root=ground.uid == 0
        ).exit_code

    assert subprocess.run([*as_user(ground.uid), *words, "c"], cwd=ground.workspace).returncode == 0
    subprocess.run(["rm", "-r", ground.workspace / "a"], check=True)
    assert run() == 0
    assert run("c") == 1
    assert not (ground.workspace / "a/b/c").exists()


def test_a_directory_made_outside_while_it_runs_is_watched_too(field: Field) -> None:
    """By a run beside it, or by the user: planned and started when there was nothing."""
    if field.walls.backend == "landlock":
        return  # nothing is made in such a directory at all: above
    ground = field.ground()
    waits = """
import time
write("begun")
while not os.path.isdir("a/b"):
    time.sleep(0.01)
attempt("made", lambda: write("a/b/c"))
"""

    def make(_stop: object) -> None:
        while not (ground.workspace / "begun").exists():
            time.sleep(0.01)
        (ground.workspace / "b").mkdir()
        os.chown(ground.workspace / "b", ground.uid, ground.gid)
        (ground.workspace / "new").mkdir()
        os.rename(ground.workspace / "b", ground.workspace / "new" / "b")
        os.rename(ground.workspace / "new", ground.workspace / "a")

    ground.thread(make)
    assert field.program(ground, waits, **denied(ground)).answers == {"made": "EACCES"}
