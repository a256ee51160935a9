//! One call: prepared with its permit, sent, observed, and seen through to its answer.

pub(crate) mod dispatch;
pub(crate) mod exchange;
pub(crate) mod observer;
pub(crate) mod task;
