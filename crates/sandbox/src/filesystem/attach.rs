//! Hangs the trees into a new root and makes it the only one.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat};
use rustix::io::{Errno, write};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create, fsconfig_set_string,
    fsmount, fsopen, move_mount, unmount,
};
use rustix::process::{fchdir, pivot_root};

use super::{NO_TRICKS, READ_ONLY, TEMPORARY, TreeKind, Trees, clone_tree};
use crate::limits::ResourceLimits;
use crate::sys;

/// A root that is complete but not yet ours.
#[derive(Debug)]
pub(crate) struct Root {
    mount: OwnedFd,
    proc: OwnedFd,
}

/// Builds the new root. Must be called by the first process of a pid namespace, in a mount namespace of its own.
pub(crate) fn build(trees: Trees, limits: &ResourceLimits) -> io::Result<Root> {
    // Before anything is covered: the kernel gives a new `/proc` only to those who can see one in full.
    let proc = new_mount(
        "proc",
        &[("hidepid", "invisible")],
        NO_TRICKS | MountAttrFlags::MOUNT_ATTR_NOEXEC,
    )?;
    let mount = temporary("0755", ROOT_SIZE)?;
    // Any directory will do as its first place; the new root is left by its back door, see `pivot`.
    let place = openat(CWD, c"/usr", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    hang(&mount, &place)?;

    for (at, contents) in &trees.files {
        write_file(&mount, at, contents)?;
    }
    for (at, target) in &trees.links {
        make_directory(&mount, at.parent().unwrap_or(Path::new("/")))?;
        symlinkat(target, &mount, relative(at))?;
    }
    for (link, target) in DEVICE_LINKS {
        make_directory(&mount, Path::new("/dev"))?;
        symlinkat(target, &mount, link)?;
    }
    for (at, mode) in TEMPORARY {
        hang_at(
            &mount,
            Path::new(at),
            TreeKind::Directory,
            &temporary(mode, limits.temporary)?,
        )?;
    }
    hang_at(&mount, Path::new("/proc"), TreeKind::Directory, &proc)?;
    cover_proc(&mount, &proc)?;
    // Outer trees before those inside them; a workspace below `/tmp` comes after `/tmp`.
    let mut ordered = trees.trees;
    ordered.sort_by_key(|tree| tree.at.components().count());
    for tree in &ordered {
        hang_at(&mount, &tree.at, tree.kind, &tree.mount)?;
    }
    Ok(Root { mount, proc })
}

impl Root {
    /// Forbids user namespaces below ours; must precede `pivot`, after which settings can only be read.
    pub(crate) fn forbid_user_namespaces(&self) -> io::Result<()> {
        let setting = openat(
            &self.proc,
            c"sys/user/max_user_namespaces",
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        write(&setting, b"0")?;
        Ok(())
    }
}

/// Covers what `/proc` tells of the whole machine. What is not known is covered too; processes are the server's own.
fn cover_proc(root: &OwnedFd, proc: &OwnedFd) -> io::Result<()> {
    // In the new root itself: of a mount that hangs nowhere older kernels give no copies.
    write_file(root, Path::new(NO_FILE), b"")?;
    // Not even opened: that something is empty is no answer to what was asked.
    rustix::fs::chmodat(
        root,
        relative(Path::new(NO_FILE)),
        Mode::empty(),
        rustix::fs::AtFlags::empty(),
    )?;
    make_directory(root, Path::new(NO_DIRECTORY))?;
    let listing = openat(
        proc,
        c".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut covered: Vec<PathBuf> = COVERED_OF_SYS.iter().map(PathBuf::from).collect();
    for entry in Dir::read_from(&listing)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let is_process = name.first().is_some_and(u8::is_ascii_digit);
        let is_link = entry.file_type() == FileType::Symlink;
        if !is_process && !is_link && !name.starts_with(b".") && !SHOWN_OF_PROC.contains(&name) {
            covered.push(Path::new("/proc").join(OsStr::from_bytes(name)));
        }
    }
    for path in covered {
        let place = match look_up(root, &path) {
            Err(Errno::NOENT) => continue,
            other => other?,
        };
        let found = FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode);
        let cover = if found == FileType::Directory {
            NO_DIRECTORY
        } else {
            NO_FILE
        };
        let cover = look_up(root, Path::new(cover))?;
        hang(
            clone_tree(&cover, READ_ONLY | MountAttrFlags::MOUNT_ATTR_NOEXEC)?,
            place,
        )?;
    }
    Ok(())
}

/// Makes the new root the only one, and read-only.
pub(crate) fn pivot(root: &Root) -> io::Result<()> {
    let settings = openat(&root.proc, c"sys", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let settings = clone_tree(&settings, READ_ONLY)?;
    hang_at(&root.mount, Path::new("/proc/sys"), TreeKind::Directory, &settings)?;
    fchdir(&root.mount)?;
    // The old root ends up on top of the new one, from where it is taken away: no directory is needed for it.
    pivot_root(c".", c".")?;
    unmount(c".", UnmountFlags::DETACH)?;
    rustix::process::chdir(c"/")?;
    sys::confine_mount(&root.mount, u64::from(MountAttrFlags::MOUNT_ATTR_RDONLY.bits()))
}

pub(super) fn temporary(mode: &str, size: u64) -> io::Result<OwnedFd> {
    let size = size.to_string();
    // One inode per 4 KiB, as the kernel itself would allow for that much memory.
    let inodes = (size.parse::<u64>().unwrap_or(ROOT_SIZE) / 4096).max(1024).to_string();
    new_mount(
        "tmpfs",
        &[("size", &size), ("nr_inodes", &inodes), ("mode", mode)],
        NO_TRICKS,
    )
}

fn new_mount(kind: &str, options: &[(&str, &str)], flags: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        fsconfig_set_string(&context, *name, *value)?;
    }
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}

pub(super) fn hang(mount: impl AsFd, place: impl AsFd) -> io::Result<()> {
    let by_descriptor = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, c"", place, c"", by_descriptor)?)
}

