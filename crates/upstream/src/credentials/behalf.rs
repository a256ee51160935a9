//! On whose behalf something is sent: the credential that was shown for it must not leave with it, and may be exchanged for one
//! that may.

use std::fmt;
use std::sync::Arc;

use screening::passthrough::Needles;
use vocabulary::Digest;

use crate::credentials::token_endpoint::{Asking, TokenEndpoint, TokenForm};
use crate::failure::{Blocked, Failure};

/// A credential that a client showed, as far as this room may know it: where it is found, and what can be had for it. The
/// credential itself stays where it was shown.
pub trait InboundCredential: Send + Sync {
    /// What must not leave.
    fn needles(&self) -> &Needles;

    /// Whether it can be exchanged at all.
    fn is_exchangeable(&self) -> bool;

    /// Posts a form with the credential in it as the subject of an exchange; `None` where it is none that can be exchanged.
    fn exchange<'a>(&'a self, endpoint: &'a TokenEndpoint, form: &'a TokenForm) -> Option<Asking<'a>>;

    /// Whose it is, and what it was good for: what was had for one of them is never used for another.
    fn whose(&self) -> Digest;
}

/// See the module.
#[derive(Clone)]
pub struct Behalf(Option<Arc<dyn InboundCredential>>);

impl Behalf {
    /// On behalf of a caller who showed this.
    #[must_use]
    pub fn of(inbound: Arc<dyn InboundCredential>) -> Self {
        Self(Some(inbound))
    }

    /// The gateway's own: nobody showed anything for it.
    #[must_use]
    pub fn gateway() -> Self {
        Self(None)
    }

    /// Whether nobody showed anything for it.
    pub(crate) fn is_gateways(&self) -> bool {
        self.0.is_none()
    }

    /// Whether something can be had for what was shown.
    #[must_use]
    pub fn is_exchangeable(&self) -> bool {
        self.0.as_ref().is_some_and(|inbound| inbound.is_exchangeable())
    }

    /// What was shown, if anything.
    pub(crate) fn inbound(&self) -> Option<&Arc<dyn InboundCredential>> {
        self.0.as_ref()
    }

    fn needles(&self) -> Option<&Needles> {
        self.0.as_ref().map(|inbound| inbound.needles())
    }

    /// Whether what is about to leave holds what was shown.
    #[must_use]
    pub fn is_in(&self, leaving: &[u8]) -> bool {
        self.needles().is_some_and(|needles| needles.are_in(leaving))
    }

    /// Whether a server's own credential is or holds what was shown.
    pub(crate) fn is_in_credential(&self, credential: &[u8]) -> bool {
        self.needles()
            .is_some_and(|needles| needles.are_in_credential(credential))
    }

    /// Whether something may be sent to a process that was started with `handed`.
    pub(crate) fn clear_launch(&self, handed: &[u8]) -> Result<(), Failure> {
        match self.is_in_credential(handed) {
            true => Err(Failure::Blocked(Blocked::Passthrough)),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for Behalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Behalf(a caller)"
        } else {
            "Behalf(the gateway)"
        })
    }
}
