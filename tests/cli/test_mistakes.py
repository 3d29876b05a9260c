"""What people get wrong: each mistake is answered by one line with the place, by a hint, and by the right exit code."""

import errno
import json
import os
import pwd
import signal
import subprocess
from pathlib import Path

import pytest

from ringfence import cli

from .test_command import AS_ROOT, RINGFENCE, Place

FILES = {
    "word.toml": 'filesystem.alowRead = ["/x"]\n',
    "type.json": '{\n"filesystem": {"denyRead": 3}}\n',
    "broken.toml": "filesystem = = 3\n",
    "broken.json": '{"filesystem": {',
    "empty.json": "",
    "twice.json": '{"filesystem": {},\n "filesystem": {}}',
    "url.toml": 'network.allowedDomains = ["https://x.com"]\n',
    "rules.yaml": "enforcement: required\n",
    "plain": "no program\n",
    "bare": "echo hi\n",
    "orphan": "#!/no/such/interpreter\n",
}
ROOM = "start ringfence in the project's directory, or name one with --workspace"
# What was typed behind `ringfence`, the exit code, what is said behind `ringfence: `, and the hint.
MISTAKES = [
    ("rum -- true", 2, "rum: there is no such verb", "did you mean 'run'?"),
    ("version", 2, "version: there is no such verb", "did you mean '--version'?"),
    ("-- true", 2, "--: there is no verb before it", "ringfence run -- npm test"),
    ("run", 2, "command: there is nothing to run", "ringfence run -- npm test"),
    ("run --alow-read x -- true", 2, "--alow-read: there is no such option", "did you mean '--allow-read'?"),
    ("run --bad -- true", 2, "--bad: there is no such option", "--help has them all"),
    ("approvals grant reed plain", 2, "approvals grant: 'reed' is no operation", "did you mean 'read'?"),
    ("why reed plain", 2, "why: needs one of read, write, run, connect, and a path or host", "did you mean 'read'?"),
    ("run -c true", 2, "-c: there is no such option", "--help has them all"),
    ("run --workspace -- true", 2, "--workspace: needs a value: --workspace DIR", ""),
    ("run --workspace= -- true", 2, "--workspace: an empty value: --workspace DIR", ""),
    ("run --profile= -- true", 2, "--profile: an empty value: --profile NAME", ""),
    ("run --inject /a -- true", 2, "--inject: needs a value: --inject SOURCE TARGET", ""),
    ("run --json=1 -- true", 2, "--json: takes no value", ""),
    ("run --timeout 1s --timeout 2s -- true", 2, "--timeout: was given twice", ""),
    ("run --timeout soon -- true", 2, "--timeout: does not understand 'soon'", "60s, 5m, 500ms"),
    ("run --memory lots -- true", 2, "--memory: does not understand 'lots'", "512M, 2G, 1000000"),
    ("run --ask-fd 99999999999 -- true", 2, "--ask-fd: '99999999999' is no socket that is open here",
     "one end of a socketpair, above 2"),
    ("run --forward web -- true", 2, "--forward: 'web' is no port", "a number from 1 to 65535"),
    ("run --workspace gone -- true", 2, "{ws}/gone: the workspace is not there", "name a directory with --workspace"),
    ("run --workspace=~/gone -- true", 2, "{home}/gone: the workspace is not there",
     "name a directory with --workspace"),
    ("run --policy=~/gone.toml -- true", 125, "{home}/gone.toml: cannot be read: No such file or directory", ""),
    ("run --workspace plain -- true", 2, "{ws}/plain: the workspace is not a directory",
     "name a directory with --workspace"),
    ("run --workspace / -- true", 125, "workspace: / belongs to the whole system", ROOM),
    ("run --workspace {home} -- true", 125, "workspace: {home} is a home directory", ROOM),
    ("run --policy gone.toml -- true", 125, "gone.toml: cannot be read: No such file or directory", ""),
    ("run --policy . -- true", 125, ".: is not a regular file", "a policy is a plain file"),
    ("policy check --policy word.toml", 125, "{ws}/word.toml:1: unknown key 'alowRead' in filesystem",
     "did you mean 'allowRead'?"),
    ("policy check --policy type.json", 125, "{ws}/type.json:2: filesystem.denyRead is the number 3",
     'it takes a list of paths, each text or {{"path": "…", "literal": true}}'),
    ("policy check --policy broken.toml", 125, "{ws}/broken.toml:1: not valid TOML: Invalid value", ""),
    ("policy check --policy broken.json", 125, "{ws}/broken.json:1: not valid JSON: input data was truncated", ""),
    ("policy check --policy empty.json", 125, "{ws}/empty.json:1: not valid JSON: input data was truncated",
     "an empty policy is {{}}"),
    ("policy check --policy rules.yaml", 125, "{ws}/rules.yaml:1: not valid JSON: invalid character",
     "what does not end in .toml is read as JSON"),
    ("policy check --policy url.toml", 125,
     "{ws}/url.toml:1: network.allowedDomains[0] is 'https://x.com': a host is not a URL, and no network",
     "it takes a host like example.com, *.example.com or example.com:443"),
    ("policy check --policy twice.json", 125, "{ws}/twice.json:2: the key 'filesystem' comes twice",
     "it was set first in line 1"),
    ("run --allow-host https://x.com/y -- true", 2,
     "--allow-host: 'https://x.com/y': a host is not a URL, and no network",
     "a host like example.com:443 or *.example.com"),
    ("run --allow-host x.com:http -- true", 2, "--allow-host: 'x.com:http': a port is a number from 1 to 65535",
     "a host like example.com:443 or *.example.com"),
    ("run --allow-host * -- true", 2,
     "--allow-host: '*': every host is the open network: --allow-network, or allowNetwork",
     "a host like example.com:443 or *.example.com"),
    ("run --deny-host * --deny-host ! -- true", 2, "--deny-host: '!': it has a character that no host has",
     "a host like example.com:443 or *.example.com"),
    ("run --allow-read ~nobody/x -- true", 2, "--allow-read: '~nobody/x' names another user's home",
     "write it out, or ./~name for a file of that name"),
    ("run --allow-socket ~nobody/x -- true", 2, "--allow-socket: '~nobody/x' names another user's home",
     "write it out, or ./~name for a file of that name"),
    ("run --inject ~nobody/x /x -- true", 2, "--inject: '~nobody/x' names another user's home",
     "write it out, or ./~name for a file of that name"),
    ("run --profile clade -- true", 2, "--profile: there is no profile clade", "did you mean 'claude'?"),
    ("policy show --allow-host !", 2, "--allow-host: '!': it has a character that no host has",
     "a host like example.com:443 or *.example.com"),
    ("run --allow-env A=B -- true", 2, "--allow-env: 'A=B' is no variable's name",
     "it takes a name like LANG or a pattern like LC_*"),
    ("run --inject /no/such /x -- true", 125,
     "--inject: /no/such shown at /x: both must exist and be of one kind, for nothing is created on the host",
     "`ringfence plan` shows all gaps; --best-effort runs without"),
    ("why eat /x", 2, "why: needs one of read, write, run, connect, and a path or host",
     "ringfence why read ~/.ssh/id_rsa"),
    ("why run no-such-program", 2, "why: no directory of PATH has a program 'no-such-program'",
     "a file of this directory: ./no-such-program"),
    ("why connect https://x.com/y", 2, "why: 'https://x.com/y' is not a host, or a host and its port",
     "ringfence why connect github.com:22"),
    ("why connect x.com:http", 2, "why: 'x.com:http' is not a host, or a host and its port",
     "ringfence why connect github.com:22"),
    ("install claude --project gone", 2, "--project: gone is not a directory",
     "it is the project's own, as in --project ."),
    ("tenant list --registry {ws}/gone", 2, "tenant list: no tenant was made here: there is no {ws}/gone",
     "ringfence tenant create example.com --alias www.example.com"),
    ("policy burn", 2, "policy: needs one of: check, show, schema", "ringfence policy show --origin"),
    ("policy check word.toml", 2, "word.toml: is one word too many", "ringfence policy check --policy word.toml"),
    ("status nobody", 2, "status: takes one agent: claude, codex, gemini, copilot, cursor, opencode, pi",
     "ringfence status claude"),
    ("judge", 2, "judge: needs a tool and a command or path", "ringfence judge bash 'cp a /etc/b'"),
    ("session show gone", 125, "{ws}: there is no git repository here", "git init, or go to one"),
    ("approvals grant connect https://x.com --yes", 2,
     "approvals grant: https://x.com: a host is not a URL, and no network",
     "a host like example.com:443 or *.example.com"),
    ("approvals grant connect x.com:0 --yes", 2, "approvals grant: x.com:0 has no port that can be dialled",
     "a host like example.com:443 or *.example.com"),
    ("approvals grant connect intranet --yes", 2,
     "approvals grant: intranet: it needs a dot, or everything would match",
     "a host like example.com:443 or *.example.com"),
    ("run --allow-host *.org -- true", 2, "--allow-host: '*.org': every name that ends in .org would match",
     "a host like example.com:443 or *.example.com"),
    ("approvals grant bind localhost:80 --yes", 2, "approvals grant: localhost:80 is not a port", "a port, as 8080"),
    ("approvals revoke gone", 125, "gone: there is no such grant", "ringfence approvals list"),
    ("approvals import gone.json", 125, "gone.json: No such file or directory", ""),
    ("approvals import type.json", 125,
     "type.json: not a document of approvals: Object contains unknown field `filesystem`",
     "ringfence approvals export > FILE makes one"),
    ("log --since ²d", 2, "--since: does not understand '²d'", "10m, 2h, 3d, or 2026-05-01T12:00"),
    ("log --since 99999999999999d", 2, "--since: does not understand '99999999999999d'",
     "10m, 2h, 3d, or 2026-05-01T12:00"),
    ("log --run none", 0, "log: no such event in {home}/.local/state/ringfence/audit", ""),
    ("log --since soon", 2, "--since: does not understand 'soon'", "10m, 2h, 3d, or 2026-05-01T12:00"),
    ("trust", 125, "{ws}/.ringfence: holds no policy.json and no policy.toml", ""),
    ("learn --to /no/such/x.toml -- true", 2, "/no/such/x.toml: cannot be made there",
     "--to takes a file in a directory that you can write"),
    ("learn --to mine.toml -- true", 2,
     "mine.toml: a command in this workspace could write it, and no policy is read from there",
     "a place outside the workspace, or .ringfence/policy.toml"),
    ("doctor all", 2, "all: is one word too many", "ringfence doctor --help"),
]  # fmt: skip
# What cannot be executed, and why: two lines, both ours, and none about a step.
PROGRAMS = [
    ("no-such-program", 127, "no-such-program: No such file or directory",
     "run no-such-program: no directory of PATH has such a program"),
    ("./plain", 126, "./plain: Permission denied", "run {ws}/plain: {ws}/plain has mode 0644 and belongs to {me}"),
    ("./orphan", 127, "./orphan: No such file or directory",
     "read /no/such/interpreter: there is no such file or directory"),
    ("./", 126, "./: Permission denied", "run {ws}: it is a directory"),
    ("./bare", 126, "./bare: Exec format error",
     "run {ws}/bare: it is no program of this machine's, and no #! line says what runs it; a shell script: sh ./bare"),
    ("echo hi", 127, "echo hi: No such file or directory",
     "run echo hi: no directory of PATH has such a program; a line for the shell is run by: sh -c 'echo hi'"),
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    for name, text in FILES.items():
        (made.workspace / name).write_text(text)
    (made.workspace / "plain").chmod(0o644)
    for name in ("orphan", "bare"):
        (made.workspace / name).chmod(0o755)
    return made


@pytest.mark.parametrize(("typed", "code", "said", "hint"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_answered_by_its_place_and_the_way_out(
    place: Place, typed: str, code: int, said: str, hint: str
) -> None:
    names = {"ws": place.workspace, "home": place.home}

    verb, *words = typed.format(**names).split()
    done = place.call(verb, *(AS_ROOT if verb in ("run", "learn") else []), *words)

    expected = f"ringfence: {said}\n" + (f"  hint: {hint}\n" if hint else "")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", expected.format(**names))


@pytest.mark.parametrize(("name", "code", "said", "cause"), PROGRAMS, ids=lambda value: str(value)[:20])
def test_a_program_that_cannot_be_executed_is_named_with_the_cause(
    place: Place, name: str, code: int, said: str, cause: str
) -> None:
    done = place.run(name)

    if name == "./plain" and os.geteuid() == 0:  # outside root would be refused as well, but not by the owner's modes
        assert (done.returncode, done.stderr.splitlines()[0]) == (code, f"ringfence: {said}")
        return
    me = Path(place.workspace / "plain").owner()
    expected = f"ringfence: {said}\nringfence: not ours: {cause}\n".format(ws=place.workspace, me=me)
    assert (done.returncode, done.stderr) == (code, expected)


@pytest.mark.needs_root
@pytest.mark.parametrize("named", ["/", "/tmp", "/proc/self", "{home}"])
def test_root_is_not_told_to_stay_root_where_that_would_not_help(place: Place, named: str) -> None:
    done = place.call("run", "--workspace", named.format(home=place.home), "--", "true")

    assert (done.returncode, done.stderr.splitlines()[1:]) == (125, [f"  hint: {ROOM}"])


def test_learn_does_not_run_what_it_could_not_write_down(place: Place) -> None:
    place.call("learn", *AS_ROOT, "--to", "/no/such/x.toml", "--", "touch", "ran")

    assert not (place.workspace / "ran").exists()


def test_an_option_of_why_may_stand_before_the_path(place: Place) -> None:
    before, behind = (place.call("why", "read", *words) for words in (("--json", "plain"), ("plain", "--json")))

    assert json.loads(before.stdout)["verdict"] == "allow"
    assert (before.returncode, before.stdout) == (behind.returncode, behind.stdout)


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_without_a_home_in_use_a_tilde_is_the_one_on_record_and_never_the_workspace(
    place: Place, home: str | None
) -> None:
    environ = {name: value for name, value in place.environ.items() if name != "HOME"}
    environ |= {"HOME": home} if home is not None else {}
    words = [*RINGFENCE, "why", "read", "~/.ssh/id_rsa", *AS_ROOT]

    done = subprocess.run(words, cwd=place.workspace, env=environ, capture_output=True, text=True)

    on_record = pwd.getpwuid(os.geteuid()).pw_dir
    assert (done.returncode, done.stdout.split(":")[:2]) == (1, ["deny", f" read {on_record}/.ssh/id_rsa"])


@pytest.mark.parametrize("home", ["", "relative"])
@pytest.mark.parametrize("words", ["approvals grant read ~/etc --yes --dry-run", "policy show --policy=~/etc"])
def test_without_a_home_a_tilde_is_not_the_root(place: Place, words: str, home: str) -> None:
    """`~/etc` was /etc where HOME is empty, and would have been stored as that."""
    environ = place.environ | {"HOME": home}

    asked = [*RINGFENCE, *words.split()]
    done = subprocess.run(asked, cwd=place.workspace, env=environ, capture_output=True, text=True)

    assert done.returncode == 125
    assert f" {pwd.getpwuid(os.geteuid()).pw_dir}/etc" in done.stderr


def test_where_nothing_can_be_remembered_the_way_out_is_said(place: Place) -> None:
    (place.home / "file").write_text("")
    words = [*RINGFENCE, "approvals", "grant", "read", "/usr/share", "--yes"]
    environ = {**place.environ, "XDG_STATE_HOME": str(place.home / "file" / "state")}

    done = subprocess.run(words, cwd=place.workspace, env=environ, capture_output=True, text=True)

    said = "what is remembered is kept there: set HOME, or XDG_STATE_HOME, to a directory that you may write"
    assert (done.returncode, done.stderr.splitlines()[1:]) == (125, [f"  hint: {said}"])


@pytest.mark.parametrize("words", ["trust", "approvals grant read /usr/share --yes"])
def test_nothing_is_remembered_of_a_workspace_whose_name_is_no_text(place: Place, words: str) -> None:
    odd = place.workspace / os.fsdecode(b"odd\xff")
    (odd / ".ringfence").mkdir(parents=True)
    (odd / ".ringfence" / "policy.json").write_text("{}")

    done = place.call(*words.split(), "--workspace", str(odd))

    assert (done.returncode, done.stdout) == (125, "")
    assert "is no text, and cannot be remembered" in done.stderr.splitlines()[0]


def test_a_current_directory_that_is_gone_is_said(place: Place) -> None:
    (place.workspace / "gone").mkdir()
    script = 'cd gone && rmdir ../gone && exec "$0" run -- true'

    done = subprocess.run(
        ["sh", "-c", script, *RINGFENCE], cwd=place.workspace, env=place.environ, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (
        125,
        "ringfence: the current directory: is gone\n  hint: cd to one that is there\n",
    )


def test_a_workspace_that_nobody_may_look_into_is_said_once(place: Place) -> None:
    closed = place.workspace / "closed"
    closed.mkdir()
    (closed / ".ringfence").symlink_to(".ringfence")  # a loop, which is root's to see too
    done = place.call("run", *AS_ROOT, "--workspace", "closed", "--", "true")

    what, hint = done.stderr.splitlines()
    assert (done.returncode, what.partition(": cannot be looked at: ")[2]) == (125, os.strerror(errno.ELOOP))
    assert hint.startswith("  hint: a policy could stand there")


def test_a_directory_that_the_policy_hides_is_named_as_the_place_to_start_in(place: Place) -> None:
    other = place.home / "other"
    other.mkdir()
    done = place.call("run", *AS_ROOT, "--workspace", str(place.workspace), "--", "true", cwd=other)

    refused, hint, why = done.stderr.splitlines()
    assert (done.returncode, hint.startswith("  hint: start it inside the workspace (cd)")) == (125, True)
    assert refused.endswith(f" (directory): start in {other}: No such file or directory")
    assert why.startswith(f"ringfence: refused (INFERRED): read {other}: ")
    assert why.endswith(f"; allow it: ringfence run --allow-read {other} …")


def test_too_few_descriptors_are_not_laid_at_the_door_of_what_stands_there(place: Place) -> None:
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 10; exec "$0" "$@"', *RINGFENCE, "run", *AS_ROOT, "--", "true"],
        cwd=place.workspace,
        env=place.environ,
        capture_output=True,
        text=True,
    )

    what, hint = done.stderr.splitlines()
    assert (done.returncode, hint) == (125, "  hint: close some files, or allow more of them (ulimit -n)")
    assert what.endswith(": cannot be looked at: Too many open files")


def test_a_limit_on_files_that_no_plan_fits_in_is_named(place: Place) -> None:
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 1; exec "$0" "$@"', *RINGFENCE, "run", *AS_ROOT, "--", "true"],
        cwd=place.workspace,
        env=place.environ,
        capture_output=True,
        text=True,
    )

    said = ["ringfence: enactor: cannot be started: File too large", "  hint: allow larger files (ulimit -f)"]
    assert (done.returncode, done.stderr.splitlines()[:2]) == (125, said)


def test_a_full_disk_behind_standard_output_is_said(place: Place) -> None:
    words = [*RINGFENCE, "run", *AS_ROOT, "--json", "--", "true"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            words, cwd=place.workspace, env=place.environ, stdout=full, stderr=subprocess.PIPE, text=True
        )

    assert (done.returncode, done.stderr) == (125, "ringfence: standard output: No space left on device\n")


@pytest.mark.parametrize("words", [["plan", *AS_ROOT, "--", "true"], ["run", *AS_ROOT, "--json", "--", "true"]])
def test_who_reads_no_further_is_told_by_the_code_of_a_broken_pipe(place: Place, words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*RINGFENCE, *words], cwd=place.workspace, env=place.environ, stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)

    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize(
    ("words", "closed", "code"),
    [
        ("judge --jsonl", "<&-", 0),
        ("why --jsonl", "<&-", 0),
        ("approvals grant read ../home --dry-run", "<&-", 125),
        ("learn -- true", ">&-", 0),
        ("run -- true", "<&- >&-", 0),
        ("run --json -- true", "<&- >&-", 0),
        ("--help", ">&-", 0),
        ("mistaken", "<&- >&-", 2),
    ],
)
def test_streams_that_were_closed_before_are_as_good_as_empty(place: Place, words: str, closed: str, code: int) -> None:
    verb, *rest = words.split()
    rest = [*(AS_ROOT if verb in ("run", "learn") else []), *rest]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *RINGFENCE, verb, *rest],
        cwd=place.workspace,
        env=place.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr


