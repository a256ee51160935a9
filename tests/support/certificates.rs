//! A certificate authority for the tests: servers, clients, and certificates that must not be accepted.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType, date_time_ymd};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate and its key, in PEM.
pub(crate) struct Certificate {
    pub pem: String,
    pub key: String,
}

/// Who signs.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

impl Authority {
    /// A fresh authority.
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// A certificate for these names, addresses or URIs.
    pub(crate) fn issue(&self, names: &[&str]) -> Certificate {
        self.sign(params(names))
    }

    /// A certificate whose time is over.
    pub(crate) fn issue_expired(&self, names: &[&str]) -> Certificate {
        let mut params = params(names);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Certificate {
        let key = KeyPair::generate().unwrap();
        Certificate {
            pem: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

/// A certificate nobody vouches for.
pub(crate) fn self_signed(names: &[&str]) -> Certificate {
    let key = KeyPair::generate().unwrap();
    Certificate {
        pem: params(names).self_signed(&key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

impl Certificate {
    /// A TLS server that shows this certificate.
    pub(crate) fn serve(&self) -> Arc<ServerConfig> {
        install_provider();
        let (chain, key) = self.der();
        Arc::new(
            ServerConfig::builder()
                .with_no_client_auth()
                .with_single_cert(chain, key)
                .unwrap(),
        )
    }

    /// The same, for clients alone whose certificate this authority signed.
    pub(crate) fn serve_clients_of(&self, authority: &Authority) -> Arc<ServerConfig> {
        install_provider();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap())
            .unwrap();
        let clients = rustls::server::WebPkiClientVerifier::builder(Arc::new(roots))
            .build()
            .unwrap();
        let (chain, key) = self.der();
        let config = ServerConfig::builder().with_client_cert_verifier(clients);
        Arc::new(config.with_single_cert(chain, key).unwrap())
    }

    fn der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = vec![CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()];
        (chain, PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap())
    }
}

/// A TLS client that trusts one authority and may show a certificate.
pub(crate) fn client(authority_pem: &str, shows: Option<&Certificate>) -> Arc<ClientConfig> {
    install_provider();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority_pem.as_bytes()).unwrap())
        .unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots);
    Arc::new(match shows {
        None => config.with_no_client_auth(),
        Some(certificate) => {
            let (chain, key) = certificate.der();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    })
}

fn install_provider() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

fn params(names: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = names
        .iter()
        .map(|name| match (name.parse(), name.contains("://")) {
            (Ok(address), _) => SanType::IpAddress(address),
            (Err(_), true) => SanType::URI((*name).try_into().unwrap()),
            (Err(_), false) => SanType::DnsName((*name).try_into().unwrap()),
        })
        .collect();
    params
}
