//! Room on the disk that is the log's before anybody else can take it: blocks of the segment that grows, beyond its end. A
//! server that fills the disk fills what is left; records go where they had room already. ADR 0068.

use std::fs::File;
use std::io;

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};

/// What is kept ahead where the disk has it to spare.
const AHEAD: u64 = 16 << 20;
/// The part of a smaller disk's free room that is taken instead.
const SHARE: u64 = 32;
/// A disk that had no room is asked again after so many more bytes.
const PATIENCE: u64 = 64 << 10;

/// What is kept ahead of the end of one segment.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    /// How much was taken the last time.
    taken: u64,
    /// Up to where the segment has its blocks.
    until: u64,
    /// From where on the disk is asked again.
    again: u64,
}

impl Reserve {
    /// Takes room ahead of `length`, where less than half of it is left. A disk without room, or one that gives none in
    /// advance, is no fault: what was taken before is still there.
    pub(crate) fn keep_ahead(&mut self, file: &File, length: u64) {
        if length + self.taken / 2 < self.until || length < self.again {
            return;
        }
        match take(file, length) {
            Ok(0) | Err(_) => self.again = length + PATIENCE,
            Ok(taken) => {
                self.taken = taken;
                self.until = length + taken;
            }
        }
    }

    /// Whether something is left ahead of `length`.
    pub(crate) fn has_room(&self, length: u64) -> bool {
        length < self.until
    }

    /// Everything beyond `length` was given back.
    pub(crate) fn cut_to(&mut self, length: u64) {
        *self = Self {
            again: length,
            ..Self::default()
        };
    }
}

/// Takes room from `length` on; says how much.
fn take(file: &File, length: u64) -> io::Result<u64> {
    let disk = fstatvfs(file)?;
    let wanted = AHEAD.min(disk.f_bavail.saturating_mul(disk.f_frsize) / SHARE);
    if wanted > 0 {
        // The file keeps its length: readers see what was written, and nothing else.
        fallocate(file, FallocateFlags::KEEP_SIZE, length, wanted)?;
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn blocks_are_taken_ahead_and_the_length_stays() {
        let path = std::env::temp_dir().join(format!("reserve-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        let mut reserve = Reserve::default();
        reserve.keep_ahead(&file, 0);
        let (length, blocks) = (file.metadata().unwrap().len(), file.metadata().unwrap().blocks() * 512);
        std::fs::remove_file(path).unwrap();
        assert_eq!(length, 0);
        assert!(
            reserve.taken > 0 && blocks >= reserve.taken,
            "{reserve:?}, {blocks} bytes"
        );
    }

    #[test]
    fn more_is_taken_when_half_is_used_and_not_before() {
        let path = std::env::temp_dir().join(format!("reserve-half-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        let mut reserve = Reserve::default();
        reserve.keep_ahead(&file, 0);
        let first = reserve.until;
        reserve.keep_ahead(&file, reserve.taken / 2 - 1);
        assert_eq!(reserve.until, first);
        reserve.keep_ahead(&file, reserve.taken / 2);
        std::fs::remove_file(path).unwrap();
        assert!(reserve.until > first, "{reserve:?}");
    }
}
