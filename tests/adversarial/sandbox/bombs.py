"""Rows B and X3: too many processes, too much memory, too much disk, too much output.

Every bomb has a size (`count`, `bytes`), ends there, and takes away what it made. Through means the whole size was had.
Bare, hostile.py sets limits of its own first.
"""

import ctypes
import errno
import mmap
import os
import signal
import sys
import threading
import time

from evidence import LIBC, attempt, attempts, call, number_of, workspace

MEGABYTE = 1 << 20


def reached(count, wanted, error=None):
    if error:
        raise OSError(error.errno, f"after {count} of {wanted}")
    return count >= wanted, f"{count} of {wanted}"


@attempt("B1", "count")
def fork_bomb(given):
    children, failure = [], None
    try:
        while len(children) < given.count:
            child = os.fork()
            if child == 0:
                signal.pause()
                os._exit(0)
            children.append(child)
    except OSError as error:
        failure = error
    for child in children:
        os.kill(child, signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)
    return reached(len(children), given.count, failure)


@attempt("B1", "count")
def thread_bomb(given):
    threading.stack_size(64 * 1024)
    end, count = threading.Event(), 0
    try:
        while count < given.count:
            threading.Thread(target=end.wait, daemon=True).start()
            count += 1
    except RuntimeError:
        raise OSError(errno.EAGAIN, f"after {count} of {given.count}") from None
    finally:
        end.set()
    return reached(count, given.count)


def touch(view, size):
    for at in range(0, size, 4096):
        view[at] = 1
    return True, f"{size} bytes"


