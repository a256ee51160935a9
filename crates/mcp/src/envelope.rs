//! Splits a client's body into raw spans: id, method, and the members of `params` and `_meta`.
//! Refuses what two parsers could read in two ways: duplicate names in any spelling, trailing
//! bytes, over-deep documents, batches.

use std::borrow::Cow;

use bytes::Bytes;

use crate::id::RequestId;
use crate::method::{ClientNotice, Method};
use crate::span::{Scanner, Span, SpanFault, decode_string};

/// Why a body is not a message we take. None of these quotes the body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// Not UTF-8.
    #[error("the body is not UTF-8")]
    NotUtf8,
    /// Not JSON.
    #[error("the body is not well-formed JSON")]
    NotJson,
    /// JSON, but nested deeper than the limit.
    #[error("the body is nested too deeply")]
    TooDeep,
    /// The envelope, `params` or `_meta` names a member twice.
    #[error("the message names a member twice")]
    DuplicateKey,
    /// A batch, which this protocol version does not have.
    #[error("batches are not part of this protocol version; send one request")]
    Batch,
    /// JSON, but no JSON-RPC 2.0 request, notification or response.
    #[error("the body is not a JSON-RPC 2.0 message")]
    NotAMessage,
}

impl From<SpanFault> for Malformed {
    fn from(fault: SpanFault) -> Self {
        match fault {
            SpanFault::Grammar => Self::NotJson,
            SpanFault::TooDeep => Self::TooDeep,
            SpanFault::DuplicateKey => Self::DuplicateKey,
            SpanFault::TooManyMembers => Self::NotAMessage,
        }
    }
}

/// One message of a client.
#[derive(Debug)]
pub enum Message {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification(Notification),
    /// Answers something a server asked through us.
    Response(Response),
}

/// A client's answer to a request that a server made.
#[derive(Debug)]
pub struct Response {
    /// The id it answers.
    pub id: RequestId,
    /// What it says.
    pub content: Content,
}

/// What an answer says, as raw JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// `result`
    Result(Bytes),
    /// `error`
    Error(Bytes),
}

impl Content {
    /// Its bytes.
    #[must_use]
    pub fn raw(&self) -> &Bytes {
        match self {
            Self::Result(raw) | Self::Error(raw) => raw,
        }
    }
}

/// A request: its parts as spans of the body it came in.
#[derive(Debug)]
pub struct Request {
    id: RequestId,
    method: Method,
    name: String,
    params: Params,
}

/// A notification, likewise.
#[derive(Debug)]
pub struct Notification {
    method: ClientNotice,
    params: Params,
}

/// The members of `params`, as they stand in the body.
#[derive(Debug)]
pub struct Params {
    body: Bytes,
    members: Option<Object>,
    meta: Option<Object>,
}

impl Request {
    /// The id, as raw JSON.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The method as the client spelled it.
    #[must_use]
    pub fn method_name(&self) -> &str {
        &self.name
    }

    /// What it is asked with.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }
}

impl Notification {
    /// The method.
    #[must_use]
    pub fn method(&self) -> &ClientNotice {
        &self.method
    }

    /// What it tells.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }
}

impl Params {
    /// The raw JSON of all of `params`; `None` where there are none.
    #[must_use]
    pub fn whole(&self) -> Option<&[u8]> {
        self.body.get(self.members.as_ref()?.span.clone())
    }

    /// The raw JSON of one member.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&[u8]> {
        self.body.get(self.members.as_ref()?.get(&self.body, name)?)
    }

    /// The same as [`Self::whole`], kept without the rest of the request.
    #[must_use]
    pub fn whole_bytes(&self) -> Option<Bytes> {
        Some(self.body.slice(self.members.as_ref()?.span.clone()))
    }

    /// The same as [`Self::raw`], kept without the rest of the request.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Bytes> {
        Some(self.body.slice(self.members.as_ref()?.get(&self.body, name)?))
    }

    /// A member that is a string, decoded.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        text_of(self.raw(name)?)
    }

    /// All members but `_meta`, in their order: decoded names, raw values.
    pub fn members(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let members = self.members.iter().flat_map(|object| &object.members);
        let named = members.filter_map(|(name, span)| Some((name.text(&self.body), self.body.get(span.clone())?)));
        named.filter(|(name, _)| *name != "_meta")
    }

    /// The members of `_meta`, likewise.
    pub fn meta_members(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let members = self.meta.iter().flat_map(|object| &object.members);
        members.filter_map(|(name, span)| Some((name.text(&self.body), self.body.get(span.clone())?)))
    }

    /// The raw JSON of a member of `_meta`.
    #[must_use]
    pub fn meta(&self, name: &str) -> Option<&[u8]> {
        self.body.get(self.meta.as_ref()?.get(&self.body, name)?)
    }
}

