"""The view that bubblewrap builds: nothing runs unless it built it, and everything ends with whoever holds it.

What the walls themselves keep is in tests/cases and tests/attacks, which run on this backend too.
"""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import msgspec
import pytest
from tests.enforce.conftest import SECONDS, Site, Walls, bare, launched
from tests.looking import until

from ringfence import enforce
from ringfence.enforce import bubblewrap
from ringfence.enforce.enactor import Opened
from ringfence.model import Exited, Plan, Refused, Signalled, Step, StepKind

assert sys.platform == "linux"

pytestmark = pytest.mark.needs_bwrap
BUBBLEWRAP = Walls(view=True, bubblewrap=True)


def changed(plan: Plan, *steps: Step) -> Plan:
    return msgspec.structs.replace(plan, steps=steps)


def with_words(plan: Plan, *words: bytes) -> Plan:
    """The plan, with other words in the first request to bubblewrap."""
    first, *rest = plan.steps
    return changed(plan, msgspec.structs.replace(first, strings=words), *rest)


def test_it_is_found_and_tried() -> None:
    found = bubblewrap.found(msgspec.structs.replace(enforce.probe(), namespaces=False), None)

    assert (found.bubblewrap, found.bubblewrap_why) == (os.path.realpath(shutil.which("bwrap") or ""), "")


@pytest.mark.needs_userns
def test_where_the_enactor_can_build_a_view_nobody_asks_for_bubblewrap() -> None:
    host = enforce.probe()

    assert (host.namespaces, host.bubblewrap, host.bubblewrap_why) == (True, "", "")


def test_where_it_may_not_make_namespaces_either_its_own_words_say_why() -> None:
    script = (
        "import sys, msgspec; from ringfence import enforce;"
        "host = enforce.probe(); print(host.namespaces, repr(host.bubblewrap), host.bubblewrap_why)"
    )
    outer = ["bwrap", "--unshare-user", "--disable-userns", "--dev-bind", "/", "/", sys.executable, "-c", script]

    done = subprocess.run(outer, capture_output=True, text=True, timeout=30)

    # To a plain user in a user namespace root's files are nobody's, and then the program is not even tried.
    words = "bwrap: " if os.geteuid() == 0 else f"{shutil.which('bwrap')} can be changed by others than root"
    assert done.stdout.startswith(f"False '' {words}"), done.stderr


@pytest.mark.parametrize(("mode", "owner"), [(0o775, 0), (0o757, 0), (0o755, 65534)])
@pytest.mark.needs_root
def test_a_program_that_others_could_have_changed_is_not_used(
    monkeypatch: pytest.MonkeyPatch, mode: int, owner: int
) -> None:
    directory = Path(tempfile.mkdtemp(dir="/opt"))
    directory.chmod(0o755)
    try:
        program = directory / "bwrap"
        shutil.copy("/usr/bin/bwrap", program)
        monkeypatch.setattr(bubblewrap, "PLACES", (str(program),))
        assert bubblewrap.find() == (str(program), "")
        program.chmod(mode)
        os.chown(program, owner, owner)

        assert bubblewrap.find() == ("", f"{program} can be changed by others than root")
    finally:
        shutil.rmtree(directory)


def test_a_program_in_a_directory_of_the_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    program.symlink_to("/usr/bin/env")
    monkeypatch.setattr(bubblewrap, "PLACES", (str(tmp_path / "nothing"),))
    assert bubblewrap.find() == ("", "bubblewrap is not installed")
    shutil.copy("/usr/bin/env", tmp_path / "copy")
    (tmp_path / "copy").chmod(0o777)
    monkeypatch.setattr(bubblewrap, "PLACES", (str(tmp_path / "copy"),))

    assert bubblewrap.find()[0] == ""


def test_where_it_is_missing_nothing_runs(site: Site) -> None:
    plan = site.plan(BUBBLEWRAP)
    missing = with_words(plan, b"/nonexistent/bwrap", *plan.steps[0].strings[1:])

    text = f"{plan.steps[0].text}: {os.strerror(errno.ENOENT)}"
    assert launched(missing) == (Refused(0, "bubblewrap", errno.ENOENT, text), b"")
    assert not site.made.exists()


def test_what_it_says_is_the_refusal(site: Site) -> None:
    plan = site.plan(BUBBLEWRAP)
    ending, said = launched(with_words(plan, *plan.steps[0].strings, b"--no-such-thing"))

    assert (ending, said) == (Refused(0, "bubblewrap", errno.ESTALE, "bwrap: Unknown option --no-such-thing"), b"")
    assert not site.made.exists()


def test_a_program_that_does_nothing_is_no_success(site: Site) -> None:
    plan = site.plan(BUBBLEWRAP)

    with pytest.raises(enforce.linux.LaunchError, match="said nothing"):  # type: ignore[attr-defined]
        launched(with_words(plan, b"/bin/true"))
    assert not site.made.exists()


def mounts_of(plan: Plan) -> list[int]:
    """The steps that ask for one mount each."""
    numbers = [number for number, step in enumerate(plan.steps) if step.kind is StepKind.BUBBLEWRAP]
    return numbers[1:-1]


def test_whatever_it_leaves_out_is_noticed_and_nothing_runs(site: Site) -> None:
    plan = site.plan(BUBBLEWRAP)
    endings = {}
    for number in mounts_of(plan):
        steps = [step for at, step in enumerate(plan.steps) if at != number]
        endings[plan.steps[number].text] = launched(changed(plan, *steps))[0]

    refused = [text for text, ending in endings.items() if isinstance(ending, Refused)]
    assert refused == [*endings]
    assert not site.made.exists()


