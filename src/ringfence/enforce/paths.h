/* The paths that somebody names who waits in a call, found as it would find them. Part of the broker. */
#ifndef RINGFENCE_PATHS_H
#define RINGFENCE_PATHS_H

#include "asker.h"

/* Where one of our own descriptors leads, as the kernel says. */
static long where_is(long fd, char *into, size_t size)
{
	char number[24];

	put_number(number, (uint64_t)fd);
	return CALL(readlinkat, OWN_AT, P(number), P(into), size, 0);
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
	size = where_is(fd, text, sizeof(text) - 1);
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

/* Whether something is in a /proc, also in another than ours. */
static int is_in_proc(long fd, const struct facts *facts)
{
	uint64_t about[16]; /* struct statfs: the first word is the type */

	return !facts->dev_major && (CALL(fstatfs, fd, P(about), 0, 0, 0) || about[0] == PROC_TYPE);
}

/* Whether a path in /proc is a directory that lists processes or threads: /proc/N or /proc/N/task/N. */
static int is_listing(const char *path)
{
	for (path += 6; digit_of(*path) <= 9; path++)
		;
	if (!*path)
		return 1;
	if (!same_bytes(path, "/task/", 6))
		return 0;
	for (path += 6; digit_of(*path) <= 9; path++)
		;
	return !*path;
}

/* Whether something in /proc may be read: what belongs to whoever asks, the system's own, and what anybody may see of
 * another process: no descriptor, and nothing of its memory. */
static long check_seen_proc(struct asked *asked, long fd)
{
	static const char *const open[] = {"stat", "statm", "status", "cmdline", "comm", "cgroup", "limits", "oom_score",
					   "oom_score_adj", "sched", "schedstat", "task"};
	char text[PATH_MOST], *name = text;
	long size = where_is(fd, text, sizeof(text) - 8);

	if (size < 0)
		return size;
	for (long i = 0; i < 8; i++)
		text[size + i] = 0;
	for (char *at = text; *at; at++)
		if (*at == '/')
			name = at + 1;
	if (is_word(text, (uint32_t)size, "/proc"))
		return 0;
	if (!same_bytes(text, "/proc/", 6))
		return -EACCES_; /* another /proc, where we cannot tell who is who */
	if (digit_of(text[6]) > 9)
		return 0;
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
		if (is_word(name, (uint32_t)(text + size - name), open[i]))
			return 0;
	return is_listing(text) ? 0 : check_own_proc(asked, fd);
}

/* Whether the last name of a path, which is so long, is "." or "..". */
static int is_dots(const char *path, long end)
{
	long from = end;

	while (from > 0 && path[from - 1] != '/')
		from--;
	return is_word(path + from, (uint32_t)(end - from), ".") || is_word(path + from, (uint32_t)(end - from), "..");
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
		spot->directory = open_root(); /* not where we stand, which may be anywhere */
		return spot->directory < 0 ? spot->directory : 0;
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
	int32_t base, other_base;
	char path[PATH_MOST], other[PATH_MOST]; /* and of a call with two the second */
} spelled;

static void spell(uint64_t directory, const char *path)
{
	if (spelled.is_wanted) {
		put_text(spelled.path, path);
		spelled.base = (int32_t)directory;
	}
}

/* Open where a path begins. */
static long open_named(const struct asked *asked, uint64_t directory, struct named *named)
{
	if (named == &first)
		spell(directory, named->path);
	else if (spelled.is_wanted) {
		put_text(spelled.other, named->path);
		spelled.other_base = (int32_t)directory;
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
