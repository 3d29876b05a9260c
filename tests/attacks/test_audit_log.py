"""The audit log: neither read nor changed from inside, even when somebody grants the place itself."""

from pathlib import Path

import pytest
from tests.attacks.conftest import Field, Ground

PROGRAM = """
audit = EXTRA[0]
first = audit + "/000001.jsonl"
attempt("listed", lambda: os.listdir(audit))
attempt("read", lambda: read(first))
attempt("head read", lambda: read(audit + "/head"))
attempt("written", lambda: write(first, flags=os.O_APPEND))
attempt("truncated", lambda: os.truncate(first, 0))
attempt("mode changed", lambda: os.chmod(first, 0o666))
attempt("forged", lambda: write(audit + "/000002.jsonl"))
attempt("linked", lambda: os.link(first, WS + "/copy"))
attempt("renamed", lambda: os.rename(first, audit + "/old"))
attempt("removed", lambda: os.unlink(audit + "/head"))
attempt("moved away", lambda: os.rename(audit, os.path.dirname(audit) + "/elsewhere"))
"""


def test_the_audit_log_is_out_of_reach(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    # This log takes nothing, for it is none. Runs that it could not take are told later, when another log can be
    # written, and there it would be made anew: after the ground has been taken away.
    monkeypatch.setattr("ringfence.record._late", [])

    def audit(ground: Ground) -> Path:
        return ground.base / "state" / "ringfence" / "audit"

    def prepare(ground: Ground) -> list[str]:
        monkeypatch.setenv("XDG_STATE_HOME", str(ground.base / "state"))
        for name in ("000001.jsonl", "head"):
            ground.file(f"state/ringfence/audit/{name}")
        return [str(audit(ground))]

    field.repels(
        PROGRAM,
        prepare,
        denied=lambda ground: {"allow_read": (str(audit(ground)),), "allow_write": (str(audit(ground)),)},
    )
