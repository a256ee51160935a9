//! The headers of a modern request: checked against the body they mirror, and made anew for a
//! request of ours. Nothing is ever decided from a header.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};

use self::marks::Mark;
pub use self::marks::{BadMark, Marks};
use crate::envelope::text_of;
use crate::http::PROTOCOL_VERSION;
use crate::members::{Members, is_object};
use crate::span::DEEPEST;

mod marks;

/// `Mcp-Method`
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// `Mcp-Name`
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// What the name of every mirrored argument's header begins with.
pub const PARAM_PREFIX: &str = "mcp-param-";

/// What the body says that the standard headers must say too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named<'a> {
    /// `_meta["io.modelcontextprotocol/protocolVersion"]`
    pub version: &'a str,
    /// `method`
    pub method: &'a str,
    /// `name`, `uri` or `taskId`, for the methods that have `Mcp-Name`.
    pub name: Option<&'a str>,
}

/// How headers and body differ (−32020). Names the header and never repeats a value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeaderMismatch {
    /// The body has a value, the header is not there.
    #[error("header mismatch: {0} is missing")]
    Missing(String),
    /// The header comes more than once.
    #[error("header mismatch: {0} is given more than once")]
    Repeated(String),
    /// The header holds characters or an encoding that are not allowed.
    #[error("header mismatch: {0} is malformed")]
    Malformed(String),
    /// The header says something else than the body.
    #[error("header mismatch: {0} does not match the body")]
    Unequal(String),
    /// The header is there, the body has no value.
    #[error("header mismatch: {0} has no counterpart in the body")]
    Unexpected(String),
    /// The body's value is none that a header could mirror, or stands there twice.
    #[error("header mismatch: the value behind {0} cannot be mirrored in a header")]
    NotMirrorable(String),
}

/// Compares a request's headers with its body. `arguments` is the raw span of `params.arguments`.
///
/// # Errors
/// At the first header that is missing, repeated, malformed or unlike the body.
pub fn check(
    headers: &HeaderMap,
    facts: &Named<'_>,
    marks: &Marks,
    arguments: Option<&[u8]>,
) -> Result<(), HeaderMismatch> {
    // The specification has the base64 form for names and arguments only.
    for (name, label, expected) in [
        (&PROTOCOL_VERSION, "MCP-Protocol-Version", facts.version),
        (&METHOD, "Mcp-Method", facts.method),
    ] {
        match only(headers, name, label)? {
            None => return Err(HeaderMismatch::Missing(label.to_owned())),
            Some(found) if found != expected => return Err(HeaderMismatch::Unequal(label.to_owned())),
            Some(_) => {}
        }
    }
    if let Some(expected) = facts.name {
        equal(only(headers, &NAME, "Mcp-Name")?, "Mcp-Name", |found| found == expected)?;
    }
    marks
        .iter()
        .try_for_each(|mark| check_argument(headers, mark, arguments))
}

fn check_argument(headers: &HeaderMap, mark: &Mark, arguments: Option<&[u8]>) -> Result<(), HeaderMismatch> {
    let label = mark.label.as_str();
    let found = only(headers, &mark.header, label)?;
    match Mirrored::find(arguments, &mark.path) {
        Mirrored::Absent if found.is_none() => Ok(()),
        Mirrored::Absent => Err(HeaderMismatch::Unexpected(label.to_owned())),
        Mirrored::Text(text) => equal(found, label, |found| found == text),
        Mirrored::Integer(number) => equal(found, label, |found| safe_integer(found) == Some(number)),
        Mirrored::Never => Err(HeaderMismatch::NotMirrorable(label.to_owned())),
    }
}

/// Demands a header that, decoded, `is_expected`.
fn equal(found: Option<&str>, label: &str, is_expected: impl FnOnce(&str) -> bool) -> Result<(), HeaderMismatch> {
    let found = found.ok_or_else(|| HeaderMismatch::Missing(label.to_owned()))?;
    let decoded = decode(found).ok_or_else(|| HeaderMismatch::Malformed(label.to_owned()))?;
    if is_expected(&decoded) {
        Ok(())
    } else {
        Err(HeaderMismatch::Unequal(label.to_owned()))
    }
}

