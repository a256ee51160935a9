//! The lines of records that are not requests.

use vocabulary::Digest;

use super::line::{Line, Seal, fill};
use crate::event::{EgressAttempt, Note};
use crate::screening::{FindingNote, ScreeningDecision, ScreeningGuard};

pub(super) fn write_note(out: &mut Vec<u8>, kind: &str, note: &Note, seal: &Seal<'_>) -> Digest {
    let start = out.len();
    let mut line = Line(out);
    line.raw(r#"{"action":"#);
    line.text(Some(&note.action));
    line.raw(r#","actor":"#);
    line.text(Some(&note.actor));
    line.raw(r#","log":"#);
    line.bytes(seal.log);
    line.raw(r#","message":"#);
    line.text(Some(&note.message));
    line.raw(r#","prev_hash":"#);
    line.digest(Some(seal.prev));
    line.raw(r#","receipt_id":"#);
    line.receipt_id(note.receipt_id);
    let gap = line.gap();
    line.raw(r#","result":"#);
    line.quoted(note.result.as_str().as_bytes());
    line.raw(r#","seq":"#);
    line.number(Some(seal.seq));
    line.raw(r#","subject":"#);
    line.text(note.subject.as_deref());
    line.raw(r#","ts":"#);
    line.quoted(seal.ts);
    line.raw(r#","type":"#);
    line.quoted(kind.as_bytes());
    line.raw(r#","v":1}"#);
    fill(out, start, gap)
}

pub(super) fn write_egress(out: &mut Vec<u8>, attempt: &EgressAttempt, seal: &Seal<'_>) -> Digest {
    let start = out.len();
    let mut line = Line(out);
    let call = attempt.call();
    // Where it is certain there is nothing to choose from.
    let candidates = if call.is_some() { &[] } else { attempt.open.as_slice() };
    line.raw(r#"{"candidates":["#);
    for (index, candidate) in candidates.iter().enumerate() {
        line.raw(if index > 0 { "," } else { "" });
        line.receipt_id(Some(candidate.receipt_id));
    }
    line.raw(r#"],"count":"#);
    line.number(Some(attempt.count));
    line.raw(r#","dst":{"host":"#);
    line.text(Some(&attempt.host));
    line.raw(r#","port":"#);
    line.number(Some(u64::from(attempt.port)));
    line.raw(r#"},"event":"#);
    line.text(Some(&attempt.event));
    line.raw(r#","instance":"#);
    line.text(Some(&attempt.instance));
    line.raw(r#","log":"#);
    line.bytes(seal.log);
    line.raw(r#","prev_hash":"#);
    line.digest(Some(seal.prev));
    line.raw(r#","reason":"#);
    line.text(Some(&attempt.reason));
    line.raw(r#","receipt_id":"#);
    line.receipt_id(call.map(|call| call.receipt_id));
    let gap = line.gap();
    line.raw(r#","result":"#);
    line.text(Some(attempt.result.as_str()));
    // Servers have no run, and their records no such member.
    if let Some(run) = &attempt.run {
        line.raw(r#","run":"#);
        line.text(Some(run));
    }
    line.raw(r#","seq":"#);
    line.number(Some(seal.seq));
    line.raw(r#","server_id":"#);
    line.text(Some(&attempt.server_id));
    line.raw(r#","session":"#);
    line.digest(call.and_then(|call| call.session.as_ref()));
    line.raw(r#","tool_name":"#);
    line.text(call.and_then(|call| call.tool_name.as_deref()));
    line.raw(r#","ts":"#);
    line.quoted(seal.ts);
    line.raw(r#","type":"egress","v":1}"#);
    fill(out, start, gap)
}

pub(super) fn write_screening(out: &mut Vec<u8>, decision: &ScreeningDecision, seal: &Seal<'_>) -> Digest {
    let start = out.len();
    let ScreeningDecision { subject, judgement } = decision;
    let mut line = Line(out);
    write_findings(&mut line, &judgement.findings);
    line.raw(r#","guard":"#);
    line.text(judgement.guard.map(ScreeningGuard::as_str));
    line.raw(r#","keyword":"#);
    line.text(judgement.keyword.as_deref());
    line.raw(r#","log":"#);
    line.bytes(seal.log);
    line.raw(r#","message":"#);
    line.text(Some(&judgement.message));
    line.raw(r#","mode":"#);
    line.text(Some(judgement.mode.as_str()));
    line.raw(r#","path":"#);
    line.text(judgement.path.as_deref());
    line.raw(r#","prev_hash":"#);
    line.digest(Some(seal.prev));
    line.raw(r#","principal":{"sub":"#);
    line.text(subject.principal.as_deref());
    line.raw(r#"},"receipt_id":"#);
    line.receipt_id(subject.receipt_id);
    let gap = line.gap();
    line.raw(r#","schema_hash":"#);
    line.digest(judgement.schema_hash.as_ref());
    line.raw(r#","seq":"#);
    line.number(Some(seal.seq));
    line.raw(r#","server_id":"#);
    line.text(Some(&subject.server_id));
    line.raw(r#","session":"#);
    line.digest(subject.session.as_ref());
    line.raw(r#","stage":"#);
    line.text(Some(judgement.stage.as_str()));
    line.raw(r#","status":"#);
    line.text(Some(judgement.act.as_str()));
    line.raw(r#","stripped":{"#);
    for (index, (class, count)) in judgement.stripped.iter().enumerate() {
        line.raw(if index > 0 { "," } else { "" });
        line.text(Some(class));
        line.raw(":");
        line.number(Some(*count));
    }
    line.raw(r#"},"tool_name":"#);
    line.text(subject.tool_name.as_deref());
    line.raw(r#","ts":"#);
    line.quoted(seal.ts);
    line.raw(r#","type":"policy_decision","v":1}"#);
    fill(out, start, gap)
}

fn write_findings(line: &mut Line<'_>, findings: &[FindingNote]) {
    line.raw(r#"{"findings":["#);
    for (index, finding) in findings.iter().enumerate() {
        line.raw(if index > 0 {
            r#",{"category":"#
        } else {
            r#"{"category":"#
        });
        line.text(Some(&finding.category));
        line.raw(r#","length":"#);
        line.number(Some(finding.length));
        line.raw(r#","place":"#);
        line.text(Some(&finding.place));
        line.raw(r#","rule":"#);
        line.text(Some(&finding.rule));
        line.raw("}");
    }
    line.raw("]");
}
