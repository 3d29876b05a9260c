/* The nursery: an enactor that has read and checked a plan, and forks whenever the next run is to stand by.
 *
 * Part of enact.c, in which it is included. Each child does the plan, from the next step to AWAIT. Being a fork of a small
 * process it starts in a fifth of the time of an exec, and whoever started the nursery is not held up meanwhile. What is the
 * same for every run is made here once. Without a view: Landlock's rules, which each child puts in force by itself, in a
 * domain of its own; and the filter, in force here already, which each child is born with. With one: most of its mounts
 * (template.h). They are most of the cost.
 *
 * Nobody waits for a child: whoever asked for it is told of its end on its status channel.
 */

#include "template.h"

enum { PATIENCE_SECONDS = 6 };

/* A message with exactly so many descriptors; the answer is its length, and 0 or less is the end. */
static long receive(uint64_t socket, void *into, size_t room, int32_t *fds, size_t count)
{
	struct mail mail;
	long answer;

	address(&mail, into, room, count);
	answer = fetch_mail(socket, &mail);
	if (answer <= 0)
		return answer;
	if (mail.message.flags & (8 | 32) /* MSG_CTRUNC, MSG_TRUNC */ || !has_enclosed(&mail, count))
		return -E_PROTO;
	for (size_t i = 0; i < count; i++)
		fds[i] = mail.given.fds[i];
	return answer;
}

/* A descriptor in the place of another. */
static long replace(long fd, long place, long flags)
{
	long answer = CALL(dup3, fd, place, flags, 0, 0);

	close_fd(fd);
	return answer < 0 ? answer : 0;
}

/* A descriptor away from where the warden will put things. */
static long kept_away(long fd)
{
	long away = fd < 0 ? fd : CALL(fcntl, fd, F_DUPFD_CLOEXEC, 16, 0, 0);

	close_fd(fd);
	return away;
}

/* What every child would do alike. Not with a view, in which rules name what only a child can see; and not a filter with a
 * listener, of which each run has its own. */
static long prepare(const struct step *first)
{
	long answer = 0;

	for (const struct step *step = first; !is_last(step->kind); step = step_after(step))
		if (step->kind == BUBBLEWRAP || step->kind == NAMESPACES)
			return 0;
	answer = CALL(prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	for (const struct step *step = first; !is_last(step->kind); step = step_after(step)) {
		struct reader reader = read_step(step);

		if (step->kind == RULESET)
			answer = do_ruleset(reader.numbers);
		else if (step->kind == BENEATH)
			answer = do_beneath(reader);
		else if (step->kind == PORT)
			answer = do_port(reader.numbers);
		else if (step->kind == WARDEN)
			answer = prepared.outer = make_scope(REFER, SCOPE_SIGNAL);
		else if (step->kind == SCOPE)
			answer = prepared.inner = kept_away(make_scope(reader.numbers[0], reader.numbers[1]));
		else if (step->kind == SECCOMP && !reader.numbers[0]) {
			answer = do_seccomp(reader);
			prepared.has_filter = 1;
		}
		if (answer < 0)
			return answer;
	}
	prepared.is_there = 1;
	return 0;
}

/* Wait for the next byte. A template keeps the host's file systems mounted, also those that somebody wants to be rid of, so
 * it is not kept for whoever does not come again; by then the plan is too old anyway. */
static int is_asked(uint64_t request)
{
	struct polled watched = {(int)request, POLLIN_, 0};
	int64_t moment[2] = {PATIENCE_SECONDS, 0};
	long answer;

	do
		answer = CALL(ppoll, P(&watched), 1, template.is_there ? P(moment) : 0, 0, 8);
	while (answer == -EINTR_);
	return answer == 1;
}

/* Wait until a child has its copy, or is gone; then the next one's private directories are made. */
static void let_copy(int copying[2], const struct step *first)
{
	uint8_t byte;
	long answer;

	close_fd(copying[1]);
	do
		answer = CALL(read, copying[0], P(&byte), 1, 0, 0);
	while (answer == -EINTR_);
	close_fd(copying[0]);
	if (answer || renew(first))
		CALL(exit_group, 125, 0, 0, 0, 0);
}

/* NURSERY: only children go on, one for each byte that comes. What goes back is the child's pid, with the other ends of
 * its status and of its socket for AWAIT, which take the places of ours. */
static long do_nursery(const struct step *step, long status)
{
	const uint64_t *numbers = read_step(step).numbers, request = numbers[0];
	const uint64_t ignored[4] = {1 /* SIG_IGN */, 0, 0, 0}, by_default[4] = {0, 0, 0, 0};
	int told[2], asked[2], copying[2];
	int32_t pid;
	uint8_t byte;
	struct mail mail;
	long answer;

	if (handed.is_inside)
		return 0; /* the child that has become bubblewrap's */
	answer = call6(__NR_mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, (long)numbers[1], 0);
	if (answer < 0 && answer > -4096)
		return answer;
	begun.page = (uint32_t *)answer;
	close_fd((long)numbers[1]);
	answer = prepare(step_after(step));
	if (!answer)
		answer = make_template(step_after(step));
	if (!answer)
		answer = CALL(rt_sigaction, SIGCHLD_, P(ignored), 0, 8, 0); /* the kernel reaps */
	if (answer)
		return answer;
	for (;;) {
		if (!is_asked(request) || CALL(read, request, P(&byte), 1, 0, 0) != 1)
			CALL(exit_group, 0, 0, 0, 0, 0); /* nobody is left to ask */
		answer = call6(__NR_socketpair, 1 /* AF_UNIX */, 1 /* SOCK_STREAM */ | O_CLOEXEC, 0, P(told), 0, 0);
		if (!answer)
			answer = call6(__NR_socketpair, 1, 5 /* SOCK_SEQPACKET */ | O_CLOEXEC, 0, P(asked), 0, 0);
		if (!answer && template.is_renewed)
			answer = CALL(pipe2, P(copying), O_CLOEXEC, 0, 0, 0);
		if (!answer)
			answer = fork_();
		if (answer < 0)
			CALL(exit_group, 125, 0, 0, 0, 0);
		pid = (int32_t)answer;
		if (!pid)
			break;
		address(&mail, &pid, sizeof(pid), 2);
		mail.given.fds[0] = told[0];
		mail.given.fds[1] = asked[0];
		CALL(sendmsg, request, P(&mail.message), 0x4000 /* MSG_NOSIGNAL */, 0, 0);
		for (int i = 0; i <= 1; i++) {
			close_fd(told[i]);
			close_fd(asked[i]);
		}
		if (template.is_renewed)
			let_copy(copying, step_after(step));
	}
	if (template.is_renewed) {
		close_fd(copying[0]);
		template.copying = copying[1];
	}
	close_fd(told[0]);
	close_fd(asked[0]);
	answer = CALL(rt_sigaction, SIGCHLD_, P(by_default), 0, 8, 0);
	if (!answer)
		answer = replace(told[1], status, O_CLOEXEC);
	prepared.request = (long)request;
	return answer ? answer : replace(asked[1], (long)request, 0); /* it goes through bubblewrap, if there is that */
}
