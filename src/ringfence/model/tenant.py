"""A tenant: somebody's workspaces on a host of many, as the registry remembers them, and what can be wrong with it."""

import enum

import msgspec


class TenantFault(enum.Enum):
    """Why a tenant cannot be made, found or used; `TENANT_` and the name is the error's code."""

    INVALID_NAME = "the name is no host name, or is reserved"
    NOT_FOUND = "there is no such tenant"
    EXISTS = "a tenant or an alias of this name exists already"
    SUSPENDED = "the tenant is suspended"
    UNFINISHED = "the tenant is half made or half removed"
    OWNER_MISMATCH = "the tree does not belong to the user that the registry names"
    OUTSIDE = "the path leads out of the tenant's tree"
    UNSAFE = "the registry is not what it must be, and somebody may have prepared it"
    FAILED = "the system could not do it"


class TenantState(enum.Enum):
    """How far a tenant is; the registry says it before it is done."""

    MAKING = "making"  # its user or tree may not be there yet: `repair` goes on
    ACTIVE = "active"
    SUSPENDED = "suspended"
    REMOVING = "removing"  # its tree may be archived already: `remove` goes on


class Tenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the registry has of one tenant. Ids come from here, and never from a request or from who owns a path."""

    name: str
    id: str
    user: str
    uid: int  # 0 while it is being made
    gid: int
    state: TenantState
    made: int  # seconds since 1970
    aliases: tuple[str, ...] = ()
    limits: dict[str, int] = msgspec.field(default_factory=dict)  # of all its runs: memory, processes, runs, disk


class Workspace(msgspec.Struct, frozen=True):
    """Where a tenant's runs work, and as whom."""

    tenant: str
    root: str
    uid: int
    gid: int
    limits: dict[str, int]
