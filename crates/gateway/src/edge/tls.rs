//! TLS of the listeners: the operator's own files, or a local CA and a certificate made in the
//! state directory and renewed before they end.

use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::RootCertStore;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use vocabulary::{Clock, Secret, Timestamp};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("`{path}` cannot be used")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds no certificate.
    #[error("`{path}` holds no certificate")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The private key cannot be read.
    #[error("the private key cannot be read")]
    Key,
    /// A certificate could not be made.
    #[error("a certificate could not be made")]
    Make(#[from] rcgen::Error),
    /// Certificate and key do not go together, or cannot be used.
    #[error("the certificate cannot be used")]
    Unusable(#[from] rustls::Error),
    /// The client CA cannot be used.
    #[error("the client CA cannot be used")]
    ClientCa(#[from] rustls::server::VerifierBuilderError),
}

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum TlsSource {
    /// Made here, by a CA of our own.
    Auto {
        /// Where CA and certificate are kept.
        dir: PathBuf,
        /// The names the certificate is for.
        names: Vec<String>,
    },
    /// The operator's.
    Given {
        /// The chain, leaf first.
        chain: Vec<CertificateDer<'static>>,
        /// The private key, in PEM.
        key: Secret,
    },
}

/// The certificate in use; replaced in place when renewed.
#[derive(Debug)]
pub struct ServingCertificate {
    source: ArcSwap<TlsSource>,
    current: ArcSwap<CertifiedKey>,
    clock: Clock,
}

const DAY: i64 = 24 * 60 * 60 * 1_000_000;
const CERTIFICATE_DAYS: i64 = 90;
const RENEW_BEFORE_DAYS: i64 = 30;
const CA_DAYS: i64 = 3650;

impl ServingCertificate {
    /// Loads the certificate, making it first where it is ours to make.
    ///
    /// # Errors
    /// When it can neither be read nor made.
    pub fn load(source: TlsSource, clock: Clock) -> Result<Arc<Self>, TlsError> {
        let current = ArcSwap::new(Arc::new(load(&source, clock.now())?));
        Ok(Arc::new(Self {
            source: ArcSwap::from_pointee(source),
            current,
            clock,
        }))
    }

    /// Makes the certificate anew where its time runs short: called daily. On failure the old one
    /// stays.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn renew(&self) -> Result<(), TlsError> {
        self.current
            .store(Arc::new(load(&self.source.load(), self.clock.now())?));
        Ok(())
    }

    /// Shows another certificate from now on: called on every reload. On failure the old one stays.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn replace(&self, source: TlsSource) -> Result<(), TlsError> {
        self.current.store(Arc::new(load(&source, self.clock.now())?));
        self.source.store(Arc::new(source));
        Ok(())
    }

    /// The server side of TLS with this certificate, asking for client certificates of `client_ca`.
    ///
    /// # Errors
    /// When the client CA cannot be used.
    pub fn server_config(
        self: &Arc<Self>,
        client_ca: Option<&[CertificateDer<'static>]>,
    ) -> Result<rustls::ServerConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            rustls::ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(certificates) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates {
                    roots.add(certificate.clone())?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.allow_unauthenticated().build()?)
            }
        };
        let mut config = builder.with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// The CA certificate that clients of an `auto` gateway must trust.
#[must_use]
pub fn local_ca(dir: &Path) -> PathBuf {
    dir.join("ca.pem")
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(path)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect();
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate { path: path.to_owned() });
    }
    Ok(certificates)
}

fn load(source: &TlsSource, now: Timestamp) -> Result<CertifiedKey, TlsError> {
    match source {
        TlsSource::Given { chain, key } => certified(chain.clone(), key.expose().as_bytes()),
        TlsSource::Auto { dir, names } => {
            let (cert, key) = (dir.join("server.pem"), dir.join("server.key"));
            if !is_good(&cert, &local_ca(dir), names, now) {
                make(dir, names, now)?;
            }
            certified(read_certificates(&cert)?, &read(&key)?)
        }
    }
}

fn certified(chain: Vec<CertificateDer<'static>>, key: &[u8]) -> Result<CertifiedKey, TlsError> {
    let key_der = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::Key)?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    Ok(CertifiedKey::from_der(chain, key_der, &provider)?)
}

