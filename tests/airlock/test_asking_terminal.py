"""A person at a terminal is asked, answers, and is asked nothing the second time; and one in another terminal."""

import json
import os
import re
import select
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.airlock.asked import AS_ROOT, PYTHON, Place
from tests.looking import common_place
from tests.test_terminal import Person

from ringfence import asking

pytestmark = [pytest.mark.needs_userns, pytest.mark.needs_landlock(6)]
CHOICE = r"target: $"


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir=common_place(), prefix="rf-ask-") as base:
        yield Place(Path(base), "view")


@pytest.fixture(params=["view", "landlock"])
def each(request: pytest.FixtureRequest) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir=common_place(), prefix="rf-ask-") as base:
        yield Place(Path(base), request.param)


people: list[Person] = []


@pytest.fixture(autouse=True)
def _nobody_stays() -> Iterator[None]:
    yield
    while people:
        people.pop().close()


def sit(words: list[str], place: Place) -> Person:
    people.append(Person(words, place.workspace))
    return people[-1]


def at(place: Place, *argv: str, options: tuple[str, ...] = ()) -> Person:
    return sit(place.run_words("--ask", *options, "--", *argv), place)


def test_one_more_directory_and_one_more_host(place: Place, port: int) -> None:
    """The whole story: asked, answered, completed; the second time nothing is asked; revoked, and refused again."""
    place.with_hosts("127.0.0.1 localhost more.test\n")
    program = f"""
import socket
print(open("../home/data/one").read() + open("../home/data/two").read())
print(socket.create_connection(("more.test", {port})).recv(100).decode())
"""
    words = place.run_words("--ask", "--", PYTHON, "-I", "-S", "-c", program)
    person = sit(words, place)
    mark = person.sees(r"the word [0-9a-f]{4}")[-4:]
    person.sees(rf"asks \[{mark}\]: read {place.home}/data/one")
    person.sees(rf"p: --allow-read {place.home}/data/one in {place.workspace}, until it is revoked")
    person.sees(CHOICE)
    person.type("+\r")
    person.sees(rf"p: --allow-read {place.home}/data in {place.workspace}")
    person.sees(CHOICE)
    person.type("p\r")
    person.sees(r"allow \(terminal\)")
    person.sees(r"one\r\ntwo")
    person.sees(rf"connect more.test:{port}")
    person.sees(CHOICE)
    person.type("p\r")
    person.sees(rf"connect 127.0.0.1:{port}")  # the name leads to this machine, which must be named itself
    person.sees(CHOICE)
    person.type("p\r")
    person.sees("hello from outside")
    assert person.code() == 0

    person = sit(words, place)
    person.sees("hello from outside")
    assert person.code() == 0
    assert b"asks" not in person.rest()

    grants = json.loads(place.approvals("list", "--json"))["grants"]
    assert sorted(grant["target"] for grant in grants) == sorted(
        [str(place.home / "data"), f"more.test:{port}", f"127.0.0.1:{port}"]
    )
    place.approvals("revoke", *(grant["id"] for grant in grants))
    person = sit(words, place)
    person.sees(rf"read {place.home}/data/one")
    person.sees(CHOICE)
    person.type("d\r")
    person.sees("Permission denied|PermissionError")
    assert person.code() == 1


def test_what_the_command_writes_waits_with_the_question(each: Place) -> None:
    program = """
import os, threading, time
def shout():
    while True:
        os.write(1, b"FAKE asks: [y]es \\x1b[2J")
        time.sleep(0.005)
threading.Thread(target=shout, daemon=True).start()
time.sleep(0.1)
print(open("../home/data/one").read())
os._exit(0)
"""
    person = at(each, PYTHON, "-I", "-S", "-c", program)
    person.sees("FAKE")
    person.sees(CHOICE)
    assert not select.select([person.ours], [], [], 0.5)[0]
    person.type("o\r")
    person.sees("FAKE")
    assert person.code() == 0


def test_keys_for_the_command_answer_nothing(each: Place) -> None:
    """What was typed before the question was for somebody else."""
    person = at(each, "sh", "-c", "echo here; until test -e typed; do :; done; cat ../home/data/one; echo end")
    person.sees("here")
    person.type("a\ra\r")
    (each.workspace / "typed").touch()
    person.sees(CHOICE)
    assert not select.select([person.ours], [], [], 0.3)[0]
    person.type("d\r")
    person.sees("Permission denied")
    person.sees("end")
    person.code()


def test_ctrl_c_ends_the_wait_at_once(each: Place) -> None:
    program = """
try:
    open("../home/data/one")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    person = at(each, PYTHON, "-I", "-S", "-c", program)
    person.sees(CHOICE)
    begun = time.monotonic()
    person.type("\x03")
    person.sees("interrupted")
    assert time.monotonic() - begun < 30  # a question waits for minutes
    assert person.code() == 0


def test_a_name_steers_no_terminal(place: Place) -> None:
    (place.home / "data/\x1b[2Jo\nne").write_text("x")
    person = at(place, "sh", "-c", "cat ../home/data/*2J*")
    person.sees(rf"list {place.home}/data")
    person.sees(CHOICE)
    person.type("o\r")
    shown = person.sees("(?s).*" + re.escape(r"\x1b[2Jo\nne") + f".*?{CHOICE}")
    assert "\x1b[2J" not in shown
    person.type("d\r")
    person.code()


def asked(place: Place, count: int) -> asking.Waiting:
    """Wait until so many questions are open."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for waiting in asking.waiting(place.environ()):
            if len(waiting.questions) == count:
                return waiting
        time.sleep(0.05)
    raise AssertionError("not so many")