/// Splits `body` into a message; `max_depth` bounds the whole document.
///
/// # Errors
/// When the body is not exactly one JSON-RPC message.
pub fn parse(body: &Bytes, max_depth: usize) -> Result<Message, Malformed> {
    std::str::from_utf8(body).map_err(|_| Malformed::NotUtf8)?;
    let mut scanner = Scanner::new(body, max_depth);
    match scanner.peek() {
        Some(b'{') => {}
        Some(b'[') => {
            scanner.value(0)?;
            return scanner.finish().map_err(Malformed::from).and(Err(Malformed::Batch));
        }
        _ => {
            scanner.value(0)?;
            return scanner
                .finish()
                .map_err(Malformed::from)
                .and(Err(Malformed::NotAMessage));
        }
    }
    let mut parts = Parts::default();
    let envelope = Object::scan(&mut scanner, body, 1, |scanner, key| match key {
        "params" if scanner.peek() == Some(b'{') => parts.scan_params(scanner, body).map(Some),
        _ => Ok(None),
    })?;
    scanner.finish()?;
    parts.into_message(body, &envelope)
}

/// Splits a batch into the bytes of its elements, at most `most` of them.
///
/// # Errors
/// When the body is not a JSON array of that size at most, or empty.
pub fn split_batch(body: &Bytes, max_depth: usize, most: usize) -> Result<Vec<Bytes>, Malformed> {
    std::str::from_utf8(body).map_err(|_| Malformed::NotUtf8)?;
    let mut scanner = Scanner::new(body, max_depth + 1);
    scanner.expect(b'[')?;
    let mut elements = Vec::new();
    loop {
        let span = scanner.value(1)?;
        elements.push(body.slice(span));
        if elements.len() > most {
            return Err(Malformed::NotAMessage);
        }
        if !scanner.take(b',') {
            break;
        }
    }
    scanner.expect(b']')?;
    scanner.finish()?;
    Ok(elements)
}

#[derive(Default)]
struct Parts {
    params: Option<Object>,
    meta: Option<Object>,
}

impl Parts {
    fn scan_params(&mut self, scanner: &mut Scanner<'_>, body: &[u8]) -> Result<Span, SpanFault> {
        let mut meta = None;
        let params = Object::scan(scanner, body, 2, |scanner, key| match key {
            "_meta" if scanner.peek() == Some(b'{') => {
                let object = Object::scan(scanner, body, 3, |_, _| Ok(None))?;
                let span = object.span.clone();
                meta = Some(object);
                Ok(Some(span))
            }
            _ => Ok(None),
        })?;
        let span = params.span.clone();
        (self.params, self.meta) = (Some(params), meta);
        Ok(span)
    }

    fn into_message(self, body: &Bytes, envelope: &Object) -> Result<Message, Malformed> {
        let raw = |name: &str| envelope.get(body, name).map(|span| body.slice(span));
        if raw("jsonrpc").as_deref() != Some(b"\"2.0\"") {
            return Err(Malformed::NotAMessage);
        }
        let Some(method) = raw("method") else {
            let content = match (raw("result"), raw("error")) {
                (Some(result), None) => Content::Result(result),
                (None, Some(error)) => Content::Error(error),
                (Some(_), Some(_)) | (None, None) => return Err(Malformed::NotAMessage),
            };
            let id = raw("id").and_then(RequestId::from_raw).ok_or(Malformed::NotAMessage)?;
            return Ok(Message::Response(Response { id, content }));
        };
        let name = text_of(&method).ok_or(Malformed::NotAMessage)?.into_owned();
        if self.params.is_none() && raw("params").is_some() {
            return Err(Malformed::NotAMessage);
        }
        let params = Params {
            body: body.clone(),
            members: self.params,
            meta: self.meta,
        };
        match raw("id") {
            None => Ok(Message::Notification(Notification {
                method: ClientNotice::parse(&name),
                params,
            })),
            Some(id) => {
                let id = RequestId::from_raw(id).ok_or(Malformed::NotAMessage)?;
                Ok(Message::Request(Request {
                    id,
                    method: Method::parse(&name),
                    name,
                    params,
                }))
            }
        }
    }
}

/// The members of one object, as spans.
#[derive(Debug)]
pub struct Object {
    span: Span,
    members: Vec<(Name, Span)>,
}

#[derive(Debug)]
enum Name {
    Plain(Span),
    Unescaped(String),
}

/// The objects we look into are small; a larger one is no message of this protocol.
const MOST_MEMBERS: usize = 64;

impl Object {
    /// Where member `name` lies.
    #[must_use]
    pub fn get(&self, body: &[u8], name: &str) -> Option<Span> {
        self.members
            .iter()
            .find(|(key, _)| key.bytes(body) == name.as_bytes())
            .map(|(_, span)| span.clone())
    }

