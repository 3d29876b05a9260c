"""Landlock's rights, by ABI, and what they mean for a tree.

Pure: the numbers are the kernel's (linux/landlock.h); nothing here opens a path. Opening happens in enact.c, where the
object found is compared with the object that was planned for.
"""

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_CHAR = 1 << 6
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
MAKE_SOCK = 1 << 9
MAKE_FIFO = 1 << 10
MAKE_BLOCK = 1 << 11
MAKE_SYM = 1 << 12
REFER = 1 << 13
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15

BIND_TCP = 1 << 0
CONNECT_TCP = 1 << 1

SCOPE_ABSTRACT_UNIX = 1 << 0
SCOPE_SIGNAL = 1 << 1

READ = EXECUTE | READ_FILE | READ_DIR
MAKE = MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
WRITE = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE | MAKE_CHAR | MAKE_BLOCK
GRANTED_WRITE = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE | REFER | TRUNCATE  # nobody needs device nodes
ON_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # the rest is refused for a file by the kernel

# The ABI that brought each right or scope; what is not named came with the first.
SINCE = {REFER: 2, TRUNCATE: 3, IOCTL_DEV: 5}
BROKER_SINCE = 2  # not a right: it came with the kernel (5.19) that hands descriptors over to who waits for an answer
NETWORK_SINCE = 4
SCOPES_SINCE = 6


def known(rights: int, abi: int) -> int:
    """Those of the rights that this ABI knows."""
    if abi < 1:
        return 0
    for right, since in SINCE.items():
        if since > abi:
            rights &= ~right
    return rights


def handled(abi: int, view: bool) -> int:
    """The rights to take away. With a view the mounts hold reading and truncation, and Landlock need not: asking it at
    every open costs a third more, and only seven in a hundred when it handles writes alone (measured)."""
    rights = WRITE | REFER | IOCTL_DEV
    return known(rights if view else rights | READ | TRUNCATE, abi)


def scopes(abi: int) -> int:
    """No signals to, and no abstract sockets of, anybody outside the run."""
    return SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL if abi >= SCOPES_SINCE else 0


def network(abi: int) -> int:
    """Taking away TCP, ports and all."""
    return BIND_TCP | CONNECT_TCP if abi >= NETWORK_SINCE else 0
