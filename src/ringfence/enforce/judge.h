/* Paths judged when they are used: by the patterns of the plan, for what comes later than its mounts; and what is told of
 * it, to whoever started us. Part of the broker.
 */
#ifndef RINGFENCE_JUDGE_H
#define RINGFENCE_JUDGE_H

#include "table.h"

enum { READS = 1, WRITES = 2, MAKES = 4, REMOVES = 8, CHANGES = 16, CONNECTS = 32 };
enum { REFUSED = 1, FAILURE = 2, ALLOWED = 4, ANY_BUT_DENY = 1U << WATCH | 1U << PIN };
#define NO_ROW 0xffffffffU
#define MOVING ".ringfence-moves-" /* how a name begins by which the warden moves something, and nobody else */
enum { HELD = 1 /* by what it is, and not by its name */, MOST_PATTERNS = 1024, SEEN = 4096, OPENLY = 0x4040 /* MSG_NOSIGNAL | MSG_DONTWAIT */ };

static struct {
	struct judging {
		struct pattern pattern;
		uint8_t access, verdict, rank;
	} patterns[MOST_PATTERNS];
	uint32_t count;
	char path[2 * PATH_MOST]; /* the one that was judged last */
} judge;

static struct {
	long channel;
	uint32_t wanted, lost;
	uint64_t seen[SEEN]; /* what was told already, as far as there is room to remember it */
} observer; /* large, so `start` says that there is no channel: as data it would be most of the program */

/* ---- What is told ---- */

/* OBSERVE: a socket for it. One that stands by has it already: what the command comes by, whose other end is kept. */
static long do_observe(uint64_t wanted, long status)
{
	int ends[2];
	long answer;

	observer.wanted = (uint32_t)wanted;
	spelled.is_wanted = wanted & FAILURE ? 1 : 0;
	if (prepared.request) {
		observer.channel = CALL(fcntl, prepared.request, F_DUPFD_CLOEXEC, 16, 0, 0);
		return observer.channel < 0 ? observer.channel : 0;
	}
	answer = call6(__NR_socketpair, 1 /* AF_UNIX */, 5 | O_CLOEXEC /* SOCK_SEQPACKET */, 0, P(ends), 0, 0);
	if (answer)
		return answer;
	observer.channel = CALL(fcntl, ends[0], F_DUPFD_CLOEXEC, 16, 0, 0); /* away from where the warden will put things */
	answer = observer.channel < 0 ? observer.channel : lend(status, OBSERVED, ends[1]);
	close_fd(ends[0]);
	close_fd(ends[1]);
	return answer;
}

static int is_told(const char *path, uint64_t what)
{
	uint64_t hash = 14695981039346656037UL ^ what, *place;

	for (; *path; path++)
		hash = (hash ^ (uint8_t)*path) * 1099511628211UL;
	place = &observer.seen[hash >> 32 & (SEEN - 1)];
	if (*place == hash)
		return 1;
	*place = hash;
	return 0;
}

/* Tell of an access, once; what cannot be told at once is counted. */
static void observe(struct asked *asked, uint32_t access, uint32_t verdict, uint32_t row, long error, const char *path)
{
	static struct {
		uint32_t pid, row;
		uint16_t access, verdict, error, path_size, program_size, zero;
		char text[3 * PATH_MOST];
	} told;
	char program[64];
	uint32_t size = 0;
	long process, more;

	access &= -access; /* the first of them */
	asked->is_refused |= verdict == REFUSED;
	if (!(observer.wanted & verdict) || is_told(path, (uint64_t)error << 16 | verdict << 8 | access))
		return;
	for (; path[size] && size < 2 * PATH_MOST; size++)
		told.text[size] = path[size];
	proc_path(program, asked->thread, "/exe");
	more = CALL(readlinkat, AT_FDCWD, P(program), P(told.text + size), PATH_MOST, 0);
	process = process_of(asked);
	told.pid = process < 0 ? asked->thread : (uint32_t)process;
	told.row = row;
	told.access = (uint16_t)access;
	told.verdict = (uint16_t)verdict;
	told.error = (uint16_t)error;
	told.path_size = (uint16_t)size;
	told.program_size = (uint16_t)(more < 0 ? 0 : more);
	size += told.program_size + (uint32_t)offsetof(__typeof__(told), text);
	if (call6(__NR_sendto, OBSERVER_AT, P(&told), size, OPENLY, 0, 0) != (long)size)
		observer.lost++;
}

