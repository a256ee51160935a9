//! Hangs the trees into a new root and makes it the only one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat};
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

/// Enough for a few small files and mount points.
const ROOT_SIZE: u64 = 4 << 20;
