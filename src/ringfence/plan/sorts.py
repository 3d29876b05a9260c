"""What of the system calls depends on a plan, in words. Pure."""

import enum


class Sockets(enum.Flag):
    """What socket() may make, in any combination; Sockets(0) is nothing. socketpair(AF_UNIX) works, for streams."""

    UNIX = 1  # streams and packets
    INET = 2  # TCP and UDP, over IPv4 and IPv6
    NETLINK_ROUTE = 4  # asking for interfaces and routes, as getifaddrs() does
    TCP = 8  # TCP alone, to connect: where only Landlock's ports judge
    UNIX_DATAGRAMS = 16


class Judged(enum.Flag):
    """What the warden judges when it is used, beyond new names."""

    NOTHING = 0
    WRITES = 1
    READS = 2
    ATTRIBUTES = 4  # those of a name that may not be read: nobody reads them by a path
    ROOM = 8  # on the disk, of which there is a limit
    GROUPS = 16  # control groups, of which sandboxes inside would have namespaces