@pytest.mark.parametrize("name", ["hidden", ".git/hooks", ".git"])
def test_what_was_swapped_for_a_link_is_noticed_and_nothing_runs(site: Site, tmp_path: Path, name: str) -> None:
    plan = site.plan(BUBBLEWRAP)
    place = site.path / name
    place.rename(tmp_path / "taken")
    place.symlink_to(tmp_path / "taken")

    ending, _ = launched(plan)

    assert isinstance(ending, Refused)
    assert not site.made.exists()


@pytest.mark.parametrize("name", ["hidden", ".git/hooks"])
def test_what_was_swapped_for_another_directory_is_noticed_and_nothing_runs(
    site: Site, tmp_path: Path, name: str
) -> None:
    plan = site.plan(BUBBLEWRAP)
    place = site.path / name
    place.rename(tmp_path / "taken")
    place.mkdir()

    ending, _ = launched(plan)

    if name == "hidden":  # what stands there now is hidden as well
        assert (ending, site.made.exists()) == (Exited(0), True)
    else:
        assert isinstance(ending, Refused)
        assert (ending.errno, site.made.exists()) == (errno.ESTALE, False)


def test_a_control_group_is_joined_once_and_by_all_of_it(site: Site, native: Opened, tmp_path: Path) -> None:
    plan = site.plan(BUBBLEWRAP)
    fd = os.open(tmp_path / "list", os.O_WRONLY | os.O_CREAT)
    join = Step(StepKind.JOIN, "a control group", (fd,))
    try:
        ran = bare(native, enforce.encode((join, *plan.steps)), passed={fd: fd})
    finally:
        os.close(fd)

    assert (site.made.read_text(), (tmp_path / "list").read_text()) == ("ran\n", "0"), ran


# ---- The end ----


def is_alive(marker: str) -> bool:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    return True
            except OSError:
                continue
    return False


def gone(marker: str) -> bool:
    return until(lambda: not is_alive(marker))


@pytest.fixture
def word() -> str:
    """A number of seconds that nobody else sleeps."""
    return str(91_000_000_000 + int.from_bytes(os.urandom(4), "little"))


def started(site: Site, marker: str) -> Plan:
    """A plan whose command stays, with a child in a session of its own."""
    script = f"setsid sleep {marker} & echo ran > sub/made; trap '' TERM INT; sleep {marker}"
    return site.plan(BUBBLEWRAP, script)


def wait_for(path: Path) -> None:
    assert until(path.exists)


def test_when_its_own_process_is_killed_everything_ends(site: Site, word: str) -> None:
    plan = started(site, word)
    with enforce.start(plan, enforce.encode(plan.steps), capture=True, feed=True) as launch:
        wait_for(site.made)
        os.kill(launch.process.pid, signal.SIGKILL)
        ending, _, _ = launch.wait(SECONDS)

    assert ending == Signalled(signal.SIGKILL)
    assert gone(word)


def test_signals_to_its_own_process_do_not_end_the_run(site: Site) -> None:
    plan = site.plan(BUBBLEWRAP, "echo ran > sub/made; sleep 0.3; exit 7")
    with enforce.start(plan, enforce.encode(plan.steps), capture=True, feed=True) as launch:
        wait_for(site.made)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.kill(launch.process.pid, number)  # as the keys of a terminal reach the whole group
        ending, _, _ = launch.wait(SECONDS)

    assert ending == Exited(7)


def test_leaving_the_launch_ends_everything(site: Site, word: str) -> None:
    plan = started(site, word)
    with enforce.start(plan, enforce.encode(plan.steps), capture=True, feed=True):
        wait_for(site.made)

    assert gone(word)


def test_the_thread_that_started_it_may_end(site: Site) -> None:
    plan = site.plan(BUBBLEWRAP, "sleep 0.3; exit 7")
    found = []
    thread = threading.Thread(
        target=lambda: found.append(enforce.start(plan, enforce.encode(plan.steps), capture=True, feed=True))
    )
    thread.start()
    thread.join()
    with found[0] as launch:
        ending, _, _ = launch.wait(SECONDS)

    assert ending == Exited(7)


def test_the_command_has_the_signals_and_streams_it_would_have_had(site: Site) -> None:
    script = "grep -E '^Sig(Blk|Ign)' /proc/self/status; ls -1 /proc/self/fd | wc -l; echo err >&2"
    own = launched(site.plan(Walls(view=False), script))

    assert launched(site.plan(BUBBLEWRAP, script)) == own


@pytest.mark.needs_root
def test_a_setuid_bubblewrap_builds_the_same_view(site: Site) -> None:
    """As Debian once had it. Not for uid 65534, which it maps twice, and then waits for itself for ever."""
    directory = Path(tempfile.mkdtemp(dir="/opt"))
    directory.chmod(0o755)
    try:
        program = directory / "bwrap"
        shutil.copy("/usr/bin/bwrap", program)
        program.chmod(0o4755)
        assert program.stat().st_mode & stat.S_ISUID
        why = bubblewrap.attempt(str(program), [*bubblewrap.TRIED.split(), "--proc", "/proc"], (12345, 12345))
    finally:
        shutil.rmtree(directory)

    assert why == ""
