"""The questions of a service about a path and a workspace: the cases of the older system, and where it was wrong."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ringfence.model import WorkspaceError
from ringfence.workspace import checks

SYMLINK = "symlink"


@pytest.fixture
def root(tmp_path: Path) -> str:
    top = tmp_path.resolve() / "ws"
    (top / "folder").mkdir(parents=True)
    (top / SYMLINK).symlink_to("/usr/bin")
    (top / "own").symlink_to("folder")
    return str(top)


def refused(call: Callable[..., object], *given: object) -> bool:
    try:
        call(*given)
    except WorkspaceError:
        return True
    return False


@pytest.mark.parametrize(
    "path",
    ["R/index.ts", "R/%2e%2e/x", "R/folder/", "R/with space/x", "R/own/x", "R/folder/../index.ts", "R/" + "n" * 10_000],
)
def test_paths_within(root: str, path: str) -> None:
    path = path.replace("R", root, 1)

    assert checks.ensure_path_within_workspace(path, root).startswith(f"{root}/")
    assert checks.is_path_within_workspace(path, root)


@pytest.mark.parametrize(
    "path",
    [
        "R/../../secrets.json",
        "/etc/passwd",
        "R/../.env",
        "R/symlink/../../../etc/passwd",
        "R/symlink/env",
        "R\\..\\..\\etc",
        "Rmalicious/x",
        "",
        " ",
    ],
)
def test_paths_outside(root: str, path: str) -> None:
    path = path.replace("R", root, 1)

    assert refused(checks.ensure_path_within_workspace, path, root)
    assert not checks.is_path_within_workspace(path, root)


def test_the_root_itself_is_within_but_is_no_path_in_it(root: str) -> None:
    assert checks.is_path_within_workspace(root, root)
    assert refused(checks.ensure_path_within_workspace, root, root)
    assert checks.resolve_and_validate_path("/", root) == root
    assert refused(checks.resolve_for_deletion, ".", root)
    assert refused(checks.resolve_for_deletion, "", root)
    assert refused(checks.resolve_for_deletion, "folder/.", root) is False


def test_a_root_with_a_slash_at_its_end_is_the_same_root(root: str) -> None:
    assert checks.ensure_path_within_workspace(f"{root}/x", f"{root}/") == f"{root}/x"


def test_an_absolute_target_starts_at_the_root(root: str) -> None:
    assert checks.resolve_and_validate_path("/etc/passwd", root) == f"{root}/etc/passwd"
    assert checks.resolve_and_validate_path("folder/x", root) == f"{root}/folder/x"
    assert refused(checks.resolve_and_validate_path, "symlink/env", root)
    assert refused(checks.resolve_and_validate_path, "../x", root)


@pytest.mark.parametrize("target", ["/x", "\\x", "../x", "a/../x", "a\\..\\x", "symlink/env"])
def test_the_stricter_caller_refuses(root: str, target: str) -> None:
    assert refused(checks.resolve_safe_path, target, root)


def test_traversal_is_seen_in_the_text_alone() -> None:
    found = {path: checks.has_traversal(path) for path in ("a/b", "a//b", "a/../b", "..", "a/..b", "./a")}

    assert found == {"a/b": False, "a//b": True, "a/../b": True, "..": True, "a/..b": False, "./a": True}


def test_a_workspace_lies_in_a_base_and_exists(root: str) -> None:
    base = os.path.dirname(root)

    assert checks.validate_workspace_path(root, ("/srv/sites", base)) == root
    assert refused(checks.validate_workspace_path, f"{root}-malicious", (root,))
    assert refused(checks.validate_workspace_path, f"{base}/nowhere", (base,))
