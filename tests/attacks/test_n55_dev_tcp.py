"""N55: bash's /dev/tcp and /dev/udp, which are no files."""

from tests.attacks.conftest import Field, with_listener

PROGRAM = """
attempt("/dev/tcp", lambda: sh("exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/%s && echo x >&3'" % EXTRA[0]))
"""


def test_the_paths_of_bash_reach_nobody(field: Field) -> None:
    field.repels(PROGRAM, with_listener)
