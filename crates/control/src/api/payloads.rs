//! What is kept of requests beside their records: shown to operators, and erased.

use http::StatusCode;
use ledger::{Payload, PayloadKind, PayloadRef};
use serde::Deserialize;
use serde_json::{Value, json};
use vocabulary::ReceiptId;

use super::activity::record;
use super::call::Call;
use crate::answer::{Answer, Refusal};

pub(super) async fn arguments(call: Call) -> Result<Answer, Refusal> {
    show(&call, PayloadKind::Arguments).await
}

pub(super) async fn result(call: Call) -> Result<Answer, Refusal> {
    show(&call, PayloadKind::Result).await
}

async fn show(call: &Call, kind: PayloadKind) -> Result<Answer, Refusal> {
    let kept = Kept::of(&record(call).await?);
    let (receipt, reference) = kept
        .receipt
        .zip(kept.reference(kind))
        .ok_or_else(|| nothing_kept(kind))?;
    let read = call
        .ask(move |plane| plane.ports().payloads.read(reference, receipt, kind))
        .await?;
    match read {
        Payload::Kept(bytes) => Ok(Answer::raw(bytes)),
        Payload::Erased => Err(Refusal::new(
            StatusCode::GONE,
            "erased",
            "it was erased; the log says by whom and why",
        )),
        Payload::Gone => Err(Refusal::new(
            StatusCode::GONE,
            "gone",
            "it went with the oldest records of the log",
        )),
    }
}

/// Recorded first: what is erased cannot be brought back.
pub(super) async fn erase(call: Call) -> Result<Answer, Refusal> {
    let Erasure { reason } = call.body()?;
    if reason.trim().is_empty() || reason.chars().count() > LONGEST_REASON {
        let message = format!("`reason` says in 1 to {LONGEST_REASON} characters why; it is recorded");
        return Err(Refusal::bad_request(message));
    }
    let kept = Kept::of(&record(&call).await?);
    let references: Vec<PayloadRef> = PayloadKind::ALL
        .into_iter()
        .filter_map(|kind| kept.reference(kind))
        .collect();
    let Some(receipt) = kept.receipt.filter(|_| !references.is_empty()) else {
        return Err(Refusal::not_found("nothing is kept for this record"));
    };
    call.record(Some(&receipt.to_string()), reason.trim()).await?;
    let count = references.len();
    call.ask(move |plane| {
        references
            .iter()
            .try_for_each(|reference| plane.ports().payloads.erase(*reference))
    })
    .await?;
    Ok(Answer::json(&json!({"id": receipt.to_string(), "erased": count})))
}

fn nothing_kept(kind: PayloadKind) -> Refusal {
    Refusal::not_found(match kind {
        PayloadKind::Arguments => {
            "no arguments are kept for this record; `[audit] record_arguments = true` keeps them from then on"
        }
        PayloadKind::Result => {
            "no answer is kept for this record; `[audit] record_results = true` keeps them from then on"
        }
    })
}

/// What a record says is kept for its request.
struct Kept {
    receipt: Option<ReceiptId>,
    arguments: Option<PayloadRef>,
    result: Option<PayloadRef>,
}

impl Kept {
    fn of(record: &str) -> Self {
        let record: Value = serde_json::from_str(record).unwrap_or_default();
        let text = |path| record.pointer(path).and_then(Value::as_str);
        let is_request = text("/type") == Some("request");
        Self {
            receipt: text("/receipt_id").filter(|_| is_request).and_then(ReceiptId::parse),
            arguments: text("/request/args_ref").and_then(PayloadRef::parse),
            result: text("/outcome/result_ref").and_then(PayloadRef::parse),
        }
    }

    fn reference(&self, kind: PayloadKind) -> Option<PayloadRef> {
        match kind {
            PayloadKind::Arguments => self.arguments,
            PayloadKind::Result => self.result,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Erasure {
    #[serde(default)]
    reason: String,
}

const LONGEST_REASON: usize = 500;
