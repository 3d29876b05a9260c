/* Changing what is there, for somebody else: moving or removing it, its length, mode, owner, times and attributes. Only where the
 * plan has patterns: mounts hold what existed before. Part of the broker.
 */
#ifndef RINGFENCE_CHANGING_H
#define RINGFENCE_CHANGING_H

#include "reading.h"

enum { LONGEST_VALUE = 65536, NOW_ = 0x3fffffff, SETGID = 02000 };

/* Bytes of its memory, all of them. */
static long fetch_bytes(const struct asked *asked, uint64_t address, void *into, size_t size)
{
	struct {
		void *base;
		size_t size;
	} here = {into, size}, there = {(void *)(uintptr_t)address, size};

	return size && call6(__NR_process_vm_readv, asked->thread, P(&here), 1, P(&there), 1, 0) != (long)size ? -EFAULT_ : 0;
}

/* What a path leads to, held. A link that is not followed is held itself, and so is where no path at all begins. */
static long hold(struct asked *asked, uint64_t directory, uint64_t address, uint64_t flags)
{
	struct spot spot;
	struct facts facts;
	long fd = -1, answer = find(asked, directory, address, &spot);

	if (answer == -E_NOENT && flags & AT_EMPTY_PATH && !first.path[0]) {
		fd = open_base(asked, (int32_t)directory);
		return fd < 0 || still_waits(asked) ? fd : -ESRCH_;
	}

	for (int round = 0; !answer; round++) {
		if (round > LINKS_MOST)
			return -E_LOOP;
		fd = CALL(openat, spot.directory, P(spot.name), O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0);
		answer = fd < 0 ? fd : facts_of(fd, &facts);
		if (answer || (facts.mode & TYPE_MASK) != SYMLINK_ || flags & AT_SYMLINK_NOFOLLOW)
			break;
		if (device_of(&facts) != born.proc) {
			answer = follow_last(asked, fd, &spot);
			continue;
		}
		answer = check_own_proc(asked, spot.directory);
		fd = answer ? answer : CALL(openat, spot.directory, P(spot.name), O_PATH | O_CLOEXEC, 0, 0);
		answer = fd < 0 ? fd : facts_of(fd, &facts);
		break;
	}
	if (!answer && device_of(&facts) == born.proc)
		answer = check_own_proc(asked, fd);
	return answer ? answer : fd;
}

/* What is to be changed, judged: by a path, or with none by a descriptor. `own` is a path to it for us. */
struct changed {
	long fd;
	int is_link, is_path, is_directory;
	char own[40];
};

/* Memory that is a file (memfd_create) has no name anywhere, whatever its path looks like. */
static int is_memory(long fd, const struct facts *facts)
{
	static const char start[] = "/memfd:";
	uint32_t same = 0;

	if (facts->links || locate(fd) < 0)
		return 0;
	while (start[same] && judge.path[same] == start[same])
		same++;
	return !start[same];
}

static long find_changed(struct asked *asked, uint64_t directory, uint64_t address, uint64_t flags, struct changed *changed)
{
	struct facts facts;
	long answer;

	changed->is_path = address != 0;
	changed->fd = address ? hold(asked, directory, address, flags) : take_descriptor(asked, directory & 0xffffffff);
	answer = changed->fd < 0 ? changed->fd : facts_of(changed->fd, &facts);
	if (!answer && !is_memory(changed->fd, &facts))
		answer = judge_object(asked, changed->fd, CHANGES);
	changed->is_link = !answer && (facts.mode & TYPE_MASK) == SYMLINK_;
	changed->is_directory = !answer && (facts.mode & TYPE_MASK) == DIRECTORY_;
	own_path(changed->own, changed->fd);
	return answer;
}

static long do_unlink(struct asked *asked, uint64_t directory, uint64_t address)
{
	struct spot spot;
	long answer = find(asked, directory, address, &spot);

	if (!answer)
		answer = permit(asked, &spot, REMOVES, ANY_BUT_DENY);
	return answer ? answer : CALL(unlinkat, spot.directory, P(spot.name), 0, 0, 0);
}

