//! Finds where JSON values begin and end, in one pass and without recursion, checking the grammar
//! on the way. Depth counts as everywhere: a scalar is 1, `{"a":1}` is 2.

use std::borrow::Cow;
use std::ops::Range;

use super::{Limits, Value, plain_length};

/// Why bytes are not a JSON document we take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpanFault {
    /// Not JSON at all, or something follows the document.
    #[error("not well-formed JSON")]
    Grammar,
    /// Nested deeper than the limit.
    #[error("nested too deeply")]
    TooDeep,
    /// An object names a member twice, in whatever spelling.
    #[error("a member is named twice")]
    DuplicateKey,
    /// An object that must stay small has too many members.
    #[error("too many members")]
    TooManyMembers,
}

/// A place in a message: offsets into its bytes.
pub type Span = Range<usize>;

/// A string or a number of a document, by its place. That of a string is what stands between the quotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token {
    /// The name of a member.
    Name(Span),
    /// A string that is no name.
    Text(Span),
    /// A number.
    Number(Span),
}

/// The most nested document any limit may ask for.
pub const DEEPEST: usize = 512;

/// Reads forward through JSON bytes that are known to be UTF-8.
pub struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    max_depth: usize,
    deepest: usize,
}

impl<'a> Scanner<'a> {
    /// A scanner at the start of `bytes`; `max_depth` beyond [`DEEPEST`] counts as that.
    #[must_use]
    pub fn new(bytes: &'a [u8], max_depth: usize) -> Self {
        Self {
            bytes,
            at: 0,
            max_depth: max_depth.min(DEEPEST),
            deepest: 0,
        }
    }

    /// The next byte that is no white space, without taking it.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Takes `wanted` if it comes next.
    pub fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// Takes `wanted` or fails.
    pub fn expect(&mut self, wanted: u8) -> Result<(), SpanFault> {
        if self.take(wanted) {
            Ok(())
        } else {
            Err(SpanFault::Grammar)
        }
    }

    /// Succeeds at the end of the document only.
    pub fn finish(&mut self) -> Result<(), SpanFault> {
        if self.peek().is_none() {
            Ok(())
        } else {
            Err(SpanFault::Grammar)
        }
    }

    /// Where the scanner stands: behind what it took.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Takes a value that was read through before and lies at `span`, if the scanner stands before it. Its depth is not
    /// measured.
    pub fn pass_over(&mut self, span: &Span) -> bool {
        let stands = self.peek().is_some() && self.at == span.start && span.end <= self.bytes.len();
        if stands {
            self.at = span.end;
        }
        stands
    }

    /// From here on [`Scanner::deepest`] counts what lies below `level`.
    pub fn measure_from(&mut self, level: usize) {
        self.deepest = level;
    }

    /// The deepest level that a value was met at since [`Scanner::measure_from`].
    #[must_use]
    pub fn deepest(&self) -> usize {
        self.deepest
    }

    /// Takes the opening brace of an object that lies `level` deep.
    ///
    /// # Errors
    /// When something else comes, or it lies too deep.
    pub fn enter(&mut self, level: usize) -> Result<(), SpanFault> {
        if level >= self.max_depth {
            return Err(SpanFault::TooDeep);
        }
        self.deepest = self.deepest.max(level + 1);
        self.expect(b'{')
    }

    /// Takes a member name and its colon; the span is what stands between the quotes.
    pub fn key_span(&mut self) -> Result<Span, SpanFault> {
        if self.peek() != Some(b'"') {
            return Err(SpanFault::Grammar);
        }
        let span = self.string()?;
        self.expect(b':').map(|()| span)
    }

