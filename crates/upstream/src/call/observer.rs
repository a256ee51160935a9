//! A call's observer is told what the server says beside its answer. What it is told is raw: it has to cross the
//! chokepoint before a client sees it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp::server::{ServerNotification, ServerRequest};
use mcp::{Content, compose};
use screening::result::{Raw, Received};

use crate::credentials::Behalf;
use crate::http::Post;
use crate::process::open_calls::OpenCall;
use crate::server::Server;
use crate::session::opened::Opened;
use crate::waiting::Waiting;

/// The longest time a client may take to answer a server's requests.
pub(crate) const LONGEST_ASKING: Duration = Duration::from_secs(600);

/// Is told what a server says beside its answer.
pub trait Observer: Send + Sync {
    /// A message came. The server is not read on before this completes.
    fn observe(&self, event: ServerEvent) -> Waiting<'_>;

    /// The server has been silent for a while.
    fn quiet(&self) -> Waiting<'_>;

    /// When a request to the client was open last: the time it takes is not the server's.
    fn last_asked(&self) -> Option<Instant>;

    /// The call that is observed, where it is one.
    fn open_call(&self) -> Option<OpenCall> {
        None
    }
}

/// Nobody observes: notifications are dropped, requests are refused.
pub struct NoObserver;

impl Observer for NoObserver {
    fn observe(&self, event: ServerEvent) -> Waiting<'_> {
        Box::pin(async move {
            match event {
                ServerEvent::Notification(_) => {}
                ServerEvent::Request(request) => request.refuse("nobody is there to answer").await,
            }
        })
    }

    fn quiet(&self) -> Waiting<'_> {
        Box::pin(std::future::ready(()))
    }

    fn last_asked(&self) -> Option<Instant> {
        None
    }
}

/// What a server says beside its answer.
pub enum ServerEvent {
    /// A notification.
    Notification(RawNotification),
    /// A request to the client.
    Request(RawServerRequest),
}

/// A notification of a server, before anybody judged it.
pub struct RawNotification {
    method: String,
    params: Option<Bytes>,
}

/// The raw `params` of a server's notification or request.
pub struct RawParams(Bytes);

impl Received for RawParams {
    fn into_raw(self) -> Raw {
        Raw::Unread(self.0)
    }
}

impl RawNotification {
    pub(crate) fn new(message: ServerNotification) -> Self {
        Self {
            method: message.method,
            params: message.params,
        }
    }

    /// What kind of notification it is.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The task it is about, by the server's own name for it, raw. For finding whose it is, not for passing on.
    #[must_use]
    pub fn task(&self) -> Option<&[u8]> {
        let params = self.params.as_ref()?;
        params.get(mcp::server::member_span(params, "taskId")?)
    }

    /// What it says; an empty object where it says nothing.
    #[must_use]
    pub fn into_params(self) -> RawParams {
        RawParams(self.params.unwrap_or_else(|| Bytes::from_static(b"{}")))
    }
}

/// A request of a server, before anybody judged it, and the only way to answer it.
pub struct RawServerRequest {
    method: String,
    params: Option<Bytes>,
    reply: Reply,
}

/// Answers one request of a server.
pub struct Reply {
    id: Bytes,
    server: Arc<Server>,
    opened: Opened,
    behalf: Behalf,
}

impl RawServerRequest {
    pub(crate) fn new(message: ServerRequest, server: Arc<Server>, opened: Opened, behalf: Behalf) -> Self {
        let reply = Reply {
            id: message.id,
            server,
            opened,
            behalf,
        };
        Self {
            method: message.method,
            params: message.params,
            reply,
        }
    }

    /// Its method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Its method, its params, and the way to answer.
    #[must_use]
    pub fn split(self) -> (String, Option<RawParams>, Reply) {
        (self.method, self.params.map(RawParams), self.reply)
    }

    pub(crate) async fn refuse(self, message: &str) {
        self.reply
            .send(&compose::error_content(mcp::ErrorCode::MethodNotFound, message))
            .await;
    }

    pub(crate) async fn acknowledge(self) {
        self.reply.send(&Content::Result(Bytes::from_static(b"{}"))).await;
    }
}

impl Reply {
    /// The id the server gave its request, raw.
    #[must_use]
    pub fn id(&self) -> &Bytes {
        &self.id
    }

    /// Sends an answer. A server that does not take it is not told twice.
    pub async fn send(self, content: &Content) {
        let sending = async {
            let credential = self.server.credential_for(&self.behalf).await?;
            let post = Post::legacy(compose::response(&self.id, content), &self.opened, &credential);
            self.server.link.notify(post).await
        };
        let _ = tokio::time::timeout(self.server.caps.timeout, sending).await;
    }
}
