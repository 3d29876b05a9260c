"""A new file is the command's alone: nothing shows that the warden had it open, on whatever processor who runs."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends import on
from tests.enforce.test_broker_judges import workspace as workspace

import ringfence
from ringfence.plan import filters, ready, syscalls

assert sys.platform == "linux"

ROUNDS = 100
# For each way: how often it went wrong in so many rounds.
SOURCE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
static const unsigned short list[] = {2, 0, 1, 7, 0xffff, 0xffff, 4, 5, 0xffff, 0xffff, 0x20, 5, 0xffff, 0xffff};
static int made(const char *name, int mode) {
  int fd = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
  if (fd < 0 || write(fd, "#!/bin/true\n", 12) != 12) exit(2);
  return fd;
}
static int is_busy(const char *name) {
  int status, pid = vfork();
  if (!pid) {
    execl(name, name, (char *)0);
    _exit(errno == ETXTBSY ? 26 : 3);
  }
  if (waitpid(pid, &status, 0) != pid || (status && status != 26 << 8)) exit(3);
  return status != 0;
}
static int is_locked(const char *name, int own) {
  struct flock all = {.l_type = F_RDLCK};
  int fd = open(name, O_RDONLY | O_CLOEXEC), failed;
  failed = own ? fcntl(fd, F_OFD_SETLK, &all) : flock(fd, LOCK_SH | LOCK_NB);
  close(fd);
  return failed != 0;
}
static int wrong(int way, const char *name) {
  struct flock all = {.l_type = F_WRLCK};
  int failed = 0, fd = made(name, way ? 0644 : 0755);
  if (way == 8) close(fd), fd = open(name, O_RDONLY | O_CLOEXEC);
  if (way == 1) failed = fchmod(fd, 0755);
  if (way == 2) failed = chmod(name, 0711);
  if (way == 3) failed = fchmodat(AT_FDCWD, name, 0755, 0);
  if (way == 4) failed = syscall(452, AT_FDCWD, name, 0755, 0) && errno != ENOSYS; /* fchmodat2 */
  if (way == 4 && errno == ENOSYS) failed = fchmod(fd, 0755);
  if (way == 5) failed = fsetxattr(fd, "system.posix_acl_access", list, sizeof(list), 0);
  if (way == 5 && failed && errno == EOPNOTSUPP) failed = fchmod(fd, 0755);
  if (way == 6 || way == 8) failed = flock(fd, LOCK_EX | LOCK_NB);
  if (way == 7) failed = fcntl(fd, F_OFD_SETLK, &all);
  if (failed) exit(4);
  close(fd);
  return way < 6 ? is_busy(name) : is_locked(name, way == 7);
}
int main(int argc, char **argv) {
  cpu_set_t one;
  char name[32];
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  if (argc > 2 && *argv[2] == 'o' && sched_setaffinity(0, sizeof(one), &one)) return 5;
  for (int way = 0; way < 9; way++) {
    int count = 0;
    for (int i = 0; i < (argc > 2 && *argv[2] == 'f' ? way > 0 : atoi(argv[1])); i++) {
      sprintf(name, "new-%d", i);
      count += wrong(way, name);
      unlink(name);
    }
    printf("%d ", count);
  }
  return 0;
}
"""
WAYS = 9


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lets-go") / "new"
    subprocess.run(["cc", "-O2", "-x", "c", "-o", path, "-"], input=SOURCE.encode(), check=True)
    return path


@pytest.fixture
def walls(request: pytest.FixtureRequest) -> Iterator[None]:
    """A run as the parameter says."""
    with on(request.param):
        yield


def went_wrong(workspace: Path, program: Path, where: str = "", late: tuple[str, ...] = ()) -> list[int]:
    """How often, for each way."""
    (workspace / "new").write_bytes(program.read_bytes())
    (workspace / "new").chmod(0o755)
    flags = ringfence.Flags(cwd=str(workspace), deny_read=late)
    words = ["sh", "-c", f"mkdir -p made; cd made && exec ../new {ROUNDS} {where}"]
    outcome = ringfence.run(words, workspace=str(workspace), cwd=str(workspace), flags=flags, capture=True)
    assert outcome.ok, outcome
    return [int(word) for word in (outcome.stdout or b"").split()]


VIEW = pytest.param("view", marks=pytest.mark.needs_userns)
EVERY = (VIEW, pytest.param("bubblewrap", marks=pytest.mark.needs_bwrap), "landlock")


@pytest.mark.needs_landlock(2)
@pytest.mark.parametrize("where", ["", "one"])
@pytest.mark.parametrize("walls", EVERY, indirect=True)
def test_nobody_sees_that_the_warden_had_a_new_file_open(
    workspace: Path, program: Path, walls: None, where: str
) -> None:
    assert went_wrong(workspace, program, where) == [0] * WAYS


@pytest.mark.parametrize("walls", [VIEW], indirect=True)
def test_nor_where_the_warden_changes_modes_itself(workspace: Path, program: Path, walls: None) -> None:
    assert went_wrong(workspace, program, late=("**/*.never",)) == [0] * WAYS


@pytest.mark.parametrize("walls", [VIEW], indirect=True)
def test_it_is_seen_where_nothing_waits_for_the_warden(
    workspace: Path, program: Path, walls: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syscalls, "HANDED", ())
    monkeypatch.setattr(ready, "FILTERS", {})
    filters.filter_for.cache_clear()
    try:
        always = went_wrong(workspace, program)[0]
        # One of each: of a warden's first answers none is timed, and later ones may be given with its own closed.
        seen = any(sum(went_wrong(workspace, program, "few")) for _ in range(100))
    finally:
        filters.filter_for.cache_clear()

    assert always == 0
    assert seen
