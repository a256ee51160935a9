//! Streams without an end of their own: the standing stream of a session, a modern subscription, and what changes.

pub(crate) mod allowed;
pub(crate) mod change;
pub(crate) mod listen;
pub(crate) mod standing;
