//! A call that policy allows once a person agrees: a permit where one did, and otherwise an answer at once that says who is asked
//! and what to do.

use ledger::{ApprovalFacts, DecisionFacts, MessageFacts, StepUp, Verdict};
use mcp::{ErrorCode, Request};
use policy::{Approval, Grounds, InFlight, Wanted};
use screening::arguments::{Checked as _, CheckedCall};
use vocabulary::{Digest, ReasonCode, canonical};

use crate::context::Ended;
use crate::message::error_data::ErrorData;
use crate::message::own::OwnValue;
use crate::outcome::sentence;
use crate::stages::{Decided, Stages};
use crate::state::approvals::{ApprovalAnswer, ApprovalQuestion};

/// What is to be approved.
pub(crate) struct ApprovalWanted<'c> {
    pub(crate) wanted: Box<Wanted>,
    pub(crate) grounds: Grounds,
    pub(crate) checked: &'c CheckedCall<'c>,
}

/// See the module.
pub(crate) async fn settle(
    stages: &Stages<'_>,
    request: &Request,
    call: ApprovalWanted<'_>,
    (facts, slot): (&MessageFacts, InFlight),
) -> Result<Decided, Box<Ended>> {
    let ApprovalWanted {
        wanted,
        grounds,
        checked,
    } = call;
    let mut arguments = Vec::new();
    canonical::write(checked.arguments().tree(), &mut arguments);
    let question = ApprovalQuestion {
        wanted: wanted.beside(beside(request, checked)),
        arguments,
        receipt_id: stages.context.arrival.receipt_id,
    };
    match stages.gateway.approvals.settle(question).await {
        ApprovalAnswer::Granted(permit, approved) => {
            let mut decision = stages.decision(Verdict::Allow, grounds.policy_id, ReasonCode::AllowApproved);
            decision.approval = Some(Box::new(recorded(approved.approval())));
            Ok(Decided {
                permit,
                facts: decision,
                approved: Some(approved),
                slot,
            })
        }
        ApprovalAnswer::Asked { approval, why } => Err(asked(stages, facts, &grounds, (&approval, why))),
        ApprovalAnswer::Refused(approval) => Err(refused(stages, facts, &grounds, &approval)),
        ApprovalAnswer::TooMany => Err(too_many(stages, facts, &grounds)),
        ApprovalAnswer::NotAsked => Err(stages.nobody_asked(facts, grounds)),
        ApprovalAnswer::Unavailable => Err(stages.unrecordable(facts)),
    }
}

/// What goes along that no approver sees: members of `params` beside name and arguments, those of a dialogue included.
fn beside(request: &Request, checked: &CheckedCall<'_>) -> Digest {
    const SEEN: [&str; 3] = ["name", "arguments", "_meta"];
    let members = request.params().members().filter(|(name, _)| !SEEN.contains(name));
    let members = members.map(|(name, raw)| (b"params".as_slice(), name, raw));
    let meta = checked
        .meta()
        .iter()
        .map(|(name, raw)| (b"_meta".as_slice(), *name, *raw));
    let mut text = Vec::new();
    for (place, name, raw) in members.chain(meta) {
        for part in [place, name.as_bytes(), raw] {
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part);
        }
    }
    Digest::of(&text)
}

/// What its receipt says of an approval.
fn recorded(approval: &Approval) -> ApprovalFacts {
    let allowed = approval.verdict.as_ref().filter(|_| is_allowed(approval));
    ApprovalFacts {
        id: approval.id.clone(),
        plan_hash: approval.plan_hash(),
        approved: allowed.map(|verdict| (verdict.by.clone(), verdict.at)),
        step_up: match allowed.map(|verdict| verdict.step_up) {
            Some(policy::StepUp::Mfa) => StepUp::Mfa,
            Some(policy::StepUp::None) | None => StepUp::None,
        },
    }
}

fn is_allowed(approval: &Approval) -> bool {
    use policy::ApprovalState::{Approved, Denied, Expired, Pending, Used, Void};
    match approval.state {
        Approved | Used => true,
        Pending | Denied | Expired | Void => false,
    }
}

/// Nothing is executed; the same call, made again once a person agreed, is.
fn asked(stages: &Stages<'_>, facts: &MessageFacts, grounds: &Grounds, asked: (&Approval, ReasonCode)) -> Box<Ended> {
    let (approval, why) = asked;
    let (id, expires) = (&approval.id, approval.expires);
    let message = format!(
        "not executed: a person must approve this call first. The approval {id} waits until {expires}; let somebody else decide with \
         `portreeve approval approve {id}`, then call again with the same arguments"
    );
    let data = ErrorData {
        verdict: Verdict::RequireApproval,
        further: Some(why),
        ..told(message, ReasonCode::RequireApproval, approval)
    };
    let mut decision = by(stages, Verdict::RequireApproval, grounds, ReasonCode::RequireApproval);
    decision.reason_codes.push(why);
    decision.approval = Some(Box::new(recorded(approval)));
    stages.refused_to_model(facts, decision, data)
}

fn refused(stages: &Stages<'_>, facts: &MessageFacts, grounds: &Grounds, approval: &Approval) -> Box<Ended> {
    let code = ReasonCode::DenyApprovalRefused;
    let message = format!(
        "not executed: {}; it may be asked again after {}",
        sentence(code),
        approval.expires
    );
    let mut decision = by(stages, Verdict::Deny, grounds, code);
    decision.approval = Some(Box::new(recorded(approval)));
    stages.refused_to_model(facts, decision, told(message, code, approval))
}

fn too_many(stages: &Stages<'_>, facts: &MessageFacts, grounds: &Grounds) -> Box<Ended> {
    let code = ReasonCode::DenyRateLimit;
    let message = "not executed: a person must approve this call, and as many calls of yours wait for approval as may; wait until \
                   some are decided, then call again";
    let mut decision = by(stages, Verdict::Deny, grounds, code);
    decision.reason_codes.push(ReasonCode::RequireApproval);
    stages.refused_to_model(
        facts,
        decision,
        ErrorData::denied(ErrorCode::InvalidParams, message, code),
    )
}

fn by(stages: &Stages<'_>, verdict: Verdict, grounds: &Grounds, code: ReasonCode) -> DecisionFacts {
    stages.decision(verdict, grounds.policy_id.clone(), code)
}

fn told(message: String, code: ReasonCode, approval: &Approval) -> ErrorData {
    let members = vec![
        ("id", OwnValue::Text(approval.id.clone().into())),
        ("expires", OwnValue::Text(approval.expires.to_string().into())),
    ];
    ErrorData::denied(ErrorCode::InvalidParams, message, code).beside("approval", OwnValue::Object(members))
}
