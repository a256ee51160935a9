//! A stream on which a server says what belongs to several requests: answers are told apart by
//! their ids, everything else by the one request it can belong to, or it belongs to none.
//! Processes and HTTP+SSE of 2024-11-05 are spoken to this way, and so comes what a session says beside its answers.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Uri;
use mcp::compose;
use mcp::server::{ServerMessage, ServerNotification, ServerRequest, is_our_id, member_span};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use vocabulary::lock;

use crate::credentials::UpstreamCredential;
use crate::failure::Failure;
use crate::http::messages::Messages;
use crate::http::{Post, check_status};
use crate::process::{OpenCall, OpenCalls, Pipe};
use crate::server::Server;
use crate::session::Opened;

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
    /// To a process, which is told apart what it is at work on.
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
    /// Hear what belongs to no request.
    listeners: Vec<mpsc::Sender<ServerMessage>>,
    /// How it ended.
    closed: Option<&'static str>,
    /// When the last request began or ended.
    used: Instant,
}

/// Messages that wait for a slow reader; then the server waits.
const BACKLOG: usize = 64;
/// A message was larger than may be.
const TOO_LARGE: &str = "sent a message that is too large";

/// What a request hears; forgotten when dropped.
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
    /// Opens the stream of a server and learns where messages go: to the same origin, or nowhere.
    pub(crate) async fn open(server: &Arc<Server>, credential: &UpstreamCredential) -> Result<Arc<Self>, Failure> {
        let response = server.link.open_plain_stream(credential).await?;
        check_status(response.status(), false)?;
        let mut messages = Messages::of(response, server.caps);
        let endpoint = messages.endpoint().await?.ok_or(Failure::Refused("GET"))?;
        let endpoint = server.link.same_origin(&endpoint).ok_or(Failure::Redirected)?;
        Ok(Self::start(server, Destination::Endpoint(endpoint), messages, None))
    }

    /// Reads `source` until it ends or nobody needs it. What cannot be attributed is refused in `session`, or on the
    /// stream's own way out.
    pub(crate) fn start(
        server: &Arc<Server>,
        destination: Destination,
        source: impl MessageSource,
        session: Option<Opened>,
    ) -> Arc<Self> {
        let multiplex = Arc::new(Self {
            destination,
            state: Mutex::new(State {
                waiting: HashMap::new(),
                listeners: Vec::new(),
                closed: None,
                used: Instant::now(),
            }),
            reader: Mutex::default(),
        });
        let reader = Reader {
            multiplex: Arc::downgrade(&multiplex),
            server: Arc::downgrade(server),
            session,
        };
        let task = tokio::spawn(reader.run(source));
        *lock(&multiplex.reader) = Some(task.abort_handle());
        multiplex
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

    /// Hears what belongs to no request.
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
    fn recipient(&self, message: &ServerMessage) -> Option<Recipient> {
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

/// Who hears a message.
enum Recipient {
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

/// Reads a stream. Holds on to neither conversation nor server.
struct Reader {
    multiplex: Weak<Multiplex>,
    server: Weak<Server>,
    session: Option<Opened>,
}

impl Reader {
    async fn run(self, mut source: impl MessageSource) {
        let how = loop {
            let message = match source.next().await {
                Ok(Some(message)) => message,
                Ok(None) => break "ended its output",
                Err(Failure::TooLarge) => break TOO_LARGE,
                Err(_) => break "cannot be understood",
            };
            let Some(alive) = self.multiplex.upgrade() else { return };
            match (alive.recipient(&message), message) {
                (Some(Recipient::Request(sender)), message) => {
                    let _ = sender.send(message).await;
                }
                (Some(Recipient::Listeners(listeners)), ServerMessage::Notification(told)) => {
                    for listener in listeners {
                        let _ = listener.send(ServerMessage::Notification(told.clone())).await;
                    }
                }
                (None, ServerMessage::Request(asked)) => self.refuse(&alive, &asked).await,
                (Some(Recipient::Listeners(_)) | None, _) => {}
            }
        };
        if let Some(alive) = self.multiplex.upgrade() {
            alive.close(how);
        }
    }

    /// A question that belongs to no single request is answered here: `ping` as it wants, others not.
    async fn refuse(&self, multiplex: &Arc<Multiplex>, asked: &ServerRequest) {
        let Some(server) = self.server.upgrade() else { return };
        let content = if asked.method == "ping" {
            mcp::Content::Result(Bytes::from_static(b"{}"))
        } else {
            compose::error_content(
                mcp::ErrorCode::InternalError,
                "the gateway cannot tell whom this is for",
            )
        };
        let opened = match &self.session {
            Some(session) => session.clone(),
            None => Opened::over(multiplex.clone()),
        };
        let credential = server.credential.fetch();
        let post = Post::legacy(compose::response(&asked.id, &content), &opened, &credential);
        let _ = tokio::time::timeout(server.caps.timeout, server.link.notify(post)).await;
    }
}
