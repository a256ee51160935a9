//! Why a log was not opened.

use std::io;
use std::path::PathBuf;

use crate::checkpoint::CheckpointFault;
use crate::key::LedgerKeyFault;
use crate::payload::PayloadFault;
use crate::tiles::TileFault;
use crate::verify::Break;

/// Why the log was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process writes it.
    #[error("the ledger is in use by another process")]
    InUse,
    /// The name cannot be a log's.
    #[error("the ledger's origin `{0}` must be 1 to 200 visible ASCII characters without space and `+`")]
    OriginSpelling(String),
    /// The log has another name.
    #[error(
        "the ledger's origin is `{stored}`, fixed at its first start, but `{configured}` is configured; set `[audit] origin` back or use a new state directory"
    )]
    OriginDiffers {
        /// The name it got at first start.
        stored: String,
        /// The name it was to be opened under.
        configured: String,
    },
    /// Its tail does not verify.
    #[error("the ledger does not verify: {0}; keep it for examination and start with a new state directory")]
    Broken(Break),
    /// It has checkpoints, and the key that signed them is gone.
    #[error(
        "the ledger has signed checkpoints, but its key `{}` is missing; put the key back, or start with a new state directory", .0.display()
    )]
    KeyMissing(PathBuf),
    /// Its key cannot be used.
    #[error("the ledger's key cannot be used; put the right one back, or start with a new state directory")]
    Key(#[source] LedgerKeyFault),
    /// Its key did not sign its latest checkpoint.
    #[error(
        "the ledger's latest checkpoint is not signed by its key `{}`; put the right key back, or keep the log for examination and start with a new state directory", .key.display()
    )]
    Signature {
        /// The key's file.
        key: PathBuf,
        /// What is wrong.
        #[source]
        fault: CheckpointFault,
    },
    /// What should be checkpoints is something else.
    #[error(
        "`{}` does not hold the ledger's checkpoints as they were written; keep the log for examination and start with a new state directory", .0.display()
    )]
    Checkpoint(PathBuf),
    /// Records were cut off.
    #[error(
        "the ledger ends with record {last_seq}, but a checkpoint over {size} records was signed: records were cut off; bring back the whole log, or keep it for examination and start with a new state directory"
    )]
    Shorter {
        /// What was signed.
        size: u64,
        /// What is there.
        last_seq: u64,
    },
    /// The records are not those that were signed.
    #[error(
        "the ledger's first {0} records are not those its checkpoint was signed over (`portreeve receipt verify` says where); keep it for examination and start with a new state directory"
    )]
    Root(u64),
    /// Arguments or answers are to be kept, and cannot be.
    #[error(
        "arguments or answers cannot be kept beside the ledger: {0}; put the key back, or move the directory `payloads` away"
    )]
    Payload(PayloadFault),
    /// The tree's tiles cannot be used.
    #[error("the ledger's tree cannot be used; `portreeve receipt verify` says whether the records are sound")]
    Tile(#[source] TileFault),
    /// The disk failed.
    #[error("the ledger cannot {doing}")]
    Disk {
        /// What was being done.
        doing: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl OpenError {
    pub(crate) fn disk(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Disk { doing, source }
    }
}
