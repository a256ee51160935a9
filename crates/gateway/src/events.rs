//! What a server says beside its answers.

pub(crate) mod observer;
pub(crate) mod server_request;
