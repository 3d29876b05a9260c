/* The enactor: reads a plan, does its steps in order, stops at the first failure, and says which.
 *
 *   enact PLAN STATUS [UID GID]   the plan is a sealed memfd on descriptor PLAN; records go to descriptor STATUS
 *   enact STATUS [UID GID]        probes what this kernel allows and writes one record
 *   enact inside PLAN STATUS LEASH ERRORS   the rest of a plan whose view bubblewrap has built
 *
 * UID and GID are taken on before a byte of the plan is read: root interprets no plan.
 *
 * It has no opinions, no configuration, no environment and no allocation. All sentences are rendered in Python;
 * docs/plan-format.md has the layout and the reason for the order. The whole plan is checked before its first step is
 * done, and the same check is written a second time in enact.py; the tests hold the two against each other.
 */
#include "bubblewrap.h"
#include "mail.h"

static long ruleset = -1; /* Landlock's, while it is being filled */
static long log_flags;	  /* of its domains: 0, or LOG_NEW_EXEC_ON */
static const char *vector[MOST_VECTOR + 2]; /* arguments, then environment; more than the kernel would take */

/* What a nursery has made for all its runs: the filter, in force already, and rulesets: the plan's, which is `ruleset`, and
 * those of the borders around the run and around the command. */
static struct {
	int is_there, has_filter;
	long outer, inner;
	long request; /* in a child: what its command comes by, or 0 */
} prepared;
static int is_resumed; /* the plan is the one that a standby was given */

/* The pipes that the command was given on 0 to 2 for reading alone: for the warden, who has the same memory until the exec. */
static struct {
	uint64_t device, inodes[3];
} inputs;

/* Where a nursery's children say that a command begins: memory of whoever started it, who looks there when a run has ended
 * otherwise than well. A record would wake it, for nothing, and on the processor that the command could have. */
enum { BEGUN = 1024 };
static struct {
	uint32_t *page;	 /* BEGUN of these, the number of a run at the place that it leaves over */
	uint32_t number; /* of the run that we were given, or 0: then a record is told */
} begun;

/* ---- The command's own process ---- */

/* JOIN: from here on we count in a control group. Whoever started us opened its list of processes, and "0" is us. */
static long do_join(uint64_t list)
{
	long wrote = CALL(write, list, P("0"), 1, 0, 0);

	close_fd((long)list);
	return wrote < 0 ? wrote : 0;
}

static long do_limit(const uint64_t *numbers)
{
	uint64_t limit[2] = {numbers[1], numbers[2]};

	return CALL(prlimit64, 0, numbers[0], P(limit), 0, 0);
}

/* A regular file on 0 to 2 stands on the host's mounts, where no view reaches: open it again by its path, here. It is
 * opened before it is compared, so without waiting: a FIFO put in its place would hold us for ever. */
static long do_stream(struct reader reader)
{
	const uint64_t *numbers = reader.numbers;
	const char *path = string(&reader, NULL);
	long answer, fd = open_planned(path, numbers[1] | O_NONBLOCK, numbers[2], numbers[3]);

	if (fd < 0)
		return fd;
	answer = CALL(fcntl, fd, F_SETFL, numbers[1] & ~(uint64_t)O_NONBLOCK, 0, 0);
	if (answer >= 0)
		answer = CALL(lseek, fd, numbers[4], 0, 0, 0);
	if (answer >= 0)
		answer = CALL(dup3, fd, numbers[0], 0, 0, 0);
	close_fd(fd);
	return answer < 0 ? answer : 0;
}

static int is_terminal(long fd)
{
	uint8_t settings[64];

	return !CALL(ioctl, fd, 0x5401 /* TCGETS */, P(settings), 0, 0);
}

/* /dev/null and its kin are opened again on the view's own nodes, where there is a view; terminals pass, but not to a
 * standby, whose walls were built without one. */
static long check_device(long fd, const struct facts *facts, uint64_t flags)
{
	static const struct {
		uint32_t minor;
		const char *path;
	} nodes[] = {{3, "/dev/null"}, {5, "/dev/zero"}, {7, "/dev/full"}, {8, "/dev/random"}, {9, "/dev/urandom"}};
	long answer, again;

	if (is_terminal(fd))
		return is_resumed ? -E_FTYPE : 0;
	for (size_t i = 0; facts->rdev_major == 1 && i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		if (nodes[i].minor != facts->rdev_minor)
			continue;
		if (prepared.is_there)
			return 0; /* no view */
		again = CALL(openat, AT_FDCWD, P(nodes[i].path), (flags & O_ACCMODE) | O_CLOEXEC, 0, 0);
		if (again < 0)
			return again;
		answer = CALL(dup3, again, fd, 0, 0, 0);
		close_fd(again);
		return answer < 0 ? answer : 0;
	}
	return -E_FTYPE;
}

