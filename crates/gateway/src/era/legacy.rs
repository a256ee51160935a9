//! The legacy era: `initialize` opens a session, `DELETE` ends it, and in between every request, notification and answer
//! belongs to it.
//! ADR 0018: what the gateway answers itself.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use ledger::{CredentialFacts, DecisionFacts, Ending, MessageFacts, Outcome, Status, TokenMode, Verdict};
use mcp::http::SESSION_ID;
use mcp::translate::LogLevel;
use mcp::{ClientNotice, ErrorCode, Method, Notification, Request, Response, Version};
use upstream::ListKind;
use vocabulary::{Era, Principal, ReasonCode};

use crate::call::method;
use crate::context::client::Client;
use crate::context::incoming::IncomingRequest;
use crate::context::{Ended, builtin, recorded_word};
use crate::era::begin::{call_tool, is_extension, stages_of};
use crate::era::initialize::initialize_result;
use crate::era::version::{is_modern, names_no_session_version};
use crate::events::server_request::holds_inbound;
use crate::gateway::Gateway;
use crate::list;
use crate::message::OwnResult;
use crate::message::error_data::ErrorData;
use crate::offers::Offers;
use crate::outcome::{answered_here, no_credential, sentence};
use crate::reply::{Effect, Prepared};
use crate::session::Session;
use crate::session::capabilities::ClientCapabilities;
use crate::stages::Stages;
use crate::stream::standing;

/// One request in a session, or the one that opens it.
pub(crate) async fn serve(gateway: &Gateway, incoming: &IncomingRequest, request: &Request) -> Ended {
    let mut context = incoming.with_message(request);
    if *request.method() == Method::Initialize {
        let opened = open_session(gateway, incoming, request);
        let Some((id, session)) = opened else {
            let message = "no further session can be opened now; end one first";
            return context.refused_by_status(StatusCode::SERVICE_UNAVAILABLE, request, message);
        };
        context.client = Client::Legacy(session.clone());
        // What is offered is known once the servers were asked.
        let stages = stages_of(gateway, incoming, &context, request).await;
        return initialized(&stages, id, session);
    }
    context.client = match session_of(gateway, incoming.head.who(), incoming.head.headers()) {
        Ok(session) => Client::Legacy(session),
        Err((status, message)) => return context.refused_by_status(status, request, message),
    };
    let stages = stages_of(gateway, incoming, &context, request).await;
    answer(&stages, request).await
}

/// What each method leads to.
async fn answer(stages: &Stages<'_>, request: &Request) -> Ended {
    match request.method() {
        Method::Ping => stages.answered(OwnResult::empty()),
        Method::ToolsList => list::answer(stages, request, ListKind::Tools).await,
        Method::PromptsList => list::answer(stages, request, ListKind::Prompts).await,
        Method::ResourcesList => list::answer(stages, request, ListKind::Resources).await,
        Method::TemplatesList => list::answer(stages, request, ListKind::Templates).await,
        Method::TasksList => list::answer(stages, request, ListKind::Tasks).await,
        Method::ToolsCall => call_tool(stages, request).await,
        Method::ResourcesRead
        | Method::Subscribe
        | Method::Unsubscribe
        | Method::PromptsGet
        | Method::Complete
        | Method::TasksGet
        | Method::TasksCancel
        | Method::TasksResult => Box::pin(method::call(stages, request)).await,
        Method::SetLevel => set_level(stages, request),
        Method::Other(name) if is_extension(&stages.snapshot, stages.context.route.server(), name) => {
            Box::pin(method::call(stages, request)).await
        }
        Method::Initialize | Method::Discover | Method::Listen | Method::TasksUpdate | Method::Other(_) => {
            stages.context.no_such_method(request)
        }
    }
}

