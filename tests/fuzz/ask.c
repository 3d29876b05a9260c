/* Asks the warden for everything that it answers, with any arguments: for a sandbox whose enactor has sanitizers.
 *
 *   ask SEED COUNT [judged]     in a workspace; four threads make COUNT calls each, and say how many were answered well;
 *                               fails when "judged" is said and something was opened whose name ends with ".never"
 *
 * Meanwhile one thread changes the paths under them, one sends signals, one changes the directory, and children are
 * killed in the middle of their calls.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, PATHS = 24, ROOM = 8192 };

static const char *const WORDS[] = {
	"a", "b", "c", "a/b", "a/b/c", "sub", "sub/x", "x", ".git", ".git/new", ".git/config", "hooks", "hidden", "evil", "evil/b",
	"evil/b/c", "link", "loop", "pipe", ".", "..", "/", "//", "", "/proc/self/cwd", "/proc/thread-self/cwd", "/proc/self/fd/3",
	"/proc/self/fd/4", "/proc/self/root", "/proc/1/cwd", "/proc/1/fd/3", "/proc/1/maps", "/proc/self/task", "/dev/tty",
	"/dev/null", "/dev/stdout", "/dev/fd/3", "/tmp/t", "/etc/passwd", "\xff\xfe", "a/", "a//b/", "./a", "../site/a",
	"late.never", "sub/late.never", "x.never", "sub/../late.never", "evil/y.never",
};
static char *paths[PATHS], workspace[4096];
static volatile int over, is_leaking;
static pthread_t threads[THREADS];
static long count, done_well, ended;

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

#define ANY(array) (array)[next(state) % (sizeof(array) / sizeof((array)[0]))]

/* A path of any kind: words, one very long name, or bytes. */
static void spell(uint64_t *state, char *into)
{
	uint64_t kind = next(state) % 16;
	size_t size = 0, words = 1 + next(state) % 4, most;

	if (kind == 0) {
		most = (size_t[]){254, 255, 256, 4094, 4095, 4096, 5000}[next(state) % 7];
		memset(into, 'n', most);
		for (size_t i = 100; kind == 0 && most > 256 && i < most; i += 100)
			into[i] = next(state) % 8 ? '/' : 'n';
		into[most] = 0;
		return;
	}
	if (kind == 1) {
		most = next(state) % 64;
		for (size_t i = 0; i < most; i++)
			into[i] = (char)(1 + next(state) % 255);
		into[most] = 0;
		return;
	}
	for (size_t i = 0; i < words; i++)
		size += (size_t)sprintf(into + size, "%s%s", i ? "/" : "", ANY(WORDS));
}

/* A pointer to a path: one that others change, one that ends with its page, or none at all. */
static long pointer(uint64_t *state)
{
	uint64_t kind = next(state) % 32;

	if (kind == 0)
		return (long[]){0, 1, -1, 0x7fffffffffffL, (long)0xffff888000000000UL, 4096}[next(state) % 6];
	if (kind == 1)
		return (long)(paths[next(state) % PATHS] + ROOM - 1 - next(state) % 300); /* runs into what is not mapped */
	return (long)paths[next(state) % PATHS];
}

static long directory(uint64_t *state)
{
	static const int fds[] = {AT_FDCWD, AT_FDCWD, AT_FDCWD, 3, 4, 5, 0, 1, 6, 999, -1, 0x7fffffff};

	return (long)(uint32_t)ANY(fds) | (next(state) % 8 ? 0 : (long)(next(state) << 32));
}

static long flags_of(uint64_t *state)
{
	static const int bits[] = {O_WRONLY, O_RDWR, O_EXCL, O_TRUNC, O_APPEND, O_NOFOLLOW, O_DIRECTORY, O_NONBLOCK, O_CLOEXEC, O_PATH, O_SYNC, O_DIRECT, O_NOCTTY, O_TMPFILE, 1 << 30};
	long flags = next(state) % 3 ? O_CREAT : 0;

	for (uint64_t n = next(state) % 4; n; n--)
		flags |= ANY(bits);
	return flags | (next(state) % 8 ? 0 : (long)(next(state) << 32));
}

