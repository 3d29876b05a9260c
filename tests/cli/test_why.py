"""`ringfence why`, one question or many: each line is answered, and a bad one only for itself."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.attacks.conftest import SECONDS

RINGFENCE = [str(Path(sys.executable).with_name("ringfence")), "why"]


def why(workspace: Path, *words: str, lines: str = "") -> "subprocess.CompletedProcess[str]":
    environ = {"PATH": os.environ["PATH"], "HOME": str(workspace.parent / "home"), "LANG": "C.UTF-8"}
    command = [*RINGFENCE, *words]
    return subprocess.run(
        command, cwd=workspace, env=environ, input=lines, capture_output=True, text=True, timeout=SECONDS
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("ws", "home"):
        (tmp_path / name).mkdir()
    return tmp_path / "ws"


def asked(workspace: Path, *questions: object, options: tuple[str, ...] = ()) -> list[dict[str, object]]:
    lines = "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in questions)
    done = why(workspace, *options, "--jsonl", lines=lines)
    answers: list[dict[str, object]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert (len(answers), done.stderr) == (len(questions), "")
    assert done.returncode == (1 if any("error" in answer for answer in answers) else 0)
    return answers


def test_what_may_be_read_may_be_run(workspace: Path) -> None:
    done = {path: why(workspace, "run", path).returncode for path in ("/bin/sh", "~/.ssh/tool")}

    assert done == {"/bin/sh": 0, "~/.ssh/tool": 1}


@pytest.mark.needs_userns
@pytest.mark.parametrize("path", ["/proc/3/environ", "/proc/3/task/4/environ", "/proc/self/environ"])
def test_what_is_denied_of_one_process_is_denied_of_each(workspace: Path, path: str) -> None:
    denied = ("--deny-read", "/proc/self/environ")

    assert [why(workspace, "read", path, *more).returncode for more in ((), denied)] == [0, 1]
    assert why(workspace, "read", "/proc/3/status", *denied).returncode == 0
    assert [one["verdict"] for one in asked(workspace, {"access": "read", "target": path}, options=denied)] == ["deny"]


def test_a_grant_for_what_is_not_there_says_that_it_would_have_no_effect(workspace: Path) -> None:
    home = workspace.parent / "home"
    (home / "there").touch()

    said = [why(workspace, "write", f"~/{name}").stdout.splitlines()[1] for name in ("there", "gone")]

    assert said == [
        f"  to change it: --allow-write {home}/there",
        f"  to change it: --allow-write {home}/gone (it has to be there first)",
    ]


def test_a_bare_name_is_the_program_that_a_shell_would_start(workspace: Path) -> None:
    (workspace / "mine").touch()

    said = [why(workspace, "run", name).stdout.partition(": run ")[2].partition(":")[0] for name in ("env", "mine")]

    assert said == [os.path.realpath(shutil.which("env") or ""), f"{workspace}/mine"]


NAMED = {"network": {"allowedDomains": ["*.example.com:443"]}}


def test_each_line_is_answered_in_its_place(workspace: Path) -> None:
    inline = {"filesystem": {"denyWrite": ["src"], "allowRead": ["~/notes"]}}
    answers = asked(
        workspace,
        {"access": "write", "target": "src/x"},
        {"access": "write", "target": "src/x", "policy": inline},
        {"access": "read", "target": "~/notes/a"},
        {"access": "read", "target": "~/notes/a", "policy": inline},
        {"access": "write", "target": "x", "cwd": "/etc"},
        {"access": "run", "target": "/bin/sh"},
        {"access": "connect", "target": "example.com", "port": 443},
        {"access": "bind", "target": "127.0.0.1", "port": 8080},
        {"access": "connect", "target": "a.example.com", "port": 443, "policy": NAMED},
        {"access": "connect", "target": "a.example.com", "port": 22, "policy": NAMED},
        {"access": "connect", "target": "evil.com:443", "policy": NAMED},
    )

    assert [answer["verdict"] for answer in answers] == [
        "allow", "deny", "deny", "allow", "deny", "allow", "deny", "deny", "allow", "deny", "deny",
    ]  # fmt: skip
    assert answers[1] == {
        "verdict": "deny",
        "rule": f"{workspace}/src",
        "origin": "inline policy:1",
        "grant": "",
        "reason": answers[1]["reason"],
    }
    assert answers[2]["grant"] == f"--allow-read {workspace.parent}/home/notes/a"


# Every kind of target that is refused and could be granted.
GRANTABLE = [
    ("read", "~/.ssh/id_rsa", None),
    ("read", "/etc/shadow", None),
    ("run", "~/tool", None),
    ("write", "~/notes/new", None),
    ("write", "/opt/beside", None),
    ("connect", "example.com", None),
    ("connect", "example.com.", 80),
    ("connect", "EXAMPLE.com:22", None),
    ("connect", "b\u00fccher.de", 443),
    ("connect", "localhost:3000", None),
    ("connect", "127.0.0.1", 80),
    ("connect", "10.0.0.1:80", None),
    ("connect", "::1", 80),
    ("connect", "[::1]:80", None),
    ("connect", "[::1]", None),
    ("connect", "[::ffff:10.0.0.1]:80", 80),
    ("bind", "127.0.0.1:8080", None),
    ("bind", "*", 8080),
    ("bind", "::1", 8080),
]


def test_the_grant_that_is_named_changes_the_answer(workspace: Path) -> None:
    questions = [
        {"access": access, "target": target} | ({"port": port} if port else {}) for access, target, port in GRANTABLE
    ]
    before = asked(workspace, *questions)
    grants = [shlex.split(str(answer["grant"])) for answer in before]
    after = [asked(workspace, one, options=tuple(grant))[0] for one, grant in zip(questions, grants, strict=True)]

    assert [answer["verdict"] for answer in before] == ["deny"] * len(GRANTABLE)
    assert [answer for answer in after if answer["verdict"] != "allow"] == []


@pytest.mark.parametrize(
    "target", ["printer", "xn--9ca", "a..b", "http://example.com", "example.com:99999", "[fe80::1%a]"]
)
def test_no_grant_is_named_that_a_policy_cannot_hold(target: str, workspace: Path) -> None:
    answer = asked(workspace, {"access": "connect", "target": target})[0]

    assert (answer["verdict"], answer["grant"]) == ("deny", "")


def test_an_address_is_judged_in_one_way_by_both_doors(workspace: Path) -> None:
    flags = ("--allow-host", "*.example.com", "--allow-host", "[::1]:80")
    targets = ["[::1]:80", "a.example.com.", "[::1]:81", "127.0.0.1"]

    one = [why(workspace, *flags, "connect", target).stdout.partition(":")[0] for target in targets]
    many = asked(workspace, *({"access": "connect", "target": target} for target in targets), options=flags)

    assert one == [answer["verdict"] for answer in many] == ["allow", "allow", "deny", "deny"]


BAD = [
    '{"access": "connect", "target": "a.example:443", "port": 80}',
    '{"access": "bind", "target": "/run/x.sock"}',
    '{"access": "bind", "target": "127.0.0.1:x"}',
    '{"access": "bind", "target": "127.0.0.1:80", "port": 81}',
    '{"access": "read", "target": "~root/x"}',
    "",
    "no JSON",
    "[]",
    '{"access": "eat", "target": "/"}',
    '{"access": "read"}',
    '{"access": "read", "target": ""}',
    '{"access": "read", "target": "a\\u0000b"}',
    '{"access": "read", "target": "\\ud800"}',
    '{"access": "read", "target": "/", "tarhet": "/"}',
    '{"access": "read", "target": "x", "cwd": "relative"}',
    '{"access": "connect", "target": "a.example", "port": 65536}',
    '{"access": "read", "target": "/", "policy": {"filesystem": {"denyread": []}}}',
    '{"access": "read", "target": "/", "policy": []}',
]


def test_a_bad_line_is_an_error_and_the_rest_goes_on(workspace: Path) -> None:
    good = {"access": "read", "target": "/etc/passwd"}
    answers = asked(workspace, *(line for bad in BAD for line in (bad, good)))

    assert [sorted(answer) == ["error"] for answer in answers] == [True, False] * len(BAD)


def test_a_flag_counts_for_every_line(workspace: Path) -> None:
    question = {"access": "connect", "target": "example.com"}

    assert [asked(workspace, question, options=flags)[0]["verdict"] for flags in ((), ("--allow-network",))] == [
        "deny",
        "allow",
    ]


def test_a_host_is_judged_by_name_and_port(workspace: Path) -> None:
    hosts = (("a.test", 443), ("a.test", 22), ("x.b.test", None), ("b.test", None), ("2130706433", 80))
    questions = [{"access": "connect", "target": host} | ({"port": port} if port else {}) for host, port in hosts]
    flags = ("--allow-host", "a.test:443", "--allow-host", "*.b.test")

    assert [answer["verdict"] for answer in asked(workspace, *questions, options=flags)] == [
        "allow", "deny", "allow", "deny", "deny",
    ]  # fmt: skip


def test_whoever_asks_may_wait_for_each_answer(workspace: Path) -> None:
    command = [*RINGFENCE, "--jsonl"]
    with subprocess.Popen(command, cwd=workspace, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for path, verdict in (("/etc/passwd", "allow"), ("/root/x", "deny")):
            process.stdin.write(json.dumps({"access": "read", "target": path}) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["verdict"] == verdict
        process.stdin.close()
        assert process.wait(SECONDS) == 0


def test_a_path_beside_jsonl_is_refused(workspace: Path) -> None:
    done = why(workspace, "--jsonl", "read", "/")

    assert (done.returncode, done.stdout) == (2, "")


def deep(count: int) -> str:
    return "[" * count + "]" * count


HOSTILE = (
    "",
    " ",
    "\0",
    "null",
    "{",
    deep(100_000),
    '{"access": "read", "target": "\\ud800"}',
    '{"access": "read", "target": "\\u0000"}',
    '{"access": "connect", "target": "x", "port": 1e400}',
    '{"access": "connect", "target": "x", "port": 99999999999999999999999999}',
    '{"access": "read", "target": "x", "policy": ' + deep(100_000) + "}",
    '{"access": "read", "target": "x", "policy": ' + deep(300) + "}",
    *(f'{{"access": "read", "target": "x", "policy": {policy}}}' for policy in ("null", "1", '"x"', "[]", "[{}]")),
)


def test_a_line_that_is_no_question_is_answered_by_its_error(workspace: Path) -> None:
    answers = asked(workspace, *HOSTILE, {"access": "read", "target": "x"})

    assert [set(answer) for answer in answers[:-1]] == [{"error"}] * len(HOSTILE)
    assert answers[-1]["verdict"] == "allow"


def test_a_link_to_a_name_that_is_no_text_is_answered(workspace: Path) -> None:
    """A command can leave one behind; it ended the whole batch."""
    os.symlink(b"/nowhere\xff/a", os.fsencode(workspace / "link"))

    answers = asked(workspace, *({"access": access, "target": "link/x"} for access in ("read", "write", "run")))

    assert [answer["verdict"] for answer in answers] == ["allow", "deny", "allow"]
    assert "\\udcff" in str(answers[1]["grant"])


def test_one_question_about_an_address_is_answered_as_in_a_batch(workspace: Path) -> None:
    policy = workspace.parent / "policy.json"
    allowed, denied = {"allowedDomains": ["10.1.2.3"]}, {"deniedResolvedAddresses": ["10.0.0.0/8"]}
    policy.write_text(json.dumps({"network": allowed | denied}))
    options = ("--policy", str(policy))

    (many,) = asked(workspace, {"access": "connect", "target": "10.1.2.3"}, options=options)
    one = json.loads(why(workspace, "connect", "10.1.2.3", "--json", *options).stdout)

    assert (one["verdict"], one["reason"]) == (many["verdict"], many["reason"])
    assert one["verdict"] == "deny"
