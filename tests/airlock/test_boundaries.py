"""Boundaries, by the one judge: modes, ways out, what is never allowed, and where older systems went wrong."""

import os
from pathlib import Path

import pytest
from tests.workspace.test_apart import backend as backend

from ringfence import Enforcement, Flags, PolicyError, UsageError, run
from ringfence.explain import why
from ringfence.judging import bounds_for_agent
from ringfence.keep import forget_all
from ringfence.model import Access, Policy, Verdict
from ringfence.policy import decide, load, trust
from ringfence.policy.load import profile_names, read_profile
from ringfence.policy.paths import Base
from ringfence.policy.profiles import ALIASES, load_chain
from ringfence.run import make_request

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
AS_ROOT = os.geteuid() == 0


def boundary(home: Path, name: str = "mine", **said: object) -> None:
    """A profile of the user's own, from `neverAllow=[...]`, `mode=...`, and lists of paths."""
    rows = {key: value for key, value in said.items() if key in ("mode", "escape", "neverAllow", "inherits")}
    lists = {key: value for key, value in said.items() if key in ("allowRead", "allowWrite")}
    text = "[profile]\n" + "".join(f"{key} = {value!r}\n" for key, value in rows.items())
    text += "[filesystem]\n" + "".join(f"{key} = {value!r}\n" for key, value in lists.items())
    text += str(said.get("more", ""))
    place = home / ".config" / "ringfence" / "profiles"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.toml").write_text(text.replace("'", '"'))


def check(workspace: Path, path: object, access: Access = Access.READ, profile: str = "mine") -> Verdict:
    policy = load(str(workspace), Flags(profile=profile))
    return decide(policy, access, str(path)).verdict


def test_the_order_is_never_then_workspace_then_allowed_then_the_way_out(home: Path, workspace: Path) -> None:
    boundary(home, neverAllow=[str(home / "data")], allowRead=[str(home / "data" / "f"), str(home / "doc")])
    assert check(workspace, home / "data" / "f") is DENY
    assert check(workspace, home / "data" / "new", Access.WRITE) is DENY
    assert check(workspace, workspace / "f", Access.WRITE) is ALLOW
    assert check(workspace, home / "doc" / "readme.txt") is ALLOW
    assert check(workspace, home / "doc" / "readme.txt", Access.WRITE) is ASK
    assert check(workspace, home / "notes") is ASK
    assert check(workspace, "/opt/x", Access.WRITE) is ASK


@pytest.mark.parametrize(
    ("mode", "tool", "notes"), [("safe", ASK, ASK), ("guided", ALLOW, ASK), ("autonomous", ALLOW, ALLOW)]
)
def test_the_modes_differ_in_fact(home: Path, workspace: Path, mode: str, tool: Verdict, notes: Verdict) -> None:
    boundary(home, mode=mode)
    assert check(workspace, home / ".cargo" / "bin" / "cargo") is tool
    assert check(workspace, home / "notes") is notes
    assert check(workspace, home / "notes", Access.WRITE) is notes
    for closed in (".ssh/id", ".cargo/credentials.toml"):
        assert check(workspace, home / closed) is DENY
        assert check(workspace, home / closed, Access.WRITE) is DENY
    assert check(workspace, home / ".bashrc", Access.WRITE) is not ALLOW
    assert check(workspace, home / ".config" / "ringfence" / "policy.toml", Access.WRITE) is not ALLOW


@pytest.mark.parametrize(("escape", "notes"), [("ask", ASK), ("deny", DENY), ("allow", ALLOW)])
def test_the_way_out(home: Path, workspace: Path, escape: str, notes: Verdict) -> None:
    boundary(home, mode="guided", escape=escape)
    assert check(workspace, home / "notes") is notes
    assert check(workspace, home / ".ssh" / "id") is DENY


def test_a_workspace_inside_what_is_never_allowed_works(home: Path, workspace: Path) -> None:
    (workspace.parent / "other").mkdir()
    boundary(home, neverAllow=[str(workspace.parent)])
    assert check(workspace, workspace / "f", Access.WRITE) is ALLOW
    assert check(workspace, workspace / "f") is ALLOW
    assert check(workspace, workspace.parent / "other" / "f") is DENY
    assert check(workspace, workspace.parent / "other" / "f", Access.WRITE) is not ALLOW


def test_of_several_the_strictest_stands(home: Path, workspace: Path) -> None:
    boundary(home)
    policy = load(str(workspace), Flags(profile="mine"))

    def check_all(*paths: object) -> Verdict:
        return max(decide(policy, Access.READ, str(path)).verdict for path in paths)

    assert check_all(workspace / "a", workspace / "b") is ALLOW
    assert check_all(workspace / "a", home / "notes") is ASK
    assert check_all(home / "notes", home / ".ssh" / "id", workspace / "a") is DENY


