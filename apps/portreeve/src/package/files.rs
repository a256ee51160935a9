//! Every file of an installed package as it was when it was sealed: what is locked is what runs. `servers.lock` says which packages
//! were installed, alike on every machine; this says what lies on this one.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use gateway::edge::tls::write_whole;
use vocabulary::Digest;

use super::installed::Unfit;

/// Writes down what lies in the package `name` below `packages`.
pub(super) fn record(packages: &Path, name: &str) -> io::Result<()> {
    let digest = digest(&packages.join(name))?;
    let book = book(packages, name);
    let dir = book.parent().unwrap_or(packages);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    write_whole(&book, format!("{digest}\n").as_bytes(), 0o600)
}

/// Forgets the package.
pub(crate) fn forget(packages: &Path, name: &str) {
    let _ = fs::remove_file(book(packages, name));
}

/// Whether everything in the package is as it was sealed: names, kinds, modes, contents, where links lead.
pub(crate) fn verify(packages: &Path, name: &str) -> Result<(), Unfit> {
    let sealed = fs::read_to_string(book(packages, name)).map_err(|_| {
        Unfit(format!("what was installed for the package `{name}` is not written down, so that nobody can tell whether it changed"))
    })?;
    let found = digest(&packages.join(name))
        .map_err(|error| Unfit(format!("the files of the package `{name}` cannot be read: {error}")))?;
    match sealed.trim() == found.to_string() {
        true => Ok(()),
        false => Err(Unfit(format!(
            "the files of the package `{name}` are not those that were installed: one was changed, added or removed"
        ))),
    }
}

/// Where it is written down; no server has a name that begins with a dot.
fn book(packages: &Path, name: &str) -> PathBuf {
    packages.join(".sealed").join(name)
}

fn digest(dir: &Path) -> io::Result<Digest> {
    let mut lines = Vec::new();
    walk(dir, Path::new(""), &mut lines)?;
    Ok(Digest::of_pieces(lines.iter().map(Vec::as_slice)))
}

fn walk(dir: &Path, below: &Path, lines: &mut Vec<Vec<u8>>) -> io::Result<()> {
    let path = dir.join(below);
    let found = fs::symlink_metadata(&path)?;
    let (kind, content) = match () {
        () if found.is_dir() => ("d", String::new()),
        () if found.is_file() => ("f", Digest::of(&fs::read(&path)?).to_string()),
        () if found.is_symlink() => (
            "l",
            Digest::of(fs::read_link(&path)?.as_os_str().as_bytes()).to_string(),
        ),
        () => return Err(io::Error::other("it is neither a file nor a directory nor a link")),
    };
    // A link has no mode of its own.
    let mode = if found.is_symlink() { 0 } else { found.mode() & 0o7777 };
    let name = Digest::of(below.as_os_str().as_bytes());
    lines.push(format!("{kind} {mode:o} {name} {content}\n").into_bytes());
    if found.is_dir() {
        let mut names = fs::read_dir(&path)?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        for name in names {
            walk(dir, &below.join(name), lines)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn installed() -> tempfile::TempDir {
        let packages = tempfile::tempdir().unwrap();
        let dir = packages.path().join("server");
        fs::create_dir_all(dir.join("node_modules/dependency")).unwrap();
        fs::write(dir.join("index.js"), "honest").unwrap();
        fs::write(dir.join("node_modules/dependency/index.js"), "honest too").unwrap();
        symlink("index.js", dir.join("main.js")).unwrap();
        record(packages.path(), "server").unwrap();
        packages
    }

    #[test]
    fn whatever_changed_is_found() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 9] = [
            ("edited", |dir| fs::write(dir.join("index.js"), "hostil").unwrap()),
            ("added", |dir| fs::write(dir.join("node_modules/more.js"), "").unwrap()),
            ("empty directory", |dir| {
                fs::create_dir(dir.join("node_modules/more")).unwrap()
            }),
            ("removed", |dir| {
                fs::remove_dir_all(dir.join("node_modules/dependency")).unwrap()
            }),
            ("mode", |dir| {
                fs::set_permissions(dir.join("index.js"), fs::Permissions::from_mode(0o777)).unwrap();
            }),
            ("link", |dir| {
                fs::remove_file(dir.join("main.js")).unwrap();
                symlink("/etc/passwd", dir.join("main.js")).unwrap();
            }),
            ("link for a file", |dir| {
                fs::remove_file(dir.join("index.js")).unwrap();
                symlink("node_modules/dependency/index.js", dir.join("index.js")).unwrap();
            }),
            ("renamed", |dir| {
                fs::rename(dir.join("index.js"), dir.join("index.cjs")).unwrap()
            }),
            ("gone", |dir| fs::remove_dir_all(dir).unwrap()),
        ];
        for (what, change) in changes {
            let packages = installed();
            assert_eq!(verify(packages.path(), "server"), Ok(()), "{what}");
            change(&packages.path().join("server"));
            assert!(verify(packages.path(), "server").is_err(), "{what}");
        }
        let packages = installed();
        forget(packages.path(), "server");
        let unknown = verify(packages.path(), "server").unwrap_err();
        assert!(unknown.to_string().contains("not written down"), "{unknown}");
    }
}
