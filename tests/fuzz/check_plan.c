/* The enactor's check of a plan, alone, for a fuzzer: first_fault() of enact.c and nothing that acts.
 *
 * With -DLIBFUZZER it is a libFuzzer target (`clang -fsanitize=fuzzer,address,undefined`). Otherwise it reads inputs on
 * stdin (32-bit length, bytes) and writes a 64-bit answer for each, so that the tests can hold it against enact.py. Each
 * input gets a buffer of exactly its size: a sanitizer then sees every byte that is read too far.
 */
#define HOSTED
#define main enactor_main
#include "../../src/ringfence/enforce/enact.c"
#undef main

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long checked(const uint8_t *bytes, size_t size)
{
	uint8_t *plan = malloc(size); /* aligned for any type, as a mapping is */
	long answer;

	if (size && !plan)
		abort();
	if (size)
		memcpy(plan, bytes, size);
	answer = first_fault(plan, size);
	free(plan);
	return answer;
}

#ifdef LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	checked(bytes, size);
	return 0;
}
#else
int main(void)
{
	static uint8_t bytes[1 << 23];
	uint32_t size;

	while (fread(&size, sizeof(size), 1, stdin) == 1) {
		int64_t answer;

		if (size > sizeof(bytes) || fread(bytes, 1, size, stdin) != size)
			return 1;
		answer = checked(bytes, size);
		if (fwrite(&answer, sizeof(answer), 1, stdout) != 1 || fflush(stdout))
			return 1;
	}
	return 0;
}
#endif
