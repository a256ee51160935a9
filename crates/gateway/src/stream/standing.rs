//! Streams without an end of their own: what servers say by themselves reaches those who listen
//! for it and may know of it. In a session that is its standing stream; a modern client subscribes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use mcp::http::LAST_EVENT_ID;
use screening::result::ScreenedResult;
use tokio::sync::{Notify, broadcast, mpsc, oneshot};
use upstream::{Failure, Guest, ListKind, NoObserver, Observer, Server, ServerEvent, Topics, Waiting};
use vocabulary::{Digest, ServerId};

use crate::context::{Ended, RequestContext};
use crate::edge::route::Route;
use crate::era::initialize::{Offers, usable};
use crate::events::observer::{CallObserver, Consequence, EventBudget, changed_list};
use crate::receive::{AuthenticatedHead, Gateway};
use crate::reply::Prepared;
use crate::reply::stream::{BACKLOG, ClientMessage, EventBody, ResponseStream};
use crate::session::Session;
use crate::session::replay::parse_event_id;
use crate::state::changes::Change;

/// How long a client waits for a server to take a subscription.
pub(crate) const SUBSCRIBING: Duration = Duration::from_secs(5);
/// How long until a listener that lost its server tries again, and looks whether anybody listens.
const LISTEN_AGAIN: Duration = Duration::from_secs(2);

impl Gateway {
    /// `GET` in a session: takes up a stream that broke, or opens the standing one.
    pub(crate) async fn open_stream(&self, letter: AuthenticatedHead) -> Ended {
        let session = match self.session_of(&letter.who, &letter.head) {
            Ok(session) => session,
            Err((StatusCode::BAD_REQUEST, _)) => {
                let message = "GET opens a stream of a session and needs its id";
                return letter.unreadable(StatusCode::METHOD_NOT_ALLOWED, message);
            }
            Err((status, message)) => return letter.unreadable(status, message),
        };
        if !letter.stream.takes_streams() {
            return letter.unreadable(StatusCode::NOT_ACCEPTABLE, "Accept must admit text/event-stream");
        }
        let last = letter.head.headers.get(LAST_EVENT_ID);
        let last = last.map(|id| id.to_str().ok().and_then(parse_event_id));
        let receiver = match last {
            Some(last) => match last.and_then(|(replay, event)| Some((session.replay(replay)?, event))) {
                Some((replay, event)) => replay.resume_after(event, self.snapshot().rules_since).await,
                None => return letter.unreadable(StatusCode::NOT_FOUND, "there is no such stream to take up"),
            },
            None => self.stand_by(&letter, &session).await,
        };
        let asked = letter.into_asked(session);
        let body = EventBody::new(receiver, Arc::new(Notify::new())).for_a_while();
        self.answered_with(&asked, Prepared::events(body))
    }

    async fn stand_by(&self, letter: &AuthenticatedHead, session: &Arc<Session>) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let Some(replay) = session.stand_by(sender).await else {
            return receiver;
        };
        let standing = RequestContext {
            stream: ResponseStream::on_replay(replay),
            ..letter.clone().into_asked(session.clone())
        };
        if session.attend_once() {
            if let Some(gateway) = self.shared() {
                tokio::spawn(attend(gateway, standing.clone()));
            }
            if let Some(server) = letter.route.server().and_then(|id| self.snapshot().server(id).cloned()) {
                self.listen_for(&standing, &server).await;
            }
        }
        receiver
    }

    /// Listens to a server for a session, anew if what it listens for changed.
    pub(crate) async fn listen_for(&self, standing: &RequestContext, server: &Arc<Server>) {
        let (Some(gateway), Some(session)) = (self.shared(), standing.session().cloned()) else {
            return;
        };
        // A server that the principal may not use is not even contacted.
        if !usable(&self.snapshot(), &standing.who, server.id()) {
            session.stop_listening(server.id());
            return;
        }
        let modern = matches!(server.era().await, Ok(mcp::Era::Modern));
        if modern && session.subscribed_to(server.id()).is_empty() {
            session.stop_listening(server.id());
            return;
        }
        if !modern && session.listens_to(server.id()) {
            return;
        }
        let (ready, is_ready) = oneshot::channel();
        let (standing, heard) = (standing.clone(), server.clone());
        let task = tokio::spawn(keep_listening(gateway, standing, heard, ready));
        session.keep_listening(server.id(), task.abort_handle());
        let _ = tokio::time::timeout(SUBSCRIBING, is_ready).await;
    }

    /// A resource changed: told to the client if it subscribed.
    pub(crate) async fn resource_updated(&self, asked: &RequestContext, server: &ServerId, params: &ScreenedResult) {
        let uri = mcp::server::text_member(params.bytes(), "uri");
        let subscribed = |session: &Arc<Session>| uri.as_deref().is_some_and(|uri| session.is_subscribed(server, uri));
        let Some(session) = asked.session().filter(|session| subscribed(session)) else {
            return;
        };
        if let Some(replay) = session.standing() {
            let message = ClientMessage::notification("notifications/resources/updated", params);
            replay.say(message.message()).await;
        }
    }

    /// A server says that one of its lists changed.
    pub(crate) fn list_changed(&self, server: &ServerId, kind: ListKind) {
        self.changes.changed(server, kind);
    }

    /// Listens to a server for changes of its lists, until it ends the stream. For the inventory.
    ///
    /// # Errors
    /// When the server has no such stream, or it breaks.
    pub async fn hear_changes(&self, server: &Arc<Server>) -> Result<(), Failure> {
        let mut offers = Offers::default();
        offers.add(&server.introduction().capabilities);
        let topics = Topics {
            tools: true,
            prompts: offers.prompts_change,
            resources: offers.resources_change,
            uris: Vec::new(),
        };
        let ear = InventoryEar {
            gateway: self,
            server: server.id(),
        };
        upstream::listen(server, &Guest::gateway(), &topics, &ear, || {}).await
    }

    /// The servers whose tools changed, by their own word, from now on.
    pub fn stale_servers(&self) -> StaleServers {
        StaleServers(self.changes.listen())
    }
}

