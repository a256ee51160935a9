//! The gateway's answer to one request: messages out of a body or a stream, or why there are none.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, StatusCode};
use mcp::server::{self, ServerMessage};
use mcp::span::DEEPEST;
use mcp::sse::{Event, EventReader};
use reqwest::Response;

use super::gateway_client::NoAnswer;

/// The messages of one HTTP answer, in order.
pub(super) struct Messages {
    response: Response,
    form: Form,
    max_bytes: usize,
}

enum Form {
    Body,
    Stream(Box<EventReader>, VecDeque<Event>),
}

/// Where and when a stream that broke can be resumed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ResumePoint {
    pub(super) last_event_id: HeaderValue,
    pub(super) wait: Duration,
}

impl Messages {
    /// Reads an answer that has messages of at most `max_bytes` bytes; `None` if it has none.
    pub(super) fn of(response: Response, max_bytes: usize) -> Option<Self> {
        let media = mcp::http::media_type(response.headers())?;
        let form = if media.eq_ignore_ascii_case(mcp::http::JSON) {
            Form::Body
        } else if media.eq_ignore_ascii_case(mcp::http::EVENT_STREAM) {
            Form::Stream(Box::new(EventReader::new(max_bytes)), VecDeque::new())
        } else {
            return None;
        };
        Some(Self {
            response,
            form,
            max_bytes,
        })
    }

    /// The next message; `None` at the end, also at one that came too early.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, NoAnswer> {
        let too_large = || {
            NoAnswer(format!(
                "the gateway's answer is larger than {} MiB",
                self.max_bytes >> 20
            ))
        };
        match &mut self.form {
            Form::Body => {
                let body = read_body(&mut self.response, self.max_bytes).await;
                body.map(|body| (!body.is_empty()).then_some(body))
                    .or_else(|fault| match fault {
                        BodyFault::Interrupted => Ok(None),
                        BodyFault::TooLarge => Err(too_large()),
                    })
            }
            Form::Stream(reader, ready) => loop {
                if let Some(event) = ready.pop_front() {
                    return Ok(Some(event.data));
                }
                match self.response.chunk().await {
                    Ok(Some(piece)) => ready.extend(reader.feed(&piece).map_err(|_| too_large())?),
                    Ok(None) | Err(_) => return Ok(None),
                }
            },
        }
    }

    /// Where the stream can be resumed; `None` if it cannot.
    pub(super) fn resume_point(&self) -> Option<ResumePoint> {
        let Form::Stream(reader, _) = &self.form else {
            return None;
        };
        let last_event_id = HeaderValue::from_str(reader.last_id().filter(|id| !id.is_empty())?).ok()?;
        let wait = reader
            .retry_ms()
            .map_or(DEFAULT_WAIT, Duration::from_millis)
            .clamp(SHORTEST_WAIT, LONGEST_WAIT);
        Some(ResumePoint { last_event_id, wait })
    }
}

/// What a refusal by HTTP status means to the client: the gateway's own error, else a sentence of ours.
pub(super) enum Rejection {
    /// The raw `error` of a JSON-RPC error.
    Error(Bytes),
    Unexplained(NoAnswer),
}

impl Rejection {
    /// Reads the body of an answer whose status is no success.
    pub(super) async fn read(mut response: Response) -> Self {
        let status = response.status();
        let body = read_body(&mut response, MAX_REFUSAL_BYTES).await.unwrap_or_default();
        match server::parse(&body, DEEPEST) {
            Ok(ServerMessage::Error { error, .. }) => Self::Error(error),
            Ok(_) | Err(_) => Self::Unexplained(NoAnswer(advice(status))),
        }
    }
}

fn advice(status: StatusCode) -> String {
    let told = match status.as_u16() {
        401 => {
            "it does not accept the token, which may have expired or been revoked; `portreeve token create` makes another"
        }
        403 => "it does not answer to the host in its URL; see `listen.allowed_hosts`",
        404 | 405 => "it has no such route; check --server, and that PORTREEVE_URL ends in /mcp",
        413 => "the request is larger than it takes; see `limits.request.max_bytes`",
        429 | 503 => "it is busy; ask again a little later",
        500..=599 => "it, or a proxy before it, failed; its log says more",
        _ => "this is not what a gateway says; check --config or PORTREEVE_URL",
    };
    format!("the gateway answered with HTTP status {}: {told}", status.as_u16())
}

enum BodyFault {
    Interrupted,
    TooLarge,
}

async fn read_body(response: &mut Response, max_bytes: usize) -> Result<Bytes, BodyFault> {
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(|_| BodyFault::Interrupted)? {
        if body.len() + piece.len() > max_bytes {
            return Err(BodyFault::TooLarge);
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// The most of a refusal's body that is read.
const MAX_REFUSAL_BYTES: usize = 1 << 20;
/// The wait where the gateway names none.
pub(super) const DEFAULT_WAIT: Duration = Duration::from_secs(1);
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
/// The longest wait, whatever is asked for.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);
