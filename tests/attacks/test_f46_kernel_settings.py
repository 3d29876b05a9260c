"""F46: core_pattern, modprobe, binfmt_misc, uevent_helper, sysrq: files through which root commands the kernel."""

import pytest
from tests.attacks.conftest import EVERY_WALL, Field

PROGRAM = """
PATHS = \"\"\"/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/vm/drop_caches /proc/sysrq-trigger
/proc/sys/kernel/hostname /proc/sys/net/ipv4/ip_forward /proc/sys/fs/file-max /sys/kernel/uevent_helper
/proc/irq/default_smp_affinity /proc/sys/kernel/randomize_va_space /sys/power/state /sys/kernel/profiling
/sys/kernel/mm/transparent_hugepage/enabled /sys/module/printk/parameters/time /proc/timer_list\"\"\".split()
for path in PATHS:
    if os.path.exists(path):
        attempt(path, lambda: os.close(os.open(path, os.O_WRONLY)))
attempt("a file of the system's", lambda: os.close(os.open("/etc/passwd", os.O_WRONLY)))
attempt("its mode", lambda: os.chmod("/etc/passwd", os.stat("/etc/passwd").st_mode & 0o7777))
facts, group = os.stat("/etc/passwd"), "/sys/fs/cgroup/rf-%d" % os.getpid()
attempt("its times", lambda: os.utime("/etc/passwd", ns=(facts.st_atime_ns, facts.st_mtime_ns)))
attempt("a control group", lambda: (os.mkdir(group), os.rmdir(group)))
"""


@pytest.mark.needs_root
@EVERY_WALL
def test_no_file_that_commands_the_kernel_is_opened(field: Field) -> None:
    field.repels(PROGRAM, bare_as_root=True, unknown=("/proc/timer_list", "/sys/kernel/profiling"))


@pytest.mark.needs_root
@EVERY_WALL
def test_proc_of_the_root_user_shows_no_memory_of_the_kernel(field: Field) -> None:
    program = """
for path in filter(os.path.exists, ("/proc/kcore", "/proc/kmsg")):
    attempt(path, lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)))
"""
    field.repels(program, bare_as_root=True)


@pytest.mark.needs_root
@EVERY_WALL
def test_what_acts_or_tells_of_everybody_when_it_is_read_is_not_read(field: Field) -> None:
    """Reading `hot_add` makes a device of the machine's, and a read-only mount does not keep from reading. Where no
    traces are mounted, an empty directory is nothing to read."""
    program = """
attempt("device", lambda: os.close(os.open("/sys/class/zram-control/hot_add", os.O_RDONLY)))
attempt("traces", lambda: os.listdir("/sys/kernel/tracing") or os.stat("/sys/kernel/tracing/events"))
"""
    field.repels(program, bare_as_root=True, unknown=("device", "traces"))
