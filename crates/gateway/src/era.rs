//! The two eras of the protocol: which one a request is of, and what each of its methods leads to.

pub(crate) mod version;
pub(crate) mod initialize;
pub(crate) mod begin;
pub(crate) mod legacy;
pub(crate) mod modern;

use mcp::{ErrorCode, Method, Request};
use policy::OverLimit;
use vocabulary::ReasonCode;

use crate::context::Ended;
use crate::context::incoming::IncomingRequest;
use crate::gateway::Gateway;
use crate::message::error_data::ErrorData;
use crate::outcome::sentence;
use crate::reply::Prepared;

/// One request, its method known: of either era.
pub(crate) async fn serve(gateway: &Gateway, incoming: &IncomingRequest, request: &Request) -> Ended {
    if let Some(refused) = over_limit(gateway, incoming, request) {
        return refused;
    }
    if version::is_modern(incoming.head.headers(), request.params()) {
        modern::serve(gateway, incoming, request).await
    } else {
        legacy::serve(gateway, incoming, request).await
    }
}

/// Refused before anything is done: whoever does not read what was answered, or asks too often for what is answered here.
/// What goes to a server is counted with its decision.
fn over_limit(gateway: &Gateway, incoming: &IncomingRequest, request: &Request) -> Option<Ended> {
    let who = incoming.head.who();
    let over = if !gateway.unread.has_room_for(who) {
        OverLimit {
            code: ReasonCode::DenyConcurrency,
            retry_after: None,
        }
    } else if is_answered_here(request.method()) {
        incoming.snapshot.limiter.admit_own(who).err()?
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
