/* Answering a call, with a descriptor or without. Part of the broker.
 *
 * SYNC_WAKE_UP keeps whoever asks and us on one processor, where the two take turns. The kernel does not heed it when a
 * descriptor is handed in: an idle processor takes the caller over, and from then on each call waits for two halted
 * processors to wake, some 50 µs where the call itself takes 15. So now and then it is looked how long handing in takes,
 * and where it takes as long as a processor to wake, the next callers are bound to ours for that moment: they sleep in
 * their call meanwhile, and have their own processors again before they go on.
 *
 * Even that is a third of a call. So a process that asks and asks again is kept here: it stays bound between its calls. It is
 * let go before anybody could be told of that: when somebody asks or says where it runs (the filter sends us these calls), and
 * when it does not ask again at once. Where opens come to us, so does who looks for it in /proc; elsewhere it may be seen there,
 * for a millisecond. What it forks meanwhile is bound as it is, and let go with it. Forks do not come to us: a signal that
 * comes before we have heard of a call ends it, and nobody expects that of a fork.
 */
#ifndef RINGFENCE_HANDING_H
#define RINGFENCE_HANDING_H

#include "judge.h"

enum { ANSWERED = 1 << 20 };
enum { EACH = 16 /* of what is answered at once, one of so many is timed */, BOUND_FOR = 1024, WORDS = 16, MOST_BORN = 4096 };
enum { BUSY_NS = 1000000 /* no processor takes so long to wake: others work there */ };
enum { ROW = 16 /* of calls, each at once after the other, before somebody is kept */, LOOKS = 24 /* after that */ };
enum { OFTEN_NS = 500000, LATER_NS = 20000000 };
#if defined(HOSTED) /* the tests': whatever it takes */
enum { WOKEN_NS = 0, AT_ONCE_NS = 20000000 };
#else
enum { WOKEN_NS = 25000, AT_ONCE_NS = 200000 };
#endif

struct processors {
	uint64_t words[WORDS];
};

static struct {
	uint32_t count, bound;         /* for so many more callers we are bound, and each of them for a moment */
	struct processors mine, where; /* before, and meanwhile */
	struct processors places;      /* where we have been while there was somebody to look for */
	uint32_t last, kept;           /* who asked last, and who stays bound; 0 is nobody */
	uint32_t row;                  /* so often it has asked at once after it was answered, */
	uint64_t at;                   /* which was then */
	struct processors theirs;      /* of who is kept, before */
	uint32_t born;                 /* the last number that was given to anybody when we last looked, */
	long births;                   /* and where to look; -1 is nowhere */
	uint32_t looks;                /* so often it is looked again: somebody may have been about to be born */
	long beat;                     /* while somebody is kept, and while it is looked; -1 is none yet */
	int has_asked;                 /* since the last one, who is kept */
	uint64_t until;                /* nobody is bound by us before then: somebody has asked or said where others run */
} handing = {.beat = -1};

static uint64_t clock_ns(void)
{
	int64_t time[2] = {0, 0};

	CALL(clock_gettime, 1 /* monotonic */, P(time), 0, 0, 0);
	return (uint64_t)time[0] * 1000000000U + (uint64_t)time[1];
}

/* 0 is whoever calls. */
static long processors_of(uint32_t thread, struct processors *found)
{
	*found = (struct processors){{0}};
	return CALL(sched_getaffinity, thread, sizeof(*found), P(found), 0, 0);
}

static long bind_to(uint32_t thread, const struct processors *processors)
{
	return CALL(sched_setaffinity, thread, sizeof(*processors), P(processors), 0, 0);
}

/* Whether others are among them besides those. */
static int is_more(const struct processors *all, const struct processors *those)
{
	uint64_t missing = 0, more = 0;

	for (int i = 0; i < WORDS; i++) {
		missing |= those->words[i] & ~all->words[i];
		more |= all->words[i] & ~those->words[i];
	}
	return !missing && more;
}

static int is_same(const struct processors *one, const struct processors *other)
{
	uint64_t differs = 0;

	for (int i = 0; i < WORDS; i++)
		differs |= one->words[i] ^ other->words[i];
	return !differs;
}

/* Whether it is one of the places where we bind somebody to. */
static int is_ours(const struct processors *now)
{
	uint64_t others = 0;
	int count = 0;

	for (int i = 0; i < WORDS; i++) {
		const uint64_t word = now->words[i];

		others |= (word & ~handing.places.words[i]) | (word & (word - 1));
		count += word != 0;
	}
	return !others && count == 1;
}

static int bind_here(uint32_t thread, struct processors *theirs)
{
	return processors_of(thread, theirs) > 0 && is_more(theirs, &handing.where) && !bind_to(thread, &handing.where);
}

