/* Whoever waits in a call: what can be learnt of it, and the paths it names, found as it would find them.
 *
 * Everything learnt by its number is made sure of afterwards: a number may be another's by then, a waiting call not.
 * Nothing here closes what it opened, but for the walk, which may be long: after each call all that is new is closed at
 * once.
 */
#ifndef RINGFENCE_ASKER_H
#define RINGFENCE_ASKER_H

#include "format.h"
#include <linux/ioctl.h>

enum { EROFS_ = 30, EACCES_ = 13, EBUSY_ = 16, EEXIST_ = 17, EXDEV_ = 18, EISDIR_ = 21, ENOTDIR_ = 20, ENXIO_ = 6, EAGAIN_ = 11 };
enum { ENAMETOOLONG_ = 36, EFAULT_ = 14, ESRCH_ = 3, ENOSPC_ = 28, EINTR_ = 4, ERANGE_ = 34, E2BIG_ = 7, EOPNOTSUPP_ = 95 };
enum { PATH_MOST = 4096, NAME_MOST = 255, LINKS_MOST = 40, PAGE = 4096, PROC_ROOT = 1, PROC_TYPE = 0x9fa0 };
enum { STATUS_AT, LEASH_AT, SIGNALS_AT, LISTENER, GATE_AT, OBSERVER_AT, FIRST_FREE }; /* where the warden keeps what it watches */

struct polled {
	int fd;
	int16_t events, found;
};

static struct {
	uint64_t proc;		 /* the device of /proc */
	uint32_t umask, current; /* the one the command was born with, and ours now */
	uint32_t known;		 /* the thread whose mask ours surely is, or 0 */
	int changed;		 /* somebody has set another */
} born;

