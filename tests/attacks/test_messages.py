"""What a command's words hold must not steer the terminal of whoever reads our messages."""

import pytest
from tests.attacks.conftest import Field, ringfence_words, said

ESCAPE = "\x1b]52;c;ZXZpbA==\x07"


@pytest.mark.parametrize("words", [[f"/bin/{ESCAPE}"], ["sh", "-c", f"cat /root/{ESCAPE}; exit 3"], [f"no{ESCAPE}"]])
def test_no_escape_sequence_is_repeated(field: Field, words: list[str]) -> None:
    ground = field.ground()
    ground.own()

    done = said([*ringfence_words(field.walls), *words], ground.workspace)
    ours = [line for line in done.err.splitlines() if not line.startswith("cat:")]

    assert done.code in (3, 126, 127), done
    assert not any("\x1b" in line or "\x07" in line for line in ours), done
