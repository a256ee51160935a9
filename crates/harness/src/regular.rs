//! Opens files that must be files: never waits for a pipe that nobody writes, and takes nothing that has no end.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open as open_path};

/// What becomes of a link in the last part of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Links {
    /// It leads to the file that is meant.
    Follow,
    /// It is not the file that was there.
    Refuse,
}

/// Opens a regular file.
pub(crate) fn open(path: &Path, links: Links) -> io::Result<File> {
    let follow = match links {
        Links::Follow => OFlags::empty(),
        Links::Refuse => OFlags::NOFOLLOW,
    };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | follow;
    let file = open_path(path, flags, Mode::empty())?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(File::from(file)),
        FileType::Directory
        | FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Err(io::Error::other("it is not a regular file")),
    }
}

/// Reads a regular file of at most `most` bytes; `None` if it is larger.
pub(crate) fn read(path: &Path, links: Links, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    open(path, links)?
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, mkfifoat};

    use super::*;

    #[test]
    fn only_a_regular_file_is_opened_and_nothing_is_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let (file, pipe, link) = (home.path().join("f"), home.path().join("p"), home.path().join("l"));
        std::fs::write(&file, "12345").unwrap();
        mkfifoat(CWD, &pipe, Mode::from_raw_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(read(&file, Links::Refuse, 5).unwrap(), Some(b"12345".to_vec()));
        assert_eq!(read(&file, Links::Refuse, 4).unwrap(), None);
        assert_eq!(read(&link, Links::Follow, 5).unwrap(), Some(b"12345".to_vec()));
        assert!(read(&link, Links::Refuse, 5).is_err());
        for other in [pipe.as_path(), home.path(), Path::new("/dev/zero")] {
            let told = read(other, Links::Follow, 5).unwrap_err().to_string();
            assert_eq!(told, "it is not a regular file", "{}", other.display());
        }
    }
}
