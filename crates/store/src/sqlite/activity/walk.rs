//! A walk through one line of the log. Lines are compact JSON of our own writing, and of most of it nothing is kept:
//! what nobody asks for is passed over, not checked. Other bytes end the walk or are read wrongly, and each is looked at
//! a few times at most.
//! ADR 0051: the chain checks, the index does not.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memchr3, memrchr};
use vocabulary::json::span::decode_string;

/// How a line is walked through. Every step takes what is left of the line, to its end, and gives what is left behind;
/// `None` where the line is not what it should be.
#[derive(Clone, Copy)]
pub(super) struct Walk<'w> {
    /// Most lines have none, and then a string is whatever lies before the next quote.
    escapes: Option<&'w Escapes>,
}

/// Where the backslashes of a line are: how much of it is left at the first, and at the last.
pub(super) struct Escapes {
    first: usize,
    last: usize,
}

impl Escapes {
    pub(super) fn of(line: &[u8]) -> Option<Self> {
        Some(Self {
            first: line.len() - memchr(b'\\', line)?,
            last: line.len() - memrchr(b'\\', line)?,
        })
    }

    /// Whether there may be one between the places where `from` and `to` bytes of the line are left.
    fn may_lie_between(&self, from: usize, to: usize) -> bool {
        to < self.first && from >= self.last
    }
}

impl<'w> Walk<'w> {
    pub(super) fn around(escapes: Option<&'w Escapes>) -> Self {
        Self { escapes }
    }

    /// Takes an object; `member` is told each name and what is left from its value on, and takes the value. Names are
    /// told as they are spelled: those of the log need no escapes. `null` has no members. The loop belongs where it is
    /// used, with what is left of the line in registers.
    #[inline(always)]
    pub(super) fn members<'a>(
        self,
        rest: &'a [u8],
        mut member: impl FnMut(&'a [u8], &'a [u8]) -> Option<&'a [u8]>,
    ) -> Option<&'a [u8]> {
        let mut rest = match rest {
            [b'{', b'}', behind @ ..] => return Some(behind),
            [b'{', inside @ ..] => inside,
            _ => return rest.strip_prefix(b"null"),
        };
        loop {
            let (name, behind) = self.string(rest)?;
            match member(name, behind.strip_prefix(b":")?)? {
                [b',', behind @ ..] => rest = behind,
                [b'}', behind @ ..] => return Some(behind),
                _ => return None,
            }
        }
    }

    /// Takes a string and keeps what is between its quotes, or takes `null`. What was kept already is named twice.
    pub(super) fn text<'a>(self, rest: &'a [u8], kept: &mut Option<&'a [u8]>) -> Option<&'a [u8]> {
        if kept.is_some() {
            return None;
        }
        if rest.first() != Some(&b'"') {
            return rest.strip_prefix(b"null");
        }
        let (inside, behind) = self.string(rest)?;
        *kept = Some(inside);
        Some(behind)
    }

    /// Takes an object of which one text is kept. In the log's order that is the last member, and the others need not be
    /// looked at.
    pub(super) fn text_within<'a>(
        self,
        rest: &'a [u8],
        wanted: &[u8],
        kept: &mut Option<&'a [u8]>,
    ) -> Option<&'a [u8]> {
        let behind = self.pass(rest)?;
        let object = rest.get(..rest.len() - behind.len())?;
        if kept.is_none()
            && let Some(text) = last_text(object, wanted)
        {
            *kept = Some(text);
            return Some(behind);
        }
        let end = self.members(rest, |name, value| {
            if name == wanted {
                self.text(value, kept)
            } else {
                self.pass(value)
            }
        })?;
        (end.len() == behind.len()).then_some(end)
    }

    /// Takes a whole number.
    pub(super) fn number<'a>(self, rest: &'a [u8], kept: &mut Option<u64>) -> Option<&'a [u8]> {
        let length = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        let (digits, behind) = rest.split_at_checked(length)?;
        if kept.is_some() || digits.is_empty() {
            return None;
        }
        let number = digits.iter().try_fold(0_u64, |number, digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })?;
        *kept = Some(number);
        Some(behind)
    }

    /// Passes over a value of any kind.
    pub(super) fn pass(self, rest: &[u8]) -> Option<&[u8]> {
        match rest {
            [b'"', ..] => self.string(rest).map(|(_, behind)| behind),
            [b'n', b'u', b'l', b'l', behind @ ..]
            | [b't', b'r', b'u', b'e', behind @ ..]
            | [b'f', b'a', b'l', b's', b'e', behind @ ..]
            | [b'[', b']', behind @ ..] => Some(behind),
            [b'{', inside @ ..] => self.pass_container(inside, b'{', b'}'),
            [b'[', inside @ ..] => self.pass_container(inside, b'[', b']'),
            _ => rest.get(rest.iter().position(|byte| matches!(byte, b',' | b'}'))?..),
        }
    }

    /// What a string says, given what is between its quotes.
    #[inline]
    pub(super) fn decode(self, inside: &[u8]) -> Option<Cow<'_, [u8]>> {
        match self.escapes {
            None => Some(Cow::Borrowed(inside)),
            Some(_) => decode_escapes(inside),
        }
    }

    /// Passes over an object or an array, from behind its opening bracket. Brackets of the other kind are no concern:
    /// they are paired among themselves.
    fn pass_container(self, mut rest: &[u8], open: u8, close: u8) -> Option<&[u8]> {
        // Nearly always the first bracket closes, and a member follows. If it stood in a string, the quote would be the
        // string's end, for one within has a backslash before it; and what follows the end of a string is no letter.
        let (_, found) = rest.split_at_checked(memchr2(open, close, rest)?)?;
        if let [bracket, behind @ ..] = found
            && *bracket == close
            && matches!(behind, [b',', b'"', b'a'..=b'z', ..])
        {
            return Some(behind);
        }
        let mut depth = 1_usize;
        while depth > 0 {
            let (_, found) = rest.split_at_checked(memchr3(b'"', open, close, rest)?)?;
            let (byte, behind) = found.split_first()?;
            rest = behind;
            if *byte == open {
                depth += 1;
            } else if *byte == close {
                depth -= 1;
            } else {
                (_, rest) = self.string(found)?;
            }
        }
        Some(rest)
    }

    /// Takes a string: what is between its quotes, and what is left.
    #[inline(always)]
    fn string(self, rest: &[u8]) -> Option<(&[u8], &[u8])> {
        let rest = rest.strip_prefix(b"\"")?;
        let length = match self.escapes {
            None => next_quote(rest)?,
            Some(escapes) => next_bare_quote(rest, escapes)?,
        };
        let (inside, behind) = rest.split_at_checked(length)?;
        Some((inside, behind.split_first()?.1))
    }
}

