//! The file tree a server sees: an empty root into which parts of the host are hung, each with its flags set before
//! it can be reached.

mod attach;
pub(crate) mod closed;
pub(crate) mod rules;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, openat2, readlinkat, statat};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};

use crate::launch::orders::Orders;
use crate::plan::{FsPolicy, NetPolicy, PlaceAccess};
use crate::sys;

pub(crate) use self::attach::{build, pivot};

/// Parts of the host that were taken hold of, not reachable from anywhere yet.
#[derive(Debug)]
pub(crate) struct Trees {
    trees: Vec<Tree>,
    links: Vec<(PathBuf, PathBuf)>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

#[derive(Debug)]
struct Tree {
    at: PathBuf,
    kind: TreeKind,
    mount: OwnedFd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TreeKind {
    Directory,
    File,
}

/// Takes hold of everything the server will see of the host.
///
/// As root this works before root is given up, so that a workspace may lie below a directory that is closed to the
/// server's uid, as it should; inside, the directories above it are new ones.
pub(crate) fn take(orders: &Orders) -> io::Result<Trees> {
    let mut trees = Trees {
        trees: Vec::new(),
        links: Vec::new(),
        files: own_files(orders),
    };
    trees.take_read_only(Path::new("/usr"))?;
    for name in INTO_USR.iter().chain(FROM_ETC) {
        trees.take_if_there(Path::new(name))?;
    }
    for device in DEVICES {
        // Without NODEV, which would make the node useless; no new nodes can be made, and only these are shown.
        let mount = open(
            Path::new(device),
            ResolveFlags::empty(),
            MountAttrFlags::MOUNT_ATTR_NOSUID,
        )?;
        trees.push(device, mount)?;
    }
    for shown in &orders.read {
        let mount = open(&shown.source, ResolveFlags::NO_SYMLINKS, READ_ONLY);
        trees.push(&shown.at, mount.map_err(|error| named(&shown.source, &error))?)?;
    }
    let flags = match orders.fs {
        FsPolicy::WorkspaceOnly => NO_TRICKS,
        FsPolicy::ReadOnly | FsPolicy::Unconfined => READ_ONLY,
    };
    // A link that was put in place after the plan was checked is not followed.
    let workspace =
        open(&orders.workspace, ResolveFlags::NO_SYMLINKS, flags).map_err(|error| named(&orders.workspace, &error))?;
    trees.push(&orders.workspace, workspace)?;
    for place in &orders.places {
        let flags = match place.access {
            PlaceAccess::Read => READ_ONLY,
            PlaceAccess::Write => NO_TRICKS,
        };
        let mount = open(&place.path, ResolveFlags::NO_SYMLINKS, flags);
        trees.push(&place.path, mount.map_err(|error| named(&place.path, &error))?)?;
    }
    Ok(trees)
}

impl Trees {
    fn take_read_only(&mut self, path: &Path) -> io::Result<()> {
        let mount = open(path, ResolveFlags::empty(), READ_ONLY)?;
        self.push(path, mount)
    }

    /// Links stay links, so that `/bin` and `/usr/bin` remain one; what a host does not have is left out.
    fn take_if_there(&mut self, path: &Path) -> io::Result<()> {
        let found = match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
            return self.take_read_only(path);
        }
        let target = readlinkat(CWD, path, Vec::new())?;
        let target = PathBuf::from(String::from_utf8_lossy(target.to_bytes()).into_owned());
        self.links.push((path.to_path_buf(), target));
        Ok(())
    }

