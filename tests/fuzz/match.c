/* How deep a pattern matches a path, as the warden finds it: for the tests, which hold it against policy/glob.py.
 *
 * Standard input is questions, each a u32 size and so many bytes: a u32 count of parts, the parts as in a step, and the
 * path with its NUL. The answer to each is an i32 and a u64: the depth, and the states after all of the path.
 */
#include "../../src/ringfence/enforce/glob.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	uint32_t size;

	while (fread(&size, sizeof(size), 1, stdin) == 1) {
		uint8_t *question = malloc(size); /* exactly so much, so that a sanitizer sees one byte more */
		struct pattern pattern;
		int32_t deepest;
		uint64_t states;
		const uint8_t *at;

		if (!question || fread(question, 1, size, stdin) != size)
			return 1;
		pattern = (struct pattern){question + 4, load32(question)};
		at = pattern.parts;
		for (uint32_t i = 0; i < pattern.count; i++)
			at += 5 + load32(at);
		states = states_after(&pattern, (const char *)at, &deepest);
		fwrite(&deepest, sizeof(deepest), 1, stdout);
		fwrite(&states, sizeof(states), 1, stdout);
		free(question);
	}
	return 0;
}
