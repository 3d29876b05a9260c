/* The table: names that must not appear.
 *
 * It is a tree. A row is a name inside its parent; a parent is a directory that the plan knows by device and inode, or
 * another row, which then is a directory that does not exist yet: it is known by where it stands when it comes. Names that
 * are there and are not to be changed are rows too, and are looked for by the path that the kernel has for them.
 */
#ifndef RINGFENCE_TABLE_H
#define RINGFENCE_TABLE_H

#include "paths.h"

enum { MOST_ROWS = 16384, BUCKETS = 1024, MOST_BOUND = 4096, MOST_TOLD = 64 };

static struct {
	struct row {
		const char *name, *path; /* no name: a directory of the plan's, with its path */
		uint32_t length, parent, next;
		uint8_t verdict, told;
	} rows[MOST_ROWS];
	struct bound {
		uint64_t device, inode;
		uint32_t row, next;
	} bound[MOST_BOUND];
	uint32_t count, bounds, told, kept;
	uint32_t buckets[BUCKETS], bound_buckets[BUCKETS], kept_buckets[BUCKETS]; /* a number and one; 0 is the end */
} table;

enum { EMPTY_HASH = 0x811c9dc5 };

static uint32_t mixed(uint32_t hash, const char *text, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)text[i]) * 16777619U;
	return hash;
}

static uint32_t bucket_of(uint32_t hash)
{
	return (hash ^ hash >> 15) % BUCKETS;
}

static uint32_t hash_of(const char *name, uint32_t length)
{
	return bucket_of(mixed(EMPTY_HASH, name, length));
}

static long bind_row(uint64_t device, uint64_t inode, uint32_t row)
{
	uint32_t *bucket = &table.bound_buckets[inode % BUCKETS];

	if (table.bounds == MOST_BOUND)
		return -ENOSPC_;
	table.bound[table.bounds] = (struct bound){device, inode, row, *bucket};
	*bucket = ++table.bounds;
	return 0;
}

/* PARENT: a directory that exists, and is what was planned for. */
static long do_parent(struct reader reader)
{
	const uint64_t *numbers = reader.numbers;
	struct row *row = &table.rows[table.count];
	long fd;

	if (table.count == MOST_ROWS)
		return -ENOSPC_;
	row->path = string(&reader, &row->length);
	fd = open_planned(row->path, O_PATH | O_DIRECTORY, numbers[0], numbers[1]);
	if (fd < 0)
		return fd;
	close_fd(fd);
	return bind_row(numbers[0], numbers[1], table.count++);
}

/* Where a name that is kept is looked for: by its whole path. */
static uint32_t *kept_bucket(const struct row *row)
{
	const struct row *above = &table.rows[row->parent];
	uint32_t hash = mixed(EMPTY_HASH, above->path, above->length);

	table.kept++;
	hash = mixed(hash, "/", above->length > 1); /* the root ends with one */
	return &table.kept_buckets[bucket_of(mixed(hash, row->name, row->length))];
}

static int is_path_of(const struct row *row, const char *path, uint32_t length)
{
	const struct row *above = &table.rows[row->parent];
	const uint32_t from = above->length + (above->length > 1);

	return length == from + row->length && path[from - 1] == '/' && same_bytes(path, above->path, above->length) &&
	       same_bytes(path + from, row->name, row->length);
}

/* The row that keeps a path as it is, or what it is in; or none. */
static const struct row *find_kept(const char *path)
{
	uint32_t hash = EMPTY_HASH;

	for (uint32_t i = 0; table.kept && path[i];) {
		hash = mixed(hash, path + i++, 1);
		if (path[i] && path[i] != '/')
			continue;
		for (uint32_t at = table.kept_buckets[bucket_of(hash)]; at; at = table.rows[at - 1].next)
			if (is_path_of(&table.rows[at - 1], path, i))
				return &table.rows[at - 1];
	}
	return NULL;
}

/* NAME: what is said of names inside an earlier row; a row each. */
static long do_name(struct reader reader)
{
	const uint64_t *numbers = reader.numbers;
	const char *name, *rest = string(&reader, NULL);
	uint32_t length;

	if (numbers[0] >= table.count || (numbers[1] == KEEP && table.rows[numbers[0]].name))
		return -E_PROTO;
	while ((name = next_name(&rest, &length))) {
		struct row *row = &table.rows[table.count];
		uint32_t *bucket;

		if (table.count == MOST_ROWS)
			return -ENOSPC_;
		row->name = name; /* only the last ends by a NUL */
		row->length = length;
		row->parent = (uint32_t)numbers[0];
		row->verdict = (uint8_t)numbers[1];
		bucket = row->verdict == KEEP ? kept_bucket(row) : &table.buckets[hash_of(row->name, row->length)];
		row->next = *bucket;
		*bucket = ++table.count;
	}
	return 0;
}

