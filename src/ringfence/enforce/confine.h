/* A filter that lets some calls through and ends whoever makes another.
 *
 * Part of enact.c, in which it is included; tests/fuzz/confine.c has it alone. A binary search over runs of numbers: when a filter is installed the kernel
 * walks it once for every call there is, so that one comparison after the other costs five times as much.
 */

#if defined(__x86_64__)
enum { OWN_ARCH = 0xc000003eU };
#else
enum { OWN_ARCH = 0xc00000b7U };
#endif
enum { MOST_ALLOWED = 96, LOAD_ = 0x20, EQUAL_ = 0x15, AT_LEAST_ = 0x35, RETURN_ = 6, HEAD_ = 4 };

static struct {
	uint32_t starts[2 * MOST_ALLOWED + 1]; /* where the runs begin; those with an odd place are let through */
	uint32_t runs;
	struct sock_filter program[2 * MOST_ALLOWED + 8];
} confine;

/* Where a run of numbers ends up: behind the search stand the two answers. */
static uint32_t answer_at(uint32_t run)
{
	return HEAD_ + confine.runs - 1 + !(run & 1);
}

/* The search among the runs from `low` to before `high`, two at least, in as many instructions as they have borders. */
static void search_at(uint32_t at, uint32_t low, uint32_t high)
{
	const uint32_t middle = (low + high) / 2, right = at + middle - low;
	const uint32_t above = high - middle == 1 ? answer_at(middle) : right, below = middle - low == 1 ? answer_at(low) : at + 1;

	confine.program[at] =
		(struct sock_filter){AT_LEAST_, (uint8_t)(above - at - 1), (uint8_t)(below - at - 1), confine.starts[middle]};
	if (middle - low > 1)
		search_at(at + 1, low, middle);
	if (high - middle > 1)
		search_at(right, middle, high);
}

static void sort(uint16_t *numbers, size_t count)
{
	for (size_t i = 1; i < count; i++)
		for (size_t j = i; j && numbers[j - 1] > numbers[j]; j--) {
			const uint16_t lower = numbers[j];

			numbers[j] = numbers[j - 1];
			numbers[j - 1] = lower;
		}
}

/* The filter, as so many instructions; none where there are too many calls. */
static uint32_t assemble(const uint16_t *allowed, size_t count)
{
	struct sock_filter *const program = confine.program;
	uint16_t numbers[MOST_ALLOWED];

	if (!count || count > MOST_ALLOWED)
		return 0;
	for (size_t i = 0; i < count; i++)
		numbers[i] = allowed[i];
	sort(numbers, count);
	confine.starts[0] = 0;
	confine.runs = 1;
	for (size_t i = 0; i < count; i++) {
		if (i && numbers[i] == numbers[i - 1])
			continue;
		if (i && numbers[i] == numbers[i - 1] + 1)
			confine.runs--; /* the run before goes on */
		else
			confine.starts[confine.runs++] = numbers[i];
		confine.starts[confine.runs++] = numbers[i] + 1U;
	}
	program[0] = (struct sock_filter){LOAD_, 0, 0, 4 /* the architecture */};
	program[1] = (struct sock_filter){EQUAL_, 1, 0, OWN_ARCH};
	program[2] = (struct sock_filter){RETURN_, 0, 0, SECCOMP_RET_KILL_PROCESS};
	program[3] = (struct sock_filter){LOAD_, 0, 0, 0 /* the number */};
	search_at(HEAD_, 0, confine.runs);
	program[HEAD_ + confine.runs - 1] = (struct sock_filter){RETURN_, 0, 0, SECCOMP_RET_ALLOW};
	program[HEAD_ + confine.runs] = (struct sock_filter){RETURN_, 0, 0, SECCOMP_RET_KILL_PROCESS};
	return HEAD_ + confine.runs + 1;
}

static long allow_only(const uint16_t *allowed, size_t count)
{
	struct sock_fprog whole = {(unsigned short)assemble(allowed, count), confine.program};

	return whole.len ? CALL(seccomp, SECCOMP_SET_MODE_FILTER, 0, P(&whole), 0, 0) : -E_PROTO;
}
