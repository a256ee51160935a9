//! Where a server is, and by what it is known there.

use std::fmt;
use std::sync::Arc;

use http::Uri;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Where a server is.
#[derive(Clone, Debug)]
pub struct Address {
    /// Its endpoint.
    pub url: Uri,
    /// A further trust root, for this server alone.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// A name that its certificate must be good for, beside its host.
    pub certificate_name: Option<String>,
    /// What is shown there, where the server's credential is a certificate.
    pub identity: Option<Arc<ClientIdentity>>,
}

/// A certificate of ours, with its key.
pub struct ClientIdentity {
    /// The certificate, and those that lead to its root.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key, which stays here: a server sees that we have it.
    pub key: PrivateKeyDer<'static>,
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientIdentity")
    }
}
