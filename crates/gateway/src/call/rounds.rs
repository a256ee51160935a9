//! Requests that take several rounds: a server needs something of the client first. Towards a modern client each round is
//! a request of its own, held together by a seal; towards a client with a session the questions are put on the stream of
//! the call.

pub(crate) mod binding;
pub(crate) mod state;
pub(crate) mod question;
pub(crate) mod ask;
pub(crate) mod park;
