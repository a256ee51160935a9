//! Values that must not be seen: never displayed, blank in debug output, zeroed when dropped.

use std::fmt;

use aws_lc_rs::hmac;
use zeroize::Zeroizing;

/// A secret text. It can be read only through [`Secret::expose`].
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a text into keeping.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text itself. Every call of this is a place to review.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// HMAC-SHA256 of some bytes under this secret, in hex.
    #[must_use]
    pub fn hmac_sha256(&self, bytes: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes());
        let mut hex = Vec::with_capacity(64);
        crate::id::write_hex(hmac::sign(&key, bytes).as_ref(), &mut hex);
        String::from_utf8(hex).unwrap_or_default()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A secret has no `Display`:
///
/// ```compile_fail,E0277
/// let secret = portreeve_vocabulary::Secret::new("hunter2".to_owned());
/// println!("{secret}");
/// ```
///
/// while its debug form is blank:
///
/// ```
/// let secret = portreeve_vocabulary::Secret::new("hunter2".to_owned());
/// assert_eq!(format!("{secret:?}"), "Secret");
/// ```
#[cfg(doctest)]
struct NoDisplay;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hmac_is_that_of_rfc_4231() {
        let secret = Secret::new("Jefe".to_owned());
        assert_eq!(
            secret.hmac_sha256(b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