/// Makes the headers of a request of ours from its body. What stood there under these names, any
/// `Mcp-Param-*` included, goes.
pub fn write(headers: &mut HeaderMap, facts: &Named<'_>, marks: &Marks, arguments: Option<&[u8]>) {
    let stale: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with(PARAM_PREFIX))
        .cloned()
        .collect();
    for name in stale.into_iter().chain([PROTOCOL_VERSION, METHOD, NAME]) {
        headers.remove(name);
    }
    let mut put = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(&encode(value)) {
            headers.insert(name, value);
        }
    };
    put(PROTOCOL_VERSION, facts.version);
    put(METHOD, facts.method);
    if let Some(name) = facts.name {
        put(NAME, name);
    }
    for mark in marks.iter() {
        match Mirrored::find(arguments, &mark.path) {
            Mirrored::Text(text) => put(mark.header.clone(), &text),
            Mirrored::Integer(number) => put(mark.header.clone(), &number.to_string()),
            Mirrored::Absent | Mirrored::Never => {}
        }
    }
}

/// The one value of a header, trimmed.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName, label: &str) -> Result<Option<&'h str>, HeaderMismatch> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(HeaderMismatch::Repeated(label.to_owned()));
    }
    let text = value
        .to_str()
        .map_err(|_| HeaderMismatch::Malformed(label.to_owned()))?;
    Ok(Some(text.trim_matches([' ', '\t'])))
}

const BASE64_OPEN: &str = "=?base64?";
const BASE64_CLOSE: &str = "?=";

fn looks_encoded(text: &str) -> bool {
    text.starts_with(BASE64_OPEN) && text.ends_with(BASE64_CLOSE)
}

/// Undoes the base64 form; `None` if it is begun and not valid.
fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !looks_encoded(text) {
        return Some(Cow::Borrowed(text));
    }
    let inner = text.strip_prefix(BASE64_OPEN)?.strip_suffix(BASE64_CLOSE)?;
    String::from_utf8(STANDARD.decode(inner).ok()?).ok().map(Cow::Owned)
}

/// The base64 form where the plain one would not arrive as it left.
fn encode(text: &str) -> Cow<'_, str> {
    let visible = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let padded = text.starts_with(' ') || text.ends_with(' ');
    if visible && !padded && !looks_encoded(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{BASE64_OPEN}{}{BASE64_CLOSE}", STANDARD.encode(text)))
}

/// What a marked argument mirrors.
#[derive(PartialEq, Debug)]
enum Mirrored<'a> {
    /// Not given, or null: no header.
    Absent,
    /// A string, `true` or `false`.
    Text(Cow<'a, str>),
    /// An integer every reader reads alike.
    Integer(i64),
    /// Neither of these, or given twice.
    Never,
}

impl<'a> Mirrored<'a> {
    /// The value at the exact path of the marked property.
    fn find(arguments: Option<&'a [u8]>, path: &[String]) -> Self {
        let Some(mut raw) = arguments else { return Self::Absent };
        for step in path {
            if !is_object(raw) {
                return Self::Absent;
            }
            match Members::read(raw, DEEPEST).map(|members| members.get(step)) {
                Ok(Some(value)) => raw = value,
                Ok(None) => return Self::Absent,
                Err(_) => return Self::Never,
            }
        }
        Self::of(raw)
    }

    fn of(raw: &'a [u8]) -> Self {
        match raw {
            b"null" => Self::Absent,
            b"true" => Self::Text(Cow::Borrowed("true")),
            b"false" => Self::Text(Cow::Borrowed("false")),
            [b'"', ..] => text_of(raw).map_or(Self::Never, Self::Text),
            _ => std::str::from_utf8(raw)
                .ok()
                .and_then(safe_integer)
                .map_or(Self::Never, Self::Integer),
        }
    }
}

/// The integer a decimal stands for (`42`, `42.0`, `4.2e1`), read exactly; `None` for anything
/// else and beyond what a double holds exactly, where two readers could differ.
fn safe_integer(text: &str) -> Option<i64> {
    const LARGEST: i64 = (1 << 53) - 1;
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (mantissa, ""),
    };
    let digits = [whole, fraction].concat();
    let is_number = !whole.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || (whole.len() > 1 && whole.starts_with('0')) {
        return None;
    }
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    let dropped = digits.len() - digits.trim_end_matches('0').len();
    let shift = i64::from(exponent) + i64::try_from(dropped).ok()? - i64::try_from(fraction.len()).ok()?;
    let scale = 10_i64.checked_pow(u32::try_from(shift).ok()?)?;
    let number = significant.parse::<i64>().ok()?.checked_mul(scale)?;
    (number <= LARGEST).then_some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests;
