/* Opening for somebody else: what is there already, what is made, and what must be waited for. Part of the broker. */
#ifndef RINGFENCE_OPENING_H
#define RINGFENCE_OPENING_H

#include "handing.h"

enum { AT_REMOVEDIR_ = 0x200, AT_SYMLINK_FOLLOW_ = 0x400, EXCHANGE = 2 };
enum { MOST_WAITS = 64 };
enum { RESTART = 512 /* ERESTARTSYS: begin anew after the signal, or EINTR, as its handler says */ };

/* Somebody who waits for the other end of a named pipe. */
static struct {
	struct wait {
		uint64_t id, flags; /* of the call; an id of 0 is nobody */
		uint32_t thread;
		long pipe; /* held; for reading, our own reading end, so that a writer finds one */
	} waits[MOST_WAITS];
	uint32_t count, turn;
} broker;

/* Open the pipe that is held, if that can be done without waiting: 0 is to try again later. */
static long open_pipe(struct wait *wait, const struct asked *asked)
{
	const uint64_t flags = wait->flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	const int reads = (wait->flags & O_ACCMODE) == O_RDONLY;
	struct polled polled = {(int)wait->pipe, POLLIN_, 0};
	int64_t time[2] = {0, 0};
	char path[40];
	long fd = wait->pipe;

	/* One who has come and written nothing shows in a read alone: it is told to wait, or that it has no room, and takes nothing. */
	if (reads && !CALL(ppoll, P(&polled), 1, P(time), 0, 8) && !CALL(read, wait->pipe, 0, 1, 0, 0))
		return 0;
	if (!reads) {
		own_path(path, wait->pipe);
		fd = CALL(openat, AT_FDCWD, P(path), flags, 0, 0);
	}
	if (fd == -ENXIO_)
		return 0;
	if (fd < 0)
		return fd;
	CALL(fcntl, fd, F_SETFL, wait->flags, 0, 0);
	return answer_with(asked, fd, wait->flags);
}

static long wait_on_pipe(const struct asked *asked, long fd, uint64_t flags);

/* A named pipe has two ends, and an open waits for the other one. We do not wait: we try, and try again from time to
 * time. */
static long wait_for_pipe(const struct asked *asked, long directory, const char *name, uint64_t flags)
{
	const int reads = (flags & O_ACCMODE) == O_RDONLY;
	char path[40];
	long fd;

	fd = CALL(openat, directory, P(name), O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW), 0, 0);
	flags &= ~(uint64_t)O_NOFOLLOW;
	if (fd >= 0 && reads) {
		own_path(path, fd);
		fd = CALL(openat, AT_FDCWD, P(path), flags | O_NONBLOCK | O_CLOEXEC, 0, 0);
	}
	return fd < 0 ? fd : wait_on_pipe(asked, fd, flags);
}

static long wait_on_pipe(const struct asked *asked, long fd, uint64_t flags)
{
	struct wait *wait = broker.waits;
	long answer;

	while (wait < broker.waits + MOST_WAITS && wait->id)
		wait++;
	if (wait == broker.waits + MOST_WAITS)
		return -EAGAIN_;
	*wait = (struct wait){0, flags, asked->thread, fd};
	answer = open_pipe(wait, asked);
	if (answer)
		return answer;
	wait->pipe = CALL(fcntl, fd, F_DUPFD_CLOEXEC, HELD_FROM, 0, 0);
	if (wait->pipe < 0)
		return -EAGAIN_;
	wait->id = asked->notice->id;
	broker.count++;
	return ANSWERED;
}

/* Whether a signal waits for somebody who would take it. */
static int is_signalled(const struct asked *asked)
{
	static const char *const labels[] = {"SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:"};
	struct status status;
	long sets[4];

	if (read_status(asked, &status))
		return 0;
	for (int i = 0; i < 4; i++) {
		sets[i] = number_in(&status, labels[i], 16);
		if (sets[i] < 0)
			return 0;
	}
	return ((sets[0] | sets[1]) & ~sets[2] & ~sets[3]) != 0;
}

