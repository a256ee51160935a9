//! Clients of both eras: how their requests look, and what they are told.

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use portreeve_gateway::edge::Peer;
use portreeve_gateway::{ReplyBody, handle};
use serde_json::Value;

use super::scripted_server::MODERN;
use super::setup::{Running, TOKEN};

/// A request that was not sent yet.
pub(super) type Ask = Request<Full<Bytes>>;

/// A request with a credential.
pub(super) fn ask(method: Method, path: &str, body: impl Into<Bytes>) -> Ask {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "gateway.test")
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("accept", "application/json")
        .header("content-type", "application/json");
    request.body(Full::new(body.into())).unwrap()
}

/// `POST` on the route of the one server.
pub(super) fn post(body: impl Into<Bytes>) -> Ask {
    ask(Method::POST, "/mcp/files", body)
}

/// The same request with a header set, or taken away.
pub(super) fn with(mut ask: Ask, name: &'static str, value: Option<&str>) -> Ask {
    let name = HeaderName::from_static(name);
    match value {
        Some(value) => drop(ask.headers_mut().insert(name, HeaderValue::from_str(value).unwrap())),
        None => drop(ask.headers_mut().remove(name)),
    }
    ask
}

/// A whole message.
pub(super) fn message(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#)
}

/// A whole `tools/call` around raw arguments.
pub(super) fn call(tool: &str, arguments: &str) -> String {
    message("tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#))
}

/// What every modern request says of itself.
pub(super) const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

/// A modern request with the headers that mirror its method.
pub(super) fn modern(method: &str, params: &str) -> Ask {
    let ask = with(post(message(method, params)), "mcp-protocol-version", Some(MODERN));
    with(ask, "mcp-method", Some(method))
}

/// A modern `tools/call` around raw arguments.
pub(super) fn modern_call(tool: &str, arguments: &str) -> Ask {
    let params = format!(r#"{{{META},"name":"{tool}","arguments":{arguments}}}"#);
    with(modern("tools/call", &params), "mcp-name", Some(tool))
}

/// A client with a session.
pub(super) struct Client(String);

impl Client {
    /// A request in the session.
    pub(super) fn post(&self, body: impl Into<Bytes>) -> Ask {
        self.within(post(body))
    }

    /// Any request, in the session.
    pub(super) fn within(&self, ask: Ask) -> Ask {
        with(ask, "mcp-session-id", Some(&self.0))
    }

    /// A call of a tool.
    pub(super) fn call(&self, tool: &str, arguments: &str) -> Ask {
        self.post(call(tool, arguments))
    }
}

impl Running {
    /// Opens a session.
    pub(super) async fn client(&self) -> Client {
        self.client_speaking("2025-11-25").await
    }

    /// Opens a session of another version.
    pub(super) async fn client_speaking(&self, version: &str) -> Client {
        let params = format!(r#"{{"protocolVersion":"{version}","capabilities":{{}}}}"#);
        let answer = self.send(post(message("initialize", &params))).await;
        assert_eq!(answer.json()["result"]["protocolVersion"], version, "{}", answer.text());
        Client(answer.headers["mcp-session-id"].to_str().unwrap().to_owned())
    }

    /// Sends a request and waits for all of its answer.
    pub(super) async fn send(&self, ask: Ask) -> Answer {
        Answer::of(handle(self.gateway.clone(), ask, peer()).await).await
    }

    /// The status of a probe.
    pub(super) async fn probe(&self, path: &str) -> StatusCode {
        self.send(ask(Method::GET, path, "")).await.status
    }
}

fn peer() -> Peer {
    Peer {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        certificate: None,
    }
}

/// What came back.
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    async fn of(response: Response<ReplyBody>) -> Self {
        let (head, body) = response.into_parts();
        Self {
            status: head.status,
            headers: head.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body; null where there is none.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The code of its error; null for a result.
    pub(super) fn code(&self) -> Value {
        self.json()["error"]["code"].clone()
    }

    /// The object that every refusal carries, wherever it does.
    pub(super) fn decision(&self) -> Value {
        let json = self.json();
        let places = [&json["error"]["data"], &json["result"]["_meta"]["portreeve/decision"]];
        let found = places.into_iter().find(|place| place.is_object());
        found.cloned().unwrap_or_default()
    }
}
