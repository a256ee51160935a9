//! A conversation in which all that a server says comes on one stream: answers are told apart by
//! their ids, everything else by the one request it can belong to, or it belongs to none.
//! HTTP+SSE of 2024-11-05 is spoken this way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use http::Uri;
use mcp::compose;
use mcp::server::{ServerMessage, ServerRequest, is_our_id, member_span};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::credentials::UpstreamCredential;
use crate::failure::Failure;
use crate::http::{Post, judge};
use crate::message::Messages;
use crate::server::Server;
use crate::session::Opened;

/// See the module.
pub(crate) struct Duplex {
    /// Where messages to the server go.
    endpoint: Uri,
    state: Mutex<State>,
    reader: Mutex<Option<AbortHandle>>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<u64, mpsc::Sender<ServerMessage>>,
    /// Hears what belongs to no request.
    listener: Option<mpsc::Sender<ServerMessage>>,
    closed: bool,
}

/// Messages that wait for a slow reader; then the server waits.
const BACKLOG: usize = 64;

/// What a request hears; forgotten when dropped.
pub(crate) struct Inbox {
    duplex: Arc<Duplex>,
    id: u64,
    messages: mpsc::Receiver<ServerMessage>,
}

impl Inbox {
    /// The next message; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<ServerMessage> {
        self.messages.recv().await
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        lock(&self.duplex.state).waiting.remove(&self.id);
    }
}

impl Duplex {
    /// Opens the stream of a server and learns where messages go: to the same origin, or nowhere.
    pub(crate) async fn open(server: &Arc<Server>, credential: &UpstreamCredential) -> Result<Arc<Self>, Failure> {
        let response = server.link.open_plain_stream(credential).await?;
        judge(response.status(), false)?;
        let mut messages = Messages::of(response, server.caps);
        let endpoint = messages.endpoint().await?.ok_or(Failure::Refused("GET"))?;
        let endpoint = server.link.same_origin(&endpoint).ok_or(Failure::Redirected)?;
        let duplex = Arc::new(Self {
            endpoint,
            state: Mutex::default(),
            reader: Mutex::default(),
        });
        let task = tokio::spawn(read(Arc::downgrade(&duplex), Arc::downgrade(server), messages));
        *lock(&duplex.reader) = Some(task.abort_handle());
        Ok(duplex)
    }

    pub(crate) fn endpoint(&self) -> &Uri {
        &self.endpoint
    }

    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Waits for what answers `id`.
    pub(crate) fn expect(self: &Arc<Self>, id: u64) -> Inbox {
        let (sender, messages) = mpsc::channel(BACKLOG);
        let mut state = lock(&self.state);
        if !state.closed {
            state.waiting.insert(id, sender);
        }
        drop(state);
        Inbox {
            duplex: self.clone(),
            id,
            messages,
        }
    }

    /// Hears what belongs to no request, in place of whoever did before.
    pub(crate) fn listen(&self) -> mpsc::Receiver<ServerMessage> {
        let (sender, messages) = mpsc::channel(BACKLOG);
        let mut state = lock(&self.state);
        if !state.closed {
            state.listener = Some(sender);
        }
        messages
    }

    /// Whom a message is for.
    fn address(&self, message: &ServerMessage) -> Option<mpsc::Sender<ServerMessage>> {
        let state = lock(&self.state);
        let by_id = |raw: &Bytes| {
            let mut waiting = state.waiting.iter();
            waiting
                .find(|(id, _)| is_our_id(raw, **id))
                .map(|(_, sender)| sender.clone())
        };
        let only = || match state.waiting.len() {
            1 => state.waiting.values().next().cloned(),
            _ => None,
        };
        match message {
            ServerMessage::Result { id, .. } | ServerMessage::Error { id, .. } => by_id(id),
            ServerMessage::Notification(told) if told.method == "notifications/progress" => {
                let params = told.params.as_ref()?;
                by_id(&params.slice(member_span(params, "progressToken")?))
            }
            ServerMessage::Notification(told) if told.method.ends_with("/list_changed") => state.listener.clone(),
            ServerMessage::Notification(_) => only().or_else(|| state.listener.clone()),
            ServerMessage::Request(_) => only(),
        }
    }

    fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.waiting.clear();
        state.listener = None;
    }
}

impl Drop for Duplex {
    fn drop(&mut self) {
        if let Some(reader) = lock(&self.reader).take() {
            reader.abort();
        }
    }
}

/// Reads the stream until it ends or nobody needs it.
async fn read(duplex: Weak<Duplex>, server: Weak<Server>, mut messages: Messages) {
    while let Ok(Some(message)) = messages.next().await {
        let Some(alive) = duplex.upgrade() else { return };
        match (alive.address(&message), message) {
            (Some(sender), message) => {
                let _ = sender.send(message).await;
            }
            (None, ServerMessage::Request(asked)) => refuse(&alive, &server, &asked).await,
            (None, _) => {}
        }
    }
    if let Some(alive) = duplex.upgrade() {
        alive.close();
    }
}

/// A question that belongs to no single request is answered here: `ping` as it wants, others not.
async fn refuse(duplex: &Arc<Duplex>, server: &Weak<Server>, asked: &ServerRequest) {
    let Some(server) = server.upgrade() else { return };
    let content = if asked.method == "ping" {
        mcp::Content::Result(Bytes::from_static(b"{}"))
    } else {
        compose::error_content(-32603, "the gateway cannot tell whom this is for")
    };
    let opened = Opened::over(duplex.clone());
    let credential = server.credential.fetch();
    let post = Post::legacy(compose::response(&asked.id, &content), &opened, &credential);
    let _ = tokio::time::timeout(server.caps.timeout, server.link.notify(post)).await;
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
