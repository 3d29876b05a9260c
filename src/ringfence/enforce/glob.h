/* Patterns over paths, as policy/glob.py has them: matched part by part, in bounded time, without memory of their own.
 *
 * A pattern is its parts, each a string: "**" is any number of names, and anything else matches one name. Characters are
 * those of UTF-8; a byte that belongs to none is one by itself, as Python has it (surrogateescape).
 */
#ifndef RINGFENCE_GLOB_H
#define RINGFENCE_GLOB_H

#include "kernel.h"

static uint32_t load32(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The character at `at`, which it goes past. */
static uint32_t next_character(const uint8_t **at, const uint8_t *end)
{
	static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
	uint32_t first = *(*at)++, found;
	int more = first >= 0xf0 && first < 0xf5 ? 3 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xc2 && first < 0xe0 ? 1 : 0;

	if (first < 0x80)
		return first;
	found = more ? first & (0x3fU >> more) : 0;
	if (!more || end - *at < more)
		return 0xdc00 + first;
	for (int i = 0; i < more; i++) {
		if (((*at)[i] & 0xc0) != 0x80)
			return 0xdc00 + first;
		found = found << 6 | ((*at)[i] & 0x3fU);
	}
	if (found < least[more] || found > 0x10ffff || (found >= 0xd800 && found < 0xe000))
		return 0xdc00 + first;
	*at += more;
	return found;
}

/* Where the set in brackets that begins at `at` ends: at its "]", or NULL. One that comes first is a member. */
static const uint8_t *set_end(const uint8_t *at, const uint8_t *end)
{
	at++;
	if (at < end && (*at == '!' || *at == '^'))
		at++;
	for (at++; at < end; at++)
		if (*at == ']')
			return at;
	return NULL;
}

/* Whether a set, from behind its "[" to its "]", takes a character. */
static int set_takes(const uint8_t *at, const uint8_t *end, uint32_t character)
{
	int negated = *at == '!' || *at == '^', found = 0;

	at += negated;
	while (at < end) {
		uint32_t first = next_character(&at, end), last = first;

		if (end - at >= 2 && *at == '-') {
			at++;
			last = next_character(&at, end);
		}
		found |= first <= character && character <= last;
	}
	return found != negated;
}

/* Whether what stands at `*at` in a pattern takes a character; then it is gone past. */
static int takes(const uint8_t **at, const uint8_t *end, uint32_t character)
{
	const uint8_t *next = *at, *close;
	int answer;

	if (*next == '[') {
		close = set_end(next, end);
		if (!close)
			return 0;
		answer = set_takes(next + 1, close, character);
		next = close + 1;
	} else if (*next == '?') {
		answer = 1;
		next++;
	} else
		answer = next_character(&next, end) == character;
	if (answer)
		*at = next;
	return answer;
}

/* Whether a part matches a name: greedy, going back to the last star only. */
static int matches_name(const uint8_t *part, const uint8_t *part_end, const uint8_t *name, const uint8_t *name_end)
{
	const uint8_t *star = NULL, *resume = NULL;

	while (name < name_end) {
		const uint8_t *after = name;
		uint32_t character = next_character(&after, name_end);

		if (part < part_end && *part == '*') {
			star = ++part;
			resume = name;
		} else if (part < part_end && takes(&part, part_end, character))
			name = after;
		else if (star) {
			next_character(&resume, name_end);
			part = star;
			name = resume;
		} else
			return 0;
	}
	while (part < part_end && *part == '*')
		part++;
	return part == part_end;
}

static int is_any_depth(const uint8_t *part)
{
	return load32(part) == 2 && part[4] == '*' && part[5] == '*';
}

/* The parts of a pattern, one behind the other as in a step. At most 63, so that a set of states is a number: bit N is
 * that N parts are behind us. */
struct pattern {
	const uint8_t *parts;
	uint32_t count;
};

/* The states with those added that follow a "**" matching nothing. */
static uint64_t opened_states(const struct pattern *pattern, uint64_t states)
{
	const uint8_t *part = pattern->parts;

	for (uint32_t i = 0; i < pattern->count; i++, part += 5 + load32(part))
		if (states >> i & 1 && is_any_depth(part))
			states |= 2UL << i;
	return states;
}

/* The states one name further. */
static uint64_t advance(const struct pattern *pattern, uint64_t states, const char *name, uint32_t length)
{
	const uint8_t *part = pattern->parts, *bytes = (const uint8_t *)name;
	uint64_t following = 0;

	for (uint32_t i = 0; i < pattern->count && states >> i; i++, part += 5 + load32(part)) {
		if (!(states >> i & 1))
			continue;
		if (is_any_depth(part))
			following |= 1UL << i;
		else if (matches_name(part + 4, part + 4 + load32(part), bytes, bytes + length))
			following |= 2UL << i;
	}
	return opened_states(pattern, following);
}

/* The states of a pattern after a path; and how many names deep it matched last, or -1. */
static uint64_t states_after(const struct pattern *pattern, const char *path, int *deepest)
{
	uint64_t states = opened_states(pattern, 1);

	*deepest = -1;
	for (int depth = 0;; depth++) {
		uint32_t length = 0;

		if (states >> pattern->count & 1)
			*deepest = depth;
		while (*path == '/')
			path++;
		while (path[length] && path[length] != '/')
			length++;
		if (!length || !states)
			return states;
		states = advance(pattern, states, path, length);
		path += length;
	}
}

/* Whether the last name of a path is one that a pattern names, on the way to what it means: not one of those that "**", or a
 * star alone behind it, takes with all others. */
static int is_named_by(const struct pattern *pattern, const char *path)
{
	uint64_t states = opened_states(pattern, 1);
	int found = 0;

	while (*path) {
		const uint8_t *part = pattern->parts;
		uint32_t length = 0;
		int deep = 0;

		while (*path == '/')
			path++;
		while (path[length] && path[length] != '/')
			length++;
		found = 0;
		for (uint32_t i = 0; i < pattern->count; i++, part += 5 + load32(part)) {
			deep |= is_any_depth(part);
			found |= states >> i & 1 && !is_any_depth(part) && (!deep || load32(part) > 1 || part[4] != '*') &&
				 matches_name(part + 4, part + 4 + load32(part), (const uint8_t *)path, (const uint8_t *)path + length);
		}
		states = advance(pattern, states, path, length);
		path += length;
	}
	return found;
}

/* Whether a part can be read: every set is closed, and no slash is in it. */
static int part_fits(const uint8_t *at, const uint8_t *end)
{
	if (at == end)
		return 0;
	while (at < end) {
		const uint8_t *close = *at == '[' ? set_end(at, end) : at;

		if (!close)
			return 0;
		for (; at <= close; at++)
			if (*at == '/')
				return 0;
	}
	return 1;
}

#endif
