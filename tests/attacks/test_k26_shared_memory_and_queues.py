"""K26: SysV shared memory, semaphores and queues, and POSIX queues, of processes outside."""

import ctypes
import os
import struct

from tests.attacks.conftest import Field, Ground

PROGRAM = """
shm, sem, msg, queue = int(EXTRA[0]), int(EXTRA[1]), int(EXTRA[2]), EXTRA[3]
libc.shmat.restype = ctypes.c_long
attempt("shared memory", lambda: checked(libc.shmat(shm, None, 0)))
attempt("its removal", lambda: checked(libc.shmctl(shm, 2, ctypes.create_string_buffer(256))))
attempt("semaphores", lambda: checked(libc.semctl(sem, 0, 12, 0)))
attempt("a queue", lambda: checked(libc.msgctl(msg, 2, ctypes.create_string_buffer(256))))
attempt("a queue by name", lambda: syscall(NR.mq_open, queue.encode(), os.O_RDWR | os.O_NONBLOCK, 0, 0))
"""


def prepare(ground: Ground) -> list[str]:
    libc = ctypes.CDLL(None, use_errno=True)
    made = [libc.shmget(0, 4096, 0o1666), libc.semget(0, 1, 0o1666), libc.msgget(0, 0o1666)]
    assert all(number >= 0 for number in made)
    ground.stack.callback(libc.shmctl, made[0], 0, None)
    ground.stack.callback(libc.semctl, made[1], 0, 0)
    ground.stack.callback(libc.msgctl, made[2], 0, None)
    name = f"{ground.base.name}"
    umask = os.umask(0)
    queue = libc.mq_open(b"/" + name.encode(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666, None)
    os.umask(umask)
    assert queue >= 0
    os.close(queue)
    ground.stack.callback(libc.mq_unlink, b"/" + name.encode())
    assert struct.calcsize("P") == 8
    return [*map(str, made), name]


def test_no_memory_or_queue_of_others_is_reached(field: Field) -> None:
    field.repels(PROGRAM, prepare)
