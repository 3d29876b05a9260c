/* The filter that lets some calls through, as the warden makes it: for the tests, which try it on every number.
 *
 * Standard input is questions, each a u16 count and so many u16 numbers. The answer to each is a u32 and so many
 * instructions.
 */
#include "../../src/ringfence/enforce/kernel.h"
#include "../../src/ringfence/enforce/confine.h"
#include <stdio.h>

int main(void)
{
	uint16_t count, numbers[2 * MOST_ALLOWED];

	while (fread(&count, sizeof(count), 1, stdin) == 1) {
		uint32_t length;

		if (count > 2 * MOST_ALLOWED || fread(numbers, sizeof(numbers[0]), count, stdin) != count)
			return 1;
		length = assemble(numbers, count);
		fwrite(&length, sizeof(length), 1, stdout);
		fwrite(confine.program, sizeof(confine.program[0]), length, stdout);
	}
	return 0;
}
