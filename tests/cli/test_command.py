"""The command, as a person or a script calls it: exit codes, messages, JSON, and bad input that runs nothing."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.looking import until

RINGFENCE = [str(Path(sys.executable).with_name("ringfence"))]
AS_ROOT = ["--as-root"] if os.geteuid() == 0 else []
MARK = "ran.txt"


class Place:
    """A workspace with a home beside it, and the command run in it."""

    def __init__(self, base: Path) -> None:
        self.workspace = base / "ws"
        self.home = base / "home"
        self.workspace.mkdir()
        self.home.mkdir()
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}

    def call(self, *words: str, **more: object) -> "subprocess.CompletedProcess[str]":
        options: dict[str, object] = {"cwd": self.workspace, "stdin": subprocess.DEVNULL, "timeout": 60, **more}
        return subprocess.run(  # type: ignore[call-overload, no-any-return]
            [*RINGFENCE, *words], env=self.environ, capture_output=True, text=True, **options
        )

    def run(self, *words: str, options: tuple[str, ...] = (), **more: object) -> "subprocess.CompletedProcess[str]":
        return self.call("run", *AS_ROOT, *options, "--", *words, **more)

    def mark(self, *options: str) -> "subprocess.CompletedProcess[str]":
        """Try to leave a mark in the workspace."""
        return self.run("sh", "-c", f"echo ran > {MARK}", options=options)

    @property
    def has_run(self) -> bool:
        return (self.workspace / MARK).exists()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_first_example_writes_inside_and_is_refused_outside(place: Place) -> None:
    (place.home / ".ssh").mkdir()
    (place.home / ".ssh" / "id_rsa").write_text("SECRET")

    done = place.run("sh", "-c", "echo ok > built.txt; echo no > ~/outside; cat ~/.ssh/id_rsa; exit 3")

    assert done.returncode == 3
    assert (place.workspace / "built.txt").read_text() == "ok\n"
    assert not (place.home / "outside").exists()
    assert "SECRET" not in done.stdout
    assert f"--allow-write {place.home}/outside" in done.stderr
    assert f"--allow-read {place.home}/.ssh/id_rsa" in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("sh", "-c", "exit 77"), 77),
        (("sh", "-c", "kill -9 $$"), 137),
        (("sh", "-c", "kill -TERM $$"), 143),
        (("no-such-program",), 127),
        (("/no/such/program",), 127),
        (("/etc/passwd",), 126),
        (("/",), 126),
        (("true",), 0),
    ],
    ids=str,
)
def test_the_exit_code_is_the_commands_own_or_a_shells(place: Place, words: tuple[str, ...], code: int) -> None:
    assert place.run(*words).returncode == code


def test_a_timeout_ends_the_command_with_124(place: Place) -> None:
    begin = time.monotonic()

    done = place.run("sleep", "100", options=("--timeout", "300ms"))

    assert done.returncode == 124
    assert time.monotonic() - begin < 90


BAD_POLICIES = [
    ("p.json", '{"filesystem": {\n "allowWrit": []}}', "p.json:2: ", "allowWrite"),
    ("p.json", '{"filesystem": {\n "allowWrite": [1]}}', "p.json:2: ", ""),
    ("p.json", "{", "p.json:1: ", ""),
    ("p.toml", '[filesystem]\nallowWrite = ["a\\u0000b"]\n', "p.toml:2: ", ""),
    ("p.toml", '[filesystem]\nallowWrite = ["~nobody/x"]\n', "p.toml:2: ", ""),
    ("p.json", "x" * (50 << 20), "p.json", ""),
    ("p.json", json.dumps({"filesystem": {"denyRead": [f"/x/{n}" for n in range(10_000)]}}), "", "8192"),
]


@pytest.mark.parametrize(("name", "text", "says", "hints"), BAD_POLICIES, ids=range(len(BAD_POLICIES)))
def test_a_bad_policy_is_a_clear_error_and_nothing_runs(
    place: Place, name: str, text: str, says: str, hints: str
) -> None:
    policy = place.home / name
    policy.write_text(text)

    done = place.mark("--policy", str(policy))

    assert done.returncode == 125
    assert done.stderr.startswith("ringfence: ")
    assert says in done.stderr
    assert hints in done.stderr
    assert "Traceback" not in done.stderr
    assert not place.has_run


def test_a_missing_an_unreadable_and_a_fifo_policy_are_errors_and_nothing_runs(place: Place) -> None:
    fifo = place.home / "fifo.json"
    os.mkfifo(fifo)
    directory = place.home / "dir.json"
    directory.mkdir()

    for path in (place.home / "missing.json", fifo, directory):
        done = place.mark("--policy", str(path))
        assert done.returncode == 125, path
        assert path.name in done.stderr
        assert not place.has_run


def test_a_policy_that_the_command_could_write_is_refused(place: Place) -> None:
    (place.workspace / "policy.json").write_text('{"filesystem": {"allowWrite": ["policy.json"]}}')

    done = place.mark("--policy", "policy.json")

    if done.returncode == 0:  # then the file itself must be out of the command's reach
        again = place.run("sh", "-c", "echo x > policy.json", options=("--policy", "policy.json"))
        assert again.returncode != 0
        assert "allowWrite" in (place.workspace / "policy.json").read_text()
    else:
        assert done.returncode == 125
        assert not place.has_run


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("run",),
        ("run", "--"),
        ("run", "--no-such-option", "--", "true"),
        ("run", "--timeout", "soon", "--", "true"),
        ("run", "--timeout"),
        ("run", "--enforcement", "maybe", "--", "true"),
        ("why", "read"),
        ("why", "eat", "/"),
        ("policy", "burn"),
        ("no-such-verb",),
    ],
    ids=str,
)
def test_bad_usage_is_2_and_says_what_would_be_right(place: Place, words: tuple[str, ...]) -> None:
    done = place.call(*words)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("ringfence: ") or done.stdout.startswith("usage: ")


def test_a_hostile_name_in_a_message_does_not_steer_the_terminal(place: Place) -> None:
    done = place.call("run", "--\x1b]0;owned\x07", "--", "true")

    assert "\x1b" not in done.stderr


def test_arguments_that_are_not_utf_8_reach_the_command_unchanged(place: Place) -> None:
    name = os.fsdecode(b"caf\xe9")

    done = place.run("sh", "-c", 'printf x > "$1"', "sh", name)

    assert done.returncode == 0
    assert os.listdir(os.fsencode(place.workspace)) == [b"caf\xe9"]


def test_plan_shows_every_step_and_every_gap_and_runs_nothing(place: Place) -> None:
    done = place.call("plan", *AS_ROOT, "--", "sh", "-c", f"echo ran > {MARK}")

    assert done.returncode == 0
    assert "seccomp" in done.stdout
    assert f"{place.workspace} writable" in done.stdout
    assert "gap wanted" in done.stdout
    assert not place.has_run


@pytest.mark.needs_userns
def test_plan_shows_what_keeps_the_mounts_together(place: Place) -> None:
    assert " lock " in place.call("plan", *AS_ROOT, "--", "true").stdout


DOCUMENTS = [
    (("run", *AS_ROOT, "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 4"), "ringfence/outcome@1", 4),
    (("plan", *AS_ROOT, "--json", "--", "true"), "ringfence/plan@1", 0),
    (("doctor", "--json"), "ringfence/doctor@1", None),
    (("why", "--json", "read", "/etc/passwd"), "ringfence/decision@1", 0),
    (("judge", "bash", "ls", "--json"), "ringfence/judgement@1", 0),
    (("policy", "show", "--json"), "ringfence/policy@1", 0),
    (("policy", "check", "--json"), "ringfence/policy-check@1", 0),
    (("run", "--json", "--policy", "/no/such", "--", "true"), "ringfence/error@1", 125),
]


@pytest.mark.parametrize(("words", "schema", "code"), DOCUMENTS, ids=lambda value: str(value)[:40])
def test_every_verb_speaks_versioned_json(place: Place, words: tuple[str, ...], schema: str, code: int | None) -> None:
    done = place.call(*words)

    assert json.loads(done.stdout)["schema"] == schema
    assert code is None or done.returncode == code


def test_the_json_of_a_run_has_its_output_and_what_was_in_force(place: Place) -> None:
    done = place.run("sh", "-c", "echo out; printf '\\377' >&2; exit 4", options=("--json",))

    document = json.loads(done.stdout)
    assert document["stdout"] == "out\n"
    assert document["stderrBase64"] == "/w=="
    assert document["exitCode"] == 4
    assert document["ending"] == {"type": "exited", "code": 4}
    assert any(sentence.startswith("network: closed") for sentence in document["inForce"])


def test_why_names_the_rule_and_the_smallest_grant(place: Place) -> None:
    done = place.call("why", "write", "~/x")

    assert done.returncode == 1
    assert f"deny: write {place.home}/x" in done.stdout
    assert f"--allow-write {place.home}/x" in done.stdout


def test_a_grant_named_by_why_works(place: Place) -> None:
    (place.home / "x").write_text("old")
    assert place.run("sh", "-c", "echo new > ~/x").returncode != 0

    done = place.run("sh", "-c", "echo new > ~/x", options=("--allow-write", str(place.home / "x")))

    assert done.returncode == 0, done.stderr
    assert (place.home / "x").read_text() == "new\n"


def test_a_home_that_may_be_written_need_not_have_what_is_denied_in_it(place: Place) -> None:
    """Of a home's tools (~/.cargo) the directory itself was to be watched, which is not there."""
    own = (f"{place.home}/.config/ringfence", f"{place.home}/.local/state/ringfence")
    denied = tuple(word for path in own for word in ("--deny-write", path))

    done = place.run("sh", "-c", "echo ran > here", options=("--allow-write", str(place.home), *denied))

    assert done.returncode == 0, done.stderr
    assert not (place.home / ".cargo").exists()


