/* The warden: what stays. Pid 1 of the run, its reaper, and its end.
 *
 * Part of enact.c, in which it is included: the enactor becomes the warden by forking. Three processes then stand in a
 * row: the outer one, which whoever started us waits for; the warden, pid 1 of the new pid namespace; and the command.
 * The warden ends when the command has ended, when the supervisor is gone (its end of the status socket closes), or
 * when the outer process is gone (its end of the leash closes); and when pid 1 ends, the kernel ends everything else
 * in the namespace, whatever it forked, ignored or stopped. No parent-death signal: that fires when the *thread* that
 * started us ends.
 *
 * A byte on the status socket is the number of a signal for the command's group. Nothing else is understood.
 */

enum { SIG_BLOCK_ = 0, SIG_SETMASK_ = 2, SIGKILL_ = 9, SIGCHLD_ = 17, POLLIN_ = 1, P_ALL_ = 0, P_PID_ = 1 };
enum { WNOHANG_ = 1, WEXITED_ = 4, MOST_SIGNAL = 64 };

struct polled {
	int fd;
	int16_t events, found;
};

/* The start of siginfo_t as waitid() fills it, and room for the rest. */
struct ended {
	int32_t signal, error, code, pad, pid;
	uint32_t uid;
	int32_t status, rest[25];
};
enum { CLD_EXITED_ = 1 };

static struct {
	long leash;	  /* the outer process holds the other end */
	long command;	  /* the command's pid, as the warden sees it */
	uint64_t signals; /* the mask to give back to the command */
} warden = {.leash = -1};

static long fork_(void)
{
	return call6(__NR_clone, SIGCHLD_, 0, 0, 0, 0, 0);
}

/* The outer process: waits for the warden and ends as it ended. It closes the status socket, so that its end is seen
 * there as soon as the warden's is; and it takes no signals, because the keys of a terminal are the command's. */
static long keep_outside(long warden_pid, long leash, long status)
{
	struct ended ended = {.code = 0};
	uint64_t all = ~0UL;
	long answer;

	CALL(rt_sigprocmask, SIG_SETMASK_, P(&all), 0, 8, 0);
	close_fd(status);
	do {
		ended.pid = 0;
		answer = CALL(waitid, P_PID_, warden_pid, P(&ended), WEXITED_, 0);
	} while (answer == -4 /* EINTR */);
	close_fd(leash);
	CALL(exit_group, ended.code == CLD_EXITED_ ? ended.status : 128 + ended.status, 0, 0, 0, 0);
	return -E_PROTO;
}

/* WARDEN: from here on we are pid 1 of a pid namespace of our own. */
static long do_warden(long status)
{
	const uint64_t by_default[4] = {0, 0, 0, 0}; /* the kernel's struct sigaction: SIG_DFL, and nothing else */
	int leash[2];
	long pid, answer = CALL(unshare, CLONE_NEWPID, 0, 0, 0, 0);

	/* Inherited as ignored, it would have the kernel reap the command, and nobody would hear of its end. */
	if (!answer)
		answer = CALL(rt_sigaction, SIGCHLD_, P(by_default), 0, 8, 0);
	if (!answer)
		answer = CALL(pipe2, P(leash), O_CLOEXEC, 0, 0, 0);
	if (answer)
		return answer;
	pid = fork_();
	if (pid < 0)
		return pid;
	if (pid > 0) {
		close_fd(leash[0]);
		return keep_outside(pid, leash[1], status);
	}
	close_fd(leash[1]);
	warden.leash = leash[0];
	return CALL(getpid, 0, 0, 0, 0, 0) == 1 ? 0 : -E_PROTO;
}

