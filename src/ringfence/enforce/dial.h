/* Connections, judged one by one. The warden takes the caller's own socket and connects it, where that leads nowhere but
 * into the run: its loopback, and unix sockets that stand where the run may write. For what lies outside it asks the
 * gate, which judges, resolves and dials, and hands a socket of the host's network in: it takes the place of the
 * caller's, and no byte passes us afterwards.
 *
 * Such a socket must not become anything else: it is not disconnected, bound or made to listen.
 */
#ifndef RINGFENCE_DIAL_H
#define RINGFENCE_DIAL_H

#include "mail.h"
#include "ready.h"

/* With bubblewrap nobody may open the port for names. Who connects to it is led to the one that could be opened. */
enum { NAMES = 53 << 8, LED = (1053 & 255) << 8 | 1053 >> 8 };

/* ---- Outside ---- */

static int is_loopback(const union place *place)
{
	const uint8_t *at = place->six.address;
	int zeros = 0;

	if (place->family == AF_INET_)
		return place->four.address[0] == 127 || !place->four.address[0];
	while (zeros < 16 && !at[zeros])
		zeros++;
	if (zeros == 16 || (zeros == 15 && at[15] == 1))
		return 1;
	return zeros == 10 && at[10] == 0xff && at[11] == 0xff && (at[12] == 127 || !at[12]);
}

/* The flags of one of its descriptors: whether it survives exec. */
static long is_kept(const struct asked *asked, uint64_t number)
{
	char path[64], text[128];
	long fd, size;

	put_number(proc_path(path, asked->thread, "/fdinfo/"), number);
	fd = CALL(openat, AT_FDCWD, P(path), O_RDONLY | O_CLOEXEC, 0, 0);
	size = fd < 0 ? fd : CALL(read, fd, P(text), sizeof(text), 0, 0);
	for (long i = 0; i + 7 < size; i++)
		if (same_bytes(text + i, "flags:\t", 7)) {
			uint64_t flags = 0;

			for (i += 7; i < size && text[i] >= '0' && text[i] <= '7'; i++)
				flags = flags * 8 + (uint64_t)(text[i] - '0');
			return !(flags & O_CLOEXEC);
		}
	return size < 0 ? size : -E_PROTO;
}

/* Ask the gate. The caller waits; the answer comes in its time. */
static long ask_gate(struct asked *asked, uint64_t number, long fd, const union place *place)
{
	struct question question = {.id = asked->notice->id, .fd = (int32_t)number, .family = place->family};
	char program[64];
	long answer, process, kept = is_kept(asked, number), flags = CALL(fcntl, fd, F_GETFL, 0, 0, 0);
	int slot = 0;

	if (dial.gate < 0)
		return -ENETDOWN_;
	if (kept < 0 || flags < 0)
		return kept < 0 ? kept : flags;
	question.flags = (flags & O_NONBLOCK ? NONBLOCK : 0) | (kept ? 0 : CLOEXEC);
	question.port = place->four.port; /* at the same place in both */
	for (int i = 0; i < 16; i++)
		question.address[i] = place->family == AF_INET6_ ? place->six.address[i] : i < 4 ? place->four.address[i] : 0;
	process = process_of(asked);
	question.pid = process < 0 ? asked->thread : (uint32_t)process;
	proc_path(program, asked->thread, "/exe");
	CALL(readlinkat, AT_FDCWD, P(program), P(question.program), sizeof(question.program), 0);
	while (slot < MOST_PENDING && dial.pending[slot].id)
		slot++;
	if (slot == MOST_PENDING)
		return -EAGAIN_;
	answer = call6(__NR_sendto, GATE_AT, P(&question), sizeof(question), 0x4040 /* MSG_NOSIGNAL | MSG_DONTWAIT */, 0, 0);
	if (answer != sizeof(question))
		return -ENETDOWN_;
	dial.pending[slot].id = question.id;
	dial.pending[slot].thread = asked->thread;
	dial.asked++;
	return ANSWERED;
}