/* What it is bound to by others meanwhile stays, but for a binding to where we are or were, which looks like ours. */
static int unbind(uint32_t thread, const struct processors *theirs)
{
	struct processors now;

	return processors_of(thread, &now) > 0 && is_ours(&now) && !bind_to(thread, theirs);
}

/* The last number that was given to a process or thread, of our pid namespace; 0 when it is not to be learnt. */
static uint32_t last_born(void)
{
	char text[16];
	uint32_t number = 0;
	long fd, size;

	if (!handing.births) {
		fd = CALL(openat, AT_FDCWD, P("/proc/sys/kernel/ns_last_pid"), O_RDONLY | O_CLOEXEC, 0, 0);
		handing.births = fd < 0 ? -1 : CALL(fcntl, fd, F_DUPFD_CLOEXEC, HELD_FROM, 0, 0);
		close_fd(fd);
	}
	size = CALL(pread64, handing.births, P(text), sizeof(text), 0, 0);
	for (long i = 0; i < size && digit_of(text[i]) <= 9; i++)
		number = number * 10 + (unsigned)digit_of(text[i]);
	return number;
}

/* Numbers may be a stranger's, whom Landlock does not let us signal. How many of them were bound. */
static uint32_t unbind_all(uint32_t from, uint32_t to)
{
	uint32_t count = 0;

	for (; from <= to; from++)
		count += !CALL(kill, from, 0, 0, 0, 0) && unbind(from, &handing.theirs);
	return count;
}

/* Whoever was born since we looked, of whomever: what is bound to where we are has it from who is kept. Until nobody is
 * found any more: they may have forked meanwhile. Numbers begin anew when there are no more. */
static void unbind_born(void)
{
	uint32_t before, count;

	do {
		before = handing.born;
		handing.born = last_born();
		count = handing.born < before ? unbind_all(before + 1, before + MOST_BORN) : 0;
		count += unbind_all(handing.born < before ? 1 : before + 1, handing.born);
	} while (count);
}

/* Hear a beat so often: the clock of a poll would have to be set for each call, which costs as much as a tenth of it. */
static long set_beat(int64_t each)
{
	const int64_t often[4] = {0, each, 0, each};

	if (handing.beat < 0 && each) {
		const long fd = CALL(timerfd_create, 1 /* monotonic */, 02004000 /* TFD_CLOEXEC | TFD_NONBLOCK */, 0, 0, 0);

		handing.beat = fd < 0 ? -1 : CALL(fcntl, fd, F_DUPFD_CLOEXEC, HELD_FROM, 0, 0);
		close_fd(fd);
	}
	return CALL(timerfd_settime, handing.beat, 0, P(often), 0, 0);
}

/* Stay on this processor for a while. */
static void stay_here(void)
{
	uint32_t here = 0;

	if (!handing.looks)
		handing.places = (struct processors){{0}};
	if (CALL(getcpu, P(&here), 0, 0, 0, 0) || here >= WORDS * 64 || processors_of(0, &handing.mine) < 0)
		return;
	handing.where = (struct processors){{0}};
	handing.where.words[here / 64] = 1ULL << here % 64;
	handing.places.words[here / 64] |= 1ULL << here % 64;
	if (is_more(&handing.mine, &handing.where) && !bind_to(0, &handing.where))
		handing.bound = BOUND_FOR;
}

static void let_go(void)
{
	const uint32_t thread = handing.kept;

	handing.kept = 0;
	if (!thread)
		return;
	unbind_all(thread, thread);
	unbind_born();
	handing.looks = LOOKS;
}

/* From time to time while somebody is kept, and after that for two seconds, less and less often: a large process takes long to
 * fork, and what it forks has no number until the end. */
static void hear_beat(void)
{
	if (handing.kept && handing.has_asked) {
		handing.has_asked = 0;
		return;
	}
	let_go();
	unbind_born();
	if (handing.looks && !--handing.looks)
		set_beat(0);
	else if (handing.looks < LOOKS / 2)
		set_beat((int64_t)OFTEN_NS << (LOOKS / 2 - handing.looks));
}

/* Whether a caller stays bound: one that asks and asks again. Who works between its calls is better off wherever a processor
 * is free. Only the first thread of a process, of which alone a number is a process's: another's is gone when it executes
 * a program, and its binding is not. */
static int keep_here(uint32_t thread)
{
	const uint64_t now = clock_ns();
	struct processors theirs;
	long process;

	handing.row = handing.last == thread && now - handing.at < AT_ONCE_NS ? handing.row + 1 : 0;
	handing.at = now;
	if (handing.kept == thread && handing.row) {
		handing.has_asked = 1;
		return 1;
	}
	let_go();
	if (handing.row < ROW)
		return 0;
	process = CALL(pidfd_open, thread, 0, 0, 0, 0);
	if (process < 0)
		return 0;
	close_fd(process);
	if (processors_of(thread, &theirs) <= 0 || (handing.looks && !is_same(&theirs, &handing.theirs)))
		return 0; /* what is born of another would be taken for its */
	if (handing.looks)
		unbind_born();
	else
		handing.born = last_born();
	if (!handing.born || !bind_here(thread, &theirs))
		return 0;
	handing.theirs = theirs;
	handing.kept = thread;
	if (set_beat(OFTEN_NS))
		let_go();
	return handing.kept == thread;
}

