//! Whether what is about to leave holds the credential that a client showed, as it is or encoded.
//!
//! Everything that can be worked out beforehand is, once per credential: its spellings, and a sample of the eight-byte pieces
//! of each. What leaves is then walked through once; only a piece that is in the sample is compared with a spelling.
//! ADR 0130: how the caller's credential is looked for.

mod decode;
mod sample;
mod spelling;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use vocabulary::Secret;

use self::decode::decoded;
use self::sample::Sample;
use self::spelling::spellings;

/// What must not leave, of one inbound credential. Says whether it is somewhere, and nothing else of itself:
///
/// ```compile_fail,E0616
/// use portreeve_screening::passthrough::Needles;
/// let needles = Needles::of(&vocabulary::Secret::new("a client's own credential".to_owned()));
/// let stolen = needles.pieces;
/// ```
///
/// ```
/// use portreeve_screening::passthrough::Needles;
/// let needles = Needles::of(&vocabulary::Secret::new("a client's own credential".to_owned()));
/// assert!(needles.are_in(b"here is a client's own credential"));
/// assert_eq!(format!("{needles:?}"), "Needles");
/// ```
pub struct Needles {
    pieces: Sample,
    whole: Sample,
}

/// So many bytes of a credential in a row are part of it, and of nothing else.
const PIECE: usize = 16;
/// How many times over what leaves may be escaped.
const MOST_LAYERS: usize = 4;

impl Needles {
    /// Of a credential that a client showed.
    #[must_use]
    pub fn of(credential: &Secret) -> Self {
        let text = credential.expose();
        Self {
            pieces: Sample::of(spellings(text.as_bytes(), PIECE)),
            whole: Sample::of(spellings(secret_part(text).as_bytes(), usize::MAX)),
        }
    }

    /// Where nothing was shown that could be passed on: a certificate, whose key stays with its owner, or nobody at all.
    #[must_use]
    pub fn none() -> Self {
        Self {
            pieces: Sample::of(Vec::new()),
            whole: Sample::of(Vec::new()),
        }
    }

    /// About how many bytes they take.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.pieces.weight() + self.whole.weight()
    }

    /// Whether sixteen bytes of the credential in a row are in what is about to leave.
    #[must_use]
    pub fn are_in(&self, leaving: &[u8]) -> bool {
        is_in(&self.pieces, leaving)
    }

    /// Whether a server's own credential, or what its process was started with, is or holds the inbound one. Two honest tokens of
    /// one issuer share their headers and the names of their claims: what counts is the signature of a JWT, or the whole of
    /// anything else.
    #[must_use]
    pub fn are_in_credential(&self, credential: &[u8]) -> bool {
        is_in(&self.whole, credential)
    }
}

impl fmt::Debug for Needles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Needles")
    }
}

fn is_in(sample: &Sample, leaving: &[u8]) -> bool {
    let mut layer = Cow::Borrowed(leaving);
    for _ in 0..=MOST_LAYERS {
        if sample.is_in(&layer) {
            return true;
        }
        match decoded(&layer) {
            Some(below) => layer = Cow::Owned(below),
            None => return false,
        }
    }
    false
}

/// The part of a credential that nobody but its maker can know.
fn secret_part(text: &str) -> &str {
    let mut segments = text.split('.');
    match (segments.next(), segments.next(), segments.next(), segments.next()) {
        (Some(header), Some(_), Some(signature), None) if header.starts_with("eyJ") && !signature.is_empty() => {
            signature
        }
        _ => text,
    }
}
