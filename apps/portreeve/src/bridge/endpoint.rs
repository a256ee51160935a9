//! Where the gateway is: `--config`, else `PORTREEVE_URL` and `PORTREEVE_CA`, else the configuration that
//! every command finds. A gateway that was started anew may listen elsewhere, so it can be looked for again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use gateway::edge::tls::local_ca;
use vocabulary::ServerId;

use crate::config::{Config, Tls, find_file, variable};
use crate::reach::{self, Reach};
use crate::wire_up::Whereabouts;

/// Where requests go.
pub(super) struct Place {
    source: Source,
    /// What follows `/mcp`.
    tail: String,
    way: RwLock<Option<Arc<Way>>>,
}

enum Source {
    Environment,
    Configured(Box<Config>),
}

/// A client that trusts the gateway, and the URL of its route.
pub(super) struct Way {
    pub(super) http: reqwest::Client,
    pub(super) url: String,
    told: Option<Whereabouts>,
}

impl Place {
    /// Finds the gateway; it need not run yet.
    pub(super) fn find(config: Option<&Path>, server: Option<&ServerId>) -> anyhow::Result<Self> {
        let tail = server.map(|id| format!("/{id}")).unwrap_or_default();
        let (source, way) = match (config, variable("PORTREEVE_URL")) {
            (None, Some(url)) => {
                let ca = variable("PORTREEVE_CA").map(PathBuf::from);
                let way = Way::elsewhere(&url, ca.as_deref(), &tail).context("PORTREEVE_URL and PORTREEVE_CA")?;
                (Source::Environment, Some(way))
            }
            (config, _) => {
                let config = Config::load(&find_file(config)?)?;
                let way = Way::configured(&config, &tail)?;
                (Source::Configured(Box::new(config)), way)
            }
        };
        match &way {
            Some(way) => tracing::info!(url = way.url, "carrying messages to the gateway"),
            None => tracing::info!("the gateway has not been started here yet"),
        }
        let way = RwLock::new(way.map(Arc::new));
        Ok(Self { source, tail, way })
    }

    /// The way as it is known now.
    pub(super) fn way(&self) -> Option<Arc<Way>> {
        self.way.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks whether a gateway has announced itself elsewhere; keeps what is known where none has.
    pub(super) fn look_again(&self) {
        let Source::Configured(config) = &self.source else {
            return;
        };
        let Some(whereabouts) = reach::whereabouts(&config.state.dir) else {
            return;
        };
        if self.way().is_some_and(|way| way.told.as_ref() == Some(&whereabouts)) {
            return;
        }
        match Way::told(config, whereabouts, &self.tail) {
            Ok(way) => *self.way.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(way)),
            Err(error) => tracing::warn!("the gateway cannot be reached: {error:#}"),
        }
    }

    /// The largest message the gateway takes, as far as known.
    pub(super) fn longest_line(&self) -> usize {
        match &self.source {
            Source::Environment => REQUEST_LIMIT,
            Source::Configured(config) => config.limits.request.max_bytes,
        }
    }

    /// The largest message taken from the gateway.
    pub(super) fn largest_answer(&self) -> usize {
        match &self.source {
            Source::Environment => ANSWER_LIMIT,
            // Room for what the gateway itself puts around a result of that size.
            Source::Configured(config) => ANSWER_LIMIT.max(config.limits.result.max_bytes.saturating_add(1 << 20)),
        }
    }
}

impl Way {
    /// As the gateway announced it; else the public URL; else where it would listen. `None` where it is
    /// only known once it runs.
    fn configured(config: &Config, tail: &str) -> anyhow::Result<Option<Self>> {
        if let Some(whereabouts) = reach::whereabouts(&config.state.dir) {
            return Self::told(config, whereabouts, tail).map(Some);
        }
        if let Some(url) = &config.listen.public_url {
            return Self::elsewhere(&format!("{url}/mcp"), None, tail).map(Some);
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
        let reach = Reach::local(&config.listen, &url, Some(&ca))?;
        Self::through(reach, None, tail).map(Some)
    }

    fn told(config: &Config, whereabouts: Whereabouts, tail: &str) -> anyhow::Result<Self> {
        let reach = Reach::local(&config.listen, &whereabouts.mcp, whereabouts.ca.as_deref())?;
        Self::through(reach, Some(whereabouts), tail)
    }

    fn through(reach: Reach, told: Option<Whereabouts>, tail: &str) -> anyhow::Result<Self> {
        let url = format!("{}/mcp{tail}", reach.origin);
        let http = finished(reach.builder)?;
        Ok(Self { http, url, told })
    }

    /// A URL somebody gave us; without a CA the platform's roots are trusted.
    fn elsewhere(url: &str, ca: Option<&Path>, tail: &str) -> anyhow::Result<Self> {
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
        let url = format!("{}{tail}", url.trim_end_matches('/'));
        let http = finished(builder)?;
        Ok(Self { http, url, told: None })
    }
}

/// Streams may be quiet for long, so there is no deadline; a peer that is gone is noticed all the same.
fn finished(builder: reqwest::ClientBuilder) -> reqwest::Result<reqwest::Client> {
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
        let url = |url: &str| Way::elsewhere(url, None, "/files").map(|way| way.url).ok();
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
