//! A scripted MCP server of the legacy era (2025-11-25, with sessions): honest by default, hostile tool by tool.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::wire::{Headers, Wire};

/// What a tool does when it is called.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Answers with these bytes as `result`.
    Answer(String),
    /// Answers with these bytes as `error`.
    Fail(String),
    /// Answers after a while.
    Wait(Duration),
    /// Never answers.
    Hang,
    /// Closes the connection without a word.
    Close,
    /// Promises more bytes than it sends, then closes.
    PromiseMore,
    /// Sends more bytes than it promised.
    PromiseLess,
    /// Points somewhere else.
    Redirect(String),
    /// Answers with a status and a body of no meaning.
    Status(u16),
    /// Writes bytes that are no HTTP.
    Noise,
    /// Answers with this body as if it were JSON.
    Body(String),
    /// Answers another request than the one it got.
    WrongId,
    /// Answers as an event stream.
    Stream(String),
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub start: String,
    pub headers: Headers,
    pub body: Vec<u8>,
}

impl Seen {
    /// The JSON-RPC method, empty where there is none.
    pub(crate) fn method(&self) -> String {
        self.json()["method"].as_str().unwrap_or_default().to_owned()
    }

    /// The body as JSON, null where it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The definition of a tool that takes anything under the names `text`, `path`, `amount` and `nested`.
pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("The tool {name}."), "inputSchema": {"type": "object", "properties": {
        "text": {"type": "string"}, "path": {"type": "string"}, "amount": {"type": "integer"},
        "nested": {"type": "object", "properties": {"inner": {"type": "array", "items": {"type": "object", "properties": {"x": {}}}}}}}}})
}

/// A running server.
pub(crate) struct Server {
    pub address: SocketAddr,
    scheme: &'static str,
    script: Arc<Mutex<Script>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Script {
    tools: Vec<String>,
    instructions: Option<String>,
    pages: Pages,
    acts: BTreeMap<String, Act>,
    sessions: BTreeSet<String>,
    opened: usize,
    seen: Vec<Seen>,
}

#[derive(Default)]
enum Pages {
    #[default]
    One,
    OfOneTool,
    Endless,
}

impl Server {
    /// A server with these tools.
    pub(crate) async fn start(tools: &[Value]) -> Self {
        Self::listen("127.0.0.1:0", None, tools).await
    }

    /// The same behind TLS.
    pub(crate) async fn start_tls(tls: Arc<ServerConfig>, tools: &[Value]) -> Self {
        Self::listen("127.0.0.1:0", Some(tls), tools).await
    }

    async fn listen(address: &str, tls: Option<Arc<ServerConfig>>, tools: &[Value]) -> Self {
        let script = Arc::new(Mutex::new(Script::default()));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(accept(listener, tls.map(TlsAcceptor::from), Arc::clone(&script)));
        let server = Self {
            address,
            scheme,
            script,
            task,
        };
        server.offer(tools);
        server
    }

    /// The endpoint.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}/mcp", self.scheme, self.address)
    }

    /// From now on it has these tools.
    pub(crate) fn offer(&self, tools: &[Value]) {
        self.offer_raw(tools.iter().map(Value::to_string).collect());
    }

    /// From now on it has tools with exactly these definitions.
    pub(crate) fn offer_raw(&self, tools: Vec<String>) {
        self.script().tools = tools;
    }

    /// From now on it introduces itself with this text.
    pub(crate) fn instruct(&self, text: &str) {
        self.script().instructions = Some(text.to_owned());
    }

    /// From now on it lists one tool on each page.
    pub(crate) fn list_one_by_one(&self) {
        self.script().pages = Pages::OfOneTool;
    }

    /// From now on its list never ends.
    pub(crate) fn list_without_end(&self) {
        self.script().pages = Pages::Endless;
    }

    /// From now on the tool does this.
    pub(crate) fn on(&self, tool: &str, act: Act) {
        self.script().acts.insert(tool.to_owned(), act);
    }

    /// Forgets every session it opened.
    pub(crate) fn forget_sessions(&self) {
        self.script().sessions.clear();
    }

    /// Stops listening and drops every connection.
    pub(crate) async fn go_down(&self) {
        self.task.abort();
        while tokio::net::TcpStream::connect(self.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Everything that arrived.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.script().seen.clone()
    }

    /// Everything that arrived, as one text to search in.
    pub(crate) fn transcript(&self) -> String {
        let seen = self.seen();
        let lines = seen.iter().map(|one| {
            format!(
                "{}\n{:?}\n{}\n",
                one.start,
                one.headers,
                String::from_utf8_lossy(&one.body)
            )
        });
        lines.collect()
    }

    /// The calls that arrived.
    pub(crate) fn calls(&self) -> Vec<Seen> {
        self.seen()
            .into_iter()
            .filter(|seen| seen.method() == "tools/call")
            .collect()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, script: Arc<Mutex<Script>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, script) = (tls.clone(), Arc::clone(&script));
        connections.spawn(async move {
            let wire = match tls {
                None => Wire::over(stream),
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => Wire::over(stream),
                    Err(_) => return,
                },
            };
            converse(wire, script).await;
        });
    }
}

