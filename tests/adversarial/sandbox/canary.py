"""What a host shares between processes: SysV memory, queue and semaphore, a POSIX queue and POSIX memory.

    canary.py TEXT      makes one of each with TEXT in it, says their names as JSON, and takes them away when its input ends
"""

import ctypes
import json
import os
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.shmat.restype = ctypes.c_void_p
CREATE = 0o1000 | 0o600
REMOVE = 0


def made(result):
    if result is None or result < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    return result


def main(text):
    key = int(text[-7:], 16)
    memory = made(LIBC.shmget(key, 4096, CREATE))
    ctypes.memmove(LIBC.shmat(memory, None, 0), text.encode(), len(text))
    queue = made(LIBC.msgget(key, CREATE))
    made(LIBC.msgsnd(queue, ctypes.create_string_buffer((1).to_bytes(8, "little") + text.encode()), len(text), 0))
    semaphore = made(LIBC.semget(key, 1, CREATE))
    name = f"host-{key}"
    named = f"/{name}"
    posix = made(LIBC.mq_open(named.encode(), os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o600, None))
    made(LIBC.mq_send(posix, text.encode(), len(text), 0))
    with open("/dev/shm" + named, "w", encoding="utf-8") as file:
        file.write(text)
    print(json.dumps({"ipc_key": key, "shm_id": memory, "mq_name": name, "shm_name": name}), flush=True)
    sys.stdin.read()
    LIBC.shmctl(memory, REMOVE, None)
    LIBC.msgctl(queue, REMOVE, None)
    LIBC.semctl(semaphore, 0, REMOVE)
    LIBC.mq_unlink(named.encode())
    os.unlink("/dev/shm" + named)


main(sys.argv[1])
