"""F10: /proc/self/root and /proc/self/cwd name the same files by another path."""

from tests.attacks.conftest import Field

PROGRAM = """
attempt("read through the root", lambda: read("/proc/self/root" + HOME + "/.ssh/id_ed25519"))
attempt("read through the directory", lambda: read("/proc/self/cwd/../home/.aws/credentials"))
attempt("read through the thread", lambda: read("/proc/thread-self/root" + HOME + "/.bashrc"))
attempt("write through the root", lambda: write("/proc/self/root" + OUTSIDE + "/canary"))
attempt("write through the directory", lambda: write("/proc/self/cwd/../outside/new"))
"""


def test_aliases_in_proc_lead_to_the_same_walls(field: Field) -> None:
    field.repels(PROGRAM)
