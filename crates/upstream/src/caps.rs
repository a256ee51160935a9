//! Bounds on what a server may cost us.

use std::time::Duration;

/// Bounds on what a server may cost us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caps {
    /// From sending to the last byte of the answer.
    pub timeout: Duration,
    /// The largest message.
    pub max_bytes: usize,
    /// The deepest message.
    pub max_depth: usize,
}