def test_a_projects_policy_widens_nothing_until_it_is_trusted_and_again_when_it_changes(place: Place) -> None:
    (place.home / "data").write_text("DATA")
    (place.workspace / ".ringfence").mkdir()
    policy = place.workspace / ".ringfence" / "policy.toml"
    policy.write_text(f'[filesystem]\nallowRead = ["{place.home}/data"]\n')

    def reads() -> bool:
        return "DATA" in place.run("cat", str(place.home / "data")).stdout

    assert not reads()
    assert place.call("trust").returncode == 0
    assert reads()
    policy.write_text(policy.read_text() + "# changed\n")
    assert not reads()
    assert place.call("trust").returncode == 0
    assert place.call("trust", "--remove").returncode == 0
    assert not reads()


def test_where_nothing_is_enforced_that_is_said(place: Place) -> None:
    (place.home / ".config" / "ringfence").mkdir(parents=True)
    by_flag = place.mark("--enforcement", "off")
    (place.home / ".config" / "ringfence" / "policy.toml").write_text('enforcement = "off"')
    by_file = place.mark()

    assert place.has_run
    assert [by_flag.stderr, by_file.stderr] == ["ringfence: not enforced: anything: enforcement is off\n"] * 2


@pytest.mark.parametrize("how", ["off", "required"])
def test_two_words_about_enforcement_that_are_not_the_same_are_refused(place: Place, how: str) -> None:
    done = place.mark("--best-effort", "--enforcement", how)

    assert (done.returncode, place.has_run) == (2, False)
    assert f"--best-effort: is not --enforcement {how}" in done.stderr
    assert place.mark("--best-effort", "--enforcement", "best-effort").returncode == 0


