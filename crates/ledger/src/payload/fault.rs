//! What can go wrong with kept payloads.

use std::io;
use std::path::PathBuf;

/// Why a payload cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum PayloadFault {
    /// The key is gone or none, and payloads are there that need it.
    #[error("`{}` is missing or no key, and arguments or answers are kept under it", .0.display())]
    Key(PathBuf),
    /// What is there is not what was kept for this record.
    #[error("what is kept for the record was changed")]
    Changed,
    /// The disk failed.
    #[error("the kept arguments and answers cannot be read or written")]
    Disk(#[from] io::Error),
}
