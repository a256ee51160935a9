//! Gives the client what the gateway answered, up to the last answer it waits for, after taking from it what the
//! bridge itself needs.

use bytes::Bytes;
use http::HeaderValue;
use mcp::http::SESSION_ID;
use mcp::server::{self, ServerMessage};
use mcp::span::DEEPEST;
use mcp::{Method, RequestId};
use reqwest::Response;

use super::gateway_client::{NoAnswer, broken};
use super::message;
use super::response::{Messages, Rejection, ResumePoint};
use super::session::Session;
use super::stdio::StdoutSender;
use super::tool_headers::ToolHeaders;

/// What the client waits for.
pub(super) struct Pending {
    /// The requests that have no answer yet.
    pub(super) ids: Vec<RequestId>,
    purpose: Purpose,
}

/// What we ourselves take from the answer.
enum Purpose {
    /// The session, opened by this request, with the id that the head of the answer gives.
    OpenSession {
        initialize: Bytes,
        session_id: Option<HeaderValue>,
    },
    /// Which arguments of the tools are mirrored in headers.
    LearnToolHeaders,
    ForwardOnly,
}

/// How the messages of an answer ended.
pub(super) enum Delivered {
    All,
    /// Too early; perhaps it can be resumed.
    Interrupted(Option<ResumePoint>),
}

impl Delivered {
    /// Whether that was all, where nothing can be resumed.
    pub(super) fn without_resuming(self) -> Result<(), NoAnswer> {
        match self {
            Self::All => Ok(()),
            Self::Interrupted(_) => Err(broken()),
        }
    }
}

impl Pending {
    /// The request that opens a session.
    pub(super) fn initialize(id: RequestId, initialize: Bytes) -> Self {
        let purpose = Purpose::OpenSession {
            initialize,
            session_id: None,
        };
        Self { ids: vec![id], purpose }
    }

    /// Any other request.
    pub(super) fn request(id: RequestId, method: &Method) -> Self {
        let purpose = match *method == Method::ToolsList {
            true => Purpose::LearnToolHeaders,
            false => Purpose::ForwardOnly,
        };
        Self { ids: vec![id], purpose }
    }

    /// The requests of a batch.
    pub(super) fn batch(ids: Vec<RequestId>) -> Self {
        let purpose = Purpose::ForwardOnly;
        Self { ids, purpose }
    }

    fn position(&self, id: &[u8]) -> Option<usize> {
        self.ids.iter().position(|pending| pending.as_raw() == id)
    }
}

/// Where answers go.
pub(super) struct Delivery<'a> {
    pub(super) out: &'a StdoutSender,
    pub(super) session: &'a Session,
    pub(super) tool_headers: &'a ToolHeaders,
    pub(super) max_message_bytes: usize,
}

impl Delivery<'_> {
    /// Gives the client what an answer holds, up to the last answer it waits for.
    pub(super) async fn deliver(&self, response: Response, pending: &mut Pending) -> Result<Delivered, NoAnswer> {
        if !response.status().is_success() {
            return self.reject(response, pending).await;
        }
        if let Purpose::OpenSession { session_id, .. } = &mut pending.purpose {
            *session_id = response.headers().get(SESSION_ID).cloned();
        }
        let status = response.status().as_u16();
        let messages = match status {
            202 | 204 => None,
            _ => Messages::of(response, self.max_message_bytes),
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
            self.forward(message, pending).await;
            if pending.ids.is_empty() {
                return Ok(Delivered::All);
            }
        }
        Ok(Delivered::Interrupted(messages.resume_point()))
    }

    /// Gives the client one message, after we took from it what we need ourselves.
    async fn forward(&self, message: Bytes, pending: &mut Pending) {
        match server::parse(&message, DEEPEST) {
            Ok(ServerMessage::Result { id, result }) => {
                if let Some(at) = pending.position(&id) {
                    pending.ids.swap_remove(at);
                    self.learn(result.bytes(), &pending.purpose);
                }
            }
            Ok(ServerMessage::Error { id, error }) => match (pending.position(&id), pending.ids.as_slice()) {
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

    fn learn(&self, result: &[u8], purpose: &Purpose) {
        match purpose {
            Purpose::OpenSession { initialize, session_id } => {
                self.session.open(initialize.clone(), session_id.clone(), result);
            }
            Purpose::LearnToolHeaders => self.tool_headers.learn(result),
            Purpose::ForwardOnly => {}
        }
    }

    /// Gives the client the gateway's refusal.
    async fn reject(&self, response: Response, pending: &mut Pending) -> Result<Delivered, NoAnswer> {
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
}
