//! Forwards one message to the gateway: in a session, which is reopened when the gateway has lost it, or by itself.
//! A stream that breaks before the answer came is resumed.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use mcp::RequestId;
use mcp::http::{LAST_EVENT_ID, SESSION_ID};
use mcp::server::{self, ServerMessage};
use mcp::span::DEEPEST;
use reqwest::Response;

use super::deliver::{Delivered, Delivery, Pending};
use super::gateway_client::{GatewayClient, NoAnswer, broken};
use super::message::{self, INTERNAL_ERROR, Mirrored};
use super::response::{Messages, ResumePoint};
use super::session::{Generation, Session};
use super::standalone_stream::{self, StreamEnd};
use super::stdio::StdoutSender;
use super::tool_headers::ToolHeaders;

/// Everything a message needs on its way.
pub(super) struct Forwarder {
    client: GatewayClient,
    session: Session,
    tool_headers: ToolHeaders,
    out: StdoutSender,
}

impl Forwarder {
    pub(super) fn new(client: GatewayClient, out: StdoutSender) -> Arc<Self> {
        Arc::new(Self {
            client,
            session: Session::default(),
            tool_headers: ToolHeaders::default(),
            out,
        })
    }

    /// Opens the client's session; one that it had before is ended.
    pub(super) async fn initialize(&self, id: RequestId, initialize: Bytes) {
        self.end_session().await;
        let mut pending = Pending::initialize(id, initialize.clone());
        let done = match self.client.post(HeaderMap::new(), initialize).await {
            Ok(response) => self.deliver(response, &mut pending).await,
            Err(no_answer) => Err(no_answer),
        };
        self.settle(done.and_then(Delivered::without_resuming), &pending).await;
    }

    /// Tells the gateway that the client is ready, then listens to what it says by itself.
    pub(super) async fn initialized(self: &Arc<Self>, initialized: Bytes) {
        self.session.initialized(initialized.clone());
        self.post_notification(initialized).await;
        if let (_, Some(generation)) = self.session.headers() {
            self.listen(generation);
        }
    }

    /// Asks within the session and gives the client every answer it waits for.
    pub(super) async fn request(self: &Arc<Self>, pending: &mut Pending, body: Bytes) -> Result<(), NoAnswer> {
        let (response, session) = self.post_in_session(body).await?;
        match (self.deliver(response, pending).await?, session) {
            (Delivered::Interrupted(Some(from)), Some(session)) => self.resume(pending, from, session).await,
            (delivered, _) => delivered.without_resuming(),
        }
    }

    /// Asks without a session.
    pub(super) async fn request_modern(
        &self,
        pending: &mut Pending,
        mirrored: &Mirrored,
        body: Bytes,
    ) -> Result<(), NoAnswer> {
        let response = self.client.post(self.tool_headers.headers(mirrored), body).await?;
        self.deliver(response, pending).await?.without_resuming()
    }

    /// Posts a notification within the session; before there is one, nobody would understand it.
    pub(super) async fn notify(self: &Arc<Self>, body: Bytes) {
        if self.session.headers().1.is_some() {
            self.post_notification(body).await;
        }
    }

    /// Posts a modern notification.
    pub(super) async fn notify_modern(&self, mirrored: &Mirrored, body: Bytes) {
        let sent = self.client.post(self.tool_headers.headers(mirrored), body).await;
        report(sent, "a notification");
    }

    /// Posts an answer of the client's. Only the session that asked can use it.
    pub(super) async fn respond(&self, body: Bytes) {
        let (headers, generation) = self.session.headers();
        if generation.is_some() {
            report(self.client.post(headers, body).await, "a response");
        }
    }

    /// Gives each request that is still waiting an error that says why.
    pub(super) async fn settle(&self, done: Result<(), NoAnswer>, pending: &Pending) {
        let Err(NoAnswer(sentence)) = done else { return };
        tracing::warn!("{sentence}");
        for id in &pending.ids {
            let error = message::error_response(Some(id), INTERNAL_ERROR, &sentence);
            self.out.send(error).await;
        }
    }

    /// Ends the session, if there is one.
    pub(super) async fn end_session(&self) {
        let Some(headers) = self.session.close() else { return };
        let end = self.client.send(http::Method::DELETE, headers, Bytes::new());
        let _ = tokio::time::timeout(SESSION_END, end).await;
    }

    async fn deliver(&self, response: Response, pending: &mut Pending) -> Result<Delivered, NoAnswer> {
        let delivery = Delivery {
            out: &self.out,
            session: &self.session,
            tool_headers: &self.tool_headers,
            max_message_bytes: self.client.max_message_bytes(),
        };
        delivery.deliver(response, pending).await
    }

