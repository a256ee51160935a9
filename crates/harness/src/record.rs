//! The record of what a run came to, and the proof that it stands.

use ledger::{Event, HarnessResult};
use vocabulary::{Digest, ReceiptId};

use crate::ports::{Recorder, Unavailable};

/// Proof that a result is on record: [`Published::release`](crate::Published::release) spends one. It is made where the
/// recorder was seen to succeed, and nowhere else:
///
/// ```compile_fail,E0451
/// use portreeve_harness::Recorded;
/// fn forge(receipt: vocabulary::ReceiptId, output: vocabulary::Digest) -> Recorded {
///     Recorded { run: "run".into(), agent: "a".into(), receipt, output: Some(output) }
/// }
/// ```
///
/// there is no second one of it:
///
/// ```compile_fail,E0599
/// use portreeve_harness::Recorded;
/// fn twice(recorded: Recorded) -> (Recorded, Recorded) {
///     (recorded.clone(), recorded)
/// }
/// ```
///
/// while asking which record it is about is for everybody:
///
/// ```
/// fn receipt(recorded: &portreeve_harness::Recorded) -> vocabulary::ReceiptId {
///     recorded.receipt()
/// }
/// ```
#[derive(Debug)]
pub struct Recorded {
    run: String,
    agent: String,
    receipt: ReceiptId,
    output: Option<Digest>,
}

impl Recorded {
    /// The record.
    #[must_use]
    pub fn receipt(&self) -> ReceiptId {
        self.receipt
    }

    /// Whether it says that this agent of this run published these bytes.
    pub(crate) fn is_of(&self, run: &str, agent: &str, output: Digest) -> bool {
        self.run == run && self.agent == agent && self.output == Some(output)
    }
}

/// Puts a result on record. What it says must not have been seen by anybody before.
///
/// # Errors
/// When the record could not be written; there is no proof then.
pub(crate) async fn record_result(recorder: &dyn Recorder, result: HarnessResult) -> Result<Recorded, Unavailable> {
    let subject = result.subject.clone();
    let output = result.output.map(|output| output.hash);
    recorder.record(Event::HarnessResult(Box::new(result))).await?;
    Ok(Recorded {
        run: subject.run,
        agent: subject.agent,
        receipt: subject.receipt_id,
        output,
    })
}
