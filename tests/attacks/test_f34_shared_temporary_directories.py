"""F34: /tmp, /var/tmp and /dev/shm are shared with everybody on the machine."""

import shutil
from pathlib import Path

from tests.attacks.conftest import Field, Ground

PROGRAM = """
for directory in EXTRA:
    place = directory.rsplit("/", 1)[0]
    attempt("read in " + place, lambda: read(directory + "/theirs"))
    attempt("write in " + place, lambda: write(directory + "/theirs"))
    attempt("plant in " + place, lambda: write(directory + "/new"))
"""


def prepare(ground: Ground) -> list[str]:
    made = []
    for place in ("/tmp", "/var/tmp", "/dev/shm"):
        path = Path(place, f"other-{ground.base.name}")
        path.mkdir(mode=0o777)
        path.chmod(0o777)
        (path / "theirs").write_text("theirs\n")
        (path / "theirs").chmod(0o666)
        ground.stack.callback(shutil.rmtree, path)
        if place != "/dev/shm":
            ground.harmed.append(lambda path=path: (path / "new").exists())  # type: ignore[misc]
        made.append(str(path))
    return made


def test_temporary_directories_are_private(field: Field) -> None:
    said = "a private /dev/shm"
    field.repels(
        PROGRAM,
        prepare,
        gaps={"landlock": {f"{verb} in /dev/shm": said for verb in ("read", "write", "plant")}},
    )
