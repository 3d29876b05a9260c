"""What the guard is told of the disk: what cannot be looked at may lead anywhere."""

from pathlib import Path

from ringfence.judging import leaks
from ringfence.model import Access, Decision, Verdict


def allowed(_access: Access, _path: str) -> Decision:
    return Decision(Verdict.ALLOW, "all of it")


def test_a_directory_that_nobody_can_look_into_is_taken_to_lead_out(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")  # closed to root too

    assert leaks(str(tmp_path / "loop"), allowed)
    assert not leaks(str(tmp_path / "missing"), allowed)
    assert not leaks(str(tmp_path), allowed)