/* Put what is held at a name where something stands, which is there until then: by a name that nobody of any run makes. */
static long replace_by(const char *own, const struct spot *to)
{
	uint64_t number = 0;
	char other[40];
	long answer;

	CALL(getrandom, P(&number), 8, 1 /* GRND_NONBLOCK */, 0, 0);
	put_number(put_text(other, MOVING), number);
	answer = CALL(linkat, AT_FDCWD, P(own), to->directory, P(other), AT_SYMLINK_FOLLOW_);
	if (answer)
		return answer;
	answer = CALL(renameat2, to->directory, P(other), to->directory, P(to->name), 0);
	CALL(unlinkat, to->directory, P(other), 0, 0, 0); /* it was not moved, or what stood there was the same by then */
	return answer;
}

/* Move what is no directory, whatever may stand at its name by then. Where there are no second names it is copied. */
static long move_held(const struct spot *from, const struct spot *to, uint64_t flags)
{
	char own[40];
	struct facts facts, there;
	long fd = CALL(openat, from->directory, P(from->name), O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0);
	long answer = fd < 0 ? fd : facts_of(fd, &facts);

	if (answer)
		return answer;
	if ((facts.mode & TYPE_MASK) == DIRECTORY_)
		return -EXDEV_;
	answer = (facts.mode & TYPE_MASK) == SYMLINK_ ? check_way(to) : 0;
	if (answer)
		return answer;
	/* As a directory it is not removed, for it is none; but whether it might be is looked at first. */
	answer = CALL(unlinkat, from->directory, P(from->name), AT_REMOVEDIR_, 0, 0);
	if (answer != -ENOTDIR_)
		return answer ? answer : -E_NOENT;
	own_path(own, fd);
	answer = CALL(linkat, AT_FDCWD, P(own), to->directory, P(to->name), AT_SYMLINK_FOLLOW_);
	if (answer == -EEXIST_ && !flags) {
		answer = CALL(statx, to->directory, P(to->name), AT_SYMLINK_NOFOLLOW, STATX_BASIC, P(&there));
		if (!answer && there.inode == facts.inode && device_of(&there) == device_of(&facts))
			return 0; /* a second name of it: then a move does nothing */
		answer = replace_by(own, to);
	}
	if (!answer)
		CALL(unlinkat, from->directory, P(from->name), 0, 0, 0); /* never a directory */
	return answer == -E_PERM || answer == -EMLINK_ ? -EXDEV_ : answer;
}

static long do_truncate(struct asked *asked, uint64_t address, uint64_t size)
{
	struct changed changed;
	long answer = address ? find_changed(asked, (uint64_t)AT_FDCWD, address, 0, &changed) : -EFAULT_;

	return answer ? answer : CALL(truncate, P(changed.own), size, 0, 0, 0);
}

static long do_chmod(struct asked *asked, uint64_t directory, uint64_t address, uint64_t mode)
{
	struct changed changed;
	long answer = find_changed(asked, directory, address, 0, &changed);

	if (answer)
		return answer;
	if (changed.is_link)
		return -EOPNOTSUPP_;
	if (mode & SETGID && !changed.is_directory)
		return -E_PERM; /* a program that lends its group to whoever starts it, outside */
	return changed.is_path ? CALL(fchmodat, AT_FDCWD, P(changed.own), mode, 0, 0) : CALL(fchmod, changed.fd, mode, 0, 0, 0);
}

static long do_chown(struct asked *asked, uint64_t directory, uint64_t address, const __u64 ids[2], uint64_t flags)
{
	struct changed changed;
	long answer = find_changed(asked, directory, address, flags, &changed);

	if (answer)
		return answer;
	return changed.is_path ? CALL(fchownat, changed.fd, P(""), ids[0], ids[1], AT_EMPTY_PATH) : CALL(fchown, changed.fd, ids[0], ids[1], 0, 0);
}

