//! The reader behind [`Value::parse`]: one pass, an explicit stack, no recursion.

use std::borrow::Cow;
use std::collections::HashSet;
use std::mem::take;

use super::{Fault, Limits, Value};

/// Reads the whole of `text` as one document.
pub(super) fn document<'a>(text: &'a str, limits: &Limits) -> Result<Value<'a>, Fault> {
    let deepest = limits.max_depth.min(Limits::DEEPEST);
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        at: 0,
        items: 0,
        members: 0,
        limits: *limits,
    };
    let mut open: Vec<Frame<'a>> = Vec::new();
    loop {
        if open.len() >= deepest {
            return Err(Fault::TooDeep);
        }
        let Some(mut value) = reader.begin(&mut open)? else {
            continue;
        };
        // A finished value goes into the container it stands in, which it may finish in turn.
        loop {
            let Some(frame) = open.last_mut() else {
                return reader.end(value);
            };
            match reader.place(frame, value)? {
                Placed::Open => break,
                Placed::Closed(container) => {
                    value = container;
                    open.pop();
                }
            }
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    items: usize,
    /// Of the last object that was closed: in a list the next one is most often alike.
    members: usize,
    limits: Limits,
}

/// A container whose end has not been met.
enum Frame<'a> {
    Array(Vec<Value<'a>>),
    /// The members so far and the name of the one being read.
    Object(Vec<(Cow<'a, str>, Value<'a>)>, Cow<'a, str>),
}

/// What became of a container after one more value.
enum Placed<'a> {
    Open,
    Closed(Value<'a>),
}

/// Some of these are always part of the loop: a string that comes back through memory, in words, and is loaded again in
/// wider pieces makes the processor wait for every name.
impl<'a> Reader<'a> {
    /// Reads a scalar or an empty container, or opens a container and gives nothing yet.
    fn begin(&mut self, open: &mut Vec<Frame<'a>>) -> Result<Option<Value<'a>>, Fault> {
        match self.next_token()? {
            b'{' => {
                if self.next_is(b'}') {
                    return Ok(Some(Value::Object(Vec::new())));
                }
                let name = self.member_name()?;
                open.push(Frame::Object(Vec::with_capacity(self.members), name));
                Ok(None)
            }
            b'[' => {
                if self.next_is(b']') {
                    return Ok(Some(Value::Array(Vec::new())));
                }
                open.push(Frame::Array(Vec::new()));
                Ok(None)
            }
            b'"' => self.string().map(|text| Some(Value::String(text))),
            b't' => self.word(b"rue", Value::Bool(true)),
            b'f' => self.word(b"alse", Value::Bool(false)),
            b'n' => self.word(b"ull", Value::Null),
            b'-' | b'0'..=b'9' => self.number().map(Some),
            _ => Err(Fault::Malformed),
        }
    }

    /// Puts `value` into `frame` and reads on to the next value or the container's end.
    fn place(&mut self, frame: &mut Frame<'a>, value: Value<'a>) -> Result<Placed<'a>, Fault> {
        self.items += 1;
        if self.items > self.limits.max_items {
            return Err(Fault::TooManyItems);
        }
        match frame {
            Frame::Array(elements) => {
                elements.push(value);
                match self.next_token()? {
                    b',' => Ok(Placed::Open),
                    b']' => Ok(Placed::Closed(Value::Array(take(elements)))),
                    _ => Err(Fault::Malformed),
                }
            }
            Frame::Object(members, name) => {
                members.push((take(name), value));
                match self.next_token()? {
                    b',' => {
                        *name = self.member_name()?;
                        Ok(Placed::Open)
                    }
                    b'}' if names_are_unique(members) => {
                        self.members = members.len().min(ALIKE);
                        Ok(Placed::Closed(Value::Object(take(members))))
                    }
                    b'}' => Err(Fault::DuplicateKey),
                    _ => Err(Fault::Malformed),
                }
            }
        }
    }

    fn end(&mut self, value: Value<'a>) -> Result<Value<'a>, Fault> {
        self.skip_whitespace();
        if self.at == self.bytes.len() {
            Ok(value)
        } else {
            Err(Fault::Malformed)
        }
    }

    #[inline(always)]
    fn member_name(&mut self) -> Result<Cow<'a, str>, Fault> {
        if self.next_token()? != b'"' {
            return Err(Fault::Malformed);
        }
        let name = self.string()?;
        if self.next_token()? == b':' {
            Ok(name)
        } else {
            Err(Fault::Malformed)
        }
    }

    /// Reads on from behind an opening quote.
    #[inline(always)]
    fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
        let start = self.at;
        self.skip_plain();
        if self.peek() == Some(b'"') {
            let text = self.text.get(start..self.at).ok_or(Fault::Malformed)?;
            self.at += 1;
            return self.within_length(text.len()).map(|()| Cow::Borrowed(text));
        }
        self.at = start;
        self.escaped_string().map(Cow::Owned)
    }

    #[cold]
    fn escaped_string(&mut self) -> Result<String, Fault> {
        let mut decoded = String::new();
        loop {
            let start = self.at;
            self.skip_plain();
            decoded.push_str(self.text.get(start..self.at).ok_or(Fault::Malformed)?);
            self.within_length(decoded.len())?;
            match self.take() {
                Some(b'"') => return Ok(decoded),
                Some(b'\\') => decoded.push(self.escape()?),
                // A control character, which JSON wants escaped, or the end.
                _ => return Err(Fault::Malformed),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        Ok(match self.take() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.four_digits()?;
                let code = match first {
                    0xD800..=0xDBFF => self.second_half(first)?,
                    _ => first,
                };
                // Only a second half without a first is no character here.
                char::from_u32(code).ok_or(Fault::LoneSurrogate)?
            }
            _ => return Err(Fault::Malformed),
        })
    }

    fn second_half(&mut self, first: u32) -> Result<u32, Fault> {
        if self.take() != Some(b'\\') || self.take() != Some(b'u') {
            return Err(Fault::LoneSurrogate);
        }
        match self.four_digits()? {
            second @ 0xDC00..=0xDFFF => Ok(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00)),
            _ => Err(Fault::LoneSurrogate),
        }
    }

    fn four_digits(&mut self) -> Result<u32, Fault> {
        (0..4).try_fold(0, |code, _| {
            let digit = self
                .take()
                .and_then(|byte| char::from(byte).to_digit(16))
                .ok_or(Fault::Malformed)?;
            Ok(code << 4 | digit)
        })
    }

    /// Reads on from behind the first byte of a number.
    #[inline(always)]
    fn number(&mut self) -> Result<Value<'a>, Fault> {
        let start = self.at - 1;
        if self.bytes.get(start) == Some(&b'-') && !self.take().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(Fault::Malformed);
        }
        let leading_zero = self.bytes.get(self.at - 1) == Some(&b'0');
        let whole = self.skip_digits();
        if leading_zero && whole > 0 {
            return Err(Fault::Malformed);
        }
        let mut may_overflow = whole >= SURELY_FINITE_DIGITS;
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.skip_digits() == 0 {
                return Err(Fault::Malformed);
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.exponent()?;
            may_overflow = true;
        }
        let text = self.text.get(start..self.at).ok_or(Fault::Malformed)?;
        if may_overflow && !text.parse::<f64>().is_ok_and(f64::is_finite) {
            return Err(Fault::NumberOutOfRange);
        }
        Ok(Value::Number(text))
    }

    fn exponent(&mut self) -> Result<(), Fault> {
        if matches!(self.peek(), Some(b'+' | b'-')) {
            self.at += 1;
        }
        let start = self.at;
        if self.skip_digits() == 0 {
            return Err(Fault::Malformed);
        }
        let digits = self.bytes.get(start..self.at).unwrap_or_default();
        let significant = digits.iter().skip_while(|digit| **digit == b'0').count();
        if significant > MAX_EXPONENT_DIGITS {
            Err(Fault::NumberOutOfRange)
        } else {
            Ok(())
        }
    }

    fn word(&mut self, rest: &[u8], value: Value<'a>) -> Result<Option<Value<'a>>, Fault> {
        let end = self.at + rest.len();
        if self.bytes.get(self.at..end) != Some(rest) {
            return Err(Fault::Malformed);
        }
        self.at = end;
        Ok(Some(value))
    }

    fn within_length(&self, length: usize) -> Result<(), Fault> {
        if length > self.limits.max_string {
            Err(Fault::StringTooLong)
        } else {
            Ok(())
        }
    }

    /// Moves to the next byte that a string cannot hold as it is.
    fn skip_plain(&mut self) {
        self.at += plain_length(self.bytes.get(self.at..).unwrap_or_default());
    }

    fn skip_digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn skip_whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn next_token(&mut self) -> Result<u8, Fault> {
        self.skip_whitespace();
        self.take().ok_or(Fault::Malformed)
    }

    fn next_is(&mut self, byte: u8) -> bool {
        self.skip_whitespace();
        let met = self.peek() == Some(byte);
        self.at += usize::from(met);
        met
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }
}

