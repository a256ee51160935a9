//! Takes a permitted request to its server: intent, credential, dispatch; [`answer`](crate::call::answer) brings back what
//! came. From medium risk on, the intent is on record before the request leaves.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ledger::{DecisionFacts, Intent, MessageFacts, Verdict};
use mcp::compose::Progress;
use mcp::headers::Marks;
use mcp::translate::ResultKind;
use mcp::{Era, Method, Request};
use policy::{ApprovedCall, Decision, Permit, Target};
use screening::arguments::{Checked, Member};
use upstream::{
    Blocked, Dispatched, Failure, Guest, OutgoingRequest, PreparedCall, RoundInput, SeenConfinement, Server, TaskMode,
    UpstreamCredential, prepare,
};
use vocabulary::Risk;

use crate::call::answer::{arrive, screened};
use crate::call::forwarded::{Forwarded, TaskOfCall};
use crate::call::rounds::ask::send_in_rounds;
use crate::call::rounds::binding::Binding;
use crate::call::rounds::park::{park, resume};
use crate::call::rounds::question::still_asked;
use crate::call::rounds::state::{self, Round};
use crate::call::send::send;
use crate::call::subscribe::{Noted, note_subscription, subscribe_here, too_many};
use crate::call::task;
use crate::context::Ended;
use crate::delivery::Asked;
use crate::offers::Offers;
use crate::outcome::{CallRecord, credential_facts, no_credential};
use crate::stages::{Decided, Stages, decision};

/// Everything a permitted request takes along.
pub(crate) struct Permitted<'a> {
    pub(crate) decided: Decided,
    pub(crate) facts: MessageFacts,
    pub(crate) sent: Sent<'a>,
    pub(crate) kind: ResultKind,
}

/// What is sent, and what its server is told with it.
pub(crate) struct Sent<'a> {
    /// What was checked; its bytes are what is sent.
    pub(crate) checked: &'a dyn Checked,
    /// The server's own id of the task it is about, as the literal it sent.
    pub(crate) task_id: Option<Vec<u8>>,
    pub(crate) marks: &'a Marks,
    /// Whether the tool runs as a task of the legacy era only.
    pub(crate) needs_task: bool,
}

/// See the module. What comes back while an incident denies it, is dropped.
pub(crate) async fn forward(
    stages: &Stages<'_>,
    request: &Request,
    permitted: Permitted<'_>,
) -> Result<Ended, Box<Ended>> {
    let target = permitted.decided.permit.target().clone();
    let risk = permitted.facts.risk.unwrap_or_else(|| target.risk());
    let _ = stages.about.set((target, risk));
    let ended = carry(stages, request, permitted).await?;
    Ok(match stages.is_denied_by_incident() {
        true => stages.dropped(ended),
        false => ended,
    })
}

async fn carry(stages: &Stages<'_>, request: &Request, permitted: Permitted<'_>) -> Result<Ended, Box<Ended>> {
    let Decided {
        permit,
        facts: decision,
        approved,
        slot,
    } = permitted.decided;
    let (facts, sent) = (permitted.facts, permitted.sent);
    let mut record = CallRecord {
        facts,
        decision,
        credential: no_credential(),
    };
    let target = permit.target().clone();
    let Some(server) = stages.snapshot.server(target.server()) else {
        return Ok(stages.failed(record, &Failure::SessionGone));
    };
    record.credential = credential_facts(&server.credential().origin());
    let era = match pinned_era(stages, server).await {
        Ok(era) => era,
        Err(failure) => return Ok(stages.failed(record, &failure)),
    };
    let binding = Binding::of(stages.context, permit.action(), &target, sent.checked.digest());
    let asked = asked(stages, request, (&permit, approved.as_ref()), &sent);
    let round = state::read(stages, request, &binding)?;
    let guest = stages.context.guest();
    let credential = match announced_credential(stages, &record, server, &guest).await? {
        Ok(credential) => credential,
        Err(failure) => return Ok(stages.failed(record, &failure)),
    };
    record.credential = credential_facts(credential.origin());
    let permit = up_to_date(stages, &asked, (permit, approved.as_ref()), &mut record)?;
    still_asked(stages, request, (server.id(), era, &round), &record.facts)?;
    let forwarded = Forwarded {
        server: server.clone(),
        era,
        method: request.method().clone(),
        target,
        kind: permitted.kind,
        binding,
        task: task_of_call(stages, request, era),
        record,
        confinement: SeenConfinement::default(),
        asked,
        approved,
        slot: Some(slot),
    };
    if era == Era::Modern && is_subscription(request.method()) {
        return Ok(Box::pin(subscribe_here(stages, forwarded)).await);
    }
    let leaving = Leaving {
        permit,
        guest,
        credential,
        sent,
        round,
    };
    Ok(leave(stages, request, forwarded, leaving).await)
}

