//! Seals what a client carries for us between two requests: it cannot read it, change it, or use
//! it for another request, by another principal, or too late.

use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;
use data_encoding::HEXLOWER;
use vocabulary::Digest;

/// The key of this process; what it sealed ends with it.
pub(crate) struct Seal {
    key: RandomizedNonceKey,
    began: Instant,
}

impl Seal {
    pub(crate) fn new() -> Result<Self, Unspecified> {
        let mut key = [0u8; 32];
        aws_lc_rs::rand::fill(&mut key)?;
        Ok(Self {
            key: RandomizedNonceKey::new(&AES_256_GCM, &key)?,
            began: Instant::now(),
        })
    }

    /// Seals `content` for the purpose that `binding` is the digest of, in visible ASCII; it can be
    /// opened for so long.
    pub(crate) fn close(&self, binding: &Digest, content: &[u8], lifetime: Duration) -> Option<String> {
        let expires = (self.began.elapsed() + lifetime).as_secs().to_be_bytes();
        let mut sealed = [expires.as_slice(), content].concat();
        let nonce = self
            .key
            .seal_in_place_append_tag(Aad::from(binding.as_bytes()), &mut sealed)
            .ok()?;
        let whole = [nonce.as_ref().as_slice(), &sealed].concat();
        Some(HEXLOWER.encode(&whole))
    }

    /// What was sealed for this purpose; `None` for anything else.
    pub(crate) fn open(&self, binding: &Digest, sealed: &str) -> Option<Vec<u8>> {
        let whole = HEXLOWER.decode(sealed.as_bytes()).ok()?;
        let (nonce, sealed) = whole.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = self
            .key
            .open_in_place(nonce, Aad::from(binding.as_bytes()), &mut sealed)
            .ok()?;
        let (expires, content) = opened.split_first_chunk::<8>()?;
        (u64::from_be_bytes(*expires) > self.began.elapsed().as_secs()).then(|| content.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_seal_opens_for_its_purpose_alone() {
        let seal = Seal::new().expect("randomness");
        let (mine, other) = (Digest::of(b"mine"), Digest::of(b"other"));
        let closed = seal.close(&mine, b"state", LONG).expect("sealed");
        assert_eq!(seal.open(&mine, &closed).as_deref(), Some(b"state".as_slice()));
        assert_eq!(seal.open(&other, &closed), None);
        assert_eq!(seal.open(&mine, &format!("{closed}-TAMPERED")), None);
        let mut bent = closed.clone().into_bytes();
        bent[30] = if bent[30] == b'0' { b'1' } else { b'0' };
        assert_eq!(seal.open(&mine, &String::from_utf8(bent).expect("ASCII")), None);
        assert_ne!(
            seal.close(&mine, b"state", LONG),
            Some(closed),
            "a fresh nonce each time"
        );
        assert_eq!(Seal::new().expect("randomness").open(&mine, ""), None);
        let late = seal.close(&mine, b"state", Duration::ZERO).expect("sealed");
        assert_eq!(seal.open(&mine, &late), None);
    }
}
