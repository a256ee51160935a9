//! `[listen]`: where the gateway answers, under which names, behind which certificate.

use std::net::SocketAddr;

use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use settings::{Complaint, Entry, Section};
use vocabulary::Secret;

use super::raw::Surroundings;

/// Where the gateway answers.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Address of the data plane.
    pub mcp: SocketAddr,
    /// Address of the control plane.
    pub admin: SocketAddr,
    /// Certificates of both.
    pub tls: Tls,
    /// Roots that client certificates must come from; `None`: none is asked for.
    pub client_ca: Option<Vec<CertificateDer<'static>>>,
    /// How clients reach the gateway, without a slash at the end; `None`: the bound address.
    pub public_url: Option<String>,
    /// Hosts that are answered, in lower case, without port and brackets.
    pub allowed_hosts: Vec<String>,
    /// Origins that are answered beside the gateway's own, in lower case, without default ports.
    pub allowed_origins: Vec<String>,
}

/// Which certificate the listeners show.
#[derive(Clone, Debug)]
pub enum Tls {
    /// One of a local CA in the state directory.
    Auto,
    /// The operator's own; certificate and key belong together.
    Files {
        /// The chain, leaf first.
        chain: Vec<CertificateDer<'static>>,
        /// The private key, in PEM.
        key: Secret,
    },
    /// None; both listeners are on loopback.
    Off,
}

impl Listen {
    pub(super) fn check(mut section: Section<'_>, around: &Surroundings) -> Option<Self> {
        let mcp = section.read("mcp", address);
        let admin = section.read("admin", |value| {
            let admin = address(value)?;
            match mcp {
                Some(mcp) if mcp == admin && admin.port() != 0 => Err(Complaint::new("is the address of `listen.mcp`")
                    .hint("the control plane has a listener of its own")),
                Some(_) | None => Ok(admin),
            }
        });
        let (tls, client_ca) = tls(section.section("tls"), &[mcp, admin], around);
        let allowed_hosts = section.read("allowed_hosts", hosts);
        let allowed_origins = section.read("allowed_origins", |value| value.distinct(origin));
        let public_url = section.read("public_url", |value| {
            let (url, host) = public_url(value.text()?)?;
            if allowed_hosts.as_ref().is_some_and(|hosts| !hosts.contains(&host)) {
                value.warn(Complaint::new(
                    "its host is not in `allowed_hosts`, so requests to it are refused",
                ));
            }
            Ok(url)
        });
        section.finish();
        Some(Self {
            mcp: mcp?,
            admin: admin?,
            tls: tls?,
            client_ca,
            public_url,
            allowed_hosts: allowed_hosts?,
            allowed_origins: allowed_origins?,
        })
    }
}

vocabulary::words! {
    /// Where certificates come from.
    enum Mode {
        /// A local CA.
        Auto = "auto",
        /// The operator's own files.
        Files = "files",
        /// None.
        Off = "off",
    }
}

type Roots = Option<Vec<CertificateDer<'static>>>;

fn tls(mut section: Section<'_>, addresses: &[Option<SocketAddr>], around: &Surroundings) -> (Option<Tls>, Roots) {
    let mode = section.read("mode", |value| {
        let mode = value.word(Mode::ALL, Mode::as_str)?;
        let exposed = addresses.iter().flatten().find(|address| !address.ip().is_loopback());
        match (mode, exposed) {
            (Mode::Off, Some(address)) => Err(Complaint::new(format!(
                "`off` is for loopback only, but {address} is not"
            ))
            .hint("write `auto` or `files`, or listen on 127.0.0.1")),
            (Mode::Off, None) | (Mode::Auto | Mode::Files, _) => Ok(mode),
        }
    });
    let tls = match mode {
        Some(Mode::Files) => own_files(&mut section, around),
        Some(Mode::Auto) => Some(Tls::Auto),
        Some(Mode::Off) => Some(Tls::Off),
        None => {
            // The mode is faulty already; its companions are not judged as well.
            let _ = (section.entry("cert"), section.entry("key"));
            None
        }
    };
    let client_ca = match mode {
        Some(Mode::Off) => None,
        Some(Mode::Auto | Mode::Files) | None => section.read("client_ca", |value| certificates(value, around)),
    };
    section.finish();
    (tls, client_ca)
}

