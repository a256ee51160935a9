//! Fences untrusted text, so that its reader knows where it comes from, where it begins and where it ends. Nothing is
//! lost: the marks inside are written as entities, and `&` too, so that all of it can be undone.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::edit::units::character;
use super::edit::{Edit, MOST_EDITS, Piece, pieces, sort};

/// The name on a fence: `server/tool`, nothing in it that could end the mark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark(String);

impl Mark {
    /// Of a tool's result.
    #[must_use]
    pub fn tool(server: &str, tool: &str) -> Self {
        Self::named(server, tool, |byte| is_plain(byte) && byte != b'~')
    }

    /// Of a prompt's messages.
    #[must_use]
    pub fn prompt(server: &str, prompt: &str) -> Self {
        Self::named(server, prompt, is_plain)
    }

    /// Of a resource.
    #[must_use]
    pub fn resource(server: &str, uri: &str) -> Self {
        Self::named(server, uri, is_plain)
    }

    fn named(server: &str, name: &str, stays: fn(u8) -> bool) -> Self {
        let mut mark = String::with_capacity(server.len() + name.len() + 1);
        encode(&mut mark, server, stays);
        mark.push('/');
        encode(&mut mark, name, stays);
        Self(mark)
    }

    /// The opening line and the closing line, as they stand in the text.
    #[must_use]
    pub fn lines(&self) -> (String, String) {
        let Self(name) = self;
        (format!("«untrusted:{name}»"), format!("«/untrusted:{name}»"))
    }
}

/// Puts the fence around a literal, on top of what its `edits` (in order and apart) leave of it. A text of which
/// nothing is left gets none.
#[must_use]
pub fn fence(raw: &[u8], mut edits: Vec<Edit>, mark: &Mark) -> Vec<Edit> {
    let mut empty = true;
    let mut entities = Vec::new();
    for piece in pieces(raw.len(), &edits) {
        match piece {
            Piece::Kept(range) => {
                empty = false;
                mark_entities(raw.get(..range.end).unwrap_or_default(), range.start, &mut entities);
            }
            // A mask is ours and holds no mark.
            Piece::Edited(edit) => empty &= edit.with.is_empty(),
        }
    }
    if empty {
        return edits;
    }
    let (open, close) = mark.lines();
    let insertion = |at: usize, text: String| Edit {
        range: at..at,
        with: Cow::Owned(text),
    };
    edits.append(&mut entities);
    edits.push(insertion(0, format!("{open}\\n")));
    edits.push(insertion(raw.len(), format!("\\n{close}")));
    sort(&mut edits);
    edits
}

/// Entities for what marks are made of, however it is spelled, from `at` to the end.
fn mark_entities(raw: &[u8], mut at: usize, entities: &mut Vec<Edit>) {
    // More are never put in, so they need not be found.
    while entities.len() <= MOST_EDITS {
        at = next_of_interest(raw, at);
        let Some(unit) = character(raw, at) else { return };
        let entity = match unit.character() {
            '&' => Some("&amp;"),
            '«' => Some("&laquo;"),
            '»' => Some("&raquo;"),
            _ => None,
        };
        if let Some(entity) = entity {
            entities.push(Edit {
                range: at..unit.end,
                with: Cow::Borrowed(entity),
            });
        }
        at = unit.end;
    }
}

/// The next place that could be a mark or an ampersand: a backslash, `&`, or the byte that both marks begin with.
fn next_of_interest(raw: &[u8], at: usize) -> usize {
    let interests = |byte: &u8| matches!(byte, b'\\' | b'&' | 0xC2);
    let mut length = 0;
    // The inner fold has no way out, so the compiler makes it wide.
    for chunk in raw.get(at..).unwrap_or_default().chunks(32) {
        if chunk.iter().fold(false, |found, byte| found | interests(byte)) {
            return at + length + chunk.iter().position(interests).unwrap_or(chunk.len());
        }
        length += chunk.len();
    }
    at + length
}

/// Unreserved characters of URIs.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn encode(mark: &mut String, name: &str, stays: fn(u8) -> bool) {
    for byte in name.bytes() {
        if stays(byte) {
            mark.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(mark, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests;
