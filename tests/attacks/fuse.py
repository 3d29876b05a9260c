"""A file system in user space, in memory, as small as a workspace can bear: `python fuse.py MOUNTPOINT UID GID [folds]`

Speaks the kernel's protocol by itself, so that no library is needed. It serves until it is unmounted or ended. With a
fourth word names are found in any spelling.
"""

import ctypes
import errno
import os
import struct
import sys
import time

HEADER = struct.Struct("<IIQQIIIHH")
ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
LOOKUP, FORGET, GETATTR, SETATTR, MKDIR, UNLINK, RMDIR, RENAME, OPEN, READ, WRITE, STATFS = (
    1, 2, 3, 4, 9, 10, 11, 12, 14, 15, 16, 17,
)  # fmt: skip
RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, CREATE, INTERRUPT, BATCH_FORGET, RENAME2 = (
    18, 25, 26, 27, 28, 29, 34, 35, 36, 42, 45,
)  # fmt: skip


class Node:
    def __init__(self, mode: int) -> None:
        self.mode = mode
        self.data = bytearray()
        self.names: dict[bytes, int] = {}


class Memory:
    """The files, and an answer to each request about them."""

    def __init__(self, uid: int, gid: int, folds: bool = False) -> None:
        self.owner = (uid, gid)
        self.folds = folds  # whether names are found in any spelling
        self.nodes = {1: Node(0o40755)}

    def attr(self, number: int) -> bytes:
        node, now = self.nodes[number], int(time.time())
        size = len(node.data)
        return ATTR.pack(number, size, 1, now, now, now, 0, 0, 0, node.mode, 1, *self.owner, 0, 4096, 0)

    def entry(self, number: int) -> bytes:
        return struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + self.attr(number)

    def made(self, parent: int, name: bytes, mode: int) -> int:
        number = max(self.nodes) + 1
        self.nodes[number] = Node(mode)
        self.nodes[parent].names[name] = number
        return number

    def answer(self, kind: int, node: int, body: bytes) -> bytes | int:
        """The body of the answer, or an errno."""
        if kind == INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 12, 9, 65536, 1, 16, 0, 0)
        if node not in self.nodes:
            return errno.ENOENT
        if kind in (GETATTR, SETATTR):
            return self.attributes(kind, node, body)
        if kind in (LOOKUP, MKDIR, CREATE, UNLINK, RMDIR, RENAME, RENAME2):
            return self.names(kind, node, body)
        if kind in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, 0, 0)
        if kind in (RELEASE, RELEASEDIR, FLUSH, ACCESS):
            return b""
        if kind == STATFS:
            return struct.pack("<QQQQQIIII24x", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, 0)
        if kind in (READ, WRITE, READDIR):
            return self.content(kind, node, body)
        return errno.ENOSYS

    def attributes(self, kind: int, node: int, body: bytes) -> bytes:
        if kind == SETATTR:
            valid, _, _, size = struct.unpack_from("<IIQQ", body)
            if valid & 8:
                del self.nodes[node].data[size:]
            if valid & 1:
                self.nodes[node].mode = (
                    self.nodes[node].mode & 0o170000 | struct.unpack_from("<I", body, 68)[0] & 0o7777
                )
        return struct.pack("<QII", 0, 0, 0) + self.attr(node)

    def names(self, kind: int, node: int, body: bytes) -> bytes | int:
        names = self.nodes[node].names
        if kind in (RENAME, RENAME2):
            rest = body[8 if kind == RENAME else 16 :].split(b"\0")
            self.nodes[struct.unpack_from("<Q", body)[0]].names[rest[1]] = names.pop(rest[0])
            return b""
        if kind in (MKDIR, CREATE):
            name = body[8 if kind == MKDIR else 16 :].split(b"\0")[0]
            mode = struct.unpack_from("<I", body, 0 if kind == MKDIR else 4)[0] & 0o7777
            number = self.made(node, name, mode | (0o40000 if kind == MKDIR else 0o100000))
            return self.entry(number) + (struct.pack("<QII", 0, 0, 0) if kind == CREATE else b"")
        name = body.split(b"\0")[0]
        if self.folds:
            name = next((one for one in names if one.lower() == name.lower()), name)
        if name not in names:
            return errno.ENOENT
        if kind == LOOKUP:
            return self.entry(names[name])
        del names[name]
        return b""

    def content(self, kind: int, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        found = self.nodes[node]
        if kind == WRITE:
            found.data[offset : offset + size] = body[40 : 40 + size]
            return struct.pack("<II", size, 0)
        if kind == READ:
            return bytes(found.data[offset : offset + size])
        listing = b""
        for at, (name, number) in enumerate(found.names.items()):
            if at >= offset:
                row = struct.pack("<QQII", number, at + 1, len(name), 0) + name
                listing += row + bytes(-len(row) % 8)
        return listing


def main(point: str, uid: int, gid: int, folds: bool) -> None:
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=40000,user_id={uid},group_id={gid},allow_other,default_permissions"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"rf-fuse", os.fsencode(point), b"fuse", 6, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
    os.write(1, b"mounted\n")
    memory = Memory(uid, gid, folds)
    while True:
        try:
            request = os.read(fd, 1 << 18)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            raise
        _, kind, unique, node, *_ = HEADER.unpack_from(request)
        if kind in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        found = memory.answer(kind, node, request[HEADER.size :])
        code, body = (-found, b"") if isinstance(found, int) else (0, found)
        os.write(fd, struct.pack("<IiQ", 16 + len(body), code, unique) + body)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] == ["folds"])
