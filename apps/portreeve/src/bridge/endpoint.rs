//! Where the gateway is: `--config`, else `PORTREEVE_URL` and `PORTREEVE_CA`, else the configuration that
//! every command finds. A gateway that was started anew may listen elsewhere, so it can be looked for again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use gateway::edge::tls::local_ca;
use vocabulary::{ServerId, lock};

use crate::config::{Config, Tls, find_file, variable};
use crate::reach::{self, Reach};
use crate::wire_up::Whereabouts;

/// The gateway's endpoint, which may move.
pub(super) struct Endpoint {
    source: Source,
    /// What follows `/mcp`.
    server_path: String,
    target: Mutex<Option<Arc<Target>>>,
}

enum Source {
    Environment,
    Configured(Box<Config>),
}

/// A client that trusts the gateway, and the URL of its route.
pub(super) struct Target {
    pub(super) http: reqwest::Client,
    pub(super) url: String,
    announced: Option<Whereabouts>,
}

impl Endpoint {
    /// Finds the gateway; it need not run yet.
    pub(super) fn find(config: Option<&Path>, server: Option<&ServerId>) -> anyhow::Result<Self> {
        let server_path = server.map(|id| format!("/{id}")).unwrap_or_default();
        let (source, target) = match (config, variable("PORTREEVE_URL")) {
            (None, Some(url)) => {
                let ca = variable("PORTREEVE_CA").map(PathBuf::from);
                let target =
                    Target::at_url(&url, ca.as_deref(), &server_path).context("PORTREEVE_URL and PORTREEVE_CA")?;
                (Source::Environment, Some(target))
            }
            (config, _) => {
                let config = Config::load(&find_file(config)?)?;
                let target = Target::configured(&config, &server_path)?;
                (Source::Configured(Box::new(config)), target)
            }
        };
        match &target {
            Some(target) => tracing::info!(url = target.url, "carrying messages to the gateway"),
            None => tracing::info!("the gateway has not been started here yet"),
        }
        let target = Mutex::new(target.map(Arc::new));
        Ok(Self {
            source,
            server_path,
            target,
        })
    }

    /// The target as it is known now.
    pub(super) fn target(&self) -> Option<Arc<Target>> {
        lock(&self.target).clone()
    }

    /// Looks whether a gateway has announced itself elsewhere; keeps what is known where none has.
    pub(super) fn refresh(&self) {
        let Source::Configured(config) = &self.source else {
            return;
        };
        let Some(whereabouts) = reach::whereabouts(&config.state.dir) else {
            return;
        };
        if self
            .target()
            .is_some_and(|target| target.announced.as_ref() == Some(&whereabouts))
        {
            return;
        }
        match Target::announced(config, whereabouts, &self.server_path) {
            Ok(target) => *lock(&self.target) = Some(Arc::new(target)),
            Err(error) => tracing::warn!("the gateway cannot be reached: {error:#}"),
        }
    }

    /// The largest message the gateway takes, as far as known.
    pub(super) fn max_request_bytes(&self) -> usize {
        match &self.source {
            Source::Environment => REQUEST_LIMIT,
            Source::Configured(config) => config.limits.request.max_bytes,
        }
    }

    /// The largest message taken from the gateway.
    pub(super) fn max_message_bytes(&self) -> usize {
        match &self.source {
            Source::Environment => ANSWER_LIMIT,
            // Room for what the gateway itself puts around a result of that size.
            Source::Configured(config) => ANSWER_LIMIT.max(config.limits.result.max_bytes.saturating_add(1 << 20)),
        }
    }
}

impl Target {
    /// As the gateway announced it; else the public URL; else where it would listen. `None` where it is
    /// only known once it runs.
    fn configured(config: &Config, server_path: &str) -> anyhow::Result<Option<Self>> {
        if let Some(whereabouts) = reach::whereabouts(&config.state.dir) {
            return Self::announced(config, whereabouts, server_path).map(Some);
        }
        if let Some(url) = &config.listen.public_url {
            return Self::at_url(&format!("{url}/mcp"), None, server_path).map(Some);
        }
        let ca = local_ca(&config.state.dir.join("tls"));
        if config.listen.mcp.port() == 0 || (matches!(config.listen.tls, Tls::Auto) && !ca.exists()) {
            return Ok(None);
        }
        let scheme = match config.listen.tls {
            Tls::Off => "http",
            Tls::Auto | Tls::Files { .. } => "https",
        };
        let url = format!("{scheme}://{}", config.listen.mcp);
        let reach = Reach::local(Some(&config.listen), &url, Some(&ca))?;
        Self::local(reach, None, server_path).map(Some)
    }

    fn announced(config: &Config, whereabouts: Whereabouts, server_path: &str) -> anyhow::Result<Self> {
        let reach = Reach::local(Some(&config.listen), &whereabouts.mcp, whereabouts.ca.as_deref())?;
        Self::local(reach, Some(whereabouts), server_path)
    }

    fn local(reach: Reach, announced: Option<Whereabouts>, server_path: &str) -> anyhow::Result<Self> {
        let url = format!("{}/mcp{server_path}", reach.origin);
        let http = build(reach.builder)?;
        Ok(Self { http, url, announced })
    }

    /// A URL somebody gave us; without a CA the platform's roots are trusted.
    fn at_url(url: &str, ca: Option<&Path>, server_path: &str) -> anyhow::Result<Self> {
        let parsed: http::Uri = url.parse().context("not a URL")?;
        let host = parsed.host().unwrap_or_default();
        match parsed.scheme_str() {
            Some("https") => {}
            Some("http") if is_loopback(host) => {}
            Some("http") => anyhow::bail!("`http://` is for loopback only: the token would travel in the clear"),
            Some(_) | None => anyhow::bail!("the URL must begin with https:// (or http:// on loopback)"),
        }
        let extras = parsed.query().is_some() || url.contains(['@', '#']);
        anyhow::ensure!(!extras, "the URL must have no user, query or fragment");
        let builder = match ca {
            Some(ca) => reach::client().tls_certs_only(reach::authorities(ca)?),
            None => reach::client(),
        };
        let url = format!("{}{server_path}", url.trim_end_matches('/'));
        let http = build(builder)?;
        Ok(Self {
            http,
            url,
            announced: None,
        })
    }
}

/// Streams may be quiet for long, so there is no deadline; a peer that is gone is noticed all the same.
fn build(builder: reqwest::ClientBuilder) -> reqwest::Result<reqwest::Client> {
    builder
        .user_agent(concat!("portreeve-connect/", env!("CARGO_PKG_VERSION")))
        .tcp_keepalive(Duration::from_secs(30))
        .build()
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// The gateway's default for `limits.request.max_bytes`.
const REQUEST_LIMIT: usize = 4 << 20;
const ANSWER_LIMIT: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_to_https_or_loopback_alone() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let url = |url: &str| Target::at_url(url, None, "/files").map(|target| target.url).ok();
        assert_eq!(
            url("https://gw.example/mcp/").as_deref(),
            Some("https://gw.example/mcp/files")
        );
        assert_eq!(url("http://[::1]:5/mcp").as_deref(), Some("http://[::1]:5/mcp/files"));
        for refused in [
            "http://gw.example/mcp",
            "http://127.0.0.1.example/mcp",
            "ftp://localhost/",
            "/mcp",
            "https://a/mcp?x",
            "https://a/mcp#x",
            "https://me:pw@a/mcp",
        ] {
            assert_eq!(url(refused), None, "{refused}");
        }
    }
}
