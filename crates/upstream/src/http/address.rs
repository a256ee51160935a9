//! Where a server is, and by what it is known there.

use http::Uri;
use rustls_pki_types::CertificateDer;

/// Where a server is.
#[derive(Clone, Debug)]
pub struct Address {
    /// Its endpoint.
    pub url: Uri,
    /// A further trust root, for this server alone.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// A name that its certificate must be good for, beside its host.
    pub certificate_name: Option<String>,
}
