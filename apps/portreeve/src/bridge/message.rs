//! A message of the client: which kind of message, of which era, under which id. The bytes go on as they came.

use bytes::Bytes;
use mcp::envelope::{self, text_of};
use mcp::members::Members;
use mcp::span::DEEPEST;
use mcp::{ClientNotice, Malformed, Method, Params, RequestId};
use serde_json::value::RawValue;

/// A message of the client.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) body: Bytes,
    pub(super) kind: MessageKind,
    pub(super) era: Era,
}

/// What it wants.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum MessageKind {
    /// Opens a session.
    Initialize(RequestId),
    /// Says that the session can be used.
    Initialized,
    /// An answer, to a request by this method.
    Request(RequestId, Method),
    /// Nothing more of the request with this raw id.
    Cancelled(Option<Bytes>),
    /// No answer: tells something.
    Notification,
    /// No answer: it is one.
    Response,
    /// Several at once, with these requests among them.
    Batch(Vec<RequestId>),
}

/// How it travels.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Era {
    /// In a session.
    Legacy,
    /// By itself, with headers that mirror its body.
    Modern(Mirrored),
}

/// What the headers of a modern message say.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Mirrored {
    pub(super) version: String,
    pub(super) method: String,
    pub(super) name: Option<String>,
    pub(super) arguments: Option<Bytes>,
}

impl Message {
    /// Reads a line; what is no message is answered with the error that is given back.
    pub(super) fn parse(line: Bytes) -> Result<Self, Bytes> {
        let (kind, era) = match envelope::parse(&line, DEEPEST) {
            Ok(message) => split(&line, &message),
            Err(Malformed::Batch) => (batch(&line)?, Era::Legacy),
            Err(fault @ (Malformed::NotUtf8 | Malformed::NotJson)) => {
                return Err(error_response(None, PARSE_ERROR, &fault.to_string()));
            }
            Err(fault @ (Malformed::TooDeep | Malformed::DuplicateKey | Malformed::NotAMessage)) => {
                let id = id_of(&line);
                return Err(error_response(id.as_ref(), INVALID_REQUEST, &fault.to_string()));
            }
        };
        Ok(Self { body: line, kind, era })
    }
}

/// An error of ours that answers `id`, or nothing in particular.
pub(super) fn error_response(id: Option<&RequestId>, code: mcp::ErrorCode, message: &str) -> Bytes {
    let content = serde_json::json!({ "code": code.as_i32(), "message": message }).to_string();
    error_response_from(id, content.as_bytes())
}

