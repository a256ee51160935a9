"""Rows B and X3: too many processes, too much memory, too much disk, too much output.

Every bomb has a size (`count`, `bytes`), ends there, and takes away what it made. Through means the whole size was had.
Bare, hostile.py sets limits of its own first.
"""

import errno
import mmap
import os
import signal
import sys
import threading
import time

from evidence import attempt, attempts, call, workspace

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


attempts("B2", {  # ENOMEM by rlimit, SIGKILL by cgroup
    "private_memory bytes": lambda given: kept(given.bytes),
    "mapped_memory bytes": lambda given: anonymous(given.bytes, mmap.MAP_PRIVATE),
    # RLIMIT_DATA counts neither of these: only a cgroup stops the first, and RLIMIT_FSIZE the second for one file.
    "shared_memory bytes": lambda given: anonymous(given.bytes, mmap.MAP_SHARED),
    "memory_file bytes": lambda given: memory_file(given.bytes),
})


@attempt("B2", "bytes")
def memory_in_parts(given):
    """Eight processes with an eighth each: per process it may be little. A child that is killed ends the attempt."""
    part = given.bytes // 8
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            try:
                anonymous(part, mmap.MAP_PRIVATE)
                time.sleep(2)
                os._exit(0)
            except (OSError, MemoryError):
                os._exit(1)
        children.append(child)
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(ended):
        raise OSError(errno.ENOMEM, f"children ended with {ended}")
    return True, f"{given.bytes} bytes in parts"


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
    attempts("B3", {f"fill_{name} bytes": lambda given, at=directory: fill(f"{at}/attack-{os.getpid()}", given.bytes)})


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
    "inodes_of_tmp count": lambda given: many_files(f"/tmp/attack-{os.getpid()}", given.count),
})
attempts("X3", {
    "small_files count": lambda given: many_files(workspace(given, "small"), given.count),
    "stdout_notifications bytes": lambda given: pour(sys.stdout.buffer, given.bytes, MESSAGE),
    "stdout_answers_to_nothing bytes": lambda given: pour(sys.stdout.buffer, given.bytes, UNASKED),
    "stdout_garbage bytes": lambda given: pour(sys.stdout.buffer, given.bytes, b"\xff\xfe no message" + b"y" * 900 + b"\n"),
    "stdout_one_line bytes": lambda given: pour(sys.stdout.buffer, given.bytes, b"w" * 4096),
    "stderr_flood bytes": lambda given: pour(sys.stderr.buffer, given.bytes, b"e" * 1023 + b"\n"),
})
