//! What travels from whoever has something to record to whoever writes it, and back.

use std::sync::atomic::{AtomicBool, AtomicU64};

use tokio::sync::oneshot;

use crate::entry::Entry;
use crate::receipt::{LedgerDown, Written};

/// What the threads tell the handles.
pub(crate) struct Health {
    pub(crate) written: AtomicBool,
    pub(crate) synced: AtomicBool,
    pub(crate) last_seq: AtomicU64,
    /// Up to here everything is on disk; more may be.
    pub(crate) synced_seq: AtomicU64,
    /// The log is larger than it may be, and nothing more may go.
    pub(crate) pressed: AtomicBool,
}

pub(crate) enum Job {
    Record(Submission),
    Stop,
}

pub(crate) type Answer = Result<Written, LedgerDown>;
pub(crate) type Reply = oneshot::Sender<Answer>;

/// One record to write, and who waits for it.
pub(crate) struct Submission {
    pub(crate) entry: Entry,
    pub(crate) replies: Replies,
}

pub(crate) enum Replies {
    One(Reply),
    Many(Vec<Reply>),
}

impl Replies {
    pub(crate) fn send(self, answer: Answer) {
        // A waiter that has gone away does not unmake its record.
        match self {
            Self::One(reply) => {
                let _ = reply.send(answer);
            }
            Self::Many(replies) => {
                for reply in replies {
                    let _ = reply.send(answer);
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(replies) => replies.len(),
        }
    }
}
