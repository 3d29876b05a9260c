/* Whoever waits in a call: what can be learnt of it.
 *
 * Everything learnt by its number is made sure of afterwards: a number may be another's by then, a waiting call not.
 * Nothing here closes what it opened, but for the walk, which may be long: after each call all that is new is closed at
 * once.
 */
#ifndef RINGFENCE_ASKER_H
#define RINGFENCE_ASKER_H

#include "format.h"
#include <linux/ioctl.h>

enum { EROFS_ = 30, EACCES_ = 13, EBUSY_ = 16, EEXIST_ = 17, EXDEV_ = 18, EISDIR_ = 21, ENOTDIR_ = 20, ENXIO_ = 6, EAGAIN_ = 11, ENOTEMPTY_ = 39 };
enum { ENAMETOOLONG_ = 36, EFAULT_ = 14, ESRCH_ = 3, ENOSPC_ = 28, EINTR_ = 4, EMLINK_ = 31, ERANGE_ = 34, E2BIG_ = 7, EOPNOTSUPP_ = 95 };
enum { PATH_MOST = 4096, NAME_MOST = 255, LINKS_MOST = 40, PAGE = 4096, PROC_ROOT = 1, PROC_TYPE = 0x9fa0 };
/* Where the warden keeps what it watches, and what it needs: our own descriptors in /proc, and whoever asked last. */
enum { STATUS_AT, LEASH_AT, SIGNALS_AT, LISTENER, GATE_AT, QUESTIONS_AT, OBSERVER_AT, OWN_AT, THREAD_AT, FIRST_FREE };
enum { HELD_FROM = 100 /* descriptors up to here are those of the call at hand */ };

struct polled {
	int fd;
	int16_t events, found;
};

static struct {
	uint64_t proc;		 /* the device of /proc; 0 while nobody has asked for it */
	uint32_t umask, current; /* the one the command was born with, and ours now */
	uint32_t known;		 /* the thread whose mask ours surely is, or 0 */
	int changed;		 /* somebody has set another */
	long watchers[3]; /* we, who watches us, and who forks the commands, if somebody else does */
} born;

static struct {
	uint32_t held, last; /* the thread whose part of /proc is held, and who asked last */
} thread;

/* One call that somebody waits in. */
struct asked {
	const struct seccomp_notif *notice;
	uint32_t thread, process; /* process is 0 until somebody needs it */
	int by_proc;		  /* a path led through its own part of /proc, where ours is another */
	int is_clean;		  /* nothing was left open for it */
	int is_refused;		  /* and that was told */
};

/* A name in a directory. */
struct spot {
	long directory;
	uint32_t length; /* without the slashes that may follow */
	char name[NAME_MOST + 3];
};

static int same_bytes(const char *one, const char *other, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		if (one[i] != other[i])
			return 0;
	return 1;
}

static uint64_t device_of(const struct facts *facts)
{
	return device_number(facts->dev_major, facts->dev_minor);
}

/* Whether it still waits: everything learnt from its number before was learnt about it. */
static int still_waits(const struct asked *asked)
{
	uint64_t id = asked->notice->id;

	return !CALL(ioctl, LISTENER, SECCOMP_IOCTL_NOTIF_ID_VALID, P(&id), 0, 0);
}

/* A string of its memory. Read in pieces that end with a page, for the next may not be there. */
static long fetch_path(const struct asked *asked, uint64_t address, char into[PATH_MOST])
{
	size_t got = 0;

	while (got < PATH_MOST) {
		size_t room = PAGE - (address + got) % PAGE, left = got ? PATH_MOST - got : 512; /* most are short */
		struct {
			void *base;
			size_t size;
		} here = {into + got, room < left ? room : left}, there = {(void *)(uintptr_t)(address + got), here.size};
		long answer = call6(__NR_process_vm_readv, asked->thread, P(&here), 1, P(&there), 1, 0);

		if (answer < 0)
			return answer == -ESRCH_ ? answer : answer == -E_PERM ? -EACCES_ : -EFAULT_;
		for (long i = 0; i < answer; i++)
			if (!into[got + (size_t)i])
				return (long)got + i;
		got += (size_t)answer;
		if ((size_t)answer < here.size)
			return -EFAULT_;
	}
	return -ENAMETOOLONG_;
}

/* "/proc/THREAD" and what follows. */
static char *proc_path(char *into, uint32_t thread, const char *rest)
{
	return put_text(put_number(put_text(into, "/proc/"), thread), rest);
}

static int digit_of(char digit)
{
	return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : 99;
}

/* Its status file. */
struct status {
	long size;
	char text[PAGE];
};

