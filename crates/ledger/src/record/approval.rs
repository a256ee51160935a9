//! The line of a step of an approval.

use vocabulary::Digest;

use super::line::{Line, Seal, fill};
use crate::approval::ApprovalStep;

pub(super) fn write_step(out: &mut Vec<u8>, step: &ApprovalStep, seal: &Seal<'_>) -> Digest {
    let start = out.len();
    let mut line = Line(out);
    line.raw(r#"{"action":"#);
    line.text(Some(step.action.as_str()));
    line.raw(r#","actor":"#);
    line.text(Some(&step.actor));
    line.raw(r#","args_hash":"#);
    line.digest(Some(&step.args_hash));
    line.raw(r#","definition_hash":"#);
    line.digest(Some(&step.definition_hash));
    line.raw(r#","expires":"#);
    line.text(Some(&step.expires.to_string()));
    line.raw(r#","id":"#);
    line.text(Some(&step.id));
    line.raw(r#","log":"#);
    line.bytes(seal.log);
    line.raw(r#","plan_hash":"#);
    line.digest(Some(&step.plan_hash));
    line.raw(r#","policy_id":"#);
    line.text(Some(&step.policy_id));
    line.raw(r#","policy_set":"#);
    line.digest(Some(&step.policy_set));
    line.raw(r#","prev_hash":"#);
    line.digest(Some(seal.prev));
    line.raw(r#","principal":{"client_id":"#);
    line.text(step.client_id.as_deref());
    line.raw(r#","issuer":"#);
    line.text(Some(&step.issuer));
    line.raw(r#","org_id":"#);
    line.text(step.org_id.as_deref());
    line.raw(r#","sub":"#);
    line.text(Some(&step.sub));
    line.raw(r#"},"reason":"#);
    line.text(step.reason.as_deref());
    line.raw(r#","receipt_id":"#);
    line.receipt_id(step.receipt_id);
    let gap = line.gap();
    line.raw(r#","result":"#);
    line.text(Some(step.action.result().as_str()));
    line.raw(r#","risk":"#);
    line.text(Some(step.risk.as_str()));
    line.raw(r#","seq":"#);
    line.number(Some(seal.seq));
    line.raw(r#","server_id":"#);
    line.text(Some(&step.server_id));
    line.raw(r#","step_up":"#);
    line.text(Some(step.step_up.as_str()));
    line.raw(r#","tool_name":"#);
    line.text(Some(&step.tool_name));
    line.raw(r#","ts":"#);
    line.quoted(seal.ts);
    line.raw(r#","type":"approval","v":1,"verdict":"#);
    line.text(step.action.verdict());
    line.raw("}");
    fill(out, start, gap)
}
