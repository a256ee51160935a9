//! Secrets in what is about to leave toward a server: recorded or refused, as the operator says. Everything that leaves is
//! looked through here, and [`OutgoingPlace`] lists where it can stand.
//! ADR 0061: what leaves and what is recorded is looked through in one place each.

use ledger::{Event, Judgement, MessageFacts, ScreeningAct, ScreeningDecision, ScreeningMode, ScreeningStage, Verdict};
use mcp::{Content, ErrorCode, Method, Request, compose};
use screening::arguments::Checked;
use screening::arguments::secrets::{Outgoing, OutgoingPlace, counted, secrets};
use screening::detect::{Detector, Excuse, OWN_RULE, may_hold_own_token, own_tokens};
use screening::result::FindingNote;
use vocabulary::{ReasonCode, ServerId};

use crate::context::{Ended, RequestContext};
use crate::gateway::Gateway;
use crate::message::error_data::ErrorData;
use crate::outcome::by_preflight;
use crate::screen::subject;
use crate::snapshot::{ArgumentSecrets, Snapshot};
use crate::stages::Stages;

/// Why something does not leave.
pub(crate) enum Kept {
    /// It holds what looks like a secret.
    Secret(Vec<FindingNote>),
    /// It does, and that cannot be put on record.
    Unrecordable,
}

/// Looks through everything of a request that is about to leave with it.
pub(crate) async fn look_for_secrets(
    stages: &Stages<'_>,
    request: &Request,
    checked: &dyn Checked,
    facts: &MessageFacts,
) -> Result<(), Box<Ended>> {
    let leaving = leaving(request, checked);
    let kept = look_through(stages.gateway, &stages.snapshot, stages.context, &leaving, facts).await;
    kept.map_err(|kept| match kept {
        // A caller's own token is one of ours: it is named for what it is.
        Kept::Secret(_) if holds_inbound(stages, &leaving) => Box::new(stages.blocked_at_home(facts)),
        Kept::Secret(found) => holds_secrets(stages, &found, facts),
        Kept::Unrecordable => stages.unrecordable(facts),
    })
}

fn holds_inbound(stages: &Stages<'_>, leaving: &[Outgoing<'_>]) -> bool {
    let behalf = stages.context.shown.behalf();
    let holds = |one: &Outgoing<'_>| behalf.is_in(one.raw) || behalf.is_in(one.name.as_bytes());
    leaving.iter().any(holds)
}

/// What of a request leaves with it, and where it stands.
fn leaving<'a>(request: &'a Request, checked: &'a dyn Checked) -> Vec<Outgoing<'a>> {
    let arguments = checked.arguments().map(|raw| (OutgoingPlace::Arguments, "", raw));
    let members = checked
        .members()
        .iter()
        .map(|(name, raw)| (OutgoingPlace::Member, *name, *raw));
    let meta = checked
        .meta()
        .iter()
        .map(|(name, raw)| (OutgoingPlace::Meta, *name, *raw));
    let responses = request.params().raw("inputResponses");
    // Of a task they are a member like any other.
    let responses = responses.filter(|_| *request.method() != Method::TasksUpdate);
    let responses = responses.map(|raw| (OutgoingPlace::InputResponses, "", raw));
    arguments
        .into_iter()
        .chain(members)
        .chain(meta)
        .chain(responses)
        .map(|(place, name, raw)| Outgoing { place, name, raw })
        .collect()
}

/// Looks through the URI of a resource that is subscribed to.
pub(crate) async fn look_through_uri(stages: &Stages<'_>, uri: &str, facts: &MessageFacts) -> Result<(), Kept> {
    let raw = compose::literal(uri);
    let leaving = [Outgoing {
        place: OutgoingPlace::Subscription,
        name: "",
        raw: &raw,
    }];
    look_through(stages.gateway, &stages.snapshot, stages.context, &leaving, facts).await
}