/* What a program may have set on its socket before it connected. */
static void copy_options(long from, long to)
{
	static const struct {
		uint8_t level, name;
	} options[] = {
		{1, 9 /* SO_KEEPALIVE */}, {1, 10 /* SO_OOBINLINE */}, {1, 13 /* SO_LINGER */}, {1, 12 /* SO_PRIORITY */},
		{1, 20 /* SO_RCVTIMEO */}, {1, 21 /* SO_SNDTIMEO */}, {6, 1 /* TCP_NODELAY */}, {6, 3 /* TCP_CORK */},
		{6, 4 /* TCP_KEEPIDLE */}, {6, 5 /* TCP_KEEPINTVL */}, {6, 6 /* TCP_KEEPCNT */}, {6, 18 /* TCP_USER_TIMEOUT */},
	};
	uint64_t value[2];

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		uint32_t size = sizeof(value);

		if (!call6(__NR_getsockopt, from, options[i].level, options[i].name, P(value), P(&size), 0))
			CALL(setsockopt, to, options[i].level, options[i].name, P(value), size);
	}
}

/* Put a socket that was dialled in the place of the caller's. */
static long hand_in(struct asked *asked, const struct reply *reply, long fd)
{
	struct seccomp_notif_addfd given = {
		.id = reply->id,
		.flags = SECCOMP_ADDFD_FLAG_SETFD,
		.srcfd = (uint32_t)fd,
		.newfd = (uint32_t)reply->fd,
		.newfd_flags = reply->flags & CLOEXEC ? O_CLOEXEC : 0,
	};
	long answer, old = take_descriptor(asked, (uint64_t)reply->fd);

	if (old < 0)
		return old;
	copy_options(old, fd);
	answer = CALL(fcntl, fd, F_SETFL, reply->flags & NONBLOCK ? O_NONBLOCK : 0, 0, 0);
	if (!answer)
		answer = CALL(ioctl, LISTENER, SECCOMP_IOCTL_NOTIF_ADDFD, P(&given), 0, 0);
	if (answer >= 0)
		wait_again(asked, (uint64_t)reply->fd, old, fd);
	close_fd(old); /* the last of it: before its owner goes on, it is in no set any more */
	return answer < 0 ? answer : reply->flags & NONBLOCK ? -EINPROGRESS_ : 0;
}

/* The gate is gone: whoever waits for it gets nothing, and neither does anybody later. */
static void lose_gate(void)
{
	dial.gate = -1;
	for (int i = 0; i < MOST_PENDING; i++) {
		struct seccomp_notif notice = {.id = dial.pending[i].id};
		struct asked asked = {&notice, dial.pending[i].thread, 0, 0, 0, 0};

		if (notice.id)
			answer_by(&asked, -ENETDOWN_, 0);
		dial.pending[i].id = 0;
	}
	dial.asked = 0;
}

/* A socket of the run's own network, for the gate: what comes to a forwarded port is connected to the run by it. */
static void give_socket(void)
{
	struct question question = {.id = ~0UL};
	struct mail mail;
	long fd = CALL(socket, AF_INET_, STREAM_ | O_CLOEXEC, 0, 0, 0);

	address(&mail, &question, sizeof(question), 1);
	mail.given.fds[0] = (int32_t)fd;
	if (fd < 0)
		mail.message.control_size = 0;
	CALL(sendmsg, GATE_AT, P(&mail.message), 0x4040 /* MSG_NOSIGNAL | MSG_DONTWAIT */, 0, 0);
}

