"""F49: a link is turned between inside and outside while it is being opened."""

from tests.attacks.conftest import Field

PROGRAM = """
import time
os.mkdir("in")
write("in/canary")
until = time.monotonic() + 0.4
if os.fork() == 0:
    while time.monotonic() < until:
        for target in ("in", OUTSIDE):
            os.symlink(target, "turning")
            os.rename("turning", "l")
    os._exit(0)
while time.monotonic() < until:
    try:
        write("l/canary", "raced")
    except OSError:
        pass
os.wait()
def raced():
    with open(OUTSIDE + "/canary") as file:
        if "raced" not in file.read():
            raise OSError(errno.EACCES, "never reached")
attempt("turned in time", raced)
"""


def test_a_turning_link_never_leads_out(field: Field) -> None:
    field.repels(PROGRAM)
