//! Agent tokens: 256 random bits, known here by their SHA-256 alone. The table is in memory, so a
//! revocation holds for the next request.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use vocabulary::{Digest, Principal, Timestamp};

/// What every agent token begins with.
pub const AGENT_PREFIX: &str = "ptr_agt_";
/// What every admin token begins with; none of them is good here.
pub const ADMIN_PREFIX: &str = "ptr_adm_";

/// A token we issued.
#[derive(Clone, Debug)]
pub struct IssuedToken {
    /// Whose it is.
    pub principal: Arc<Principal>,
    /// When it ends.
    pub expires: Timestamp,
    /// Whether it was revoked.
    pub standing: TokenStanding,
}

/// Whether a token still counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenStanding {
    /// It does, until it expires.
    Live,
    /// An operator took it back.
    Revoked,
}

/// The tokens we issued, by digest.
#[derive(Default, Debug)]
pub struct TokenTable(RwLock<HashMap<Digest, IssuedToken>>);

impl TokenTable {
    /// Replaces the whole table.
    pub fn replace(&self, tokens: HashMap<Digest, IssuedToken>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tokens;
    }

    /// Adds a token or changes its standing.
    pub fn set(&self, digest: Digest, token: IssuedToken) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(digest, token);
    }

    pub(super) fn look_up(&self, digest: &Digest) -> Option<IssuedToken> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(digest)
            .cloned()
    }
}
