/* The template: the part of a view that is the same for every run of a nursery, made once and copied by each.
 *
 * Part of enact.c. The nursery makes user and mount namespaces of its own and builds the view in them; each of its children
 * makes its own within those, and is born with a copy, which the kernel makes in a tenth of the time. In a user namespace
 * further in, the mounts of a copy are locked together: nobody in it takes one off, or makes one writable.
 *
 * What a run writes to is its own: private directories, terminals and overlays are made by each child, and so is /proc. What
 * stands in a private directory is carried over onto the run's own. That is a second copy of it; so where there are thousands of
 * mounts, the nursery makes the private directory anew for each child, and moves there what stands in it.
 *
 * A template is as old as the nursery, so each child looks again: whether what was bound still stands where it was planned,
 * and whether no mount has gone with a name that somebody removed outside.
 */
#ifndef RINGFENCE_TEMPLATE_H
#define RINGFENCE_TEMPLATE_H

#include "view.h"

#ifndef __NR_listmount
#define __NR_listmount 458
#endif

/* What becomes of a mount: each has it by the copy; each makes its own; the same, on a place that the template has for what
 * is inside; it stands inside such a one, and is carried over. */
enum part { SHARED, OWN, OWN_PLACE, CARRIED };
enum { MOST_APART = 64, LAYERS = 4 };

static struct {
	int is_there;
	long host;   /* the root of the host's own tree */
	long mounts; /* how many there are in a copy */
	uint32_t next, overlay, apart;	  /* in a child: the mount at hand, and how many of these were put in place: */
	long overlays[MOST_APART], carried[MOST_APART];
	long layers[MOST_APART * LAYERS]; /* of overlays */
	int is_renewed;			  /* places are made anew for each child, and nothing is carried */
	long copying;			  /* then, in a child: open until it has its copy */
	uint8_t parts[MOST_STEPS];	  /* for each MOUNT */
} template;

/* How many mounts we see. */
static long count_mounts(void)
{
	static uint64_t found[512];
	const long room = sizeof(found) / sizeof(found[0]);
	struct {
		uint32_t size, zero;
		uint64_t mount, after;
	} request = {24, 0, ~0UL /* the root, and all below it */, 0};
	long answer, count = 0;

	do {
		answer = CALL(listmount, P(&request), P(found), room, 0, 0);
		if (answer < 0)
			return answer;
		count += answer;
		if (answer)
			request.after = found[answer - 1];
	} while (answer == room);
	return count;
}

/* Whether a path is another or lies below it. */
static int is_within(const char *path, const char *above)
{
	while (*above && *path == *above)
		path++, above++;
	return !*above && (!*path || *path == '/');
}

static int is_own(const uint64_t *numbers)
{
	return numbers[0] == DEVPTS || numbers[0] == OVERLAY || (numbers[0] == TMPFS && !(numbers[1] & READ_ONLY));
}

/* The mounts that are not simply shared. */
struct apart {
	const char *path;
	uint32_t number;
	int is_own, is_place;
};

/* Say what becomes of one mount; the answer is whether anything can. */
static int part_of(struct apart *apart, uint32_t *count, const char *path, const uint64_t *numbers, uint32_t number)
{
	const struct apart *inmost = NULL;

	for (uint32_t i = 0; i < *count; i++)
		if (is_within(path, apart[i].path) && (!inmost || is_within(apart[i].path, inmost->path)))
			inmost = &apart[i];
	template.parts[number] = SHARED;
	if (!is_own(numbers) && (!inmost || !inmost->is_own))
		return 1;
	if (*count == MOST_APART)
		return 0;
	template.parts[number] = is_own(numbers) ? OWN : CARRIED;
	if (!is_own(numbers)) {
		if (!inmost->is_place || numbers[0] == MASK_EACH || numbers[0] == BIND_EACH)
			return 0;
		for (uint32_t i = 0; i < *count; i++)
			if (apart[i].is_own && is_within(path, apart[i].path))
				template.parts[apart[i].number] = OWN_PLACE;
		template.is_renewed = 1; /* if it is worth it */
	}
	apart[(*count)++] = (struct apart){path, number, is_own(numbers), numbers[0] == TMPFS};
	return 1;
}

