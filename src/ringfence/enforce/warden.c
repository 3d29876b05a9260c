/* The warden: what stays. The run's reaper, its broker, and its end.
 *
 * Part of enact.c, in which it is included: the enactor becomes the warden by forking. Three processes then stand in a
 * row: the outer one, which whoever started us waits for; the warden; and the command. The warden ends the run when the
 * command has ended, when the supervisor is gone (its end of the status socket closes), or when the outer process is
 * gone (its end of the leash closes); when the warden is gone the outer process ends it.
 *
 * With a pid namespace the warden is pid 1 of it, and its end is the end of everything in it, whatever that forked,
 * ignored or stopped. Without one, all of the run lives in a Landlock domain of its own that lets no signal out: there
 * kill(-1) means the run and nobody else. The outer process stands in a domain around the warden's, so that the warden
 * does not end it, and it can end the warden. No parent-death signal from whoever started us: that fires when the *thread*
 * that did so ends.
 *
 * Without a pid namespace, a warden that no command has asked anything goes on: see go_on. From then on a fourth process
 * stands between it and the command, the stem, from which one command after the other is forked.
 *
 * A byte on the status socket is the number of a signal for the command's group. Nothing else is understood.
 */

enum { SIG_SETMASK_ = 2, SIGKILL_ = 9, SIGALRM_ = 14, SIGCHLD_ = 17, POLLIN_ = 1, POLLRDHUP_ = 0x2000, P_ALL_ = 0, P_PID_ = 1 };
enum { SIGCONT_ = 18, SIGSTOP_ = 19, WNOHANG_ = 1, WSTOPPED_ = 2, WEXITED_ = 4, WALL_ = 0x40000000, MOST_SIGNAL = 64, SCOPE_SIGNAL = 2, REFER = 1 << 13 };
enum { SET_FLAGS = 0x40082104 /* SECCOMP_IOCTL_NOTIF_SET_FLAGS */, SYNC_WAKE_UP = 1 };

/* The start of siginfo_t as waitid() fills it, and room for the rest. */
struct ended {
	int32_t signal, error, code, pad, pid;
	uint32_t uid;
	int32_t status, rest[25];
};
enum { CLD_EXITED_ = 1 };

static struct {
	long leash;	  /* the outer process holds the other end */
	long hand;	  /* the command hands its listener over here */
	long command;	  /* the command's pid, as the warden sees it */
	uint64_t signals; /* the mask to give back to the command */
	int alone;	  /* without a pid namespace */
	int has_listener; /* calls come to us */
	int ends;	  /* kill(-1) means the run and nobody else: we are pid 1 of it, or stand in its domain */
	int goes_on;	  /* nobody has asked or told us anything: another command may follow this one */
	int is_open;	  /* our filter is still to come: before the first call that we answer */
	int is_stopped;	  /* the command, and by us */
	int has_terminal; /* of the run's own */
} warden = {.leash = -1, .hand = -1};

/* What each of the two who stay knows, and where it stays when it shares its memory with whoever goes on. */
static struct {
	long leash, other, status; /* our end, and the warden's, which we let go */
	_Alignas(16) char stack[16384];
} outer;
static struct {
	long status, signals;
	const struct step *next; /* what the command does first, with its number, of so many */
	uint32_t step, steps;
	uint32_t turns;
	long stem; /* from the second turn on: whoever forks the commands and waits for them, or 0 */
	_Alignas(16) char stacks[3][65536]; /* the warden's, and two in turns: the stem's, and the next command's */
} inner;
/* What the warden and the stem tell each other; each is written by one of them. */
static struct {
	int is_asked; /* by the warden: somebody has asked or told it something, so that there is no turn after this one */
	long command; /* by the stem: who runs now */
	int is_over;  /* by the stem: it ended like this, and the rest is the warden's */
	struct ended ended;
} *between;
static long command_hand = -1; /* the command's end of what it hands its listener over by */

