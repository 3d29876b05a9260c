"""A /proc that shows a user only who lets himself be looked at (hidepid): a warden does not, and with it all below it
was out of sight. Limits that are held by looking held nothing then, and the gap said that somebody counts. And without
a view nobody could tell that who asks for a run beside it is of the run.
"""

import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest
from tests.attacks.everybody import NOBODY, RUN
from tests.attacks.everybody import installed as installed
from tests.attacks.everybody import workspace as workspace

from ringfence.enforce import watch

LINE = "25 1 0:22 / {} rw - proc proc rw{}\n"
MANY = "for each in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1.5 & done; wait; echo all ran"


@pytest.mark.needs_root
@pytest.mark.needs_userns
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("how", [1, 2, "ptraceable"])
def test_more_processes_than_allowed_do_not_run(workspace: Path, how: int | str) -> None:
    environ = {"HOME": str(workspace.parent / "home"), "PATH": "/usr/bin:/bin"}
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]

    def run(option: str) -> tuple[int, str]:
        mount = ["unshare", "--mount", "sh", "-c", f'mount -t proc -o hidepid={how} proc /proc && exec "$@"', "sh"]
        words = [*mount, *user, *RUN, option, "--processes", "6", "--", "sh", "-c", MANY]
        ran = subprocess.run(words, cwd=workspace, env=environ, capture_output=True, text=True, timeout=60)
        return ran.returncode, ran.stdout + ran.stderr

    code, said = run("--best-effort")
    assert (code, "all ran" in said) == (0, True), said  # nobody sees them
    assert "not enforced: the limit of processes: /proc hides the run's processes (hidepid)" in said

    code, said = run("--quiet")
    assert (code, "all ran" in said) == (125, False), said
    assert "hint: sudo mount -o remount,hidepid=0 /proc" in said


@pytest.mark.needs_root
@pytest.mark.needs_bwrap
@pytest.mark.needs_landlock(6)
@pytest.mark.needs_yama(1)
@pytest.mark.usefixtures("installed")
def test_without_a_view_a_run_inside_a_run_is_answered_at_once(workspace: Path) -> None:
    environ = {"HOME": str(workspace.parent / "home"), "PATH": "/usr/bin:/bin"}
    mount = ["unshare", "--mount", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh"]
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    alone = ["bwrap", "--unshare-user", "--disable-userns", "--dev-bind", "/", "/"]  # no views
    inner = f"echo $RINGFENCE_SIBLINGS; {shlex.join([*RUN, '--', 'true'])}; echo ended $?"
    words = [*mount, *user, *alone, *RUN, "--", "sh", "-c", inner]
    begun = time.monotonic()

    ran = subprocess.run(words, cwd=workspace, env=environ, capture_output=True, text=True, timeout=60)

    assert ran.stdout == "\nended 125\n", ran.stdout + ran.stderr
    assert time.monotonic() - begun < 9  # it was waited for an answer for ten seconds


@pytest.mark.parametrize(
    ("rows", "hides"),
    [
        ((("/proc", ""),), False),
        ((("/proc", ",hidepid=off"),), False),
        ((("/proc", ",hidepid=invisible"),), True),
        ((("/proc", ",hidepid=1"),), True),
        ((("/proc", ",gid=77,hidepid=noaccess"),), False),
        ((("/proc", ",gid=78,hidepid=noaccess"),), True),
        ((("/proc", ",gid=77,hidepid=ptraceable"),), True),
        ((("/proc", ",hidepid=2"), ("/elsewhere", "")), True),
        ((("/proc", ",hidepid=2"), ("/proc", "")), False),
    ],
)
def test_it_is_read_from_the_mount(
    rows: tuple[tuple[str, str], ...], hides: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text("".join(LINE.format(*row) for row in rows))
    for name, value in (("geteuid", 1000), ("getegid", 1000), ("getgroups", [77])):
        monkeypatch.setattr(os, name, lambda value=value: value)

    assert watch.hides_processes(str(table)) is hides


def test_from_root_nobody_hides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mountinfo").write_text(LINE.format("/proc", ",hidepid=2"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert not watch.hides_processes(str(tmp_path / "mountinfo"))
