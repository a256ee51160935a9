//! The gateway's answer to one request: messages out of a body or a stream, or why there are none.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, StatusCode};
use mcp::server::{self, ServerMessage};
use mcp::span::DEEPEST;
use mcp::sse::{Event, EventReader};
use reqwest::Response;

use super::gateway_client::Trouble;

/// The messages of one HTTP answer, in order.
pub(super) struct Messages {
    response: Response,
    form: Form,
    most: usize,
}

enum Form {
    Body,
    Stream(Box<EventReader>, VecDeque<Event>),
}

/// Where and when a stream that broke can be taken up again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Resume {
    pub(super) last_id: HeaderValue,
    pub(super) wait: Duration,
}

impl Messages {
    /// Reads an answer that has messages of at most `most` bytes; `None` if it has none.
    pub(super) fn of(response: Response, most: usize) -> Option<Self> {
        let media = mcp::http::media_type(response.headers())?;
        let form = if media.eq_ignore_ascii_case(mcp::http::JSON) {
            Form::Body
        } else if media.eq_ignore_ascii_case(mcp::http::EVENT_STREAM) {
            Form::Stream(Box::new(EventReader::new(most)), VecDeque::new())
        } else {
            return None;
        };
        Some(Self { response, form, most })
    }

    /// The next message; `None` at the end, also at one that came too early.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Trouble> {
        let too_large = || Trouble(format!("the gateway's answer is larger than {} MiB", self.most >> 20));
        match &mut self.form {
            Form::Body => {
                let body = read_body(&mut self.response, self.most).await;
                body.map(|body| (!body.is_empty()).then_some(body))
                    .or_else(|cut| match cut {
                        Cut::Short => Ok(None),
                        Cut::TooLarge => Err(too_large()),
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

    /// Where the stream can be taken up; `None` if it cannot.
    pub(super) fn resume(&self) -> Option<Resume> {
        let Form::Stream(reader, _) = &self.form else {
            return None;
        };
        let last_id = HeaderValue::from_str(reader.last_id().filter(|id| !id.is_empty())?).ok()?;
        let wait = reader
            .retry_ms()
            .map_or(USUAL_WAIT, Duration::from_millis)
            .clamp(SHORTEST_WAIT, LONGEST_WAIT);
        Some(Resume { last_id, wait })
    }
}

/// What a refusal by HTTP status means to the client: the gateway's own error, else a sentence of ours.
pub(super) enum Refused {
    /// The raw `error` of a JSON-RPC error.
    Error(Bytes),
    Otherwise(Trouble),
}

impl Refused {
    /// Reads the body of an answer whose status is no success.
    pub(super) async fn read(mut response: Response) -> Self {
        let status = response.status();
        let body = read_body(&mut response, MOST_REFUSAL).await.unwrap_or_default();
        match server::parse(&body, DEEPEST) {
            Ok(ServerMessage::Error { error, .. }) => Self::Error(error),
            Ok(_) | Err(_) => Self::Otherwise(Trouble(advice(status))),
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

enum Cut {
    Short,
    TooLarge,
}

async fn read_body(response: &mut Response, most: usize) -> Result<Bytes, Cut> {
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(|_| Cut::Short)? {
        if body.len() + piece.len() > most {
            return Err(Cut::TooLarge);
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// The most of a refusal's body that is read.
const MOST_REFUSAL: usize = 1 << 20;
/// The wait where the gateway names none.
pub(super) const USUAL_WAIT: Duration = Duration::from_secs(1);
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
/// The longest wait, whatever is asked for.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);
