//! A JSON document as a tree that borrows from its bytes: number spellings kept, duplicate member
//! names and lone surrogates refused, depth and sizes bounded while reading.
//! ADR 0001 says why it lives here.

pub mod balance;
mod read;
pub mod scanned;
pub mod span;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use read::plain_length;

/// A JSON value that borrows from the bytes it was read from.
#[derive(Clone, PartialEq, Debug)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, spelled as in the document.
    Number(&'a str),
    /// A string, escapes decoded.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Value<'a>>),
    /// An object; names are unique, the order is the document's.
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// Reads one JSON document (RFC 8259, nothing more) within `limits`.
    ///
    /// Reading is iterative, so depth costs no stack; what walks the tree later may recurse, since no
    /// tree is deeper than [`Limits::DEEPEST`].
    ///
    /// # Errors
    /// The first fault met, without a word of the document in it.
    pub fn parse(bytes: &'a [u8], limits: &Limits) -> Result<Value<'a>, Fault> {
        if bytes.len() > limits.max_bytes {
            return Err(Fault::TooLarge);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Fault::NotUtf8)?;
        read::document(text, limits)
    }

    /// The member `name` of an object; `None` for anything else.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Value<'a>> {
        match self {
            Self::Object(members) => members.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Array(_) => None,
        }
    }

    /// The text of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }
}

/// How much of a document is read before it is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of the whole document.
    pub max_bytes: usize,
    /// Nesting: a scalar is 1, `{"a":1}` is 2. Never more than [`Limits::DEEPEST`].
    pub max_depth: usize,
    /// Bytes of any one string or member name, escapes decoded.
    pub max_string: usize,
    /// Array elements and object members of the whole document, counted together.
    pub max_items: usize,
}

impl Limits {
    /// The depth no tree exceeds, whatever `max_depth` says: trees are dropped, written and
    /// validated by recursion, and that must fit an ordinary thread's stack.
    pub const DEEPEST: usize = 512;
}

/// Why a document was not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// It is not JSON.
    #[error("not well-formed JSON")]
    Malformed,
    /// It is not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// It has more than `max_bytes` bytes.
    #[error("too many bytes")]
    TooLarge,
    /// It is nested deeper than `max_depth`.
    #[error("nested too deep")]
    TooDeep,
    /// A string or a member name has more than `max_string` bytes.
    #[error("a string is too long")]
    StringTooLong,
    /// It has more than `max_items` elements and members.
    #[error("too many items")]
    TooManyItems,
    /// An object names a member twice, however it is spelled.
    #[error("an object names a member twice")]
    DuplicateKey,
    /// An escape names half a surrogate pair.
    #[error("a string holds half a surrogate pair")]
    LoneSurrogate,
    /// A number is beyond what any receiver can hold (`1e400`), or its exponent has over nine digits.
    #[error("a number is out of range")]
    NumberOutOfRange,
}
