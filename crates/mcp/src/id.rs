//! Request ids, kept in the spelling they came in: `1` is not `"1"`, and 2^63 and 1.5 occur.

use bytes::Bytes;

/// The longest id we carry around.
pub const LONGEST_ID: usize = 1024;

/// A client's request id as raw JSON: a string or a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestId(Bytes);

impl RequestId {
    /// Takes the raw JSON of an id; `None` if it is neither string nor number, or too long.
    #[must_use]
    pub fn from_raw(raw: Bytes) -> Option<Self> {
        let fits = raw.len() <= LONGEST_ID && matches!(raw.first(), Some(b'"' | b'-' | b'0'..=b'9'));
        fits.then_some(Self(raw))
    }

    /// The raw JSON.
    #[must_use]
    pub fn as_raw(&self) -> &[u8] {
        &self.0
    }
}
