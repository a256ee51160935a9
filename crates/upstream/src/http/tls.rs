//! What is asked of a server's certificate: a root that is trusted, the host's name, and where the operator says so one name
//! more, so that another server behind the same host is not taken for this one.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use rustls_platform_verifier::Verifier;

use crate::failure::TlsFault;
use crate::http::address::Address;

/// The TLS settings towards a server.
pub(super) fn config(address: &Address) -> Result<rustls::ClientConfig, TlsFault> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(TlsFault::Roots)?;
    if address.url.scheme_str() != Some("https") {
        return Ok(builder
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth());
    }
    let usual =
        Arc::new(Verifier::new_with_extra_roots(address.extra_roots.clone(), provider).map_err(TlsFault::Roots)?);
    let verifier: Arc<dyn ServerCertVerifier> = match &address.certificate_name {
        Some(name) => Arc::new(TwiceNamed {
            usual,
            name: ServerName::try_from(name.clone()).map_err(|_| TlsFault::Name)?,
        }),
        None => usual,
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    match &address.identity {
        None => Ok(builder.with_no_client_auth()),
        Some(shown) => builder
            .with_client_auth_cert(shown.chain.clone(), shown.key.clone_key())
            .map_err(TlsFault::Identity),
    }
}

/// Asks for the host's name and for one more.
#[derive(Debug)]
struct TwiceNamed {
    usual: Arc<Verifier>,
    name: ServerName<'static>,
}

impl ServerCertVerifier for TwiceNamed {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        for name in [host, &self.name] {
            self.usual
                .verify_server_cert(end_entity, intermediates, name, ocsp, now)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}
