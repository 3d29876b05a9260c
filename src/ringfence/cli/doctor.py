"""`ringfence doctor`: what this machine can enforce, found by trying, and how to get more."""

import os

from .. import enforce
from ..model import Enactor, Host, UsageError
from .options import OUTPUT, parse, render_help

EXAMPLES = ("ringfence doctor", "ringfence doctor --json")
APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"


def main(words: list[str]) -> int:
    """Say it; the exit code is 0 when everything can be enforced."""
    values, rest = parse(words, OUTPUT)
    if "--help" in values:
        print(render_help("doctor [options]", "Says what this machine can enforce.", OUTPUT, EXAMPLES))
        return 0
    if rest:
        raise UsageError(rest[0], "is one word too many", hint="ringfence doctor --help")
    host = enforce.probe()
    rows = findings(host)
    if "--json" in values:
        from .render import doctor_document

        print(doctor_document(host, rows))
    else:
        print(f"ringfence doctor: {host.system} {host.kernel} on {host.arch}, as uid {host.uid}")
        for good, what, way_out in rows:
            print(f"  {'ok ' if good else 'no '} {what}" + (f"\n      {way_out}" if way_out and not good else ""))
    return 0 if all(good for good, _, _ in rows) else 1


def findings(host: Host) -> list[tuple[bool, str, str]]:
    """(whether it is there, what it is, how to get it) for each thing a plan may need."""
    native = host.enactor is Enactor.NATIVE
    return [
        (
            native,
            f"enactor: {host.enactor.value}",
            "install a C compiler and ringfence again: pip install --force-reinstall",
        ),
        (
            host.landlock_abi >= 6,
            f"Landlock: ABI {host.landlock_abi}" + ("" if host.landlock_abi >= 6 else ", 6 is wanted (Linux 6.12)"),
            "a newer kernel, or `lsm=landlock,…` on the kernel's command line if it is not there at all",
        ),
        (host.seccomp, "seccomp filters with notification", "a kernel with CONFIG_SECCOMP_FILTER, 5.0 or newer"),
        (
            host.namespaces,
            "views (user, mount, pid, ipc and network namespaces)"
            + (f": {host.namespaces_why}" if host.namespaces_why else ""),
            namespaces_way_out(native),
        ),
        (
            host.detached_mounts or not host.namespaces,
            "mounts built detached" if host.detached_mounts else "mounts built in place, slower with many rules",
            "Linux 6.15 or newer",
        ),
    ]


def namespaces_way_out(native: bool) -> str:
    """What most often forbids namespaces, looked at here."""
    if not native:
        return "the Python enactor cannot build a view"
    if os.path.exists(APPARMOR):
        program = enforce.open_enactor().path
        return (
            "AppArmor restricts them here; this profile lets ringfence's enactor, and only it, make them:\n"
            "        abi <abi/4.0>, include <tunables/global>\n"
            f'        profile ringfence "{program}" flags=(unconfined) {{ userns, }}\n'
            "        (save as /etc/apparmor.d/ringfence, then: apparmor_parser -r /etc/apparmor.d/ringfence)"
        )
    return "sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces, or a container that allows them"
