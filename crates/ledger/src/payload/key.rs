//! The key that payloads are kept under: `payload.key` of the state directory, made when the first is kept. Each payload has a
//! key of its own, derived from this one and a random salt; without the salt nobody derives it again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use data_encoding::HEXLOWER;
use vocabulary::Secret;

use super::fault::PayloadFault;
use crate::segment::open_private;

pub(super) const SALT: usize = 32;
/// The salt of what was erased.
pub(super) const NO_SALT: [u8; SALT] = [0; SALT];

/// See the module.
pub(super) struct MasterKey(hmac::Key);

impl MasterKey {
    pub(super) fn open(state: &Path, is_needed: bool) -> Result<Self, PayloadFault> {
        let path = state.join("payload.key");
        let text = match fs::read_to_string(&path) {
            Ok(text) => Secret::new(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_needed => make(&path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(PayloadFault::Key(path)),
            Err(error) => return Err(error.into()),
        };
        let bytes = HEXLOWER.decode(text.expose().trim().as_bytes()).ok();
        match bytes.filter(|bytes| bytes.len() == 32) {
            Some(bytes) => Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes))),
            None => Err(PayloadFault::Key(path)),
        }
    }

    pub(super) fn seal(&self, salt: &[u8; SALT], bound_to: &[u8], mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let key = self.of(salt)?;
        // Each key seals one payload: its nonce need not differ from any other.
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        key.seal_in_place_append_tag(nonce, Aad::from(bound_to), &mut bytes)
            .map_err(|_| io::ErrorKind::Other)?;
        Ok(bytes)
    }

    pub(super) fn open_sealed(&self, salt: &[u8; SALT], bound_to: &[u8], mut sealed: Vec<u8>) -> Option<Vec<u8>> {
        let key = self.of(salt).ok()?;
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let length = key.open_in_place(nonce, Aad::from(bound_to), &mut sealed).ok()?.len();
        sealed.truncate(length);
        Some(sealed)
    }

    fn of(&self, salt: &[u8; SALT]) -> io::Result<LessSafeKey> {
        let derived = hmac::sign(&self.0, salt);
        let key = UnboundKey::new(&AES_256_GCM, derived.as_ref()).map_err(|_| io::ErrorKind::Other)?;
        Ok(LessSafeKey::new(key))
    }
}

/// A salt that nobody had before.
pub(super) fn salt() -> io::Result<[u8; SALT]> {
    let mut salt = NO_SALT;
    aws_lc_rs::rand::fill(&mut salt).map_err(|_| io::Error::from(io::ErrorKind::Other))?;
    Ok(salt)
}

/// Whole and on disk under its name, or not there.
fn make(path: &Path) -> io::Result<Secret> {
    let text = Secret::new(HEXLOWER.encode(&salt()?));
    let beside = path.with_extension("new");
    let mut file = open_private(&beside, OpenOptions::new().write(true).create(true).truncate(true))?;
    file.write_all(text.expose().as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(text)
}
