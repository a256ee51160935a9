//! What records say that verification goes by: intents and their finals, keys that took over, and what was removed.

use std::collections::HashMap;

use vocabulary::Digest;
use vocabulary::json::Value;

use super::OF_RECORDS;
use crate::chain::BreakKind;
use crate::sign::ROTATION;

/// The action of the record that says how far the log's beginning was removed. Its subject is the place and the hash of the
/// last record that went.
const PRUNED: &str = "ledger.prune";

/// A key handed over to another.
pub(super) struct Rotation {
    pub(super) seq: u64,
    pub(super) old: String,
    pub(super) new: String,
}

/// What was gathered from the records so far.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) rotations: Vec<Rotation>,
    /// The places and hashes of last records that were removed.
    pub(super) pruned: Vec<(u64, Digest)>,
    /// What open intents announce, by receipt id.
    intents: HashMap<String, Digest>,
}

impl Gathered {
    /// Takes in a sound record.
    pub(super) fn meet(&mut self, seq: u64, record: &Value<'_>) -> Result<(), BreakKind> {
        match text(record, "type") {
            Some("request") => self.meet_request(record),
            Some("admin") => {
                self.meet_admin(seq, record);
                Ok(())
            }
            Some(_) => Ok(()),
            None => Err(BreakKind::Spelling),
        }
    }

    /// Takes from a record that is not looked at closely what counts for the others: keys, and what was removed.
    pub(super) fn glance(&mut self, seq: u64, line: &[u8]) {
        if line.starts_with(br#"{"action":"ledger."#)
            && let Ok(record) = Value::parse(line, &OF_RECORDS)
        {
            self.meet_admin(seq, &record);
        }
    }

    /// Intents whose final record is still to come, or never will.
    pub(super) fn open_intents(&self) -> u64 {
        self.intents.len() as u64
    }

    fn meet_request(&mut self, record: &Value<'_>) -> Result<(), BreakKind> {
        let (Some(id), Some(phase)) = (text(record, "receipt_id"), text(record, "phase")) else {
            return Err(BreakKind::Spelling);
        };
        let announced = announced(record);
        if phase == "intent" {
            let twice = self.intents.insert(id.to_owned(), announced).is_some();
            return if twice { Err(BreakKind::Intent) } else { Ok(()) };
        }
        match self.intents.remove(id) {
            Some(intent) if intent != announced => Err(BreakKind::Intent),
            Some(_) | None => Ok(()),
        }
    }

    fn meet_admin(&mut self, seq: u64, record: &Value<'_>) {
        let (Some(action), Some(subject)) = (text(record, "action"), text(record, "subject")) else {
            return;
        };
        if action == ROTATION && text(record, "result") == Some("allow") {
            let message = text(record, "message").unwrap_or_default();
            self.rotations.push(Rotation {
                seq,
                old: message.rsplit(' ').next().unwrap_or_default().to_owned(),
                new: subject.to_owned(),
            });
        }
        if action == PRUNED
            && let Some((seq, hash)) = subject.split_once(' ')
            && let (Ok(seq), Some(hash)) = (seq.parse(), Digest::parse(hash))
        {
            self.pruned.push((seq, hash));
        }
    }
}

/// What an intent announces and its final must say again: who, what, and with which arguments.
fn announced(record: &Value<'_>) -> Digest {
    let members = [
        ("principal", "sub"),
        ("mcp", "method"),
        ("mcp", "server_id"),
        ("mcp", "tool_name"),
        ("request", "args_hash"),
    ];
    let mut told = Vec::new();
    for (object, name) in members {
        let member = record.member(object).and_then(|object| object.member(name));
        told.extend_from_slice(member.and_then(Value::as_str).unwrap_or("\0").as_bytes());
        told.push(b'\n');
    }
    Digest::of(&told)
}

fn text<'r>(record: &'r Value<'_>, name: &str) -> Option<&'r str> {
    record.member(name).and_then(Value::as_str)
}
