/* Calls that wait for a person. What was refused, and what the kernel refused us, is told outside with the path that was
 * fetched; the caller stays in its call, and we go on serving others. The answer is an error, a descriptor that was
 * opened outside, or, of what is to be read, the path that was judged: that one is opened, and the caller's memory is
 * not looked at again. Part of the broker.
 */
#ifndef RINGFENCE_WAITING_H
#define RINGFENCE_WAITING_H

#include "reach.h"

enum { MOST_WAITING = 1024, FEW = 4 /* that are looked at for signals in one turn: each takes longer than an answer */ };
enum { GONE, OPENS, MAKES_DIRECTORY, UNLINKS, REMOVES_DIRECTORY, RENAMES, LINKS, SYMLINKS, TRUNCATES, SETS_MODE };
enum { IS_ERROR, IS_HANDED, IS_NAMED }; /* what an answer is */

static struct {
	long channel; /* -1: nobody is asked */
	uint32_t count, next; /* how many wait, and who is looked at next */
	struct waiting {
		uint64_t id, flags; /* an id of 0 is nobody */
		uint32_t thread;
		int32_t error; /* what it would have been told at once */
	} calls[MOST_WAITING];
} questions = {.channel = -1};

/* What is asked; then its text: the path, the other path, the program, and the directory it is in. */
struct inquiry {
	uint64_t id, number; /* a mode without what the mask takes, or a length */
	uint32_t pid, call, flags, error;
	uint16_t sizes[4];
	char text[6 * PATH_MOST];
};
struct verdict {
	uint64_t id;
	int32_t error;
	uint32_t what;
	char path[PATH_MOST];
};

/* PAUSE: a socket for questions and answers. */
static long do_pause(long status)
{
	int ends[2];
	long answer = call6(__NR_socketpair, 1 /* AF_UNIX */, 5 | O_CLOEXEC /* SOCK_SEQPACKET */, 0, P(ends), 0, 0);

	if (answer)
		return answer;
	spelled.is_wanted = 1;
	questions.channel = CALL(fcntl, ends[0], F_DUPFD_CLOEXEC, 16, 0, 0); /* away from where the warden will put things */
	answer = questions.channel < 0 ? questions.channel : lend(status, PAUSED, ends[1]);
	close_fd(ends[0]);
	close_fd(ends[1]);
	return answer;
}

/* Which call it is, with its flags and its number; GONE is none that can be asked about. */
static uint32_t call_of(const struct seccomp_data *data, uint64_t *flags, uint64_t *number)
{
	const __u64 *a = data->args;

	*flags = *number = 0;
	switch (data->nr) {
#ifdef __NR_open
	case __NR_open: *flags = a[1]; *number = a[2]; return OPENS;
	case __NR_creat: *flags = O_CREAT | O_WRONLY | O_TRUNC; *number = a[1]; return OPENS;
	case __NR_mkdir: *number = a[1]; return MAKES_DIRECTORY;
	case __NR_unlink: return UNLINKS;
	case __NR_rmdir: return REMOVES_DIRECTORY;
	case __NR_rename: return RENAMES;
	case __NR_link: return LINKS;
	case __NR_symlink: return SYMLINKS;
	case __NR_chmod: *number = a[1]; return SETS_MODE;
#endif
#ifdef __NR_renameat
	case __NR_renameat: return RENAMES;
#endif
	case __NR_openat: *flags = a[2]; *number = a[3]; return OPENS;
	case __NR_mkdirat: *number = a[2]; return MAKES_DIRECTORY;
	case __NR_unlinkat: return a[2] & AT_REMOVEDIR_ ? REMOVES_DIRECTORY : UNLINKS;
	case __NR_renameat2: *flags = a[4]; return RENAMES;
	case __NR_linkat: *flags = a[4]; return LINKS;
	case __NR_symlinkat: return SYMLINKS;
	case __NR_truncate: *number = a[1]; return TRUNCATES;
	case __NR_fchmodat: *number = a[2]; return SETS_MODE;
	}
	return GONE;
}

