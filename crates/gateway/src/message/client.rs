//! The one type of everything that is said to a client: an answer, a notification, a request. Each constructor takes
//! evidence of where its content comes from.

use bytes::{Buf, Bytes};
use mcp::mrtr::InputMethod;
use mcp::{Content, RequestId, ServerNotice, compose};
use screening::result::ScreenedResult;
use vocabulary::{Era, ReceiptId};

use crate::message::adapted::Adapted;
use crate::message::error_data::ErrorData;
use crate::message::own::{OwnResult, OwnValue};
use crate::message::pieces::Pieces;

/// A whole JSON-RPC message for a client.
///
/// It cannot be made from bytes, nor from what nobody screened:
///
/// ```compile_fail,E0423
/// fn forge(bytes: bytes::Bytes) -> portreeve_gateway::ClientMessage {
///     portreeve_gateway::ClientMessage(bytes.into())
/// }
/// ```
///
/// ```compile_fail,E0308
/// fn skip_the_chokepoint(id: &mcp::RequestId, raw: upstream::RawResult) -> portreeve_gateway::ClientMessage {
///     portreeve_gateway::ClientMessage::result(id, &raw)
/// }
/// ```
///
/// ```
/// fn answer(id: &mcp::RequestId, screened: &screening::result::ScreenedResult) -> portreeve_gateway::ClientMessage {
///     portreeve_gateway::ClientMessage::result(id, screened)
/// }
/// ```
#[derive(Debug)]
pub struct ClientMessage(Pieces);

/// From this size on a result is sent from where it lies.
const NOT_WORTH_COPYING: usize = 16 * 1024;

impl ClientMessage {
    /// The answer to a request: what crossed the chokepoint.
    #[must_use]
    pub fn result(id: &RequestId, screened: &ScreenedResult) -> Self {
        Self::answer(id, screened.bytes())
    }

    /// The same, with members of ours.
    #[must_use]
    pub fn adapted_result(id: &RequestId, adapted: &Adapted) -> Self {
        Self::answer(id, adapted.bytes())
    }

    fn answer(id: &RequestId, result: &Bytes) -> Self {
        if result.len() >= NOT_WORTH_COPYING {
            Self(compose::result_pieces(id, result.clone()).into())
        } else {
            Self(compose::result(id, result).into())
        }
    }

    /// A server's own error, screened.
    pub(crate) fn server_error(id: &RequestId, error: &ScreenedResult) -> Self {
        Self(compose::server_error(id, error.bytes()).into())
    }

    /// The same, as the client's era wants it.
    pub(crate) fn adapted_error(id: &RequestId, error: &Adapted) -> Self {
        Self(compose::server_error(id, error.bytes()).into())
    }

    /// A result of the gateway's own.
    pub(crate) fn own_result(id: &RequestId, result: &OwnResult) -> Self {
        Self(compose::result(id, result.bytes()).into())
    }

    /// A JSON-RPC error of the gateway's own; no id where none was read, no receipt where none could be written.
    pub(crate) fn refusal(id: Option<&RequestId>, data: &ErrorData, receipt: Option<ReceiptId>) -> Self {
        let json = data.to_json(receipt);
        Self(compose::error(id, data.code, &data.message, &json).into())
    }

    /// A tool result that tells a model what is wrong; a modern one says that it is complete.
    pub(crate) fn error_result(id: &RequestId, era: Era, data: &ErrorData, receipt: ReceiptId) -> Self {
        let result = compose::error_result(&data.message, &data.to_json(Some(receipt)));
        let result = match (era, result.strip_suffix(b"}")) {
            (Era::Modern, Some(open)) => [open, b",\"resultType\":\"complete\"}"].concat().into(),
            (Era::Modern | Era::Legacy, _) => result,
        };
        Self(compose::result(id, &result).into())
    }

    /// A server's notification.
    pub(crate) fn notification(method: ServerNotice, params: &ScreenedResult) -> Self {
        Self(compose::notification(method.as_str(), Some(params.bytes())).into())
    }

    /// The same, with members of ours.
    pub(crate) fn adapted_notification(method: ServerNotice, params: &Adapted) -> Self {
        Self(compose::notification(method.as_str(), Some(params.bytes())).into())
    }

    /// A notification of our own.
    pub(crate) fn own_notification(method: ServerNotice, params: Option<&OwnValue<'_>>) -> Self {
        let params = params.map(|params| {
            let mut out = Vec::new();
            params.write(&mut out);
            out
        });
        Self(compose::notification(method.as_str(), params.as_deref()).into())
    }

    /// A server's request, under an id of ours.
    pub(crate) fn request(id: u64, method: InputMethod, params: Option<&ScreenedResult>) -> Self {
        let params = params.map(|params| params.bytes().as_ref());
        Self(compose::request(id.to_string().as_bytes(), method.as_str(), params).into())
    }

    /// The answer that ends a subscription.
    pub(crate) fn own_response(id: &RequestId, result: OwnResult) -> Self {
        let content = Content::Result(result.bytes().clone());
        Self(compose::response(id.as_raw(), &content).into())
    }

    /// Several answers as one array.
    pub(crate) fn batch(messages: Vec<Self>) -> Self {
        let bodies: Vec<Bytes> = messages.into_iter().map(|message| message.0.joined()).collect();
        let array = [b"[".as_slice(), &bodies.join(&b','), b"]"].concat();
        Self(Bytes::from(array).into())
    }

    /// How many bytes it has, without the framing of events.
    pub(crate) fn len(&self) -> usize {
        self.0.remaining()
    }

    /// A copy of it.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.joined().to_vec()
    }

    pub(crate) fn joined(&self) -> Bytes {
        self.0.clone().joined()
    }

    pub(crate) fn into_pieces(self) -> Pieces {
        self.0
    }
}
