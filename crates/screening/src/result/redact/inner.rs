//! Masks in a text that is itself JSON (one document, or several one behind the other): its readers parse it, so it has to
//! stay JSON. A mask stays within the strings it covers, and a number becomes a string.

use std::borrow::Cow;
use std::ops::Range;

use vocabulary::json::span::{DEEPEST, Scanner, Token};

use super::{Borders, mask};
use crate::result::edit::Edit;
use crate::result::edit::units::{character, decoded};

/// The masks of a text that is JSON, in order and apart; `None` if it is none, or nothing of it is covered. `masks` are
/// ranges of `text`, what stands between the quotes of the literal, with their categories.
pub(super) fn masks(text: &[u8], masks: &[(Range<usize>, &str)]) -> Option<Vec<Edit>> {
    let first = character(text, leading(text))?.character();
    if !matches!(first, '{' | '[' | '"') {
        return None;
    }
    let inner = decoded(text);
    let tokens = literals(inner.as_bytes())?;
    let mut here = Places::of(text);
    let wanted = masks.iter().map(|(range, category)| {
        let start = here.decoded(range.start);
        (start..here.decoded(range.end), *category)
    });
    let mut edits = Edits::default();
    let mut first = 0;
    for (range, category) in wanted {
        first += tokens
            .get(first..)?
            .partition_point(|token| span(token).end <= range.start);
        let covered = tokens
            .get(first..)?
            .iter()
            .take_while(|token| span(token).start < range.end);
        let count = covered
            .map(|token| edits.mask(inner.as_bytes(), token, &range, category))
            .count();
        // What lies between literals is no secret; but nothing that was found is passed over.
        if count == 0 {
            return None;
        }
    }
    let mut back = Places::of(text);
    let edit = |(range, with): (Range<usize>, String)| {
        let start = back.raw(range.start);
        Edit {
            range: start..back.raw(range.end),
            with: Cow::Owned(with),
        }
    };
    Some(edits.done.into_iter().map(edit).collect())
}

/// Masks of a text as its readers see it.
#[derive(Default)]
struct Edits<'a> {
    done: Vec<(Range<usize>, String)>,
    /// The string that was masked last, and how far its characters were read.
    string: Range<usize>,
    borders: Borders<'a>,
}

impl<'a> Edits<'a> {
    /// Masks what of a literal lies in `range`.
    fn mask(&mut self, inner: &'a [u8], token: &Token, range: &Range<usize>, category: &str) {
        let (range, with) = match token {
            Token::Number(number) => (number.clone(), format!("\\\"{}\\\"", mask(category))),
            Token::Name(string) | Token::Text(string) => {
                if self.string != *string {
                    self.string = string.clone();
                    self.borders = Borders {
                        text: inner.get(string.clone()).unwrap_or_default(),
                        at: 0,
                        last: 0,
                    };
                }
                let start = self.borders.before(range.start.saturating_sub(string.start));
                let end = self.borders.behind(range.end.min(string.end) - string.start);
                (string.start + start..string.start + end, mask(category).into_owned())
            }
        };
        match self.done.last_mut() {
            // Widened to whole escapes, it may touch the last one; a number has one mask.
            Some((last, _)) if range.start < last.end => last.end = last.end.max(range.end),
            Some(_) | None => self.done.push((range, with)),
        }
    }
}

fn span(token: &Token) -> &Range<usize> {
    match token {
        Token::Name(span) | Token::Text(span) | Token::Number(span) => span,
    }
}

/// Every string and number of the documents; `None` if it is not JSON to its end.
fn literals(inner: &[u8]) -> Option<Vec<Token>> {
    let mut scanner = Scanner::new(inner, DEEPEST);
    while scanner.peek().is_some() {
        scanner.value(0).ok()?;
    }
    let mut scanner = Scanner::new(inner, DEEPEST);
    let mut tokens = Vec::new();
    while let Some(token) = scanner.literal_ahead().ok()? {
        if !span(&token).is_empty() {
            tokens.push(token);
        }
    }
    Some(tokens)
}

/// Where the first character stands that is no white space.
fn leading(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(unit) = character(text, at).filter(|unit| unit.character().is_ascii_whitespace()) {
        at = unit.end;
    }
    at
}

/// Goes through a literal once, and tells places of what stands between its quotes from places of what its readers see, and
/// the other way round. Asked for ever later places.
struct Places<'a> {
    text: &'a [u8],
    raw: usize,
    decoded: usize,
}

impl<'a> Places<'a> {
    fn of(text: &'a [u8]) -> Self {
        Self {
            text,
            raw: 0,
            decoded: 0,
        }
    }

    /// The place in the text for one in the literal.
    fn decoded(&mut self, raw: usize) -> usize {
        self.go(|here| here.raw < raw);
        self.decoded
    }

    /// The place in the literal for one in the text.
    fn raw(&mut self, decoded: usize) -> usize {
        self.go(|here| here.decoded < decoded);
        self.raw
    }

    fn go(&mut self, more: impl Fn(&Self) -> bool) {
        while more(self) {
            let Some(next) = character(self.text, self.raw) else {
                return;
            };
            self.raw = next.end;
            self.decoded += next.character().len_utf8();
        }
    }
}
