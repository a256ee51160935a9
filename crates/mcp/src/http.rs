//! The HTTP side of the protocol: header names, and what `Accept` and `Content-Type` admit.

use http::{HeaderMap, HeaderName, header};

/// `Mcp-Session-Id`
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// `MCP-Protocol-Version`
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// `Last-Event-ID`
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The media type of a single message.
pub const JSON: &str = "application/json";
/// The media type of a stream of messages.
pub const EVENT_STREAM: &str = "text/event-stream";

/// What the protocol tells clients to accept, as nearly all of them spell it.
const USUALLY_ACCEPTED: &str = "application/json, text/event-stream";

/// The form a client takes its answer in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerForm {
    /// One JSON message.
    Json,
    /// A stream of one event.
    EventStream,
}

/// The form `Accept` admits, JSON preferred; `None` if it admits neither.
#[must_use]
pub fn answer_form(headers: &HeaderMap) -> Option<AnswerForm> {
    if accepts_the_usual(headers) {
        return Some(AnswerForm::Json);
    }
    let mut values = headers.get_all(header::ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return Some(AnswerForm::Json);
    }
    let mut stream = None;
    for range in values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter(|range| !is_refused(range))
    {
        let kind = range.split(';').next().unwrap_or_default().trim();
        let is_one_of = |names: &[&str]| names.iter().any(|name| kind.eq_ignore_ascii_case(name));
        if is_one_of(&[JSON, "application/*", "*/*"]) {
            return Some(AnswerForm::Json);
        }
        if is_one_of(&[EVENT_STREAM, "text/*"]) {
            stream = Some(AnswerForm::EventStream);
        }
    }
    stream
}

/// Whether `Accept` names event streams: a client that only says `*/*` may not expect one.
#[must_use]
pub fn admits_events(headers: &HeaderMap) -> bool {
    if accepts_the_usual(headers) {
        return true;
    }
    let values = headers.get_all(header::ACCEPT).iter();
    let mut ranges = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    ranges.any(|range| {
        let kind = range.split(';').next().unwrap_or_default().trim();
        !is_refused(range) && (kind.eq_ignore_ascii_case(EVENT_STREAM) || kind.eq_ignore_ascii_case("text/*"))
    })
}

/// Needs no reading; whatever further values say, they take nothing back.
fn accepts_the_usual(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .is_some_and(|value| value == USUALLY_ACCEPTED)
}

/// `;q=0` says that a form is not acceptable.
fn is_refused(range: &str) -> bool {
    let weights = range
        .split(';')
        .skip(1)
        .filter_map(|parameter| parameter.trim().strip_prefix("q="));
    weights
        .filter_map(|weight| weight.trim().parse::<f32>().ok())
        .any(|weight| weight == 0.0)
}

/// Whether the body is declared as plain JSON, not compressed.
#[must_use]
pub fn is_plain_json(headers: &HeaderMap) -> bool {
    let one_type = headers.get_all(header::CONTENT_TYPE).iter().nth(1).is_none();
    one_type
        && media_type(headers).is_some_and(|kind| kind.eq_ignore_ascii_case(JSON))
        && headers
            .get_all(header::CONTENT_ENCODING)
            .iter()
            .all(|coding| coding == "identity")
}

/// The media type of a body, without parameters.
#[must_use]
pub fn media_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    value.split(';').next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, http::HeaderValue::from_static(value))])
    }

    #[test]
    fn json_is_preferred_and_neither_is_refused() {
        for (accept, form) in [
            ("application/json, text/event-stream", Some(AnswerForm::Json)),
            ("text/event-stream;q=1", Some(AnswerForm::EventStream)),
            ("*/*", Some(AnswerForm::Json)),
            ("text/html", None),
            ("application/json;q=0, text/event-stream", Some(AnswerForm::EventStream)),
        ] {
            assert_eq!(answer_form(&with(header::ACCEPT, accept)), form, "{accept}");
        }
        assert_eq!(answer_form(&HeaderMap::new()), Some(AnswerForm::Json));
    }

    #[test]
    fn only_plain_json_bodies_are_taken() {
        assert!(is_plain_json(&with(
            header::CONTENT_TYPE,
            "application/json; charset=utf-8"
        )));
        assert!(!is_plain_json(&with(header::CONTENT_TYPE, "text/plain")));
        assert!(!is_plain_json(&HeaderMap::new()));
        let mut packed = with(header::CONTENT_TYPE, "application/json");
        packed.insert(header::CONTENT_ENCODING, http::HeaderValue::from_static("gzip"));
        assert!(!is_plain_json(&packed));
    }
}
