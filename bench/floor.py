"""`python bench/floor.py`: what the kernel itself asks for a run without a view, whoever sets it up.

A program of C does for each run what no implementation can leave out, and nothing else: an outer process, a warden and
the command; a border around the run, the rules, a border around the command; the filter with its listener, and one for
the warden. No plan is read, no path compared, nothing told. Beside it what our own enactor takes from Python, when
nobody asks for a policy, an outcome or a record.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from owner import own
from run import interleaved, without_view

import ringfence
from ringfence import keep
from ringfence.command import Own
from ringfence.enforce.process import Streams
from ringfence.enforce.standby import Nursery
from ringfence.model import StepKind
from ringfence.run import make_request

RUNS = 200
FLOOR = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int parts, scope, rules;
static struct sock_filter filter[4096];
static struct sock_fprog program = {0, filter};
static struct sock_filter shorter[] = {
	{0x20, 0, 0, 0}, {0x35, 0, 1, 100000}, {6, 0, 0, 0x80000000}, {6, 0, 0, 0x7fff0000}};
static struct sock_fprog brief = {4, shorter};
static char stacks[2][65536] __attribute__((aligned(16)));

static int ruleset(uint64_t files, uint64_t scopes)
{
	struct { uint64_t files, network, scopes; } attributes = {files, 0, scopes};
	return (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
}
static void allow(int fd, const char *path, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = open(path, O_PATH | O_CLOEXEC)};
	if (rule.parent_fd >= 0) {
		syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
		close(rule.parent_fd);
	}
}
static void restrict_by(int fd) { if (parts & 2 && syscall(SYS_landlock_restrict_self, fd, 0)) _exit(3); }
static int command(void *unused)
{
	char *words[] = {"/bin/true", NULL}, *none[] = {NULL};
	(void)unused;
	restrict_by(scope);
	if (parts & 4 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER | 32, &program) < 0)
		_exit(4);
	execve(words[0], words, none);
	_exit(5);
}
static int warden(void *unused)
{
	int status;
	(void)unused;
	restrict_by(rules);
	pid_t pid = clone(command, stacks[1] + sizeof stacks[1], CLONE_VM | SIGCHLD, NULL);
	if (parts & 4 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &brief))
		_exit(6);
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 7);
}
static void run(void)
{
	int status;
	pid_t pid = parts & 1 ? fork() : vfork();
	if (!pid && !(parts & 1)) {
		char *words[] = {"/bin/true", NULL}, *none[] = {NULL};
		execve(words[0], words, none);
		_exit(5);
	}
	if (!pid) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		restrict_by(scope);
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		pid = clone(warden, stacks[0] + sizeof stacks[0], CLONE_VM | SIGCHLD, NULL);
		waitpid(pid, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 8);
	}
	waitpid(pid, &status, 0);
	if (status) {
		fprintf(stderr, "a run ended with %x\n", status);
		exit(1);
	}
}
int main(int argc, char **argv)
{
	struct timespec a, b;
	int count = atoi(argv[2]);
	FILE *file = fopen(argv[3], "rb");
	parts = atoi(argv[1]);
	program.len = (unsigned short)fread(filter, sizeof *filter, 4096, file);
	scope = ruleset(1 << 13, 2);
	allow(scope, "/", 1 << 13);
	rules = ruleset(0xffff, 3);
	for (int i = 4; i < argc; i++)
		allow(rules, argv[i], 0xd);
	allow(rules, "/", 0xd);
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < count; i++)
		run();
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%f\n", ((double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3) / count);
	return 0;
}
"""
PARTS = {0: "fork and exec", 1: "and three processes for it", 3: "and three domains", 7: "and two filters"}


def main() -> int:
    workspace = Path(tempfile.mkdtemp(prefix="ringfence-floor-", dir="/var/tmp"))
    workspace.chmod(0o755)
    own(workspace)
    try:
        with without_view():
            return measure(workspace)
    finally:
        shutil.rmtree(workspace)


def measure(workspace: Path) -> int:
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT)
    made = keep.acquire(make_request(str(workspace), str(workspace), flags))
    steps = (*made.walls.head, *made.walls.tail)
    with tempfile.TemporaryDirectory() as place:
        filters = [step.strings[0] for step in steps if step.kind is StepKind.SECCOMP]
        paths = [os.fsdecode(step.strings[0]) for step in steps if step.kind is StepKind.BENEATH]
        Path(place, "filter").write_bytes(filters[0])
        Path(place, "floor.c").write_text(FLOOR)
        subprocess.run(["cc", "-O2", "-o", f"{place}/floor", f"{place}/floor.c"], check=True)

        def floor(parts: int) -> float:
            words = [f"{place}/floor", str(parts), str(RUNS), f"{place}/filter", *paths]
            return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)

        seen: dict[int, list[float]] = {parts: [] for parts in PARTS}
        for _ in range(9):
            for parts, took in seen.items():
                took.append(floor(parts))
    medians = {parts: statistics.median(took) for parts, took in seen.items()}
    for parts, text in PARTS.items():
        print(f"     {text:44} {medians[parts]:7.0f} us {medians[parts] / medians[0]:6.2f} x")
    with_python(made, steps)
    return 0


def with_python(made: keep.Prepared, steps: tuple[object, ...]) -> None:
    """A standby taken and given its command, and nothing else."""
    brief, data = made.outline(), Own(made, ["/bin/true"], {"PATH": "/usr/bin:/bin"}, ()).for_standby()
    nursery = Nursery(made.outline(), made.head + made.tail, len(steps))

    def stand_by() -> None:
        with nursery.take().resume(brief, data, Streams()) as launch:
            assert launch.wait()[0] == ringfence.Exited(0)
        nursery.ask()

    def paused() -> None:  # as long as a caller takes to come again
        time.sleep(0.0005)

    stand_by()
    calls = {"bare": lambda: subprocess.run(["/bin/true"], check=True), "ours": stand_by, "pause": paused}
    found = interleaved(calls, 200)
    print(f"     {'subprocess.run':44} {found['bare'] * 1e6:7.0f} us")
    ratio = found["ours"] / found["bare"]
    print(f"     {'a standby given its command, from Python':44} {found['ours'] * 1e6:7.0f} us {ratio:6.2f} x")
    nursery.close()
    keep.release(made)


if __name__ == "__main__":
    sys.exit(print(__doc__) if "--help" in sys.argv else main())
