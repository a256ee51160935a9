//! Tokens for runs, from the gateway that runs on this state directory.

use std::sync::Arc;

use anyhow::Context as _;
use harness::{IssuedToken, Later, TokenIssuer, TokenRequest, Unavailable};
use serde_json::json;
use vocabulary::{Secret, ServerId};

use crate::command::access::{Access, encoded};
use crate::command::reach::{Reach, whereabouts};
use crate::config::Local;

/// See the module.
pub(super) struct Tokens(Arc<Local>);

impl Tokens {
    pub(super) fn of(config: Arc<Local>) -> Self {
        Self(config)
    }

    async fn ask(&self, request: TokenRequest) -> anyhow::Result<IssuedToken> {
        let config = &self.0;
        let access = Access::open(config).await?;
        let made = match access.is_running() {
            true => {
                let servers: Vec<&str> = request.servers.iter().map(ServerId::as_str).collect();
                let body = json!({
                    "sub": request.sub,
                    "actor": "agent",
                    "servers": servers,
                    "ttl_seconds": request.lasts.as_secs().max(1),
                    "run": request.run,
                });
                access.post("/tokens", &body).await
            }
            false => Err(anyhow::anyhow!(
                "no gateway runs on this state directory; start `portreeve serve`"
            )),
        };
        access.close().await?;
        let made = made?;
        let place = whereabouts(&config.state.dir).context("the gateway has not said where it answers")?;
        let reach = Reach::local(config.listen.as_ref(), &place.mcp, place.ca.as_deref())?;
        let (scheme, authority) = reach
            .origin
            .split_once("://")
            .context("the gateway's address has no scheme")?;
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let text = |name: &str| made.get(name).and_then(serde_json::Value::as_str).map(str::to_owned);
        Ok(IssuedToken {
            id: text("id").context("the gateway gave the token no name")?,
            token: Secret::new(text("token").context("the gateway gave no token")?),
            address: reach.address,
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            path: "/mcp".to_owned(),
            ca: place.ca,
        })
    }

    async fn take_back(&self, id: &str) -> anyhow::Result<()> {
        let access = Access::open(&self.0).await?;
        let done = access.delete(&format!("/tokens/{}", encoded(id))).await;
        access.close().await?;
        done.map(drop)
    }
}

impl TokenIssuer for Tokens {
    fn issue(&self, request: TokenRequest) -> Later<'_, Result<IssuedToken, Unavailable>> {
        Box::pin(async move {
            let token = self.ask(request).await;
            token.map_err(|error| Unavailable::new("the agent's tools cannot be reached", error))
        })
    }

    fn revoke(&self, id: String) -> Later<'_, Result<(), Unavailable>> {
        Box::pin(async move {
            let done = self.take_back(&id).await;
            done.map_err(|error| Unavailable::new("the token could not be revoked", error))
        })
    }
}