/* A unix socket that is one end of a connection passes. Any other could be connected to whoever listens outside: of the
 * host's network anew, a free one for the first time, and datagrams name where they go each time. Descriptors pass through
 * one, so not where mounts come off. */
static long check_socket(long fd)
{
	static char peer[128];
	int family = 0, type = 0, size = sizeof(int), room = sizeof(peer);
	long answer = CALL(getsockopt, fd, 1 /* SOL_SOCKET */, 39 /* SO_DOMAIN */, P(&family), P(&size));

	if (state.is_loose)
		return -E_FTYPE;
	if (!answer)
		answer = CALL(getsockopt, fd, 1, 3 /* SO_TYPE */, P(&type), P(&size));
	if (answer)
		return answer;
	if (family != 1 /* AF_UNIX */ || (type != 1 /* SOCK_STREAM */ && type != 5 /* SOCK_SEQPACKET */))
		return -E_FTYPE;
	return CALL(getpeername, fd, P(peer), P(&room), 0, 0) ? -E_FTYPE : 0;
}

/* A pipe with a name stands on the host's disk, and is fed by whoever starts us: nobody who stands by is given one, also when
 * nobody has looked before. */
static int is_nameless(long fd)
{
	uint64_t about[16]; /* struct statfs: the first word is the type */

	return !CALL(fstatfs, fd, P(about), 0, 0, 0) && about[0] == 0x50495045 /* PIPEFS_MAGIC */;
}

static long check_stream(long fd, int reopened)
{
	struct facts facts;
	long answer, flags = CALL(fcntl, fd, F_GETFL, 0, 0, 0);

	inputs.inodes[fd] = 0;
	if (flags == -E_BADF) {
		/* A closed descriptor would be taken by the first file the command opens. */
		answer = CALL(openat, AT_FDCWD, P("/dev/null"), O_RDWR, 0, 0);
		return answer < 0 || answer == fd ? (answer < 0 ? answer : 0) : -E_BADF;
	}
	if (flags < 0)
		return flags;
	answer = facts_of(fd, &facts);
	if (answer)
		return answer;
	if (flags & O_PATH)
		return -E_FTYPE;
	if ((facts.mode & TYPE_MASK) == FIFO && is_nameless(fd)) {
		inputs.device = device_number(facts.dev_major, facts.dev_minor);
		inputs.inodes[fd] = flags & O_ACCMODE ? 0 : facts.inode;
		return 0;
	}
	if ((facts.mode & TYPE_MASK) == FIFO)
		return is_resumed ? -E_FTYPE : 0;
	if ((facts.mode & TYPE_MASK) == SOCKET_)
		return check_socket(fd);
	if ((facts.mode & TYPE_MASK) == CHARACTER)
		return check_device(fd, &facts, (uint64_t)flags);
	return (facts.mode & TYPE_MASK) == 0100000 && reopened ? 0 : -E_FTYPE;
}

/* A symbolic link on the way shows in the name of where it led. Not by openat2, which a standby's filter has closed. */
static long do_directory(struct reader reader)
{
	static char here[4096];
	const char *path = string(&reader, NULL);
	struct facts facts;
	long answer = CALL(chdir, P(path), 0, 0, 0, 0);

	if (!answer)
		answer = CALL(getcwd, P(here), sizeof(here), 0, 0, 0);
	if (answer < 0)
		return answer;
	for (size_t i = 0; !i || here[i - 1]; i++)
		if (here[i] != path[i])
			return -E_STALE;
	if (!reader.numbers[0] && !reader.numbers[1])
		return 0;
	answer = facts_of(AT_FDCWD, &facts);
	if (!answer && (facts.inode != reader.numbers[1] || device_number(facts.dev_major, facts.dev_minor) != reader.numbers[0]))
		answer = -E_STALE;
	return answer;
}

/* ---- Landlock, capabilities, seccomp ---- */

static long do_ruleset(const uint64_t *numbers)
{
	struct {
		uint64_t files, network, scopes;
	} attributes = {numbers[0], numbers[1], numbers[2]};

	ruleset = CALL(landlock_create_ruleset, P(&attributes), sizeof(attributes), 0, 0, 0);
	return ruleset < 0 ? ruleset : 0;
}

