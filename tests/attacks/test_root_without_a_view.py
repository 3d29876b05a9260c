"""Root in a workspace of root's: it must be asked for, and without a view it is refused."""

import pytest
from tests.attacks.conftest import Field, Walls

import ringfence


@pytest.mark.needs_root
def test_a_workspace_of_roots_must_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    field = Field(Walls("view", "root"), monkeypatch)
    ground = field.ground()
    try:
        with pytest.raises(ringfence.PlanError, match="belongs to root"):
            ringfence.run(["touch", "ran"], workspace=str(ground.workspace))
        assert not (ground.workspace / "ran").exists()
    finally:
        field.close()


@pytest.mark.needs_root
def test_root_without_a_view_is_refused_because_modes_could_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    field = Field(Walls("landlock", "root"), monkeypatch)
    ground = field.ground()
    try:
        with pytest.raises(ringfence.Unenforceable, match="chmod"):
            field.run(ground, ["touch", "ran"])
        assert not (ground.workspace / "ran").exists()
    finally:
        field.close()


@pytest.mark.needs_root
def test_started_by_root_the_command_is_the_workspaces_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    field = Field(Walls("view", "owner"), monkeypatch)
    ground = field.ground()
    try:
        outcome = field.run(ground, ["sh", "-c", "id -u; id -g; id -G; touch made; head -c1 /etc/shadow"])
        assert (outcome.stdout or b"").split() == [b"65534"] * 3, outcome
        assert (ground.workspace / "made").stat().st_uid == 65534
    finally:
        field.close()
