"""A short run of scripts/fuzz-guard: no crash, and no verdict that an outside write weakens. Times are not held. And
whether scripts/fuzz-shells would see a write."""

import importlib.machinery
import importlib.util
import types
from pathlib import Path

import pytest

from ringfence.judging import bounds_of

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"


def script(name: str) -> types.ModuleType:
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(SCRIPTS / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.slow
def test_mutated_lines_are_judged(tmp_path: Path) -> None:
    module = script("fuzz-guard")
    module.SLOWEST = 5.0  # type: ignore[attr-defined]

    assert module.fuzz(3000, 42, bounds_of(str(tmp_path))) == []


@pytest.mark.slow
@pytest.mark.needs_bwrap
@pytest.mark.parametrize(("line", "finds"), [("touch ../put", True), ("touch put", False)])
def test_a_line_that_writes_beside_its_worktree_is_a_find(
    line: str, finds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = script("fuzz-shells")
    monkeypatch.setattr(module, "changed", lambda *_: line)
    monkeypatch.setattr(module, "allowed", lambda *_: True)
    monkeypatch.setattr(module, "learn", lambda _: None)  # which takes seconds

    assert (module.fuzz(0.2, 1) > 0) is finds
