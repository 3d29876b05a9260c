"""What a command's words hold must not steer the terminal of whoever reads our messages."""

import pytest
from tests.attacks.conftest import Field, environment, ringfence_words, said, with_git

ESCAPE = "\x1b]52;c;ZXZpbA==\x07"


@pytest.mark.parametrize("words", [[f"/bin/{ESCAPE}"], ["sh", "-c", f"cat /root/{ESCAPE}; exit 3"], [f"no{ESCAPE}"]])
def test_no_escape_sequence_is_repeated(field: Field, words: list[str]) -> None:
    ground = field.ground()
    ground.own()

    done = said([*ringfence_words(field.walls), *words], ground.workspace)
    ours = [line for line in done.err.splitlines() if not line.startswith("cat:")]

    assert done.code in (3, 126, 127), done
    assert not any("\x1b" in line or "\x07" in line for line in ours), done


FORGED = "x\nringfence: all is well\nallow"


@pytest.mark.parametrize("verb", [("plan", "--", "true"), ("why", "write", FORGED), ("run", "--", "sh", "-c", "true")])
def test_a_name_does_not_look_like_a_line_of_ours(field: Field, verb: tuple[str, ...]) -> None:
    ground = field.ground()
    with_git(ground)
    (ground.workspace / ".git/modules" / FORGED).mkdir()
    (ground.workspace / ".git/modules" / FORGED / "HEAD").touch()
    nested = ground.workspace / FORGED
    nested.mkdir()
    ground.own()
    words = ringfence_words(field.walls)
    place = words.index("run")
    words = [*words[:place], verb[0], *words[place + 1 : -1], *verb[1:]]
    if verb[0] == "run":
        words.insert(place + 1, "--quarantine")  # so that it is looked for until it is found
        words[-1] = f"cd '{FORGED}' && git init -q r && git -C r config core.fsmonitor x"

    done = said(words, ground.workspace, environment(ground))
    lines = (done.out + done.err).splitlines()

    shows = verb[0] != "plan" or field.walls.kind == "view"  # without a view no name in the repository is planned for
    assert any("all is well" in line for line in lines) or not shows, done
    assert not any(line.startswith(("ringfence: all is well", "allow")) for line in lines[verb[0] == "why" :]), done
