"""F35: a link is laid at a name in /tmp that somebody outside is going to write."""

import os
from pathlib import Path

from tests.attacks.conftest import Field, Ground

PROGRAM = """
for name in EXTRA:
    attempt(name.split("/rf-")[0], lambda: os.symlink(HOME + "/.bashrc", name) or read(name))
"""


def prepare(ground: Ground) -> list[str]:
    names = [f"{place}/{ground.base.name}-response.md" for place in ("/tmp", "/var/tmp")]
    for name in names:
        ground.stack.callback(lambda name=name: Path(name).unlink(missing_ok=True))  # type: ignore[misc]
        ground.harmed.append(lambda name=name: os.path.lexists(name))  # type: ignore[misc]
    return names


def test_no_link_is_laid_where_somebody_outside_will_write(field: Field) -> None:
    field.repels(PROGRAM, prepare)


def test_the_directory_for_temporary_files_is_its_own_and_goes_with_the_run(field: Field) -> None:
    ground = field.ground()
    outcome = field.run(ground, ["sh", "-c", 'echo x > "$TMPDIR/f" && stat -c %a "$TMPDIR" && echo "$TMPDIR"'])

    mode, path = (outcome.stdout or b"").decode().split()
    assert mode in ("700", "1777"), outcome
    assert not Path(path, "f").exists()