def test_whose_reader_has_gone_ends_without_a_word(place: Place) -> None:
    done = place.run("sh", "-c", "kill -PIPE $$")

    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_what_is_not_given_is_said_once(place: Place) -> None:
    done = place.run("true", options=("--allow-socket", "/no/such.sock"))

    said = "/no/such.sock granted: nothing is there, and nothing is created on the host (--allow-socket)"
    assert (done.returncode, done.stderr) == (0, f"ringfence: not given: {said}\n")


def test_the_exit_code_stands_when_nobody_can_be_told(place: Place) -> None:
    with open("/dev/full", "w") as full:
        codes = [
            subprocess.run([*RINGFENCE, *words], cwd=place.workspace, env=place.environ, stderr=full).returncode
            for words in (("run", "--nothing", "--", "true"), ("run", *AS_ROOT, "--allow-read", "/none", "--", "true"))
        ]

    assert codes == [2, 0]


def test_an_option_on_either_side_of_a_verbs_words_counts(place: Place) -> None:
    asked = place.call("why", "--deny-read", "a", "read", "a", "--deny-read", "b")
    shown = place.call("policy", "--deny-read", "a", "show", "--deny-read", "b").stdout.splitlines()

    assert asked.stdout.startswith(f"deny: read {place.workspace}/a: ")
    assert {f"deny  read   {place.workspace}/{name}" for name in "ab"} <= {*shown}


