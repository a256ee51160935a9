//! Streams without an end of their own.

pub(crate) mod listen;
pub(crate) mod standing;
pub(crate) mod subscribe;