static long do_beneath(struct reader reader)
{
	const uint64_t *numbers = reader.numbers;
	struct landlock_path_beneath_attr rule = {.allowed_access = numbers[0]};
	long answer, fd = open_planned(string(&reader, NULL), O_PATH, numbers[1], numbers[2]);

	if (fd < 0)
		return fd;
	rule.parent_fd = (int)fd;
	answer = CALL(landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, P(&rule), 0, 0);
	close_fd(fd);
	return answer;
}

/* The terminals among 0 to 2 may be opened again, as `> /dev/stderr` does: the command holds them anyway. But not those in
 * whose place it will have others, nor for writing one that it holds for reading alone. */
static long do_terminals(const uint64_t *numbers)
{
	struct landlock_path_beneath_attr rule;
	long answer = 0;

	for (rule.parent_fd = 0; rule.parent_fd <= 2 && !answer; rule.parent_fd++)
		if (numbers[1] >> rule.parent_fd & 1 && is_terminal(rule.parent_fd)) {
			rule.allowed_access = numbers[0];
			if (!(CALL(fcntl, rule.parent_fd, F_GETFL, 0, 0, 0) & (O_WRONLY | O_RDWR)))
				rule.allowed_access &= ~0x4002UL; /* WRITE_FILE and TRUNCATE */
			if (rule.allowed_access)
				answer = CALL(landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, P(&rule), 0, 0);
		}
	return answer;
}

static long do_port(const uint64_t *numbers)
{
	struct {
		uint64_t access, port;
	} rule = {numbers[0], numbers[1]};

	return CALL(landlock_add_rule, ruleset, 2 /* LANDLOCK_RULE_NET_PORT */, P(&rule), 0, 0);
}

/* No capability is left but those kept, and none can come back: the bounding set is what an exec by uid 0 would be
 * given. */
static long do_capabilities(uint32_t kept)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct left[2] = {{kept, kept, 0}, {0, 0, 0}};
	long answer = 0;

	/* With no_new_privs nobody but uid 0 is given anything at exec, so the bounding set matters to it alone. */
	for (long capability = 0; !CALL(geteuid, 0, 0, 0, 0, 0) && capability < 64 && !answer; capability++) {
		answer = CALL(prctl, PR_CAPBSET_DROP, capability, 0, 0, 0);
		if (answer == -E_INVAL && capability > 0) {
			answer = 0;
			break; /* the kernel knows no more */
		}
		if (answer == -E_PERM && CALL(prctl, PR_CAPBSET_READ, capability, 0, 0, 0) != 1)
			answer = 0; /* root inside another sandbox, which dropped it already */
	}
	if (!answer)
		answer = CALL(prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (!answer)
		answer = CALL(capset, P(&header), P(left), 0, 0, 0);
	return answer;
}

/* ---- The end ---- */

static long tell(long status, uint32_t tag, uint32_t step, uint32_t kind, long error)
{
	struct record record = {tag, step, kind, (uint32_t)error};

	return CALL(write, status, P(&record), sizeof(record), 0, 0);
}

/* A record, and a descriptor with it: what we hold, whoever started us holds too. */
static long lend(long status, uint32_t tag, long fd)
{
	struct record record = {tag, 0, 0, 0};
	struct mail mail;
	long answer;

	address(&mail, &record, sizeof(record), 1);
	mail.given.fds[0] = (int32_t)fd;
	answer = send_mail((uint64_t)status, &mail);
	return answer < 0 ? answer : 0;
}

/* LISTEN: a socket on a loopback port of the new network: it is served from outside, and nobody inside has it. */
static long do_listen(const uint64_t *numbers, long status)
{
	struct {
		uint16_t family, port;
		uint32_t flow_or_address;
		uint8_t address[16];
		uint32_t scope;
	} place = {.family = (uint16_t)numbers[0], .port = (uint16_t)(numbers[2] >> 8 | numbers[2] << 8)};
	int one = 1;
	long answer, fd = CALL(socket, numbers[0], numbers[1] | 02000000 /* SOCK_CLOEXEC */, 0, 0, 0);

	if (fd < 0)
		return fd;
	if (place.family == 2)
		place.flow_or_address = 0x0100007f; /* 127.0.0.1 */
	else
		place.address[15] = 1; /* ::1 */
	answer = CALL(setsockopt, fd, 1 /* SOL_SOCKET */, 2 /* SO_REUSEADDR */, P(&one), sizeof(one));
	if (!answer)
		answer = CALL(bind, fd, P(&place), place.family == 2 ? 16 : 28, 0, 0);
	if (!answer && numbers[1] == 1)
		answer = CALL(listen, fd, 4096, 0, 0, 0);
	if (!answer)
		answer = lend(status, OPENED, fd);
	close_fd(fd);
	return answer;
}

