"""F31: mode, owner, times and attributes of files outside, for which Landlock has no right."""

import fcntl
from pathlib import Path

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import fcntl
canary = OUTSIDE + "/canary"
def by_descriptor(change):
    fd = os.open(canary, os.O_RDONLY)
    try:
        change(fd)
    finally:
        os.close(fd)
attempt("chmod", lambda: os.chmod(canary, 0o777))
attempt("chmod a directory", lambda: os.chmod(OUTSIDE, 0o777))
attempt("chown", lambda: os.chown(canary, os.getuid(), os.getgid()))
attempt("utime", lambda: os.utime(canary, (1, 1)))
attempt("hint", lambda: by_descriptor(lambda fd: fcntl.fcntl(fd, 1036, (5).to_bytes(8, "little"))))
attempt("setxattr", lambda: os.setxattr(canary, "user.x", b"1"))
attempt("fchmod", lambda: by_descriptor(lambda fd: os.fchmod(fd, 0o777)))
attempt("fchown", lambda: by_descriptor(lambda fd: os.fchown(fd, os.getuid(), -1)))
attempt("futimens", lambda: by_descriptor(lambda fd: os.utime(fd, (1, 1))))
attempt("fsetxattr", lambda: by_descriptor(lambda fd: os.setxattr(fd, "user.y", b"1")))
attempt("file_setattr", lambda: syscall(NR.file_setattr, -100, canary.encode(), b"\\x80" + bytes(23), 24, 0))
attempt("set flags", lambda: by_descriptor(lambda fd: fcntl.ioctl(fd, 0x40086602, b"\\x40" + bytes(7))))
if EXTRA[0]:
    attempt("set version", lambda: by_descriptor(lambda fd: fcntl.ioctl(fd, 0x40087602, b"\\x07" + bytes(7))))
attempt("a protected file of the workspace", lambda: os.chmod("rules", 0o777))
"""


def prepare(ground: Ground) -> list[str]:
    ground.file("ws/rules")
    return ["versions" if has_versions(ground.file("version")) else ""]


def has_versions(path: Path) -> bool:
    """Whether a file's version can be set: on ext4, unless it keeps checksums; tmpfs and overlays have none."""
    with path.open("rb") as file:
        try:
            fcntl.ioctl(file, 0x40087602, bytes(8))
        except OSError:
            return False
    return True


def test_metadata_outside_does_not_change(field: Field) -> None:
    field.repels(
        PROGRAM,
        prepare,
        denied=lambda ground: {"deny_write": (str(ground.workspace / "rules"),)},
        unknown=("file_setattr",),  # before Linux 6.17
    )
