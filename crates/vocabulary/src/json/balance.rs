//! Depth and balance of raw bytes: one loop over a table, no tree, no recursion, and no check of the grammar between
//! strings and brackets. For bytes that are read through properly later, if at all.

use super::plain_length;
use super::span::{Span, decode_string};

/// Why bytes go no further.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unbalanced {
    /// Nested deeper than the limit.
    #[error("nested too deeply")]
    TooDeep,
    /// Not UTF-8, a bracket or a quote without its partner, nothing at all, or two documents.
    #[error("not one balanced document")]
    Malformed,
}

/// A string one level below the top: the name of a member, if a colon follows.
#[derive(Clone, Copy, Debug)]
pub struct TopString<'a> {
    inner: &'a [u8],
    rest: &'a [u8],
    spelling: Spelling,
}

/// Whether a string says what it looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spelling {
    Plain,
    Escaped,
}

impl<'a> TopString<'a> {
    /// The string at `place`, closing quote included, of which so many bytes are plain. Never part of the loop: most
    /// strings lie deeper, and the loop is a third slower with this in it.
    #[inline(never)]
    fn of(bytes: &'a [u8], place: Span, plain: usize) -> Self {
        let inner = bytes.get(place.start..place.end - 1).unwrap_or_default();
        Self {
            inner,
            rest: bytes.get(place.end..).unwrap_or_default(),
            spelling: match plain == inner.len() {
                true => Spelling::Plain,
                false => Spelling::Escaped,
            },
        }
    }

    /// Whether it says `word`, in whatever spelling.
    #[inline]
    #[must_use]
    pub fn is(&self, word: &str) -> bool {
        match self.spelling {
            Spelling::Plain => self.inner == word.as_bytes(),
            Spelling::Escaped => {
                self.inner.len() <= word.len() * LONGEST_ESCAPE && decode_string(self.inner).as_deref() == Some(word)
            }
        }
    }

    /// The bytes from the value on, if it is the name of a member.
    #[must_use]
    pub fn value(&self) -> Option<&'a [u8]> {
        Some(self.rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start())
    }
}

/// Goes once over `bytes` and shows every string one level below the top. Memory grows by one bit for each level of
/// depth, no more than `max_depth`.
///
/// # Errors
/// When the bytes are not balanced or nested too deeply, or when `top` says so.
#[inline]
pub fn balance<'a>(
    bytes: &'a [u8],
    max_depth: usize,
    mut top: impl FnMut(TopString<'a>) -> Result<(), Unbalanced>,
) -> Result<(), Unbalanced> {
    if std::str::from_utf8(bytes).is_err() {
        return Err(Unbalanced::Malformed);
    }
    let mut open = Brackets::default();
    let mut values = false;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        let class = CLASSES.get(usize::from(*byte)).copied().unwrap_or(Class::Scalar);
        if class == Class::Between {
            continue;
        }
        if let Class::Close(bracket) = class {
            open.close(bracket)?;
            continue;
        }
        // Whatever begins here stands one level below what is open around it.
        if open.depth >= max_depth {
            return Err(Unbalanced::TooDeep);
        }
        // Two documents one after the other are not a document.
        if open.depth == 0 && std::mem::replace(&mut values, true) && class != Class::Scalar {
            return Err(Unbalanced::Malformed);
        }
        match class {
            Class::Open(bracket) => open.open(bracket),
            Class::Quote => {
                let start = at;
                let plain = plain_length(bytes.get(start..).unwrap_or_default());
                at = match bytes.get(start + plain) {
                    Some(b'"') => start + plain + 1,
                    _ => end_of_string(bytes, start + plain)?,
                };
                if open.depth == 1 {
                    top(TopString::of(bytes, start..at, plain))?;
                }
            }
            Class::Scalar | Class::Between | Class::Close(_) => {}
        }
    }
    match open.depth == 0 && values {
        true => Ok(()),
        false => Err(Unbalanced::Malformed),
    }
}

/// What a byte means outside of strings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    /// White space, `,` and `:`.
    Between,
    /// A part of a number or a word, or nothing JSON knows.
    Scalar,
    Quote,
    Open(Bracket),
    Close(Bracket),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bracket {
    Square,
    Curly,
}

