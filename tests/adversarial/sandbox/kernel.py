"""Rows S, K, D and U: socket families, system calls, devices, and ways to more rights.

The kernel refuses or not, in front of the attacker. Only the unix sockets have a host side: the canary sockets send
`canary-<hex>` on accept, the datagram socket (`datagram`) counts what arrives, and none may see anything.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import shutil
import socket
import stat
import struct
import subprocess
import time

from evidence import MACHINE, attempt, attempts, call, did, first_of, not_here, number_of, opened, proof, read, workspace
from files import filled
from network import listen_for

AT_FDCWD, HIGH = -100, 1 << 32  # the kernel looks at 32 bits of many arguments, a careless filter at 64
UNIX, INET, INET6, NETLINK, PACKET, ALG, VSOCK, XDP = 1, 2, 10, 16, 17, 38, 40, 44
STREAM, DGRAM, RAW, SEQPACKET, CLOEXEC = 1, 2, 3, 5, 0o2000000
NEW = {
    "user": 0x10000000, "net": 0x40000000, "mnt": 0x00020000, "pid": 0x20000000, "ipc": 0x08000000,
    "uts": 0x04000000, "cgroup": 0x02000000, "time": 0x00000080,
}
TIOCSCTTY, TIOCSTI, TIOCLINUX, NS_GET_PARENT, PIDFD_GET_MNT = 0x540E, 0x5412, 0x541C, 0xB702, 0xFF03


def refused(row, table):
    """Enters system calls that must not succeed: name → (call, arguments …)."""
    for name, arguments in table.items():
        attempts(row, {name: lambda given, it=arguments: did(lambda: call(*it), f"{it[0]} succeeded")})


# S: families. The numbers are raw so that nothing of Python stands between; nothing is connected on vsock.

refused("S1", {
    "raw_icmp": ("socket", INET, RAW, 1), "raw_any": ("socket", INET, RAW, 255), "raw_six": ("socket", INET6, RAW, 6),
    "raw_with_flags": ("socket", INET, RAW | CLOEXEC, 1), "raw_high_bits": ("socket", INET, RAW | HIGH, 1),
    "ping": ("socket", INET, DGRAM, 1), "old_packet": ("socket", INET, 10, 0x0300),
    "packet": ("socket", PACKET, RAW, 0x0300), "packet_datagram": ("socket", PACKET, DGRAM, 8),
    "crypto": ("socket", ALG, SEQPACKET, 0), "xdp": ("socket", XDP, RAW, 0),
})
refused("S2", {
    "vsock": ("socket", VSOCK, STREAM, 0), "vsock_datagram": ("socket", VSOCK, DGRAM, 0),
    "netlink_diag": ("socket", NETLINK, RAW, 4), "netlink_xfrm": ("socket", NETLINK, RAW, 6),
    "netlink_audit": ("socket", NETLINK, RAW, 9), "netlink_connector": ("socket", NETLINK, RAW, 11),
    "netlink_netfilter": ("socket", NETLINK, RAW, 12), "netlink_uevent": ("socket", NETLINK, RAW, 15),
    "netlink_generic": ("socket", NETLINK, RAW, 16), "netlink_high_bits": ("socket", NETLINK | HIGH, RAW, 16 | HIGH),
})


@attempt("S2")
def other_families(_given):
    """All of them but the two of the Internet and netlink."""
    pairs = [(family, kind) for family in set(range(48)) - {INET, INET6, NETLINK} for kind in (STREAM, DGRAM, RAW, SEQPACKET)]
    return first_of([lambda pair=pair: did(lambda: call("socket", *pair, 0), f"family {pair[0]}") for pair in pairs])


def route(kind, flags, body):
    """One message to the kernel's routing tables, by the only netlink that is open."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as talk:
        talk.sendto(struct.pack("=IHHII", 16 + len(body), kind, flags | 5, 1, 0) + body, (0, 0))
        failure = -struct.unpack("=i", talk.recv(4096)[16:20])[0]
    if failure:
        raise OSError(failure, os.strerror(failure))
    return True, "the kernel agreed"


