//! An MCP client of the modern era (2026-07-28): no session, every request says all that is needed.

use serde_json::{Value, json};

use super::Gateway;
use super::agent::{Answer, submit_through};
use super::stream::Stream;
use super::wire::{Ask, Door};

/// The version it speaks.
pub(crate) const MODERN: &str = "2026-07-28";

/// A client with a credential, a route, and what it can.
#[derive(Clone)]
pub(crate) struct Modern {
    pub door: Door,
    route: String,
    token: String,
    pub capabilities: Value,
    /// What else goes into `_meta`.
    pub meta: Value,
}

impl Modern {
    /// A client that can be asked nothing.
    pub(crate) fn new(gateway: &Gateway, route: &str, token: &str) -> Self {
        Self {
            door: gateway.mcp.clone(),
            route: route.to_owned(),
            token: token.to_owned(),
            capabilities: json!({}),
            meta: json!({}),
        }
    }

    /// The same client with capabilities.
    pub(crate) fn able(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// The same client with further `_meta`.
    pub(crate) fn saying(mut self, meta: Value) -> Self {
        self.meta = meta;
        self
    }

    /// A whole message, `_meta` included.
    pub(crate) fn body(&self, method: &str, mut params: Value) -> Value {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "self-declared", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        });
        let further = self.meta.as_object().unwrap().clone();
        meta.as_object_mut().unwrap().extend(further);
        params["_meta"] = meta;
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    }

    /// The request for a body, with the headers that mirror it.
    pub(crate) fn ask(&self, body: &Value) -> Ask {
        let (method, params) = (body["method"].as_str().unwrap_or_default(), &body["params"]);
        let ask = self.ask_raw(method, body.to_string());
        let name = match method {
            "tools/call" | "prompts/get" => &params["name"],
            "resources/read" => &params["uri"],
            _ => &params["taskId"],
        };
        name.as_str().iter().fold(ask, |ask, name| ask.header("Mcp-Name", name))
    }

    /// A body spelled exactly so, with the headers of its method.
    pub(crate) fn ask_raw(&self, method: &str, body: String) -> Ask {
        Ask::post(&self.route, body)
            .bearer(&self.token)
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", method)
    }

    /// Sends a request with changes.
    pub(crate) async fn submit(&self, ask: Ask) -> Answer {
        submit_through(&self.door, ask).await
    }

    /// Sends a request.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Answer {
        self.submit(self.ask(&self.body(method, params))).await
    }

    /// Sends a request and hears its answer event by event.
    pub(crate) async fn follow(&self, method: &str, params: Value) -> Stream {
        Stream::open(&self.door, &self.ask(&self.body(method, params))).await
    }

    /// Calls a tool.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
            .await
    }
}
