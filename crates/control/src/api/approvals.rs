//! Approvals: what waits for a person, and their word on it. Arguments are shown while it waits, to those who may decide.

mod shown;

use policy::{Answered, Approval, ApprovalState};
use serde::Deserialize;
use serde_json::{Value, json};
use vocabulary::{Role, Timestamp};

use super::call::Call;
use crate::answer::{Answer, Refusal};
use crate::ports::{ApprovalWord, NotDecided};

/// Query parameters of the list.
pub(super) const PARAMETERS: &[(&str, &str)] = &[(
    "state",
    "Only those that stand so: `pending`, `approved`, `denied`, `expired`, `used` or `void`.",
)];

pub(super) async fn list(call: Call) -> Result<Answer, Refusal> {
    let wanted = match call.query("state") {
        None => None,
        Some(word) => Some(ApprovalState::parse(word).ok_or_else(|| {
            Refusal::bad_request("`state` is one of `pending`, `approved`, `denied`, `expired`, `used` and `void`")
        })?),
    };
    let is_shown = move |approval: &Approval| wanted.is_none_or(|state| approval.state == state);
    let sees = call.operator.role() >= Role::Approver;
    let shown = call
        .ask(move |plane| {
            let approvals = plane.ports().approvals.list()?;
            let views = approvals.iter().filter(|approval| is_shown(approval)).map(|approval| {
                let arguments = match sees {
                    true => plane.ports().approvals.arguments(approval)?,
                    false => None,
                };
                let arguments = arguments.map_or(Value::Null, |arguments| shown::revealed_text(&arguments.arguments));
                Ok(view(approval, arguments))
            });
            views.collect::<Result<Vec<Value>, _>>()
        })
        .await?;
    Ok(Answer::json(&json!({ "approvals": shown })))
}

pub(super) async fn show(call: Call) -> Result<Answer, Refusal> {
    let id = call.part("id").to_owned();
    let sees = call.operator.role() >= Role::Approver;
    let found = call
        .ask(move |plane| {
            let Some(approval) = plane.ports().approvals.find(&id)? else {
                return Ok(None);
            };
            let arguments = match sees {
                true => plane.ports().approvals.arguments(&approval)?,
                false => None,
            };
            Ok(Some(in_full(&approval, arguments.as_ref())))
        })
        .await?;
    found.map(|shown| Answer::json(&shown)).ok_or_else(unknown)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    reason: Option<String>,
}

pub(super) async fn approve(call: Call) -> Result<Answer, Refusal> {
    decide(call, Answered::Yes).await
}

pub(super) async fn deny(call: Call) -> Result<Answer, Refusal> {
    decide(call, Answered::No).await
}

async fn decide(call: Call, answer: Answered) -> Result<Answer, Refusal> {
    let Word { reason } = call.body()?;
    if let Some(reason) = &reason
        && (reason.len() > LONGEST_REASON || reason.chars().any(char::is_control))
    {
        return Err(Refusal::bad_request(
            "`reason` is one line of at most 500 bytes without control characters",
        ));
    }
    let word = ApprovalWord {
        answer,
        by: call.operator.name().to_owned(),
        reason: reason.filter(|reason| !reason.trim().is_empty()),
    };
    let id = call.part("id").to_owned();
    match call.plane.ports().approvals.decide(&id, word).await? {
        Ok(approval) => Ok(Answer::json(&view(&approval, Value::Null))),
        Err(NotDecided::Unknown) => Err(unknown()),
        Err(NotDecided::Fault(fault)) => Err(Refusal::conflict(fault.to_string())),
        Err(NotDecided::Unrecorded(down)) => Err(down.into()),
    }
}

fn unknown() -> Refusal {
    Refusal::not_found("there is no such approval")
}

fn view(approval: &Approval, arguments: Value) -> Value {
    let Approval { plan, .. } = approval;
    let verdict = approval.verdict.as_ref();
    let time = |time: Timestamp| time.to_string();
    json!({
        "id": approval.id,
        "state": approval.state.as_str(),
        "principal": plan.sub,
        "issuer": plan.issuer,
        "client_id": plan.client_id,
        "org_id": plan.org_id,
        "server": plan.server.as_str(),
        "tool": plan.tool.as_str(),
        "risk": plan.risk.as_str(),
        "policy_id": plan.policy_id.as_ref(),
        "args_hash": plan.args_hash.to_string(),
        "plan_hash": approval.plan_hash().to_string(),
        "definition_hash": plan.definition_hash.to_string(),
        "created": time(approval.created),
        "expires": time(approval.expires),
        "decided_by": verdict.map(|verdict| verdict.by.as_str()),
        "decided_at": verdict.map(|verdict| time(verdict.at)),
        "reason": verdict.and_then(|verdict| verdict.reason.as_deref()),
        "step_up": verdict.map_or("none", |verdict| verdict.step_up.as_str()),
        "arguments": arguments,
    })
}

/// With what changed since the same caller's last approved call of this tool.
fn in_full(approval: &Approval, arguments: Option<&crate::ports::ShownArguments>) -> Value {
    let told = arguments.map_or(Value::Null, |arguments| shown::revealed_text(&arguments.arguments));
    let mut whole = view(approval, told);
    let last = arguments.and_then(|arguments| arguments.last.as_ref());
    let changes = arguments
        .zip(last)
        .map(|(arguments, (last, _))| shown::changes(last, &arguments.arguments));
    if let Some(members) = whole.as_object_mut() {
        members.insert("last_approved".to_owned(), json!(last.map(|(_, at)| at.to_string())));
        members.insert("changes".to_owned(), json!(changes));
    }
    whole
}

const LONGEST_REASON: usize = 500;
