//! Reads the messages of one HTTP answer, one by one: a single JSON document, or the events of a
//! stream. Bounded, and nothing is collected that is not one message.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use mcp::http::EVENT_STREAM;
use mcp::server::{self, Nonsense, ServerMessage};
use mcp::sse::EventReader;

use crate::caps::Caps;
use crate::failure::Failure;
use crate::http::pool::ResponseBody;

/// The messages of one answer.
pub(crate) struct Messages {
    body: ResponseBody,
    form: Form,
    caps: Caps,
    ready: VecDeque<Bytes>,
    endpoint: Option<String>,
}

enum Form {
    /// One document; read whole.
    Document,
    /// Nothing more comes.
    Done,
    Events(Box<EventReader>),
    /// Labelled as events, but nothing was read yet: it may be a document all the same.
    Labelled(Box<EventReader>),
}

impl Messages {
    pub(crate) fn of(response: Response<ResponseBody>, caps: Caps) -> Self {
        let is_stream =
            mcp::http::media_type(response.headers()).is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM));
        let form = match response.status() {
            StatusCode::ACCEPTED => Form::Done,
            _ if is_stream => Form::Labelled(Box::new(EventReader::new(caps.max_bytes))),
            _ => Form::Document,
        };
        Self {
            body: response.into_body(),
            form,
            caps,
            ready: VecDeque::new(),
            endpoint: None,
        }
    }

    /// Where a stream that ended can be resumed, and after how long; `None` where it cannot.
    pub(crate) fn resumption(&self) -> Option<(&str, Option<u64>)> {
        match &self.form {
            Form::Events(reader) | Form::Labelled(reader) => reader.last_id().map(|id| (id, reader.retry_ms())),
            Form::Document | Form::Done => None,
        }
    }

    /// The next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<ServerMessage>, Failure> {
        Ok(match self.next_raw().await? {
            Some(raw) => Some(server::parse(&raw, self.caps.max_depth)?),
            None => None,
        })
    }

    /// The first event of HTTP+SSE: where messages are to be sent.
    pub(crate) async fn endpoint(&mut self) -> Result<Option<String>, Failure> {
        while self.endpoint.is_none() {
            let (Form::Events(_) | Form::Labelled(_)) = self.form else {
                return Ok(None);
            };
            let Some(piece) = self.body.piece().await? else {
                return Ok(None);
            };
            self.take_piece(piece).await?;
        }
        Ok(self.endpoint.take())
    }

    /// The next message as it came.
    pub(crate) async fn next_raw(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(raw) = self.ready.pop_front() {
                return Ok(Some(raw));
            }
            if matches!(self.form, Form::Document) {
                self.form = Form::Done;
                let whole = collect(&mut self.body, Bytes::new(), self.caps.max_bytes).await?;
                self.take_document(whole)?;
                continue;
            }
            let (Form::Events(_) | Form::Labelled(_)) = self.form else {
                return Ok(None);
            };
            let Some(piece) = self.body.piece().await? else {
                return Ok(None);
            };
            self.take_piece(piece).await?;
        }
    }

    /// Some servers label a plain document as a stream: the first byte tells.
    async fn take_piece(&mut self, piece: Bytes) -> Result<(), Failure> {
        let form = std::mem::replace(&mut self.form, Form::Done);
        let mut reader = match form {
            Form::Labelled(_) if matches!(piece.first(), Some(b'{' | b'[')) => {
                let whole = collect(&mut self.body, piece, self.caps.max_bytes).await?;
                return self.take_document(whole);
            }
            Form::Labelled(reader) | Form::Events(reader) => reader,
            Form::Document | Form::Done => return Ok(()),
        };
        let fed = reader.feed(&piece);
        self.form = Form::Events(reader);
        let events = fed.map_err(|_| Failure::TooLarge)?;
        for event in events {
            match event.name.as_str() {
                "" | "message" => self.ready.push_back(event.data),
                "endpoint" => self.endpoint = String::from_utf8(event.data.to_vec()).ok(),
                _ => {}
            }
        }
        Ok(())
    }

    /// One message, or several of a server that still sends batches.
    fn take_document(&mut self, whole: Bytes) -> Result<(), Failure> {
        const LARGEST_BATCH: usize = 1024;
        if whole.trim_ascii_start().first() == Some(&b'[') {
            let batch = mcp::envelope::split_batch(&whole, self.caps.max_depth, LARGEST_BATCH);
            self.ready
                .extend(batch.map_err(|_| Failure::Nonsense(Nonsense::NotAMessage))?);
        } else if !whole.is_empty() {
            self.ready.push_back(whole);
        }
        Ok(())
    }
}

/// Reads the rest of a body under a cap. One piece is handed on without being copied.
pub(crate) async fn collect(body: &mut ResponseBody, first: Bytes, max_bytes: usize) -> Result<Bytes, Failure> {
    if body.at_least() > max_bytes as u64 {
        return Err(Failure::TooLarge);
    }
    let first = if first.is_empty() {
        match body.piece().await? {
            Some(piece) => piece,
            None => return Ok(Bytes::new()),
        }
    } else {
        first
    };
    let mut whole = BytesMut::new();
    let mut total = first.len();
    while let Some(piece) = body.piece().await? {
        if whole.is_empty() {
            let expected = usize::try_from(body.at_least()).unwrap_or(0).min(max_bytes);
            whole.reserve(total + piece.len().max(expected));
            whole.extend_from_slice(&first);
        }
        total += piece.len();
        if total > max_bytes {
            return Err(Failure::TooLarge);
        }
        whole.extend_from_slice(&piece);
    }
    if total > max_bytes {
        return Err(Failure::TooLarge);
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}
