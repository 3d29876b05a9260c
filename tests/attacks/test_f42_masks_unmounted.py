"""F42: in a user namespace of its own the command takes masks away and makes the read-only writable."""

from tests.attacks.conftest import Field

PROGRAM = """
NEWUSER, NEWNS, REMOUNT, BIND, DETACH = 0x10000000, 0x20000, 32, 4096, 2
attempt("a namespace", lambda: checked(libc.unshare(NEWUSER | NEWNS)))
attempt("a mount", lambda: checked(libc.mount(b"none", WS.encode(), b"tmpfs", 0, None)))
attempt("a bind", lambda: checked(libc.mount(b"/", b"/mnt", None, BIND | 16384, None)))
attempt("a remount", lambda: checked(libc.mount(b"none", WS.encode(), None, REMOUNT, None)))
attempt("an unmount", lambda: checked(libc.umount2(WS.encode(), DETACH)))
attempt("another root", lambda: checked(libc.chroot(b"/")))
"""


def test_masks_stay_on(field: Field) -> None:
    field.repels(PROGRAM)


def test_no_program_makes_a_namespace(field: Field) -> None:
    field.repels("""attempt("unshare", lambda: sh("unshare --user --map-root-user --mount true"))""")
