/* Sockets that somebody waits for already. Boost.Asio, nginx and Netty put a socket into their epoll sets before they
 * connect it. A set goes by the open file: what is handed in in a socket's place is put into the same sets, for the same
 * events and with the same data, as its owner would see them had nothing been replaced.
 *
 * Part of the warden, for dial.h. What cannot be found or done is left as it is: the socket is then in no set, and its
 * owner waits in vain. Nothing here lets anybody reach more.
 */
#ifndef RINGFENCE_READY_H
#define RINGFENCE_READY_H

#include "reach.h"
#include <linux/eventpoll.h>

enum { MOST_LISTED = 1024, MOST_SETS = 8, SET_BYTES = 1 << 16 };

static struct {
	int used; /* whether anybody has made an epoll set */
	char text[SET_BYTES];
} ready;

static int is_new_set(const struct seccomp_notif *notice)
{
#ifdef __NR_epoll_create
	if (notice->data.nr == __NR_epoll_create)
		return 1;
#endif
	return notice->data.nr == __NR_epoll_create1;
}

struct entry { /* as getdents64() writes it */
	uint64_t inode, offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

/* One place of a socket in a set. */
struct awaited {
	long set;
	struct epoll_event event;
};

/* The number behind a label in one line; -1 when there is none. */
static uint64_t labelled(const char *line, const char *end, const char *label, unsigned base)
{
	uint32_t length = (uint32_t)length_of(label);
	uint64_t number = 0;

	while (line + length < end && !same_bytes(line, label, length))
		line++;
	for (line += length; line < end && *line == ' '; line++)
		;
	if (line >= end || digit_of(*line) >= (int)base)
		return ~0UL;
	for (; line < end && digit_of(*line) < (int)base; line++)
		number = number * base + (unsigned)digit_of(*line);
	return number;
}

/* The place that a socket has in a set of the caller's; 0 when it has none. */
static int find_place(struct asked *asked, uint64_t set, uint64_t number, uint64_t inode, struct awaited *place)
{
	char path[64];
	long fd, size, got = 0;

	put_number(proc_path(path, asked->thread, "/fdinfo/"), set);
	fd = CALL(openat, AT_FDCWD, P(path), O_RDONLY | O_CLOEXEC, 0, 0);
	if (fd < 0)
		return 0;
	while (got < SET_BYTES && (size = CALL(read, fd, P(ready.text + got), SET_BYTES - got, 0, 0)) > 0)
		got += size;
	close_fd(fd); /* there may be hundreds of sets */
	for (const char *line = ready.text, *end; line < ready.text + got; line = end + 1) {
		for (end = line; end < ready.text + got && *end != '\n'; end++)
			;
		if (labelled(line, end, "tfd:", 10) != number || labelled(line, end, "ino:", 16) != inode)
			continue;
		place->event.events = (uint32_t)labelled(line, end, "events:", 16);
		place->event.data = labelled(line, end, "data:", 16);
		place->set = take_descriptor(asked, set);
		return place->set >= 0;
	}
	return 0;
}

/* The sets among the caller's descriptors in which a socket is. */
static int find_all(struct asked *asked, uint64_t number, uint64_t inode, struct awaited places[MOST_SETS])
{
	static const char kind[] = "anon_inode:[eventpoll]";
	char path[48], target[32], list[PAGE] __attribute__((aligned(8)));
	int count = 0, listed = 0;
	long directory, size;

	proc_path(path, asked->thread, "/fd");
	directory = CALL(openat, AT_FDCWD, P(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0);
	while (directory >= 0 && (size = CALL(getdents64, directory, P(list), sizeof(list), 0, 0)) > 0)
		for (long at = 0; at < size; at += ((struct entry *)(void *)(list + at))->size) {
			const char *name = ((struct entry *)(void *)(list + at))->name;

			if (++listed > MOST_LISTED || count == MOST_SETS)
				return count;
			if (CALL(readlinkat, directory, P(name), P(target), sizeof(target), 0) != sizeof(kind) - 1)
				continue;
			if (same_bytes(target, kind, sizeof(kind) - 1))
				count += find_place(asked, labelled(name, name + length_of(name), "", 10), number, inode, &places[count]);
		}
	return count;
}

/* Put what was handed in into the sets in which the old one is. A set knows its sockets by file and number, so ours has
 * for a moment the number that its owner's has. It goes last: what we have open at that number is closed by it. */
static void wait_again(struct asked *asked, uint64_t number, long old, long fd)
{
	struct awaited places[MOST_SETS];
	struct facts facts;
	int count = 0;
	long held;

	if (ready.used && number >= FIRST_FREE && !facts_of(old, &facts))
		count = find_all(asked, number, facts.inode, places);
	if (!count)
		return;
	held = CALL(fcntl, fd, F_DUPFD_CLOEXEC, HELD_FROM, 0, 0);
	for (int i = 0; i < count; i++)
		places[i].set = CALL(fcntl, places[i].set, F_DUPFD_CLOEXEC, HELD_FROM, 0, 0);
	if (number < HELD_FROM || CALL(fcntl, number, F_GETFD, 0, 0, 0) == -E_BADF) {
		CALL(dup3, held, number, O_CLOEXEC, 0, 0);
		for (int i = 0; i < count; i++)
			CALL(epoll_ctl, places[i].set, EPOLL_CTL_ADD, number, P(&places[i].event), 0);
		close_fd((long)number);
	}
	for (int i = 0; i < count; i++)
		close_fd(places[i].set);
	close_fd(held);
}

#endif