/// Whether the certificate on disk is for these names, comes from this CA and has time left.
fn is_good(cert: &Path, ca: &Path, names: &[String], now: Timestamp) -> bool {
    let (Ok(chain), Ok(authority)) = (read_certificates(cert), read_certificates(ca)) else {
        return false;
    };
    let ([cert, issuer], [ca]) = (chain.as_slice(), authority.as_slice()) else {
        return false;
    };
    let from_this_ca = issuer == ca;
    let (Ok((_, cert)), Ok((_, ca))) = (X509Certificate::from_der(cert), X509Certificate::from_der(ca)) else {
        return false;
    };
    let has_time = |certificate: &X509Certificate<'_>| {
        certificate.validity().not_after.timestamp() > (now.as_micros() + RENEW_BEFORE_DAYS * DAY) / 1_000_000
    };
    let wanted = names_mark(names);
    let subject = cert
        .subject()
        .iter_organizational_unit()
        .next()
        .and_then(|unit| unit.as_str().ok());
    from_this_ca && has_time(&cert) && has_time(&ca) && subject == Some(wanted.as_str())
}

/// A short mark of the names, kept in the subject, so that a change of names makes a new one.
fn names_mark(names: &[String]) -> String {
    let digest = vocabulary::Digest::of(names.join("\n").as_bytes()).to_string();
    digest.chars().skip(7).take(16).collect()
}

fn make(dir: &Path, names: &[String], now: Timestamp) -> Result<(), TlsError> {
    fs::create_dir_all(dir).map_err(|source| TlsError::File {
        path: dir.to_owned(),
        source,
    })?;
    let (ca_pem, ca) = local_authority(dir, now)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name.push(DnType::CommonName, "Portreeve gateway");
    params
        .distinguished_name
        .push(DnType::OrganizationalUnitName, names_mark(names));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, CERTIFICATE_DAYS);
    let certificate = params.signed_by(&key, &ca)?;
    write(&dir.join("server.key"), key.serialize_pem().as_bytes(), 0o600)?;
    write(
        &dir.join("server.pem"),
        format!("{}{ca_pem}", certificate.pem()).as_bytes(),
        0o644,
    )
}

/// The CA of this state directory; made at first, and anew when its own time runs out.
fn local_authority(dir: &Path, now: Timestamp) -> Result<(String, Issuer<'static, KeyPair>), TlsError> {
    let (cert_path, key_path) = (local_ca(dir), dir.join("ca.key"));
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "Portreeve local CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, now, CA_DAYS);
    let kept = read_certificates(&cert_path).ok().and_then(|certificates| {
        let (_, certificate) = X509Certificate::from_der(certificates.first()?).ok()?;
        let left = certificate.validity().not_after.timestamp() - now.as_seconds();
        (left > (CERTIFICATE_DAYS + RENEW_BEFORE_DAYS) * DAY / 1_000_000).then_some(())?;
        let key = KeyPair::from_pem(&String::from_utf8(read(&key_path).ok()?).ok()?).ok()?;
        Some((String::from_utf8(read(&cert_path).ok()?).ok()?, key))
    });
    let (pem, key) = match kept {
        Some(kept) => kept,
        None => {
            let key = KeyPair::generate()?;
            let pem = params.self_signed(&key)?.pem();
            write(&key_path, key.serialize_pem().as_bytes(), 0o600)?;
            write(&cert_path, pem.as_bytes(), 0o644)?;
            (pem, key)
        }
    };
    Ok((pem, Issuer::new(params, key)))
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, days: i64) {
    let date = |micros: i64| {
        let text = Timestamp::from_micros(micros).to_string();
        let mut parts = text.split(['-', 'T']).map(|part| part.parse::<i32>().unwrap_or(1));
        let (year, month, day) = (
            parts.next().unwrap_or(2026),
            parts.next().unwrap_or(1),
            parts.next().unwrap_or(1),
        );
        rcgen::date_time_ymd(year, month.try_into().unwrap_or(1), day.try_into().unwrap_or(1))
    };
    params.not_before = date(now.as_micros() - DAY);
    params.not_after = date(now.as_micros() + days * DAY);
}

/// Names for a certificate: host names and addresses, without repetition.
#[must_use]
pub fn certificate_names(hosts: &[String], bound: &[IpAddr]) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    names.extend(hosts.iter().cloned());
    names.extend(
        bound
            .iter()
            .filter(|address| !address.is_unspecified())
            .map(ToString::to_string),
    );
    names.sort();
    names.dedup();
    names
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::File {
        path: path.to_owned(),
        source,
    })
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), TlsError> {
    write_whole(path, bytes, mode).map_err(|source| TlsError::File {
        path: path.to_owned(),
        source,
    })
}

/// Writes a file whole or not at all, with its rights from the start.
///
/// # Errors
/// When the directory or the disk does not let us.
pub fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let _ = fs::remove_file(&fresh);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests;
