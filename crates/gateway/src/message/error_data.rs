//! What a refusal tells of its decision: a code, a sentence, and the object that every refusal carries.

use ledger::Verdict;
use mcp::{ErrorCode, compose};
use vocabulary::{ReasonCode, ReceiptId};

use crate::message::own::OwnValue;

/// A refusal, or the reason why an answer stays here.
#[derive(Debug)]
pub(crate) struct ErrorData {
    /// The JSON-RPC code, where it is told as an error.
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    pub(crate) verdict: Verdict,
    pub(crate) reason: ReasonCode,
    /// What more there is to the reason.
    pub(crate) further: Option<ReasonCode>,
    pub(crate) retry_after_ms: Option<u64>,
    /// What the protocol wants beside it.
    pub(crate) beside: Vec<(&'static str, OwnValue<'static>)>,
}

impl ErrorData {
    /// The request was refused.
    pub(crate) fn denied(code: ErrorCode, message: impl Into<String>, reason: ReasonCode) -> Self {
        Self {
            code,
            message: message.into(),
            verdict: Verdict::Deny,
            reason,
            further: None,
            retry_after_ms: None,
            beside: Vec::new(),
        }
    }

    /// The request was allowed, but its answer stays here, or there is none.
    pub(crate) fn allowed(code: ErrorCode, message: impl Into<String>, reason: ReasonCode) -> Self {
        Self {
            verdict: Verdict::Allow,
            ..Self::denied(code, message, reason)
        }
    }

    pub(crate) fn beside(mut self, name: &'static str, value: OwnValue<'static>) -> Self {
        self.beside.push((name, value));
        self
    }

    pub(crate) fn to_json(&self, receipt: Option<ReceiptId>) -> Vec<u8> {
        let retry = self
            .retry_after_ms
            .map(|ms| format!(",\"retry_after_ms\":{ms}"))
            .unwrap_or_default();
        let verdict = self.verdict;
        let receipt = receipt.map_or("null".to_owned(), |id| format!("\"{id}\""));
        let further = self.further.map(|code| format!(",\"{code}\"")).unwrap_or_default();
        let text = format!(
            "{{\"decision\":\"{verdict}\",\"reason_codes\":[\"{}\"{further}],\"receipt_id\":{receipt}{retry}",
            self.reason
        );
        let mut out = text.into_bytes();
        for (name, value) in &self.beside {
            out.push(b',');
            compose::string(name, &mut out);
            out.push(b':');
            value.write(&mut out);
        }
        out.push(b'}');
        out
    }
}