def test_many_questions_are_one_list(place: Place) -> None:
    for number in range(50):
        (place.home / f"data/f{number}").write_text("x")
    program = """
import os, time
for number in range(50):
    if not os.fork():
        while number and not os.path.exists("go"):
            time.sleep(0.01)
        try:
            open(f"../home/data/f{number}")
        except OSError:
            os._exit(1)
        os._exit(0)
print(sum(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(50)))
"""
    person = at(place, PYTHON, "-I", "-S", "-c", program)
    person.sees(r"target: $")
    (place.workspace / "go").touch()
    asked(place, 50)
    person.type("o\r")
    person.sees(r"asks \[....\]: \d\d questions")
    person.sees(r"\d+ read .*/data/f")
    person.sees(r"number of one: $")
    person.type("s\r")
    person.sees(r"\r\n0\r\n")
    assert person.code() == 0


def test_nobody_at_the_terminal_for_too_long(place: Place) -> None:
    person = at(place, "cat", "../home/data/one", options=("--ask-timeout", "1s"))
    person.sees(CHOICE)
    person.sees(r"deny \(deadline\)")
    person.sees("Permission denied")
    person.sees("--allow-read")
    assert person.code() == 1


def test_in_the_background_nobody_is_asked_until_it_comes_to_the_front(place: Place) -> None:
    """Whoever has the terminal then keeps it, and its settings."""
    line = " ".join(map(shlex.quote, place.run_words("--ask", "--", "cat", "../home/data/one")))
    person = sit(["/bin/sh", "-i"], place)
    person.type(f"{line} &\r")
    asked(place, 1)
    before = person.settings()
    person.type("echo still $((40 + 2))\r")
    person.sees("still 42")
    assert b"target: " not in person.seen
    assert person.settings() == before
    person.type("fg\r")
    person.sees(CHOICE)
    person.type("o\r")
    person.sees(r"\none\r")
    person.sees(r"outer\$ ")
    person.type("exit\r")
    person.code()


def silent(place: Place, *argv: str) -> "subprocess.Popen[str]":
    """A run that asks, with nobody at its terminal."""
    return subprocess.Popen(
        place.run_words("--ask", "--", *argv), cwd=place.workspace, env=place.environ(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def test_from_another_terminal(each: Place) -> None:
    watch = sit(each.words("approvals", "watch"), each)
    watch.sees("waiting for questions")
    run = silent(each, "sh", "-c", "cat ../home/data/one; cat ../home/data/two")
    watch.sees(rf"sh -c cat .* in {each.workspace}:")
    watch.sees(rf"read {each.home}/data/one")
    watch.sees(CHOICE)
    watch.type("o\r")
    watch.sees(rf"read {each.home}/data/two")
    watch.sees(CHOICE)
    watch.type("d\r")
    out, _ = run.communicate(timeout=60)
    assert (run.returncode, out) == (1, "one\n")
    watch.type("\x03")
    assert watch.code() == 0


def test_a_run_that_is_killed_while_it_asks_does_not_end_who_watches(each: Place) -> None:
    watch = sit(each.words("approvals", "watch"), each)
    watch.sees("waiting for questions")
    run = silent(each, "cat", "../home/data/one")
    watch.sees(CHOICE)
    run.kill()
    run.communicate(timeout=60)
    watch.sees("nobody waits for it any more")
    watch.type("\x03")
    assert watch.code() == 0


def test_from_python(each: Place) -> None:
    environ = each.environ()
    run = silent(each, "cat", "../home/data/one")
    waiting = asked(each, 1)
    assert waiting.workspace == str(each.workspace)
    assert waiting.command == ("cat", "../home/data/one")
    (question,) = waiting.questions
    number = str(question["query_id"])
    assert asking.answer(waiting.run, "99", "allow", environ=environ)["state"] == "gone"
    refused = asking.answer(waiting.run, number, "allow", target=str(each.home / "other"), environ=environ)
    assert refused["state"] == "refused"
    said = asking.answer(waiting.run, number, "allow", environ=environ)
    assert (said["state"], said["by"]) == ("answered", "watch")
    assert run.communicate(timeout=60)[0] == "one\n"
    assert asking.waiting(environ) == []
    assert asking.answer(waiting.run, number, "allow", environ=environ)["state"] == "gone"


def test_root_asks_nobody_for_another_owner(place: Place) -> None:
    if not AS_ROOT:
        return  # only root runs for others
    os.chown(place.workspace, 65534, 65534)
    words = place.words("run", "--workspace", str(place.workspace), "--ask", "--", "true")
    done = subprocess.run(words, env=place.environ(), cwd=place.workspace, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "root asks nobody" in done.stderr
