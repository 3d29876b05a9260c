/* The plan format: what a step looks like, and the check of a whole plan before its first step is done.
 *
 * Written a second time in enact.py; the tests hold the two against each other. Nothing here makes a system call.
 */
#ifndef RINGFENCE_FORMAT_H
#define RINGFENCE_FORMAT_H

#include "glob.h"

enum kind {
	NURSERY = 2,
	JOIN = 5,
	LOG = 10,
	BUBBLEWRAP = 15,
	NAMESPACES = 20,
	ID_MAP = 21,
	LOOPBACK = 30,
	LISTEN = 31,
	ASK = 32,
	VIEW = 40,
	MOUNT = 41,
	ATTACH = 50,
	WARDEN = 60,
	VERIFY = 65,
	PROC = 70,
	LOCK = 75,
	NO_NEW_PRIVS = 80,
	RULESET = 90,
	BENEATH = 91,
	PORT = 92,
	TERMINALS = 93,
	RESTRICT = 94,
	OBSERVE = 95,
	PARENT = 96,
	NAME = 97,
	PATTERN = 98,
	PAUSE = 99,
	COMMAND = 100,
	SESSION = 110,
	TERMINAL = 111,
	LIMIT = 120,
	STREAM = 130,
	STREAMS = 131,
	DIRECTORY = 132,
	SCOPE = 140,
	CAPABILITIES = 150,
	SECCOMP = 160,
	AWAIT = 165,
	EXEC = 170,
};

enum { MOST_NAME = 255, MOST_VECTOR = 262144, MOST_STEPS = 65536, FILTER_MOST = 4096, MOST_LAYERS = 16, MOST_MESSAGE = 65536 };
enum { OWN_MOUNTS = CLONE_NEWUSER | CLONE_NEWNS }; /* what mounts and interfaces of our own need, even as root */

struct header {
	char magic[8];
	uint32_t version, size, count, zero;
};

/* One step: `numbers` 64-bit numbers, then `strings` strings (32-bit length, bytes, NUL), padded to 8 bytes. */
struct step {
	uint16_t kind, numbers;
	uint32_t strings, size, zero;
};

struct record {
	uint32_t tag, step, kind, error;
};
enum { READY = 1, FAILED = 2, PROBED = 3, ENDED = 4, DENIED = 5, LENT = 6, OPENED = 7, OBSERVED = 8, LOST = 9, PAUSED = 10, STOPPED = 11 };
enum { IS_READ, IS_WRITE, PASSES = 0, DENIES = 1, ALWAYS = 2, MOST_PARTS = 63 }; /* what PATTERN is about, and says */
/* What NAME says: not to be made; a directory to be watched; not to be moved; not to be changed, nor what is in it. */
enum { DENY = 1, WATCH = 2, PIN = 3, KEEP = 4 };

/* What each kind of step carries, whether it may come more than once, and what must have come before it. */
static const struct shape {
	uint16_t kind, numbers;
	uint32_t least_strings, most_strings;
	uint16_t repeats, after;
} SHAPES[] = {
	{NURSERY, 2, 0, 0, 0, 0},
	{JOIN, 1, 0, 0, 1, 0},
	{LOG, 0, 1, 1, 0, 0},
	{BUBBLEWRAP, 0, 1, 65535, 1, 0},
	{NAMESPACES, 1, 0, 0, 0, 0},
	{ID_MAP, 4, 0, 0, 0, NAMESPACES},
	{LOOPBACK, 0, 0, 0, 0, NAMESPACES},
	{LISTEN, 3, 0, 0, 1, LOOPBACK}, /* or it would be a port of the host's */
	{ASK, 0, 0, 0, 0, LOOPBACK},
	{VIEW, 1, 0, 0, 0, NAMESPACES}, /* or it would be the host's own mounts */
	{MOUNT, 6, 1, 65535, 1, VIEW},
	{ATTACH, 0, 0, 0, 0, VIEW},
	{WARDEN, 1, 0, 0, 0, 0},
	{VERIFY, 3, 1, 1, 1, BUBBLEWRAP},
	{PROC, 1, 0, 0, 0, WARDEN},
	{LOCK, 4, 0, 0, 0, ATTACH}, /* or it would be the host's own mounts */
	{NO_NEW_PRIVS, 0, 0, 0, 0, 0},
	{RULESET, 3, 0, 0, 0, 0},
	{BENEATH, 3, 1, 1, 1, RULESET},
	{PORT, 2, 0, 0, 1, RULESET},
	{TERMINALS, 2, 0, 0, 0, RULESET},
	{RESTRICT, 0, 0, 0, 0, RULESET},
	{OBSERVE, 1, 0, 0, 0, WARDEN},
	{PARENT, 2, 1, 1, 1, WARDEN},
	{NAME, 2, 1, 1, 1, PARENT},
	{PATTERN, 3, 0, MOST_PARTS, 1, WARDEN},
	{PAUSE, 0, 0, 0, 0, WARDEN},
	{COMMAND, 0, 0, 0, 0, WARDEN},
	{SESSION, 0, 0, 0, 0, 0},
	{TERMINAL, 1, 0, 0, 0, SESSION}, /* who leads no session has no terminal */
	{LIMIT, 3, 0, 0, 1, 0},
	{STREAM, 5, 1, 1, 1, 0},
	{STREAMS, 0, 0, 0, 0, 0},
	{DIRECTORY, 2, 1, 1, 0, 0},
	{SCOPE, 2, 0, 0, 0, COMMAND}, /* without a warden RULESET has the scopes */
	{CAPABILITIES, 0, 0, 0, 0, 0},
	{SECCOMP, 1, 1, 1, 0, 0},
	{AWAIT, 2, 0, 0, 0, SECCOMP}, /* a standby stands behind all its walls */
	{EXEC, 1, 2, MOST_VECTOR, 0, STREAMS},
};