/* What the kernel said no to, by the path that was asked for. */
static void observe_failure(struct asked *asked, uint32_t access, long error)
{
	char text[64];
	long size = 0;

	if (spelled.path[0] != '/') {
		long at = base_path(asked, spelled.base, text);

		size = CALL(readlinkat, at, P(text), P(judge.path), PATH_MOST, 0);
		size = size < 0 ? 0 : size;
		judge.path[size++] = '/';
	}
	put_text(judge.path + size, spelled.path);
	observe(asked, access, FAILURE, NO_ROW, error, judge.path);
}

/* ---- What is judged ---- */

/* PATTERN: a rule about paths that match. */
static long do_pattern(struct reader reader)
{
	struct judging *judging = &judge.patterns[judge.count];

	if (judge.count == MOST_PATTERNS)
		return -ENOSPC_;
	judging->pattern = (struct pattern){reader.next, reader.step->strings};
	judging->access = (uint8_t)reader.numbers[0];
	judging->verdict = (uint8_t)reader.numbers[1];
	judging->rank = (uint8_t)reader.numbers[2];
	judge.count++;
	return 0;
}

/* The row that refuses an access, those of the table first and then the patterns, or none. Of reads the deepest rule
 * decides, and of those the one that is heard first; what may not be read may not be written; and what is always denied is.
 * Where there are rules of where something may be written, because no mount says it, the deepest of them decides as well,
 * and a change of what is there must be below one of them: Landlock has no right for it. */
static uint32_t refuser(const char *path, uint32_t access)
{
	const struct row *kept = access == READS ? NULL : find_kept(path);
	struct judging *best = NULL, *region = NULL;
	int best_depth = -1, region_depth = -1;

	if (kept)
		return (uint32_t)(kept - table.rows);

	for (uint32_t i = 0; i < judge.count; i++) {
		struct judging *judging = &judge.patterns[i];
		int depth;

		if (judging->access == IS_WRITE && access == READS)
			continue;
		states_after(&judging->pattern, path, &depth);
		if (judging->verdict == ALWAYS) {
			if (depth >= 0)
				return table.count + i;
		} else if (judging->access == IS_WRITE) {
			if (!region || depth > region_depth) {
				region = judging;
				region_depth = depth;
			}
		} else if (depth > best_depth || (depth >= 0 && depth == best_depth && judging->rank < best->rank)) {
			best = judging;
			best_depth = depth;
		}
	}
	if (region && (region_depth < 0 ? access == CHANGES : region->verdict == DENIES))
		best = region;
	else if (!best || best->verdict == PASSES)
		return NO_ROW;
	return table.count + (uint32_t)(best - judge.patterns);
}

/* Judge the path that stands in judge.path. What has no path (a pipe, a socket) is nobody's. */
static long judge_path(struct asked *asked, uint32_t access)
{
	uint32_t row = judge.path[0] == '/' ? refuser(judge.path, access) : NO_ROW;

	if (row != NO_ROW) {
		observe(asked, access, REFUSED, row, EACCES_, judge.path);
		return -EACCES_;
	}
	if (observer.wanted & ALLOWED && judge.path[0] == '/')
		observe(asked, access, ALLOWED, NO_ROW, 0, judge.path);
	return 0;
}

static int is_judged(void)
{
	return judge.count || table.kept || observer.wanted & ALLOWED;
}

/* Whether an object is what stands at the path in judge.path. */
static int stands_there(long fd)
{
	struct facts own, there;

	return !facts_of(fd, &own) && !CALL(statx, AT_FDCWD, P(judge.path), AT_SYMLINK_NOFOLLOW, STATX_BASIC, P(&there)) &&
	       own.inode == there.inode && device_of(&own) == device_of(&there);
}

/* Where an object stands, as the kernel says; or where it stood, when it has been removed or replaced since: the kernel
 * says so behind its name, and no pattern knows that one. */
static long locate(long fd)
{
	static const char gone[] = " (deleted)";
	const long mark = sizeof(gone) - 1;
	long size = where_is(fd, judge.path, PATH_MOST);

	if (size == PATH_MOST)
		return -ENAMETOOLONG_;
	if (size < 0)
		return size;
	judge.path[size] = 0;
	if (size > mark && same_bytes(judge.path + size - mark, gone, (uint32_t)mark) && !stands_there(fd))
		judge.path[size -= mark] = 0;
	return size;
}

static long judge_object(struct asked *asked, long fd, uint32_t access)
{
	long size = is_judged() ? locate(fd) : 0;

	return size < 0 ? size : is_judged() ? judge_path(asked, access) : 0;
}

