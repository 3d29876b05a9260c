"""Units of systemd: the spawner's and the service's, and one for a tenant's own long-lived command.

Hardened as far as what runs in them lets it: who makes views needs namespaces and a /proc it may mount again.
"""

import os
import re
import shutil

from ..model import UsageError
from ..model.names import TENANT
from ..model.tenant import Tenant

USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
COMMON = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native
UMask=0077
"""
# Who makes views.
VIEWS = """\
SystemCallFilter=~@clock @cpu-emulation @module @obsolete @raw-io @reboot @swap
RestrictNamespaces=user mnt pid ipc net
"""


def quoted(word: str) -> str:
    """A word of a command as systemd reads it back: nothing of it is a variable, a specifier, a quote or the end."""
    return path(word).replace("$", "$$")


def path(word: str) -> str:
    """A path in a list, where variables are not looked for."""
    if not word.isprintable():
        word = "".join(letter if letter.isprintable() else _escaped(letter) for letter in word.replace("\\", "\\\\"))
    else:
        word = word.replace("\\", "\\\\")
    return '"' + word.replace('"', '\\"').replace("%", "%%") + '"'


def whole(word: str) -> str:
    """A path that is the rest of its line, in which only specifiers are looked for."""
    if not word.isprintable() or word != word.strip():
        raise UsageError("unit", f"{word!r} cannot be written in a unit", "a base without such letters")
    return word.replace("%", "%%")


def _escaped(letter: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))


def spawner_units(base: str, registry: str, service: str) -> dict[str, str]:
    """The spawner, the socket that it is handed, which the service alone can open, and the service."""
    if not USER.fullmatch(service):
        raise UsageError("--service", f"{service!r} is no name of a user")
    program = shutil.which("ringfence") or "/usr/bin/ringfence"
    words = " ".join(map(quoted, (program, "spawner", "--base", base, "--registry", registry, "--service", service)))
    unit = f"""\
[Unit]
Description=ringfence: starts stewards as tenants
Requires=ringfence-spawner.socket

[Service]
ExecStart={words}
Restart=always
KillMode=mixed
TasksMax=infinity
Delegate=cpu memory pids
# Runs are its children, and make views: it keeps namespaces, and a /proc that may be mounted again.
{COMMON}{VIEWS}ProtectControlGroups=no
ReadWritePaths={path(base)} {path(registry)}
CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_KILL CAP_DAC_READ_SEARCH
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
"""
    socket = f"""\
[Unit]
Description=ringfence: where the service asks for stewards

[Socket]
ListenSequentialPacket=/run/ringfence/spawner.sock
SocketMode=0660
SocketGroup={service}

[Install]
WantedBy=sockets.target
"""
    units = {"ringfence-spawner.service": unit, "ringfence-spawner.socket": socket}
    return units | {"ringfence.service": service_unit(service)}


def service_unit(service: str) -> str:
    """The service: it makes no views, has no network but its socket, and no right beyond its own state."""
    program = shutil.which("ringfence") or "/usr/bin/ringfence"
    return f"""\
[Unit]
Description=ringfence: tenants' workspaces over HTTP
Requires=ringfence-spawner.socket
After=ringfence-spawner.socket

[Service]
User={service}
Group={service}
ExecStart={quoted(program)} service serve
StateDirectory=ringfence
StateDirectoryMode=0700
RuntimeDirectory=ringfence-service
Restart=always
# It serves all tenants, whose runs are together one unit beside it.
CPUWeight=1000
{COMMON}SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
RestrictNamespaces=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProcSubset=pid
PrivateNetwork=yes
PrivateUsers=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_UNIX
IPAddressDeny=any
CapabilityBoundingSet=
AmbientCapabilities=

[Install]
WantedBy=multi-user.target
"""


def tenant_unit(tenant: Tenant, base: str, words: tuple[str, ...] = ("./serve",)) -> str:
    """A tenant's own command, kept alive as its user, inside its workspace."""
    home = f"{os.path.realpath(base)}/{tenant.name}"
    program = shutil.which("ringfence") or "/usr/bin/ringfence"
    return f"""\
[Unit]
Description=ringfence: {tenant.name}
After=network.target

[Service]
User={tenant.user}
Group={tenant.user}
WorkingDirectory={whole(home)}/user/src
Environment={TENANT}={tenant.name}
ExecStart={quoted(program)} run -- {" ".join(map(quoted, words))}
Restart=always
RestartSec=5
KillMode=mixed
TimeoutStopSec=30
{COMMON}{VIEWS}ReadWritePaths={path(home)}
ProtectKernelTunables=no
CapabilityBoundingSet=
AmbientCapabilities=
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LimitNOFILE=65536
TasksMax=512

[Install]
WantedBy=multi-user.target
"""
