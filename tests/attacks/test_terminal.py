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
