//! What a refusal tells of its decision.

use ledger::Verdict;
use mcp::compose;
use vocabulary::{ReasonCode, ReceiptId};

/// What a refusal tells of its decision.
#[derive(Clone, Debug)]
pub(crate) struct ErrorData {
    pub(crate) verdict: Verdict,
    pub(crate) code: ReasonCode,
    pub(crate) retry_after_ms: Option<u64>,
    /// What the protocol wants beside it: names, raw values.
    pub(crate) beside: Vec<(&'static str, Vec<u8>)>,
}

impl ErrorData {
    pub(crate) fn denied(code: ReasonCode) -> Self {
        Self {
            verdict: Verdict::Deny,
            code,
            retry_after_ms: None,
            beside: Vec::new(),
        }
    }

    pub(crate) fn allowed(code: ReasonCode) -> Self {
        Self {
            verdict: Verdict::Allow,
            code,
            retry_after_ms: None,
            beside: Vec::new(),
        }
    }

    pub(crate) fn to_json(&self, receipt: ReceiptId) -> Vec<u8> {
        let retry = self
            .retry_after_ms
            .map(|ms| format!(",\"retry_after_ms\":{ms}"))
            .unwrap_or_default();
        let verdict = match self.verdict {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
            Verdict::RequireApproval => "require_approval",
        };
        let text = format!(
            "{{\"decision\":\"{verdict}\",\"reason_codes\":[\"{}\"],\"receipt_id\":\"{receipt}\"{retry}",
            self.code
        );
        let mut out = text.into_bytes();
        for (name, raw) in &self.beside {
            out.push(b',');
            compose::string(name, &mut out);
            out.push(b':');
            out.extend_from_slice(raw);
        }
        out.push(b'}');
        out
    }
}