async fn converse(mut wire: Wire, script: Arc<Mutex<Script>>) {
    while let Ok((start, headers, body)) = wire.request().await {
        let seen = Seen { start, headers, body };
        let next = script.lock().unwrap().react(seen);
        match next {
            Next::Reply(bytes) => {
                let _ = wire.send(&bytes).await;
            }
            Next::ReplyAfter(wait, bytes) => {
                tokio::time::sleep(wait).await;
                let _ = wire.send(&bytes).await;
            }
            Next::Silence => std::future::pending().await,
            Next::Last(bytes) => {
                let _ = wire.send(&bytes).await;
                wire.close().await;
                return;
            }
        }
    }
}

enum Next {
    Reply(Vec<u8>),
    ReplyAfter(Duration, Vec<u8>),
    Silence,
    Last(Vec<u8>),
}

impl Script {
    fn react(&mut self, seen: Seen) -> Next {
        let message = seen.json();
        let session = seen.headers.get("mcp-session-id").map(str::to_owned);
        let verb = seen.start.split(' ').next().unwrap_or_default().to_owned();
        self.seen.push(seen);
        let id = message["id"].to_string();
        match (verb.as_str(), message["method"].as_str()) {
            ("GET", _) => Next::Reply(http(405, "", "")),
            ("DELETE", _) => Next::Reply(http(200, "", "")),
            (_, Some("initialize")) => Next::Reply(self.open(&id)),
            (_, method) => match session {
                None => Next::Reply(http(400, "", "no session")),
                Some(session) if !self.sessions.contains(&session) => Next::Reply(http(404, "", "no such session")),
                Some(_) => self.answer(method.unwrap_or_default(), &message, &id),
            },
        }
    }

    fn open(&mut self, id: &str) -> Vec<u8> {
        self.opened += 1;
        let session = format!("upstream-session-{}", self.opened);
        let mut result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "scripted", "version": "1"}});
        if let Some(text) = &self.instructions {
            result["instructions"] = json!(text);
        }
        let reply = http(
            200,
            &format!("Mcp-Session-Id: {session}\r\n"),
            &rpc(id, &result.to_string()),
        );
        self.sessions.insert(session);
        reply
    }

    fn answer(&self, method: &str, message: &Value, id: &str) -> Next {
        match method {
            _ if message.get("id").is_none() => Next::Reply(http(202, "", "")),
            "ping" => Next::Reply(http(200, "", &rpc(id, "{}"))),
            "tools/list" => Next::Reply(http(
                200,
                "",
                &rpc(id, &self.page(message["params"]["cursor"].as_str())),
            )),
            "tools/call" => {
                let name = message["params"]["name"].as_str().unwrap_or_default();
                let plain = Act::Answer(format!(
                    r#"{{"content":[{{"type":"text","text":"{name} ran"}}],"isError":false}}"#
                ));
                self.acts.get(name).cloned().unwrap_or(plain).play(id)
            }
            _ => Next::Reply(http(
                200,
                "",
                &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no"}}}}"#),
            )),
        }
    }

    fn page(&self, cursor: Option<&str>) -> String {
        let at: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        match self.pages {
            Pages::One => format!(r#"{{"tools":[{}]}}"#, self.tools.join(",")),
            Pages::OfOneTool if at + 1 < self.tools.len() => {
                format!(r#"{{"tools":[{}],"nextCursor":"{}"}}"#, self.tools[at], at + 1)
            }
            Pages::OfOneTool => format!(r#"{{"tools":[{}]}}"#, self.tools[at]),
            Pages::Endless => format!(r#"{{"tools":[{}],"nextCursor":"{}"}}"#, tool(&format!("t{at}")), at + 1),
        }
    }
}

impl Act {
    fn play(self, id: &str) -> Next {
        let fine = r#"{"content":[{"type":"text","text":"fine"}]}"#;
        match self {
            Self::Answer(result) => Next::Reply(http(200, "", &rpc(id, &result))),
            Self::Fail(error) => Next::Reply(http(
                200,
                "",
                &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#),
            )),
            Self::Wait(time) => Next::ReplyAfter(time, http(200, "", &rpc(id, fine))),
            Self::Hang => Next::Silence,
            Self::Close => Next::Last(Vec::new()),
            Self::PromiseMore => Next::Last(framed(200, "", &rpc(id, fine), 10_000)),
            Self::PromiseLess => Next::Last(framed(200, "", &rpc(id, fine), 20)),
            Self::Redirect(to) => Next::Reply(http(307, &format!("Location: {to}\r\n"), "")),
            Self::Status(code) => Next::Reply(http(code, "", "something happened")),
            Self::Noise => Next::Last(b"\x16\x03\x01 what is this?\r\n\r\n".to_vec()),
            Self::Body(body) => Next::Reply(http(200, "", &body)),
            Self::WrongId => Next::Reply(http(200, "", &rpc("987654321", fine))),
            Self::Stream(result) => Next::Reply(event_stream(&rpc(id, &result))),
        }
    }
}

fn rpc(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn http(status: u16, headers: &str, body: &str) -> Vec<u8> {
    framed(status, headers, body, body.len())
}

fn framed(status: u16, headers: &str, body: &str, length: usize) -> Vec<u8> {
    let kind = if body.is_empty() {
        ""
    } else {
        "Content-Type: application/json\r\n"
    };
    format!("HTTP/1.1 {status} X\r\n{kind}{headers}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

fn event_stream(message: &str) -> Vec<u8> {
    let body = format!(": a comment\r\n\r\nevent: message\r\nid: 1\r\ndata: {message}\r\n\r\n");
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
