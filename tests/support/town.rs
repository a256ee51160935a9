//! The usual scene: one issuer, one server called `files`, one gateway between them.

use serde_json::Value;

use super::{Agent, Gateway, Issuer, Server, Setup, tool};

/// Everybody who takes part in a test.
pub(crate) struct Town {
    pub issuer: Issuer,
    pub files: Server,
    pub gateway: Gateway,
}

impl Town {
    /// A town whose server has these tools, with a set-up of its own.
    pub(crate) async fn with(tools: &[&str], setup: impl FnOnce(Setup) -> Setup) -> Self {
        let definitions: Vec<Value> = tools.iter().map(|name| tool(name)).collect();
        Self::offering(&definitions, setup).await
    }

    /// A town whose server has exactly these definitions.
    pub(crate) async fn offering(definitions: &[Value], setup: impl FnOnce(Setup) -> Setup) -> Self {
        let issuer = Issuer::start().await;
        let files = Server::start(definitions).await;
        let gateway = setup(Setup::with(&issuer, &files)).start().await;
        Self { issuer, files, gateway }
    }

    /// Somebody with a session on `/mcp/files`.
    pub(crate) async fn agent(&self, sub: &str) -> Agent {
        Agent::connect(&self.gateway, "/mcp/files", &self.issuer.token(sub)).await
    }

    /// Stops the gateway and starts it again on the same state.
    pub(crate) async fn restarted(self) -> Self {
        Self {
            gateway: self.gateway.restart().await,
            ..self
        }
    }

    /// The same, with another set-up.
    pub(crate) async fn restarted_with(self, change: impl FnOnce(Setup) -> Setup) -> Self {
        let mut home = self.gateway.stop().await;
        home.rewrite(change);
        Self {
            gateway: home.serve().await,
            ..self
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_gateway_between_them_agent_and_server_understand_each_other() {
    let server = Server::start(&[tool("read"), tool("write")]).await;
    let door = super::wire::Door {
        address: server.address,
        tls: None,
        from: None,
    };
    let agent = Agent::through(&door, "/mcp", None).await;
    assert_eq!(agent.names().await, ["read", "write"]);
    assert_eq!(
        agent.call("read", serde_json::json!({})).await.result()["content"][0]["text"],
        "read ran"
    );
    assert_eq!(server.calls().len(), 1);
}
