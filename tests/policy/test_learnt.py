"""A policy that was learnt gives what was used, and neither a secret nor more than the run had."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from ringfence.model import BUILT_IN, Access, Decision, Origin, Policy, Rule, Verdict
from ringfence.policy import decide
from ringfence.policy.learnt import Line, Use, learn, rendered, secret

HOME = "/home/me"
FLAG = Origin("--allow-read")
OWN = Policy(
    "/ws",
    (
        Rule(Access.READ, Verdict.ALLOW, "/usr", BUILT_IN),
        Rule(Access.READ, Verdict.ALLOW, HOME, FLAG),
        Rule(Access.READ, Verdict.ALLOW, f"{HOME}/.ssh", FLAG),
        Rule(Access.READ, Verdict.DENY, f"{HOME}/closed", FLAG),
        Rule(Access.WRITE, Verdict.ALLOW, f"{HOME}/.cache", FLAG),
    ),
)
NAMES = ["a", "b", "c", "d", ".env", "id_rsa", ".ssh", ".config", ".cache", "closed", "deep", "token.txt"]
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(lambda names: "/".join((HOME, *names)))
uses = st.lists(st.builds(Use, st.sampled_from(["read", "write", "make"]), paths, st.just("cat")), max_size=30)


def judge(access: Access, path: str) -> Decision:
    return decide(OWN, access, path)


def full(text: str) -> str:
    return HOME + text[1:].replace("[[]", "[") if text.startswith("~") else text


def is_given(lines: tuple[Line, ...], path: str) -> bool:
    return any(path == full(line.text) or path.startswith(full(line.text) + "/") for line in lines)


@given(uses)
def test_everything_used_is_given_or_named_as_withheld_and_nothing_more_than_the_run_had(used: list[Use]) -> None:
    entries = {use.path.rpartition("/")[0]: set[str]() for use in used}
    for use in used:
        entries[use.path.rpartition("/")[0]].add(use.path.rpartition("/")[2])
    found = learn(used, judge, HOME, lambda path: sorted(entries[path]) if path in entries else None)

    for access, lines in ((Access.READ, found.reads), (Access.WRITE, found.writes)):
        for line in lines:
            assert judge(access, full(line.text)).verdict is Verdict.ALLOW
            assert not secret(full(line.text), HOME)
            assert full(line.text) not in (HOME, f"{HOME}/.config", f"{HOME}/.cache", "/", "/home")
            assert line.reason
    for use in used:
        access = Access.READ if use.access == "read" else Access.WRITE
        allowed = judge(access, use.path).verdict is Verdict.ALLOW
        if secret(use.path, HOME) and secret(use.path, HOME) != "it looks like a secret":
            assert not is_given(found.reads, use.path)
        elif allowed and not secret(use.path, HOME):
            lines = (*found.reads, *found.writes) if access is Access.READ else found.writes
            withheld = any(use.path.startswith(full(line.text)) for line in found.withheld)
            assert is_given(lines, use.path) or withheld


def test_many_files_become_their_directory_and_few_stay() -> None:
    used = [Use("read", f"{HOME}/.config/tool/{name}", "node") for name in "abc"]
    used += [Use("read", f"{HOME}/notes/a", "cat"), Use("read", "/usr/lib/x", "cat")]
    found = learn(used, judge, HOME, lambda path: ["a", "b", "c"] if path == f"{HOME}/.config/tool" else None)

    assert found.reads == (
        Line("~/.config/tool", "read by node, 3 paths"),
        Line("~/notes/a", "read by cat"),
    )


def test_a_directory_with_a_secret_in_it_is_not_opened_whole() -> None:
    used = [Use("read", f"{HOME}/app/{name}", "node") for name in "abc"]
    found = learn(used, judge, HOME, lambda path: ["a", "b", "c", ".env"] if path == f"{HOME}/app" else None)

    assert [line.text for line in found.reads] == ["~/app/a", "~/app/b", "~/app/c"]


def test_a_directory_in_which_a_store_of_secrets_may_come_to_stand_is_not_opened_whole() -> None:
    """Its names say nothing of that, and of one nobody knows them."""
    used = [Use("read", f"{HOME}/{place}/{name}", "sh") for place in (".subversion", "unknown") for name in "abc"]
    found = learn(used, judge, HOME, lambda path: None if path.endswith("/unknown") else ["a", "b", "c"])

    assert [line.text for line in found.reads] == [
        f"~/{place}/{name}" for place in (".subversion", "unknown") for name in "abc"
    ]


def test_what_the_run_makes_is_given_by_the_directory_around_it() -> None:
    used = [Use("make", f"{HOME}/.cache/tool/new", "npm"), Use("make", f"{HOME}/.cache/tool/new/file", "npm")]
    used.append(Use("read", f"{HOME}/.cache/tool/new/file", "npm"))
    found = learn(used, judge, HOME, lambda path: None)

    assert (found.reads, found.writes) == ((), (Line("~/.cache/tool", "written by npm"),))


def test_that_nothing_was_used_is_said() -> None:
    assert rendered(learn([], judge, HOME, lambda path: None), []) == "# It used nothing beyond the built-in policy.\n"


def test_a_secret_is_named_and_not_granted() -> None:
    found = learn([Use("read", f"{HOME}/.ssh/id_ed25519", "ssh")], judge, HOME, lambda path: None)

    assert found.reads == ()
    assert found.withheld == (Line("~/.ssh/id_ed25519", "ssh keys; read by ssh"),)


@given(st.text(), st.text())
def test_a_hostile_name_stays_in_its_string_and_its_comment(name: str, program: str) -> None:
    name = name.replace("\0", "").encode("utf-8", "replace").decode()
    found = learn([Use("read", f"{HOME}/x/{name or 'y'}", program)], judge, HOME, lambda path: None)
    read = tomllib.loads(rendered(found, [])).get("filesystem", {}).get("allowRead", [])

    assert read == [line.text for line in found.reads]