static long fork_(void)
{
	return call6(__NR_clone, SIGCHLD_, 0, 0, 0, 0, 0);
}

#include "broker.h"
#include "confine.h"

/* SCOPE: a domain within the domain, for its border: what stands outside can be neither signalled nor looked into. The
 * rights are taken and given back everywhere: a domain that does not name REFER would forbid it. */
static long make_scope(uint64_t files, uint64_t scopes)
{
	struct {
		uint64_t files, network, scopes;
	} attributes = {files, 0, scopes};
	struct landlock_path_beneath_attr rule = {.allowed_access = files};
	long root, answer, fd = CALL(landlock_create_ruleset, P(&attributes), sizeof(attributes), 0, 0, 0);

	if (fd < 0)
		return fd;
	root = CALL(openat, AT_FDCWD, P("/"), O_PATH | O_CLOEXEC, 0, 0);
	rule.parent_fd = (int)root;
	answer = root < 0 ? root : files ? CALL(landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, P(&rule), 0, 0) : 0;
	if (root >= 0)
		close_fd(root);
	if (answer)
		close_fd(fd);
	return answer ? answer : fd;
}

static long do_scope(uint64_t files, uint64_t scopes)
{
	long answer, fd = make_scope(files, scopes);

	if (fd < 0)
		return fd;
	answer = CALL(landlock_restrict_self, fd, log_flags, 0, 0, 0);
	close_fd(fd);
	return answer;
}

/* End everybody in our pid namespace, or without one in our domain, and wait until they are gone. A fork that is under
 * way when the signal comes fails, so once is enough; what is ended becomes our child. Whoever has no child of any kind
 * has nobody: children of children become its own. So the usual end costs no walk over all processes of the machine. */
static void end_all(void)
{
	struct ended ended;

	while (warden.ends) {
		ended.pid = 0;
		if (CALL(waitid, P_ALL_, 0, P(&ended), WEXITED_ | WNOHANG_ | WALL_, 0) == -10 /* ECHILD */)
			return;
		if (ended.pid)
			continue;
		CALL(kill, -1, SIGKILL_, 0, 0, 0);
		CALL(waitid, P_ALL_, 0, P(&ended), WEXITED_ | WALL_, 0);
	}
}

static void leave(void)
{
	end_all();
	CALL(exit_group, 125, 0, 0, 0, 0);
}

/* The outer process: waits for the warden and ends as it ended; with it the status channel ends, so whoever reads that to
 * its end knows that nobody is left. It takes no signals, because the keys of a terminal are
 * the command's. It sees the end of the supervisor too, and ends a warden that does not: what the warden does for the
 * command is done on objects that the command holds as well, and must not hold the end of the run up. */
static void keep_outside(long warden_pid)
{
	const long leash = outer.leash, status = outer.status;
	struct ended ended = {.code = 0};
	struct polled watched[] = {{(int)CALL(pidfd_open, warden_pid, 0, 0, 0, 0), POLLIN_, 0}, {(int)status, POLLRDHUP_, 0}};
	int64_t moment[2] = {1, 0};
	long answer;

	close_fd(outer.other);
	if (watched[0].fd >= 0) {
		do
			answer = CALL(ppoll, P(watched), 2, 0, 0, 8);
		while (answer == -EINTR_);
		if (answer > 0 && !watched[0].found && !CALL(ppoll, P(watched), 1, P(moment), 0, 8))
			CALL(kill, warden_pid, SIGKILL_, 0, 0, 0);
	}
	do {
		ended.pid = 0;
		answer = CALL(waitid, P_PID_, warden_pid, P(&ended), WEXITED_, 0);
	} while (answer == -EINTR_);
	close_fd(leash);
	if (warden.alone) /* a pid namespace has ended with the warden, and outside it everybody would be meant */
		end_all();
	CALL(exit_group, ended.code == CLD_EXITED_ ? ended.status : 128 + ended.status, 0, 0, 0, 0);
}

