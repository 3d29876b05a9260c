/* Connections into the run itself: its loopback, and unix sockets. Made on a copy of the caller's socket, without waiting.
 *
 * Part of the warden, with dial.h, which has what leads outside.
 */
#ifndef RINGFENCE_REACH_H
#define RINGFENCE_REACH_H

#include "paths.h"

enum { EISCONN_ = 106, EALREADY_ = 114, EINPROGRESS_ = 115, ENETDOWN_ = 100, ECONNREFUSED_ = 111, EPROTOTYPE_ = 91 };
enum { AF_UNIX_ = 1, AF_INET_ = 2, AF_INET6_ = 10, STREAM_ = 1, DATAGRAM_ = 2, ESTABLISHED = 1, SYN_SENT = 2, POLLOUT_ = 4 };
enum { SOL_SOCKET_ = 1, SO_TYPE_ = 3, SO_ERROR_ = 4, SO_SNDTIMEO_ = 21, SO_DOMAIN_ = 39, SO_NETNS_COOKIE_ = 71 };
enum { MOUNT_ROOT = 0x2000, MOST_SOCKETS = 512, MOST_CONNECTING = 256 };
enum { MOST_PENDING = 1024, NAME_BYTES = 128, NONBLOCK = 1, CLOEXEC = 2, READ_ONLY_MOUNT = 1 };

/* What the gate is asked, and what it answers; a socket comes with an answer without error. */
struct question {
	uint64_t id;
	int32_t fd;
	uint32_t flags;
	uint16_t family, port; /* of the caller's socket; the port as it stands in an address */
	uint8_t address[16];
	uint32_t pid; /* who asks, and by which program, to be told of */
	char program[128];
};
struct reply {
	uint64_t id;
	int32_t fd;
	uint32_t flags;
	int32_t error;
	uint32_t zero;
};

union place {
	uint16_t family;
	char bytes[NAME_BYTES + 1];
	struct {
		uint16_t family, port;
		uint8_t address[4];
	} four;
	struct {
		uint16_t family, port;
		uint32_t flow;
		uint8_t address[16];
	} six;
};

static struct {
	long gate;	 /* where questions go, or -1 */
	uint64_t cookie; /* of the run's own network */
	int leads;	 /* who asks for names is led to another port */
	int is_apart;	 /* no abstract name is somebody else's: the network is the run's own, or Landlock has the scope */
	struct {
		uint64_t id; /* 0 is free */
		uint32_t thread;
	} pending[MOST_PENDING];
	uint32_t asked; /* of them */
	struct made {
		uint64_t device, inode;
		uint64_t socket; /* its own number, as a socket */
		long object;	 /* held, so that its numbers are nobody else's */
		int type, is_proven;
	} made[MOST_SOCKETS]; /* the unix sockets of the run, by the names it bound */
	uint32_t count;
	struct connecting {
		uint64_t id; /* 0 is nobody */
		uint32_t thread;
		long fd, object; /* its socket, and of a unix socket what it connects to */
	} waits[MOST_CONNECTING];
	uint32_t waiting;
} dial; /* and no gate, as of the observer */

static long option(long fd, long level, long name, void *into, uint32_t size)
{
	return call6(__NR_getsockopt, fd, level, name, P(into), P(&size), 0);
}

static int number_of(long fd, long name)
{
	int value = -1;

	return option(fd, SOL_SOCKET_, name, &value, sizeof(value)) ? -1 : value;
}

/* Whether a socket belongs to the host's network: it was handed in. */
static int is_outside(long fd)
{
	uint64_t cookie = 0;

	return dial.cookie && !option(fd, SOL_SOCKET_, SO_NETNS_COOKIE_, &cookie, sizeof(cookie)) && cookie != dial.cookie;
}

/* ---- Inside the run ---- */

/* A socket of the command's is the command's as well: its mode and its timeout, which keep us from waiting, can be set
 * back while we connect. So a clock of our own ends every wait: its signal is heard by nobody, and the call comes back. */
static long connect_briefly(long fd, const void *name, uint64_t size)
{
	static const int64_t often[4] = {0, 2000, 0, 2000}, never[4] = {0, 0, 0, 0}; /* again, should it come too early */
	long answer = CALL(setitimer, 0 /* ITIMER_REAL */, P(often), 0, 0, 0);

	if (answer)
		return answer;
	answer = CALL(connect, fd, P(name), size, 0, 0);
	CALL(setitimer, 0, P(never), 0, 0, 0);
	return answer == -EINTR_ ? -EINPROGRESS_ : answer;
}

/* Connect without waiting, whatever the socket's own mode: a loopback answers at once. -EINPROGRESS or -EAGAIN when it
 * has to be waited for after all. */
static long connect_now(long fd, const void *name, uint64_t size)
{
	const int64_t moment[2] = {0, 1000};
	int64_t before[2] = {0, 0};
	long answer = option(fd, SOL_SOCKET_, SO_SNDTIMEO_, before, sizeof(before));

	if (!answer)
		answer = CALL(setsockopt, fd, SOL_SOCKET_, SO_SNDTIMEO_, P(moment), sizeof(moment));
	if (answer)
		return answer;
	answer = connect_briefly(fd, name, size);
	CALL(setsockopt, fd, SOL_SOCKET_, SO_SNDTIMEO_, P(before), sizeof(before));
	return answer;
}

