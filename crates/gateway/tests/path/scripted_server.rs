//! An MCP server on loopback that does what a test says and keeps what it got, byte for byte.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// The modern version.
pub(super) const MODERN: &str = "2026-07-28";

/// Which era the server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Speaks {
    Legacy,
    Modern,
}

/// What the server does about one request.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Answers with these bytes as `result`.
    Result(String),
    /// Answers with these bytes as `error`.
    Error(String),
    /// Answers with this body, whatever it is.
    Body(String),
    /// Answers with a bare HTTP status.
    Status(u16),
    /// Never answers.
    Hang,
    /// Closes the connection instead.
    HangUp,
}

/// From method and params to an answer; `None` for what an honest server says.
type Script = dyn Fn(&str, &Value) -> Option<Act> + Send + Sync;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Seen {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("requests are text")
    }
}

/// See the module.
pub(super) struct ScriptedServer {
    pub address: SocketAddr,
    told: Arc<Told>,
    task: JoinHandle<()>,
}

struct Told {
    speaks: Speaks,
    script: Mutex<Arc<Script>>,
    seen: Mutex<Vec<Seen>>,
}

const SESSION: &str = "session-of-the-server";

impl ScriptedServer {
    /// An honest server.
    pub(super) async fn start(speaks: Speaks) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let told = Arc::new(Told {
            speaks,
            script: Mutex::new(Arc::new(|_, _| None)),
            seen: Mutex::default(),
        });
        let task = tokio::spawn(accept(listener, told.clone()));
        Self { address, told, task }
    }

    /// From now on it does this.
    pub(super) fn on(&self, script: impl Fn(&str, &Value) -> Option<Act> + Send + Sync + 'static) {
        *self.told.script.lock().unwrap() = Arc::new(script);
    }

    /// From now on it does this with every call of a tool.
    pub(super) fn on_call(&self, act: Act) {
        self.on_call_with(move || act.clone());
    }

    /// The same, found out anew for every call.
    pub(super) fn on_call_with(&self, act: impl Fn() -> Act + Send + Sync + 'static) {
        self.on(move |method, _| (method == "tools/call").then(&act));
    }

    /// The calls of tools that arrived.
    pub(super) fn calls(&self) -> Vec<Seen> {
        let mut seen = self.seen();
        seen.retain(|seen| seen.json()["method"] == "tools/call");
        seen
    }

    /// Everything that arrived.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.told.seen.lock().unwrap().clone()
    }

    /// Stops listening and drops every connection.
    pub(super) async fn go_down(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

async fn accept(listener: TcpListener, told: Arc<Told>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let told = told.clone();
        connections.spawn(async move {
            let service = service_fn(|request| answer(told.clone(), request));
            let connection = hyper::server::conn::http1::Builder::new();
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

type Answered = Result<Response<Full<Bytes>>, std::io::Error>;

async fn answer(told: Arc<Told>, request: Request<Incoming>) -> Answered {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let seen = Seen {
        headers: head.headers,
        body,
    };
    let message = seen.json();
    let says = |name: &str, value: &str| seen.headers.get(name).is_some_and(|said| said == value);
    let (in_session, modern) = (says("mcp-session-id", SESSION), says("mcp-protocol-version", MODERN));
    told.seen.lock().unwrap().push(seen);
    if head.method != Method::POST {
        return plain(if head.method == Method::DELETE { 200 } else { 405 });
    }
    if message.get("id").is_none() {
        return plain(202);
    }
    let method = message["method"].as_str().unwrap_or_default();
    let script = told.script.lock().unwrap().clone();
    let act = script(method, &message["params"]);
    let act = act.unwrap_or_else(|| match (told.speaks, method) {
        (Speaks::Legacy, "initialize") => Act::Result(introduction().to_string()),
        (Speaks::Legacy, _) if !in_session => Act::Status(400),
        (Speaks::Modern, _) if !modern => Act::Status(400),
        (Speaks::Modern, "server/discover") => Act::Result(discovery().to_string()),
        (_, "tools/call") => Act::Result(honest_result(told.speaks)),
        _ => Act::Error(r#"{"code":-32601,"message":"no such method"}"#.to_owned()),
    });
    perform(act, &message["id"]).await
}

async fn perform(act: Act, id: &Value) -> Answered {
    match act {
        Act::Result(result) => json_body(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)),
        Act::Error(error) => json_body(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)),
        Act::Body(body) => json_body(body),
        Act::Status(status) => plain(status),
        Act::Hang => match std::future::pending::<Infallible>().await {},
        Act::HangUp => Err(std::io::ErrorKind::ConnectionReset.into()),
    }
}

/// What an honest tool answers.
pub(super) fn honest_result(speaks: Speaks) -> String {
    match speaks {
        Speaks::Legacy => r#"{"content":[{"type":"text","text":"done"}]}"#.to_owned(),
        Speaks::Modern => r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#.to_owned(),
    }
}

fn introduction() -> Value {
    json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "scripted", "version": "1"}})
}

fn discovery() -> Value {
    json!({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}},
        "ttlMs": 0, "cacheScope": "private"})
}

fn json_body(body: String) -> Answered {
    let response = Response::builder()
        .header("content-type", "application/json")
        .header("mcp-session-id", SESSION)
        .body(Full::from(body));
    Ok(response.unwrap())
}

fn plain(status: u16) -> Answered {
    Ok(Response::builder().status(status).body(Full::default()).unwrap())
}
