"""A person's yes: what was asked, what was answered, and what is remembered of it."""

import enum

import msgspec


class Operation(enum.Enum):
    """What is to be done, as a question names it."""

    READ = "read"
    LIST = "list"
    EXECUTE = "execute"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    CONNECT = "connect"
    BIND = "bind"

    @property
    def kind(self) -> str:
        """What a rule can say of it: read, write, connect or bind."""
        if self in (Operation.LIST, Operation.EXECUTE):
            return "read"
        return "write" if self in (Operation.CREATE, Operation.DELETE) else self.value


class Answer(enum.Enum):
    """What a person says; the order is from the narrowest."""

    DENY = "deny"
    ONCE = "once"
    SESSION = "session"  # in this workspace, until its expiry or a restart of the machine
    PROJECT = "project"  # in this workspace
    ALWAYS = "always"  # in every workspace

    @property
    def is_kept(self) -> bool:
        return self in (Answer.SESSION, Answer.PROJECT, Answer.ALWAYS)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """One rule that a person added: narrow, dated, revocable."""

    id: str
    operation: Operation
    target: str  # canonical
    answer: Answer
    workspace: str = ""  # empty: everywhere
    made: int  # seconds since 1970
    until: int = 0  # 0: until it is revoked
    boot: str = ""  # of a session: which start of the machine
    reason: str = ""
