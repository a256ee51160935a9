//! Messages of clients and servers: envelopes, event streams and mirrored headers.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use mcp::envelope::{self, Content, Malformed, Message, Params};
use mcp::headers::{self, HeaderMismatch, Marks, Named};
use mcp::server::{self, ServerMessage};
use mcp::sse::{self, Event, EventReader};
use serde_json::value::RawValue;

const DEPTH: usize = 16;
const MOST_ELEMENTS: usize = 8;

/// A document as another parser reads it: members by their decoded names, values in their own spelling.
type Read<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// What is taken for a message is the same message to another parser, byte for byte; what is refused has the reason.
pub fn envelope(data: &[u8]) {
    let body = Bytes::copy_from_slice(data);
    let json = serde_json::from_slice::<&RawValue>(data).ok();
    match envelope::parse(&body, DEPTH) {
        Ok(message) => same(&message, data),
        Err(Malformed::NotUtf8) => assert!(std::str::from_utf8(data).is_err()),
        // Half a surrogate pair is grammar to the other parser.
        Err(Malformed::NotJson) => assert!(json.is_none() || spells_a_surrogate(data), "JSON was refused as none"),
        // What stands in the innermost container counts too.
        Err(Malformed::TooDeep) => assert!(depth(data) >= DEPTH, "it is not that deep"),
        Err(Malformed::DuplicateKey) => assert!(members(data) >= 2, "there are not two of anything"),
        Err(Malformed::Batch) => assert!(json.is_some_and(|json| json.get().starts_with('['))),
        // More members than any message has are not read to their end.
        Err(Malformed::NotAMessage) => assert!(json.is_some() || members(data) > 64, "no JSON went through"),
    }
    if let Ok(elements) = envelope::split_batch(&body, DEPTH, MOST_ELEMENTS) {
        let read: Vec<&RawValue> = serde_json::from_slice(data).expect("a batch is an array");
        assert!((1..=MOST_ELEMENTS).contains(&elements.len()));
        assert!(
            elements
                .iter()
                .map(AsRef::as_ref)
                .eq(read.iter().map(|raw| raw.get().as_bytes()))
        );
    }
    if let Ok(message) = server::parse(&body, DEPTH) {
        same_of_server(&message, data);
    }
}

/// How many members there are at most.
fn members(data: &[u8]) -> usize {
    data.iter().filter(|byte| **byte == b':').count()
}

fn spells_a_surrogate(data: &[u8]) -> bool {
    data.to_ascii_lowercase().windows(3).any(|window| window == b"\\ud")
}