    async fn post_notification(self: &Arc<Self>, body: Bytes) {
        let sent = self.post_in_session(body).await.map(|(response, _)| response);
        report(sent, "a notification");
    }

    /// 404 says that nothing ran because the session is lost: then once more in another.
    async fn post_in_session(self: &Arc<Self>, body: Bytes) -> Result<(Response, Option<Generation>), NoAnswer> {
        let (headers, generation) = self.session.headers();
        let response = self.client.post(headers, body.clone()).await?;
        match generation {
            Some(lost) if response.status() == StatusCode::NOT_FOUND && self.reopen(lost).await => {
                let (headers, generation) = self.session.headers();
                Ok((self.client.post(headers, body).await?, generation))
            }
            Some(_) | None => Ok((response, generation)),
        }
    }

    /// Resumes a stream until the answer has come; gives up after a while without anything new.
    async fn resume(&self, pending: &mut Pending, from: ResumePoint, session: Generation) -> Result<(), NoAnswer> {
        let (mut from, mut fruitless) = (from, 0);
        while fruitless < MAX_FRUITLESS {
            tokio::time::sleep(from.wait).await;
            let (mut headers, current) = self.session.headers();
            if current != Some(session) {
                // In another session the same id may stand for somebody else's event.
                break;
            }
            headers.insert(LAST_EVENT_ID, from.last_event_id.clone());
            let response = self.client.open_stream(headers).await?;
            if response.status() != StatusCode::OK {
                return Err(broken());
            }
            match self.deliver(response, pending).await? {
                Delivered::All => return Ok(()),
                Delivered::Interrupted(Some(next)) if next.last_event_id != from.last_event_id => {
                    (from, fruitless) = (next, 0);
                }
                Delivered::Interrupted(_) => fruitless += 1,
            }
        }
        Err(broken())
    }

    /// Reopens a session that the gateway has lost; whether there is one now. Many may find out at once; the first
    /// does it.
    async fn reopen(self: &Arc<Self>, lost: Generation) -> bool {
        let _first = self.session.reopening.lock().await;
        if !self.session.is_current(lost) {
            return self.session.headers().1.is_some();
        }
        let Some(handshake) = self.session.handshake() else {
            return false;
        };
        let Some(generation) = self.initialize_again(handshake.initialize).await else {
            tracing::warn!("the gateway has lost the session and opens no other");
            return false;
        };
        tracing::info!("the gateway had lost the session; it is open again");
        if let Some(initialized) = handshake.initialized {
            let (headers, _) = self.session.headers();
            report(self.client.post(headers, initialized).await, "a notification");
            self.listen(generation);
        }
        true
    }

    /// The client's own `initialize` once more; it has an answer already and gets no second one.
    async fn initialize_again(&self, initialize: Bytes) -> Option<Generation> {
        let response = self.client.post(HeaderMap::new(), initialize.clone()).await.ok()?;
        let id = response.headers().get(SESSION_ID).cloned();
        if !response.status().is_success() {
            return None;
        }
        let mut messages = Messages::of(response, self.client.max_message_bytes())?;
        while let Ok(Some(message)) = messages.next().await {
            match server::parse(&message, DEEPEST) {
                Ok(ServerMessage::Result { result, .. }) => {
                    return Some(self.session.open(initialize, id, result.bytes()));
                }
                Ok(ServerMessage::Error { .. }) => return None,
                Ok(_) | Err(_) => {}
            }
        }
        None
    }

    /// Listens to the session's standalone stream, in a task of its own; a session that was lost is reopened.
    fn listen(self: &Arc<Self>, generation: Generation) {
        let this = Arc::clone(self);
        // Boxed because what it does includes this: the reopened session is listened to.
        let listening: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            let end = standalone_stream::listen(&this.client, &this.session, generation, &this.out).await;
            if end == StreamEnd::SessionLost {
                this.reopen(generation).await;
            }
        });
        tokio::spawn(listening);
    }
}

/// What the client does not wait for goes to the log, without its content.
fn report(sent: Result<Response, NoAnswer>, what: &str) {
    match sent {
        Ok(response) if response.status().is_success() => {}
        Ok(response) => tracing::warn!(status = response.status().as_u16(), "the gateway did not take {what}"),
        Err(NoAnswer(sentence)) => tracing::warn!("{what} did not arrive: {sentence}"),
    }
}

const MAX_FRUITLESS: u32 = 10;
/// How long the end of a session may take.
const SESSION_END: Duration = Duration::from_secs(2);
