//! The lines of harness runs.

use vocabulary::Digest;

use super::line::{Line, Seal, fill};
use crate::harness::{HarnessAttempt, HarnessOutput, HarnessResult, HarnessUsage, HarnessWalls};

pub(super) fn write_attempt(out: &mut Vec<u8>, record: &HarnessAttempt, seal: &Seal<'_>) -> Digest {
    let start = out.len();
    let subject = &record.subject;
    let mut line = Line(out);
    line.raw(r#"{"agent":"#);
    line.text(Some(&subject.agent));
    line.raw(r#","attempt":"#);
    line.number(Some(u64::from(record.attempt)));
    line.raw(r#","class":"#);
    line.text(Some(record.class.as_str()));
    line.raw(r#","duration_us":"#);
    line.number(Some(record.duration_us));
    line.raw(r#","exit":"#);
    line.number(record.exit);
    line.raw(r#","feedback_hash":"#);
    line.digest(record.feedback_hash.as_ref());
    line.raw(r#","findings":{"#);
    for (index, (category, count)) in record.findings.iter().enumerate() {
        line.raw(if index > 0 { "," } else { "" });
        line.text(Some(category));
        line.raw(":");
        line.number(Some(*count));
    }
    line.raw(r#"},"guard":"#);
    line.text(record.guard.as_deref());
    line.raw(r#","log":"#);
    line.bytes(seal.log);
    line.raw(r#","max_attempts":"#);
    line.number(Some(u64::from(record.max_attempts)));
    write_output(&mut line, record.output.as_ref());
    line.raw(r#","pipeline":"#);
    line.text(subject.pipeline.as_deref());
    line.raw(r#","prev_hash":"#);
    line.digest(Some(seal.prev));
    line.raw(r#","receipt_id":"#);
    line.receipt_id(Some(subject.receipt_id));
    let gap = line.gap();
    line.raw(r#","run":"#);
    line.text(Some(&subject.run));
    write_walls(&mut line, record.walls.as_ref());
    line.raw(r#","seq":"#);
    line.number(Some(seal.seq));
    line.raw(r#","ts":"#);
    line.quoted(seal.ts);
    line.raw(r#","type":"harness_attempt""#);
    write_usage(&mut line, record.usage.as_ref());
    line.raw(r#","v":1,"violation_fingerprint":"#);
    line.digest(record.violation_fingerprint.as_ref());
    line.raw(r#","violations":"#);
    line.number(Some(record.violations));
    line.raw("}");
    fill(out, start, gap)
}

pub(super) fn write_result(out: &mut Vec<u8>, record: &HarnessResult, seal: &Seal<'_>) -> Digest {
    let start = out.len();
    let subject = &record.subject;
    let mut line = Line(out);
    line.raw(r#"{"agent":"#);
    line.text(Some(&subject.agent));
    line.raw(r#","attempts":"#);
    line.number(Some(u64::from(record.attempts)));
    line.raw(r#","class":"#);
    line.text(record.class.map(|class| class.as_str()));
    line.raw(r#","config_hash":"#);
    line.digest(Some(&record.config_hash));
    line.raw(r#","duration_us":"#);
    line.number(Some(record.duration_us));
    line.raw(r#","inputs":["#);
    for (index, input) in record.inputs.iter().enumerate() {
        line.raw(if index > 0 { "," } else { "" });
        line.receipt_id(Some(*input));
    }
    line.raw(r#"],"log":"#);
    line.bytes(seal.log);
    write_output(&mut line, record.output.as_ref());
    line.raw(r#","pipeline":"#);
    line.text(subject.pipeline.as_deref());
    line.raw(r#","prev_hash":"#);
    line.digest(Some(seal.prev));
    line.raw(r#","prompt_hash":"#);
    line.digest(Some(&record.prompt_hash));
    line.raw(r#","reason":"#);
    line.text(Some(record.reason.as_str()));
    line.raw(r#","receipt_id":"#);
    line.receipt_id(Some(subject.receipt_id));
    let gap = line.gap();
    line.raw(r#","run":"#);
    line.text(Some(&subject.run));
    write_walls(&mut line, record.walls.as_ref());
    line.raw(r#","schema_hash":"#);
    line.digest(Some(&record.schema_hash));
    line.raw(r#","seq":"#);
    line.number(Some(seal.seq));
    line.raw(r#","status":"#);
    line.text(Some(record.status.as_str()));
    line.raw(r#","ts":"#);
    line.quoted(seal.ts);
    line.raw(r#","type":"harness_result""#);
    write_usage(&mut line, record.usage.as_ref());
    line.raw(r#","v":1}"#);
    fill(out, start, gap)
}

fn write_output(line: &mut Line<'_>, output: Option<&HarnessOutput>) {
    line.raw(r#","output":"#);
    let Some(output) = output else {
        return line.raw("null");
    };
    line.raw(r#"{"bytes":"#);
    line.number(Some(output.bytes));
    line.raw(r#","hash":"#);
    line.digest(Some(&output.hash));
    line.raw("}");
}

fn write_usage(line: &mut Line<'_>, usage: Option<&HarnessUsage>) {
    line.raw(r#","usage":"#);
    let Some(usage) = usage else {
        return line.raw("null");
    };
    line.raw(r#"{"cost_usd_micros":"#);
    line.number(usage.cost_usd_micros);
    line.raw(r#","input_tokens":"#);
    line.number(usage.input_tokens);
    line.raw(r#","output_tokens":"#);
    line.number(usage.output_tokens);
    line.raw("}");
}

fn write_walls(line: &mut Line<'_>, walls: Option<&HarnessWalls>) {
    line.raw(r#","sandbox":"#);
    let Some(walls) = walls else {
        return line.raw("null");
    };
    line.raw(r#"{"fs_policy":"#);
    line.text(Some(&walls.fs_policy));
    line.raw(r#","instance":"#);
    line.text(Some(&walls.instance));
    line.raw(r#","layers":"#);
    line.list(walls.layers.iter().map(String::as_str));
    line.raw(r#","net_policy":"#);
    line.text(Some(&walls.net_policy));
    line.raw(r#","policy_hash":"#);
    line.text(Some(&walls.policy_hash));
    line.raw(r#","tier":"#);
    line.text(Some(&walls.tier));
    line.raw("}");
}

#[cfg(test)]
mod tests;
