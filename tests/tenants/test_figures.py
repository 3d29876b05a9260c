"""The figures of docs/scale.md: each has its command, which can be run."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.needs_root  # as what they start
def test_every_figure_has_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    verbs = runpy.run_path(str(ROOT / "bench/service.py"))["VERBS"]
    said = (ROOT / "docs/scale.md").read_text()
    assert {*re.findall(r"^\| `bench/service.py (\w+)`", said, re.MULTILINE)} == {*verbs}
    for path in re.findall(r"^\| `-m pytest (\S+)`", said, re.MULTILINE):
        assert (ROOT / path).exists(), path
