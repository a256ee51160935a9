//! Why a log was not opened.

use std::io;

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
    pub(super) fn disk(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Disk { doing, source }
    }
}
