//! Events of a stream: a message that may be said to a client, framed, or what keeps a stream going.

use bytes::Bytes;
use mcp::sse;

use crate::message::client::ClientMessage;

/// An event, ready to be sent. It cannot be made from bytes, only from a [`ClientMessage`]:
///
/// ```compile_fail,E0423
/// fn forge(bytes: bytes::Bytes) -> portreeve_gateway::Event {
///     portreeve_gateway::Event(bytes)
/// }
/// ```
///
/// ```
/// fn pass_on(event: portreeve_gateway::Event) -> portreeve_gateway::Event {
///     event
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event(Bytes);

impl Event {
    /// A message; under an id where the stream can be resumed.
    pub(crate) fn of(message: &ClientMessage, id: Option<&str>) -> Self {
        Self(sse::event(id, &message.joined()))
    }

    /// Says only how a stream is resumed.
    pub(crate) fn opening(id: &str, retry_ms: u64) -> Self {
        Self(sse::opening(id, retry_ms))
    }

    /// Says nothing, so that nobody on the way closes the stream.
    pub(crate) fn keep_alive() -> Self {
        Self(sse::keep_alive())
    }

    /// Behind it the stream ends.
    pub(crate) fn end() -> Self {
        Self(Bytes::new())
    }

    pub(crate) fn is_end(&self) -> bool {
        self.0.is_empty()
    }

    /// The message that it frames.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let lines = self.0.split(|byte| *byte == b'\n');
        let data: Vec<&[u8]> = lines.filter_map(|line| line.strip_prefix(b"data: ")).collect();
        data.join(&b'\n')
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.0
    }
}
