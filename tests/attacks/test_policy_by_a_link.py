"""A project's policy is a link to a file that the command may not read; our words about it must not quote it."""

import pytest
from tests.attacks.conftest import SECRET, Field, ringfence_words, said


@pytest.mark.parametrize(
    "content", [f'enforcement = "{SECRET}"\n', f'"{SECRET}" = 1\n', f"[{SECRET}]\nx = 1\n", f"{SECRET}\n"]
)
def test_a_policy_by_a_link_tells_nothing_of_what_it_leads_to(field: Field, content: str) -> None:
    ground = field.ground()
    target = ground.file("home/.secret.toml", content)
    ground.file("ws/.ringfence/policy.toml").unlink()
    (ground.workspace / ".ringfence/policy.toml").symlink_to(target)
    ground.own()

    done = said([*ringfence_words(field.walls), "/bin/true"], ground.workspace)

    assert SECRET not in done.out + done.err
