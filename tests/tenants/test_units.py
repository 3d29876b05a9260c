"""The units that we print, as systemd itself reads and judges them."""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from ringfence.cli.spawner import make_free
from ringfence.cli.units import quoted, spawner_units, tenant_unit
from ringfence.model import UsageError
from ringfence.model.tenant import Tenant, TenantState

pytestmark = pytest.mark.needs_program("systemd-analyze")
TENANT = Tenant("example.com", "1", "daemon", 1, 1, TenantState.ACTIVE, 0)


def written(top: Path) -> list[Path]:
    base = top / "base"
    (base / "example.com" / "user" / "src").mkdir(parents=True)
    units = spawner_units(str(base), str(top / "registry"), "root")
    units["ringfence-site.service"] = tenant_unit(TENANT, str(base), ("./serve", 'a "b" %i $HOME \\ \n'))
    for name, text in units.items():
        (top / name).write_text(text)
    return [top / name for name in units]


def test_systemd_reads_them_without_a_word(tmp_path: Path) -> None:
    for unit in written(tmp_path):
        environ = {**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:/usr/lib/systemd/system"}
        shown = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, env=environ
        )
        said = [line for line in shown.stderr.splitlines() if "ringfence" in line and "is not executable" not in line]
        assert said == []


@pytest.mark.parametrize(
    ("name", "most"), [("ringfence.service", 2.0), ("ringfence-spawner.service", 4.5), ("ringfence-site.service", 3.5)]
)
def test_their_exposure(tmp_path: Path, name: str, most: float) -> None:
    unit = next(unit for unit in written(tmp_path) if unit.name == name)
    words = ["systemd-analyze", "security", "--offline=true", "--json=short", f"--threshold={most * 10:.0f}", str(unit)]
    shown = subprocess.run(words, capture_output=True, text=True)
    wrong = [row["description"] for row in json.loads(shown.stdout or "[]") if row.get("set") is False]
    assert shown.returncode == 0, f"{shown.stderr}{wrong}"


def test_a_base_chooses_nothing_else() -> None:
    """Its letters stay letters: no specifier, no variable, no line more."""
    text = tenant_unit(TENANT, "/srv/50%i $HOME")
    assert "WorkingDirectory=/srv/50%%i $HOME/example.com/user/src\n" in text
    assert 'ReadWritePaths="/srv/50%%i $HOME/example.com"\n' in text
    with pytest.raises(UsageError):
        tenant_unit(TENANT, "/srv/x\nUser=root")
    with pytest.raises(UsageError):
        spawner_units("/srv", "/etc/x", "x\nUser=root")


def test_words_come_back_as_they_were() -> None:
    assert quoted('a "b"') == '"a \\"b\\""'
    assert quoted("%i $x \\") == '"%%i $$x \\\\"'
    assert quoted("a\nb\x1b") == '"a\\x0ab\\x1b"'


def test_a_unit_of_a_tenant_starts_the_program_that_is_installed() -> None:
    assert "ExecStart=/usr/bin/env" not in tenant_unit(TENANT, "/srv")


@pytest.mark.parametrize("stands", ["nothing", "left", "taken", "file"])
def test_only_a_socket_that_nobody_listens_at_makes_room(tmp_path: Path, stands: str) -> None:
    """A second service took the socket of the first, and whatever else stood there was removed."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as one:
        if stands in ("left", "taken"):
            one.bind(str(path))
        if stands == "taken":
            one.listen()
        if stands == "file":
            path.write_text("mine")
        if stands in ("taken", "file"):
            with pytest.raises(UsageError, match="is in use"):
                make_free(str(path), socket.SOCK_STREAM)
        else:
            make_free(str(path), socket.SOCK_STREAM)

        assert path.exists() == (stands in ("taken", "file"))
