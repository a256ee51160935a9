//! By what a caller was identified, for whoever has to know how long that holds. Nothing of the credential itself.

use vocabulary::{Digest, Timestamp};

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShownCredential {
    pub(super) kind: CredentialKind,
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

impl ShownCredential {
    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        Self {
            kind: CredentialKind::Certificate,
            ends: Timestamp::from_micros(0),
        }
    }

    /// Whether its time has come.
    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.ends <= now
    }
}
