//! Pairs of a name and a value, as lists of settings are written: `{"name": "X", "value": "…"}`.

use std::borrow::Cow;

use vocabulary::json::span::decode_name;

use super::{LiteralKind, Walked};

impl Walked {
    /// What a string or a number of `raw` is spoken of by: the name of its member, or, of the value of a pair, what the pair
    /// calls it.
    #[must_use]
    pub fn spoken_of<'a>(&self, raw: &'a [u8], index: usize) -> Option<Cow<'a, str>> {
        let name = self.literals().get(index)?.name(raw)?;
        let pair = name.eq_ignore_ascii_case("value").then(|| self.name_beside(raw, index));
        Some(pair.flatten().unwrap_or(name))
    }

    /// The string that stands beside a `value` in the same object as its `name` or `key`.
    fn name_beside<'a>(&self, raw: &'a [u8], index: usize) -> Option<Cow<'a, str>> {
        let value = self.literals().get(index)?;
        // The name of the nearer of the two lies between them.
        let near = [index.checked_sub(2), Some(index + 2)];
        near.into_iter().flatten().find_map(|near| {
            let other = self.literals().get(near)?;
            let (one, two) = if near < index { (other, value) } else { (value, other) };
            let between = raw.get(one.span().end..two.span().start)?;
            let beside = between.len() <= PAIR && !between.iter().any(|byte| matches!(byte, b'{' | b'}' | b'[' | b']'));
            let says = |name: Cow<'_, str>| ["name", "key"].iter().any(|word| name.eq_ignore_ascii_case(word));
            if other.kind() != LiteralKind::Text || !beside || !other.name(raw).is_some_and(says) {
                return None;
            }
            decode_name(raw.get(other.span())?)
        })
    }
}

/// What may stand between the two strings of a pair.
const PAIR: usize = 128;