/* One call that somebody waits in. */
struct asked {
	const struct seccomp_notif *notice;
	uint32_t thread, process; /* process is 0 until somebody needs it */
	int by_proc;		  /* a path led through its own part of /proc, where ours is another */
	int is_clean;		  /* nothing was left open for it */
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
		size_t room = PAGE - (address + got) % PAGE, left = PATH_MOST - got;
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

static char *put_text(char *at, const char *text)
{
	while (*text)
		*at++ = *text++;
	*at = 0;
	return at;
}

static char *put_number(char *at, uint64_t number)
{
	char digits[20];
	int count = 0;

	do
		digits[count++] = (char)('0' + number % 10);
	while (number /= 10);
	while (count)
		*at++ = digits[--count];
	*at = 0;
	return at;
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

static long read_status(const struct asked *asked, struct status *status)
{
	char path[48];
	long fd;

	proc_path(path, asked->thread, "/status");
	fd = CALL(openat, AT_FDCWD, P(path), O_RDONLY | O_CLOEXEC, 0, 0);
	if (fd < 0)
		return fd;
	status->size = CALL(read, fd, P(status->text), sizeof(status->text), 0, 0);
	close_fd(fd);
	return still_waits(asked) ? 0 : -ESRCH_;
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

/* Where its relative paths begin, in /proc; NULL when that is nowhere. */
static char *base_path(const struct asked *asked, int32_t directory, char *into)
{
	if (directory == AT_FDCWD)
		return proc_path(into, asked->thread, "/cwd");
	return directory < 0 ? NULL : put_number(proc_path(into, asked->thread, "/fd/"), (uint64_t)directory);
}

static long open_base(const struct asked *asked, int32_t directory)
{
	char path[64];
	long fd;

	if (!base_path(asked, directory, path))
		return -E_BADF;
	fd = CALL(openat, AT_FDCWD, P(path), O_PATH | O_CLOEXEC, 0, 0);
	return fd == -E_NOENT && directory >= 0 ? -E_BADF : fd;
}

/* ---- Paths ---- */

/* "/proc/self/fd/NUMBER": one of our own descriptors, to be opened anew. */
static void own_path(char *into, long fd)
{
	put_number(put_text(into, "/proc/self/fd/"), (uint64_t)fd);
}

/* Whether something in /proc belongs to whoever asks. Another's descriptors and memory, and ours above all, are not
 * given: we may look into ourselves, and it may not. */
static long check_own_proc(struct asked *asked, long fd)
{
	char path[64], text[64];
	long size, process = process_of(asked);
	uint32_t ids[2] = {asked->thread, (uint32_t)process};

	if (process < 0)
		return process;
	own_path(path, fd);
	size = CALL(readlinkat, AT_FDCWD, P(path), P(text), sizeof(text) - 1, 0);
	if (size < 0)
		return size;
	text[size] = 0;
	for (int i = 0; i < 2; i++) {
		uint32_t length = (uint32_t)(proc_path(path, ids[i], "") - path);

		if (size >= (long)length && same_bytes(path, text, length) && (!text[length] || text[length] == '/'))
			return 0;
	}
	return -EACCES_;
}

static int is_word(const char *text, uint32_t length, const char *word)
{
	uint32_t i = 0;

	while (i < length && word[i] && word[i] == text[i])
		i++;
	return i == length && !word[i];
}

/* Put a text before the rest of a path. */
static long prepend(char *rest, const char *text, long length)
{
	long size = 0;

	while (rest[size])
		size++;
	if (length + 1 + size >= PATH_MOST)
		return -ENAMETOOLONG_;
	for (long i = size; i >= 0; i--)
		rest[i + length + 1] = rest[i];
	for (long i = 0; i < length; i++)
		rest[i] = text[i];
	rest[length] = '/';
	return 0;
}

static long open_root(void)
{
	return CALL(openat, AT_FDCWD, P("/"), O_PATH | O_CLOEXEC, 0, 0);
}

/* What a symbolic link in the middle of a path stands for: a text that is put before the rest, or in /proc the object
 * itself, which `*next` becomes. */
static long follow_link(struct asked *asked, long *here, const char *name, long *next, const struct facts *facts, char *rest)
{
	char text[PATH_MOST];
	struct facts above;
	long size, answer = facts_of(*here, &above);

	if (answer)
		return answer;
	if (device_of(facts) == born.proc && above.inode != PROC_ROOT) {
		close_fd(*next);
		*next = -1;
		asked->by_proc = 1;
		answer = check_own_proc(asked, *here);
		if (!answer)
			answer = *next = CALL(openat, *here, P(name), O_PATH | O_CLOEXEC, 0, 0);
		return answer < 0 ? answer : 1;
	}
	size = CALL(readlinkat, *next, P(""), P(text), sizeof(text) - 1, 0);
	close_fd(*next);
	*next = -1;
	if (size < 0)
		return size;
	if (text[0] == '/') {
		close_fd(*here);
		*here = open_root();
		if (*here < 0)
			return *here;
	}
	return prepend(rest, text, size);
}

/* In the root of /proc: what "self" and "thread-self" mean to whoever asks. */
static long own_number(struct asked *asked, const char *name, uint32_t length, char *rest)
{
	char text[64], *end;
	long process;

	if (!is_word(name, length, "self") && !is_word(name, length, "thread-self"))
		return 0;
	asked->by_proc = 1;
	process = process_of(asked);
	if (process < 0)
		return process;
	end = put_number(text, (uint64_t)process);
	if (length != 4)
		end = put_number(put_text(end, "/task/"), asked->thread);
	process = prepend(rest, text, end - text);
	return process ? process : 1;
}

/* The directory that a path names, name by name, as the one who asks would find it. `rest` is spent. */
static long walk(struct asked *asked, long base, char *rest)
{
	long here = rest[0] == '/' ? open_root() : CALL(fcntl, base, F_DUPFD_CLOEXEC, 0, 0, 0);
	int links = 0;

	if (here < 0)
		return here;

	for (;;) {
		char name[NAME_MOST + 1];
		uint32_t length = 0;
		struct facts facts;
		long next, answer, skip = 0;

		while (rest[skip] == '/')
			skip++;
		while (rest[skip + length] && rest[skip + length] != '/') {
			if (length == NAME_MOST) {
				close_fd(here);
				return -ENAMETOOLONG_;
			}
			name[length] = rest[skip + length];
			length++;
		}
		name[length] = 0;
		if (!length)
			return here;
		for (long i = 0, from = skip + length;; i++)
			if (!(rest[i] = rest[from + i]))
				break;
		answer = facts_of(here, &facts);
		if (!answer && facts.inode == PROC_ROOT && device_of(&facts) == born.proc) {
			answer = own_number(asked, name, length, rest);
			if (answer == 1)
				continue;
		}
		next = answer ? answer : CALL(openat, here, P(name), O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0);
		answer = next < 0 ? next : facts_of(next, &facts);
		if (!answer && (facts.mode & TYPE_MASK) == SYMLINK_) {
			answer = ++links > LINKS_MOST ? -E_LOOP : follow_link(asked, &here, name, &next, &facts, rest);
			if (!answer)
				continue;
			if (answer == 1)
				answer = facts_of(next, &facts);
		}
		if (!answer && (facts.mode & TYPE_MASK) != DIRECTORY_)
			answer = -ENOTDIR_;
		if (here >= 0)
			close_fd(here);
		if (answer) {
			if (next >= 0)
				close_fd(next);
			return answer;
		}
		here = next;
	}
}

/* A path, seen from a directory, as a name in a directory. */
static long find_spot(struct asked *asked, long base, char *path, struct spot *spot)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	long end = 0, last, from;

	while (path[end])
		end++;
	for (last = end; last > 0 && path[last - 1] == '/'; last--)
		;
	for (from = last; from > 0 && path[from - 1] != '/'; from--)
		;
	if (last - from > NAME_MOST)
		return -ENAMETOOLONG_;
	spot->length = (uint32_t)(last - from);
	for (long i = from; i < last; i++)
		spot->name[i - from] = path[i];
	put_text(spot->name + spot->length, end > last ? "/" : "");
	if (!spot->length) { /* nothing but slashes: the root itself, which every call refuses by this name too */
		spot->length = 1;
		put_text(spot->name, ".");
	}
	if (!from) {
		spot->directory = base;
		return 0;
	}
	path[from] = 0;
	spot->directory = CALL(openat2, base, P(path), P(&how), sizeof(how), 0);
	if (spot->directory == -E_LOOP)
		spot->directory = walk(asked, base, path);
	return spot->directory < 0 ? spot->directory : 0;
}

/* What a call names: the path, and the directory it starts from. */
struct named {
	long base;
	char path[PATH_MOST];
};
static struct named first, second;

/* The path that was asked for, as it was spelled, where somebody wants to hear what becomes of it. */
static struct {
	int is_wanted;
	int32_t base;
	char path[PATH_MOST];
} spelled;

/* Open where a path begins. */
static long open_named(const struct asked *asked, uint64_t directory, struct named *named)
{
	if (spelled.is_wanted) {
		put_text(spelled.path, named->path);
		spelled.base = (int32_t)directory;
	}
	named->base = named->path[0] == '/' ? AT_FDCWD : open_base(asked, (int32_t)directory);
	return named->base < 0 && named->base != AT_FDCWD ? named->base : 0;
}

/* Fetch a path, once, and open where it begins. */
static long fetch(const struct asked *asked, uint64_t directory, uint64_t address, struct named *named)
{
	long size = fetch_path(asked, address, named->path);

	return size < 0 ? size : size ? open_named(asked, directory, named) : -E_NOENT;
}

/* Make sure that whoever asked still waits, and find the spot that was fetched. */
static long find_first(struct asked *asked, long answer, struct spot *spot)
{
	if (!answer && !still_waits(asked))
		answer = -ESRCH_;
	return answer ? answer : find_spot(asked, first.base, first.path, spot);
}

static long find(struct asked *asked, uint64_t directory, uint64_t address, struct spot *spot)
{
	return find_first(asked, fetch(asked, directory, address, &first), spot);
}

#endif