/// The level is kept here and told to servers with the next request.
fn set_level(stages: &Stages<'_>, request: &Request) -> Ended {
    let context = stages.context;
    let offered = Offers::of(&stages.snapshot, &context.who, &context.route, Era::Legacy).logging;
    let level = request.params().text("level").and_then(|level| LogLevel::parse(&level));
    match (context.session(), level) {
        _ if !offered => context.no_such_method(request),
        (Some(session), Some(level)) => {
            session.set_level(level);
            stages.answered(OwnResult::empty())
        }
        _ => context.refused_with(
            request,
            ErrorCode::InvalidParams,
            "`level` must be one of the eight log levels",
        ),
    }
}

fn open_session(gateway: &Gateway, incoming: &IncomingRequest, request: &Request) -> Option<(String, Arc<Session>)> {
    let requested = request.params().text("protocolVersion").unwrap_or_default();
    let capabilities = request.params().raw("capabilities");
    let capabilities = capabilities.map_or_else(ClientCapabilities::none, ClientCapabilities::read);
    let version = Version::negotiate(&requested);
    gateway.sessions.open(incoming.head.who(), version, capabilities)
}

fn initialized(stages: &Stages<'_>, id: String, session: Arc<Session>) -> Ended {
    let (context, snapshot) = (stages.context, &stages.snapshot);
    let result = initialize_result(snapshot, &context.who, &context.route, session.version);
    let mut ended = stages.answered(result);
    ended.reply = ended.reply.with_session(id).with_effect(Effect::Opened(session));
    ended
}

/// A notification gets no answer and no record, unless it is refused.
///
/// # Errors
/// When it belongs to no session.
pub(crate) fn take(
    gateway: &Gateway,
    incoming: &IncomingRequest,
    notification: &Notification,
) -> Result<(), Box<Ended>> {
    if is_modern(incoming.head.headers(), notification.params()) {
        // Closing the stream is how a modern client cancels; there is nothing else it could tell.
        return Ok(());
    }
    match session_of(gateway, incoming.head.who(), incoming.head.headers()) {
        Ok(session) => {
            if *notification.method() == ClientNotice::Cancelled
                && let Some(id) = notification.params().raw("requestId")
            {
                session.cancel(id);
            }
            Ok(())
        }
        Err((status, message)) => Err(Box::new(turned_away(incoming, notification, status, message))),
    }
}

fn turned_away(incoming: &IncomingRequest, notification: &Notification, status: StatusCode, message: &str) -> Ended {
    let code = ReasonCode::DenyMalformed;
    let facts = MessageFacts {
        method: recorded_word(notification.method().as_str()),
        server_id: incoming.route.recorded_server(),
        era: Some(Era::Legacy),
        ..MessageFacts::default()
    };
    Ended {
        ending: Ending::Refused {
            who: incoming.head.who().clone(),
            message: facts,
            decision: builtin(Verdict::Deny, code, incoming.snapshot.policy.epoch()),
        },
        reply: Prepared::status(status, None, message, code),
    }
}

/// An answer of a client to a server's question: taken in a session that waits for it.
///
/// # Errors
/// When nobody asked.
pub(crate) fn take_response(
    gateway: &Gateway,
    incoming: &IncomingRequest,
    response: Response,
) -> Result<(), Box<Ended>> {
    let nobody_asked = (StatusCode::BAD_REQUEST, "nothing was asked that this could answer");
    let headers = incoming.head.headers();
    let (status, message) = if names_no_session_version(headers) {
        nobody_asked
    } else {
        match session_of(gateway, incoming.head.who(), headers) {
            Ok(session) if incoming.head.shown().behalf().is_in(response.content.raw()) => {
                // Whoever asked need not wait for what does not come.
                session.settle(response.id.as_raw(), holds_inbound());
                return Err(Box::new(passed_through(incoming)));
            }
            Ok(session) if session.settle(response.id.as_raw(), response.content) => return Ok(()),
            Ok(_) => nobody_asked,
            Err(refusal) => refusal,
        }
    };
    Err(Box::new(incoming.unreadable(status, message)))
}

