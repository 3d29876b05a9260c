/* The broker: names that must not appear, refused when somebody makes them.
 *
 * A mount covers what exists; nothing covers a name that is not there yet. So the calls that make names are sent to the
 * warden (seccomp notification): it fetches the path once, finds the directory, looks the name up in the table that the
 * plan gave it, and makes the call itself, on the descriptor of that directory. It never lets the kernel read a judged
 * pointer again. It has the command's ids, the command's view and the policy's Landlock domain, so there is nothing
 * that it could be talked into which the command could not do; and it never waits: what may block is tried again.
 */
#ifndef RINGFENCE_BROKER_H
#define RINGFENCE_BROKER_H

#include "changing.h"

/* ---- Making, moving and removing names ---- */

static long do_mkdir(struct asked *asked, uint64_t directory, uint64_t address, uint64_t mode)
{
	struct spot spot;
	long answer = find(asked, directory, address, &spot);

	if (!answer)
		answer = take_umask(asked);
	if (!answer)
		answer = permit(asked, &spot, MAKES, ANY_BUT_DENY);
	return answer ? answer : CALL(mkdirat, spot.directory, P(spot.name), mode, 0, 0);
}

static long do_mknod(struct asked *asked, uint64_t directory, uint64_t address, uint64_t mode, uint64_t device)
{
	struct spot spot;
	long answer = find(asked, directory, address, &spot);

	if (!answer)
		answer = take_umask(asked);
	if (!answer)
		answer = permit(asked, &spot, MAKES, ANY_BUT_DENY);
	return answer ? answer : CALL(mknodat, spot.directory, P(spot.name), mode, device, 0);
}

/* A link at a name that the table waits for would lead past the table, and so would one in the place of a directory that
 * stays where it is: that is there, even if another run, which did not find it, has taken it away. */
static long permit_link(struct asked *asked, const struct spot *spot)
{
	struct row *row;
	long answer = find_row(spot, &row);

	if (!answer && row && row->verdict == PIN)
		return -EEXIST_;
	return answer ? answer : permit(asked, spot, MAKES, 0);
}

static long do_symlink(struct asked *asked, uint64_t text, uint64_t directory, uint64_t address)
{
	struct spot spot;
	long answer = fetch_path(asked, text, second.path);

	answer = answer < 0 ? answer : find(asked, directory, address, &spot);
	if (!answer)
		answer = permit_link(asked, &spot);
	if (!answer)
		answer = check_way(&spot);
	return answer ? answer : CALL(symlinkat, P(second.path), spot.directory, P(spot.name), 0, 0);
}

/* Whether a directory that stays where it is has anything in it, for then the kernel would not remove it either: git asks
 * for that of every directory out of which it took a name. */
