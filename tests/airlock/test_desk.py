"""What a person is shown, and what is meant by what is typed, without a terminal."""

import pytest

from ringfence.airlock.lines import Line
from ringfence.cli.desk import MANY, MOST_LISTED, Desk


def query(number: int, path: str = "", **more: object) -> Line:
    path = path or f"/home/me/d{number}/f"
    above = path.rpartition("/")[0]
    return {
        "state": "query",
        "query_id": str(number),
        "operation": "read",
        "path": path,
        "choices": [path, above],
        **more,
    }


def asked(count: int) -> Desk:
    desk = Desk("word")
    for number in range(1, count + 1):
        desk.hear("run", "/ws", query(number))
    return desk


def test_one_after_the_other() -> None:
    desk = asked(2)
    assert "read /home/me/d1/f" in desk.show()
    assert "[word]" in desk.show()
    assert desk.typed("p") == [
        ("run", {"query_id": "1", "action": "allow", "scope": "project", "target": "/home/me/d1/f"})
    ]
    assert (
        desk.hear("run", "/ws", {"state": "answered", "query_id": "1", "action": "allow", "by": "x"}) == "  allow (x)"
    )
    assert "read /home/me/d2/f" in desk.show()
    assert desk.typed("once") == [("run", {"query_id": "2", "action": "allow", "scope": "once"})]
    assert desk.typed("d") == [("run", {"query_id": "2", "action": "deny", "scope": "once"})]
    assert desk.typed("n") == [("run", {"query_id": "2", "action": "deny", "scope": "run"})]


@pytest.mark.parametrize("text", ["", " ", "x", "yes", "allow", "oo", "1", "\x1b[A", "p p", "é"])
def test_what_means_nothing_answers_nothing(text: str) -> None:
    desk = asked(1)
    before = desk.show()
    assert desk.typed(text) == []
    note = desk.show().removesuffix(before)
    assert note.strip() == ("" if not text.strip() else NOTE if text == "yes" else "another target begins with / or ~")
    assert desk.show() == before


NOTE = "a yes is o, s, p or a, by how long it is to hold; a no is d"


@pytest.mark.parametrize("text", ["y", "Yes", "no", "ok"])
def test_a_yes_or_no_is_no_host(text: str) -> None:
    """It was taken for another target, and the next `p` would have stored a host of that name."""
    desk = Desk()
    line: Line = {"state": "query", "query_id": "1", "kind": "network", "operation": "connect", "target": "x.org:443"}
    desk.hear("run", "/ws", line)
    before = desk.show()
    assert desk.typed(text) == []
    assert desk.show() == f"  {NOTE}\n{before}"


def test_wider_narrower_and_another_target() -> None:
    desk = asked(1)
    desk.show()
    assert desk.typed("+") == []
    assert "p: --allow-read /home/me/d1 in /ws" in desk.show()
    assert desk.typed("+") == []
    assert desk.typed("o") == [("run", {"query_id": "1", "action": "allow", "scope": "once", "target": "/home/me/d1"})]
    assert desk.typed("-") == []
    assert "p: --allow-read /home/me/d1/f in /ws" in desk.show()
    assert desk.typed("/home/me") == []
    assert "a: --allow-read /home/me in every workspace" in desk.show()


def test_a_number_means_the_line_that_was_shown() -> None:
    """Also when somebody else has answered one above it meanwhile."""
    desk = asked(MANY + 2)
    assert f"{MANY + 2} questions" in desk.show()
    assert desk.hear("run", "/ws", {"state": "answered", "query_id": "1", "action": "deny", "by": "watch"}) == ""
    assert desk.typed("3") == []
    assert "read /home/me/d3/f" in desk.show()
    desk = asked(MANY + 2)
    desk.show()
    desk.hear("run", "/ws", {"state": "withdrawn", "query_id": "2"})
    assert desk.typed("2") == []  # which is gone: the list again
    assert f"{MANY + 1} questions" in desk.show()
    assert len(desk.typed("s")) == MANY + 1