static long bind_any(uint64_t *state)
{
	struct sockaddr_un name = {.sun_family = next(state) % 8 ? AF_UNIX : (sa_family_t)(next(state) % 12)};
	long size = next(state) % 4 ? (long)sizeof(name) : (long)(next(state) % 140);
	int fd = socket(AF_UNIX, next(state) % 2 ? SOCK_STREAM : SOCK_DGRAM, 0);
	long answer;

	strncpy(name.sun_path, ANY(WORDS), sizeof(name.sun_path));
	if (next(state) % 4 == 0)
		memset(name.sun_path, 's', sizeof(name.sun_path));
	answer = syscall(SYS_bind, next(state) % 8 ? fd : (int)(next(state) % 9), next(state) % 16 ? (long)&name : pointer(state), size);
	close(fd);
	return answer;
}

/* One more process, and where somebody runs: of ours, or of any number. */
static long fork_or_bind(uint64_t *state)
{
	uint64_t everywhere[16] = {~0UL};
	long thread = next(state) % 2 ? 0 : (long)(next(state) % 8);
	long pid;

	switch (next(state) % 4) {
	case 0: return -syscall(SYS_sched_getaffinity, thread, next(state) % 200, pointer(state)) - 1;
	case 1: return syscall(SYS_sched_setaffinity, thread, next(state) % 200, pointer(state));
	case 2: return syscall(SYS_sched_setaffinity, thread, sizeof(everywhere), everywhere);
	}
	pid = syscall(SYS_clone, 17 /* SIGCHLD */, 0, 0, 0, 0);
	if (!pid)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
	return -1;
}

static long ask(uint64_t *state)
{
	long mode = (long)(next(state) & 0177777) | 0700;

	switch (next(state) % 29) {
#ifdef SYS_open
	case 0: return syscall(SYS_open, pointer(state), flags_of(state), mode);
	case 1: return syscall(SYS_creat, pointer(state), mode);
	case 2: return syscall(SYS_mkdir, pointer(state), mode & 0777);
	case 3: return syscall(SYS_link, pointer(state), pointer(state));
	case 4: return syscall(SYS_symlink, pointer(state), pointer(state));
	case 5: return syscall(SYS_rename, pointer(state), pointer(state));
	case 6: return syscall(SYS_rmdir, pointer(state));
	case 7: return syscall(SYS_mknod, pointer(state), mode, next(state));
#endif
	case 8: return syscall(SYS_mkdirat, directory(state), pointer(state), mode & 0777);
	case 9: return syscall(SYS_mknodat, directory(state), pointer(state), (next(state) % 2 ? S_IFIFO : S_IFREG) | 0600, 0);
	case 10: return syscall(SYS_symlinkat, pointer(state), directory(state), pointer(state));
	case 11: return syscall(SYS_linkat, directory(state), pointer(state), directory(state), pointer(state), (long[]){0, 0x400, 0x1000, 0x1400, 7}[next(state) % 5]);
	case 12: return syscall(SYS_renameat2, directory(state), pointer(state), directory(state), pointer(state), next(state) % 6);
	case 13: return syscall(SYS_unlinkat, directory(state), pointer(state), next(state) % 2 ? 0x200 : 0);
	case 14: return bind_any(state);
	case 15: return syscall(SYS_umask, next(state) & 077), -1;
	case 16: return syscall(SYS_unlinkat, AT_FDCWD, pointer(state), 0);
	case 17: return syscall(SYS_truncate, pointer(state), next(state) % 3 ? 0 : next(state));
	case 18: return syscall(SYS_fchmodat, directory(state), pointer(state), mode & 0777);
	case 19: return syscall(SYS_fchownat, directory(state), pointer(state), -1, getgid(), next(state) % 2 ? 0 : 0x100);
	case 20: return syscall(SYS_utimensat, directory(state), next(state) % 4 ? pointer(state) : 0, next(state) % 4 ? 0 : pointer(state), next(state) % 2 ? 0 : 0x100);
	case 21: return syscall(next(state) % 2 ? SYS_setxattr : SYS_lsetxattr, pointer(state), next(state) % 4 ? (long)"user.a" : pointer(state), pointer(state), next(state) % 4 ? next(state) % 100 : next(state) % 80000, 0);
	case 22: return syscall(next(state) % 2 ? SYS_removexattr : SYS_fremovexattr, pointer(state), "user.a");
	case 23: return syscall(SYS_fchmod, next(state) % 9, mode & 0777);
	case 24: return syscall(SYS_fsetxattr, next(state) % 9, "user.a", pointer(state), next(state) % 70000, 0);
	case 25: return fork_or_bind(state);
	default: return syscall(SYS_openat, directory(state), pointer(state), flags_of(state), mode);
	}
}

