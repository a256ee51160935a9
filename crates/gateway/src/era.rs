//! The two eras of the protocol, and how the gateway introduces itself in each.

pub(crate) mod initialize;
pub(crate) mod legacy;
pub(crate) mod modern;
