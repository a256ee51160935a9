//! One issuer, one scripted server of either era called `peer`, one gateway between them and everybody else.

use serde_json::{Value, json};

use super::{Agent, Gateway, Issuer, Modern, Peer, Setup, Speaks};

/// Everything a client may be asked.
pub(crate) fn everything() -> Value {
    json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": true}})
}

/// Everybody who takes part.
pub(crate) struct Harbour {
    pub issuer: Issuer,
    pub peer: Peer,
    pub gateway: Gateway,
}

impl Harbour {
    /// A server of this era with these tools.
    pub(crate) async fn with(speaks: Speaks, tools: &[&str], setup: impl FnOnce(Setup) -> Setup) -> Self {
        let peer = Peer::start(speaks, tools).await;
        Self::before(peer, setup).await
    }

    /// The gateway before a server that stands already.
    pub(crate) async fn before(peer: Peer, setup: impl FnOnce(Setup) -> Setup) -> Self {
        let issuer = Issuer::start().await;
        let gateway = setup(Setup::new().issuer(&issuer).peer("peer", &peer)).start().await;
        Self { issuer, peer, gateway }
    }

    /// Somebody with a session, who can be asked nothing.
    pub(crate) async fn agent(&self, sub: &str) -> Agent {
        Agent::connect(&self.gateway, "/mcp/peer", &self.issuer.token(sub)).await
    }

    /// Somebody with a session, who can be asked everything.
    pub(crate) async fn able(&self, sub: &str) -> Agent {
        self.declaring(sub, json!({"capabilities": everything()})).await
    }

    /// Somebody with a session of another version, or with capabilities.
    pub(crate) async fn declaring(&self, sub: &str, params: Value) -> Agent {
        Agent::declaring(&self.gateway, "/mcp/peer", &self.issuer.token(sub), params).await
    }

    /// Somebody without a session, who can be asked nothing.
    pub(crate) fn modern(&self, sub: &str) -> Modern {
        Modern::new(&self.gateway, "/mcp/peer", &self.issuer.token(sub))
    }

    /// Somebody else still gets answers, with a session and without.
    pub(crate) async fn serves_others(&self, tool: &str) {
        let with = self.agent("bystander").await.call(tool, json!({})).await;
        assert!(with.result()["content"].is_array(), "{}", with.text());
        let without = self.modern("bystander").call(tool, json!({})).await;
        assert!(without.result()["content"].is_array(), "{}", without.text());
    }
}
