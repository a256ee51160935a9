//! By what a caller was identified, for whoever has to know how long that holds. Nothing of the credential itself can be had
//! from it, only whether it stands somewhere.

use std::fmt;
use std::sync::Arc;

use upstream::Behalf;
use vocabulary::{Digest, Timestamp};

use super::inbound::InboundToken;

/// See the module.
#[derive(Clone)]
pub struct ShownCredential {
    pub(super) kind: CredentialKind,
    /// The credential itself, which stays at the edge.
    pub(super) inbound: Arc<InboundToken>,
    /// When it ends.
    pub(super) ends: Timestamp,
}

/// What was shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CredentialKind {
    /// A token of ours, by its digest.
    Token(Digest),
    /// A JWT of the issuer that the principal names.
    Jwt,
    /// A client certificate.
    Certificate,
}

impl fmt::Debug for ShownCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShownCredential({:?})", self.kind)
    }
}

impl ShownCredential {
    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        Self {
            kind: CredentialKind::Certificate,
            inbound: Arc::new(InboundToken::nothing()),
            ends: Timestamp::from_micros(0),
        }
    }

    /// On whose behalf something is sent for it.
    pub(crate) fn behalf(&self) -> Behalf {
        Behalf::of(self.inbound.clone())
    }

    /// Whether its time has come.
    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.ends <= now
    }
}
