//! What records say that verification goes by: intents and their finals, keys that took over, and what was removed.

use std::collections::HashMap;

use vocabulary::Digest;
use vocabulary::json::Value;

use super::OF_RECORDS;
use crate::chain::BreakKind;
use crate::retention::{Handover, PRUNED, read_handovers};

/// What a record says of a removed beginning.
pub(super) struct Pruned {
    /// The last record that was removed.
    pub(super) seq: u64,
    pub(super) hash: Digest,
    /// The keys that handed over in what was removed.
    pub(super) handovers: Vec<Handover>,
}

/// What was gathered from the records so far.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) rotations: Vec<Handover>,
    pub(super) pruned: Vec<Pruned>,
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
        self.rotations.extend(Handover::of_record(seq, record));
        if action == PRUNED
            && let Some((seq, hash)) = subject.split_once(' ')
            && let (Ok(seq), Some(hash)) = (seq.parse(), Digest::parse(hash))
            && let Some(handovers) = read_handovers(text(record, "message").unwrap_or_default())
        {
            self.pruned.push(Pruned { seq, hash, handovers });
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