ADDRESS = struct.pack("=BBBBI", INET, 32, 0, 0, 1) + struct.pack("=HH4s", 8, 2, bytes([10, 1, 1, 1]))
attempts("S2", {
    "route_delete": lambda given: route(25, 0, struct.pack("=BBBBBBBBI", INET, 0, 0, 0, 255, 0, 0, 2, 0)),
    "route_address": lambda given: route(20, 0x600, ADDRESS),
    "route_link_down": lambda given: route(16, 0, struct.pack("=BxHiII", 0, 0, 1, 0, 1)),
})


def unix(address, kind=STREAM, family=UNIX, say=b""):
    with socket.socket(fileno=call("socket", family, kind, 0)) as connection:
        connection.settimeout(3)
        connection.connect(address)
        if kind == DGRAM:
            return connection.send(b"attack") == 6, "the datagram was taken"
        connection.sendall(say)
        answer = listen_for(connection, 1)
        return proof(answer) if not say else (answer.startswith(b"REJECTED"), f"{answer!r}")


def listen_in(path):
    """A door for whoever outside can be talked into knocking."""
    with socket.socket(fileno=call("socket", UNIX, STREAM, 0)) as door:
        door.bind(path)
        return did(lambda: os.unlink(path), "bound")


DOCKER = ("/var/run/docker.sock", "/run/docker.sock")
attempts("S3", {
    "abstract_socket abstract": lambda given: unix("\0" + given.abstract),
    "path_socket socket": lambda given: unix(given.socket),  # in the workspace, bound by the host
    "datagram_socket datagram": lambda given: unix(given.datagram, DGRAM),
    "docker_socket docker": lambda given: first_of([lambda at=at: unix(at) for at in (given.docker, *DOCKER)]),
    "bus_socket": lambda given: unix("/run/dbus/system_bus_socket", say=b"\0AUTH\r\n"),
    "family_with_high_bits socket": lambda given: unix(given.socket, family=UNIX | HIGH),
    "listen_in_workspace": lambda given: listen_in(workspace(given, "door")),
})


def pair(kind, use):
    both = (ctypes.c_int * 2)()
    call("socketpair", UNIX, kind, 0, both)
    os.close(both[1])
    with socket.socket(fileno=both[0]) as half:
        return did(lambda: use(half), "sent")


KINDS = {"datagram": DGRAM, "raw": RAW, "datagram_with_flags": DGRAM | CLOEXEC, "datagram_high_bits": DGRAM | HIGH}
for name, kind in {**KINDS, "stream": STREAM, "packets": SEQPACKET}.items():  # the last two are allowed and lead nowhere
    to = "datagram" if name in KINDS else "socket"
    attempts("S4", {
        f"pair_{name}_connect {to}": lambda given, kind=kind, to=to: pair(
            kind, lambda half: (half.connect(given[to]), half.send(b"attack"))
        ),
        f"pair_{name}_send {to}": lambda given, kind=kind, to=to: pair(kind, lambda half: half.sendto(b"attack", given[to])),
    })

# K1, K2, K3: mounts and namespaces, seen in /proc/self/ns or by the birth of a child

refused("K1", {
    "mount_tmpfs": ("mount", b"none", b"/tmp", b"tmpfs", 0, 0), "mount_bind": ("mount", b"/", b"/tmp", 0, 0x5000, 0),
    "mount_proc": ("mount", b"proc", b"/proc", b"proc", 0, 0), "umount": ("umount2", b"/tmp", 2),
    "remount_writable": ("mount", b"none", b"/usr", 0, 0x1020, 0), "umount_proc": ("umount2", b"/proc", 2),
    "fsopen": ("fsopen", b"tmpfs", 0), "fspick": ("fspick", AT_FDCWD, b"/", 0), "chroot": ("chroot", b"."),
    "open_tree": ("open_tree", AT_FDCWD, b"/", 0), "open_tree_clone": ("open_tree", AT_FDCWD, b"/", 0x8001),
    "pivot_root": ("pivot_root", b".", b"."), "move_mount": ("move_mount", AT_FDCWD, b"/tmp", AT_FDCWD, b"/usr", 0),
    "mount_setattr": ("mount_setattr", AT_FDCWD, b"/usr", 0x8000, (ctypes.c_uint64 * 4)(0, 1, 0, 0), 32),
})


def flags_of(kinds):
    return sum(NEW[kind] for kind in kinds.split("_"))


def unshare(kinds):
    seen = kinds.split("_")[-1] + ("_for_children" if kinds in ("pid", "time") else "")
    before = os.readlink(f"/proc/self/ns/{seen}")
    call("unshare", flags_of(kinds))
    return os.readlink(f"/proc/self/ns/{seen}") != before, "changed"


