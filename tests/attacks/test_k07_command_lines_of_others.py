"""K7: the arguments of other processes, where secrets stand."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
directory = "/proc/" + EXTRA[0]
for name in ("cmdline", "comm", "status", "stat", "mountinfo"):
    attempt(name, lambda: read(directory + "/" + name))
attempt("the host's sockets", lambda: read(directory + "/net/unix"))
"""


def prepare(ground: Ground) -> list[str]:
    pid = ground.victim()
    ground.harmed.clear()
    return [str(pid)]


def test_other_processes_do_not_show_or_it_is_said(field: Field) -> None:
    shown = ("cmdline", "comm", "status", "stat", "mountinfo", "the host's sockets")
    field.repels(PROGRAM, prepare, gaps={"landlock": dict.fromkeys(shown, "other processes invisible")})
