//! Takes a tree away that somebody else filled: no link is followed, directories closed to their owner are opened, and
//! however deep it is, few descriptors and no stack are needed.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, RawMode, RenameFlags, chmod, fstat, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;

/// Takes `path` away with all that is in it. One that is not there is gone.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let top = match enter(CWD, path) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        // What is no directory, such as a link, goes by itself.
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(unlinkat(CWD, path, AtFlags::empty())?),
        Err(error) => return Err(error.into()),
    };
    remove_held(&top, path)
}

/// The same for a directory that was entered already.
pub(crate) fn remove_held(top: &OwnedFd, path: &Path) -> io::Result<()> {
    empty(top)?;
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

/// Empties a directory. Directories in it are emptied of theirs by moving them up, so that nothing ever gets deep.
fn empty(top: &OwnedFd) -> io::Result<()> {
    let mut moved: u64 = 0;
    loop {
        let names = names_in(top)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            if !unlinked(top.as_fd(), &name)? {
                let inner = enter(top, name.as_c_str())?;
                for below in names_in(&inner)? {
                    if !unlinked(inner.as_fd(), &below)? {
                        // Moving a directory means writing to it.
                        drop(enter(&inner, below.as_c_str())?);
                        move_up(&inner, &below, top, &mut moved)?;
                    }
                }
                unlinkat(top, name.as_c_str(), AtFlags::REMOVEDIR)?;
            }
        }
    }
}

/// Whether it was no directory, and is gone.
fn unlinked(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn move_up(from: &OwnedFd, name: &CStr, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved += 1;
        match renameat_with(from, name, top, format!(".moved-{moved}"), RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            // Somebody chose that very name.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens a directory, whatever its mode, if it is one and ours.
pub(crate) fn enter(directory: impl AsFd, name: impl Arg) -> Result<OwnedFd, Errno> {
    let held = openat(
        directory,
        name,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mode = fstat(&held)?.st_mode & 0o7777;
    if mode & OWN != OWN {
        // By its descriptor: a name could lead elsewhere by now.
        let by_descriptor = format!("/proc/self/fd/{}", held.as_raw_fd());
        chmod(by_descriptor, Mode::from_raw_mode(mode | OWN))?;
    }
    openat(
        &held,
        c".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

fn names_in(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// What an owner needs to list a directory and to change it.
const OWN: RawMode = 0o700;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn closed_deep_and_linked_directories_go_and_what_links_lead_to_stays() {
        let home = tempfile::tempdir().unwrap();
        let (tree, other) = (home.path().join("tree"), home.path().join("other"));
        fs::create_dir_all(tree.join("a/b/c")).unwrap();
        fs::create_dir_all(tree.join("a/.moved-1")).unwrap();
        fs::create_dir_all(tree.join(".moved-2")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "x").unwrap();
        fs::write(tree.join("a/b/c/f"), "x").unwrap();
        symlink(&other, tree.join("a/b/link")).unwrap();
        symlink(&other, tree.join("link")).unwrap();
        let mut deep = openat(CWD, &tree, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&deep, c"d", Mode::from_raw_mode(0o700)).unwrap();
            deep = openat(&deep, c"d", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        }
        for closed in ["a/b/c", "a/b", "a"] {
            fs::set_permissions(tree.join(closed), fs::Permissions::from_mode(0o000)).unwrap();
        }
        remove(&tree).unwrap();
        assert!(!tree.exists());
        assert_eq!(fs::read_to_string(other.join("kept")).unwrap(), "x");
        remove(&tree).unwrap();
        symlink(&other, &tree).unwrap();
        remove(&tree).unwrap();
        assert!(other.join("kept").exists() && !tree.is_symlink());
    }
}
