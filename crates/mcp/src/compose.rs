//! Writes messages: short literals around raw spans. Results and arguments are copied as they
//! are, never written again.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use crate::envelope::Content;
use crate::error_code::ErrorCode;
use crate::id::RequestId;
use crate::version::Version;

/// A client's answer: `result` stands in it byte for byte.
#[must_use]
pub fn result(id: &RequestId, result: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(32 + id.as_raw().len() + result.len());
    out.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.put_slice(id.as_raw());
    out.put_slice(b",\"result\":");
    out.put_slice(result);
    out.put_u8(b'}');
    out.freeze()
}

/// The pieces around a large result, which is then sent without being copied.
#[must_use]
pub fn result_pieces(id: &RequestId, result: Bytes) -> [Bytes; 3] {
    let mut head = BytesMut::with_capacity(32 + id.as_raw().len());
    head.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    head.put_slice(id.as_raw());
    head.put_slice(b",\"result\":");
    [head.freeze(), result, Bytes::from_static(b"}")]
}

/// An error of ours: `data` is raw JSON; no id where none was read.
#[must_use]
pub fn error(id: Option<&RequestId>, code: ErrorCode, message: &str, data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(96 + message.len() + data.len());
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.map_or(b"null".as_slice(), RequestId::as_raw));
    out.extend_from_slice(b",\"error\":{\"code\":");
    out.extend_from_slice(code.as_str().as_bytes());
    out.extend_from_slice(b",\"message\":");
    string(message, &mut out);
    out.extend_from_slice(b",\"data\":");
    out.extend_from_slice(data);
    out.extend_from_slice(b"}}");
    out.into()
}

/// A server's own error under the client's id: `error` stands in it byte for byte.
#[must_use]
pub fn server_error(id: &RequestId, error: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(32 + id.as_raw().len() + error.len());
    out.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.put_slice(id.as_raw());
    out.put_slice(b",\"error\":");
    out.put_slice(error);
    out.put_u8(b'}');
    out.freeze()
}

/// A tool result that tells a model what went wrong: `isError`, one text block, and the decision
/// (raw JSON) under `_meta`.
#[must_use]
pub fn error_result(text: &str, decision: &[u8]) -> Bytes {
    let mut out = b"{\"content\":[{\"type\":\"text\",\"text\":".to_vec();
    string(text, &mut out);
    out.extend_from_slice(b"}],\"isError\":true,\"_meta\":{\"portreeve/decision\":");
    out.extend_from_slice(decision);
    out.extend_from_slice(b"}}");
    out.into()
}

/// A request to a server: our envelope and `_meta`, everything else as raw spans.
pub struct Outgoing<'a> {
    /// The method.
    pub method: &'a str,
    /// The members of `params` but `_meta`: names, raw values.
    pub members: Vec<(&'a str, Cow<'a, [u8]>)>,
    /// What goes into `_meta`.
    pub meta: OutgoingMeta<'a>,
}

/// `_meta` of a request to a server.
#[derive(Default)]
pub struct OutgoingMeta<'a> {
    /// The client's own keys that go along: names, raw values.
    pub passed: Vec<(&'a str, &'a [u8])>,
    /// Whether progress is wanted; our id is the token.
    pub progress: Progress,
    /// What a modern server has to be told with each request.
    pub modern: Option<ModernMeta<'a>>,
}

/// Whether progress is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Progress {
    /// Nobody asked for it.
    #[default]
    Unwanted,
    /// The client did.
    Wanted,
}

/// What a modern server has to be told with each request.
pub struct ModernMeta<'a> {
    /// The capabilities of the client that we relay, a raw object.
    pub capabilities: &'a [u8],
    /// The log level the client asked for.
    pub log_level: Option<&'a str>,
}

