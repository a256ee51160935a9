//! `resources/subscribe` and `resources/unsubscribe` of clients with sessions: what they subscribed
//! to is kept with the session. A legacy server keeps it too; a modern one is listened to instead.

use ledger::Status;
use mcp::{ErrorCode, Method};
use policy::Target;
use vocabulary::ReasonCode;

use crate::call::forwarded::Forwarded;
use crate::context::{Ended, RequestContext};
use crate::message::OwnResult;
use crate::message::error_data::ErrorData;
use crate::outcome::CallOutcome;
use crate::reply::Prepared;
use crate::reply::stream::ResponseStream;
use crate::stages::Stages;
use crate::stream::standing::listen_for;

/// What became of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Noted {
    /// It is kept, and its server has taken it.
    Heard,
    /// It is kept; whether its server will tell is not known.
    Unheard,
    /// The session has too many.
    TooMany,
}

/// Keeps what a client subscribed to, or no longer is.
pub(crate) async fn note_subscription(stages: &Stages<'_>, forwarded: &Forwarded) -> Noted {
    let (Some(session), Target::Resource { server, uri }) = (stages.context.session(), &forwarded.target) else {
        return Noted::Unheard;
    };
    if forwarded.method == Method::Unsubscribe {
        session.unsubscribe(server, uri);
    } else if !session.subscribe(server, uri) {
        return Noted::TooMany;
    }
    match standing(stages.context) {
        Some(standing) if listen_for(stages.gateway, &standing, &forwarded.server).await => Noted::Heard,
        Some(_) | None => Noted::Unheard,
    }
}

/// Answers for a modern server, which knows no such method.
pub(crate) async fn subscribe_here(stages: &Stages<'_>, forwarded: Forwarded) -> Ended {
    let noted = note_subscription(stages, &forwarded).await;
    let reply = Prepared::own(stages.id.clone(), OwnResult::empty());
    let outcome = match noted {
        Noted::Heard => CallOutcome::answered(Status::Success, reply),
        Noted::Unheard if forwarded.method == Method::Unsubscribe => CallOutcome::answered(Status::Success, reply),
        Noted::Unheard => CallOutcome::under_way(reply),
        Noted::TooMany => too_many(stages),
    };
    forwarded.end(stages, outcome)
}

/// A subscription that is not kept is not told as one that is.
pub(crate) fn too_many(stages: &Stages<'_>) -> CallOutcome {
    let message = "this session has as many subscriptions as it may have; unsubscribe from a resource first";
    let data = ErrorData::denied(ErrorCode::Denied, message, ReasonCode::DenyConcurrency);
    CallOutcome::not_kept(
        ReasonCode::DenyConcurrency,
        Prepared::refusal(Some(stages.id.clone()), data),
    )
}

/// The same client, heard on its standing stream.
fn standing(context: &RequestContext) -> Option<RequestContext> {
    let replay = context.session()?.standing()?;
    Some(RequestContext {
        stream: ResponseStream::on_replay(replay),
        method: Method::Other(String::new()),
        ..context.clone()
    })
}
