//! What the gateway keeps between requests, each bounded.

pub(crate) mod allowed_request;
pub(crate) mod approvals;
pub(crate) mod changes;
pub(crate) mod event_budget;
pub(crate) mod incidents;
pub(crate) mod parked;
pub(crate) mod screening_pool;
pub(crate) mod seal;
pub(crate) mod tasks;
pub(crate) mod truncated;
pub(crate) mod unread;
