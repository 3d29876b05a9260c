/* The steps that build a view: namespaces, and a copy of the mount tree in which each place is what the plan says. */
#ifndef RINGFENCE_VIEW_H
#define RINGFENCE_VIEW_H

#include "format.h"

/* What the steps leave for one another while the view is built. */
static struct {
	long root;  /* the copy */
	long empty; /* a read-only file system with one empty directory and one empty file, for masks */
	long umask;
	int attached;
	const struct step *masks; /* the first that masks many names */
	long host;	    /* where our own /proc can be written to, if not here */
	int is_loose;	    /* its mounts come off one by one when the run ends */
	const long *layers; /* of the overlay at hand, if they are open already */
} state = {.root = -1, .empty = -1, .host = AT_FDCWD};

static size_t length_of(const char *text)
{
	size_t length = 0;

	while (text[length])
		length++;
	return length;
}

/* Write a text into a file of /proc. */
static long write_file(const char *path, const char *text)
{
	long fd = CALL(openat, state.host, P(state.host < 0 ? path : path + 1), O_WRONLY | O_CLOEXEC, 0, 0);
	long wrote;

	if (fd < 0)
		return fd;
	wrote = CALL(write, fd, P(text), length_of(text), 0, 0);
	/* A file of ours left open for writing would make the recursive read-only remount fail with EBUSY. */
	close_fd(fd);
	return wrote < 0 ? wrote : 0;
}

static void map_line(char *line, uint64_t inside, uint64_t outside)
{
	put_text(put_number(put_text(put_number(line, inside), " "), outside), " 1\n");
}

/* Open what stands at a path and make sure it is what was planned for; (0, 0) is what we made ourselves. */
static long open_planned(const char *path, uint64_t flags, uint64_t device, uint64_t inode)
{
	struct facts facts;
	long answer, fd = open_exact(AT_FDCWD, path, flags);

	if (fd < 0 || (!device && !inode))
		return fd;
	answer = facts_of(fd, &facts);
	if (!answer && (device_number(facts.dev_major, facts.dev_minor) != device || facts.inode != inode))
		answer = -E_STALE;
	if (!answer)
		return fd;
	close_fd(fd);
	return answer;
}

static long set_mount(long fd, uint64_t set)
{
	struct mount_attr attr = {.attr_set = set, .propagation = MS_PRIVATE_};

	return CALL(mount_setattr, fd, P(""), AT_EMPTY_PATH | AT_RECURSIVE_, P(&attr), sizeof(attr));
}

