//! What a server asks of a client: allowed by the client's own word, by policy and by the chokepoint, put to the client
//! whose call it belongs to, and recorded like any other request.

use std::time::Duration;

use ledger::{Arrival, Ending, MessageFacts, Outcome, Status, Verdict};
use mcp::capabilities::Capabilities;
use mcp::method::of_server;
use mcp::mrtr::InputMethod;
use mcp::{Content, ErrorCode, compose};
use policy::{Grounds, Permit};
use screening::result::walk::Message;
use screening::result::{Received as _, ScreenedResult, Withheld};
use upstream::{RawParams, RawServerRequest, Reply};
use vocabulary::{ReasonCode, ReceiptId, ServerId};

use crate::call::outgoing_secrets::look_through_answer;
use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::message::ClientMessage;
use crate::outcome::no_credential;
use crate::screen::inputs::screen_form;
use crate::screen::{beside_a_call, screen};
use crate::snapshot::Snapshot;
use crate::stages::decision;
use crate::state::allowed_request::{AllowedRequest, may_ask};
use crate::state::event_budget::{EventBudget, PassedOn};

/// How long a client may think about a question.
const LONGEST_THOUGHT: Duration = Duration::from_secs(600);

/// Why a question is not put.
struct Unasked {
    code: ErrorCode,
    message: &'static str,
    grounds: Grounds,
}

/// Puts a question to the client of a session, without holding up its call.
pub(crate) async fn put_to_client(
    gateway: &Gateway,
    context: &RequestContext,
    budget: &EventBudget,
    server: &ServerId,
    question: RawServerRequest,
) {
    let (method, params, reply) = question.split();
    if budget.is_exhausted() {
        return;
    }
    let allowed = match allow(gateway, context, server, &method, params).await {
        Ok(allowed) => allowed,
        Err(refused) => {
            budget.count_request(PassedOn::Troublesome);
            return reply.send(&refused).await;
        }
    };
    budget.count_request(allowed.passed_on());
    let Some(gateway) = gateway.shared().filter(|_| budget.begin().is_some()) else {
        return reply
            .send(&compose::error_content(
                ErrorCode::InternalError,
                "too many questions are open",
            ))
            .await;
    };
    let (context, budget, server) = (context.clone(), budget.clone(), server.clone());
    tokio::spawn(async move {
        ask_in_session(&gateway, &context, &server, allowed, reply).await;
        budget.end();
    });
}

async fn ask_in_session(
    gateway: &Gateway,
    context: &RequestContext,
    server: &ServerId,
    mut allowed: AllowedRequest,
    reply: Reply,
) {
    let Some(session) = context.session() else { return };
    let mut posed = session.pose();
    let question = ClientMessage::request(posed.id(), allowed.method, allowed.params.as_ref());
    context.say(allowed.about(), &question).await;
    let answer = tokio::select! {
        answer = tokio::time::timeout(LONGEST_THOUGHT, posed.answer()) => answer.ok().flatten(),
        () = session.ended() => None,
        () = gateway.changes.stopped() => None,
    };
    drop(posed);
    let content = match answer {
        Some(_) if !allowed.is_allowed_now(&gateway.in_force(), context) => no_longer_allowed(),
        Some(content) if context.shown.behalf().is_in(content.raw()) => {
            allowed.decision.reason_codes.push(ReasonCode::DenyPassthroughBlocked);
            holds_inbound()
        }
        Some(content) => check_answer(gateway, context, server, content).await,
        None => compose::error_content(ErrorCode::InternalError, "the client did not answer in time"),
    };
    if record(gateway, context, &allowed, Some(&content)).await {
        reply.send(&content).await;
    } else {
        reply
            .send(&compose::error_content(
                ErrorCode::InternalError,
                "the gateway cannot record the answer",
            ))
            .await;
    }
}

/// What a server is told where the client's answer holds the client's own credential.
pub(crate) fn holds_inbound() -> Content {
    compose::error_content(
        ErrorCode::InternalError,
        "the client's answer holds its own credential, and stays here",
    )
}

/// What a server is told whose question was put, and whose answer may not leave any more.
pub(crate) fn no_longer_allowed() -> Content {
    compose::error_content(
        ErrorCode::Denied,
        "the policies of the gateway no longer allow this question",
    )
}

/// A client's answer leaves under the limits of arguments that are in force now, and without secrets where they are looked for.
pub(crate) async fn check_answer(
    gateway: &Gateway,
    context: &RequestContext,
    server: &ServerId,
    content: Content,
) -> Content {
    look_through_answer(gateway, context, server, within_limits(gateway, content)).await
}

/// A client's answer leaves under the limits of arguments that are in force now.
pub(crate) fn within_limits(gateway: &Gateway, content: Content) -> Content {
    let limits = gateway.in_force().limits.arguments;
    if screening::arguments::is_within(content.raw(), &limits) {
        content
    } else {
        compose::error_content(
            ErrorCode::InternalError,
            "the client's answer is beyond the gateway's limits",
        )
    }
}

/// Whether a question may be put; if not, it is on record and the content is the answer.
pub(crate) async fn allow(
    gateway: &Gateway,
    context: &RequestContext,
    server: &ServerId,
    method: &str,
    params: Option<RawParams>,
) -> Result<AllowedRequest, Content> {
    let input = InputMethod::parse(method);
    let params = match params {
        None => Ok(None),
        Some(params) => screen_params(gateway, context, server, input, params).await.map(Some),
    };
    let refusal = match (input, params) {
        (Some(input), Ok(params)) => return allow_screened(gateway, context, server, input, params).await,
        (None, Ok(_)) => Unasked::by_protocol("the client did not say that it can be asked this"),
        (_, Err(withheld)) => Unasked::by_guards(&withheld),
    };
    let facts = MessageFacts {
        method: of_server(method).to_owned(),
        ..facts_of(context, server)
    };
    let arrival = Arrival {
        receipt_id: ReceiptId::mint(),
        ..context.arrival
    };
    Err(refused(gateway, context, &arrival, facts, refusal).await)
}

