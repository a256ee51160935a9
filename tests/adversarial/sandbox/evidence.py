"""What every attempt is made of: the table they enter, raw system calls, and what counts as evidence.

Whoever sets the scene puts `canary-<hex>` into everything that must stay out of reach (files, environments, banners of
listeners) and `welcome-<hex>` into what an allowlist opens. An attempt got through when it holds such a text, or when
it sees the change it made; an answer by itself proves nothing, because the sandbox's own proxy and resolver answer too.
"""

import ctypes
import errno
import os
import platform
import re

CANARY = re.compile(rb"canary-[0-9a-f]{8,64}")
WELCOME = re.compile(rb"(?:canary|welcome)-[0-9a-f]{8,64}")
ATTEMPTS = {}
OWN_DESCRIPTORS = set()  # pipes of hostile.py itself, which are no finding

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
MACHINE = platform.machine()

# name: (x86_64, aarch64); one number where both have the same
NUMBERS = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": 438, "pidfd_open": 434, "pidfd_send_signal": 424, "rt_sigqueueinfo": (129, 138),
    "shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186), "msgrcv": (70, 188), "semget": (64, 190),
    "mq_open": (240, 180), "mq_receive": (243, 183), "socket": (41, 198), "socketpair": (53, 199),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fspick": 433, "mount_setattr": 442, "unshare": (272, 97), "clone": (56, 220),
    "clone3": 435, "setns": (308, 268), "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "userfaultfd": (323, 282),
    "bpf": (321, 280), "perf_event_open": (298, 241), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "clock_settime": (227, 112), "clock_gettime": (228, 113),
    "settimeofday": (164, 170), "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "reboot": (169, 142), "quotactl": (179, 60), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "personality": (135, 92), "capset": (126, 91), "capget": (125, 90), "getpid": (39, 172), "ioctl": (16, 29),
    "renameat2": (316, 276), "linkat": (265, 37), "ioprio_set": (251, 30), "fchmodat2": 452, "file_getattr": 468,
    "memfd_create": (319, 279), "mmap": (9, 222), "munmap": (11, 215), "madvise": (28, 233), "exit": (60, 93),
    "shmdt": (67, 197), "shmctl": (31, 195), "semctl": (66, 191),
}


class Given(dict):
    """The `with` of an order: `given.secret` is a member the attempt needs, `given.get` one it can do without."""

    __getattr__ = dict.__getitem__


def attempts(row, table):
    """Enters functions into the table; a key is the attempt's name and then the members of `with` it needs."""
    for key, function in table.items():
        name, *needs = key.split()
        assert (row, name) not in ATTEMPTS, key
        ATTEMPTS[(row, name)] = (function, needs)


def attempt(row, *needs):
    """The same for one function that has a name."""

    def enter(function):
        attempts(row, {" ".join((function.__name__, *needs)): function})
        return function

    return enter


def number_of(name):
    """The number of a system call on this machine."""
    numbers = NUMBERS[name]
    if isinstance(numbers, int):
        return numbers
    return numbers[0] if MACHINE == "x86_64" else numbers[1]


def call(which, *arguments):
    """A raw system call by name or number; raises OSError as os.* would."""
    number = number_of(which) if isinstance(which, str) else which
    passed = [ctypes.c_ulong(each & (2**64 - 1)) if isinstance(each, int) else each for each in arguments]
    passed += [ctypes.c_ulong(0)] * (6 - len(passed))
    result = LIBC.syscall(ctypes.c_long(number), *passed)
    if result == -1:
        failure = ctypes.get_errno()
        raise OSError(failure, os.strerror(failure))
    return result


def proof(data, pattern=CANARY):
    """Whether this holds the text that must stay out of reach."""
    data = data.encode(errors="surrogateescape") if isinstance(data, str) else data
    found = pattern.search(data)
    if found:
        return True, found.group().decode()
    return False, f"{len(data)} bytes without a canary: {data[:120]!r}"


def read(path, size=1 << 16):
    """The beginning of a file, without waiting for anything."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def opened(path, flags=os.O_WRONLY):
    """A file whose mere opening is the finding; nothing is written."""
    os.close(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY))
    return True, f"opened {path}"


def first_of(options):
    """Tries thunks until one gets through; the last error stands for all."""
    last = (False, "nothing to try")
    failure = None
    for option in options:
        try:
            found = option()
        except OSError as error:
            failure = error
            continue
        if found[0]:
            return found
        last, failure = found, None
    if failure:
        raise failure
    return last


def did(act, detail="done"):
    """An act whose success is the finding."""
    act()
    return True, detail


def workspace(given, name):
    """A path in the workspace, which is the working directory unless said otherwise."""
    return os.path.join(given.get("workspace") or os.getcwd(), f"{name}-{os.getpid()}")


def not_here(reason):
    """This attempt does not exist on this machine."""
    raise OSError(errno.ENOSYS, reason)
