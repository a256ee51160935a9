//! The strings, names and numbers of a document that is known to be JSON, as they are spelled.

use std::borrow::Cow;

use screening::detect::PieceKind;
use vocabulary::json::span::decode_name;

/// One literal.
pub(super) struct Literal<'a> {
    /// What stands between the quotes, or the number.
    pub(super) raw: &'a [u8],
    /// The last member name before it.
    pub(super) name: Option<Cow<'a, str>>,
    /// What it is.
    pub(super) kind: PieceKind,
}

/// Every literal, in the order of the document.
pub(super) fn literals(bytes: &[u8]) -> impl Iterator<Item = Literal<'_>> {
    let mut rest = bytes;
    let mut name: Option<Cow<'_, str>> = None;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|byte| matches!(byte, b'"' | b'-' | b'0'..=b'9'))?;
        let (_, from) = rest.split_at(start);
        if from.first() != Some(&b'"') {
            let end = from.iter().position(|byte| !is_of_number(*byte)).unwrap_or(from.len());
            let (raw, after) = from.split_at(end);
            rest = after;
            return Some(Literal {
                raw,
                name: name.clone(),
                kind: PieceKind::Number,
            });
        }
        let inner = from.get(1..)?;
        let end = closing_quote(inner);
        let (raw, after) = inner.split_at(end.min(inner.len()));
        rest = after.get(1..).unwrap_or_default();
        let next = rest.iter().find(|byte| !byte.is_ascii_whitespace());
        if next == Some(&b':') {
            name = decode_name(raw);
            return Some(Literal {
                raw,
                name: None,
                kind: PieceKind::Name,
            });
        }
        Some(Literal {
            raw,
            name: name.clone(),
            kind: PieceKind::Text,
        })
    })
}

fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
}

/// Where the string ends: the first quote that no backslash covers.
fn closing_quote(inner: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = inner.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    inner.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_names_and_numbers_are_found_as_they_are_spelled() {
        let document = br#" {"a\"b" : ["x\\", -1.5e3, true, "\u202e"], "n": {"c":"y"}, "m":0} "#;
        let found: Vec<(String, Option<String>, PieceKind)> = literals(document)
            .map(|literal| {
                let raw = String::from_utf8_lossy(literal.raw).into_owned();
                (raw, literal.name.map(Cow::into_owned), literal.kind)
            })
            .collect();
        let text = |raw: &str, name: &str| (raw.to_owned(), Some(name.to_owned()), PieceKind::Text);
        let named = |raw: &str| (raw.to_owned(), None, PieceKind::Name);
        let number = |raw: &str, name: &str| (raw.to_owned(), Some(name.to_owned()), PieceKind::Number);
        let expected = [
            named(r#"a\"b"#),
            text(r"x\\", "a\"b"),
            number("-1.5e3", "a\"b"),
            text(r"\u202e", "a\"b"),
            named("n"),
            named("c"),
            text("y", "c"),
            named("m"),
            number("0", "m"),
        ];
        assert_eq!(found, expected);
    }
}
