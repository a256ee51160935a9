"""Rows P: other processes, their memory, their descriptors, and what the host shares between processes.

Host side: after every P3 attempt the canary (`pid`: same host uid, leader of its process group, default signal actions,
with `canary-<hex>` in its environment and arguments) must still run with its limits unchanged. Its number must be one
that no process inside can have, that is, a large one.
"""

import ctypes
import errno
import fcntl
import os
import resource
import signal
import stat
import time

from evidence import LIBC, OWN_DESCRIPTORS, attempt, attempts, call, did, first_of, opened, proof, read
from files import filled

PTRACE_TRACEME, PTRACE_ATTACH, PTRACE_SEIZE = 0, 16, 0x4206
LONG = 1 << 20


def of_others(name):
    others = [each for each in os.listdir("/proc") if each.isdigit() and int(each) != os.getpid()]
    return first_of([lambda pid=pid: proof(read(f"/proc/{pid}/{name}", LONG)) for pid in others])


attempts("P1", {
    "environ_of_others": lambda given: of_others("environ"),
    "cmdline_of_others": lambda given: of_others("cmdline"),
    "environ_of_pid pid": lambda given: proof(read(f"/proc/{given.pid}/environ", LONG)),
    "cmdline_of_pid pid": lambda given: proof(read(f"/proc/{given.pid}/cmdline", LONG)),
    "environ_of_task pid": lambda given: proof(read(f"/proc/{given.pid}/task/{given.pid}/environ", LONG)),
    "root_of_pid pid secret": lambda given: proof(read(f"/proc/{given.pid}/root{given.secret}")),
    "descriptors_of_pid pid": lambda given: filled(os.listdir(f"/proc/{given.pid}/fd")),
    # What Python has, and what the kernel kept of the start of this process and of the one before it.
    "own_environment": lambda given: proof(repr(dict(os.environ)).encode() + read("/proc/self/environ", LONG)),
    "parent_environment": lambda given: proof(read(f"/proc/{os.getppid()}/environ", LONG)),
})
attempts("P2", {
    "first_environ": lambda given: filled(read("/proc/1/environ")),
    "first_memory": lambda given: opened("/proc/1/mem", os.O_RDONLY),
    "first_root secret": lambda given: proof(read("/proc/1/root" + given.secret)),
    "first_descriptors": lambda given: filled(os.listdir("/proc/1/fd")),
    "first_maps": lambda given: filled(read("/proc/1/maps")),
})


def killed(pid, act):
    """Acts, then watches the canary for a second."""
    act()
    for _ in range(40):
        try:
            if read(f"/proc/{pid}/stat").rsplit(b")", 1)[1].split()[0] in b"ZX":
                return True, "the process is dead"
        except (FileNotFoundError, ProcessLookupError):
            return True, "the process is gone"
        time.sleep(0.025)
    return False, "the process still runs"


def own_signals(pid):
    """The kernel sends the signal for us when a pipe becomes readable."""
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, pid)
    fcntl.fcntl(reader, 10, signal.SIGTERM)  # F_SETSIG
    fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.fcntl(reader, fcntl.F_GETFL) | os.O_ASYNC)
    os.write(writer, b"x")


@attempt("P3", "pid")
def kill_everybody(given):
    """kill(-1) with SIGUSR1, which the server ignores, so that it lives to tell. Host side: the canary decides.

    Bare it hits every process of the uid: run it in a pid namespace of its own.
    """
    seen = os.path.exists(f"/proc/{given.pid}")
    os.kill(-1, signal.SIGUSR1)
    return killed(given.pid, lambda: None) if seen else (False, "sent, but the canary cannot be seen")


TERM = (ctypes.c_int * 32)(signal.SIGTERM, 0, -1)  # siginfo_t with si_code SI_QUEUE
attempts("P3", {
    "kill_pid pid": lambda given: killed(given.pid, lambda: os.kill(given.pid, signal.SIGTERM)),
    "kill_group pid": lambda given: killed(given.pid, lambda: os.killpg(given.pid, signal.SIGTERM)),
    "kill_by_pidfd pid": lambda given: killed(
        given.pid, lambda: call("pidfd_send_signal", call("pidfd_open", given.pid, 0), signal.SIGKILL, 0, 0)
    ),
    "kill_by_queue pid": lambda given: killed(given.pid, lambda: call("rt_sigqueueinfo", given.pid, signal.SIGTERM, TERM)),
    "kill_by_owner pid": lambda given: killed(given.pid, lambda: own_signals(given.pid)),
    "limit_pid pid": lambda given: did(lambda: resource.prlimit(given.pid, resource.RLIMIT_NOFILE, (0, 0))),
    # Not killed, but as slow as can be.
    "slow_pid pid": lambda given: did(lambda: os.setpriority(os.PRIO_PROCESS, given.pid, 19)),
    "slow_group pid": lambda given: did(lambda: os.setpriority(os.PRIO_PGRP, given.pid, 19)),
    "pin_pid pid": lambda given: did(lambda: os.sched_setaffinity(given.pid, {0})),
    "idle_pid pid": lambda given: did(lambda: os.sched_setscheduler(given.pid, os.SCHED_IDLE, os.sched_param(0))),
    "slow_disk_of_pid pid": lambda given: did(lambda: call("ioprio_set", 1, given.pid, 3 << 13)),
})


