//! How a log is kept.

use std::path::PathBuf;
use std::time::Duration;

use vocabulary::Clock;

use crate::payload::KeptPayloads;
use crate::retention::Retention;

/// What an answer waits for. In all three nothing is released before its record reached the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Every answer waits for the disk.
    Always,
    /// Calls of medium or higher risk wait for the disk, all others for the kernel.
    #[default]
    Writes,
    /// Every answer waits for the kernel; the disk follows within the commit interval.
    Interval,
}

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The log's name, fixed at first start: visible ASCII without space and `+`.
    pub origin: String,
    /// What an answer waits for.
    pub durability: Durability,
    /// The longest time a record stays in the kernel alone.
    pub commit_interval: Duration,
    /// Where `ts` comes from.
    pub clock: Clock,
    /// A segment that has grown to this many bytes is followed by a new one.
    pub segment_bytes: u64,
    /// How long records are kept; `None` keeps all of them as they are.
    pub retention: Option<Retention>,
    /// What of requests is kept beside their records, encrypted.
    pub payloads: KeptPayloads,
    /// Where a copy of every checkpoint goes.
    pub witness: Option<PathBuf>,
}

impl Settings {
    /// The defaults for a log of this name.
    #[must_use]
    pub fn new(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            durability: Durability::default(),
            commit_interval: Duration::from_millis(5),
            clock: Clock::system(),
            segment_bytes: 64 * 1024 * 1024,
            retention: None,
            payloads: KeptPayloads::default(),
            witness: None,
        }
    }
}
