//! The members of one raw JSON object, found in one pass. Refuses an object that names a member
//! twice, in whatever spelling: two readers could take different ones.

use std::borrow::Cow;

use crate::span::{Scanner, Span, SpanFault, decode_name};

/// The members of an object, in the order they stand in.
#[derive(Debug)]
pub struct Members<'a> {
    bytes: &'a [u8],
    list: Vec<Member<'a>>,
    inside: Span,
}

/// One member of an object.
#[derive(Debug)]
pub struct Member<'a> {
    /// The name after unescaping.
    pub name: Cow<'a, str>,
    /// Where the value lies.
    pub value: Span,
    /// All that stands between the commas (or braces) around the member.
    pub(crate) segment: Span,
}

impl<'a> Members<'a> {
    /// Reads a document that is one object, nested at most `max_depth` deep.
    ///
    /// # Errors
    /// When it is something else, or names a member twice.
    pub fn read(bytes: &'a [u8], max_depth: usize) -> Result<Self, SpanFault> {
        let mut scanner = Scanner::new(bytes, max_depth);
        let members = Self::scan(&mut scanner, bytes, 1, |_, _| Ok(None))?;
        scanner.finish().map(|()| members)
    }

    /// Takes an object whose members lie `level` deep. `descend` may take a member's value itself
    /// and then says where it lies.
    pub(crate) fn scan(
        scanner: &mut Scanner<'a>,
        bytes: &'a [u8],
        level: usize,
        mut descend: impl FnMut(&mut Scanner<'a>, &str) -> Result<Option<Span>, SpanFault>,
    ) -> Result<Self, SpanFault> {
        scanner.expect(b'{')?;
        let start = scanner.position();
        let mut list = Vec::with_capacity(8);
        let mut from = start;
        let mut more = !scanner.take(b'}');
        while more {
            let key = scanner.key_span()?;
            let name = decode_name(bytes.get(key).unwrap_or_default()).ok_or(SpanFault::Grammar)?;
            let value = match descend(scanner, &name)? {
                Some(span) => span,
                None => scanner.value(level)?,
            };
            more = scanner.take(b',');
            if !more {
                scanner.expect(b'}')?;
            }
            let to = scanner.position() - 1;
            let segment = from..to;
            list.push(Member { name, value, segment });
            from = to + 1;
        }
        if names_one_twice(&list) {
            return Err(SpanFault::DuplicateKey);
        }
        let inside = start..scanner.position() - 1;
        Ok(Self { bytes, list, inside })
    }

    /// The raw value of a member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        let member = self.list.iter().find(|member| member.name == name)?;
        self.bytes.get(member.value.clone())
    }

    /// The members, as they stand in the object.
    pub fn iter(&self) -> std::slice::Iter<'_, Member<'a>> {
        self.list.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What stands between the braces.
    pub(crate) fn inside(&self) -> Span {
        self.inside.clone()
    }
}

/// Sorts instead of comparing each with each: a hostile object may have a million members.
fn names_one_twice(list: &[Member<'_>]) -> bool {
    let mut names: Vec<&str> = list.iter().map(|member| member.name.as_ref()).collect();
    names.sort_unstable();
    names
        .windows(2)
        .any(|pair| matches!(pair, [one, other] if one == other))
}

/// Whether a raw value is an object.
pub(crate) fn is_object(raw: &[u8]) -> bool {
    raw.trim_ascii_start().starts_with(b"{")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_their_unescaped_names() {
        let members = Members::read(br#" { "n\u0061me" : [1, 2] , "b":{} } "#, 9).expect("an object");
        assert_eq!(members.get("name"), Some(b"[1, 2]".as_slice()));
        assert_eq!(members.get("b"), Some(b"{}".as_slice()));
        assert_eq!((members.get("c"), members.len(), members.is_empty()), (None, 2, false));
        assert!(Members::read(b"{ }", 9).expect("an object").is_empty());
    }

    #[test]
    fn what_two_readers_could_read_in_two_ways_is_refused() {
        for (text, fault) in [
            (r#"{"a":1,"a":1}"#, SpanFault::DuplicateKey),
            (r#"{"a":1,"b":2,"\u0061":1}"#, SpanFault::DuplicateKey),
            (r#"{"a":1,}"#, SpanFault::Grammar),
            (r#"{"a":1} {}"#, SpanFault::Grammar),
            ("[]", SpanFault::Grammar),
            ("", SpanFault::Grammar),
            (r#"{"a":[[[]]]}"#, SpanFault::TooDeep),
        ] {
            assert_eq!(Members::read(text.as_bytes(), 3).err(), Some(fault), "{text}");
        }
    }

    #[test]
    fn a_million_members_take_no_quadratic_time() {
        let many: Vec<String> = (0..200_000).map(|n| format!("\"{n}\":0")).collect();
        let text = format!("{{{}}}", many.join(","));
        assert_eq!(Members::read(text.as_bytes(), 3).map(|m| m.len()), Ok(200_000));
    }
}
