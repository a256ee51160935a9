//! What the gateway keeps between requests.

pub(crate) mod changes;
pub(crate) mod seal;
pub(crate) mod truncated;