def born(which, *arguments):
    child = call(which, *arguments)
    if child == 0:
        os._exit(0)
    return os.waitpid(child, 0)[0] == child, "a child was born"


def clone3(flags):
    return born("clone3", (ctypes.c_uint64 * 11)(flags, 0, 0, 0, 17), 88)


@attempt("K2")
def mount_in_new_namespace(_given):
    """The usual way to all the code that only root should reach."""
    call("unshare", NEW["user"] | NEW["mnt"])
    return did(lambda: call("mount", b"none", b"/tmp", b"tmpfs", 0, 0))


for kinds in (*NEW, "user_net", "user_mnt"):
    attempts("K2", {f"unshare_{kinds}": lambda given, kinds=kinds: unshare(kinds)})
for kinds in ("user", "pid", "user_net", "user_mnt", "user_cgroup"):
    attempts("K2", {f"clone_{kinds}": lambda given, kinds=kinds: born("clone", flags_of(kinds) | 17, 0, 0, 0, 0)})
attempts("K2", {
    "clone_high_bits": lambda given: born("clone", NEW["user"] | 1 << 40 | 17, 0, 0, 0, 0),
    "clone3_user": lambda given: clone3(NEW["user"]),
    "clone3_plain": lambda given: clone3(0),
})


def enter(path):
    return did(lambda: call("setns", os.open(path, os.O_RDONLY), 0), f"entered {path}")


