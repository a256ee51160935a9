//! Carries one message to the gateway and everything that comes back to the client: in a session, which is
//! opened anew when the gateway has lost it, or by itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use mcp::RequestId;
use mcp::http::SESSION_ID;
use mcp::server::{self, ServerMessage};
use mcp::span::DEEPEST;
use reqwest::Response;

use super::gateway_client::{Exchange, Trouble, broken};
use super::message::{self, Mirrored, NO_ANSWER};
use super::response::{Messages, Refused, Resume};
use super::session::{Generation, Session};
use super::standalone_stream;
use super::stdio::Out;
use super::tool_headers::KnownMarks;

/// Everything a message needs on its way.
pub(super) struct Relay {
    pub(super) exchange: Exchange,
    pub(super) session: Session,
    pub(super) out: Out,
    marks: KnownMarks,
}

/// What the client waits for.
pub(super) struct Asked {
    /// The requests that have no answer yet.
    pub(super) ids: Vec<RequestId>,
    pub(super) purpose: Purpose,
}

/// What we ourselves take from the answer.
pub(super) enum Purpose {
    /// The session, opened with these words, with the id that the head of the answer gave.
    Open(Bytes, Option<HeaderValue>),
    /// The marks of the tools.
    LearnMarks,
    Nothing,
}

/// How the messages of an answer ended.
enum Ended {
    Answered,
    /// Too early; perhaps it can be taken up.
    Early(Option<Resume>),
}

impl Ended {
    /// Whether that was all, where nothing can be taken up.
    fn here(self) -> Result<(), Trouble> {
        match self {
            Self::Answered => Ok(()),
            Self::Early(_) => Err(broken()),
        }
    }
}

impl Relay {
    pub(super) fn new(exchange: Exchange, out: Out) -> Arc<Self> {
        Arc::new(Self {
            exchange,
            session: Session::default(),
            out,
            marks: KnownMarks::default(),
        })
    }

    /// Opens the client's session; one that it had before is ended.
    pub(super) async fn open(&self, id: RequestId, initialize: Bytes) {
        self.end_session().await;
        let mut asked = Asked {
            ids: vec![id],
            purpose: Purpose::Open(initialize.clone(), None),
        };
        let done = match self.exchange.post(http::HeaderMap::new(), initialize).await {
            Ok(response) => self.deliver(response, &mut asked).await.and_then(Ended::here),
            Err(trouble) => Err(trouble),
        };
        self.settle(done, &asked).await;
    }

    /// Tells the gateway that the client is ready, then listens to what it says by itself.
    pub(super) async fn ready(self: &Arc<Self>, initialized: Bytes) {
        self.session.ready(initialized.clone());
        self.tell(initialized).await;
        if let (_, Some(generation)) = self.session.headers() {
            standalone_stream::start(Arc::clone(self), generation);
        }
    }

    /// Asks within the session and gives the client every answer it waits for.
    pub(super) async fn ask(self: &Arc<Self>, asked: &mut Asked, body: Bytes) -> Result<(), Trouble> {
        let (response, session) = self.post_in_session(body).await?;
        match (self.deliver(response, asked).await?, session) {
            (Ended::Early(Some(resume)), Some(session)) => self.take_up(asked, resume, session).await,
            (ended, _) => ended.here(),
        }
    }

