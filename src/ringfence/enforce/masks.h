/* Masks for many names of some directories: each is a mount, and of thousands they are most of a launch.
 *
 * Part of view.h. They are made in the attached view, where one call makes a mount, in half the time; and by two processes,
 * for most of what the kernel does for a mount it does behind no lock.
 *
 * That call follows a link, so a name that became one meanwhile would have something else masked. Where a directory is a mount
 * by itself, as all are in which the command writes, the kernel is told to follow none in it (5.14). Elsewhere what stands at a
 * name afterwards must be the mask.
 */
#ifndef RINGFENCE_MASKS_H
#define RINGFENCE_MASKS_H

#if defined(__aarch64__) && !defined(__clang__)
#pragma GCC target("no-outline-atomics") /* those are functions of libgcc, and we have no library */
#endif

enum { MANY_MASKS = 512, CHUNK = 64, NO_MORE = 1 << 30 };
enum { FOLLOWS_NO_LINKS = 0x200000 /* MOUNT_ATTR_NOSYMFOLLOW */, IS_WITHOUT_LINKS = 0x2000 /* ST_NOSYMFOLLOW */ };

/* What the two have in common. */
struct share {
	uint32_t next; /* the first name that nobody has taken, of all in their order */
	long answer;   /* the helper's */
};

static int is_masks(const struct step *step)
{
	return step->kind == MOUNT && read_step(step).numbers[0] == MASK_EACH;
}

/* How many names a step masks. */
static uint32_t count_names(const struct step *step)
{
	struct reader reader = read_step(step);
	const char *names;
	uint32_t length, count = 0;

	string(&reader, NULL);
	names = string(&reader, NULL);
	while (next_name(&names, &length))
		count++;
	return count;
}

/* Whether no link is followed in a directory. */
static int is_without_links(long directory)
{
	uint64_t facts[15] = {0}; /* struct statfs */

	return !CALL(fstatfs, directory, P(facts), 0, 0, 0) && facts[10] & IS_WITHOUT_LINKS;
}

/* Have no link followed in the directories, where that can be told; or, with those where it was told, as it was before. */
static long close_links(int is_closed)
{
	static uint8_t is_ours[MOST_STEPS];
	const struct mount_attr attr = {.attr_set = is_closed ? FOLLOWS_NO_LINKS : 0, .attr_clr = is_closed ? 0 : FOLLOWS_NO_LINKS};
	uint32_t number = 0;
	long answer = 0;

	for (const struct step *step = state.masks; !answer && step->kind == MOUNT; step = step_after(step), number++) {
		struct reader reader = read_step(step);
		long view;

		if (!is_masks(step) || (!is_closed && !is_ours[number]))
			continue;
		view = open_shown(string(&reader, NULL));
		if (view < 0)
			return view;
		if (!is_closed)
			answer = CALL(mount_setattr, view, P(""), AT_EMPTY_PATH, P(&attr), sizeof(attr));
		else if (!is_without_links(view))
			is_ours[number] = !CALL(mount_setattr, view, P(""), AT_EMPTY_PATH, P(&attr), sizeof(attr));
		close_fd(view);
	}
	return answer;
}

/* Mask a name in the directory we stand in; `wanted` is the mask, where that must be looked at. */
static long mask_name(const char *mask, const char *name, const struct facts *wanted)
{
	struct facts found;
	long answer = CALL(mount, P(mask), P(name), 0, MS_BIND_, 0);

	if (answer || !wanted)
		return answer == -E_LOOP ? -E_STALE : answer;
	answer = CALL(statx, AT_FDCWD, P(name), AT_SYMLINK_NOFOLLOW, STATX_INO_, P(&found));
	if (!answer && (found.inode != wanted->inode || found.dev_major != wanted->dev_major || found.dev_minor != wanted->dev_minor))
		answer = -E_STALE;
	return answer;
}

/* Mask those names of one directory that we have taken, or take now: from `mine` on, the first here being `at`. */
static long mask_each(struct reader reader, struct share *share, uint32_t at, uint32_t *mine)
{
	const char *mask = reader.numbers[1] & DIRECTORIES ? "/dev/d" : "/dev/f", *directory = string(&reader, NULL);
	const char *names = string(&reader, NULL);
	char name[MOST_NAME + 1];
	struct facts facts;
	const struct facts *wanted;
	long answer, view = open_shown(directory);

	if (view < 0)
		return view;
	wanted = is_without_links(view) ? NULL : &facts;
	answer = wanted ? CALL(statx, AT_FDCWD, P(mask), AT_SYMLINK_NOFOLLOW, STATX_INO_, P(&facts)) : 0;
	if (!answer)
		answer = CALL(fchdir, view, 0, 0, 0, 0);
	close_fd(view);
	for (; !answer && (answer = take_name(&names, name)) > 0; at++) {
		if (at == *mine + CHUNK)
			*mine = __atomic_fetch_add(&share->next, CHUNK, __ATOMIC_RELAXED);
		answer = at >= *mine ? mask_name(mask, name, wanted) : 0;
	}
	return answer;
}

/* Mask chunk after chunk of all names until none is left that nobody has taken. */
static long mask_chunks(struct share *share)
{
	uint32_t at = 0, mine = __atomic_fetch_add(&share->next, CHUNK, __ATOMIC_RELAXED);
	long answer = 0;

	for (const struct step *step = state.masks; !answer && step->kind == MOUNT; step = step_after(step)) {
		const uint32_t count = is_masks(step) ? count_names(step) : 0;

		if (count && at + count > mine)
			answer = mask_each(read_step(step), share, at, &mine);
		at += count;
	}
	if (answer)
		__atomic_store_n(&share->next, NO_MORE, __ATOMIC_RELAXED);
	return answer;
}

/* All of them, with a helper where they are many and one is to be had. */
static long mask_all(void)
{
	struct share alone = {0, 0}, *share = &alone;
	uint32_t count = 0;
	long answer, page, helper = -1;

	for (const struct step *step = state.masks; step->kind == MOUNT; step = step_after(step))
		count += is_masks(step) ? count_names(step) : 0;
	page = count < MANY_MASKS ? -1 : call6(__NR_mmap, 0, sizeof(*share), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page > 0 || page < -4095) {
		share = (struct share *)page;
		share->answer = -E_PROTO; /* should it die */
		helper = call6(__NR_clone, 0, 0, 0, 0, 0, 0); /* no signal at its end: the kernel reaps nobody for us */
	}
	if (!helper) {
		CALL(prctl, PR_SET_PDEATHSIG, 9 /* SIGKILL */, 0, 0, 0);
		share->answer = mask_chunks(share);
		CALL(exit_group, 0, 0, 0, 0, 0);
	}
	answer = mask_chunks(share);
	if (helper > 0) {
		while (CALL(waitid, 1 /* P_PID */, helper, 0, 4 | 0x40000000 /* WEXITED | __WALL */, 0) == -4 /* EINTR */)
			;
		answer = answer ? answer : share->answer;
	}
	return answer;
}

/* The masks of many names. What they are copies of stands on /dev meanwhile, which every view has. */
static long mask_many(void)
{
	long answer = state.empty < 0 ? make_empty() : 0;

	if (!answer)
		answer = place(state.empty, "/dev");
	if (!answer)
		answer = close_links(1);
	if (!answer)
		answer = mask_all();
	if (!answer)
		answer = close_links(0);
	return answer ? answer : CALL(umount2, P("/dev"), MNT_DETACH_, 0, 0, 0);
}

#endif