struct reader {
	const struct step *step;
	const uint64_t *numbers;
	const uint8_t *next; /* the next string's length */
};

static struct reader read_step(const struct step *step)
{
	const uint64_t *numbers = (const uint64_t *)(const void *)(step + 1);

	return (struct reader){step, numbers, (const uint8_t *)(numbers + step->numbers)};
}

static const struct step *step_after(const struct step *step)
{
	return (const struct step *)(const void *)((const uint8_t *)step + step->size);
}

/* Whether a step of some kind comes, from one on. */
static int comes(const struct step *step, uint16_t kind)
{
	while (step->kind < kind)
		step = step_after(step);
	return step->kind == kind;
}

/* The next string; the caller has checked that there is one. */
static const char *string(struct reader *reader, uint32_t *length)
{
	uint32_t size = load32(reader->next);
	const char *text = (const char *)reader->next + 4;

	reader->next += 4 + (size_t)size + 1;
	if (length)
		*length = size;
	return text;
}

/* The next of the names that stand in one string with slashes between, as long as it says; NULL behind the last. */
static const char *next_name(const char **rest, uint32_t *length)
{
	const char *name = *rest;

	if (!name)
		return NULL;
	for (*length = 0; name[*length] && name[*length] != '/';)
		(*length)++;
	*rest = name[*length] ? name + *length + 1 : NULL;
	return name;
}

static const struct shape *shape_of(uint16_t kind)
{
	for (size_t i = 0; i < sizeof(SHAPES) / sizeof(SHAPES[0]); i++)
		if (SHAPES[i].kind == kind)
			return &SHAPES[i];
	return NULL;
}

/* Whether the strings of a step fill exactly its room, are NUL terminated, and (but for a filter) hold no other NUL. */
static int strings_fit(const struct step *step, const uint8_t *at, const uint8_t *end)
{
	for (uint32_t i = 0; i < step->strings; i++) {
		uint32_t length;

		if (end - at < 5)
			return 0;
		length = load32(at);
		at += 4;
		if ((uint64_t)(end - at) < (uint64_t)length + 1 || at[length])
			return 0;
		for (uint32_t n = 0; step->kind != SECCOMP && n < length; n++)
			if (!at[n])
				return 0;
		at += (size_t)length + 1;
	}
	if (end - at >= 8)
		return 0;
	while (at < end)
		if (*at++)
			return 0;
	return 1;
}

static int pattern_fits(const struct step *step)
{
	struct reader reader = read_step(step);
	const uint64_t *numbers = reader.numbers;

	if (numbers[0] > IS_WRITE || numbers[1] > ALWAYS || numbers[2] > 255)
		return 0;
	for (uint32_t i = 0; i < step->strings; i++) {
		uint32_t length;
		const uint8_t *part = (const uint8_t *)string(&reader, &length);

		if (!part_fits(part, part + length))
			return 0;
	}
	return 1;
}

/* Whether names are names; one alone, where a directory is waited for. */
static int names_fit(const char *names, int is_single)
{
	uint32_t length;

	while (next_name(&names, &length))
		if (!length || length > MOST_NAME || (is_single && names))
			return 0;
	return 1;
}

