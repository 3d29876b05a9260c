"""At a terminal: the streams work by all their names, and the terminal itself is the caller's still."""

from tests.attacks.conftest import PYTHON, Field, as_user, at_terminal, ringfence_words


def test_the_terminal_works_by_all_its_names(field: Field) -> None:
    ground = field.ground()
    ground.own()
    script = (
        "for name in stdout stderr tty; do echo $name > /dev/$name; done; test -t 0 && stty size >/dev/null && echo is"
    )

    seen = at_terminal([*ringfence_words(field.walls), "sh", "-c", script], ground.workspace, ground.uid)

    assert (seen.code, seen.out.split()) == (0, ["stdout", "stderr", "tty", "is"]), seen


def test_the_terminal_keeps_its_mode_or_it_is_said(field: Field) -> None:
    ground = field.ground()
    ground.own()
    words = [PYTHON, "-I", "-S", "-c", "import os; os.fchmod(0, 0o777); print('changed')"]

    assert "changed" in at_terminal([*as_user(ground.uid), *words], ground.workspace, ground.uid).out
    seen = at_terminal([*ringfence_words(field.walls), *words], ground.workspace, ground.uid)
    said = [gap.what for gap in field.run(ground, ["true"]).gaps if "terminal" in gap.what and "mode" in gap.what]
    assert said or "changed" not in seen.out, seen.out


INPUT_ALONE = """
import fcntl, os, sys, termios
def attempt(name, call):
    try:
        call()
    except OSError as error:
        print(name, error.strerror)
    else:
        print(name, "done")
def no_echo():
    modes = termios.tcgetattr(0)
    modes[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSANOW, modes)
CLIPBOARD = b"\\033]52;c;ZXZpbA==\\007"
attempt("write", lambda: os.write(0, CLIPBOARD))
for name in ("/proc/self/fd/0", "/dev/stdin", "/dev/tty", os.readlink("/proc/self/fd/0")):
    attempt(name, lambda: os.write(os.open(name, os.O_WRONLY), CLIPBOARD))
termios.tcdrain(0)
attempt("settings", no_echo)
attempt("size", lambda: fcntl.ioctl(0, termios.TIOCSWINSZ, b"\\7\\0\\7\\0\\0\\0\\0\\0"))
attempt("nobody else", lambda: fcntl.ioctl(0, termios.TIOCEXCL))
if sys.argv[1:]:
    attempt("stopped", lambda: termios.tcflow(0, termios.TCOOFF))
"""
LOOK = "stty -a | grep -o '[-]*echo ' | head -1; stty size; echo seen > /dev/tty"


def test_a_terminal_on_standard_input_alone_is_not_written_to_and_keeps_its_settings(field: Field) -> None:
    """Nobody filters what goes there, and a terminal that is asked something answers by typing."""
    ground = field.ground()
    ground.own()
    attack = [PYTHON, "-I", "-S", "-c", INPUT_ALONE]
    around = ["sh", "-c", f'"$@" > {ground.workspace}/said; {LOOK}; cat {ground.workspace}/said', "sh"]

    bare = at_terminal([*as_user(ground.uid), *around, *attack], ground.workspace, ground.uid).out
    inside = at_terminal([*around, *ringfence_words(field.walls), *attack, "stop"], ground.workspace, ground.uid).out

    assert "]52;c;" in bare
    assert "write done" in bare
    assert bare.count("done") == 8
    assert "-echo" in bare
    assert "7 7" in bare
    if field.walls.kind == "landlock":
        assert any("other terminals of the same user" in gap.what for gap in field.run(ground, ["true"]).gaps)
    else:
        assert "]52;c;" not in inside
        assert "/proc/self/fd/0 Permission denied" in inside
    assert "write Bad file descriptor" in inside
    assert "-echo" not in inside
    assert "7 7" not in inside
    assert "seen" in inside