/// The credential, fetched while the intent is put on record.
async fn announced_credential(
    stages: &Stages<'_>,
    record: &CallRecord,
    server: &Server,
    guest: &Guest,
) -> Result<Result<UpstreamCredential, Failure>, Box<Ended>> {
    let announced = announce(stages, &record.facts, &record.decision);
    let (announced, credential) = tokio::join!(announced, server.credential_for(&guest.behalf));
    announced.map(|()| credential)
}

fn asked(
    stages: &Stages<'_>,
    request: &Request,
    (permit, approved): (&Permit, Option<&ApprovedCall>),
    sent: &Sent<'_>,
) -> Arc<Asked> {
    let (address, policy) = (stages.context.arrival.address, &stages.snapshot.policy);
    Asked::new(
        request,
        permit,
        sent.checked.digest(),
        address,
        (policy, approved.is_some()),
    )
}

/// What goes to a server now.
struct Leaving<'a> {
    permit: Permit,
    guest: Guest,
    credential: UpstreamCredential,
    sent: Sent<'a>,
    round: Round,
}

/// A new call, or answers to a call that waits for them.
async fn leave(stages: &Stages<'_>, request: &Request, forwarded: Forwarded, leaving: Leaving<'_>) -> Ended {
    let Leaving {
        permit,
        guest,
        credential,
        sent,
        round,
    } = leaving;
    match round {
        // They go to whom the first request asked, and were shown with this one.
        Round::Parked(_, answers) if holds_inbound(stages, &answers) => {
            forwarded.fail(stages, &Failure::BlockedLater(Blocked::Passthrough))
        }
        Round::Parked(parked, answers) => match permit.spend(sent.checked.digest(), epoch(stages)) {
            Ok(_) => Box::pin(resume(stages, request, forwarded, *parked, answers)).await,
            Err(_) => forwarded.fail(stages, &Failure::Permit),
        },
        Round::ToServer(round) => {
            let outgoing = outgoing(stages, request, &forwarded, sent, (guest, credential, round));
            match prepare(permit, outgoing) {
                Ok(prepared) => dispatch(stages, request, forwarded, prepared).await,
                Err(failure) => forwarded.fail(stages, &failure),
            }
        }
    }
}

fn holds_inbound(stages: &Stages<'_>, answers: &[(String, Bytes)]) -> bool {
    let behalf = stages.context.shown.behalf();
    answers.iter().any(|(_, answer)| behalf.is_in(answer))
}

/// The era to speak to a server in. What was decided about is a definition of an era: only there it is what was pinned.
async fn pinned_era(stages: &Stages<'_>, server: &Arc<Server>) -> Result<Era, Failure> {
    let client = stages.context.client.era();
    let era = server.era_for(stages.snapshot.era_toward(server.id(), client)).await?;
    match stages.snapshot.is_pinned_in(server.id(), era) {
        true => Ok(era),
        false => Err(Failure::Version),
    }
}