/* PROC: a /proc that shows this pid namespace and no other, and of which nothing can be written. */
static long do_proc(void)
{
	static const char *const none[] = {NULL};
	const uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY;
	long answer, fd, mount = new_filesystem("proc", none, attributes);

	if (mount < 0)
		return mount;
	fd = open_exact(AT_FDCWD, "/proc", O_PATH);
	answer = fd < 0 ? fd : CALL(move_mount, mount, P(""), fd, P(""), MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	if (fd >= 0)
		close_fd(fd);
	close_fd(mount);
	return answer;
}

static void finish(long status, const struct ended *ended)
{
	tell(status, ENDED, (uint32_t)ended->status, ended->code == CLD_EXITED_, 0);
	CALL(exit_group, 0, 0, 0, 0, 0);
}

/* Reap whoever is dead; the run is over when the command is. */
static void reap(long status)
{
	struct ended ended;

	for (;;) {
		ended.pid = 0;
		if (CALL(waitid, P_ALL_, 0, P(&ended), WEXITED_ | WNOHANG_, 0) || !ended.pid)
			return;
		if (ended.pid == warden.command)
			finish(status, &ended);
	}
}

/* Signals for the command, one byte each. The end of the socket is the end of the run. */
static void obey(long status)
{
	uint8_t numbers[16];
	long got = CALL(read, status, P(numbers), sizeof(numbers), 0, 0);

	if (got == -4 || got == -11)
		return;
	if (got <= 0)
		CALL(exit_group, 125, 0, 0, 0, 0);
	for (long i = 0; i < got; i++)
		if (numbers[i] && numbers[i] <= MOST_SIGNAL)
			/* To its group where it leads one, else to itself. */
			if (CALL(kill, -warden.command, numbers[i], 0, 0, 0))
				CALL(kill, warden.command, numbers[i], 0, 0, 0);
}

/* What the warden still calls. Everything else is its end: it has no reason to. */
static long shut_in(void)
{
#define ALLOW(name) {0x15 /* jeq */, 0, 1, __NR_##name}, {6 /* ret */, 0, 0, SECCOMP_RET_ALLOW}
	static const struct sock_filter filter[] = {
		{0x20 /* load the number */, 0, 0, 0},
		ALLOW(ppoll), ALLOW(waitid), ALLOW(read), ALLOW(write), ALLOW(kill), ALLOW(exit_group), ALLOW(restart_syscall),
		{6, 0, 0, SECCOMP_RET_KILL_PROCESS},
	};
#undef ALLOW
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), (struct sock_filter *)(uintptr_t)filter};
	long answer = do_capabilities();

	return answer ? answer : CALL(seccomp, SECCOMP_SET_MODE_FILTER, 0, P(&program), 0, 0);
}

/* Keep nothing open but what is watched: the command's streams are the command's. */
static long keep_only(long status, long signals)
{
	struct { long low, high; } gap[4] = {{0, 0}, {0, 0}, {0, 0}, {0, ~0U}};
	long kept[3] = {status, warden.leash, signals}, answer = 0;

	for (int i = 0; i < 3; i++)
		for (int j = i + 1; j < 3; j++)
			if (kept[j] < kept[i]) {
				long swapped = kept[i];

				kept[i] = kept[j];
				kept[j] = swapped;
			}
	for (int i = 0; i < 3; i++) {
		gap[i].high = kept[i] - 1;
		gap[i + 1].low = kept[i] + 1;
	}
	for (int i = 0; i < 4 && !answer; i++)
		if (gap[i].low <= gap[i].high)
			answer = CALL(close_range, gap[i].low, gap[i].high, 0, 0, 0);
	return answer;
}

/* COMMAND: fork it; the child goes on with the plan, and we stay and watch. */
static long do_command(long status, uint32_t number)
{
	uint64_t child = 1UL << (SIGCHLD_ - 1);
	struct polled watched[3];
	long answer, signals;

	answer = CALL(rt_sigprocmask, SIG_BLOCK_, P(&child), P(&warden.signals), 8, 0);
	if (answer)
		return answer;
	signals = CALL(signalfd4, -1, P(&child), 8, O_CLOEXEC, 0);
	if (signals < 0)
		return signals;
	/* Before there is anybody to look into us; the command's own exec undoes it there. */
	CALL(prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
	warden.command = fork_();
	if (warden.command < 0)
		return warden.command;
	if (!warden.command) {
		close_fd(signals);
		close_fd(warden.leash);
		return CALL(rt_sigprocmask, SIG_SETMASK_, P(&warden.signals), 0, 8, 0);
	}
	answer = keep_only(status, signals);
	if (!answer)
		answer = shut_in();
	if (answer) {
		tell(status, FAILED, number, COMMAND, -answer);
		CALL(exit_group, 125, 0, 0, 0, 0);
	}
	watched[0] = (struct polled){(int)status, POLLIN_, 0};
	watched[1] = (struct polled){(int)warden.leash, POLLIN_, 0};
	watched[2] = (struct polled){(int)signals, POLLIN_, 0};
	for (;;) {
		uint8_t taken[128];

		CALL(ppoll, P(watched), 3, 0, 0, 8);
		if (watched[2].found) {
			CALL(read, signals, P(taken), sizeof(taken), 0, 0);
			reap(status);
		}
		if (watched[1].found)
			CALL(exit_group, 125, 0, 0, 0, 0);
		if (watched[0].found)
			obey(status);
	}
}