static int is_filled(const struct spot *spot)
{
	enum { DOTS = 48 }; /* bytes of the names of itself and of what is above */
	char list[PAGE] __attribute__((aligned(8)));
	struct row *row;
	long fd, size;

	if (find_row(spot, &row) || !row || row->verdict != PIN)
		return 0;
	fd = CALL(openat, spot->directory, P(spot->name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, 0);
	size = fd < 0 ? 0 : CALL(getdents64, fd, P(list), sizeof(list), 0, 0);
	return size > DOTS;
}

static long do_rmdir(struct asked *asked, uint64_t directory, uint64_t address)
{
	struct spot spot;
	long answer = find(asked, directory, address, &spot);

	if (!answer && is_filled(&spot))
		return -ENOTEMPTY_;
	if (!answer)
		answer = permit(asked, &spot, REMOVES, 1U << WATCH);
	return answer ? answer : CALL(unlinkat, spot.directory, P(spot.name), AT_REMOVEDIR_, 0, 0);
}

/* What the table says of a move. What arrives at a name that the table waits for may be a directory that holds what must
 * not be there, or a link past the table, and may be another one by the time it arrives: EXDEV sends the mover to copy
 * it, name by name. */
static long judge_move(struct asked *asked, const struct spot *from, const struct spot *to, uint64_t flags)
{
	const struct spot *spots[2] = {from, to};

	for (int i = 0; i < 2; i++) {
		struct row *row;
		long answer = find_row(spots[i], &row);

		if (!answer && row && row->verdict == WATCH && (i == 1 || flags & EXCHANGE))
			return -EXDEV_;
		if (!answer)
			answer = permit(asked, spots[i], i || flags & EXCHANGE ? MAKES : REMOVES, 1U << WATCH);
		if (answer)
			return answer;
	}
	if (flags & EXCHANGE) {
		long answer = judge_transfer(to, from);

		if (!answer)
			answer = judge_transfer(from, to);
		return answer == HELD ? -EXDEV_ : answer;
	}
	return judge_transfer(from, to);
}

/* Both paths of a call, fetched before either is looked for. */
static long find_both(struct asked *asked, const uint64_t at[4], struct spot *from, struct spot *to)
{
	long answer = fetch(asked, at[2], at[3], &second);

	if (!answer)
		answer = find(asked, at[0], at[1], from);
	return answer ? answer : find_spot(asked, second.base, second.path, to);
}

static long do_rename(struct asked *asked, uint64_t from_at, uint64_t from_path, uint64_t to_at, uint64_t to_path, uint64_t flags)
{
	struct spot from, to;
	long answer = -E_INVAL; /* also for a whiteout: nobody may make one */

	if (flags <= EXCHANGE)
		answer = find_both(asked, (uint64_t[]){from_at, from_path, to_at, to_path}, &from, &to);
	if (!answer)
		answer = judge_move(asked, &from, &to, flags);
	if (!answer)
		answer = CALL(renameat2, from.directory, P(from.name), to.directory, P(to.name), flags);
	else if (answer == HELD)
		answer = move_held(&from, &to, flags);
	if (answer == -EBUSY_ && observer.wanted & FAILURE && locate_spot(&to) >= 0) /* not replaced: its own path is told, too */
		observe(asked, MAKES, FAILURE, NO_ROW, EBUSY_, judge.path);
	return answer;
}

/* The file that a link of a path leads to at last, as a spot. In /proc the link itself is the spot, and is followed. */
static long follow_all(struct asked *asked, struct spot *spot, long *follow)
{
	for (int round = 0; round <= LINKS_MOST; round++) {
		struct facts facts;
		long link = CALL(openat, spot->directory, P(spot->name), O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0);
		long answer = link < 0 ? link : facts_of(link, &facts);

		if (answer)
			return answer;
		*follow = (facts.mode & TYPE_MASK) == SYMLINK_ ? AT_SYMLINK_FOLLOW_ : 0;
		if (!*follow)
			return 0;
		if (device_of(&facts) == born.proc)
			return check_own_proc(asked, spot->directory);
		answer = follow_last(asked, link, spot);
		if (answer)
			return answer;
	}
	return -E_LOOP;
}

/* A file on the way to a denied name leads nowhere, but a symbolic link does. So it is held, by `fd` if it is already. */
static long hold_file(struct spot *from, long fd, long *follow)
{
	struct facts facts;
	long answer;

	if (fd < 0)
		fd = CALL(openat, from->directory, P(from->name), O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0);
	answer = fd < 0 ? fd : facts_of(fd, &facts);
	from->directory = AT_FDCWD;
	own_path(from->name, fd);
	*follow = AT_SYMLINK_FOLLOW_;
	return answer ? answer : (facts.mode & TYPE_MASK) == SYMLINK_ ? -EACCES_ : 0;
}

/* A second name for a file: for a path, or for a descriptor, which may never have had a name. The file may be a symbolic
 * link, so a name that the table waits for is not given. */
static long do_link(struct asked *asked, uint64_t from_at, uint64_t from_path, uint64_t to_at, uint64_t to_path, uint64_t flags)
{
	struct spot from, to;
	long fd = -1, follow = 0, answer = -E_INVAL;

	first.path[0] = 1;
	if (!(flags & ~(uint64_t)(AT_SYMLINK_FOLLOW_ | AT_EMPTY_PATH)))
		answer = find_both(asked, (uint64_t[]){from_at, from_path, to_at, to_path}, &from, &to);
	if (answer == -E_NOENT && !first.path[0] && flags & AT_EMPTY_PATH) {
		/* The descriptor itself: by the name it has in /proc, which its owner could use as well. */
		put_number(proc_path(first.path, asked->thread, "/fd/"), from_at & 0x7fffffff);
		answer = find_spot(asked, AT_FDCWD, first.path, &from);
		if (!answer)
			answer = find_spot(asked, second.base, second.path, &to);
		flags |= AT_SYMLINK_FOLLOW_;
	}
	if (!answer && flags & AT_SYMLINK_FOLLOW_)
		answer = follow_all(asked, &from, &follow);
	if (!answer && follow) { /* a link of /proc: what it leads to is held, for its owner can put another file there at any moment */
		fd = CALL(openat, from.directory, P(from.name), O_PATH | O_CLOEXEC, 0, 0);
		answer = fd < 0 ? fd : judge_object(asked, fd, CHANGES);
		from.directory = AT_FDCWD;
		own_path(from.name, fd);
	} else if (!answer)
		answer = permit(asked, &from, CHANGES, ANY_BUT_DENY);
	if (!answer)
		answer = permit_link(asked, &to);
	if (!answer && check_way(&to))
		answer = hold_file(&from, fd, &follow);
	return answer ? answer : CALL(linkat, from.directory, P(from.name), to.directory, P(to.name), follow);
}

#include "dial.h"
#include "waiting.h"

/* A name for a socket. It is bound by the caller's own text, which getsockname() must give back; should the way there
 * be another by then, a socket stands at a wrong name, and nobody reads or runs a socket. Only in /proc the same text
 * means another place to us. */
static long do_bind(struct asked *asked, uint64_t number, uint64_t address, uint64_t size)
{
	static union {
		uint16_t family;
		char bytes[129];
	} name;
	struct {
		void *base;
		size_t size;
	} here = {name.bytes, size}, there = {(void *)(uintptr_t)address, size};
	struct spot spot;
	long answer, fd;
	char *end;

	if (size < 2 || size > 128)
		return -E_INVAL;
	answer = call6(__NR_process_vm_readv, asked->thread, P(&here), 1, P(&there), 1, 0);
	if (answer != (long)size)
		return -EFAULT_;
	name.bytes[size] = 0;
	fd = take_descriptor(asked, number & 0xffffffff);
	if (fd < 0)
		return fd;
	if (is_outside(fd)) /* it was handed in connected, and becomes nothing else */
		return -E_INVAL;
	if (name.family != 1 /* AF_UNIX */ || size == 2 || !name.bytes[2])
		return CALL(bind, fd, P(name.bytes), size, 0, 0);
	put_text(first.path, name.bytes + 2);
	first.base = open_base(asked, AT_FDCWD);
	answer = first.base < 0 ? first.base : take_umask(asked);
	if (!answer && !still_waits(asked))
		answer = -ESRCH_;
	if (!answer)
		answer = find_spot(asked, first.base, first.path, &spot);
	if (!answer)
		answer = permit(asked, &spot, MAKES, ANY_BUT_DENY);
	if (!answer && asked->by_proc && spot.length > 80 /* of 108 */)
		answer = -ENAMETOOLONG_;
	if (!answer && asked->by_proc) {
		own_path(name.bytes + 2, spot.directory);
		end = put_text(name.bytes + 2 + length_of(name.bytes + 2), "/");
		size = (uint64_t)(put_text(end, spot.name) - name.bytes) + 1;
	}
	if (!answer && name.bytes[2] != '/') /* whoever stands in a hidden directory still has the other paths */
		answer = CALL(fchdir, first.base, 0, 0, 0, 0);
	answer = answer ? answer : CALL(bind, fd, P(name.bytes), size, 0, 0);
	if (!answer)
		remember(fd, &spot);
	return answer;
}

/* ---- One call ---- */

static long carry_out(struct asked *asked)
{
	const __u64 *a = asked->notice->data.args, here = (__u64)AT_FDCWD;

	(void)here; /* only of calls that newer machines do not have */
	switch (asked->notice->data.nr) {
#ifdef __NR_open
	case __NR_open: return do_open(asked, here, a[0], a[1] & 0xffffffff, a[2]);
	case __NR_creat: return do_open(asked, here, a[0], O_CREAT | O_WRONLY | O_TRUNC, a[1]);
	case __NR_mkdir: return do_mkdir(asked, here, a[0], a[1]);
	case __NR_mknod: return do_mknod(asked, here, a[0], a[1], a[2]);
	case __NR_symlink: return do_symlink(asked, a[0], here, a[1]);
	case __NR_rmdir: return do_rmdir(asked, here, a[0]);
	case __NR_rename: return do_rename(asked, here, a[0], here, a[1], 0);
	case __NR_link: return do_link(asked, here, a[0], here, a[1], 0);
#endif
#ifdef __NR_renameat
	case __NR_renameat: return do_rename(asked, a[0], a[1], a[2], a[3], 0);
#endif
	case __NR_openat: return do_open(asked, a[0], a[1], a[2] & 0xffffffff, a[3]);
	case __NR_mkdirat: return do_mkdir(asked, a[0], a[1], a[2]);
	case __NR_mknodat: return do_mknod(asked, a[0], a[1], a[2], a[3]);
	case __NR_symlinkat: return do_symlink(asked, a[0], a[1], a[2]);
	case __NR_unlinkat: return a[2] & AT_REMOVEDIR_ ? do_rmdir(asked, a[0], a[1]) : do_unlink(asked, a[0], a[1]);
	case __NR_renameat2: return do_rename(asked, a[0], a[1], a[2], a[3], a[4] & 0xffffffff);
	case __NR_linkat: return do_link(asked, a[0], a[1], a[2], a[3], a[4] & 0xffffffff);
	case __NR_bind: return do_bind(asked, a[0], a[1], a[2] & 0xffffffff);
	case __NR_connect: return do_connect(asked, a[0] & 0xffffffff, a[1], a[2] & 0xffffffff);
	case __NR_listen: return do_listening(asked, a[0] & 0xffffffff, a[1] & 0xffffffff);
	}
	return change(asked);
}

/* What a call is about, for whoever hears of its failure. */
static uint32_t subject(const struct seccomp_data *data)
{
	switch (data->nr) {
#ifdef __NR_open
	case __NR_open: return access_of(data->args[1]);
	case __NR_rmdir:
	case __NR_unlink: return REMOVES;
	case __NR_creat:
	case __NR_mkdir:
	case __NR_mknod:
	case __NR_symlink:
	case __NR_rename:
	case __NR_link: return MAKES;
#endif
#ifdef __NR_renameat
	case __NR_renameat: return MAKES;
#endif
	case __NR_openat: return access_of(data->args[2]);
	case __NR_unlinkat: return REMOVES;
	case __NR_mkdirat:
	case __NR_mknodat:
	case __NR_symlinkat:
	case __NR_renameat2:
	case __NR_linkat:
	case __NR_bind: return MAKES;
	case __NR_connect: return CONNECTS;
	}
	return CHANGES;
}

/* Whether somebody may have refused it. */
static int is_refusal(long answer)
{
	return answer == -EACCES_ || answer == -E_PERM || answer == -EROFS_ || answer == -E_NOENT || answer == -EBUSY_ || answer == -ECONNREFUSED_;
}

/* The calls that give another thread less of a processor. Without a pid namespace the number may be a stranger's; whom
 * Landlock does not let us signal is none of the run. */
static int is_about_thread(int number)
{
	return number == __NR_sched_setaffinity || number == __NR_sched_setscheduler || number == __NR_sched_setparam ||
	       number == __NR_sched_setattr;
}

/* The calls by which a thread that is kept where we are would be seen to be. */
static int is_about_processors(int number)
{
	return number == __NR_sched_getaffinity || number == __NR_sched_setaffinity;
}

/* Whether a thread is the run's own: neither a stranger's, nor ours, nor of the process that watches us. 0 is whoever asks. In
 * a pid namespace there are no others, and in one further in the number is not ours to understand. */
static int is_of_the_run(int32_t thread)
{
	const int is_watcher = thread == born.watchers[0] || thread == born.watchers[1] || thread == born.watchers[2];

	return !thread || !warden.alone || (!is_watcher && !CALL(kill, thread, 0, 0, 0, 0));
}

/* What we only hear of in its turn, after what we had open is closed: see answer_with_new. A change of what is there is
 * ours to make where something is judged, told or asked of it, and where it makes a difference what it is. */
static int is_in_turn(const struct seccomp_data *data)
{
	const int is_ours = is_judged() || observer.wanted & FAILURE || questions.channel >= 0;

	switch (data->nr) {
	case __NR_flock:
	case __NR_fcntl: return 1;
#ifdef __NR_chmod
	case __NR_chmod:
#endif
	case __NR_fchmod: return !is_ours && !(data->args[1] & SETGID);
	case __NR_fchmodat:
	case 452: /* fchmodat2 */ return !is_ours && !(data->args[2] & SETGID);
	case __NR_setxattr:
	case __NR_lsetxattr:
	case __NR_fsetxattr:
	case 463: /* setxattrat */ return !is_ours;
	}
	return 0;
}

static void leave(void);

/* Before the first call that names something: most short commands make none, and the kernel makes /proc's directories for
 * a process when somebody looks at them. Without it we could not say what is asked for. */
static void find_proc(void)
{
	struct facts facts;
	long own = CALL(openat, AT_FDCWD, P("/proc/self/fd"), O_PATH | O_DIRECTORY | O_CLOEXEC, 0, 0);

	if (own < 0 || facts_of(own, &facts) || CALL(dup3, own, OWN_AT, O_CLOEXEC, 0, 0) < 0)
		leave();
	close_fd(own);
	born.proc = device_of(&facts);
}

/* Take one call from the listener and answer it. umask(), epoll_create(), those about threads and those that only wait for
 * their turn go on by themselves: nothing of them that matters can change meanwhile. */
static void serve(void)
{
	static struct seccomp_notif notice;
	static const struct seccomp_notif nothing;
	struct asked asked = {&notice, 0, 0, 0, 0, 0};
	long answer;

	notice = nothing;
	if (CALL(ioctl, LISTENER, SECCOMP_IOCTL_NOTIF_RECV, P(&notice), 0, 0))
		return; /* whoever asked is gone */
	asked.thread = notice.pid;
	if (notice.pid != handing.kept || is_about_processors(notice.data.nr))
		let_go();
	if (notice.data.nr == __NR_sched_setaffinity)
		hear_choice();
	if (notice.data.nr == __NR_sched_getaffinity) {
		if (notice.data.args[0] && notice.data.args[0] != notice.pid)
			hear_question();
		answer_by(&asked, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
		return;
	}
	if (notice.data.nr == __NR_umask) {
		born.changed |= (notice.data.args[0] & 0777) != born.umask;
		born.known = 0;
		answer_by(&asked, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
		return;
	}
	if (is_new_set(&notice)) {
		ready.used = 1;
		answer_by(&asked, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
		return;
	}
	if (is_about_thread(notice.data.nr)) {
		answer = is_of_the_run((int32_t)notice.data.args[0]) ? 0 : -E_PERM;
		answer_by(&asked, answer, answer ? 0 : (uint32_t)SECCOMP_USER_NOTIF_FLAG_CONTINUE);
		return;
	}
	if (is_in_turn(&notice.data)) {
		answer_by(&asked, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
		return;
	}
	spelled.path[0] = 0;
	if (!born.proc)
		find_proc();
	answer = carry_out(&asked);
	if (questions.channel >= 0 && answer < 0 && spelled.path[0] && ask_outside(&asked, answer))
		answer = ANSWERED;
	if (observer.wanted & FAILURE && spelled.path[0] && !asked.is_refused && is_refusal(answer))
		observe_failure(&asked, subject(&notice.data), -answer);
	/* Before the answer: what was taken from the caller is open here too, and a program that is written would be "busy". */
	if (!asked.is_clean)
		CALL(close_range, FIRST_FREE, HELD_FROM - 1, 0, 0, 0);
	if (answer != ANSWERED)
		answer_by(&asked, answer, 0);
	handing.last = notice.pid;
}

/* Before the command: what it inherits. */
static void open_broker(void)
{
	born.umask = born.current = (uint32_t)CALL(umask, 077, 0, 0, 0, 0);
	CALL(umask, born.umask, 0, 0, 0, 0);
	born.watchers[0] = CALL(getpid, 0, 0, 0, 0, 0);
	born.watchers[1] = CALL(getppid, 0, 0, 0, 0, 0);
}

#endif