/// The request as its server gets it: built from nothing but what was checked, with that server's own credential.
fn outgoing<'a>(
    stages: &Stages<'_>,
    request: &Request,
    forwarded: &'a Forwarded,
    sent: Sent<'a>,
    (guest, credential, round): (Guest, UpstreamCredential, RoundInput),
) -> OutgoingRequest<'a> {
    let (context, server) = (stages.context, &forwarded.server);
    OutgoingRequest {
        server,
        era: forwarded.era,
        guest,
        credential,
        checked: sent.checked,
        left_out: left_out(stages, forwarded),
        task_id: sent.task_id,
        round,
        progress: progress(request),
        log_level: context.client.log_level().map(mcp::translate::LogLevel::as_str),
        marks: sent.marks,
        trace: context.arrival.trace_id,
        epoch: epoch(stages),
        tasks: task_mode(stages, request, server, forwarded.era, sent.needs_task),
        timeout: timeout(stages, request, &forwarded.target),
    }
}

/// How long a call of this tool may take, where the operator says so of it.
fn timeout(stages: &Stages<'_>, request: &Request, target: &Target) -> Option<Duration> {
    match target {
        Target::Tool(entry) if *request.method() == Method::ToolsCall => stages.snapshot.limiter.timeout_of(&entry.id),
        Target::Tool(_) | Target::Resource { .. } | Target::Prompt { .. } | Target::Server(_) => None,
    }
}

/// The permit, or another one where the rules changed since it was given: then they are asked again. None where an incident
/// has begun.
fn up_to_date(
    stages: &Stages<'_>,
    asked: &Asked,
    (permit, approved): (Permit, Option<&ApprovedCall>),
    record: &mut CallRecord,
) -> Result<Permit, Box<Ended>> {
    // Since the decision others were waited for.
    if stages.is_denied_by_incident() {
        return Err(stages.by_incident(&record.facts));
    }
    let in_force = stages.gateway.in_force();
    if permit.is_of(in_force.policy.epoch()) {
        return Ok(permit);
    }
    match asked.decide_again(&in_force) {
        Decision::Allow(permit, grounds) => {
            record.decision = decision(&in_force, Verdict::Allow, grounds.policy_id, grounds.code);
            Ok(permit)
        }
        Decision::RequireApproval(wanted, grounds) => {
            // Still what was approved: then it is approved.
            let permit =
                approved.and_then(|approved| wanted.beside(approved.approval().plan.beside).going_on(approved));
            permit.ok_or_else(|| stages.denied_by(&in_force, &record.facts, Verdict::RequireApproval, grounds))
        }
        Decision::Deny(grounds) => Err(stages.denied_by(&in_force, &record.facts, Verdict::Deny, grounds)),
    }
}

/// The one in force now: a permit of rules that were replaced meanwhile is void.
fn epoch(stages: &Stages<'_>) -> u64 {
    stages.gateway.in_force().policy.epoch()
}

/// From medium risk on, the intent is on record before the request leaves; below, the log must at least work.
async fn announce(stages: &Stages<'_>, facts: &MessageFacts, decision: &DecisionFacts) -> Result<(), Box<Ended>> {
    let ledger = &stages.gateway.ledger;
    if facts.risk >= Some(Risk::Medium) {
        let intent = Intent {
            who: stages.context.who.clone(),
            message: facts.clone(),
            decision: decision.clone(),
        };
        let written = ledger.append_intent(&stages.context.arrival, intent).await;
        written.map(drop).map_err(|_| stages.unrecordable(facts))
    } else if ledger.is_healthy() {
        Ok(())
    } else {
        Err(stages.unrecordable(facts))
    }
}

