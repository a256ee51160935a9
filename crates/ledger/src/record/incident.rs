//! The line of a step of an incident.

use vocabulary::Digest;

use super::line::{Line, Seal, fill};
use crate::incident::{IncidentMark, IncidentStep};

pub(super) fn write_step(out: &mut Vec<u8>, step: &IncidentStep, seal: &Seal<'_>) -> Digest {
    let start = out.len();
    let mut line = Line(out);
    line.raw(r#"{"action":"#);
    line.text(Some(step.action.as_str()));
    line.raw(r#","actor":"#);
    line.text(Some(&step.actor));
    line.raw(r#","expires":"#);
    line.text(step.expires.map(|time| time.to_string()).as_deref());
    line.raw(r#","id":"#);
    line.text(Some(&step.id));
    line.raw(r#","incident":"#);
    write_mark(&mut line, step.then.as_ref());
    line.raw(r#","log":"#);
    line.bytes(seal.log);
    line.raw(r#","prev_hash":"#);
    line.digest(Some(seal.prev));
    line.raw(r#","reason":"#);
    line.text(Some(&step.reason));
    let gap = line.gap();
    line.raw(r#","scope":"#);
    line.text(Some(&step.scope));
    line.raw(r#","seq":"#);
    line.number(Some(seal.seq));
    line.raw(r#","stage":"#);
    line.text(Some(step.stage));
    line.raw(r#","started":"#);
    line.text(Some(&step.started.to_string()));
    line.raw(r#","ts":"#);
    line.quoted(seal.ts);
    line.raw(r#","type":"incident","v":1}"#);
    fill(out, start, gap)
}

/// What a record says of incidents.
pub(super) fn write_mark(line: &mut Line<'_>, mark: Option<&IncidentMark>) {
    match mark {
        None => line.raw(r#"{"active":false,"id":null,"stage":"normal"}"#),
        Some(mark) => {
            line.raw(r#"{"active":true,"id":"#);
            line.text(Some(&mark.id));
            line.raw(r#","stage":"#);
            line.text(Some(mark.stage));
            line.raw("}");
        }
    }
}
