//! Secrets in what is about to leave: recorded or refused, as the operator says.

use ledger::{Event, Judgement, MessageFacts, ScreeningAct, ScreeningDecision, ScreeningMode, ScreeningStage, Verdict};
use mcp::{ErrorCode, Method};
use screening::arguments::secrets::{counted, secrets};
use screening::detect::Excuse;
use screening::result::FindingNote;
use vocabulary::ReasonCode;

use crate::context::{Ended, RequestContext};
use crate::message::error_data::ErrorData;
use crate::outcome::by_preflight;
use crate::screen::subject;
use crate::snapshot::ArgumentSecrets;
use crate::stages::Stages;

/// Looks through arguments or params that were checked.
pub(crate) async fn look_for_secrets(
    stages: &Stages<'_>,
    raw: Option<&[u8]>,
    facts: &MessageFacts,
) -> Result<(), Box<Ended>> {
    let (detector, act) = match &stages.snapshot.arguments {
        ArgumentSecrets::Pass => return Ok(()),
        ArgumentSecrets::Warn(detector) => (detector, ScreeningAct::Warning),
        ArgumentSecrets::Block(detector) => (detector, ScreeningAct::Blocked),
    };
    let excuse = Excuse {
        server: facts.server_id.as_deref().unwrap_or_default(),
        tool: tool_called(stages.context, facts),
    };
    let found = secrets(raw.unwrap_or(b"{}"), detector, &excuse);
    if found.is_empty() {
        return Ok(());
    }
    let event = Event::Screening(Box::new(about_arguments(stages.context, &found, facts, act)));
    if stages.gateway.ledger.append_event(event).await.is_err() {
        return Err(stages.unrecordable(facts));
    }
    match act {
        ScreeningAct::Blocked => Err(holds_secrets(stages, &found, facts)),
        ScreeningAct::Warning | ScreeningAct::Redacted | ScreeningAct::Stripped => Ok(()),
    }
}

/// The tool that is called; a prompt or a resource of the same name is none.
fn tool_called<'f>(context: &RequestContext, facts: &'f MessageFacts) -> &'f str {
    let called = facts
        .tool_name
        .as_deref()
        .filter(|_| context.method == Method::ToolsCall);
    called.unwrap_or_default()
}

fn about_arguments(
    context: &RequestContext,
    found: &[FindingNote],
    facts: &MessageFacts,
    act: ScreeningAct,
) -> ScreeningDecision {
    let counts = counted(found);
    let (mode, message) = match act {
        ScreeningAct::Blocked => (
            ScreeningMode::Block,
            format!("the call was refused: its arguments hold {counts}"),
        ),
        ScreeningAct::Warning | ScreeningAct::Redacted | ScreeningAct::Stripped => {
            (ScreeningMode::Warn, format!("arguments left with {counts}"))
        }
    };
    let judgement = Judgement {
        findings: found.iter().map(ledger::FindingNote::from).collect(),
        ..Judgement::new(act, ScreeningStage::Arguments, mode, message)
    };
    let server_id = facts.server_id.clone().unwrap_or_default();
    ScreeningDecision::about(subject(context, server_id, facts.tool_name.clone()), judgement)
}

/// Tells a model which field, and nothing of what stands there.
fn holds_secrets(stages: &Stages<'_>, found: &[FindingNote], facts: &MessageFacts) -> Box<Ended> {
    let code = ReasonCode::DenySecretInArguments;
    let place = found.first().map_or("/", |finding| finding.place.as_str());
    let message = format!(
        "the arguments hold what looks like a secret ({}) at {}; leave it out",
        counted(found),
        mcp::method::recordable(place),
    );
    let decision = stages.decision(Verdict::Deny, by_preflight(), code);
    stages.refused_to_model(
        facts,
        decision,
        ErrorData::denied(ErrorCode::InvalidParams, message, code),
    )
}
