"""Rows F: reading and writing outside the workspace.

Host side: F3 and F4 leave their traces outside, so look there: nothing called `attack-*` in `open_directory`; `append`
(mode 0666), `delete` and `secret` in place and unchanged. All of them should belong to the server's host uid, or the
kernel refuses some attempts for reasons of its own. What gets through bare is put back where the attempt can.
"""

import mmap
import os
import subprocess

from evidence import attempt, attempts, call, did, first_of, opened, proof, read, workspace

AT_FDCWD, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH, RENAME_EXCHANGE = -100, 0x400, 0x1000, 2
UP = "../" * 40


def mapped(path):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
        return proof(view[:])


def by_another_program(path):
    found = subprocess.run(["/bin/cat", path], capture_output=True, check=False).stdout
    return proof(found) if found else proof(read(path))


def filled(found):
    """What is not ours to mark: that there is anything at all is the finding."""
    return bool(found), f"{len(found)}: {found[:8]}"


attempts("F1", {
    "read_secret secret": lambda given: proof(read(given.secret)),
    "map_secret secret": lambda given: mapped(given.secret),
    "read_by_another_program secret": lambda given: by_another_program(given.secret),
    "list_outside directory secret": lambda given: (os.path.basename(given.secret) in os.listdir(given.directory), "listed"),
    # A file the host has in /tmp: the sandbox has a /tmp of its own.
    "list_shared_tmp shared_name": lambda given: (given.shared_name in os.listdir("/tmp"), "listed"),
    "list_run": lambda given: filled(os.listdir("/run")),
    "read_private_key key_file": lambda given: proof(read(given.key_file)),
    "read_ledger ledger": lambda given: filled(read(given.ledger)),
    "list_state state": lambda given: filled(os.listdir(given.state)),
})


def create(directory):
    path = os.path.join(directory, f"attack-{os.getpid()}")
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    return did(lambda: os.unlink(path), f"made {path}")


attempts("F2", {
    "read_shadow": lambda given: (b"root:" in read("/etc/shadow"), "read"),
    "write_usr": lambda given: create("/usr"),
    "write_etc": lambda given: create("/etc"),
    "write_root": lambda given: create("/"),
    "open_passwd": lambda given: opened("/etc/passwd"),
    "open_interpreter": lambda given: opened(os.path.realpath("/usr/bin/env")),
})


def outside(given, name, act):
    """Does something with a path outside; host side: it does not exist."""
    path = os.path.join(given.open_directory, f"attack-{name}")
    act(path)
    return os.path.lexists(path), f"made {path}"


def from_workspace(given):
    path = workspace(given, "attack")
    with open(path, "w", encoding="utf-8") as file:
        file.write("from the workspace")
    return path


def append(path):
    """Without O_CREAT, so that nothing is made where nothing was. Host side: it has not grown."""
    with open(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as file:
        file.write(b"attack\n")
    return read(path).endswith(b"attack\n"), "appended"


attempts("F3", {
    "write_outside open_directory": lambda given: outside(given, "file", lambda path: open(path, "wb").close()),
    "make_directory open_directory": lambda given: outside(given, "directory", os.mkdir),
    "make_symlink open_directory": lambda given: outside(given, "symlink", lambda path: os.symlink("/etc", path)),
    "make_pipe open_directory": lambda given: outside(given, "pipe", os.mkfifo),
    "rename_outside open_directory": lambda given: outside(given, "name", lambda path: os.rename(from_workspace(given), path)),
    "link_outside open_directory": lambda given: outside(given, "link", lambda path: os.link(from_workspace(given), path)),
    "append_outside append": lambda given: append(given.append),
    "truncate_outside append": lambda given: did(lambda: os.truncate(given.append, 0)),
    "change_mode_outside append": lambda given: did(lambda: os.chmod(given.append, 0o600)),
    "change_mode_by_descriptor append": lambda given: did(
        lambda: call("fchmodat2", os.open(given.append, os.O_PATH), b"", 0o600, AT_EMPTY_PATH)
    ),
    "change_owner_outside append": lambda given: did(lambda: os.chown(given.append, os.getuid(), os.getgid())),
    "change_time_outside append": lambda given: did(lambda: os.utime(given.append, (1, 1))),
    "mark_outside append": lambda given: did(lambda: os.setxattr(given.append, "user.attack", b"x")),
    "delete_outside delete": lambda given: did(lambda: os.unlink(given.delete)),
    "append_in_shared_tmp shared_name": lambda given: append(os.path.join("/tmp", given.shared_name)),
})


def linked(given, target, tail="", use=lambda path: proof(read(path))):
    path = workspace(given, "symlink")
    os.symlink(target, path)
    try:
        return use(path + tail)
    finally:
        os.unlink(path)


attempts("F4", {
    "link_to_secret secret": lambda given: linked(given, given.secret),
    "link_to_directory secret": lambda given: linked(
        given, os.path.dirname(given.secret), "/" + os.path.basename(given.secret)
    ),
    "link_climbing secret": lambda given: linked(given, UP + given.secret),
    "link_by_proc secret": lambda given: linked(given, "/proc/self/root" + given.secret),
    # A link to the secret that the host made in the workspace.
    "link_planted planted": lambda given: proof(read(given.planted)),
    "write_through_link append": lambda given: linked(given, given.append, use=append),
    # O_PATH needs no right to read; /proc/self/fd turns it into a real descriptor.
    "reopen_path_descriptor secret": lambda given: proof(read(f"/proc/self/fd/{os.open(given.secret, os.O_PATH)}")),
})


def stolen(given, move, back=os.unlink):
    path = workspace(given, "stolen")
    move(path)
    try:
        return proof(read(path))
    finally:
        back(path)


def link_descriptor(given, path):
    source = f"/proc/self/fd/{os.open(given.secret, os.O_PATH)}"
    call("linkat", AT_FDCWD, source.encode(), AT_FDCWD, path.encode(), AT_SYMLINK_FOLLOW)


@attempt("F5", "secret")
def exchange_secret(given):
    ours, theirs = from_workspace(given).encode(), given.secret.encode()
    call("renameat2", AT_FDCWD, theirs, AT_FDCWD, ours, RENAME_EXCHANGE)
    found = proof(read(ours))
    call("renameat2", AT_FDCWD, theirs, AT_FDCWD, ours, RENAME_EXCHANGE)
    return found


@attempt("F5", "secret")
def climb_by_descriptor(given):
    here = os.open(".", os.O_PATH)
    for _ in range(40):
        here = os.open("..", os.O_PATH, dir_fd=here)
    return proof(os.read(os.open(given.secret.lstrip("/"), os.O_RDONLY, dir_fd=here), 1 << 16))


ROOTS = ("/proc/self/root", "/proc/thread-self/root", f"/proc/{os.getpid()}/root")
attempts("F5", {
    "hard_link secret": lambda given: stolen(given, lambda path: os.link(given.secret, path)),
    "hard_link_by_descriptor secret": lambda given: stolen(given, lambda path: link_descriptor(given, path)),
    "rename_secret secret": lambda given: stolen(
        given, lambda path: os.rename(given.secret, path), lambda path: os.rename(path, given.secret)
    ),
    "climb secret": lambda given: proof(read(UP + given.secret)),
    "proc_root secret": lambda given: first_of([lambda root=root: proof(read(root + given.secret)) for root in ROOTS]),
    "proc_cwd secret": lambda given: proof(read("/proc/self/cwd/" + UP + given.secret)),
})
