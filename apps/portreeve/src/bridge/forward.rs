//! Carries one message to the gateway and everything that comes back to the client: in a session, which is
//! opened anew when the gateway has lost it, or by itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use mcp::RequestId;
use mcp::http::{LAST_EVENT_ID, SESSION_ID};
use mcp::server::{self, ServerMessage};
use mcp::span::DEEPEST;
use reqwest::Response;

use super::gateway_client::{GatewayClient, NoAnswer, broken};
use super::message::{self, INTERNAL_ERROR, Mirrored};
use super::response::{Messages, Rejection, ResumePoint};
use super::session::{Generation, Session};
use super::standalone_stream;
use super::stdio::StdoutSender;
use super::tool_headers::ToolHeaders;

/// Everything a message needs on its way.
pub(super) struct Forwarder {
    pub(super) client: GatewayClient,
    pub(super) session: Session,
    pub(super) out: StdoutSender,
    tool_headers: ToolHeaders,
}

/// What the client waits for.
pub(super) struct Pending {
    /// The requests that have no answer yet.
    pub(super) ids: Vec<RequestId>,
    pub(super) purpose: Purpose,
}

/// What we ourselves take from the answer.
pub(super) enum Purpose {
    /// The session, opened with these words, with the id that the head of the answer gave.
    OpenSession(Bytes, Option<HeaderValue>),
    /// The headers of the tools.
    LearnToolHeaders,
    ForwardOnly,
}

/// How the messages of an answer ended.
enum Delivered {
    All,
    /// Too early; perhaps it can be resumed.
    Interrupted(Option<ResumePoint>),
}

impl Delivered {
    /// Whether that was all, where nothing can be taken up.
    fn here(self) -> Result<(), NoAnswer> {
        match self {
            Self::All => Ok(()),
            Self::Interrupted(_) => Err(broken()),
        }
    }
}

impl Forwarder {
    pub(super) fn new(client: GatewayClient, out: StdoutSender) -> Arc<Self> {
        Arc::new(Self {
            client,
            session: Session::default(),
            out,
            tool_headers: ToolHeaders::default(),
        })
    }

    /// Opens the client's session; one that it had before is ended.
    pub(super) async fn open(&self, id: RequestId, initialize: Bytes) {
        self.end_session().await;
        let mut pending = Pending {
            ids: vec![id],
            purpose: Purpose::OpenSession(initialize.clone(), None),
        };
        let done = match self.client.post(http::HeaderMap::new(), initialize).await {
            Ok(response) => self.deliver(response, &mut pending).await.and_then(Delivered::here),
            Err(no_answer) => Err(no_answer),
        };
        self.settle(done, &pending).await;
    }

    /// Tells the gateway that the client is ready, then listens to what it says by itself.
    pub(super) async fn ready(self: &Arc<Self>, initialized: Bytes) {
        self.session.initialized(initialized.clone());
        self.tell(initialized).await;
        if let (_, Some(generation)) = self.session.headers() {
            standalone_stream::start(Arc::clone(self), generation);
        }
    }

    /// Asks within the session and gives the client every answer it waits for.
    pub(super) async fn ask(self: &Arc<Self>, pending: &mut Pending, body: Bytes) -> Result<(), NoAnswer> {
        let (response, session) = self.post_in_session(body).await?;
        match (self.deliver(response, pending).await?, session) {
            (Delivered::Interrupted(Some(resume)), Some(session)) => self.take_up(pending, resume, session).await,
            (ended, _) => ended.here(),
        }
    }

    /// Asks without a session.
    pub(super) async fn ask_modern(
        &self,
        pending: &mut Pending,
        mirrored: &Mirrored,
        body: Bytes,
    ) -> Result<(), NoAnswer> {
        let response = self.client.post(self.tool_headers.headers(mirrored), body).await?;
        self.deliver(response, pending).await?.here()
    }

    /// Posts a notification within the session, or opened anew.
    pub(super) async fn tell(self: &Arc<Self>, body: Bytes) {
        let told = self.post_in_session(body).await.map(|(response, _)| response);
        report(told, "a notification");
    }

    /// Posts an answer of the client's. Only the session that asked can use it.
    pub(super) async fn respond(&self, body: Bytes) {
        let (headers, generation) = self.session.headers();
        if generation.is_some() {
            report(self.client.post(headers, body).await, "a response");
        }
    }

    /// Posts a modern notification.
    pub(super) async fn tell_modern(&self, mirrored: &Mirrored, body: Bytes) {
        let told = self.client.post(self.tool_headers.headers(mirrored), body).await;
        report(told, "a notification");
    }

    /// Gives each request that is still waiting an error that says why.
    pub(super) async fn settle(&self, done: Result<(), NoAnswer>, pending: &Pending) {
        let Err(NoAnswer(sentence)) = done else { return };
        tracing::warn!("{sentence}");
        for id in &pending.ids {
            self.out
                .send(message::error_response(Some(id), INTERNAL_ERROR, &sentence))
                .await;
        }
    }

    /// Ends the session, if there is one.
    pub(super) async fn end_session(&self) {
        let Some(headers) = self.session.close() else { return };
        let end = self.client.send(http::Method::DELETE, headers, Bytes::new());
        let _ = tokio::time::timeout(FAREWELL, end).await;
    }

    /// Opens a session anew that the gateway has lost; whether there is one now. Many may find out at once;
    /// the first does it.
    pub(super) async fn renew(self: &Arc<Self>, lost: Generation) -> bool {
        let _first = self.session.renewing.lock().await;
        if !self.session.is_current(lost) {
            return self.session.headers().1.is_some();
        }
        let Some(handshake) = self.session.handshake() else {
            return false;
        };
        let Some(generation) = self.reopen(handshake.initialize).await else {
            tracing::warn!("the gateway has lost the session and opens no other");
            return false;
        };
        tracing::info!("the gateway had lost the session; it is open again");
        if let Some(initialized) = handshake.initialized {
            let (headers, _) = self.session.headers();
            report(self.client.post(headers, initialized).await, "a notification");
            standalone_stream::start(Arc::clone(self), generation);
        }
        true
    }

