/* Where a system lets only bubblewrap make user namespaces, it builds the view, and we go on inside it as its pid 1.
 *
 * Part of enact.c. Outside we hand over: bubblewrap gets its arguments on a descriptor, the status channel for what it
 * has to say, and our own program to run. Inside we take up the same plan behind the steps that bubblewrap has done,
 * and look whether it has: it resolves paths by name, and a name may have been given to something else meanwhile.
 */
#ifndef RINGFENCE_BUBBLEWRAP_H
#define RINGFENCE_BUBBLEWRAP_H

#include "view.h"

/* What the outer one leaves to the inner one, on its command line. */
static struct {
	int is_inside;
	long plan;  /* the plan's descriptor, outside */
	long leash; /* bubblewrap's own process holds the other end */
	uint64_t network; /* the outer one's */
} handed = {0, -1, -1, 0};

#ifdef FAULT
static long fault_at = -1; /* the tests' build fails the step it is told to, or dies there */
enum { DIES = 1 << 24 };
#endif

static long write_all(long fd, const void *bytes, size_t size)
{
	long wrote = CALL(write, fd, P(bytes), size, 0, 0);

	return wrote < 0 ? wrote : (size_t)wrote == size ? 0 : -E_PROTO;
}

/* The strings of all these steps, each with its NUL, as bubblewrap reads them; but not the first, its own path. */
static long write_arguments(long fd, const struct step *step, const char **program)
{
	long answer = 0;

	for (; !answer && step->kind == BUBBLEWRAP; step = step_after(step)) {
		struct reader reader = read_step(step);

		for (uint32_t i = 0; !answer && i < step->strings; i++) {
			uint32_t length;
			const char *text = string(&reader, &length);

			if (*program)
				answer = write_all(fd, text, (size_t)length + 1);
			else
				*program = text;
		}
	}
	return answer ? answer : CALL(lseek, fd, 0, 0, 0, 0);
}

/* Our own standard error, kept for the command: what is said on it until then is bubblewrap's. */
static long keep_errors(long status)
{
	long answer, kept = CALL(fcntl, 2, 0 /* F_DUPFD */, 3, 0, 0);

	if (kept == -E_BADF)
		kept = CALL(openat, AT_FDCWD, P("/dev/null"), O_RDWR, 0, 0);
	if (kept < 0)
		return kept;
	answer = CALL(dup3, status, 2, 0, 0, 0);
	return answer < 0 ? answer : kept;
}

/* A number that no other network has, or 0. */
static uint64_t network_of(long fd)
{
	uint64_t cookie = 0;
	uint32_t size = sizeof(cookie);

	return call6(__NR_getsockopt, fd, 1 /* SOL_SOCKET */, 71 /* SO_NETNS_COOKIE */, P(&cookie), P(&size), 0) ? 0 : cookie;
}

static uint64_t own_network(void)
{
	long fd = CALL(socket, 1 /* AF_UNIX */, 2 | O_CLOEXEC, 0, 0, 0);
	uint64_t found = fd < 0 ? 0 : network_of(fd);

	close_fd(fd);
	return found;
}

/* LOOPBACK, inside: bubblewrap has made it. It is up, and of another network than the outer one's. */
static long verify_loopback(void)
{
	struct ifreq request = {.ifr_name = "lo"};
	uint64_t here;
	long answer, fd = CALL(socket, 2, 2 | O_CLOEXEC, 0, 0, 0);

	if (fd < 0)
		return fd;
	here = network_of(fd);
	answer = CALL(ioctl, fd, SIOCGIFFLAGS, P(&request), 0, 0);
	close_fd(fd);
	if (answer)
		return answer;
	return here && handed.network && here != handed.network && request.ifr_flags & IFF_UP ? 0 : -E_PERM;
}

/* BUBBLEWRAP, outside: become it. All signals are blocked, as in `keep_outside`, and the mask that was is given to the
 * inner one through the leash, with the number of our network, on which bubblewrap then says things that nobody reads. Its own process keeps that end
 * open as long as it lives, and no other does. */
