"""`ringfence doctor`: what this machine can enforce, found by trying, and how to get more."""

from .. import enforce, plan
from ..model import Enactor, Host, UsageError
from . import clues
from .options import OUTPUT, parse, render_help

EXAMPLES = ("ringfence doctor", "ringfence doctor --json")


def main(words: list[str]) -> int:
    """Say it; the exit code is 0 when everything can be enforced."""
    values, rest = parse(words, OUTPUT)
    if "--help" in values:
        about = "Says what this machine can enforce. The exit code is 0 when that is everything, and 1 otherwise."
        print(render_help("doctor [options]", about, OUTPUT, EXAMPLES))
        return 0
    if rest:
        raise UsageError(rest[0], "is one word too many", hint="ringfence doctor --help")
    host = enforce.probe()
    rows = findings(host, clues.read())
    if "--json" in values:
        from .render import doctor_document

        print(doctor_document(host, rows))
    else:
        print(f"ringfence doctor: {host.system} {host.kernel} on {host.arch}, as uid {host.uid}")
        for good, what, way_out in rows:
            print(f"  {'ok ' if good else 'no '} {what}")
            for line in way_out.splitlines() if not good else ():
                print(f"      {line}")
    return 0 if all(good for good, _, _ in rows) else 1


def findings(host: Host, seen: clues.Clues = clues.Clues()) -> list[tuple[bool, str, str]]:  # noqa: B008
    """(whether it is there, what it is, how to get it) for each thing a plan may need."""
    if seen.inside:
        what = "this is inside a run of ringfence: what ringfence starts here runs beside that one, or is held by it"
        return [(False, what, "`ringfence doctor` outside says what this machine can enforce")]
    if host.system == "darwin":
        return [
            (host.seatbelt, "Seatbelt: sandbox-exec", "/usr/bin/sandbox-exec comes with macOS; it did not work here")
        ]
    native = host.enactor is Enactor.NATIVE
    rows = [
        (
            native,
            f"enactor: {host.enactor.value}",
            "install a C compiler and its headers (gcc, libc6-dev), then ringfence again, as you did before",
        ),
        (
            host.landlock_abi >= 6,
            f"Landlock: ABI {host.landlock_abi}" + ("" if host.landlock_abi >= 6 else ", 6 is wanted (Linux 6.12)"),
            "a newer kernel; `ringfence plan -- COMMAND` lists what is missing here"
            if host.landlock_abi
            else "`lsm=landlock,…` on the kernel's command line, where the kernel has it (5.13 or newer)",
        ),
        (
            host.seccomp,
            "seccomp filters with notification",
            "a kernel with CONFIG_SECCOMP_FILTER, 5.0 or newer, on x86_64 or aarch64",
        ),
    ]
    rows += views(host, seen, native)
    if native and not plan.is_seen(host):
        what = f"a warden that answers the command's calls: kernel.yama.ptrace_scope is {host.yama}"
        way_out = "sudo sysctl -w kernel.yama.ptrace_scope=1" + "; a 3 stays until the next start" * (host.yama > 2)
        rows.append((False, what, way_out))
    return rows


def views(host: Host, seen: clues.Clues, native: bool) -> list[tuple[bool, str, str]]:
    """Who builds a view here, and if nobody does, each reason that can be read, with its way out."""
    what = "views (user, mount, pid, ipc and network namespaces)"
    if not native:
        return [(False, f"{what}: the Python enactor cannot build one", "install a C compiler and ringfence again")]
    reasons = clues.explain(host, seen, enforce.open_enactor().path)
    hints = [(False, why, way_out) for why, way_out in reasons]
    if host.namespaces:
        rows = [(True, f"{what}: built by the enactor", "")]
        slow = "mounts built detached" if host.detached_mounts else "mounts built in place, slower with many rules"
        return [*rows, *hints, (host.detached_mounts, slow, "Linux 6.15 or newer")]
    if host.bubblewrap:
        own = f"the enactor may not: {host.namespaces_why}"
        return [(True, f"{what}: built by {host.bubblewrap}, slower ({own})", "")]
    return [
        (False, f"{what}: {host.namespaces_why}", ""),
        *hints,
        (False, f"views by bubblewrap: {host.bubblewrap_why}", _bubblewrap_way_out(host)),
    ]


def _bubblewrap_way_out(host: Host) -> str:
    if "not installed" in host.bubblewrap_why:
        return "sudo apt-get install bubblewrap, or your system's own; some systems let it make namespaces"
    return ""
