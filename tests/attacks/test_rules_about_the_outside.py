"""F38, F40, F55, F61: what a policy opens outside the workspace has its denials, and no more is open than it says."""

from pathlib import Path

import pytest
from tests.attacks.conftest import ROOT, Field, Ground, Walls

# F38: a pattern that begins at the root counts wherever something is open, and not only below where the command stands.
PATTERN = """
os.chdir("src")
attempt("a file that comes", lambda: write("../../open/.env"))
attempt("deeper", lambda: (os.makedirs("../../open/new/deep"), write("../../open/new/deep/.env")))
attempt("one that is there", lambda: write("../../open/there/.env"))
attempt("moved there", lambda: (write("../../open/x"), os.rename("../../open/x", "../../open/.env")))
attempt("linked there", lambda: (write("../../open/y"), os.link("../../open/y", "../../open/new/.env")))
"""


def opened(ground: Ground) -> list[str]:
    ground.file("open/there/.env")
    return []


def test_a_pattern_counts_in_every_place_that_is_open(field: Field) -> None:
    field.repels(
        PATTERN,
        opened,
        denied=lambda ground: {"allow_write": (str(ground.base / "open"),), "deny_write": ("/**/.env",)},
    )


# F40: a home that may be written keeps what runs at login, and what opens doors.
HOME = """
for name in (".bashrc", ".profile", ".zshrc", ".ssh/authorized_keys", ".gitconfig", ".config/autostart/x.desktop"):
    def plant(path=HOME + "/" + name):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path)
    attempt(name, plant)
attempt("moved over it", lambda: (write(HOME + "/new"), os.rename(HOME + "/new", HOME + "/.bashrc")))
attempt("the key", lambda: read(HOME + "/.ssh/id_ed25519"))
attempt("its directory moved", lambda: os.rename(HOME + "/.ssh", HOME + "/.keys"))
"""


def test_a_home_that_may_be_written_keeps_what_runs_at_login(field: Field) -> None:
    ground = field.ground()
    ground.file("home/.gem/ruby/x")
    ground.own()
    own = tuple(f"{ground.home}/{name}/ringfence" for name in (".config", ".local/state"))
    allowed = (str(ground.home),)
    seen = field.program(ground, HOME, allow_write=allowed, deny_write=own)

    assert "done" not in seen.answers.values(), seen.said
    assert len(seen.answers) == 9, seen.said
    assert (ground.home / ".bashrc").read_text() == "canary\n"
    touch = ["touch", str(ground.home / ".gem/ruby/mine")]
    assert field.run(ground, touch, allow_write=allowed, deny_write=own).exit_code == 0


@pytest.mark.parametrize("name", [".gitconfig", ".config/git/config", ".config/systemd/user/x.service", ".ssh/rc"])
def test_nor_does_a_grant_for_it_alone_open_it(field: Field, name: str) -> None:
    """What is protected may be granted itself, or something below it."""
    ground = field.ground()
    file = ground.file(f"home/{name}", "as it was\n")
    ground.own()
    attempts = """
attempt("written", lambda: write(EXTRA[0], flags=os.O_APPEND))
attempt("emptied", lambda: os.truncate(EXTRA[0], 0))
attempt("its mode", lambda: os.chmod(EXTRA[0], 0o777))
"""
    seen = field.program(ground, attempts, [str(file)], allow_write=(str(file),), allow_read=(str(file),))

    assert "done" not in seen.answers.values(), seen.said
    assert (len(seen.answers), file.read_text()) == (3, "as it was\n")


UNASKED = pytest.param(Walls("unasked", "owner" if ROOT else "self"), marks=pytest.mark.needs_landlock(6), id="unasked")


@pytest.mark.parametrize("field", [UNASKED], indirect=True)
@pytest.mark.parametrize("name", [".gitconfig", ".config/systemd/user/x.service", ".ssh/rc"])
def test_nor_where_landlock_holds_alone(field: Field, name: str) -> None:
    """What is protected inside something granted is a gap there; what is granted by itself need not be given."""
    ground = field.ground()
    file = ground.file(f"home/{name}", "as it was\n")
    ground.own()
    program = f"""
attempt("written", lambda: write({str(file)!r}, flags=os.O_APPEND))
attempt("emptied", lambda: os.truncate({str(file)!r}, 0))
attempt("a new name", lambda: write("new"))
"""
    seen = field.program(ground, program, allow_write=(str(file), ".vscode/settings.json"), allow_read=(str(file),))

    assert seen.answers == {"written": "EACCES", "emptied": "EACCES", "a new name": "done"}, seen.said
    assert file.read_text() == "as it was\n"


# F55: the directory around the workspace is hidden, and the command stands where it stood.
def test_what_is_around_the_workspace_may_be_hidden(field: Field) -> None:
    ground = field.ground()
    program = """
print("at", os.getcwd() == WS)
print("inside", os.path.exists("README.md"))
attempt("beside it", lambda: read("../outside/canary"))
attempt("by its name", lambda: read(OUTSIDE + "/canary"))
attempt("listed", lambda: os.listdir("../outside"))
"""
    seen = field.program(ground, program, readable=False, deny_read=(str(ground.base),))

    assert (seen.answers["at"], seen.answers["inside"]) == ("True", "True"), seen.said
    assert "done" not in seen.answers.values(), seen.said


# F61: one file may be written, and not put another in its place.
FILE = """
attempt("moved over it", lambda: (write("n"), os.rename("n", OUTSIDE + "/canary")))
attempt("exchanged", lambda: (write("n"), syscall(NR.renameat2, -100, b"n", -100, (OUTSIDE + "/canary").encode(), 2)))
attempt("linked", lambda: (os.link(OUTSIDE + "/canary", "second")))
attempt("removed", lambda: os.unlink(OUTSIDE + "/canary"))
attempt("another beside it", lambda: write(OUTSIDE + "/canary.new"))
attempt("its neighbour", lambda: write(OUTSIDE + "/other"))
"""


def test_a_file_that_may_be_written_is_not_replaced(field: Field) -> None:
    ground = field.ground()
    allowed = (str(ground.outside / "canary"),)
    inode = (ground.outside / "canary").stat().st_ino
    seen = field.program(ground, FILE, allow_write=allowed)

    assert "done" not in seen.answers.values(), seen.said
    assert len(seen.answers) == 6, seen.said
    assert field.run(ground, ["sh", "-c", f"echo new > {ground.outside}/canary"], allow_write=allowed).exit_code == 0
    assert (ground.outside / "canary").read_text() == "new\n"
    assert Path(ground.outside / "canary").stat().st_ino == inode
