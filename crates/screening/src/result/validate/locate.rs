//! Finds `structuredContent` in a guarded result, and how deep it is, in one pass without a tree. The
//! grammar inside values is not looked at: of the one that matters the tree does it.

use crate::result::STRUCTURED;
use vocabulary::json::plain_length;
use vocabulary::json::scanned::{Named, Scanned};
use vocabulary::json::span::{decode_name, decode_string};

/// What a result holds by that name.
pub(super) enum Structured<'a> {
    /// Nothing.
    Absent,
    /// Nothing, and the result says that it is not the last word (`input_required`, `task`).
    Unfinished,
    /// One value, `null` included; its raw bytes, and its depth (a scalar is 1), or what it does not exceed.
    Once { raw: &'a [u8], depth: usize },
    /// More than one: one reader takes the first and another the last.
    Twice,
    /// The result is not JSON.
    Unreadable,
}

/// Looks through the bytes of a whole result.
pub(super) fn in_bytes(bytes: &[u8]) -> Structured<'_> {
    let mut reader = Reader { bytes, at: 0 };
    let found = if reader.peek() == Some(b'{') {
        members(&mut reader)
    } else {
        reader.value().map(|_| Structured::Absent)
    };
    found
        .filter(|_| reader.peek().is_none())
        .unwrap_or(Structured::Unreadable)
}

/// Takes it from a result that was looked through before. For its depth it is read again only where the whole is
/// deeper than `max_depth` allows a member to be.
pub(super) fn in_scanned(scanned: &Scanned, max_depth: usize) -> Structured<'_> {
    match scanned.member(STRUCTURED) {
        Named::Never => match scanned.member(TYPE) {
            Named::Once(raw) if is_unfinished(raw) => Structured::Unfinished,
            Named::Once(_) | Named::Never | Named::Again => Structured::Absent,
        },
        Named::Again => Structured::Twice,
        Named::Once(raw) if scanned.depth() <= max_depth => Structured::Once {
            raw,
            depth: scanned.depth(),
        },
        Named::Once(raw) => match (Reader { bytes: raw, at: 0 }).value() {
            Some((raw, depth)) => Structured::Once { raw, depth },
            None => Structured::Unreadable,
        },
    }
}

fn members<'a>(reader: &mut Reader<'a>) -> Option<Structured<'a>> {
    let mut found = Structured::Absent;
    reader.take(b'{')?;
    if reader.take(b'}').is_some() {
        return Some(found);
    }
    loop {
        let name = reader.name()?;
        let (raw, depth) = reader.value()?;
        let name = decode_name(name)?;
        found = match (name.as_ref(), found) {
            (STRUCTURED, Structured::Absent | Structured::Unfinished) => Structured::Once { raw, depth },
            (STRUCTURED, _) => Structured::Twice,
            (TYPE, Structured::Absent) if is_unfinished(raw) => Structured::Unfinished,
            (_, found) => found,
        };
        if reader.take(b',').is_none() {
            return reader.take(b'}').map(|()| found);
        }
    }
}

/// Whether `resultType` names a result that comes before the real one.
fn is_unfinished(raw: &[u8]) -> bool {
    let inner = raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\""));
    inner
        .and_then(decode_string)
        .is_some_and(|said| matches!(said.as_ref(), "input_required" | "task"))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next byte that is no white space, without taking it.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// Takes a member name and its colon; gives what stands between the quotes.
    fn name(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let start = self.at;
        self.end_string()?;
        let name = self.bytes.get(start..self.at - 1)?;
        self.take(b':').map(|()| name)
    }

    /// Takes one value and counts its depth.
    fn value(&mut self) -> Option<(&'a [u8], usize)> {
        let first = self.peek()?;
        let start = self.at;
        let depth = match first {
            b'{' | b'[' => self.end_container()?,
            b'"' => {
                self.at += 1;
                self.end_string()?;
                1
            }
            b',' | b':' | b'}' | b']' => return None,
            _ => {
                self.end_scalar();
                1
            }
        };
        Some((self.bytes.get(start..self.at)?, depth))
    }

    fn end_container(&mut self) -> Option<usize> {
        let (mut open, mut deepest) = (0_usize, 0);
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => {}
                b'{' | b'[' => {
                    open += 1;
                    deepest = deepest.max(open);
                }
                b'}' | b']' => {
                    open -= 1;
                    if open == 0 {
                        return Some(deepest);
                    }
                }
                b'"' => {
                    deepest = deepest.max(open + 1);
                    self.end_string()?;
                }
                _ => {
                    deepest = deepest.max(open + 1);
                    self.end_scalar();
                }
            }
        }
    }

    /// Goes behind the closing quote of a string whose opening one was taken.
    fn end_string(&mut self) -> Option<()> {
        loop {
            self.at += plain_length(self.bytes.get(self.at..)?);
            match self.bytes.get(self.at)? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }

    fn end_scalar(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at += rest
            .iter()
            .take_while(|byte| {
                !matches!(
                    byte,
                    b',' | b':' | b'}' | b']' | b'{' | b'[' | b'"' | b' ' | b'\n' | b'\r' | b'\t'
                )
            })
            .count();
    }
}

const TYPE: &str = "resultType";
