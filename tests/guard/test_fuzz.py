"""A short run of scripts/fuzz-guard: no crash, and no verdict that an outside write weakens. Times are not held."""

import importlib.machinery
import importlib.util
from pathlib import Path

import pytest

from ringfence.judging import bounds_of

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "fuzz-guard"


@pytest.mark.slow
def test_mutated_lines_are_judged(tmp_path: Path) -> None:
    loader = importlib.machinery.SourceFileLoader("fuzz_guard", str(SCRIPT))
    spec = importlib.util.spec_from_loader("fuzz_guard", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    module.SLOWEST = 5.0  # type: ignore[attr-defined]

    assert module.fuzz(3000, 42, bounds_of(str(tmp_path))) == []
