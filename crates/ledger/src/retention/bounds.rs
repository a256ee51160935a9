//! What a log may grow to, and how it stands.

use std::time::Duration;

/// How long records are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// Segments whose last record is older than this go.
    pub keep: Duration,
    /// No younger segment ever goes, whatever the size.
    pub floor: Duration,
    /// A larger log loses its oldest segments earlier.
    pub max_bytes: u64,
}

/// How a log stands against what it may grow to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// The bytes of its segments, as they lie on the disk.
    pub bytes: u64,
    /// Those that would be left after everything that may go.
    pub floor_bytes: u64,
}

impl Room {
    /// Whether the log is larger than it may be, and nothing more may go.
    #[must_use]
    pub fn is_pressed(&self, retention: &Retention) -> bool {
        self.floor_bytes > retention.max_bytes
    }
}