@attempt("K3")
def child_namespace(_given):
    """A child makes a user namespace and we enter it as its owner."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            call("unshare", NEW["user"])
            os.write(writer, b"\0")
            time.sleep(5)
        except OSError as error:
            os.write(writer, bytes([error.errno]))
        os._exit(0)
    failure = os.read(reader, 1)[0]
    if failure:
        raise OSError(failure, os.strerror(failure))
    try:
        return enter(f"/proc/{child}/ns/user")
    finally:
        os.kill(child, 9)


for kind in ("user", "net", "mnt", "pid", "ipc", "uts", "cgroup"):
    attempts("K3", {
        f"own_{kind}": lambda given, kind=kind: enter(f"/proc/self/ns/{kind}"),
        f"first_{kind}": lambda given, kind=kind: enter(f"/proc/1/ns/{kind}"),
    })
attempts("K3", {
    "host_namespace pid": lambda given: enter(f"/proc/{given.pid}/ns/net"),
    "first_by_pidfd": lambda given: did(lambda: call("setns", call("pidfd_open", 1, 0), NEW["net"] | NEW["mnt"])),
    "parent_namespace": lambda given: did(lambda: fcntl.ioctl(os.open("/proc/self/ns/user", 0), NS_GET_PARENT)),
    "first_by_question": lambda given: did(lambda: fcntl.ioctl(call("pidfd_open", 1, 0), PIDFD_GET_MNT)),
})

# K4, K5: calls that are refused to everybody inside. Should one succeed, it does nothing or sets what is set already.

NOW, HOST_NAME = (ctypes.c_long * 2)(int(time.time()), 0), os.uname().nodename.encode()
refused("K4", {
    "io_uring_setup": ("io_uring_setup", 4, (ctypes.c_char * 120)()), "io_uring_enter": ("io_uring_enter", 0, 0, 0, 0, 0, 0),
    "io_uring_register": ("io_uring_register", -1, 13, (ctypes.c_char * 4096)(), 256),
    "keyctl": ("keyctl", 0, -3, 1), "keyctl_join": ("keyctl", 1, 0), "request_key": ("request_key", b"user", b"x", 0, -3),
    "add_key": ("add_key", b"user", b"attack", b"x", 1, -2), "userfaultfd": ("userfaultfd", 0),
    "userfaultfd_user_mode": ("userfaultfd", 1),
})
refused("K5", {
    "bpf_map": ("bpf", 0, (ctypes.c_uint32 * 18)(2, 4, 4, 1), 72),
    "perf_event": ("perf_event_open", (ctypes.c_uint64 * 16)(1 | 128 << 32, 0, 0, 0, 0, 0x61), 0, -1, -1, 0),
    "clock_settime": ("clock_settime", 0, NOW), "settimeofday": ("settimeofday", NOW, 0),
    "clock_adjtime": ("clock_adjtime", 0, (ctypes.c_int * 64)(0x4000, 0, 10000)),
    "sethostname": ("sethostname", HOST_NAME, len(HOST_NAME)), "setdomainname": ("setdomainname", b"(none)", 6),
    "init_module": ("init_module", b"", 0, b""), "finit_module": ("finit_module", 0, b"", 0),
    "delete_module": ("delete_module", b"attack", 0), "kexec_load": ("kexec_load", 0, 0, 0, 0),
    "reboot": ("reboot", 0xFEE1DEAD, 672274793, 0, 0), "quotactl": ("quotactl", 0x80000100, 0, 0, 0),
    "swapon": ("swapon", b"/attack", 0), "swapoff": ("swapoff", b"/attack"), "acct": ("acct", b"/attack"),
    "personality": ("personality", 0x0040000),
})


@attempt("K5")
def open_by_handle(_given):
    """A handle opens any inode of the file system, walls or not."""
    handle, mount = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0), 136), ctypes.c_int()
    try:
        call("name_to_handle_at", AT_FDCWD, b".", handle, ctypes.byref(mount), 0)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
    return did(lambda: call("open_by_handle_at", os.open(".", os.O_RDONLY), handle, 0))


# K6, K7: other doors into the kernel


def legacy(number, first=0, second=0, third=0):
    """int 0x80 from memory of our own; hostile.py reports the signal that follows."""
    if MACHINE != "x86_64":
        not_here("int 0x80 is of x86")
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    page = mmap.mmap(-1, 4096, flags, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(struct.pack("<2sIBIBIBI4s", b"\x53\xb8", number, 0xBB, first, 0xB9, second, 0xBA, third, b"\xcd\x80\x5b\xc3"))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return True, f"gave {result}"


def x32(which):
    if MACHINE != "x86_64":
        not_here("x32 is of x86")
    return did(lambda: call(0x40000000 | number_of(which), 1, 1))


attempts("K6", {
    "legacy_getpid": lambda given: legacy(20),
    "legacy_unix_socket": lambda given: legacy(359, UNIX, STREAM),
    "legacy_unshare": lambda given: legacy(310, NEW["user"]),
})
attempts("K7", {f"x32_{which}": lambda given, which=which: x32(which) for which in ("getpid", "socket", "ptrace")})
refused("K7", {
    "unknown_470": (470,), "unknown_1023": (1023,), "unknown_huge": (0x3FFFFFFF,), "negative": (-2,),
    "newer_than_filter": ("file_getattr", AT_FDCWD, b".", (ctypes.c_uint64 * 4)(), 24, 0),
})

# D1: devices


def device(given, number, kind=stat.S_IFCHR):
    path = workspace(given, "device")
    os.mknod(path, kind | 0o666, number)
    try:
        return opened(path, os.O_RDONLY)
    finally:
        os.unlink(path)


@attempt("D1")
def type_into_terminal(_given):
    """A terminal of our own, made the controlling one (each attempt leads a session), gets a line typed by us."""
    _, terminal = os.openpty()
    fcntl.ioctl(terminal, TIOCSCTTY, 0)
    for character in b"id\n":
        call("ioctl", terminal, TIOCSTI, bytes([character]))
    return os.read(terminal, 16) == b"id\n", "typed"


DEVICES = {
    "disk": ("vda", "sda", "nvme0n1", "loop0"), "tty": ("tty", "tty0", "console"), "tunnel": ("net/tun",),
    "memory": ("mem", "port"), "kernel_log": ("kmsg",), "kvm": ("kvm",), "fuse": ("fuse",),
    "terminals": ("ptmx", "pts/ptmx"), "vsock": ("vsock", "vhost-vsock"), "userfault": ("userfaultfd",),
}
for name, paths in DEVICES.items():
    options = [lambda path=path: opened(f"/dev/{path}", os.O_RDWR) for path in paths]
    attempts("D1", {f"open_{name}": lambda given, options=options: first_of(options)})
attempts("D1", {
    "make_disk": lambda given: device(given, os.makedev(254, 0), stat.S_IFBLK),
    "make_memory": lambda given: device(given, os.makedev(1, 1)),
    "make_null": lambda given: device(given, os.makedev(1, 3)),
})
refused("D1", {
    "type_into_stdin": ("ioctl", 0, TIOCSTI, b"x"), "type_with_high_bits": ("ioctl", 0, TIOCSTI | HIGH, b"x"),
    "console": ("ioctl", 0, TIOCLINUX, b"\x02"), "console_with_high_bits": ("ioctl", 0, TIOCLINUX | HIGH, b"\x02"),
})

# D2: switches of the kernel; opened, and written only where it concerns this process alone


def written(path, text):
    with open(path, "wb", buffering=0) as file:
        file.write(text)
    return read(path).split() == text.split(), "written"


def any_switch(_given):
    paths = [os.path.join(directory, name) for directory, _, names in os.walk("/proc/sys") for name in names]
    return first_of([lambda path=path: opened(path) for path in paths])


for name, path in {
    "core_pattern": "/proc/sys/kernel/core_pattern", "sysrq_trigger": "/proc/sysrq-trigger",
    "max_user_namespaces": "/proc/sys/user/max_user_namespaces", "own_uid_map": "/proc/self/uid_map",
    "own_setgroups": "/proc/self/setgroups", "cgroup_of_root": "/sys/fs/cgroup/cgroup.procs",
    "uevent_helper": "/sys/kernel/uevent_helper", "memory_limit": "/sys/fs/cgroup/memory.max",
}.items():
    attempts("D2", {name: lambda given, path=path: opened(path)})
attempts("D2", {
    "kernel_memory": lambda given: opened("/proc/kcore", os.O_RDONLY),
    "kernel_messages": lambda given: opened("/proc/kmsg", os.O_RDONLY),
    "write_uid_map": lambda given: written("/proc/self/uid_map", b"0 0 1"),
    "spared_by_the_killer": lambda given: written("/proc/self/oom_score_adj", b"-1000"),
    "list_sys": lambda given: filled(os.listdir("/sys")),
    "any_switch": any_switch,
})

# U1: more rights


def gained(*arguments):
    """Runs a program, mostly `id`; what it prints shows the gain."""
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=15, check=False)
    return b"uid=0" in done.stdout, f"{done.returncode}, {(done.stdout + done.stderr)[:80]!r}"


def with_copy(given, act):
    path = workspace(given, "copy")
    shutil.copy("/usr/bin/id", path)
    try:
        return act(path)
    finally:
        os.unlink(path)


def own_setuid(path):
    """Host side: nobody else may reach the workspace, because the bit can be set."""
    os.chmod(path, 0o6755)
    return gained(path)


def raised(limit):
    """Nothing to raise where there is no limit: said so, and not through."""
    hard = resource.getrlimit(limit)[1]
    if hard == resource.RLIM_INFINITY:
        return False, "there is no limit"
    return did(lambda: resource.prlimit(0, limit, (hard + 1, hard + 1)), f"{hard} was the limit")


MINE = struct.pack("<IIIII", 0x2000001, 0xFFFFFFFF, 0, 0x1FF, 0)
attempts("U1", {
    "become_root_by_su": lambda given: gained("/usr/bin/su", "-c", "id"),
    "map_by_newuidmap": lambda given: (subprocess.run(["newuidmap", str(os.getpid()), "0", "0", "1"], check=False).returncode == 0, "ran"),
    # A copy of /usr/bin/id in the workspace that belongs to root and has the setuid bit.
    "planted_setuid_program setuid_program": lambda given: gained(given.setuid_program),
    "own_setuid_program": lambda given: with_copy(given, own_setuid),
    "capability_on_file": lambda given: with_copy(given, lambda path: did(lambda: os.setxattr(path, "security.capability", MINE))),
    "setuid": lambda given: did(lambda: os.setuid(0)),
    "setresuid": lambda given: did(lambda: os.setresuid(0, 0, 0)),
    "setgid": lambda given: did(lambda: os.setgid(0)),
    "setgroups": lambda given: did(lambda: os.setgroups([0])),
    "give_away": lambda given: did(lambda: os.chown(".", 0, 0)),
    "nice": lambda given: did(lambda: os.nice(-5)),
    "real_time": lambda given: did(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))),
    "raise_open_files": lambda given: raised(resource.RLIMIT_NOFILE),
    "raise_processes": lambda given: raised(resource.RLIMIT_NPROC),
    "raise_core": lambda given: raised(resource.RLIMIT_CORE),
})
refused("U1", {"capset": ("capset", (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6))})
