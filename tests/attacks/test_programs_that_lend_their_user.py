"""A program left in the workspace with a bit that lends its owner or its group to whoever starts it, outside."""

import pytest
from tests.attacks.conftest import EVERY_WALL, Field

PROGRAM = """
def lent(name, call):
    def made():
        call(name)
        if not os.stat(name).st_mode & 0o4000:
            raise OSError(errno.EPERM, "it lends nothing")
    attempt(name, made)
def unnamed(name):
    fd = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755)
    checked(libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, name.encode(), 0x400))
os.umask(0)
for name in ("chmod", "fchmod", "fchmodat", "fchmodat2"):
    write(name)
lent("chmod", lambda name: os.chmod(name, 0o4755))
lent("fchmod", lambda name: os.fchmod(os.open(name, os.O_RDONLY), 0o4755))
lent("fchmodat", lambda name: os.chmod(name, 0o6711, dir_fd=os.open(".", os.O_RDONLY)))
lent("fchmodat2", lambda name: syscall(NR.fchmodat2, -100, name.encode(), 0o4700, 0))
lent("open", lambda name: os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o4755)))
lent("creat", lambda name: checked(libc.creat(name.encode(), 0o4755)))
lent("mknod", lambda name: os.mknod(name, 0o104755))
lent("unnamed", unnamed)
"""


GROUP = """
import struct
def lent(name, call):
    def made():
        call(name)
        if os.stat(name).st_mode & 0o2010 != 0o2010:
            raise OSError(errno.EPERM, "it lends nothing")
    attempt(name, made)
def unnamed(name):
    fd = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o2755)
    checked(libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, name.encode(), 0x400))
def listed(name):
    os.chmod(name, 0o2644)
    entries = ((1, 6), (4, 5), (16, 5), (32, 5))  # the owner, the group, at most, others
    text = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, rights, 0xFFFFFFFF) for tag, rights in entries)
    os.setxattr(name, "system.posix_acl_access", text)
os.umask(0)
for name in ("chmod", "fchmod", "fchmodat", "fchmodat2", "descriptor", "list", "linked"):
    write(name)
os.symlink("linked", "link")
lent("chmod", lambda name: os.chmod(name, 0o2755))
lent("fchmod", lambda name: os.fchmod(os.open(name, os.O_RDONLY), 0o2755))
lent("fchmodat", lambda name: os.chmod(name, 0o2711, dir_fd=os.open(".", os.O_RDONLY)))
lent("fchmodat2", lambda name: syscall(NR.fchmodat2, -100, name.encode(), 0o2710, 0))
lent("descriptor", lambda name: os.chmod(f"/proc/self/fd/{os.open(name, os.O_RDONLY)}", 0o3755))
lent("list", listed)
lent("linked", lambda name: os.chmod("link", 0o2755))
lent("open", lambda name: os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o2755)))
lent("creat", lambda name: checked(libc.creat(name.encode(), 0o2755)))
lent("mknod", lambda name: os.mknod(name, 0o102755))
lent("unnamed", unnamed)
"""


@EVERY_WALL
def test_no_program_is_left_that_lends_its_group(field: Field) -> None:
    field.repels(GROUP, unknown=("fchmodat2",))


@EVERY_WALL
def test_no_program_is_left_that_lends_its_user(field: Field) -> None:
    field.repels(PROGRAM, unknown=("fchmodat2",))


@pytest.mark.parametrize("mode", ["2775", "1777", "755"])
def test_other_bits_are_given_as_always(field: Field, mode: str) -> None:
    ground = field.ground()
    ground.own()
    script = f"mkdir d && chmod {mode} d && chmod g=rx,o= d && chmod {mode} d/../d && stat -c %a d"

    outcome = field.run(ground, ["sh", "-c", script])

    assert (outcome.stdout, outcome.exit_code) == (f"{mode}\n".encode(), 0)