    /// Moves on to the next string or number, over whatever stands before it, and takes that; nothing where none is left.
    /// For documents that were read through before: what stands between literals is not checked again.
    ///
    /// # Errors
    /// When a literal is broken: whoever looks at all of them must not take that for the end.
    pub fn literal_ahead(&mut self) -> Result<Option<Token>, SpanFault> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let begins = |byte: &u8| matches!(byte, b'"' | b'-' | b'0'..=b'9');
        let Some(before) = rest.iter().position(begins) else {
            return Ok(None);
        };
        self.at += before;
        let start = self.at;
        if self.bytes.get(start) != Some(&b'"') {
            self.number()?;
            return Ok(Some(Token::Number(start..self.at)));
        }
        let span = self.string()?;
        Ok(Some(match self.peek() {
            Some(b':') => Token::Name(span),
            _ => Token::Text(span),
        }))
    }

    /// Takes one whole value that lies `level` containers deep (0 for the document itself).
    pub fn value(&mut self, level: usize) -> Result<Span, SpanFault> {
        self.peek();
        let start = self.at;
        let mut open = Containers::default();
        loop {
            if self.begin(level, &mut open)? && self.close_all(&mut open)? {
                return Ok(start..self.at);
            }
        }
    }

    /// Takes a scalar (true) or enters a container (false, unless it is empty).
    fn begin(&mut self, level: usize, open: &mut Containers) -> Result<bool, SpanFault> {
        if level + open.depth >= self.max_depth {
            return Err(SpanFault::TooDeep);
        }
        self.deepest = self.deepest.max(level + open.depth + 1);
        match self.peek() {
            Some(b'"') => self.string().map(|_| true),
            Some(b'{') => {
                self.at += 1;
                if self.take(b'}') {
                    return Ok(true);
                }
                open.push(true);
                self.key_span().map(|_| false)
            }
            Some(b'[') => {
                self.at += 1;
                if self.take(b']') {
                    return Ok(true);
                }
                open.push(false);
                Ok(false)
            }
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| true),
            _ => Err(SpanFault::Grammar),
        }
    }

    /// After a value: closes what ends here; true when nothing is open any more.
    fn close_all(&mut self, open: &mut Containers) -> Result<bool, SpanFault> {
        while open.depth > 0 {
            let in_object = open.top_is_object();
            match (self.peek(), in_object) {
                (Some(b','), true) => {
                    self.at += 1;
                    self.key_span()?;
                    return Ok(false);
                }
                (Some(b','), false) => {
                    self.at += 1;
                    return Ok(false);
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    self.at += 1;
                    open.depth -= 1;
                }
                _ => return Err(SpanFault::Grammar),
            }
        }
        Ok(true)
    }

    /// Takes a string literal; the span is what stands between the quotes.
    fn string(&mut self) -> Result<Span, SpanFault> {
        let start = self.at + 1;
        let mut at = start;
        let bytes = self.bytes;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            at += plain_length(rest);
            match bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(start..at);
                }
                Some(b'\\') => at = self.escape(at)?,
                _ => return Err(SpanFault::Grammar),
            }
        }
    }

    /// Checks the escape whose backslash is at `at`; gives the place behind it.
    fn escape(&self, at: usize) -> Result<usize, SpanFault> {
        match self.bytes.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') => {
                let digits = self.bytes.get(at + 2..at + 6).ok_or(SpanFault::Grammar)?;
                if digits.iter().all(u8::is_ascii_hexdigit) {
                    Ok(at + 6)
                } else {
                    Err(SpanFault::Grammar)
                }
            }
            _ => Err(SpanFault::Grammar),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<bool, SpanFault> {
        let end = self.at + word.len();
        if self.bytes.get(self.at..end) != Some(word) {
            return Err(SpanFault::Grammar);
        }
        self.at = end;
        Ok(true)
    }

    fn number(&mut self) -> Result<(), SpanFault> {
        self.at += usize::from(self.bytes.get(self.at) == Some(&b'-'));
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), SpanFault> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count > 0 { Ok(()) } else { Err(SpanFault::Grammar) }
    }
}

/// Which containers are open: one bit each, set for an object.
#[derive(Default)]
struct Containers {
    bits: [u64; DEEPEST / 64],
    depth: usize,
}

impl Containers {
    fn push(&mut self, is_object: bool) {
        if let Some(word) = self.bits.get_mut(self.depth / 64) {
            let bit = 1u64 << (self.depth % 64);
            *word = if is_object { *word | bit } else { *word & !bit };
        }
        self.depth += 1;
    }

    fn top_is_object(&self) -> bool {
        let top = self.depth.saturating_sub(1);
        self.bits.get(top / 64).is_some_and(|word| word >> (top % 64) & 1 == 1)
    }
}