    fn push(&mut self, at: impl AsRef<Path>, mount: OwnedFd) -> io::Result<()> {
        let found = rustix::fs::fstat(&mount)?;
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        let kind = if is_directory {
            TreeKind::Directory
        } else {
            TreeKind::File
        };
        self.trees.push(Tree {
            at: at.as_ref().to_path_buf(),
            kind,
            mount,
        });
        Ok(())
    }
}

/// A copy of a mount tree with flags on all of it.
fn open(path: &Path, resolve: ResolveFlags, flags: MountAttrFlags) -> io::Result<OwnedFd> {
    let place = openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?;
    clone_tree(&place, flags)
}

fn clone_tree(place: impl AsFd, flags: MountAttrFlags) -> io::Result<OwnedFd> {
    let tree = open_tree(
        place,
        c"",
        OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE
            | OpenTreeFlags::AT_EMPTY_PATH,
    )?;
    sys::confine_tree(&tree, u64::from(flags.bits()))?;
    Ok(tree)
}

/// Says which of many paths it was, and what is usually behind a refusal.
fn named(path: &Path, error: &io::Error) -> io::Error {
    let hint = match error.raw_os_error() {
        Some(libc::EACCES) => ": a directory above it is closed to the server's uid; open it or move the path",
        Some(libc::ELOOP) => ": it leads through a symbolic link",
        _ => "",
    };
    PathError::wrap(error, format!("`{}`{hint}", path.display()))
}

/// An error of the kernel that keeps its number and names a path.
#[derive(Debug, thiserror::Error)]
#[error("{error} at {path}")]
pub(crate) struct PathError {
    pub(crate) error: io::Error,
    path: String,
}

impl PathError {
    fn wrap(error: &io::Error, path: String) -> io::Error {
        let errno = error.raw_os_error().unwrap_or(0);
        io::Error::new(
            error.kind(),
            Self {
                error: io::Error::from_raw_os_error(errno),
                path,
            },
        )
    }

    /// The kernel's number, also where a path was added.
    pub(crate) fn errno(error: &io::Error) -> i32 {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>());
        inner
            .and_then(|inner| inner.error.raw_os_error())
            .or_else(|| error.raw_os_error())
            .unwrap_or(0)
    }
}

/// Files that would tell of the host, in our own words.
fn own_files(orders: &Orders) -> Vec<(PathBuf, Vec<u8>)> {
    let (resolv, hosts) = match orders.net {
        // The host's network needs the host's names; whatever is not there is left empty.
        NetPolicy::Unconfined => ["/etc/resolv.conf", "/etc/hosts"]
            .map(|path| std::fs::read(path).unwrap_or_default())
            .into(),
        // The resolver answers at every address.
        NetPolicy::Allowlist | NetPolicy::BlockAll => (
            b"nameserver 127.0.0.1\noptions timeout:2 attempts:1\n".to_vec(),
            b"127.0.0.1 localhost sandbox\n::1 localhost sandbox\n".to_vec(),
        ),
    };
    vec![
        (PathBuf::from("/etc/passwd"), PASSWD.into()),
        (
            PathBuf::from("/etc/group"),
            b"sandbox:x:1000:\nnogroup:x:65534:\n".to_vec(),
        ),
        (PathBuf::from("/etc/resolv.conf"), resolv),
        (PathBuf::from("/etc/hosts"), hosts),
        (PathBuf::from("/etc/hostname"), b"sandbox\n".to_vec()),
    ]
}

const PASSWD: &[u8] = b"sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";

const NO_TRICKS: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

const READ_ONLY: MountAttrFlags = NO_TRICKS.union(MountAttrFlags::MOUNT_ATTR_RDONLY);

/// Links into `/usr`, or trees of their own on older hosts.
pub(crate) const INTO_USR: &[&str] = &["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// All that is shown of `/etc`: what the loader, TLS, name lookup and time need.
pub(crate) const FROM_ETC: &[&str] = &[
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/etc/nsswitch.conf",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/services",
    "/etc/protocols",
    "/etc/mime.types",
    "/etc/fonts",
    // The start script of Debian's Chromium reads it.
    "/etc/chromium.d",
    "/etc/alternatives",
];

pub(crate) const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Where a server may leave what it forgets, each a file system of its own.
pub(crate) const TEMPORARY: [(&str, &str); 3] = [("/tmp", "1777"), ("/home/sandbox", "0700"), ("/dev/shm", "1777")];