/// How many bytes from the start a string can hold as they are: up to the first quote, backslash or control character.
#[must_use]
pub fn plain_length(bytes: &[u8]) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const TOP: u64 = 0x8080_8080_8080_8080;
    let words = bytes.chunks_exact(8);
    let (tail, mut length) = (words.remainder(), 0);
    for word in words {
        let word = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        // Eight bytes at once: the lowest top bit that is set marks the first byte that is below the bound (with a
        // character flipped away: that is it). Higher marks may be wrong, the lowest is not.
        let below = |bytes: u64, bound: u8| bytes.wrapping_sub(EACH * u64::from(bound)) & !bytes & TOP;
        let marks =
            below(word, 0x20) | below(word ^ (EACH * u64::from(b'"')), 1) | below(word ^ (EACH * u64::from(b'\\')), 1);
        if marks != 0 {
            return length + (marks.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    let ends = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    length + tail.iter().position(ends).unwrap_or(tail.len())
}

/// Names are compared decoded, so `"a"` and `"\u0061"` are one name.
fn names_are_unique(members: &[(Cow<'_, str>, Value<'_>)]) -> bool {
    if look_unlike(members) {
        return true;
    }
    if members.len() > COMPARED_PAIRWISE {
        let mut seen = HashSet::with_capacity(members.len());
        return members.iter().all(|(name, _)| seen.insert(name.as_ref()));
    }
    let mut rest = members.iter();
    while let Some((name, _)) = rest.next() {
        if rest.clone().any(|(other, _)| other == name) {
            return false;
        }
    }
    true
}

/// Whether no two names agree in length and outer letters, as far as a small table tells them apart: most objects are
/// settled by that.
fn look_unlike(members: &[(Cow<'_, str>, Value<'_>)]) -> bool {
    let mut seen = [0_u64; 4];
    members.iter().all(|(name, _)| {
        let (first, last) = match name.as_bytes() {
            [] => (0, 0),
            [first @ last] | [first, .., last] => (usize::from(*first), usize::from(*last)),
        };
        let place = name.len() + 7 * first + 31 * last;
        seen.get_mut(place / 64 % 4).is_some_and(|row| {
            let bit = 1 << (place % 64);
            let new = *row & bit == 0;
            *row |= bit;
            new
        })
    })
}

/// Up to here comparing every pair is cheaper than hashing; above it would grow with the square.
const COMPARED_PAIRWISE: usize = 16;

/// Room is made beforehand for at most as many members: a list must not cost more than it says.
const ALIKE: usize = 32;

/// A whole number with fewer digits is below 1e308.
const SURELY_FINITE_DIGITS: usize = 300;

/// More digits than any exponent needs; the canonical form reckons with exponents exactly.
const MAX_EXPONENT_DIGITS: usize = 9;