/* A descriptor that was given. Of what a pattern denies there must be none, but to say where it is. */
static int looked_at(int fd)
{
	char own[32], path[4096];
	ssize_t size;

	sprintf(own, "/proc/self/fd/%d", fd);
	size = readlink(own, path, sizeof(path));
	if (size > 6 && !memcmp(path, workspace, strlen(workspace)) && !memcmp(path + size - 6, ".never", 6) && fcntl(fd, F_GETFL) != -1 && !(fcntl(fd, F_GETFL) & O_PATH))
		is_leaking = 1;
	return fd;
}

static void *asks(void *seed)
{
	uint64_t state = (uint64_t)(uintptr_t)seed;

	if (state % 2)
		unshare(CLONE_FS); /* a directory and a mask of its own */
	for (long i = 0; i < count; i++) {
		long answer = ask(&state);

		if (answer >= 0)
			__atomic_add_fetch(&done_well, 1, __ATOMIC_RELAXED);
		if (answer > 6 && answer < 1000)
			close(looked_at((int)answer));
	}
	__atomic_add_fetch(&ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *changes(void *seed)
{
	uint64_t state = (uint64_t)(uintptr_t)seed;

	while (!over) {
		spell(&state, paths[next(&state) % PATHS]);
		if (next(&state) % 64 == 0)
			usleep(50);
	}
	return NULL;
}

static void nothing(int number) { (void)number; }

/* Signals for the threads, and children that are killed while they ask. */
static void *disturbs(void *seed)
{
	uint64_t state = (uint64_t)(uintptr_t)seed;

	while (!over) {
		pid_t child = next(&state) % 4 ? -1 : fork();

		while (child == 0)
			ask(&state);
		usleep(2000);
		for (int i = 0; i < THREADS; i++)
			pthread_kill(threads[i], SIGUSR1);
		if (child > 0) {
			kill(child, SIGKILL);
			waitpid(child, NULL, 0);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t state = (uint64_t)atoll(argc > 1 ? argv[1] : "1") * 2654435761U + 88172645463325252U;
	struct sigaction action = {.sa_handler = nothing}; /* without SA_RESTART: an open of a pipe ends with EINTR */
	pthread_t others[2];

	if (!getcwd(workspace, sizeof(workspace)))
		return 2;
	count = atol(argc > 2 ? argv[2] : "1000");
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < PATHS; i++) { /* each with a page behind it that is not there */
		paths[i] = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mprotect(paths[i] + ROOM, 4096, PROT_NONE);
		memset(paths[i] + ROOM - 400, 'z', 400);
		spell(&state, paths[i]);
	}
	mkdir("evil", 0755), mkdir("evil/b", 0755), close(open("evil/b/c", O_CREAT | O_WRONLY, 0644));
	symlink("evil", "link"), symlink("loop", "loop"), mkfifo("pipe", 0644);
	for (int fd = 3; fd <= 6; fd++) /* directories, one of them gone, and a file */
		if (dup2(open((const char *[]){".", "sub", "evil/b", "/etc/passwd"}[fd - 3], O_RDONLY), fd) < 0)
			return 2;
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, asks, (void *)(uintptr_t)(next(&state) | 1));
	pthread_create(&others[0], NULL, changes, (void *)(uintptr_t)next(&state));
	pthread_create(&others[1], NULL, disturbs, (void *)(uintptr_t)next(&state));
	while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < THREADS)
		usleep(1000);
	over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(others[i], NULL);
	for (int i = 0; i < THREADS; i++) /* last: nobody sends them signals any more */
		pthread_join(threads[i], NULL);
	printf("%ld\n", done_well);
	return is_leaking && argc > 3 ? 3 : 0;
}