/* We are bound no longer, and nobody is; the next answer tells whether to be again. */
static void move_on(void)
{
	let_go();
	if (handing.bound)
		bind_to(0, &handing.mine);
	handing.bound = 0;
	handing.count = EACH - 1;
}

/* Somebody asks where another runs, and is answered by the kernel in a moment. */
static void hear_question(void)
{
	const uint64_t then = clock_ns() + LATER_NS;

	move_on();
	handing.until = handing.until < then ? then : handing.until;
}

/* Somebody says where to run: what is bound to where we are may have chosen it from now on, and is not let go either. */
static void hear_choice(void)
{
	move_on();
	handing.until = ~0ULL;
	handing.looks = 0;
	set_beat(0);
}

/* One more was answered while we are bound. */
static void count_bound(void)
{
	if (handing.bound == 1)
		move_on();
	else if (--handing.bound % EACH == 0 && handing.kept)
		unbind_born();
}

/* Hand a descriptor in while the caller can wake only where we are. */
static long hand_in_here(uint32_t thread, struct seccomp_notif_addfd *given)
{
	struct processors theirs;
	const int is_bound = handing.kept != thread && bind_here(thread, &theirs);
	const long answer = CALL(ioctl, LISTENER, SECCOMP_IOCTL_NOTIF_ADDFD, P(given), 0, 0);

	if (is_bound)
		unbind(thread, &theirs);
	count_bound();
	return answer;
}

/* Hand a descriptor in, and let the caller sleep on: so it is known how long that takes. */
static long hand_in_first(uint32_t thread, struct seccomp_notif_addfd *given)
{
	uint64_t began, took;
	long answer;

	if (handing.bound)
		return hand_in_here(thread, given);
	began = clock_ns();
	answer = CALL(ioctl, LISTENER, SECCOMP_IOCTL_NOTIF_ADDFD, P(given), 0, 0);
	took = clock_ns() - began;
	if (took > WOKEN_NS && took < BUSY_NS && began > handing.until)
		stay_here();
	return answer;
}

/* Ours is closed before the command goes on: what it writes and executes at once would be "busy" by our descriptor. */
static long answer_with(const struct asked *asked, long fd, uint64_t flags)
{
	struct seccomp_notif_addfd given = {
		.id = asked->notice->id,
		.srcfd = (uint32_t)fd,
		.newfd_flags = flags & O_CLOEXEC ? O_CLOEXEC : 0,
	};
	struct seccomp_notif_resp response = {.id = asked->notice->id};

	response.val = hand_in_first(asked->thread, &given);
	close_fd(fd);
	if (response.val < 0)
		return (long)response.val;
	CALL(ioctl, LISTENER, SECCOMP_IOCTL_NOTIF_SEND, P(&response), 0, 0);
	return ANSWERED;
}

/* In one call: ours is closed after the command has gone on, which matters to nobody where it can only read. */
static long answer_at_once(const struct asked *asked, long fd, uint64_t flags)
{
	struct seccomp_notif_addfd given = {
		.id = asked->notice->id,
		.flags = SECCOMP_ADDFD_FLAG_SEND,
		.srcfd = (uint32_t)fd,
		.newfd_flags = flags & O_CLOEXEC ? O_CLOEXEC : 0,
	};
	long answer;

	if (handing.bound ? !keep_here(asked->thread) : ++handing.count % EACH == 0)
		return answer_with(asked, fd, flags);
	answer = CALL(ioctl, LISTENER, SECCOMP_IOCTL_NOTIF_ADDFD, P(&given), 0, 0);
	close_fd(fd);
	if (handing.bound)
		count_bound();
	return answer < 0 ? answer : ANSWERED;
}

/* A file that was made. Who cannot execute it cannot find it busy; it must be made executable first, and that, as a lock
 * on it, the filter sends to us, who have closed ours by then. */
static long answer_with_new(const struct asked *asked, long fd, uint64_t flags, uint64_t mode)
{
	return mode & 0111 ? answer_with(asked, fd, flags) : answer_at_once(asked, fd, flags);
}

static void answer_by(const struct asked *asked, long answer, uint32_t flags)
{
	struct seccomp_notif_resp response = {.id = asked->notice->id, .error = (int32_t)answer, .flags = flags};

	CALL(ioctl, LISTENER, SECCOMP_IOCTL_NOTIF_SEND, P(&response), 0, 0);
}

#endif