/// How far the next quote is. Most strings are names, too short to be worth the way to `memchr`.
#[inline(always)]
fn next_quote(bytes: &[u8]) -> Option<usize> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const TOP: u64 = EACH << 7;
    let mut rest = bytes;
    while let Some((word, behind)) = rest.split_first_chunk() {
        // Eight bytes at once: with quotes made zero, the lowest top bit that is set marks the first of them.
        let word = u64::from_le_bytes(*word) ^ (EACH * b'"' as u64);
        let marks = word.wrapping_sub(EACH) & !word & TOP;
        if marks != 0 {
            return Some(bytes.len() - rest.len() + (marks.trailing_zeros() / 8) as usize);
        }
        rest = behind;
    }
    let before = bytes.len() - rest.len();
    rest.iter().position(|byte| *byte == b'"').map(|at| before + at)
}

/// The text of an object's last member, if that is the one wanted. A quote within a text has a backslash before it, as
/// none of those here has.
fn last_text<'a>(object: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let rest = object.strip_suffix(b"\"}")?;
    let (before, found) = rest.split_at_checked(memrchr(b'"', rest)?)?;
    match before.strip_suffix(b"\":")?.strip_suffix(wanted)? {
        [.., b'{' | b',', b'"'] => found.strip_prefix(b"\""),
        _ => None,
    }
}

/// How far the next quote is that no backslash stands before.
#[cold]
fn next_bare_quote(rest: &[u8], escapes: &Escapes) -> Option<usize> {
    let mut at = next_quote(rest)?;
    if !escapes.may_lie_between(rest.len(), rest.len() - at) {
        return Some(at);
    }
    at = 0;
    loop {
        at += memchr2(b'"', b'\\', rest.get(at..)?)?;
        if rest.get(at) == Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

#[cold]
fn decode_escapes(inside: &[u8]) -> Option<Cow<'_, [u8]>> {
    if memchr(b'\\', inside).is_none() {
        return Some(Cow::Borrowed(inside));
    }
    Some(Cow::Owned(decode_string(inside)?.into_owned().into_bytes()))
}