EMPTY = ("approvals grant read", "approvals show", "approvals revoke", "profile show", "log", "why read", "status")


@pytest.mark.parametrize("verb", EMPTY)
def test_a_variable_that_was_not_set_names_nothing(verb: str, place: Place) -> None:
    """`approvals grant read "$X"` approved the current directory."""
    done = place.call(*verb.split(), "")

    said = verb.split(" ", 1)[1:]
    what = " ".join([*said, "''"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"ringfence: {what}: an empty word\n  hint: a variable may not be set\n"


def test_an_answer_that_is_nested_too_deep_is_no_line_and_the_next_is_heard(place: Place) -> None:
    """It ended `approvals watch` with a traceback, and whoever asked was answered by nobody."""
    said = '{"run":' + "[" * 200_000 + "\nno line\n"
    done = place.call("approvals", "watch", "--json", input=said, stdin=None)

    assert (done.returncode, done.stdout) == (0, "")
    assert [line.split(":")[1] for line in done.stderr.splitlines()] == [" not a line of JSON"] * 2


@pytest.mark.parametrize("words", [["session", "end", "x", "--help"], ["approvals", "revoke", "x", "--help"]])
def test_help_behind_the_words_does_nothing_else(place: Place, words: list[str]) -> None:
    done = place.call(*words)

    assert (done.returncode, done.stdout) == (0, place.call(words[0], "--help").stdout)


def test_help_takes_a_verb(place: Place) -> None:
    assert place.call("help", "why").stdout == place.call("why", "--help").stdout


@pytest.mark.needs_root
def test_a_tenant_whose_name_is_none_leaves_no_directory(place: Place) -> None:
    base, registry = place.workspace / "base", place.workspace / "registry"
    done = place.call("tenant", "create", "a b", "--base", str(base), "--registry", str(registry))

    assert (done.returncode, base.exists(), registry.exists()) == (125, False, False)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("can't start new thread"), "system: no thread can be started"),
        (MemoryError(), "system: there is no memory left"),
        (ModuleNotFoundError("No module named 'x'", name="x"), "x: cannot be loaded: No module named 'x'"),
    ],
)
def test_what_there_is_no_more_of_is_said_and_is_no_end_of_a_command(
    error: Exception, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def verb() -> int:
        raise error

    assert (cli.guarded(verb, False), capsys.readouterr().err.splitlines()[0]) == (125, f"ringfence: {said}")


def test_a_fault_of_our_own_is_not_taken_for_that() -> None:
    def verb() -> int:
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        cli.guarded(verb, False)