/* TERMINAL: a new one, made where the command will look for it, takes the place of those of 0 to 2 that the mask says.
 * It begins as the first of them is; its other end goes to whoever started us. */
static long do_terminal(uint64_t mask, long status)
{
	uint8_t settings[64], size[8];
	int ours = 0, unlocked = 0;
	long answer, master, slave;

	while (!(mask >> ours & 1))
		ours++;
	master = CALL(openat, AT_FDCWD, P("/dev/ptmx"), O_RDWR | O_NOCTTY | O_CLOEXEC, 0, 0);
	if (master < 0)
		return master;
	answer = CALL(ioctl, master, 0x40045431 /* TIOCSPTLCK */, P(&unlocked), 0, 0);
	slave = answer ? answer : CALL(ioctl, master, 0x5441 /* TIOCGPTPEER */, O_RDWR | O_NOCTTY | O_CLOEXEC, 0, 0);
	if (slave < 0)
		return slave;
	answer = CALL(ioctl, ours, 0x5401 /* TCGETS */, P(settings), 0, 0);
	if (!answer)
		answer = CALL(ioctl, slave, 0x5402 /* TCSETS */, P(settings), 0, 0);
	if (!answer)
		answer = CALL(ioctl, ours, 0x5413 /* TIOCGWINSZ */, P(size), 0, 0);
	if (!answer)
		answer = CALL(ioctl, slave, 0x5414 /* TIOCSWINSZ */, P(size), 0, 0);
	if (!answer)
		answer = lend(status, LENT, master);
	close_fd(master);
	for (int fd = ours; fd <= 2 && answer >= 0; fd++)
		if (mask >> fd & 1)
			answer = CALL(dup3, slave, fd, 0, 0, 0);
	if (answer >= 0)
		answer = CALL(ioctl, slave, 0x540E /* TIOCSCTTY */, 0, 0, 0);
	close_fd(slave);
	return answer;
}

#include "warden.c"

/* ASK: a channel for questions about connections; the warden keeps one end of it. */
static long do_ask(long status)
{
	int ends[2];
	long answer, inside = CALL(socket, 2 /* AF_INET */, 1 | 02000000, 0, 0, 0);

	if (inside < 0)
		return inside;
	answer = option(inside, SOL_SOCKET_, SO_NETNS_COOKIE_, &dial.cookie, sizeof(dial.cookie));
	close_fd(inside);
	if (!answer)
		answer = call6(__NR_socketpair, 1 /* AF_UNIX */, 5 | 02000000 /* SOCK_SEQPACKET | SOCK_CLOEXEC */, 0, P(ends), 0, 0);
	if (answer)
		return answer;
	dial.leads = handed.is_inside;
	dial.gate = CALL(fcntl, ends[0], F_DUPFD_CLOEXEC, 16, 0, 0); /* away from where the warden will put things */
	answer = dial.gate < 0 ? dial.gate : lend(status, OPENED, ends[1]);
	close_fd(ends[0]);
	close_fd(ends[1]);
	return answer;
}

/* The filter; with a listener, which the warden gets. */
static long do_seccomp(struct reader reader)
{
	const long listen = SECCOMP_FILTER_FLAG_NEW_LISTENER;
	uint32_t length;
	/* The kernel alone reads it. */
	struct sock_fprog program = {.filter = (struct sock_filter *)(intptr_t)string(&reader, &length)};
	long listener;

	if ((int)reader.numbers[0] != (command_hand >= 0))
		return -E_PROTO;
	program.len = (unsigned short)(length / sizeof(struct sock_filter));
	if (command_hand < 0)
		return CALL(seccomp, SECCOMP_SET_MODE_FILTER, 0, P(&program), 0, 0);
	/* Killable: a call that was taken up is not begun anew because of a signal, or a directory would be made twice. */
	listener = CALL(seccomp, SECCOMP_SET_MODE_FILTER, listen | 32 /* WAIT_KILLABLE_RECV, 5.19 */, P(&program), 0, 0);
	return listener < 0 ? listener : hand_over(listener);
}

#include "nursery.h"

