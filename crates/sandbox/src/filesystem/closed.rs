//! The way to the workspace of a server without a file tree of its own (`fs = "none"`), when the gateway is root. The
//! workspace and installed packages may lie below a directory that is closed to the server's uid, as the gateway's state
//! is. Such a directory is covered with an empty one, in a mount namespace of the server's own, and what the plan names is
//! hung into that at its own path. Nothing is lost by it: the server could not have looked behind that directory.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat};
use rustix::mount::MountAttrFlags;

use super::attach::{hang, hang_at, temporary};
use super::{NO_TRICKS, READ_ONLY, TreeKind, named, open};
use crate::launch::orders::Orders;
use crate::plan::{User, may_pass};
use crate::sys;

/// A directory that is closed to the server, and what is to be seen below it all the same.
#[derive(Debug)]
pub(crate) struct Closed {
    directory: PathBuf,
    shown: Vec<(PathBuf, OwnedFd)>,
}

/// Takes hold of everything the plan names that lies below a closed directory. Must be called as root.
pub(crate) fn take(orders: &Orders, user: User) -> io::Result<Vec<Closed>> {
    let workspace = std::iter::once((&orders.workspace, &orders.workspace, NO_TRICKS));
    let read = orders.read.iter().map(|shown| (&shown.at, &shown.source, READ_ONLY));
    let mut found: Vec<Closed> = Vec::new();
    for (at, source, flags) in workspace.chain(read) {
        let Some(directory) = closed_above(at, user) else {
            continue;
        };
        let tree = open(source, ResolveFlags::NO_SYMLINKS, flags).map_err(|error| named(source, &error))?;
        let shown = (at.clone(), tree);
        match found.iter_mut().find(|closed| closed.directory == directory) {
            Some(closed) => closed.shown.push(shown),
            None => found.push(Closed {
                directory,
                shown: vec![shown],
            }),
        }
    }
    Ok(found)
}

/// The first directory on the way to `path` that the server's uid may not pass.
fn closed_above(path: &Path, user: User) -> Option<PathBuf> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    above
        .into_iter()
        .find(|directory| !may_pass(directory, user))
        .map(Path::to_path_buf)
}

/// Covers the closed directories. Must be called in a mount namespace of its own.
pub(crate) fn cover(closed: Vec<Closed>) -> io::Result<()> {
    for Closed { directory, mut shown } in closed {
        let place = openat(CWD, &directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let cover = temporary("0755", COVER_SIZE)?;
        hang(&cover, &place)?;
        // Outer trees before those inside them.
        shown.sort_by_key(|(path, _)| path.components().count());
        for (path, tree) in &shown {
            let kind = match fs::File::from(tree.try_clone()?).metadata()?.is_dir() {
                true => TreeKind::Directory,
                false => TreeKind::File,
            };
            let below = path.strip_prefix(&directory).unwrap_or(path);
            hang_at(&cover, below, kind, tree)?;
        }
        sys::confine_mount(&cover, u64::from(MountAttrFlags::MOUNT_ATTR_RDONLY.bits()))?;
    }
    Ok(())
}

/// Enough for the directories on the way.
const COVER_SIZE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the tests are configured by their caller")]
    fn the_outermost_closed_directory_is_found() {
        if !rustix::process::geteuid().is_root() {
            return assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "this takes root");
        }
        let user = User {
            uid: 65_533,
            gid: 65_533,
        };
        let place = std::env::temp_dir().join(format!("closed-{}", std::process::id()));
        let inner = place.join("state/workspaces/one");
        fs::create_dir_all(&inner).unwrap();
        for (path, mode) in [
            (place.clone(), 0o755),
            (place.join("state"), 0o700),
            (place.join("state/workspaces"), 0o700),
        ] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(closed_above(&inner, user), Some(place.join("state")));
        assert_eq!(closed_above(&place.join("state"), user), None);
        fs::remove_dir_all(&place).unwrap();
    }
}
