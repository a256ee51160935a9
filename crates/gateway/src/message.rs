//! What may be said to a client, and nothing else: what crossed the chokepoint, the same with members of our own, and
//! messages that are our own altogether. Every answer and every event is a [`ClientMessage`].
//! ADR 0054: only typed messages reach a client.

pub(crate) mod pieces;
pub(crate) mod own;
pub(crate) mod adapted;
pub(crate) mod error_data;
pub(crate) mod client;
pub(crate) mod event;

pub use adapted::Adapted;
pub use client::ClientMessage;
pub use event::Event;
pub use own::OwnResult;
