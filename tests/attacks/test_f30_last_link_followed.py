"""F30: renaming or removing a link acts on the link; whoever follows it moves the target."""

from tests.attacks.conftest import Field

PROGRAM = """
os.symlink(OUTSIDE + "/canary", "src/l")
os.rename("src/l", "src/m")
assert os.readlink("src/m") == OUTSIDE + "/canary"
os.lchown("src/m", os.getuid(), os.getgid())
os.utime("src/m", (1, 1), follow_symlinks=False)
os.unlink("src/m")
print("the link moved, and went")
"""


def test_a_link_is_moved_and_its_target_stays(field: Field) -> None:
    ground = field.ground()
    before = ground.state()

    seen = field.program(ground, PROGRAM)

    assert (seen.code, seen.said.splitlines()[1:]) == (0, ["the link moved, and went"]), seen.said
    assert ground.state() == before
