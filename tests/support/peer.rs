//! A scripted MCP server of either era, beat by beat: notifications before an answer, questions, streams that break,
//! stateless requests with their headers. Honest by default, hostile name by name.

mod reply;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::server::Seen;
use super::tool;
use super::wire::Wire;

/// The era it speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Speaks {
    Legacy,
    Modern,
}

/// What it does about one request.
#[derive(Clone, Debug)]
pub(crate) enum Turn {
    /// Answers with these bytes as `result`, as plain JSON.
    Result(String),
    /// Answers with a status and these bytes as `error`.
    Error(u16, String),
    /// Answers with a status and bytes of no meaning.
    Status(u16),
    /// Answers with a status and this body.
    Body(u16, String),
    /// A stream of events.
    Stream(Vec<Beat>),
    /// Nothing, ever.
    Silence,
}

/// One beat of a stream. In messages `$id` stands for the id of the request, `$token` for its progress token.
#[derive(Clone, Debug)]
pub(crate) enum Beat {
    /// An event with this message.
    Tell(String),
    /// The same so many times, `$n` being the number.
    Flood(usize, String),
    /// An event with this message, then a wait for the client's answer to its id.
    Ask(Value),
    /// Bytes as they are.
    Raw(String),
    /// A while.
    Wait(Duration),
    /// Until the test says so.
    Until(Arc<Notify>),
    /// Until the test has said so, which it may have before.
    Since(watch::Receiver<bool>),
    /// Breaks the connection off.
    Break,
    /// Until the other side hangs up, which is noted.
    Hold,
}

impl Beat {
    /// The result of the request.
    pub(crate) fn result(result: &str) -> Self {
        Self::Tell(format!(r#"{{"jsonrpc":"2.0","id":$id,"result":{result}}}"#))
    }

    /// A notification.
    pub(crate) fn notify(method: &str, params: &Value) -> Self {
        Self::Tell(json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string())
    }

    /// A question under an id of the server's.
    pub(crate) fn ask(id: impl Into<Value>, method: &str, params: Value) -> Self {
        Self::Ask(json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params}))
    }
}

type Play = Arc<dyn Fn(&Seen) -> Turn + Send + Sync>;

/// A result that says what ran.
/// Whether a message is one of the modern era.
pub(crate) fn is_modern(message: &Value) -> bool {
    let meta = &message["params"]["_meta"];
    meta.get("io.modelcontextprotocol/protocolVersion").is_some()
}

pub(crate) fn ran(what: &str) -> String {
    json!({"content": [{"type": "text", "text": format!("{what} ran")}]}).to_string()
}