static long do_bubblewrap(const struct step *first, long status)
{
	enum { ARGUMENTS, NEWS, SELF, PLAN, STATUS, LEASH, ERRORS, NUMBERS };
	const char *program = NULL;
	const char self[] = "/proc/self/fd/";
	char texts[NUMBERS][24] = {{0}}, path[sizeof(self) + 24] = {0};
	const char *words[] = {"bwrap", "--args", texts[ARGUMENTS], "--json-status-fd", texts[NEWS], "--", path, "inside",
			       texts[PLAN], texts[STATUS], texts[LEASH], texts[ERRORS], NULL, NULL};
	const char *const none[] = {NULL};
	uint64_t all = ~0UL, left[2] = {0, own_network()};
	long numbers[NUMBERS], answer;
	int leash[2];

	if (handed.is_inside)
		return 0;
	numbers[PLAN] = handed.plan;
	numbers[STATUS] = status;
	numbers[ARGUMENTS] = CALL(memfd_create, P("ringfence-arguments"), 0, 0, 0, 0);
	numbers[SELF] = CALL(openat, AT_FDCWD, P("/proc/self/exe"), O_RDONLY, 0, 0);
	answer = CALL(pipe2, P(leash), 0, 0, 0, 0);
	if (answer || numbers[ARGUMENTS] < 0 || numbers[SELF] < 0)
		return answer ? answer : numbers[SELF] < 0 ? numbers[SELF] : numbers[ARGUMENTS];
	numbers[LEASH] = leash[0];
	numbers[NEWS] = leash[1];
	answer = write_arguments(numbers[ARGUMENTS], first, &program);
	if (!answer)
		answer = CALL(rt_sigprocmask, 2 /* SIG_SETMASK */, P(&all), P(left), 8, 0);
	if (!answer)
		answer = write_all(leash[1], left, sizeof(left));
	if (!answer)
		answer = CALL(fcntl, status, F_SETFD, 0, 0, 0);
	if (!answer)
		answer = CALL(fcntl, handed.plan, F_SETFD, 0, 0, 0);
	numbers[ERRORS] = answer ? answer : keep_errors(status);
	if (numbers[ERRORS] < 0)
		return numbers[ERRORS];
	for (int i = 0; i < NUMBERS; i++)
		put_number(texts[i], (uint64_t)numbers[i]);
	for (size_t i = 0; i < sizeof(self); i++)
		path[i] = self[i];
	put_number(path + sizeof(self) - 1, (uint64_t)numbers[SELF]);
#ifdef FAULT
	char fault[24];

	words[12] = fault;
	put_number(fault, (uint64_t)(fault_at + 3));
#endif
	answer = CALL(execve, P(program), P(words), P(none), 0, 0);
	CALL(dup3, numbers[ERRORS], 2, 0, 0, 0);
	return answer;
}

/* Inside, before anything else: what the outer one kept for us. */
static long take_up(long leash, long errors)
{
	uint64_t left[2]; /* the mask of signals, and the number of the network */
	long answer = CALL(read, leash, P(left), sizeof(left), 0, 0);

	if (answer != sizeof(left))
		return answer < 0 ? answer : -E_PROTO;
	answer = CALL(rt_sigprocmask, 2 /* SIG_SETMASK */, P(left), 0, 8, 0);
	if (!answer)
		answer = CALL(fcntl, leash, F_SETFD, FD_CLOEXEC, 0, 0);
	if (!answer)
		answer = CALL(dup3, errors, 2, 0, 0, 0);
	if (answer < 0)
		return answer;
	close_fd(errors);
	handed.is_inside = 1;
	handed.network = left[1];
	handed.leash = leash;
	return 0;
}

/* VERIFY: what stands at a path of the view is the root of a mount; the object that was planned for, or, where that is
 * covered, any other; and read-only where it was to be. Root may change the mode of what root owns, device nodes too,
 * which bubblewrap cannot make read-only: we can, being root. */
static long do_verify(struct reader reader)
{
	enum { IS_READ_ONLY = 1, IS_COVERED = 2, BECOMES_READ_ONLY = 4, MOUNT_ROOT = 0x2000 };
	const uint64_t *numbers = reader.numbers;
	uint64_t about[16] = {0}; /* struct statfs; the eleventh word has the flags */
	struct facts facts;
	long answer, fd = open_exact(AT_FDCWD, string(&reader, NULL), O_PATH);
	int is_same;

	if (fd < 0)
		return fd;
	answer = facts_of(fd, &facts);
	if (!answer)
		answer = CALL(fstatfs, fd, P(about), 0, 0, 0);
	is_same = device_number(facts.dev_major, facts.dev_minor) == numbers[1] && facts.inode == numbers[2];
	if (!answer && (!(facts.attributes & MOUNT_ROOT) || is_same == !!(numbers[0] & IS_COVERED)))
		answer = -E_STALE;
	if (!answer && numbers[0] & IS_READ_ONLY && !(about[10] & 1 /* ST_RDONLY */))
		answer = -E_PERM;
	if (!answer && numbers[0] & BECOMES_READ_ONLY)
		answer = set_mount(fd, MOUNT_ATTR_RDONLY);
	close_fd(fd);
	return answer;
}

#endif
