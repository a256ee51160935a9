//! An event stream as it comes, so that a test can act between two events.

use std::time::Duration;

use serde_json::Value;

use super::wire::{Ask, Door, Headers, Wire};

/// An answer that is read while it is written.
pub(crate) struct Stream {
    wire: Wire,
    pub status: u16,
    pub headers: Headers,
    text: String,
    /// The id of the last event.
    pub last_id: Option<String>,
}

/// Longer than any event should take.
const PATIENCE: Duration = Duration::from_secs(20);

impl Stream {
    /// Sends a request and reads the head of its answer.
    pub(crate) async fn open(door: &Door, ask: &Ask) -> Self {
        let mut wire = door.open().await.unwrap();
        wire.send(&ask.bytes(door.address)).await.unwrap();
        let (status, headers) = wire.begin_reply().await.unwrap();
        let (text, last_id) = (String::new(), None);
        Self {
            wire,
            status,
            headers,
            text,
            last_id,
        }
    }

    /// Whether it is a stream of events.
    pub(crate) fn is_stream(&self) -> bool {
        let kind = self.headers.get("content-type").unwrap_or_default();
        self.status == 200 && kind.starts_with("text/event-stream")
    }

    /// The next message; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        tokio::time::timeout(PATIENCE, self.advance())
            .await
            .expect("an event, or the end of the stream")
    }

    /// Says that no message comes for a while.
    pub(crate) async fn is_silent_for(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.advance()).await.is_err()
    }

    async fn advance(&mut self) -> Option<Value> {
        assert!(self.is_stream(), "no stream: {} {:?}", self.status, self.headers);
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let id = event.lines().find_map(|line| line.strip_prefix("id: "));
                self.last_id = id.map(str::to_owned).or(self.last_id.take());
                let data = data_of(&event);
                if !data.is_empty() {
                    return Some(serde_json::from_str(&data).unwrap());
                }
            }
            let chunk = self.wire.chunk().await.ok()??;
            self.text += std::str::from_utf8(&chunk).unwrap();
        }
    }

    /// The message of a method, after others that do not matter.
    pub(crate) async fn until(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.expect("a message of that method");
            if message["method"] == method {
                return message;
            }
        }
    }

    /// The answer, after whatever comes before it.
    pub(crate) async fn answer(&mut self) -> Value {
        loop {
            let message = self.next().await.expect("an answer");
            if message.get("method").is_none() {
                return message;
            }
        }
    }
}

/// The data of one event, its lines joined.
pub(crate) fn data_of(event: &str) -> String {
    let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
    let lines: Vec<_> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    lines.join("\n")
}