def test_required_refuses_what_best_effort_runs_with_the_gap_said(place: Place) -> None:
    policy = place.home / "p.json"
    policy.write_text('{"filesystem": {"inject": [{"source": "/etc/hostname", "target": "./nowhere"}]}}')

    refused = place.mark("--policy", str(policy))
    assert (refused.returncode, place.has_run) == (125, False)
    assert "nowhere" in refused.stderr

    tried = place.mark("--policy", str(policy), "--best-effort")
    assert (tried.returncode, place.has_run) == (0, True)
    assert "nowhere" in tried.stderr

    plan = ("plan", *AS_ROOT, "--policy", str(policy))
    assert [place.call(*plan, *more, "--", "true").returncode for more in ((), ("--best-effort",))] == [125, 0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_ringfence_reaches_the_command(place: Place, number: signal.Signals) -> None:
    script = "trap 'echo caught > caught; exit 9' TERM INT HUP; echo ready; while :; do sleep 0.05; done"
    process = subprocess.Popen(
        [*RINGFENCE, "run", *AS_ROOT, "--", "sh", "-c", script],
        cwd=place.workspace,
        env=place.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait(60) == 9
    assert (place.workspace / "caught").exists()


def is_stopped(word: str) -> bool:
    """Whether a shell that has this word is."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(b"sh\0") and word.encode() in path.read_bytes():
                return path.with_name("stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_command_that_has_stopped_hears_it_too(place: Place, number: signal.Signals) -> None:
    """Without a terminal nobody continues it: `timeout 5 ringfence run` waited for good."""
    word = f"stopped-{os.getpid()}-{number}"
    process = subprocess.Popen(
        [*RINGFENCE, "run", *AS_ROOT, "--", "sh", "-c", f": {word}; kill -STOP $$; exit 3"],
        cwd=place.workspace,
        env=place.environ,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with process:
        try:
            assert until(lambda: is_stopped(word))
            process.send_signal(number)
            assert process.wait(60) == 128 + number
        finally:
            process.kill()


UNHEARD = """
import os, signal, threading, time
from ringfence.cli.run import hear
heard, told = os.pipe()
HEAR
other = threading.Thread(target=time.sleep, args=(60,), daemon=True)
other.start()
threading.Timer(0.2, signal.pthread_kill, (other.ident, signal.SIGTERM)).start()
os._exit(os.read(heard, 1)[0])
"""


def test_a_signal_is_heard_also_when_it_does_not_wake_who_waits() -> None:
    """As one that comes when the main thread is about to wait: here another thread has it."""
    by_handler = "signal.signal(signal.SIGTERM, lambda number, _: os.write(told, bytes((number,))))"
    by_thread = "hear((signal.SIGTERM,), lambda number: os.write(told, bytes((number,))))"

    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", UNHEARD.replace("HEAR", by_handler)], timeout=2)
    done = subprocess.run([sys.executable, "-c", UNHEARD.replace("HEAR", by_thread)], timeout=60)

    assert done.returncode == signal.SIGTERM


def test_a_signal_at_any_moment_ends_it_as_a_signal_does(place: Place) -> None:
    for number in range(10):
        process = subprocess.Popen(
            [*RINGFENCE, "run", *AS_ROOT, "--", "sleep", "0.15"],
            cwd=place.workspace,
            env=place.environ,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        with process:
            time.sleep(0.04 + number * 0.02)  # before it starts, while it starts, as it ends
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
        assert process.returncode in (0, 128 + signal.SIGTERM, -signal.SIGTERM), said


def test_a_slow_reader_gets_all_of_the_output(place: Place) -> None:
    fifo = place.workspace / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(["sh", "-c", f"(sleep 3; wc -c) < {fifo}"], stdout=subprocess.PIPE) as reader:
        line = " ".join([*RINGFENCE, "run", *AS_ROOT, "--", "head", "-c", "120000", "/dev/zero", ">", str(fifo)])
        subprocess.run(["sh", "-c", line], cwd=place.workspace, env=place.environ, check=True, timeout=60)
        assert reader.stdout is not None
        assert reader.stdout.read().strip() == b"120000"


def test_output_that_cannot_be_kept_is_said(place: Place) -> None:
    line = " ".join([*RINGFENCE, "run", *AS_ROOT, "--", "head", "-c", "200000", "/dev/zero"])
    limited = f"ulimit -f 100; trap '' XFSZ; {line} > out"  # a file that may not grow, as on a full disk

    done = subprocess.run(
        ["sh", "-c", limited], cwd=place.workspace, env=place.environ, capture_output=True, timeout=60
    )

    assert done.returncode == 125
    assert b"cannot be passed on" in done.stderr


def test_output_that_a_failing_disk_does_not_take_is_said(place: Place) -> None:
    """EIO, as from a disk: of what a process has at no address nothing can be written either."""
    with subprocess.Popen(["sleep", "100"]) as nobody:
        with open(f"/proc/{nobody.pid}/mem", "wb", buffering=0) as failing:
            words = [*RINGFENCE, "run", *AS_ROOT, "--", "echo", "lost"]
            done = subprocess.run(
                words, cwd=place.workspace, env=place.environ, stdout=failing, stderr=subprocess.PIPE, timeout=60
            )
        nobody.kill()

    assert done.returncode == 125
    assert b"cannot be passed on: Input/output error" in done.stderr


def test_two_runs_into_one_file_keep_their_order(place: Place) -> None:
    run = " ".join([*RINGFENCE, "run", *AS_ROOT, "--"])
    line = f"({run} echo a; echo b; {run} sh -c 'echo c; echo d >&2; echo e') > out 2>&1"

    subprocess.run(["sh", "-c", line], cwd=place.workspace, env=place.environ, check=True, timeout=60)

    assert (place.workspace / "out").read_text() == "a\nb\nc\nd\ne\n"


def test_standard_input_from_a_file_begins_where_the_caller_left_it(place: Place) -> None:
    for directory in (place.workspace, place.home):  # shown inside, and not shown
        (directory / "in").write_text("one\ntwo\nthree\n")
        line = f"(read line; {RINGFENCE[0]} run {' '.join(AS_ROOT)} -- cat) < {directory}/in"
        words = ["sh", "-c", line]
        done = subprocess.run(
            words, cwd=place.workspace, env=place.environ, stdout=subprocess.PIPE, timeout=60, check=True
        )
        assert done.stdout == b"two\nthree\n"


@pytest.mark.needs_root
def test_root_is_refused_a_workspace_of_its_own_unless_it_says_so(place: Place) -> None:
    done = place.call("run", "--", "sh", "-c", f"echo ran > {MARK}")

    assert done.returncode == 125
    assert "--as-root" in done.stderr
    assert not place.has_run


@pytest.mark.needs_root
def test_started_by_root_the_command_is_the_workspaces_owner(tmp_path: Path) -> None:
    place = Place(tmp_path)
    os.chown(place.workspace, 65534, 65534)
    for directory in (tmp_path, *tmp_path.parents):
        if directory != Path("/") and directory.stat().st_uid == 0 and not directory.stat().st_mode & 1:
            directory.chmod(directory.stat().st_mode | 0o11)

    done = place.call("run", "--", "sh", "-c", "id -u; id -G; touch mine; grep CapEff /proc/self/status")

    assert done.stdout.split() == ["65534", "65534", "CapEff:", "0000000000000000"], done
    assert (place.workspace / "mine").stat().st_uid == 65534