/* A path as it was spelled, behind the directory it starts from. */
static uint16_t put_spelled(const struct asked *asked, char *into, const char *path, int32_t base)
{
	char text[64];
	long at, size = 0;

	if (path[0] != '/') {
		at = base_path(asked, base, text);
		size = CALL(readlinkat, at, P(text), P(into), PATH_MOST, 0);
		if (size <= 0 || into[0] != '/')
			return 0;
		into[size++] = '/';
	}
	return (uint16_t)(put_text(into + size, path) - into);
}

static uint16_t put_link(uint32_t thread, const char *name, char *into)
{
	char path[64];
	long size;

	proc_path(path, thread, name);
	size = CALL(readlinkat, AT_FDCWD, P(path), P(into), PATH_MOST, 0);
	return size < 0 ? 0 : (uint16_t)size;
}

static int send_inquiry(const struct inquiry *inquiry, uint32_t text)
{
	const long size = (long)(offsetof(struct inquiry, text) + text);

	return call6(__NR_sendto, QUESTIONS_AT, P(inquiry), size, OPENLY, 0, 0) == size;
}

/* Ask outside about a call that would be answered so; whether it waits now. What cannot be asked at once is not, and what is
 * missing is missing: what may be asked for is in sight. */
static int ask_outside(struct asked *asked, long answer)
{
	static struct inquiry inquiry;
	struct waiting *wait = questions.calls;
	uint64_t flags, number;
	uint32_t size = 0, call = call_of(&asked->notice->data, &flags, &number);
	long process;

	if (!call || (answer != -EACCES_ && answer != -E_PERM && answer != -EROFS_))
		return 0;
	while (wait < questions.calls + MOST_WAITING && wait->id)
		wait++;
	if (wait == questions.calls + MOST_WAITING)
		return 0;
	if (((call == OPENS && flags & O_CREAT) || call == MAKES_DIRECTORY) && take_umask(asked))
		return 0;
	if (call == OPENS || call == MAKES_DIRECTORY)
		number &= ~(uint64_t)born.current & 07777;
	process = process_of(asked);
	inquiry.id = asked->notice->id;
	inquiry.number = number;
	inquiry.pid = process < 0 ? asked->thread : (uint32_t)process;
	inquiry.call = call;
	inquiry.flags = (uint32_t)flags;
	inquiry.error = (uint32_t)-answer;
	size += inquiry.sizes[0] = put_spelled(asked, inquiry.text, spelled.path, spelled.base);
	inquiry.sizes[1] = 0;
	if (call == SYMLINKS) /* what it leads to, which is no place */
		inquiry.sizes[1] = (uint16_t)(put_text(inquiry.text + size, second.path) - (inquiry.text + size));
	else if (call == RENAMES || call == LINKS)
		inquiry.sizes[1] = put_spelled(asked, inquiry.text + size, spelled.other, spelled.other_base);
	size += inquiry.sizes[1];
	size += inquiry.sizes[2] = put_link(asked->thread, "/exe", inquiry.text + size);
	size += inquiry.sizes[3] = put_link(asked->thread, "/cwd", inquiry.text + size);
	if (!inquiry.sizes[0] || !still_waits(asked) || !send_inquiry(&inquiry, size))
		return 0;
	*wait = (struct waiting){asked->notice->id, flags, asked->thread, (int32_t)answer};
	questions.count++;
	return 1;
}

static void forget(struct waiting *wait)
{
	wait->id = 0;
	questions.count--;
}