impl Outgoing<'_> {
    /// The message under this id.
    #[must_use]
    pub fn write(&self, id: u64) -> Bytes {
        let raw: usize = self.members.iter().map(|(name, raw)| name.len() + raw.len() + 4).sum();
        let mut out = Vec::with_capacity(96 + self.method.len() + raw);
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        out.extend_from_slice(id.to_string().as_bytes());
        out.extend_from_slice(b",\"method\":");
        string(self.method, &mut out);
        let meta = self.meta.write(id);
        if !self.members.is_empty() || meta.is_some() {
            out.extend_from_slice(b",\"params\":");
            let members = self.members.iter().map(|(name, raw)| (*name, raw.as_ref()));
            object(members.chain(meta.as_deref().map(|meta| ("_meta", meta))), &mut out);
        }
        out.push(b'}');
        out.into()
    }
}

impl OutgoingMeta<'_> {
    fn write(&self, id: u64) -> Option<Vec<u8>> {
        if self.passed.is_empty() && self.progress == Progress::Unwanted && self.modern.is_none() {
            return None;
        }
        let token = id.to_string();
        let mut members: Vec<(&str, &[u8])> = self.passed.clone();
        if self.progress == Progress::Wanted {
            members.push(("progressToken", token.as_bytes()));
        }
        let level = self.modern.as_ref().and_then(|modern| modern.log_level).map(literal);
        if let Some(modern) = &self.modern {
            members.push(("io.modelcontextprotocol/protocolVersion", MODERN_VERSION));
            members.push(("io.modelcontextprotocol/clientInfo", OUR_INFO.as_bytes()));
            members.push(("io.modelcontextprotocol/clientCapabilities", modern.capabilities));
        }
        if let Some(level) = &level {
            members.push(("io.modelcontextprotocol/logLevel", level));
        }
        let mut out = Vec::new();
        object(members.into_iter(), &mut out);
        Some(out)
    }
}

const MODERN_VERSION: &[u8] = b"\"2026-07-28\"";

/// How we introduce ourselves, to servers and to clients.
pub const OUR_INFO: &str = concat!(
    "{\"name\":\"portreeve\",\"title\":\"Portreeve\",\"version\":\"",
    env!("CARGO_PKG_VERSION"),
    "\"}"
);

/// Our `initialize` towards a server, with the client's capabilities that we relay (raw JSON).
#[must_use]
pub fn initialize_request(id: u64, capabilities: &[u8]) -> Bytes {
    let version = literal(Version::LATEST.as_str());
    let params = [
        ("protocolVersion", version.as_slice()),
        ("capabilities", capabilities),
        ("clientInfo", OUR_INFO.as_bytes()),
    ];
    let request = Outgoing {
        method: "initialize",
        members: params
            .into_iter()
            .map(|(name, raw)| (name, Cow::Borrowed(raw)))
            .collect(),
        meta: OutgoingMeta::default(),
    };
    request.write(id)
}

/// A notification, with raw `params`.
#[must_use]
pub fn notification(method: &str, params: Option<&[u8]>) -> Bytes {
    let mut out = b"{\"jsonrpc\":\"2.0\",\"method\":".to_vec();
    string(method, &mut out);
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params);
    }
    out.push(b'}');
    out.into()
}

/// A request to a client, with a raw id and raw `params`.
#[must_use]
pub fn request(id: &[u8], method: &str, params: Option<&[u8]>) -> Bytes {
    let mut out = b"{\"jsonrpc\":\"2.0\",\"id\":".to_vec();
    out.extend_from_slice(id);
    out.extend_from_slice(b",\"method\":");
    string(method, &mut out);
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params);
    }
    out.push(b'}');
    out.into()
}

/// A client's answer, under the id the server used.
#[must_use]
pub fn response(id: &[u8], content: &Content) -> Bytes {
    let (member, raw) = match content {
        Content::Result(raw) => ("result", raw),
        Content::Error(raw) => ("error", raw),
    };
    let mut out = Vec::with_capacity(48 + id.len() + raw.len());
    let members = [("jsonrpc", b"\"2.0\"".as_slice()), ("id", id), (member, raw)];
    object(members.into_iter(), &mut out);
    out.into()
}

