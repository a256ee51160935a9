//! The credential that a caller showed, kept here alone: what is behind the edge can ask whether it is somewhere, and have it
//! exchanged, and neither takes it along.

use std::sync::Arc;

use screening::passthrough::Needles;
use upstream::{Asking, InboundCredential, TokenEndpoint, TokenForm};
use vocabulary::{Digest, Secret};

use super::token_clients::TokenClients;

/// See the module.
pub(super) struct InboundToken {
    kind: Kind,
    needles: Needles,
    whose: Digest,
}

/// What can be had for it.
enum Kind {
    /// Whoever issued it, or trusts who did, exchanges it.
    Exchangeable(Secret, Arc<TokenClients>),
    /// It means something here alone.
    Own,
}

impl InboundToken {
    /// A token of an issuer. `whose` tells apart what may be had for it.
    pub(super) fn issued(text: &str, whose: Digest, clients: Arc<TokenClients>) -> Self {
        let token = Secret::new(text.to_owned());
        Self {
            needles: Needles::of(&token),
            kind: Kind::Exchangeable(token, clients),
            whose,
        }
    }

    /// A token of ours.
    pub(super) fn own(text: &str) -> Self {
        Self {
            kind: Kind::Own,
            needles: Needles::of(&Secret::new(text.to_owned())),
            whose: Digest::of(text.as_bytes()),
        }
    }

    /// Nothing that could be passed on: a certificate, whose key stays with its owner.
    pub(super) fn nothing() -> Self {
        Self {
            kind: Kind::Own,
            needles: Needles::none(),
            whose: Digest::of(b""),
        }
    }

    /// About how many bytes it takes.
    pub(super) fn weight(&self) -> u32 {
        u32::try_from(self.needles.weight() + size_of::<Self>()).unwrap_or(u32::MAX)
    }
}

impl InboundCredential for InboundToken {
    fn needles(&self) -> &Needles {
        &self.needles
    }

    fn is_exchangeable(&self) -> bool {
        matches!(self.kind, Kind::Exchangeable(..))
    }

    fn exchange<'a>(&'a self, endpoint: &'a TokenEndpoint, form: &'a TokenForm) -> Option<Asking<'a>> {
        match &self.kind {
            Kind::Exchangeable(token, clients) => {
                let subject = ("subject_token", token.expose());
                Some(Box::pin(clients.post(endpoint, form, Some(subject))))
            }
            Kind::Own => None,
        }
    }

    fn whose(&self) -> Digest {
        self.whose
    }
}