fn facts_of(context: &RequestContext, server: &ServerId) -> MessageFacts {
    MessageFacts {
        server_id: Some(server.to_string()),
        era: Some(context.client.era()),
        session: context.session().map(|session| session.digest),
        ..MessageFacts::default()
    }
}

async fn screen_params(
    gateway: &Gateway,
    context: &RequestContext,
    server: &ServerId,
    method: Option<InputMethod>,
    params: RawParams,
) -> Result<ScreenedResult, Withheld> {
    let raw = params.into_raw();
    if method == Some(InputMethod::Elicit) {
        screen_form(gateway, server, raw.bytes(), context).await?;
    }
    screen(gateway, raw, &beside_a_call(server, None, Message::Other), context).await
}

/// The same for a question that crossed the chokepoint already.
pub(crate) async fn allow_screened(
    gateway: &Gateway,
    context: &RequestContext,
    server: &ServerId,
    method: InputMethod,
    params: Option<ScreenedResult>,
) -> Result<AllowedRequest, Content> {
    let raw = params.as_ref().map(|params| params.bytes().as_ref());
    let facts = MessageFacts {
        method: method.as_str().to_owned(),
        ..facts_of(context, server)
    };
    let arrival = Arrival {
        receipt_id: ReceiptId::mint(),
        size_bytes_in: raw.map_or(0, <[u8]>::len) as u64,
        began: std::time::Instant::now(),
        ..context.arrival
    };
    let in_force = gateway.in_force();
    match decide(&in_force, context, server, method, raw) {
        Ok((permit, grounds)) => Ok(AllowedRequest {
            method,
            params,
            facts,
            decision: decision(&in_force, Verdict::Allow, grounds.policy_id, grounds.code),
            arrival,
            server: server.clone(),
            _permit: permit,
        }),
        Err(unasked) => Err(refused(gateway, context, &arrival, facts, unasked).await),
    }
}

/// Puts on record why a question is not put; what its server is told.
async fn refused(
    gateway: &Gateway,
    context: &RequestContext,
    arrival: &Arrival,
    message: MessageFacts,
    unasked: Unasked,
) -> Content {
    let Grounds { policy_id, code, .. } = unasked.grounds;
    let ending = Ending::Refused {
        who: context.who.clone(),
        message,
        decision: decision(&gateway.in_force(), Verdict::Deny, policy_id, code),
    };
    // What is refused is refused, on record or not.
    let _ = gateway.ledger.append(arrival, ending, 0).await;
    compose::error_content(unasked.code, unasked.message)
}

fn decide(
    in_force: &Snapshot,
    context: &RequestContext,
    server: &ServerId,
    method: InputMethod,
    params: Option<&[u8]>,
) -> Result<(Permit, Grounds), Unasked> {
    let none = Capabilities::default();
    let declared = context
        .client
        .capabilities()
        .map_or(&none, |capabilities| capabilities.declared());
    if !declared.allows(method, params) {
        return Err(Unasked::by_protocol("the client did not say that it can be asked this"));
    }
    if !url_is_safe(method, params) {
        return Err(Unasked::by_protocol(
            "a URL that a user is sent to must begin with https://",
        ));
    }
    if in_force.server(server).is_some_and(|server| server.is_shared()) {
        return Err(Unasked::by_protocol("a server that is shared cannot ask a client"));
    }
    may_ask(in_force, context, server, (method, params.unwrap_or_default())).map_err(Unasked::by_policy)
}

/// Puts a question on record, with its answer or, where that comes with another request, without;
/// says whether that could be done.
pub(crate) async fn record(
    gateway: &Gateway,
    context: &RequestContext,
    allowed: &AllowedRequest,
    content: Option<&Content>,
) -> bool {
    let (status, executed, size) = match content {
        None => (Status::Success, None, 0),
        Some(Content::Result(raw)) => (Status::Success, Some(true), raw.len()),
        Some(Content::Error(raw)) => (Status::Error, Some(true), raw.len()),
    };
    let ending = Ending::Called {
        who: context.who.clone(),
        message: allowed.facts.clone(),
        decision: allowed.decision.clone(),
        credential: no_credential(),
        outcome: Outcome {
            status,
            executed,
            screening: Vec::new(),
        },
    };
    gateway
        .ledger
        .append(&allowed.arrival, ending, size as u64)
        .await
        .is_ok()
}

impl Unasked {
    fn by_protocol(message: &'static str) -> Self {
        Self {
            code: ErrorCode::MethodNotFound,
            message,
            grounds: Grounds::new("builtin:protocol".into(), ReasonCode::DenyMalformed),
        }
    }

    fn by_guards(withheld: &Withheld) -> Self {
        Self {
            code: ErrorCode::InvalidParams,
            message: "the question may not be passed on",
            grounds: Grounds::new("builtin:guards".into(), withheld.code),
        }
    }

    fn by_policy(grounds: Grounds) -> Self {
        Self {
            code: ErrorCode::Denied,
            message: "the policies of the gateway do not allow this question",
            grounds,
        }
    }
}

/// A form needs no URL; a page that a user is sent to must be one nobody on the way can change.
fn url_is_safe(method: InputMethod, params: Option<&[u8]>) -> bool {
    let Some(params) = params.filter(|_| method == InputMethod::Elicit) else {
        return true;
    };
    match mcp::server::text_member(params, "mode").as_deref() {
        Some("url") => mcp::server::text_member(params, "url").is_some_and(|url| url.starts_with("https://")),
        _ => true,
    }
}
