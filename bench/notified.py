"""What a call that is sent to another process costs by itself: the floor under bench/creations.py and bench/broker.py.

No sandbox: a filter that sends openat() away, and a loop that answers it in more and more steps. Each kind 5,000 times
in ROUNDS (argument, 7) rounds; the fastest and the median, in microseconds, where the kernel puts the two and on one
processor.
"""

import os
import subprocess
import sys
import tempfile

KINDS = (
    "a file made bare",
    "asked, and let on: the caller makes it",
    "asked, and answered by a number",
    "the same, with a poll of five",
    "the same, a descriptor handed in, then answered",
    "the same, a descriptor handed in as the answer",
    "path read, a descriptor handed in, then answered",
    "path read, file made, handed in, closed, answered",
    "path read, file made, handed in as the answer",
)
SOURCE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { COUNT = 5000, KINDS = 9, MOST = 64 };
static int hands[2];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* Send a descriptor, or with none receive one. */
static int pass(int hand, int fd) {
  char byte = 0, room[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  if (fd < 0) {
    if (recvmsg(hand, &message, 0) != 1) exit(1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
  }
  *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
  memcpy(CMSG_DATA(head), &fd, sizeof(fd));
  if (sendmsg(hand, &message, 0) != 1) _exit(1);
  close(fd);
  return read(hand, &byte, 1) == 1 ? 0 : -1;
}

static void make_files(void) {
  char name[32];
  double took, begin = now();
  for (int i = 0; i < COUNT; i++) {
    sprintf(name, "made-%d", i);
    int fd = (int)syscall(__NR_openat, AT_FDCWD, name, O_CREAT | O_EXCL | O_WRONLY, 0644);
    if (fd > 2) close(fd);
  }
  took = (now() - begin) / COUNT;
  if (write(hands[1], &took, sizeof(took)) != sizeof(took)) _exit(1);
}

static void ask(int kind) {
  struct sock_filter code[] = {
      {0x20, 0, 0, 0}, {0x15, 0, 1, __NR_openat}, {6, 0, 0, SECCOMP_RET_USER_NOTIF}, {6, 0, 0, SECCOMP_RET_ALLOW}};
  struct sock_fprog program = {4, code};
  if (kind) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    pass(hands[1], (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
  }
  make_files();
  _exit(0);
}

static void answer(int kind, int fd, int null) {
  struct seccomp_notif asked = {0};
  struct pollfd polled[5] = {{-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}, {fd, POLLIN, 0}, {-1, 0, 0}};
  char path[512];
  int made = null;
  if (kind > 2) poll(polled, 5, -1);
  if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &asked)) exit(2);
  struct seccomp_notif_resp said = {.id = asked.id, .flags = kind == 1, .error = kind == 2 || kind == 3 ? -ENOENT : 0};
  if (kind > 5) {
    size_t room = 4096 - asked.data.args[1] % 4096;
    struct iovec here = {path, room < 512 ? room : 512}, there = {(void *)asked.data.args[1], here.iov_len};
    if (process_vm_readv((int)asked.pid, &here, 1, &there, 1, 0) < 1) exit(3);
  }
  if (kind > 6 && (made = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644)) < 0) exit(4);
  if (kind > 3) {
    struct seccomp_notif_addfd given = {.id = asked.id, .srcfd = (unsigned)made};
    given.flags = kind == 5 || kind == 8 ? SECCOMP_ADDFD_FLAG_SEND : 0;
    said.val = ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, &given);
    if (made != null) close(made);
    if (given.flags) return;
  }
  ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &said);
}

static double run(int kind, int together) {
  cpu_set_t one, all;
  int pid, fd, null = open("/dev/null", O_RDONLY);
  double took;
  sched_getaffinity(0, sizeof(all), &all);
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  if (together) sched_setaffinity(0, sizeof(one), &one);
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, hands)) exit(5);
  pid = fork();
  if (!pid) ask(kind);
  if (kind) {
    fd = pass(hands[0], -1);
    ioctl(fd, _IOW('!', 4, unsigned long long), 1); /* SET_FLAGS: wake on this processor, as the warden does */
    if (write(hands[0], "", 1) != 1) exit(6);
    for (int n = 0; n < COUNT; n++) answer(kind, fd, null);
    close(fd);
  }
  if (read(hands[0], &took, sizeof(took)) != sizeof(took)) exit(7);
  waitpid(pid, 0, 0);
  sched_setaffinity(0, sizeof(all), &all);
  close(hands[0]);
  close(hands[1]);
  close(null);
  if (system("find . -name 'made-*' -delete")) exit(8);
  return took;
}

static int order(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return a < b ? -1 : a > b;
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 7;
  double seen[2][MOST];
  for (int kind = 0; kind < KINDS; kind++) {
    for (int round = 0; round < rounds && round < MOST; round++)
      for (int together = 0; together < 2; together++) seen[together][round] = run(kind, together);
    for (int together = 0; together < 2; together++) {
      qsort(seen[together], (size_t)rounds, sizeof(double), order);
      printf("%.1f %.1f ", seen[together][0], seen[together][rounds / 2]);
    }
    puts("");
    fflush(stdout);
  }
}
"""


def main() -> None:
    rounds = sys.argv[1] if len(sys.argv) > 1 else "7"
    with tempfile.TemporaryDirectory(prefix="ringfence-bench-", dir="/dev/shm") as directory:
        program = os.path.join(directory, "floor")
        subprocess.run(["cc", "-O2", "-x", "c", "-o", program, "-"], input=SOURCE.encode(), check=True)
        seen = subprocess.run([program, rounds], cwd=directory, stdout=subprocess.PIPE, check=True, text=True).stdout
    print(f"{'':50} {'anywhere':>14} {'one processor':>16}")
    for kind, line in zip(KINDS, seen.splitlines(), strict=True):
        fastest, median, alone, alone_median = line.split()
        print(f"{kind:50} {fastest:>6}, {median:>6} {alone:>8}, {alone_median:>6}")


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
