//! Takes an installed tree out of the installer's hands: from then on it belongs to the gateway's user, everybody may
//! read it and nobody else may change it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::path::Path;

use rustix::process::{getegid, geteuid};

/// Seals everything in `dir` and `dir` itself. Nothing may be at work in it any more. Links are not followed.
pub(super) fn seal(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let found = fs::symlink_metadata(&path)?;
        if found.is_dir() {
            seal(&path)?;
        } else if found.is_file() {
            own(&path)?;
            let mode = if found.permissions().mode() & 0o111 == 0 {
                0o644
            } else {
                0o755
            };
            fs::set_permissions(&path, Permissions::from_mode(mode))?;
        } else if found.is_symlink() {
            own(&path)?;
        } else {
            let what = format!("`{}` is neither a file nor a directory nor a link", path.display());
            return Err(io::Error::other(what));
        }
    }
    own(dir)?;
    fs::set_permissions(dir, Permissions::from_mode(0o755))
}

/// As an ordinary user everything is ours already, and the mode is all that has to be set.
fn own(path: &Path) -> io::Result<()> {
    if geteuid().is_root() {
        lchown(path, Some(geteuid().as_raw()), Some(getegid().as_raw()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_sealed_tree_is_set_uid_or_open_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("bin");
        fs::create_dir(&inner).unwrap();
        for (name, mode, after) in [("run", 0o4777, 0o755), ("read", 0o666, 0o644), ("hidden", 0o600, 0o644)] {
            let path = inner.join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            seal(dir.path()).unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, after, "{name}");
        }
        let outside = tempfile::NamedTempFile::new().unwrap();
        fs::set_permissions(outside.path(), Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(outside.path(), inner.join("link")).unwrap();
        seal(dir.path()).unwrap();
        assert_eq!(outside.path().metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    }
}
