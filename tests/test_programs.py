"""Ordinary work under the default policy, in a throw-away workspace: what people and agents run all day.

tests/cases/programs.toml has the short ones, on every backend; here are those that need a story.
"""

import base64
import hashlib
import os
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import ringfence
from ringfence import keep

# The system's own, for that of the tests may stand in a home that is closed; and the modules of the tests, by path.
PYTHON, SITE = "/usr/bin/python3", sysconfig.get_path("purelib")
AS_ROOT = os.geteuid() == 0
IDENTITY = {
    "GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e@example.org", "GIT_COMMITTER_NAME": "n",
    "GIT_COMMITTER_EMAIL": "e@example.org",
}  # fmt: skip
pytestmark = [pytest.mark.needs_userns, pytest.mark.slow]


class Place:
    """A workspace and a home beside it."""

    def __init__(self, path: Path) -> None:
        self.home, self.workspace = path / "home", path / "ws"
        self.home.mkdir()
        self.workspace.mkdir()

    def run(self, script: str, **limits: float | str) -> str:
        """What a script prints that must succeed."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "SHELL": "/bin/sh", **IDENTITY}
        outcome = ringfence.run(
            ["sh", "-ec", script],
            workspace=str(self.workspace),
            env=environ,
            flags=ringfence.Flags(allow_read=(sys.prefix,)),  # where the tests' own programs stand
            capture=True,
            as_root=AS_ROOT,
            timeout=50,
            limits=limits,
        )
        assert outcome.ok, (outcome.ending, outcome.stdout, outcome.stderr)
        return (outcome.stdout or b"").decode().strip()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = Place(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    yield made
    keep.forget_all()


def test_git_rebases_and_works_in_another_tree(place: Place) -> None:
    said = place.run(
        """
        git init -q -b main . && echo 1 > one && git add one && git commit -qm one
        git checkout -qb side && echo 2 > two && git add two && git commit -qm two
        git checkout -q main && echo 3 > three && git add three && git commit -qm three
        git checkout -q side && git rebase -q main
        git worktree add -q -b other tree && cd tree && echo 4 > four && git add four && git commit -qm four
        git rebase -q -x 'test -f one' main && git log --format=%s | tr '\\n' ' '
        """
    )

    assert said == "four two three one"


def wheel(path: Path) -> None:
    """A package of one module, as an index would have it."""
    files = {
        "answer.py": "VALUE = 42\n",
        "answer-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: answer\nVersion: 1.0\n",
        "answer-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip('=')},{len(text)}\n"
        for name, text in files.items()
    )
    with zipfile.ZipFile(path / "answer-1.0-py3-none-any.whl", "w") as archive:
        for name, text in {**files, "answer-1.0.dist-info/RECORD": record + "answer-1.0.dist-info/RECORD,,\n"}.items():
            archive.writestr(name, text)


def test_pip_installs_into_an_environment(place: Place) -> None:
    wheel(place.workspace)

    said = place.run(
        f"""
        {PYTHON} -m venv --without-pip v
        PYTHONPATH={SITE} {PYTHON} -m pip --python v/bin/python install -q --no-index --find-links . answer 2>/dev/null
        v/bin/python -c 'import answer; print(answer.VALUE)'
        """
    )

    assert said == "42"


def test_uv_installs_into_an_environment_again_from_its_own_cache(place: Place) -> None:
    uv = Path(sys.executable).with_name("uv")
    (place.home / ".cache" / "uv").mkdir(parents=True)
    wheel(place.workspace)
    script = f"""
        {uv} venv -q --offline --python {PYTHON} v
        {uv} pip install -q --offline --no-index --find-links . --python v/bin/python answer
        v/bin/python -c 'import answer; print(answer.VALUE)'; rm -r v
        """

    assert place.run(script) == "42"
    assert place.run(script) == "42"
    assert [*(place.home / ".cache" / "uv").iterdir()] == []


def test_pytest_with_processes(place: Place) -> None:
    (place.workspace / "test_x.py").write_text(
        "import multiprocessing, concurrent.futures as f\n"
        "def test_pool():\n    with multiprocessing.Pool(3) as pool:\n        assert pool.map(abs, [-1, 2]) == [1, 2]\n"
        "def test_executor():\n    with f.ProcessPoolExecutor(2, multiprocessing.get_context('spawn')) as pool:\n"
        "        assert list(pool.map(abs, [-1])) == [1]\n"
    )

    assert "2 passed" in place.run(
        f"PYTHONPATH={SITE} {PYTHON} -m pytest -q -p no:cacheprovider -p no:randomly test_x.py"
    )


def test_make_builds_many_at_once(place: Place) -> None:
    names = [f"f{number}" for number in range(12)]
    for name in names:
        (place.workspace / f"{name}.c").write_text(f"int {name}(void) {{ return 1; }}\n")
    calls = " + ".join(f"{name}()" for name in names)
    declared = "".join(f"int {name}(void);" for name in names)
    main = f'#include <stdio.h>\n{declared}\nint main(void) {{ printf("%d\\n", {calls}); return 0; }}\n'
    (place.workspace / "main.c").write_text(main)
    objects = " ".join(f"{name}.o" for name in ["main", *names])
    (place.workspace / "Makefile").write_text(f"main: {objects}\n\tcc -o $@ $^\n")

    assert place.run("make -s -j4 && ./main", processes=64, memory="1G") == "12"


SERVER = """
import socket, sys
family = socket.AF_UNIX if sys.argv[1] == "unix" else socket.AF_INET
with socket.socket(family) as server:
    server.bind("socket" if family == socket.AF_UNIX else ("127.0.0.1", 8080))
    server.listen()
    print("ready", flush=True)
    with server.accept()[0] as client:
        client.sendall(client.recv(100).upper())
"""
CLIENT = """
import socket, sys
family = socket.AF_UNIX if sys.argv[1] == "unix" else socket.AF_INET
with socket.socket(family) as client:
    client.connect("socket" if family == socket.AF_UNIX else ("127.0.0.1", 8080))
    client.sendall(b"hello")
    print(client.recv(100).decode())
"""


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_a_server_and_its_client_find_each_other(place: Place, family: str) -> None:
    (place.workspace / "server.py").write_text(SERVER)
    (place.workspace / "client.py").write_text(CLIENT)

    said = place.run(
        f"""
        mkfifo ready; {PYTHON} server.py {family} > ready & read word < ready
        {PYTHON} client.py {family}; wait
        """
    )

    assert said == "HELLO"


def test_tmux_runs_a_window_nobody_looks_at(place: Place) -> None:
    said = place.run(
        """
        tmux -f /dev/null new-session -d 'echo inside > out; tmux wait-for -S done; sleep 100'
        tmux wait-for done; cat out; tmux kill-server
        """
    )

    assert said == "inside"
