/* One message over a socket with some descriptors, four at most: what one side holds, the other then holds too. */
#ifndef RINGFENCE_MAIL_H
#define RINGFENCE_MAIL_H

#include "kernel.h"

struct mail {
	struct {
		void *base;
		size_t size;
	} part;
	struct {
		size_t size;
		int32_t level, type, fds[4];
	} given;
	struct {
		void *name;
		uint32_t name_size;
		void *parts;
		size_t count;
		void *control;
		size_t control_size;
		int32_t flags;
	} message;
};

static void address(struct mail *mail, void *content, size_t size, size_t count)
{
	*mail = (struct mail){{content, size}, {16 + 4 * count, 1 /* SOL_SOCKET */, 1 /* SCM_RIGHTS */, {-1, -1, -1, -1}}, {0}};
	mail->message.parts = &mail->part;
	mail->message.count = 1;
	mail->message.control = &mail->given;
	mail->message.control_size = 16 + 4 * count;
}

/* The kernel counts the descriptors that all processes of a user have on their way, and lets no more of them go than we
 * may hold open ourselves, which may be few. They arrive: ten seconds are waited for that. */
static long send_mail(uint64_t socket, struct mail *mail)
{
	long answer = -E_TOOMANYREFS;

	for (int i = 0; i < 5000 && answer == -E_TOOMANYREFS; i++) {
		int64_t moment[2] = {0, 2000000}; /* the kernel writes there what is left of it */

		if (i)
			CALL(ppoll, 0, 0, P(moment), 0, 8);
		answer = CALL(sendmsg, socket, P(&mail->message), 0, 0, 0);
	}
	return answer;
}

static long fetch_mail(uint64_t socket, struct mail *mail)
{
	return CALL(recvmsg, socket, P(&mail->message), 0x40000000 /* MSG_CMSG_CLOEXEC */, 0, 0);
}

/* Whether so many descriptors came with it, and no others. */
static int has_enclosed(const struct mail *mail, size_t count)
{
	const size_t size = 16 + 4 * count;

	return mail->message.control_size >= size && mail->given.size == size && mail->given.level == 1 && mail->given.type == 1;
}

#endif