/// Decodes what stands between the quotes of a string literal that a [`Scanner`] took.
/// `None` for a lone surrogate.
#[must_use]
pub fn decode_string(inner: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(inner).ok()?;
    if !inner.contains(&b'\\') {
        return Some(Cow::Borrowed(text));
    }
    let limits = Limits {
        max_bytes: inner.len() + 2,
        max_depth: 1,
        max_string: inner.len(),
        max_items: 0,
    };
    let literal = format!("\"{text}\"");
    match Value::parse(literal.as_bytes(), &limits).ok()? {
        Value::String(text) => Some(Cow::Owned(text.into_owned())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Decodes the name of a member. One with a lone surrogate stays as it is spelled: it is none that
/// anybody here looks for, and no reason to keep its neighbours back.
#[must_use]
pub fn decode_name(inner: &[u8]) -> Option<Cow<'_, str>> {
    decode_string(inner).or_else(|| std::str::from_utf8(inner).ok().map(Cow::Borrowed))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str, max_depth: usize) -> Result<Span, SpanFault> {
        let mut scanner = Scanner::new(text.as_bytes(), max_depth);
        let span = scanner.value(0)?;
        scanner.finish().map(|()| span)
    }

    #[test]
    fn values_are_taken_whole_and_white_space_is_left_out() {
        for text in [
            "1",
            "-0.5e+3",
            "\"a\\u00e9\"",
            "{}",
            "[]",
            "{\"a\":[1,{\"b\":null}],\"c\":\"}\"}",
            "[[],{}]",
            "true",
        ] {
            assert_eq!(whole(&format!(" {text}\n"), 9), Ok(1..1 + text.len()), "{text}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            "{",
            "}",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "01",
            "1.",
            "1e",
            "-",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\n\"",
            "nul",
            "1 2",
            "[1}",
            "{\"a\":1]",
            "\u{feff}1",
            "'a'",
        ] {
            assert_eq!(whole(text, 9), Err(SpanFault::Grammar), "{text}");
        }
    }

    #[test]
    fn depth_counts_a_scalar_as_one() {
        assert!(whole("1", 1).is_ok());
        assert_eq!(whole("{\"a\":1}", 1), Err(SpanFault::TooDeep));
        assert!(whole("{\"a\":1}", 2).is_ok());
        assert_eq!(whole(&"[".repeat(1_000_000), 512), Err(SpanFault::TooDeep));
        let deep = format!("{}1{}", "[".repeat(511), "]".repeat(511));
        assert!(whole(&deep, 512).is_ok());
        assert_eq!(whole(&deep, 511), Err(SpanFault::TooDeep));
    }

    #[test]
    fn literals_are_found_where_they_stand() {
        let text = r#" {"a\"b" : ["x\\", -1.5e3, true, "\u202e"], "n": {"c":""}, "m":0} "#;
        let mut scanner = Scanner::new(text.as_bytes(), DEEPEST);
        let found: Vec<(char, &str)> = std::iter::from_fn(|| scanner.literal_ahead().transpose())
            .map(|token| match token.unwrap() {
                Token::Name(span) => (':', text.get(span).unwrap()),
                Token::Text(span) => ('"', text.get(span).unwrap()),
                Token::Number(span) => ('0', text.get(span).unwrap()),
            })
            .collect();
        let expected = [
            (':', r#"a\"b"#),
            ('"', r"x\\"),
            ('0', "-1.5e3"),
            ('"', r"\u202e"),
            (':', "n"),
            (':', "c"),
            ('"', ""),
            (':', "m"),
            ('0', "0"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_broken_literal_is_not_the_end() {
        for broken in ["\"", "\"\\", "-", "1e", "\"\u{1}\"", "\"\\x\"", "\"b"] {
            let mut scanner = Scanner::new(broken.as_bytes(), DEEPEST);
            assert_eq!(scanner.literal_ahead(), Err(SpanFault::Grammar), "{broken}");
        }
        assert_eq!(Scanner::new(b"[true, null]", DEEPEST).literal_ahead(), Ok(None));
    }

    /// As a JSON library finds them.
    fn literals_in(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(members) => members.iter().for_each(|(name, value)| {
                found.push(format!("{name}:"));
                literals_in(value, found);
            }),
            serde_json::Value::Array(items) => items.iter().for_each(|item| literals_in(item, found)),
            serde_json::Value::String(text) => found.push(text.clone()),
            serde_json::Value::Number(number) => found.push(number.to_string()),
            serde_json::Value::Null | serde_json::Value::Bool(_) => {}
        }
    }

    proptest! {
        #[test]
        fn literals_agree_with_a_json_library(names in prop::collection::btree_map("[a-c\"\\\\:é]{0,4}", "[\\[\\]{}:,\"\\\\0-9\\- é]{0,6}", 0..4), number: i32) {
            let value = serde_json::json!({ "z": [names, number, null, [true, "1"]] });
            let text = value.to_string();
            let mut scanner = Scanner::new(text.as_bytes(), DEEPEST);
            let decoded = |span: Span| decode_string(&text.as_bytes()[span]).unwrap().into_owned();
            let found: Vec<String> = std::iter::from_fn(|| scanner.literal_ahead().transpose())
                .map(|token| match token.unwrap() {
                    Token::Name(span) => decoded(span) + ":",
                    Token::Text(span) => decoded(span),
                    Token::Number(span) => text.get(span).unwrap().to_owned(),
                })
                .collect();
            let mut expected = Vec::new();
            literals_in(&value, &mut expected);
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn agrees_with_a_json_library(text in "[\\[\\]{}:,\"\\\\a0-9eE.+\\- truefalsn]{0,24}") {
            let library = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
            prop_assert_eq!(whole(&text, 100).is_ok(), library, "{}", text);
        }
    }
}