/// An error to answer a server with.
#[must_use]
pub fn error_content(code: ErrorCode, message: &str) -> Content {
    let mut out = format!("{{\"code\":{code},\"message\":").into_bytes();
    string(message, &mut out);
    out.push(b'}');
    Content::Error(out.into())
}

/// `notifications/cancelled` for a request of ours.
#[must_use]
pub fn cancelled_notification(id: u64) -> Bytes {
    let params = format!("{{\"requestId\":{id},\"reason\":\"the gateway no longer waits\"}}");
    notification("notifications/cancelled", Some(params.as_bytes()))
}

/// Writes an object of raw members.
pub fn object<'a>(members: impl Iterator<Item = (&'a str, &'a [u8])>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (place, (name, raw)) in members.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        string(name, out);
        out.push(b':');
        out.extend_from_slice(raw);
    }
    out.push(b'}');
}

/// A JSON string literal.
#[must_use]
pub fn literal(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    string(text, &mut out);
    out
}

/// Writes a JSON string literal.
pub fn string(text: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0..=0x1f => {
                out.extend_from_slice(b"\\u00");
                out.extend(
                    [byte >> 4, byte & 15]
                        .iter()
                        .filter_map(|nibble| DIGITS.get(usize::from(*nibble))),
                );
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_parts_stand_byte_for_byte() {
        let id = RequestId::from_raw(Bytes::from_static(b"\"a\"")).expect("an id");
        assert_eq!(
            result(&id, b"{ \"x\":1e2}").as_ref(),
            br#"{"jsonrpc":"2.0","id":"a","result":{ "x":1e2}}"#
        );
        assert_eq!(
            result_pieces(&id, Bytes::from_static(b"{ \"x\":1e2}")).concat(),
            result(&id, b"{ \"x\":1e2}")
        );
        let call = |arguments: Option<&'static [u8]>| {
            let mut members = vec![("name", Cow::Owned(literal("a\"b")))];
            members.extend(arguments.map(|raw| ("arguments", Cow::Borrowed(raw))));
            Outgoing {
                method: "tools/call",
                members,
                meta: OutgoingMeta::default(),
            }
        };
        assert_eq!(
            call(Some(b"{ }")).write(3).as_ref(),
            br#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a\"b","arguments":{ }}}"#
        );
        assert_eq!(
            call(None).write(3).as_ref(),
            br#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a\"b"}}"#
        );
    }

    #[test]
    fn a_modern_request_says_who_we_are_and_what_the_client_can() {
        let request = Outgoing {
            method: "ping",
            members: Vec::new(),
            meta: OutgoingMeta {
                passed: vec![("x/y", b"1e2")],
                progress: Progress::Wanted,
                modern: Some(ModernMeta {
                    capabilities: b"{\"roots\":{}}",
                    log_level: Some("info"),
                }),
            },
        };
        let sent: serde_json::Value = serde_json::from_slice(&request.write(7)).expect("JSON");
        let meta = &sent["params"]["_meta"];
        assert_eq!(meta["progressToken"], 7);
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(
            meta["io.modelcontextprotocol/clientCapabilities"],
            serde_json::json!({"roots": {}})
        );
        assert_eq!(meta["io.modelcontextprotocol/logLevel"], "info");
    }

    #[test]
    fn everything_composed_is_json() {
        for message in [
            initialize_request(1, b"{}"),
            notification("notifications/initialized", None),
            request(b"\"a\"", "roots/list", Some(b"{}")),
            response(b"7", &Content::Result(Bytes::from_static(b"{}"))),
            response(b"7", &error_content(ErrorCode::MethodNotFound, "a\u{7}\n\\")),
            cancelled_notification(2),
            error(None, ErrorCode::InvalidRequest, "x\u{1}", b"{}"),
            error_result("line\nline", b"{\"decision\":\"deny\"}"),
        ] {
            assert!(
                serde_json::from_slice::<serde_json::Value>(&message).is_ok(),
                "{message:?}"
            );
        }
    }
}