/* What only one kind must keep. */
static int detail_fits(const struct step *step)
{
	struct reader reader = read_step(step);
	uint32_t length;

	if (step->kind == EXEC)
		return reader.numbers[0] >= 1 && reader.numbers[0] < step->strings;
	if (step->kind == SECCOMP) {
		string(&reader, &length);
		return reader.numbers[0] <= 1 && length && length % sizeof(struct sock_filter) == 0 && length / sizeof(struct sock_filter) <= FILTER_MOST;
	}
	if (step->kind == LISTEN)
		return (reader.numbers[0] == 2 || reader.numbers[0] == 10) && (reader.numbers[1] == 1 || reader.numbers[1] == 2) &&
		       reader.numbers[2] && reader.numbers[2] < 1 << 16;
	if (step->kind == STREAM)
		return reader.numbers[0] <= 2;
	if (step->kind == NURSERY)
		return reader.numbers[0] > 2 && reader.numbers[0] < 1 << 24 && reader.numbers[1] > 2 && reader.numbers[1] < 1 << 24;
	if (step->kind == AWAIT)
		return reader.numbers[0] > 2 && reader.numbers[0] < 1 << 24 && reader.numbers[1] < 1 << 24;
	if (step->kind == WARDEN)
		return reader.numbers[0] <= 1;
	if (step->kind == NAME)
		return reader.numbers[1] >= DENY && reader.numbers[1] <= KEEP && names_fit(string(&reader, NULL), reader.numbers[1] == WATCH);
	if (step->kind == PATTERN)
		return pattern_fits(step);
	if (step->kind == OBSERVE)
		return reader.numbers[0] >= 1 && reader.numbers[0] <= 7;
	if (step->kind == TERMINAL)
		return reader.numbers[0] >= 1 && reader.numbers[0] <= 7;
	if (step->kind == JOIN)
		return reader.numbers[0] > 2 && reader.numbers[0] < 1 << 24;
	if (step->kind == NAMESPACES)
		return (reader.numbers[0] & OWN_MOUNTS) == OWN_MOUNTS;
	return 1;
}

/* Whether one step has the shape of its kind and fits in the bytes that are left. */
static int step_fits(const struct step *step, size_t left)
{
	const struct shape *shape;

	if (left < sizeof(*step) || step->zero || step->size < sizeof(*step) || step->size > left || step->size % 8)
		return 0;
	shape = shape_of(step->kind);
	if (!shape || step->numbers != shape->numbers)
		return 0;
	if (step->strings < shape->least_strings || step->strings > shape->most_strings)
		return 0;
	if ((step->size - sizeof(*step)) / 8 < step->numbers)
		return 0;
	if (!strings_fit(step, read_step(step).next, (const uint8_t *)step + step->size))
		return 0;
	return detail_fits(step);
}

/* A plan ends by becoming the command, or by waiting for the plan that does. */
static int is_last(uint16_t kind)
{
	return kind == EXEC || kind == AWAIT;
}

/* Whether what a step builds on was there. A pid namespace is made in a user namespace of our own, or bubblewrap has made
 * both, and then nobody else does; a listener is handed to a warden. */
static int is_founded(const struct step *step, const uint8_t *seen)
{
	uint16_t after = shape_of(step->kind)->after;

	if (seen[BUBBLEWRAP] && (step->kind == NAMESPACES || step->kind == WARDEN))
		return step->kind == WARDEN && read_step(step).numbers[0] == 1;
	if (step->kind == LOOPBACK && seen[BUBBLEWRAP])
		return 1;
	if (step->kind == WARDEN && read_step(step).numbers[0] && !seen[NAMESPACES])
		return 0;
	if (step->kind == SECCOMP && read_step(step).numbers[0] && !seen[COMMAND])
		return 0;
	return !after || seen[after];
}

/* Whether a step may follow those seen: forwards, once unless it repeats, after what it builds on, and nothing left
 * half done at the end: a view not attached, a ruleset not in force, a warden without a command would hold nobody. */
static int step_follows(const struct step *step, uint16_t before, const uint8_t *seen)
{
	const struct shape *shape = shape_of(step->kind);

	if (step->kind < before || (step->kind == before && !shape->repeats) || !is_founded(step, seen))
		return 0;
	if (!is_last(step->kind))
		return 1;
	return seen[VIEW] == seen[ATTACH] && seen[WARDEN] == seen[COMMAND] && seen[WARDEN] >= seen[BUBBLEWRAP] && seen[RULESET] == seen[RESTRICT];
}

/* Check a whole plan. The answer is -1 when it is well formed, and otherwise the number of the first bad step (0 for a
 * bad header). The kinds may not go backwards: their numbers are the safe order. EXEC or AWAIT is last, and only last. */
static long first_fault(const uint8_t *plan, size_t size)
{
	const struct header *header = (const struct header *)(const void *)plan;
	size_t at = sizeof(*header);
	uint16_t before = 0;
	uint8_t seen[EXEC + 1] = {0};

	if (size < sizeof(*header) || load32(plan) != 0x4c504652U || load32(plan + 4) != 0x314e41U)
		return 0; /* the magic is "RFPLAN1\0" */
	if (header->version != 1 || header->size != size || header->zero || !header->count || header->count > MOST_STEPS)
		return 0;
	for (uint32_t i = 0; i < header->count; i++) {
		const struct step *step = (const struct step *)(const void *)(plan + at);

		if (!step_fits(step, size - at) || !step_follows(step, before, seen))
			return (long)i;
		if (is_last(step->kind) != (i + 1 == header->count))
			return (long)i;
		before = step->kind;
		seen[before] = 1;
		at += step->size;
	}
	return at == size ? -1 : (long)header->count - 1;
}

/* ---- Texts ---- */

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

/* "/proc/self/fd/NUMBER": one of our own descriptors, to be opened anew. */
static void own_path(char *into, long fd)
{
	put_number(put_text(into, "/proc/self/fd/"), (uint64_t)fd);
}

#endif
