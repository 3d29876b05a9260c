"""G7, F23: a directory on the way to a protected name is missing, or removed, and a link in its place leads past it."""

from tests.attacks.conftest import ANSWERED, Field, with_git

PROGRAM = """
os.makedirs("other/hooks")
os.makedirs("src/hooks")
write("other/attributes")
os.symlink("other", "src/link")
def linked(name, make):
    make()
    try:
        os.lstat(name)
    finally:
        os.unlink(name) if os.path.islink(name) else os.rename(name, "gone")
attempt("made", lambda: linked(".github", lambda: os.symlink("other", ".github")))
attempt("moved", lambda: linked(".github", lambda: (os.symlink("other", "new"), os.rename("new", ".github"))))
attempt("a second name", lambda: linked(".github", lambda: os.link("src/link", ".github", follow_symlinks=False)))
attempt("a directory moved", lambda: linked(".github", lambda: os.rename("src", ".github")))
def replaced():
    sh("rm -r .git/info")
    os.symlink("../other", ".git/info")
attempt("replaced", replaced)
"""


@ANSWERED
def test_no_link_on_the_way_leads_past_a_protected_name(field: Field) -> None:
    field.repels(PROGRAM, with_git)
