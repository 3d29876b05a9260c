"""Facts about the machine and the disk, probed once and passed in, so that planning stays pure."""

import enum

import msgspec

from .policy import Access, Rule


class Enactor(enum.Enum):
    """Which program applies the plan."""

    NATIVE = "native"
    PYTHON = "python"  # specification and fallback: Landlock and seccomp only


class Host(msgspec.Struct, frozen=True):
    """What this machine can enforce, found by trying."""

    system: str
    arch: str
    landlock_abi: int = 0
    seccomp: bool = False
    namespaces: bool = False  # user, mount, ipc, network and pid namespaces with working id maps
    namespaces_why: str = ""  # the step and errno that failed
    detached_mounts: bool = False  # move_mount into a detached tree (about 6.15 on)
    fresh_proc: bool = False  # a /proc of its own pid namespace
    yama: int = 0  # who may read the memory of another: 1, its ancestors; 2, with a capability; 3, nobody
    layers: int = 16  # Landlock domains that still fit; fewer inside another sandbox
    loopback_only: bool = False  # inside another sandbox whose network has nothing but a loopback
    overlays: bool = True  # until one is refused
    core_limit: int = 1  # what RLIMIT_CORE can be: at one byte the kernel starts nobody for a crash, at none it does
    core_handler: str = ""  # how the host hears of crashes: "|", a program, or "@", a socket
    hides_processes: bool = False  # /proc does not show us what a run of ours starts (hidepid)
    owns_group: bool = False  # a run may write the control groups that it is in, or one below
    cgroups: tuple[str, ...] = ()  # what a control group of our own could hold: cpu, memory, pids
    bubblewrap: str = ""  # where it is, if it can build a view that the enactor cannot
    bubblewrap_setuid: bool = False
    bubblewrap_why: str = ""  # why it cannot, where the enactor cannot either
    seatbelt: bool = False  # macOS: sandbox-exec works
    enactor: Enactor = Enactor.NATIVE
    kernel: str = ""
    uid: int = 1000
    gid: int = 1000

    @property
    def is_inside(self) -> bool:
        """Whether another sandbox holds us already."""
        return self.layers < 16

    @classmethod
    def linux(cls, landlock_abi: int = 7, namespaces: bool = True, **facts: object) -> "Host":
        """A Linux machine as tests want it."""
        base = cls(
            "linux",
            "x86_64",
            landlock_abi=landlock_abi,
            seccomp=True,
            namespaces=namespaces,
            detached_mounts=namespaces,
            fresh_proc=namespaces,
            kernel="test",
        )
        return msgspec.structs.replace(base, **facts)


class Kind(enum.Enum):
    """What stands at a path."""

    DIRECTORY = "directory"
    FILE = "file"
    SOCKET = "socket"
    OTHER = "other"  # device, fifo
    MISSING = "missing"


class Place(msgspec.Struct, frozen=True, gc=False):
    """A path as it was asked, and what the disk says of it."""

    asked: str
    path: str  # canonical: the deepest existing ancestor resolved, the missing rest as written
    kind: Kind
    device: int = 0
    inode: int = 0
    writable: bool = True  # False where the host mounted its file system read-only
    readable: bool = True  # False where the file's own mode already closes it
    links: tuple[str, ...] = ()  # where each symbolic link on the way stands
    names: int = 1  # how many names a file has on its file system
    closed: str = ""  # the directory on the way that lets nobody look further; what is below it is not known


class Crowd(msgspec.Struct, frozen=True):
    """Names in one directory that somebody denies, each by one rule, with nothing else said of them."""

    place: Place  # the directory
    access: Access
    rules: dict[str, Rule]  # by name
    present: dict[str, int] = {}  # the names that are there, each with its inode
    directories: frozenset[str] = frozenset()  # those of them that are directories
    stamp: tuple[int, int, int, int] | None = None  # of the directory, before it was listed

    @property
    def directory(self) -> str:
        return self.place.path

    @property
    def said(self) -> str:
        """Where it is written."""
        first, last = self.first.origin, self.rules[next(reversed(self.rules))].origin
        return str(first) if first == last else f"{first} to {last}"

    @property
    def first(self) -> Rule:
        return next(iter(self.rules.values()))


class Mount(msgspec.Struct, frozen=True):
    """One line of the table of mounts."""

    point: str
    device: str
    root: str  # which part of its file system is shown
    kind: str = ""  # the type of its file system


class Disk(msgspec.Struct, frozen=True):
    """What the planner must know of the disk: a place for every path it will be asked about."""

    places: dict[str, Place]
    children: dict[str, tuple[Place, ...]] = {}  # directories listed for planning without a view
    unsearched: tuple[str, ...] = ()  # directories in which no pattern was looked for
    cut: tuple[str, ...] = ()  # directories that hold more than was listed
    # Directories that do not tell upper case from lower; and whether a mount on one spelling of a name lies on all.
    folding: dict[str, bool] = {}
    texts: dict[str, str] = {}  # what the symbolic links on the way to the places say

    def __getitem__(self, asked: str) -> Place:
        return self.places[asked]