    /// Asks without a session.
    pub(super) async fn ask_modern(&self, asked: &mut Asked, mirrored: &Mirrored, body: Bytes) -> Result<(), Trouble> {
        let response = self.exchange.post(self.marks.headers(mirrored), body).await?;
        self.deliver(response, asked).await?.here()
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
            report(self.exchange.post(headers, body).await, "a response");
        }
    }

    /// Posts a modern notification.
    pub(super) async fn tell_modern(&self, mirrored: &Mirrored, body: Bytes) {
        let told = self.exchange.post(self.marks.headers(mirrored), body).await;
        report(told, "a notification");
    }

    /// Gives each request that is still waiting an error that says why.
    pub(super) async fn settle(&self, done: Result<(), Trouble>, asked: &Asked) {
        let Err(Trouble(sentence)) = done else { return };
        tracing::warn!("{sentence}");
        for id in &asked.ids {
            self.out.print(message::error(Some(id), NO_ANSWER, &sentence)).await;
        }
    }

    /// Ends the session, if there is one.
    pub(super) async fn end_session(&self) {
        let Some(headers) = self.session.close() else { return };
        let end = self.exchange.send(http::Method::DELETE, headers, Bytes::new());
        let _ = tokio::time::timeout(FAREWELL, end).await;
    }

    /// Opens a session anew that the gateway has lost; whether there is one now. Many may find out at once;
    /// the first does it.
    pub(super) async fn renew(self: &Arc<Self>, lost: Generation) -> bool {
        let _first = self.session.renewing.lock().await;
        if !self.session.is(lost) {
            return self.session.headers().1.is_some();
        }
        let Some(opening) = self.session.opening() else {
            return false;
        };
        let Some(generation) = self.reopen(opening.initialize).await else {
            tracing::warn!("the gateway has lost the session and opens no other");
            return false;
        };
        tracing::info!("the gateway had lost the session; it is open again");
        if let Some(initialized) = opening.initialized {
            let (headers, _) = self.session.headers();
            report(self.exchange.post(headers, initialized).await, "a notification");
            standalone_stream::start(Arc::clone(self), generation);
        }
        true
    }

    /// The client's own `initialize` once more; it has an answer already and gets no second one.
    async fn reopen(&self, initialize: Bytes) -> Option<Generation> {
        let response = self
            .exchange
            .post(http::HeaderMap::new(), initialize.clone())
            .await
            .ok()?;
        let id = response.headers().get(SESSION_ID).cloned();
        if !response.status().is_success() {
            return None;
        }
        let mut messages = Messages::of(response, self.exchange.largest_answer())?;
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
    async fn post_in_session(self: &Arc<Self>, body: Bytes) -> Result<(Response, Option<Generation>), Trouble> {
        let (headers, generation) = self.session.headers();
        let response = self.exchange.post(headers, body.clone()).await?;
        match generation {
            Some(lost) if response.status() == StatusCode::NOT_FOUND && self.renew(lost).await => {
                let (headers, generation) = self.session.headers();
                Ok((self.exchange.post(headers, body).await?, generation))
            }
            Some(_) | None => Ok((response, generation)),
        }
    }

    /// Gives the client what an answer holds, up to the last answer it waits for.
    async fn deliver(&self, response: Response, asked: &mut Asked) -> Result<Ended, Trouble> {
        if !response.status().is_success() {
            return self.refuse(response, asked).await;
        }
        if let Purpose::Open(_, session) = &mut asked.purpose {
            *session = response.headers().get(SESSION_ID).cloned();
        }
        let status = response.status().as_u16();
        let messages = match status {
            202 | 204 => None,
            _ => Messages::of(response, self.exchange.largest_answer()),
        };
        let Some(mut messages) = messages else {
            // A batch without requests has no answer.
            return if asked.ids.is_empty() {
                Ok(Ended::Answered)
            } else {
                Err(Trouble(format!(
                    "the gateway took the request and gave no answer (HTTP status {status}): this is not what a gateway \
                     says; check --config or PORTREEVE_URL"
                )))
            };
        };
        while let Some(message) = messages.next().await? {
            self.hand_over(message, asked).await;
            if asked.ids.is_empty() {
                return Ok(Ended::Answered);
            }
        }
        Ok(Ended::Early(messages.resume()))
    }

    /// Gives the client one message, after we took from it what we need ourselves.
    async fn hand_over(&self, message: Bytes, asked: &mut Asked) {
        let waiting = |id: &[u8], asked: &Asked| asked.ids.iter().position(|asked| asked.as_raw() == id);
        match server::parse(&message, DEEPEST) {
            Ok(ServerMessage::Result { id, result }) => {
                if let Some(at) = waiting(&id, asked) {
                    asked.ids.swap_remove(at);
                    self.take_from(result.bytes(), &asked.purpose);
                }
            }
            Ok(ServerMessage::Error { id, error }) => match (waiting(&id, asked), asked.ids.as_slice()) {
                (Some(at), _) => drop(asked.ids.swap_remove(at)),
                (None, [only]) if id.as_ref() == b"null" => {
                    let answer = message::failure(Some(only), &error);
                    asked.ids.clear();
                    return self.out.print(answer).await;
                }
                (None, _) => {}
            },
            Ok(_) => {}
            Err(_) if message.trim_ascii_start().starts_with(b"[") => asked.ids.clear(),
            Err(nonsense) => return tracing::warn!("a message of the gateway was left out: {nonsense}"),
        }
        self.out.print(message).await;
    }

    fn take_from(&self, result: &[u8], purpose: &Purpose) {
        match purpose {
            Purpose::Open(initialize, id) => drop(self.session.open(initialize.clone(), id.clone(), result)),
            Purpose::LearnMarks => self.marks.learn(result),
            Purpose::Nothing => {}
        }
    }

    /// Gives the client the gateway's refusal.
    async fn refuse(&self, response: Response, asked: &mut Asked) -> Result<Ended, Trouble> {
        let status = response.status().as_u16();
        match Refused::read(response).await {
            Refused::Error(error) => {
                tracing::warn!(status, "the gateway refused a request");
                for id in asked.ids.drain(..) {
                    self.out.print(message::failure(Some(&id), &error)).await;
                }
                Ok(Ended::Answered)
            }
            Refused::Otherwise(trouble) => Err(trouble),
        }
    }

    /// Takes a stream up again until the answer has come; gives up after a while without anything new.
    async fn take_up(&self, asked: &mut Asked, mut resume: Resume, session: Generation) -> Result<(), Trouble> {
        let mut fruitless = 0;
        while fruitless < MOST_FRUITLESS {
            tokio::time::sleep(resume.wait).await;
            let (mut headers, now) = self.session.headers();
            if now != Some(session) {
                // In another session the same id may stand for somebody else's event.
                break;
            }
            headers.insert(LAST_EVENT_ID, resume.last_id.clone());
            let response = self.exchange.open_stream(headers).await?;
            if response.status() != StatusCode::OK {
                return Err(broken());
            }
            match self.deliver(response, asked).await? {
                Ended::Answered => return Ok(()),
                Ended::Early(Some(next)) if next.last_id != resume.last_id => (resume, fruitless) = (next, 0),
                Ended::Early(_) => fruitless += 1,
            }
        }
        Err(broken())
    }
}

/// What the client does not wait for goes to the log, without its content.
fn report(sent: Result<Response, Trouble>, what: &str) {
    match sent {
        Ok(response) if response.status().is_success() => {}
        Ok(response) => tracing::warn!(status = response.status().as_u16(), "the gateway did not take {what}"),
        Err(Trouble(sentence)) => tracing::warn!("{what} did not arrive: {sentence}"),
    }
}

/// `Last-Event-ID`
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const MOST_FRUITLESS: u32 = 10;
/// How long the end of a session may take.
const FAREWELL: Duration = Duration::from_secs(2);