/* From time to time: is there another end now, has somebody a signal to take, or does nobody wait any more? */
static void look_after_waits(void)
{
	broker.turn++;
	for (int i = 0; i < MOST_WAITS; i++) {
		struct wait *wait = &broker.waits[i];
		struct seccomp_notif notice = {.id = wait->id};
		struct asked asked = {&notice, wait->thread, 0, 0, 0, 0};
		long answer = ANSWERED;

		if (!wait->id)
			continue;
		if (still_waits(&asked)) {
			answer = open_pipe(wait, &asked);
			if (!answer && broker.turn % 8 == 0 && is_signalled(&asked))
				answer = -RESTART;
			if (!answer)
				continue;
		}
		if (answer != ANSWERED)
			answer_by(&asked, answer, 0);
		close_fd(wait->pipe);
		wait->id = 0;
		broker.count--;
	}
	CALL(close_range, FIRST_FREE, HELD_FROM - 1, 0, 0, 0);
}

/* One of its descriptors, as ours: of the thread itself, which may have descriptors of its own, or be all that is left of
 * its process. Before 6.9 only a process can be named. */
static long take_descriptor(struct asked *asked, uint64_t number)
{
	long fd, pidfd = CALL(pidfd_open, asked->thread, O_EXCL /* PIDFD_THREAD */, 0, 0, 0);

	if (pidfd == -E_INVAL) {
		long process = process_of(asked);

		pidfd = process < 0 ? process : CALL(pidfd_open, process, 0, 0, 0, 0);
	}
	fd = pidfd < 0 ? pidfd : CALL(pidfd_getfd, pidfd, number, 0, 0, 0);
	return fd < 0 || still_waits(asked) ? fd : -ESRCH_;
}

/* The terminal of its session, among those of the run: 0 is none. */
static long name_terminal(const struct asked *asked, char *into)
{
	struct status stat;
	uint64_t number = 0;
	long at, spaces = 0;

	if (read_own(asked, "/stat", &stat))
		return 0;
	for (at = stat.size; at > 0 && stat.text[at - 1] != ')'; at--)
		; /* the name before it may hold anything */
	for (; at < stat.size && spaces < 5; at++)
		spaces += stat.text[at] == ' ';
	for (; at < stat.size && digit_of(stat.text[at]) <= 9; at++)
		number = number * 10 + (unsigned)digit_of(stat.text[at]);
	put_number(put_text(into, "/dev/pts/"), (number & 0xff) | (number >> 12 & 0xfff00));
	return (number >> 8 & 0xfff) == 136;
}

/* /dev/tty is the terminal of whoever opens it, and that is not ours: give it the one it holds, or that of its session. */
static long open_terminal(struct asked *asked, uint64_t flags)
{
	char path[40];
	uint64_t number = 0;
	long fd;

	for (; number <= 2; number++) {
		fd = take_descriptor(asked, number);
		if (fd < 0 || !is_terminal(fd))
			continue;
		own_path(path, fd);
		break;
	}
	if (number > 2 && !name_terminal(asked, path))
		return -ENXIO_;
	fd = CALL(openat, AT_FDCWD, P(path), (flags & ~(uint64_t)O_NOFOLLOW) | O_NOCTTY | O_CLOEXEC, 0, 0);
	return fd < 0 ? fd : answer_with(asked, fd, flags);
}