/// Tells a session's client what changes in the town, for as long as the session lives.
async fn attend(gateway: Arc<Gateway>, standing: RequestContext) {
    let Some(session) = standing.session().cloned() else {
        return;
    };
    let mut changes = gateway.changes.listen();
    let mut seen = gateway.tools_seen(&standing.who, standing.route.server());
    loop {
        let ring = tokio::select! {
            ring = changes.recv() => ring,
            () = session.ended() => return,
            () = tokio::time::sleep(Duration::from_secs(60)) => {
                if !gateway.sessions.is_open(&session) {
                    session.end();
                    let key = upstream::SessionKey::Client(session.digest);
                    gateway.snapshot().servers().for_each(|server| server.forget(&key));
                    return;
                }
                continue;
            }
        };
        match heard(&gateway, &standing, ring, &mut seen) {
            Heard::Nothing => {}
            Heard::Change(kind) => standing.say(&ClientMessage::own(notification_of(kind), None)).await,
            Heard::Recheck => {
                if let Some(replay) = session.standing() {
                    replay.let_go().await;
                }
            }
            Heard::Stop => {
                if let Some(replay) = session.standing() {
                    replay.end().await;
                }
                return;
            }
        }
    }
}

pub(crate) enum Heard {
    Nothing,
    Change(ListKind),
    Recheck,
    Stop,
}

/// What a ring means to one principal on one route.
pub(crate) fn heard(
    gateway: &Gateway,
    asked: &RequestContext,
    ring: Result<Change, broadcast::error::RecvError>,
    seen: &mut Digest,
) -> Heard {
    match ring {
        Ok(Change::Stop) | Err(broadcast::error::RecvError::Closed) => Heard::Stop,
        Ok(Change::Recheck) => Heard::Recheck,
        Ok(Change::SnapshotReplaced) | Err(broadcast::error::RecvError::Lagged(_)) => {
            let now = gateway.tools_seen(&asked.who, asked.route.server());
            if std::mem::replace(seen, now) == now {
                Heard::Nothing
            } else {
                Heard::Change(ListKind::Tools)
            }
        }
        Ok(Change::Changed(_, ListKind::Tools)) => Heard::Nothing,
        Ok(Change::Changed(server, kind)) => {
            let on_route = asked.route.server().is_none_or(|only| *only == server);
            let offers = Offers::of(&gateway.snapshot(), &asked.who, &Route::Server(server));
            match kind {
                ListKind::Prompts if on_route && offers.prompts => Heard::Change(kind),
                ListKind::Resources | ListKind::Templates if on_route && offers.resources => Heard::Change(kind),
                ListKind::Prompts | ListKind::Resources | ListKind::Templates | ListKind::Tools | ListKind::Tasks => {
                    Heard::Nothing
                }
            }
        }
    }
}

pub(crate) fn notification_of(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools | ListKind::Tasks => "notifications/tools/list_changed",
        ListKind::Prompts => "notifications/prompts/list_changed",
        ListKind::Resources | ListKind::Templates => "notifications/resources/list_changed",
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
    let guest = standing.client.guest(&standing.who);
    let mut ready = Some(ready);
    // One for all the times that the stream breaks.
    let asking = EventBudget::default();
    while gateway.sessions.is_open(&session) {
        let observer = CallObserver {
            gateway: &gateway,
            asked: &standing,
            server: server.id(),
            token: None,
            our_token: 0,
            asking: asking.clone(),
            tool: None,
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
            () = asking.exhausted() => return gateway.record_exhausted_budget(&standing, server.id(), Consequence::Ended).await,
        };
        if matches!(listened, Err(Failure::Status(_) | Failure::Refused(_))) {
            // There is no such stream.
            return;
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

/// Hears only that lists changed.
struct InventoryEar<'a> {
    gateway: &'a Gateway,
    server: &'a ServerId,
}

impl Observer for InventoryEar<'_> {
    fn observe(&self, aside: ServerEvent) -> Waiting<'_> {
        Box::pin(async move {
            match aside {
                ServerEvent::Notification(told) => {
                    if let Some(kind) = changed_list(told.method()) {
                        self.gateway.list_changed(self.server, kind);
                    }
                }
                question @ ServerEvent::Request(_) => NoObserver.observe(question).await,
            }
        })
    }

    fn quiet(&self) -> Waiting<'_> {
        Box::pin(std::future::ready(()))
    }

    fn last_asked(&self) -> Option<std::time::Instant> {
        None
    }
}

/// The servers whose tools changed, as they say so.
pub struct StaleServers(broadcast::Receiver<Change>);

impl StaleServers {
    /// The next one; `None` when the gateway stops.
    pub async fn next(&mut self) -> Option<ServerId> {
        loop {
            match self.0.recv().await {
                Ok(Change::Changed(server, ListKind::Tools)) => return Some(server),
                Ok(Change::Changed(..) | Change::SnapshotReplaced | Change::Recheck)
                | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Ok(Change::Stop) | Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}
