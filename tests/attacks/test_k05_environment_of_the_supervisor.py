"""K5, K6, E5: the environment that ringfence was started with, found in /proc of any process that shows."""

import os

from tests.attacks.conftest import PYTHON, SECRET, Field, as_user, ringfence_words, said

PROGRAM = """
import glob, os, sys
found = []
for path in glob.glob("/proc/[0-9]*/environ") + ["/proc/1/environ", "/proc/%d/environ" % os.getppid()]:
    try:
        with open(path, "rb") as file:
            if sys.argv[1].encode() in file.read():
                found.append(path)
    except OSError:
        pass
print("found" if found or sys.argv[1] in str(os.environ) else "nothing")
"""


def test_no_secret_of_the_supervisor_shows(field: Field) -> None:
    ground = field.ground()
    ground.own()
    environ = {**os.environ, "API_KEY": SECRET, "UNHEARD_OF": SECRET, "PATH": "/usr/bin:/bin"}
    program = [PYTHON, "-I", "-S", "-c", PROGRAM, SECRET]

    assert said([*as_user(ground.uid), *program], ground.workspace, environ).out == "found\n"
    inside = said([*ringfence_words(field.walls), *program], ground.workspace, environ)
    assert (inside.code, inside.out) == (0, "nothing\n"), inside
