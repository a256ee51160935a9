//! Masks what was found: `[REDACTED:<category>]` over the very bytes of the literal, or a refusal where that cannot be
//! done. Nothing that was found ever stays in clear.

mod inner;

use std::borrow::Cow;
use std::ops::Range;

use super::edit::Edit;
use super::edit::units::character;
use super::walk::{Editable, Walked};

/// Something that was found: one secret, perhaps in pieces over several literals.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hit<'a> {
    /// The literal (its index in [`Walked::literals`]) and the range within what stands between its quotes.
    pub parts: Vec<(usize, Range<usize>)>,
    /// What the mask calls it.
    pub category: &'a str,
}

/// Why a result cannot be redacted, so that it is withheld.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// Something was found where nothing may be edited: a name, a number, a picture, an embedded resource.
    #[error("redaction_not_possible")]
    NotPossible {
        /// The index of the literal.
        literal: usize,
    },
    /// More masks than the operator allows.
    #[error("redaction_limit")]
    Limit,
}

/// The masks of one literal, in order and apart from each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Masked {
    /// Its index.
    pub literal: usize,
    /// The masks; ranges are offsets into the literal.
    pub masks: Vec<Edit>,
}

impl Masked {
    /// Where they stand, for [`strip`](super::strip::strip).
    #[must_use]
    pub fn ranges(&self) -> Vec<Range<usize>> {
        self.masks.iter().map(|mask| mask.range.clone()).collect()
    }
}

/// All masks of a message.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Redaction {
    /// By literal, in the order of the message.
    pub masked: Vec<Masked>,
    /// How many there are.
    pub masks: usize,
}

/// Masks every hit in `raw`, the message that was walked. What overlaps gets one mask, with the category that begins first.
///
/// # Errors
/// When a hit lies where nothing may be edited, or there are more than `max_redactions` masks.
pub fn redact(raw: &[u8], walked: &Walked, hits: &[Hit<'_>], max_redactions: usize) -> Result<Redaction, Refusal> {
    let mut parts: Vec<Part<'_>> = Vec::with_capacity(hits.len());
    for hit in hits {
        for (literal, range) in &hit.parts {
            parts.push(Part {
                literal: *literal,
                range: range.clone(),
                category: hit.category,
            });
        }
    }
    parts.sort_by_key(|part| (part.literal, part.range.start, std::cmp::Reverse(part.range.end)));
    let mut redaction = Redaction::default();
    for parts in parts.chunk_by(|one, other| one.literal == other.literal) {
        let literal = parts.first().map_or(0, |part| part.literal);
        let not_possible = Refusal::NotPossible { literal };
        let found = walked.literals().get(literal).ok_or(not_possible)?;
        if walked.editable(found) == Editable::No {
            return Err(not_possible);
        }
        let text = raw.get(found.span()).ok_or(not_possible)?;
        let masks = masks(text, parts).ok_or(not_possible)?;
        redaction.masks += masks.len();
        redaction.masked.push(Masked { literal, masks });
    }
    if redaction.masks > max_redactions {
        return Err(Refusal::Limit);
    }
    Ok(redaction)
}

struct Part<'a> {
    literal: usize,
    range: Range<usize>,
    category: &'a str,
}

/// The masks of one literal; `None` for a part that is not within it.
fn masks(text: &[u8], parts: &[Part<'_>]) -> Option<Vec<Edit>> {
    let mut borders = Borders { text, at: 0, last: 0 };
    let mut masks: Vec<(Range<usize>, &str)> = Vec::with_capacity(parts.len());
    for part in parts {
        if part.range.is_empty() || part.range.end > text.len() {
            return None;
        }
        match masks.last_mut() {
            Some((range, _)) if part.range.start < range.end => range.end = range.end.max(part.range.end),
            Some(_) | None => masks.push((part.range.clone(), part.category)),
        }
        // Widened at once: what lies in the same escape as the last mask's end belongs to it.
        if let Some((range, _)) = masks.last_mut() {
            range.start = borders.before(range.start);
            range.end = borders.behind(range.end);
        }
    }
    if let Some(edits) = inner::masks(text, &masks) {
        return Some(edits);
    }
    let edits = masks.into_iter().map(|(range, category)| Edit {
        range,
        with: mask(category),
    });
    Some(edits.collect())
}

/// Categories of operators may hold anything; a mask is plain ASCII and needs no escape.
fn mask(category: &str) -> Cow<'static, str> {
    let plain = |letter: char| {
        let fits = letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
        if fits { letter } else { '_' }
    };
    let category: String = category.chars().map(plain).collect();
    Cow::Owned(format!("[REDACTED:{category}]"))
}

/// Where the characters of a literal begin and end; asked for ever later places, it goes through once.
#[derive(Default)]
struct Borders<'a> {
    text: &'a [u8],
    /// Where the next one begins.
    at: usize,
    /// Where the one before it began.
    last: usize,
}

impl Borders<'_> {
    /// The last border at or before `place`.
    fn before(&mut self, place: usize) -> usize {
        self.go(place);
        if self.at <= place {
            self.at
        } else {
            self.last.min(place)
        }
    }

    /// The first border at or behind `place`.
    fn behind(&mut self, place: usize) -> usize {
        self.go(place);
        self.at.max(place)
    }

    fn go(&mut self, place: usize) {
        while self.at < place {
            let Some(next) = character(self.text, self.at) else {
                return;
            };
            self.last = self.at;
            self.at = next.end;
        }
    }
}

#[cfg(test)]
mod tests;
