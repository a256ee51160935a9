//! How a request ended: what its caller was told, and what was put on record meanwhile.

use ledger::{Finding, Position, verify};
use serde_json::{Value, json};

use super::client::{Answer, Ask};
use super::setup::Running;

/// See the module.
pub(super) struct Ending {
    pub answer: Answer,
    /// Every record that was written, oldest first.
    pub records: Vec<Value>,
}

/// The two ways a refusal is told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// As a JSON-RPC error with this code.
    Error(i64),
    /// As an error result that a model reads.
    Result,
}

impl Running {
    /// Sends a request; how it ended.
    pub(super) async fn end(&self, ask: Ask) -> Ending {
        let before = self.ledger.last_seq();
        let answer = self.send(ask).await;
        let mut records = self.records();
        records.retain(|record| record["seq"].as_u64() > Some(before));
        Ending { answer, records }
    }

    /// Every record of the log.
    pub(super) fn records(&self) -> Vec<Value> {
        let lines = self.reader().lines_from(Position::START).unwrap();
        let read = |line: std::io::Result<_>| -> (_, Vec<u8>) { line.unwrap() };
        lines
            .map(|line| serde_json::from_slice(&read(line).1).unwrap())
            .collect()
    }

    /// The log is whole.
    pub(super) fn assert_log_verifies(&self) {
        let found = verify(&self.reader()).unwrap();
        assert!(matches!(found, Finding::Intact(_)), "{found:?}");
    }
}

impl Ending {
    /// The one final record of the request.
    pub(super) fn receipt(&self) -> &Value {
        let mut finals = self.records.iter().filter(|record| record["phase"] == "final");
        let (Some(receipt), None) = (finals.next(), finals.next()) else {
            panic!("not one receipt: {:?}\n{}", self.records, self.answer.text())
        };
        assert_eq!(receipt["count"], 1);
        receipt
    }

    /// The records of one type.
    pub(super) fn of_type(&self, kind: &str) -> Vec<&Value> {
        self.records.iter().filter(|record| record["type"] == kind).collect()
    }

    /// What is told and recorded of a refusal agree: told once, recorded once, nothing done.
    pub(super) fn assert_refused(&self, status: u16, told: Told, reason: &str) {
        self.assert_told(status, told, "deny", &[reason]);
        self.assert_recorded("deny", &[reason]);
        self.assert_outcome("error", Some(false));
        assert_eq!(self.answer.decision()["receipt_id"], self.receipt()["receipt_id"]);
        assert_eq!(self.records.len(), 1, "{:?}", self.records);
    }

    /// What the caller was told.
    pub(super) fn assert_told(&self, status: u16, told: Told, decision: &str, reasons: &[&str]) {
        let (text, json) = (self.answer.text(), self.answer.json());
        assert_eq!(self.answer.status, status, "{text}");
        match told {
            Told::Error(code) => assert_eq!(self.answer.code(), code, "{text}"),
            Told::Result => assert_eq!(json["result"]["isError"], true, "{text}"),
        }
        let said = self.answer.decision();
        assert_eq!(said["decision"], decision, "{text}");
        assert_eq!(said["reason_codes"], json!(reasons), "{text}");
    }

    /// What the one receipt says was decided, and why.
    pub(super) fn assert_recorded(&self, decision: &str, reasons: &[&str]) {
        let receipt = self.receipt();
        assert_eq!(receipt["decision"]["result"], decision, "{receipt}");
        assert_eq!(receipt["decision"]["reason_codes"], json!(reasons), "{receipt}");
    }

    /// What the one receipt says came of it: status and whether it was executed.
    pub(super) fn assert_outcome(&self, status: &str, executed: Option<bool>) {
        let outcome = &self.receipt()["outcome"];
        assert_eq!(
            (&outcome["status"], &outcome["executed"]),
            (&json!(status), &json!(executed))
        );
    }

    /// Nothing was released, nothing is on record, and nothing says that there is.
    pub(super) fn assert_withheld_without_receipt(&self, status: u16) {
        self.assert_told(status, Told::Error(-32603), "deny", &["DENY_RECEIPT_UNAVAILABLE"]);
        assert_eq!(self.answer.decision()["receipt_id"], Value::Null);
        assert_eq!(self.records, Vec::<Value>::new());
    }
}
