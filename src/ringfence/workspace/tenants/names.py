"""Names of tenants: one for each host name however it is spelt, and one system user for each name.

Pure. `a-b.com` and `a.b-com` both become `a-b-com` when dots turn into hyphens; so a name that has hyphens of its own,
or is too long for a user's name, gets a piece of its digest, after an underscore, which no host name has.
"""

import hashlib
import re

from ...model import TenantError
from ...model.tenant import TenantFault

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
RESERVED = frozenset({"localhost", "root", "user", "users", "worktrees", "registry", "service", "spawner", "ringfence"})
RESERVED |= frozenset({"default", "system", "admin", "lost+found", "con", "nul"})
MOST_NAME = 200  # the file of a record has a suffix, and a file's name has 255 bytes
PREFIX = "site-"
MOST_USER = 32


def tenant_name(host: str) -> str:
    """The one name of a host: without its last dot, in lower case, and of letters that host names have."""
    if not isinstance(host, str) or not host or len(host) > 4 * MOST_NAME:
        raise _invalid(host, "is empty or too long")
    text = host.removesuffix(".")
    name = (text if text.isascii() else _ascii(text)).lower()
    labels = name.split(".")
    if len(name) > MOST_NAME or not all(map(LABEL.match, labels)):
        raise _invalid(host, "is no host name: letters, digits and hyphens, and dots between them")
    if labels[-1].isdigit() or name in RESERVED:
        raise _invalid(host, "is an address, or reserved")
    if any(label.startswith("xn--") for label in labels) and _ascii(_unicode(name)) != name:
        raise _invalid(host, "is not how its letters are written in a host name")
    return name


def _ascii(text: str) -> str:
    import idna

    try:
        return idna.encode(text, uts46=True).decode()
    except (idna.IDNAError, UnicodeError) as error:
        raise _invalid(text, f"is no host name: {error}") from None


def _unicode(name: str) -> str:
    import idna

    try:
        return idna.decode(name)
    except (idna.IDNAError, UnicodeError) as error:
        raise _invalid(name, f"is no host name: {error}") from None


def _invalid(host: object, what: str) -> TenantError:
    return TenantError(TenantFault.INVALID_NAME, repr(host)[:80], what, hint="ringfence tenant create example.com")


def user_name(name: str) -> str:
    """The system user of a tenant's name; no two names have the same."""
    slug = name.replace(".", "-")
    if "-" not in name and len(PREFIX + slug) <= MOST_USER:
        return PREFIX + slug
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{PREFIX}{slug[: MOST_USER - len(PREFIX) - 11]}_{digest}"
