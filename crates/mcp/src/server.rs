//! What a server sends: answers split into raw spans, list pages, and the answer to `initialize`.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::envelope::text_of;
use crate::span::{Scanner, Span, SpanFault};

/// A server's message that we cannot use. Never quotes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Nonsense {
    /// Not UTF-8, not JSON, or nested beyond the limit.
    #[error("the server sent something that is not a JSON document within the limits")]
    NotJson,
    /// JSON, but no JSON-RPC 2.0 message.
    #[error("the server sent something that is not a JSON-RPC 2.0 message")]
    NotAMessage,
    /// A result without what the method promises.
    #[error("the server's result lacks what this method promises")]
    Incomplete,
}

/// A message of a server.
#[derive(Debug)]
pub enum ServerMessage {
    /// The result for the request with this raw id.
    Result {
        /// The id as the server sent it.
        id: Bytes,
        /// The raw span of `result`.
        result: Bytes,
    },
    /// An error for the request with this raw id.
    Error {
        /// The id as the server sent it (`null` where it could read none).
        id: Bytes,
        /// The raw span of `error`.
        error: Bytes,
    },
    /// Anything else: a notification, or a request to the client.
    Other,
}

/// Splits a server's message.
///
/// # Errors
/// When it is not one JSON-RPC message within `max_depth`.
pub fn parse(body: &Bytes, max_depth: usize) -> Result<ServerMessage, Nonsense> {
    std::str::from_utf8(body).map_err(|_| Nonsense::NotJson)?;
    let [version, id, method, result, error] =
        top_members(body, max_depth, ["jsonrpc", "id", "method", "result", "error"])?;
    let slice = |span: Span| body.slice(span);
    if version.map(slice).as_deref() != Some(b"\"2.0\"") {
        return Err(Nonsense::NotAMessage);
    }
    match (id.map(slice), method, result.map(slice), error.map(slice)) {
        (Some(id), None, Some(result), None) => Ok(ServerMessage::Result { id, result }),
        (Some(id), None, None, Some(error)) => Ok(ServerMessage::Error { id, error }),
        (_, Some(_), None, None) => Ok(ServerMessage::Other),
        _ => Err(Nonsense::NotAMessage),
    }
}

/// Finds the named members of the document's top object. Unknown members are allowed; a wanted
/// one that comes twice is not.
fn top_members<const N: usize>(
    body: &[u8],
    max_depth: usize,
    wanted: [&str; N],
) -> Result<[Option<Span>; N], Nonsense> {
    let mut scanner = Scanner::new(body, max_depth);
    let mut found: [Option<Span>; N] = [const { None }; N];
    let mut read = || -> Result<(), SpanFault> {
        scanner.expect(b'{')?;
        let mut more = !scanner.take(b'}');
        while more {
            let key = scanner.key_span()?;
            let name = crate::span::decode_string(body.get(key).unwrap_or_default()).ok_or(SpanFault::Grammar)?;
            let span = scanner.value(1)?;
            if let Some((place, _)) = found.iter_mut().zip(wanted).find(|(_, wanted)| *wanted == name)
                && place.replace(span).is_some()
            {
                return Err(SpanFault::DuplicateKey);
            }
            more = scanner.take(b',');
            if !more {
                scanner.expect(b'}')?;
            }
        }
        scanner.finish()
    };
    read().map_err(|_| Nonsense::NotJson)?;
    Ok(found)
}

/// Where member `name` of a raw object lies; `None` if it is no object or has no such member.
#[must_use]
pub fn member_span(object: &[u8], name: &str) -> Option<Span> {
    let [span] = top_members(object, crate::span::DEEPEST, [name]).ok()?;
    span
}

/// The parts of a server's error that we look at.
#[derive(Debug)]
pub struct ServerError {
    /// The JSON-RPC code.
    pub code: i64,
}

/// Reads a raw `error` object.
///
/// # Errors
/// When it has no integer `code`.
pub fn read_error(error: &[u8]) -> Result<ServerError, Nonsense> {
    #[derive(Deserialize)]
    struct Shape {
        code: i64,
    }
    let shape: Shape = serde_json::from_slice(error).map_err(|_| Nonsense::NotAMessage)?;
    Ok(ServerError { code: shape.code })
}