static long do_namespaces(uint64_t flags)
{
	/* After a change of ids the process is not dumpable, and then its own map files are not writable. */
	CALL(prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
	return CALL(unshare, flags, 0, 0, 0, 0);
}

static long do_id_map(const uint64_t *ids)
{
	char line[64];
	long answer;

	map_line(line, ids[0], ids[1]);
	answer = write_file("/proc/self/uid_map", line);
	if (answer)
		return answer;
	answer = write_file("/proc/self/setgroups", "deny");
	if (answer)
		return answer;
	map_line(line, ids[2], ids[3]);
	return write_file("/proc/self/gid_map", line);
}

/* Who asks for names with AI_ADDRCONFIG gets addresses of a family that this machine has, and 127.0.0.1 and ::1 do not
 * count. So the loopback has one more of each; a kernel that gives none is none that a run fails for. */
static void add_addresses(long fd)
{
	struct ifreq four = {.ifr_name = "lo:1", .ifr_addr = {.sa_family = 2, .sa_data = {[2] = 127, [5] = 2}}};
	struct in6_ifreq six = {.ifr6_addr.s6_addr = {0xfe, 0x80, [15] = 1}, .ifr6_prefixlen = 128, .ifr6_ifindex = 1};

	CALL(ioctl, fd, SIOCSIFADDR, P(&four), 0, 0);
	fd = CALL(socket, 10, 2 | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return;
	CALL(ioctl, fd, SIOCSIFADDR, P(&six), 0, 0);
	close_fd(fd);
}

static long do_loopback(void)
{
	struct ifreq request = {.ifr_name = "lo"};
	long answer, fd = CALL(socket, 2, 2 | O_CLOEXEC, 0, 0, 0);

	if (fd < 0)
		return fd;
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	answer = CALL(ioctl, fd, SIOCSIFFLAGS, P(&request), 0, 0);
	if (!answer)
		add_addresses(fd);
	close_fd(fd);
	return answer;
}

static long new_filesystem(const char *type, const char *const *options, uint64_t attributes)
{
	long mount, answer = 0, fd = CALL(fsopen, P(type), FSOPEN_CLOEXEC, 0, 0, 0);

	if (fd < 0)
		return fd;
	for (; !answer && *options; options += 2)
		answer = CALL(fsconfig, fd, options[1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, P(options[0]), P(options[1]), 0);
	if (!answer)
		answer = CALL(fsconfig, fd, FSCONFIG_CMD_CREATE, 0, 0, 0);
	mount = answer ? answer : CALL(fsmount, fd, FSMOUNT_CLOEXEC, attributes, 0, 0);
	close_fd(fd);
	return mount;
}

static long new_file(long at, const char *name, uint64_t mode)
{
	long fd = CALL(openat, at, P(name), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, mode, 0);

	return fd < 0 ? fd : close_fd(fd);
}

/* All masks are clones of one empty file system: its directory and its file are mode 0 and read-only. */
static long make_empty(void)
{
	static const char *const options[] = {"mode", "0555", "size", "4096", NULL};
	long answer;

	state.empty = new_filesystem("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (state.empty < 0)
		return state.empty;
	answer = CALL(mkdirat, state.empty, P("d"), 0, 0, 0);
	if (!answer)
		answer = new_file(state.empty, "f", 0);
	return answer ? answer : set_mount(state.empty, MOUNT_ATTR_RDONLY);
}

static long attach(void)
{
	state.attached = 1;
	return CALL(move_mount, state.root, P(""), AT_FDCWD, P("/"), MOVE_MOUNT_F_EMPTY_PATH);
}

static long do_view(uint64_t attach_first, int is_locked)
{
	long answer;

	state.is_loose = 1;
	if (is_locked) { /* the ids are mapped a second time, and the view's own /proc is read-only */
		state.host = CALL(openat, AT_FDCWD, P("/"), O_PATH | O_DIRECTORY | O_CLOEXEC, 0, 0);
		if (state.host < 0)
			return state.host;
	}
	state.umask = CALL(umask, 0, 0, 0, 0, 0);
	state.root = CALL(open_tree, AT_FDCWD, P("/"), OPEN_TREE_CLONE | AT_RECURSIVE_ | OPEN_TREE_CLOEXEC_, 0, 0);
	if (state.root < 0)
		return state.root;
	answer = set_mount(state.root, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID);
	if (answer)
		return answer;
	if (!attach_first)
		return 0;
	answer = attach();
	/* Such a kernel copies nothing out of a detached tree either: what masks are copies of stands on the root meanwhile. */
	if (!answer)
		answer = make_empty();
	return answer ? answer : CALL(move_mount, state.empty, P(""), AT_FDCWD, P("/"), MOVE_MOUNT_F_EMPTY_PATH);
}

/* Put a detached mount on a path of the view. The path is canonical: a symbolic link on it is a swap, and refused. */
static long place(long mount, const char *target)
{
	long answer, fd;

	while (*target == '/')
		target++;
	fd = open_exact(state.root, *target ? target : ".", O_PATH);
	if (fd < 0)
		return fd;
	answer = CALL(move_mount, mount, P(""), fd, P(""), MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	close_fd(fd);
	return answer;
}

/* The first byte of an entry says what to make: a directory, a file, or a link whose target is the next string. */
static long furnish(long mount, struct reader *reader, uint32_t entries)
{
	long answer = 0;

	while (!answer && entries--) {
		const char *entry = string(reader, NULL);

		if (*entry == 'd')
			answer = CALL(mkdirat, mount, P(entry + 1), 0755, 0, 0);
		else if (*entry == 'f')
			answer = new_file(mount, entry + 1, 0444);
		else if (*entry == 'l' && entries--)
			answer = CALL(symlinkat, P(string(reader, NULL)), mount, P(entry + 1), 0, 0);
		else
			return -E_PROTO;
	}
	return answer;
}

enum operation { BIND = 1, TMPFS = 2, MASK_DIRECTORY = 3, MASK_FILE = 4, DEVPTS = 5, OVERLAY = 6, MASK_EACH = 7, BIND_EACH = 8 };
enum { READ_ONLY = 1, DEVICES = 2, DIRECTORIES = 4 };

static long mount_tmpfs(const uint64_t *numbers, struct reader *reader, uint32_t entries)
{
	char mode[24] = "0", size[24];
	const char *options[] = {"mode", mode, numbers[3] ? "size" : NULL, size, NULL};
	uint64_t octal = 0;
	long answer, mount;

	for (int shift = 9; shift >= 0; shift -= 3)
		octal = octal * 10 + (numbers[2] >> shift & 7);
	put_number(mode + 1, octal);
	put_number(size, numbers[3]);
	mount = new_filesystem("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (mount < 0)
		return mount;
	answer = furnish(mount, reader, entries);
	if (!answer && numbers[1] & READ_ONLY)
		answer = set_mount(mount, MOUNT_ATTR_RDONLY);
	if (!answer)
		return mount;
	close_fd(mount);
	return answer;
}

static long mount_mask(int directory)
{
	long answer = state.empty < 0 ? make_empty() : 0;

	if (answer)
		return answer;
	return CALL(open_tree, state.empty, P(directory ? "d" : "f"), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC_, 0, 0);
}

static long mount_bind(const uint64_t *numbers, const char *source)
{
	uint64_t set = MOUNT_ATTR_NOSUID;
	long answer, mount, fd = open_planned(source, O_PATH, numbers[4], numbers[5]);

	if (fd < 0)
		return fd;
	/* Recursive always: a tree that has locked mounts below it cannot be cloned without them. */
	mount = CALL(open_tree, fd, P(""), AT_EMPTY_PATH | OPEN_TREE_CLONE | AT_RECURSIVE_ | OPEN_TREE_CLOEXEC_, 0, 0);
	close_fd(fd);
	if (mount < 0)
		return mount;
	set |= numbers[1] & READ_ONLY ? MOUNT_ATTR_RDONLY : 0;
	set |= numbers[1] & DEVICES ? 0 : MOUNT_ATTR_NODEV;
	answer = set_mount(mount, set);
	if (!answer)
		return mount;
	close_fd(mount);
	return answer;
}

/* The next of many names as a text of its own: 1, or 0 behind the last. */
static long take_name(const char **rest, char *into)
{
	uint32_t length;
	const char *name = next_name(rest, &length);

	if (!name)
		return 0;
	if (!length || length > MOST_NAME)
		return -E_PROTO;
	for (uint32_t i = 0; i < length; i++)
		into[i] = name[i];
	into[length] = 0;
	return 1;
}

/* A name in a directory, bound over itself, read-only. */
static long bind_name(long host, long view, const char *name)
{
	long answer, mount, fd = open_exact(host, name, O_PATH);

	if (fd < 0)
		return fd;
	mount = CALL(open_tree, fd, P(""), AT_EMPTY_PATH | OPEN_TREE_CLONE | AT_RECURSIVE_ | OPEN_TREE_CLOEXEC_, 0, 0);
	close_fd(fd);
	if (mount < 0)
		return mount;
	answer = set_mount(mount, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY);
	if (!answer)
		answer = CALL(move_mount, mount, P(""), view, P(name), MOVE_MOUNT_F_EMPTY_PATH);
	close_fd(mount);
	return answer;
}

/* A directory of the view. */
static long open_shown(const char *directory)
{
	while (*directory == '/')
		directory++;
	return open_exact(state.root, directory, O_PATH | O_DIRECTORY);
}

/* Many names of one directory, each bound over itself; or masked, which is done when the view is attached. */
static long mount_each(const uint64_t *numbers, const char *directory, struct reader *reader)
{
	const char *names = string(reader, NULL);
	char name[MOST_NAME + 1];
	long view, answer, host = open_planned(directory, O_PATH | O_DIRECTORY, numbers[4], numbers[5]);

	if (host < 0)
		return host;
	view = open_shown(directory);
	answer = view < 0 ? view : 0;
	if (numbers[0] == MASK_EACH && !state.masks)
		state.masks = reader->step;
	while (!answer && numbers[0] == BIND_EACH && (answer = take_name(&names, name)) > 0)
		answer = bind_name(host, view, name);
	close_fd(host);
	if (view >= 0)
		close_fd(view);
	return answer;
}

#include "masks.h"

/* A directory of the host below a private one. The kernel's workplace is ours alone, for each mount empties it: it is
 * named by our pid, and swept by whoever starts the next run. Volatile: at its end the disk is not waited for. */
static long mount_overlay(const uint64_t *numbers, const char *lower, const char *upper, const char *work)
{
	char text[3][40], own[24];
	const char *options[] = {"lowerdir", text[0], "upperdir", text[1], "workdir", text[2], "userxattr", NULL, "volatile", NULL, NULL};
	long fds[4] = {-1, -1, -1, -1}, mount = 0;

	fds[0] = state.layers ? state.layers[0] : open_planned(lower, O_PATH | O_DIRECTORY, numbers[4], numbers[5]);
	fds[1] = state.layers ? state.layers[1] : open_exact(AT_FDCWD, upper, O_PATH | O_DIRECTORY);
	fds[2] = state.layers ? state.layers[2] : open_exact(AT_FDCWD, work, O_PATH | O_DIRECTORY);
	if (fds[2] >= 0) {
		put_number(own, (uint64_t)CALL(getpid, 0, 0, 0, 0, 0));
		mount = CALL(mkdirat, fds[2], P(own), 0700, 0, 0);
		fds[3] = mount && mount != -17 /* EEXIST */ ? mount : open_exact(fds[2], own, O_PATH | O_DIRECTORY);
	}
	for (int i = 0; i < 4; i++)
		if (fds[i] < 0)
			mount = fds[i] < mount || mount == -17 ? fds[i] : mount;
	if (fds[0] >= 0 && fds[1] >= 0 && fds[3] >= 0) {
		own_path(text[0], fds[0]);
		own_path(text[1], fds[1]);
		own_path(text[2], fds[3]);
		mount = new_filesystem("overlay", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	}
	for (int i = 0; i < 4; i++)
		if (fds[i] >= 0)
			close_fd(fds[i]);
	return mount ? mount : -E_PROTO;
}

/* Numbers: operation, flags, mode, size, device, inode. Strings: target, then what the operation needs. */
static long do_mount(struct reader reader)
{
	static const char *const pty[] = {"ptmxmode", "0666", "mode", "0620", NULL};
	const uint64_t *numbers = reader.numbers;
	const char *target = string(&reader, NULL);
	uint32_t rest = reader.step->strings - 1;
	long answer, mount = -E_PROTO;

	if (numbers[0] == MASK_EACH || numbers[0] == BIND_EACH)
		return rest == 1 ? mount_each(numbers, target, &reader) : -E_PROTO;
	if (numbers[0] == BIND && rest == 1)
		mount = mount_bind(numbers, string(&reader, NULL));
	else if (numbers[0] == TMPFS)
		mount = mount_tmpfs(numbers, &reader, rest);
	else if (numbers[0] == MASK_DIRECTORY || numbers[0] == MASK_FILE)
		mount = mount_mask(numbers[0] == MASK_DIRECTORY);
	else if (numbers[0] == OVERLAY && rest == 3) {
		const char *lower = string(&reader, NULL), *upper = string(&reader, NULL);

		mount = mount_overlay(numbers, lower, upper, string(&reader, NULL));
	} else if (numbers[0] == DEVPTS)
		mount = new_filesystem("devpts", pty, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (mount < 0)
		return mount;
	answer = place(mount, target);
	close_fd(mount);
	return answer;
}

/* What masks are copies of, where it had to be attached: the uppermost mount on the root. */
static long take_off(void)
{
	close_fd(state.empty);
	state.empty = -1;
	return CALL(umount2, P("/"), MNT_DETACH_, 0, 0, 0);
}

/* Make the view the root, and let go of the old one for good. */
static long do_attach(void)
{
	long answer = state.attached ? take_off() : attach();

	if (!answer)
		answer = CALL(fchdir, state.root, 0, 0, 0, 0);
	if (!answer)
		answer = CALL(pivot_root, P("."), P("."), 0, 0, 0);
	if (!answer)
		answer = CALL(umount2, P("."), MNT_DETACH_, 0, 0, 0);
	if (!answer && state.masks)
		answer = mask_many();
	if (!answer)
		answer = CALL(chdir, P("/"), 0, 0, 0, 0);
	CALL(umask, state.umask, 0, 0, 0, 0);
	close_fd(state.root);
	if (state.empty >= 0)
		close_fd(state.empty);
	return answer;
}

/* LOCK: a copy of all mounts in a user namespace further in. There they are one: when the run ends and somebody outside holds
 * a directory of it, each stays on what it covers. Otherwise the kernel takes them apart, and the directory shows all that
 * they hid. */
static long do_lock(const uint64_t *ids)
{
	long answer = do_namespaces(OWN_MOUNTS);

	if (!answer)
		answer = do_id_map(ids);
	close_fd(state.host);
	state.host = AT_FDCWD;
	state.is_loose = 0;
	return answer;
}

#endif
