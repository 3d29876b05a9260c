"""A run inside a run where nobody listens for it: the narrower of the two holds, to any depth, or nothing runs.

Mostly the outer run listens, and starts one beside it (`test_siblings`). Else: its warden makes names for everything in
it, outside any Landlock domain made inside: so it lets none be made there, and an inner run relies on the outer one, or
is refused. With allowNestedSandbox the outer run has no such table, and what is inside makes walls of its own.
"""

import os
import shlex
from pathlib import Path

import pytest
from tests.attacks.everybody import RUN, run
from tests.attacks.everybody import installed as installed
from tests.attacks.everybody import workspace as workspace

ALONE = ["env", "-u", "RINGFENCE_SIBLINGS", *RUN]  # as a library's, or an agent's that keeps its variables to itself
pytestmark = [pytest.mark.needs_userns, pytest.mark.usefixtures("installed")]


def inner(*options: str, script: str) -> str:
    """A line that runs a script one level further in."""
    return shlex.join([*ALONE, *options, "--", "sh", "-c", script])


def test_ten_levels_deep_the_walls_are_the_first_ones_and_the_exit_code_comes_back(workspace: Path) -> None:
    outside = workspace.parent / "outside" / "new"
    bottom = (
        f"echo made > made; echo no > {outside}; echo no > .mcp.json; echo tmp > $TMPDIR/t && cat $TMPDIR/t; exit 7"
    )
    (workspace / "deeper").write_text(
        f'[ "$1" = 10 ] && {{ {bottom}; }}\nexec {shlex.join(ALONE)} -- sh deeper $(($1 + 1))\n'
    )

    code, said = run(workspace, script="sh deeper 1")

    assert code == 7, said
    assert "tmp" in said
    assert (workspace / "made").exists()
    assert not outside.exists()
    assert not (workspace / ".mcp.json").exists()


def test_what_the_outer_run_does_not_give_the_inner_does_not_get_and_is_told(workspace: Path) -> None:
    outside, elsewhere = workspace.parent / "outside", f"/opt/ringfence-{os.urandom(6).hex()}"
    greedy = inner("--allow-write", "/opt", "--allow-network", script=f"echo ran; echo no > {elsewhere}")

    code, said = run(workspace, script=f"echo no > {outside}/x; {greedy}")

    assert "ran" in said
    assert "not given: /opt writable" in said
    assert not os.path.exists(elsewhere)
    assert not list(outside.iterdir())
    assert code != 0


def test_a_narrower_inner_run_is_refused_where_nothing_would_hold_it(workspace: Path) -> None:
    narrow = inner("--deny-write", "sub", script="echo ran > ran; echo no > sub/new")

    code, said = run(workspace, script=narrow)

    assert (code, list((workspace / "sub").iterdir()), (workspace / "ran").exists()) == (125, [], False), said
    assert "allowNestedSandbox" in said


def test_a_domain_made_inside_is_not_one_that_the_warden_passes(workspace: Path) -> None:
    """A program that shuts itself in by Landlock would believe that it is: it is told that there is none."""
    shut_in = (
        "import ctypes, os, struct; libc = ctypes.CDLL(None, use_errno=True);"
        'answer = libc.syscall(444, struct.pack("<Q", 0x1FFF), 8, 0);'
        'print("refused", ctypes.get_errno()) if answer < 0 else print("made")'
    )

    _, said = run(workspace, script=shlex.join(["/usr/bin/python3", "-c", shut_in]))

    assert "refused 95" in said


@pytest.fixture
def nesting(workspace: Path) -> str:
    path = workspace.parent / "nesting.json"
    path.write_text('{"allowNestedSandbox": true}')
    path.chmod(0o644)
    return str(path)


def test_with_leave_an_inner_run_has_walls_of_its_own(workspace: Path, nesting: str) -> None:
    narrow = inner("--deny-write", "sub", script="echo ran > ran; echo no > sub/new; echo no > .mcp.json; exit 0")

    code, said = run(workspace, "--policy", nesting, script=f"{narrow}; echo no > {workspace.parent}/outside/x")

    assert "not given" not in said
    assert (workspace / "ran").exists(), said
    assert not list((workspace / "sub").iterdir())
    assert not (workspace / ".mcp.json").exists()
    assert not list((workspace.parent / "outside").iterdir())
    assert code != 0


@pytest.mark.needs_bwrap
def test_with_leave_bubblewrap_works_inside(workspace: Path, nesting: str) -> None:
    box = "bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all"

    refused, said = run(workspace, script=f"{box} true")
    given, said_then = run(workspace, "--policy", nesting, script=f"{box} sh -c 'echo in; echo no > {workspace}/no'")

    assert refused != 0, said
    assert "in\n" in said_then, (given, said_then)
    assert not (workspace / "no").exists()
