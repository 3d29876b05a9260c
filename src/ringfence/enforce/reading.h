/* Opening for somebody else, the whole of it: what is only read has shorter ways. Part of the broker. */
#ifndef RINGFENCE_READING_H
#define RINGFENCE_READING_H

#include "opening.h"

/* Give what was opened to be read. */
static long give_to_read(struct asked *asked, long fd, uint64_t flags)
{
	if (!(flags & O_NONBLOCK))
		CALL(fcntl, fd, F_SETFL, flags, 0, 0);
	return answer_at_once(asked, fd, flags);
}

/* Put into judge.path where a path leads if no link is on its way, and stand where it begins. Dots are left to others:
 * 0 is that nobody can tell. */
static int spell_out(const struct asked *asked, int32_t directory, const char *path)
{
	char own[64];
	long size = 0;

	for (const char *at = path + (*path == '/'), *end = at;; at = ++end) {
		while (*end && *end != '/')
			end++;
		if (at == end || is_dots(at, end - at))
			return 0;
		if (!*end)
			break;
	}
	if (*path != '/') {
		if (directory < 0 && directory != AT_FDCWD)
			return 0;
		put_base(put_text(proc_path(own, asked->thread, ""), "/"), directory);
		if (CALL(chdir, P(own), 0, 0, 0, 0))
			return 0;
		size = CALL(getcwd, P(judge.path), PATH_MOST, 0, 0, 0) - 1;
		if (size < 1 || judge.path[0] != '/') /* removed, or out of reach */
			return 0;
		if (judge.path[size - 1] != '/')
			judge.path[size++] = '/';
	}
	put_text(judge.path + size, path);
	return !same_bytes(judge.path, "/proc", 5);
}

/* Whether a file is known by the name that it was found by: where names are folded it may have another. A device stays
 * what it is; what has none is asked each time. */
static int is_as_spelled(long fd, const struct facts *facts)
{
	static const uint64_t types[] = {0xef53 /* ext4 */, 0x01021994 /* tmpfs */, 0x9123683e /* btrfs */, 0x794c7630 /* overlay */};
	static uint64_t known;
	uint64_t about[16]; /* struct statfs: the first word is the type */

	if (facts->dev_major && device_of(facts) == known)
		return 1;
	if (CALL(fstatfs, fd, P(about), 0, 0, 0))
		return 0;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (about[0] == types[i]) {
			known = device_of(facts);
			return 1;
		}
	return 0;
}

/* Something to be read, the shortest way: by a path that no link is on, which so is where it stands. 0 is to go another
 * way. Nothing is changed by it, so it does not matter whether whoever asked still waits: an answer to nobody is none. */
static long open_as_spelled(struct asked *asked, uint64_t directory, uint64_t flags)
{
	struct open_how how = {.flags = flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	struct facts facts;
	uint32_t type;
	long fd, answer = 0;

	spell(directory, first.path); /* whoever hears of it, or is asked about it, hears of the path */
	if (!spell_out(asked, (int32_t)directory, first.path))
		return 0;
	fd = CALL(openat2, AT_FDCWD, P(first.path), P(&how), sizeof(how), 0);
	if (fd < 0) {
		asked->is_clean = fd == -E_NOENT;
		return asked->is_clean ? fd : 0;
	}
	if (!CALL(statx, fd, P(""), AT_EMPTY_PATH, 1 /* STATX_TYPE */, P(&facts)) && is_as_spelled(fd, &facts)) {
		type = facts.mode & TYPE_MASK;
		if ((type == DIRECTORY_ || type == REGULAR_) && is_judged())
			answer = judge_path(asked, READS);
		if ((type == DIRECTORY_ || type == REGULAR_) && !answer) {
			asked->is_clean = 1;
			return give_to_read(asked, fd, flags);
		}
	}
	close_fd(fd);
	return answer;
}

/* The same by any path: the kernel goes there, and says where it has come to. In /proc it would have come to what is
 * ours; there, and for whatever else is odd, 0 is to go the long way. */
static long open_to_read(struct asked *asked, uint64_t flags)
{
	struct open_how how = {.flags = flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
	struct facts facts;
	uint32_t type;
	long answer, fd = CALL(openat2, first.base, P(first.path), P(&how), sizeof(how), 0);

	if (fd < 0)
		return 0;
	if (CALL(statx, fd, P(""), AT_EMPTY_PATH, 1 /* STATX_TYPE */, P(&facts)) || is_in_proc(fd, &facts))
		return 0;
	type = facts.mode & TYPE_MASK;
	if (type == FIFO && !(flags & O_NONBLOCK)) {
		answer = judge_object(asked, fd, READS);
		return answer ? answer : wait_on_pipe(asked, fd, flags & ~(uint64_t)O_NOFOLLOW);
	}
	if (type != DIRECTORY_ && type != REGULAR_)
		return 0;
	answer = judge_object(asked, fd, READS);
	if (answer)
		return answer;
	if (first.base != AT_FDCWD)
		close_fd(first.base);
	asked->is_clean = 1;
	return give_to_read(asked, fd, flags);
}

static long do_open(struct asked *asked, uint64_t directory, uint64_t address, uint64_t flags, uint64_t mode)
{
	const int makes = flags & O_CREAT ? 1 : 0, reads = access_of(flags) == READS && !makes;
	struct spot spot;
	long size, answer = makes ? take_umask(asked) : 0;

	if (makes && flags & (O_PATH | O_DIRECTORY))
		return -E_INVAL;
	size = answer ? answer : fetch_path(asked, address, first.path);
	if (size <= 0)
		return size < 0 ? size : -E_NOENT;
	if (makes && !is_judged()) {
		answer = make_unheard_of(asked, directory, first.path, flags, mode);
		if (answer >= 0) {
			asked->is_clean = 1;
			return answer_with_new(asked, answer, flags, mode);
		}
	}
	answer = reads ? open_as_spelled(asked, directory, flags) : 0;
	if (!answer)
		answer = open_named(asked, directory, &first);
	if (!answer && reads)
		answer = open_to_read(asked, flags);
	if (!answer && !still_waits(asked))
		answer = -ESRCH_;
	if (!answer && !makes)
		return open_plainly(asked, flags);
	if (!answer)
		answer = find_spot(asked, first.base, first.path, &spot);
	return answer ? answer : open_or_make(asked, &spot, flags, mode);
}

#endif