/// How deep brackets are nested at most, strings left out.
fn depth(data: &[u8]) -> usize {
    let (mut now, mut most, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in data {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                now += 1;
                most = most.max(now);
            }
            b'}' | b']' if !quoted => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

fn same(message: &Message, data: &[u8]) {
    let read: Read<'_> = serde_json::from_slice(data).expect("a message is an object");
    let raw = |name: &str| read.get(name).map(|raw| raw.get().as_bytes());
    assert_eq!(raw("jsonrpc"), Some(b"\"2.0\"".as_slice()));
    let method = || serde_json::from_slice::<String>(raw("method").expect("a method")).expect("a text");
    match message {
        Message::Request(request) => {
            assert_eq!(Some(request.id().as_raw()), raw("id"));
            assert_eq!(request.method_name(), method());
            same_params(request.params(), raw("params"));
        }
        Message::Notification(notification) => {
            assert_eq!(raw("id"), None);
            let _ = method();
            same_params(notification.params(), raw("params"));
        }
        Message::Response(response) => {
            assert_eq!(Some(response.id.as_raw()), raw("id"));
            let content = match &response.content {
                Content::Result(result) => [Some(result.as_ref()), None],
                Content::Error(error) => [None, Some(error.as_ref())],
            };
            assert_eq!(content, [raw("result"), raw("error")]);
        }
    }
}

fn same_params(params: &Params, raw: Option<&[u8]>) {
    assert_eq!(params.whole(), raw);
    let Some(raw) = raw else { return };
    let read: Read<'_> = serde_json::from_slice(raw).expect("params are an object");
    let meta = read.get("_meta").map(|meta| meta.get());
    let told: BTreeMap<Cow<'_, str>, &[u8]> = params.members().map(|(name, raw)| (name.into(), raw)).collect();
    let others = read.iter().filter(|(name, _)| name.as_ref() != "_meta");
    assert!(
        told.iter()
            .map(|(name, raw)| (name.as_ref(), *raw))
            .eq(others.map(|(name, raw)| (name.as_ref(), raw.get().as_bytes())))
    );
    for (name, raw) in &read {
        assert_eq!(params.raw(name), Some(raw.get().as_bytes()));
        assert_eq!(params.bytes(name).as_deref(), Some(raw.get().as_bytes()));
        let text = serde_json::from_str::<String>(raw.get()).ok();
        assert_eq!(params.text(name).map(Cow::into_owned), text);
    }
    if let Some(meta) = meta.filter(|meta| meta.starts_with('{')) {
        let read: Read<'_> = serde_json::from_str(meta).expect("an object");
        assert_eq!(params.meta_members().count(), read.len());
        assert!(
            read.iter()
                .all(|(name, raw)| params.meta(name) == Some(raw.get().as_bytes()))
        );
    }
}

fn same_of_server(message: &ServerMessage, data: &[u8]) {
    // Members that nobody looks at may stand twice there, so the last is compared only of those that may not.
    let read: Read<'_> = serde_json::from_slice(data).expect("a message is an object");
    let raw = |name: &str| read.get(name).map(|raw| raw.get().as_bytes());
    assert_eq!(raw("jsonrpc"), Some(b"\"2.0\"".as_slice()));
    match message {
        ServerMessage::Result { id, result } => {
            assert_eq!(
                (Some(id.as_ref()), Some(result.bytes().as_ref())),
                (raw("id"), raw("result"))
            );
        }
        ServerMessage::Error { id, error } => {
            assert_eq!((Some(id.as_ref()), Some(error.as_ref())), (raw("id"), raw("error")));
        }
        ServerMessage::Notification(told) => {
            assert_eq!((None, told.params.as_deref()), (raw("id"), raw("params")));
            assert!(told.method.len() <= 128 && !told.method.chars().any(char::is_control));
        }
        ServerMessage::Request(asked) => {
            assert_eq!(
                (Some(asked.id.as_ref()), asked.params.as_deref()),
                (raw("id"), raw("params"))
            );
            assert!(asked.method.len() <= 128 && !asked.method.chars().any(char::is_control));
        }
    }
}

const MOST_DATA: usize = 64;

/// A stream is read as the specification of event streams reads it, however it is cut; and what we write is read as it was.
pub fn sse(data: &[u8]) {
    let Some((cut, stream)) = data.split_first() else {
        return;
    };
    let mut whole = EventReader::new(MOST_DATA);
    let read = whole.feed(stream);
    let mut pieces = EventReader::new(MOST_DATA);
    let mut gathered = Ok(Vec::new());
    for piece in stream.chunks(usize::from(*cut).max(1)) {
        let (Ok(events), Ok(more)) = (&mut gathered, pieces.feed(piece)) else {
            gathered = Err(sse::EventTooLarge);
            break;
        };
        events.extend(more);
    }
    assert_eq!(gathered, read, "it makes a difference where the stream was cut");
    if let Ok(events) = read {
        assert!(events.iter().all(|event| (1..=MOST_DATA).contains(&event.data.len())));
        let reference = Reference::read(stream);
        assert_eq!(events, reference.events);
        assert_eq!(whole.last_id(), reference.last_id.as_deref());
        assert_eq!(whole.retry_ms(), reference.retry_ms);
    }
    let mut reader = EventReader::new(2 * stream.len());
    let back = reader.feed(&sse::event(Some("7.1"), stream)).expect("within the limit");
    let text: Vec<u8> = stream
        .iter()
        .map(|byte| if *byte == b'\r' { b'\n' } else { *byte })
        .collect();
    let expected = (!text.is_empty()).then(|| Event {
        name: "message".to_owned(),
        data: text.into(),
    });
    assert_eq!(back, Vec::from_iter(expected), "what was written is read otherwise");
    assert_eq!(reader.last_id(), Some("7.1"));
}

/// The algorithm of the specification, line by line over the whole text, without a thought for size and pieces.
#[derive(Default)]
struct Reference {
    events: Vec<Event>,
    last_id: Option<String>,
    retry_ms: Option<u64>,
}

impl Reference {
    fn read(stream: &[u8]) -> Self {
        let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
        let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
        let mut at = 0;
        while let Some(byte) = stream.get(at) {
            at += match stream.get(at..at + 2) {
                Some(b"\r\n") => 2,
                _ => 1,
            };
            match (byte, lines.last_mut()) {
                (b'\r' | b'\n', _) => lines.push(Vec::new()),
                (byte, Some(line)) => line.push(*byte),
                (_, None) => {}
            }
        }
        lines.pop();
        let (mut reference, mut name, mut data, mut id) = (Self::default(), String::new(), None::<Vec<u8>>, None);
        for line in lines {
            if line.is_empty() {
                reference.last_id = id.take().or(reference.last_id);
                let (name, data) = (std::mem::take(&mut name), data.take().unwrap_or_default());
                reference.events.extend((!data.is_empty()).then(|| Event {
                    name,
                    data: data.into(),
                }));
                continue;
            }
            let mut parts = line.splitn(2, |byte| *byte == b':');
            let (field, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let value = value.strip_prefix(b" ").unwrap_or(value);
            if field == b"data" {
                match &mut data {
                    None => data = Some(value.to_vec()),
                    Some(data) => data.extend([b"\n", value].concat()),
                }
                continue;
            }
            let Ok(text) = String::from_utf8(value.to_vec()) else {
                continue;
            };
            match field {
                b"event" => name = text,
                b"id" if !text.contains('\0') => id = Some(text),
                b"retry" if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                    reference.retry_ms = text.parse().ok().or(reference.retry_ms);
                }
                _ => {}
            }
        }
        reference
    }
}

const VERSION: &str = "2026-07-28";

/// Headers that we write are taken as they were meant; of a stranger's, none passes that says something else than the body.
/// The input: schema, arguments, name, and lines of headers, each ended by a zero.
pub fn headers(data: &[u8]) {
    let mut parts = data.splitn(4, |byte| *byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (schema, arguments, name, lines) = (part(), part(), part(), part());
    let strange = strangers(lines);
    forms(&strange);
    let Ok(name) = std::str::from_utf8(name) else { return };
    let Ok(marks) = Marks::read(schema) else { return };
    let names: Vec<String> = marks.header_names().map(str::to_ascii_lowercase).collect();
    assert!(names.len() <= 64 && names.iter().collect::<HashSet<_>>().len() == names.len());
    assert!(names.iter().all(|name| HeaderName::from_bytes(name.as_bytes()).is_ok()));
    if !marks.is_empty() {
        serde_json::from_slice::<&RawValue>(schema).expect("what has marks is JSON");
    }
    // What stands where arguments stand has been through the envelope.
    let arguments = serde_json::from_slice::<&RawValue>(arguments)
        .ok()
        .map(|raw| raw.get().as_bytes());
    let facts = Named {
        version: VERSION,
        method: "tools/call",
        name: Some(name),
    };
    let mut ours = strange.clone();
    headers::write(&mut ours, &facts, &marks, arguments);
    match headers::check(&ours, &facts, &marks, arguments) {
        Ok(()) => {}
        Err(HeaderMismatch::NotMirrorable(_)) => assert!(!names.is_empty()),
        Err(other) => panic!("what we wrote is refused: {other}"),
    }
    let verdict = headers::check(&strange, &facts, &marks, arguments);
    match verdict {
        Ok(()) => {
            assert_eq!(only(&strange, "mcp-method").as_deref(), Some("tools/call"));
            assert_eq!(only(&strange, "mcp-protocol-version").as_deref(), Some(VERSION));
            assert_eq!(
                only(&strange, "mcp-name").map(decoded).as_deref(),
                Some(name.as_bytes())
            );
            for header in &names {
                let (given, written) = (only(&strange, header), only(&ours, header));
                assert_eq!(
                    given.is_some(),
                    written.is_some(),
                    "a header without a value, or a value without one"
                );
            }
        }
        Err(mismatch) => {
            let told = mismatch.to_string();
            let long = |value: &&HeaderValue| {
                value.len() >= 12 && !schema.windows(value.len()).any(|part| part == value.as_bytes())
            };
            let leaked = strange
                .values()
                .filter(long)
                .any(|value| value.to_str().is_ok_and(|value| told.contains(value)));
            assert!(!leaked || told.len() > 200, "the refusal repeats a value");
        }
    }
}

/// `name: value` lines as the HTTP library would hand them over.
fn strangers(lines: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n').take(64) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = HeaderName::from_bytes(parts.next().unwrap_or_default());
        let value = HeaderValue::from_bytes(parts.next().unwrap_or_default().trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// What `Accept` and `Content-Type` admit is of one piece.
fn forms(headers: &HeaderMap) {
    let form = mcp::http::answer_form(headers);
    if mcp::http::admits_events(headers) {
        assert!(form.is_some(), "events are admitted, and no answer is");
    }
    if !headers.contains_key("accept") {
        assert_eq!(form, Some(mcp::http::AnswerForm::Json));
    }
    if mcp::http::is_plain_json(headers) {
        assert_eq!(headers.get_all("content-type").iter().count(), 1);
        assert!(mcp::http::media_type(headers).is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")));
    }
}

fn only(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values
        .next()
        .is_none()
        .then(|| value.trim_matches([' ', '\t']).to_owned())
}

fn decoded(text: String) -> Vec<u8> {
    let inner = text.strip_prefix("=?base64?").and_then(|text| text.strip_suffix("?="));
    inner
        .and_then(|inner| STANDARD.decode(inner).ok())
        .unwrap_or(text.into_bytes())
}
