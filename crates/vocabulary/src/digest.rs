//! SHA-256 digests, spelled `sha256:<hex>` wherever people or records see them.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256, digest};
use data_encoding::HEXLOWER;

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_ring(digest(&SHA256, bytes))
    }

    /// The digest of several pieces laid end to end.
    #[must_use]
    pub fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut context = Context::new(&SHA256);
        for piece in pieces {
            context.update(piece);
        }
        Self::from_ring(context.finish())
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A digest that was computed before and stored as 32 bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads `sha256:<64 lower-case hex digits>`; anything else is `None`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64)?;
        let mut bytes = [0u8; 32];
        HEXLOWER.decode_mut(hex.as_bytes(), &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// Writes the 71 characters `sha256:…` without going through the formatter.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"sha256:");
        crate::id::write_hex(&self.0, out);
    }

    fn from_ring(digest: aws_lc_rs::digest::Digest) -> Self {
        let mut bytes = [0u8; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }
}

/// A digest in the making, for what is too large to be held at once.
pub struct Hasher(Context);

impl Default for Hasher {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Hasher {
    /// Takes the next piece in.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The digest of everything.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest::from_ring(self.0.finish())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", HEXLOWER.encode_display(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_string_has_the_known_digest_and_reads_back() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let mut written = Vec::new();
        Digest::of(b"").write_to(&mut written);
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(written, empty.as_bytes());
        assert_eq!(Digest::parse(empty), Some(Digest::of(b"")));
        assert_eq!(Digest::parse("sha256:00"), None);
        assert_eq!(Digest::parse(&empty.to_uppercase()), None);
        assert_eq!(Digest::parse(&empty.replace("e3b0", "E3B0")), None);
        assert_eq!(Digest::parse(&empty.replace("e3b0", "e3g0")), None);
        assert_eq!(Digest::parse(&format!("{empty}00")), None);
    }

    #[test]
    fn pieces_equal_the_whole() {
        assert_eq!(Digest::of_pieces([b"ab".as_slice(), b"c"]), Digest::of(b"abc"));
        let mut hasher = Hasher::default();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), Digest::of(b"abc"));
    }
}
