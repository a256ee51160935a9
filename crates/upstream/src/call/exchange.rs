//! One request and its answer: reads what the server sends until the answer comes, hands
//! everything else to the observer, and resumes a stream that the server closed on the way.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use mcp::http::SESSION_ID;
use mcp::server::{Nonsense, ServerMessage, is_our_id};

use crate::call::observer::{Observer, RawNotification, RawServerRequest, ServerEvent};
use crate::credentials::Behalf;
use crate::failure::Failure;
use crate::http::messages::Messages;
use crate::http::pool::ResponseBody;
use crate::http::{Post, check_status};
use crate::server::Server;
use crate::session::multiplex::Multiplex;
use crate::session::opened::Opened;

/// A request that waits for its answer.
pub(crate) struct Exchange<'a> {
    pub(crate) server: &'a Arc<Server>,
    pub(crate) id: u64,
    /// The session it is made in; none towards a modern server, and none before there is one.
    pub(crate) session: Option<&'a Opened>,
    /// On whose behalf it is made.
    pub(crate) behalf: &'a Behalf,
    pub(crate) observer: &'a dyn Observer,
}

/// An answer: a result or an error, and the session id that came with it.
pub(crate) struct Answered {
    pub(crate) message: ServerMessage,
    pub(crate) session_id: Option<HeaderValue>,
    pub(crate) status: StatusCode,
}

/// How often a stream that ended without an answer is resumed.
const MOST_RESUMPTIONS: usize = 50;
/// How long we wait before that, where the server says nothing.
const USUAL_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

impl Exchange<'_> {
    /// Sends the request and waits for its answer.
    pub(crate) async fn run(&self, post: Post<'_>) -> Result<Answered, Failure> {
        if let Some(multiplex) = self.session.and_then(|session| session.multiplex.as_ref()) {
            return Box::pin(self.run_apart(multiplex, post)).await;
        }
        match self.session.and_then(|session| session.beside.as_ref()) {
            Some(beside) => Box::pin(self.run_between(beside, post)).await,
            None => self.run_here(post).await,
        }
    }

    /// Reads the answer, and what the server says meanwhile on its session's own stream.
    async fn run_between(&self, beside: &Arc<Multiplex>, post: Post<'_>) -> Result<Answered, Failure> {
        let mut inbox = beside.expect(self.id, None);
        let mut answering = pin!(self.run_here(post));
        loop {
            tokio::select! {
                biased;
                answered = &mut answering => return answered,
                Some(message) = inbox.next() => match message {
                    ServerMessage::Notification(_) | ServerMessage::Request(_) => drop(self.take(message).await?),
                    // Answers come where they were asked for.
                    ServerMessage::Result { .. } | ServerMessage::Error { .. } => {}
                },
            }
        }
    }

    /// The answer is what the request's own connection says.
    async fn run_here(&self, post: Post<'_>) -> Result<Answered, Failure> {
        let response = self.server.link.send(post).await?;
        let (status, session_id) = (response.status(), response.headers().get(SESSION_ID).cloned());
        let message = if status.is_success() {
            self.read(response).await?
        } else {
            Box::pin(self.read_refusal(response)).await?
        };
        Ok(Answered {
            message,
            session_id,
            status,
        })
    }

    /// Sends the request where nothing is answered, and waits for its answer on the stream.
    async fn run_apart(&self, multiplex: &Arc<Multiplex>, post: Post<'_>) -> Result<Answered, Failure> {
        let mut inbox = multiplex.expect(self.id, self.observer.open_call());
        self.server.link.notify(post).await?;
        while let Some(message) = inbox.next().await {
            if let Some(message) = self.take(message).await? {
                return Ok(Answered {
                    message,
                    session_id: None,
                    status: StatusCode::OK,
                });
            }
        }
        Err(multiplex.ended())
    }

    async fn read(&self, response: Response<ResponseBody>) -> Result<ServerMessage, Failure> {
        let mut messages = Messages::of(response, self.server.caps);
        for _ in 0..MOST_RESUMPTIONS {
            let broken = match self.read_stream(&mut messages).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => Failure::Broken("the stream ended without an answer".into()),
                Err(failure @ Failure::Broken(_)) => failure,
                Err(failure) => return Err(failure),
            };
            let (Some((last, retry)), Some(session)) = (messages.resumption(), self.session) else {
                return Err(broken);
            };
            let (last, wait) = (last.to_owned(), retry.map_or(USUAL_RETRY, Duration::from_millis));
            tokio::time::sleep(wait.min(LONGEST_RETRY)).await;
            let resuming = async {
                let credential = self.server.credential_for(self.behalf).await?;
                self.server.link.open_stream(session, &credential, Some(&last)).await
            };
            // The request was taken: whatever becomes of its stream, nobody knows whether it ran.
            let resumed = Box::pin(resuming).await;
            let response = resumed.map_err(|failure| Failure::Broken(Box::new(failure)))?;
            messages = Messages::of(response, self.server.caps);
        }
        Err(Failure::Broken("the stream ended too often without an answer".into()))
    }

    /// Reads until the answer; `None` if the stream ends before.
    async fn read_stream(&self, messages: &mut Messages) -> Result<Option<ServerMessage>, Failure> {
        while let Some(message) = messages.next().await? {
            if let Some(answer) = self.take(message).await? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// The message, if it is the answer; anything else is for the observer.
    async fn take(&self, message: ServerMessage) -> Result<Option<ServerMessage>, Failure> {
        match message {
            ServerMessage::Result { ref id, .. } if is_our_id(id, self.id) => Ok(Some(message)),
            ServerMessage::Error { ref id, .. } if is_our_id(id, self.id) || id.as_ref() == b"null" => {
                Ok(Some(message))
            }
            ServerMessage::Result { .. } | ServerMessage::Error { .. } => Err(Failure::Nonsense(Nonsense::NotAMessage)),
            ServerMessage::Notification(told) => {
                let event = ServerEvent::Notification(RawNotification::new(told));
                self.observer.observe(event).await;
                Ok(None)
            }
            ServerMessage::Request(asked) => {
                Box::pin(self.ask(asked)).await;
                Ok(None)
            }
        }
    }

    /// A request of the server; `ping` is answered here. A modern server must not ask this way.
    async fn ask(&self, asked: mcp::server::ServerRequest) {
        let Some(session) = self.session else { return };
        let request = RawServerRequest::new(asked, self.server.clone(), session.clone(), self.behalf.clone());
        if request.method() == "ping" {
            request.acknowledge().await;
        } else {
            self.observer.observe(ServerEvent::Request(request)).await;
        }
    }

    /// An error may come with an HTTP status of its own; anything else is the status alone.
    async fn read_refusal(&self, response: Response<ResponseBody>) -> Result<ServerMessage, Failure> {
        let status = response.status();
        let had_session = self.session.is_some_and(|session| session.session_id.is_some());
        if let Err(gone @ Failure::SessionGone) = check_status(status, had_session) {
            return Err(gone);
        }
        let mut messages = Messages::of(response, self.server.caps);
        let answers = |id: &Bytes| is_our_id(id, self.id) || (self.session.is_none() && id.as_ref() == b"null");
        match messages.next().await {
            Ok(Some(message)) => match message {
                ServerMessage::Error { ref id, .. } if answers(id) => Ok(message),
                ServerMessage::Result { .. }
                | ServerMessage::Error { .. }
                | ServerMessage::Notification(_)
                | ServerMessage::Request(_) => Err(Failure::Status(status.as_u16())),
            },
            Ok(None) | Err(_) => Err(Failure::Status(status.as_u16())),
        }
    }
}