def test_paths_that_fooled_older_boundaries(home: Path, workspace: Path) -> None:
    """Going up from what does not exist, and a link in the workspace to something outside."""
    (workspace / "link").symlink_to(home)
    boundary(home)
    request = make_request(str(workspace), str(workspace), Flags(profile="mine"), AS_ROOT)

    def answer(access: str, path: str) -> tuple[Verdict, str]:
        decision, real = why(request, access, f"{workspace}/{path}")
        return decision.verdict, real

    assert answer("write", "newdir/../../../../../../../../etc/passwd") == (ASK, "/etc/passwd")
    assert answer("write", "link/new") == (ASK, f"{home}/new")
    assert answer("read", "link/.ssh/id") == (DENY, f"{home}/.ssh/id")
    assert decide(load(str(workspace)), Access.WRITE, f"{workspace}/newdir/../../etc/passwd").verdict is DENY


def test_an_unset_home_widens_nothing(home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not `/.cargo`, not the working directory: `~` is the home on record, or an error."""
    monkeypatch.delenv("HOME")
    policy = load(str(workspace), Flags(profile="power_user"))
    opened = {rule.path for rule in policy.rules if str(rule.origin).endswith("power_user.toml:7")}
    assert not {path for path in opened if path.startswith(("/.", str(workspace)))}
    for home_ in ("", "relative", "."):
        monkeypatch.setenv("HOME", home_)
        forget_all()
        assert load(str(workspace), Flags(profile="power_user")).rules == policy.rules
    with pytest.raises(PolicyError) as caught:
        load_chain("power_user", lambda name: read_profile(name, {}), Base(str(workspace), ""))
    assert "home" in str(caught.value)


# ---- Profiles ----

AGENTS = ("aider", "claude", "codex", "copilot", "cursor", "gemini", "opencode", "pi")


def test_the_profiles_there_are(home: Path) -> None:
    assert profile_names({"HOME": str(home)}) == sorted((*AGENTS, "autonomous", "ci", "power_user", "safe"))
    assert ALIASES == {"yolo": "autonomous"}


@pytest.mark.parametrize("name", [*AGENTS, "autonomous", "ci", "power_user", "safe", "yolo"])
def test_every_profile_loads_and_its_examples_hold(workspace: Path, name: str) -> None:
    policy = load(str(workspace), Flags(profile=name))
    chain = load_chain(name, lambda one: read_profile(one, {}), Base("/w", "/home/x"))
    kinds = {verdict for verdict, _ in chain[-1].examples}
    assert {ALLOW, DENY} <= kinds
    assert chain[-1].about
    assert policy.escape is (DENY if name in ("ci", "autonomous", "yolo") else ASK)


@pytest.mark.parametrize("name", AGENTS)
def test_an_agents_profile_opens_its_own_things_alone(home: Path, workspace: Path, name: str) -> None:
    """Of the stores of all agents those of this one, and of hosts no wildcard over strangers' names."""
    plain, policy = load(str(workspace)), load(str(workspace), Flags(profile=name))

    def opened(found: Policy) -> set[str]:
        stores = [rule.path for rule in plain.rules if rule.verdict is DENY and rule.path.startswith(str(home))]
        return {path for path in stores if decide(found, Access.READ, path).verdict is ALLOW}

    word = {"cursor": "cursor", "pi": "/.pi/"}.get(name, name)
    assert {path for path in opened(policy) - opened(plain) if word not in path} == set()
    assert all(rule.host.count(".") >= 1 and rule.host != "*" for rule in policy.network.hosts)


def test_a_profile_of_ones_own_inherits(home: Path, workspace: Path) -> None:
    boundary(home, "base", neverAllow=[str(home / "data")], escape="deny")
    boundary(home, "mine", inherits="base", allowRead=[str(home / "notes")])
    boundary(home, "more", inherits="claude", allowRead=[str(home / "notes")])
    assert check(workspace, home / "notes") is ALLOW
    assert check(workspace, home / "x") is DENY
    assert check(workspace, home / "data" / "f") is DENY
    assert check(workspace, home / ".claude" / "x", Access.WRITE, "more") is ALLOW
    assert check(workspace, home / ".claude" / "settings.json", Access.WRITE, "more") is DENY


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[examples]\nallow = ["read ~/.ssh/id"]\n', "the example `read ~/.ssh/id` is to be allow, and is deny"),
        ('[examples]\ndeny = ["write {workspace}/x"]\n', "is to be deny, and is allow"),
        ('[examples]\nallow = ["fly ~/x"]\n', "begins with neither"),
        ("[examples]\nalow = []\n", "alow"),
        ('[profil]\nmode = "safe"\n', "profil"),
    ],
)
def test_examples_are_checked_when_it_is_loaded(home: Path, workspace: Path, more: str, said: str) -> None:
    boundary(home, more=more)
    with pytest.raises(PolicyError) as caught:
        load(str(workspace), Flags(profile="mine"))
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["nosuch", "../../etc/passwd", "", "Claude", "a/b", "x" * 40, "-x"])
def test_there_is_no_such_profile(workspace: Path, name: str) -> None:
    if not name:
        assert load(str(workspace), Flags(profile="")).escape is DENY
        return
    with pytest.raises(UsageError):
        load(str(workspace), Flags(profile=name))


