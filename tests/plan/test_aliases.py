"""Where else a path shows, from the table of mounts alone."""

import pytest

from ringfence.model import BUILT_IN, Access, Mount, Policy, Rule, Verdict
from ringfence.plan.aliases import elsewhere, with_aliases

ROOT = Mount("/", "8:1", "/")
PROC = Mount("/proc", "0:5", "/")


@pytest.mark.parametrize(
    ("path", "others", "found"),
    [
        ("/home/u/.ssh", (), []),
        ("/home/u/.ssh", (Mount("/mnt/again", "8:1", "/"),), ["/mnt/again/home/u/.ssh"]),
        ("/home/u/.ssh", (Mount("/opt/al", "8:1", "/home/u/.ssh"),), ["/opt/al"]),
        ("/home/u/.ssh", (Mount("/opt/al", "8:1", "/home/u/.ssh/keys"),), ["/opt/al"]),
        ("/home/u/.ssh", (Mount("/opt/al", "8:1", "/home/u"),), ["/opt/al/.ssh"]),
        ("/home/u/.ssh", (Mount("/opt/al", "8:1", "/home/u/.sshfoo"),), []),
        ("/home/u/.ssh", (Mount("/opt/al", "8:2", "/home/u/.ssh"),), []),
        ("/home/u/.ssh", (Mount("/opt/al", "8:1", "/home/u"), Mount("/opt/al", "0:9", "/")), []),  # covered again
        ("/home/u/.ssh", (Mount("/home", "8:3", "/"), Mount("/old", "8:3", "/u")), ["/old/.ssh"]),
        ("/", (Mount("/mnt/again", "8:1", "/"),), ["/mnt/again"]),
    ],
)
def test_a_path_is_found_wherever_its_file_system_shows_it(
    path: str, others: tuple[Mount, ...], found: list[str]
) -> None:
    assert elsewhere(path, (ROOT, PROC, *others)) == found


def test_denials_are_repeated_there_and_grants_are_not() -> None:
    deny = Rule(Access.WRITE, Verdict.DENY, "/ws/.git", BUILT_IN)
    allow = Rule(Access.WRITE, Verdict.ALLOW, "/ws", BUILT_IN)
    again = Rule(Access.WRITE, Verdict.DENY, "/ws/al", BUILT_IN)
    mounts = (ROOT, Mount("/ws/al", "8:1", "/ws/.git"), Mount("/x", "8:1", "/ws"))

    policy = with_aliases(Policy("/ws", (allow, deny)), {"/ws": "/ws", "/ws/.git": "/ws/.git"}, mounts)

    assert policy.rules == (allow, deny, again, Rule(Access.WRITE, Verdict.DENY, "/x/.git", BUILT_IN))