/* Who has to wait is looked after from time to time. */
static long connect_later(const struct asked *asked, long fd, long object)
{
	struct connecting *wait = dial.waits;

	while (wait < dial.waits + MOST_CONNECTING && wait->id)
		wait++;
	if (wait == dial.waits + MOST_CONNECTING)
		return -EAGAIN_;
	wait->fd = CALL(fcntl, fd, F_DUPFD_CLOEXEC, HELD_FROM, 0, 0);
	wait->object = object < 0 ? -1 : CALL(fcntl, object, F_DUPFD_CLOEXEC, HELD_FROM, 0, 0);
	if (wait->fd < 0 || (object >= 0 && wait->object < 0)) {
		if (wait->fd >= 0)
			close_fd(wait->fd);
		if (wait->object >= 0)
			close_fd(wait->object);
		return -EAGAIN_;
	}
	wait->thread = asked->thread;
	wait->id = asked->notice->id;
	dial.waiting++;
	return ANSWERED;
}

static int must_wait(long answer)
{
	return answer == -EINPROGRESS_ || answer == -EAGAIN_ || answer == -EALREADY_;
}

static long connect_here(const struct asked *asked, long fd, const void *name, uint64_t size)
{
	long answer, flags = CALL(fcntl, fd, F_GETFL, 0, 0, 0);

	if (flags < 0)
		return flags;
	if (flags & O_NONBLOCK)
		return connect_briefly(fd, name, size);
	answer = connect_now(fd, name, size);
	return must_wait(answer) ? connect_later(asked, fd, -1) : answer;
}

/* A name was bound: what stands there is the run's own, unless another run has put something else there meanwhile. Of too
 * many, one that has no name any more is forgotten, or the oldest. */
static void remember(long fd, const struct spot *spot)
{
	struct made *made = &dial.made[dial.count % MOST_SOCKETS];
	struct facts facts, own;
	long object = CALL(openat, spot->directory, P(spot->name), O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0);

	if (object < 0 || facts_of(object, &facts) || (facts.mode & TYPE_MASK) != SOCKET_ || facts_of(fd, &own))
		return;
	object = CALL(fcntl, object, F_DUPFD_CLOEXEC, HELD_FROM, 0, 0);
	if (object < 0)
		return;
	for (uint32_t i = 0; i < MOST_SOCKETS && dial.count >= MOST_SOCKETS; i++)
		if (!facts_of(dial.made[i].object, &facts) && !facts.links) {
			made = &dial.made[i];
			break;
		}
	if (dial.count++ >= MOST_SOCKETS)
		close_fd(made->object);
	facts_of(object, &facts);
	*made = (struct made){device_of(&facts), facts.inode, own.inode, object, number_of(fd, SO_TYPE_), 0};
}

static struct made *find_made(const struct facts *facts)
{
	for (uint32_t i = 0; i < MOST_SOCKETS && i < dial.count; i++)
		if (dial.made[i].device == device_of(facts) && dial.made[i].inode == facts->inode)
			return &dial.made[i];
	return NULL;
}

struct exact {
	uint16_t family;
	char path[46];
};

/* The name of what we hold. */
static struct exact name_of(long object)
{
	struct exact exact = {.family = AF_UNIX_};

	own_path(exact.path, object);
	return exact;
}

/* Whether one who has connected by what is held has come to this socket: its name is known to nobody else. It is long: who has
 * wardens of two runs try again and again would see two short ones be the same, as those are that the kernel gives. */
static int has_come(long own, long fd)
{
	static const int64_t often[4] = {0, 2000, 0, 2000}, never[4] = {0, 0, 0, 0}; /* as of connect_briefly */
	union place ours, theirs;
	uint32_t size = sizeof(ours), other = sizeof(theirs);
	long accepted, answer = CALL(setitimer, 0, P(often), 0, 0, 0);

	if (answer)
		return 0;
	accepted = CALL(accept4, fd, P(&theirs), P(&other), O_CLOEXEC, 0);
	CALL(setitimer, 0, P(never), 0, 0, 0);
	return accepted >= 0 && !CALL(getsockname, own, P(&ours), P(&size), 0, 0) && size == other && same_bytes(ours.bytes, theirs.bytes, size);
}

/* A socket listens from now on: is what was remembered of its name its own? Only what is can be connected to, by the
 * caller's own socket: through that somebody could say something to a stranger, and hand descriptors over, before it is known
 * who listens. So one of ours connects first, and is accepted before anybody else can be. */
