//! What a server sends: answers split into raw spans, list pages, and the answer to `initialize`.

use bytes::Bytes;
use serde::Deserialize;

use crate::envelope::text_of;
use crate::error_code::ErrorCode;
use crate::method::recordable;
use crate::server_method::{ServerMethod, ServerNotice};
use crate::span::{Scanner, Span, SpanFault};
use vocabulary::json::scanned::{Scanned, members_of};

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
        /// `result`, as it came, read through once.
        result: Scanned,
    },
    /// An error for the request with this raw id.
    Error {
        /// The id as the server sent it (`null` where it could read none).
        id: Bytes,
        /// The raw span of `error`.
        error: Bytes,
    },
    /// Tells the client something.
    Notification(ServerNotification),
    /// Asks the client something.
    Request(ServerRequest),
}

/// What a server tells.
#[derive(Clone, Debug)]
pub struct ServerNotification {
    /// The method, at most 128 bytes, without control characters.
    pub method: String,
    /// The raw span of `params`, an object.
    pub params: Option<Bytes>,
}

/// What a server asks.
#[derive(Clone, Debug)]
pub struct ServerRequest {
    /// The id as the server sent it.
    pub id: Bytes,
    /// The method, at most 128 bytes, without control characters.
    pub method: String,
    /// The raw span of `params`, an object.
    pub params: Option<Bytes>,
}

impl ServerNotification {
    /// What it tells; `None` for what servers may not tell.
    #[must_use]
    pub fn notice(&self) -> Option<ServerNotice> {
        ServerNotice::parse(&self.method)
    }
}

impl ServerRequest {
    /// What it asks for; `None` for what servers may not ask.
    #[must_use]
    pub fn known_method(&self) -> Option<ServerMethod> {
        ServerMethod::parse(&self.method)
    }
}

/// Splits a server's message.
///
/// # Errors
/// When it is not one JSON-RPC message within `max_depth`.
pub fn parse(body: &Bytes, max_depth: usize) -> Result<ServerMessage, Nonsense> {
    let [version, id, method, params, result, error] = members_of(
        body,
        max_depth,
        ["jsonrpc", "id", "method", "params", "result", "error"],
    )
    .map_err(|_| Nonsense::NotJson)?;
    let raw = |member: Option<Scanned>| member.map(Scanned::into_bytes);
    if raw(version).as_deref() != Some(b"\"2.0\"") {
        return Err(Nonsense::NotAMessage);
    }
    match (raw(id), raw(method), result, raw(error)) {
        (Some(id), None, Some(result), None) => Ok(ServerMessage::Result { id, result }),
        (Some(id), None, None, Some(error)) => Ok(ServerMessage::Error { id, error }),
        (id, Some(method), None, None) => aside(id, &method, raw(params)),
        _ => Err(Nonsense::NotAMessage),
    }
}