static int is_bound(const struct facts *facts, uint32_t row)
{
	for (uint32_t at = table.bound_buckets[facts->inode % BUCKETS]; at; at = table.bound[at - 1].next) {
		const struct bound *bound = &table.bound[at - 1];

		if (bound->row == row && bound->inode == facts->inode && bound->device == device_of(facts))
			return 1;
	}
	return 0;
}

/* Whether a directory stands where one of the plan's stood: another run may have put it there, for which there was none. */
static long stands_at(const struct row *row, const struct facts *facts)
{
	struct facts there;
	long answer = CALL(statx, AT_FDCWD, P(row->path), AT_SYMLINK_NOFOLLOW, STATX_BASIC, P(&there));

	if (answer)
		return answer == -E_NOENT || answer == -ENOTDIR_ || answer == -E_LOOP ? 0 : answer;
	return there.inode == facts->inode && device_of(&there) == device_of(facts);
}

/* Whether what is held stands at a name in the directory above it, which `*above` becomes. */
static long stands_above(long held, const struct facts *facts, const char *name, long *above)
{
	struct facts there;
	long fd, answer;

	*above = CALL(openat, held, P(".."), O_PATH | O_CLOEXEC, 0, 0);
	if (*above < 0)
		return *above;
	fd = CALL(openat, *above, P(name), O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0);
	if (fd < 0)
		return fd == -E_NOENT ? 0 : fd;
	answer = facts_of(fd, &there);
	close_fd(fd);
	return answer ? answer : there.inode == facts->inode && device_of(&there) == device_of(facts);
}

/* Whether a directory is the one that a row means: one of the plan's, or what stands now at its name, or at the name that
 * the table waits for, whoever made it. Looked for from below: it must have the row's name in its parent, and that must be the
 * row's parent. An error is no "no": who may not be looked up could stand there all the same. In a loop, for a policy may
 * name what lies a thousand directories deep, and our stack has an end. */
static long is_meant(long directory, const struct facts *facts, uint32_t number)
{
	struct facts here = *facts;
	const struct row *row = &table.rows[number];
	long held = directory, above, answer = 1;

	while (answer > 0 && row->verdict == WATCH && !is_bound(&here, number)) {
		answer = stands_above(held, &here, row->name, &above);
		if (held != directory)
			close_fd(held);
		held = above;
		if (answer > 0 && facts_of(held, &here))
			answer = -E_STALE;
		number = row->parent;
		row = &table.rows[number];
	}
	if (held != directory && held >= 0)
		close_fd(held);
	if (answer <= 0 || is_bound(&here, number))
		return answer;
	return row->name ? 0 : stands_at(row, &here);
}

/* Whether any row has this name, wherever. */
static int is_any_row(const char *name, uint32_t length)
{
	for (uint32_t at = table.buckets[hash_of(name, length)]; at; at = table.rows[at - 1].next)
		if (table.rows[at - 1].length == length && same_bytes(table.rows[at - 1].name, name, length))
			return 1;
	return 0;
}

/* What the table says of a spot: a row, NULL for nothing. Most names are in no row, and then nobody need be asked whose
 * directory it is. */
static long find_row(const struct spot *spot, struct row **found)
{
	uint32_t at = table.buckets[hash_of(spot->name, spot->length)];
	struct facts facts;
	int known = 0;

	*found = NULL;
	for (; at; at = table.rows[at - 1].next) {
		struct row *row = &table.rows[at - 1];
		long answer;

		if (row->length != spot->length || !same_bytes(row->name, spot->name, row->length))
			continue;
		answer = known ? 0 : facts_of(spot->directory, &facts);
		if (answer)
			return answer;
		known = 1;
		if ((facts.mode & TYPE_MASK) != DIRECTORY_)
			return -ENOTDIR_;
		answer = is_meant(spot->directory, &facts, row->parent);
		if (answer < 0)
			return answer;
		if (answer) {
			*found = row;
			return 0;
		}
	}
	return 0;
}

#endif
