//! Ed25519 keys with names: private ones as PKCS#8 in PEM, public ones as C2SP's `vkey`.

use std::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use data_encoding::{BASE64, HEXLOWER};

use crate::{Digest, Secret};

/// Why something is no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyFault {
    /// The name cannot be one.
    #[error("is not the name of a key: it is empty, too long, or holds a space, a `+` or a control character")]
    Name,
    /// It is no vkey.
    #[error("is not a public key of the form `NAME+HASH+KEY`")]
    Form,
    /// Another algorithm.
    #[error("is a key of another kind than Ed25519")]
    Algorithm,
    /// Name, hash and key do not belong together.
    #[error("has a hash that is not the one of its name and key: it was cut or mistyped")]
    Hash,
    /// No private key.
    #[error("holds no Ed25519 private key in PEM (PKCS#8)")]
    Private,
    /// The public key that stands beside a private key is another's.
    #[error("holds a private key and the public key of another one")]
    Pair,
    /// The machine gives no randomness.
    #[error("cannot be made: no randomness can be had")]
    Randomness,
}

/// The name of a key, such as `ops.example/locks`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeyName(String);

impl KeyName {
    /// Takes a name: not empty, no space, no `+`, no control character.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, KeyFault> {
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == '+';
        match text.is_empty() || text.len() > LONGEST_NAME || text.contains(odd) {
            true => Err(KeyFault::Name),
            false => Ok(Self(text.to_owned())),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A public key and its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verifier {
    name: KeyName,
    public: [u8; 32],
}

impl Verifier {
    /// Reads a vkey: `NAME+HASH+KEY`.
    ///
    /// # Errors
    /// When it is none, or not one of Ed25519.
    pub fn parse(vkey: &str) -> Result<Self, KeyFault> {
        let mut parts = vkey.splitn(3, '+');
        let (Some(name), Some(hash), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(KeyFault::Form);
        };
        let name = KeyName::parse(name)?;
        let id = HEXLOWER.decode(hash.as_bytes()).map_err(|_| KeyFault::Form)?;
        let key = BASE64.decode(key.as_bytes()).map_err(|_| KeyFault::Form)?;
        let public = match key.split_first() {
            Some((&ALGORITHM, public)) => public.try_into().map_err(|_| KeyFault::Form)?,
            Some(_) => return Err(KeyFault::Algorithm),
            None => return Err(KeyFault::Form),
        };
        let verifier = Self { name, public };
        match verifier.id().as_slice() == id {
            true => Ok(verifier),
            false => Err(KeyFault::Hash),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &KeyName {
        &self.name
    }

    /// What tells it from other keys of its name; no proof of anything.
    #[must_use]
    pub fn id(&self) -> [u8; 4] {
        let pieces = [self.name.0.as_bytes(), b"\n", &[ALGORITHM], &self.public];
        let [a, b, c, d, ..] = *Digest::of_pieces(pieces).as_bytes();
        [a, b, c, d]
    }

    /// Name and id, for people.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{}+{}", self.name.0, hex(self.id()))
    }

    /// Whether the signature is one of this key and these bytes.
    #[must_use]
    pub fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.public)
            .verify(bytes, signature)
            .is_ok()
    }
}

/// The vkey.
impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = BASE64.encode(&[&[ALGORITHM], self.public.as_slice()].concat());
        write!(f, "{}+{key}", self.shown())
    }
}

/// A private key and its name. It cannot be printed.
pub struct Signer {
    verifier: Verifier,
    pair: Ed25519KeyPair,
}

impl Signer {
    /// A new key.
    ///
    /// # Errors
    /// When no randomness can be had.
    pub fn generate(name: KeyName) -> Result<Self, KeyFault> {
        let pair = Ed25519KeyPair::generate().map_err(|_| KeyFault::Randomness)?;
        Self::of(name, pair)
    }

    /// Reads a private key. What stands before it in the file is its public key, if [`Signer::to_pem`] wrote it, and must be.
    ///
    /// # Errors
    /// When there is no such key.
    pub fn from_pem(text: &str, name: &KeyName) -> Result<Self, KeyFault> {
        let signer = Self::of(name.clone(), pair(text)?)?;
        match Self::vkey_in(text).transpose()? {
            Some(vkey) if vkey != signer.verifier => Err(KeyFault::Pair),
            Some(_) | None => Ok(signer),
        }
    }

    /// The public key that stands beside a private one; `None` where there is none.
    #[must_use]
    pub fn vkey_in(text: &str) -> Option<Result<Verifier, KeyFault>> {
        let (head, _) = text.split_once(BEGIN)?;
        let line = head.lines().find_map(|line| line.trim().strip_prefix(VKEY))?;
        Some(Verifier::parse(line.trim()))
    }

    /// Whether a public key is the one of the private key in this text, whatever it is called.
    #[must_use]
    pub fn is_pair(text: &str, verifier: &Verifier) -> bool {
        pair(text).is_ok_and(|pair| pair.public_key().as_ref() == verifier.public)
    }

    /// The private key in PEM, with its public key on a line before it, where PEM has room for words (RFC 7468).
    ///
    /// # Errors
    /// When it cannot be spelled.
    pub fn to_pem(&self) -> Result<Secret, KeyFault> {
        let document = self.pair.to_pkcs8v1().map_err(|_| KeyFault::Private)?;
        let coded = Secret::new(BASE64.encode(document.as_ref()));
        Ok(Secret::new(format!(
            "{VKEY} {}\n{BEGIN}\n{}\n{END}\n",
            self.verifier,
            coded.expose()
        )))
    }

    /// Its public half.
    #[must_use]
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    pub(super) fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.pair.sign(bytes).as_ref().to_vec()
    }

    fn of(name: KeyName, pair: Ed25519KeyPair) -> Result<Self, KeyFault> {
        let public = pair.public_key().as_ref().try_into().map_err(|_| KeyFault::Private)?;
        let verifier = Verifier { name, public };
        Ok(Self { verifier, pair })
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.verifier.shown())
    }
}

/// The only private key of a text in PEM.
fn pair(text: &str) -> Result<Ed25519KeyPair, KeyFault> {
    let (_, rest) = text.split_once(BEGIN).ok_or(KeyFault::Private)?;
    let (body, after) = rest.split_once(END).ok_or(KeyFault::Private)?;
    if after.contains(BEGIN) {
        return Err(KeyFault::Private);
    }
    let coded = Secret::new(body.split_ascii_whitespace().collect());
    let document = zeroize::Zeroizing::new(
        BASE64
            .decode(coded.expose().as_bytes())
            .map_err(|_| KeyFault::Private)?,
    );
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(&document).map_err(|_| KeyFault::Private)
}

/// An id as it is spelled everywhere.
pub(super) fn hex(id: [u8; 4]) -> String {
    HEXLOWER.encode(&id)
}

/// The byte that stands for Ed25519.
const ALGORITHM: u8 = 1;
const LONGEST_NAME: usize = 256;
const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";
const VKEY: &str = "vkey:";