/* Whether a plan's view can be copied; if so, what becomes of each of its mounts. The kernel shows a new /proc only where the
 * old one can be seen: not below what is locked onto it, and not writable where that is read-only. */
static int can_be_copied(const struct step *first)
{
	static struct apart apart[MOST_APART];
	uint32_t count = 0, number = 0, masks = 0;
	int has_view = 0, is_late = 0;

	for (const struct step *step = first; !is_last(step->kind); step = step_after(step)) {
		struct reader reader = read_step(step);
		const uint64_t *numbers = reader.numbers;

		if (step->kind == BUBBLEWRAP || (step->kind == PROC && !numbers[0]))
			return 0;
		if (step->kind == VIEW) {
			has_view = 1;
			is_late = !numbers[0]; /* a kernel that knows detached trees takes them as layers too */
		}
		if (step->kind != MOUNT)
			continue;
		if (numbers[0] == OVERLAY && (!is_late || step->strings != LAYERS))
			return 0;
		const char *path = string(&reader, NULL);

		if (!path[0] || !path[1] || is_within(path, "/proc") || !part_of(apart, &count, path, numbers, number++))
			return 0;
		masks += is_masks(step) ? count_names(step) : 0;
	}
	template.is_renewed &= masks >= MANY_MASKS;
	return has_view && count_mounts() > 0;
}

/* A directory as a tree of its own. */
static long clone_directory(const char *path, uint64_t device, uint64_t inode)
{
	long tree, fd = open_planned(path, O_PATH | O_DIRECTORY, device, inode);

	if (fd < 0)
		return fd;
	tree = CALL(open_tree, fd, P(""), AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC_, 0, 0);
	close_fd(fd);
	return tree;
}

/* The layers of an overlay, and the tree that the two private ones are in: the kernel wants those of one mount. */
static long keep_layers(struct reader reader, long *layers)
{
	static char parent[4096];
	const uint64_t *numbers = reader.numbers;
	const char *upper, *work;
	size_t length = 0, slash = 0;

	string(&reader, NULL);
	layers[0] = clone_directory(string(&reader, NULL), numbers[4], numbers[5]);
	upper = string(&reader, NULL);
	work = string(&reader, NULL);
	for (; upper[length] && length < sizeof(parent) - 1; length++) {
		parent[length] = upper[length];
		slash = upper[length] == '/' ? length : slash;
	}
	if (upper[length])
		return -E_PROTO;
	parent[slash] = 0;
	layers[3] = clone_directory(parent, 0, 0);
	if (layers[0] < 0 || layers[3] < 0)
		return layers[0] < 0 ? layers[0] : layers[3];
	if (!is_within(work, parent) || work[slash] != '/')
		return -E_PROTO;
	layers[1] = open_exact(layers[3], upper + slash + 1, O_PATH | O_DIRECTORY);
	layers[2] = open_exact(layers[3], work + slash + 1, O_PATH | O_DIRECTORY);
	return layers[1] < 0 ? layers[1] : layers[2] < 0 ? layers[2] : 0;
}

/* In the nursery: one mount of the template. A private directory that must be there for others is made closed. */
static long make_part(struct reader reader, uint32_t number, uint32_t *layers)
{
	uint64_t closed[6];

	if (template.parts[number] == OWN && reader.numbers[0] != OVERLAY)
		return 0;
	if (template.parts[number] == OWN) {
		*layers += LAYERS;
		return keep_layers(reader, template.layers + *layers - LAYERS);
	}
	for (int i = 0; i < 6; i++)
		closed[i] = reader.numbers[i];
	if (template.parts[number] == OWN_PLACE && !template.is_renewed) {
		closed[1] |= READ_ONLY;
		reader.numbers = closed;
	}
	return do_mount(reader);
}

