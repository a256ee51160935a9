//! What a server keeps on disk: everything below its workspace, and files it has deleted but still holds.
//! ADR 0065: counted by looking, as memory is.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat, statvfs};
use rustix::path::Arg;

use super::{Limit, ResourceLimits};

/// Bytes on disk, and files, directories and links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kept {
    bytes: u64,
    files: u64,
    /// There is something that could not be looked at.
    unseen: bool,
}

/// The limit that is passed in `workspace`, if one is. `processes` are all of the server's.
pub(super) fn passed(workspace: &Path, limits: &ResourceLimits, processes: &[u32]) -> Option<Limit> {
    let found = fs::symlink_metadata(workspace).ok()?;
    let deleted = deleted_bytes(processes, found.dev());
    // Nobody could see it, nobody else could remove it, and it is gone with its process.
    if deleted > ONE_FILE && is_running_out(workspace) {
        return Some(Limit::Workspace);
    }
    if limits.workspace.is_none() && limits.files.is_none() {
        return None;
    }
    let allowed = limits.workspace.unwrap_or(u64::MAX);
    if deleted > allowed {
        return Some(Limit::Workspace);
    }
    let most = Kept {
        bytes: allowed - deleted,
        files: limits.files.unwrap_or(u64::MAX),
        unseen: false,
    };
    match below(workspace, most) {
        Ok(kept) if kept.files > most.files || kept.unseen => Some(Limit::Files),
        Ok(kept) if kept.bytes > most.bytes => Some(Limit::Workspace),
        Ok(_) | Err(_) => None,
    }
}