/// The way a request goes, by the eras of its client and its server. The rarer ways are boxed: the common one stays small.
async fn dispatch(stages: &Stages<'_>, request: &Request, mut forwarded: Forwarded, prepared: PreparedCall) -> Ended {
    forwarded.confinement = prepared.confinement();
    match (stages.context.client.era(), forwarded.era) {
        (Era::Modern, Era::Legacy) => Box::pin(park(stages, request, forwarded, prepared)).await,
        (Era::Legacy, Era::Modern) => Box::pin(send_in_rounds(stages, request, forwarded, prepared)).await,
        (Era::Legacy, Era::Legacy) | (Era::Modern, Era::Modern) => {
            let mut prepared = prepared;
            let dispatched = send(stages, request, &forwarded, &mut prepared).await;
            if is_subscription(request.method()) && matches!(dispatched, Ok(Dispatched::Result(_))) {
                let noted = Box::pin(note_subscription(stages, &forwarded)).await;
                if noted == Noted::TooMany {
                    return forwarded.end(stages, too_many(stages));
                }
            }
            match dispatched {
                Ok(Dispatched::Result(raw)) if forwarded.task.is_of_session() => {
                    match screened(stages, &forwarded, raw).await {
                        Ok(answer) => {
                            let outcome = task::adapt_of_session(stages, &forwarded, answer.result);
                            forwarded.end(stages, outcome)
                        }
                        Err(withheld) => forwarded.withhold(stages, &withheld),
                    }
                }
                other => arrive(stages, forwarded, other).await,
            }
        }
    }
}

fn is_subscription(method: &Method) -> bool {
    matches!(method, Method::Subscribe | Method::Unsubscribe)
}

/// Tasks of servers with sessions stay within their era.
fn task_of_call(stages: &Stages<'_>, request: &Request, era: Era) -> TaskOfCall {
    let name = || request.params().text("taskId").unwrap_or_default().into_owned();
    let within_sessions = era == Era::Legacy && stages.context.client.era() == Era::Legacy;
    match request.method() {
        Method::ToolsCall if within_sessions && request.params().raw("task").is_some() => {
            TaskOfCall::OfSession(String::new())
        }
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel | Method::TasksResult | Method::TasksList => {
            if within_sessions {
                TaskOfCall::OfSession(name())
            } else {
                TaskOfCall::About(name())
            }
        }
        Method::ToolsCall
        | Method::Initialize
        | Method::Discover
        | Method::Ping
        | Method::ToolsList
        | Method::ResourcesList
        | Method::TemplatesList
        | Method::ResourcesRead
        | Method::Subscribe
        | Method::Unsubscribe
        | Method::PromptsList
        | Method::PromptsGet
        | Method::Complete
        | Method::SetLevel
        | Method::Listen
        | Method::Other(_) => TaskOfCall::None,
    }
}

/// A client's wish for a task goes along only where client and server mean the same by it.
fn left_out(stages: &Stages<'_>, forwarded: &Forwarded) -> &'static [&'static str] {
    let both_modern = (stages.context.client.era(), forwarded.era) == (Era::Modern, Era::Modern);
    if forwarded.task.is_of_session() || both_modern {
        &[]
    } else {
        &["task"]
    }
}

/// Across eras the client knows of no tasks: the call itself sees one through that it becomes. A
/// legacy server makes one only where it is asked to, a modern one where it wants to.
fn task_mode(stages: &Stages<'_>, request: &Request, server: &Server, era: Era, needs_task: bool) -> TaskMode {
    let call = *request.method() == Method::ToolsCall;
    let seen_through = match (stages.context.client.era(), era) {
        (Era::Modern, Era::Legacy) => call && needs_task && Offers::by(server, Era::Legacy).session_tasks,
        (Era::Legacy, Era::Modern) => call,
        (Era::Legacy, Era::Legacy) | (Era::Modern, Era::Modern) => false,
    };
    if seen_through {
        TaskMode::Gateway
    } else {
        TaskMode::Client
    }
}

/// The client's own `_meta` keys that go along.
pub(crate) fn passed_meta(request: &Request) -> Vec<Member<'_>> {
    request
        .params()
        .meta_members()
        .filter(|(name, _)| is_passed(name))
        .collect()
}

/// Not the protocol's keys, not ours, no trace of another hop.
pub(crate) fn is_passed(name: &str) -> bool {
    !matches!(name, "progressToken" | "traceparent" | "tracestate" | "baggage")
        && !name.starts_with("io.modelcontextprotocol/")
        && !name.starts_with("portreeve/")
}

fn progress(request: &Request) -> Progress {
    if request.params().meta("progressToken").is_some() {
        Progress::Wanted
    } else {
        Progress::Unwanted
    }
}
