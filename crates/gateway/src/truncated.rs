//! The rest of a text that was cut, for the principal whose call brought it.

pub(crate) mod definition;
pub(crate) mod tool;
