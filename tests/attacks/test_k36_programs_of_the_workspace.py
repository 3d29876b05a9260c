"""K36: ringfence runs a helper that it finds on a PATH that leads into the workspace."""

import os

import pytest
from tests.attacks.conftest import Field, ringfence_words, said

NAMES = "bwrap enact ringfence-enact ringfence setpriv unshare git sh python python3 id mount newuidmap".split()


@pytest.mark.parametrize("path", ["{ws}/bin:/usr/bin:/bin", ":/usr/bin:/bin", "bin:.:/usr/bin:/bin"])
def test_no_helper_comes_from_the_workspace(field: Field, path: str) -> None:
    ground = field.ground()
    for name in NAMES:
        program = ground.file(f"ws/bin/{name}", f"#!/bin/sh\ntouch {ground.outside}/ran-{name}\n")
        program.chmod(0o755)
        os.link(program, ground.workspace / name)
    ground.own()
    environ = {**os.environ, "PATH": path.format(ws=ground.workspace)}
    before = ground.state()

    done = said([*ringfence_words(field.walls), "/bin/true"], ground.workspace, environ)

    assert done.code == 0, done
    assert ground.state() == before
    said(["sh", "-c", "bwrap"], ground.workspace, environ)
    assert path == "bin:.:/usr/bin:/bin" or ground.state() != before, "bare, the helper is found"
