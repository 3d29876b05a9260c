"""A row of the table of system calls: some calls, when it holds, and what they are answered then. Pure."""

import enum

import msgspec

LOW = 0xFFFFFFFF
WHOLE = 0xFFFFFFFFFFFFFFFF


class Answer(enum.IntEnum):
    """What seccomp returns; an errno is SECCOMP_RET_ERRNO and its number, alike on both architectures."""

    ALLOW = 0x7FFF0000
    KILL = 0x80000000  # SECCOMP_RET_KILL_PROCESS
    NOTIFY = 0x7FC00000  # SECCOMP_RET_USER_NOTIF: the warden answers
    DONE = 0x50000  # as if it were: no error, and nothing was done
    EPERM = 0x50000 | 1
    EINVAL = 0x50000 | 22
    ENOTTY = 0x50000 | 25
    ENOSYS = 0x50000 | 38
    ENOPROTOOPT = 0x50000 | 92
    EPROTONOSUPPORT = 0x50000 | 93
    EOPNOTSUPP = 0x50000 | 95
    EAFNOSUPPORT = 0x50000 | 97


class OneOf(msgspec.Struct, frozen=True):
    """The masked low half of an argument is one of these values."""

    arg: int
    values: tuple[int, ...]
    text: str
    mask: int = LOW


class AnyBit(msgspec.Struct, frozen=True):
    """An argument has any of these bits. Bits of the high half are named only for pointers."""

    arg: int
    bits: int
    text: str


class Row(msgspec.Struct, frozen=True):
    """Some calls, what they are answered when every test holds, and the escape that this closes."""

    names: tuple[str, ...]
    answer: Answer
    escape: str
    when: tuple[OneOf | AnyBit, ...] = ()

    def describe(self) -> str:
        when = f" when {' and '.join(test.text for test in self.when)}" if self.when else ""
        return f"{' '.join(self.names)}: {self.answer.name}{when}: {self.escape}"


def row(names: str, answer: Answer, escape: str, *when: OneOf | AnyBit) -> Row:
    return Row(tuple(names.split()), answer, escape, when)
