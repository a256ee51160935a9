//! What looking at a harness found, before anything is started.

use crate::config::Fault;

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Advice {
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// What deserves a second look.
    pub warnings: Vec<Fault>,
}
