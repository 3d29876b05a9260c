/* Connections into the run itself: its loopback, and unix sockets. Made on a copy of the caller's socket, without waiting.
 *
 * Part of the warden, with dial.h, which has what leads outside.
 */
#ifndef RINGFENCE_REACH_H
#define RINGFENCE_REACH_H

#include "paths.h"

enum { EISCONN_ = 106, EALREADY_ = 114, EINPROGRESS_ = 115, ENETDOWN_ = 100, ECONNREFUSED_ = 111 };
enum { AF_UNIX_ = 1, AF_INET_ = 2, AF_INET6_ = 10, STREAM_ = 1, DATAGRAM_ = 2, ESTABLISHED = 1, SYN_SENT = 2, POLLOUT_ = 4 };
enum { SOL_SOCKET_ = 1, SO_TYPE_ = 3, SO_ERROR_ = 4, SO_SNDTIMEO_ = 21, SO_DOMAIN_ = 39, SO_NETNS_COOKIE_ = 71 };
enum { SO_PEERCRED_ = 17, SO_PEERNAME_ = 28, SO_ACCEPTCONN_ = 30, MOUNT_ROOT = 0x2000, MOST_SOCKETS = 4096, MOST_CONNECTING = 64 };
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
	struct {
		uint64_t id; /* 0 is free */
		uint32_t thread;
	} pending[MOST_PENDING];
	uint32_t asked; /* of them */
	struct {
		uint64_t device, inode;
	} made[MOST_SOCKETS]; /* the unix sockets of the run, by the names it bound */
	uint32_t count;
	struct connecting {
		uint64_t id; /* 0 is nobody */
		uint32_t thread;
		uint64_t number; /* of its socket, among its own descriptors */
		long fd, object; /* the socket, and of a unix socket what it connects to */
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
static long connect_later(const struct asked *asked, uint64_t number, long fd, long object)
{
	struct connecting *wait = dial.waits;

	while (wait < dial.waits + MOST_CONNECTING && wait->id)
		wait++;
	if (wait == dial.waits + MOST_CONNECTING)
		return -EAGAIN_;
	wait->fd = CALL(fcntl, fd, F_DUPFD_CLOEXEC, HELD_FROM, 0, 0);
	wait->object = object < 0 ? -1 : CALL(fcntl, object, F_DUPFD_CLOEXEC, HELD_FROM, 0, 0);
	if (wait->fd < 0 || (object >= 0 && wait->object < 0))
		return -EAGAIN_;
	wait->thread = asked->thread;
	wait->number = number;
	wait->id = asked->notice->id;
	dial.waiting++;
	return ANSWERED;
}

static int must_wait(long answer)
{
	return answer == -EINPROGRESS_ || answer == -EAGAIN_ || answer == -EALREADY_;
}

static long connect_here(const struct asked *asked, uint64_t number, long fd, const void *name, uint64_t size)
{
	long answer, flags = CALL(fcntl, fd, F_GETFL, 0, 0, 0);

	if (flags < 0)
		return flags;
	if (flags & O_NONBLOCK)
		return connect_briefly(fd, name, size);
	answer = connect_now(fd, name, size);
	return must_wait(answer) ? connect_later(asked, number, fd, -1) : answer;
}

/* A name was bound: the socket there is the run's own. */
static void remember(const struct spot *spot)
{
	struct facts facts;

	if (CALL(statx, spot->directory, P(spot->name), AT_SYMLINK_NOFOLLOW, STATX_BASIC, P(&facts)))
		return;
	dial.made[dial.count % MOST_SOCKETS].device = device_of(&facts);
	dial.made[dial.count % MOST_SOCKETS].inode = facts.inode;
	dial.count++;
}

static int is_made_here(const struct facts *facts)
{
	for (uint32_t i = 0; i < MOST_SOCKETS && i < dial.count; i++)
		if (dial.made[i].device == device_of(facts) && dial.made[i].inode == facts->inode)
			return 1;
	return 0;
}

/* Whether whoever listens is one of us: a number is soon another's when a socket is gone, and so is a name. */
static long check_peer(long fd)
{
	struct {
		int32_t pid;
		uint32_t uid, gid;
	} peer = {-1, 0, 0};

	return option(fd, SOL_SOCKET_, SO_PEERCRED_, &peer, sizeof(peer)) || peer.pid <= 0 ? -EACCES_ : 0;
}

#endif