pub(super) fn hang_at(root: &OwnedFd, at: &Path, kind: TreeKind, mount: &OwnedFd) -> io::Result<()> {
    let place = match look_up(root, at) {
        Ok(place) => place,
        Err(Errno::NOENT) => {
            match kind {
                TreeKind::Directory => make_directory(root, at)?,
                TreeKind::File => write_file(root, at, b"")?,
            }
            look_up(root, at)?
        }
        Err(error) => return Err(error.into()),
    };
    hang(mount, place)
}

/// Never leaves the new root, whatever links it holds.
fn look_up(root: &OwnedFd, at: &Path) -> rustix::io::Result<OwnedFd> {
    openat2(
        root,
        relative(at),
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Makes a directory and those above it; one that is there is fine.
fn make_directory(root: &OwnedFd, at: &Path) -> io::Result<()> {
    if look_up(root, at).is_ok() {
        return Ok(());
    }
    let parent = at.parent().unwrap_or(Path::new("/"));
    make_directory(root, parent)?;
    let above = look_up(root, parent)?;
    let name = at
        .file_name()
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    match mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn write_file(root: &OwnedFd, at: &Path, contents: &[u8]) -> io::Result<()> {
    let parent = at.parent().unwrap_or(Path::new("/"));
    make_directory(root, parent)?;
    let above = look_up(root, parent)?;
    let name = at
        .file_name()
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    let file = openat(
        &above,
        name,
        OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::from_raw_mode(0o644),
    )?;
    let mut rest = contents;
    while !rest.is_empty() {
        let written = write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// `openat2` takes an absolute path from the root it is given, but `.` is needed for the root itself.
fn relative(at: &Path) -> &Path {
    let inside = at.strip_prefix("/").unwrap_or(at);
    if inside.as_os_str().is_empty() {
        Path::new(".")
    } else {
        inside
    }
}

const DEVICE_LINKS: [(&str, &str); 4] = [
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
];

/// What runtimes ask for: memory, processors and the kernel's kind. Links lead to the asking process itself.
const SHOWN_OF_PROC: [&[u8]; 8] = [
    b"cpuinfo",
    b"filesystems",
    b"meminfo",
    b"stat",
    b"sys",
    b"sysvipc",
    b"uptime",
    b"version",
];

/// What others are covered by.
const NO_FILE: &str = "/dev/.none";
const NO_DIRECTORY: &str = "/dev/.none.d";

/// Settings that are figures of the whole machine.
const COVERED_OF_SYS: [&str; 3] = ["/proc/sys/fs", "/proc/sys/dev", "/proc/sys/debug"];

/// Enough for a few small files and mount points.
const ROOT_SIZE: u64 = 4 << 20;