static long read_own(const struct asked *asked, const char *name, struct status *status)
{
	char path[48];
	long fd;

	proc_path(path, asked->thread, name);
	fd = CALL(openat, AT_FDCWD, P(path), O_RDONLY | O_CLOEXEC, 0, 0);
	if (fd < 0)
		return fd;
	status->size = CALL(read, fd, P(status->text), sizeof(status->text), 0, 0);
	close_fd(fd);
	return still_waits(asked) ? 0 : -ESRCH_;
}

static long read_status(const struct asked *asked, struct status *status)
{
	return read_own(asked, "/status", status);
}

/* A number in it, after a label at the beginning of a line. The highest bit of 64 is left out: negative is an error. */
static long number_in(const struct status *status, const char *label, int base)
{
	const char *text = status->text;
	uint32_t length = (uint32_t)length_of(label);
	uint64_t number = 0;
	long at = 0;

	while (at + (long)length < status->size && !same_bytes(text + at, label, length)) {
		while (at < status->size && text[at] != '\n')
			at++;
		at++;
	}
	for (at += length; at < status->size && (text[at] == '\t' || text[at] == ' '); at++)
		;
	if (at >= status->size || digit_of(text[at]) >= base)
		return -E_PROTO;
	for (; at < status->size && digit_of(text[at]) < base; at++)
		number = number * (unsigned)base + (unsigned)digit_of(text[at]);
	return (long)(number & ~(1UL << 63));
}

static long process_of(struct asked *asked)
{
	struct status status;
	long number = asked->process;

	if (!number) {
		number = read_status(asked, &status);
		if (!number)
			number = number_in(&status, "Tgid:", 10);
		asked->process = number > 0 ? (uint32_t)number : 0;
	}
	return number;
}

/* Take its mask of modes on. Asking for it costs as much as all the rest, so only once somebody has changed it, and not
 * again for one who asks alone: without a second thread nobody changes it but by a call that we hear of. */
static long take_umask(const struct asked *asked)
{
	struct status status;
	long mask = born.umask;

	if (born.changed && born.known == asked->thread)
		mask = born.current;
	else if (born.changed) {
		mask = read_status(asked, &status);
		if (!mask)
			mask = number_in(&status, "Umask:", 8);
		born.known = mask >= 0 && number_in(&status, "Threads:", 10) == 1 ? asked->thread : 0;
	}
	if (mask < 0)
		return mask;
	if ((uint32_t)mask != born.current)
		CALL(umask, mask, 0, 0, 0, 0);
	born.current = (uint32_t)mask;
	return 0;
}

/* Hold the part of /proc that belongs to somebody who asks again. When he is gone it is nobody's, whoever has his number. */
static int is_held(const struct asked *asked)
{
	char path[32];
	long fd;

	if (thread.held != asked->thread && thread.last == asked->thread) {
		proc_path(path, asked->thread, "");
		fd = CALL(openat, AT_FDCWD, P(path), O_PATH | O_DIRECTORY | O_CLOEXEC, 0, 0);
		thread.held = fd >= 0 && CALL(dup3, fd, THREAD_AT, O_CLOEXEC, 0, 0) == THREAD_AT ? asked->thread : 0;
		if (fd >= 0)
			close_fd(fd);
	}
	thread.last = asked->thread;
	return thread.held == asked->thread;
}

static void put_base(char *at, int32_t directory)
{
	if (directory == AT_FDCWD)
		put_text(at, "cwd");
	else
		put_number(put_text(at, "fd/"), (uint64_t)directory);
}

/* Where its relative paths begin, in /proc: the directory to look from, and its name there. */
static long base_path(const struct asked *asked, int32_t directory, char *into)
{
	const int held = is_held(asked);
	char *at = held ? into : put_text(proc_path(into, asked->thread, ""), "/");

	put_base(at, directory);
	return held ? THREAD_AT : AT_FDCWD;
}

static long open_base(const struct asked *asked, int32_t directory)
{
	char path[64];
	long fd, at;

	if (directory < 0 && directory != AT_FDCWD)
		return -E_BADF;
	at = base_path(asked, directory, path);
	fd = CALL(openat, at, P(path), O_PATH | O_CLOEXEC, 0, 0);
	if (fd < 0 && at == THREAD_AT) { /* or it was another's */
		thread.held = thread.last = 0;
		at = base_path(asked, directory, path);
		fd = CALL(openat, at, P(path), O_PATH | O_CLOEXEC, 0, 0);
	}
	return fd == -E_NOENT && directory >= 0 ? -E_BADF : fd;
}

#endif
