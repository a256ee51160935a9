//! The log as an operator and an auditor see it: through `activity`, and as bytes on disk.

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::Value;

use super::left_behind::misfit;
use super::setup::Home;
use super::{Answer, Gateway};

/// Every record `activity list` knows, newest first.
pub(crate) fn all(home: &Home) -> Vec<Value> {
    list(home, &["--limit", "100000"])
}

/// The records `activity list` gives for some options.
pub(crate) fn list(home: &Home, options: &[&str]) -> Vec<Value> {
    let mut arguments = vec!["activity", "list", "--json"];
    arguments.extend(options);
    home.cli(&arguments)
        .success()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The final records of requests among these.
pub(crate) fn receipts(records: &[Value]) -> Vec<Value> {
    records
        .iter()
        .filter(|record| record["type"] == "request" && record["phase"] == "final")
        .cloned()
        .collect()
}

impl Gateway {
    /// The number of the last record.
    pub(crate) fn last_seq(&self) -> u64 {
        list(&self.home, &["--limit", "1"])
            .first()
            .map_or(0, |record| record["seq"].as_u64().unwrap())
    }

    /// The receipts written after a record, oldest first.
    pub(crate) fn receipts_after(&self, seq: u64) -> Vec<Value> {
        let mut receipts = receipts(&all(&self.home));
        receipts.retain(|record| record["seq"].as_u64().unwrap() > seq);
        receipts.reverse();
        fit_the_schema(&receipts);
        receipts
    }

    /// The one receipt of an answered request.
    pub(crate) fn receipt_of(&self, answer: &Answer) -> Value {
        let found: Vec<_> = receipts(&all(&self.home))
            .into_iter()
            .filter(|r| r["trace_id"] == answer.trace.as_str())
            .collect();
        assert_eq!(found.len(), 1, "receipts of {}: {found:?}", answer.text());
        fit_the_schema(&found);
        found[0].clone()
    }

    /// The receipt a refusal names.
    pub(crate) fn receipt_named_by(&self, answer: &Answer) -> Value {
        let receipt = self.receipt_of(answer);
        assert_eq!(receipt["receipt_id"], answer.decision()["receipt_id"]);
        receipt
    }
}

/// Every one of these fits the schema that is published for its type.
pub(crate) fn fit_the_schema<'a>(records: impl IntoIterator<Item = &'a Value>) {
    for record in records {
        if let Some(fault) = misfit(record) {
            panic!("{fault}: {record}");
        }
    }
}

/// The lines of the log's segments as they lie on disk, in order.
pub(crate) fn lines_on_disk(home: &Home) -> Vec<String> {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for file in home.state_files() {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap_or_default();
            if record.get("record_hash").is_some() {
                lines.push((record["seq"].as_u64().unwrap(), line.to_owned()));
            }
        }
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// `sha256:…` of some bytes.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let hex: String = digest(&SHA256, bytes)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}

/// `sha256:…` of a value's RFC 8785 form, by a library that is not ours.
pub(crate) fn canonical_hash(value: &Value) -> String {
    sha256(&serde_json_canonicalizer::to_vec(value).unwrap())
}