def kept(size):
    pieces = [bytearray(b"\1") * (16 * MEGABYTE) for _ in range(size // (16 * MEGABYTE))]
    return bool(pieces), f"{len(pieces) * 16} MiB"


def anonymous(size, flags):
    return touch(mmap.mmap(-1, size, flags=flags | mmap.MAP_ANONYMOUS), size)


def memory_file(size):
    descriptor = call("memfd_create", b"attack", 0)
    os.ftruncate(descriptor, size)
    return touch(mmap.mmap(descriptor, size), size)


def unmapped_memory_file(size):
    """Written and never mapped: in no process's count."""
    descriptor = call("memfd_create", b"attack", 0)
    written = sum(os.write(descriptor, b"\1" * MEGABYTE) for _ in range(size // MEGABYTE))
    return reached(written, size)


def shared_device(size):
    descriptor = os.open("/dev/zero", os.O_RDWR)
    return touch(mmap.mmap(descriptor, size), size)


def mapping(size, protection, flags):
    """The address of memory that Python does not unmap."""
    return call("mmap", 0, size, protection, flags | mmap.MAP_ANONYMOUS, -1, 0)


def unmapped_shared_memory(size):
    """One page stays mapped and keeps all others: they are in no process's count."""
    at = mapping(size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED)
    ctypes.memset(at, 1, size)
    call("munmap", at + 4096, size - 4096)
    return True, f"{size} bytes, one page mapped"


def grown_stack(size):
    """What grows downwards counts as a stack, and RLIMIT_DATA does not know of stacks."""
    ctypes.memset(mapping(size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | GROWS_DOWN), 1, size)
    return True, f"{size} bytes"


def system_v_memory(size):
    """A segment that nobody has attached: in no process's count."""
    segment = call("shmget", 0, size, 0o600)
    try:
        at = call("shmat", segment, 0, 0)
        ctypes.memset(at, 1, size)
        call("shmdt", at)
        return True, f"{size} bytes, nobody attached"
    finally:
        call("shmctl", segment, 0, 0)


def system_v_semaphores(size):
    """Kernel memory: 64 bytes for each of 32000 semaphores of a set."""
    sets, failure = [], None
    try:
        while len(sets) * 32_000 * 64 < size:
            sets.append(call("semget", 0, 32_000, 0o600))
    except OSError as error:
        failure = error
    for each in sets:
        call("semctl", each, 0, 0)
    return reached(len(sets) * 32_000 * 64, size, failure)


def page_tables(size):
    """Two megabytes of addresses each cost a page of tables once one of them is read; the page read is always the same."""
    span = 2 * MEGABYTE
    at = mapping(size // 4096 * span, mmap.PROT_READ, mmap.MAP_PRIVATE)
    call("madvise", at, size // 4096 * span, NO_HUGE_PAGES)
    for each in range(at, at + size // 4096 * span, span):
        ctypes.string_at(each, 1)
    time.sleep(HELD)
    return True, f"{size} bytes of tables"


GROWS_DOWN, NO_HUGE_PAGES = 0x100, 15
HELD = 2  # seconds: whoever looks now and then has looked

attempts("B2", {  # ENOMEM by rlimit, SIGKILL by cgroup and by the gateway's own count
    "private_memory bytes": lambda given: kept(given.bytes),
    "mapped_memory bytes": lambda given: anonymous(given.bytes, mmap.MAP_PRIVATE),
    # RLIMIT_DATA counts none of these: a cgroup does, and without one they are denied.
    "shared_memory bytes": lambda given: anonymous(given.bytes, mmap.MAP_SHARED),
    "unmapped_shared_memory bytes": lambda given: unmapped_shared_memory(given.bytes),
    "shared_device bytes": lambda given: shared_device(given.bytes),
    "memory_file bytes": lambda given: memory_file(given.bytes),
    "unmapped_memory_file bytes": lambda given: unmapped_memory_file(given.bytes),
    "grown_stack bytes": lambda given: grown_stack(given.bytes),
    "system_v_memory bytes": lambda given: system_v_memory(given.bytes),
    "system_v_semaphores bytes": lambda given: system_v_semaphores(given.bytes),
    # Nor these; but whoever looks from outside sees them.
    "page_tables bytes": lambda given: page_tables(given.bytes),
    "memory_in_parts bytes": lambda given: in_parts(given.bytes, 8),
    "memory_in_small_parts bytes": lambda given: in_parts(given.bytes, 16),
    "memory_under_no_name bytes": lambda given: in_parts(given.bytes, 16, nameless),
    "memory_without_a_leader bytes": lambda given: in_parts(given.bytes, 16, leaderless),
})


def in_parts(size, parts, disguise=lambda hold: hold()):
    """Several processes with a part each: per process it may be little. A child that is killed ends the attempt."""

    def hold():
        try:
            part = mmap.mmap(-1, size // parts, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            touch(part, size // parts)
            time.sleep(HELD)
            os._exit(0)
        except (OSError, MemoryError):
            os._exit(1)

    children = []
    for _ in range(parts):
        child = os.fork()
        if child == 0:
            disguise(hold)
        children.append(child)
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(ended):
        raise OSError(errno.ENOMEM, f"children ended with {ended}")
    return True, f"{size} bytes in {parts} parts"


def nameless(hold):
    """A process chooses its name, and that need not be text."""
    LIBC.prctl(15, b"\xff\xfe")
    hold()


def leaderless(hold):
    """When its first thread has ended, a process seems to have no memory."""
    threading.Thread(target=hold).start()
    LIBC.syscall(number_of("exit"), 0)


def own_name(directory):
    """Bare, other stages use the same directory, and they have the same process numbers."""
    return f"{directory}/attack-{os.urandom(8).hex()}"


def fill(path, size):
    piece, written = b"\0" * MEGABYTE, 0
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        while written < size:
            written += os.write(descriptor, piece)
    except OSError as error:
        return reached(written, size, error)
    finally:
        os.close(descriptor)
        os.unlink(path)
    return reached(written, size)


for name, directory in {"tmp": "/tmp", "shared_memory": "/dev/shm", "home": "/home/sandbox"}.items():
    attempts("B3", {f"fill_{name} bytes": lambda given, at=directory: fill(own_name(at), given.bytes)})


@attempt("B3", "bytes")
def sparse_file(given):
    path = workspace(given, "sparse")
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.ftruncate(descriptor, given.bytes)
        return os.fstat(descriptor).st_size == given.bytes, f"{given.bytes} bytes"
    finally:
        os.unlink(path)


def many_files(directory, count, keep=False):
    os.makedirs(directory, exist_ok=True)
    made, failure = 0, None
    try:
        for made in range(count):
            with open(os.path.join(directory, str(made)), "wb") as file:
                file.write(b"x")
        made = count
    except OSError as error:
        failure = error
    if not keep:
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)
    return reached(made, count, failure)


def pour(stream, size, line):
    for _ in range(0, size, len(line)):
        stream.write(line)
    stream.flush()
    return True, f"about {size} bytes"


MESSAGE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"' + b"x" * 900 + b'"}}\n'
UNASKED = b'{"jsonrpc":"2.0","id":987654321,"result":{"content":"' + b"z" * 900 + b'"}}\n'
attempts("B3", {
    "big_file bytes": lambda given: fill(workspace(given, "big"), given.bytes),
    "inodes_of_tmp count": lambda given: many_files(own_name("/tmp"), given.count),
})
attempts("X3", {
    "small_files count": lambda given: many_files(workspace(given, "small"), given.count),
    "stdout_notifications bytes": lambda given: pour(sys.stdout.buffer, given.bytes, MESSAGE),
    "stdout_answers_to_nothing bytes": lambda given: pour(sys.stdout.buffer, given.bytes, UNASKED),
    "stdout_garbage bytes": lambda given: pour(sys.stdout.buffer, given.bytes, b"\xff\xfe no message" + b"y" * 900 + b"\n"),
    "stdout_one_line bytes": lambda given: pour(sys.stdout.buffer, given.bytes, b"w" * 4096),
    "stderr_flood bytes": lambda given: pour(sys.stderr.buffer, given.bytes, b"e" * 1023 + b"\n"),
})
