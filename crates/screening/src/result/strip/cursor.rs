//! Reads a literal forward, leaving out what was taken out before, and knows the escapes of JSON that are spelled in
//! the text itself.

use std::ops::Range;

use super::tables::class_of;
use crate::result::edit::units::{joined, printable_length, unit};

/// Stands for a mask: no character at all, so nothing begins, goes on or ends with it but what it interrupts.
pub(super) const MASK: u32 = u32::MAX;

/// How backslashes in the text are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// Two make one, so that `\\u001b` is no escape.
    Text,
    /// Inside a sequence whose beginning stands for itself: each for itself.
    Sequence,
    /// Inside a sequence whose beginning is spelled: as in the string of JSON that it is spelled in.
    Spelled,
}

/// One thing that is kept or taken out as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) code: u32,
    /// Written as an escape in the text.
    pub(super) spelled: bool,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A place in the literal; copies look ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) raw: &'a [u8],
    /// Where the next one begins, or what was taken out before it.
    pub(super) at: usize,
    pub(super) gone: &'a [Range<usize>],
    pub(super) masked: &'a [Range<usize>],
}

impl Cursor<'_> {
    /// The next thing.
    pub(super) fn token(&mut self, reading: Reading) -> Option<Token> {
        let first = self.unit()?;
        match first.code {
            0xD800..=0xDBFF => Some(self.second_half(first)),
            BACKSLASH => Some(self.escape(first, reading)),
            _ => Some(first),
        }
    }

    /// Goes over what stands for itself and is in no class; the last two characters of it, if there were as many.
    pub(super) fn skip_harmless(&mut self) -> [Option<u32>; 2] {
        self.leave_gone();
        let next = |ranges: &[Range<usize>]| ranges.first().map_or(self.raw.len(), |range| range.start);
        let stop = next(self.gone).min(next(self.masked));
        let raw = self.raw.get(..stop).unwrap_or_default();
        let mut seen = [None, None];
        loop {
            let plain = printable_length(raw.get(self.at..).unwrap_or_default());
            self.at += plain;
            let back = |by: usize| raw.get(self.at - by).copied().map(u32::from);
            match plain {
                0 => {}
                1 => seen = [seen[1], back(1)],
                _ => seen = [back(2), back(1)],
            }
            match raw.get(self.at) {
                Some(0x80..) => {}
                Some(_) | None => return seen,
            }
            let Some(unit) = unit(raw, self.at).filter(|unit| is_harmless(unit.code)) else {
                return seen;
            };
            self.at = unit.end;
            seen = [seen[1], Some(unit.code)];
        }
    }

    /// A half of a pair by itself, a character or a mask.
    pub(super) fn unit(&mut self) -> Option<Token> {
        self.leave_gone();
        let start = self.at;
        if let Some((mask, rest)) = self.masked.split_first()
            && mask.start <= start
        {
            (self.at, self.masked) = (mask.end.max(start), rest);
            return Some(Token {
                code: MASK,
                spelled: false,
                start,
                end: self.at,
            });
        }
        let unit = unit(self.raw, start)?;
        self.at = unit.end;
        Some(Token {
            code: unit.code,
            spelled: false,
            start,
            end: unit.end,
        })
    }

    /// A half that follows a half makes one character with it.
    pub(super) fn second_half(&mut self, first: Token) -> Token {
        let mut ahead = *self;
        match ahead.unit() {
            Some(
                second @ Token {
                    code: 0xDC00..=0xDFFF, ..
                },
            ) => {
                *self = ahead;
                Token {
                    code: joined(first.code, second.code),
                    end: second.end,
                    ..first
                }
            }
            Some(_) | None => first,
        }
    }

    fn leave_gone(&mut self) {
        while let Some((gone, rest)) = self.gone.split_first()
            && gone.start <= self.at
        {
            self.at = self.at.max(gone.end);
            self.gone = rest;
        }
        while let Some((mask, rest)) = self.masked.split_first()
            && mask.end <= self.at
        {
            self.masked = rest;
        }
    }

    /// What a backslash in the text begins.
    fn escape(&mut self, first: Token, reading: Reading) -> Token {
        let mut ahead = *self;
        let Some(second) = ahead.unit() else { return first };
        let code = match (char::from_u32(second.code), reading) {
            (Some('u'), _) => return self.spelled(first).unwrap_or(first),
            (Some('\\'), Reading::Text | Reading::Spelled) => '\\',
            (Some(quoted @ ('"' | '/')), Reading::Spelled) => quoted,
            (Some('n'), Reading::Spelled) => '\n',
            (Some('r'), Reading::Spelled) => '\r',
            (Some('t'), Reading::Spelled) => '\t',
            (Some('b'), Reading::Spelled) => '\u{8}',
            (Some('f'), Reading::Spelled) => '\u{c}',
            (Some(_) | None, Reading::Text | Reading::Sequence | Reading::Spelled) => return first,
        };
        *self = ahead;
        Token {
            code: u32::from(code),
            spelled: true,
            end: second.end,
            ..first
        }
    }

    /// `u`, four digits, and a second half where the first asks for one; the cursor stands behind the backslash.
    fn spelled(&mut self, backslash: Token) -> Option<Token> {
        let (code, end) = self.digits()?;
        let mut token = Token {
            code,
            spelled: true,
            start: backslash.start,
            end,
        };
        let mut ahead = *self;
        if matches!(code, 0xD800..=0xDBFF)
            && ahead.unit().is_some_and(|unit| unit.code == BACKSLASH)
            && let Some((low @ 0xDC00..=0xDFFF, end)) = ahead.digits()
        {
            *self = ahead;
            (token.code, token.end) = (joined(code, low), end);
        }
        Some(token)
    }

    fn digits(&mut self) -> Option<(u32, usize)> {
        let mut ahead = *self;
        (ahead.unit()?.code == u32::from('u')).then_some(())?;
        let (mut code, mut end) = (0, ahead.at);
        for _ in 0..4 {
            let unit = ahead.unit()?;
            code = code << 4 | char::from_u32(unit.code)?.to_digit(16)?;
            end = unit.end;
        }
        *self = ahead;
        Some((code, end))
    }
}

/// Whether a character beyond ASCII is in no class and begins nothing that is looked at as a whole.
fn is_harmless(code: u32) -> bool {
    code > 0x9F && code != BLACK_FLAG && class_of(code).is_none()
}

/// With tags behind it, it may be another flag.
pub(super) const BLACK_FLAG: u32 = 0x1F3F4;
const BACKSLASH: u32 = '\\' as u32;