fn own_files(section: &mut Section<'_>, around: &Surroundings) -> Option<Tls> {
    let chain = section.require("cert", |value| certificates(value, around));
    let key = section.require("key", |value| {
        let path = around.resolve(value.text()?);
        let pem = Secret::new(around.text(&path)?);
        let not_a_key = |_| Complaint::new("holds no private key in PEM");
        let key = PrivateKeyDer::from_pem_slice(pem.expose().as_bytes()).map_err(not_a_key)?;
        if Surroundings::is_open_to_all(&path) {
            value.warn(Complaint::new("everybody on this machine can read the key").hint("chmod o-rwx"));
        }
        if let Some(chain) = &chain {
            let provider = rustls::crypto::aws_lc_rs::default_provider();
            CertifiedKey::from_der(chain.clone(), key, &provider)
                .map_err(|_| Complaint::new("does not fit the certificate in `cert`"))?;
        }
        Ok(pem)
    });
    Some(Tls::Files {
        chain: chain?,
        key: key?,
    })
}

/// Reads the certificates of a PEM file; at least one.
pub(super) fn certificates(
    value: &Entry<'_>,
    around: &Surroundings,
) -> Result<Vec<CertificateDer<'static>>, Complaint> {
    let text = around.text(&around.resolve(value.text()?))?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let certificates = parsed.ok().filter(|list| !list.is_empty());
    certificates.ok_or_else(|| Complaint::new("holds no certificate in PEM"))
}

fn address(value: &Entry<'_>) -> Result<SocketAddr, Complaint> {
    let wrong =
        |_| Complaint::new("is not an address").hint("write IP and port, such as `127.0.0.1:8443` or `[::1]:0`");
    value.text()?.parse().map_err(wrong)
}

fn hosts(value: &Entry<'_>) -> Result<Vec<String>, Complaint> {
    let hosts = value.distinct(host)?;
    if value.items()?.is_empty() {
        return Err(Complaint::new("is empty, so nothing would be answered"));
    }
    Ok(hosts)
}

/// A host without scheme, port and brackets, in lower case.
fn host(value: &Entry<'_>) -> Result<String, Complaint> {
    let text = value.text()?;
    if let Ok(address) = bare_host(text).parse::<std::net::Ipv6Addr>() {
        return Ok(address.to_string());
    }
    let wrong = || Complaint::new("is not a host name").hint("write the name alone: no scheme, no port, no `*`");
    let authority: http::uri::Authority = text.parse().map_err(|_| wrong())?;
    let bare = authority.port().is_none() && !text.contains('@') && !text.contains('*') && authority.host() == text;
    if bare {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(wrong())
    }
}

/// `scheme://host[:port]` as browsers write it: lower case, no default port.
fn origin(value: &Entry<'_>) -> Result<String, Complaint> {
    let text = value.text()?.to_ascii_lowercase();
    let wrong = || {
        Complaint::new("is not an origin")
            .hint("write `https://host` or `https://host:port`; `*` and `null` are not accepted")
    };
    let (scheme, authority) = text.split_once("://").ok_or_else(wrong)?;
    let parsed: http::uri::Authority = authority.parse().map_err(|_| wrong())?;
    let default_port = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => return Err(wrong()),
    };
    if parsed.as_str() != authority || authority.contains(['@', '*']) {
        return Err(wrong());
    }
    Ok(text.strip_suffix(default_port).unwrap_or(&text).to_owned())
}

fn public_url(text: &str) -> Result<(String, String), Complaint> {
    let url = super::servers::web_url(text)?;
    if url.query().is_some() {
        return Err(Complaint::new("has a query").hint("write `https://host[:port][/path]`"));
    }
    let host = bare_host(url.host().unwrap_or_default()).to_ascii_lowercase();
    Ok((text.trim_end_matches('/').to_owned(), host))
}

/// A host as it is compared: IPv6 without brackets.
pub(super) fn bare_host(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host)
}
