"""Cases in data: a policy, a command and what to expect, each run for real on every backend.

A file is a list of cases. In every text `{base}` is a fresh directory, `{ws}` the workspace in it, `{home}` the home
and `{uid}` who the command is. A case has:

    name     a sentence
    make     what there is before: `path/` a directory, `path=content` a file, `path -> target` a link, `path mode 000`
    policy   a policy file's content, or a list of several; without one the default policy holds
    run      a shell's script, or a list of words
    code     the exit code, or "not 0"; a table when backends differ
    out, err what is printed, or a part of it
    env      variables of the caller
    gap      by backend: words of a stated gap, where the case is not kept; then only the gap is looked for
    refused  by backend: words of the refusal, where nothing is run
    perhaps  words of a refusal that is as good as the rest
    needs    programs without which there is no such case
    seed     which promises of the systems before this one it holds
"""

import contextlib
import json
import os
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.attacks.conftest import MORE_WALLS, PATH, WALLS, Field, Ground

import ringfence

Case = dict[str, Any]


def cases() -> Iterator[object]:
    for file in sorted(Path(__file__).parent.glob("*.toml")):
        for case in tomllib.loads(file.read_text())["case"]:
            if all(shutil.which(program, path=PATH) for program in case.get("needs", ())):
                yield pytest.param(case, id=f"{file.stem}: {case['name']}")


def filled(value: Any, ground: Ground) -> Any:
    """A value with the names of this ground in it."""
    if isinstance(value, str):
        names = {"base": ground.base, "ws": ground.workspace, "home": ground.home, "uid": ground.uid, "gid": ground.gid}
        for name, is_ in names.items():
            value = value.replace(f"{{{name}}}", str(is_))
        return value
    if isinstance(value, dict):
        return {filled(key, ground): filled(inner, ground) for key, inner in value.items()}
    return [filled(inner, ground) for inner in value] if isinstance(value, list) else value


def make(lines: list[str], ground: Ground) -> None:
    """Make what there is before; modes come last, when everything has its owner."""
    modes = []
    for line in lines:
        path, mode, bits = line.partition(" mode ")
        file, equals, content = line.partition("=")
        name, link, target = line.partition(" -> ")
        if equals:
            ground.file(file, content + "\n")
        elif mode:
            modes.append((ground.base / path, int(bits, 8)))
        elif link:
            (ground.base / name).symlink_to(target)
        else:
            (ground.base / path).mkdir(parents=True, exist_ok=True)
    ground.own()
    for changed, bits_ in modes:
        changed.chmod(bits_)


def policies(case: Case, ground: Ground) -> tuple[str, ...]:
    given = case.get("policy", [])
    written = []
    for number, policy in enumerate(given if isinstance(given, list) else [given]):
        path = ground.base / f"policy-{number}.json"
        path.write_text(json.dumps(filled(policy, ground)))
        path.chmod(0o644)
        written.append(str(path))
    return tuple(written)


def run(field: Field, ground: Ground, case: Case) -> ringfence.Outcome:
    make(filled(case.get("make", []), ground), ground)
    words = filled(case["run"], ground)
    environ = {"PATH": PATH, "HOME": str(ground.home), "LANG": "C.UTF-8", **filled(case.get("env", {}), ground)}
    return field.run(
        ground,
        ["sh", "-c", words] if isinstance(words, str) else words,
        environ=environ,
        readable=False,
        policy_files=policies(case, ground),
    )


@pytest.fixture(params=(*WALLS, *MORE_WALLS))
def field(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Field]:
    made = Field(request.param, monkeypatch)
    yield made
    made.close()


@pytest.mark.parametrize("case", list(cases()))
def test_the_case_is_as_it_says(field: Field, case: Case, settled: None) -> None:
    ground = field.ground()
    backend = field.walls.kind
    refused = case.get("refused", {}).get(backend)
    with pytest.raises(ringfence.RingfenceError, match=refused) if refused else contextlib.nullcontext():
        try:
            outcome = run(field, ground, case)
        except ringfence.Unenforceable as error:
            if case.get("perhaps", "\0") in str(error):
                return
            raise
    if refused:
        return
    gap = case.get("gap", {}).get(backend)
    if gap:
        assert any(gap in listed.what for listed in outcome.gaps), [listed.what for listed in outcome.gaps]
        return
    out, err = ((text or b"").decode("utf-8", "replace") for text in (outcome.stdout, outcome.stderr))
    said = f"{outcome.ending}\n{out}{err}"
    code = case.get("code", 0)
    code = code[backend] if isinstance(code, dict) else code
    assert (outcome.exit_code != 0) if code == "not 0" else (outcome.exit_code == code), said
    assert filled(case.get("out", ""), ground) in out, said
    assert filled(case.get("err", ""), ground) in err, said


# Promises that need a witness outside, and so are attacks.
ELSEWHERE = {
    "L22": ("attacks/test_n01_loopback_tcp.py",),
    "L23": ("attacks/test_n14_unix_sockets.py",),
    "L24": (
        "attacks/test_n17_abstract_sockets.py",
        "attacks/test_k01_signals.py",
        "attacks/test_own_processes.py",
        "attacks/test_n16_unix_datagrams.py",
    ),
}
PROMISES = {"L": 30, "A": 11, "O": 11}


def test_every_promise_of_the_seeds_has_a_case() -> None:
    held = {seed for case in cases() for seed in case.values[0].get("seed", ())}  # type: ignore[attr-defined]

    assert held | ELSEWHERE.keys() == {f"{letter}{n}" for letter, last in PROMISES.items() for n in range(1, last + 1)}
    assert all((Path(__file__).parent.parent / file).exists() for files in ELSEWHERE.values() for file in files)


def test_every_case_has_a_name_of_its_own() -> None:
    names = [str(case.id) for case in cases()]  # type: ignore[attr-defined]

    assert len(names) == len(set(names)) >= 60
    assert os.path.isabs(PATH.split(":")[0])