/// The gateway's error, given to the request it belongs to.
pub(super) fn error_response_from(id: Option<&RequestId>, error: &[u8]) -> Bytes {
    let id = id.map_or(b"null".as_slice(), RequestId::as_raw);
    [br#"{"jsonrpc":"2.0","id":"#, id, br#","error":"#, error, b"}"]
        .concat()
        .into()
}

/// JSON-RPC: the line is not JSON.
pub(super) const PARSE_ERROR: mcp::ErrorCode = mcp::ErrorCode::ParseError;
/// JSON-RPC: JSON, but no message.
pub(super) const INVALID_REQUEST: mcp::ErrorCode = mcp::ErrorCode::InvalidRequest;
/// JSON-RPC: the gateway could not be asked, or did not answer.
pub(super) const INTERNAL_ERROR: mcp::ErrorCode = mcp::ErrorCode::InternalError;

fn split(line: &Bytes, message: &mcp::Message) -> (MessageKind, Era) {
    match message {
        mcp::Message::Request(request) => {
            let (id, method) = (request.id().clone(), request.method().clone());
            match (era(line, request.method().as_str(), request.params()), method) {
                (Era::Legacy, Method::Initialize) => (MessageKind::Initialize(id), Era::Legacy),
                (era, method) => (MessageKind::Request(id, method), era),
            }
        }
        mcp::Message::Notification(notification) => {
            let (method, params) = (notification.method(), notification.params());
            let kind = match method {
                ClientNotice::Initialized => MessageKind::Initialized,
                ClientNotice::Cancelled => MessageKind::Cancelled(params.raw("requestId").map(Bytes::copy_from_slice)),
                ClientNotice::Progress | ClientNotice::RootsChanged | ClientNotice::Other(_) => {
                    MessageKind::Notification
                }
            };
            (kind, era(line, method.as_str(), params))
        }
        mcp::Message::Response(_) => (MessageKind::Response, Era::Legacy),
    }
}

/// Modern if the message says so itself.
fn era(line: &[u8], method: &str, params: &Params) -> Era {
    let Some(version) = params.meta(VERSION).and_then(text_of) else {
        return Era::Legacy;
    };
    let name = match method {
        "tools/call" | "prompts/get" => params.text("name"),
        "resources/read" => params.text("uri"),
        other if other.starts_with("tasks/") => params.text("taskId"),
        _ => None,
    };
    // A method we do not know is known here in a spelling for records; the header has it as it stands.
    let members = Members::read(line, DEEPEST).ok();
    let spelled = members.and_then(|members| members.get("method").and_then(text_of));
    Era::Modern(Mirrored {
        version: version.into_owned(),
        method: spelled.unwrap_or_default().into_owned(),
        name: name.map(|name| name.into_owned()),
        arguments: params.raw("arguments").map(Bytes::copy_from_slice),
    })
}

/// The requests of a batch; whether there may be one is the gateway's to say.
fn batch(line: &[u8]) -> Result<MessageKind, Bytes> {
    let elements: Vec<&RawValue> = serde_json::from_slice(line)
        .map_err(|_| error_response(None, INVALID_REQUEST, &Malformed::NotAMessage.to_string()))?;
    let ids = elements.iter().filter_map(|element| {
        let element = Bytes::copy_from_slice(element.get().as_bytes());
        let Ok(mcp::Message::Request(request)) = envelope::parse(&element, DEEPEST) else {
            return None;
        };
        Some(request.id().clone())
    });
    Ok(MessageKind::Batch(ids.collect()))
}

/// The id of something that is refused, where it has a readable one: its sender waits for it.
fn id_of(line: &Bytes) -> Option<RequestId> {
    let asks = mcp::server::member_span(line, "method").is_some();
    let span = mcp::server::member_span(line, "id").filter(|_| asks)?;
    RequestId::from_raw(line.slice(span))
}

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Message, Bytes> {
        Message::parse(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn id(raw: &'static str) -> RequestId {
        RequestId::from_raw(Bytes::from_static(raw.as_bytes())).unwrap()
    }

    #[test]
    fn messages_are_told_apart_by_kind_and_era() {
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let legacy = |text: &str| {
            let message = parse(text).unwrap();
            assert_eq!(message.era, Era::Legacy, "{text}");
            message.kind
        };
        assert_eq!(
            legacy(r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}"#),
            MessageKind::Initialize(id("\"i\""))
        );
        assert_eq!(
            legacy(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            MessageKind::Initialized
        );
        assert_eq!(
            legacy(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#),
            MessageKind::Cancelled(Some(Bytes::from_static(b"7")))
        );
        assert_eq!(legacy(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), MessageKind::Response);
        assert_eq!(
            legacy(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"}]"#),
            MessageKind::Batch(vec![id("1")])
        );
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"n","arguments":{{"a":1}},{meta}}}}}"#
        );
        let message = parse(&call).unwrap();
        assert_eq!(message.kind, MessageKind::Request(id("1"), Method::ToolsCall));
        assert_eq!(
            message.era,
            Era::Modern(Mirrored {
                version: "2026-07-28".to_owned(),
                method: "tools/call".to_owned(),
                name: Some("n".to_owned()),
                arguments: Some(Bytes::from_static(br#"{"a":1}"#)),
            })
        );
        let opening = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{{meta}}}}}"#);
        assert_eq!(
            parse(&opening).unwrap().kind,
            MessageKind::Request(id("1"), Method::Initialize)
        );
    }

    #[test]
    fn a_modern_method_is_mirrored_as_it_was_spelled() {
        let method = "x".repeat(200);
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{{"{VERSION}":"2026-07-28"}}}}}}"#
        );
        match parse(&text).unwrap().era {
            Era::Modern(mirrored) => assert_eq!(mirrored.method, method),
            Era::Legacy => panic!("modern"),
        }
    }

    #[test]
    fn what_is_no_message_is_answered_with_its_id_where_it_has_one() {
        let told = |text: &str| {
            let error: serde_json::Value = serde_json::from_slice(&parse(text).unwrap_err()).unwrap();
            (error["id"].clone(), error["error"]["code"].clone())
        };
        let null = serde_json::Value::Null;
        assert_eq!(told("{"), (null.clone(), PARSE_ERROR.as_i32().into()));
        assert_eq!(told("hello"), (null.clone(), PARSE_ERROR.as_i32().into()));
        assert_eq!(told("{}"), (null.clone(), INVALID_REQUEST.as_i32().into()));
        assert_eq!(
            told(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#),
            (null, INVALID_REQUEST.as_i32().into())
        );
        assert_eq!(
            told(r#"{"jsonrpc":"2.0","id":4,"method":"ping","params":[1]}"#),
            (4.into(), INVALID_REQUEST.as_i32().into())
        );
    }
}
