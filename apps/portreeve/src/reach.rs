//! How a command on the gateway's machine reaches one of its listeners: at which address, under which name,
//! trusting which certificate.

mod pinned;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::config::{Listen, Tls};
use crate::wire_up::Whereabouts;

/// A listener of the gateway that runs here.
pub(crate) struct Reach {
    /// An HTTP client that trusts this listener and no other.
    pub(crate) builder: reqwest::ClientBuilder,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Scheme, host and port of its URLs.
    pub(crate) origin: String,
}

impl Reach {
    /// The way to the listener at `url`; `ca` is the local CA where the gateway has one. Without a sound `[listen]` what the
    /// gateway announced has to do.
    pub(crate) fn local(listen: Option<&Listen>, url: &str, ca: Option<&Path>) -> anyhow::Result<Self> {
        let url: http::Uri = url.parse().context("gateway.json names no address")?;
        let address = reachable(&url).context("gateway.json names no address")?;
        // The gateway answers to its allowed hosts alone; the address is where it listens.
        let mut hosts = listen.iter().flat_map(|listen| &listen.allowed_hosts);
        let named = hosts.find(|host| host.parse::<IpAddr>().is_err());
        let host = named.cloned().unwrap_or_else(|| bracketed(address.ip()));
        let builder = client().resolve(&host, address);
        let scheme = url.scheme_str().unwrap_or("https");
        let builder = match (listen.map(|listen| &listen.tls), ca) {
            (Some(Tls::Off), _) => builder,
            (Some(Tls::Files { chain, .. }), _) => builder.tls_backend_preconfigured(pinned::client(chain)?),
            (Some(Tls::Auto) | None, Some(ca)) => builder.tls_certs_only(authorities(ca)?),
            (Some(Tls::Auto), None) => anyhow::bail!("gateway.json names no CA"),
            (None, None) if scheme == "http" => builder,
            (None, None) => anyhow::bail!(
                "`[listen]` has faults, so the gateway's certificate is not known; `portreeve check` tells them"
            ),
        };
        Ok(Self {
            builder,
            address,
            origin: format!("{scheme}://{host}:{}", address.port()),
        })
    }
}

/// What every client of ours has in common: no proxy, no redirect, a gateway that is there answers soon.
pub(crate) fn client() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(2))
}

/// Where the gateway on this state directory answers, if one has said so.
pub(crate) fn whereabouts(state: &Path) -> Option<Whereabouts> {
    let text = std::fs::read_to_string(state.join("gateway.json")).ok()?;
    serde_json::from_str(&text).ok()
}

/// The text of a small file.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("`{}` cannot be read", path.display()))
}

/// The certificates of a PEM file.
pub(crate) fn authorities(path: &Path) -> anyhow::Result<Vec<reqwest::Certificate>> {
    let text = read(path)?;
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
        certificates.push(reqwest::Certificate::from_der(&certificate?)?);
    }
    Ok(certificates)
}

/// Where a listener is reached from this machine.
fn reachable(url: &http::Uri) -> Option<SocketAddr> {
    let host = url.host()?.trim_start_matches('[').trim_end_matches(']');
    let listening = host.parse::<IpAddr>().ok()?;
    let ip = match (listening.is_unspecified(), listening) {
        (false, ip) => ip,
        (true, IpAddr::V4(_)) => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        (true, IpAddr::V6(_)) => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
    };
    Some(SocketAddr::new(ip, url.port_u16()?))
}

fn bracketed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_every_address_is_reached_on_loopback() {
        let at = |url: &str| reachable(&url.parse().unwrap()).map(|address| address.to_string());
        assert_eq!(at("https://0.0.0.0:8444").as_deref(), Some("127.0.0.1:8444"));
        assert_eq!(at("https://[::]:1").as_deref(), Some("[::1]:1"));
        assert_eq!(at("http://192.0.2.7:5").as_deref(), Some("192.0.2.7:5"));
        assert_eq!(at("https://name:1"), None);
    }
}
