//! The stages of a request that is forwarded to a server.

pub(crate) mod forward;
pub(crate) mod method;
pub(crate) mod outgoing_secrets;
pub(crate) mod rounds;
pub(crate) mod task;
pub(crate) mod tool;