def test_a_profile_that_cannot_be_believed(home: Path, workspace: Path) -> None:
    boundary(home, "claude")
    boundary(home, "open")
    boundary(home, "one", inherits="two")
    boundary(home, "two", inherits="one")
    boundary(home, "odd", mode="reckless")
    (home / ".config" / "ringfence" / "profiles" / "open.toml").chmod(0o666)
    for name, said in (
        ("claude", "of ringfence's own"),
        ("open", "written by others"),
        ("one", "inherits from itself"),
        ("odd", "Invalid enum value 'reckless'"),
    ):
        with pytest.raises(PolicyError) as caught:
            load(str(workspace), Flags(profile=name))
        assert said in str(caught.value)
        assert name != "odd" or caught.value.hint.endswith("docs/airlock.md")


def test_a_changed_profile_is_read_again(home: Path, workspace: Path) -> None:
    boundary(home, escape="deny")
    assert check(workspace, home / "notes") is DENY
    boundary(home, escape="ask")
    assert check(workspace, home / "notes") is ASK


def test_no_command_can_write_the_profiles(home: Path, workspace: Path) -> None:
    boundary(home)
    with pytest.raises(PolicyError) as caught:
        load(str(workspace), Flags(allow_write=(str(home / ".config"),)))
    assert "the command could write this file" in str(caught.value)


def test_the_users_own_policy_may_name_a_boundary_and_a_projects_may_not(home: Path, workspace: Path) -> None:
    boundary(home, escape="deny")
    policy = home / ".config" / "ringfence" / "policy.toml"
    policy.write_text('profile = "safe"\n')
    (workspace / ".ringfence").mkdir()
    (workspace / ".ringfence" / "policy.toml").write_text('profile = "autonomous"\n')
    for _ in ("untrusted", "trusted"):
        found = load(str(workspace))
        assert decide(found, Access.READ, str(home / "notes")).verdict is ASK
        assert decide(found, Access.READ, str(home / ".cargo" / "bin" / "cargo")).verdict is ASK
        assert "profile has no effect" in found.ignored[0]
        trust(str(workspace))
    assert check(workspace, home / "notes") is DENY  # a flag goes before it
    guard = bounds_for_agent(str(workspace), "", os.environ)
    assert guard.decide(Access.READ, str(home / "notes")).verdict is ASK


@pytest.mark.parametrize(
    ("profile", "tool", "notes", "written"),
    [("safe", False, False, False), ("power_user", True, False, False), ("yolo", True, True, True)],
)
def test_the_kernel_holds_what_the_judge_says(
    home: Path, workspace: Path, backend: str, profile: str, tool: bool, notes: bool, written: bool
) -> None:
    tries = f"""
        cat {home}/.cargo/bin/cargo && echo tool; cat {home}/notes && echo notes; echo x >> {home}/notes && echo written
        cat {home}/.ssh/id && echo key; cat {home}/.cargo/credentials.toml && echo token; echo x > own && echo own
    """
    flags = Flags(profile=profile, enforcement=Enforcement.BEST_EFFORT)
    outcome = run(["sh", "-c", tries], workspace=str(workspace), flags=flags, as_root=AS_ROOT, capture=True)
    seen = set((outcome.stdout or b"").decode().replace("notesnotes", "notes").split("\n"))
    wanted = {"tooltool": tool, "notes": notes, "written": written, "own": True}
    assert {word for word in seen if word} == {word for word, held in wanted.items() if held}


@pytest.mark.parametrize("profile", ["claude", "yolo", "ci"])
def test_what_a_profile_names_and_is_not_there_is_not_complained_of(workspace: Path, profile: str) -> None:
    outcome = run(["true"], workspace=str(workspace), flags=Flags(profile=profile), as_root=AS_ROOT)
    assert [gap.what for gap in outcome.gaps if "nothing is there" in gap.why] == []
    named = run(["true"], workspace=str(workspace), flags=Flags(allow_read=("/nowhere",)), as_root=AS_ROOT)
    assert [gap.what for gap in named.gaps if "nothing is there" in gap.why] != []
