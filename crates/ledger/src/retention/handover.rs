//! Keys that handed over in records which are removed: the record of the removal says them again, so that the log's keys can be
//! followed from the first one on.

use vocabulary::json::Value;

/// The action of the record that says how far the log's beginning was removed. Its subject is the place and the hash of the
/// last record that went.
pub(crate) const PRUNED: &str = "ledger.prune";
/// What the records of a removal have before the keys.
const KEYS: &str = "; keys:";

/// A key handed over to another by the record at `seq`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Handover {
    pub(crate) seq: u64,
    pub(crate) old: String,
    pub(crate) new: String,
}

impl Handover {
    /// Reads it from the record that made it.
    pub(crate) fn of_record(seq: u64, record: &Value<'_>) -> Option<Self> {
        let text = |name| record.member(name).and_then(Value::as_str);
        let is_made = text("action") == Some(crate::sign::ROTATION) && text("result") == Some("allow");
        let new = text("subject").filter(|_| is_made)?;
        Some(Self {
            seq,
            old: text("message")
                .unwrap_or_default()
                .rsplit(' ')
                .next()
                .unwrap_or_default()
                .to_owned(),
            new: new.to_owned(),
        })
    }
}

/// The end of a removal's message: each with its place, the old key and the new one.
pub(super) fn write_handovers(handovers: &[Handover]) -> String {
    if handovers.is_empty() {
        return String::new();
    }
    let each = handovers
        .iter()
        .map(|handover| format!(" {} {} {}", handover.seq, handover.old, handover.new));
    KEYS.chars().map(String::from).chain(each).collect()
}

/// The keys that a removal's message says; `None` where it says them wrongly.
pub(crate) fn read_handovers(message: &str) -> Option<Vec<Handover>> {
    let Some((_, listed)) = message.split_once(KEYS) else {
        return Some(Vec::new());
    };
    let words: Vec<&str> = listed.strip_prefix(' ')?.split(' ').collect();
    let (each, rest) = words.as_chunks::<3>();
    if !rest.is_empty() {
        return None;
    }
    each.iter()
        .map(|[seq, old, new]| {
            Some(Handover {
                seq: seq.parse().ok()?,
                old: (*old).to_owned(),
                new: (*new).to_owned(),
            })
        })
        .collect()
}