/* WARDEN: from here on we are pid 1 of a pid namespace of our own, or the reaper of all that follows. */
static long do_warden(uint64_t namespace, long status)
{
	const uint64_t by_default[4] = {0, 0, 0, 0}; /* the kernel's struct sigaction: SIG_DFL, and nothing else */
	uint64_t all = ~0UL;
	int leash[2];
	long pid, answer;

	warden.alone = warden.ends = !namespace;
	if (handed.is_inside) /* bubblewrap has made the namespace, and us its pid 1 */
		answer = 0;
	else if (namespace)
		answer = CALL(unshare, CLONE_NEWPID, 0, 0, 0, 0);
	else {
		answer = CALL(prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (!answer)
			answer = prepared.is_there ? CALL(landlock_restrict_self, prepared.outer, 0, 0, 0, 0) : do_scope(REFER, SCOPE_SIGNAL);
		if (!answer)
			answer = CALL(prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	}
	/* Inherited as ignored, it would have the kernel reap the command, and nobody would hear of its end. */
	if (!answer)
		answer = CALL(rt_sigaction, SIGCHLD_, P(by_default), 0, 8, 0);
	if (!answer && !handed.is_inside)
		answer = CALL(pipe2, P(leash), O_CLOEXEC, 0, 0, 0);
	/* Before the fork: a key at the terminal would end whoever does not block it yet. */
	if (!answer)
		answer = CALL(rt_sigprocmask, SIG_SETMASK_, P(&all), P(&warden.signals), 8, 0);
	if (answer)
		return answer;
	if (handed.is_inside) {
		warden.leash = handed.leash;
		warden.ends = CALL(getpid, 0, 0, 0, 0, 0) == 1;
		return warden.ends ? 0 : -E_PROTO;
	}
	outer.leash = leash[1];
	outer.other = leash[0];
	outer.status = status;
	pid = fork_sharing(0, keep_outside, outer.stack, sizeof(outer.stack));
	if (pid)
		return pid;
	close_fd(leash[1]);
	warden.leash = leash[0];
	if (warden.alone)
		return CALL(prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	warden.ends = CALL(getpid, 0, 0, 0, 0, 0) == 1;
	/* Should we be held up, the leash is not seen: the outer process, which has one thread, takes us with it. */
	answer = CALL(prctl, PR_SET_PDEATHSIG, SIGKILL_, 0, 0, 0);
	return answer ? answer : warden.ends ? 0 : -E_PROTO;
}

/* PROC: a /proc that shows this pid namespace and no other; read-only, but for who makes user namespaces inside. */
static long do_proc(uint64_t read_only)
{
	static const char *const none[] = {NULL};
	const uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | (read_only ? MOUNT_ATTR_RDONLY : 0);
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

static void go_on(void);

/* From 125 on it may be the enactor that ended, without a command or by itself. */
static int may_be_followed(const struct ended *ended)
{
	return ended->code == CLD_EXITED_ && ended->status < 125;
}

/* The command has stopped, and not by us: at a terminal nobody else would hear of it, and no key would help. */
static void look_for_stop(void)
{
	struct ended stopped = {.pid = 0};

	if (warden.has_terminal && !warden.is_stopped &&
	    !CALL(waitid, P_PID_, warden.command, P(&stopped), WSTOPPED_ | WNOHANG_, 0) && stopped.pid)
		tell(STATUS_AT, STOPPED, (uint32_t)stopped.status, 0, 0);
}

/* Reap whoever is dead; the run is over when the command is, or the stem. Of a good one it is said whether another may
 * follow. */
static void reap(void)
{
	struct ended ended;
	int again;

	for (;;) {
		ended.pid = 0;
		if (CALL(waitid, P_ALL_, 0, P(&ended), WEXITED_ | WNOHANG_, 0) || !ended.pid) {
			look_for_stop();
			return;
		}
		if (ended.pid != (inner.stem ? inner.stem : warden.command))
			continue;
		end_all();
		if (inner.stem && !between->is_over)
			CALL(exit_group, 125, 0, 0, 0, 0); /* somebody has ended it */
		again = !inner.stem && warden.goes_on && may_be_followed(&ended);
		if (inner.stem)
			ended = between->ended;
		if (observer.lost)
			tell(STATUS_AT, LOST, observer.lost, 0, 0);
		tell(STATUS_AT, ENDED, (uint32_t)ended.status, ended.code == CLD_EXITED_, again);
		if (again)
			go_on();
		CALL(exit_group, 0, 0, 0, 0, 0);
	}
}

/* Nothing that was asked or told for this command must reach the next: there is none. */
static void stay_with_this(void)
{
	warden.goes_on = 0;
	if (between)
		between->is_asked = 1;
}

/* Signals for the command, one byte each. The end of the socket is the end of the run. A command that the stem has reaped
 * meanwhile may have given its number to another: of the run, for our domain lets no signal out of it. */
static void obey(void)
{
	uint8_t numbers[16];
	long command, got = CALL(read, STATUS_AT, P(numbers), sizeof(numbers), 0, 0);

	if (got == -EINTR_ || got == -EAGAIN_)
		return;
	if (got <= 0)
		leave();
	stay_with_this();
	command = between ? between->command : warden.command;
	for (long i = 0; i < got && command > 0; i++)
		if (numbers[i] && numbers[i] <= MOST_SIGNAL) {
			warden.is_stopped = numbers[i] == SIGSTOP_ || (warden.is_stopped && numbers[i] != SIGCONT_);
			/* To its group where it leads one, else to itself. */
			if (CALL(kill, -command, numbers[i], 0, 0, 0))
				CALL(kill, command, numbers[i], 0, 0, 0);
		}
}

/* Without a user namespace of the run's own there is no such right; a setuid bubblewrap does not give it either. */
static int may_trace(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct held[2] = {{0, 0, 0}, {0, 0, 0}};

	return !warden.alone && !CALL(capget, P(&header), P(held), 0, 0, 0) && held[0].permitted >> CAP_SYS_PTRACE & 1;
}

static void hear_nothing(int number) { (void)number; }

/* The clock that ends our own waits: a signal that is taken, or the call would go on. */
static long set_clock(void)
{
	uint64_t others = ~(1UL << (SIGALRM_ - 1));
	struct {
		void (*handler)(int);
		uint64_t flags;
		void (*restorer)(void);
		uint64_t mask;
	} action = {.handler = hear_nothing, .mask = ~0UL};
	long answer;

#if defined(__x86_64__)
	extern void end_of_signal(void);

	action.flags = 0x04000000; /* SA_RESTORER; elsewhere the kernel has its own */
	action.restorer = end_of_signal;
#endif
	answer = CALL(rt_sigaction, SIGALRM_, P(&action), 0, 8, 0);
	return answer ? answer : CALL(rt_sigprocmask, SIG_SETMASK_, P(&others), 0, 8, 0);
}
#if defined(__x86_64__)
__asm__(".text\nend_of_signal:\n\tmov $15,%eax\n\tsyscall\n"); /* rt_sigreturn */
#endif

/* What the warden still calls. Everything else is its end: it has no reason to. */
static long allow_own(void)
{
#define ALLOW(name) __NR_##name
#define WATCHER ALLOW(ppoll), ALLOW(waitid), ALLOW(read), ALLOW(write), ALLOW(kill), ALLOW(exit_group), ALLOW(restart_syscall)
	static const uint16_t watcher[] = {WATCHER};
	static const uint16_t both[] = {
		ALLOW(ioctl), ALLOW(close_range), ALLOW(process_vm_readv), ALLOW(openat), ALLOW(openat2), ALLOW(statx),
		ALLOW(close), ALLOW(fcntl), ALLOW(mkdirat), ALLOW(renameat2), ALLOW(unlinkat), ALLOW(linkat), ALLOW(symlinkat),
		ALLOW(mknodat), ALLOW(readlinkat), ALLOW(umask), ALLOW(pidfd_open), ALLOW(pidfd_getfd), ALLOW(dup3), ALLOW(bind),
		ALLOW(fchdir), ALLOW(recvmsg), ALLOW(connect), ALLOW(listen), ALLOW(accept4), ALLOW(getsockopt), ALLOW(getsockname),
		ALLOW(setsockopt), ALLOW(sendto), ALLOW(sendmsg), ALLOW(socket), ALLOW(fstatfs),
		ALLOW(getdents64), ALLOW(epoll_ctl), ALLOW(chdir), ALLOW(getcwd),
		ALLOW(clock_gettime), ALLOW(timerfd_create), ALLOW(timerfd_settime), ALLOW(getcpu), ALLOW(sched_getaffinity), ALLOW(sched_setaffinity),
		ALLOW(setitimer), ALLOW(rt_sigreturn), ALLOW(pread64), ALLOW(truncate), ALLOW(fchmod), ALLOW(fchmodat), ALLOW(fchown),
		ALLOW(fchownat), ALLOW(utimensat), ALLOW(setxattr), ALLOW(fsetxattr), ALLOW(removexattr), ALLOW(fremovexattr),
		ALLOW(getrandom), WATCHER,
	};
#undef WATCHER
#undef ALLOW
	return warden.has_listener ? allow_only(both, sizeof(both) / 2) : allow_only(watcher, sizeof(watcher) / 2);
}

/* No right is left, and no call. One that may go on takes its filter later: the next command would be born with it. Until
 * somebody asks it something it reads nothing that a command has made, so nobody can have it make a call. */
static long shut_in(void)
{
	/* A child that hides its memory (ssh-agent does) is read all the same: a right in the run's own user namespace. */
	long answer = do_capabilities(warden.has_listener && may_trace() ? 1U << CAP_SYS_PTRACE : 0);

	warden.is_open = warden.goes_on;
	return answer || warden.is_open ? answer : allow_own();
}

/* Somebody asks us something, for the first time. From here on we serve this command alone. Not before: the next one would
 * be born with our clock's handler too, where it was to ignore that signal. */
static void shut_in_at_last(void)
{
	stay_with_this();
	warden.is_open = 0;
	if (set_clock() || CALL(dup3, SIGNALS_AT, OWN_AT, O_CLOEXEC, 0, 0) < 0 || allow_own())
		leave();
}

/* Keep nothing open but what is watched, in its place: the command's streams are the command's. */
static long keep_only(long status, long signals)
{
	/* Nobody but a listener has a gate or an observer; where there is none, its place is taken all the same: by what is in its
	 * own by then, for the number that it had may be the hand's, whose end must be seen when we let go of it. */
	const long kept[] = {status, warden.leash, signals, warden.hand, dial.gate < 0 ? SIGNALS_AT : dial.gate,
			     questions.channel < 0 ? SIGNALS_AT : questions.channel,
			     observer.channel < 0 ? SIGNALS_AT : observer.channel,
			     warden.goes_on ? prepared.inner : SIGNALS_AT, SIGNALS_AT};
	const int count = warden.hand >= 0 ? FIRST_FREE : LISTENER;
	long answer = 0;

	for (int i = 0; i < count && answer >= 0; i++)
		if (kept[i] != i)
			answer = CALL(dup3, kept[i], i, O_CLOEXEC, 0, 0);
	return answer < 0 ? answer : CALL(close_range, count, ~0U, 0, 0, 0);
}

/* In the command: give the listener to the warden, and wait until it has it. Where the two have one table of descriptors
 * it has it already, and is told its number when the table is no longer one. */
static long hand_over(long listener)
{
	const uint64_t number = (uint64_t)listener;
	struct mail mail;
	uint8_t byte = 1;
	long answer = 0;

	if (inner.turns) {
		command_hand = -1;
		answer = CALL(close_range, listener, listener, 2 /* CLOSE_RANGE_UNSHARE */, 0, 0);
		return answer ? answer : CALL(write, THREAD_AT, P(&number), 8, 0, 0) == 8 ? 0 : -E_PIPE;
	}
	address(&mail, &byte, 1, 1);
	mail.given.fds[0] = (int32_t)listener;
	answer = send_mail((uint64_t)command_hand, &mail);
	if (answer >= 0)
		answer = CALL(read, command_hand, P(&byte), 1, 0, 0);
	close_fd(listener);
	close_fd(command_hand);
	command_hand = -1;
	return answer < 0 ? answer : answer == 1 ? 0 : -E_PIPE;
}

/* In the warden: what comes first on the hand is the listener, which takes its place. Nothing comes from a command that
 * has ended before; that is told when it is reaped. */
static int take_over(void)
{
	struct mail mail;
	uint8_t byte = 1;
	uint64_t listener = 0;
	long answer;

	if (inner.turns) {
		if (CALL(read, THREAD_AT, P(&listener), 8, 0, 0) != 8)
			leave();
	} else {
		address(&mail, &byte, 1, 1);
		answer = fetch_mail(LISTENER, &mail);
		if (!answer) {
			warden.hand = -1;
			return -1;
		}
		if (answer != 1 || !has_enclosed(&mail, 1))
			leave();
		CALL(write, LISTENER, P(&byte), 1, 0, 0); /* or it has just ended */
		listener = (uint64_t)mail.given.fds[0];
	}
	warden.hand = -1;
	if (CALL(dup3, listener, LISTENER, O_CLOEXEC, 0, 0) < 0)
		leave();
	CALL(close_range, FIRST_FREE, HELD_FROM - 1, 0, 0, 0);
	/* Whoever asks sleeps while we work and we while it does: on one processor that is three times as fast. Since 6.6. */
	CALL(ioctl, LISTENER, SET_FLAGS, SYNC_WAKE_UP, 0, 0);
	return LISTENER;
}

/* Until it is over; what comes back is why it cannot be watched any longer. */
static long watch(void)
{
	/* Of the leash its end alone matters: bubblewrap says things on it. */
	struct polled watched[] = {{STATUS_AT, POLLIN_, 0}, {LEASH_AT, 0, 0}, {SIGNALS_AT, POLLIN_, 0}, {LISTENER, POLLIN_, 0},
				   {GATE_AT, POLLIN_, 0}, {QUESTIONS_AT, POLLIN_, 0}, {-1, POLLIN_, 0}};
	struct polled *beat = &watched[QUESTIONS_AT + 1];
	uint32_t turn = 0;
	uint8_t taken[128];

	watched[LISTENER].fd = (int)warden.hand;
	for (;;) {
		const int waits = broker.count || dial.waiting;
		const int asks = questions.count || dial.asked;
		/* The kernel writes what is left of it. Most connections stand before anybody looks whether they are waited for. */
		int64_t tick[2] = {0, waits ? 5000000 : questions.channel >= 0 ? 10000000 : 250000000};
		long found;

		if (dial.gate < 0)
			watched[GATE_AT].fd = -1;
		if (questions.channel < 0)
			watched[QUESTIONS_AT].fd = -1;
		beat->fd = (int)handing.beat;
		found = CALL(ppoll, P(watched), sizeof(watched) / sizeof(watched[0]), P(waits || asks ? tick : NULL), 0, 8);
		if (found == -EINTR_)
			continue;
		if (found < 0)
			return found;
		if (beat->found) {
			CALL(read, beat->fd, P(taken), 8, 0, 0);
			hear_beat();
		}
		if (waits && (!found || !(++turn % 64))) {
			look_after_waits();
			look_after_connections();
		}
		if (asks && (!found || !(++turn % 64)))
			look_after_questions();
		if (watched[SIGNALS_AT].found) {
			CALL(read, SIGNALS_AT, P(taken), sizeof(taken), 0, 0);
			reap();
		}
		if (watched[LEASH_AT].found)
			leave();
		if (watched[STATUS_AT].found)
			obey();
		if (watched[GATE_AT].found)
			hear_gate();
		if (watched[QUESTIONS_AT].found)
			hear_answer();
		if (watched[LISTENER].found & POLLIN_ && warden.hand < 0) {
			if (warden.is_open)
				shut_in_at_last();
			serve();
		}
		else if (watched[LISTENER].found && warden.hand >= 0)
			watched[LISTENER].fd = take_over();
		else if (watched[LISTENER].found)
			watched[LISTENER].fd = -1; /* nobody is left who could ask */
	}
}

/* The warden's own part of COMMAND. */
static void keep_inside(long command)
{
	long answer, status = inner.status;

	warden.command = command;
	answer = keep_only(status, inner.signals);
	if (!answer && warden.hand >= 0) {
		warden.hand = LISTENER;
		answer = warden.goes_on ? 0 : set_clock();
	}
	if (!answer) {
		status = STATUS_AT;
		answer = shut_in();
	}
	if (answer)
		tell(status, FAILED, inner.step, COMMAND, -answer);
	else
		watch();
	leave();
}

static int do_steps(const struct step *step, uint32_t number, uint32_t count, long status);
static long do_seccomp(struct reader reader);

static void keep_on(long stem)
{
	inner.stem = born.watchers[2] = stem;
	watch();
	leave();
}

static void turn(void);

/* In the stem: until the command has ended. The next follows when nobody is left of this one, and nobody has asked or told
 * the warden anything; else the end is the warden's to make and to tell. We end nobody: the warden would be meant too. To
 * wait for an end, and for nothing else, is to be woken on the processor that has just become free. */
static void attend(long command)
{
	struct ended ended, other;
	long answer;

	between->command = command;
	do {
		ended.pid = 0;
		answer = CALL(waitid, P_ALL_, 0, P(&ended), WEXITED_ | WALL_, 0);
	} while (answer == -EINTR_ || (!answer && ended.pid != command));
	while (!answer) {
		other.pid = 0;
		answer = CALL(waitid, P_ALL_, 0, P(&other), WEXITED_ | WNOHANG_ | WALL_, 0);
		if (!answer && !other.pid)
			break; /* somebody is left */
	}
	if (answer != -10 /* ECHILD */ || between->is_asked || !may_be_followed(&ended)) {
		between->ended = ended;
		between->is_over = ended.pid == command;
		CALL(exit_group, 0, 0, 0, 0, 0);
	}
	tell(STATUS_AT, ENDED, (uint32_t)ended.status, 1, 1);
	turn();
}

/* The next command's process is born as the first was, into a border of its own, to stand by. Whoever was on the other stack
 * is gone. Whoever started us hears of a failure when it gives us a command. */
static void turn(void)
{
	is_resumed = 0;
	inner.turns++;
	if (!fork_sharing(0, attend, inner.stacks[inner.turns & 1 ? 0 : 2], sizeof(inner.stacks[0])) &&
	    !CALL(rt_sigprocmask, SIG_SETMASK_, P(&warden.signals), 0, 8, 0))
		CALL(exit_group, do_steps(inner.next, inner.step + 1, inner.steps, FIRST_FREE), 0, 0, 0, 0);
	CALL(exit_group, 125, 0, 0, 0, 0);
}

/* What every later command is born with: the filter, whose listener the warden has for all of them; and limits, some of
 * which the filter says that it has set. Descriptors where the command will not have its own. */
static long grow(void)
{
	const struct step *step = inner.next;
	long answer = CALL(prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);

	for (; step->kind != SECCOMP && !is_last(step->kind); step = step_after(step))
		if (!answer && step->kind == LIMIT)
			answer = do_limit(read_step(step).numbers);
	if (!answer)
		answer = step->kind == SECCOMP ? do_seccomp(read_step(step)) : -E_PROTO;
	if (!answer)
		answer = CALL(close_range, LISTENER, QUESTIONS_AT, 0, 0, 0);
	if (!answer && CALL(dup3, STATUS_AT, FIRST_FREE, O_CLOEXEC, 0, 0) < 0)
		answer = -E_BADF;
	prepared.request = OBSERVER_AT;
	prepared.inner = OWN_AT;
	return answer;
}

/* The run is over, and whoever was in it is gone; nobody of it has asked us anything. So we are as we were. Not with a pid
 * namespace, whose mounts and numbers are one run's alone. The stem stands where we stand, and has the command's filter:
 * what is forked from it is born with that. Until it has its listener we touch no descriptor: we have the same ones. */
static void go_on(void)
{
	long event, at = call6(__NR_mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at < 0 && at > -4096)
		return;
	between = (void *)(intptr_t)at;
	if (warden.hand >= 0)
		take_over(); /* it was faster than we */
	event = CALL(eventfd2, 0, O_CLOEXEC, 0, 0, 0);
	if (event < 0 || CALL(dup3, event, THREAD_AT, O_CLOEXEC, 0, 0) < 0)
		return;
	close_fd(event);
	warden.hand = command_hand = THREAD_AT;
	inner.turns = 1;
	if (fork_sharing(CLONE_FILES, keep_on, inner.stacks[1], sizeof(inner.stacks[0])))
		return;
	if (!grow())
		turn();
	CALL(exit_group, 125, 0, 0, 0, 0);
}

/* COMMAND: fork it; the child goes on with the plan, and we stay and watch. */
static long do_command(const struct step *step, long status, uint32_t number, uint32_t count)
{
	uint64_t child = 1UL << (SIGCHLD_ - 1);
	int hands[2] = {-1, -1};
	/* The warden moves its own while the command lets go of these. */
	const long leash = warden.leash, gate = dial.gate, observed = observer.channel, asks = questions.channel;
	long answer, pid, signals = CALL(signalfd4, -1, P(&child), 8, O_CLOEXEC, 0);

	if (signals < 0)
		return signals;
	if (table.count || judge.count || observer.channel >= 0 || dial.gate >= 0 || asks >= 0) {
		answer = call6(__NR_socketpair, 1 /* AF_UNIX */, 1 | O_CLOEXEC /* SOCK_STREAM */, 0, P(hands), 0, 0);
		if (answer)
			return answer;
		open_broker();
	}
	/* Before there is anybody to look into us; the command's own exec undoes it there. */
	CALL(prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
	inner.status = status;
	inner.signals = signals;
	inner.next = step_after(step);
	inner.step = number;
	inner.steps = count;
	for (const struct step *next = inner.next; !is_last(next->kind); next = step_after(next))
		warden.has_terminal |= next->kind == TERMINAL;
	warden.hand = hands[0];
	warden.has_listener = hands[0] >= 0;
	warden.goes_on = prepared.is_there && warden.alone && observer.channel >= 0 && gate < 0 && asks < 0;
	command_hand = hands[1];
	pid = fork_sharing(0, keep_inside, inner.stacks[0], sizeof(inner.stacks[0]));
	if (pid)
		return pid;
	close_fd(signals);
	close_fd(leash);
	if (hands[0] >= 0)
		close_fd(hands[0]);
	if (gate >= 0)
		close_fd(gate);
	if (observed >= 0)
		close_fd(observed);
	if (asks >= 0)
		close_fd(asks);
	return CALL(rt_sigprocmask, SIG_SETMASK_, P(&warden.signals), 0, 8, 0);
}
