//! Reads whole files, none larger than its reader bears.

use std::fs::File;
use std::io::{self, Read as _};

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It cannot be opened or read.
    #[error("cannot be read: {0}")]
    File(io::Error),
    /// It has more bytes than its reader bears.
    #[error("is larger than {} MiB", .most >> 20)]
    TooLarge {
        /// How many that are.
        most: u64,
    },
    /// It is to be text, and is not.
    #[error("is not UTF-8 text")]
    NotText,
}

/// Reads an opened file of at most `most` bytes.
///
/// # Errors
/// Why there is nothing to go by.
pub fn read(opened: io::Result<File>, most: u64) -> Result<Vec<u8>, Unreadable> {
    let mut bytes = Vec::new();
    let file = opened.map_err(Unreadable::File)?;
    // One byte more tells a file that is too large from one that just fits.
    let mut bounded = file.take(most.saturating_add(1));
    bounded.read_to_end(&mut bytes).map_err(Unreadable::File)?;
    match bytes.len() as u64 > most {
        true => Err(Unreadable::TooLarge { most }),
        false => Ok(bytes),
    }
}

/// The text that a file holds.
///
/// # Errors
/// When it is not UTF-8.
pub fn text(bytes: Vec<u8>) -> Result<String, Unreadable> {
    String::from_utf8(bytes).map_err(|_| Unreadable::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("f");
        let told = |most| {
            read(File::open(&path), most)
                .and_then(text)
                .map_err(|why| why.to_string())
        };
        assert!(told(5).unwrap_err().starts_with("cannot be read: "));
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(told(5), Ok("12345".to_owned()));
        assert_eq!(told(4), Err("is larger than 0 MiB".to_owned()));
        std::fs::write(&path, vec![b'x'; (1 << 20) + 1]).unwrap();
        assert_eq!(told(1 << 20), Err("is larger than 1 MiB".to_owned()));
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(told(5), Err("is not UTF-8 text".to_owned()));
    }
}
