//! Client certificates: the chain was verified by TLS; here the name in it becomes a principal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use vocabulary::{ActorType, Authn, Principal, ServerScope, Timestamp};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Whom a verified certificate names, and until when.
#[derive(Debug)]
pub struct CertifiedPeer {
    principal: Arc<Principal>,
    not_after: Timestamp,
}

impl CertifiedPeer {
    /// Reads a certificate that TLS has verified: the first URI name, else the first DNS name.
    #[must_use]
    pub fn read(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let names = &certificate.subject_alternative_name().ok()??.value.general_names;
        let uri = |name: &GeneralName<'_>| {
            if let GeneralName::URI(uri) = name {
                Some((*uri).to_owned())
            } else {
                None
            }
        };
        let dns = |name: &GeneralName<'_>| {
            if let GeneralName::DNSName(dns) = name {
                Some((*dns).to_owned())
            } else {
                None
            }
        };
        let principal = Principal {
            sub: names.iter().find_map(uri).or_else(|| names.iter().find_map(dns))?,
            actor_type: ActorType::System,
            client_id: None,
            org_id: None,
            issuer: certificate.issuer().to_string(),
            authn: Authn::Mtls,
            act: Vec::new(),
            run: None,
            groups: BTreeSet::new(),
            claims: BTreeMap::new(),
            servers: ServerScope::Every,
        };
        let not_after = Timestamp::from_micros(certificate.validity().not_after.timestamp().saturating_mul(1_000_000));
        Some(Self {
            principal: Arc::new(principal),
            not_after,
        })
    }

    /// When the certificate ends.
    #[must_use]
    pub fn ends(&self) -> Timestamp {
        self.not_after
    }

    /// The principal, while the certificate is valid: a connection may outlive it.
    #[must_use]
    pub fn principal_at(&self, now: Timestamp) -> Option<&Arc<Principal>> {
        (now <= self.not_after).then_some(&self.principal)
    }
}