static CLASSES: [Class; 256] = classes();

#[expect(
    clippy::indexing_slicing,
    reason = "evaluated when compiling; each index is below 256"
)]
const fn classes() -> [Class; 256] {
    let mut table = [Class::Scalar; 256];
    table[b' ' as usize] = Class::Between;
    table[b'\t' as usize] = Class::Between;
    table[b'\n' as usize] = Class::Between;
    table[b'\r' as usize] = Class::Between;
    table[b',' as usize] = Class::Between;
    table[b':' as usize] = Class::Between;
    table[b'"' as usize] = Class::Quote;
    table[b'[' as usize] = Class::Open(Bracket::Square);
    table[b'{' as usize] = Class::Open(Bracket::Curly);
    table[b']' as usize] = Class::Close(Bracket::Square);
    table[b'}' as usize] = Class::Close(Bracket::Curly);
    table
}

/// The brackets that are open, one bit each.
#[derive(Default)]
struct Brackets {
    depth: usize,
    /// Full words below the top one.
    below: Vec<u64>,
    top: u64,
}

impl Brackets {
    fn open(&mut self, bracket: Bracket) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.below.push(self.top);
        }
        self.top = self.top << 1 | u64::from(bracket == Bracket::Curly);
        self.depth += 1;
    }

    fn close(&mut self, bracket: Bracket) -> Result<(), Unbalanced> {
        if self.depth == 0 || self.top & 1 != u64::from(bracket == Bracket::Curly) {
            return Err(Unbalanced::Malformed);
        }
        self.depth -= 1;
        self.top >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.top = self.below.pop().unwrap_or_default();
        }
        Ok(())
    }
}

/// The place behind the closing quote of a string, from its first byte at `at` that is not plain.
#[cold]
fn end_of_string(bytes: &[u8], mut at: usize) -> Result<usize, Unbalanced> {
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return Err(Unbalanced::Malformed),
        }
        at += plain_length(bytes.get(at..).unwrap_or_default());
    }
}

/// As in `\u0000`.
const LONGEST_ESCAPE: usize = 6;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn depth_fits(text: &str, max_depth: usize) -> Result<(), Unbalanced> {
        balance(text.as_bytes(), max_depth, |_| Ok(()))
    }

    #[test]
    fn brackets_and_quotes_have_their_partners() {
        for good in ["1", "\"a]\"", "{\"a\":[{}]}", " [\"\\\"[\"] "] {
            assert_eq!(depth_fits(good, 4), Ok(()), "{good}");
        }
        for bad in ["", " ", "[", "]", "[}", "{\"a\":1", "\"a", "\"a\\\"", "{}{}", "[] 1 []"] {
            assert_eq!(depth_fits(bad, 4), Err(Unbalanced::Malformed), "{bad}");
        }
        assert_eq!(balance(b"\"\xff\"", 4, |_| Ok(())), Err(Unbalanced::Malformed));
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(depth_fits(&deep, 200), Ok(()));
        assert_eq!(depth_fits(&deep, 199), Err(Unbalanced::TooDeep));
    }

    #[test]
    fn strings_below_the_top_are_shown_in_whatever_spelling() {
        let mut seen = Vec::new();
        let text = br#"{"a":{"b":1},"\u0062" : "c"}"#;
        let shown = balance(text, 9, |string| {
            seen.push((string.is("a"), string.is("b"), string.is("c"), string.value().is_some()));
            Ok(())
        });
        assert_eq!(shown, Ok(()));
        let expected = [
            (true, false, false, true),
            (false, true, false, true),
            (false, false, true, false),
        ];
        assert_eq!(seen, expected);
        let stopped = balance(text, 9, |_| Err(Unbalanced::TooDeep));
        assert_eq!(stopped, Err(Unbalanced::TooDeep));
    }

    proptest! {
        #[test]
        fn whatever_a_json_library_reads_is_balanced(text in "[\\[\\]{}:,\"\\\\a0-9 truefalsn]{0,24}") {
            if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
                prop_assert_eq!(depth_fits(&text, 30), Ok(()), "{}", text);
            }
        }
    }
}
