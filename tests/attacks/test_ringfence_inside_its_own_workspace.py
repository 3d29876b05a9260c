"""The workspace holds ringfence itself: its package and environment. Who could write them is out at the next run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.attacks.conftest import PYTHON, SECONDS, Field, Ground, answers, arguments, ringfence_words, source

import ringfence

PROGRAM = """
package, environment = EXTRA
attempt("a module", lambda: write(package + "/run.py"))
attempt("a new module", lambda: write(package + "/new.py"))
attempt("the enactor", lambda: (os.unlink(package + "/enforce/enact"), write(package + "/enforce/enact")))
attempt("its digest", lambda: write(package + "/enforce/enact.sha256"))
attempt("the package", lambda: os.rename(package, package + "2"))
attempt("a directory above", lambda: os.rename(os.path.dirname(package), WS + "/src2"))
attempt("a cached module", lambda: write(package + "/__pycache__/evil.pyc"))
attempt("a package of the environment", lambda: write(environment + "/lib/evil.pth"))
attempt("the environment", lambda: os.rename(environment, WS + "/venv2"))
attempt("its settings", lambda: write(environment + "/pyvenv.cfg"))
"""


def settle(ground: Ground) -> tuple[Path, Path]:
    """A copy of the package, and an environment that uses it, in the workspace."""
    installed = Path(ringfence.__file__).parent
    package, environment = ground.workspace / "lib" / "ringfence", ground.workspace / ".venv"
    shutil.copytree(installed, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__pycache__").mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=SECONDS)
    site = next((environment / "lib").glob("python3*")) / "site-packages"
    (site / "ringfence.pth").write_text(f"{package.parent}\n{Path(msgspec.__file__).parents[1]}\n")
    ground.own()
    if ground.uid != 0 and os.geteuid() == 0:  # a package that is run by root belongs to root
        for path in (package, *package.rglob("*"), environment, *environment.rglob("*")):
            os.chown(path, 0, 0, follow_symlinks=False)
            if not path.is_symlink():
                path.chmod(0o777 if path.is_dir() else path.stat().st_mode | 0o022 if path.name != "enact" else 0o755)
    return package, environment


def test_ringfence_is_not_written_in_its_own_workspace(field: Field) -> None:
    ground = field.ground()
    package, environment = settle(ground)
    words = [str(environment / "bin/python"), *ringfence_words(field.walls)[1:]]
    words += [PYTHON, "-I", "-S", "-c", source(PROGRAM), *arguments(ground, (str(package), str(environment)))]

    done = subprocess.run(words, cwd=ground.workspace, capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL)

    seen = answers(done.stdout.decode())
    assert len(seen) == 10, done
    assert "done" not in seen.values(), seen


@pytest.mark.needs_root
def test_an_enactor_that_others_can_write_is_not_used(field: Field) -> None:
    ground = field.ground()
    package, environment = settle(ground)
    (package / "enforce/enact").chmod(0o777)
    words = [str(environment / "bin/python"), *ringfence_words(field.walls)[1:]]

    done = subprocess.run([*words, "touch", "ran"], cwd=ground.workspace, capture_output=True, timeout=SECONDS)

    assert done.returncode != 0
    assert not (ground.workspace / "ran").exists()
