"""What reaches a person's terminal: the same wherever the bytes are cut, and never what reaches beyond the screen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.enforce.escapes import Escapes

PIECES = (
    b"\x1b", b"]", b"[", b"P", b"k", b"_", b"X", b"52", b"052", b"0", b"2", b"8", b"l", b";", b"c", b"m", b"n", b"t",
    b" q", b"\x07", b"\\", b"\x1b\\", b"\x9b", b"\x9c", b"\x9d", b"\xc2", b"\xc2\x9d", b"\xc2\x9c", b"\x18", b"\x00",
    b"\x05", b"\x7f", b"tmux;", b"$q", b"+q", b"@", b"|", b"4", b"10", b"99",
    b"a", b"Z", b"(B", b"\n", b"\xc3\xa9", b"\xe2\x9c\x9c", b"\xe2", b"\xff",
    b"\xf0\x9f\x98\x80",
)  # fmt: skip
STREAMS = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join) | st.binary(max_size=30)
LINK = b"\x1b]8;;http://x\x1b\\x\x1b]8;;\x07"
LOOKS = b"\x1b[1;31mx\x1b[0m\x1b[2K\x1b[1A\x1b[2 q"
TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=50)


@given(STREAMS, st.booleans(), st.lists(st.integers(0, 80)))
def test_a_cut_at_any_byte_changes_nothing(data: bytes, strict: bool, cuts: list[int]) -> None:
    escapes, at, got = Escapes(strict), 0, b""
    for cut in [*sorted({min(cut, len(data)) for cut in cuts}), len(data)]:
        got += escapes(data[at:cut])
        at = cut

    assert got == Escapes(strict)(data)


@given(STREAMS, st.booleans())
def test_nothing_that_is_left_makes_a_sequence_that_is_dropped(data: bytes, strict: bool) -> None:
    once = Escapes(strict)(data)
    again = Escapes(strict)

    assert again(once) + again._sequence + again._rest == once


@given(STREAMS, st.booleans())
def test_neither_clipboard_nor_title_comes_through(data: bytes, strict: bool) -> None:
    shown = Escapes(strict)(data)

    for number in (b"52", b"052", b"0", b"2", b"l", b"99"):
        for begin in (b"\x1b]", b"\xc2\x9d"):
            assert begin + number + b";" not in shown
    assert b"\x1bk" not in shown


@given(TEXT, st.booleans())
def test_text_comes_through_as_it_is(text: str, strict: bool) -> None:
    assert Escapes(strict)(text.encode()) == text.encode()


@pytest.mark.parametrize(
    ("data", "strict", "lenient"),
    [
        (b"\x1b]52;c;aGk=\x07x", b"x", b"x"),
        (b"\x1b]0;title\x1b\\x", b"x", b"x"),
        (b"\xc2\x9d52;c;x\xc2\x9cx", b"x", b"x"),
        (b"\x1b\x00]52;c;x\x07", b"\x00", b"\x00"),
        (b"\x1b\x1b]52;c;x\x07]52;c;y\x07", b"]52;c;y\x07", b"]52;c;y\x07"),
        (b"\x1bktitle\x1b\\x", b"x", b"x"),
        (LINK, LINK, LINK),
        (b"\x1b]8;;\x9d52;c;x\x07", b"\x1b]8;;\x1b\\", b"\x1b]8;;\x1b\\"),
        (b"\x1b]11;?\x07x", b"x", b"\x1b]11;?\x07x"),
        (b"\x1bP+q544e\x1b\\x", b"x", b"\x1bP+q544e\x1b\\x"),
        (b"\x1b[6n\x1b[c\x1b[21tx", b"x", b"\x1b[6n\x1b[c\x1b[21tx"),
        (LOOKS, LOOKS, LOOKS),
        (b"\x05x", b"x", b"\x05x"),
        (b"a\x1b[31", b"a", b"a"),
        (b"\x1b]4;1;red\x07\x1b]010;?\x07x", b"x", b"\x1b]4;1;red\x07\x1b]010;?\x07x"),
        (b"\x1bP0;1q#0\x1b\\x", b"x", b"\x1bP0;1q#0\x1b\\x"),
        # Notifications, the directory of a new window, profiles, what editors and shells are told, files.
        *((b"\x1b]%d;x\x07x" % n, b"x", b"x") for n in (3, 6, 7, 9, 30, 50, 51, 99, 133, 633, 777, 1337, 5113)),
        (b"\x1bP@kitty-cmd{}\x1b\\x", b"x", b"x"),
        (b"\x1bP0;1|17/6c730d\x1b\\x", b"x", b"x"),  # a key that types
        (b"\x1bP+p6b31=6c73\x1b\\x", b"x", b"x"),
        (b"\x1bPtmux;\x1b\x1b]52;c;x\x07\x1b\\x", b"\x1b\\x", b"\x1b\\x"),
        (b"\x1bP]52;c;x\x07\x1b\\x", b"x", b"x"),
        (b"\x1b_Gt=s;bmFtZQ==\x1b\\x", b"x", b"x"),  # kitty removes the shared memory it is told of
        (b"\x1b^x\x1b\\\x1bXx\x1b\\x", b"x", b"x"),
        (b"\x1b]\x07x", b"x", b"x"),  # which has no name
        (b"\x1b[5ix\x1b[4i\x1b[?5i", b"x", b"x"),
        (b"\x1b[1;1;1;1;1;1*yx", b"x", b"x"),
    ],
)  # fmt: skip
def test_what_is_dropped(data: bytes, strict: bytes, lenient: bytes) -> None:
    assert (Escapes(True)(data), Escapes(False)(data)) == (strict, lenient)