    /// Takes an object that lies `level` deep. `descend` may take a member's value itself and
    /// then says where it lies.
    fn scan<'a>(
        scanner: &mut Scanner<'a>,
        body: &[u8],
        level: usize,
        mut descend: impl FnMut(&mut Scanner<'a>, &str) -> Result<Option<Span>, SpanFault>,
    ) -> Result<Self, SpanFault> {
        scanner.expect(b'{')?;
        let start = scanner.position() - 1;
        let mut members: Vec<(Name, Span)> = Vec::with_capacity(6);
        if !scanner.take(b'}') {
            loop {
                let key = scanner.key_span()?;
                let name = Name::read(body, key)?;
                if members.iter().any(|(known, _)| known.bytes(body) == name.bytes(body)) {
                    return Err(SpanFault::DuplicateKey);
                }
                if members.len() == MOST_MEMBERS {
                    return Err(SpanFault::TooManyMembers);
                }
                let span = match descend(scanner, name.text(body))? {
                    Some(span) => span,
                    None => scanner.value(level)?,
                };
                members.push((name, span));
                if !scanner.take(b',') {
                    break;
                }
            }
            scanner.expect(b'}')?;
        }
        Ok(Self {
            span: start..scanner.position(),
            members,
        })
    }
}

impl Name {
    fn read(body: &[u8], inner: Span) -> Result<Self, SpanFault> {
        match decode_string(body.get(inner.clone()).unwrap_or_default()) {
            Some(Cow::Borrowed(_)) => Ok(Self::Plain(inner)),
            Some(Cow::Owned(text)) => Ok(Self::Unescaped(text)),
            None => Err(SpanFault::Grammar),
        }
    }

    fn text<'a>(&'a self, body: &'a [u8]) -> &'a str {
        std::str::from_utf8(self.bytes(body)).unwrap_or_default()
    }

    fn bytes<'a>(&'a self, body: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Plain(span) => body.get(span.clone()).unwrap_or_default(),
            Self::Unescaped(text) => text.as_bytes(),
        }
    }
}

/// The text of a raw JSON string; `None` for any other value.
#[must_use]
pub fn text_of(raw: &[u8]) -> Option<Cow<'_, str>> {
    decode_string(raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Request {
        match parse(&Bytes::copy_from_slice(text.as_bytes()), 64) {
            Ok(Message::Request(request)) => request,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn fault(bytes: &[u8]) -> Malformed {
        parse(&Bytes::copy_from_slice(bytes), 64).expect_err("must be refused")
    }

    #[test]
    fn a_call_is_split_into_raw_spans() {
        let call = request(
            r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"tools/call","params":{ "name" : "a\u0062", "arguments": {"x": 1e2 },"_meta":{"progressToken":"t"}}}"#,
        );
        assert_eq!(call.id().as_raw(), b"9223372036854775808");
        assert_eq!(call.method(), &Method::ToolsCall);
        assert_eq!(call.params().text("name").as_deref(), Some("ab"));
        assert_eq!(call.params().raw("arguments"), Some(br#"{"x": 1e2 }"#.as_slice()));
        assert_eq!(call.params().meta("progressToken"), Some(br#""t""#.as_slice()));
        assert_eq!(call.params().raw("cursor"), None);
    }

    #[test]
    fn ids_keep_their_spelling() {
        for id in ["1", "\"1\"", "1.5", "-7", "\"a\\u00e9\""] {
            assert_eq!(
                request(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#))
                    .id()
                    .as_raw(),
                id.as_bytes()
            );
        }
    }

    #[test]
    fn names_are_compared_after_unescaping() {
        let spelled = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n\u0061me":"x"}}"#;
        assert_eq!(request(spelled).params().text("name").as_deref(), Some("x"));
        for twice in [
            r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"tools/call"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"name":"a","n\u0061me":"b"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":1,"a":2}}}"#,
        ] {
            assert_eq!(fault(twice.as_bytes()), Malformed::DuplicateKey, "{twice}");
        }
    }

    #[test]
    fn what_is_not_one_message_is_refused() {
        for (body, expected) in [
            (b"\xff".as_slice(), Malformed::NotUtf8),
            (b"{", Malformed::NotJson),
            (b"{} x", Malformed::NotJson),
            (b"{}", Malformed::NotAMessage),
            (b"1", Malformed::NotAMessage),
            (b"[]", Malformed::Batch),
            (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, Malformed::NotAMessage),
            (
                br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
                Malformed::NotAMessage,
            ),
            (br#"{"jsonrpc":"2.0","id":1,"method":7}"#, Malformed::NotAMessage),
            (
                br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#,
                Malformed::NotAMessage,
            ),
            (br#"{"jsonrpc":"2.0","id":1}"#, Malformed::NotAMessage),
        ] {
            assert_eq!(fault(body), expected, "{}", String::from_utf8_lossy(body));
        }
        let huge_id = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(2000));
        assert_eq!(fault(huge_id.as_bytes()), Malformed::NotAMessage);
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}{}}}}}"#,
            "[".repeat(63),
            "]".repeat(63)
        );
        assert_eq!(fault(deep.as_bytes()), Malformed::TooDeep);
    }

    #[test]
    fn notifications_and_responses_are_told_apart() {
        let parse = |text: &str| parse(&Bytes::copy_from_slice(text.as_bytes()), 64);
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            Ok(Message::Notification(_))
        ));
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            Ok(Message::Response(_))
        ));
    }
}
