//! What a call is answered: raw until the chokepoint has seen it.

use bytes::Bytes;
use mcp::server::{Nonsense, ServerMessage};
use screening::result::{Raw, Received};
use vocabulary::json::scanned::Scanned;

use crate::failure::Failure;

/// What a server answered, before anybody judged it. Only an answer to a prepared call becomes one.
///
/// ```compile_fail,E0451
/// fn forge(scanned: vocabulary::json::scanned::Scanned) -> portreeve_upstream::RawResult {
///     portreeve_upstream::RawResult { scanned }
/// }
/// ```
///
/// ```
/// fn takes(raw: portreeve_upstream::RawResult) -> screening::result::Raw {
///     screening::result::Received::into_raw(raw)
/// }
/// ```
pub struct RawResult {
    scanned: Scanned,
}

/// A JSON-RPC error of a server, just as unjudged.
pub struct RawError {
    bytes: Bytes,
    code: i64,
}

impl RawError {
    /// Its code.
    #[must_use]
    pub fn code(&self) -> i64 {
        self.code
    }
}

impl Received for RawResult {
    fn into_raw(self) -> Raw {
        Raw::Scanned(self.scanned)
    }
}

impl Received for RawError {
    fn into_raw(self) -> Raw {
        Raw::Unread(self.bytes)
    }
}

/// The server's answer to a request.
pub enum Dispatched {
    /// A result.
    Result(RawResult),
    /// An error of the server's own.
    Error(RawError),
    /// The state of a task in which it asks something: it goes on when it is answered.
    TaskAsks(RawResult),
}

/// What a call was answered.
pub(crate) enum CallAnswer {
    /// With this.
    Message(ServerMessage),
    /// A task asks something: its state, which names the inputs it needs.
    TaskAsks(Scanned),
}

/// The answer as a caller gets it.
pub(super) fn dispatched(answer: CallAnswer) -> Result<Dispatched, Failure> {
    let nonsense = Nonsense::NotAMessage;
    let message = match answer {
        CallAnswer::Message(message) => message,
        CallAnswer::TaskAsks(scanned) => return Ok(Dispatched::TaskAsks(RawResult { scanned })),
    };
    match message {
        ServerMessage::Result { result, .. } if result.bytes().first() == Some(&b'{') => {
            Ok(Dispatched::Result(RawResult { scanned: result }))
        }
        ServerMessage::Result { .. } => Err(Failure::Nonsense(Nonsense::Incomplete)),
        ServerMessage::Error { error, .. } => {
            let code = mcp::server::read_error(&error)?.code;
            Ok(Dispatched::Error(RawError { bytes: error, code }))
        }
        ServerMessage::Notification(_) | ServerMessage::Request(_) => Err(Failure::Nonsense(nonsense)),
    }
}
