//! Canonical JSON (RFC 8785): one spelling per document, so that a digest of it names its meaning.
//!
//! Member names are sorted by UTF-16 code units, escapes are minimal, numbers are ECMAScript's, no
//! white space. One extension: a number whose exact value differs from the value of its RFC 8785
//! spelling keeps its exact digits, laid out in the same way, and the document is [`Spelling::JcsExact`];
//! otherwise 9007199254740993 and 9007199254740992 would share a digest.
//! Members are sorted here, whatever order a library keeps (ADR 0014).

mod number;
#[cfg(test)]
mod tests;

use crate::Digest;
use crate::json::Value;

crate::words! {
    /// Which rule a canonical form needed.
    pub enum Spelling {
        /// RFC 8785 as it stands.
        Jcs = "jcs",
        /// At least one number keeps digits that RFC 8785 would have rounded away.
        JcsExact = "jcs+exact",
    }
}

/// Appends the canonical form of `value` to `out`.
pub fn write(value: &Value<'_>, out: &mut Vec<u8>) -> Spelling {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(text) => return number::write(text, out),
        Value::String(text) => write_string(text, out),
        Value::Array(elements) => return write_array(elements, out),
        Value::Object(members) => return write_object(members, out),
    }
    Spelling::Jcs
}

/// The digest of the canonical form of `value`.
#[must_use]
pub fn digest(value: &Value<'_>) -> (Digest, Spelling) {
    let mut out = Vec::with_capacity(512);
    let spelling = write(value, &mut out);
    (Digest::of(&out), spelling)
}

/// Appends `text` as a canonical string literal.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(plain) = rest
        .iter()
        .position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\')
    {
        let (before, after) = rest.split_at(plain);
        out.extend_from_slice(before);
        if let Some((byte, after)) = after.split_first() {
            write_escape(*byte, out);
            rest = after;
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            out.extend_from_slice(b"\\u00");
            return crate::id::write_hex(&[byte], out);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn write_array(elements: &[Value<'_>], out: &mut Vec<u8>) -> Spelling {
    let mut spelling = Spelling::Jcs;
    out.push(b'[');
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        spelling = spelling.or(write(element, out));
    }
    out.push(b']');
    spelling
}

fn write_object(members: &[Member<'_>], out: &mut Vec<u8>) -> Spelling {
    if members.is_sorted_by(|(one, _), (other, _)| sort_key(one).le(sort_key(other))) {
        return write_members(members.iter(), out);
    }
    let mut sorted: Vec<&Member<'_>> = members.iter().collect();
    sorted.sort_unstable_by(|(one, _), (other, _)| sort_key(one).cmp(sort_key(other)));
    write_members(sorted.into_iter(), out)
}

fn write_members<'m, 'v: 'm>(members: impl Iterator<Item = &'m Member<'v>>, out: &mut Vec<u8>) -> Spelling {
    let mut spelling = Spelling::Jcs;
    out.push(b'{');
    for (index, (name, value)) in members.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(name, out);
        out.push(b':');
        spelling = spelling.or(write(value, out));
    }
    out.push(b'}');
    spelling
}

/// Orders UTF-8 as UTF-16 code units would: the two differ only in that surrogate pairs (four bytes,
/// from 0xF0) come before U+E000..U+FFFF (three bytes, from 0xEE). No other byte of UTF-8 is that high.
fn sort_key(name: &str) -> impl Iterator<Item = u8> {
    name.bytes()
        .map(|byte| if matches!(byte, 0xEE | 0xEF) { byte + 0x10 } else { byte })
}

impl Spelling {
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Jcs, Self::Jcs) => Self::Jcs,
            (Self::JcsExact, _) | (_, Self::JcsExact) => Self::JcsExact,
        }
    }
}

type Member<'a> = (std::borrow::Cow<'a, str>, Value<'a>);
