"""F29: as soon as one denial is in force, somebody else acts for the command, with rights of his own."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
write("src/own")
attempt("mkdir", lambda: os.mkdir(OUTSIDE + "/nd"))
attempt("rename in", lambda: os.rename(OUTSIDE + "/dir/inner", WS + "/src/taken"))
attempt("rename out", lambda: os.rename("src/own", OUTSIDE + "/given"))
attempt("rename there", lambda: os.rename(OUTSIDE + "/other", OUTSIDE + "/b"))
attempt("link in", lambda: os.link(OUTSIDE + "/canary", "src/l"))
attempt("link out", lambda: os.link("README.md", OUTSIDE + "/l"))
attempt("symlink", lambda: os.symlink("x", OUTSIDE + "/s"))
attempt("mkfifo", lambda: os.mkfifo(OUTSIDE + "/p"))
attempt("truncate", lambda: os.truncate(OUTSIDE + "/canary", 0))
attempt("write", lambda: write(OUTSIDE + "/w"))
attempt("rmdir", lambda: os.rmdir(OUTSIDE + "/dir"))
attempt("unlink", lambda: os.unlink(OUTSIDE + "/canary"))
"""


def prepare(ground: Ground) -> list[str]:
    ground.file("ws/private/x")
    return []


def test_a_denial_opens_nothing_elsewhere(field: Field) -> None:
    field.repels(PROGRAM, prepare, denied=lambda ground: {"deny_write": (str(ground.workspace / "private"),)})