/* Times in seconds alone, with microseconds, or with nanoseconds. */
static long do_times(struct asked *asked, const __u64 at[3], uint64_t parts, uint64_t flags)
{
	int64_t given[4] = {0, NOW_, 0, NOW_}, times[4];
	struct changed changed;
	long answer = at[2] ? fetch_bytes(asked, at[2], given, parts == 1 ? 16 : 32) : 0;

	if (!answer)
		answer = find_changed(asked, at[0], at[1], flags, &changed);
	if (answer)
		return answer;
	for (int i = 0; i < 4; i++)
		times[i] = given[i];
	if (at[2] && parts == 1) {
		times[0] = given[0];
		times[2] = given[1];
		times[1] = times[3] = 0;
	}
	if (at[2] && parts == 1000)
		for (int i = 1; i < 4; i += 2) {
			if (given[i] < 0 || given[i] >= 1000000)
				return -E_INVAL;
			times[i] = given[i] * 1000;
		}
	return changed.is_path ? CALL(utimensat, changed.fd, P(""), P(times), AT_EMPTY_PATH, 0) : CALL(utimensat, changed.fd, 0, P(times), 0, 0);
}

/* An attribute set, or with no value taken away. */
static long do_attribute(struct asked *asked, uint64_t directory, uint64_t address, uint64_t flags, const __u64 *about, int removes)
{
	static char value[LONGEST_VALUE];
	struct changed changed;
	uint64_t size = removes ? 0 : about[2];
	long answer = fetch_path(asked, about[0], second.path);

	if (answer < 0)
		return answer == -ENAMETOOLONG_ ? -ERANGE_ : answer;
	if (size > LONGEST_VALUE)
		return -E2BIG_;
	answer = fetch_bytes(asked, about[1], value, removes ? 0 : size);
	if (!answer)
		answer = find_changed(asked, directory, address, flags, &changed);
	if (!answer && changed.is_link)
		answer = -E_PERM; /* what nobody of the run may do */
	if (answer)
		return answer;
	if (removes)
		return changed.is_path ? CALL(removexattr, P(changed.own), P(second.path), 0, 0, 0)
				       : CALL(fremovexattr, changed.fd, P(second.path), 0, 0, 0);
	return changed.is_path ? CALL(setxattr, P(changed.own), P(second.path), P(value), size, about[3] & 0xffffffff)
			       : CALL(fsetxattr, changed.fd, P(second.path), P(value), size, about[3] & 0xffffffff);
}

static long change(struct asked *asked)
{
	const __u64 *a = asked->notice->data.args, here = (__u64)AT_FDCWD, flags = a[3] & 0xffffffff;
	const __u64 link = AT_SYMLINK_NOFOLLOW;

	switch (asked->notice->data.nr) {
#ifdef __NR_unlink
	case __NR_unlink: return do_unlink(asked, here, a[0]);
	case __NR_chmod: return a[0] ? do_chmod(asked, here, a[0], a[1]) : -EFAULT_;
	case __NR_chown: return a[0] ? do_chown(asked, here, a[0], a + 1, 0) : -EFAULT_;
	case __NR_lchown: return a[0] ? do_chown(asked, here, a[0], a + 1, link) : -EFAULT_;
	case __NR_utime: return a[0] ? do_times(asked, (__u64[]){here, a[0], a[1]}, 1, 0) : -EFAULT_;
	case __NR_utimes: return a[0] ? do_times(asked, (__u64[]){here, a[0], a[1]}, 1000, 0) : -EFAULT_;
	case __NR_futimesat: return do_times(asked, a, 1000, 0);
#endif
	case __NR_truncate: return do_truncate(asked, a[0], a[1]);
	case __NR_fchmod: return do_chmod(asked, a[0], 0, a[1]);
	case __NR_fchmodat: return a[1] ? do_chmod(asked, a[0], a[1], a[2]) : -EFAULT_;
	case __NR_fchown: return do_chown(asked, a[0], 0, a + 1, 0);
	case __NR_fchownat: return do_chown(asked, a[0], a[1], a + 2, a[4] & 0xffffffff);
	case __NR_utimensat: return do_times(asked, a, 1000000, flags);
	case __NR_setxattr: return do_attribute(asked, here, a[0], 0, a + 1, 0);
	case __NR_lsetxattr: return do_attribute(asked, here, a[0], link, a + 1, 0);
	case __NR_fsetxattr: return do_attribute(asked, a[0], 0, 0, a + 1, 0);
	case __NR_removexattr: return do_attribute(asked, here, a[0], 0, a + 1, 1);
	case __NR_lremovexattr: return do_attribute(asked, here, a[0], link, a + 1, 1);
	case __NR_fremovexattr: return do_attribute(asked, a[0], 0, 0, a + 1, 1);
	}
	return -E_NOSYS;
}

#endif
