//! Writes messages: short literals around raw spans. Results and arguments are copied as they
//! are, never written again.

use bytes::{BufMut, Bytes, BytesMut};

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
pub fn error(id: Option<&RequestId>, code: i32, message: &str, data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(96 + message.len() + data.len());
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.map_or(b"null".as_slice(), RequestId::as_raw));
    out.extend_from_slice(b",\"error\":{\"code\":");
    out.extend_from_slice(code.to_string().as_bytes());
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

/// Our `initialize` towards a server: no client capability, so that it cannot ask anything.
#[must_use]
pub fn initialize_request(id: u64) -> Bytes {
    let text = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"initialize\",\"params\":{{\"protocolVersion\":\"{}\",\"capabilities\":{{}},\"clientInfo\":{{\"name\":\"portreeve\",\"version\":\"{}\"}}}}}}",
        Version::LATEST.as_str(),
        env!("CARGO_PKG_VERSION"),
    );
    text.into()
}

/// `notifications/initialized`
#[must_use]
pub fn initialized_notification() -> Bytes {
    Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}")
}

/// `notifications/cancelled` for a request of ours.
#[must_use]
pub fn cancelled_notification(id: u64) -> Bytes {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id},\"reason\":\"the gateway no longer waits\"}}}}").into()
}

/// `tools/list`, from the start or from a cursor.
#[must_use]
pub fn list_request(id: u64, cursor: Option<&str>) -> Bytes {
    let mut out = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\"").into_bytes();
    if let Some(cursor) = cursor {
        out.extend_from_slice(b",\"params\":{\"cursor\":");
        string(cursor, &mut out);
        out.push(b'}');
    }
    out.push(b'}');
    out.into()
}

/// `tools/call`: `arguments` stand in it byte for byte, or stay absent.
#[must_use]
pub fn call_request(id: u64, tool: &str, arguments: Option<&[u8]>) -> Bytes {
    let mut out = Vec::with_capacity(96 + tool.len() + arguments.map_or(0, <[u8]>::len));
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.to_string().as_bytes());
    out.extend_from_slice(b",\"method\":\"tools/call\",\"params\":{\"name\":");
    string(tool, &mut out);
    if let Some(arguments) = arguments {
        out.extend_from_slice(b",\"arguments\":");
        out.extend_from_slice(arguments);
    }
    out.extend_from_slice(b"}}");
    out.into()
}

/// One event of a stream; line breaks in the message become further `data:` lines.
#[must_use]
pub fn event(message: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(message.len() + 32);
    out.extend_from_slice(b"event: message\n");
    for line in message.split(|byte| matches!(byte, b'\n' | b'\r')) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
    out.into()
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
        assert_eq!(
            call_request(3, "a\"b", Some(b"{ }")).as_ref(),
            br#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a\"b","arguments":{ }}}"#
        );
        assert_eq!(
            call_request(3, "t", None).as_ref(),
            br#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t"}}"#
        );
    }

    #[test]
    fn everything_composed_is_json() {
        for message in [
            initialize_request(1),
            initialized_notification(),
            cancelled_notification(2),
            list_request(3, None),
            list_request(4, Some("a\u{7}\n\\")),
            error(None, -32600, "x\u{1}", b"{}"),
            error_result("line\nline", b"{\"decision\":\"deny\"}"),
        ] {
            assert!(
                serde_json::from_slice::<serde_json::Value>(&message).is_ok(),
                "{message:?}"
            );
        }
    }

    #[test]
    fn an_event_keeps_its_message_on_data_lines() {
        assert_eq!(
            event(b"{\"a\":\n1}").as_ref(),
            b"event: message\ndata: {\"a\":\ndata: 1}\n\n"
        );
    }
}