/* What was granted to be read, in our own view: a file or a directory, where no link is on the way. */
static long open_granted(const struct asked *asked, const char *path, uint64_t flags)
{
	const uint64_t more = O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	struct open_how how = {.flags = (flags & 0x7fffffff) | more, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	struct facts facts;
	long fd, answer;

	if (access_of(flags) != READS || flags & O_CREAT)
		return -EACCES_;
	fd = CALL(openat2, AT_FDCWD, P(path), P(&how), sizeof(how), 0);
	answer = fd < 0 ? fd : facts_of(fd, &facts);
	if (answer)
		return answer;
	if (is_in_proc(fd, &facts) || ((facts.mode & TYPE_MASK) != REGULAR_ && (facts.mode & TYPE_MASK) != DIRECTORY_))
		return -EACCES_;
	if (!(flags & O_NONBLOCK))
		CALL(fcntl, fd, F_SETFL, flags, 0, 0);
	return answer_at_once(asked, fd, flags);
}

/* Nobody answers any more: everybody is told what it would have been told at once. */
static void lose_answers(void)
{
	questions.channel = -1;
	for (struct waiting *wait = questions.calls; wait < questions.calls + MOST_WAITING; wait++) {
		struct seccomp_notif notice = {.id = wait->id};
		struct asked asked = {&notice, wait->thread, 0, 0, 0, 0};

		if (!wait->id)
			continue;
		answer_by(&asked, wait->error, 0);
		forget(wait);
	}
}

/* An answer. One to nobody, or to somebody who has had one, is none. */
static void hear_answer(void)
{
	static struct verdict verdict;
	struct mail mail;
	long answer, got;
	struct waiting *wait = questions.calls;

	address(&mail, &verdict, sizeof(verdict) - 1, 1);
	got = fetch_mail(QUESTIONS_AT, &mail);
	if (got < (long)offsetof(struct verdict, path) || !verdict.id) {
		if (got != -EINTR_ && got != -EAGAIN_)
			lose_answers();
		return;
	}
	((char *)&verdict)[got] = 0;
	while (wait < questions.calls + MOST_WAITING && wait->id != verdict.id)
		wait++;
	if (wait < questions.calls + MOST_WAITING) {
		struct seccomp_notif notice = {.id = verdict.id};
		struct asked asked = {&notice, wait->thread, 0, 0, 0, 0};

		answer = verdict.error ? -(long)(verdict.error & 0xfff) : 0;
		if (verdict.what == IS_HANDED)
			answer = has_enclosed(&mail, 1) ? answer_with(&asked, mail.given.fds[0], wait->flags) : wait->error;
		else if (verdict.what == IS_NAMED)
			answer = open_granted(&asked, verdict.path, wait->flags);
		if (answer != ANSWERED)
			answer_by(&asked, answer, 0);
		forget(wait);
	}
	CALL(close_range, FIRST_FREE, HELD_FROM - 1, 0, 0, 0);
}

/* Who waits for a connection that the gate asks about takes its signals too. */
static void look_after_pending(uint32_t i)
{
	struct seccomp_notif notice = {.id = dial.pending[i].id};
	struct asked asked = {&notice, dial.pending[i].thread, 0, 0, 0, 0};

	if (!notice.id || (still_waits(&asked) && !is_signalled(&asked)))
		return;
	answer_by(&asked, -RESTART, 0);
	dial.pending[i].id = 0;
	dial.asked--;
}

/* Whether somebody waits on. Who has a signal to take does not, if that is looked at, and who is gone; that is told. */
static void look_after(struct waiting *wait, int signals)
{
	static struct inquiry gone;
	struct seccomp_notif notice = {.id = wait->id};
	struct asked asked = {&notice, wait->thread, 0, 0, 0, 0};
	const int waits = still_waits(&asked);

	if (waits && !(signals && is_signalled(&asked)))
		return;
	gone.id = notice.id;
	if (!send_inquiry(&gone, 0))
		return; /* the next time */
	if (waits)
		answer_by(&asked, -RESTART, 0);
	forget(wait);
}

/* From time to time: a few of those who wait. */
static void look_after_questions(void)
{
	uint32_t looked = 0;

	for (uint32_t i = 0; i < MOST_WAITING && questions.count; i++)
		if (questions.calls[i].id)
			look_after(&questions.calls[i], 0);
	for (uint32_t i = 0; i < MOST_WAITING && looked < FEW && (questions.count || dial.asked); i++) {
		const uint32_t at = questions.next++ % MOST_WAITING;

		looked += questions.calls[at].id || dial.pending[at].id;
		look_after_pending(at);
		if (questions.calls[at].id)
			look_after(&questions.calls[at], 1);
	}
}

#endif