/// A notification, or a request where there is an id.
fn aside(id: Option<Bytes>, method: &[u8], params: Option<Bytes>) -> Result<ServerMessage, Nonsense> {
    const LONGEST_ID: usize = 1024;
    let method = recordable(&text_of(method).ok_or(Nonsense::NotAMessage)?);
    if params.as_ref().is_some_and(|params| params.first() != Some(&b'{')) {
        return Err(Nonsense::NotAMessage);
    }
    match id {
        None => Ok(ServerMessage::Notification(ServerNotification { method, params })),
        Some(id) if id.len() <= LONGEST_ID && !matches!(id.first(), Some(b'{' | b'[' | b't' | b'f' | b'n')) => {
            Ok(ServerMessage::Request(ServerRequest { id, method, params }))
        }
        Some(_) => Err(Nonsense::NotAMessage),
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
            let name = crate::span::decode_name(body.get(key).unwrap_or_default()).ok_or(SpanFault::Grammar)?;
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

impl ServerError {
    /// The code, if it is one that we know.
    #[must_use]
    pub fn known_code(&self) -> Option<ErrorCode> {
        ErrorCode::parse(self.code)
    }
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

/// One page of a list: raw entries, and the cursor if there is more.
#[derive(Debug)]
pub struct ListPage {
    /// Each entry as the server spelled it.
    pub entries: Vec<Bytes>,
    /// Not null means more, even the empty string.
    pub next_cursor: Option<String>,
    /// How long a client may keep it, where the server says so.
    pub ttl_ms: Option<u64>,
}

/// Splits the result of a list method whose entries are under `member`.
///
/// # Errors
/// When it has no such array.
pub fn read_page(result: &Bytes, member: &str) -> Result<ListPage, Nonsense> {
    let [entries, cursor, ttl] = top_members(result, crate::span::DEEPEST, [member, "nextCursor", "ttlMs"])?;
    let slice = |span: Span| result.slice(span);
    let entries = entries.map(slice).ok_or(Nonsense::Incomplete)?;
    let next_cursor = match cursor.map(slice) {
        None => None,
        Some(raw) if raw.as_ref() == b"null" => None,
        Some(raw) => Some(text_of(&raw).ok_or(Nonsense::Incomplete)?.into_owned()),
    };
    let ttl_ms = ttl
        .map(slice)
        .and_then(|raw| std::str::from_utf8(&raw).ok()?.parse().ok());
    Ok(ListPage {
        entries: elements(&entries)?,
        next_cursor,
        ttl_ms,
    })
}

/// The elements of a raw array.
fn elements(array: &Bytes) -> Result<Vec<Bytes>, Nonsense> {
    let mut scanner = Scanner::new(array, crate::span::DEEPEST);
    let mut found = Vec::new();
    let mut read = || -> Result<(), SpanFault> {
        scanner.expect(b'[')?;
        if !scanner.take(b']') {
            loop {
                found.push(array.slice(scanner.value(1)?));
                if !scanner.take(b',') {
                    break;
                }
            }
            scanner.expect(b']')?;
        }
        scanner.finish()
    };
    read().map_err(|_| Nonsense::Incomplete)?;
    Ok(found)
}

/// The strings of an array member of a raw object, decoded; what is no string is left out.
#[must_use]
pub fn text_list_member(object: &Bytes, name: &str) -> Option<Vec<String>> {
    let array = object.slice(member_span(object, name)?);
    let texts = elements(&array).ok()?;
    Some(
        texts
            .iter()
            .filter_map(|raw| Some(text_of(raw)?.into_owned()))
            .collect(),
    )
}

/// A string member of a raw object, decoded.
#[must_use]
pub fn text_member(object: &[u8], name: &str) -> Option<String> {
    let span = member_span(object, name)?;
    Some(text_of(object.get(span)?)?.into_owned())
}

/// What we take from the answer to `initialize` or `server/discover`.
#[derive(Debug, Default)]
pub struct Introduction {
    /// The version the server chose (`initialize`).
    pub protocol_version: Option<String>,
    /// The versions it has (`server/discover`).
    pub supported_versions: Vec<String>,
    /// What it offers, as raw JSON.
    pub capabilities: Bytes,
    /// The server's instructions for the model, if any.
    pub instructions: Option<String>,
}

/// Reads the result of `initialize` or `server/discover`.
///
/// # Errors
/// When it is no object with capabilities.
pub fn read_introduction(result: &Bytes) -> Result<Introduction, Nonsense> {
    let [version, supported, capabilities, instructions] = top_members(
        result,
        crate::span::DEEPEST,
        ["protocolVersion", "supportedVersions", "capabilities", "instructions"],
    )?;
    let slice = |span: Span| result.slice(span);
    let text = |span: Option<Span>| Some(text_of(&slice(span?))?.into_owned());
    let supported_versions = match supported.map(slice) {
        Some(raw) => elements(&raw)?
            .iter()
            .filter_map(|raw| Some(text_of(raw)?.into_owned()))
            .collect(),
        None => Vec::new(),
    };
    Ok(Introduction {
        protocol_version: text(version),
        supported_versions,
        capabilities: capabilities
            .map(slice)
            .filter(|raw| raw.first() == Some(&b'{'))
            .unwrap_or_else(|| Bytes::from_static(b"{}")),
        instructions: text(instructions),
    })
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
            (id.as_ref(), result.bytes().as_ref()),
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
            Ok(ServerMessage::Notification(_))
        ));
    }

    #[test]
    fn a_page_keeps_entries_raw_and_an_empty_cursor_means_more() {
        let page = read_page(
            &bytes(r#"{"tools":[{"name" : "a"} , {"name":"b"}],"nextCursor":"","ttlMs":5}"#),
            "tools",
        )
        .expect("a page");
        assert_eq!(page.entries, vec![bytes(r#"{"name" : "a"}"#), bytes(r#"{"name":"b"}"#)]);
        assert_eq!((page.next_cursor.as_deref(), page.ttl_ms), (Some(""), Some(5)));
        assert!(read_page(&bytes(r#"{"tool":[]}"#), "tools").is_err());
        assert!(
            read_page(&bytes(r#"{"tools":[],"nextCursor":null}"#), "tools")
                .expect("a page")
                .next_cursor
                .is_none()
        );
    }

    #[test]
    fn requests_and_notifications_of_a_server_are_told_apart() {
        let asks = parse(&bytes(r#"{"jsonrpc":"2.0","id":"x","method":"roots/list"}"#), 9);
        assert!(matches!(asks, Ok(ServerMessage::Request(ServerRequest { method, .. })) if method == "roots/list"));
        for odd in [
            r#"{"jsonrpc":"2.0","id":null,"method":"roots/list"}"#,
            r#"{"jsonrpc":"2.0","id":[1],"method":"roots/list"}"#,
            r#"{"jsonrpc":"2.0","method":"x","params":[1]}"#,
        ] {
            assert!(parse(&bytes(odd), 9).is_err(), "{odd}");
        }
    }
}