/// A running server.
pub(crate) struct Peer {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

pub(super) struct Shared {
    script: Mutex<Script>,
    heard: Notify,
}

struct Script {
    speaks: Speaks,
    has_sessions: bool,
    version: &'static str,
    capabilities: Value,
    instructions: Option<String>,
    lists: BTreeMap<&'static str, Vec<String>>,
    looping: BTreeSet<&'static str>,
    plays: BTreeMap<String, Play>,
    own_stream: Option<Vec<Beat>>,
    sessions: BTreeSet<String>,
    opened: usize,
    seen: Vec<Seen>,
    answers: BTreeMap<String, Value>,
    hung_up: Vec<String>,
}

impl Peer {
    /// A server with these tools, and the capabilities for everything else.
    pub(crate) async fn start(speaks: Speaks, tools: &[&str]) -> Self {
        let definitions = tools.iter().map(|name| tool(name).to_string()).collect();
        let capabilities = json!({"tools": {}, "logging": {}, "prompts": {}, "completions": {},
            "resources": {"subscribe": true}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
        let script = Script {
            speaks,
            has_sessions: false,
            version: "2025-11-25",
            capabilities,
            instructions: None,
            lists: BTreeMap::from([("tools", definitions)]),
            looping: BTreeSet::new(),
            plays: BTreeMap::new(),
            own_stream: None,
            sessions: BTreeSet::new(),
            opened: 0,
            seen: Vec::new(),
            answers: BTreeMap::new(),
            hung_up: Vec::new(),
        };
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            heard: Notify::new(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    /// The endpoint.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// From now on it speaks this era.
    /// From now on it introduces itself with these instructions.
    pub(crate) fn instruct(&self, text: &str) {
        self.script().instructions = Some(text.to_owned());
    }

    /// A modern one speaks the other era too, with whoever begins in it.
    pub(crate) fn have_sessions(&self) {
        self.script().has_sessions = true;
    }

    pub(crate) fn speak(&self, speaks: Speaks) {
        self.script().speaks = speaks;
    }

    /// From now on it lists these entries under `tools`, `prompts`, `resources` or `resourceTemplates`.
    pub(crate) fn list(&self, member: &'static str, entries: &[Value]) {
        let entries = entries.iter().map(Value::to_string).collect();
        self.script().lists.insert(member, entries);
    }

    /// From now on it says that it has this capability, or none of that name.
    pub(crate) fn capable(&self, name: &str, capability: Option<Value>) {
        let mut script = self.script();
        let capabilities = script.capabilities.as_object_mut().unwrap();
        match capability {
            Some(capability) => drop(capabilities.insert(name.to_owned(), capability)),
            None => drop(capabilities.remove(name)),
        }
    }

    /// From now on that list comes back to its own cursor again and again.
    pub(crate) fn loop_list(&self, member: &'static str) {
        self.script().looping.insert(member);
    }

    /// What it does for a tool or prompt of this name, a resource of this URI, or a method.
    pub(crate) fn on(&self, label: &str, play: impl Fn(&Seen) -> Turn + Send + Sync + 'static) {
        self.script().plays.insert(label.to_owned(), Arc::new(play));
    }

    /// The same, whatever the request says.
    pub(crate) fn always(&self, label: &str, turn: Turn) {
        self.on(label, move |_| turn.clone());
    }

    /// What it says on the stream of each session, or after the acknowledgement of each `subscriptions/listen`.
    pub(crate) fn on_own_stream(&self, beats: Vec<Beat>) {
        self.script().own_stream = Some(beats);
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

    /// The requests of a method that arrived.
    pub(crate) fn asked(&self, method: &str) -> Vec<Seen> {
        let seen = self.seen().into_iter();
        seen.filter(|seen| seen.method() == method).collect()
    }

    /// How its question was answered, if it was.
    pub(crate) fn answer_to(&self, id: impl Into<Value>) -> Option<Value> {
        self.script().answers.get(&id.into().to_string()).cloned()
    }

    /// The names of what somebody hung up on while a stream was held.
    pub(crate) fn hung_up(&self) -> Vec<String> {
        self.script().hung_up.clone()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.shared.script()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let mut wire = Wire::over(stream);
            while let Ok((start, headers, body)) = wire.request().await {
                let seen = Seen { start, headers, body };
                let reply = shared.script().react(&seen);
                shared.heard.notify_waiters();
                if reply::perform(&mut wire, &shared, &seen, reply).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// What goes back.
enum Reaction {
    Empty(u16),
    /// A result, with a header line.
    Result(String, String),
    Turn(Turn),
}

impl Script {
    fn react(&mut self, seen: &Seen) -> Reaction {
        self.seen.push(seen.clone());
        let message = seen.json();
        if message.get("method").is_none() && message.get("id").is_some() {
            self.answers.insert(message["id"].to_string(), message);
            return Reaction::Empty(202);
        }
        match self.speaks {
            Speaks::Legacy => self.react_legacy(seen, &message),
            Speaks::Modern if self.has_sessions && !is_modern(&message) => self.react_legacy(seen, &message),
            Speaks::Modern => self.react_modern(seen, &message),
        }
    }

    fn react_legacy(&mut self, seen: &Seen, message: &Value) -> Reaction {
        let session = seen.headers.get("mcp-session-id");
        if message["method"] == "initialize" {
            self.opened += 1;
            let id = format!("peer-session-{}", self.opened);
            self.sessions.insert(id.clone());
            let mut result = json!({"protocolVersion": self.version, "capabilities": self.capabilities,
                "serverInfo": {"name": "peer", "version": "1"}});
            if let Some(text) = &self.instructions {
                result["instructions"] = json!(text);
            }
            return Reaction::Result(result.to_string(), format!("Mcp-Session-Id: {id}\r\n"));
        }
        match session {
            None => return Reaction::Empty(400),
            Some(id) if !self.sessions.contains(id) => return Reaction::Empty(404),
            Some(_) => {}
        }
        if seen.start.starts_with("GET") {
            return match &self.own_stream {
                Some(beats) => Reaction::Turn(Turn::Stream(beats.clone())),
                None => Reaction::Empty(405),
            };
        }
        self.answer(seen, message)
    }

    /// A modern server takes nothing that does not say all it must.
    fn react_modern(&mut self, seen: &Seen, message: &Value) -> Reaction {
        let (method, meta) = (&message["method"], &message["params"]["_meta"]);
        let header = |name: &str| seen.headers.get(name).unwrap_or_default().to_owned();
        if !seen.start.starts_with("POST") {
            return Reaction::Empty(405);
        }
        let version = &meta["io.modelcontextprotocol/protocolVersion"];
        if version != "2026-07-28" || !meta["io.modelcontextprotocol/clientCapabilities"].is_object() {
            let error = json!({"code": -32602, "message": "not a modern request"});
            return Reaction::Turn(Turn::Error(400, error.to_string()));
        }
        let mirrored = header("mcp-protocol-version") == "2026-07-28" && *method == header("mcp-method").as_str();
        let name = match method.as_str() {
            Some("tools/call" | "prompts/get") => &message["params"]["name"],
            Some("resources/read") => &message["params"]["uri"],
            Some(method) if method.starts_with("tasks/") => &message["params"]["taskId"],
            _ => &Value::Null,
        };
        if !mirrored || name.as_str().is_some_and(|name| header("mcp-name") != name) {
            let error = json!({"code": -32020, "message": "header mismatch"});
            return Reaction::Turn(Turn::Error(400, error.to_string()));
        }
        if method == "server/discover" {
            let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": self.capabilities, "ttlMs": 0, "cacheScope": "public"});
            return Reaction::Result(result.to_string(), String::new());
        }
        if method == "subscriptions/listen" {
            return Reaction::Turn(Turn::Stream(self.listening(message)));
        }
        self.answer(seen, message)
    }

    fn listening(&self, message: &Value) -> Vec<Beat> {
        let params = json!({"notifications": message["params"]["notifications"],
            "_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]}});
        let mut beats = vec![Beat::notify("notifications/subscriptions/acknowledged", &params)];
        beats.extend(self.own_stream.iter().flatten().cloned());
        beats.push(Beat::Hold);
        beats
    }

    fn answer(&self, seen: &Seen, message: &Value) -> Reaction {
        if message.get("id").is_none() {
            return Reaction::Empty(202);
        }
        let method = message["method"].as_str().unwrap_or_default();
        let label = label_of(message);
        if let Some(play) = self.plays.get(&label) {
            return Reaction::Turn(play(seen));
        }
        let member = match method {
            "tools/list" => "tools",
            "prompts/list" => "prompts",
            "resources/list" => "resources",
            "resources/templates/list" => "resourceTemplates",
            "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
                return Reaction::Result("{}".to_owned(), String::new());
            }
            "tools/call" => return Reaction::Result(ran(&label), String::new()),
            _ => {
                let error = json!({"code": -32601, "message": "no such method"}).to_string();
                let status = if self.speaks == Speaks::Modern { 404 } else { 200 };
                return Reaction::Turn(Turn::Error(status, error));
            }
        };
        let entries = self.lists.get(member).map_or_else(String::new, |list| list.join(","));
        let next = if self.looping.contains(member) {
            r#","nextCursor":"again""#
        } else {
            ""
        };
        Reaction::Result(format!(r#"{{"{member}":[{entries}]{next}}}"#), String::new())
    }
}

/// What a request is called in the script.
pub(super) fn label_of(message: &Value) -> String {
    let params = &message["params"];
    let label = match message["method"].as_str().unwrap_or_default() {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        method => Some(method),
    };
    label.unwrap_or_default().to_owned()
}
