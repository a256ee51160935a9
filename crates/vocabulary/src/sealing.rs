//! A key that keeps what must not lie open on a disk: what it closed for one purpose opens for that purpose alone, and only as it
//! was closed.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;
use zeroize::Zeroizing;

/// A sealing key. It has no `Debug` and cannot be had back.
pub struct SealingKey(RandomizedNonceKey);

/// The bytes of a key, for whoever keeps it.
pub type SealingKeyBytes = Zeroizing<[u8; 32]>;

impl SealingKey {
    /// Bytes for a new key.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn draw() -> Result<SealingKeyBytes, Unspecified> {
        let mut bytes = Zeroizing::new([0u8; 32]);
        aws_lc_rs::rand::fill(bytes.as_mut_slice())?;
        Ok(bytes)
    }

    /// The key of these bytes.
    ///
    /// # Errors
    /// When the library refuses them; no 32 bytes are known that it does.
    pub fn of(bytes: &SealingKeyBytes) -> Result<Self, Unspecified> {
        RandomizedNonceKey::new(&AES_256_GCM, bytes.as_slice()).map(Self)
    }

    /// Seals `content` for the purpose that is named.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn close(&self, purpose: &str, content: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let mut sealed = content.to_vec();
        let nonce = self
            .0
            .seal_in_place_append_tag(Aad::from(purpose.as_bytes()), &mut sealed)?;
        Ok([nonce.as_ref().as_slice(), &sealed].concat())
    }

    /// What was sealed for this purpose; `None` for anything else.
    #[must_use]
    pub fn open(&self, purpose: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = self
            .0
            .open_in_place(nonce, Aad::from(purpose.as_bytes()), &mut sealed)
            .ok()?;
        Some(opened.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_for_its_purpose_and_under_its_key_alone() {
        let bytes = SealingKey::draw().expect("randomness");
        let key = SealingKey::of(&bytes).expect("a key");
        let sealed = key.close("apr_1", b"{\"path\":\"/a\"}").expect("sealed");
        assert!(!sealed.windows(4).any(|window| window == b"path"));
        let again = SealingKey::of(&bytes).expect("the same key");
        assert_eq!(
            again.open("apr_1", &sealed).as_deref(),
            Some(b"{\"path\":\"/a\"}".as_slice())
        );
        assert_eq!(key.open("apr_2", &sealed), None);
        let other = SealingKey::of(&SealingKey::draw().expect("randomness")).expect("a key");
        assert_eq!(other.open("apr_1", &sealed), None);
        for place in 0..sealed.len() {
            let mut bent = sealed.clone();
            bent[place] ^= 1;
            assert_eq!(key.open("apr_1", &bent), None, "byte {place}");
        }
        assert_eq!(key.open("apr_1", b"short"), None);
        assert_ne!(
            key.close("apr_1", b"x"),
            key.close("apr_1", b"x"),
            "a fresh nonce each time"
        );
    }
}
