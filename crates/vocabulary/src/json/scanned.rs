//! Evidence that bytes were read through once, so that nobody needs to do it again.

use bytes::Bytes;

use super::span::{Scanner, Span, SpanFault, decode_name, decode_string};

/// A JSON value whose bytes are UTF-8, well-formed, and as deep as it says. Only [`members_of`] makes one.
#[derive(Clone, Debug)]
pub struct Scanned {
    bytes: Bytes,
    depth: usize,
    /// Of an object: where its names (between the quotes) and values lie.
    members: Vec<(Span, Span)>,
}

/// How often an object names a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named<'a> {
    /// Not at all, or the value is no object.
    Never,
    /// Once: the raw value.
    Once(&'a [u8]),
    /// More often.
    Again,
}

impl Scanned {
    /// The bytes as they came.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The bytes as they came.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// How deep it is: a scalar is 1, `{"a":1}` is 2.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// A member by its name, in whatever spelling.
    #[must_use]
    pub fn member(&self, name: &str) -> Named<'_> {
        let mut found = Named::Never;
        for (key, value) in &self.members {
            let key = self.bytes.get(key.clone()).unwrap_or_default();
            let is = key == name.as_bytes() || (key.contains(&b'\\') && decode_string(key).as_deref() == Some(name));
            match (is, found) {
                (false, _) => {}
                (true, Named::Never) => found = Named::Once(self.bytes.get(value.clone()).unwrap_or_default()),
                (true, Named::Once(_) | Named::Again) => return Named::Again,
            }
        }
        found
    }
}

impl Scanned {
    /// Where the value of a member lies that is named once.
    #[must_use]
    pub fn span_of(&self, name: &str) -> Option<Span> {
        let Named::Once(value) = self.member(name) else {
            return None;
        };
        let is_it = |span: &Span| {
            self.bytes
                .get(span.clone())
                .is_some_and(|here| std::ptr::eq(here, value))
        };
        let (_, span) = self.members.iter().find(|(_, span)| is_it(span))?;
        Some(span.clone())
    }

    /// What stands before and behind the value of a member that is named once.
    #[must_use]
    pub fn around(&self, name: &str) -> Option<(&[u8], &[u8])> {
        let span = self.span_of(name)?;
        Some((self.bytes.get(..span.start)?, self.bytes.get(span.end..)?))
    }
}

/// Reads a document through once and gives the named members of its top object. Other members are
/// allowed; a wanted one that comes twice is not.
///
/// # Errors
/// When it is not one JSON object within `max_depth`, in UTF-8.
pub fn members_of<const N: usize>(
    document: &Bytes,
    max_depth: usize,
    wanted: [&str; N],
) -> Result<[Option<Scanned>; N], SpanFault> {
    std::str::from_utf8(document).map_err(|_| SpanFault::Grammar)?;
    let mut scanner = Scanner::new(document, max_depth);
    let mut found: [Option<Scanned>; N] = [const { None }; N];
    scanner.expect(b'{')?;
    let mut more = !scanner.take(b'}');
    while more {
        let key = scanner.key_span()?;
        let name = decode_name(document.get(key).unwrap_or_default()).ok_or(SpanFault::Grammar)?;
        match found.iter_mut().zip(wanted).find(|(_, wanted)| *wanted == name) {
            Some((place, _)) => {
                if place.replace(value(&mut scanner, document)?).is_some() {
                    return Err(SpanFault::DuplicateKey);
                }
            }
            None => {
                scanner.value(1)?;
            }
        }
        more = scanner.take(b',');
        if !more {
            scanner.expect(b'}')?;
        }
    }
    scanner.finish()?;
    Ok(found)
}

/// A member's value, one level down; of an object its own members too.
fn value(scanner: &mut Scanner<'_>, document: &Bytes) -> Result<Scanned, SpanFault> {
    scanner.measure_from(1);
    if scanner.peek() != Some(b'{') {
        let span = scanner.value(1)?;
        return Ok(Scanned {
            bytes: document.slice(span),
            depth: scanner.deepest() - 1,
            members: Vec::new(),
        });
    }
    scanner.enter(1)?;
    let start = scanner.position() - 1;
    let mut members = Vec::with_capacity(4);
    if !scanner.take(b'}') {
        loop {
            let key = scanner.key_span()?;
            let value = scanner.value(2)?;
            let here = |span: Span| span.start - start..span.end - start;
            members.push((here(key), here(value)));
            if !scanner.take(b',') {
                break;
            }
        }
        scanner.expect(b'}')?;
    }
    Ok(Scanned {
        bytes: document.slice(start..scanner.position()),
        depth: scanner.deepest() - 1,
        members,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_of(text: &str) -> Result<Scanned, SpanFault> {
        let [result] = members_of(&Bytes::copy_from_slice(text.as_bytes()), 9, ["result"])?;
        result.ok_or(SpanFault::Grammar)
    }

    #[test]
    fn a_member_is_the_exact_span_with_its_depth_and_members() {
        let result =
            result_of(r#"{"x":[[1]],"result": {"a":1e2, "b":[ {} ],"i\u0073Error":true} ,"y":1}"#).expect("read");
        assert_eq!(result.bytes().as_ref(), br#"{"a":1e2, "b":[ {} ],"i\u0073Error":true}"#);
        assert_eq!(result.depth(), 3);
        assert_eq!(result.member("a"), Named::Once(b"1e2"));
        assert_eq!(result.member("isError"), Named::Once(b"true"));
        assert_eq!(result.member("c"), Named::Never);
        assert_eq!(result.around("a").unwrap().0, br#"{"a":"#);
        assert_eq!(result.around("b").unwrap().1, br#","i\u0073Error":true}"#);
        assert_eq!(result.around("c"), None);
        assert_eq!(result.span_of("a"), Some(5..8));
    }

    #[test]
    fn depth_counts_as_everywhere() {
        for (value, depth) in [
            ("1", 1),
            ("{}", 1),
            ("[]", 1),
            (r#"{"a":1}"#, 2),
            (r#"{"a":{}}"#, 2),
            ("[[[1]]]", 4),
        ] {
            assert_eq!(
                result_of(&format!(r#"{{"result":{value}}}"#)).map(|result| result.depth()),
                Ok(depth),
                "{value}"
            );
        }
    }

    #[test]
    fn what_is_said_twice_is_told() {
        let result = result_of(r#"{"result":{"isError":true,"is\u0045rror":false}}"#).expect("read");
        assert_eq!(result.member("isError"), Named::Again);
        assert_eq!(
            result_of(r#"{"result":1,"re\u0073ult":2}"#).err(),
            Some(SpanFault::DuplicateKey)
        );
        for broken in [
            "",
            "[]",
            "{",
            r#"{"result":{"a":1}"#,
            r#"{"result":{"a"}}"#,
            "{\"result\":{\"a\":\"\u{1}\"}}",
        ] {
            assert!(result_of(broken).is_err(), "{broken}");
        }
        assert!(members_of(&Bytes::from_static(b"{\"a\":\"\xff\"}"), 9, ["a"]).is_err());
    }
}
