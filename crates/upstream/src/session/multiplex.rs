//! A stream on which a server says what belongs to several requests: answers are told apart by
//! their ids, everything else by the one request it can belong to, or it belongs to none.
//! Processes and HTTP+SSE of 2024-11-05 are spoken to this way, and so comes what a session says beside its answers.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Uri;
use mcp::server::{ServerMessage, ServerNotification, is_our_id, member_span};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use vocabulary::lock;

use crate::failure::Failure;
use crate::http::messages::Messages;
use crate::process::open_calls::{OpenCall, OpenCalls};
use crate::process::pipe::Pipe;

/// See the module.
pub(crate) struct Multiplex {
    destination: Destination,
    state: Mutex<State>,
    reader: Mutex<Option<AbortHandle>>,
}

/// Where messages to the server go.
pub(crate) enum Destination {
    /// To this address.
    Endpoint(Uri),
    /// To a process, with the calls that it is at work on.
    Process(Pipe, Arc<OpenCalls>),
    /// Where those of the session go: the stream only says what comes beside.
    Session,
}

/// Gives the messages of a server, one by one.
pub(crate) trait MessageSource: Send + 'static {
    /// The next message; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<ServerMessage>, Failure>> + Send;
}

impl MessageSource for Messages {
    fn next(&mut self) -> impl Future<Output = Result<Option<ServerMessage>, Failure>> + Send {
        Messages::next(self)
    }
}

struct State {
    waiting: HashMap<u64, mpsc::Sender<ServerMessage>>,
    /// Get what belongs to no request.
    listeners: Vec<mpsc::Sender<ServerMessage>>,
    /// How it ended.
    closed: Option<&'static str>,
    /// When the last request began or ended.
    used: Instant,
}

/// Messages that wait for a slow reader; then the server waits.
const BACKLOG: usize = 64;
/// A message was larger than may be.
pub(super) const TOO_LARGE: &str = "sent a message that is too large";

/// What the server sends to one request; forgotten when dropped.
pub(crate) struct Inbox {
    multiplex: Arc<Multiplex>,
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
        let mut state = lock(&self.multiplex.state);
        state.waiting.remove(&self.id);
        state.used = Instant::now();
        if let Destination::Process(_, calls) = &self.multiplex.destination {
            calls.close(self.id);
        }
    }
}

impl Multiplex {
    /// Nothing is read yet.
    pub(crate) fn new(destination: Destination) -> Arc<Self> {
        Arc::new(Self {
            destination,
            state: Mutex::new(State {
                waiting: HashMap::new(),
                listeners: Vec::new(),
                closed: None,
                used: Instant::now(),
            }),
            reader: Mutex::default(),
        })
    }

    /// Its reader ends with it.
    pub(crate) fn read_by(&self, reader: AbortHandle) {
        *lock(&self.reader) = Some(reader);
    }

    pub(crate) fn endpoint(&self) -> Option<&Uri> {
        match &self.destination {
            Destination::Endpoint(uri) => Some(uri),
            Destination::Process(..) | Destination::Session => None,
        }
    }

    pub(crate) fn pipe(&self) -> Option<&Pipe> {
        match &self.destination {
            Destination::Process(pipe, _) => Some(pipe),
            Destination::Endpoint(_) | Destination::Session => None,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).closed.is_some()
    }

    /// Why nobody will be answered any more.
    pub(crate) fn ended(&self) -> Failure {
        match (lock(&self.state).closed, &self.destination) {
            (Some(TOO_LARGE), _) => Failure::TooLarge,
            (closed, Destination::Process(..)) => Failure::Ended(closed.unwrap_or("ended")),
            (_, Destination::Endpoint(_) | Destination::Session) => {
                Failure::Broken("the stream ended without an answer".into())
            }
        }
    }

    /// How long nobody has used it; `None` while somebody does.
    pub(crate) fn idle_for(&self) -> Option<Duration> {
        let mut state = lock(&self.state);
        state.listeners.retain(|listener| !listener.is_closed());
        let in_use = !state.waiting.is_empty() || !state.listeners.is_empty();
        (!in_use).then(|| state.used.elapsed())
    }

    /// Waits for what answers `id`, which is asked for `call`.
    pub(crate) fn expect(self: &Arc<Self>, id: u64, call: Option<OpenCall>) -> Inbox {
        let (sender, messages) = mpsc::channel(BACKLOG);
        let mut state = lock(&self.state);
        if state.closed.is_none() {
            state.waiting.insert(id, sender);
            state.used = Instant::now();
            if let (Destination::Process(_, calls), Some(call)) = (&self.destination, call) {
                calls.open(id, call);
            }
        }
        drop(state);
        Inbox {
            multiplex: self.clone(),
            id,
            messages,
        }
    }

    /// Receives what belongs to no request.
    pub(crate) fn listen(&self) -> mpsc::Receiver<ServerMessage> {
        let (sender, messages) = mpsc::channel(BACKLOG);
        let mut state = lock(&self.state);
        state.listeners.retain(|listener| !listener.is_closed());
        if state.closed.is_none() {
            state.listeners.push(sender);
        }
        messages
    }

    /// Whom a message is for.
    pub(super) fn recipient(&self, message: &ServerMessage) -> Option<Recipient> {
        let state = lock(&self.state);
        let everybody = || Recipient::Listeners(state.listeners.clone());
        let by_id = |raw: &Bytes| {
            let mut waiting = state.waiting.iter();
            waiting
                .find(|(id, _)| is_our_id(raw, **id))
                .map(|(_, sender)| Recipient::Request(sender.clone()))
        };
        let only = || match state.waiting.len() {
            1 => state.waiting.values().next().cloned().map(Recipient::Request),
            _ => None,
        };
        match message {
            ServerMessage::Result { id, .. } | ServerMessage::Error { id, .. } => by_id(id),
            ServerMessage::Notification(told) if told.method == "notifications/progress" => {
                let params = told.params.as_ref()?;
                by_id(&params.slice(member_span(params, "progressToken")?))
            }
            ServerMessage::Notification(told) if subscription(told).is_some() => by_id(&subscription(told)?),
            ServerMessage::Notification(told) if is_for_listeners(&told.method) => Some(everybody()),
            ServerMessage::Notification(_) => Some(only().unwrap_or_else(everybody)),
            ServerMessage::Request(_) => only(),
        }
    }

    pub(crate) fn close(&self, how: &'static str) {
        let mut state = lock(&self.state);
        state.closed.get_or_insert(how);
        if let Destination::Process(pipe, _) = &self.destination {
            pipe.let_go();
        }
        state.waiting.clear();
        state.listeners.clear();
    }
}

impl Drop for Multiplex {
    fn drop(&mut self) {
        if let Some(reader) = lock(&self.reader).take() {
            reader.abort();
        }
    }
}

/// Who gets a message.
pub(super) enum Recipient {
    Request(mpsc::Sender<ServerMessage>),
    Listeners(Vec<mpsc::Sender<ServerMessage>>),
}

/// The listen a notification belongs to, as a modern server names it.
fn subscription(told: &ServerNotification) -> Option<Bytes> {
    let params = told.params.as_ref()?;
    let meta = params.slice(member_span(params, "_meta")?);
    let id = member_span(&meta, "io.modelcontextprotocol/subscriptionId")?;
    Some(meta.slice(id))
}

/// What is never said within a request.
fn is_for_listeners(method: &str) -> bool {
    method.ends_with("/list_changed") || method == "notifications/resources/updated"
}
