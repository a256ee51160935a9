//! `resources/subscribe` and `resources/unsubscribe` of clients with sessions: what they subscribed
//! to is kept with the session. A legacy server keeps it too; a modern one is listened to instead.

use ledger::Status;
use mcp::Method;
use policy::Target;

use crate::call::forwarded::Forwarded;
use crate::context::{Ended, RequestContext};
use crate::message::OwnResult;
use crate::outcome::CallOutcome;
use crate::reply::Prepared;
use crate::reply::stream::ResponseStream;
use crate::stages::Stages;
use crate::stream::standing::listen_for;

/// Keeps what a server with sessions agreed to.
pub(crate) async fn note_subscription(stages: &Stages<'_>, forwarded: &Forwarded) {
    let (Some(session), Target::Resource { server, uri }) = (stages.context.session(), &forwarded.target) else {
        return;
    };
    if forwarded.method == Method::Unsubscribe {
        session.unsubscribe(server, uri);
    } else if !session.subscribe(server, uri) {
        return;
    }
    if let Some(standing) = standing(stages.context) {
        listen_for(stages.gateway, &standing, &forwarded.server).await;
    }
}

/// Answers for a modern server, which knows no such method.
pub(crate) async fn subscribe_here(stages: &Stages<'_>, forwarded: Forwarded) -> Ended {
    note_subscription(stages, &forwarded).await;
    let reply = Prepared::own(stages.id.clone(), OwnResult::empty());
    forwarded.end(stages, CallOutcome::answered(Status::Success, reply))
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
