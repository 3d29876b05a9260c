"""`ringfence doctor`: who builds a view here, and where nobody does, what forbids it and the words that change it."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.cli.test_command import AS_ROOT, RINGFENCE, Place
from tests.cli.test_command import place as place

from ringfence.cli import clues, doctor
from ringfence.cli.clues import Clues
from ringfence.model import Enactor, Host

PROGRAM = "/opt/venv/enact"
REFUSED = f"namespaces: {os.strerror(errno.EPERM)}"
NONE = msgspec.structs.replace(Host.linux(namespaces=False), namespaces_why=REFUSED, bubblewrap_why="it says no")
FULL = msgspec.structs.replace(NONE, namespaces_why=f"namespaces: {os.strerror(errno.ENOSPC)}")
NO_PROC = msgspec.structs.replace(Host.linux(), fresh_proc=False)


@pytest.mark.parametrize(
    ("host", "seen", "why", "way_out"),
    [
        (FULL, Clues(most=0), "user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces="),
        (NONE, Clues(clone=0), "kernel.unprivileged_userns_clone is 0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        (NONE, Clues(apparmor=1), "AppArmor", f'profile ringfence "{PROGRAM}" flags=(unconfined) {{\n  userns,'),
        (NONE, Clues(apparmor=1), "AppArmor", 'profile bwrap "/usr/bin/bwrap" flags=(unconfined) {\n  userns,'),
        (NONE, Clues(apparmor=1), "AppArmor", "apparmor_parser -r /etc/apparmor.d/ringfence"),
        (NONE, Clues(container="docker", filtered=True), "docker container", "--security-opt seccomp=unconfined"),
        (NONE, Clues(container="podman", filtered=True), "podman container", "--security-opt unmask=ALL"),
        (NONE, Clues(filtered=True, unit="agent.service"), "agent.service", "RestrictNamespaces=no"),
        (NONE, Clues(filtered=True), "seccomp filter already", "outside the other sandbox"),
        (NONE, Clues(), "no user namespaces", "CONFIG_USER_NS"),
        (NO_PROC, Clues(unit="agent.service", masked=True), "/proc/sys read-only", "ProtectKernelTunables=no"),
        (NO_PROC, Clues(container="docker"), "masks parts of /proc", "systempaths=unconfined"),
        (NO_PROC, Clues(masked=True), "parts of /proc are masked", "mount nothing below /proc"),
    ],
)
def test_the_reason_and_the_way_out(host: Host, seen: Clues, why: str, way_out: str) -> None:
    [(reason, words)] = clues.explain(host, seen, PROGRAM)

    assert why in reason
    assert way_out in words


@pytest.mark.parametrize(("abi", "words"), [(0, "lsm=landlock"), (2, "a newer kernel; `ringfence plan"), (6, "")])
def test_an_older_landlock_is_not_taken_for_one_that_is_switched_off(abi: int, words: str) -> None:
    good, _, way_out = next(row for row in doctor.findings(Host.linux(landlock_abi=abi)) if "Landlock" in row[1])

    assert good is (not words)
    assert good or words in way_out


@pytest.mark.parametrize(
    ("host", "way_out"),
    [
        (Host.linux(yama=2), None),
        (Host.linux(yama=3), "sudo sysctl -w kernel.yama.ptrace_scope=1; a 3 stays until the next start"),
        (msgspec.structs.replace(NONE, yama=1), None),
        (msgspec.structs.replace(NONE, yama=2), "sudo sysctl -w kernel.yama.ptrace_scope=1"),
    ],
)
def test_where_yama_blinds_the_warden_it_is_said(host: Host, way_out: str | None) -> None:
    rows = [row for row in doctor.findings(host) if "yama" in row[1]]

    assert [row[2] for row in rows] == ([] if way_out is None else [way_out])


def test_where_a_view_is_built_there_is_nothing_to_explain() -> None:
    assert clues.explain(Host.linux(), Clues(apparmor=1, most=0, container="docker"), PROGRAM) == []


def test_root_is_not_told_of_switches_that_do_not_hold_root() -> None:
    root = msgspec.structs.replace(NONE, uid=0)

    assert "AppArmor" not in str(clues.explain(root, Clues(apparmor=1, clone=0), PROGRAM))


@pytest.mark.parametrize(
    ("host", "good", "words"),
    [
        (Host.linux(), True, "built by the enactor"),
        (msgspec.structs.replace(NONE, bubblewrap="/usr/bin/bwrap"), True, "built by /usr/bin/bwrap, slower"),
        (NONE, False, REFUSED),
        (msgspec.structs.replace(NONE, enactor=Enactor.PYTHON), False, "the Python enactor cannot build one"),
    ],
)
def test_it_says_who_builds_views(host: Host, good: bool, words: str) -> None:
    rows = [row for row in doctor.findings(host) if row[1].startswith("views (")]

    assert [(row[0], words in row[1]) for row in rows] == [(good, True)]


def test_inside_a_run_no_kernel_and_no_container_is_blamed() -> None:
    [(good, what, way_out)] = doctor.findings(NONE, Clues(container="docker", filtered=True, inside=True))

    assert (good, "inside a run of ringfence" in what, "outside" in way_out) == (False, True, True)


@pytest.mark.needs_userns
def test_a_run_is_known_from_inside(place: Place) -> None:
    env = os.environ | place.environ
    done = subprocess.run(
        [*RINGFENCE, "run", *AS_ROOT, "--allow-read", sys.prefix, "--allow-read", str(Path(doctor.__file__).parents[1]),
         "--allow-read", sys.base_prefix, "--", *RINGFENCE, "doctor"],
        cwd=place.workspace, env=env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert (done.returncode, "inside a run of ringfence" in done.stdout) == (1, True), done.stderr


def test_a_bubblewrap_that_cannot_help_is_named_with_its_own_words() -> None:
    assert (False, "views by bubblewrap: it says no", "") in doctor.findings(NONE)


@pytest.mark.needs_bwrap
def test_it_is_said_for_real_where_no_namespaces_may_be_made() -> None:
    outer = ["bwrap", "--unshare-user", "--disable-userns", "--dev-bind", "/", "/"]
    command = [sys.executable, "-c", "import sys; from ringfence.cli import main; sys.exit(main())", "doctor", "--json"]

    done = subprocess.run([*outer, *command], capture_output=True, text=True, timeout=30)

    document = json.loads(done.stdout)
    bad = [finding for finding in document["findings"] if not finding["ok"]]
    assert (done.returncode, document["schema"], document["host"]["namespaces"]) == (1, "ringfence/doctor@1", False)
    assert bad[0]["what"].startswith("views (")
    assert "max_user_namespaces" in bad[1]["what"] + bad[1]["wayOut"]
    assert bad[2]["what"].startswith("views by bubblewrap: ")