/* A later run's number stays: who finds it in its place takes itself for begun. */
static void say_begun(void)
{
	uint32_t *place = &begun.page[begun.number % BEGUN], found = __atomic_load_n(place, __ATOMIC_RELAXED);

	while (found < begun.number && !__atomic_compare_exchange_n(place, &found, begun.number, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static long do_exec(struct reader reader, long status, uint32_t number)
{
	uint64_t arguments = reader.numbers[0];
	const char *path = string(&reader, NULL);
	uint32_t count = reader.step->strings - 1;

	for (uint32_t i = 0; i < count; i++)
		vector[i + (i >= arguments)] = string(&reader, NULL);
	vector[arguments] = vector[count + 1] = NULL; /* the one before us, whose memory this was, may have had more */
	if (begun.number)
		say_begun();
	else if (tell(status, READY, number, EXEC, 0) != sizeof(struct record))
		return -E_PIPE; /* nobody waits for us any more */
	/* Should we have let the warden look into us: this memory may be the warden's too, and stays with it. */
	CALL(prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
	return CALL(execve, P(path), P(vector), P(vector + arguments + 1), 0, 0);
}

/* Nothing but 0 to 2 goes on; the status channel ends by itself, at exec, and the warden's hand is let go before. */
static long close_rest(long status)
{
	const long hand = command_hand < 0 ? status : command_hand, low = hand < status ? hand : status;
	const long high = hand < status ? status : hand;
	const struct {
		long first, last;
	} gaps[] = {{3, low - 1}, {low + 1, high - 1}, {high + 1, ~0U}};
	long answer = 0;

	for (int i = 0; i < 3 && !answer; i++)
		if (gaps[i].first <= gaps[i].last)
			answer = CALL(close_range, gaps[i].first, gaps[i].last, 0, 0, 0);
	return answer;
}

/* LOG: the kernel's audit is told what our domains refuse after exec too, and that their maker was called this. */
static long do_log(struct reader reader)
{
	log_flags = 2; /* LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON */
	return CALL(prctl, PR_SET_NAME, P(string(&reader, NULL)), 0, 0, 0);
}

static long do_restrict(void)
{
	long answer = CALL(landlock_restrict_self, ruleset, log_flags, 0, 0, 0);

	close_fd(ruleset);
	return answer;
}

static int enact(const uint8_t *plan, size_t size, long status);

/* Whether the nursery has done its part of a step. */
static int is_prepared(void)
{
	return prepared.is_there && !is_resumed;
}

/* Whether we were born of the stem, with its limits and its filter, and without a right: all but the border. */
static int is_of_stem(void)
{
	return inner.turns && !is_resumed;
}

/* Whether we were born with a copy of the nursery's template. */
static int is_copied(void)
{
	return template.is_there && !is_resumed;
}

/* AWAIT: behind the walls, wait for what to run: one message, which is a plan, with three descriptors, what 0 to 2
 * become. Nobody there, or nothing in time: end, for nothing was begun. */
static long do_await(uint64_t request, uint64_t milliseconds, long status)
{
	struct polled watched = {(int)request, POLLIN_, 0};
	int64_t time[2] = {(int64_t)milliseconds / 1000, (int64_t)milliseconds % 1000 * 1000000};
	static _Alignas(8) uint8_t plan[MOST_MESSAGE]; /* ours alone, so nobody changes it under us */
	struct header *header = (struct header *)(void *)plan;
	int32_t given[3];
	long answer;

	/* What we open is the warden's by now, who looks into whoever asks; our memory is of the outer user namespace, where
	 * it has no right to. Nobody else is in the run yet. */
	if (judge.count || observer.channel >= 0)
		CALL(prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
	plan[0] = 0; /* the pages are made ready now, when nobody waits */
	vector[0] = NULL;
	answer = CALL(ppoll, P(&watched), 1, P(time), 0, 8);

	if (answer == 1)
		answer = receive(request, plan, sizeof(plan), given, 3);
	if (answer <= 0)
		CALL(exit_group, 125, 0, 0, 0, 0);
	for (int fd = 0; fd <= 2; fd++) {
		long moved = CALL(dup3, given[fd], fd, 0, 0, 0);

		if (moved < 0)
			return moved;
	}
	is_resumed = 1; /* what comes now the nursery has not seen */
	begun.number = 0;
	if (begun.page && (size_t)answer >= sizeof(*header)) {
		begun.number = header->zero;
		header->zero = 0;
	}
	CALL(exit_group, enact(plan, (size_t)answer, status), 0, 0, 0, 0);
	return -E_PROTO;
}

static long do_step(const struct step *step, long status, uint32_t number, uint32_t count, uint32_t *reopened)
{
	struct reader reader = read_step(step);
	const uint64_t *numbers = reader.numbers;
	long answer = 0;

	switch ((enum kind)step->kind) {
	case NURSERY: return do_nursery(step, status);
	case JOIN: return handed.is_inside ? 0 : do_join(numbers[0]); /* bubblewrap has been joined with us */
	case LOG: return do_log(reader);
	case BUBBLEWRAP: return do_bubblewrap(step, status);
	case NAMESPACES: return is_copied() ? enter_namespaces(step) : do_namespaces(numbers[0]);
	case ID_MAP: return is_copied() ? do_inner_id_map(numbers) : do_id_map(numbers);
	case LOOPBACK: dial.is_apart = 1; return handed.is_inside ? verify_loopback() : do_loopback();
	case LISTEN: return do_listen(numbers, status);
	case ASK: return do_ask(status);
	case VIEW: return is_copied() ? take_view(step) : do_view(numbers[0], comes(step, LOCK));
	case MOUNT: return is_copied() ? take_mount(reader) : do_mount(reader);
	case ATTACH: return is_copied() ? settle(comes(step, LOCK)) : do_attach();
	case WARDEN: return do_warden(numbers[0], status);
	case VERIFY: return do_verify(reader);
	case PROC: return do_proc(numbers[0]);
	case LOCK: return do_lock(numbers);
	case PARENT: return do_parent(reader);
	case OBSERVE: return do_observe(numbers[0], status);
	case NAME: return do_name(reader);
	case PATTERN: return do_pattern(reader);
	case PAUSE: return do_pause(status);
	case COMMAND: return do_command(step, status, number, count);
	case NO_NEW_PRIVS: return CALL(prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	case SESSION: answer = CALL(setsid, 0, 0, 0, 0, 0); return answer < 0 ? answer : 0;
	case TERMINAL: return do_terminal(numbers[0], status);
	case LIMIT: return is_of_stem() ? 0 : do_limit(numbers);
	case STREAM: *reopened |= 1U << numbers[0]; return do_stream(reader);
	case STREAMS:
		for (int fd = 0; fd <= 2 && !answer; fd++)
			answer = check_stream(fd, *reopened >> fd & 1);
		return answer ? answer : close_rest(status);
	case DIRECTORY: return do_directory(reader);
	case RULESET: dial.is_apart |= (int)(numbers[2] & 1) /* LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET */; return is_prepared() ? 0 : do_ruleset(numbers);
	case BENEATH: return is_prepared() ? 0 : do_beneath(reader);
	case PORT: return is_prepared() ? 0 : do_port(numbers);
	case TERMINALS: return is_prepared() ? 0 : do_terminals(numbers); /* who stands by has none */
	case RESTRICT: return do_restrict();
	case SCOPE: return is_prepared() ? CALL(landlock_restrict_self, prepared.inner, 0, 0, 0, 0) : do_scope(numbers[0], numbers[1]);
	case CAPABILITIES: return is_of_stem() ? 0 : do_capabilities(0);
	case SECCOMP: return is_of_stem() || (is_prepared() && prepared.has_filter) ? 0 : do_seccomp(reader); /* born with it */
	case AWAIT: return do_await(prepared.request ? (uint64_t)prepared.request : numbers[0], numbers[1], status);
	case EXEC: return do_exec(reader, status, number);
	}
	return -E_PROTO;
}

/* Whether bubblewrap is to build the view, in a nursery and a group or not: then the plan is read a second time, inside. */
static int is_handed_on(const uint8_t *first)
{
	return comes((const struct step *)(const void *)first, BUBBLEWRAP);
}

/* From one step on to the last. */
static int do_steps(const struct step *step, uint32_t number, uint32_t count, long status)
{
	uint32_t reopened = 0;
	long answer;

	for (; number < count; number++, step = step_after(step)) {
#ifdef FAULT
		if (number == fault_at - DIES)
			CALL(exit_group, 128 + SIGKILL_, 0, 0, 0, 0); /* pid 1 cannot kill itself */
		answer = number == fault_at ? -5 /* EIO */ : do_step(step, status, number, count, &reopened);
#else
		answer = do_step(step, status, number, count, &reopened);
#endif
		if (answer) {
			tell(status, FAILED, number, step->kind, -answer);
			return step->kind != EXEC ? 125 : answer == -E_NOENT ? 127 : 126;
		}
	}
	return 125;
}

static int enact(const uint8_t *plan, size_t size, long status)
{
	const struct header *header = (const struct header *)(const void *)plan;
	const long fault = first_fault(plan, size);

	if (fault >= 0) {
		tell(status, FAILED, (uint32_t)fault, 0, E_PROTO);
		return 125;
	}
	if (!is_resumed && (handed.is_inside || !is_handed_on(plan + sizeof(*header))))
		close_fd(handed.plan); /* mapped, and not handed on */
	return do_steps((const struct step *)(const void *)(plan + sizeof(*header)), 0, header->count, status);
}

/* Map a sealed plan and do it. */
static int run_plan(long plan, long status)
{
	const long seals = 2 | 4 | 8; /* F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE: nobody changes it under us */
	struct facts facts;
	long at = CALL(fcntl, plan, 1034 /* F_GET_SEALS */, 0, 0, 0);

	if (at < 0 || (at & seals) != seals || facts_of(plan, &facts) || !facts.size) {
		tell(status, FAILED, 0, 0, E_PROTO);
		return 125;
	}
	at = call6(__NR_mmap, 0, (long)facts.size, PROT_READ, MAP_PRIVATE, plan, 0);
	if (at < 0 && at > -4096) {
		tell(status, FAILED, 0, 0, -at);
		return 125;
	}
	handed.plan = plan;
	return enact((const uint8_t *)at, facts.size, status);
}

/* A pid namespace, and a fresh /proc for it: where parts of the host's /proc are masked, as in a container, the kernel
 * refuses to show them again. */
static long probe_pids(int32_t *proc)
{
	struct ended ended = {.status = 0};
	long pid, answer = CALL(unshare, CLONE_NEWPID, 0, 0, 0, 0);

	*proc = (int32_t)answer;
	if (answer)
		return answer;
	pid = fork_();
	if (!pid)
		CALL(exit_group, -do_proc(1), 0, 0, 0, 0);
	if (pid < 0)
		return pid;
	answer = CALL(waitid, P_PID_, pid, P(&ended), WEXITED_, 0);
	*proc = ended.code == CLD_EXITED_ ? -ended.status : -E_PROTO;
	return answer;
}

/* How many Landlock domains still fit around a command: sixteen, but inside another sandbox. None where such a one's filter
 * refuses them; a kernel that has no Landlock holds nobody, and is not taken for one. Without memory it is not known. The
 * last thing a probe does, for they stay. */
static int32_t count_layers(void)
{
	struct {
		uint64_t files;
	} attributes = {LANDLOCK_ACCESS_FS_MAKE_BLOCK};
	long fd = CALL(landlock_create_ruleset, P(&attributes), sizeof(attributes), 0, 0, 0);
	int32_t count = 0;
	long answer = 0;

	if (CALL(prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return MOST_LAYERS;
	if (fd < 0)
		return fd == -EOPNOTSUPP_ && CALL(prctl, PR_GET_SECCOMP, 0, 0, 0, 0) == 2 /* a filter */ ? 0 : MOST_LAYERS;
	while (count < MOST_LAYERS && !(answer = CALL(landlock_restrict_self, fd, 0, 0, 0, 0)))
		count++;
	return answer == -E_NOMEM ? (int32_t)answer : count;
}

/* What this kernel and this machine allow, found by doing it, in the order a plan would. Nothing of it survives us. */
static int probe(long status)
{
	static const char *const none[] = {NULL};
	struct {
		uint32_t tag;
		int32_t landlock, seccomp, namespaces, id_map, loopback, tree, tmpfs, detached, devpts, pids, proc, inner, layers;
	} found = {.tag = PROBED};
	uint64_t ids[4];
	uint32_t notify = SECCOMP_RET_USER_NOTIF;
	long mount;

	found.landlock = (int32_t)CALL(landlock_create_ruleset, 0, 0, LANDLOCK_CREATE_RULESET_VERSION, 0, 0);
	found.seccomp = (int32_t)CALL(seccomp, SECCOMP_GET_ACTION_AVAIL, 0, P(&notify), 0, 0);
	ids[0] = ids[1] = (uint64_t)CALL(geteuid, 0, 0, 0, 0, 0);
	ids[2] = ids[3] = (uint64_t)CALL(getegid, 0, 0, 0, 0, 0);
	found.namespaces = (int32_t)do_namespaces(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET);
	if (found.namespaces) { /* the rest would be tried on the host's own */
		found.id_map = found.loopback = found.tree = found.tmpfs = found.detached = found.devpts = found.namespaces;
		found.pids = found.proc = found.inner = found.namespaces;
	} else {
		found.id_map = (int32_t)do_id_map(ids);
		found.loopback = (int32_t)do_loopback();
		found.tree = (int32_t)do_view(0, 0);
		mount = new_filesystem("tmpfs", none, 0);
		found.tmpfs = (int32_t)(mount < 0 ? mount : 0);
		found.detached = (int32_t)place(mount, "/proc");
		mount = new_filesystem("devpts", none, 0);
		found.devpts = (int32_t)(mount < 0 ? mount : 0);
		found.pids = (int32_t)probe_pids(&found.proc);
		found.inner = (int32_t)do_namespaces(OWN_MOUNTS); /* for LOCK */
	}
	found.layers = count_layers();
	CALL(write, status, P(&found), sizeof(found), 0, 0);
	return 0;
}

/* A number: digits and nothing else. */
static long decimal_value(const char *text)
{
	long number = 0;

	if (!*text)
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || number > 0xffffffffL)
			return -1;
		number = number * 10 + (*text - '0');
	}
	return number;
}

static long descriptor(const char *text)
{
	long number = decimal_value(text);

	return number > 2 && number < 1 << 24 ? number : -1;
}

/* Become somebody else for good: no groups, and all three ids, looked at afterwards. Never root. */
static long become(const char *uid_text, const char *gid_text)
{
	long uid = decimal_value(uid_text), gid = decimal_value(gid_text), answer;
	uint32_t ids[3];

	if (uid <= 0 || uid >= 0xffffffffL || gid <= 0 || gid >= 0xffffffffL)
		return -E_INVAL;
	answer = CALL(setgroups, 0, 0, 0, 0, 0);
	if (!answer)
		answer = CALL(setresgid, gid, gid, gid, 0, 0);
	if (!answer)
		answer = CALL(setresuid, uid, uid, uid, 0, 0);
	if (!answer)
		answer = CALL(getresuid, P(&ids[0]), P(&ids[1]), P(&ids[2]), 0, 0);
	if (!answer && (ids[0] != uid || ids[1] != uid || ids[2] != uid || !CALL(setresuid, 0, 0, 0, 0, 0)))
		answer = -E_PERM;
	return answer;
}

/* The inner half of a plan: bubblewrap has started us. */
static int start_inside(char **words)
{
	long fds[4], answer;

	for (int i = 0; i < 4; i++) {
		fds[i] = descriptor(words[i]);
		if (fds[i] < 0)
			return 125;
		for (int j = 0; j < i; j++)
			if (fds[i] == fds[j])
				return 125;
	}
	if (CALL(fcntl, fds[1], F_SETFD, FD_CLOEXEC, 0, 0))
		return 125;
	answer = take_up(fds[2], fds[3]);
	if (answer) {
		tell(fds[1], FAILED, 0, 0, -answer);
		return 125;
	}
	return run_plan(fds[0], fds[1]);
}

static int start(int argc, char **argv)
{
	long plan = -1, status, at;
	int probing;

	observer.channel = dial.gate = -1;
#ifdef FAULT
	if (argc == 4 || argc == 6 || argc == 7)
		fault_at = decimal_value(argv[--argc]) - 3;
#endif
	if (argc == 6 && argv[1][0] == 'i')
		return start_inside(argv + 2);
	probing = argc == 2 || argc == 4;
	if (argc < 2 || argc > 5)
		return 125;
	status = descriptor(argv[probing ? 1 : 2]);
	if (!probing)
		plan = descriptor(argv[1]);
	if (status < 0 || (!probing && (plan < 0 || plan == status)))
		return 125;
	if (CALL(fcntl, status, F_SETFD, FD_CLOEXEC, 0, 0))
		return 125; /* there would be nobody to tell, and its number would be given to the next file */
	if (argc >= 4 && (at = become(argv[argc - 2], argv[argc - 1]))) {
		tell(status, FAILED, 0, 0, -at);
		return 125;
	}
	if (probing)
		return probe(status);
	return run_plan(plan, status);
}

#ifdef HOSTED
int main(int argc, char **argv) { return start(argc, argv); }
#else
/* gcc turns loops and initialisers into calls of these, whatever it is told. */
void *memset(void *into, int byte, size_t size);
void *memset(void *into, int byte, size_t size)
{
	volatile char *at = into;

	while (size--)
		*at++ = (char)byte;
	return into;
}

void *memcpy(void *restrict into, const void *restrict from, size_t size);
void *memcpy(void *restrict into, const void *restrict from, size_t size)
{
	volatile char *at = into;
	const char *source = from;

	while (size--)
		*at++ = *source++;
	return into;
}

__attribute__((noreturn, used)) void begin(long *stack)
{
	int code = start((int)stack[0], (char **)(stack + 1));

	for (;;)
		CALL(exit_group, code, 0, 0, 0, 0);
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\txor %ebp,%ebp\n\tmov %rsp,%rdi\n\tand $-16,%rsp\n\tcall begin\n");
#else
__asm__(".globl _start\n_start:\n\tmov x29,#0\n\tmov x0,sp\n\tbl begin\n");
#endif
#endif
