//! Cuts long text and says so: where to cut, what the cache is to keep, and the two notices. Structured content is
//! never cut.

mod page;

use std::borrow::Cow;
use std::ops::Range;

use super::edit::units::character;
use super::edit::{Edit, Piece, pieces};
use super::walk::Walked;

pub use page::{Index, Page, Unit, Wanted};

/// A text that is longer than the limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// What of the literal goes.
    pub gone: Range<usize>,
    /// How many bytes of the text are shown.
    pub shown: usize,
    /// The whole text after all other edits, decoded: what the cache keeps.
    pub whole: String,
    /// Where its pages lie.
    pub index: Index,
}

/// Where a literal must be cut so that its text, after `edits` (in order and apart), has no more than `limit` bytes.
/// Masks and characters stay whole, however they are spelled. `None` if it is short enough.
#[must_use]
pub fn cut(raw: &[u8], edits: &[Edit], limit: usize) -> Option<Cut> {
    let longest = edits.iter().fold(raw.len(), |length, edit| length + edit.with.len());
    // No spelling is shorter than what it stands for.
    if longest <= limit {
        return None;
    }
    let mut shown = None;
    let mut whole = String::with_capacity(longest);
    for piece in pieces(raw.len(), edits) {
        match piece {
            Piece::Kept(range) => {
                let text = raw.get(..range.end).unwrap_or_default();
                let mut at = range.start;
                while let Some(unit) = character(text, at) {
                    let before = whole.len();
                    whole.push(unit.character());
                    if shown.is_none() && whole.len() > limit {
                        shown = Some((at, before));
                    }
                    at = unit.end;
                }
            }
            Piece::Edited(edit) => {
                let before = whole.len();
                // INVARIANT: what edits put into a text before it is cut (masks) needs no escape; `redact` upholds it.
                whole.push_str(&edit.with);
                if shown.is_none() && whole.len() > limit {
                    shown = Some((edit.range.start, before));
                }
            }
        }
    }
    let (at, shown) = shown?;
    Some(Cut {
        gone: at..raw.len(),
        shown,
        index: Index::of(&whole),
        whole,
    })
}

impl Cut {
    /// The edits of the literal with the cut: what lies behind it is gone.
    #[must_use]
    pub fn shorten(&self, mut edits: Vec<Edit>) -> Vec<Edit> {
        edits.retain(|edit| edit.range.start < self.gone.start);
        edits.push(Edit::removal(self.gone.clone()));
        edits
    }

    /// What the notices say of it.
    #[must_use]
    pub fn notice<'a>(&self, key: &'a str, block: usize) -> Notice<'a> {
        Notice {
            key,
            block,
            shown: self.shown,
            bytes: self.whole.len(),
            unit: self.index.unit(),
            next: self.index.within(&self.whole, self.shown),
            total: self.index.total(),
        }
    }
}

/// What is told of a cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice<'a> {
    /// The key of the cache.
    pub key: &'a str,
    /// The index of the block, as the server counts.
    pub block: usize,
    /// Bytes shown.
    pub shown: usize,
    /// Bytes of the whole text.
    pub bytes: usize,
    /// What offsets count.
    pub unit: Unit,
    /// The offset to read on from.
    pub next: usize,
    /// Where the offsets end.
    pub total: usize,
}

impl Notice<'_> {
    /// The content block that follows the text, outside of its fence.
    #[must_use]
    pub fn text_block(&self) -> String {
        let (key, shown, bytes) = (json_string(self.key), self.shown, self.bytes);
        let (next, total, unit) = (self.next, self.total, self.unit.as_str());
        let text = format!(
            "[portreeve: output truncated, {shown} of {bytes} bytes shown. Read on with portreeve__read_cache: \
             key {key}, offset {next} of {total} {unit}.]"
        );
        format!(r#"{{"type":"text","text":{}}}"#, json_string(&text))
    }

    fn object(&self) -> String {
        let (key, block, shown, bytes) = (json_string(self.key), self.block, self.shown, self.bytes);
        let (next, total, unit) = (self.next, self.total, self.unit.as_str());
        format!(
            r#"{{"key":{key},"block":{block},"shown_bytes":{shown},"total_bytes":{bytes},"unit":"{unit}","next_offset":{next},"end_offset":{total}}}"#
        )
    }
}

/// The member of `_meta`: the first cut by itself, later ones of the same result under `more`.
#[must_use]
pub fn meta_member(notices: &[Notice<'_>]) -> Option<String> {
    let (first, more) = notices.split_first()?;
    let mut object = first.object();
    if !more.is_empty() {
        object.pop();
        let more: Vec<String> = more.iter().map(Notice::object).collect();
        object.push_str(&format!(r#","more":[{}]}}"#, more.join(",")));
    }
    Some(format!(r#""portreeve/truncated":{object}"#))
}

/// The edits that put the notices into a result: a block behind each text that was cut, and the member of `_meta`,
/// which is made where it is missing.
#[must_use]
pub fn notices(walked: &Walked, notices: &[Notice<'_>]) -> Vec<Edit> {
    let insertion = |at: usize, text: String| Edit {
        range: at..at,
        with: Cow::Owned(text),
    };
    let mut edits: Vec<Edit> = notices
        .iter()
        .filter_map(|notice| {
            let block = walked.blocks().get(notice.block)?;
            block
                .in_list
                .then(|| insertion(block.span.end, format!(",{}", notice.text_block())))
        })
        .collect();
    let (Some(member), Some(top)) = (meta_member(notices), walked.top()) else {
        return edits;
    };
    let comma = |follows: bool| if follows { "," } else { "" };
    if walked.metas().is_empty() {
        let text = format!(r#""_meta":{{{member}}}{}"#, comma(top.has_members));
        edits.push(insertion(top.open, text));
    }
    // Said twice, one reader takes the first and another the last.
    for meta in walked.metas() {
        edits.push(insertion(meta.open, format!("{member}{}", comma(meta.has_members))));
    }
    edits
}

/// A string of JSON.
fn json_string(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => literal.extend(['\\', letter]),
            '\0'..='\x1f' => literal.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => literal.push(letter),
        }
    }
    literal.push('"');
    literal
}

#[cfg(test)]
mod tests;
