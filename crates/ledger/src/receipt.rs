//! The evidence that a record was written. Only the log's writer makes it, after the fact.

use vocabulary::ReceiptId;

/// Proof that a request's record is in the log, as safely as its risk and the durability ask.
///
/// Nothing outside this crate can make one:
///
/// ```compile_fail,E0451
/// use portreeve_ledger::Receipt;
/// fn forge(id: vocabulary::ReceiptId) -> Receipt {
///     Receipt { id, seq: 1 }
/// }
/// ```
///
/// nor copy one, so that one record releases one answer:
///
/// ```compile_fail,E0599
/// fn twice(receipt: portreeve_ledger::Receipt) -> [portreeve_ledger::Receipt; 2] {
///     [receipt.clone(), receipt]
/// }
/// ```
///
/// while holding one and reading it is for everybody:
///
/// ```
/// use portreeve_ledger::Receipt;
/// fn name(receipt: &Receipt) -> vocabulary::ReceiptId {
///     receipt.id()
/// }
/// fn once(receipt: Receipt) -> [Receipt; 1] {
///     [receipt]
/// }
/// ```
#[derive(Debug)]
#[must_use = "a receipt is what releases the answer"]
pub struct Receipt {
    id: ReceiptId,
    seq: u64,
}

impl Receipt {
    /// The name of the record. In a folded flood it is the shared record's, not the one the request arrived with.
    #[must_use]
    pub fn id(&self) -> ReceiptId {
        self.id
    }

    /// The record's place in the log.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

/// Proof that the intent of a call is in the log; the call may leave now.
///
/// ```compile_fail,E0451
/// use portreeve_ledger::IntentReceipt;
/// fn forge(id: vocabulary::ReceiptId) -> IntentReceipt {
///     IntentReceipt { id, seq: 1 }
/// }
/// ```
///
/// ```
/// use portreeve_ledger::IntentReceipt;
/// fn name(intent: &IntentReceipt) -> vocabulary::ReceiptId {
///     intent.id()
/// }
/// ```
#[derive(Debug)]
#[must_use = "an intent is what lets the call leave"]
pub struct IntentReceipt {
    id: ReceiptId,
    seq: u64,
}

impl IntentReceipt {
    /// The name that intent and final record share.
    #[must_use]
    pub fn id(&self) -> ReceiptId {
        self.id
    }

    /// The record's place in the log.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

/// Proof that an event is in the log.
#[derive(Debug)]
pub struct EventReceipt {
    seq: u64,
}

impl EventReceipt {
    /// The record's place in the log.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

/// A fact whose own record is in the log.
///
/// Only [`Ledger::record`](crate::Ledger::record) makes one. It cannot be built elsewhere:
///
/// ```compile_fail,E0451
/// use portreeve_ledger::Recorded;
/// fn forge<T>(fact: T) -> Recorded<T> {
///     Recorded { fact, seq: 1 }
/// }
/// ```
///
/// nor copied, so that one record stands for one fact:
///
/// ```compile_fail,E0599
/// use portreeve_ledger::Recorded;
/// #[derive(Clone)]
/// struct Fact;
/// fn twice(recorded: Recorded<Fact>) -> [Recorded<Fact>; 2] {
///     [recorded.clone(), recorded]
/// }
/// ```
///
/// while holding one and reading it is for everybody:
///
/// ```
/// use portreeve_ledger::Recorded;
/// struct Fact;
/// fn once(recorded: Recorded<Fact>) -> [Recorded<Fact>; 1] {
///     let _: &Fact = recorded.fact();
///     [recorded]
/// }
/// ```
#[derive(Debug)]
#[must_use = "what is recorded is what lets the rest happen"]
pub struct Recorded<T> {
    fact: T,
    seq: u64,
}

impl<T> Recorded<T> {
    /// INVARIANT: called by `Ledger::record` alone, with the receipt for this very fact's record.
    pub(crate) fn new(fact: T, receipt: &EventReceipt) -> Self {
        Self { fact, seq: receipt.seq }
    }

    /// What was recorded.
    #[must_use]
    pub fn fact(&self) -> &T {
        &self.fact
    }

    /// The record's place in the log.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

/// Why no receipt was given. What it was asked for must not be released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LedgerDown {
    /// More waits to be recorded than the log can take.
    #[error("the ledger's queue is full")]
    QueueFull,
    /// The record could not be written, or could not be brought to the disk.
    #[error("the ledger cannot write to its disk")]
    Disk,
    /// The log was closed.
    #[error("the ledger is closed")]
    Stopped,
}

/// What the writer hands back for a record it has written.
///
/// INVARIANT: made by `append::writer` and `append::sync` alone, after `write(2)`, or after `fdatasync` where the record asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) id: Option<ReceiptId>,
    pub(crate) seq: u64,
}

impl Written {
    pub(crate) fn into_receipt(self, asked: ReceiptId) -> Receipt {
        Receipt {
            id: self.id.unwrap_or(asked),
            seq: self.seq,
        }
    }

    pub(crate) fn into_intent(self, asked: ReceiptId) -> IntentReceipt {
        IntentReceipt {
            id: self.id.unwrap_or(asked),
            seq: self.seq,
        }
    }

    pub(crate) fn into_event(self) -> EventReceipt {
        EventReceipt { seq: self.seq }
    }
}