static void prove(long fd)
{
	struct {
		uint16_t family;
		char secret[17]; /* the first byte is 0: it is the name of nothing in a directory */
	} name = {.family = AF_UNIX_};
	struct facts facts, own;
	struct exact exact;
	struct made *made = dial.made;
	long answer, link;

	if (number_of(fd, SO_DOMAIN_) != AF_UNIX_ || facts_of(fd, &own))
		return;
	while (made < dial.made + MOST_SOCKETS && made->socket != own.inode)
		made++;
	if (made == dial.made + MOST_SOCKETS || made->is_proven)
		return;
	exact = name_of(made->object);
	link = CALL(socket, AF_UNIX_, made->type | O_CLOEXEC | O_NONBLOCK, 0, 0, 0);
	answer = CALL(getrandom, P(name.secret + 1), 16, 1 /* GRND_NONBLOCK */, 0, 0) == 16 ? 0 : -EAGAIN_;
	if (!answer)
		answer = CALL(bind, link, P(&name), 2 + sizeof(name.secret), 0, 0);
	if (!answer)
		answer = CALL(connect, link, P(&exact), sizeof(exact), 0, 0);
	if (answer == -EACCES_ && !facts_of(made->object, &facts)) { /* nobody may connect yet, as dockerd begins */
		CALL(fchmodat, AT_FDCWD, P(exact.path), (facts.mode & 07777) | 0200, 0, 0);
		answer = CALL(connect, link, P(&exact), sizeof(exact), 0, 0);
		CALL(fchmodat, AT_FDCWD, P(exact.path), facts.mode & 07777, 0, 0);
	}
	made->is_proven = !answer && has_come(link, fd);
}

/* Connect to a unix socket by the object itself. Never waits. */
static long connect_object(long fd, long object)
{
	const struct exact exact = name_of(object);

	return connect_now(fd, &exact, sizeof(exact));
}

/* What has become of a connection that was waited for; -EINPROGRESS when it still is. */
static long finish_connection(struct connecting *wait)
{
	struct polled watched = {(int)wait->fd, POLLOUT_, 0};
	int64_t time[2] = {0, 0};
	int error = 0;
	long answer;

	if (wait->object >= 0) {
		answer = connect_object(wait->fd, wait->object);
		return must_wait(answer) ? -EINPROGRESS_ : answer;
	}
	if (!CALL(ppoll, P(&watched), 1, P(time), 0, 8))
		return -EINPROGRESS_;
	answer = option(wait->fd, SOL_SOCKET_, SO_ERROR_, &error, sizeof(error));
	return answer ? answer : -error;
}

static void look_after_connections(void)
{
	for (int i = 0; i < MOST_CONNECTING && dial.waiting; i++) {
		struct connecting *wait = &dial.waits[i];
		struct seccomp_notif notice = {.id = wait->id};
		struct asked asked = {&notice, wait->thread, 0, 0, 0, 0};
		long answer = 0;

		if (!wait->id)
			continue;
		if (still_waits(&asked)) {
			answer = finish_connection(wait);
			if (answer == -EINPROGRESS_ && (broker.turn + (uint32_t)i) % 8 == 0 && is_signalled(&asked))
				answer = -RESTART;
			if (answer == -EINPROGRESS_)
				continue;
		}
		close_fd(wait->fd);
		if (wait->object >= 0)
			close_fd(wait->object);
		answer_by(&asked, answer, 0);
		wait->id = 0;
		dial.waiting--;
	}
}

/* A unix socket by path. The run's own is reached, and one of the host's only where the plan put it: a mount of its own,
 * that may be written. It is connected by the object that was judged. */
static long connect_path(struct asked *asked, long fd, const char *path)
{
	struct {
		int64_t type, size, blocks, free, available, files, free_files, id, name, fragment, flags, spare[4];
	} mount;
	const struct made *made = NULL;
	struct facts facts;
	struct spot spot;
	long follow, answer, found = -1;

	put_text(first.path, path);
	first.base = open_base(asked, AT_FDCWD);
	answer = first.base < 0 ? first.base : still_waits(asked) ? 0 : -ESRCH_;
	if (!answer)
		answer = find_spot(asked, first.base, first.path, &spot);
	if (!answer)
		answer = follow_all(asked, &spot, &follow);
	if (!answer && follow)
		answer = -EACCES_; /* a link of /proc to something without a name */
	if (!answer)
		answer = found = CALL(openat, spot.directory, P(spot.name), O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0);
	if (answer >= 0)
		answer = facts_of(found, &facts);
	if (!answer && (facts.mode & TYPE_MASK) != SOCKET_)
		answer = -ECONNREFUSED_;
	if (!answer)
		answer = CALL(fstatfs, found, P(&mount), 0, 0, 0);
	if (!answer && !(facts.attributes & MOUNT_ROOT))
		made = find_made(&facts);
	if (!answer && (mount.flags & READ_ONLY_MOUNT || !(facts.attributes & MOUNT_ROOT || made)))
		answer = -EACCES_;
	if (!answer && made && made->type != number_of(fd, SO_TYPE_))
		answer = -EPROTOTYPE_;
	if (!answer && made && made->type != DATAGRAM_ && !made->is_proven)
		answer = -ECONNREFUSED_; /* nobody listens yet */
	found = made ? made->object : found;
	if (!answer)
		answer = connect_object(fd, found);
	if (!must_wait(answer) || CALL(fcntl, fd, F_GETFL, 0, 0, 0) & O_NONBLOCK)
		return answer;
	return connect_later(asked, fd, found);
}

#endif
