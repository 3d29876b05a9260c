"""Reading files that others may have prepared, and remembering which project policies somebody trusts.

A project's policy can only narrow until its content is trusted. Trust is a file of ours that maps the policy's real
path to the SHA-256 of what was read and approved; a changed file is untrusted again.
"""

import os
import stat
from collections.abc import Mapping

import msgspec

from ..model import PolicyError, UsageError

MAX_BYTES = 1 << 20
APPROVALS = "approvals.db"  # as airlock.store has it
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a FIFO opens at once instead of hanging


def read_regular(path: str, shown_as: str = "") -> tuple[bytes, os.stat_result]:
    """A file's content and identity; refuses what is not a regular file, or is too large to be a policy."""
    place = shown_as or path
    try:
        descriptor = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise PolicyError(place, f"cannot be read: {reason}") from None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise PolicyError(place, "is not a regular file", "a policy is a plain file")
        _check_size(place, facts.st_size)
        content = b""
        while piece := os.read(descriptor, MAX_BYTES + 1):
            content += piece
            _check_size(place, len(content))
    except OSError as error:
        raise PolicyError(place, f"cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)
    return content, facts


def _check_size(place: str, size: int) -> None:
    if size > MAX_BYTES:
        raise PolicyError(place, f"holds {size} bytes", f"a policy file has at most {MAX_BYTES}")


def home_of(environ: Mapping[str, str]) -> str:
    """The home in use: HOME when it is an absolute path, else the one on record; empty when there is none."""
    home = environ.get("HOME", "")
    return home if home.startswith("/") else passwd_home()


def passwd_home() -> str:
    """The home on record for whoever runs this."""
    import pwd

    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""
    return home if home.startswith("/") else ""


def at_home(path: str, home: str) -> str:
    """A path with its tilde as this home; as in a policy, another's is not looked up."""
    if not path.startswith("~"):
        return path
    if path[1:2] not in ("", "/"):
        raise UsageError(path, "names another user's home", hint="write it out, or ./~name for a file of that name")
    if not home:
        raise UsageError(path, "needs a home directory, and none is known", hint="set HOME, or write it out")
    return os.path.join(home, path[2:])


def directory_of(environ: Mapping[str, str], variable: str, default: str) -> str:
    """One of our directories by the XDG rules: a relative value counts as none. Empty when there is no home."""
    chosen = environ.get(variable, "")
    if chosen.startswith("/"):
        return f"{chosen.rstrip('/')}/ringfence"
    home = home_of(environ)
    return f"{home.rstrip('/')}/{default}/ringfence" if home else ""


def _kept(environ: Mapping[str, str], name: str) -> str:
    directory = directory_of(environ, "XDG_STATE_HOME", ".local/state")
    return f"{directory}/{name}" if directory else ""


def store_of(environ: Mapping[str, str]) -> str:
    """Where trust is kept; empty when there is no home to keep it in."""
    return _kept(environ, "trust.json")


def audit_of(environ: Mapping[str, str]) -> str:
    """Where the audit log is; empty when there is no home to keep it in."""
    return _kept(environ, "audit")


def approvals_of(environ: Mapping[str, str]) -> str:
    """Where approvals are kept; empty when there is no home to keep them in."""
    return _kept(environ, "approvals")


def has_approvals(environ: Mapping[str, str]) -> bool:
    """Whether anybody approved anything yet; mostly not, and then nothing about grants is imported."""
    directory = approvals_of(environ)
    return bool(directory) and os.access(f"{directory}/{APPROVALS}", os.F_OK, follow_symlinks=False)


def asking_of(environ: Mapping[str, str]) -> str:
    """Where the sockets of runs are that ask; empty when there is no home to have them in."""
    return _kept(environ, "asking")


def policy_file(directory: str) -> str:
    """The policy file in a directory, or empty; two of them are one too many."""
    found = [path for path in candidates(directory) if _is_there(path)]
    if len(found) > 1:
        raise PolicyError(directory, "holds both policy.json and policy.toml", "keep one of them")
    return found[0] if found else ""


def _is_there(path: str) -> bool:
    """Whether something stands there; an error is no answer."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if isinstance(error, PermissionError) and is_masked(os.path.dirname(path)):
            return False
        raise PolicyError(path, f"cannot be looked at: {error.strerror}", "a policy could stand there") from None
    return True


def is_masked(path: str) -> bool:
    """Whether a run around ours hides a place: it covers a directory by one of mode 0. That run had the user's own
    policy; ours comes on top of it."""
    while path != "/" and not os.path.lexists(path):
        path = os.path.dirname(path)
    return "RINGFENCE" in os.environ and os.lstat(path).st_mode & 0o7777 == 0


def candidates(directory: str) -> tuple[str, str]:
    """The names a policy file can have in a directory."""
    return f"{directory}/policy.json", f"{directory}/policy.toml"


def digest_of(content: bytes) -> str:
    """What identifies a file's content."""
    import hashlib

    return hashlib.sha256(content).hexdigest()


def trusted_digest(path: str, store: str) -> str:
    """The digest of the content that somebody trusted at this place; empty when nobody did."""
    return _read_store(store).get(os.path.realpath(path), "")


def trust(workspace: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Trust the project's policy as it is now, if it can be understood; its real path and its digest."""
    from .layer import Tier
    from .parse import parse
    from .paths import Base

    environ = os.environ if environ is None else environ
    path = policy_file(f"{os.path.realpath(workspace)}/.ringfence")
    if not path:
        raise PolicyError(f"{workspace}/.ringfence", "holds no policy.json and no policy.toml")
    content, _ = read_regular(path)
    parse(content, path, Base(os.path.realpath(workspace), home_of(environ)), Tier.PROJECT)
    real, digest = os.path.realpath(path), digest_of(content)
    _change_store(environ, real, digest)
    return real, digest


def distrust(workspace: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Forget the trust in the project's policy, also in one that is gone; the path and digest that were trusted."""
    environ = os.environ if environ is None else environ
    directory = f"{os.path.realpath(workspace)}/.ringfence"
    for path in map(os.path.realpath, candidates(directory)):
        digest = _change_store(environ, path, "")
        if digest:
            return path, digest
    raise PolicyError(directory, "holds no policy that is trusted")


def _read_store(store: str) -> dict[str, str]:
    if not store or not os.path.lexists(store):
        return {}
    content, facts = read_regular(store)
    if facts.st_mode & 0o022 or facts.st_uid not in (os.getuid(), 0):
        raise PolicyError(store, "others can change it", f"remove it, or: chmod 600 {store}")
    try:
        return msgspec.json.decode(content, type=dict[str, str])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise PolicyError(store, "is damaged", "remove it, and trust the projects again") from None


def _change_store(environ: Mapping[str, str], path: str, digest: str) -> str:
    """Set one entry, or remove it when the digest is empty, one writer at a time; the digest it had."""
    import fcntl

    store = store_of(environ)
    if not store:
        raise PolicyError("trust", "there is no home directory to remember it in", "set HOME or XDG_STATE_HOME")
    directory = os.path.dirname(store)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            entries = _read_store(store)
            before = entries.pop(path, "")
            entries |= {path: digest} if digest else {}
            if before != digest:
                _replace(store, msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n")
        finally:
            os.close(lock)
    except UnicodeEncodeError:
        raise PolicyError(path, "has a name that is no text, and cannot be remembered", "move the project") from None
    except OSError as error:
        raise PolicyError(store, f"cannot be written: {error.strerror}") from None
    return before


def _replace(store: str, content: bytes) -> None:
    """Put a new file in place of the old one; the lock makes the temporary name ours alone."""
    temporary = f"{store}.new"
    if os.path.lexists(temporary):  # left behind by a writer that died
        os.unlink(temporary)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:  # a disk that is nearly full takes a part
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    os.replace(temporary, store)
