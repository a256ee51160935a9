//! Streams without an end of their own: what servers say by themselves reaches those who listen
//! for it and may know of it. In a session that is its standing stream; a modern client subscribes.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use mcp::http::LAST_EVENT_ID;
use tokio::sync::{mpsc, oneshot};
use upstream::{Failure, Server, Topics};

use crate::context::incoming::IncomingRequest;
use crate::context::{Ended, RequestContext};
use crate::delivery::{About, Told};
use crate::events::observer::{CallObserver, Consequence, record_exhausted_budget};
use crate::gateway::Gateway;
use crate::message::ClientMessage;
use crate::offers::usable;
use crate::outcome::answered_here;
use crate::reply::Prepared;
use crate::reply::body::EventBody;
use crate::reply::stream::ResponseStream;
use crate::session::Session;
use crate::session::replay::{BACKLOG, parse_event_id};
use crate::state::event_budget::EventBudget;
use crate::stream::change::{ForClient, ListsKnown, meaning, notification_of};

/// How long a client waits for a server to take a subscription.
pub(crate) const SUBSCRIBING: Duration = Duration::from_secs(5);
/// How long until a listener that lost its server tries again, and looks whether anybody listens.
const LISTEN_AGAIN: Duration = Duration::from_secs(2);

/// `GET` in a session: resumes a stream that broke, or opens the standing one.
pub(crate) async fn open(gateway: &Gateway, incoming: IncomingRequest, session: Arc<Session>) -> Ended {
    if !incoming.stream.takes_streams() {
        return incoming.unreadable(StatusCode::NOT_ACCEPTABLE, "Accept must admit text/event-stream");
    }
    let last = incoming.head.headers().get(LAST_EVENT_ID);
    let last = last.map(|id| id.to_str().ok().and_then(parse_event_id));
    let receiver = match last {
        Some(last) => match last.and_then(|(number, event)| Some((session.replay(number)?, event))) {
            Some((replay, event)) => replay.resume_after(event, incoming.snapshot.rules_since).await,
            None => return incoming.unreadable(StatusCode::NOT_FOUND, "there is no such stream to take up"),
        },
        None => stand_by(gateway, &incoming, &session).await,
    };
    let snapshot = incoming.snapshot.clone();
    let Some(rules) = gateway.shared() else {
        return incoming.unreadable(StatusCode::SERVICE_UNAVAILABLE, "the gateway stops");
    };
    let body = EventBody::new(receiver, incoming.listener(), rules).for_a_while();
    answered_here(&incoming.without_message(session), &snapshot, Prepared::events(body))
}

async fn stand_by(gateway: &Gateway, incoming: &IncomingRequest, session: &Arc<Session>) -> mpsc::Receiver<Told> {
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let Some(replay) = session.stand_by(sender).await else {
        return receiver;
    };
    let standing = RequestContext {
        stream: ResponseStream::on_replay(replay),
        ..incoming.clone().without_message(session.clone())
    };
    if session.attend_once() {
        if let Some(gateway) = gateway.shared() {
            tokio::spawn(attend(gateway, standing.clone()));
        }
        let server = incoming.route.server().and_then(|id| incoming.snapshot.server(id));
        if let Some(server) = server {
            listen_for(gateway, &standing, server).await;
        }
    }
    receiver
}

/// Listens to a server for a session, anew if what it listens for changed. Says whether the server is heard.
pub(crate) async fn listen_for(gateway: &Gateway, standing: &RequestContext, server: &Arc<Server>) -> bool {
    let (Some(shared), Some(session)) = (gateway.shared(), standing.session().cloned()) else {
        return false;
    };
    // A server that the principal may not use is not even contacted.
    if !usable(&gateway.in_force(), &standing.who, server.id()) {
        session.stop_listening(server.id());
        return false;
    }
    let modern = matches!(server.era_for(standing.client.era()).await, Ok(mcp::Era::Modern));
    if modern && session.subscribed_to(server.id()).is_empty() {
        session.stop_listening(server.id());
        return false;
    }
    if !modern && session.listens_to(server.id()) {
        return true;
    }
    let (ready, is_ready) = oneshot::channel();
    let (standing, heard) = (standing.clone(), server.clone());
    let task = tokio::spawn(keep_listening(shared, standing, heard, ready));
    session.keep_listening(server.id(), task.abort_handle());
    matches!(tokio::time::timeout(SUBSCRIBING, is_ready).await, Ok(Ok(())))
}

/// Tells a session's client what changes, for as long as the session lives.
async fn attend(gateway: Arc<Gateway>, standing: RequestContext) {
    let Some(session) = standing.session().cloned() else {
        return;
    };
    let mut changes = gateway.changes.listen();
    let mut known = ListsKnown::by(&gateway, &standing);
    loop {
        let change = tokio::select! {
            change = changes.recv() => change,
            () = session.ended() => return,
            () = tokio::time::sleep(Duration::from_secs(60)) => {
                if !gateway.sessions.is_open(&session) {
                    session.end();
                    let key = upstream::SessionKey::Client(session.digest);
                    gateway.in_force().servers().for_each(|server| server.forget(&key));
                    return;
                }
                continue;
            }
        };
        match meaning(&gateway, &standing, change, &mut known) {
            ForClient::Nothing => {}
            ForClient::ListsChanged(lists) => {
                for (kind, about) in lists {
                    let message = ClientMessage::own_notification(notification_of(kind), None);
                    standing.say(about, &message).await;
                }
            }
            ForClient::Recheck => {
                if let Some(replay) = session.standing() {
                    replay.let_go().await;
                }
            }
            ForClient::Stop => {
                if let Some(replay) = session.standing() {
                    replay.end().await;
                }
                return;
            }
        }
    }
}

/// Hears a server for a session, again when it breaks, while the session lives.
async fn keep_listening(
    gateway: Arc<Gateway>,
    standing: RequestContext,
    server: Arc<Server>,
    ready: oneshot::Sender<()>,
) {
    let Some(session) = standing.session().cloned() else {
        return;
    };
    let guest = standing.guest();
    let mut ready = Some(ready);
    // One for all the times that the stream breaks.
    let budget = EventBudget::default();
    while gateway.sessions.is_open(&session) {
        let observer = CallObserver {
            gateway: &gateway,
            context: &standing,
            server: server.id(),
            token: None,
            our_token: 0,
            budget: budget.clone(),
            tool: None,
            about: About::Server(server.id().clone()),
        };
        let tell = || {
            if let Some(ready) = ready.take() {
                let _ = ready.send(());
            }
        };
        let topics = Topics {
            uris: session.subscribed_to(server.id()),
            ..Topics::default()
        };
        let listened = tokio::select! {
            listened = upstream::listen(&server, &guest, &topics, &observer, tell) => listened,
            () = session.ended() => return,
            () = budget.exhausted() => {
                return record_exhausted_budget(&gateway, &standing, server.id(), Consequence::Ended).await;
            }
        };
        if matches!(listened, Err(Failure::Status(_) | Failure::Refused(_))) {
            // There is no such stream.
            return;
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}