@attempt("P4")
def descriptors_by_readlink(_given):
    found = {}
    for each in map(int, os.listdir("/proc/self/fd")):
        if each > 2 and each not in OWN_DESCRIPTORS:
            try:
                found[each] = os.readlink(f"/proc/self/fd/{each}")
            except FileNotFoundError:
                continue  # the directory just read
    return bool(found), f"{found}"


def descriptors():
    for each in set(range(3, 70_000)) - OWN_DESCRIPTORS:
        try:
            yield each, os.fstat(each).st_mode
        except OSError as error:
            assert error.errno == errno.EBADF


def contents():
    return b"".join(os.pread(each, 4096, 0) for each, mode in descriptors() if stat.S_ISREG(mode))


attempts("P4", {
    "descriptors_by_fstat": lambda given: filled([(each, stat.filemode(mode)) for each, mode in descriptors()]),
    "descriptors_by_reading": lambda given: proof(contents()),
})


def with_child(act):
    """A child that waits, and six bytes at an address both have since the fork."""
    text = ctypes.create_string_buffer(b"before")
    child = os.fork()
    if child == 0:
        ctypes.memmove(text, b"inside", 6)
        signal.pause()
        os._exit(0)
    time.sleep(0.05)
    try:
        return act(child, text)
    finally:
        os.kill(child, signal.SIGKILL)


def vectors(which, pid, text):
    """Six bytes from there, or to there."""
    buffer = ctypes.create_string_buffer(b"before", 8)
    local, remote = ((ctypes.c_ulong * 2)(ctypes.addressof(each), 6) for each in (buffer, text))
    call(which, pid, local, 1, remote, 1, 0)
    return which.endswith("writev") or buffer.value == b"inside", f"{buffer.value!r}"


def trace(request, pid):
    return did(lambda: call("ptrace", request, pid, 0, 0), f"traced {pid}")


def take_descriptor(pid):
    return did(lambda: call("pidfd_getfd", call("pidfd_open", pid, 0), 0, 0), "took descriptor 0")


attempts("P5", {
    "trace_first": lambda given: trace(PTRACE_SEIZE, 1),
    "attach_first": lambda given: trace(PTRACE_ATTACH, 1),
    "trace_pid pid": lambda given: trace(PTRACE_SEIZE, given.pid),
    "trace_child": lambda given: with_child(lambda child, _: trace(PTRACE_SEIZE, child)),
    "trace_me": lambda given: trace(PTRACE_TRACEME, 0),
    "read_memory_of_first": lambda given: vectors("process_vm_readv", 1, ctypes.create_string_buffer(b"inside")),
    "read_memory_of_child": lambda given: with_child(lambda child, text: vectors("process_vm_readv", child, text)),
    "write_memory_of_child": lambda given: with_child(lambda child, text: vectors("process_vm_writev", child, text)),
    "take_descriptor_of_first": lambda given: take_descriptor(1),
    "take_descriptor_of_child": lambda given: with_child(lambda child, _: take_descriptor(child)),
    "compare_child": lambda given: with_child(lambda child, _: did(lambda: call("kcmp", os.getpid(), child, 0, 0, 0))),
})


def attach(number):
    LIBC.shmat.restype = ctypes.c_void_p
    address = LIBC.shmat(number, None, 0o10000)
    if address in (None, 2**64 - 1):
        raise OSError(ctypes.get_errno(), "shmat")
    return proof(ctypes.string_at(address, 64))


def received(which, queue, *more):
    buffer = ctypes.create_string_buffer(16384)
    call(which, queue, buffer, 16000 if which == "msgrcv" else 16384, *more)
    return proof(buffer.raw)


attempts("P6", {
    "shared_memory_by_key ipc_key": lambda given: attach(call("shmget", given.ipc_key, 0, 0o400)),
    "shared_memory_by_number shm_id": lambda given: attach(given.shm_id),
    "shared_memory_listed ipc_key": lambda given: (
        str(given.ipc_key).encode() in read("/proc/sysvipc/shm").split(), "listed"
    ),
    "message_queue ipc_key": lambda given: received("msgrcv", call("msgget", given.ipc_key, 0o400), 0, 0o4000),
    "semaphore ipc_key": lambda given: did(lambda: call("semget", given.ipc_key, 0, 0o400)),
    "posix_queue mq_name": lambda given: received("mq_receive", call("mq_open", given.mq_name.encode(), os.O_NONBLOCK)),
    "posix_memory shm_name": lambda given: proof(read("/dev/shm/" + given.shm_name)),
})