def test_after_three_in_one_directory_the_directory_is_proposed() -> None:
    desk = Desk()
    for number in range(1, 5):
        desk.hear("run", "/ws", query(number, f"/home/me/d/f{number}"))
        desk.show()
        desk.hear("run", "/ws", {"state": "answered", "query_id": str(number), "action": "allow", "by": "x"})
    desk.hear("run", "/ws", query(5, "/home/me/d/f5"))
    assert "p: --allow-read /home/me/d in /ws" in desk.show()


def test_of_a_list_nothing_is_granted_that_was_not_shown() -> None:
    """A list of fifty was answered for those behind it as well."""
    desk = asked(MOST_LISTED + 3)
    listed = desk.show()
    assert "and 3 more" in listed
    answers = desk.typed("a")
    assert [line["target"] for _, line in answers] == [f"/home/me/d{number}/f" for number in range(1, MOST_LISTED + 1)]
    assert all(str(line["target"]) in listed for _, line in answers)
    assert len(desk.typed("d")) == MOST_LISTED + 3


def gone(desk: Desk, *numbers: int) -> None:
    for number in numbers:
        desk.hear("run", "/ws", {"state": "withdrawn", "query_id": str(number)})


@pytest.mark.parametrize("numbers", [range(1, 11), range(1, MOST_LISTED + 10)], ids=["some", "all but the last"])
def test_what_goes_from_a_list_lets_nothing_unseen_into_it(numbers: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked for sixty things took back ten of those that were seen, and ten that were not seen came up."""
    desk = asked(MOST_LISTED + 10)
    desk.show()
    gone(desk, *numbers)
    monkeypatch.setattr("ringfence.cli.desk.SETTLE_SECONDS", 0.0)

    assert [line["query_id"] for _, line in desk.typed("o")] == [
        str(number) for number in range(numbers.stop, MOST_LISTED + 1)
    ]
    desk.show()
    assert all(int(str(line["query_id"])) >= numbers.stop for _, line in desk.typed("o"))


def test_what_comes_in_place_of_another_is_not_granted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = asked(2)
    desk.show()
    gone(desk, 1)

    assert "d2" in desk.show()
    assert desk.typed("o") == []
    assert desk.typed("d") == [("run", {"query_id": "2", "action": "deny", "scope": "once"})]
    monkeypatch.setattr("ringfence.cli.desk.SETTLE_SECONDS", 0.0)
    assert desk.typed("o") == [("run", {"query_id": "2", "action": "allow", "scope": "once"})]


def test_of_a_list_the_directory_that_is_proposed_is_shown() -> None:
    """The file was listed and the directory granted."""
    desk = Desk("word")
    for number in range(1, MANY + 2):
        desk.hear("run", "/ws", query(number, f"/home/me/d/f{number}"))
    listed = desk.show()
    assert "read /home/me/d/f3\n" in listed
    assert "read /home/me/d/f4; kept as /home/me/d\n" in listed
    assert [line.get("target") for _, line in desk.typed("p")][3] == "/home/me/d"
    assert [line.get("target") for _, line in desk.typed("o")] == [None] * (MANY + 1)


def test_names_steer_nothing() -> None:
    desk = Desk()
    hostile = "/home/me/\x1b]0;x\x07\n\u202egnp.exe"
    desk.hear("run", "/w\x1bs", query(1, hostile, process={"exe": "/bin/\x9b31m", "pid": 1}))
    shown = desk.show()
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert len(shown.split("\n")) == 5


def test_no_part_of_a_name_passes_for_a_line_or_for_nothing() -> None:
    """A terminal breaks a long line where it ends, so that many blanks begin another one."""
    desk = Desk()
    desk.hear(
        "run", "/ws", query(1, f"/home/me/x{' ' * 60}  p: --allow-read /tmp/x", choices=["/home/me/\u3164k\u0338"])
    )
    shown = desk.show()
    assert "   " not in shown.replace("\n  ", "\n")
    assert "/home/me/\\u3164k\\u0338" in shown