/// Looks through a client's answer to what `server` asked; what leaves in its place if it stays here.
pub(crate) async fn look_through_answer(
    gateway: &Gateway,
    context: &RequestContext,
    server: &ServerId,
    content: Content,
) -> Content {
    let (place, raw) = match &content {
        Content::Result(raw) => (OutgoingPlace::AnswerResult, raw),
        Content::Error(raw) => (OutgoingPlace::AnswerError, raw),
    };
    let leaving = [Outgoing { place, name: "", raw }];
    let facts = MessageFacts {
        server_id: Some(server.to_string()),
        ..MessageFacts::default()
    };
    match look_through(gateway, &gateway.in_force(), context, &leaving, &facts).await {
        Ok(()) => content,
        Err(Kept::Secret(_)) => compose::error_content(
            ErrorCode::InternalError,
            "the client's answer holds what looks like a secret, and stays here",
        ),
        Err(Kept::Unrecordable) => {
            compose::error_content(ErrorCode::InternalError, "the gateway cannot record the answer")
        }
    }
}

/// The one look: what is found is on record before anything is done about it.
async fn look_through(
    gateway: &Gateway,
    rules: &Snapshot,
    context: &RequestContext,
    leaving: &[Outgoing<'_>],
    facts: &MessageFacts,
) -> Result<(), Kept> {
    let found = find(&rules.arguments, leaving, &excuse(context, facts));
    if found.is_empty() {
        return Ok(());
    }
    let act = act(&rules.arguments, &found);
    let event = Event::Screening(Box::new(about(context, &found, facts, act)));
    if gateway.ledger.append_event(event).await.is_err() {
        return Err(Kept::Unrecordable);
    }
    match act {
        ScreeningAct::Blocked => Err(Kept::Secret(found)),
        ScreeningAct::Warning | ScreeningAct::Redacted | ScreeningAct::Stripped => Ok(()),
    }
}

/// Our own tokens are looked for whatever the operator says.
fn find(rules: &ArgumentSecrets, leaving: &[Outgoing<'_>], excuse: &Excuse<'_>) -> Vec<FindingNote> {
    let detector: Option<&Detector> = match rules {
        ArgumentSecrets::Pass => {
            let suspected = leaving
                .iter()
                .any(|one| may_hold_own_token(one.raw) || may_hold_own_token(one.name.as_bytes()));
            own_tokens().filter(|_| suspected)
        }
        ArgumentSecrets::Warn(detector) | ArgumentSecrets::Block(detector) => Some(detector),
    };
    detector.map_or_else(Vec::new, |detector| secrets(leaving, detector, excuse))
}

/// A token of ours never leaves.
fn act(rules: &ArgumentSecrets, found: &[FindingNote]) -> ScreeningAct {
    let ours = found.iter().any(|finding| finding.rule == OWN_RULE);
    match rules {
        ArgumentSecrets::Warn(_) if !ours => ScreeningAct::Warning,
        ArgumentSecrets::Pass | ArgumentSecrets::Warn(_) | ArgumentSecrets::Block(_) => ScreeningAct::Blocked,
    }
}

/// What is excused for a tool; a prompt or a resource of the same name is none.
fn excuse<'f>(context: &RequestContext, facts: &'f MessageFacts) -> Excuse<'f> {
    let called = facts.tool_name.as_deref();
    Excuse {
        server: facts.server_id.as_deref().unwrap_or_default(),
        tool: called
            .filter(|_| context.method == Method::ToolsCall)
            .unwrap_or_default(),
    }
}

fn about(
    context: &RequestContext,
    found: &[FindingNote],
    facts: &MessageFacts,
    act: ScreeningAct,
) -> ScreeningDecision {
    let counts = counted(found);
    let (mode, message) = match act {
        ScreeningAct::Blocked if found.iter().any(|finding| finding.rule == OWN_RULE) => (
            ScreeningMode::Always,
            format!("it stays here: it holds {counts}, one of the gateway's own tokens among them"),
        ),
        ScreeningAct::Blocked => (ScreeningMode::Block, format!("it stays here: it holds {counts}")),
        ScreeningAct::Warning | ScreeningAct::Redacted | ScreeningAct::Stripped => {
            (ScreeningMode::Warn, format!("it left with {counts}"))
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
        "the arguments hold what looks like a secret ({}) at {place}; leave it out",
        counted(found),
    );
    let decision = stages.decision(Verdict::Deny, by_preflight(), code);
    stages.refused_to_model(
        facts,
        decision,
        ErrorData::denied(ErrorCode::InvalidParams, message, code),
    )
}