/* An answer of the gate's, or its wish for a socket. */
static void hear_gate(void)
{
	struct reply reply;
	struct mail mail;
	long answer;
	int slot = 0;

	address(&mail, &reply, sizeof(reply), 1);
	answer = fetch_mail(GATE_AT, &mail);
	if (answer != sizeof(reply) || !reply.id) {
		if (answer != -EINTR_ && answer != -EAGAIN_)
			lose_gate();
		return;
	}
	while (slot < MOST_PENDING && dial.pending[slot].id != reply.id)
		slot++;
	if (reply.id == ~0UL)
		give_socket();
	else if (slot < MOST_PENDING) {
		struct seccomp_notif notice = {.id = reply.id};
		struct asked asked = {&notice, dial.pending[slot].thread, 0, 0, 0, 0};

		dial.pending[slot].id = 0;
		dial.asked--;
		answer = reply.error ? -reply.error : has_enclosed(&mail, 1) ? hand_in(&asked, &reply, mail.given.fds[0]) : -ENETDOWN_;
		answer_by(&asked, answer, 0);
	}
	CALL(close_range, FIRST_FREE, HELD_FROM - 1, 0, 0, 0);
}

/* ---- The calls ---- */

static long fetch_place(const struct asked *asked, uint64_t address, uint64_t size, union place *place)
{
	struct {
		void *base;
		size_t size;
	} here = {place->bytes, size}, there = {(void *)(uintptr_t)address, size};

	if (size < 2 || size > NAME_BYTES)
		return -E_INVAL;
	if (call6(__NR_process_vm_readv, asked->thread, P(&here), 1, P(&there), 1, 0) != (long)size)
		return -EFAULT_;
	place->bytes[size] = 0;
	return 0;
}

/* What a socket that was handed in answers to connect(): it has been used, and becomes nothing else. 0: its connection
 * failed, and it may be dialled for again. */
static long connect_again(long fd, const union place *place)
{
	uint8_t state = 0;
	long answer = option(fd, 6 /* TCP */, 11 /* TCP_INFO */, &state, sizeof(state));

	if (answer)
		return answer;
	if (!place->family)
		return -E_INVAL;
	return state == ESTABLISHED ? -EISCONN_ : state == SYN_SENT ? -EALREADY_ : 0;
}

static long do_connect(struct asked *asked, uint64_t number, uint64_t address, uint64_t size)
{
	static union place place;
	long fd, answer = fetch_place(asked, address, size, &place);
	int domain, is_named;

	if (answer)
		return answer;
	fd = take_descriptor(asked, number);
	if (fd < 0)
		return fd;
	domain = number_of(fd, SO_DOMAIN_);
	if (domain == AF_UNIX_ && place.family == AF_UNIX_ && size > 2 && place.bytes[2])
		return connect_path(asked, fd, place.bytes + 2);
	if (domain == AF_UNIX_ && place.family == AF_UNIX_ && size > 2 && !dial.is_apart)
		return -E_PERM; /* as the scope answers */
	if (dial.leads && (place.family == AF_INET_ || place.family == AF_INET6_) && is_loopback(&place) && place.four.port == NAMES)
		place.four.port = LED;
	if ((domain != AF_INET_ && domain != AF_INET6_) || number_of(fd, SO_TYPE_) != STREAM_)
		return connect_here(asked, fd, &place, size);
	answer = is_outside(fd) ? connect_again(fd, &place) : 0;
	if (answer)
		return answer;
	is_named = domain == place.family && size >= (domain == AF_INET_ ? 16 : 24);
	if (is_named && !is_loopback(&place) && dial.cookie)
		return ask_gate(asked, number, fd, &place);
	return is_outside(fd) ? -E_INVAL : connect_here(asked, fd, &place, size);
}

static long do_listening(struct asked *asked, uint64_t number, uint64_t backlog)
{
	long answer, fd = take_descriptor(asked, number);

	if (fd < 0)
		return fd;
	answer = is_outside(fd) ? -EOPNOTSUPP_ : CALL(listen, fd, backlog, 0, 0, 0);
	if (!answer)
		prove(fd);
	return answer;
}

#endif