static uint32_t access_of(uint64_t flags)
{
	uint32_t reads = (flags & O_ACCMODE) != O_WRONLY ? READS : 0;

	return reads | ((flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC ? WRITES : 0U);
}

/* Whether a pipe was given to the command for reading alone. By its link in /proc it could be written to, and who reads on
 * after the run, outside, would take that for his input. */
static int is_input(const struct facts *facts)
{
	int found = 0;

	for (int fd = 0; fd <= 2; fd++)
		found |= inputs.inodes[fd] == facts->inode && inputs.device == device_of(facts);
	return found;
}

/* Something that is there already: of each type as an open would, but for the waiting. */
static long open_existing(struct asked *asked, long directory, const char *name, const struct facts *facts, uint64_t flags)
{
	uint32_t type = facts->mode & TYPE_MASK;
	long fd;

	if (type == DIRECTORY_ && flags & O_CREAT)
		return -EISDIR_;
	flags &= ~(uint64_t)O_CREAT;
	if (type == SOCKET_)
		return -ENXIO_;
	if (type == FIFO && access_of(flags) & WRITES && is_input(facts))
		return -EACCES_;
	if (type == CHARACTER && facts->rdev_major == 5 && facts->rdev_minor == 0)
		return open_terminal(asked, flags);
	if (type == FIFO && !(flags & O_NONBLOCK) && (flags & O_ACCMODE) != O_RDWR)
		return wait_for_pipe(asked, directory, name, flags);
	fd = CALL(openat, directory, P(name), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0, 0);
	if (fd >= 0 && !(flags & O_NONBLOCK))
		CALL(fcntl, fd, F_SETFL, flags, 0, 0);
	return fd < 0 ? fd : answer_with(asked, fd, flags);
}

/* What a link in its own part of /proc leads to. It is held before it is looked at, and opened by what is held: the one
 * who asks can put another file behind the link at any moment, ours for example. */
static long open_held(struct asked *asked, const struct spot *spot, uint64_t flags)
{
	char path[40];
	struct facts facts;
	long fd, answer = check_own_proc(asked, spot->directory);

	if (answer)
		return answer;
	fd = CALL(openat, spot->directory, P(spot->name), O_PATH | O_CLOEXEC, 0, 0);
	answer = fd < 0 ? fd : facts_of(fd, &facts);
	if (!answer && is_in_proc(fd, &facts))
		answer = check_own_proc(asked, fd);
	if (!answer)
		answer = judge_object(asked, fd, access_of(flags));
	if (answer)
		return answer;
	own_path(path, fd);
	return open_existing(asked, AT_FDCWD, path, &facts, flags);
}

/* Follow the link that a spot is, to another spot. */
static long follow_last(struct asked *asked, long link, struct spot *spot)
{
	long size = CALL(readlinkat, link, P(""), P(first.path), PATH_MOST - 1, 0);

	if (size <= 0)
		return size < 0 ? size : -E_NOENT;
	first.path[size] = 0;
	return find_spot(asked, spot->directory, first.path, spot);
}

/* A directory by a path that says that it is one: by a slash at its end, or by dots. */
static long open_directory(struct asked *asked, uint64_t flags)
{
	char own[40];
	struct facts facts;
	long fd = walk(asked, first.base, first.path), answer = fd < 0 ? fd : facts_of(fd, &facts);

	if (!answer && is_in_proc(fd, &facts))
		answer = check_seen_proc(asked, fd);
	if (!answer)
		answer = judge_object(asked, fd, access_of(flags));
	if (answer)
		return answer;
	own_path(own, fd);
	return open_existing(asked, AT_FDCWD, own, &facts, flags & ~(uint64_t)(O_NOFOLLOW | O_CREAT));
}

/* A link in /proc: one to an object is held; those at its root are texts, and "self" means whoever asks. */
static long follow_in_proc(struct asked *asked, long link, struct spot *spot, uint64_t flags)
{
	struct facts above;
	long answer = facts_of(spot->directory, &above);

	if (answer || above.inode != PROC_ROOT)
		return answer ? answer : open_held(asked, spot, flags);
	if (!is_word(spot->name, spot->length, "self") && !is_word(spot->name, spot->length, "thread-self"))
		return follow_last(asked, link, spot);
	first.base = spot->directory;
	put_text(first.path, spot->name);
	return open_directory(asked, flags);
}

/* Open what is at a spot, or follow it if it is a link. 0 is to look again: to follow, or to make what is not there. */
static long open_or_follow(struct asked *asked, struct spot *spot, uint64_t flags)
{
	char number[24];
	struct facts facts;
	long link = CALL(openat, spot->directory, P(spot->name), O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0);
	long answer = link < 0 ? link : facts_of(link, &facts);

	const long gone = flags & O_CREAT ? 0 : -E_NOENT;

	if (answer)
		return answer == -E_NOENT ? gone : answer;
	if ((facts.mode & TYPE_MASK) == SYMLINK_) {
		if (flags & O_NOFOLLOW)
			return -E_LOOP;
		return device_of(&facts) == born.proc ? follow_in_proc(asked, link, spot, flags) : follow_last(asked, link, spot);
	}
	if (is_in_proc(link, &facts)) {
		let_go(); /* libnuma and its like learn there where they may run */
		answer = flags & O_CREAT ? check_own_proc(asked, link) : check_seen_proc(asked, link);
	}
	if (!answer)
		answer = judge_spot(asked, spot, access_of(flags));
	/* By what is held: that follows no link, and the flag that says so would stay with what is opened. */
	put_number(number, (uint64_t)link);
	if (!answer)
		answer = flags & O_NOFOLLOW ? open_existing(asked, spot->directory, spot->name, &facts, flags)
					    : open_existing(asked, OWN_AT, number, &facts, flags);
	return answer == -E_NOENT ? gone : answer; /* gone meanwhile */
}

/* A new file whose name is in no row may stand in any directory, so nobody need know in which: it is made in one call,
 * by a path without links. Most files are made so; every failure is left to the long way. */
static long make_unheard_of(const struct asked *asked, uint64_t directory, const char *path, uint64_t flags, uint64_t mode)
{
	struct open_how how = {.flags = flags | O_CREAT | O_EXCL | O_CLOEXEC, .mode = mode & 07777,
			       .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	const char *name = path, *end = path;
	char own[64 + NAME_MOST];
	long base, fd;

	for (; *end; end++)
		if (*end == '/')
			name = end + 1;
	if (name == end || end - name > NAME_MOST || is_any_row(name, (uint32_t)(end - name)))
		return -E_INVAL;
	if (*path == '/')
		return CALL(openat2, AT_FDCWD, P(path), P(&how), sizeof(how), 0);
	if (name == path && ((int32_t)directory >= 0 || (int32_t)directory == AT_FDCWD)) {
		base = base_path(asked, (int32_t)directory, own);
		put_text(put_text(own + length_of(own), "/"), name);
		return CALL(openat, base, P(own), how.flags, how.mode, 0);
	}
	base = open_base(asked, (int32_t)directory);
	if (base < 0)
		return base;
	fd = CALL(openat2, base, P(path), P(&how), sizeof(how), 0);
	close_fd(base);
	return fd;
}

/* Something that is there. */
static long open_plainly(struct asked *asked, uint64_t flags)
{
	struct spot spot;
	long answer, end = 0;

	while (first.path[end])
		end++;
	if (first.path[end - 1] == '/' || is_dots(first.path, end))
		return open_directory(asked, flags);
	answer = find_spot(asked, first.base, first.path, &spot);
	for (int round = 0; !answer; round++) {
		if (round > LINKS_MOST)
			return -E_LOOP;
		if (spot.name[spot.length] || is_dots(spot.name, (long)spot.length)) {
			put_text(first.path, spot.name);
			first.base = spot.directory;
			return open_directory(asked, flags);
		}
		answer = open_or_follow(asked, &spot, flags);
	}
	return answer;
}

/* What may be made, or is there already. */
static long open_or_make(struct asked *asked, struct spot *spot, uint64_t flags, uint64_t mode)
{
	const uint64_t made = flags | O_CREAT | O_EXCL | O_CLOEXEC; /* that follows no link */
	long answer = 0;

	for (int round = 0; !answer; round++) {
		struct facts facts;

		if (round > LINKS_MOST)
			return -E_LOOP;
		if (spot->name[spot->length] || is_dots(spot->name, (long)spot->length))
			return flags & O_EXCL ? -EEXIST_ : -EISDIR_;
		/* A link that stands there leads elsewhere, and what is there and only read is not made. */
		if (is_judged() && !(flags & O_EXCL) &&
		    !CALL(statx, spot->directory, P(spot->name), AT_SYMLINK_NOFOLLOW, STATX_BASIC, P(&facts)) &&
		    ((facts.mode & TYPE_MASK) == SYMLINK_ || access_of(flags) == READS)) {
			answer = open_or_follow(asked, spot, flags);
			continue;
		}
		answer = permit(asked, spot, MAKES, ANY_BUT_DENY);
		if (!answer)
			answer = CALL(openat, spot->directory, P(spot->name), made, mode & 07777, 0);
		if (answer >= 0)
			return answer_with_new(asked, answer, flags, mode);
		if (answer == -EEXIST_ && !(flags & O_EXCL))
			answer = open_or_follow(asked, spot, flags);
	}
	return answer;
}

#endif
