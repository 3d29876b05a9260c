"""Links in a home: those on the way to what may be read are there inside, and no other is. And a home without anything
that may be read."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends import on
from tests.looking import common_place, remove_tree

import ringfence
from ringfence.explain import why
from ringfence.run import make_request

AS_ROOT = os.geteuid() == 0


@pytest.fixture(params=["view", pytest.param("bubblewrap", marks=pytest.mark.needs_bwrap), "landlock"])
def base(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, settled: None) -> Iterator[Path]:
    """A home, which is a link as on many machines, whose files are links to those of a repository of dotfiles."""
    made = Path(tempfile.mkdtemp(prefix="rf-", dir=common_place()))
    for name in ("homes/me/.config", "homes/me/dotfiles/ssh", "homes/me/data", "big/cargo/bin", "ws"):
        (made / name).mkdir(parents=True)
    (made / "home").symlink_to("homes")
    home = made / "home/me"
    (home / "dotfiles/gitconfig").write_text("[user]\nname = Me\n")
    (home / "dotfiles/ssh/id_rsa").write_text("KEY\n")
    (home / "data/f").write_text("data\n")
    (made / "big/cargo/bin/tool").write_text("#!/bin/sh\necho tool\n")
    (made / "big/cargo/bin/tool").chmod(0o755)
    for name, target in LINKS.items():
        (home / name).symlink_to(target.format(base=made))
    monkeypatch.setenv("HOME", str(home))
    with on(request.param):
        yield made
    remove_tree(made)


LINKS = {".gitconfig": "dotfiles/gitconfig", ".ssh": "dotfiles/ssh", ".cargo": "{base}/big/cargo", "other": "data"}


def said(base: Path, script: str, *readable: str, home: str = "home/me") -> list[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(base / home)}
    flags = ringfence.Flags(enforcement=ringfence.Enforcement.BEST_EFFORT, allow_read=readable)
    outcome = ringfence.run(
        ["sh", "-c", script], workspace=str(base / "ws"), env=environ, flags=flags, capture=True, as_root=AS_ROOT
    )
    return (outcome.stdout or b"").decode().split()


def test_what_may_be_read_is_found_by_its_link(base: Path) -> None:
    """A home's .gitconfig that is a link was not there, and no commit could be made; nor was a toolchain that had been
    moved to a larger disk."""
    assert said(base, "git config user.name; ~/.cargo/bin/tool") == ["Me", "tool"]
    assert said(base, "cat ~/other/f", "~/other") == ["data"]
    for access, path in (("read", "~/.gitconfig"), ("run", "~/.cargo/bin/tool")):
        answer, _ = why(make_request(str(base / "ws"), as_root=AS_ROOT), access, path)
        assert answer.verdict is ringfence.Verdict.ALLOW


def test_why_names_a_link_that_is_not_there_inside(base: Path) -> None:
    """It said `allow` of what the link leads to."""
    (base / "home/me/tool").symlink_to(base / "big/cargo/bin/tool")
    asked = make_request(str(base / "ws"), flags=ringfence.Flags(allow_read=(str(base / "big"),)), as_root=AS_ROOT)
    answer, path = why(asked, "run", "~/tool")
    if ringfence.enforce.probe().namespaces or ringfence.enforce.probe().bubblewrap:
        assert (answer.verdict, path) == (ringfence.Verdict.DENY, str(base / "homes/me/tool"))
        assert answer.grant == f"--allow-read {path}"
        assert said(base, "~/tool") == []
    else:
        assert answer.verdict is ringfence.Verdict.ALLOW
    assert said(base, "~/tool", str(base / "home/me/tool")) == ["tool"]


def test_what_may_not_be_read_is_not(base: Path) -> None:
    assert said(base, "cat ~/.ssh/id_rsa ~/dotfiles/ssh/id_rsa ~/other/f") == []
    if ringfence.enforce.probe().namespaces:
        assert said(base, "cd ~; ls -A").count("other") == said(base, "cd ~; ls -A").count(".ssh") == 0


def test_in_a_home_without_anything_to_read_settings_are_not_there(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were closed, to be asked for even whether they are there: uv and poetry gave up, and `cd` failed."""
    (base / "new").mkdir()
    (base / "new/secret").write_text("KEY\n")
    monkeypatch.setenv("HOME", str(base / "new"))
    settings = "cat ~/.config/tool 2>&1 | grep -o 'No such file'"
    assert said(base, settings, home="new") == ["No", "such", "file"]
    assert said(base, "cat ~/secret; ls -A ~; echo made > ~/x && cat ~/x", home="new") == []
    assert os.listdir(base / "new") == ["secret"]