    /// The client's own `initialize` once more; it has an answer already and gets no second one.
    async fn reopen(&self, initialize: Bytes) -> Option<Generation> {
        let response = self
            .client
            .post(http::HeaderMap::new(), initialize.clone())
            .await
            .ok()?;
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

    /// 404 says that nothing ran because the session is lost: then once more in another.
    async fn post_in_session(self: &Arc<Self>, body: Bytes) -> Result<(Response, Option<Generation>), NoAnswer> {
        let (headers, generation) = self.session.headers();
        let response = self.client.post(headers, body.clone()).await?;
        match generation {
            Some(lost) if response.status() == StatusCode::NOT_FOUND && self.renew(lost).await => {
                let (headers, generation) = self.session.headers();
                Ok((self.client.post(headers, body).await?, generation))
            }
            Some(_) | None => Ok((response, generation)),
        }
    }

    /// Gives the client what an answer holds, up to the last answer it waits for.
    async fn deliver(&self, response: Response, pending: &mut Pending) -> Result<Delivered, NoAnswer> {
        if !response.status().is_success() {
            return self.refuse(response, pending).await;
        }
        if let Purpose::OpenSession(_, session) = &mut pending.purpose {
            *session = response.headers().get(SESSION_ID).cloned();
        }
        let status = response.status().as_u16();
        let messages = match status {
            202 | 204 => None,
            _ => Messages::of(response, self.client.max_message_bytes()),
        };
        let Some(mut messages) = messages else {
            // A batch without requests has no answer.
            return if pending.ids.is_empty() {
                Ok(Delivered::All)
            } else {
                Err(NoAnswer(format!(
                    "the gateway took the request and gave no answer (HTTP status {status}): this is not what a gateway \
                     says; check --config or PORTREEVE_URL"
                )))
            };
        };
        while let Some(message) = messages.next().await? {
            self.hand_over(message, pending).await;
            if pending.ids.is_empty() {
                return Ok(Delivered::All);
            }
        }
        Ok(Delivered::Interrupted(messages.resume_point()))
    }

    /// Gives the client one message, after we took from it what we need ourselves.
    async fn hand_over(&self, message: Bytes, pending: &mut Pending) {
        let waiting = |id: &[u8], pending: &Pending| pending.ids.iter().position(|pending| pending.as_raw() == id);
        match server::parse(&message, DEEPEST) {
            Ok(ServerMessage::Result { id, result }) => {
                if let Some(at) = waiting(&id, pending) {
                    pending.ids.swap_remove(at);
                    self.take_from(result.bytes(), &pending.purpose);
                }
            }
            Ok(ServerMessage::Error { id, error }) => match (waiting(&id, pending), pending.ids.as_slice()) {
                (Some(at), _) => drop(pending.ids.swap_remove(at)),
                (None, [only]) if id.as_ref() == b"null" => {
                    let answer = message::error_response_from(Some(only), &error);
                    pending.ids.clear();
                    return self.out.send(answer).await;
                }
                (None, _) => {}
            },
            Ok(_) => {}
            Err(_) if message.trim_ascii_start().starts_with(b"[") => pending.ids.clear(),
            Err(nonsense) => return tracing::warn!("a message of the gateway was left out: {nonsense}"),
        }
        self.out.send(message).await;
    }

    fn take_from(&self, result: &[u8], purpose: &Purpose) {
        match purpose {
            Purpose::OpenSession(initialize, id) => drop(self.session.open(initialize.clone(), id.clone(), result)),
            Purpose::LearnToolHeaders => self.tool_headers.learn(result),
            Purpose::ForwardOnly => {}
        }
    }

    /// Gives the client the gateway's refusal.
    async fn refuse(&self, response: Response, pending: &mut Pending) -> Result<Delivered, NoAnswer> {
        let status = response.status().as_u16();
        match Rejection::read(response).await {
            Rejection::Error(error) => {
                tracing::warn!(status, "the gateway refused a request");
                for id in pending.ids.drain(..) {
                    self.out.send(message::error_response_from(Some(&id), &error)).await;
                }
                Ok(Delivered::All)
            }
            Rejection::Unexplained(no_answer) => Err(no_answer),
        }
    }

    /// Takes a stream up again until the answer has come; gives up after a while without anything new.
    async fn take_up(
        &self,
        pending: &mut Pending,
        mut resume: ResumePoint,
        session: Generation,
    ) -> Result<(), NoAnswer> {
        let mut fruitless = 0;
        while fruitless < MOST_FRUITLESS {
            tokio::time::sleep(resume.wait).await;
            let (mut headers, now) = self.session.headers();
            if now != Some(session) {
                // In another session the same id may stand for somebody else's event.
                break;
            }
            headers.insert(LAST_EVENT_ID, resume.last_event_id.clone());
            let response = self.client.open_stream(headers).await?;
            if response.status() != StatusCode::OK {
                return Err(broken());
            }
            match self.deliver(response, pending).await? {
                Delivered::All => return Ok(()),
                Delivered::Interrupted(Some(next)) if next.last_event_id != resume.last_event_id => {
                    (resume, fruitless) = (next, 0)
                }
                Delivered::Interrupted(_) => fruitless += 1,
            }
        }
        Err(broken())
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

const MOST_FRUITLESS: u32 = 10;
/// How long the end of a session may take.
const FAREWELL: Duration = Duration::from_secs(2);