/// An answer to a server's question with the credential in it that it was shown with.
fn passed_through(incoming: &IncomingRequest) -> Ended {
    let code = ReasonCode::DenyPassthroughBlocked;
    let facts = MessageFacts {
        server_id: incoming.route.recorded_server(),
        era: Some(Era::Legacy),
        ..MessageFacts::default()
    };
    Ended {
        ending: Ending::Called {
            who: incoming.head.who().clone(),
            message: facts,
            decision: DecisionFacts {
                policy_id: "builtin:credentials".into(),
                ..builtin(Verdict::Deny, code, incoming.snapshot.policy.epoch())
            },
            credential: CredentialFacts {
                mode: TokenMode::Blocked,
                ..no_credential()
            },
            outcome: Outcome {
                status: Status::Error,
                executed: Some(false),
                screening: Vec::new(),
            },
        },
        reply: Prepared::refusal(None, ErrorData::denied(ErrorCode::Denied, sentence(code), code))
            .with_status(StatusCode::FORBIDDEN),
    }
}

/// Whether the body may be a batch: the session's version has them.
pub(crate) fn takes_batches(gateway: &Gateway, incoming: &IncomingRequest) -> bool {
    session_of(gateway, incoming.head.who(), incoming.head.headers())
        .is_ok_and(|session| session.version == Version::March2025)
}

/// `GET` with a session id opens or resumes a stream of that session.
pub(crate) async fn open_stream(gateway: &Gateway, incoming: IncomingRequest) -> Ended {
    match session_by_verb(gateway, &incoming, "GET opens a stream of a session and needs its id") {
        Ok(session) => standing::open(gateway, incoming, session).await,
        Err(ended) => *ended,
    }
}

/// `DELETE` with a session id ends that session.
pub(crate) fn end_session(gateway: &Gateway, incoming: IncomingRequest) -> Ended {
    let session = match session_by_verb(gateway, &incoming, "DELETE ends a session and needs its id") {
        Ok(session) => session,
        Err(ended) => return *ended,
    };
    let snapshot = incoming.snapshot.clone();
    let reply = Prepared::empty(StatusCode::NO_CONTENT).with_effect(Effect::Ends(session.clone()));
    answered_here(&incoming.without_message(session), &snapshot, reply)
}

fn session_by_verb(
    gateway: &Gateway,
    incoming: &IncomingRequest,
    without_id: &str,
) -> Result<Arc<Session>, Box<Ended>> {
    session_of(gateway, incoming.head.who(), incoming.head.headers()).map_err(|(status, message)| {
        Box::new(match status {
            StatusCode::BAD_REQUEST => incoming.unreadable(StatusCode::METHOD_NOT_ALLOWED, without_id),
            status => incoming.unreadable(status, message),
        })
    })
}

/// The session a request names: missing is 400, anything but the principal's own is 404.
pub(super) fn session_of(
    gateway: &Gateway,
    who: &Principal,
    headers: &HeaderMap,
) -> Result<Arc<Session>, (StatusCode, &'static str)> {
    let mut ids = headers.get_all(SESSION_ID).iter();
    let id = match (ids.next(), ids.next()) {
        (Some(id), None) => id,
        _ => {
            return Err((
                StatusCode::BAD_REQUEST,
                "one Mcp-Session-Id header is needed; start with `initialize`",
            ));
        }
    };
    let found = id.to_str().ok().and_then(|id| gateway.sessions.find(id, who));
    let session = found.ok_or((
        StatusCode::NOT_FOUND,
        "there is no such session; start again with `initialize`",
    ))?;
    // Another version that we speak is no reason to refuse: the session's own one counts.
    if names_no_session_version(headers) {
        return Err((
            StatusCode::BAD_REQUEST,
            "MCP-Protocol-Version names no version with sessions that is spoken here",
        ));
    }
    Ok(session)
}