/// One page of `tools/list`: raw definitions, and the cursor if there is more.
#[derive(Debug)]
pub struct ToolsPage {
    /// Each tool's definition as the server spelled it.
    pub definitions: Vec<Bytes>,
    /// Not null means more, even the empty string.
    pub next_cursor: Option<String>,
}

/// Splits the result of `tools/list`.
///
/// # Errors
/// When it has no array `tools`.
pub fn read_tools_page(result: &Bytes) -> Result<ToolsPage, Nonsense> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Shape<'a> {
        #[serde(borrow)]
        tools: Vec<&'a RawValue>,
        next_cursor: Option<String>,
    }
    let shape: Shape<'_> = serde_json::from_slice(result).map_err(|_| Nonsense::Incomplete)?;
    let definitions = shape
        .tools
        .iter()
        .map(|raw| result.slice_ref(raw.get().as_bytes()))
        .collect();
    Ok(ToolsPage {
        definitions,
        next_cursor: shape.next_cursor,
    })
}

/// What we take from the answer to `initialize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialized {
    /// The version the server chose.
    pub protocol_version: String,
    /// The server's instructions for the model, if any.
    pub instructions: Option<String>,
}

/// Reads the result of `initialize`.
///
/// # Errors
/// When it names no protocol version.
pub fn read_initialized(result: &[u8]) -> Result<Initialized, Nonsense> {
    serde_json::from_slice(result).map_err(|_| Nonsense::Incomplete)
}

/// Whether a raw id is the number `expected`, which is how we spell ours; some servers echo a
/// number as a string.
#[must_use]
pub fn is_our_id(raw: &[u8], expected: u64) -> bool {
    let text = text_of(raw);
    let spelled = text.as_deref().or_else(|| std::str::from_utf8(raw).ok());
    spelled.is_some_and(|id| id.parse() == Ok(expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn a_result_is_the_exact_span() {
        let body = bytes(r#"{"result": {"a":1e2, "b":[ ]} ,"jsonrpc":"2.0","id":7,"extra":true}"#);
        let Ok(ServerMessage::Result { id, result }) = parse(&body, 64) else {
            panic!("a result")
        };
        assert_eq!(
            (id.as_ref(), result.as_ref()),
            (b"7".as_slice(), br#"{"a":1e2, "b":[ ]}"#.as_slice())
        );
        assert!(is_our_id(&id, 7) && is_our_id(b"\"7\"", 7) && !is_our_id(b"8", 7) && !is_our_id(b"null", 7));
    }

    #[test]
    fn nonsense_is_told_apart_from_messages() {
        for (text, expected) in [
            ("", Nonsense::NotJson),
            ("<html>", Nonsense::NotJson),
            (r#"{"jsonrpc":"2.0","id":1,"result":1,"result":2}"#, Nonsense::NotJson),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
                Nonsense::NotAMessage,
            ),
            (r#"{"id":1,"result":1}"#, Nonsense::NotAMessage),
            ("{}", Nonsense::NotAMessage),
        ] {
            assert_eq!(parse(&bytes(text), 64).err(), Some(expected), "{text}");
        }
        assert!(matches!(
            parse(&bytes(r#"{"jsonrpc":"2.0","method":"notifications/message"}"#), 9),
            Ok(ServerMessage::Other)
        ));
    }

    #[test]
    fn a_page_keeps_definitions_raw_and_an_empty_cursor_means_more() {
        let page =
            read_tools_page(&bytes(r#"{"tools":[{"name" : "a"},{"name":"b"}],"nextCursor":""}"#)).expect("a page");
        assert_eq!(
            page.definitions,
            vec![bytes(r#"{"name" : "a"}"#), bytes(r#"{"name":"b"}"#)]
        );
        assert_eq!(page.next_cursor.as_deref(), Some(""));
        assert!(read_tools_page(&bytes(r#"{"tool":[]}"#)).is_err());
    }
}
