//! The two eras of the protocol: which one a request is of, and what each of its methods leads to.

pub(crate) mod version;
pub(crate) mod initialize;
pub(crate) mod begin;
pub(crate) mod legacy;
pub(crate) mod modern;

use mcp::{ErrorCode, Method, Request};
use policy::{Class, OverLimit, Subject};
use vocabulary::{ReasonCode, Risk};

use crate::context::Ended;
use crate::context::incoming::IncomingRequest;
use crate::gateway::Gateway;
use crate::message::error_data::ErrorData;
use crate::outcome::{BY_INCIDENT, sentence};
use crate::reply::Prepared;
use crate::stages::class_of;
use crate::state::incidents::Says;

/// One request, its method known: of either era.
pub(crate) async fn serve(gateway: &Gateway, incoming: &IncomingRequest, request: &Request) -> Ended {
    if let Some(denied) = by_incident(gateway, incoming, request) {
        return denied;
    }
    if let Some(refused) = over_limit(gateway, incoming, request).await {
        return refused;
    }
    if version::is_modern(incoming.head.headers(), request.params()) {
        modern::serve(gateway, incoming, request).await
    } else {
        legacy::serve(gateway, incoming, request).await
    }
}

/// Denied by an incident, of what is answered here; what goes to a server is judged where its risk is known.
fn by_incident(gateway: &Gateway, incoming: &IncomingRequest, request: &Request) -> Option<Ended> {
    let subject = Subject {
        who: incoming.head.who(),
        server: incoming.route.server(),
        tool: None,
        risk: Risk::Low,
    };
    if !is_answered_here(request.method()) || gateway.incidents.of(&subject) != Says::Denied {
        return None;
    }
    let code = ReasonCode::DenyKillSwitch;
    let data = ErrorData::denied(ErrorCode::Denied, sentence(code), code);
    let reply = Prepared::refusal(Some(request.id().clone()), data);
    Some(incoming.with_message(request).refused_by(BY_INCIDENT, code, reply))
}

/// Refused before anything is done: whoever does not read what was answered, or asks too often for what is answered here.
/// What goes to a server is counted with its decision.
async fn over_limit(gateway: &Gateway, incoming: &IncomingRequest, request: &Request) -> Option<Ended> {
    let who = incoming.head.who();
    let over = if !gateway.unread.has_room_for(who) {
        OverLimit {
            code: ReasonCode::DenyConcurrency,
            retry_after: None,
        }
    } else if is_answered_here(request.method()) {
        admit_own(gateway, incoming, request).await.err()?
    } else {
        return None;
    };
    let data = ErrorData {
        retry_after_ms: over.retry_after_ms(),
        ..ErrorData::denied(ErrorCode::Denied, sentence(over.code), over.code)
    };
    let reply = Prepared::refusal(Some(request.id().clone()), data);
    let context = incoming.with_message(request);
    Some(context.refused_by("builtin:limits", over.code, reply))
}

/// Counts a request in that is answered here. A server that is not configured counts as none: a path may name any.
async fn admit_own(gateway: &Gateway, incoming: &IncomingRequest, request: &Request) -> Result<(), OverLimit> {
    let (snapshot, headers) = (&incoming.snapshot, incoming.head.headers());
    let has_session = snapshot.limiter.counts_sessions(Class::List) && !version::is_modern(headers, request.params());
    let who = incoming.head.who();
    let session = has_session
        .then(|| legacy::session_of(gateway, who, headers).ok())
        .flatten();
    let counted = policy::Request {
        who,
        session: session.map(|session| session.digest),
        server: incoming.route.server().filter(|id| snapshot.server(id).is_some()),
        tool: None,
        class: class_of(request.method()),
    };
    snapshot.limiter.admit_own(&counted).await
}

/// Whether a method is answered without a decision about a target: by us, or from the lists of servers.
fn is_answered_here(method: &Method) -> bool {
    match method {
        Method::Initialize
        | Method::Discover
        | Method::Ping
        | Method::ToolsList
        | Method::ResourcesList
        | Method::TemplatesList
        | Method::PromptsList
        | Method::TasksList
        | Method::SetLevel
        | Method::Listen => true,
        Method::ToolsCall
        | Method::ResourcesRead
        | Method::Subscribe
        | Method::Unsubscribe
        | Method::PromptsGet
        | Method::Complete
        | Method::TasksGet
        | Method::TasksUpdate
        | Method::TasksCancel
        | Method::TasksResult
        | Method::Other(_) => false,
    }
}