/* In the nursery: make the template, if this plan's view can be copied. */
static long make_template(const struct step *first)
{
	uint32_t number = 0, layers = 0;
	long answer = 0;

	if (!can_be_copied(first))
		return 0;
	template.host = CALL(openat, AT_FDCWD, P("/"), O_PATH | O_DIRECTORY | O_CLOEXEC, 0, 0);
	if (template.host < 0)
		return template.host;
	for (const struct step *step = first; !answer && step->kind <= ATTACH; step = step_after(step)) {
		struct reader reader = read_step(step);

		if (step->kind == NAMESPACES)
			answer = do_namespaces(OWN_MOUNTS);
		else if (step->kind == ID_MAP)
			answer = do_id_map(reader.numbers);
		else if (step->kind == VIEW)
			answer = do_view(reader.numbers[0], 0);
		else if (step->kind == MOUNT)
			answer = make_part(reader, number++, &layers);
		else if (step->kind == ATTACH)
			answer = do_attach();
	}
	if (answer)
		return answer;
	CALL(prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
	state.root = AT_FDCWD; /* we stand in it */
	template.mounts = count_mounts();
	template.is_there = 1;
	return template.mounts < 0 ? template.mounts : 0;
}

/* In the nursery: a private directory, from its own step on, made anew, and what stands in it moved there. It is put together
 * on /proc, which nobody needs meanwhile; the answer is the mount. */
static long renew_inside(const struct step *step, uint32_t number, const char *directory)
{
	static char where[4096];
	long answer = 0, mount, top = -E_PROTO;

	for (; !answer && step->kind == MOUNT; step = step_after(step), number++) {
		const uint8_t part = template.parts[number];
		struct reader reader = read_step(step);
		const char *path = string(&reader, NULL);

		if ((part != OWN_PLACE && part != CARRIED) || !is_within(path, directory))
			continue;
		if (length_of(path) + sizeof("/proc") > sizeof(where))
			return -E_PROTO;
		put_text(put_text(where, "/proc"), path + length_of(directory));
		mount = part == OWN_PLACE ? mount_tmpfs(reader.numbers, &reader, step->strings - 1) : open_exact(AT_FDCWD, path, O_PATH);
		answer = mount < 0 ? mount : place(mount, where);
		if (top < 0)
			top = mount;
		else if (mount >= 0)
			close_fd(mount);
	}
	return answer ? answer : top;
}

/* In the nursery, once a child has its copy: other private directories for the next. */
static long renew(const struct step *step)
{
	const char *last = NULL;
	uint32_t number = 0;
	long answer = 0, top;

	while (step->kind < MOUNT)
		step = step_after(step);
	for (; !answer && step->kind == MOUNT; step = step_after(step), number++) {
		struct reader reader = read_step(step);
		const char *path = string(&reader, NULL);

		if (template.parts[number] != OWN_PLACE || (last && is_within(path, last)))
			continue;
		last = path; /* parents come first: what is inside follows, or comes with the rest */
		top = renew_inside(step, number, path);
		answer = top < 0 ? top : CALL(umount2, P(path), MNT_DETACH_ | 8 /* UMOUNT_NOFOLLOW */, 0, 0, 0);
		if (!answer)
			answer = place(top, path);
		if (top >= 0)
			close_fd(top);
	}
	return answer;
}

/* Whether what a mount shows still stands on the host where it was planned. */
static long look_again(const struct step *step)
{
	struct reader reader = read_step(step);
	const uint64_t *numbers = reader.numbers;
	const char *path = string(&reader, NULL);
	struct facts facts;
	long answer;

	if (numbers[0] == BIND || numbers[0] == OVERLAY)
		path = string(&reader, NULL);
	else if (numbers[0] != MASK_EACH && numbers[0] != BIND_EACH)
		return 0;
	if (!numbers[4] && !numbers[5])
		return 0;
	while (*path == '/')
		path++;
	answer = CALL(statx, template.host, P(path), *path ? AT_SYMLINK_NOFOLLOW : AT_EMPTY_PATH, STATX_BASIC, P(&facts));
	if (!answer && (device_number(facts.dev_major, facts.dev_minor) != numbers[4] || facts.inode != numbers[5]))
		answer = -E_STALE;
	return answer;
}

/* In a child: NAMESPACES. An overlay's layers must be of our own mount namespace, or of none and under our own rule: so it is
 * made before we enter those of the run, where there is nothing but the copy. */
static long enter_namespaces(const struct step *step)
{
	const uint64_t flags = read_step(step).numbers[0];
	uint32_t count = 0;

	for (; step->kind <= ATTACH; step = step_after(step)) {
		struct reader reader = read_step(step);

		if (step->kind != MOUNT || reader.numbers[0] != OVERLAY)
			continue;
		state.layers = template.layers + count * LAYERS;
		template.overlays[count] = mount_overlay(reader.numbers, NULL, NULL, NULL);
		if (template.overlays[count] < 0)
			return template.overlays[count];
		close_fd(template.layers[count++ * LAYERS + 3]);
	}
	const long answer = do_namespaces(flags);

	if (template.is_renewed)
		close_fd(template.copying);
	return answer;
}

/* In a child: ID_MAP. In the nursery's namespace we are already called what we are to be called. */
static long do_inner_id_map(const uint64_t *ids)
{
	const uint64_t same[4] = {ids[0], ids[0], ids[2], ids[2]};

	state.host = template.host; /* /proc is read-only in a copy */
	return do_id_map(same);
}

/* In a child: VIEW. We have the copy; what is to be carried over is taken before anything covers it. */
static long take_view(const struct step *step)
{
	uint32_t number = 0, count = 0;
	long answer = 0;

	state.umask = CALL(umask, 0, 0, 0, 0, 0);
	state.root = CALL(openat, AT_FDCWD, P("/"), O_PATH | O_DIRECTORY | O_CLOEXEC, 0, 0);
	if (state.root < 0)
		return state.root;
	if (count_mounts() != template.mounts)
		return -E_STALE;
	for (step = step_after(step); !answer && step->kind == MOUNT; step = step_after(step)) {
		struct reader reader = read_step(step);
		const char *path = string(&reader, NULL);

		answer = look_again(step);
		if (answer || template.parts[number++] != CARRIED || template.is_renewed)
			continue;
		const long flags = OPEN_TREE_CLONE | AT_RECURSIVE_ | OPEN_TREE_CLOEXEC_ | AT_SYMLINK_NOFOLLOW;

		template.carried[count] = CALL(open_tree, AT_FDCWD, P(path), flags, 0, 0);
		answer = template.carried[count] < 0 ? template.carried[count] : 0;
		count++;
	}
	return answer;
}

/* In a child: MOUNT, where it is not in the copy. */
static long take_mount(struct reader reader)
{
	const uint8_t part = template.parts[template.next++];
	const int is_overlay = reader.numbers[0] == OVERLAY;
	long answer, mount;

	if (part == SHARED || (part != OWN && template.is_renewed))
		return 0;
	if (part != CARRIED && !is_overlay)
		return do_mount(reader);
	mount = is_overlay ? template.overlays[template.overlay++] : template.carried[template.apart++];
	answer = place(mount, string(&reader, NULL));
	close_fd(mount);
	return answer;
}

/* In a child: ATTACH. Nothing of the host's tree is held any longer, unless LOCK comes, which lets go of it. */
static long settle(int is_locked)
{
	long answer = CALL(chdir, P("/"), 0, 0, 0, 0);

	CALL(umask, state.umask, 0, 0, 0, 0);
	close_fd(state.root);
	if (is_locked)
		return answer;
	close_fd(template.host);
	state.host = AT_FDCWD;
	return answer;
}

#endif
