//! Where the gateway turns when policy wants a person's word: whoever keeps approvals answers at once, whatever the person
//! will say.

use std::future::Future;
use std::pin::Pin;

use policy::{Approval, ApprovedCall, Permit, Wanted};
use vocabulary::{ReasonCode, ReceiptId};

/// A call that waits for a person's word.
pub struct ApprovalQuestion {
    /// What policy wants approved.
    pub wanted: Box<Wanted>,
    /// The arguments' canonical form, for whoever decides.
    pub arguments: Vec<u8>,
    /// The request's receipt.
    pub receipt_id: ReceiptId,
}

/// What there is to such a call now.
pub enum ApprovalAnswer {
    /// A person had allowed exactly this; the approval is used up, and that is on record.
    Granted(Permit, ApprovedCall),
    /// A person is asked, or was asked before.
    Asked {
        /// The question.
        approval: Box<Approval>,
        /// Why what there is does not suffice.
        why: ReasonCode,
    },
    /// A person refused it, and that still holds.
    Refused(Box<Approval>),
    /// Too many questions of this principal wait already.
    TooMany,
    /// Nobody is asked about such.
    NotAsked,
    /// Nobody could be asked, or that could not be put on record.
    Unavailable,
}

/// Answers later.
pub type ApprovalLater<'a> = Pin<Box<dyn Future<Output = ApprovalAnswer> + Send + 'a>>;

/// Keeps approvals. The app connects it to store and ledger.
pub trait Approvals: Send + Sync {
    /// Spends the approval of a call, or asks for one.
    fn settle(&self, question: ApprovalQuestion) -> ApprovalLater<'_>;
}

/// There is nobody to ask: what needs a person's word is refused.
pub struct NobodyToAsk;

impl Approvals for NobodyToAsk {
    fn settle(&self, _: ApprovalQuestion) -> ApprovalLater<'_> {
        Box::pin(async { ApprovalAnswer::NotAsked })
    }
}