static long locate_spot(const struct spot *spot)
{
	long size = spot->directory == AT_FDCWD ? 0 : locate(spot->directory);

	if (size < 0)
		return size;
	if (size && judge.path[size - 1] != '/')
		judge.path[size++] = '/';
	for (uint32_t i = 0; i < spot->length; i++)
		judge.path[size++] = spot->name[i];
	judge.path[size] = 0;
	return size;
}

static long judge_spot(struct asked *asked, const struct spot *spot, uint32_t access)
{
	long size = is_judged() ? locate_spot(spot) : 0;

	return size < 0 ? size : is_judged() ? judge_path(asked, access) : 0;
}

/* Whether a name leads to one that is denied: a link there would lead past the pattern. Every name leads to a pattern of
 * any depth; of those the ones that it names itself. */
static long check_way(const struct spot *spot)
{
	long size = judge.count ? locate_spot(spot) : 0;
	int depth;

	for (uint32_t i = 0; size > 0 && i < judge.count; i++) {
		const struct judging *judging = &judge.patterns[i];
		const uint8_t *part = judging->pattern.parts;
		int any_depth = 0;

		if (judging->access != IS_WRITE || judging->verdict == PASSES)
			continue;
		for (uint32_t at = 0; at < judging->pattern.count; at++, part += 5 + load32(part))
			any_depth |= is_any_depth(part);
		if (any_depth ? is_named_by(&judging->pattern, judge.path) : states_after(&judging->pattern, judge.path, &depth) != 0)
			return -EACCES_;
	}
	return size < 0 ? size : 0;
}

/* Whether what lies below a directory would be held otherwise if it were moved from one place to the other. */
static long is_otherwise(const struct spot *from, const struct spot *to)
{
	static char old[2 * PATH_MOST];
	long answer = locate_spot(from);
	int depth;

	if (answer < 0)
		return answer;
	put_text(old, judge.path);
	answer = locate_spot(to);
	if (answer < 0)
		return answer;
	for (uint32_t i = 0; i < judge.count; i++)
		if (states_after(&judge.patterns[i].pattern, old, &depth) != states_after(&judge.patterns[i].pattern, judge.path, &depth))
			return 1;
	return 0;
}

/* Whether something may be moved: a directory only where everything below it is held as it was. For anything else HELD is
 * that it may, but not whatever stands at its name by then: the warden of another run may have put a directory there. */
static long judge_transfer(const struct spot *from, const struct spot *to)
{
	struct facts facts;
	long otherwise, answer;

	if (!judge.count)
		return 0;
	answer = CALL(statx, from->directory, P(from->name), AT_SYMLINK_NOFOLLOW, STATX_BASIC, P(&facts));
	if (answer)
		return answer; /* what comes in this moment is not moved either */
	otherwise = is_otherwise(from, to);
	if (otherwise < 0)
		return otherwise;
	if ((facts.mode & TYPE_MASK) == DIRECTORY_)
		return otherwise ? -EXDEV_ : 0;
	answer = check_way(to);
	if (answer && (facts.mode & TYPE_MASK) == SYMLINK_)
		return answer;
	return answer || otherwise ? HELD : 0;
}

/* A name that the table refuses is told once, and not for ever: who hears it reads at the end, and until then the socket
 * must hold it all, or we would wait. */
static long refuse(struct asked *asked, const struct spot *spot, struct row *row, uint32_t access)
{
	const long error = row->verdict == PIN ? EBUSY_ : EACCES_;
	const uint32_t number = (uint32_t)(row - table.rows);

	if (observer.wanted && locate_spot(spot) >= 0)
		observe(asked, access, REFUSED, number, error, judge.path);
	else if (!observer.wanted && row->verdict == DENY && !row->told && table.told < MOST_TOLD) {
		row->told = 1;
		table.told++;
		tell(STATUS_AT, DENIED, number, 0, error);
	}
	return -error;
}

/* Whether an access to a name is permitted: by the table, of whose verdicts those in `passes` do not stand in its way,
 * and by the patterns. */
static long permit(struct asked *asked, const struct spot *spot, uint32_t access, uint32_t passes)
{
	struct row *row;
	long answer = find_row(spot, &row);

	if (access == MAKES && spot->length >= sizeof(MOVING) - 1 && same_bytes(spot->name, MOVING, sizeof(MOVING) - 1))
		return -EACCES_;
	if (!answer && row && !(passes >> row->verdict & 1))
		answer = refuse(asked, spot, row, access);
	return answer ? answer : judge_spot(asked, spot, access);
}

#endif
