//! One segment, whether it lies there plain or packed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::cold::{ColdFile, cold_path};

/// A segment that is read.
pub(crate) enum SegmentFile {
    Plain(File),
    Cold(Box<ColdFile>),
}

impl SegmentFile {
    /// Opens the segment that is, or was, at `plain`. Where both lie there the process died before the plain one went.
    pub(crate) fn open(plain: &Path) -> io::Result<Self> {
        match File::open(plain) {
            Ok(file) => Ok(Self::Plain(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Self::Cold(Box::new(ColdFile::open(&cold_path(plain))?)))
            }
            Err(error) => Err(error),
        }
    }

    /// How long it is, unpacked.
    pub(crate) fn length(&self) -> io::Result<u64> {
        match self {
            Self::Plain(file) => Ok(file.metadata()?.len()),
            Self::Cold(file) => Ok(file.length()),
        }
    }

    /// Fills `bytes` from `offset` on.
    pub(crate) fn read_exact_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.seek(SeekFrom::Start(offset))?;
        self.read_exact(bytes)
    }
}

impl Read for SegmentFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(out),
            Self::Cold(file) => file.read(out),
        }
    }
}

impl Seek for SegmentFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Plain(file) => file.seek(to),
            Self::Cold(file) => file.seek(to),
        }
    }
}
