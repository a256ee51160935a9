//! An MCP client of the legacy era: opens a session, lists, calls. Every request names its own trace.

use serde_json::{Value, json};

use super::Gateway;
use super::stream::Stream;
use super::wire::{Ask, Door, Reply};

/// The version the tests speak.
pub(crate) const VERSION: &str = "2025-11-25";

/// A client with a credential, a route and a session.
#[derive(Clone)]
pub(crate) struct Agent {
    door: Door,
    route: String,
    token: Option<String>,
    pub session: Option<String>,
}

impl Agent {
    /// Opens a session.
    pub(crate) async fn connect(gateway: &Gateway, route: &str, token: &str) -> Self {
        Self::through(&gateway.mcp, route, Some(token)).await
    }

    /// Opens a session through a door of its own, perhaps without a token.
    pub(crate) async fn through(door: &Door, route: &str, token: Option<&str>) -> Self {
        Self::introduced(door, route, token, initialize()).await
    }

    /// Opens a session in another version, or with capabilities.
    pub(crate) async fn declaring(gateway: &Gateway, route: &str, token: &str, params: Value) -> Self {
        let mut all = initialize();
        all.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
        Self::introduced(&gateway.mcp, route, Some(token), all).await
    }

    async fn introduced(door: &Door, route: &str, token: Option<&str>, params: Value) -> Self {
        let mut agent = Self {
            door: door.clone(),
            route: route.to_owned(),
            token: token.map(str::to_owned),
            session: None,
        };
        let answer = agent.request("initialize", params).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        agent.session = answer.headers.get("mcp-session-id").map(str::to_owned);
        assert!(agent.session.is_some(), "no session id: {:?}", answer.headers);
        let ready = agent
            .send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())
            .await;
        assert_eq!((ready.status, ready.body.len()), (202, 0));
        agent
    }

    /// The request this agent would send for a body.
    pub(crate) fn ask(&self, body: impl Into<Vec<u8>>) -> Ask {
        let ask = Ask::post(&self.route, body);
        let ask = self.token.iter().fold(ask, |ask, token| ask.bearer(token));
        self.session.iter().fold(ask, |ask, id| {
            ask.header("Mcp-Session-Id", id).header("MCP-Protocol-Version", VERSION)
        })
    }

    /// Sends a body as it is.
    pub(crate) async fn send(&self, body: impl Into<Vec<u8>>) -> Answer {
        self.submit(self.ask(body)).await
    }

    /// Sends a request of this agent's with changes.
    pub(crate) async fn submit(&self, ask: Ask) -> Answer {
        submit_through(&self.door, ask).await
    }

    /// Sends a request and hears its answer event by event.
    pub(crate) async fn follow(&self, method: &str, params: Value) -> Stream {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        Stream::open(&self.door, &self.ask(body)).await
    }

    /// Opens the session's own stream, or takes one up.
    pub(crate) async fn listen(&self, last_event_id: Option<&str>) -> Stream {
        let ask = self.ask("").instead("Content-Type", None).with_method("GET");
        let ask = ask.instead("Last-Event-ID", last_event_id);
        Stream::open(&self.door, &ask).await
    }

    /// Answers a question of a server.
    pub(crate) async fn answer(&self, id: &Value, result: Value) -> Answer {
        self.send(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
            .await
    }

    /// Sends a request.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Answer {
        self.send(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string())
            .await
    }

    /// Calls a tool.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.call_raw(tool, &arguments.to_string()).await
    }

    /// Calls a tool with arguments spelled exactly so.
    pub(crate) async fn call_raw(&self, tool: &str, arguments: &str) -> Answer {
        self.send(call_body(tool, arguments)).await
    }

    /// Lists the tools.
    pub(crate) async fn list(&self) -> Vec<Value> {
        let answer = self.request("tools/list", json!({})).await;
        answer.result()["tools"].as_array().unwrap().clone()
    }

    /// Lists the names of the tools.
    pub(crate) async fn names(&self) -> Vec<String> {
        self.list()
            .await
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The way to the gateway.
    pub(crate) fn door(&self) -> Door {
        self.door.clone()
    }

    /// The same client, calling from another address.
    pub(crate) fn calling_from(&self, from: [u8; 4]) -> Self {
        Self {
            door: self.door.calling_from(from),
            ..self.clone()
        }
    }
}

/// The parameters of `initialize`.
pub(crate) fn initialize() -> Value {
    json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "self-declared", "version": "0"}})
}

/// A whole `initialize` message.
pub(crate) fn initialize_body() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize()}).to_string()
}

/// A whole `tools/call` message around raw arguments.
pub(crate) fn call_body(tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":{},"arguments":{arguments}}}}}"#,
        Value::from(tool)
    )
}

/// A random trace id.
pub(crate) fn fresh_trace() -> String {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends a request through a door under a trace of its own.
pub(crate) async fn submit_through(door: &Door, ask: Ask) -> Answer {
    let trace = fresh_trace();
    let ask = ask.header("traceparent", &format!("00-{trace}-00f067aa0ba902b7-01"));
    let reply = door.ask(&ask).await;
    Answer { reply, trace }
}

/// An answer, with the trace under which it was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    reply: Reply,
    pub trace: String,
}

impl std::ops::Deref for Answer {
    type Target = Reply;
    fn deref(&self) -> &Reply {
        &self.reply
    }
}

impl Answer {
    /// The last message, which answers the request; others may have come before it on a stream.
    pub(crate) fn last(&self) -> Value {
        self.messages().last().expect("a message").clone()
    }

    /// The `result`.
    pub(crate) fn result(&self) -> Value {
        let json = self.last();
        assert!(json.get("result").is_some(), "no result: {json}");
        json["result"].clone()
    }

    /// The code of the `error`.
    pub(crate) fn error_code(&self) -> i64 {
        let json = self.last();
        json["error"]["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("no error: {json}"))
    }

    /// The object every refusal carries.
    pub(crate) fn decision(&self) -> Value {
        let json = self.last();
        let inside = [&json["error"]["data"], &json["result"]["_meta"]["portreeve/decision"]];
        inside
            .into_iter()
            .find(|value| value.is_object())
            .unwrap_or_else(|| panic!("no decision: {json}"))
            .clone()
    }

    /// The codes of the refusal.
    pub(crate) fn reason_codes(&self) -> Vec<String> {
        strings(&self.decision()["reason_codes"])
    }
}

/// The strings of a JSON array.
pub(crate) fn strings(array: &Value) -> Vec<String> {
    array
        .as_array()
        .unwrap_or(&Vec::new())
        .iter()
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}