/// Counts until there is more than `most`. Leads through no link and into no other file system.
fn below(workspace: &Path, most: Kept) -> io::Result<Kept> {
    // One at a time: each level of a walk takes a descriptor.
    let _one = vocabulary::lock(&WALKING);
    let top = Room::open(CWD, workspace)?;
    let device = rustix::fs::fstat(top.listing.fd()?)?.st_dev;
    let mut kept = Kept::default();
    let mut linked = HashSet::new();
    let mut open = vec![top];
    loop {
        let depth = open.len();
        let Some(room) = open.last_mut() else { break };
        let Some(Ok(entry)) = room.listing.read() else {
            open.pop();
            continue;
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let at = room.listing.fd()?;
        let Ok(found) = statat(at, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        kept.files += 1;
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        if is_directory || found.st_nlink < 2 || linked.insert(found.st_ino) {
            kept.bytes += u64::try_from(found.st_blocks).unwrap_or(0) * 512;
        }
        if kept.files > most.files || kept.bytes > most.bytes {
            break;
        }
        if is_directory && found.st_dev == device {
            match Room::open(at, name) {
                Ok(inner) if depth <= DEEPEST => open.push(inner),
                // It was taken away in between.
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {}
                // Nobody could tell what is in there.
                Ok(_) | Err(_) => {
                    kept.unseen = true;
                    break;
                }
            }
        }
    }
    Ok(kept)
}

static WALKING: Mutex<()> = Mutex::new(());

/// A directory that is being looked through.
struct Room {
    listing: Dir,
    /// It was closed to its owner, who we are, and is closed again.
    closed: Option<Mode>,
}

impl Room {
    fn open(at: impl AsFd, name: impl Arg + Copy) -> rustix::io::Result<Self> {
        let at = at.as_fd();
        match openat(at, name, DIRECTORY, Mode::empty()) {
            Err(rustix::io::Errno::ACCESS) => {}
            opened => {
                return Ok(Self {
                    listing: Dir::new(opened?)?,
                    closed: None,
                });
            }
        }
        // By a descriptor that stands for the directory itself: a link in its place is not followed.
        let itself = openat(at, name, DIRECTORY.union(OFlags::PATH), Mode::empty())?;
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&itself)?.st_mode);
        let path = format!("/proc/self/fd/{}", itself.as_raw_fd());
        rustix::fs::chmod(path.as_str(), mode | Mode::RUSR | Mode::XUSR)?;
        let opened = openat(at, name, DIRECTORY, Mode::empty());
        if opened.is_err() {
            let _ = rustix::fs::chmod(path.as_str(), mode);
        }
        Ok(Self {
            listing: Dir::new(opened?)?,
            closed: Some(mode),
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let (Some(mode), Ok(directory)) = (self.closed, self.listing.fd()) {
            let _ = rustix::fs::fchmod(directory, mode);
        }
    }
}

/// What files hold that have no name any more: those that are open, and those that are mapped.
fn deleted_bytes(processes: &[u32], device: u64) -> u64 {
    let mut known = HashSet::new();
    let mut bytes = 0;
    for process in processes {
        let open = fs::read_dir(format!("/proc/{process}/fd"))
            .into_iter()
            .flatten()
            .flatten();
        for file in open.filter_map(|entry| fs::metadata(entry.path()).ok()) {
            let gone = file.is_file() && file.nlink() == 0 && file.dev() == device;
            if gone && known.insert(file.ino()) {
                bytes += file.blocks() * 512;
            }
        }
        let maps = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
        for line in String::from_utf8_lossy(&maps).lines() {
            if let Some((inode, length)) = deleted_mapping(line, device)
                && known.insert(inode)
            {
                bytes += length;
            }
        }
    }
    bytes
}

/// Inode and length of a mapping of a file without a name: `55d0-55d4 r-xp 00000000 08:01 1234 /path (deleted)`.
fn deleted_mapping(line: &str, device: u64) -> Option<(u64, u64)> {
    let line = line.strip_suffix(" (deleted)")?;
    let mut fields = line.split_ascii_whitespace();
    let (from, to) = fields.next()?.split_once('-')?;
    let (major, minor) = fields.nth(2)?.split_once(':')?;
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let of = rustix::fs::makedev(
        u32::try_from(hexadecimal(major)?).ok()?,
        u32::try_from(hexadecimal(minor)?).ok()?,
    );
    let inode = fields.next()?.parse().ok()?;
    (of == device).then_some((inode, hexadecimal(to)?.saturating_sub(hexadecimal(from)?)))
}

/// Whether the file system of the workspace is about to be full for everybody.
fn is_running_out(workspace: &Path) -> bool {
    statvfs(workspace).is_ok_and(|found| {
        let (free, all) = (found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize);
        free < RESERVE.min(all / 50)
    })
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Each level takes a descriptor of the gateway's.
const DEEPEST: usize = 2048;
/// Less than this without a name is nobody's trouble.
const ONE_FILE: u64 = 1 << 20;
/// With less free space than this, or than a fiftieth of all, space is running out.
const RESERVE: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_without_a_name_are_told_from_others() {
        let device = rustix::fs::makedev(8, 0x1f);
        let line = "7f0000000000-7f0000200000 rw-s 00000000 08:1f 4711                      /srv/a b (deleted)";
        assert_eq!(deleted_mapping(line, device), Some((4711, 0x20_0000)));
        assert_eq!(deleted_mapping(line, device + 1), None);
        assert_eq!(deleted_mapping(line.trim_end_matches(" (deleted)"), device), None);
        assert_eq!(deleted_mapping("nonsense (deleted)", device), None);
    }

    #[test]
    fn links_are_counted_once_and_not_followed() {
        let place = std::env::temp_dir().join(format!("quota-{}", std::process::id()));
        fs::create_dir_all(place.join("inner")).unwrap();
        fs::write(place.join("inner/file"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(place.join("inner/file"), place.join("again")).unwrap();
        std::os::unix::fs::symlink("/usr", place.join("elsewhere")).unwrap();
        let all = Kept {
            bytes: u64::MAX,
            files: u64::MAX,
            unseen: false,
        };
        let kept = below(&place, all).unwrap();
        assert_eq!(kept.files, 4);
        assert!((1 << 20..3 << 19).contains(&kept.bytes), "{kept:?}");
        fs::remove_dir_all(place).unwrap();
    }
}
